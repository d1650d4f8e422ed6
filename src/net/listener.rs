//! Listening and accepting.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};

use super::Service;
use super::connections::Connections;
use super::lingering::linger;
use super::port_holder::{self, PortHolder};
use crate::http::{Fault, ResponseStyle};
use crate::limits;
use crate::runtime::{self, Listener, Stream};

/// Quiet time after which the kernel asks whether the peer is still there.
const KEEPALIVE_TIME: Duration = Duration::from_secs(15);

/// Time between two such questions.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);

/// Time that bytes may stay unacknowledged, keepalive questions included.
const USER_TIMEOUT: Duration = Duration::from_secs(30);

/// Answer to a client that finds no room.
const TOO_MANY_CONNECTIONS: Fault = Fault {
    status: 503,
    code: "too_many_connections",
    text: "the broker has as many connections as it may have",
};

/// The address cannot be listened on.
#[derive(Debug, thiserror::Error)]
pub enum ListenFault {
    /// Somebody else does already.
    #[error("{address} is in use{}", by(.holder))]
    InUse {
        /// The address.
        address: SocketAddr,
        /// Who does, if /proc shows it.
        holder: Option<PortHolder>,
    },
    /// Anything else, such as a missing right or an address that this host does not have.
    #[error("cannot listen on {address}: {source}")]
    Other {
        /// The address.
        address: SocketAddr,
        /// What the kernel said.
        source: io::Error,
    },
}

fn by(holder: &Option<PortHolder>) -> String {
    holder
        .as_ref()
        .map_or_else(String::new, |holder| format!(" by {holder}"))
}

/// Tries whether `address` is free. Without `SO_REUSEPORT`, so that a second broker is refused
/// instead of sharing the port; with `SO_REUSEADDR`, so that connections which a predecessor left
/// in TIME_WAIT do not matter. Port 0 is always free. Blocks up to [`limits::PORT_RELEASE_MS`] while
/// nobody is seen to hold the port: of a killed predecessor the kernel may still be taking an
/// io_uring down, and with it the listening socket.
///
/// # Errors
/// The address cannot be listened on.
pub fn probe(address: SocketAddr) -> Result<(), ListenFault> {
    let give_up = Instant::now() + Duration::from_millis(limits::PORT_RELEASE_MS);
    loop {
        let result = socket(address, false).and_then(|socket| socket.bind(&address.into()));
        match result.map_err(|source| fault(address, source)) {
            Err(ListenFault::InUse { holder: None, .. }) if Instant::now() < give_up => {
                std::thread::sleep(Duration::from_millis(10));
            }
            result => return result,
        }
    }
}

/// Listens on `address`, sharing the port with the other cores of this process; at most `backlog`
/// connections wait to be accepted.
///
/// # Errors
/// The address cannot be listened on.
pub fn bind(address: SocketAddr, backlog: u32) -> Result<TcpListener, ListenFault> {
    let backlog = i32::try_from(backlog).unwrap_or(i32::MAX);
    let listen = || -> io::Result<TcpListener> {
        let socket = socket(address, true)?;
        socket.bind(&address.into())?;
        socket.listen(backlog)?;
        socket.set_nonblocking(true)?;
        Ok(socket.into())
    };
    listen().map_err(|source| fault(address, source))
}

fn socket(address: SocketAddr, share_port: bool) -> io::Result<Socket> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    socket.set_reuse_address(true)?;
    if share_port {
        socket.set_reuse_port(true)?;
    }
    Ok(socket)
}

fn fault(address: SocketAddr, source: io::Error) -> ListenFault {
    if source.kind() == io::ErrorKind::AddrInUse {
        return ListenFault::InUse {
            address,
            holder: port_holder::find(address.port()),
        };
    }
    ListenFault::Other { address, source }
}

/// Connections of the process; one for all cores.
#[derive(Clone, Debug, Default)]
pub struct ConnectionCount(Arc<AtomicUsize>);

impl ConnectionCount {
    /// None yet.
    pub fn new() -> ConnectionCount {
        ConnectionCount::default()
    }

    /// Connections that are open now.
    pub fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Counts one more in, unless there are `maximum`.
    pub fn acquire(&self, maximum: usize) -> Option<Permit> {
        let added = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |open| {
                (open < maximum).then_some(open + 1)
            });
        added.ok().map(|_| Permit(Arc::clone(&self.0)))
    }
}

/// The right of one connection to be open; counted out when dropped.
#[derive(Debug)]
pub struct Permit(Arc<AtomicUsize>);

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Starts the task that accepts for this core. It ends with [`Connections::stop`], after everything
/// in the accept queue was accepted. One listener for each registry.
///
/// # Errors
/// Those of registering the socket with the runtime.
pub fn listen<S: Service>(
    socket: TcpListener,
    connections: &Connections<S>,
    count: &ConnectionCount,
) -> io::Result<()> {
    let listener = Listener::from_std(socket)?;
    let door = Door {
        connections: connections.clone(),
        count: count.clone(),
    };
    connections.core.count_other(1);
    runtime::spawn(async move {
        door.accept_until_stop(&listener).await;
        door.drain(&listener).await;
        listener.close();
        door.connections.core.count_other(-1);
    });
    Ok(())
}

/// Where the connections of one core come in.
struct Door<S: Service> {
    connections: Connections<S>,
    count: ConnectionCount,
}

impl<S: Service> Door<S> {
    async fn accept_until_stop(&self, listener: &Listener) {
        let mut failing = false;
        while !self.connections.is_stopping() {
            let readable = {
                let mut readable = pin!(listener.readable());
                std::future::poll_fn(|context| {
                    if self
                        .connections
                        .core
                        .stop_notice
                        .poll_notified(context)
                        .is_ready()
                    {
                        return Poll::Ready(Ok(()));
                    }
                    readable.as_mut().poll(context)
                })
                .await
            };
            let result = match readable {
                Ok(()) => self.accept_waiting(listener).await.map(|_| ()),
                Err(error) => Err(error),
            };
            if let Err(error) = &result {
                if !failing {
                    tracing::warn!(%error, "connections cannot be accepted");
                }
                pause().await;
            } else if failing {
                tracing::info!("connections can be accepted again");
            }
            failing = result.is_err();
        }
    }

    /// Accepts what is left in the queue; gives up when the kernel refuses.
    async fn drain(&self, listener: &Listener) {
        while let Ok(true) = self.accept_waiting(listener).await {}
    }

    /// Accepts what waits, a step at most; whether more may wait.
    async fn accept_waiting(&self, listener: &Listener) -> io::Result<bool> {
        for _ in 0..limits::ACCEPT_STEP_MAX {
            match listener.accept() {
                Ok(Some(socket)) => self.admit(socket),
                Ok(None) => return Ok(false),
                Err(error) if is_of_one_connection(&error) => {}
                Err(error) => return Err(error),
            }
        }
        runtime::next_turn().await;
        Ok(true)
    }

    fn admit(&self, socket: TcpStream) {
        // A connection that is gone already refuses its options, and its first read tells.
        let _ = set_options(&socket);
        let Ok(stream) = Stream::from_std(socket) else {
            return;
        };
        let maximum = self.connections.settings().max_connections;
        match self.count.acquire(maximum) {
            Some(permit) => self.connections.serve(stream, permit),
            None => self.turn_away(stream),
        }
    }

    /// Answers 503 to a connection that finds no room.
    fn turn_away(&self, stream: Stream) {
        let core = &self.connections.core;
        if core.others.get() > limits::REFUSED_CONNECTIONS_MAX {
            return;
        }
        core.count_other(1);
        let connections = self.connections.clone();
        runtime::spawn(async move {
            let mut bytes = bytes::BytesMut::new();
            connections
                .service()
                .refuse(&TOO_MANY_CONNECTIONS, ResponseStyle::CLOSING, &mut bytes);
            let stream = std::rc::Rc::new(stream);
            let watched = std::rc::Rc::downgrade(&stream);
            runtime::spawn(async move {
                runtime::sleep(Duration::from_millis(limits::LINGER_MS)).await;
                if let Some(stream) = watched.upgrade() {
                    stream.shutdown_both();
                }
            });
            if stream.write_all(bytes).await.0.is_ok() {
                let started = runtime::now();
                let end = started.after_ms(limits::LINGER_MS);
                let buffer = connections.core.pool.take();
                let buffer = linger(&stream, buffer, || runtime::now() >= end).await;
                connections.core.pool.give(buffer);
            }
            connections.core.count_other(-1);
        });
    }
}

async fn pause() {
    runtime::sleep(Duration::from_millis(limits::ACCEPT_PAUSE_MS)).await;
}

/// Whether accept(2) reports a fault of the connection, which it has taken from the queue, rather
/// than one of the process.
fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::Interrupted
    )
}

fn set_options(socket: &TcpStream) -> io::Result<()> {
    socket.set_nodelay(true)?;
    let socket = SockRef::from(socket);
    let keepalive = TcpKeepalive::new()
        .with_time(KEEPALIVE_TIME)
        .with_interval(KEEPALIVE_INTERVAL);
    socket.set_tcp_keepalive(&keepalive)?;
    socket.set_tcp_user_timeout(Some(USER_TIMEOUT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_bounded_and_given_back() {
        let count = ConnectionCount::new();
        let first = count.acquire(1).unwrap();
        assert!(count.acquire(1).is_none());
        assert_eq!(count.get(), 1);
        drop(first);
        assert_eq!(count.get(), 0);
    }

    #[test]
    fn a_port_that_is_listened_on_is_refused_with_its_holder() {
        let listener = bind("127.0.0.1:0".parse().unwrap(), 16).unwrap();
        let address = listener.local_addr().unwrap();
        let fault = probe(address).unwrap_err();
        let text = fault.to_string();
        assert!(
            text.contains(&format!("process {}", std::process::id())),
            "{text}"
        );
        bind(address, 16).unwrap();
    }
}
