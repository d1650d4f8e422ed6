//! Many non-blocking connections under one epoll. Knows where an answer ends, not what it means.

use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use mio::net::TcpStream;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use crate::LoadError;
use crate::kernel_clock::{self, KernelTime};
use crate::protocol::Protocol;

/// Events taken from the kernel at once.
const EVENTS_MAX: usize = 1_024;

/// Bytes read at once.
const READ_BYTES: usize = 64 * 1024;

/// The timer among the connections.
const TIMER: Token = Token(usize::MAX);

/// An answer that has come in.
#[derive(Debug)]
pub struct Heard<'a, P: Protocol> {
    /// Its connection.
    pub connection: usize,
    /// What it says.
    pub answer: P::Answer<'a>,
    /// From when its request was handed to the kernel to when the kernel received it; known only of
    /// connections that are timed by the kernel and have one request under way.
    pub served: Option<Duration>,
}

/// All connections of one run.
#[derive(Debug)]
pub struct Fleet {
    poll: Poll,
    events: Events,
    connections: Vec<Connection>,
    /// Wakes to the microsecond, where epoll alone wakes to the millisecond.
    timer: OwnedFd,
    scratch: Vec<u8>,
}

#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    /// The beginning of an answer that is not whole yet.
    incoming: Vec<u8>,
    outgoing: Vec<u8>,
    sent: usize,
    /// Whether the kernel notes when bytes arrive.
    is_kernel_timed: bool,
    /// When the last request was sent, if that is noted.
    sent_at: Option<KernelTime>,
}

impl Fleet {
    /// Opens `count` connections to `address`; `is_kernel_timed`: the time in which each request is
    /// served is told.
    pub fn connect(address: SocketAddr, count: usize, is_kernel_timed: bool) -> io::Result<Fleet> {
        let poll = Poll::new()?;
        let mut connections = Vec::with_capacity(count);
        for index in 0..count {
            let stream = std::net::TcpStream::connect(address)?;
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            if is_kernel_timed {
                kernel_clock::note_arrivals(&stream)?;
            }
            let mut stream = TcpStream::from_std(stream);
            let interest = Interest::READABLE | Interest::WRITABLE;
            poll.registry()
                .register(&mut stream, Token(index), interest)?;
            connections.push(Connection {
                stream,
                incoming: Vec::new(),
                outgoing: Vec::new(),
                sent: 0,
                is_kernel_timed,
                sent_at: None,
            });
        }
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)?;
        poll.registry()
            .register(&mut SourceFd(&timer.as_raw_fd()), TIMER, Interest::READABLE)?;
        Ok(Fleet {
            poll,
            events: Events::with_capacity(EVENTS_MAX),
            connections,
            timer,
            scratch: vec![0; READ_BYTES],
        })
    }

    /// The buffer that [`Fleet::flush`] sends; requests are appended to it.
    pub fn outgoing(&mut self, index: usize) -> &mut Vec<u8> {
        &mut self.connections[index].outgoing
    }

    /// Sends what the kernel takes; the rest follows when the connection is writable.
    pub fn flush(&mut self, index: usize) -> io::Result<()> {
        self.connections[index].flush()
    }

    /// Waits until something happens or `timeout` has passed, and has `hear` take every answer; what
    /// it appends to the outgoing buffer of the connection is sent. Returns the number of answers.
    pub fn turn<P: Protocol>(
        &mut self,
        timeout: Duration,
        hear: &mut impl FnMut(Heard<'_, P>, &mut Vec<u8>) -> Result<(), LoadError>,
    ) -> Result<usize, LoadError> {
        if !timeout.is_zero() {
            self.set_timer(timeout)?;
        }
        match self.poll.poll(&mut self.events, Some(timeout)) {
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(0),
            outcome => outcome?,
        }
        let mut count = 0;
        for event in &self.events {
            // It has done its work; setting it anew makes it ready for the next.
            if event.token() == TIMER {
                continue;
            }
            let index = event.token().0;
            let connection = &mut self.connections[index];
            if event.is_readable() || event.is_error() {
                count += connection.read(index, &mut self.scratch, hear)?;
            }
            connection.flush()?;
        }
        Ok(count)
    }

    fn set_timer(&self, timeout: Duration) -> io::Result<()> {
        let at = Timespec::try_from(timeout).map_err(io::Error::other)?;
        let once = Itimerspec {
            it_interval: Timespec::default(),
            it_value: at,
        };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once)?;
        Ok(())
    }
}

impl Connection {
    fn flush(&mut self) -> io::Result<()> {
        if self.is_kernel_timed && self.sent == 0 && !self.outgoing.is_empty() {
            self.sent_at = Some(KernelTime::now());
        }
        while self.sent < self.outgoing.len() {
            match self.stream.write(&self.outgoing[self.sent..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.outgoing.clear();
        self.sent = 0;
        Ok(())
    }

    fn read<P: Protocol>(
        &mut self,
        index: usize,
        scratch: &mut [u8],
        hear: &mut impl FnMut(Heard<'_, P>, &mut Vec<u8>) -> Result<(), LoadError>,
    ) -> Result<usize, LoadError> {
        let mut answers = 0;
        loop {
            let received = if self.is_kernel_timed {
                kernel_clock::receive(&self.stream, scratch)
            } else {
                self.stream.read(scratch).map(|count| (count, None))
            };
            let (count, arrived_at) = match received {
                Ok((0, _)) => return Err(LoadError::Closed),
                Ok(received) => received,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(answers),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error.into()),
            };
            let served = arrived_at
                .zip(self.sent_at)
                .map(|(arrived, sent)| arrived.since(sent));
            let mut take = |answer: P::Answer<'_>, out: &mut Vec<u8>| {
                let heard = Heard {
                    connection: index,
                    answer,
                    served,
                };
                hear(heard, out)
            };
            answers += if self.incoming.is_empty() {
                let (used, answers) =
                    take_answers::<P>(&scratch[..count], &mut self.outgoing, &mut take)?;
                self.incoming.extend_from_slice(&scratch[used..count]);
                answers
            } else {
                self.incoming.extend_from_slice(&scratch[..count]);
                let (used, answers) =
                    take_answers::<P>(&self.incoming, &mut self.outgoing, &mut take)?;
                self.incoming.drain(..used);
                answers
            };
            // A short read has emptied the socket; the next bytes raise a new event (epoll(7)).
            if count < scratch.len() {
                return Ok(answers);
            }
        }
    }
}

/// Hands out the whole answers at the beginning of `bytes`: bytes used, answers found.
fn take_answers<P: Protocol>(
    bytes: &[u8],
    outgoing: &mut Vec<u8>,
    mut take: impl FnMut(P::Answer<'_>, &mut Vec<u8>) -> Result<(), LoadError>,
) -> Result<(usize, usize), LoadError> {
    let (mut used, mut answers) = (0, 0);
    while used < bytes.len() {
        let Some((answer, length)) = P::read(&bytes[used..])? else {
            break;
        };
        used += length;
        answers += 1;
        take(answer, outgoing)?;
    }
    Ok((used, answers))
}
