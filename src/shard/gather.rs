//! Commands that concern a whole queue: its home does its own part, asks every other shard that knows
//! the queue for theirs, and answers when all are done.

use std::sync::Arc;

use hashbrown::HashMap;

use super::queue::life_of;
use super::{Effect, Shard};
use crate::directory::QueueCell;
use crate::model::{
    ClientRef, Depth, GroupDepth, Moment, Part, PartResult, PeerMessage, QueueRef, Reply, cores_of,
};

/// A command that waits for the parts of other shards.
#[derive(Debug)]
struct Gather {
    client: ClientRef,
    cell: Arc<QueueCell>,
    /// Parts that are not done.
    left: u32,
    /// The answer as far as it is known.
    reply: Reply,
}

/// All commands of a shard that wait for parts.
#[derive(Debug, Default)]
pub(super) struct Gathers {
    waiting: HashMap<u64, Gather>,
    last: u64,
}

impl Shard {
    /// Asks the other shards that know the queue for their part. The answer, if there are none.
    pub(super) fn gather(
        &mut self,
        client: ClientRef,
        cell: &Arc<QueueCell>,
        part: &Part,
        reply: Reply,
        effects: &mut Vec<Effect>,
    ) -> Option<Reply> {
        let others = cell.shards() & !(1 << self.settings.shard);
        if others == 0 {
            return Some(reply);
        }
        self.gathers.last += 1;
        let token = self.gathers.last;
        let queue = life_of(cell);
        let gather = Gather {
            client,
            cell: Arc::clone(cell),
            left: others.count_ones(),
            reply,
        };
        self.gathers.waiting.insert(token, gather);
        for shard in cores_of(others) {
            let message = PeerMessage::Part {
                queue: queue.clone(),
                token,
                part: part.clone(),
            };
            effects.push(Effect::Tell { shard, message });
        }
        None
    }

    /// Does this shard's part of a command.
    pub(super) fn do_part(
        &mut self,
        now: Moment,
        queue: &QueueRef,
        part: &Part,
        effects: &mut Vec<Effect>,
    ) -> PartResult {
        // What it has to know of the queue's options or end it learns by looking it up.
        let known = self.known_queue(now, queue.tenant, &queue.name, effects);
        let this_life = known.filter(|&key| self.queues[key].cell.generation() == queue.generation);
        let Some(key) = this_life else {
            return PartResult::Done;
        };
        match part {
            Part::Configure | Part::Delete => PartResult::Done,
            Part::Reset => PartResult::Dropped(self.reset_rings(now, key)),
            Part::Depth { group } => {
                PartResult::Depth(Box::new(self.measure(now, key, group.as_deref(), effects)))
            }
        }
    }

    /// Another shard has done its part.
    pub(super) fn on_part_done(
        &mut self,
        token: u64,
        result: PartResult,
        effects: &mut Vec<Effect>,
    ) {
        let gather = self.gathers.waiting.get_mut(&token);
        let gather = gather.expect("a part that nobody asked for");
        match (&mut gather.reply, result) {
            (Reply::Reset { dropped }, PartResult::Dropped(more)) => *dropped += more,
            (Reply::Depth(depth), PartResult::Depth(part)) => depth.add(*part),
            (_, PartResult::Done) => {}
            (reply, result) => panic!("{result:?} is no part of {reply:?}"),
        }
        gather.left -= 1;
        if gather.left == 0 {
            let mut gather = self.gathers.waiting.remove(&token).expect("just seen");
            if let Reply::Depth(depth) = &mut gather.reply {
                // Others may have expired what was due.
                depth.take_over(&gather.cell);
            }
            effects.push(Effect::Answer {
                client: gather.client,
                reply: gather.reply,
            });
        }
    }
}

impl Depth {
    /// Says what the cell counts now.
    fn take_over(&mut self, cell: &QueueCell) {
        self.bytes = cell.bytes();
        self.drops = cell.drops();
        self.waiting = cell.waiters();
    }

    /// Adds what another shard has of the queue.
    fn add(&mut self, part: Depth) {
        self.pending += part.pending;
        self.partitions_pending += part.partitions_pending;
        self.partitions.extend(part.partitions);
        self.partitions
            .sort_unstable_by(|left, right| left.partition.cmp(&right.partition));
        for group in part.groups {
            match self
                .groups
                .binary_search_by(|known| known.group.cmp(&group.group))
            {
                Ok(at) => {
                    let known: &mut GroupDepth = &mut self.groups[at];
                    known.pending += group.pending;
                    known.skipped += group.skipped;
                }
                Err(at) => self.groups.insert(at, group),
            }
        }
    }
}
