//! What an answer took, until its client has it.

use uuid::Uuid;

use super::exchange::popped_by;
use crate::model::durable::Reply as DurableReply;
use crate::model::{Popped, Reply};

/// What has to be given back if an answer cannot be delivered.
#[derive(Debug)]
pub enum Claim {
    /// Messages of the ephemeral class.
    Ephemeral(Popped),
    /// A lease of the durable class.
    Durable {
        /// Over everything that was taken.
        lease_id: Uuid,
    },
}

impl Claim {
    /// What an answer took, if it took something that can be given back.
    pub(super) fn of(reply: Reply) -> Option<Claim> {
        match reply {
            Reply::Popped(popped) if !popped.messages.is_empty() => Some(Claim::Ephemeral(popped)),
            Reply::Exchanged(exchanged) => popped_by(*exchanged).map(Claim::Ephemeral),
            Reply::Durable(reply) => match *reply {
                DurableReply::Popped(popped) => Some(Claim::Durable {
                    lease_id: popped.lease_id?,
                }),
                _ => None,
            },
            _ => None,
        }
    }
}
