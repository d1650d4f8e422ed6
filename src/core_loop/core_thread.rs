//! One shard core on its thread: sockets, clock, stop.

use std::future::{Future, poll_fn};
use std::io;
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use super::broker::{Broker, BrokerParts};
use super::{lanes, pinning};
use crate::model::Moment;
use crate::net::listener::{ConnectionCount, listen};
use crate::net::{Connections, Settings};
use crate::runtime::{self, Doorbell, IoChoice, RuntimeFault};

/// What a core thread is made with.
pub struct CoreParts {
    /// Which I/O driver it uses.
    pub io: IoChoice,
    /// The CPU that it runs on; `None`: any.
    pub pin: Option<usize>,
    /// Its listening socket.
    pub socket: TcpListener,
    /// Rung or closed when the broker stops.
    pub stop: UnixStream,
    /// Limits of connections.
    pub settings: Settings,
    /// Connections of the whole process.
    pub count: ConnectionCount,
    /// The broker of this core.
    pub broker: BrokerParts,
    /// Rung by other cores.
    pub doorbell: UnixStream,
    /// Cores of the process that have not drained yet.
    pub draining: Arc<AtomicUsize>,
}

/// Why a core could not serve.
#[derive(Debug, thiserror::Error)]
pub enum CoreFault {
    /// The I/O driver is refused.
    #[error(transparent)]
    Runtime(#[from] RuntimeFault),
    /// A descriptor cannot be watched.
    #[error("a descriptor cannot be watched: {0}")]
    Descriptor(#[from] io::Error),
}

/// Serves until told to stop and everything in flight on any core is answered. Blocks the thread.
///
/// # Errors
/// The I/O driver or a descriptor is refused at the start.
pub fn run(parts: CoreParts) -> Result<(), CoreFault> {
    let (io, core) = (parts.io, parts.broker.number);
    if let Some(Err(fault)) = parts.pin.map(|cpu| pinning::hold_current_thread(&[cpu])) {
        tracing::warn!(core, "the shard runs unpinned: {fault}");
    }
    let counters = parts.broker.observed.core(usize::from(core));
    counters.run_on_this_thread();
    runtime::run(io, |choice| {
        tracing::info!(core, driver = %choice.driver, reason = choice.reason, "shard core starts");
        serve(parts)
    })?
}

async fn serve(parts: CoreParts) -> Result<(), CoreFault> {
    let CoreParts {
        io: _,
        pin: _,
        socket,
        stop,
        settings,
        count,
        broker,
        doorbell,
        draining,
    } = parts;
    let stop = Doorbell::new(stop)?;
    let doorbell = Doorbell::new(doorbell)?;
    let connections = Connections::new(broker.number, settings, |connections| {
        Broker::new(broker, connections)
    });
    listen(socket, &connections, &count)?;
    let clock = connections.clone();
    runtime::spawn(async move { keep_time(clock.service()).await });
    let others = connections.clone();
    runtime::spawn(async move { lanes::serve(others.service(), doorbell).await });
    stop.wait().await?;
    connections.stop();
    connections.service().release_parked();
    connections.gone().await;
    // Connections of other cores may still need what is owned here.
    draining.fetch_sub(1, Ordering::SeqCst);
    connections.service().ring_all();
    while draining.load(Ordering::SeqCst) > 0 {
        connections.service().rung.notified().await;
    }
    Ok(())
}

/// Wakes the broker when something is due.
async fn keep_time(broker: &Broker) {
    loop {
        let next = broker.tick();
        if next <= runtime::now() {
            // What is still due after a step waits until everybody else has had a turn.
            runtime::next_turn().await;
            continue;
        }
        let mut sleep = pin!(sleep_until(next));
        poll_fn(|context| {
            if broker.rearm.poll_notified(context).is_ready() {
                return Poll::Ready(());
            }
            sleep.as_mut().poll(context)
        })
        .await;
    }
}

async fn sleep_until(moment: Moment) {
    if moment == Moment::NEVER {
        return std::future::pending().await;
    }
    runtime::sleep_until(moment).await;
}
