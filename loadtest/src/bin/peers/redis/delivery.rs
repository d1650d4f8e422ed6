//! Delivery to consumers that wait in `BLPOP`.

use super::resp::{Reply, Resp, begin, word};
use super::{blocking_pop, clear};
use queen_loadtest::LoadError;
use queen_loadtest::load::{Load, run_name};
use queen_loadtest::report::Report;
use queen_loadtest::run::{Slot, Step, Workload, run};
use queen_loadtest::wire::{self, PushText};

/// One consumer waits at each of `load.queues` lists while the other connections append to them in
/// turn. A unit of work is one message, appended and delivered.
pub(crate) fn delivery(load: &Load) -> Result<Report, LoadError> {
    clear(load.address)?;
    let run_name = run_name();
    let mut work = Delivery {
        pops: Vec::new(),
        pushes: Vec::new(),
        next_list: 0,
    };
    for index in 0..load.queues {
        let list = format!("load-{run_name}-{index}");
        let (mut pop, mut push) = (Vec::new(), Vec::new());
        blocking_pop(&list, &mut pop);
        begin(3, &mut push);
        word(b"RPUSH", &mut push);
        word(list.as_bytes(), &mut push);
        word(
            wire::stamped_payload(load.payload_bytes).as_bytes(),
            &mut push,
        );
        work.pops.push(pop);
        work.pushes.push(PushText::of(push));
    }
    run(&load.in_turn(), &mut work)
}

struct Delivery {
    pops: Vec<Vec<u8>>,
    pushes: Vec<PushText>,
    next_list: usize,
}

impl Workload for Delivery {
    type Protocol = Resp;

    fn standing(&self) -> usize {
        self.pops.len()
    }

    fn stand(&mut self, connection: usize, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.pops[connection]);
    }

    fn begin(&mut self, _: Slot, due_ns: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(self.pushes[self.next_list].stamped(due_ns));
        self.next_list = (self.next_list + 1) % self.pushes.len();
    }

    fn answered(&mut self, connection: usize, reply: &Reply<'_>, out: &mut Vec<u8>) -> Step {
        if let Some(slot) = connection.checked_sub(self.pops.len()) {
            return match reply {
                Reply::Integer(_) => Step::HandedOver(slot),
                _ => Step::Refused(slot),
            };
        }
        let value = reply.items().and_then(|mut items| items.nth(1));
        let stamp = value.and_then(Reply::bulk).and_then(wire::first_stamp);
        let Some(due_ns) = stamp else {
            return Step::Broken;
        };
        out.extend_from_slice(&self.pops[connection]);
        Step::Arrived { due_ns }
    }
}
