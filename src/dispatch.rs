//! The one fork: which core serves a command. Sees names, never bytes.

use crate::model::{Command, DEFAULT_PARTITION, TenantId};
use crate::placement;

/// The shard core that serves `command`: the owner of its partition, or the queue's home (the owner
/// of its `Default` partition) where it names none.
pub fn owner_of(tenant: TenantId, command: &Command<'_>, shards: u16) -> u16 {
    let (queue, partition) = match command {
        Command::Push(push) => (push.queue.as_str(), push.partition.as_str()),
        Command::Pop(pop) => {
            let partition = pop.partition.as_ref().map(|partition| partition.as_str());
            (pop.queue.as_str(), partition.unwrap_or(DEFAULT_PARTITION))
        }
        Command::Ack(ack) => (ack.queue.as_str(), DEFAULT_PARTITION),
        Command::Configure(configure) => (configure.queue.as_str(), DEFAULT_PARTITION),
        Command::Reset(queue) | Command::Delete(queue) | Command::Depth { queue, .. } => {
            (queue.as_str(), DEFAULT_PARTITION)
        }
        // Read from the directory, which every core sees.
        Command::Queues(_) => return 0,
    };
    placement::owner(tenant, queue, partition, shards)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{GroupName, PartitionName, Pop, Push, QueueName};

    #[test]
    fn a_pop_without_partition_goes_to_the_queues_home() {
        let queue = || QueueName::new("q").expect("a name");
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
        let owner = |command| owner_of(TenantId::DEFAULT, command, 64);
        assert_eq!(owner(&push), owner(&pop));
        assert_eq!(owner(&pop), owner(&Command::Reset(queue())));
    }
}
