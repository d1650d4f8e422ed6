//! Stopping within a bound, whatever state the server is in.

use std::fs;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use queen::postgres::{Started, Stopped};
use rustix::process::Signal;

use crate::adoption::backend;
use crate::home::{Home, STOP_LIMIT, connect, rows, signal, start, wait_until_gone, write_row};

/// What the last look and the signals may take beyond the bound.
const MARGIN: Duration = Duration::from_secs(1);

#[test]
fn open_sessions_do_not_hold_it_up() {
    let home = Home::with_cluster();
    let mut cluster = home.open();
    start(&mut cluster);
    write_row(&cluster);
    let mut client = connect(&cluster.address().expect("it is started"));
    client
        .batch_execute("BEGIN; INSERT INTO kept VALUES (2)")
        .expect("a transaction");
    assert_eq!(cluster.stop(STOP_LIMIT), Stopped::Fast);
    assert!(client.batch_execute("COMMIT").is_err());
    assert_eq!(start(&mut cluster), Started::Started);
    assert_eq!(rows(&cluster), 1);
    assert_eq!(cluster.stop(STOP_LIMIT), Stopped::Fast);
}

#[test]
fn a_session_that_hangs_does_not_break_the_bound() {
    let home = Home::with_cluster();
    let mut cluster = home.open();
    start(&mut cluster);
    write_row(&cluster);
    let mut client = connect(&cluster.address().expect("it is started"));
    let session = backend(&mut client);
    signal(session, Signal::STOP);
    let limit = Duration::from_secs(4);
    let begin = Instant::now();
    let stopped = cluster.stop(limit);
    assert!(begin.elapsed() < limit + MARGIN, "{:?}", begin.elapsed());
    assert!(
        matches!(stopped, Stopped::Immediate | Stopped::Killed),
        "{stopped:?}"
    );
    wait_until_gone(session);
    assert_eq!(start(&mut cluster), Started::Started);
    assert_eq!(rows(&cluster), 1);
    assert_eq!(cluster.stop(STOP_LIMIT), Stopped::Fast);
}

#[test]
fn a_server_that_hangs_does_not_break_the_bound() {
    let home = Home::with_cluster();
    let mut cluster = home.open();
    start(&mut cluster);
    write_row(&cluster);
    let pid = cluster.pid().expect("it runs");
    signal(pid, Signal::STOP);
    let limit = Duration::from_secs(3);
    let begin = Instant::now();
    assert_eq!(cluster.stop(limit), Stopped::Killed);
    assert!(begin.elapsed() < limit + MARGIN, "{:?}", begin.elapsed());
    wait_until_gone(pid);
    assert_eq!(start(&mut cluster), Started::Started);
    assert_eq!(rows(&cluster), 1);
    assert_eq!(cluster.stop(STOP_LIMIT), Stopped::Fast);
}

#[test]
fn one_that_was_killed_needs_no_stop() {
    let home = Home::with_cluster();
    let mut cluster = home.open();
    start(&mut cluster);
    let socket_folder = cluster.address().expect("it is started").socket_folder;
    let pid = cluster.pid().expect("it runs");
    signal(pid, Signal::KILL);
    wait_until_gone(pid);
    assert_eq!(cluster.stop(STOP_LIMIT), Stopped::NotRunning);
    assert!(!socket_folder.exists());
}

#[test]
fn nothing_is_left_of_a_server_whose_data_folder_was_removed() {
    for is_adopted in [false, true] {
        let home = Home::with_cluster();
        let mut cluster = home.open();
        start(&mut cluster);
        if is_adopted {
            drop(cluster);
            cluster = home.open();
            assert_eq!(start(&mut cluster), Started::Adopted);
        }
        let socket_folder = cluster.address().expect("it is started").socket_folder;
        let pid = cluster.pid().expect("it runs");
        signal(pid, Signal::KILL);
        wait_until_gone(pid);
        fs::remove_dir_all(home.data()).expect("it is removed");
        let fault = cluster.start(&mut |_| ControlFlow::Continue(()));
        let text = fault.expect_err("there is no folder").to_string();
        // The same from try to try, so that it is logged once.
        assert!(text.contains("making a folder in"), "{text}");
        assert!(!text.contains("unfinished"), "{text}");
        assert_eq!(cluster.stop(STOP_LIMIT), Stopped::NotRunning);
        assert!(!socket_folder.exists(), "{is_adopted}");
    }
}
