//! Faults that the simulation found, smallest first. Each test drives a core without sockets, on a
//! fake clock.

use std::sync::Arc;

use bytes::Bytes;
use queen::channel::Port;
use queen::core_loop::ShardCore;
use queen::directory::{Bounds, Directory};
use queen::model::{
    Ack, AckItem, ClientRef, Command, Configure, GroupName, Incarnation, MessageId, Moment,
    PartitionName, Pop, Popped, Push, QueueName, QueueOptions, Reply, TenantId, Verdict,
    WindowBuffer,
};
use queen::shard::{Shard, ShardSettings};

const INCARNATION: Incarnation = Incarnation(7);
const LINGER_MS: u64 = 2_000;

struct Core {
    core: ShardCore,
    now: Moment,
    clients: u32,
}

impl Core {
    fn new() -> Core {
        let directory = Arc::new(Directory::new(Bounds {
            broker_bytes: 1 << 20,
            queue_bytes: 1 << 16,
            queue_length: 1_000,
            lease_ms: 60_000,
            retry_limit: 5,
            rate: None,
            require_grant: false,
            tenants: 1,
            shards: 1,
        }));
        let settings = ShardSettings {
            incarnation: INCARNATION,
            shard: 0,
            shards: 1,
            ttl_tick_ms: 1,
            linger_ms: LINGER_MS,
            implicit_idle_ms: 0,
        };
        let shard = Shard::new(settings, Arc::clone(&directory));
        Core {
            core: ShardCore::new(Port::alone(), shard, directory),
            now: Moment::ZERO,
            clients: 0,
        }
    }

    fn client(&mut self) -> ClientRef {
        self.clients += 1;
        ClientRef {
            core: 0,
            connection: self.clients,
            request: 0,
            generation: 0,
        }
    }

    fn command(&mut self, command: Command<'_>) -> Option<Reply> {
        let client = self.client();
        self.core
            .command(self.now, client, TenantId::DEFAULT, command)
            .reply()
    }

    fn sleep(&mut self, ms: u64) {
        let target = self.now.after_ms(ms);
        while let Some(next) = self.core.next_deadline().filter(|next| *next <= target) {
            self.now = self.now.max(next);
            self.core.tick(self.now);
        }
        self.now = target;
    }

    fn push(&mut self, partition: &str, payloads: &[&'static str]) {
        let command = Command::Push(Push {
            queue: QueueName::new("q").expect("a name"),
            partition: PartitionName::new(partition).expect("a name"),
            payloads: payloads.iter().map(|&one| Bytes::from(one)).collect(),
        });
        let reply = self.command(command);
        assert!(matches!(reply, Some(Reply::Pushed { .. })), "{reply:?}");
    }

    fn pop(&mut self, partition: Option<&str>, group: &str, batch: u32) -> Popped {
        let command = pop(partition, group, batch, None);
        match self.command(command) {
            Some(Reply::Popped(popped)) => popped,
            other => panic!("{other:?}"),
        }
    }

    fn park(&mut self, partition: Option<&str>, batch: u32) -> ClientRef {
        let reply = self.command(pop(partition, "g", batch, Some(60_000)));
        assert!(reply.is_none(), "{reply:?}");
        ClientRef {
            core: 0,
            connection: self.clients,
            request: 0,
            generation: 0,
        }
    }

    fn configure(&mut self, window_buffer: WindowBuffer) {
        let reply = self.command(Command::Configure(Configure {
            queue: QueueName::new("q").expect("a name"),
            options: QueueOptions {
                window_buffer,
                ..QueueOptions::default()
            },
            options_as_sent: "{}".into(),
            stored: false,
        }));
        assert!(matches!(reply, Some(Reply::Configured { .. })), "{reply:?}");
    }

    fn complete(&mut self, popped: &Popped, group: &str) {
        let acks = popped.messages.iter().map(|one| {
            let id = MessageId {
                incarnation: INCARNATION,
                partition: &one.partition,
                sequence: one.sequence,
            };
            AckItem {
                id: id.to_string().into(),
                verdict: Verdict::Completed,
            }
        });
        let command = Command::Ack(Ack {
            queue: QueueName::new("q").expect("a name"),
            group: GroupName::new(group).expect("a name"),
            acks: acks.collect(),
        });
        self.command(command);
    }

    fn give_back(&mut self, popped: Popped) {
        self.core.give_back(self.now, popped);
    }

    /// Who was answered since, and with which payloads.
    fn answered(&mut self) -> Vec<(ClientRef, Vec<String>)> {
        self.core.shard().check();
        let answers = std::iter::from_fn(|| self.core.next_answer());
        let texts = answers.map(|answer| match answer.reply {
            Reply::Popped(popped) => (answer.client, texts(&popped)),
            other => panic!("{other:?}"),
        });
        texts.collect()
    }
}

fn pop(partition: Option<&str>, group: &str, batch: u32, wait_ms: Option<u64>) -> Command<'static> {
    Command::Pop(Pop {
        queue: QueueName::new("q").expect("a name"),
        partition: partition.map(|one| PartitionName::new(one.to_owned()).expect("a name")),
        group: GroupName::new(group.to_owned()).expect("a name"),
        batch,
        wait_ms,
        since: None,
        auto_ack: false,
    })
}

fn texts(popped: &Popped) -> Vec<String> {
    let text = |one: &Bytes| String::from_utf8(one.to_vec()).expect("text");
    popped
        .messages
        .iter()
        .map(|one| text(&one.payload))
        .collect()
}

const WINDOW: WindowBuffer = WindowBuffer { ms: 0, count: 3 };

#[test]
fn a_first_delivery_that_is_given_back_does_not_move_the_cursor_back() {
    let mut core = Core::new();
    core.push("a", &["1", "2"]);
    let first = core.pop(Some("a"), "g", 1);
    let second = core.pop(Some("a"), "g", 1);
    core.give_back(first);
    let again = core.pop(Some("a"), "g", 1);
    assert_eq!(
        (texts(&again), again.messages[0].attempts),
        (vec!["1".to_owned()], 1)
    );
    core.complete(&second, "g");
    assert!(core.pop(Some("a"), "g", 9).messages.is_empty());
    assert!(core.answered().is_empty());
}

#[test]
fn what_lingers_since_a_late_ack_goes_when_the_ring_was_idle() {
    let mut core = Core::new();
    core.push("a", &["1"]);
    let popped = core.pop(Some("a"), "g", 1);
    core.sleep(1_000);
    core.complete(&popped, "g");
    core.sleep(LINGER_MS + 1);
    assert!(core.pop(Some("a"), "late", 9).messages.is_empty());
}

#[test]
fn a_message_that_is_given_back_leaves_no_hole_in_what_lingers() {
    let mut core = Core::new();
    core.push("a", &["1", "2"]);
    let first = core.pop(Some("a"), "g", 1);
    core.complete(&first, "g");
    let Command::Pop(mut settled) = pop(Some("a"), "g", 1, None) else {
        unreachable!()
    };
    settled.auto_ack = true;
    let Some(Reply::Popped(second)) = core.command(Command::Pop(settled)) else {
        panic!("no answer")
    };
    core.give_back(second);
    let second = core.pop(Some("a"), "g", 1);
    core.complete(&second, "g");
    assert_eq!(texts(&core.pop(Some("a"), "late", 9)), ["1", "2"]);
}

#[test]
fn configure_that_ends_a_window_serves_whom_it_held() {
    let mut core = Core::new();
    core.configure(WINDOW);
    let held = core.park(Some("a"), 9);
    core.push("a", &["1"]);
    assert!(core.answered().is_empty());
    core.configure(WindowBuffer::default());
    assert_eq!(core.answered(), [(held, vec!["1".to_owned()])]);
}

#[test]
fn a_pop_behind_a_window_is_served_when_the_older_one_vanishes() {
    let mut core = Core::new();
    core.configure(WINDOW);
    let held = core.park(None, 9);
    let behind = core.park(Some("a"), 1);
    core.push("a", &["1"]);
    assert!(core.answered().is_empty());
    core.core.abandon(core.now, held);
    assert_eq!(core.answered(), [(behind, vec!["1".to_owned()])]);
}

#[test]
fn a_younger_pop_of_any_partition_leaves_what_a_window_gathers() {
    let mut core = Core::new();
    core.configure(WINDOW);
    let held = core.park(Some("a"), 9);
    core.push("a", &["1"]);
    core.park(None, 1);
    core.push("a", &["2", "3"]);
    let all = ["1", "2", "3"].map(str::to_owned).to_vec();
    assert_eq!(core.answered(), [(held, all)]);
}

#[test]
fn a_pop_behind_a_window_is_served_when_the_older_one_is_served_elsewhere() {
    let mut core = Core::new();
    core.configure(WINDOW);
    // Partition b comes before a in the round robin.
    core.pop(Some("b"), "g", 1);
    core.push("b", &["0"]);
    assert_eq!(texts(&core.pop(Some("b"), "g", 1)), ["0"]);
    let held = core.park(None, 2);
    let behind = core.park(Some("a"), 1);
    core.push("a", &["1"]);
    assert!(core.answered().is_empty());
    core.push("b", &["2", "3"]);
    let elsewhere = ["2", "3"].map(str::to_owned).to_vec();
    let left = vec!["1".to_owned()];
    assert_eq!(core.answered(), [(held, elsewhere), (behind, left)]);
}
