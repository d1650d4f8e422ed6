//! The one fork: which core serves a command. Sees names, never bytes.

use crate::model::{Ack, Command, DEFAULT_PARTITION, MessageId, TenantId};
use crate::placement;

/// Where a command goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// One shard core serves it.
    To(u16),
    /// Its acks belong to several owners.
    Split,
    /// Any core can: it is read from what all cores share.
    Anywhere,
}

/// The core that serves `command`: the owner of its partition, or the queue's home (the owner of its
/// `Default` partition) where it names none.
pub fn route(tenant: TenantId, command: &Command<'_>, shards: u16) -> Route {
    let (queue, partition) = match command {
        Command::Push(push) => (push.queue.as_str(), push.partition.as_str()),
        Command::Pop(pop) => {
            let partition = pop.partition.as_ref().map(|partition| partition.as_str());
            (pop.queue.as_str(), partition.unwrap_or(DEFAULT_PARTITION))
        }
        Command::Ack(ack) => return route_of_acks(tenant, ack, shards),
        Command::Configure(configure) => (configure.queue.as_str(), DEFAULT_PARTITION),
        Command::Reset(queue) | Command::Delete(queue) | Command::Depth { queue, .. } => {
            (queue.as_str(), DEFAULT_PARTITION)
        }
        Command::Queues(_) => return Route::Anywhere,
    };
    Route::To(placement::owner(tenant, queue, partition, shards))
}

/// The queue of a command in which every shard that knows the queue has a part.
pub fn whole_queue<'a>(command: &'a Command<'_>) -> Option<&'a str> {
    match command {
        Command::Configure(configure) => Some(configure.queue.as_str()),
        Command::Reset(queue) | Command::Delete(queue) | Command::Depth { queue, .. } => {
            Some(queue.as_str())
        }
        Command::Push(_) | Command::Pop(_) | Command::Ack(_) | Command::Queues(_) => None,
    }
}

/// The owner of the message that an id names; the queue's home for what is no id.
pub fn owner_of_id(tenant: TenantId, queue: &str, id: &str, shards: u16) -> u16 {
    let partition = MessageId::parse(id).map_or(DEFAULT_PARTITION, |id| id.partition);
    placement::owner(tenant, queue, partition, shards)
}

fn route_of_acks(tenant: TenantId, ack: &Ack<'_>, shards: u16) -> Route {
    if shards == 1 {
        return Route::To(0);
    }
    let queue = ack.queue.as_str();
    let owner = |id: &str| owner_of_id(tenant, queue, id, shards);
    let mut items = ack.acks.iter();
    let first = items.next().map_or_else(
        || placement::owner(tenant, queue, DEFAULT_PARTITION, shards),
        |item| owner(&item.id),
    );
    if items.all(|item| owner(&item.id) == first) {
        Route::To(first)
    } else {
        Route::Split
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;
    use crate::model::{AckItem, GroupName, PartitionName, Pop, Push, QueueName, Verdict};

    fn queue() -> QueueName<'static> {
        QueueName::new("q").expect("a name")
    }

    #[test]
    fn a_pop_without_partition_goes_to_the_queues_home() {
        let push = Command::Push(Push {
            queue: queue(),
            partition: PartitionName::DEFAULT,
            payloads: Vec::new(),
        });
        let pop = Command::Pop(Pop {
            queue: queue(),
            partition: None,
            group: GroupName::QUEUE_MODE,
            batch: 1,
            wait_ms: None,
            since: None,
            auto_ack: false,
        });
        let route = |command| route(TenantId::DEFAULT, command, 64);
        assert_eq!(route(&push), route(&pop));
        assert_eq!(route(&pop), route(&Command::Reset(queue())));
    }

    #[test]
    fn acks_go_to_the_owners_of_their_partitions() {
        let ack = |partitions: &[&str]| {
            let item = |partition: &&str| AckItem {
                id: Cow::Owned(format!("e:1:{partition}:7")),
                verdict: Verdict::Completed,
            };
            Command::Ack(Ack {
                queue: queue(),
                group: GroupName::QUEUE_MODE,
                acks: partitions.iter().map(item).collect(),
            })
        };
        let owner = |partition| placement::owner(TenantId::DEFAULT, "q", partition, 64);
        assert_ne!(owner("a"), owner("b"));
        let route = |command| route(TenantId::DEFAULT, &command, 64);
        assert_eq!(route(ack(&["a", "a"])), Route::To(owner("a")));
        assert_eq!(route(ack(&["a", "b"])), Route::Split);
        assert_eq!(route(ack(&[])), Route::To(owner("Default")));
    }
}
