//! The broker with PostgreSQL behind it: what is declared survives, brokers on one database agree,
//! and a database that is away, hangs or has no room holds up nothing that it is not needed for.

#[path = "../support/mod.rs"]
mod support;

mod away;
mod durability;
mod ends;
mod faults;
mod flood;
mod full_disk;
mod grant_sources;
mod grants;
mod leftovers;
mod opening;
mod operators;
mod ordinary_user;
mod passwords;
mod pause;
mod private_cluster;
mod reconcile;
mod rig;
mod servers;
mod stored_text;
mod support_itself;
mod survival;
mod together;
mod traffic;
