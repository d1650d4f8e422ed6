//! The broker's process.
fn main() {}
