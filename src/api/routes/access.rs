//! The level of access that a request needs where tokens are asked for.

use super::{AdminRoute, DurableRoute, ReadRoute, Route};
use crate::auth::Access;

impl Route<'_> {
    /// The level that the route needs; `None`: it is open to all. What an exchange needs follows from
    /// its legs, and a pop that settles needs more.
    pub fn access(&self) -> Option<Access> {
        match self {
            Route::Health | Route::Metrics | Route::Prometheus => None,
            Route::Exchange => Some(Access::Authenticated),
            Route::Pop | Route::Queues | Route::Depth(_) => Some(Access::Read),
            Route::Push => Some(Access::Write),
            Route::Ack | Route::Configure | Route::Reset | Route::Queue(_) => {
                Some(Access::ReadWrite)
            }
            Route::PauseSwitch => Some(Access::Admin),
            Route::Durable(route) => Some(route.access()),
        }
    }
}

impl DurableRoute<'_> {
    fn access(&self) -> Access {
        match self {
            DurableRoute::Push => Access::Write,
            DurableRoute::Queue(_) => Access::Admin,
            DurableRoute::Admin(route) => route.access(),
            DurableRoute::Configure
            | DurableRoute::Discover
            | DurableRoute::Pop(_)
            | DurableRoute::PopPartition { .. }
            | DurableRoute::Ack
            | DurableRoute::AckBatch
            | DurableRoute::Extend(_)
            | DurableRoute::Step => Access::ReadWrite,
        }
    }
}

impl AdminRoute<'_> {
    fn access(&self) -> Access {
        match self {
            AdminRoute::Group(_) | AdminRoute::GroupOfQueue { .. } => Access::Admin,
            AdminRoute::Seek { .. }
            | AdminRoute::Subscription(_)
            | AdminRoute::Letters
            | AdminRoute::ReplayLetters
            | AdminRoute::ReplayLetter(_)
            | AdminRoute::Message(_)
            | AdminRoute::Retry(_)
            | AdminRoute::Traces => Access::ReadWrite,
        }
    }
}

impl ReadRoute<'_> {
    /// The level that the question needs; to have everything counted anew costs all who ask.
    pub fn access(&self) -> Access {
        match self {
            ReadRoute::Refresh => Access::Admin,
            ReadRoute::Queues
            | ReadRoute::Queue(_)
            | ReadRoute::Depth(_)
            | ReadRoute::Overview
            | ReadRoute::Namespaces
            | ReadRoute::Tasks
            | ReadRoute::Partitions
            | ReadRoute::Messages
            | ReadRoute::Message { .. }
            | ReadRoute::DeadLetters
            | ReadRoute::Groups
            | ReadRoute::Lagging
            | ReadRoute::Group(_)
            | ReadRoute::TraceNames
            | ReadRoute::TracesNamed(_)
            | ReadRoute::TracesOf(_)
            | ReadRoute::Status
            | ReadRoute::StatusQueues
            | ReadRoute::StatusQueue(_)
            | ReadRoute::Analytics
            | ReadRoute::Buffers
            | ReadRoute::SystemMetrics
            | ReadRoute::WorkerMetrics
            | ReadRoute::Fetch
            | ReadRoute::Changed => Access::Read,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{find_read, find_route};
    use super::*;
    use crate::http::Method;

    const OPEN: &str = "GET /health, GET /metrics, GET /metrics/prometheus";
    const ANY: &str = "POST ephemeral/exchange";
    const READ: &str = "GET ephemeral/pop, GET ephemeral/queues, GET ephemeral/queues/a/depth, \
        GET resources/queues, GET resources/queues/a, GET messages, GET messages/1/a, GET dlq, \
        GET consumer-groups/a, GET traces/names, GET status/buffers, POST fetch, \
        POST partitions/changed";
    const WRITE: &str = "POST ephemeral/push, POST push";
    const READ_WRITE: &str = "POST ephemeral/ack, POST ephemeral/configure, POST ephemeral/reset, \
        DELETE ephemeral/queue/a, POST configure, GET pop, GET pop/queue/a, \
        GET pop/queue/a/partition/b, POST ack, POST ack/batch, POST lease/a/extend, \
        POST transaction, DELETE dlq, POST dlq/replay, POST dlq/7/replay, \
        POST messages/1/a/retry, DELETE messages/1/a, POST consumer-groups/a/queues/b/seek, \
        POST consumer-groups/a/subscription, POST traces";
    const ADMIN: &str = "GET system/ephemeral, POST system/ephemeral, POST stats/refresh, \
        DELETE resources/queues/a, DELETE consumer-groups/a, DELETE consumer-groups/a/queues/b";

    fn access(line: &str) -> Option<Access> {
        let (method, path) = line.split_once(' ').expect("method and path");
        let method = match method {
            "GET" => Method::Get,
            "POST" => Method::Post,
            _ => Method::Delete,
        };
        let path = match path.starts_with('/') {
            true => path.to_owned(),
            false => format!("/api/v1/{path}"),
        };
        if let Some(read) = find_read(path.as_bytes()).filter(|read| read.takes(method)) {
            return Some(read.access());
        }
        let route = find_route(path.as_bytes()).expect("a route");
        assert!(route.takes(method), "{line}");
        route.access()
    }

    #[test]
    fn every_route_needs_what_it_should() {
        for (routes, needed) in [
            (OPEN, None),
            (ANY, Some(Access::Authenticated)),
            (READ, Some(Access::Read)),
            (WRITE, Some(Access::Write)),
            (READ_WRITE, Some(Access::ReadWrite)),
            (ADMIN, Some(Access::Admin)),
        ] {
            for line in routes.split(", ") {
                assert_eq!(access(line), needed, "{line}");
            }
        }
    }
}
