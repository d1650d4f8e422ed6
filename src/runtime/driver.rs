//! Which of the kernel's interfaces serves a thread, and running a future on it.

use std::cell::Cell;
use std::fmt;
use std::future::Future;
use std::io;
use std::str::FromStr;
use std::time::Duration;

use monoio::time::TimeDriver;
use monoio::{IoUringDriver, LegacyDriver, Runtime, RuntimeBuilder};

#[cfg(feature = "glommio")]
use super::glommio;
use super::{look, turn};

thread_local! {
    static CURRENT: Cell<Option<Driver>> = const { Cell::new(None) };
}

/// What the operator asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IoChoice {
    /// io_uring where kernel and container allow it, else epoll.
    #[default]
    Auto,
    /// io_uring or nothing.
    Uring,
    /// epoll.
    Epoll,
    /// glommio, if it was built in.
    Glommio,
}

impl FromStr for IoChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<IoChoice, String> {
        match text {
            "auto" => Ok(IoChoice::Auto),
            "uring" => Ok(IoChoice::Uring),
            "epoll" => Ok(IoChoice::Epoll),
            "glommio" => Ok(IoChoice::Glommio),
            _ => Err(format!("{text:?} is none of auto, uring, epoll, glommio")),
        }
    }
}

/// What serves the thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Driver {
    /// Completions of an io_uring.
    Uring,
    /// Readiness of an epoll.
    Epoll,
    /// glommio's executor.
    #[cfg(feature = "glommio")]
    Glommio,
}

impl fmt::Display for Driver {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Driver::Uring => "io_uring",
            Driver::Epoll => "epoll",
            #[cfg(feature = "glommio")]
            Driver::Glommio => "glommio",
        })
    }
}

/// The driver that was chosen, for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The driver.
    pub driver: Driver,
    /// Why it was chosen.
    pub reason: String,
}

/// The runtime cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeFault {
    /// io_uring was demanded and is refused.
    #[error("io_uring was asked for but is refused here: {0}")]
    Uring(#[source] io::Error),
    /// No epoll either: the process is out of descriptors or memory.
    #[error("epoll cannot be set up: {0}")]
    Epoll(#[source] io::Error),
    /// glommio was not built in, may lock too little memory, or needs an io_uring that is refused.
    #[error("glommio was asked for but cannot run: {0}")]
    Glommio(#[source] io::Error),
    /// The process is out of descriptors.
    #[error("the runtime cannot be started: {0}")]
    Start(#[source] io::Error),
}

/// Chooses a driver and runs on this thread the future that `main` makes, until it is ready. Tasks
/// that are still there then are dropped or forgotten: `main` must see them end.
///
/// # Errors
/// The runtime cannot be built.
///
/// # Panics
/// A runtime is running on this thread already.
pub fn run<F: Future>(
    io: IoChoice,
    main: impl FnOnce(&Choice) -> F,
) -> Result<F::Output, RuntimeFault> {
    match io {
        IoChoice::Epoll => run_epoll("asked for".to_owned(), main),
        IoChoice::Uring => {
            let runtime = build_uring().map_err(RuntimeFault::Uring)?;
            run_uring(runtime, "asked for", main)
        }
        IoChoice::Glommio => run_glommio(main),
        IoChoice::Auto => match build_uring() {
            Ok(runtime) => run_uring(runtime, "the kernel supports it", main),
            Err(error) => run_epoll(format!("io_uring is refused: {error}"), main),
        },
    }
}

fn run_uring<F: Future>(
    mut runtime: Runtime<TimeDriver<IoUringDriver>>,
    reason: &str,
    main: impl FnOnce(&Choice) -> F,
) -> Result<F::Output, RuntimeFault> {
    let choice = Choice {
        driver: Driver::Uring,
        reason: reason.to_owned(),
    };
    let _running = Running::enter(choice.driver);
    runtime.block_on(start(choice, main))
}

fn run_epoll<F: Future>(
    reason: String,
    main: impl FnOnce(&Choice) -> F,
) -> Result<F::Output, RuntimeFault> {
    let mut runtime = RuntimeBuilder::<LegacyDriver>::new()
        .enable_timer()
        .build()
        .map_err(RuntimeFault::Epoll)?;
    let choice = Choice {
        driver: Driver::Epoll,
        reason,
    };
    let _running = Running::enter(choice.driver);
    runtime.block_on(start(choice, main))
}

#[cfg(feature = "glommio")]
fn run_glommio<F: Future>(main: impl FnOnce(&Choice) -> F) -> Result<F::Output, RuntimeFault> {
    let executor = glommio::build().map_err(RuntimeFault::Glommio)?;
    let choice = Choice {
        driver: Driver::Glommio,
        reason: "asked for".to_owned(),
    };
    let _running = Running::enter(choice.driver);
    executor.run(start(choice, main))
}

#[cfg(not(feature = "glommio"))]
fn run_glommio<F: Future>(_: impl FnOnce(&Choice) -> F) -> Result<F::Output, RuntimeFault> {
    let fault = io::Error::new(
        io::ErrorKind::Unsupported,
        "this program was built without the feature glommio",
    );
    Err(RuntimeFault::Glommio(fault))
}

async fn start<F: Future>(
    choice: Choice,
    main: impl FnOnce(&Choice) -> F,
) -> Result<F::Output, RuntimeFault> {
    turn::start().map_err(RuntimeFault::Start)?;
    look::start().map_err(RuntimeFault::Start)?;
    let output = main(&choice).await;
    look::finish();
    turn::finish().await;
    Ok(output)
}

/// Builds the ring on the calling thread, which becomes its only issuer. The three flags (Linux
/// 6.1) let completions run in the thread's own time instead of interrupting it.
fn build_uring() -> io::Result<Runtime<TimeDriver<IoUringDriver>>> {
    let mut flags = io_uring::IoUring::builder();
    flags
        .setup_coop_taskrun()
        .setup_single_issuer()
        .setup_defer_taskrun();
    probe_operations(&flags)?;
    RuntimeBuilder::<IoUringDriver>::new()
        .uring_builder(flags)
        .enable_timer()
        .build()
}

/// A container may allow the set-up of a ring and yet refuse to use it.
pub(super) fn probe_operations(flags: &io_uring::Builder) -> io::Result<()> {
    use io_uring::opcode;

    let ring: io_uring::IoUring = flags.build(8)?;
    let mut probe = io_uring::Probe::new();
    ring.submitter().register_probe(&mut probe)?;
    ring.submit()?;
    let needed = [
        opcode::Recv::CODE,
        opcode::Send::CODE,
        opcode::PollAdd::CODE,
        opcode::AsyncCancel::CODE,
        opcode::Close::CODE,
    ];
    if needed
        .iter()
        .all(|operation| probe.is_supported(*operation))
    {
        Ok(())
    } else {
        Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "an operation is missing",
        ))
    }
}

/// Starts a task on this thread. It runs until it ends by itself.
pub fn spawn(task: impl Future<Output = ()> + 'static) {
    match current() {
        Driver::Uring | Driver::Epoll => drop(monoio::spawn(task)),
        #[cfg(feature = "glommio")]
        Driver::Glommio => glommio::spawn(task),
    }
}

/// Waits for `duration`, bounded by the horizon of the runtime's timers.
pub(super) async fn sleep(duration: Duration) {
    match current() {
        Driver::Uring | Driver::Epoll => monoio::time::sleep(duration).await,
        #[cfg(feature = "glommio")]
        Driver::Glommio => glommio::sleep(duration).await,
    }
}

/// The driver of the runtime that runs on this thread.
pub(super) fn current() -> Driver {
    CURRENT.get().expect("sockets are made within the runtime")
}

/// Marks the thread for as long as its runtime runs.
struct Running;

impl Running {
    fn enter(driver: Driver) -> Running {
        CURRENT.set(Some(driver));
        Running
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        CURRENT.set(None);
    }
}
