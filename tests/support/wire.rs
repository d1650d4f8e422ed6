//! The wire between a broker and its database, in the hands of a test: it lets so many messages of
//! PostgreSQL's protocol pass, in either direction, then none until it is let go on or breaks.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;

/// A wire that brokers connect to instead of the server. Gone when dropped, with all its lines.
#[derive(Debug)]
pub(crate) struct Wire {
    port: u16,
    gate: Arc<Gate>,
}

/// What every message passes.
#[derive(Debug, Default)]
struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Messages that pass before the wire holds; `None`: all.
    left: Option<u64>,
    is_held: bool,
    /// Both ends of each line that was opened since it broke last.
    lines: Vec<TcpStream>,
    /// How often it has broken: what comes from an older line is lost.
    breaks: u64,
    is_over: bool,
}

impl Wire {
    /// One to the server on a port of this machine. No TLS.
    pub(crate) fn to(server_port: u16) -> Wire {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = listener.local_addr().expect("its address").port();
        let gate = Arc::new(Gate::default());
        let kept = Arc::clone(&gate);
        thread::spawn(move || {
            for broker in listener.incoming() {
                if kept.lock().is_over {
                    return;
                }
                // Where the server does not answer, the broker's connection is closed at once.
                let _ = broker.and_then(|broker| open_line(broker, server_port, &kept));
            }
        });
        Wire { port, gate }
    }

    /// The port that it listens on.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// From now on so many messages pass and then none.
    pub(crate) fn hold_after(&self, messages: u64) {
        self.gate.lock().left = Some(messages);
    }

    /// Whether a message waits.
    pub(crate) fn is_held(&self) -> bool {
        self.gate.lock().is_held
    }

    /// Lets all messages pass.
    pub(crate) fn go_on(&self) {
        self.gate.open(|_| {});
    }

    /// Breaks: what waits is lost, and the lines are closed. New ones pass.
    pub(crate) fn cut(&self) {
        self.gate.open(|state| {
            state.breaks += 1;
            for line in state.lines.drain(..) {
                // A failure means that it has just been closed.
                let _ = line.shutdown(Shutdown::Both);
            }
        });
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.gate.lock().is_over = true;
        self.cut();
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, self.port)));
    }
}

impl Gate {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .unwrap_or_else(|poison| poison.into_inner())
    }

    fn open(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        state.left = None;
        state.is_held = false;
        change(&mut state);
        self.changed.notify_all();
    }

    /// Waits until a message of a line may pass; false: its line has broken.
    fn pass(&self, breaks: u64) -> bool {
        let mut state = self.lock();
        while state.breaks == breaks {
            match &mut state.left {
                None => return true,
                Some(0) => {
                    state.is_held = true;
                    let waited = self.changed.wait(state);
                    state = waited.unwrap_or_else(|poison| poison.into_inner());
                }
                Some(left) => {
                    *left -= 1;
                    return true;
                }
            }
        }
        false
    }
}

fn open_line(broker: TcpStream, server_port: u16, gate: &Arc<Gate>) -> io::Result<()> {
    let server = TcpStream::connect((Ipv4Addr::LOCALHOST, server_port))?;
    broker.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let ends = [broker.try_clone()?, server.try_clone()?];
    let breaks = {
        let mut state = gate.lock();
        state.lines.extend(ends);
        state.breaks
    };
    // The first message of a broker has no letter of its kind.
    let ways = [
        (0, broker.try_clone()?, server.try_clone()?),
        (1, server, broker),
    ];
    for (kind_bytes, mut source, mut target) in ways {
        let gate = Arc::clone(gate);
        thread::spawn(move || {
            // It ends when one of its ends is closed.
            let _ = carry(kind_bytes, (&mut source, &mut target), &gate, breaks);
            let _ = source.shutdown(Shutdown::Both);
            let _ = target.shutdown(Shutdown::Both);
        });
    }
    Ok(())
}

/// Carries message by message; the first one has so many bytes that say its kind, all others one.
fn carry(
    mut kind_bytes: usize,
    (source, target): (&mut TcpStream, &mut TcpStream),
    gate: &Gate,
    breaks: u64,
) -> io::Result<()> {
    loop {
        let mut message = vec![0; kind_bytes + 4];
        source.read_exact(&mut message)?;
        let length = message[kind_bytes..].try_into().expect("four bytes");
        // It counts itself.
        let length = usize::try_from(u32::from_be_bytes(length)).expect("a length");
        message.resize(kind_bytes + length, 0);
        source.read_exact(&mut message[kind_bytes + 4..])?;
        if !gate.pass(breaks) {
            return Ok(());
        }
        target.write_all(&message)?;
        kind_bytes = 1;
    }
}
