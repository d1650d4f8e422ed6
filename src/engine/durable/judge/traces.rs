//! Where a message lies that a trace is noted of.

use super::{Judge, Judged};
use crate::engine::durable::image::CursorRef;
use crate::model::TenantId;
use crate::model::durable::{Ack, Address, Verdict};

impl Judge<'_> {
    /// The offset of a message, where it is found without a search through all that is stored: the group
    /// has taken it, or its transaction id is inside the queue's window.
    pub(in crate::engine::durable) fn offset_of(
        &mut self,
        tenant: TenantId,
        message: &Address,
        group: &str,
    ) -> Judged<Option<i64>> {
        let Some((queue, partition)) = self.partition_of(tenant, message.partition_id)? else {
            return Ok(None);
        };
        // A trace need not name a group, nor one that the queue has.
        if let Some(group_number) = self.memory.queue(queue).group(group) {
            let cursor = CursorRef {
                queue,
                group: group_number,
                partition,
            };
            let ack = Ack {
                partition_id: message.partition_id,
                transaction_id: message.transaction_id.clone(),
                verdict: Verdict::Completed,
                group: group.into(),
                lease_id: None,
                error: None,
            };
            if let Some(offset) = self.resolve_near(cursor, &[&ack])?[0] {
                return Ok(Some(offset));
            }
        }
        let transaction_id = message.transaction_id.as_bytes();
        let known = self.find_known(queue, partition, transaction_id)?;
        Ok(known.map(|known| known.offset))
    }
}

#[cfg(test)]
mod tests {
    use crate::engine::durable::durable_test::{Broker, TENANT, pop_of};
    use crate::engine::durable::gathering_test::configured;
    use crate::engine::durable::judge_of;
    use crate::engine::durable::store_test::Database;
    use crate::model::durable::{Address, OptionChange, OptionChanges};

    fn find(broker: &mut Broker, database: &mut Database, id: &str, group: &str) -> Option<i64> {
        let slot = judge_of(&mut broker.memory, database).queue(TENANT, "orders");
        let queue = broker.memory.queue(slot.expect("the database answers"));
        let partition = queue.partition("a").expect("it is there");
        let message = Address {
            partition: "a".into(),
            partition_id: Some(queue.partitions[partition].id),
            transaction_id: id.into(),
        };
        let mut judge = judge_of(&mut broker.memory, database);
        let offset = judge.offset_of(TENANT, &message, group);
        offset.expect("the database answers")
    }

    #[test]
    fn a_message_inside_the_window_is_found_whatever_group_is_named() {
        let (mut database, mut broker) = (Database::default(), Broker::new());
        broker.push(&mut database, &[("a", "1"), ("a", "2")]);
        for group in ["", "nobody"] {
            let found = find(&mut broker, &mut database, "2", group);
            assert_eq!(found, Some(1));
            let mut other = Broker::new();
            assert_eq!(find(&mut other, &mut database, "2", group), Some(1));
            assert_eq!(find(&mut other, &mut database, "3", group), None);
        }
    }

    #[test]
    fn a_message_without_a_window_is_found_where_its_group_has_taken_it() {
        let (mut database, mut broker) = configured(OptionChanges {
            dedup_window_s: OptionChange::Set(0),
            ..OptionChanges::default()
        });
        broker.push(&mut database, &[("a", "1"), ("a", "2")]);
        broker.pop(&mut database, pop_of(10, 1));
        let mut offset = |group| find(&mut broker, &mut database, "2", group);
        assert_eq!((offset("workers"), offset("")), (Some(1), None));
    }
}
