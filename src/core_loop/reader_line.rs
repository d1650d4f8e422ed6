//! A shard core's way to the reader, which answers questions about what is stored.

use std::time::Instant;

use crossbeam_channel::{Sender, TrySendError};

use crate::model::durable::read::{Question, Read};
use crate::model::{ClientRef, Refusal, TenantId};

/// The sending end of the reader's inbox.
#[derive(Clone, Debug)]
pub struct ReaderLine {
    inbox: Sender<Question>,
}

impl ReaderLine {
    /// A line to the reader that receives from `inbox`.
    pub fn new(inbox: Sender<Question>) -> ReaderLine {
        ReaderLine { inbox }
    }

    /// Hands a question to the reader, which answers `client` some time.
    ///
    /// # Errors
    /// As many wait as may.
    pub(super) fn ask(
        &self,
        client: ClientRef,
        tenant: TenantId,
        read: Read,
    ) -> Result<(), Refusal> {
        let question = Question {
            client,
            tenant,
            read,
            since: Instant::now(),
        };
        self.inbox.try_send(question).map_err(|fault| match fault {
            TrySendError::Full(_) => Refusal::Overloaded {
                text: "more questions wait for the database than may; try again in a moment",
            },
            TrySendError::Disconnected(_) => unreachable!("the reader outlives the shard cores"),
        })
    }
}
