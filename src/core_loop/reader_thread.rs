//! The reader on its thread, and how it reaches the shard cores. Answers become JSON there, so that a
//! long one costs no shard core more than a copy.

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use bytes::Bytes;
use crossbeam_channel::Receiver;

use super::bells::Bells;
use super::pinning;
use crate::api;
use crate::channel::{Answer, Frame, Port};
use crate::engine::{Askers, Reader, ReaderEnds, ReaderPlan, StopOrder};
use crate::model::durable::read::{Question, ReadReply};
use crate::model::{ClientRef, Refusal, Reply};

/// What the reader's thread is made with.
#[derive(Debug)]
pub struct ReaderParts {
    /// How to read, and what to remove.
    pub plan: ReaderPlan,
    /// What arrives from the shard cores.
    pub inbox: Receiver<Question>,
    /// CPUs that the thread may use, which are the engine's; empty: any.
    pub cpus: Vec<usize>,
    /// Its end of the lanes to the shard cores.
    pub port: Port,
    /// Wake the shard cores.
    pub bells: Bells,
}

/// The reader on its thread, as the main thread sees it.
#[derive(Debug)]
pub struct ReaderThread {
    thread: JoinHandle<()>,
    stop: Arc<StopOrder>,
    /// Dropped when the reader is to end.
    end: crossbeam_channel::Sender<()>,
}

impl ReaderThread {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system has no thread.
    pub fn start(parts: ReaderParts) -> io::Result<ReaderThread> {
        let (end, ended) = crossbeam_channel::bounded(0);
        let stop = Arc::new(StopOrder::default());
        let ends = ReaderEnds {
            inbox: parts.inbox,
            end: ended,
            stop: Arc::clone(&stop),
        };
        let askers = ShardCores {
            port: parts.port,
            bells: parts.bells,
        };
        let (plan, cpus) = (parts.plan, parts.cpus);
        let run = move || {
            pinning::hold_where_named(&cpus, "reader");
            Reader::new(plan, ends, askers).run();
        };
        let thread = thread::Builder::new().name("reader".into()).spawn(run)?;
        Ok(ReaderThread { thread, stop, end })
    }

    /// The broker stops: what is asked from now on is refused, and nobody waits on.
    pub fn order_stop(&self) {
        self.stop.give();
    }

    /// Nobody asks any more: the reader lets go of the server and ends.
    pub fn finish(self) {
        self.order_stop();
        drop(self.end);
        self.thread.join().expect("a panic ends the whole process");
    }
}

/// The shard cores, reached over lanes.
struct ShardCores {
    port: Port,
    bells: Bells,
}

impl Askers for ShardCores {
    fn answer(&mut self, client: ClientRef, reply: Result<ReadReply, Refusal>) {
        let reply = match reply {
            Ok(reply) => {
                let (status, body) = api::encode_read(&reply);
                let body = Bytes::from(body);
                Reply::Written { status, body }
            }
            Err(refusal) => Reply::Refused(refusal),
        };
        let answer = Box::new(Answer { client, reply });
        self.port.reply(client.core, Frame::Reply(answer));
    }

    fn flush(&mut self) -> bool {
        self.port.flush();
        let rings = self.port.take_rings();
        self.bells.ring(rings);
        self.port.waiting() > 0
    }
}
