//! Another broker, as far as the cluster is concerned: this test binary once more, as a process of
//! its own that owns a cluster and can be killed.

use std::io::{BufRead, BufReader, Read, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use queen::postgres::{ClusterPlan, PrivateCluster, Progress};

use crate::home::{STOP_LIMIT, programs};

/// Names the data folder to the process; without it the test below has nothing to do.
const VARIABLE: &str = "QUEEN_TEST_CLUSTER_OWNER";

const START_LIMIT: Duration = Duration::from_secs(120);

/// The process. It stays when a test ends early no longer than its standard input does.
#[derive(Debug)]
pub(crate) struct Owner {
    child: Child,
    lines: Receiver<String>,
}

impl Owner {
    /// Starts it without waiting for anything.
    pub(crate) fn spawn(data: &Path) -> Owner {
        let binary = std::env::current_exe().expect("this binary");
        let mut child = Command::new(binary)
            .args([
                "--exact",
                "owner::owns_a_cluster",
                "--nocapture",
                "--test-threads=1",
            ])
            .env(VARIABLE, data)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this binary runs");
        let output = child.stdout.take().expect("its output");
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Owner { child, lines }
    }

    /// Starts it and waits until its server lets clients in.
    #[track_caller]
    pub(crate) fn start(data: &Path) -> Owner {
        let owner = Owner::spawn(data);
        owner.wait_for("OWNS");
        owner
    }

    /// The rest of its next line that begins with a word.
    #[track_caller]
    pub(crate) fn wait_for(&self, word: &str) -> String {
        loop {
            let line = self.lines.recv_timeout(START_LIMIT);
            let line = line.unwrap_or_else(|fault| panic!("no line {word}: {fault}"));
            if let Some(rest) = line.strip_prefix(word) {
                return rest.trim().to_owned();
            }
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// `kill -9`.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("it can be killed");
        self.child.wait().expect("it can be waited for");
    }

    /// Stops it in order; how its server was stopped.
    #[track_caller]
    pub(crate) fn finish(mut self) -> String {
        drop(self.child.stdin.take());
        let stopped = self.wait_for("STOPPED");
        self.child.wait().expect("it ends");
        stopped
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // It has mostly ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Not a test of its own: what the other process does.
#[test]
fn owns_a_cluster() {
    let Some(data) = std::env::var_os(VARIABLE) else {
        return;
    };
    let mut output = std::io::stdout();
    let mut say = |line: &str| {
        // The harness has begun a line.
        writeln!(output, "\n{line}").expect("somebody listens");
        output.flush().expect("somebody listens");
    };
    let plan = ClusterPlan::new(PathBuf::from(data), programs());
    let mut cluster = PrivateCluster::open(plan).expect("the data folder is free");
    say("TAKEN");
    let started = cluster.start(&mut |progress| {
        if let Progress::Step(text) = progress {
            say(&format!("STEP {text}"));
        }
        ControlFlow::Continue(())
    });
    say(&format!("OWNS {:?}", started.expect("it starts")));
    let mut rest = Vec::new();
    std::io::stdin()
        .read_to_end(&mut rest)
        .expect("the other end closes");
    say(&format!("STOPPED {:?}", cluster.stop(STOP_LIMIT)));
}
