//! The route table. Paths are compared raw: an escaped slash stays inside its segment.

mod access;
mod admin;
mod durable;
mod reads;

use crate::http::Method;

pub use admin::{AdminRoute, MessagePath};
pub use durable::DurableRoute;
pub(super) use reads::allow_of_both;
pub use reads::{ReadRoute, find_read};

/// What a path names. Segments are raw: not yet percent-decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route<'a> {
    /// `/api/v1/ephemeral/push`
    Push,
    /// `/api/v1/ephemeral/pop`
    Pop,
    /// `/api/v1/ephemeral/ack`
    Ack,
    /// `/api/v1/ephemeral/exchange`
    Exchange,
    /// `/api/v1/ephemeral/configure`
    Configure,
    /// `/api/v1/ephemeral/reset`
    Reset,
    /// `/api/v1/ephemeral/queue/:queue`
    Queue(&'a [u8]),
    /// `/api/v1/ephemeral/queues`
    Queues,
    /// `/api/v1/ephemeral/queues/:queue/depth`
    Depth(&'a [u8]),
    /// `/api/v1/system/ephemeral`
    PauseSwitch,
    /// A route of the durable class.
    Durable(DurableRoute<'a>),
    /// `/health`
    Health,
    /// `/metrics`
    Metrics,
    /// `/metrics/prometheus`
    Prometheus,
}

/// Methods that some route takes, for `OPTIONS *` (RFC 9110 section 9.3.7).
pub(super) const ALLOW_ALL: &str = "GET, HEAD, POST, DELETE, OPTIONS";

const EPHEMERAL: &[u8] = b"/api/v1/ephemeral/";

/// The route of a raw path; `None` where there is none. A slash at the end makes another path.
pub fn find_route(path: &[u8]) -> Option<Route<'_>> {
    let Some(verb) = path.strip_prefix(EPHEMERAL) else {
        return match path {
            b"/api/v1/system/ephemeral" => Some(Route::PauseSwitch),
            b"/health" => Some(Route::Health),
            b"/metrics" => Some(Route::Metrics),
            b"/metrics/prometheus" => Some(Route::Prometheus),
            _ => durable::find(path).map(Route::Durable),
        };
    };
    match verb {
        b"push" => Some(Route::Push),
        b"pop" => Some(Route::Pop),
        b"ack" => Some(Route::Ack),
        b"exchange" => Some(Route::Exchange),
        b"configure" => Some(Route::Configure),
        b"reset" => Some(Route::Reset),
        b"queues" => Some(Route::Queues),
        _ => {
            if let Some(segment) = verb.strip_prefix(b"queue/") {
                return is_segment(segment).then_some(Route::Queue(segment));
            }
            let segment = verb.strip_prefix(b"queues/")?.strip_suffix(b"/depth")?;
            is_segment(segment).then_some(Route::Depth(segment))
        }
    }
}

/// An empty segment is one, too: the published clients take a 404 for a broker without this class,
/// so an empty name has to be refused as a name.
fn is_segment(text: &[u8]) -> bool {
    memchr::memchr(b'/', text).is_none()
}

impl Route<'_> {
    /// The value of `Allow`.
    pub fn allow(&self) -> &'static str {
        match self {
            Route::Push | Route::Ack | Route::Exchange | Route::Configure | Route::Reset => {
                "POST, OPTIONS"
            }
            // HEAD would take messages that nobody sees.
            Route::Pop => "GET, OPTIONS",
            Route::Queue(_) => "DELETE, OPTIONS",
            Route::PauseSwitch => "GET, HEAD, POST, OPTIONS",
            Route::Durable(route) => route.allow(),
            Route::Queues
            | Route::Depth(_)
            | Route::Health
            | Route::Metrics
            | Route::Prometheus => "GET, HEAD, OPTIONS",
        }
    }

    /// Whether the route takes the method, `OPTIONS` aside.
    pub fn takes(&self, method: Method) -> bool {
        match self {
            Route::Push | Route::Ack | Route::Exchange | Route::Configure | Route::Reset => {
                method == Method::Post
            }
            Route::Pop => method == Method::Get,
            Route::Queue(_) => method == Method::Delete,
            Route::PauseSwitch => matches!(method, Method::Get | Method::Head | Method::Post),
            Route::Durable(route) => route.takes(method),
            Route::Queues
            | Route::Depth(_)
            | Route::Health
            | Route::Metrics
            | Route::Prometheus => matches!(method, Method::Get | Method::Head),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_route() {
        for (path, route) in [
            ("/api/v1/ephemeral/push", Route::Push),
            ("/api/v1/ephemeral/pop", Route::Pop),
            ("/api/v1/ephemeral/ack", Route::Ack),
            ("/api/v1/ephemeral/exchange", Route::Exchange),
            ("/api/v1/ephemeral/configure", Route::Configure),
            ("/api/v1/ephemeral/reset", Route::Reset),
            ("/api/v1/ephemeral/queue/a", Route::Queue(b"a")),
            (
                "/api/v1/ephemeral/queue/reply%2F42",
                Route::Queue(b"reply%2F42"),
            ),
            ("/api/v1/ephemeral/queues", Route::Queues),
            ("/api/v1/ephemeral/queues/a%2f/depth", Route::Depth(b"a%2f")),
            (
                "/api/v1/ephemeral/queues/depth/depth",
                Route::Depth(b"depth"),
            ),
            ("/api/v1/system/ephemeral", Route::PauseSwitch),
            ("/health", Route::Health),
            ("/metrics", Route::Metrics),
            ("/metrics/prometheus", Route::Prometheus),
        ] {
            assert_eq!(find_route(path.as_bytes()), Some(route), "{path}");
            let slash = format!("{path}/");
            assert_eq!(find_route(slash.as_bytes()), None, "{slash}");
        }
    }

    #[test]
    fn an_empty_segment_is_a_name_to_be_refused() {
        let find = |path: &'static str| find_route(path.as_bytes());
        assert_eq!(find("/api/v1/ephemeral/queue/"), Some(Route::Queue(b"")));
        assert_eq!(
            find("/api/v1/ephemeral/queues//depth"),
            Some(Route::Depth(b""))
        );
        assert_eq!(find("/api/v1/ephemeral/queue//"), None);
        assert_eq!(find("/api/v1/ephemeral/queues/depth"), None);
    }

    #[test]
    fn unknown_paths() {
        for path in [
            "",
            "/",
            "*",
            "/api/v1/ephemeral",
            "/api/v1/ephemeral/",
            "/api/v1/ephemeral/Push",
            "/api/v1/ephemeral/%70ush",
            "/api/v1/ephemeral/queue",
            "/api/v1/ephemeral/queue/a/b",
            "/api/v1/ephemeral/queues/a",
            "/api/v1/ephemeral/queues/depth",
            "/api/v1/ephemeral/queues/a/b/depth",
            "//health",
            "/api/v1/pushes",
        ] {
            assert_eq!(find_route(path.as_bytes()), None, "{path}");
        }
    }

    #[test]
    fn allow_says_what_a_route_takes() {
        let methods = [
            (Method::Get, "GET"),
            (Method::Head, "HEAD"),
            (Method::Post, "POST"),
            (Method::Put, "PUT"),
            (Method::Delete, "DELETE"),
            (Method::Patch, "PATCH"),
        ];
        for route in [
            Route::Push,
            Route::Pop,
            Route::Queue(b"a"),
            Route::Queues,
            Route::Depth(b"a"),
            Route::PauseSwitch,
            Route::Health,
        ] {
            let allow: Vec<&str> = route.allow().split(", ").collect();
            assert!(allow.contains(&"OPTIONS"));
            for (method, name) in methods {
                assert_eq!(
                    route.takes(method),
                    allow.contains(&name),
                    "{route:?} {name}"
                );
            }
        }
    }
}
