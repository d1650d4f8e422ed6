//! The project checks itself: who may use whom, sizes, unsafe code, the README's map, and what must
//! not be written anywhere.

#[path = "tidy/imports.rs"]
mod imports;
#[path = "tidy/manifest.rs"]
mod manifest;
#[path = "tidy/readme.rs"]
mod readme;
#[path = "tidy/shape.rs"]
mod shape;
#[path = "tidy/source.rs"]
mod source;
#[path = "tidy/tuning.rs"]
mod tuning;
#[path = "tidy/words.rs"]
mod words;

/// Fails with all faults at once.
#[track_caller]
fn assert_none(rule: &str, faults: &[String]) {
    assert!(faults.is_empty(), "{rule}:\n  {}", faults.join("\n  "));
}
