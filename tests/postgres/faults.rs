//! What stands in the way is told with what to do about it.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::PathBuf;

use queen::postgres::{ClusterFault, ClusterPlan, PrivateCluster, find_programs};

use crate::home::{Home, is_root, note, programs, start, try_start};

fn refused(plan: ClusterPlan) -> ClusterFault {
    match PrivateCluster::open(plan) {
        Err(fault) => fault,
        Ok(cluster) => panic!("{cluster:?}"),
    }
}

#[test]
fn a_folder_of_another_kind_is_left_alone() {
    let home = Home::empty();
    fs::create_dir_all(home.cluster()).expect("a folder");
    fs::write(home.cluster().join("precious"), "1").expect("a file");
    if is_root() {
        chown(home.cluster(), Some(65_534), None).expect("an owner");
    }
    let fault = refused(home.plan());
    assert!(
        matches!(fault, ClusterFault::NotACluster { .. }),
        "{fault:?}"
    );
    assert!(fault.to_string().contains("move it away"));
    assert!(home.cluster().join("precious").exists());
}

#[test]
fn a_cluster_of_another_version_is_left_alone() {
    let home = Home::with_cluster();
    fs::write(home.cluster().join("PG_VERSION"), "9.6\n").expect("a version");
    let fault = refused(home.plan());
    assert!(
        matches!(fault, ClusterFault::OtherVersion { .. }),
        "{fault:?}"
    );
    let text = fault.to_string();
    assert!(
        text.contains("PostgreSQL 9.6") && text.contains("QUEEN_PG_BIN"),
        "{text}"
    );
}

#[test]
fn the_reason_of_a_failed_start_is_told() {
    let home = Home::with_cluster();
    let conf = home.cluster().join("postgresql.conf");
    let text = fs::read_to_string(&conf).expect("its settings");
    fs::write(&conf, format!("{text}\nno_such_setting = 1\n")).expect("its settings");
    let mut cluster = home.open();
    let fault = try_start(&mut cluster).expect_err("it does not start");
    assert!(
        matches!(fault, ClusterFault::StartFailed { .. }),
        "{fault:?}"
    );
    let words = fault.to_string();
    assert!(
        words.contains("no_such_setting") && words.contains("postgres.log"),
        "{words}"
    );
    assert_eq!(cluster.address(), None);
    fs::write(&conf, text).expect("its settings");
    start(&mut cluster);
}

#[test]
fn modes_are_set_right() {
    let home = Home::with_cluster();
    let open = fs::Permissions::from_mode(0o755);
    fs::set_permissions(home.cluster(), open).expect("a mode");
    let mut cluster = home.open();
    start(&mut cluster);
    let mode = fs::metadata(home.cluster()).expect("a cluster").mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[test]
fn no_link_is_written_through() {
    let home = Home::with_cluster();
    let target = home.top().join("target");
    fs::write(&target, "").expect("a file");
    symlink(&target, home.data().join("postgres.log")).expect("a link");
    let mut cluster = home.open();
    let fault = try_start(&mut cluster).expect_err("a link is refused");
    assert!(
        matches!(fault, ClusterFault::FolderUnusable { .. }),
        "{fault:?}"
    );
    assert_eq!(fs::read_to_string(&target).expect("a file"), "");
}

#[test]
fn a_data_folder_that_cannot_be_made_is_told() {
    let home = Home::empty();
    fs::write(home.data(), "a file").expect("a file");
    let fault = refused(ClusterPlan::new(home.data().join("deeper"), programs()));
    assert!(
        matches!(fault, ClusterFault::FolderUnusable { .. }),
        "{fault:?}"
    );
    assert!(fault.to_string().contains("QUEEN_DATA_DIR"), "{fault}");
}

#[test]
fn a_wrong_folder_of_programs_is_told() {
    let fault = find_programs(Some(&PathBuf::from("/nowhere"))).expect_err("no programs");
    assert!(
        fault.to_string().contains("QUEEN_PG_BIN=/nowhere"),
        "{fault}"
    );
}

#[test]
fn a_folder_that_the_server_cannot_reach_is_named() {
    if !is_root() {
        note("not root: that a data folder is closed to PostgreSQL's user was not tried");
        return;
    }
    let home = Home::named("closed/data");
    let closed = home.top().join("closed");
    fs::create_dir(&closed).expect("a folder");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).expect("a mode");
    let fault = refused(home.plan());
    let text = fault.to_string();
    match fault {
        ClusterFault::Unreachable { barrier, .. } => {
            assert_eq!(barrier, fs::canonicalize(&closed).expect("it is there"));
        }
        other => panic!("{other:?}"),
    }
    assert!(
        text.contains("QUEEN_DATA_DIR") && text.contains("/closed keeps it out"),
        "{text}"
    );
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o711)).expect("a mode");
    drop(home.open());
}

#[test]
fn a_cluster_of_root_is_refused() {
    if !is_root() {
        note("not root: a cluster of root was not tried");
        return;
    }
    let home = Home::with_cluster();
    chown(home.cluster(), Some(0), Some(0)).expect("an owner");
    let fault = refused(home.plan());
    assert!(
        matches!(fault, ClusterFault::WrongOwner { .. }),
        "{fault:?}"
    );
    assert!(fault.to_string().contains("chown -R"), "{fault}");
}

#[test]
fn a_cluster_of_somebody_else_is_run_as_its_owner_by_root() {
    if !is_root() {
        note("not root: a cluster of another user was not tried");
        return;
    }
    let home = Home::with_cluster();
    let status = std::process::Command::new("chown")
        .args(["-R", "65534:65534"])
        .arg(home.cluster())
        .status();
    assert!(status.expect("chown runs").success());
    let mut cluster = home.open();
    start(&mut cluster);
    let pid = cluster.pid().expect("it runs");
    let process = fs::metadata(format!("/proc/{pid}")).expect("it runs");
    assert_eq!(process.uid(), 65_534);
}
