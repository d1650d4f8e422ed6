//! A disk without room, on a small file system of its own.

use std::fs;
use std::path::PathBuf;

use crate::home::{Home, STOP_LIMIT, note, rows, start, try_start, write_row};
use queen::postgres::{ClusterFault, Started, Stopped};

#[test]
fn a_full_disk_is_told_and_healed() {
    let mut home = Home::empty();
    if !home.mount("24m") {
        note("mounting is not allowed: the full disk of a private cluster did not run");
        return;
    }
    let mut cluster = home.open();
    let fault = try_start(&mut cluster).expect_err("there is no room");
    assert!(matches!(fault, ClusterFault::DiskFull { .. }), "{fault:?}");
    assert!(fault.to_string().contains("make room"), "{fault}");
    assert_eq!(home.unfinished(), Vec::<PathBuf>::new());

    home.resize("120m");
    assert_eq!(start(&mut cluster), Started::Created);
    write_row(&cluster);
    // In order, so that its next start has to make files.
    assert_eq!(cluster.stop(STOP_LIMIT), Stopped::Fast);
    let filler = home.fill();
    let fault = try_start(&mut cluster).expect_err("there is no room");
    assert!(matches!(fault, ClusterFault::DiskFull { .. }), "{fault:?}");

    fs::remove_file(&filler).expect("the filler");
    assert_eq!(start(&mut cluster), Started::Started);
    assert_eq!(rows(&cluster), 1);
    assert_eq!(cluster.stop(STOP_LIMIT), Stopped::Fast);
}
