//! The durable class: what is loaded, stored, read, and when nothing is stored.

mod admin;
mod commit;
mod epochs;
mod groups;
mod idle;
mod ledger;
mod loading;
mod plans;
mod queues;
mod reading;
mod retention;
mod rig;
mod stale;
mod standby;
