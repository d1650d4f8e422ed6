//! Traces that are noted.

use std::time::Duration;

use tokio_postgres::types::ToSql;

use crate::limits::SESSION_STATEMENT_MS;
use crate::model::TenantId;
use crate::model::durable::NewTrace;
use crate::postgres::durable::batch::storable;
use crate::postgres::durable::{BATCH_LOCK, uuid_of};
use crate::postgres::{Session, SessionFault};

impl Session {
    /// Notes a trace; its id, or `None` where the tenant has no such partition. `offset`: that of the
    /// message, if it is known.
    ///
    /// # Errors
    /// `Write`: nothing was stored. `Away`: it is not known.
    pub fn record_trace(
        &mut self,
        tenant: TenantId,
        trace: &NewTrace,
        offset: Option<i64>,
    ) -> Result<Option<i64>, SessionFault> {
        let Some(partition_id) = trace.message.partition_id else {
            return Ok(None);
        };
        let owner = uuid_of(tenant);
        let transaction_id = storable(&trace.message.transaction_id);
        let data = String::from_utf8_lossy(&trace.data);
        let timeout = Duration::from_millis(SESSION_STATEMENT_MS);
        self.write(timeout, async |client, statements| {
            let statements = &statements.durable;
            // A queue that is deleted meanwhile would leave it behind.
            client.execute(&statements.lock, &[&BATCH_LOCK]).await?;
            let values: [&(dyn ToSql + Sync); 9] = [
                &owner,
                &partition_id,
                &transaction_id,
                &offset,
                &trace.group,
                &trace.worker,
                &trace.event,
                &data,
                &trace.names,
            ];
            let record = &statements.admin.record_trace;
            let row = client.query_opt(record, &values).await?;
            row.map(|row| row.try_get("id")).transpose()
        })
    }
}
