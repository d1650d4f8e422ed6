//! Broker and server killed, in either order; what is left of them is adopted or healed.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use postgres::Client;
use queen::postgres::{ClusterFault, PrivateCluster, Started, Stopped};
use rustix::process::Signal;

use crate::home::{
    Home, STOP_LIMIT, connect, is_alive, rows, signal, start, try_start, wait_until_gone, write_row,
};
use crate::owner::Owner;
use crate::poll::eventually;

#[test]
fn a_second_broker_is_refused_and_told_who_has_the_folder() {
    let home = Home::with_cluster();
    let owner = Owner::start(home.data());
    match PrivateCluster::open(home.plan()) {
        Err(fault @ ClusterFault::Taken { holder, .. }) => {
            assert_eq!(holder, Some(owner.pid()));
            let text = fault.to_string();
            assert!(text.contains(&format!("process {}", owner.pid())), "{text}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(owner.finish(), "Fast");
    drop(home.open());
}

#[test]
fn a_server_left_by_a_killed_broker_is_adopted() {
    let home = Home::with_cluster();
    let owner = Owner::start(home.data());
    let pid = home.postmaster().expect("it runs");
    owner.kill();
    assert!(is_alive(pid));
    let mut cluster = home.open();
    assert_eq!(start(&mut cluster), Started::Adopted);
    assert_eq!(cluster.pid(), Some(pid));
    let address = cluster.address().expect("it is adopted");
    write_row(&cluster);
    // And once more, by a broker that did not start it either.
    drop(cluster);
    let mut cluster = home.open();
    assert_eq!(start(&mut cluster), Started::Adopted);
    assert_eq!(rows(&cluster), 1);
    assert_eq!(cluster.stop(STOP_LIMIT), Stopped::Fast);
    wait_until_gone(pid);
    assert!(!address.socket_folder.exists());
}

#[test]
fn a_server_is_adopted_while_it_starts() {
    let home = Home::with_cluster();
    let owner = Owner::spawn(home.data());
    owner.wait_for("STEP starting");
    owner.kill();
    let mut cluster = home.open();
    // Whether it had come to say that it has the folder is chance; there is one server at the end.
    start(&mut cluster);
    assert_eq!(cluster.pid(), home.postmaster());
    write_row(&cluster);
    assert_eq!(cluster.stop(STOP_LIMIT), Stopped::Fast);
}

#[test]
fn a_killed_server_is_started_again_and_recovers() {
    let home = Home::with_cluster();
    let mut cluster = home.open();
    start(&mut cluster);
    for round in 1..=2 {
        write_row(&cluster);
        let pid = cluster.pid().expect("it runs");
        signal(pid, Signal::KILL);
        eventually("its end is seen", || !cluster.is_running());
        assert_eq!(start(&mut cluster), Started::Started);
        assert_ne!(cluster.pid(), Some(pid));
        assert_eq!(rows(&cluster), round);
    }
    assert_eq!(cluster.stop(STOP_LIMIT), Stopped::Fast);
}

#[test]
fn broker_and_then_server_killed() {
    let home = Home::with_cluster();
    let owner = Owner::start(home.data());
    let pid = home.postmaster().expect("it runs");
    owner.kill();
    let mut cluster = home.open();
    start(&mut cluster);
    write_row(&cluster);
    drop(cluster);
    signal(pid, Signal::KILL);
    wait_until_gone(pid);
    let mut cluster = home.open();
    assert_eq!(start(&mut cluster), Started::Started);
    assert_eq!(rows(&cluster), 1);
    assert_eq!(cluster.stop(STOP_LIMIT), Stopped::Fast);
}

#[test]
fn server_and_then_broker_killed() {
    let home = Home::with_cluster();
    let owner = Owner::start(home.data());
    let pid = home.postmaster().expect("it runs");
    signal(pid, Signal::KILL);
    wait_until_gone(pid);
    owner.kill();
    let mut cluster = home.open();
    assert_eq!(start(&mut cluster), Started::Started);
    assert_eq!(cluster.stop(STOP_LIMIT), Stopped::Fast);
}

/// A session that does not come to see that its server was killed would keep the next one out.
#[test]
fn a_session_that_outlives_its_server_is_ended() {
    let home = Home::with_cluster();
    let mut cluster = home.open();
    start(&mut cluster);
    let mut client = connect(&cluster.address().expect("it is started"));
    let session = backend(&mut client);
    signal(session, Signal::STOP);
    signal(cluster.pid().expect("it runs"), Signal::KILL);
    eventually("its end is seen", || !cluster.is_running());
    assert!(is_alive(session));
    assert_eq!(start(&mut cluster), Started::Started);
    assert!(!is_alive(session));
    assert_eq!(cluster.stop(STOP_LIMIT), Stopped::Fast);
}

pub(crate) fn backend(client: &mut Client) -> u32 {
    let row = client.query_one("SELECT pg_backend_pid()", &[]);
    let pid: i32 = row.expect("its process id").get(0);
    pid.unsigned_abs()
}

#[test]
fn a_file_that_names_a_stranger_is_healed() {
    let home = Home::with_cluster();
    let owner = fs::metadata(home.cluster()).expect("a cluster");
    let mut command = Command::new("sleep");
    command.arg("600");
    if crate::home::is_root() {
        command.uid(owner.uid()).gid(owner.gid());
    }
    let mut stranger = command.spawn().expect("sleep runs");
    let file = home.cluster().join("postmaster.pid");
    let cluster_path = home.cluster();
    let text = format!(
        "{}\n{}\n1700000000\n5432\n/tmp\n\n",
        stranger.id(),
        cluster_path.display()
    );
    fs::write(&file, text).expect("a file");
    let mut cluster = home.open();
    let started = try_start(&mut cluster);
    let alive = is_alive(stranger.id());
    stranger.kill().expect("it can be killed");
    stranger.wait().expect("it can be waited for");
    assert!(alive, "a stranger is left alone");
    assert_eq!(started.expect("it starts"), Started::Started);
    assert_eq!(cluster.stop(STOP_LIMIT), Stopped::Fast);
}

#[test]
fn a_server_that_hangs_is_a_fault_until_it_goes_on() {
    let home = Home::with_cluster();
    let mut plan = home.plan();
    plan.stall_limit = Duration::from_millis(1_500);
    let mut cluster = PrivateCluster::open(plan).expect("the data folder is free");
    start(&mut cluster);
    let pid = cluster.pid().expect("it runs");
    signal(pid, Signal::STOP);
    let fault = try_start(&mut cluster);
    assert!(
        matches!(fault, Err(ClusterFault::Stalled { .. })),
        "{fault:?}"
    );
    assert!(cluster.is_running());
    signal(pid, Signal::CONT);
    assert_eq!(start(&mut cluster), Started::Adopted);
    assert_eq!(cluster.pid(), Some(pid));
    assert_eq!(cluster.stop(STOP_LIMIT), Stopped::Fast);
}

#[test]
fn a_server_that_lost_its_socket_is_replaced() {
    let home = Home::with_cluster();
    let mut cluster = home.open();
    start(&mut cluster);
    write_row(&cluster);
    let pid = cluster.pid().expect("it runs");
    let address = cluster.address().expect("it is started");
    fs::remove_dir_all(address.socket_folder).expect("the socket's folder");
    assert_eq!(start(&mut cluster), Started::Started);
    assert_ne!(cluster.pid(), Some(pid));
    assert_eq!(rows(&cluster), 1);
    assert_eq!(cluster.stop(STOP_LIMIT), Stopped::Fast);
}
