//! From a request's bytes to a call. Names and ids borrow from the request wherever they can.

mod ack;
mod configure;
mod durable;
mod exchange;
mod json;
mod nesting;
mod pause;
mod push;
mod query;
mod reads;

use std::borrow::Cow;

use bytes::Bytes;

use super::routes::{ALLOW_ALL, Route, allow_of_both, find_read, find_route};
use super::status::ApiFault;
use crate::auth::{self, Access, Authenticator, Principal};
use crate::http::{Fault, Head, Method, decode_path_segment};
use crate::model::durable::read::Read;
use crate::model::{Command, Configure, Exchange, Pop, QueueName, Refusal, TenantId};

/// A request body, framing removed.
#[derive(Clone, Copy, Debug)]
pub struct BodyBytes<'a> {
    text: &'a [u8],
    owned: Option<&'a Bytes>,
}

impl<'a> BodyBytes<'a> {
    /// A body in a buffer that is reused after the call.
    pub fn borrowed(text: &'a [u8]) -> BodyBytes<'a> {
        BodyBytes { text, owned: None }
    }

    /// A body with a buffer of its own, which a large payload may keep.
    pub fn owned(body: &'a Bytes) -> BodyBytes<'a> {
        BodyBytes {
            text: body,
            owned: Some(body),
        }
    }

    /// Whether there is no body.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Whether it is JSON of whatever shape.
    pub(super) fn is_json(&self) -> bool {
        serde_json::from_slice::<serde::de::IgnoredAny>(self.text).is_ok()
    }

    /// A payload that stands in this body. It is copied, unless it makes up most of a buffer that
    /// may be kept: a body is never kept for a small part of it.
    fn keep(&self, payload: &str) -> Bytes {
        const KEPT_BYTES_MIN: usize = 4 * 1024;
        match self.owned {
            Some(body) if payload.len() >= KEPT_BYTES_MIN && payload.len() >= body.len() / 2 => {
                body.slice_ref(payload.as_bytes())
            }
            _ => Bytes::copy_from_slice(payload.as_bytes()),
        }
    }
}

/// What holds for every request while it is decoded.
#[derive(Clone, Copy)]
pub struct DecodeRules<'a> {
    /// Whether requests name their tenant.
    pub tenancy: bool,
    /// Whether the class serves a tenant now: the operator's pause, then the tenant's grant.
    pub admits: &'a dyn Fn(TenantId) -> Result<(), Refusal>,
    /// Milliseconds that a waiting pop waits if it does not say.
    pub pop_default_timeout_ms: u64,
    /// Who is asked for tokens; `None`: nobody is.
    pub authenticator: Option<&'a Authenticator>,
}

impl std::fmt::Debug for DecodeRules<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("DecodeRules")
            .field("tenancy", &self.tenancy)
            .field("pop_default_timeout_ms", &self.pop_default_timeout_ms)
            .field("authenticator", &self.authenticator)
            .finish_non_exhaustive()
    }
}

/// What a request asks for.
#[derive(Clone, Debug)]
pub enum Call<'a> {
    /// A command of the ephemeral class; never [`Command::Queues`].
    Ephemeral {
        /// Who asks.
        tenant: TenantId,
        /// For what.
        command: Command<'a>,
    },
    /// A command of the durable class.
    Durable {
        /// Who asks.
        tenant: TenantId,
        /// For what.
        command: crate::model::durable::Command,
    },
    /// A question about what the durable class has stored.
    Read {
        /// Who asks.
        tenant: TenantId,
        /// For what.
        read: Read,
    },
    /// How many pushes wait on disk for the database.
    Buffers,
    /// Several commands that are answered together.
    Exchange(ExchangeRequest<'a>),
    /// A listing, which takes several steps.
    Listing {
        /// Who asks.
        tenant: TenantId,
        /// What is to be listed.
        listing: ListRequest<'a>,
    },
    /// Whether the class is paused.
    PauseGet,
    /// Enable (`true`) or pause the class.
    PauseSet(bool),
    /// How the broker is.
    Health,
    /// Figures as JSON.
    Metrics,
    /// Figures as Prometheus text.
    Prometheus,
    /// Which methods there are.
    Options {
        /// The value of `Allow`.
        allow: &'static str,
    },
}

/// Several commands that are answered together. Whether the tenant may use the class is judged for
/// each of them, not when they are decoded.
#[derive(Clone, Debug)]
pub struct ExchangeRequest<'a> {
    /// Who asks.
    pub tenant: TenantId,
    /// For what.
    pub exchange: Exchange<'a>,
}

/// A listing of queues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListRequest<'a> {
    /// Only names after this one.
    pub after: Option<Cow<'a, str>>,
    /// Only names that begin so.
    pub prefix: Cow<'a, str>,
    /// Rows at most; `None`: all.
    pub limit: Option<u64>,
}

/// Decodes one request.
///
/// # Errors
/// No such route or method, a caller who may not, or a refusal. A push is refused for its form before it is asked whether
/// the class serves the tenant, and one of nothing is not asked at all; the other verbs are refused
/// for that first. The switch of the class, health and metrics are never asked.
pub fn decode<'a>(
    head: &Head<'a>,
    body: BodyBytes<'a>,
    rules: &DecodeRules<'_>,
) -> Result<Call<'a>, ApiFault> {
    if matches!(head.method, Method::Other | Method::Connect | Method::Trace) {
        return Err(ApiFault::MethodUnknown);
    }
    if head.method == Method::Options && head.path == b"*" {
        return Ok(Call::Options { allow: ALLOW_ALL });
    }
    let route = find_route(head.path);
    let read = match route {
        // What is most in a hurry is not asked whether it is a question.
        Some(Route::Durable(_)) | None => find_read(head.path),
        Some(_) => None,
    };
    if let Some(read) = read.filter(|read| read.takes(head.method)) {
        authorize(head, Some(read.access()), rules)?;
        return reads::decode(read, head, body, rules).map_err(ApiFault::Durable);
    }
    let allow = match (route, read) {
        (Some(route), None) => route.allow(),
        (None, Some(read)) => read.allow(),
        (Some(route), Some(read)) => allow_of_both(read.allow(), route.allow()),
        (None, None) => {
            // Asked for as one that changes something.
            if head.method != Method::Options {
                authorize(head, Some(Access::ReadWrite), rules)?;
            }
            return Err(ApiFault::NoSuchRoute);
        }
    };
    if head.method == Method::Options {
        return Ok(Call::Options { allow });
    }
    let taken = route.filter(|route| route.takes(head.method));
    let route = taken.ok_or(ApiFault::MethodNotAllowed { allow })?;
    let principal = authorize(head, route.access(), rules)?;
    match route {
        Route::PauseSwitch if head.method == Method::Post => Ok(Call::PauseSet(
            pause::decode(body).map_err(ApiFault::BadSystemRequest)?,
        )),
        Route::PauseSwitch => Ok(Call::PauseGet),
        Route::Health => Ok(Call::Health),
        Route::Metrics => Ok(Call::Metrics),
        Route::Prometheus => Ok(Call::Prometheus),
        Route::Push
        | Route::Exchange
        | Route::Pop
        | Route::Ack
        | Route::Configure
        | Route::Reset
        | Route::Queue(_)
        | Route::Queues
        | Route::Depth(_) => {
            let call = decode_ephemeral(route, head, body, rules).map_err(ApiFault::Refused)?;
            principal
                .require(access_of(&call))
                .map_err(ApiFault::Auth)?;
            Ok(call)
        }
        Route::Durable(route) => {
            durable::decode(route, head, body, rules, &principal).map_err(ApiFault::Durable)
        }
    }
}

/// Checks by its head whether a request may be sent at all, before its body is received: strangers shall
/// not make the broker hold what they send.
///
/// # Errors
/// There is no token that holds and grants what the route needs.
pub fn check_token(head: &Head<'_>, authenticator: &Authenticator) -> Result<(), ApiFault> {
    let read = find_read(head.path).filter(|read| read.takes(head.method));
    let needed = match (read, find_route(head.path)) {
        (Some(read), _) => Some(read.access()),
        (None, Some(route)) if route.takes(head.method) => route.access(),
        // What is no call is answered for that.
        _ => None,
    };
    let authorized = authenticator.authorize(head, needed);
    authorized.map(drop).map_err(ApiFault::Auth)
}

/// Who sends the request, if that one may do what needs the level; `None`: anybody may.
fn authorize(
    head: &Head<'_>,
    needed: Option<Access>,
    rules: &DecodeRules<'_>,
) -> Result<Principal, ApiFault> {
    match rules.authenticator {
        None => Ok(Principal::UNCHECKED),
        Some(authenticator) => authenticator
            .authorize(head, needed)
            .map_err(ApiFault::Auth),
    }
}

/// What a call needs besides its route, which follows from what is asked for.
fn access_of(call: &Call<'_>) -> Access {
    match call {
        Call::Ephemeral {
            command: Command::Pop(pop),
            ..
        } => pop_access(pop),
        Call::Exchange(request) => exchange::access(&request.exchange),
        _ => Access::Authenticated,
    }
}

/// What a pop of the ephemeral class needs: one that settles what it takes, what an ack needs.
fn pop_access(pop: &Pop<'_>) -> Access {
    match pop.auto_ack {
        true => Access::ReadWrite,
        false => Access::Read,
    }
}

fn decode_ephemeral<'a>(
    route: Route<'a>,
    head: &Head<'a>,
    body: BodyBytes<'a>,
    rules: &DecodeRules<'_>,
) -> Result<Call<'a>, Refusal> {
    let tenant = auth::tenant(head, rules.tenancy)
        .map_err(|fault| Refusal::bad_request(fault.to_string()))?;
    if !matches!(route, Route::Push | Route::Exchange) {
        (rules.admits)(tenant)?;
    }
    let query = head.query.unwrap_or_default();
    let command = match route {
        Route::Push => {
            let push = push::decode(body)?;
            if !push.payloads.is_empty() {
                (rules.admits)(tenant)?;
            }
            Command::Push(push)
        }
        Route::Pop => Command::Pop(query::decode_pop(query, rules.pop_default_timeout_ms)?),
        Route::Ack => Command::Ack(ack::decode(body)?),
        Route::Configure => Command::Configure(configure::decode(body)?),
        Route::Reset => Command::Reset(configure::decode_reset(body)?),
        Route::Queue(segment) => Command::Delete(queue_in_path(segment)?),
        Route::Depth(segment) => Command::Depth {
            queue: queue_in_path(segment)?,
            group: query::decode_depth(query)?,
        },
        Route::Exchange => {
            let exchange = exchange::decode(body, rules.pop_default_timeout_ms)?;
            return Ok(Call::Exchange(ExchangeRequest { tenant, exchange }));
        }
        Route::Queues => {
            let listing = query::decode_listing(query)?;
            return Ok(Call::Listing { tenant, listing });
        }
        Route::Durable(_)
        | Route::PauseSwitch
        | Route::Health
        | Route::Metrics
        | Route::Prometheus => {
            unreachable!("not a route of the ephemeral class: {route:?}")
        }
    };
    Ok(Call::Ephemeral { tenant, command })
}

/// Reads a declaration as it is stored: the options as a client has sent them.
///
/// # Errors
/// Somebody has written a row by hand that no client could have sent, or a later version has.
pub fn read_declaration(queue: &str, options: &str) -> Result<Configure<'static>, Refusal> {
    configure::read_stored(queue, options)
}

fn queue_in_path(segment: &[u8]) -> Result<QueueName<'_>, Refusal> {
    queue_name(segment_text(segment).map_err(Refusal::bad_request)?)
}

fn segment_text(segment: &[u8]) -> Result<Cow<'_, str>, String> {
    decode_path_segment(segment).map_err(|fault| bad_target("path", fault))
}

fn bad_target(part: &str, fault: Fault) -> String {
    format!("the {part} is malformed: {}", fault.text)
}

fn queue_name<'a>(text: impl Into<Cow<'a, str>>) -> Result<QueueName<'a>, Refusal> {
    QueueName::new(text).map_err(|fault| Refusal::bad_request(format!("queue {fault}")))
}

#[cfg(test)]
#[path = "decode_test.rs"]
mod tests;
