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
