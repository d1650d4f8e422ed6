//! The published Python client, unmodified, on durable queues; with one shard and with two.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::rig::wait_until_connected;
use crate::support::{Plan, Server};

/// The Python of the virtual environment that `tests/all.sh` makes.
fn python() -> PathBuf {
    match env::var_os("QUEEN_TEST_PYTHON") {
        Some(path) => path.into(),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/.venv/bin/python"),
    }
}

#[test]
fn the_python_client_uses_durable_queues() {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/durable.py");
    let server = Server::start();
    for shards in [1, 2] {
        let database = server.database();
        let plan = Plan::any().set("QUEEN_DURABLE", "on");
        let plan = plan.set("DATABASE_URL", database.url());
        let broker = plan.set("QUEEN_SHARDS", shards).start();
        wait_until_connected(&broker);
        let output = Command::new(python())
            .arg(&program)
            .arg(broker.url())
            .output()
            .expect("`bash tests/all.sh` installs the client");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && said.trim_end().ends_with("ok"),
            "{said}{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}
