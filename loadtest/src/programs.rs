//! The programs that a comparison starts, built where no path to them was given.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::LoadError;

/// The program `name` of this workspace: where it was `given`, else built for release.
pub fn path(given: Option<&Path>, name: &str) -> Result<PathBuf, LoadError> {
    path_with(given, name, None)
}

/// The same with a cargo feature, written `package/feature`.
pub fn path_with(
    given: Option<&Path>,
    name: &str,
    feature: Option<&str>,
) -> Result<PathBuf, LoadError> {
    if let Some(given) = given {
        return Ok(given.to_owned());
    }
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.toml");
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    // Both packages, so that each program is built with the same features.
    let built = Command::new(cargo)
        .args(["build", "--release", "--package", "queen"])
        .args(["--package", "queen-loadtest", "--bin", name])
        .args(feature.map(|feature| format!("--features={feature}")))
        .arg("--manifest-path")
        .arg(manifest)
        .status()?;
    if !built.success() {
        return Err(LoadError::text(format!("{name} cannot be built")));
    }
    // This program is in the folder of its profile, which lies beside that of the others.
    let own = env::current_exe()?;
    let folder = own
        .parent()
        .and_then(Path::parent)
        .unwrap_or(Path::new("target"));
    Ok(folder.join("release").join(name))
}
