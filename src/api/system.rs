//! Routes that are about the process: health, figures, the operator's pause switch.

use bytes::BytesMut;

use super::encode::{Shape, write_answer};
use super::write_json::{put, put_flag, put_member, put_number, put_text, put_thousandths};
use crate::http::{ResponseHead, ResponseStyle, write_response};

/// Figures of the process, as `GET /metrics` shows them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessFigures {
    /// Seconds since the start.
    pub uptime_s: u64,
    /// Requests answered since the start.
    pub requests: u64,
    /// Requests in a second, in thousandths.
    pub request_rate_milli: u64,
    /// Messages pushed since the start.
    pub pushed: u64,
    /// Messages popped since the start, redeliveries included.
    pub popped: u64,
    /// Completed acks since the start.
    pub acked: u64,
    /// Messages dropped since the start, whatever the cause.
    pub dropped: u64,
    /// Payload bytes held.
    pub held_bytes: u64,
    /// Bytes of memory that are resident.
    pub resident_bytes: u64,
    /// CPU time in user mode, in microseconds.
    pub cpu_user_us: u64,
    /// CPU time in the kernel, in microseconds.
    pub cpu_system_us: u64,
    /// Sessions with the database that are open.
    pub database_sessions: u64,
}

/// How the broker is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Whether it stops.
    pub stopping: bool,
    /// Whether something is wrong that the broker goes on without.
    pub degraded: bool,
    /// `connected`, `away` or `off`.
    pub database: &'static str,
    /// What is wrong with the database, or why there is none.
    pub reason: Option<String>,
    /// Pushes that wait on disk for the database.
    pub buffered: u64,
}

/// Appends the answer of `GET /health`: 503 only while the broker stops.
pub fn encode_health(health: &Health, style: ResponseStyle, out: &mut BytesMut) {
    let (status, word) = match health {
        Health { stopping: true, .. } => (503, "stopping"),
        Health { degraded: true, .. } => (200, "degraded"),
        _ => (200, "healthy"),
    };
    write_answer(status, Shape::Response(style), out, |out| {
        put(out, "{\"status\":\"");
        put(out, word);
        put(out, "\",\"database\":\"");
        put(out, health.database);
        if let Some(reason) = &health.reason {
            put(out, "\",\"reason\":");
            put_text(out, reason);
            put(out, ",\"engine\":\"queen\",\"version\":\"");
        } else {
            put(out, "\",\"engine\":\"queen\",\"version\":\"");
        }
        put(out, env!("CARGO_PKG_VERSION"));
        put(out, "\"");
        if health.buffered > 0 {
            put_member(out, "buffered", health.buffered);
        }
        put(out, "}");
    });
}

/// Pushes that wait on disk for the database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Buffers {
    /// Messages that wait.
    pub pending: u64,
    /// Bytes of their files.
    pub bytes: u64,
    /// Messages that could not be stored when their turn came.
    pub failed: u64,
    /// Whether the database answers.
    pub database_answers: bool,
    /// `idle`, `waiting` for the database, or `off`.
    pub worker: &'static str,
}

/// Appends the answer of `GET /api/v1/status/buffers`.
pub fn encode_buffers(buffers: &Buffers, style: ResponseStyle, out: &mut BytesMut) {
    write_answer(200, Shape::Response(style), out, |out| {
        put(out, "{\"pending\":");
        put_number(out, buffers.pending);
        put_member(out, "bytes", buffers.bytes);
        put_member(out, "failed", buffers.failed);
        put(out, ",\"dbHealthy\":");
        put_flag(out, buffers.database_answers);
        put(out, ",\"worker\":\"");
        put(out, buffers.worker);
        put(out, "\"}");
    });
}

/// Appends the answer of `GET /metrics`.
pub fn encode_metrics(figures: &ProcessFigures, style: ResponseStyle, out: &mut BytesMut) {
    write_answer(200, Shape::Response(style), out, |out| {
        put(out, "{\"uptime\":");
        put_number(out, figures.uptime_s);
        put(out, ",\"requests\":{\"total\":");
        put_number(out, figures.requests);
        put(out, ",\"rate\":");
        put_thousandths(out, figures.request_rate_milli);
        put(out, "},\"messages\":{\"pushed\":");
        put_number(out, figures.pushed);
        put_member(out, "popped", figures.popped);
        put_member(out, "acked", figures.acked);
        put_member(out, "dropped", figures.dropped);
        put_member(out, "heldBytes", figures.held_bytes);
        put(out, "},\"memory\":{\"rss\":");
        put_number(out, figures.resident_bytes);
        put(out, "},\"cpu\":{\"user\":");
        put_number(out, figures.cpu_user_us);
        put_member(out, "system", figures.cpu_system_us);
        put(out, "},\"database\":{\"poolSize\":");
        put_number(out, figures.database_sessions);
        put(out, ",\"idleConnections\":0,\"waitingRequests\":0}}");
    });
}

/// Appends the answer to OPTIONS.
pub fn encode_options(allow: &'static str, style: ResponseStyle, out: &mut BytesMut) {
    let head = ResponseHead {
        allow: Some(allow),
        ..ResponseHead::new(204, "", style)
    };
    write_response(out, &head, |_| ());
}

/// Appends an answer of another media type, such as the Prometheus text; `write_body` appends it.
pub fn encode_text(
    content_type: &'static str,
    style: ResponseStyle,
    out: &mut BytesMut,
    write_body: impl FnOnce(&mut BytesMut),
) {
    write_response(
        out,
        &ResponseHead::new(200, content_type, style),
        write_body,
    );
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const STYLE: ResponseStyle = ResponseStyle {
        http_1_0: false,
        keep_alive: true,
        head_only: false,
    };

    fn written(write: impl FnOnce(&mut BytesMut)) -> (String, String) {
        let mut out = BytesMut::new();
        write(&mut out);
        let text = String::from_utf8(out.to_vec()).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        (head.to_owned(), body.to_owned())
    }

    fn json_of(write: impl FnOnce(&mut BytesMut)) -> Value {
        serde_json::from_str(&written(write).1).unwrap()
    }

    #[test]
    fn health() {
        let off = Health {
            database: "off",
            ..Health::default()
        };
        let (head, _) = written(|out| encode_health(&off, STYLE, out));
        assert!(head.starts_with("HTTP/1.1 200 "));
        let body = json_of(|out| encode_health(&off, STYLE, out));
        assert_eq!(body["status"], "healthy");
        assert_eq!(body["database"], "off");
        assert_eq!(body["engine"], "queen");
        assert_eq!(body["version"], env!("CARGO_PKG_VERSION"));
        let degraded = Health {
            degraded: true,
            database: "away",
            reason: Some("refused: \"no\"".to_owned()),
            buffered: 0,
            ..off.clone()
        };
        let (head, _) = written(|out| encode_health(&degraded, STYLE, out));
        assert!(head.starts_with("HTTP/1.1 200 "));
        let body = json_of(|out| encode_health(&degraded, STYLE, out));
        assert_eq!(body["status"], "degraded");
        assert_eq!(body["reason"], "refused: \"no\"");
        let stopping = Health {
            stopping: true,
            ..off
        };
        let (head, _) = written(|out| encode_health(&stopping, STYLE, out));
        assert!(head.starts_with("HTTP/1.1 503 "));
    }

    #[test]
    fn options() {
        let (head, body) = written(|out| encode_options("GET, OPTIONS", STYLE, out));
        assert!(head.starts_with("HTTP/1.1 204 "), "{head}");
        assert!(head.contains("\r\nallow: GET, OPTIONS"), "{head}");
        assert!(body.is_empty());
    }

    #[test]
    fn figures() {
        let figures = ProcessFigures {
            uptime_s: 5,
            requests: 7,
            request_rate_milli: 1_400,
            pushed: 3,
            resident_bytes: 4_096,
            cpu_system_us: 9,
            ..ProcessFigures::default()
        };
        let body = json_of(|out| encode_metrics(&figures, STYLE, out));
        assert_eq!(body["uptime"], 5);
        assert_eq!(body["requests"], json!({"total": 7, "rate": 1.4}));
        assert_eq!(body["messages"]["pushed"], 3);
        assert_eq!(body["memory"]["rss"], 4_096);
        assert_eq!(body["cpu"], json!({"user": 0, "system": 9}));
        let database = json!({"poolSize": 0, "idleConnections": 0, "waitingRequests": 0});
        assert_eq!(body["database"], database);
    }
}
