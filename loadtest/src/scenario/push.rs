//! One push at a time and connection, into queues that are full and drop their oldest message.

use super::Load;
use crate::LoadError;
use crate::report::Report;
use crate::response::Response;
use crate::run::{Step, Workload, run};
use crate::wire::PushText;

/// Nobody pops, so that the queue must make room: at a bounded size every push evicts one.
const OPTIONS: &str = r#"{"maxLength":1024,"policy":"dropOldest"}"#;

/// Single pushes; a unit of work is one.
pub fn push(load: &Load) -> Result<Report, LoadError> {
    load.with_queues(OPTIONS, |queues| {
        let texts = queues
            .iter()
            .map(|queue| PushText::new(queue, load.payload_bytes))
            .collect();
        run(&load.plan(0), &mut Pushes { texts })
    })
}

struct Pushes {
    texts: Vec<PushText>,
}

impl Workload for Pushes {
    fn standing(&self) -> usize {
        0
    }

    fn begin(&mut self, connection: usize, due_ns: u64, out: &mut Vec<u8>) {
        let queue = connection % self.texts.len();
        out.extend_from_slice(self.texts[queue].stamped(due_ns));
    }

    fn answered(&mut self, _: usize, response: &Response<'_>, _: &mut Vec<u8>) -> Step {
        if response.status == 201 {
            Step::Finished
        } else {
            Step::Refused
        }
    }
}
