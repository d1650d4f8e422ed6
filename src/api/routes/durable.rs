//! The routes of the durable class.

use super::admin::{self, AdminRoute};
use super::is_segment;
use crate::http::Method;

/// What a path of the durable class names. Segments are raw: not yet percent-decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DurableRoute<'a> {
    /// `/api/v1/configure`
    Configure,
    /// `/api/v1/resources/queues/:queue`
    Queue(&'a [u8]),
    /// `/api/v1/push`
    Push,
    /// `/api/v1/pop`
    Discover,
    /// `/api/v1/pop/queue/:queue`
    Pop(&'a [u8]),
    /// `/api/v1/pop/queue/:queue/partition/:partition`
    PopPartition {
        /// The queue.
        queue: &'a [u8],
        /// The partition.
        partition: &'a [u8],
    },
    /// `/api/v1/ack`
    Ack,
    /// `/api/v1/ack/batch`
    AckBatch,
    /// `/api/v1/lease/:leaseId/extend`
    Extend(&'a [u8]),
    /// `/api/v1/transaction`
    Step,
    /// A route of operators.
    Admin(AdminRoute<'a>),
}

/// The route of a raw path; `None` where there is none.
pub(super) fn find(path: &[u8]) -> Option<DurableRoute<'_>> {
    let verb = path.strip_prefix(b"/api/v1/")?;
    match verb {
        b"configure" => Some(DurableRoute::Configure),
        b"push" => Some(DurableRoute::Push),
        b"pop" => Some(DurableRoute::Discover),
        b"ack" => Some(DurableRoute::Ack),
        b"ack/batch" => Some(DurableRoute::AckBatch),
        b"transaction" => Some(DurableRoute::Step),
        _ => find_named(verb).or_else(|| admin::find(path).map(DurableRoute::Admin)),
    }
}

/// Those with names in their paths.
fn find_named(verb: &[u8]) -> Option<DurableRoute<'_>> {
    if let Some(rest) = verb.strip_prefix(b"pop/queue/") {
        let Some(end) = memchr::memchr(b'/', rest) else {
            return Some(DurableRoute::Pop(rest));
        };
        let (queue, rest) = rest.split_at(end);
        let partition = rest.strip_prefix(b"/partition/")?;
        return is_segment(partition).then_some(DurableRoute::PopPartition { queue, partition });
    }
    if let Some(segment) = verb.strip_prefix(b"resources/queues/") {
        return is_segment(segment).then_some(DurableRoute::Queue(segment));
    }
    let lease = verb.strip_prefix(b"lease/")?.strip_suffix(b"/extend")?;
    is_segment(lease).then_some(DurableRoute::Extend(lease))
}

impl DurableRoute<'_> {
    /// The value of `Allow`.
    pub(super) fn allow(&self) -> &'static str {
        match self.method() {
            Method::Get => "GET, OPTIONS",
            Method::Delete => "DELETE, OPTIONS",
            _ => "POST, OPTIONS",
        }
    }

    /// Whether the route takes the method. HEAD would take messages that nobody sees.
    pub(super) fn takes(&self, method: Method) -> bool {
        method == self.method()
    }

    fn method(&self) -> Method {
        match self {
            DurableRoute::Discover | DurableRoute::Pop(_) | DurableRoute::PopPartition { .. } => {
                Method::Get
            }
            DurableRoute::Queue(_) => Method::Delete,
            DurableRoute::Admin(route) => route.method(),
            DurableRoute::Configure
            | DurableRoute::Push
            | DurableRoute::Ack
            | DurableRoute::AckBatch
            | DurableRoute::Extend(_)
            | DurableRoute::Step => Method::Post,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Route, find_route};
    use super::*;

    #[test]
    fn every_route() {
        for (path, route) in [
            ("configure", DurableRoute::Configure),
            ("push", DurableRoute::Push),
            ("pop", DurableRoute::Discover),
            ("pop/queue/a%2Fb", DurableRoute::Pop(b"a%2Fb")),
            ("pop/queue/partition", DurableRoute::Pop(b"partition")),
            ("pop/queue/", DurableRoute::Pop(b"")),
            (
                "pop/queue/a/partition/p%20q",
                DurableRoute::PopPartition {
                    queue: b"a",
                    partition: b"p%20q",
                },
            ),
            (
                "pop/queue//partition/",
                DurableRoute::PopPartition {
                    queue: b"",
                    partition: b"",
                },
            ),
            ("ack", DurableRoute::Ack),
            ("ack/batch", DurableRoute::AckBatch),
            ("lease/x-1/extend", DurableRoute::Extend(b"x-1")),
            ("resources/queues/a", DurableRoute::Queue(b"a")),
            ("transaction", DurableRoute::Step),
        ] {
            let path = format!("/api/v1/{path}");
            assert_eq!(find_route(path.as_bytes()), Some(Route::Durable(route)));
        }
    }

    #[test]
    fn unknown_paths() {
        for path in [
            "",
            "push/",
            "pop/",
            "pop/queue",
            "pop/queue/a/",
            "pop/queue/a/partition",
            "pop/queue/a/partitions/b",
            "pop/queue/a/partition/b/c",
            "pop/queue/a/b/partition/c",
            "ack/batches",
            "lease/extend",
            "lease/a/b/extend",
            "lease/a",
            "resources/queues",
            "resources/queues/a/b",
            "transactions",
        ] {
            let path = format!("/api/v1/{path}");
            assert_eq!(find_route(path.as_bytes()), None, "{path}");
        }
    }

    #[test]
    fn allow_says_what_a_route_takes() {
        for route in [
            DurableRoute::Push,
            DurableRoute::Discover,
            DurableRoute::Pop(b"a"),
            DurableRoute::Queue(b"a"),
            DurableRoute::Extend(b"a"),
            DurableRoute::Admin(AdminRoute::Letters),
            DurableRoute::Admin(AdminRoute::ReplayLetters),
            DurableRoute::Admin(AdminRoute::Traces),
        ] {
            for (method, name) in [
                (Method::Get, "GET"),
                (Method::Head, "HEAD"),
                (Method::Post, "POST"),
                (Method::Delete, "DELETE"),
            ] {
                let allowed = route.allow().split(", ").any(|allowed| allowed == name);
                assert_eq!(route.takes(method), allowed, "{route:?} {name}");
            }
        }
    }
}
