//! What cores tell each other about their rest, so that only one that sleeps is woken.
//!
//! Every step that must not be missed is a store, a fence and a look at what the other side stores:
//! of two cores that do so at the same time at least one sees the other. A core that goes to sleep
//! says so, fences and looks at its lanes; a core that has moved frames fences and looks at who
//! sleeps.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};

use crate::model::cores_of;

/// What one core says of itself; on cache lines of its own (processors fetch them in pairs).
#[derive(Debug, Default)]
#[repr(align(128))]
struct State {
    /// It waits for its doorbell. Set by the core, taken back by it or by who will ring.
    sleeping: AtomicBool,
    /// For each kind of lane: the cores to which its frames wait for room. Only the core writes it.
    wants_room: [AtomicU64; 2],
}

/// One core's view of the rest of all.
#[derive(Debug)]
pub(super) struct Rest {
    core: usize,
    states: Arc<[State]>,
}

impl Rest {
    /// One for each of `cores` cores.
    pub(super) fn of_all(cores: u16) -> Vec<Rest> {
        let states: Arc<[State]> = (0..cores).map(|_| State::default()).collect();
        let of = |core| Rest {
            core: usize::from(core),
            states: Arc::clone(&states),
        };
        (0..cores).map(of).collect()
    }

    fn own(&self) -> &State {
        &self.states[self.core]
    }

    /// This core will sleep. Whatever it looks at afterwards, it sees what was moved by those who
    /// did not see it sleep.
    pub(super) fn fall_asleep(&self) {
        self.own().sleeping.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// This core is awake.
    pub(super) fn wake(&self) {
        self.own().sleeping.store(false, Ordering::Relaxed);
    }

    /// The cores to which frames of this core wait for room, a bit each.
    pub(super) fn wanted(&self, kind: usize) -> u64 {
        self.own().wants_room[kind].load(Ordering::Relaxed)
    }

    /// Frames wait for room in the lane to `to`. Must be followed by a look at that room.
    pub(super) fn want_room(&self, kind: usize, to: usize) {
        let wanted = self.wanted(kind);
        if wanted & (1 << to) == 0 {
            self.own().wants_room[kind].store(wanted | 1 << to, Ordering::Relaxed);
            // The core may count as asleep while one of its tasks sends.
            fence(Ordering::SeqCst);
        }
    }

    /// No frame waits for room in the lane to `to` any more.
    pub(super) fn have_room(&self, kind: usize, to: usize) {
        let wanted = self.wanted(kind) & !(1 << to);
        self.own().wants_room[kind].store(wanted, Ordering::Relaxed);
    }

    /// Which cores must be rung, a bit each, after this core has pushed to those of `pushed` and
    /// has popped, for each kind of lane, from those of `popped`. They count as awake from here.
    pub(super) fn rouse(&self, pushed: u64, popped: [u64; 2]) -> u64 {
        if pushed == 0 && popped == [0; 2] {
            return 0;
        }
        fence(Ordering::SeqCst);
        let mut concerned = pushed;
        for (kind, from) in popped.into_iter().enumerate() {
            for core in cores_of(from & !concerned) {
                let wanted =
                    self.states[usize::from(core)].wants_room[kind].load(Ordering::Relaxed);
                concerned |= (wanted >> self.core & 1) << core;
            }
        }
        let mut rings = 0;
        for core in cores_of(concerned) {
            let sleeping = &self.states[usize::from(core)].sleeping;
            // Mostly nobody sleeps, and a load leaves the cache line where it is. Of those who see
            // one asleep the swap lets only one ring.
            if sleeping.load(Ordering::Relaxed) && sleeping.swap(false, Ordering::Relaxed) {
                rings |= 1 << core;
            }
        }
        rings
    }
}
