//! Sessions with a real server: opening, the schema, changes, the store, TLS, and a server that hangs.

mod changes;
mod hanging;
mod opening;
mod passwords;
mod schema;
mod server;
mod store;
mod tls;
