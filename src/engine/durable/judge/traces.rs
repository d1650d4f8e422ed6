//! Where a message lies that a trace is noted of.

use super::{Judge, Judged};
use crate::model::TenantId;
use crate::model::durable::{Ack, Address, Verdict};

impl Judge<'_> {
    /// The offset of a message, where it is found without a search: it was pushed lately, or its group
    /// is at it.
    pub(in crate::engine::durable) fn offset_of(
        &mut self,
        tenant: TenantId,
        message: &Address,
        group: &str,
    ) -> Judged<Option<i64>> {
        let ack = Ack {
            partition_id: message.partition_id,
            transaction_id: message.transaction_id.clone(),
            verdict: Verdict::Completed,
            group: group.into(),
            lease_id: None,
            error: None,
        };
        let Some(cursor) = self.place_of(tenant, &ack)? else {
            return Ok(None);
        };
        Ok(self.resolve_near(cursor, &[&ack])?[0])
    }
}
