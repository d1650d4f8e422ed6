//! A shard core's way to the engine: what has to be stored before it holds goes there first, and every
//! request of the durable class.

use std::sync::Arc;
use std::time::Instant;

use crossbeam_channel::{Sender, TrySendError};

use crate::directory::Directory;
use crate::engine::Status;
use crate::model::{Change, ClientRef, Command, Job, Refusal, TenantId, Tier};

/// The sending end of the engine's inbox, and what is known of the engine.
#[derive(Clone, Debug)]
pub struct EngineLine {
    inbox: Sender<Job>,
    status: Arc<Status>,
}

impl EngineLine {
    /// A line to the engine that receives from `inbox`.
    pub fn new(inbox: Sender<Job>, status: Arc<Status>) -> EngineLine {
        EngineLine { inbox, status }
    }

    /// Whether a command of a client is stored before it holds: every declaration, and the removal of
    /// what is declared, or may be as long as nothing was loaded.
    pub(super) fn stores_first(
        &self,
        directory: &Directory,
        tenant: TenantId,
        command: &Command<'_>,
    ) -> bool {
        match command {
            Command::Configure(configure) => !configure.stored,
            Command::Delete(queue) => {
                let cell = directory.peek(tenant, queue.as_str());
                let declared = cell.map(|cell| cell.configuration().tier == Tier::Declared);
                declared == Some(true) || !self.status.get().loaded
            }
            Command::Push(_)
            | Command::Pop(_)
            | Command::Ack(_)
            | Command::Reset(_)
            | Command::Queues(_)
            | Command::Depth { .. } => false,
        }
    }

    /// Hands a change to the engine, which answers `client` some time.
    ///
    /// # Errors
    /// As many wait as may.
    pub(super) fn send(
        &self,
        client: ClientRef,
        tenant: TenantId,
        change: Change,
    ) -> Result<(), Refusal> {
        let job = Job {
            client,
            tenant,
            change,
            since: Instant::now(),
        };
        match self.tell(job) {
            None => Ok(()),
            Some(_) => Err(Refusal::Overloaded {
                text: "more requests wait for the database than may; try again in a moment",
            }),
        }
    }

    /// Hands a job over; it comes back where as many wait as may.
    pub(super) fn tell(&self, job: Job) -> Option<Job> {
        match self.inbox.try_send(job) {
            Ok(()) => None,
            Err(TrySendError::Full(job)) => Some(job),
            Err(TrySendError::Disconnected(_)) => {
                unreachable!("the engine outlives the shard cores")
            }
        }
    }
}
