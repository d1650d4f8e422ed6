//! The table of ratios, and the goals that were missed.

use queen_loadtest::report::median;

use crate::comparison::{Spin, System};
use crate::rows::{Entry, RatioGoal, Row};

/// Writes one line for every figure of a row and every time that the broker polled.
pub(crate) fn table(rows: &[Row], polling_us: u32) -> String {
    let mut text = String::from(
        "| Work | Figure | `QUEEN_SPIN_US` | Broker | NATS | Redis | Broker : peer | Goal | Met | \
         Generator idle |\n|---|---|--:|--:|--:|--:|---|---|---|---|\n",
    );
    for line in lines(rows) {
        let polls = match line.spin {
            Spin::Off => "0".to_owned(),
            Spin::Polling => polling_us.to_string(),
            Spin::Default => "default".to_owned(),
        };
        let cells = [
            line.row.work.clone(),
            line.name().to_owned(),
            polls,
            line.figures(|system| matches!(system, System::Broker(_))),
            line.figures(|system| matches!(system, System::Nats | System::JetStream)),
            line.figures(|system| system == System::Redis),
            line.ratios(),
            joined(line.goals().map(|(peer, goal)| asked(peer, goal))),
            joined(line.goals().map(|(peer, goal)| {
                let is_met = goal.goal.is_met(line.ratio(peer));
                if is_met { "yes" } else { "no" }.to_owned()
            })),
            // The same for every figure of a measurement.
            match line.figure {
                0 => line.idle(),
                _ => String::new(),
            },
        ];
        text += &format!("| {} |\n", cells.join(" | "));
    }
    text
}

/// The goals that were missed, in words.
pub(crate) fn missed(rows: &[Row]) -> Vec<String> {
    let mut missed = Vec::new();
    for line in lines(rows) {
        for (peer, goal) in line.goals() {
            let ratio = line.ratio(peer);
            if !goal.goal.is_met(ratio) {
                let (work, figure, asked) = (&line.row.work, line.name(), asked(peer, goal));
                missed.push(format!(
                    "{work}, {figure}: {asked}, but measured {ratio:.2}"
                ));
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

fn lines(rows: &[Row]) -> impl Iterator<Item = Line<'_>> {
    rows.iter().flat_map(|row| {
        let figures = 0..row.measure.names().len();
        figures.flat_map(move |figure| {
            let line = move |&spin| Line { row, figure, spin };
            row.spins.iter().map(line)
        })
    })
}

impl<'a> Line<'a> {
    /// What its figure is.
    fn name(&self) -> &'static str {
        self.row.measure.names()[self.figure]
    }

    /// Who stands in it: the broker as it polls here, and the others.
    fn entries(&self) -> impl Iterator<Item = &'a Entry> + use<'a> {
        let spin = self.spin;
        let entries = self.row.entries.iter();
        entries.filter(move |entry| match entry.system {
            System::Broker(polls) => polls == spin,
            System::Redis | System::Nats | System::JetStream => true,
        })
    }

    fn peers(&self) -> impl Iterator<Item = &'a Entry> + use<'a> {
        let is_peer = |entry: &&Entry| !matches!(entry.system, System::Broker(_));
        self.entries().filter(is_peer)
    }

    /// What an entry measured, round by round.
    fn of(&self, entry: &Entry) -> Vec<f64> {
        let outcomes = entry.outcomes.iter();
        outcomes
            .map(|outcome| outcome.figures[self.figure])
            .collect()
    }

    /// The way of the broker that served best, where it has several.
    fn best(&self) -> &'a Entry {
        let better = |left: &&Entry, right: &&Entry| {
            let (left, right) = (median(self.of(left)), median(self.of(right)));
            if self.row.measure.is_rate() {
                left.total_cmp(&right)
            } else {
                right.total_cmp(&left)
            }
        };
        let is_own = |entry: &&Entry| entry.system == System::Broker(self.spin);
        let own = self.entries().filter(is_own);
        own.max_by(better).expect("the broker takes part")
    }

    /// The median of the ratios within a round.
    fn ratio(&self, peer: &Entry) -> f64 {
        let pairs = self.of(self.best()).into_iter().zip(self.of(peer));
        median(pairs.map(|(broker, peer)| broker / peer).collect())
    }

    fn figures(&self, is_shown: impl Fn(System) -> bool) -> String {
        let shown = self.entries().filter(|entry| is_shown(entry.system));
        joined(shown.map(|entry| {
            let figure = median(self.of(entry));
            if figure < 10_000.0 {
                named(&format!("{figure:.0}"), entry.way)
            } else if figure < 1e6 {
                named(&format!("{:.0} k", figure / 1e3), entry.way)
            } else {
                named(&format!("{:.2} M", figure / 1e6), entry.way)
            }
        }))
    }

    fn ratios(&self) -> String {
        joined(
            self.peers()
                .map(|peer| format!("{:.2} {}", self.ratio(peer), name(peer))),
        )
    }

    /// Its goals, each with whom it compares the broker with.
    fn goals(&self) -> impl Iterator<Item = (&'a Entry, &'a RatioGoal)> + use<'a> {
        let here = (self.figure, self.spin);
        self.peers().flat_map(move |peer| {
            let goals = peer.goals.iter();
            goals
                .filter(move |goal| (goal.figure, goal.spin) == here)
                .map(move |goal| (peer, goal))
        })
    }

    /// Near 0 the generator is the bottleneck.
    fn idle(&self) -> String {
        joined(self.entries().filter_map(|entry| {
            let outcomes = entry.outcomes.iter();
            let shares: Vec<f64> = outcomes.filter_map(|outcome| outcome.idle_share).collect();
            let share = (!shares.is_empty()).then(|| median(shares))?;
            Some(format!("{:.0} % {}", share * 100.0, name(entry)))
        }))
    }
}

fn asked(peer: &Entry, goal: &RatioGoal) -> String {
    format!("{} x {}", goal.goal, name(peer))
}

fn name(entry: &Entry) -> String {
    let system = match entry.system {
        System::Broker(_) => "broker",
        System::Redis => "Redis",
        System::Nats => "NATS",
        System::JetStream => "JetStream",
    };
    named(system, entry.way)
}

fn named(text: &str, way: &str) -> String {
    if way.is_empty() {
        return text.to_owned();
    }
    format!("{text} {way}")
}

fn joined(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<String>>().join("; ")
}

#[cfg(test)]
mod tests {
    use queen_loadtest::goal::Goal;

    use super::*;
    use crate::rows::{Measure, Outcome, RowName, Work};

    fn entry(system: System, way: &'static str, figures: [f64; 2]) -> Entry {
        let outcome = |figure| Outcome {
            figures: vec![figure],
            idle_share: Some(0.5),
        };
        Entry {
            outcomes: figures.map(outcome).into(),
            ..Entry::new(system, way, Work::Park)
        }
    }

    fn row(goal: Goal, spin: Spin) -> Row {
        let (polling, default) = (System::Broker(Spin::Polling), System::Broker(Spin::Default));
        Row {
            name: RowName::Take1,
            work: "work".to_owned(),
            measure: Measure::Rate(1),
            spins: &[Spin::Polling, Spin::Default],
            entries: vec![
                entry(polling, "slow", [2.0, 2.0]),
                entry(default, "slow", [1.0, 1.0]),
                entry(polling, "fast", [30e3, 20e3]),
                entry(default, "fast", [9e3, 9e3]),
                entry(System::Nats, "", [10e3, 10e3]).goal_of(0, spin, goal),
            ],
        }
    }

    #[test]
    fn the_best_way_is_judged_by_the_median_of_the_ratios_of_the_rounds() {
        assert!(missed(&[row(Goal::AtLeast(2.5), Spin::Polling)]).is_empty());
        assert_eq!(
            missed(&[row(Goal::AtLeast(2.6), Spin::Polling)]),
            ["work, round trips/s: at least 2.6 x NATS, but measured 2.50"]
        );
        assert!(missed(&[row(Goal::AtMost(0.9), Spin::Default)]).is_empty());
    }

    #[test]
    fn a_goal_stands_in_the_line_of_its_setting() {
        let text = table(&[row(Goal::AtLeast(3.0), Spin::Polling)], 700);
        let lines: Vec<&str> = text.lines().skip(2).collect();
        assert_eq!(lines.len(), 2);
        assert!(lines[0].starts_with(
            "| work | round trips/s | 700 | 2 slow; 25 k fast | 10 k |  | 2.50 NATS | \
             at least 3 x NATS | no |"
        ));
        assert!(lines[1].contains("| default | 1 slow; 9000 fast | 10 k |  | 0.90 NATS |  |  |"));
    }
}
