//! What the command lines of the comparing programs have in common, and how a program ends.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use crate::LoadError;
use crate::server::Cpus;

/// Flags of every comparing program.
#[derive(Args, Debug)]
pub struct Common {
    /// The broker; built if not given.
    #[arg(long)]
    pub broker: Option<PathBuf>,
    /// CPU of the servers; the first usable one if not given.
    #[arg(long)]
    pub server_cpu: Option<usize>,
    /// CPU of the generator; the second usable one if not given.
    #[arg(long)]
    pub load_cpu: Option<usize>,
    /// Rounds of which the median is taken.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
}

impl Common {
    /// Where servers run and where their load comes from.
    pub fn cpus(&self) -> Result<Cpus, LoadError> {
        Cpus::choose(self.server_cpu, self.load_cpu)
    }
}

/// Ends `program`: with success unless it broke off or found something wrong, which is shown.
pub fn end(program: &str, outcome: Result<Vec<String>, LoadError>) -> ExitCode {
    let wrong = outcome.unwrap_or_else(|error| vec![error.to_string()]);
    for text in &wrong {
        eprintln!("{program}: {text}");
    }
    ExitCode::from(u8::from(!wrong.is_empty()))
}
