//! The table of ratios, and the goals that were missed.

use std::fmt::Write as _;

use queen_loadtest::report::median;

use crate::contest::{Host, Spin};
use crate::rows::{Bound, Entry, Goal, Row};

/// Writes one line for every figure of a row and every time that the broker polled.
pub(crate) fn table(rows: &[Row], polling_us: u32) -> String {
    let mut text = String::from(
        "| Work | Figure | `QUEEN_SPIN_US` | Broker | NATS | Redis | Broker : peer | Goal | Met | \
         Generator idle |\n|---|---|--:|--:|--:|--:|---|---|---|---|\n",
    );
    for row in rows {
        for (figure, name) in row.measure.names().iter().enumerate() {
            for &spin in row.spins {
                let line = Line { row, figure, spin };
                let work = row.work;
                let polls = match spin {
                    Spin::Off => "0".to_owned(),
                    Spin::Polling => polling_us.to_string(),
                    Spin::Default => "default".to_owned(),
                };
                let cells = [
                    line.figures(&[Host::Broker]),
                    line.figures(&[Host::Nats, Host::JetStream]),
                    line.figures(&[Host::Redis]),
                    line.ratios(),
                    line.goals(),
                    line.verdicts(),
                    // The same for every figure of a measurement.
                    if figure == 0 {
                        line.idle()
                    } else {
                        String::new()
                    },
                ];
                let cells = cells.join(" | ");
                writeln!(text, "| {work} | {name} | {polls} | {cells} |")
                    .expect("writing to memory does not fail");
            }
        }
    }
    text
}

/// The goals that were missed, in words.
pub(crate) fn missed(rows: &[Row]) -> Vec<String> {
    let mut missed = Vec::new();
    for row in rows {
        for goal in &row.goals {
            let line = Line {
                row,
                figure: goal.figure,
                spin: goal.spin,
            };
            let reached = line.reached(goal);
            if !goal.bound.holds(reached) {
                let (work, asked) = (row.work, asked(goal));
                let figure = row.measure.names()[goal.figure];
                missed.push(format!("{work}, {figure}: {asked}, measured {reached:.2}"));
            }
        }
    }
    missed
}

/// One line of the table.
#[derive(Clone, Copy)]
struct Line<'a> {
    row: &'a Row,
    figure: usize,
    spin: Spin,
}

impl Bound {
    fn holds(self, value: f64) -> bool {
        match self {
            Bound::AtLeast(least) => value >= least,
            Bound::AtMost(most) => value <= most,
        }
    }
}

impl Line<'_> {
    /// What an entry measured, round by round.
    fn of(&self, entry: &Entry) -> Vec<f64> {
        let counts = |spin| entry.host != Host::Broker || spin == self.spin;
        let outcomes = entry.outcomes.iter().filter(|outcome| counts(outcome.spin));
        outcomes
            .map(|outcome| outcome.figures[self.figure])
            .collect()
    }

    /// The way of the broker that served best, where it has several.
    fn best(&self) -> &Entry {
        let of_broker = |entry: &&Entry| entry.host == Host::Broker;
        let better = |left: &&Entry, right: &&Entry| {
            let (left, right) = (median(self.of(left)), median(self.of(right)));
            if self.row.measure.is_rate() {
                left.total_cmp(&right)
            } else {
                right.total_cmp(&left)
            }
        };
        let entries = self.row.entries.iter().filter(of_broker);
        entries.max_by(better).expect("the broker takes part")
    }

    /// The median of the ratios within a round.
    fn ratio(&self, peer: &Entry) -> f64 {
        let pairs = self.of(self.best()).into_iter().zip(self.of(peer));
        median(pairs.map(|(broker, peer)| broker / peer).collect())
    }

    /// What a goal bounds.
    fn reached(&self, goal: &Goal) -> f64 {
        let Some((host, way)) = goal.against else {
            return median(self.of(self.best()));
        };
        let is_peer = |entry: &&Entry| entry.host == host && entry.way == way;
        let peer = self.row.entries.iter().find(is_peer);
        self.ratio(peer.expect("a goal names one who takes part"))
    }

    fn figures(&self, hosts: &[Host]) -> String {
        let entries = self.row.entries.iter();
        let shown = entries
            .filter(|entry| hosts.contains(&entry.host))
            .map(|entry| {
                let figure = median(self.of(entry));
                if figure < 10_000.0 {
                    named(format!("{figure:.0}"), entry.way)
                } else if figure < 1e6 {
                    named(format!("{:.0} k", figure / 1e3), entry.way)
                } else {
                    named(format!("{:.2} M", figure / 1e6), entry.way)
                }
            });
        joined(shown)
    }

    fn ratios(&self) -> String {
        let peers = self.row.entries.iter();
        let peers = peers.filter(|entry| entry.host != Host::Broker);
        joined(peers.map(|peer| format!("{:.2} {}", self.ratio(peer), name(peer.host, peer.way))))
    }

    fn own_goals(&self) -> impl Iterator<Item = &Goal> {
        let goals = self.row.goals.iter();
        goals.filter(|goal| (goal.figure, goal.spin) == (self.figure, self.spin))
    }

    fn goals(&self) -> String {
        joined(self.own_goals().map(asked))
    }

    fn verdicts(&self) -> String {
        joined(self.own_goals().map(|goal| {
            let holds = goal.bound.holds(self.reached(goal));
            if holds { "yes" } else { "no" }.to_owned()
        }))
    }

    /// Near 0 the generator is the bottleneck.
    fn idle(&self) -> String {
        let shown = self.row.entries.iter().filter_map(|entry| {
            let counts = |spin| entry.host != Host::Broker || spin == self.spin;
            let outcomes = entry.outcomes.iter().filter(|outcome| counts(outcome.spin));
            let shares: Vec<f64> = outcomes.filter_map(|outcome| outcome.idle_share).collect();
            let share = (!shares.is_empty()).then(|| median(shares))?;
            Some(format!(
                "{:.0} % {}",
                share * 100.0,
                name(entry.host, entry.way)
            ))
        });
        joined(shown)
    }
}

fn asked(goal: &Goal) -> String {
    let (word, bound) = match goal.bound {
        Bound::AtLeast(least) => ("at least", least),
        Bound::AtMost(most) => ("at most", most),
    };
    match goal.against {
        Some((host, way)) => format!("{word} {bound} x {}", name(host, way)),
        None => format!("{word} {bound}"),
    }
}

fn name(host: Host, way: &str) -> String {
    let host = match host {
        Host::Broker => "broker",
        Host::Redis => "Redis",
        Host::Nats => "NATS",
        Host::JetStream => "JetStream",
    };
    named(host.to_owned(), way)
}

fn named(text: String, way: &str) -> String {
    if way.is_empty() {
        return text;
    }
    format!("{text} {way}")
}

fn joined(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<String>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::{Deed, Measure, Outcome, RowName};
    use queen_loadtest::peer::parked::Consumers;

    fn entry(host: Host, way: &'static str, outcomes: &[(Spin, f64)]) -> Entry {
        let outcome = |&(spin, figure): &(Spin, f64)| Outcome {
            spin,
            figures: vec![figure],
            idle_share: Some(0.5),
        };
        Entry {
            host,
            way,
            deed: Deed::Park(Consumers::Broker),
            outcomes: outcomes.iter().map(outcome).collect(),
        }
    }

    fn row(goals: Vec<Goal>) -> Row {
        let (polling, default) = (Spin::Polling, Spin::Default);
        let of_broker = [
            (polling, 30e3),
            (default, 9e3),
            (default, 9e3),
            (polling, 20e3),
        ];
        let slower = [
            (polling, 2.0),
            (polling, 2.0),
            (default, 1.0),
            (default, 1.0),
        ];
        Row {
            name: RowName::Take1,
            work: "work",
            measure: Measure::Rate(1),
            spins: &[Spin::Polling, Spin::Default],
            entries: vec![
                entry(Host::Broker, "slow", &slower),
                entry(Host::Broker, "fast", &of_broker),
                entry(Host::Nats, "", &[(default, 10e3), (default, 10e3)]),
            ],
            goals,
        }
    }

    fn goal(bound: Bound, spin: Spin) -> Goal {
        Goal {
            figure: 0,
            spin,
            bound,
            against: Some((Host::Nats, "")),
        }
    }

    #[test]
    fn the_best_way_is_judged_by_the_median_of_the_ratios_of_the_rounds() {
        let held = goal(Bound::AtLeast(2.5), Spin::Polling);
        assert!(missed(&[row(vec![held])]).is_empty());
        let broken = goal(Bound::AtLeast(2.6), Spin::Polling);
        assert_eq!(
            missed(&[row(vec![broken])]),
            ["work, round trips/s: at least 2.6 x NATS, measured 2.50"]
        );
        let at_default = goal(Bound::AtMost(0.9), Spin::Default);
        assert!(missed(&[row(vec![at_default])]).is_empty());
    }

    #[test]
    fn a_goal_stands_in_the_line_of_its_setting() {
        let text = table(&[row(vec![goal(Bound::AtLeast(3.0), Spin::Polling)])], 700);
        let lines: Vec<&str> = text.lines().skip(2).collect();
        assert_eq!(lines.len(), 2);
        assert!(lines[0].starts_with(
            "| work | round trips/s | 700 | 2 slow; 25 k fast | 10 k |  | 2.50 NATS | \
             at least 3 x NATS | no |"
        ));
        assert!(lines[1].contains("| default | 1 slow; 9000 fast | 10 k |  | 0.90 NATS |  |  |"));
    }
}
