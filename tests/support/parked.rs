//! A pop that waits at the broker.

use std::io;
use std::time::{Duration, Instant};

use super::client::{Answer, Client};
use super::poll::eventually;
use super::queue::{Message, Queue};

/// A pop that has been sent and is parked.
#[derive(Debug)]
pub(crate) struct Parked {
    client: Client,
    sent: Instant,
}

impl Parked {
    #[track_caller]
    pub(crate) fn start(queue: &Queue, mut client: Client, query: &str) -> Parked {
        let before = queue.waiting();
        let sent = Instant::now();
        let mut pairs = vec!["wait=true"];
        if !query.contains("timeout=") {
            pairs.push("timeout=20000");
        }
        if !query.is_empty() {
            pairs.push(query);
        }
        client.send("GET", &queue.pop_target(&pairs.join("&")), None);
        eventually("the pop is parked", || queue.waiting() > before);
        Parked { client, sent }
    }

    /// The connection, for what else is done to it.
    pub(crate) fn client(&mut self) -> &mut Client {
        &mut self.client
    }

    /// Gives the connection back.
    pub(crate) fn into_client(self) -> Client {
        self.client
    }

    /// Waits for the answer.
    #[track_caller]
    pub(crate) fn answer(&mut self) -> Answer {
        self.client.read()
    }

    /// Waits for the messages.
    #[track_caller]
    pub(crate) fn messages(&mut self) -> Vec<Message> {
        Message::all(&self.answer())
    }

    /// Waits for exactly one message.
    #[track_caller]
    pub(crate) fn message(&mut self) -> Message {
        let mut messages = self.messages();
        assert_eq!(messages.len(), 1, "{messages:?}");
        messages.remove(0)
    }

    /// Time since the pop was sent.
    pub(crate) fn elapsed(&self) -> Duration {
        self.sent.elapsed()
    }

    /// Nothing has come so far, and nothing comes for a moment longer.
    #[track_caller]
    pub(crate) fn assert_waiting(&mut self) {
        self.client.set_read_limit(Duration::from_millis(50));
        match self.client.try_read() {
            Ok(answer) => panic!("answered with {}", answer.text()),
            Err(fault) => assert!(
                matches!(
                    fault.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
                ),
                "{fault}"
            ),
        }
        self.client.set_read_limit(Duration::from_secs(30));
    }
}
