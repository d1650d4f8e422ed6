//! What can befall a PostgreSQL, how it is brought about and how it ends.

use std::time::{Duration, Instant};

use clap::ValueEnum;
use queen_loadtest::LoadError;
use rustix::process::Signal;

use crate::database::Database;

/// How long a server that is restarted again and again runs, and how long it does not.
const RESTART_EVERY: Duration = Duration::from_secs(1);

/// What befalls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Fault {
    /// It is stopped.
    Away,
    /// All its processes are held (SIGSTOP): connections are taken and nothing is answered.
    Hanging,
    /// It is stopped and started in turn.
    Restarted,
    /// Its sessions are ended one by one, as often as they come back.
    Sessions,
    /// Its disk is full, and so is its write-ahead log.
    DiskFull,
}

impl Fault {
    /// For a row of the table.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Fault::Away => "away",
            Fault::Hanging => "hanging",
            Fault::Restarted => "restarted",
            Fault::Sessions => "sessions killed",
            Fault::DiskFull => "disk full",
        }
    }

    /// Whether the broker is without a database, or without room in it, until the fault ends.
    pub(crate) fn lasts(self) -> bool {
        match self {
            Fault::Away | Fault::Hanging | Fault::DiskFull => true,
            Fault::Restarted | Fault::Sessions => false,
        }
    }

    /// Brings it about.
    pub(crate) fn begin(self, database: &mut Database) -> Result<(), LoadError> {
        match self {
            Fault::Away | Fault::Restarted => database.stop(),
            Fault::Hanging => database.signal_all(Signal::STOP),
            Fault::DiskFull => database.disk().fill()?,
            Fault::Sessions => {}
        }
        Ok(())
    }

    /// Keeps it up; called every few milliseconds. `turned` is when the server was stopped or started
    /// last.
    pub(crate) fn go_on(
        self,
        database: &mut Database,
        turned: &mut Instant,
    ) -> Result<(), LoadError> {
        match self {
            Fault::Restarted if turned.elapsed() >= RESTART_EVERY => {
                if database.is_running() {
                    database.stop();
                } else {
                    database.start()?;
                }
                *turned = Instant::now();
            }
            Fault::Sessions => {
                database.end_session();
            }
            Fault::DiskFull => {
                database.use_up_log();
                // What was given back meanwhile is taken again.
                database.disk().fill()?;
            }
            Fault::Away | Fault::Hanging | Fault::Restarted => {}
        }
        Ok(())
    }

    /// Ends it; the server lets clients in afterwards.
    pub(crate) fn end(self, database: &mut Database) -> Result<(), LoadError> {
        match self {
            Fault::Hanging => database.signal_all(Signal::CONT),
            Fault::DiskFull => database.disk().empty()?,
            Fault::Away | Fault::Restarted | Fault::Sessions => {}
        }
        database.start()
    }
}
