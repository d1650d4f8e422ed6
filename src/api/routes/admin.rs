//! The routes by which operators change the durable class, and that by which traces are noted.

use super::is_segment;
use crate::http::Method;

/// What a path of administration names. Segments are raw: not yet percent-decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdminRoute<'a> {
    /// `DELETE /api/v1/consumer-groups/:group`
    Group(&'a [u8]),
    /// `DELETE /api/v1/consumer-groups/:group/queues/:queue`
    GroupOfQueue {
        /// The group.
        group: &'a [u8],
        /// The queue.
        queue: &'a [u8],
    },
    /// `POST /api/v1/consumer-groups/:group/queues/:queue/seek`, and `.../partitions/:partition/seek`
    Seek {
        /// The group.
        group: &'a [u8],
        /// The queue.
        queue: &'a [u8],
        /// The partition; `None`: all.
        partition: Option<&'a [u8]>,
    },
    /// `POST /api/v1/consumer-groups/:group/subscription`
    Subscription(&'a [u8]),
    /// `DELETE /api/v1/dlq`
    Letters,
    /// `POST /api/v1/dlq/replay`
    ReplayLetters,
    /// `POST /api/v1/dlq/:id/replay`
    ReplayLetter(&'a [u8]),
    /// `DELETE /api/v1/messages/:partitionId/:transactionId`
    Message(MessagePath<'a>),
    /// `POST /api/v1/messages/:partitionId/:transactionId/retry`
    Retry(MessagePath<'a>),
    /// `POST /api/v1/traces`
    Traces,
}

/// The address of a message in a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessagePath<'a> {
    /// The partition's id.
    pub partition: &'a [u8],
    /// The client's id of the message.
    pub transaction: &'a [u8],
}

/// The route of a raw path; `None` where there is none.
pub(super) fn find(path: &[u8]) -> Option<AdminRoute<'_>> {
    let verb = path.strip_prefix(b"/api/v1/")?;
    if let Some(rest) = verb.strip_prefix(b"consumer-groups/") {
        return find_group(rest);
    }
    if let Some(rest) = verb.strip_prefix(b"messages/") {
        return match rest.strip_suffix(b"/retry").and_then(message) {
            Some(message) => Some(AdminRoute::Retry(message)),
            None => message(rest).map(AdminRoute::Message),
        };
    }
    match verb {
        b"dlq" => return Some(AdminRoute::Letters),
        b"dlq/replay" => return Some(AdminRoute::ReplayLetters),
        b"traces" => return Some(AdminRoute::Traces),
        _ => {}
    }
    let id = verb.strip_prefix(b"dlq/")?.strip_suffix(b"/replay")?;
    is_segment(id).then_some(AdminRoute::ReplayLetter(id))
}

fn find_group(path: &[u8]) -> Option<AdminRoute<'_>> {
    let mut segments = path.split(|byte| *byte == b'/');
    let group = segments.next()?;
    let rest = [(); 6].map(|()| segments.next());
    match rest {
        [None, ..] => Some(AdminRoute::Group(group)),
        [Some(b"subscription"), None, ..] => Some(AdminRoute::Subscription(group)),
        [Some(b"queues"), Some(queue), None, ..] => Some(AdminRoute::GroupOfQueue { group, queue }),
        [Some(b"queues"), Some(queue), Some(b"seek"), None, ..] => Some(AdminRoute::Seek {
            group,
            queue,
            partition: None,
        }),
        [
            Some(b"queues"),
            Some(queue),
            Some(b"partitions"),
            partition @ Some(_),
            Some(b"seek"),
            None,
        ] => Some(AdminRoute::Seek {
            group,
            queue,
            partition,
        }),
        _ => None,
    }
}

/// Two segments.
pub(super) fn message(path: &[u8]) -> Option<MessagePath<'_>> {
    let slash = memchr::memchr(b'/', path)?;
    let (partition, transaction) = (&path[..slash], &path[slash + 1..]);
    is_segment(transaction).then_some(MessagePath {
        partition,
        transaction,
    })
}

impl AdminRoute<'_> {
    /// The method that the route takes.
    pub(super) fn method(&self) -> Method {
        match self {
            AdminRoute::Group(_)
            | AdminRoute::GroupOfQueue { .. }
            | AdminRoute::Letters
            | AdminRoute::Message(_) => Method::Delete,
            AdminRoute::Seek { .. }
            | AdminRoute::Subscription(_)
            | AdminRoute::ReplayLetters
            | AdminRoute::ReplayLetter(_)
            | AdminRoute::Retry(_)
            | AdminRoute::Traces => Method::Post,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seek<'a>(partition: Option<&'a [u8]>) -> AdminRoute<'a> {
        AdminRoute::Seek {
            group: b"g",
            queue: b"q%2F1",
            partition,
        }
    }

    #[test]
    fn every_route() {
        let message = MessagePath {
            partition: b"17",
            transaction: b"a%2Fb",
        };
        for (path, route) in [
            ("consumer-groups/g", AdminRoute::Group(b"g")),
            ("consumer-groups/lagging", AdminRoute::Group(b"lagging")),
            ("consumer-groups/", AdminRoute::Group(b"")),
            (
                "consumer-groups/g/queues/seek",
                AdminRoute::GroupOfQueue {
                    group: b"g",
                    queue: b"seek",
                },
            ),
            ("consumer-groups/g/queues/q%2F1/seek", seek(None)),
            (
                "consumer-groups/g/queues/q%2F1/partitions/seek/seek",
                seek(Some(b"seek")),
            ),
            (
                "consumer-groups/g/subscription",
                AdminRoute::Subscription(b"g"),
            ),
            ("dlq", AdminRoute::Letters),
            ("dlq/replay", AdminRoute::ReplayLetters),
            ("dlq/7/replay", AdminRoute::ReplayLetter(b"7")),
            ("messages/17/a%2Fb", AdminRoute::Message(message)),
            ("messages/17/a%2Fb/retry", AdminRoute::Retry(message)),
            ("traces", AdminRoute::Traces),
        ] {
            let path = format!("/api/v1/{path}");
            assert_eq!(find(path.as_bytes()), Some(route), "{path}");
        }
    }

    #[test]
    fn unknown_paths() {
        for path in [
            "consumer-groups",
            "consumer-groups/g/queues",
            "consumer-groups/g/seek",
            "consumer-groups/g/queues/q/seek/",
            "consumer-groups/g/queues/q/partitions/p",
            "consumer-groups/g/queues/q/partitions/p/seek/x",
            "consumer-groups/g/queues/q/partitions/p/seek/x/y",
            "consumer-groups/g/subscription/x",
            "dlq/",
            "dlq/7",
            "dlq/7/8/replay",
            "messages",
            "messages/17",
            "messages/17/a/b",
            "messages/17/a/b/retry",
            "traces/",
            "traces/names",
        ] {
            let path = format!("/api/v1/{path}");
            assert_eq!(find(path.as_bytes()), None, "{path}");
        }
    }
}
