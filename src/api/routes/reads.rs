//! The routes that tell what the durable class has stored.

use super::admin::{MessagePath, message};
use super::is_segment;
use crate::http::Method;

/// What a path names that can be read. Segments are raw: not yet percent-decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadRoute<'a> {
    /// `/api/v1/resources/queues`
    Queues,
    /// `/api/v1/resources/queues/:queue`
    Queue(&'a [u8]),
    /// `/api/v1/resources/queues/:queue/depth`
    Depth(&'a [u8]),
    /// `/api/v1/resources/overview`
    Overview,
    /// `/api/v1/resources/namespaces`
    Namespaces,
    /// `/api/v1/resources/tasks`
    Tasks,
    /// `/api/v1/resources/partitions`
    Partitions,
    /// `/api/v1/messages`
    Messages,
    /// `/api/v1/messages/:partitionId/:transactionId`
    Message {
        /// The partition's id.
        partition_id: &'a [u8],
        /// The client's id.
        transaction_id: &'a [u8],
    },
    /// `/api/v1/dlq`
    DeadLetters,
    /// `/api/v1/consumer-groups`
    Groups,
    /// `/api/v1/consumer-groups/lagging`
    Lagging,
    /// `/api/v1/consumer-groups/:group`
    Group(&'a [u8]),
    /// `/api/v1/traces/names`
    TraceNames,
    /// `/api/v1/traces/by-name/:name`
    TracesNamed(&'a [u8]),
    /// `/api/v1/traces/:partitionId/:transactionId`
    TracesOf(MessagePath<'a>),
    /// `/api/v1/status`
    Status,
    /// `/api/v1/status/queues`
    StatusQueues,
    /// `/api/v1/status/queues/:queue`
    StatusQueue(&'a [u8]),
    /// `/api/v1/status/analytics`
    Analytics,
    /// `/api/v1/status/buffers`
    Buffers,
    /// `/api/v1/analytics/system-metrics`
    SystemMetrics,
    /// `/api/v1/analytics/worker-metrics`
    WorkerMetrics,
    /// `/api/v1/stats/refresh`
    Refresh,
    /// `/api/v1/fetch`
    Fetch,
    /// `/api/v1/partitions/changed`
    Changed,
}

/// The route of a raw path; `None` where there is none. Other methods may have another route there.
pub fn find_read(path: &[u8]) -> Option<ReadRoute<'_>> {
    let rest = path.strip_prefix(b"/api/v1/")?;
    let end = memchr::memchr(b'/', rest).unwrap_or(rest.len());
    let (first, behind) = rest.split_at(end);
    match first {
        b"resources" => find_resource(behind),
        b"messages" => find_message(behind),
        b"consumer-groups" => match behind {
            b"" => Some(ReadRoute::Groups),
            // A group of that name has to do without this route.
            b"/lagging" => Some(ReadRoute::Lagging),
            _ => segment_behind(behind, b"/").map(ReadRoute::Group),
        },
        b"traces" => match behind {
            b"/names" => Some(ReadRoute::TraceNames),
            _ => match behind.strip_prefix(b"/by-name/") {
                Some(name) => is_segment(name).then_some(ReadRoute::TracesNamed(name)),
                None => message(behind.strip_prefix(b"/")?).map(ReadRoute::TracesOf),
            },
        },
        b"status" => match behind {
            b"" => Some(ReadRoute::Status),
            b"/queues" => Some(ReadRoute::StatusQueues),
            b"/analytics" => Some(ReadRoute::Analytics),
            b"/buffers" => Some(ReadRoute::Buffers),
            _ => segment_behind(behind, b"/queues/").map(ReadRoute::StatusQueue),
        },
        _ => match rest {
            b"dlq" => Some(ReadRoute::DeadLetters),
            b"analytics/system-metrics" => Some(ReadRoute::SystemMetrics),
            b"analytics/worker-metrics" => Some(ReadRoute::WorkerMetrics),
            b"stats/refresh" => Some(ReadRoute::Refresh),
            b"fetch" => Some(ReadRoute::Fetch),
            b"partitions/changed" => Some(ReadRoute::Changed),
            _ => None,
        },
    }
}

fn find_resource(behind: &[u8]) -> Option<ReadRoute<'_>> {
    match behind {
        b"/queues" => Some(ReadRoute::Queues),
        b"/overview" => Some(ReadRoute::Overview),
        b"/namespaces" => Some(ReadRoute::Namespaces),
        b"/tasks" => Some(ReadRoute::Tasks),
        b"/partitions" => Some(ReadRoute::Partitions),
        _ => {
            let name = behind.strip_prefix(b"/queues/")?;
            if is_segment(name) {
                return Some(ReadRoute::Queue(name));
            }
            let queue = name.strip_suffix(b"/depth")?;
            is_segment(queue).then_some(ReadRoute::Depth(queue))
        }
    }
}

fn find_message(behind: &[u8]) -> Option<ReadRoute<'_>> {
    if behind.is_empty() {
        return Some(ReadRoute::Messages);
    }
    let address = behind.strip_prefix(b"/")?;
    let end = memchr::memchr(b'/', address)?;
    let (partition_id, transaction_id) = (&address[..end], &address[end + 1..]);
    is_segment(transaction_id).then_some(ReadRoute::Message {
        partition_id,
        transaction_id,
    })
}

/// The last segment of a path behind what is known of it.
fn segment_behind<'a>(path: &'a [u8], known: &[u8]) -> Option<&'a [u8]> {
    path.strip_prefix(known).filter(|name| is_segment(name))
}

impl ReadRoute<'_> {
    /// The value of `Allow`, if nothing else can be done with the path.
    pub(in crate::api) fn allow(&self) -> &'static str {
        match self {
            ReadRoute::Refresh | ReadRoute::Fetch | ReadRoute::Changed => "POST, OPTIONS",
            _ => "GET, HEAD, OPTIONS",
        }
    }

    /// Whether the route takes the method.
    pub(in crate::api) fn takes(&self, method: Method) -> bool {
        match self {
            ReadRoute::Refresh | ReadRoute::Fetch | ReadRoute::Changed => method == Method::Post,
            _ => matches!(method, Method::Get | Method::Head),
        }
    }
}

/// The value of `Allow` of a path that can be read and written to.
pub(in crate::api) fn allow_of_both(read: &'static str, write: &'static str) -> &'static str {
    match write {
        "DELETE, OPTIONS" => "GET, HEAD, DELETE, OPTIONS",
        "POST, OPTIONS" => "GET, HEAD, POST, OPTIONS",
        "POST, DELETE, OPTIONS" => "GET, HEAD, POST, DELETE, OPTIONS",
        _ => read,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_route() {
        for (path, route) in [
            ("resources/queues", ReadRoute::Queues),
            ("resources/queues/a%2Fb", ReadRoute::Queue(b"a%2Fb")),
            ("resources/queues/depth", ReadRoute::Queue(b"depth")),
            ("resources/queues/", ReadRoute::Queue(b"")),
            ("resources/queues/a/depth", ReadRoute::Depth(b"a")),
            ("resources/overview", ReadRoute::Overview),
            ("resources/namespaces", ReadRoute::Namespaces),
            ("resources/tasks", ReadRoute::Tasks),
            ("resources/partitions", ReadRoute::Partitions),
            ("messages", ReadRoute::Messages),
            (
                "messages/7/a%2Fb",
                ReadRoute::Message {
                    partition_id: b"7",
                    transaction_id: b"a%2Fb",
                },
            ),
            ("dlq", ReadRoute::DeadLetters),
            ("consumer-groups", ReadRoute::Groups),
            ("consumer-groups/lagging", ReadRoute::Lagging),
            ("consumer-groups/g", ReadRoute::Group(b"g")),
            ("traces/names", ReadRoute::TraceNames),
            ("traces/by-name/a%2Fb", ReadRoute::TracesNamed(b"a%2Fb")),
            (
                "traces/7/a%2Fb",
                ReadRoute::TracesOf(MessagePath {
                    partition: b"7",
                    transaction: b"a%2Fb",
                }),
            ),
            ("status", ReadRoute::Status),
            ("status/queues", ReadRoute::StatusQueues),
            ("status/queues/q", ReadRoute::StatusQueue(b"q")),
            ("status/analytics", ReadRoute::Analytics),
            ("status/buffers", ReadRoute::Buffers),
            ("analytics/system-metrics", ReadRoute::SystemMetrics),
            ("analytics/worker-metrics", ReadRoute::WorkerMetrics),
            ("stats/refresh", ReadRoute::Refresh),
            ("fetch", ReadRoute::Fetch),
            ("partitions/changed", ReadRoute::Changed),
        ] {
            let path = format!("/api/v1/{path}");
            assert_eq!(find_read(path.as_bytes()), Some(route), "{path}");
        }
    }

    #[test]
    fn unknown_paths() {
        for path in [
            "",
            "resources",
            "resources/",
            "resources/queue",
            "resources/queues/a/b",
            "resources/queues/a/b/depth",
            "messages/7",
            "messages/7/a/b",
            "messages/7/a/retry",
            "dlq/7",
            "consumer-groups/g/queues/q",
            "traces",
            "traces/",
            "traces/by-name",
            "traces/by-name/a/b",
            "traces/7/a/b",
            "status/queue",
            "status/queues/a/b",
            "stats",
            "partitions",
            "push",
        ] {
            let path = format!("/api/v1/{path}");
            assert_eq!(find_read(path.as_bytes()), None, "{path}");
        }
        assert_eq!(find_read(b"/resources/queues"), None);
    }

    #[test]
    fn allow_says_what_a_route_takes() {
        for route in [ReadRoute::Queues, ReadRoute::Fetch, ReadRoute::Refresh] {
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
