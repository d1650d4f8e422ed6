//! Requests of a core's clients whose answers are left to other cores, or may become so.

use hashbrown::HashMap;

use crate::api::DurableEcho;
use crate::model::{Ack, AckOutcome, ClientRef, Command, Moment, Pop, Refusal, Reply, TenantId};

/// A request that is answered later.
#[derive(Debug)]
pub(super) enum Open {
    /// The answer repeats something of the command.
    Echo(Command<'static>),
    /// A pop that waits.
    Wait(Wait),
    /// Acks that were split over their owners.
    Acks(AckParts),
    /// A request of the durable class, which the engine answers.
    Durable(OpenDurable),
}

/// A request of the durable class.
#[derive(Debug)]
pub(super) struct OpenDurable {
    /// What its answer repeats.
    pub(super) echo: DurableEcho,
    /// Whether it is a pop that may wait.
    pub(super) waits: bool,
}

/// A pop that waits, here or on another core.
#[derive(Debug)]
pub(super) struct Wait {
    /// Where it parks.
    pub(super) core: u16,
    /// What goes back there when other shards had nothing for it: a pop without partition.
    pub(super) pop: Option<(TenantId, Pop<'static>)>,
    /// When it came.
    pub(super) since: Moment,
    /// When it is answered with nothing.
    pub(super) deadline: Moment,
    /// Its client has closed its half.
    pub(super) hurried: bool,
}

impl Wait {
    /// The pop with the time that is left to it.
    pub(super) fn again(&self, now: Moment) -> Option<(TenantId, Pop<'static>)> {
        let (tenant, pop) = self.pop.as_ref()?;
        let left = self.deadline.since(now).as_micros().div_ceil(1_000);
        let pop = Pop {
            wait_ms: Some(left as u64),
            since: Some(self.since),
            ..pop.clone()
        };
        Some((*tenant, pop))
    }
}

/// Acks of one request on their way to several owners.
#[derive(Debug)]
pub(super) struct AckParts {
    /// The request, which the answer repeats.
    command: Command<'static>,
    outcomes: Vec<AckOutcome>,
    /// Owner, and the places of its acks in the request.
    parts: Vec<(u16, Vec<usize>)>,
    /// Parts that are not back.
    left: usize,
    refused: Option<Refusal>,
}

impl AckParts {
    /// Splits acks by the owner of each; the parts in the order of their first acks.
    pub(super) fn split(
        ack: Ack<'static>,
        owner: impl Fn(&str) -> u16,
    ) -> (AckParts, Vec<(u16, Ack<'static>)>) {
        let mut parts: Vec<(u16, Vec<usize>)> = Vec::new();
        for (place, item) in ack.acks.iter().enumerate() {
            let owner = owner(&item.id);
            match parts.iter_mut().find(|(known, _)| *known == owner) {
                Some((_, places)) => places.push(place),
                None => parts.push((owner, vec![place])),
            }
        }
        let part_of = |places: &Vec<usize>| Ack {
            queue: ack.queue.clone(),
            group: ack.group.clone(),
            acks: places.iter().map(|&at| ack.acks[at].clone()).collect(),
        };
        let asked = parts
            .iter()
            .map(|(owner, places)| (*owner, part_of(places)))
            .collect();
        let open = AckParts {
            outcomes: vec![AckOutcome::Unknown; ack.acks.len()],
            left: parts.len(),
            parts,
            refused: None,
            command: Command::Ack(ack),
        };
        (open, asked)
    }

    /// Takes the answer of one owner; whether all are back.
    pub(super) fn join(&mut self, owner: u16, reply: Reply) -> bool {
        let part = self.parts.iter().find(|(known, _)| *known == owner);
        let (_, places) = part.expect("an owner that was not asked");
        match reply {
            Reply::Acked(outcomes) => {
                for (&place, outcome) in places.iter().zip(outcomes) {
                    self.outcomes[place] = outcome;
                }
            }
            Reply::Refused(refusal) => self.refused = Some(refusal),
            other => panic!("{other:?} is no answer to acks"),
        }
        self.left -= 1;
        self.left == 0
    }

    /// The answer to the whole, and the request that it repeats.
    pub(super) fn finish(self) -> (Reply, Command<'static>) {
        let reply = match self.refused {
            Some(refusal) => Reply::Refused(refusal),
            None => Reply::Acked(self.outcomes),
        };
        (reply, self.command)
    }
}

/// All open requests of a core.
pub(super) type OpenRequests = HashMap<ClientRef, Open>;

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;
    use crate::model::{AckItem, GroupName, QueueName, Verdict};

    #[test]
    fn outcomes_come_back_in_request_order() {
        let item = |id: &'static str| AckItem {
            id: Cow::Borrowed(id),
            verdict: Verdict::Completed,
        };
        let ack = Ack {
            queue: QueueName::new("q").expect("a name"),
            group: GroupName::QUEUE_MODE,
            acks: vec![item("b1"), item("a1"), item("b2")],
        };
        let (mut open, asked) = AckParts::split(ack, |id| u16::from(id.starts_with('b')));
        assert_eq!(asked.len(), 2);
        assert_eq!((asked[0].0, asked[0].1.acks.len()), (1, 2));
        assert!(!open.join(0, Reply::Acked(vec![AckOutcome::Stale])));
        let of_b = vec![AckOutcome::Acked, AckOutcome::Redelivered];
        assert!(open.join(1, Reply::Acked(of_b)));
        let (reply, _) = open.finish();
        let wanted = [
            AckOutcome::Acked,
            AckOutcome::Stale,
            AckOutcome::Redelivered,
        ];
        assert!(matches!(reply, Reply::Acked(outcomes) if outcomes == wanted));
    }
}
