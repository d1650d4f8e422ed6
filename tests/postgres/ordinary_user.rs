//! The same tests once more as an ordinary user, where root runs them.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::home::{Home, TEMPLATE_VARIABLE, copy, is_root, note};

/// Everybody's nobody.
const USER_ID: u32 = 65_534;

/// Tells the other process what it is, so that it does not begin anew.
const VARIABLE: &str = "QUEEN_TEST_CLUSTER_USER";

#[test]
fn everything_works_for_an_ordinary_user() {
    if std::env::var_os(VARIABLE).is_some() {
        assert!(!is_root());
        return;
    }
    if !is_root() {
        note("not root: the private cluster ran as this user only");
        return;
    }
    let home = Home::empty();
    // What Cargo builds may be closed to the user.
    let binary = home.top().join("tests");
    copy(&std::env::current_exe().expect("this binary"), &binary);
    fs::set_permissions(&binary, fs::Permissions::from_mode(0o755)).expect("its mode");
    let kept = home.top().join("kept");
    fs::create_dir(&kept).expect("a folder");
    chown(&kept, Some(USER_ID), Some(USER_ID)).expect("its owner");
    // Sessions do not depend on who the broker runs as.
    let output = Command::new(&binary)
        .args(["--skip", "sessions::"])
        .env(VARIABLE, "1")
        .env(TEMPLATE_VARIABLE, &kept)
        .env("TMPDIR", "/tmp")
        .current_dir("/")
        .uid(USER_ID)
        .gid(USER_ID)
        .output()
        .expect("this binary runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let faults = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{text}\n{faults}");
    // The summary of the outer run counts this as one test.
    assert!(text.contains("test result: ok"), "{text}");
}
