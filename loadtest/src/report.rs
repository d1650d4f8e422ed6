//! What a run measured, and how it is written down.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::Duration;

use hdrhistogram::Histogram;

use crate::{LoadError, Refused};

/// Nanoseconds above which a latency is recorded as this: one hour.
const LATENCY_NS_MAX: u64 = 3_600_000_000_000;

/// Significant decimal digits of a recorded latency.
const LATENCY_DIGITS: u8 = 3;

/// Steps per halving of the distance to 100 % in a percentile file.
const PERCENTILE_TICKS: u32 = 5;

/// What a run measured.
#[derive(Clone, Debug)]
pub struct Report {
    /// Nanoseconds from when a unit of work was due to its end.
    pub latency: Histogram<u64>,
    /// Nanoseconds from when a request was sent until its answer arrived at the generator's kernel;
    /// empty if that was not noted.
    pub served: Histogram<u64>,
    /// Measured units of work that ended as they should.
    pub finished: u64,
    /// Units of work that had not ended when the run gave up; they are in the histogram with the
    /// shortest time they can have taken.
    pub given_up: u64,
    /// Answers that a unit of work did not expect, by status; none where the wire has no such.
    pub refused: BTreeMap<Option<u16>, u64>,
    /// The first of them.
    pub first_refused: Option<Refused>,
    /// Answers of any kind in the measured part.
    pub answers: u64,
    /// Length of the measured part, up to the last answer.
    pub elapsed: Duration,
    /// Time of the measured part in which the generator had nothing to do; known only if it spins.
    pub idle: Option<Duration>,
}

impl Default for Report {
    /// Nothing measured yet.
    fn default() -> Report {
        let empty = Histogram::new_with_bounds(1, LATENCY_NS_MAX, LATENCY_DIGITS)
            .expect("the bounds of the histogram are constants");
        Report {
            latency: empty.clone(),
            served: empty,
            finished: 0,
            given_up: 0,
            refused: BTreeMap::new(),
            first_refused: None,
            answers: 0,
            elapsed: Duration::ZERO,
            idle: None,
        }
    }
}

impl Report {
    /// Answers a second.
    pub fn answers_per_s(&self) -> f64 {
        per_s(self.answers, self.elapsed)
    }

    /// Units of work a second.
    pub fn finished_per_s(&self) -> f64 {
        per_s(self.finished, self.elapsed)
    }

    /// Latency at `percentile` (0 to 100) in microseconds.
    pub fn latency_us(&self, percentile: f64) -> f64 {
        self.latency.value_at_percentile(percentile) as f64 / 1e3
    }

    /// Time in which a request was served at `percentile` (0 to 100), in microseconds.
    pub fn served_us(&self, percentile: f64) -> f64 {
        self.served.value_at_percentile(percentile) as f64 / 1e3
    }

    /// Part of the measured time in which the generator had nothing to do, 0 to 1. Near 0 the
    /// generator is the bottleneck and the figures are its own.
    pub fn idle_share(&self) -> Option<f64> {
        let idle = self.idle?.as_secs_f64();
        Some((idle / self.elapsed.as_secs_f64().max(1e-9)).min(1.0))
    }

    /// A unit of work was refused.
    pub(crate) fn refuse(&mut self, refused: Refused) {
        *self.refused.entry(refused.status).or_default() += 1;
        self.first_refused.get_or_insert(refused);
    }

    /// Whether everything that was asked was answered as it should be.
    pub fn is_clean(&self) -> bool {
        self.given_up == 0 && self.refused.is_empty()
    }

    /// The report, if it is clean.
    ///
    /// # Errors
    /// It is not; the text says how many units of work were not served, and why the first was not.
    pub fn clean(self) -> Result<Report, LoadError> {
        if self.is_clean() {
            return Ok(self);
        }
        let (refused, given_up) = (self.refused.values().sum::<u64>(), self.given_up);
        let first = self.first_refused.map(|first| format!(": {first}"));
        let first = first.unwrap_or_default();
        Err(LoadError::text(format!(
            "{given_up} units of work were given up, {refused} refused{first}"
        )))
    }

    /// Writes the figures for a reader.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(
            out,
            "finished    {} ({:.0}/s)",
            self.finished,
            self.finished_per_s()
        )?;
        writeln!(
            out,
            "answers     {} ({:.0}/s)",
            self.answers,
            self.answers_per_s()
        )?;
        writeln!(out, "measured    {:.3} s", self.elapsed.as_secs_f64())?;
        for percentile in [50.0, 90.0, 99.0, 99.9, 99.99] {
            writeln!(
                out,
                "p{percentile:<10} {:.1} us",
                self.latency_us(percentile)
            )?;
        }
        writeln!(out, "max         {:.1} us", self.latency.max() as f64 / 1e3)?;
        if let Some(share) = self.idle_share() {
            writeln!(out, "idle        {:.0} % of the generator", share * 100.0)?;
        }
        for (status, count) in &self.refused {
            match status {
                Some(status) => writeln!(out, "status {status}  {count}")?,
                None => writeln!(out, "refused     {count}")?,
            }
        }
        if let Some(first) = &self.first_refused {
            writeln!(out, "the first   {first}")?;
        }
        if self.given_up > 0 {
            writeln!(out, "given up    {}", self.given_up)?;
        }
        Ok(())
    }

    /// Writes the distribution in the text format of HdrHistogram, values in microseconds.
    pub fn write_percentiles(&self, out: &mut dyn Write) -> io::Result<()> {
        let latency = &self.latency;
        writeln!(
            out,
            "{:>12} {:>14} {:>10} {:>14}",
            "Value", "Percentile", "TotalCount", "1/(1-Percentile)"
        )?;
        writeln!(out)?;
        let mut total = 0;
        for step in latency.iter_quantiles(PERCENTILE_TICKS) {
            total += step.count_since_last_iteration();
            let value_us = step.value_iterated_to() as f64 / 1e3;
            let quantile = step.quantile_iterated_to();
            write!(out, "{value_us:>12.3} {quantile:>14.12} {total:>10}")?;
            if quantile < 1.0 {
                write!(out, " {:>14.2}", 1.0 / (1.0 - quantile))?;
            }
            writeln!(out)?;
        }
        let (mean_us, deviation_us) = (latency.mean() / 1e3, latency.stdev() / 1e3);
        writeln!(
            out,
            "#[Mean    = {mean_us:>12.3}, StdDeviation   = {deviation_us:>12.3}]"
        )?;
        let (max_us, count) = (latency.max() as f64 / 1e3, latency.len());
        writeln!(
            out,
            "#[Max     = {max_us:>12.3}, Total count    = {count:>12}]"
        )?;
        let (buckets, sub_buckets) = (latency.buckets(), latency.distinct_values());
        writeln!(
            out,
            "#[Buckets = {buckets:>12}, Distinct values = {sub_buckets:>11}]"
        )
    }
}

/// The median of at least one value.
pub fn median(mut values: Vec<f64>) -> f64 {
    assert!(!values.is_empty(), "there is at least one value");
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len().is_multiple_of(2) {
        return f64::midpoint(values[middle - 1], values[middle]);
    }
    values[middle]
}

fn per_s(count: u64, elapsed: Duration) -> f64 {
    count as f64 / elapsed.as_secs_f64().max(1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
    }

    #[test]
    fn the_percentile_file_ends_at_the_maximum() {
        let mut report = Report::default();
        for value_us in 1..=1_000 {
            report.latency.record(value_us * 1_000).unwrap();
        }
        let mut out = Vec::new();
        report.write_percentiles(&mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let rows: Vec<&str> = text
            .lines()
            .skip(2)
            .filter(|line| !line.starts_with('#'))
            .collect();
        let last: Vec<&str> = rows.last().unwrap().split_whitespace().collect();
        assert_eq!(last[1..], ["1.000000000000", "1000"]);
        assert!(last[0].parse::<f64>().unwrap() >= 1_000.0);
        let middle = rows
            .iter()
            .find(|row| row.contains(" 0.500000000000 "))
            .unwrap();
        let median_us: f64 = middle.split_whitespace().next().unwrap().parse().unwrap();
        assert!((499.0..=502.0).contains(&median_us), "{median_us}");
    }
}
