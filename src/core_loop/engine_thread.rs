//! The engine core on its thread, and how it reaches the shard cores.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_channel::Receiver;

use super::bells::Bells;
use super::pinning;
use crate::api;
use crate::channel::{Answer, Forwarded, Frame, Port};
use crate::directory::{Directory, QueueSlot};
use crate::engine::{Engine, EngineEnds, EnginePlan, Report, Shards, StopOrder, Stored};
use crate::limits::{ENGINE_REPORTS_MAX, START_STEP_MS, START_WAIT_MS};
use crate::model::{
    ClientRef, Command, Configure, DEFAULT_PARTITION, Declaration, Grant, Job, QueueName, Refusal,
    Reply, TenantId,
};
use crate::placement;
use crate::postgres::ClusterFault;

/// What the engine's thread is made with.
pub struct EngineParts {
    /// What the engine is to do.
    pub plan: EnginePlan,
    /// What arrives from the shard cores.
    pub inbox: Receiver<Job>,
    /// CPUs that the thread and the server it starts may use; empty: any.
    pub cpus: Vec<usize>,
    /// Its end of the lanes to the shard cores.
    pub port: Port,
    /// Wake the shard cores.
    pub bells: Bells,
    /// Shared by all cores.
    pub directory: Arc<Directory>,
    /// Set before the first shard core runs.
    pub serving: Arc<AtomicBool>,
}

/// The engine on its thread, as the main thread sees it.
#[derive(Debug)]
pub struct EngineThread {
    thread: JoinHandle<()>,
    reports: mpsc::Receiver<Report>,
    stop: Arc<StopOrder>,
    /// Dropped when the engine is to end.
    end: crossbeam_channel::Sender<()>,
}

/// What became of the wait for the first load.
#[derive(Debug)]
pub enum Readiness {
    /// Everything is loaded.
    Loaded,
    /// PostgreSQL does not answer: what it holds is loaded when it does.
    Away,
    /// The caller broke the wait off.
    BrokenOff,
    /// The data folder of the private cluster cannot be used.
    FolderUnusable(ClusterFault),
    /// The server must not be used.
    ServerRefused(String),
}

impl EngineThread {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system has no thread.
    pub fn start(parts: EngineParts) -> io::Result<EngineThread> {
        let (reporter, reports) = mpsc::sync_channel(ENGINE_REPORTS_MAX);
        let (end, ended) = crossbeam_channel::bounded(0);
        let stop = Arc::new(StopOrder::default());
        let ends = EngineEnds {
            inbox: parts.inbox,
            end: ended,
            reports: reporter,
            stop: Arc::clone(&stop),
        };
        let shards = ShardCores {
            shards: parts.directory.bounds().shards,
            port: parts.port,
            bells: parts.bells,
            directory: parts.directory,
            serving: parts.serving,
        };
        let (plan, cpus) = (parts.plan, parts.cpus);
        let run = move || {
            pinning::hold_where_named(&cpus, "engine");
            Engine::new(plan, ends, shards).run();
        };
        let thread = thread::Builder::new().name("engine".into()).spawn(run)?;
        Ok(EngineThread {
            thread,
            reports,
            stop,
            end,
        })
    }

    /// Waits until everything is loaded: for a private cluster as long as it makes progress, for an
    /// answer of PostgreSQL [`START_WAIT_MS`]. `go_on` is asked every [`START_STEP_MS`].
    pub fn wait(&self, is_private: bool, mut go_on: impl FnMut() -> bool) -> Readiness {
        let wait = Duration::from_millis(START_WAIT_MS);
        let step = Duration::from_millis(START_STEP_MS);
        let mut deadline = (!is_private).then(|| Instant::now() + wait);
        while go_on() {
            match self.reports.recv_timeout(step) {
                Ok(Report::Loaded) => return Readiness::Loaded,
                Ok(Report::ClusterFailed) => return Readiness::Away,
                Ok(Report::FolderUnusable(fault)) => return Readiness::FolderUnusable(fault),
                Ok(Report::ServerRefused(reason)) => return Readiness::ServerRefused(reason),
                Ok(Report::ClusterReady) => {
                    deadline.get_or_insert_with(|| Instant::now() + wait);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => unreachable!("the engine reports or lives"),
            }
            if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                return Readiness::Away;
            }
        }
        Readiness::BrokenOff
    }

    /// The broker stops: the engine begins nothing new and finishes what it does.
    pub fn order_stop(&self) {
        self.stop.give();
    }

    /// Nobody asks any more: the engine lets go of the server, stops a private one, and ends.
    pub fn finish(self) {
        self.order_stop();
        drop(self.end);
        self.thread.join().expect("a panic ends the whole process");
    }
}

/// The shard cores, reached over lanes.
struct ShardCores {
    shards: u16,
    port: Port,
    bells: Bells,
    directory: Arc<Directory>,
    serving: Arc<AtomicBool>,
}

impl ShardCores {
    /// Sends a command to the home of its queue, which declares and removes in the order of sending.
    fn send_home(&mut self, client: ClientRef, tenant: TenantId, command: Command<'static>) {
        let queue = match &command {
            Command::Configure(configure) => &configure.queue,
            Command::Delete(queue) => queue,
            other => unreachable!("the engine sends no {other:?}"),
        };
        let home = placement::owner(tenant, queue.as_str(), DEFAULT_PARTITION, self.shards);
        let forwarded = Forwarded {
            client,
            tenant,
            command,
        };
        self.port.send(home, Frame::Request(Box::new(forwarded)));
    }
}

impl Shards for ShardCores {
    type Slot = QueueSlot;

    fn read_declaration(&self, declaration: &Declaration) -> Result<Configure<'static>, Refusal> {
        api::read_declaration(&declaration.queue, &declaration.options)
    }

    fn reserve(&self, tenant: TenantId, queue: &str) -> Result<Option<QueueSlot>, Refusal> {
        self.directory.reserve_queue(tenant, queue)
    }

    fn declare(&mut self, client: ClientRef, tenant: TenantId, declared: Stored<QueueSlot>) {
        let Stored { configure, slot } = declared;
        if let Some(slot) = slot {
            self.directory.create_reserved(slot, &configure.options);
        }
        self.send_home(client, tenant, Command::Configure(configure));
    }

    fn take_over(&mut self, declaration: Declaration, configure: Configure<'static>) {
        if self.serving.load(Ordering::SeqCst) {
            // Its home declares it, in turn with what was sent there before.
            let tenant = declaration.tenant;
            self.send_home(ClientRef::NOBODY, tenant, Command::Configure(configure));
            return;
        }
        let (tenant, queue) = (declaration.tenant, declaration.queue.as_str());
        if let Err(refusal) = self.directory.load(tenant, queue, &configure.options) {
            tracing::error!(%tenant, queue, ?refusal, "a declaration is left out");
        }
    }

    fn remove(&mut self, client: ClientRef, tenant: TenantId, queue: QueueName<'static>) {
        self.send_home(client, tenant, Command::Delete(queue));
    }

    fn set_grants(&mut self, grants: Vec<(TenantId, Grant)>) {
        self.directory.set_grants(grants);
    }

    fn set_enabled(&mut self, enabled: bool) {
        if self.directory.paused() != enabled {
            return;
        }
        self.directory.set_paused(!enabled);
        tracing::info!(enabled, "the ephemeral class is switched");
        if !enabled && self.serving.load(Ordering::SeqCst) {
            for shard in 0..self.shards {
                self.port.send(shard, Frame::Pause);
            }
        }
    }

    fn answer(&mut self, client: ClientRef, reply: Reply) {
        if client == ClientRef::NOBODY {
            return;
        }
        let answer = Box::new(Answer { client, reply });
        self.port.reply(client.core, Frame::Reply(answer));
    }

    fn flush(&mut self) -> bool {
        self.port.flush();
        let rings = self.port.take_rings();
        self.bells.ring(rings);
        self.port.waiting() > 0
    }
}
