//! The table of ratios, and what was missed.

use queen_loadtest::goal::Goal;
use queen_loadtest::report::median;

use crate::rows::{Line, Scene};

/// How a line came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// Nothing is asked of it.
    None,
    Goal,
    /// The goal is missed, but not the floor.
    Floor,
    Missed,
}

/// Writes one row for every line that was measured.
pub(crate) fn table(scenes: &[Scene]) -> String {
    let mut text = String::from(
        "| Work | Unit | Broker | Beside | Its figure | Ratio | Goal | Floor | Met |\n\
         |---|---|--:|---|--:|--:|---|---|---|\n",
    );
    for line in lines(scenes) {
        let asked = |goal: Option<Goal>| goal.map(|goal| goal.to_string()).unwrap_or_default();
        let met = match line.verdict() {
            Verdict::None => "",
            Verdict::Goal => "goal",
            Verdict::Floor => "floor",
            Verdict::Missed => "no",
        };
        let cells = [
            line.work.to_owned(),
            line.unit.to_owned(),
            figure(line.of(|pair| pair.broker)),
            line.beside.to_owned(),
            figure(line.of(|pair| pair.anchor)),
            format!("{:.2}", line.ratio()),
            asked(line.goal),
            asked(line.floor),
            met.to_owned(),
        ];
        text += &format!("| {} |\n", cells.join(" | "));
    }
    text
}

/// What missed its floor, or its goal where it has no floor, in words.
pub(crate) fn missed(scenes: &[Scene]) -> Vec<String> {
    let missed = lines(scenes).filter(|line| line.verdict() == Verdict::Missed);
    missed
        .map(|line| {
            let asked = line.floor.or(line.goal).expect("something is asked of it");
            let (work, beside, ratio) = (line.work, line.beside, line.ratio());
            format!("{work}: {asked} x {beside}, but measured {ratio:.2}")
        })
        .collect()
}

fn lines(scenes: &[Scene]) -> impl Iterator<Item = &Line> {
    let lines = scenes.iter().flat_map(|scene| &scene.lines);
    lines.filter(|line| !line.pairs.is_empty())
}

impl Line {
    /// The median of what the rounds measured.
    fn of(&self, figure: impl Fn(&crate::rows::Pair) -> f64) -> f64 {
        median(self.pairs.iter().map(figure).collect())
    }

    /// The median of the ratios within a round.
    fn ratio(&self) -> f64 {
        self.of(|pair| pair.broker / pair.anchor)
    }

    fn verdict(&self) -> Verdict {
        let is_met = |goal: Option<Goal>| goal.map(|goal| goal.is_met(self.ratio()));
        match (is_met(self.goal), is_met(self.floor)) {
            (None, None) => Verdict::None,
            (Some(true), _) => Verdict::Goal,
            (_, Some(true)) => Verdict::Floor,
            _ => Verdict::Missed,
        }
    }
}

fn figure(figure: f64) -> String {
    if figure < 10_000.0 {
        format!("{figure:.0}")
    } else if figure < 1e6 {
        format!("{:.0} k", figure / 1e3)
    } else {
        format!("{:.2} M", figure / 1e6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::{Pair, SceneName};

    fn scene(line: Line, pairs: [(f64, f64); 3]) -> Scene {
        Scene {
            name: SceneName::Bulk,
            lines: vec![Line {
                pairs: pairs
                    .map(|(broker, anchor)| Pair::new(broker, anchor))
                    .into(),
                ..line
            }],
            play: |_, _| unreachable!("it was played"),
        }
    }

    #[test]
    fn a_floor_may_be_met_where_the_goal_is_missed() {
        let line = Line::new("work", "messages/s", "an anchor")
            .goal(Goal::AtLeast(2.5))
            .floor(Goal::AtLeast(2.0));
        // The median of the ratios, not the ratio of the medians.
        let met = scene(line.clone(), [(20.0, 10.0), (30.0, 1.0), (44.0, 20.0)]);
        assert!(table(&[met]).ends_with("| 2.20 | at least 2.5 | at least 2 | floor |\n"));
        let met = scene(line.clone(), [(20.0, 10.0), (30.0, 1.0), (44.0, 20.0)]);
        assert!(missed(&[met]).is_empty());
        let low = scene(line, [(1.0, 1.0); 3]);
        assert_eq!(
            missed(&[low]),
            ["work: at least 2 x an anchor, but measured 1.00"]
        );
    }

    #[test]
    fn a_goal_without_a_floor_must_be_met() {
        let line = Line::new("work", "us", "an anchor").goal(Goal::AtMost(1.0));
        assert!(missed(&[scene(line.clone(), [(1.0, 1.0); 3])]).is_empty());
        assert_eq!(missed(&[scene(line, [(1.1, 1.0); 3])]).len(), 1);
        let unasked = Line::new("work", "us", "an anchor");
        assert!(missed(&[scene(unasked, [(9.0, 1.0); 3])]).is_empty());
    }
}
