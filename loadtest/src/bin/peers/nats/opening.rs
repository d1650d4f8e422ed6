//! The beginning of a connection. A server of NATS forgets what nobody has subscribed to, so nobody
//! publishes before all who listen are known to it.

use super::wire::{self, Said};
use queen_loadtest::run::Step;

/// Which connections are open, and what waits for that.
#[derive(Clone, Debug)]
pub(super) struct Opening {
    /// Connections that listen; those after them publish.
    listeners: usize,
    /// Listeners whose subscription the server has taken.
    listening: usize,
    publishers: Vec<Publisher>,
}

#[derive(Clone, Debug)]
enum Publisher {
    Closed,
    /// What is sent as soon as all listen.
    Waiting(Vec<u8>),
    Open,
}

/// A connection says who it is, to what it subscribes, and asks whether that was taken.
fn open(out: &mut Vec<u8>, subscribe: impl FnOnce(&mut Vec<u8>)) {
    wire::connect(out);
    subscribe(out);
    wire::ping(out);
}

impl Opening {
    pub(super) fn new(listeners: usize, publishers: usize) -> Opening {
        Opening {
            listeners,
            listening: 0,
            publishers: vec![Publisher::Closed; publishers],
        }
    }

    /// Opens the connection of a listener; `subscribe` appends to what.
    pub(super) fn listen(out: &mut Vec<u8>, subscribe: impl FnOnce(&mut Vec<u8>)) {
        open(out, subscribe);
    }

    /// Sends `text` on the connection of a publisher once all listen. The first time the connection is
    /// opened; `subscribe` appends what it listens to itself.
    pub(super) fn send(
        &mut self,
        connection: usize,
        text: &[u8],
        out: &mut Vec<u8>,
        subscribe: impl FnOnce(&mut Vec<u8>),
    ) {
        let publisher = &mut self.publishers[connection - self.listeners];
        match publisher {
            Publisher::Open => out.extend_from_slice(text),
            Publisher::Waiting(waiting) => waiting.extend_from_slice(text),
            Publisher::Closed => {
                open(out, subscribe);
                *publisher = Publisher::Waiting(text.to_vec());
            }
        }
    }

    /// Takes what is no message.
    pub(super) fn heard(&mut self, connection: usize, said: &Said<'_>, out: &mut Vec<u8>) -> Step {
        match said {
            Said::Ping => wire::pong(out),
            Said::Pong => self.taken(connection, out),
            Said::Info(_) | Said::Ok => {}
            Said::Error(_) | Said::Message(_) => return Step::Broken,
        }
        Step::Continued
    }

    /// The server has taken what the connection opened with.
    fn taken(&mut self, connection: usize, out: &mut Vec<u8>) {
        let Some(publisher) = connection.checked_sub(self.listeners) else {
            self.listening += 1;
            return;
        };
        if self.listening < self.listeners {
            // Asks until the last one is known.
            return wire::ping(out);
        }
        let before = std::mem::replace(&mut self.publishers[publisher], Publisher::Open);
        if let Publisher::Waiting(waiting) = before {
            out.extend_from_slice(&waiting);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_publishes_before_all_listen() {
        let mut opening = Opening::new(2, 1);
        let mut out = Vec::new();
        opening.send(2, b"PUB a 0\r\n\r\n", &mut out, |_| {});
        assert!(out.starts_with(b"CONNECT ") && out.ends_with(b"PING\r\n"));
        out.clear();
        opening.heard(0, &Said::Pong, &mut out);
        opening.heard(2, &Said::Pong, &mut out);
        assert_eq!(out, b"PING\r\n");
        out.clear();
        opening.send(2, b"PUB b 0\r\n\r\n", &mut out, |_| {});
        opening.heard(1, &Said::Pong, &mut out);
        assert!(out.is_empty());
        opening.heard(2, &Said::Pong, &mut out);
        assert_eq!(out, b"PUB a 0\r\n\r\nPUB b 0\r\n\r\n");
        opening.send(2, b"PUB c 0\r\n\r\n", &mut out, |_| {});
        assert!(out.ends_with(b"PUB c 0\r\n\r\n"));
    }
}
