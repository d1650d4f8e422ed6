//! The books of a run over several cores: every message that was accepted, everything that clients
//! saw of it, and what must be true of that in any order in which it may have happened.

use std::collections::BTreeMap;

use bytes::Bytes;
use queen::model::{AckOutcome, Moment, Popped, TenantId, Verdict};
use queen::shard::Statistics;

use crate::model::ensure;

type Checked = Result<(), String>;

/// Consumer groups of a run; a group is named by its place here.
pub(crate) const GROUPS: [&str; 4] = ["__QUEUE_MODE__", "widget", "audit", "late"];

/// A queue, and a partition of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) tenant: TenantId,
    pub(crate) queue: &'static str,
    pub(crate) partition: &'static str,
}

/// One push.
#[derive(Debug)]
pub(crate) struct PushRecord {
    pub(crate) place: Place,
    /// The core it was made at.
    pub(crate) core: usize,
    pub(crate) issued_step: u64,
    pub(crate) answered_step: Option<u64>,
    /// Whether it was stored; `None`: the answer is not here.
    pub(crate) stored: Option<bool>,
    /// The number of its first message.
    pub(crate) first: usize,
    pub(crate) count: usize,
}

/// One delivery of a message to a group.
#[derive(Clone, Debug)]
pub(crate) struct Delivery {
    /// Number of the lease.
    number: u64,
    attempts: u32,
    auto_ack: bool,
    issued: Moment,
    issued_step: u64,
    arrived: Moment,
    arrived_step: u64,
    /// The answer could not be delivered.
    given_back: bool,
}

/// What a group saw of a message.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    deliveries: Vec<Delivery>,
    /// Nacks that put it back.
    redelivered: usize,
    /// The ack that ended it for the group, and whether it was a completed one.
    ended: Option<(u64, bool)>,
    /// Acks whose outcome nobody was told.
    untold: bool,
    /// Acks that were sent.
    asked: u32,
}

/// One message.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) push: usize,
    pub(crate) payload: Bytes,
    /// The life of the queue, and its number in the partition, once it was seen.
    pub(crate) id: Option<(u64, u64)>,
    pub(crate) seen: [Seen; GROUPS.len()],
}

/// Who popped, and when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Popper {
    pub(crate) group: usize,
    pub(crate) issued: Moment,
    pub(crate) issued_step: u64,
}

/// The books.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    pub(crate) pushes: Vec<PushRecord>,
    pub(crate) messages: Vec<Message>,
    by_id: BTreeMap<(Place, u64), usize>,
    /// The group that stands at a position of a queue's list.
    positions: BTreeMap<(u64, u32), usize>,
    untold: u64,
}

impl Seen {
    /// Whether the group is known to be done with it, or may be.
    pub(crate) fn is_settled(&self) -> bool {
        let last_is_auto = self
            .deliveries
            .last()
            .is_some_and(|last| last.auto_ack && !last.given_back);
        self.untold || last_is_auto || matches!(self.ended, Some((_, true)))
    }

    pub(crate) fn is_untold(&self) -> bool {
        self.untold
    }

    /// Whether the last thing that happened was that a settled delivery came back.
    pub(crate) fn was_given_back(&self) -> bool {
        self.deliveries
            .last()
            .is_some_and(|last| last.auto_ack && last.given_back)
    }

    /// Whether its last lease was not ended by the client.
    pub(crate) fn is_leased(&self) -> bool {
        self.ended.is_none() && self.deliveries.last().is_some_and(|last| !last.auto_ack)
    }

    pub(crate) fn is_delivered(&self) -> bool {
        !self.deliveries.is_empty()
    }
}

impl Ledger {
    /// Notes a push that is about to be made; its payloads.
    pub(crate) fn push(
        &mut self,
        (place, core): (Place, usize),
        step: u64,
        widths: &[usize],
    ) -> (usize, Vec<Bytes>) {
        let push = self.pushes.len();
        let first = self.messages.len();
        for (index, width) in widths.iter().enumerate() {
            self.messages.push(Message {
                push,
                payload: Bytes::from(format!("{:<width$}", first + index)),
                id: None,
                seen: Default::default(),
            });
        }
        self.pushes.push(PushRecord {
            place,
            core,
            issued_step: step,
            answered_step: None,
            stored: None,
            first,
            count: widths.len(),
        });
        let payloads = self.messages[first..].iter();
        (push, payloads.map(|one| one.payload.clone()).collect())
    }

    /// A push was answered.
    pub(crate) fn pushed(&mut self, push: usize, step: u64, stored: bool) {
        let record = &mut self.pushes[push];
        record.answered_step = Some(step);
        record.stored = Some(stored);
    }

    /// Notes what an answer took.
    pub(crate) fn take(
        &mut self,
        popper: Popper,
        popped: &Popped,
        (now, step): (Moment, u64),
    ) -> Checked {
        let key = (popped.generation, popped.group);
        let known = *self.positions.entry(key).or_insert(popper.group);
        ensure!(known == popper.group, "{popped:?} for group {popper:?}");
        for one in &popped.messages {
            let text = std::str::from_utf8(&one.payload).unwrap_or_default();
            let number: usize = text.trim_end().parse().unwrap_or(usize::MAX);
            ensure!(number < self.messages.len(), "a message of nobody: {one:?}");
            let message = &self.messages[number];
            let push = &self.pushes[message.push];
            let place = push.place;
            ensure!(
                message.payload == one.payload
                    && (place.tenant, place.queue) == (popped.tenant, &*popped.queue)
                    && place.partition == &*one.partition
                    && push.stored != Some(false),
                "{one:?} of {popped:?} is not as it was pushed: {push:?}"
            );
            let id = (popped.generation, one.sequence);
            ensure!(
                message.id.is_none_or(|known| known == id),
                "message {number} was {:?} and is {id:?}",
                message.id
            );
            let before = self.by_id.insert((place, one.sequence), number);
            ensure!(
                before.is_none_or(|before| before == number),
                "{place:?} {} names {before:?} and {number}",
                one.sequence
            );
            let message = &mut self.messages[number];
            message.id = Some(id);
            let seen = &mut message.seen[popper.group];
            seen.deliveries.push(Delivery {
                number: one.delivery,
                attempts: one.attempts,
                auto_ack: popped.auto_ack,
                issued: popper.issued,
                issued_step: popper.issued_step,
                arrived: now,
                arrived_step: step,
                given_back: false,
            });
            seen.deliveries.sort_by_key(|delivery| delivery.number);
        }
        Ok(())
    }

    /// What an answer took goes back.
    pub(crate) fn give_back(&mut self, group: usize, popped: &Popped) {
        for one in &popped.messages {
            let text = std::str::from_utf8(&one.payload).unwrap_or_default();
            let number: usize = text.trim_end().parse().expect("it was taken");
            for delivery in &mut self.messages[number].seen[group].deliveries {
                delivery.given_back |= delivery.number == one.delivery;
            }
        }
    }

    /// An ack was answered.
    pub(crate) fn acked(
        &mut self,
        (message, group): (usize, usize),
        verdict: Verdict,
        outcome: AckOutcome,
        step: u64,
    ) -> Checked {
        let seen = &mut self.messages[message].seen[group];
        match outcome {
            AckOutcome::Stale => Err(format!("message {message} is stale")),
            AckOutcome::Unknown => Ok(()),
            AckOutcome::Redelivered => {
                ensure!(verdict == Verdict::Retry, "an ack that redelivers");
                seen.redelivered += 1;
                Ok(())
            }
            AckOutcome::Acked => {
                ensure!(
                    seen.ended.is_none(),
                    "message {message} ended twice for group {group}: {seen:?}"
                );
                seen.ended = Some((step, verdict == Verdict::Completed));
                Ok(())
            }
        }
    }

    /// An ack is about to be sent.
    pub(crate) fn ack_asked(&mut self, (message, group): (usize, usize)) {
        self.messages[message].seen[group].asked += 1;
    }

    /// Whether an ack that was sent in `step` must have found a lease by now, if leases last
    /// `lease_ms` and nothing but an ack ends them sooner.
    pub(crate) fn must_be_leased(
        &self,
        (message, group): (usize, usize),
        (now, step): (Moment, u64),
        lease_ms: u64,
    ) -> bool {
        let seen = &self.messages[message].seen[group];
        let [only] = &seen.deliveries[..] else {
            return false;
        };
        let leased = !only.auto_ack && !only.given_back && only.arrived_step < step;
        leased && only.issued.after_ms(lease_ms) > now && seen.asked == 1 && !seen.untold
    }

    /// Nobody was told what an ack did.
    pub(crate) fn ack_untold(&mut self, (message, group): (usize, usize)) {
        self.messages[message].seen[group].untold = true;
        self.untold += 1;
    }

    /// Acks whose outcome nobody was told.
    pub(crate) fn untold(&self) -> u64 {
        self.untold
    }

    /// What clients were told, summed up.
    pub(crate) fn statistics(&self) -> Statistics {
        let mut sums = Statistics::default();
        for push in &self.pushes {
            if push.stored == Some(true) {
                sums.pushed += push.count as u64;
            }
        }
        for seen in self.messages.iter().flat_map(|message| &message.seen) {
            sums.popped += seen.deliveries.len() as u64;
            sums.acked += u64::from(matches!(seen.ended, Some((_, true))));
        }
        sums
    }

    /// Whether a group's part in a message can be as it is: each delivery after the first needs that
    /// the one before came to an end. A lease ends by itself after `lease_ms` at least.
    fn audit_seen(&self, number: usize, group: usize, lease_ms: u64) -> Checked {
        let seen = &self.messages[number].seen[group];
        let fault = |text: &str| Err(format!("message {number}, group {group}: {text}: {seen:?}"));
        if seen.ended.is_some() && seen.deliveries.iter().all(|one| one.auto_ack) {
            return fault("acked without a lease");
        }
        let Some(first) = seen.deliveries.first() else {
            return Ok(());
        };
        if first.attempts != 1 {
            return fault("the first delivery is not attempt 1");
        }
        let mut nacks = seen.redelivered;
        for pair in seen.deliveries.windows(2) {
            let (one, next) = (&pair[0], &pair[1]);
            if one.number == next.number {
                return fault("delivered twice");
            }
            if next.attempts == one.attempts {
                if !one.given_back {
                    return fault("an attempt that was not given back came again");
                }
                continue;
            }
            let expired = one.issued.after_ms(lease_ms) <= next.arrived;
            let nacked = nacks > 0 || seen.untold;
            if next.attempts != one.attempts + 1 || one.auto_ack || !(expired || nacked) {
                return fault("a lease came again before it had ended");
            }
            if !expired {
                nacks = nacks.saturating_sub(1);
            }
        }
        if let Some((step, _)) = seen.ended
            && seen.deliveries.iter().any(|one| one.issued_step > step)
        {
            return fault("delivered after its end");
        }
        Ok(())
    }

    /// Judges everything that clients saw. `collects`: partitions may have begun anew.
    pub(crate) fn audit(&self, lease_ms: u64, collects: bool) -> Checked {
        for number in 0..self.messages.len() {
            for group in 0..GROUPS.len() {
                self.audit_seen(number, group, lease_ms)?;
            }
        }
        self.audit_pushes()?;
        if collects {
            return Ok(());
        }
        self.audit_order()
    }

    /// First deliveries of a partition come in the order of its numbers.
    fn audit_order(&self) -> Checked {
        let mut firsts: BTreeMap<(Place, u64, usize), Vec<(u64, u64)>> = BTreeMap::new();
        for message in &self.messages {
            let Some((generation, sequence)) = message.id else {
                continue;
            };
            let place = self.pushes[message.push].place;
            for (group, seen) in message.seen.iter().enumerate() {
                if let Some(first) = seen.deliveries.first() {
                    let key = (place, generation, group);
                    firsts
                        .entry(key)
                        .or_default()
                        .push((first.number, sequence));
                }
            }
        }
        for (key, mut order) in firsts {
            order.sort_unstable();
            ensure!(
                order.windows(2).all(|pair| pair[0].1 < pair[1].1),
                "{key:?}: out of order (delivery, sequence): {order:?}"
            );
        }
        Ok(())
    }

    /// Numbers follow the order of pushes, as far as that order can be known.
    fn audit_pushes(&self) -> Checked {
        let mut by_place: BTreeMap<Place, Vec<(u64, &PushRecord)>> = BTreeMap::new();
        for push in &self.pushes {
            let mut base = None;
            for index in 0..push.count {
                if let Some((_, sequence)) = self.messages[push.first + index].id {
                    let first = sequence - index as u64;
                    ensure!(
                        base.is_none_or(|base| base == first),
                        "a push in pieces: {push:?}"
                    );
                    base = Some(first);
                }
            }
            if let Some(base) = base {
                by_place.entry(push.place).or_default().push((base, push));
            }
        }
        for pushes in by_place.values_mut() {
            pushes.sort_unstable_by_key(|(base, _)| *base);
            for (at, (_, later)) in pushes.iter().enumerate() {
                for (_, earlier) in &pushes[..at] {
                    // `earlier` has the smaller numbers.
                    let before = later
                        .answered_step
                        .is_some_and(|step| step < earlier.issued_step);
                    let same_core = later.core == earlier.core && later.first < earlier.first;
                    ensure!(
                        !before && !same_core,
                        "pushes out of order: {earlier:?} before {later:?}"
                    );
                }
            }
        }
        Ok(())
    }
}
