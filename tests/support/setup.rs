//! What a broker is tested on: the I/O drivers that this machine has, and numbers of shards.

use std::io::Write;
use std::sync::OnceLock;
use std::thread;

use super::broker::{Broker, Plan, STATUS_DRIVER_REFUSED, shared};

/// The I/O drivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Driver {
    Uring,
    Epoll,
    #[cfg(feature = "glommio")]
    Glommio,
}

impl Driver {
    const ALL: &[Driver] = &[
        Driver::Uring,
        Driver::Epoll,
        #[cfg(feature = "glommio")]
        Driver::Glommio,
    ];

    /// The value of `QUEEN_IO`.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Driver::Uring => "uring",
            Driver::Epoll => "epoll",
            #[cfg(feature = "glommio")]
            Driver::Glommio => "glommio",
        }
    }

    /// The drivers that this machine has, or the one that `QUEEN_TEST_IO` names.
    fn available() -> &'static [Driver] {
        static AVAILABLE: OnceLock<Vec<Driver>> = OnceLock::new();
        AVAILABLE.get_or_init(|| {
            let asked = std::env::var("QUEEN_TEST_IO").ok();
            let wanted = |driver: &Driver| asked.as_deref().is_none_or(|io| io == driver.name());
            let wanted = Driver::ALL.iter().copied().filter(wanted);
            let available: Vec<Driver> = wanted.filter(|driver| driver.is_available()).collect();
            assert!(!available.is_empty(), "no driver to test on: {asked:?}");
            available
        })
    }

    /// Whether a broker starts on it; says on stderr if the machine does not allow it.
    fn is_available(self) -> bool {
        if self == Driver::Epoll {
            return true;
        }
        match Plan::new(Setup::lone(self)).try_start() {
            Ok(broker) => {
                broker.terminate();
                true
            }
            Err(failure) => {
                assert_eq!(
                    failure.status.and_then(|status| status.code()),
                    Some(STATUS_DRIVER_REFUSED),
                    "the broker did not start on {self:?}, and not because it is refused:\n{}",
                    failure.output
                );
                // Past the capture of the test's output: it must be seen although nothing fails.
                let note = format!(
                    "NOTE: the machine refuses {}: this part did not run\n",
                    self.name()
                );
                std::io::stderr()
                    .write_all(note.as_bytes())
                    .expect("stderr");
                false
            }
        }
    }
}

/// A driver and a number of shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Setup {
    pub(crate) driver: Driver,
    pub(crate) shards: u16,
}

impl Setup {
    const fn lone(driver: Driver) -> Setup {
        Setup { driver, shards: 1 }
    }

    /// Every driver with one shard and with two; the first one with four, too.
    pub(crate) fn all() -> &'static [Setup] {
        static ALL: OnceLock<Vec<Setup>> = OnceLock::new();
        ALL.get_or_init(|| {
            let mut all: Vec<Setup> = Driver::available()
                .iter()
                .flat_map(|&driver| [1, 2].map(|shards| Setup { driver, shards }))
                .collect();
            all.push(Setup::with_shards(4));
            all
        })
    }

    /// Every driver, with so many shards.
    pub(crate) fn each_driver_with(shards: u16) -> Vec<Setup> {
        let drivers = Driver::available().iter();
        drivers.map(|&driver| Setup { driver, shards }).collect()
    }

    /// The first driver that this machine has, with so many shards.
    pub(crate) fn with_shards(shards: u16) -> Setup {
        let driver = Driver::available()[0];
        Setup { driver, shards }
    }
}

/// Runs a test on a shared broker of each setup, on all of them at the same time.
#[track_caller]
pub(crate) fn each_setup(test: impl Fn(&Broker) + Sync) {
    each_plan(|plan| test(&shared(plan)));
}

/// Runs a test with the plan of each setup, with all of them at the same time.
#[track_caller]
pub(crate) fn each_plan(test: impl Fn(Plan) + Sync) {
    in_parallel(Setup::all(), |&setup| test(Plan::new(setup)));
}

/// Runs a test for each of `cases`, for all of them at the same time; says which one failed.
#[track_caller]
pub(crate) fn in_parallel<T: Sync + std::fmt::Debug>(cases: &[T], test: impl Fn(&T) + Sync) {
    thread::scope(|scope| {
        let test = &test;
        let runs: Vec<_> = cases
            .iter()
            .map(|case| (case, scope.spawn(move || test(case))))
            .collect();
        let failed: Vec<&T> = runs
            .into_iter()
            .filter_map(|(case, run)| run.join().is_err().then_some(case))
            .collect();
        assert!(failed.is_empty(), "failed: {failed:?}");
    });
}
