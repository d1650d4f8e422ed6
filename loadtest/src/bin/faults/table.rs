//! What was measured, as a table, and what is wrong with it.

use std::time::Duration;

use queen_loadtest::report::{Report, median};

use crate::fault::Fault;
use crate::round::Round;

/// How many times longer a request may take under a fault, from its sending to the arrival of its
/// answer: where the generator shares its core with PostgreSQL, it is not what is judged.
const RATIO_MAX: f64 = 2.0;

/// How long a client that declares or removes may have to wait.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// A round without a fault and the one with it that followed.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) without: Round,
    pub(crate) with: Round,
}

/// The rounds of one fault.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) fault: Fault,
    /// At least one, unless the program broke off.
    pub(crate) pairs: Vec<Pair>,
}

impl Row {
    fn served_us(&self, percentile: f64, of: impl Fn(&Pair) -> &Report) -> f64 {
        let figure = |pair: &Pair| of(pair).served_us(percentile);
        median(self.pairs.iter().map(figure).collect())
    }

    /// The median of the ratios of a figure within a pair.
    fn ratio(&self, figure: impl Fn(&Report) -> f64) -> f64 {
        let ratio = |pair: &Pair| figure(&pair.with.cycles) / figure(&pair.without.cycles);
        median(self.pairs.iter().map(ratio).collect())
    }

    /// What is judged.
    fn p99_ratio(&self) -> f64 {
        self.ratio(|cycles| cycles.served_us(99.0))
    }

    fn longest_answer(&self) -> Duration {
        let longest = self.pairs.iter().map(|pair| pair.with.asked.longest);
        longest.max().unwrap_or_default()
    }

    /// The longest of the rounds; `None`: in one of them not at all.
    fn healed_after(&self) -> Option<Duration> {
        let healed = self.pairs.iter().map(|pair| pair.with.seen.healed_after);
        healed.max_by_key(|after| after.unwrap_or(Duration::MAX))?
    }

    /// The part of the fault in which the broker said that something is wrong.
    fn unhealthy(&self) -> f64 {
        let part = |pair: &Pair| pair.with.seen.unhealthy;
        median(self.pairs.iter().map(part).collect())
    }

    /// Its line of the table.
    fn line(&self) -> String {
        let of_without = |percentile| self.served_us(percentile, |pair| &pair.without.cycles);
        let of_with = |percentile| self.served_us(percentile, |pair| &pair.with.cycles);
        let healed = match self.healed_after() {
            Some(after) => format!("{:.1} s", after.as_secs_f64()),
            None => "never".to_owned(),
        };
        format!(
            "| {} | {:.0}, {:.0}, {:.0} | {:.0}, {:.0}, {:.0} | {:.2} | {:.2} | {:.1} s | \
             {:.0} % | {healed} |\n",
            self.fault.name(),
            of_without(50.0),
            of_without(99.0),
            of_without(99.9),
            of_with(50.0),
            of_with(99.0),
            of_with(99.9),
            self.p99_ratio(),
            self.ratio(|cycles| cycles.latency_us(99.0)),
            self.longest_answer().as_secs_f64(),
            self.unhealthy() * 100.0,
        )
    }

    /// What is wrong with it.
    fn faults(&self) -> Vec<String> {
        let (name, ratio, longest) = (self.fault.name(), self.p99_ratio(), self.longest_answer());
        let mut faults = Vec::new();
        if ratio > RATIO_MAX {
            faults.push(format!(
                "{name}: p99 is {ratio:.2} times that without the fault, more than {RATIO_MAX}"
            ));
        }
        faults.extend(self.certain_faults());
        if self.fault.lasts() && self.unhealthy() == 0.0 {
            faults.push(format!(
                "{name}: the broker did not notice, so nothing was measured"
            ));
        }
        if longest > ANSWER_MAX {
            faults.push(format!(
                "{name}: configure or delete took {longest:.1?}, more than {ANSWER_MAX:?}"
            ));
        }
        faults
    }

    /// What is wrong however noisy the machine is and however short the rounds are.
    fn certain_faults(&self) -> Option<String> {
        let unhealed = self.healed_after().is_none();
        unhealed.then(|| format!("{}: the broker did not heal", self.fault.name()))
    }
}

/// The table.
pub(crate) fn table(rows: &[Row]) -> String {
    let head = "| PostgreSQL | p50, p99, p99.9 of a request without, us | with, us | \
                p99 with : without | p99 of a cycle with : without, seen by the generator | \
                Longest configure or delete | Not healthy during the fault | Healed after |\n\
                |---|--:|--:|--:|--:|--:|--:|--:|\n";
    let lines = measured(rows).map(Row::line);
    std::iter::once(head.to_owned()).chain(lines).collect()
}

/// What is wrong. Unless it is to be judged, only what no noise of the machine explains.
pub(crate) fn faults(rows: &[Row], judged: bool) -> Vec<String> {
    measured(rows)
        .flat_map(|row| {
            if judged {
                row.faults()
            } else {
                row.certain_faults().into_iter().collect()
            }
        })
        .collect()
}

fn measured(rows: &[Row]) -> impl Iterator<Item = &Row> {
    rows.iter().filter(|row| !row.pairs.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::asker::Asked;
    use crate::round::Seen;

    fn round(request_us: u64, longest_s: u64, healed: bool) -> Round {
        let mut cycles = Report::default();
        for (times, histogram) in [(1, &mut cycles.served), (3, &mut cycles.latency)] {
            histogram.record_n(times * request_us * 1_000, 100).unwrap();
        }
        let longest = Duration::from_secs(longest_s);
        Round {
            cycles,
            asked: Asked {
                longest,
                ..Asked::default()
            },
            seen: Seen {
                unhealthy: 0.5,
                healed_after: healed.then_some(Duration::from_millis(300)),
            },
        }
    }

    fn row(fault: Fault, with: impl Fn() -> Round) -> Row {
        let pair = || Pair {
            without: round(100, 0, true),
            with: with(),
        };
        Row {
            fault,
            pairs: vec![pair(), pair(), pair()],
        }
    }

    #[test]
    fn what_holds_is_no_fault() {
        let rows = [row(Fault::Away, || round(190, 5, true))];
        assert!(faults(&rows, true).is_empty());
        let text = table(&rows);
        let last = text.lines().last().unwrap();
        assert!(
            last.starts_with(
                "| away | 100, 100, 100 | 190, 190, 190 | 1.90 | 1.90 | 5.0 s | 50 % |"
            )
        );
        assert!(last.ends_with("| 0.3 s |"), "{last}");
    }

    #[test]
    fn each_bound_is_judged_and_only_healing_where_nothing_else_is_to_be() {
        let slow = [row(Fault::Hanging, || round(210, 1, true))];
        assert!(faults(&slow, true)[0].contains("p99 is 2.10 times"));
        let late = [row(Fault::DiskFull, || round(100, 6, true))];
        assert!(faults(&late, true)[0].contains("took 6.0s"));
        for rows in [&slow, &late] {
            assert_eq!(faults(rows, true).len(), 1);
            assert!(faults(rows, false).is_empty());
        }
        let mut ill = row(Fault::Restarted, || round(100, 1, true));
        ill.pairs[1].with.seen.healed_after = None;
        let ill = [ill];
        for judged in [false, true] {
            assert_eq!(faults(&ill, judged), ["restarted: the broker did not heal"]);
        }
        assert!(table(&ill).contains("| never |"));
    }

    #[test]
    fn a_fault_that_nobody_notices_proves_nothing() {
        for (fault, count) in [(Fault::Away, 1), (Fault::Sessions, 0)] {
            let mut unseen = row(fault, || round(100, 1, true));
            for pair in &mut unseen.pairs {
                pair.with.seen.unhealthy = 0.0;
            }
            assert_eq!(faults(&[unseen], true).len(), count);
        }
        let unplayed = Row {
            fault: Fault::Away,
            pairs: Vec::new(),
        };
        assert!(faults(&[unplayed], true).is_empty());
    }
}
