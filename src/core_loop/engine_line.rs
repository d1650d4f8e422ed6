//! A shard core's way to the engine: what has to be stored before it holds goes there first.

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

    /// Whether the engine has a say in a command of a client: every declaration, and the removal of
    /// what is declared, or may be as long as nothing was loaded.
    pub(super) fn takes(
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
        self.inbox.try_send(job).map_err(|fault| match fault {
            TrySendError::Full(_) => Refusal::Overloaded {
                text: "more declarations wait to be stored than may; try again in a moment",
            },
            TrySendError::Disconnected(_) => unreachable!("the engine outlives the shard cores"),
        })
    }
}
