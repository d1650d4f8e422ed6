//! Up to where it is known what other brokers have changed.

use std::collections::BTreeSet;

use crate::limits::{FOLLOWERS_TOLD_US, LEDGER_NUMBERS_LATE, LEDGER_NUMBERS_MAX};

/// What the database says of brokers, in one moment.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct State {
    pub(super) now_us: i64,
    /// When another broker said last that it lives.
    pub(super) others_us: i64,
    /// When this one did.
    pub(super) own_us: i64,
    pub(super) last_change: i64,
}

/// Brokers number what they tell each other. Numbers of batches have the order of their commits, those of
/// retention have not: one that was taken and not seen yet is asked for again.
#[derive(Debug, Default)]
pub(super) struct Feed {
    state: State,
    late: BTreeSet<i64>,
}

impl Feed {
    /// Begins at a moment in which everything is counted anew.
    pub(super) fn at(state: State, seen: impl IntoIterator<Item = i64>) -> Feed {
        let mut feed = Feed {
            state,
            late: BTreeSet::new(),
        };
        let first = Feed::first_of(&state);
        feed.late.extend(first + 1..=state.last_change);
        feed.see(seen);
        feed
    }

    /// Behind which number those are looked for that may come late.
    pub(super) fn first_of(state: &State) -> i64 {
        (state.last_change - LEDGER_NUMBERS_LATE).max(0)
    }

    /// Whether others have told everything between the moment that is known and this one, for as much as
    /// there were others, and it is not too much to be asked for. Whoever has not said for a minute that it
    /// lives is told nothing: the sign of life that was known then was young enough for whatever has happened
    /// since. (What is told stays longer than that, too.)
    pub(super) fn reaches(&self, state: &State) -> bool {
        let known = &self.state;
        let had_others = state.others_us > known.now_us - 2 * FOLLOWERS_TOLD_US
            || state.last_change != known.last_change;
        !had_others
            || state.now_us - known.own_us < FOLLOWERS_TOLD_US
                && state.last_change - known.last_change <= LEDGER_NUMBERS_MAX
    }

    /// The number behind which, and those before it that, are to be asked for.
    pub(super) fn asked(&self) -> (i64, Vec<i64>) {
        (self.state.last_change, self.late.iter().copied().collect())
    }

    /// Goes on to a moment.
    pub(super) fn go_on(&mut self, state: State, seen: impl IntoIterator<Item = i64>) {
        let first = Feed::first_of(&state);
        self.late = self.late.split_off(&(first + 1));
        let known = self.state.last_change.max(first);
        self.late.extend(known + 1..=state.last_change);
        self.see(seen);
        self.state = state;
    }

    fn see(&mut self, numbers: impl IntoIterator<Item = i64>) {
        for number in numbers {
            self.late.remove(&number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_US: i64 = 1_000_000;

    /// A moment in seconds, and how old signs of life are then.
    fn state(now_s: i64, others_s: i64, own_s: i64, last_change: i64) -> State {
        let now_us = now_s * SECOND_US;
        State {
            now_us,
            others_us: now_us - others_s * SECOND_US,
            own_us: now_us - own_s * SECOND_US,
            last_change,
        }
    }

    #[test]
    fn the_sign_of_life_that_was_known_has_to_be_young_still() {
        let feed = Feed::at(state(1_000, 1, 4, 0), []);
        assert!(feed.reaches(&state(1_045, 1, 1, 7)));
        // It was not there meanwhile, though it is again: nobody may have told it anything.
        assert!(!feed.reaches(&state(1_046, 1, 1, 7)));
        assert!(!feed.reaches(&state(1_060, 1, 0, 0)));
        // One that has come since.
        let alone = Feed::at(state(1_000, 500, 4, 0), []);
        assert!(alone.reaches(&state(1_060, 560, 4, 0)));
        assert!(!alone.reaches(&state(1_060, 1, 0, 0)));
    }

    #[test]
    fn numbers_that_have_run_far_ahead_are_not_gone_through() {
        let far = 1_000_000_000_000;
        let mut feed = Feed::at(state(1_000, 1, 1, 0), []);
        assert!(!feed.reaches(&state(1_001, 1, 1, far)));
        feed.go_on(state(1_001, 1, 1, far), [far]);
        assert_eq!(feed.late.len() as i64, LEDGER_NUMBERS_LATE - 1);
    }
}
