//! Up to where it is known what other brokers have changed.

use std::collections::BTreeSet;

use crate::limits::{FOLLOWERS_TOLD_US, LEDGER_NUMBERS_LATE};

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

    /// Whether others have told everything since, for as much as there were others. Whoever has not said for
    /// a minute that it lives is told nothing.
    pub(super) fn reaches(&self, state: &State) -> bool {
        let had_others = state.others_us > self.state.now_us - FOLLOWERS_TOLD_US
            || state.last_change != self.state.last_change;
        !had_others || state.now_us - self.state.own_us < FOLLOWERS_TOLD_US
    }

    /// The number behind which, and those before it that, are to be asked for.
    pub(super) fn asked(&self) -> (i64, Vec<i64>) {
        (self.state.last_change, self.late.iter().copied().collect())
    }

    /// Goes on to a moment.
    pub(super) fn go_on(&mut self, state: State, seen: impl IntoIterator<Item = i64>) {
        let known = self.state.last_change;
        self.late.extend(known + 1..=state.last_change);
        self.see(seen);
        let first = Feed::first_of(&state);
        self.late = self.late.split_off(&(first + 1));
        self.state = state;
    }

    fn see(&mut self, numbers: impl IntoIterator<Item = i64>) {
        for number in numbers {
            self.late.remove(&number);
        }
    }
}
