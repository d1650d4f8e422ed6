//! One run: a workload on its connections, paced by a schedule, measured from when work was due.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::LoadError;
use crate::fleet::{Fleet, Heard};
use crate::load::Load;
use crate::pace::{Due, Pace, nanoseconds};
use crate::protocol::Protocol;
use crate::report::Report;

/// Longest sleep, so that a run that makes no progress is given up in time.
const SLEEP_MAX: Duration = Duration::from_millis(50);

/// What is done on the connections. Those below `standing` begin once, at the start, and go on by
/// themselves (a consumer). The others have `depth` slots each, and a slot that is free is given a
/// unit of work whenever one is due.
pub trait Workload {
    /// What is spoken.
    type Protocol: Protocol;

    /// How many connections do standing work.
    fn standing(&self) -> usize {
        0
    }

    /// Appends the first request of a connection that does standing work to `out`.
    fn stand(&mut self, connection: usize, out: &mut Vec<u8>) {
        panic!("connection {connection} does no standing work: {out:?}");
    }

    /// Whether every unit of work is answered on the connection that began it; else a slot is free as
    /// soon as its request is written, and the units end by [`Step::Arrived`].
    fn is_answered(&self) -> bool {
        true
    }

    /// Begins a unit of work, due at `due_ns`: appends its first request to `out`.
    fn begin(&mut self, slot: Slot, due_ns: u64, out: &mut Vec<u8>);

    /// An answer came; the next request of the connection, if any, is appended to `out`.
    fn answered(
        &mut self,
        connection: usize,
        answer: &AnswerOf<'_, Self>,
        out: &mut Vec<u8>,
    ) -> Step;
}

/// An answer to what a workload asked.
pub type AnswerOf<'a, W> = <<W as Workload>::Protocol as Protocol>::Answer<'a>;

/// Where a unit of work is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Counts all slots, from 0.
    pub index: usize,
    /// Its connection.
    pub connection: usize,
}

impl Slot {
    /// The slot `index` on the `scheduled` connections after the `standing` ones: neighbours in time
    /// go to different connections.
    pub fn spread(index: usize, standing: usize, scheduled: usize) -> Slot {
        let connection = standing + index % scheduled;
        Slot { index, connection }
    }
}

/// What an answer meant. A slot is given by its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The next request was written, or others will be answered.
    Continued,
    /// The unit of work of this slot is over.
    Finished(usize),
    /// The slot is free; its unit of work ends on another connection, by [`Step::Arrived`].
    HandedOver(usize),
    /// A unit of work that another connection began, due at `due_ns`, has ended here; the next
    /// request was written.
    Arrived {
        /// When it was due.
        due_ns: u64,
    },
    /// The answer is not what was asked for: the unit of work is over and its time not recorded.
    Refused(usize),
    /// The same where the whole run means nothing any more, as on a connection that does standing
    /// work: it breaks off with what the answer says.
    Broken,
}

/// Runs `workload` and reports what was measured.
pub fn run<W: Workload>(load: &Load, workload: &mut W) -> Result<Report, LoadError> {
    let (standing, scheduled) = (workload.standing(), load.connections);
    assert!(scheduled > 0, "a connection is there for scheduled work");
    assert!(load.depth > 0, "a connection has a slot");
    assert!(
        load.depth == 1 || !load.is_kernel_timed,
        "the time in which a request is served is known of one at a time"
    );
    assert!(
        workload.is_answered() || load.rate_per_s > 0.0,
        "what nobody answers is held back by the rate alone"
    );
    let slots = scheduled * load.depth;
    let mut fleet = Fleet::connect(load.address, standing + scheduled, load.is_kernel_timed)?;
    let mut run = Run {
        workload,
        pace: Pace::new(load.rate_per_s, load.warmup, load.extent),
        started: Instant::now(),
        due: vec![
            Due {
                at_ns: 0,
                measured: false
            };
            slots
        ],
        free: (0..slots)
            .map(|index| Slot::spread(index, standing, scheduled))
            .collect(),
        standing,
        scheduled,
        owed: 0,
        owed_measured: 0,
        last_due_ns: 0,
        last_answer_ns: 0,
        idle_ns: 0,
        report: Report::default(),
    };
    for connection in 0..standing {
        run.workload.stand(connection, fleet.outgoing(connection));
        fleet.flush(connection)?;
    }
    run.go(load, &mut fleet)?;
    let mut report = run.report;
    let measured_ns = run.last_answer_ns.saturating_sub(run.pace.warmup_ns());
    report.elapsed = Duration::from_nanos(measured_ns);
    report.idle = load.spin.then_some(Duration::from_nanos(run.idle_ns));
    Ok(report)
}

struct Run<'a, W> {
    workload: &'a mut W,
    pace: Pace,
    started: Instant,
    /// Connections that do standing work, and those that do not.
    standing: usize,
    scheduled: usize,
    /// What each slot works on.
    due: Vec<Due>,
    free: VecDeque<Slot>,
    /// Units of work begun and not ended.
    owed: u64,
    /// Those of them that are measured.
    owed_measured: u64,
    last_due_ns: u64,
    last_answer_ns: u64,
    idle_ns: u64,
    report: Report,
}

impl<W: Workload> Run<'_, W> {
    fn now_ns(&self) -> u64 {
        nanoseconds(self.started.elapsed())
    }

    fn go(&mut self, load: &Load, fleet: &mut Fleet) -> Result<(), LoadError> {
        loop {
            load.interrupt.check()?;
            let now_ns = self.now_ns();
            while let Some(&slot) = self.free.front() {
                if !self.begin(slot, now_ns, fleet.outgoing(slot.connection)) {
                    break;
                }
                self.free.pop_front();
                if !self.workload.is_answered() {
                    self.free.push_back(slot);
                }
                fleet.flush(slot.connection)?;
            }
            let next_ns = self.pace.next_ns(now_ns);
            if next_ns.is_none() && self.owed == 0 {
                return Ok(());
            }
            let end_ns = self.pace.end_ns().unwrap_or(self.last_answer_ns);
            if now_ns.saturating_sub(end_ns) > nanoseconds(load.drain) {
                self.give_up(now_ns);
                return Ok(());
            }
            let timeout = self.timeout(load.spin, now_ns, next_ns);
            let answers =
                fleet.turn::<W::Protocol>(timeout, &mut |heard, out| self.heard(heard, out))?;
            if answers == 0 && now_ns >= self.pace.warmup_ns() {
                self.idle_ns += self.now_ns() - now_ns;
            }
        }
    }

    /// Gives the slot the next unit of work if one is due.
    fn begin(&mut self, slot: Slot, now_ns: u64, out: &mut Vec<u8>) -> bool {
        let Some(due) = self.pace.take(now_ns) else {
            return false;
        };
        self.due[slot.index] = due;
        self.owed += 1;
        self.owed_measured += u64::from(due.measured);
        self.last_due_ns = due.at_ns;
        self.workload.begin(slot, due.at_ns, out);
        true
    }

    fn timeout(&self, spin: bool, now_ns: u64, next_ns: Option<u64>) -> Duration {
        if spin {
            return Duration::ZERO;
        }
        let Some(at_ns) = next_ns.filter(|_| !self.free.is_empty()) else {
            return SLEEP_MAX;
        };
        let early_ns = at_ns.saturating_sub(now_ns);
        Duration::from_nanos(early_ns).min(SLEEP_MAX)
    }

    /// The slot's unit of work is over here: it gets the next one.
    fn freed(&mut self, index: usize, now_ns: u64, out: &mut Vec<u8>) {
        let slot = Slot::spread(index, self.standing, self.scheduled);
        if !self.begin(slot, now_ns, out) {
            self.free.push_back(slot);
        }
    }

    fn ended(&mut self, due_ns: u64, now_ns: u64) {
        self.owed = self.owed.saturating_sub(1);
        if due_ns >= self.pace.warmup_ns() {
            self.owed_measured = self.owed_measured.saturating_sub(1);
            self.report.finished += 1;
            self.report
                .latency
                .saturating_record(now_ns.saturating_sub(due_ns).max(1));
        }
    }

    /// What has not ended must not vanish from the percentiles: it took at least until now.
    fn give_up(&mut self, now_ns: u64) {
        let waited_ns = now_ns.saturating_sub(self.last_due_ns).max(1);
        self.report
            .latency
            .saturating_record_n(waited_ns, self.owed_measured);
        self.report.given_up = self.owed_measured;
        if !self.pace.is_open_loop() {
            return;
        }
        while let Some(due) = self.pace.take(now_ns) {
            if due.measured {
                self.report
                    .latency
                    .saturating_record((now_ns - due.at_ns).max(1));
                self.report.given_up += 1;
            }
        }
    }

    fn heard(&mut self, heard: Heard<'_, W::Protocol>, out: &mut Vec<u8>) -> Result<(), LoadError> {
        let Heard {
            connection,
            answer,
            served,
        } = heard;
        let now_ns = self.now_ns();
        self.last_answer_ns = now_ns;
        if now_ns >= self.pace.warmup_ns() {
            self.report.answers += 1;
            if let Some(served) = served {
                self.report.served.saturating_record(nanoseconds(served));
            }
        }
        match self.workload.answered(connection, &answer, out) {
            Step::Continued => {}
            Step::Finished(slot) => {
                self.ended(self.due[slot].at_ns, now_ns);
                self.freed(slot, now_ns, out);
            }
            Step::HandedOver(slot) => self.freed(slot, now_ns, out),
            Step::Arrived { due_ns } => self.ended(due_ns, now_ns),
            Step::Broken => return Err(W::Protocol::refused(&answer).into()),
            Step::Refused(slot) => {
                self.owed = self.owed.saturating_sub(1);
                let measured = u64::from(self.due[slot].measured);
                self.owed_measured = self.owed_measured.saturating_sub(measured);
                self.report.refuse(W::Protocol::refused(&answer));
                self.freed(slot, now_ns, out);
            }
        }
        Ok(())
    }
}
