//! What the suites share: the broker as a child process, a plain HTTP client, polling with a
//! deadline. Each suite includes it with `#[path]` and uses a part of it.
#![allow(dead_code, unused_imports)]

pub(crate) mod broker;
pub(crate) mod client;
pub(crate) mod cores;
pub(crate) mod home;
pub(crate) mod life;
pub(crate) mod parked;
pub(crate) mod poll;
pub(crate) mod queue;
pub(crate) mod server;
pub(crate) mod setup;
pub(crate) mod token;
pub(crate) mod wire;

pub(crate) use broker::{Broker, Plan, shared};
pub(crate) use client::{Answer, Client, encode};
pub(crate) use parked::Parked;
pub(crate) use poll::{eventually, eventually_within};
pub(crate) use queue::{Message, Queue, unique};
pub(crate) use server::{Database, Server};
pub(crate) use setup::{Driver, Setup, each_plan, each_setup};
pub(crate) use wire::Wire;
