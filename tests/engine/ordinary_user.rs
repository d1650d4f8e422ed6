//! A broker of an ordinary user, where root runs the tests.

use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::Path;

use serde_json::json;

use crate::private_cluster::home_with_cluster;
use crate::rig::{database, declare, has_option, plan_in, plan_on, wait_until_connected};
use crate::support::home::{Home, is_alive, is_root, note};

/// Everybody's nobody.
const USER_ID: u32 = 65_534;

/// Gives a folder with all that is in it to the user.
fn give(path: &Path) {
    chown(path, Some(USER_ID), Some(USER_ID)).expect("an owner");
    if path.is_dir() && !path.is_symlink() {
        for entry in fs::read_dir(path).expect("a folder") {
            give(&entry.expect("an entry").path());
        }
    }
}

#[test]
fn a_broker_of_an_ordinary_user_runs_its_own_cluster() {
    if !is_root() {
        note("not root: the broker ran as this user only");
        return;
    }
    let home = home_with_cluster(Home::in_memory("data"));
    give(home.data());
    let elsewhere = Home::empty();
    let broker = plan_in(&home).run_as(USER_ID, elsewhere.top()).start();
    wait_until_connected(&broker);
    let queue = broker.queue("ordinary");
    declare(&queue, json!({"maxLength": 7}));
    let name = queue.name.clone();
    let pid = home.postmaster().expect("the server runs");
    let process = fs::metadata(format!("/proc/{pid}")).expect("it runs");
    assert_eq!(process.uid(), USER_ID);
    broker.kill();
    let broker = broker.start_again();
    assert_eq!(home.postmaster(), Some(pid));
    assert!(has_option(&broker.queue_named(&name), "maxLength", 7));
    broker.terminate();
    assert!(!is_alive(pid));
}

#[test]
fn a_broker_of_an_ordinary_user_uses_a_server() {
    if !is_root() {
        note("not root: the broker ran as this user only");
        return;
    }
    let home = Home::empty();
    let database = database();
    let plan = plan_on(&database).set("DATABASE_URL", database.socket_url());
    let broker = plan.run_as(USER_ID, home.top()).start();
    wait_until_connected(&broker);
    declare(&broker.queue("ordinary"), json!({}));
}
