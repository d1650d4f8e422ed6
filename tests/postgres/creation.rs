//! Creation, restart, and a creation that is broken off.

use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use queen::postgres::{ClusterFault, Progress, Started, Stopped};
use rustix::process::{Pid, getpgid};

use crate::home::{
    Home, STOP_LIMIT, connect, is_root, processes_naming, rows, show, start, try_start,
    wait_until_gone, write_row,
};
use crate::owner::Owner;
use crate::poll::eventually_within;

fn mode(path: &Path) -> u32 {
    fs::metadata(path)
        .expect("it is there")
        .permissions()
        .mode()
        & 0o777
}

#[test]
fn a_cluster_is_created_and_is_there_after_a_restart() {
    let home = Home::empty();
    let mut cluster = home.open();
    let mut steps = Vec::new();
    let started = cluster.start(&mut |progress| {
        if let Progress::Step(text) = progress {
            steps.push(text.to_owned());
        }
        ControlFlow::Continue(())
    });
    assert_eq!(started.expect("it is created"), Started::Created);
    for part in [
        "creating a private PostgreSQL",
        "initdb: creating",
        "starting PostgreSQL",
    ] {
        assert!(
            steps.iter().any(|step| step.contains(part)),
            "{part}: {steps:?}"
        );
    }
    let address = cluster.address().expect("it is started");
    let mut client = connect(&address);
    for (setting, value) in [
        ("server_encoding", "UTF8"),
        ("lc_collate", "C"),
        ("data_checksums", "on"),
        ("listen_addresses", ""),
        ("fsync", "on"),
        ("bgwriter_delay", "10ms"),
        ("max_wal_size", "4GB"),
    ] {
        assert_eq!(show(&mut client, setting), value, "{setting}");
    }
    drop(client);
    assert_eq!(mode(&home.cluster()), 0o700);
    assert_eq!(mode(&address.socket_folder), 0o700);
    let owner = fs::metadata(&address.socket_folder)
        .expect("it is there")
        .uid();
    assert_eq!(
        fs::metadata(home.cluster()).expect("it is there").uid(),
        owner
    );
    assert_ne!(owner, 0, "PostgreSQL does not run as root");
    if !is_root() {
        assert_eq!(owner, rustix::process::geteuid().as_raw());
    }
    let pid = cluster.pid().expect("it runs");
    let group = getpgid(Pid::from_raw(pid.cast_signed())).expect("it runs");
    assert_eq!(group.as_raw_nonzero().get().unsigned_abs(), pid);
    write_row(&cluster);
    assert_eq!(cluster.stop(STOP_LIMIT), Stopped::Fast);
    wait_until_gone(pid);
    assert!(!address.socket_folder.exists());
    assert_eq!(cluster.stop(STOP_LIMIT), Stopped::NotRunning);

    assert_eq!(start(&mut cluster), Started::Started);
    assert_eq!(rows(&cluster), 1);
    assert_eq!(start(&mut cluster), Started::Adopted);
    assert_eq!(cluster.stop(STOP_LIMIT), Stopped::Fast);
    drop(cluster);
    let mut cluster = home.open();
    assert_eq!(start(&mut cluster), Started::Started);
    assert_eq!(rows(&cluster), 1);
    assert_eq!(cluster.stop(STOP_LIMIT), Stopped::Fast);
}

#[test]
fn a_path_may_be_long_and_hold_anything() {
    let long = "a folder with a rather long name".repeat(5);
    let home = Home::named(&format!("{long}/it's \"my\" data, $HOME \u{e9}\\/{long}"));
    home.put_cluster();
    let mut cluster = home.open();
    assert_eq!(start(&mut cluster), Started::Started);
    write_row(&cluster);
    drop(cluster);
    let mut cluster = home.open();
    assert_eq!(start(&mut cluster), Started::Adopted);
    assert_eq!(rows(&cluster), 1);
    assert_eq!(cluster.stop(STOP_LIMIT), Stopped::Fast);
}

#[test]
fn a_creation_that_was_killed_is_healed() {
    let home = Home::named("my data");
    let owner = Owner::spawn(home.data());
    owner.wait_for("STEP initdb:");
    let half = home.unfinished();
    assert_eq!(half.len(), 1);
    owner.kill();
    assert!(!home.cluster().exists());
    let mut cluster = home.open();
    assert_eq!(start(&mut cluster), Started::Created);
    assert_eq!(home.unfinished(), Vec::<std::path::PathBuf>::new());
    assert_eq!(cluster.stop(STOP_LIMIT), Stopped::Fast);
    eventually_within(STOP_LIMIT, "nobody works in the half any more", || {
        processes_naming(&half[0]).is_empty()
    });
}

#[test]
fn a_creation_is_broken_off_at_once() {
    let home = Home::empty();
    let mut cluster = home.open();
    let mut broken_off = None;
    let fault = cluster.start(&mut |progress| match progress {
        Progress::Step(text) if text.contains("bootstrap") => {
            broken_off = Some(Instant::now());
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    });
    assert!(matches!(fault, Err(ClusterFault::BrokenOff)), "{fault:?}");
    let broken_off = broken_off.expect("the step was told");
    assert!(broken_off.elapsed() < Duration::from_secs(5));
    assert_eq!(home.unfinished(), Vec::<std::path::PathBuf>::new());
    assert!(!home.cluster().exists());
    assert_eq!(cluster.stop(STOP_LIMIT), Stopped::NotRunning);
}

#[test]
fn a_start_is_broken_off_and_taken_up_again() {
    let home = Home::with_cluster();
    let mut cluster = home.open();
    let fault = cluster.start(&mut |progress| match progress {
        Progress::Waiting => ControlFlow::Break(()),
        Progress::Step(_) => ControlFlow::Continue(()),
    });
    assert!(matches!(fault, Err(ClusterFault::BrokenOff)), "{fault:?}");
    assert_eq!(start(&mut cluster), Started::Adopted);
    assert_eq!(cluster.stop(STOP_LIMIT), Stopped::Fast);
    assert!(try_start(&mut cluster).is_ok());
    assert_eq!(cluster.stop(STOP_LIMIT), Stopped::Fast);
}

#[test]
fn a_log_that_has_grown_is_put_aside() {
    let home = Home::with_cluster();
    let log = home.data().join("postgres.log");
    let file = fs::File::create(&log).expect("a log");
    file.set_len(9 * 1024 * 1024).expect("a sparse file");
    let mut cluster = home.open();
    assert_eq!(start(&mut cluster), Started::Started);
    assert_eq!(cluster.stop(STOP_LIMIT), Stopped::Fast);
    assert!(fs::metadata(&log).expect("a log").len() < 1024 * 1024);
    assert_eq!(mode(&log), 0o600);
    let old = home.data().join("postgres.log.1");
    assert_eq!(
        fs::metadata(old).expect("the old log").len(),
        9 * 1024 * 1024
    );
}
