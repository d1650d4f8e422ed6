//! Delivery to subscribers.

use super::opening::Opening;
use super::wire::{self, NatsWire, Said};
use queen_loadtest::LoadError;
use queen_loadtest::load::{Load, run_name};
use queen_loadtest::report::Report;
use queen_loadtest::run::{Slot, Step, Workload, run};
use queen_loadtest::wire::{PushText, first_stamp, stamped_payload};

/// One subscriber listens to each of `load.queues` subjects while the other connections publish to
/// them in turn, in open loop: nobody answers a publisher. A unit of work is one message, published and
/// delivered.
pub(crate) fn delivery(load: &Load) -> Result<Report, LoadError> {
    assert!(
        load.rate_per_s > 0.0,
        "nothing but the rate holds publishers back"
    );
    let run_name = run_name();
    let subjects: Vec<String> = (0..load.queues)
        .map(|index| format!("load-{run_name}.{index}"))
        .collect();
    let payload = stamped_payload(load.payload_bytes);
    let texts = subjects.iter().map(|subject| {
        let mut text = Vec::new();
        wire::publish(subject.as_bytes(), None, payload.as_bytes(), &mut text);
        PushText::of(text)
    });
    let mut work = Delivery {
        texts: texts.collect(),
        opening: Opening::new(load.queues, load.connections),
        next_subject: 0,
        subjects,
    };
    run(&load.in_turn(), &mut work)
}

struct Delivery {
    texts: Vec<PushText>,
    opening: Opening,
    next_subject: usize,
    subjects: Vec<String>,
}

impl Workload for Delivery {
    type Protocol = NatsWire;

    fn standing(&self) -> usize {
        self.subjects.len()
    }

    fn is_answered(&self) -> bool {
        false
    }

    fn stand(&mut self, connection: usize, out: &mut Vec<u8>) {
        Opening::listen(out, |out| {
            wire::subscribe(&self.subjects[connection], None, 1, out);
        });
    }

    fn begin(&mut self, slot: Slot, due_ns: u64, out: &mut Vec<u8>) {
        let text = self.texts[self.next_subject].stamped(due_ns);
        self.opening.send(slot.connection, text, out, |_| {});
        self.next_subject = (self.next_subject + 1) % self.subjects.len();
    }

    fn answered(&mut self, connection: usize, said: &Said<'_>, out: &mut Vec<u8>) -> Step {
        let Said::Message(message) = said else {
            return self.opening.heard(connection, said, out);
        };
        match first_stamp(message.payload) {
            Some(due_ns) => Step::Arrived { due_ns },
            None => Step::Broken,
        }
    }
}
