//! The messages of one ring: a slot array indexed by sequence number, and the few that outlived it.
//!
//! The array has a power of two of slots. It grows while live messages need it; a live message that
//! would pin an otherwise empty array moves to the side (`strays`), so one stuck message holds no
//! room but its own. A message that every group has passed lingers in its slot until the slot is
//! needed; lingering messages always go oldest first, so what a late group finds has no holes.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

use crate::limits;
use crate::model::Moment;

/// Bytes that a held message costs beside its payload: its slot and its allocation.
pub(super) const OVERHEAD_BYTES: u64 = size_of::<Slot>() as u64 + 16;

const CAPACITY_MIN: usize = 4;

const _: () = assert!(CAPACITY_MIN.is_power_of_two() && CAPACITY_MIN <= limits::LINGER_SLOTS_MAX);
const _: () = assert!(size_of::<Slot>() <= 48);

#[derive(Debug)]
pub(super) struct Slot {
    pub(super) payload: Bytes,
    pub(super) pushed: Moment,
    pub(super) state: SlotState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SlotState {
    /// Nothing is here any more.
    Empty,
    /// Held: counted in length and bytes.
    Live {
        /// Groups that are done with it.
        passed: u32,
    },
    /// Passed by every group known then; kept for one that appears later, counted nowhere.
    Lingering,
}

impl Slot {
    fn linger_cost(&self) -> u64 {
        self.payload.len() as u64 + OVERHEAD_BYTES
    }

    fn held(&self) -> bool {
        self.state != SlotState::Empty
    }

    fn live(&self) -> bool {
        matches!(self.state, SlotState::Live { .. })
    }
}

/// What lingering messages of one ring cost; the shard adds them up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LingerTotal {
    pub(super) messages: u64,
    /// Payloads and overhead.
    pub(super) bytes: u64,
}

#[derive(Debug)]
pub(super) struct Slots {
    /// Sequence number of the first slot of the array.
    head: u64,
    array: VecDeque<Slot>,
    capacity: usize,
    /// Live messages older than the array.
    strays: BTreeMap<u64, Slot>,
    live: u64,
    live_bytes: u64,
    lingering: LingerTotal,
    /// No message below it may linger: a newer one has already been let go.
    linger_floor: u64,
    /// Nothing is held in the array below it.
    held_from: u64,
    /// Nothing is live in the array below it.
    live_from: u64,
}

impl Slots {
    pub(super) fn new(base: u64) -> Slots {
        Slots {
            head: base,
            array: VecDeque::new(),
            capacity: 0,
            strays: BTreeMap::new(),
            live: 0,
            live_bytes: 0,
            lingering: LingerTotal::default(),
            linger_floor: base,
            held_from: base,
            live_from: base,
        }
    }

    /// The next sequence number.
    pub(super) fn tail(&self) -> u64 {
        self.head + self.array.len() as u64
    }

    pub(super) fn live(&self) -> u64 {
        self.live
    }

    pub(super) fn live_bytes(&self) -> u64 {
        self.live_bytes
    }

    pub(super) fn lingering(&self) -> LingerTotal {
        self.lingering
    }

    /// Slots of the array, used or not.
    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    pub(super) fn get(&self, sequence: u64) -> Option<&Slot> {
        let slot = match sequence.checked_sub(self.head) {
            Some(index) => self.array.get(usize::try_from(index).ok()?),
            None => self.strays.get(&sequence),
        };
        slot.filter(|slot| slot.held())
    }

    fn get_mut(&mut self, sequence: u64) -> Option<&mut Slot> {
        let slot = match sequence.checked_sub(self.head) {
            Some(index) => self.array.get_mut(usize::try_from(index).ok()?),
            None => self.strays.get_mut(&sequence),
        };
        slot.filter(|slot| slot.held())
    }

    /// Appends a live message and returns its sequence number.
    pub(super) fn push(&mut self, payload: Bytes, pushed: Moment) -> u64 {
        self.make_room();
        let sequence = self.tail();
        self.live += 1;
        self.live_bytes += payload.len() as u64;
        self.array.push_back(Slot {
            payload,
            pushed,
            state: SlotState::Live { passed: 0 },
        });
        sequence
    }

    /// Reserves the array for `count` messages at once.
    pub(super) fn reserve(&mut self, count: usize) {
        let needed = self.live_in_array() + count;
        if needed > self.capacity {
            self.grow(needed.next_power_of_two().max(CAPACITY_MIN));
        }
    }

    fn grow(&mut self, capacity: usize) {
        self.capacity = capacity;
        self.array.reserve_exact(capacity - self.array.len());
    }

    fn live_in_array(&self) -> usize {
        self.live as usize - self.strays.len()
    }

    fn make_room(&mut self) {
        while self.array.len() >= self.capacity {
            let mut occupied = self.live_in_array();
            if self.capacity < limits::LINGER_SLOTS_MAX {
                occupied += self.lingering.messages as usize;
            }
            if occupied * 2 > self.capacity || self.capacity < CAPACITY_MIN {
                self.grow((self.capacity * 2).max(CAPACITY_MIN));
                return;
            }
            let mut slot = self.array.pop_front().expect("a full array has a front");
            let sequence = self.head;
            self.head += 1;
            match slot.state {
                SlotState::Empty => {}
                SlotState::Live { .. } => {
                    self.strays.insert(sequence, slot);
                }
                SlotState::Lingering => self.forget_lingering(sequence, &mut slot),
            }
        }
    }

    fn forget_lingering(&mut self, sequence: u64, slot: &mut Slot) {
        assert!(slot.state == SlotState::Lingering);
        self.lingering.messages -= 1;
        self.lingering.bytes -= slot.linger_cost();
        self.linger_floor = self.linger_floor.max(sequence + 1);
        slot.state = SlotState::Empty;
        slot.payload = Bytes::new();
    }

    /// Notes that one more group is done with a live message; the number of those groups.
    /// `None` if the message is not live.
    pub(super) fn add_passed(&mut self, sequence: u64) -> Option<u32> {
        match &mut self.get_mut(sequence)?.state {
            SlotState::Live { passed } => {
                *passed += 1;
                Some(*passed)
            }
            SlotState::Lingering | SlotState::Empty => None,
        }
    }

    /// Notes that a group is, after all, not done with a live message.
    pub(super) fn remove_passed(&mut self, sequence: u64) {
        if let Some(Slot {
            state: SlotState::Live { passed },
            ..
        }) = self.get_mut(sequence)
        {
            assert!(*passed > 0, "nobody had passed {sequence}");
            *passed -= 1;
        }
    }

    /// Ends a message's life as a counted one; it lingers if it may. Returns its bytes and whether
    /// it lingers.
    pub(super) fn retire(&mut self, sequence: u64, may_linger: bool) -> (u64, bool) {
        // A stray is older than all that lingers, so letting it go leaves no hole.
        if !may_linger || sequence < self.linger_floor || sequence < self.head {
            return (self.free_live(sequence), false);
        }
        let slot = self.get_mut(sequence).expect("a live message");
        assert!(slot.live());
        slot.state = SlotState::Lingering;
        let (bytes, cost) = (slot.payload.len() as u64, slot.linger_cost());
        self.live -= 1;
        self.live_bytes -= bytes;
        self.lingering.messages += 1;
        self.lingering.bytes += cost;
        (bytes, true)
    }

    /// Frees a live message; its bytes.
    pub(super) fn free_live(&mut self, sequence: u64) -> u64 {
        let slot = self.get_mut(sequence).expect("a live message");
        assert!(slot.live());
        slot.state = SlotState::Empty;
        let bytes = std::mem::take(&mut slot.payload).len() as u64;
        self.live -= 1;
        self.live_bytes -= bytes;
        if sequence < self.head {
            self.strays.remove(&sequence);
        }
        self.trim();
        bytes
    }

    /// Frees a message if it lingers.
    pub(super) fn free_lingering(&mut self, sequence: u64) {
        let Some(index) = sequence.checked_sub(self.head) else {
            return;
        };
        let Some(place) = self.array.get_mut(index as usize) else {
            return;
        };
        if place.state != SlotState::Lingering {
            return;
        }
        let empty = Slot {
            payload: Bytes::new(),
            pushed: place.pushed,
            state: SlotState::Empty,
        };
        let mut slot = std::mem::replace(place, empty);
        self.forget_lingering(sequence, &mut slot);
        self.trim();
    }

    /// Frees every lingering message up to `sequence`: what stays has no holes.
    pub(super) fn free_lingering_through(&mut self, sequence: u64) {
        let last = sequence.min(self.tail().saturating_sub(1));
        for older in self.linger_floor.max(self.head)..=last {
            self.free_lingering(older);
        }
    }

    /// Makes a lingering or forgotten message live again.
    pub(super) fn revive(&mut self, sequence: u64, payload: Bytes, pushed: Moment, passed: u32) {
        let bytes = payload.len() as u64;
        let slot = Slot {
            payload,
            pushed,
            state: SlotState::Live { passed },
        };
        match sequence.checked_sub(self.head) {
            Some(index) => {
                let before = std::mem::replace(&mut self.array[index as usize], slot);
                assert!(!before.live(), "{sequence} is live already");
                // It did not let go of anything older: what lingers goes on doing so.
                if before.state == SlotState::Lingering {
                    self.lingering.messages -= 1;
                    self.lingering.bytes -= before.linger_cost();
                }
                self.held_from = self.held_from.min(sequence);
                self.live_from = self.live_from.min(sequence);
            }
            None => {
                let before = self.strays.insert(sequence, slot);
                assert!(before.is_none(), "{sequence} is live already");
            }
        }
        self.live += 1;
        self.live_bytes += bytes;
    }

    fn trim(&mut self) {
        while self.array.front().is_some_and(|slot| !slot.held()) {
            self.array.pop_front();
            self.head += 1;
        }
    }

    /// The first held message at or after `from`.
    pub(super) fn next_held(&self, from: u64) -> Option<u64> {
        if from < self.head
            && let Some((&sequence, _)) = self.strays.range(from..).next()
        {
            return Some(sequence);
        }
        let start = from.max(self.head).max(self.held_from);
        let skip = usize::try_from(start - self.head).expect("an index");
        let found = self.array.iter().skip(skip).position(Slot::held)?;
        Some(start + found as u64)
    }

    /// The oldest held message.
    pub(super) fn oldest_held(&mut self) -> Option<u64> {
        let found = self.next_held(0)?;
        if found >= self.head {
            self.held_from = found;
        }
        Some(found)
    }

    /// The oldest live message.
    pub(super) fn oldest_live(&mut self) -> Option<u64> {
        if let Some((&sequence, _)) = self.strays.first_key_value() {
            return Some(sequence);
        }
        let start = self.head.max(self.live_from);
        let skip = (start - self.head) as usize;
        let found = start + self.array.iter().skip(skip).position(Slot::live)? as u64;
        self.live_from = found;
        Some(found)
    }

    /// Forgets every message; the live ones are counted in the answer.
    pub(super) fn clear(&mut self) -> (u64, u64) {
        let cleared = (self.live, self.live_bytes);
        let tail = self.tail();
        *self = Slots::new(tail);
        cleared
    }

    /// Frees what lingers and gives unused slots back.
    pub(super) fn shrink(&mut self) {
        if self.lingering.messages > 0 {
            for sequence in self.head..self.tail() {
                self.free_lingering(sequence);
            }
        }
        if self.array.is_empty() {
            self.capacity = 0;
            self.array = VecDeque::new();
            return;
        }
        let wanted = self.array.len().next_power_of_two().max(CAPACITY_MIN);
        if wanted < self.capacity {
            self.capacity = wanted;
            self.array.shrink_to(wanted);
        }
    }

    /// Sums that must agree with the counters, by looking at every slot.
    pub(super) fn check(&self) {
        let slots = || self.array.iter().chain(self.strays.values());
        let live: u64 = slots().filter(|slot| slot.live()).count() as u64;
        let bytes: u64 = slots()
            .filter(|slot| slot.live())
            .map(|slot| slot.payload.len() as u64)
            .sum();
        let lingering = slots().filter(|slot| slot.state == SlotState::Lingering);
        let total = lingering.fold(LingerTotal::default(), |total, slot| LingerTotal {
            messages: total.messages + 1,
            bytes: total.bytes + slot.linger_cost(),
        });
        assert_eq!(
            (live, bytes, total),
            (self.live, self.live_bytes, self.lingering)
        );
        assert!(
            self.strays.values().all(Slot::live),
            "only live messages are strays"
        );
        assert!(self.strays.keys().all(|&sequence| sequence < self.head));
        assert!(self.array.len() <= self.capacity.max(CAPACITY_MIN));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload() -> Bytes {
        Bytes::from_static(b"0123456789")
    }

    fn filled(count: u64) -> Slots {
        let mut slots = Slots::new(100);
        for number in 0..count {
            assert_eq!(slots.push(payload(), Moment::from_us(number)), 100 + number);
        }
        slots
    }

    #[test]
    fn a_stuck_message_pins_no_array() {
        let mut slots = filled(1);
        for _ in 0..100_000 {
            let sequence = slots.push(payload(), Moment::ZERO);
            slots.free_live(sequence);
        }
        assert!(slots.capacity() <= 8, "{}", slots.capacity());
        assert_eq!(slots.oldest_live(), Some(100));
        assert_eq!(slots.next_held(0), Some(100));
        slots.check();
        assert_eq!(slots.free_live(100), 10);
        assert_eq!((slots.live(), slots.oldest_held()), (0, None));
    }

    #[test]
    fn lingering_messages_go_oldest_first_and_never_grow_the_array_past_their_share() {
        let mut slots = filled(0);
        for number in 0..5_000 {
            let sequence = slots.push(payload(), Moment::from_us(number));
            assert_eq!(slots.retire(sequence, true), (10, true));
        }
        assert_eq!(slots.capacity(), limits::LINGER_SLOTS_MAX);
        let oldest = slots.oldest_held().expect("held");
        let held = (oldest..slots.tail()).filter(|&sequence| slots.get(sequence).is_some());
        assert_eq!(held.count() as u64, slots.lingering().messages);
        slots.check();
        slots.shrink();
        assert_eq!(
            (slots.capacity(), slots.lingering()),
            (0, LingerTotal::default())
        );
    }

    #[test]
    fn what_passes_below_the_floor_does_not_linger() {
        let mut slots = filled(4);
        slots.retire(102, true);
        slots.free_lingering_through(102);
        assert_eq!(slots.retire(101, true), (10, false));
        assert_eq!(slots.retire(103, true), (10, true));
        slots.check();
    }

    #[test]
    fn a_stray_that_passes_takes_no_newer_one_with_it() {
        let mut slots = filled(1);
        for _ in 0..64 {
            let sequence = slots.push(payload(), Moment::ZERO);
            slots.free_live(sequence);
        }
        let newest = slots.push(payload(), Moment::ZERO);
        slots.retire(newest, true);
        assert_eq!(slots.retire(100, true).0, 10);
        assert_eq!(slots.next_held(0), Some(newest));
        slots.check();
    }

    #[test]
    fn a_message_comes_back_to_life_inside_and_outside_of_the_array() {
        let mut slots = filled(3);
        slots.free_live(100);
        slots.retire(101, true);
        slots.revive(100, payload(), Moment::ZERO, 0);
        slots.revive(101, payload(), Moment::ZERO, 0);
        assert_eq!(slots.live(), 3);
        assert_eq!(slots.oldest_live(), Some(100));
        slots.check();
    }
}
