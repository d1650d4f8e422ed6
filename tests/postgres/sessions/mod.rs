//! Sessions with a real server: opening, the schema, changes, the store, the durable class, TLS, and a server that hangs.

mod changes;
mod durable;
mod hanging;
mod opening;
mod passwords;
mod schema;
mod server;
mod store;
mod tls;
