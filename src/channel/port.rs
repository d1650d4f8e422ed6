//! One core's end of all lanes.

use std::collections::VecDeque;
use std::mem::take;

use rtrb::{Consumer, Producer, PushError, RingBuffer};

use super::Frame;
use super::rest::Rest;
use crate::limits::{CORES_MAX, LANE_WAITING_KEPT};
use crate::model::cores_of;

/// Lanes of this kind carry what goes to the owner of a key.
const REQUESTS: usize = 0;
/// Lanes of this kind carry answers.
const REPLIES: usize = 1;

/// The sending end of a lane.
#[derive(Debug)]
struct Outbound {
    lane: Producer<Frame>,
    /// Frames that had to leave when the lane was full, oldest first.
    waiting: VecDeque<Frame>,
}

/// One core's end of all lanes. Each belongs to one thread.
///
/// Whoever has called [`Port::try_send`], [`Port::send`], [`Port::reply`], [`Port::flush`] or one of
/// the receiving functions must call [`Port::take_rings`] and ring before it stands back.
#[derive(Debug)]
pub struct Port {
    core: u16,
    rest: Rest,
    /// By kind and receiver; the lane of a core to itself has no slots and is not used.
    outbound: [Vec<Outbound>; 2],
    /// By kind and sender.
    inbound: [Vec<Consumer<Frame>>; 2],
    /// The sender that is looked at first.
    turn: u16,
    /// Cores pushed to since the rings were taken, a bit each.
    pushed: u64,
    /// The same for cores popped from, by kind.
    popped: [u64; 2],
    sent: u64,
    /// Frames sent to each core and taken from each.
    sent_to: Vec<u64>,
    taken_from: Vec<u64>,
}

/// The ports of `cores` cores, 1 to 64, in order. A lane for requests holds `request_slots` frames
/// and one for replies `reply_slots`, each at least 1.
pub fn mesh(cores: u16, request_slots: usize, reply_slots: usize) -> Vec<Port> {
    assert!((1..=CORES_MAX).contains(&cores), "a mesh of {cores} cores");
    assert!(request_slots > 0 && reply_slots > 0, "a lane without slots");
    let rests = Rest::of_all(cores);
    let mut ports: Vec<Port> = (0..cores)
        .zip(rests)
        .map(|(core, rest)| Port::new(core, cores, rest))
        .collect();
    for (kind, slots) in [(REQUESTS, request_slots), (REPLIES, reply_slots)] {
        for from in 0..ports.len() {
            for to in 0..ports.len() {
                let (lane, end) = RingBuffer::new(if from == to { 0 } else { slots });
                let waiting = VecDeque::new();
                ports[from].outbound[kind].push(Outbound { lane, waiting });
                ports[to].inbound[kind].push(end);
            }
        }
    }
    ports
}

impl Port {
    /// The port of a lone core, which has no lanes.
    pub fn alone() -> Port {
        mesh(1, 1, 1).pop().expect("one core")
    }

    fn new(core: u16, cores: u16, rest: Rest) -> Port {
        Port {
            core,
            rest,
            outbound: Default::default(),
            inbound: Default::default(),
            turn: 0,
            pushed: 0,
            popped: [0; 2],
            sent: 0,
            sent_to: vec![0; usize::from(cores)],
            taken_from: vec![0; usize::from(cores)],
        }
    }

    /// Whose port it is.
    pub fn core(&self) -> u16 {
        self.core
    }

    /// Cores of the mesh.
    pub fn cores(&self) -> u16 {
        // There are at most `CORES_MAX`.
        self.outbound[REQUESTS].len() as u16
    }

    /// Sends on the request lane to `to`, another core.
    ///
    /// # Errors
    /// The frame is given back when the lane is full or earlier frames of [`Port::send`] still wait
    /// for it.
    pub fn try_send(&mut self, to: u16, frame: Frame) -> Result<(), Frame> {
        self.try_push(REQUESTS, to, frame)
    }

    fn try_push(&mut self, kind: usize, to: u16, frame: Frame) -> Result<(), Frame> {
        assert!(to != self.core, "core {to} sends to itself");
        let Outbound { lane, waiting } = &mut self.outbound[kind][usize::from(to)];
        if !waiting.is_empty() {
            return Err(frame);
        }
        lane.push(frame).map_err(|PushError::Full(frame)| frame)?;
        self.pushed |= 1 << to;
        self.count_sent(usize::from(to));
        Ok(())
    }

    /// Whether [`Port::try_send`] to `to` would be accepted now; only this core can undo a yes.
    pub fn has_room(&self, to: u16) -> bool {
        assert!(to != self.core, "core {to} has no lane to itself");
        let Outbound { lane, waiting } = &self.outbound[REQUESTS][usize::from(to)];
        waiting.is_empty() && !lane.is_full()
    }

    /// Sends on the request lane to `to`, another core. When the lane is full the frame waits here,
    /// in order; how many may do so is bounded by what the caller has under way.
    pub fn send(&mut self, to: u16, frame: Frame) {
        self.push(REQUESTS, to, frame);
    }

    /// [`Port::send`] on the reply lane.
    pub fn reply(&mut self, to: u16, frame: Frame) {
        self.push(REPLIES, to, frame);
    }

    fn push(&mut self, kind: usize, to: u16, frame: Frame) {
        let Err(frame) = self.try_push(kind, to, frame) else {
            return;
        };
        let to = usize::from(to);
        self.outbound[kind][to].waiting.push_back(frame);
        self.count_sent(to);
        self.rest.want_room(kind, to);
        self.flush_lane(kind, to);
    }

    fn count_sent(&mut self, to: usize) {
        self.sent += 1;
        self.sent_to[to] += 1;
    }

    /// Moves frames that wait into lanes that have room again. To be called in every turn.
    pub fn flush(&mut self) {
        for kind in [REQUESTS, REPLIES] {
            for to in cores_of(self.rest.wanted(kind)) {
                self.flush_lane(kind, usize::from(to));
            }
        }
    }

    fn flush_lane(&mut self, kind: usize, to: usize) {
        let Outbound { lane, waiting } = &mut self.outbound[kind][to];
        while let Some(frame) = waiting.pop_front() {
            if let Err(PushError::Full(frame)) = lane.push(frame) {
                waiting.push_front(frame);
                return;
            }
            self.pushed |= 1 << to;
        }
        waiting.shrink_to(LANE_WAITING_KEPT);
        self.rest.have_room(kind, to);
    }

    /// The next inbound frame and its sender: senders in turn, of one sender replies first.
    pub fn receive(&mut self) -> Option<(u16, Frame)> {
        let first = self.turn;
        for from in (first..self.cores()).chain(0..first) {
            if let Some(frame) = self.receive_from(from) {
                self.turn = (from + 1) % self.cores();
                return Some((from, frame));
            }
        }
        None
    }

    /// The next inbound frame of one sender, replies first.
    pub fn receive_from(&mut self, from: u16) -> Option<Frame> {
        for kind in [REPLIES, REQUESTS] {
            if let Ok(frame) = self.inbound[kind][usize::from(from)].pop() {
                self.popped[kind] |= 1 << from;
                self.taken_from[usize::from(from)] += 1;
                return Some(frame);
            }
        }
        None
    }

    /// The cores whose doorbell must be rung, a bit each: those that sleep and were sent something,
    /// or got room that they wait for. Each is named to one core only, which has to ring.
    #[must_use = "a core that is not rung sleeps on"]
    pub fn take_rings(&mut self) -> u64 {
        self.rest
            .rouse(take(&mut self.pushed), take(&mut self.popped))
    }

    /// Declares this core asleep, unless there is something to do: a frame to receive, room for one
    /// that waits, rings to take. After `true` it must wait for its doorbell or a deadline of its
    /// own, then call [`Port::wake`].
    #[must_use = "a core that has work must not wait"]
    pub fn try_sleep(&mut self) -> bool {
        self.rest.fall_asleep();
        let idle = !self.has_work();
        if !idle {
            self.rest.wake();
        }
        idle
    }

    fn has_work(&self) -> bool {
        let room = |kind: usize, to: u16| !self.outbound[kind][usize::from(to)].lane.is_full();
        let fits = |kind: usize| cores_of(self.rest.wanted(kind)).any(|to| room(kind, to));
        let rings = self.pushed != 0 || self.popped != [0; 2];
        rings
            || fits(REQUESTS)
            || fits(REPLIES)
            || self.inbound.iter().flatten().any(|lane| !lane.is_empty())
    }

    /// This core is awake: nobody needs to ring.
    pub fn wake(&mut self) {
        self.rest.wake();
    }

    /// Frames in the lanes from `from`.
    pub fn queued(&self, from: u16) -> usize {
        self.inbound
            .iter()
            .map(|lanes| lanes[usize::from(from)].slots())
            .sum()
    }

    /// Frames that wait here for room in a lane.
    pub fn waiting(&self) -> usize {
        self.outbound
            .iter()
            .flatten()
            .map(|outbound| outbound.waiting.len())
            .sum()
    }

    /// Frames that this core has sent to `to`, those that wait for room included.
    pub fn sent_to(&self, to: u16) -> u64 {
        self.sent_to[usize::from(to)]
    }

    /// Frames that this core has received from `from`.
    pub fn taken_from(&self, from: u16) -> u64 {
        self.taken_from[usize::from(from)]
    }

    /// Frames that this core has sent, those that wait for room included.
    pub fn sent(&self) -> u64 {
        self.sent
    }
}

#[cfg(test)]
#[path = "port_test.rs"]
mod tests;
