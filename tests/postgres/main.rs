//! The private cluster with the real programs of PostgreSQL, as root and as an ordinary user; and
//! sessions with a real server.

#[path = "../support/home.rs"]
#[allow(dead_code)]
mod home;
#[path = "../support/poll.rs"]
#[allow(dead_code)]
mod poll;

mod adoption;
mod creation;
mod faults;
mod full_disk;
mod ordinary_user;
mod owner;
mod sessions;
mod stopping;
