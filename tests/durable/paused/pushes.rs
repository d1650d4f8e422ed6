//! A push is paused. Meanwhile the other broker pushes the same and more, takes, acks, and old messages
//! are removed, those too behind which the paused one was about to append.

use serde_json::{Value, json};

use super::{Answers, Ending, Pushed, Scene, ack, catch_up, offset_of, pop, push, text};
use crate::rig::PATIENCE;
use crate::support::{Client, eventually_within, unique};

/// What the brokers know when a push begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// Both know everything.
    All,
    /// The one that is paused may not have heard of what the other has stored just before.
    Late,
    /// The queue is new to both.
    Nothing,
}

/// One queue, and everything that an auditing group has got of it.
struct Audit<'a> {
    scene: &'a Scene,
    queue: String,
    /// In the order of delivery.
    log: Vec<Value>,
    rounds: u64,
    pushed: usize,
    removed: i32,
}

impl<'a> Audit<'a> {
    fn of(scene: &'a Scene) -> Audit<'a> {
        Audit {
            scene,
            queue: unique("paused"),
            log: Vec::new(),
            rounds: 0,
            pushed: 0,
            removed: 0,
        }
    }

    fn configure(&self) {
        let options = json!({
            "retentionEnabled": true, "retentionSeconds": 1000, "dedupWindowSeconds": 1000,
        });
        let body = json!({"queue": self.queue, "options": options});
        let mut client = self.scene.free.plain_client();
        client.post("/api/v1/configure", &body).expect(200);
    }

    /// Behind the last offset that the auditing group has got.
    fn next_offset(&self) -> u64 {
        self.log.last().map_or(0, |message| offset_of(message) + 1)
    }

    /// Pauses one push after so many messages; whether there was a pause.
    fn pause(&mut self, step: (u64, Ending), known: Known) -> bool {
        let round = self.rounds;
        self.rounds += 1;
        let name = |kind: &str| format!("{kind}-{round}");
        if known == Known::Late {
            let before = push(
                &mut self.scene.free.plain_client(),
                &self.queue,
                &[name("z")],
            );
            assert_eq!(before[&name("z")]["status"], "queued");
            self.pushed += 1;
        }
        let (asked, contested) = ([name("a"), name("x")], [name("x"), name("b")]);
        let (queue, old) = (self.queue.clone(), self.next_offset());
        let scene = self.scene;
        let answers = scene.pause_after(
            step,
            |client| push(client, &queue, &asked),
            |client| {
                let mut pushed = push(client, &queue, &contested);
                let audited = pop(client, &queue, "consumerGroup=audit&autoAck=true");
                settle(client, &queue);
                let removed = scene.retain(old);
                pushed.extend(push(client, &queue, &[name("c")]));
                (pushed, audited, removed)
            },
        );
        let (free, audited, removed) = answers.free;
        self.log.extend(audited);
        self.removed += removed;
        self.pushed += 4;
        check(&Answers {
            paused: answers.paused,
            free,
            was_held: answers.was_held,
        });
        answers.was_held
    }

    /// Where the partition ends in the database.
    fn stored(&self) -> i64 {
        let question = "SELECT max(piece.base_offset + piece.count) FROM queen.durable_queue AS home \
                        JOIN queen.durable_partition AS part ON part.queue_id = home.id \
                        JOIN queen.durable_segment AS piece ON piece.partition_id = part.id \
                        WHERE home.name = $1";
        let mut client = self.scene.database.client();
        client
            .query_one(question, &[&self.queue])
            .expect("an end")
            .get(0)
    }

    /// Everything is there once, in order, and without a gap, as it was answered.
    fn end(mut self) -> Vec<String> {
        self.scene.wait_until_stored();
        let mut client = self.scene.free.plain_client();
        eventually_within(PATIENCE, "the auditing group gets everything", || {
            catch_up(&mut client, self.log.last().expect("it has got some"));
            let more = pop(&mut client, &self.queue, "consumerGroup=audit&autoAck=true");
            self.log.extend(more);
            self.log.len() >= self.pushed
        });
        let offsets: Vec<u64> = self.log.iter().map(offset_of).collect();
        let expected: Vec<u64> = (0..self.pushed as u64).collect();
        assert_eq!(offsets, expected, "offsets have gaps or repeat");
        assert_eq!(
            self.stored(),
            self.pushed as i64,
            "there is more than was asked for"
        );
        let mut ids: Vec<String> = self
            .log
            .iter()
            .map(|message| text(message, "transactionId"))
            .collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), self.pushed, "something is there twice: {ids:?}");
        ids
    }
}

/// The workers take and settle what the free broker knows of.
fn settle(client: &mut Client, queue: &str) {
    let taken = pop(client, queue, "consumerGroup=workers&leaseSeconds=300");
    assert!(ack(client, &taken, "completed").iter().all(|done| *done));
}

/// The message that both have pushed is one of them's.
fn check(answers: &Answers<Pushed, Pushed>) {
    let status = |pushed: &Pushed, kind: &str| {
        let mut found = pushed.iter().filter(|(id, _)| id.starts_with(kind));
        let (_, answer) = found.next().expect("it was pushed");
        (text(answer, "status"), answer.clone())
    };
    let own = status(&answers.paused, "a-");
    assert!(["queued", "buffered"].contains(&&*own.0), "{own:?}");
    for kind in ["b-", "c-"] {
        assert_eq!(status(&answers.free, kind).0, "queued");
    }
    let (paused, free) = (status(&answers.paused, "x-"), status(&answers.free, "x-"));
    match (&*paused.0, &*free.0) {
        ("queued", "duplicate") | ("duplicate", "queued") => {
            for key in ["message_id", "offset"] {
                assert_eq!(paused.1[key], free.1[key], "{key}");
            }
        }
        // Which of them it will be shows when the spool is stored.
        ("buffered", "queued" | "duplicate") => assert_eq!(own.0, "buffered"),
        other => panic!("{other:?}"),
    }
}

/// Pauses pushes to one queue, each so many steps later than the one before.
fn attack(ending: Ending, known: Known, stride: u64) {
    let scene = Scene::begin();
    let mut audit = Audit::of(&scene);
    audit.configure();
    // Groups and the partition are there.
    push(
        &mut scene.paused.plain_client(),
        &audit.queue,
        &["first".to_owned()],
    );
    audit.pushed += 1;
    for group in ["audit", "workers"] {
        let query = format!("consumerGroup={group}&autoAck=true&wait=true&timeout=5000");
        let got = pop(&mut scene.free.plain_client(), &audit.queue, &query);
        assert_eq!(got.len(), 1);
        if group == "audit" {
            audit.log.extend(got);
        }
    }
    let mut messages = 0;
    // Once more, because the one that is late may have heard just in time.
    while audit.pause((messages, ending), known) || audit.pause((messages, ending), known) {
        messages += stride;
        if ending == Ending::Breaks {
            scene.wait_until_stored();
        }
    }
    // At the least: the question, and the answer of its four messages.
    assert!(messages >= 7, "only {messages} steps");
    assert!(audit.removed > 0, "nothing was removed meanwhile");
    let ids = audit.end();
    assert!(ids.contains(&"a-0".to_owned()));
}

#[test]
fn a_push_is_stored_once_wherever_it_is_paused() {
    attack(Ending::GoesOn, Known::All, 1);
}

#[test]
fn a_push_that_is_judged_again_is_stored_once_wherever_it_is_paused() {
    attack(Ending::GoesOn, Known::Late, 1);
}

#[test]
fn a_push_is_stored_once_wherever_its_wire_breaks() {
    attack(Ending::Breaks, Known::All, 1);
    // Each break costs a new session.
    attack(Ending::Breaks, Known::Late, 5);
}

#[test]
fn a_push_that_makes_its_queue_is_stored_once_wherever_it_is_paused() {
    let scene = Scene::begin();
    for messages in 0.. {
        let mut audit = Audit::of(&scene);
        let was_held = audit.pause((messages, Ending::GoesOn), Known::Nothing);
        audit.end();
        if !was_held {
            break;
        }
    }
}
