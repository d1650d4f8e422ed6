//! What acks do to a group's place in a partition (README "Acks"). Pure: the rules of the durable class
//! are here and nowhere else.
//!
//! A place is one offset, so acks are cumulative: completing a message settles everything before it. A
//! failure ends the lease, and the group goes on behind the last message that was completed before it. What
//! is given up is settled like what is completed, and ends the lease, too.

use std::collections::BTreeSet;

use uuid::Uuid;

use crate::model::durable::{AckRefused, QueueOptions, Verdict};
use crate::postgres::durable::CursorState;

/// One ack of a partition.
#[derive(Clone, Debug)]
pub(super) struct Item<'a> {
    /// The message; `None`: there is none of that transaction id.
    pub(super) offset: Option<i64>,
    pub(super) verdict: Verdict,
    pub(super) lease: Fence,
    /// Why it failed.
    pub(super) error: Option<&'a str>,
}

/// What an ack says about its lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fence {
    /// Nothing: it holds without one.
    Open,
    /// The lease it is under.
    Lease(Uuid),
    /// Something that is no lease.
    Malformed,
}

impl Fence {
    pub(super) fn of(lease_id: Option<&str>) -> Fence {
        match lease_id.map(Uuid::try_parse) {
            None => Fence::Open,
            Some(Ok(lease_id)) => Fence::Lease(lease_id),
            Some(Err(_)) => Fence::Malformed,
        }
    }
}

/// What became of one ack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) refused: Option<AckRefused>,
    pub(super) noop: bool,
    pub(super) dead_lettered: bool,
}

/// A message that is given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GivenUp {
    pub(super) offset: i64,
    pub(super) error: String,
    pub(super) retries: i32,
}

/// What all acks of a partition do together.
#[derive(Clone, Debug)]
pub(super) struct Settled {
    /// The place from now on.
    pub(super) state: CursorState,
    /// One for each item.
    pub(super) outcomes: Vec<Outcome>,
    /// The messages that go to the dead letters, in order.
    pub(super) given_up: Vec<GivenUp>,
    /// Whether the lease ends.
    pub(super) released: bool,
}

/// Judges the acks of one group in one partition, all of one call.
pub(super) fn settle(
    before: &CursorState,
    options: &QueueOptions,
    now_us: i64,
    items: &[Item<'_>],
) -> Settled {
    let outcomes: Vec<Outcome> = items
        .iter()
        .map(|item| judge(before, now_us, item))
        .collect();
    let mut settled = Settled {
        state: *before,
        outcomes,
        given_up: Vec::new(),
        released: false,
    };
    let counts = |outcome: &Outcome| outcome.refused.is_none() && !outcome.noop;
    let counted: Vec<(i64, Verdict)> = items
        .iter()
        .zip(&settled.outcomes)
        .filter(|(_, outcome)| counts(outcome))
        .map(|(item, _)| (item.offset.expect("what counts is resolved"), item.verdict))
        .collect();
    let mut given_up: BTreeSet<i64> = counted
        .iter()
        .filter(|(_, verdict)| *verdict == Verdict::DeadLetter)
        .map(|&(offset, _)| offset)
        .collect();
    // The lowest one decides, and the heavier one of two on it. Who gives a message up means it, whatever
    // else was said of it.
    let failures = counted.iter().copied().filter(|(offset, verdict)| {
        matches!(verdict, Verdict::Failed | Verdict::Retry) && !given_up.contains(offset)
    });
    let failure = failures.min_by_key(|&(offset, verdict)| (offset, verdict == Verdict::Retry));
    let bound = failure.map_or(i64::MAX, |(offset, _)| offset);
    given_up.retain(|offset| *offset < bound);
    let completed = counted
        .iter()
        .filter(|(offset, verdict)| *verdict == Verdict::Completed && *offset < bound)
        .map(|(offset, _)| offset);
    let passed = completed.max().max(given_up.last());
    let state = &mut settled.state;
    if let Some(passed) = passed {
        pass(state, passed + 1, now_us);
        if state.committed == state.batch_end {
            state.retries = 0;
            release(state);
        }
    }
    if !given_up.is_empty() {
        release(&mut settled.state);
        give_up(&mut settled, (&given_up, before.retries), options, items);
    }
    if let Some(failure) = failure {
        fail(&mut settled, failure, (options, now_us), items);
    }
    settled.released = before.lease_id.is_some() && settled.state.lease_id.is_none();
    settled
}

/// Messages go to the dead letters, where the queue keeps them; no failure counts any more.
fn give_up(
    settled: &mut Settled,
    (offsets, retries): (&BTreeSet<i64>, i32),
    options: &QueueOptions,
    items: &[Item<'_>],
) {
    settled.state.retries = 0;
    if !options.keeps_dead_letters() {
        return;
    }
    settled
        .given_up
        .extend(offsets.iter().map(|&offset| GivenUp {
            offset,
            error: reason_of(items, offset),
            retries,
        }));
    for (item, outcome) in items.iter().zip(&mut settled.outcomes) {
        let is_meant = item.offset.is_some_and(|offset| offsets.contains(&offset));
        outcome.dead_lettered |= is_meant && outcome.refused.is_none();
    }
}

/// The lease ends with the failure that decides, which is charged or gives its message up.
fn fail(
    settled: &mut Settled,
    (offset, verdict): (i64, Verdict),
    (options, now_us): (&QueueOptions, i64),
    items: &[Item<'_>],
) {
    let state = &mut settled.state;
    release(state);
    if verdict == Verdict::Retry {
        return;
    }
    if i64::from(state.retries) < i64::from(options.retry_limit) {
        state.retries += 1;
        if let Some(delay_ms) = options.retry_delay_ms {
            state.held_until_us = now_us + i64::from(delay_ms) * 1_000;
        }
        return;
    }
    pass(state, offset + 1, now_us);
    let given_up = (&BTreeSet::from([offset]), state.retries);
    give_up(settled, given_up, options, items);
}

fn judge(before: &CursorState, now_us: i64, item: &Item<'_>) -> Outcome {
    let refused = |reason| Outcome {
        refused: Some(reason),
        ..Outcome::default()
    };
    let is_live = before.lease_until_us > now_us;
    match item.lease {
        Fence::Malformed => return refused(AckRefused::Lease),
        Fence::Lease(lease) if !is_live || before.lease_id != Some(lease) => {
            return refused(AckRefused::Lease);
        }
        Fence::Lease(_) | Fence::Open => {}
    }
    let Some(offset) = item.offset else {
        return refused(AckRefused::Unresolved);
    };
    if offset < before.committed {
        return match item.verdict {
            Verdict::Completed => Outcome {
                noop: true,
                ..Outcome::default()
            },
            _ => refused(AckRefused::Committed),
        };
    }
    if offset >= before.batch_end {
        // The group has never taken it: settling it would skip what it has not seen.
        return refused(AckRefused::NotTaken);
    }
    Outcome::default()
}

/// Settles everything before `committed`.
fn pass(state: &mut CursorState, committed: i64, now_us: i64) {
    state.settled_count += committed - state.committed;
    state.settled_us = now_us;
    state.committed = committed;
    state.attempts = 0;
}

/// Ends the lease. What it covered may still be acked without one.
pub(super) fn release(state: &mut CursorState) {
    state.lease_id = None;
    state.lease_until_us = 0;
}

/// Passes everything before `offset` because it is too old; a lease ends, and what the group waits for
/// after a failure is over.
pub(super) fn expire(before: &CursorState, offset: i64, now_us: i64) -> CursorState {
    let mut state = *before;
    pass(&mut state, offset, now_us);
    release(&mut state);
    state.batch_end = state.batch_end.max(offset);
    state.held_until_us = 0;
    state.retries = 0;
    state
}

/// Why the message at `offset` was given up: its own error, else the first that was sent.
fn reason_of(items: &[Item<'_>], offset: i64) -> String {
    let own = items.iter().filter(|item| item.offset == Some(offset));
    let any = items.iter();
    let reason = own.chain(any).find_map(|item| item.error);
    reason.unwrap_or("Retries exhausted").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Uuid = Uuid::from_u128(7);
    const NOW: i64 = 1_000_000;

    /// Offsets 10 to 14 are leased.
    fn leased() -> CursorState {
        CursorState {
            committed: 10,
            batch_end: 15,
            lease_id: Some(LEASE),
            lease_until_us: NOW + 1,
            attempts: 1,
            ..CursorState::default()
        }
    }

    fn item(offset: i64, verdict: Verdict) -> Item<'static> {
        Item {
            offset: Some(offset),
            verdict,
            lease: Fence::Lease(LEASE),
            error: None,
        }
    }

    fn options(retry_limit: u32) -> QueueOptions {
        QueueOptions {
            retry_limit,
            ..QueueOptions::default()
        }
    }

    fn after(state: &CursorState, items: &[Item<'_>]) -> Settled {
        settle(state, &options(1), NOW, items)
    }

    #[test]
    fn completing_one_settles_those_before_it_and_leaves_those_behind_leased() {
        let settled = after(&leased(), &[item(12, Verdict::Completed)]);
        assert_eq!(settled.state.committed, 13);
        assert_eq!(settled.state.lease_id, Some(LEASE));
        assert!(!settled.released);
        assert_eq!(settled.state.settled_count, 3);
    }

    #[test]
    fn completing_the_last_one_ends_the_lease_and_forgets_the_failures() {
        let before = CursorState {
            retries: 1,
            ..leased()
        };
        let settled = after(&before, &[item(14, Verdict::Completed)]);
        assert!(settled.released);
        assert_eq!((settled.state.lease_id, settled.state.retries), (None, 0));
    }

    #[test]
    fn a_failure_ends_the_lease_and_what_was_completed_behind_it_does_not_count() {
        let items = [
            item(10, Verdict::Completed),
            item(11, Verdict::Failed),
            item(14, Verdict::Completed),
        ];
        let settled = after(&leased(), &items);
        assert_eq!((settled.state.committed, settled.state.retries), (11, 1));
        assert!(settled.released && settled.outcomes.iter().all(|one| one.refused.is_none()));
    }

    #[test]
    fn a_retry_is_free_however_often() {
        let mut state = leased();
        for _ in 0..6 {
            state = after(&state, &[item(10, Verdict::Retry)]).state;
            assert_eq!(
                (state.committed, state.retries, state.lease_id),
                (10, 0, None)
            );
            state = CursorState {
                lease_id: Some(LEASE),
                lease_until_us: NOW + 1,
                ..state
            };
        }
    }

    #[test]
    fn the_failure_after_the_last_charged_one_gives_the_message_up() {
        let first = after(&leased(), &[item(10, Verdict::Failed)]);
        assert_eq!((first.state.retries, first.given_up), (1, vec![]));
        let before = CursorState {
            retries: 1,
            ..leased()
        };
        let error = Some("broken");
        let failed = Item {
            error,
            ..item(10, Verdict::Failed)
        };
        let second = after(&before, &[failed]);
        let given_up = &second.given_up[0];
        assert_eq!(
            (given_up.offset, &*given_up.error, given_up.retries),
            (10, "broken", 1)
        );
        assert_eq!((second.state.committed, second.state.retries), (11, 0));
        assert!(second.outcomes[0].dead_lettered);
        let at_once = settle(&leased(), &options(0), NOW, &[item(10, Verdict::Failed)]);
        assert_eq!(at_once.given_up.len(), 1);
    }

    #[test]
    fn a_queue_without_dead_letters_drops_what_is_given_up() {
        let options = QueueOptions {
            dead_letter_queue: false,
            dead_letter_after_retries: false,
            ..options(0)
        };
        let settled = settle(&leased(), &options, NOW, &[item(10, Verdict::Failed)]);
        assert_eq!((settled.given_up, settled.state.committed), (vec![], 11));
        assert!(!settled.outcomes[0].dead_lettered);
    }

    #[test]
    fn the_lowest_failure_decides_and_the_heavier_one_of_two_on_one_message() {
        let items = [item(12, Verdict::DeadLetter), item(11, Verdict::Retry)];
        assert_eq!(after(&leased(), &items).state.committed, 10);
        let items = [item(10, Verdict::Retry), item(10, Verdict::DeadLetter)];
        let settled = after(&leased(), &items);
        assert_eq!((settled.state.committed, settled.given_up.len()), (11, 1));
        for items in [
            [item(10, Verdict::Retry), item(10, Verdict::Failed)],
            [item(10, Verdict::Failed), item(10, Verdict::Retry)],
        ] {
            assert_eq!(after(&leased(), &items).state.retries, 1);
        }
    }

    #[test]
    fn all_that_are_given_up_together_go_to_the_dead_letters() {
        let items = [
            item(13, Verdict::DeadLetter),
            item(10, Verdict::DeadLetter),
            item(12, Verdict::Completed),
        ];
        let settled = after(&leased(), &items);
        let offsets: Vec<i64> = settled.given_up.iter().map(|one| one.offset).collect();
        assert_eq!(offsets, [10, 13]);
        assert_eq!(
            (settled.state.committed, settled.state.lease_id),
            (14, None)
        );
        let dead = settled.outcomes.iter().map(|one| one.dead_lettered);
        assert_eq!(dead.collect::<Vec<_>>(), [true, true, false]);
    }

    #[test]
    fn what_is_given_up_behind_a_failure_comes_again() {
        let items = [
            item(10, Verdict::DeadLetter),
            item(12, Verdict::Failed),
            item(13, Verdict::DeadLetter),
        ];
        let settled = after(&leased(), &items);
        assert_eq!(settled.given_up.len(), 1);
        assert_eq!((settled.state.committed, settled.state.retries), (11, 1));
        let dead = settled.outcomes.iter().map(|one| one.dead_lettered);
        assert_eq!(dead.collect::<Vec<_>>(), [true, false, false]);
        // At the limit the failed one is given up, too.
        let settled = settle(&leased(), &options(0), NOW, &items);
        let offsets: Vec<i64> = settled.given_up.iter().map(|one| one.offset).collect();
        assert_eq!((offsets, settled.state.committed), (vec![10, 12], 13));
    }

    #[test]
    fn what_is_settled_is_a_noop_to_complete_and_refused_to_fail() {
        let settled = after(
            &leased(),
            &[item(9, Verdict::Completed), item(9, Verdict::Failed)],
        );
        assert!(settled.outcomes[0].noop);
        assert_eq!(settled.outcomes[1].refused, Some(AckRefused::Committed));
        assert_eq!(settled.state, leased());
    }

    #[test]
    fn a_lease_that_is_over_or_anothers_refuses_and_none_does_not() {
        let over = CursorState {
            lease_until_us: NOW,
            ..leased()
        };
        for (state, lease) in [
            (&over, Fence::Lease(LEASE)),
            (&leased(), Fence::Lease(Uuid::from_u128(8))),
            (&leased(), Fence::Malformed),
        ] {
            let item = Item {
                lease,
                ..item(9, Verdict::Completed)
            };
            let settled = after(state, &[item]);
            assert_eq!(settled.outcomes[0].refused, Some(AckRefused::Lease));
        }
        let open = Item {
            lease: Fence::Open,
            ..item(11, Verdict::Completed)
        };
        assert_eq!(after(&over, &[open]).state.committed, 12);
    }

    #[test]
    fn what_is_unknown_or_was_never_taken_is_refused_and_settles_nothing() {
        let unknown = Item {
            offset: None,
            ..item(0, Verdict::Completed)
        };
        let settled = after(&leased(), &[unknown, item(15, Verdict::Completed)]);
        assert_eq!(settled.outcomes[0].refused, Some(AckRefused::Unresolved));
        assert_eq!(settled.outcomes[1].refused, Some(AckRefused::NotTaken));
        assert_eq!(settled.state, leased());
    }

    #[test]
    fn a_delay_is_charged_after_failures_only() {
        let options = QueueOptions {
            retry_delay_ms: Some(5),
            ..options(3)
        };
        let held = |verdict| {
            let settled = settle(&leased(), &options, NOW, &[item(10, verdict)]);
            settled.state.held_until_us
        };
        assert_eq!(
            (held(Verdict::Failed), held(Verdict::Retry)),
            (NOW + 5_000, 0)
        );
    }
}
