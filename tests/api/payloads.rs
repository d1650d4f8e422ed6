//! A payload comes back as the exact bytes that were pushed.

use serde_json::json;

use crate::support::{Queue, each_setup};

fn push_raw(queue: &Queue, payload: &str) -> crate::support::Answer {
    let body = format!(
        "{{\"queue\":{},\"messages\":[{{\"payload\":{payload}}}]}}",
        json!(queue.name)
    );
    push_body(queue, body.as_bytes())
}

fn push_body(queue: &Queue, body: &[u8]) -> crate::support::Answer {
    queue.post_raw("/api/v1/ephemeral/push", body)
}

/// The text of the only message's payload in a pop's answer.
fn popped_text(queue: &Queue) -> String {
    let text = queue.get(&queue.pop_target("autoAck=true")).text();
    let (_, rest) = text.split_once("\"payload\":").expect("a payload");
    rest.strip_suffix("}]}")
        .expect("payload is the last key")
        .to_owned()
}

#[test]
fn payloads_come_back_byte_for_byte() {
    each_setup(|broker| {
        let queue = broker.queue("fidelity");
        let deep = format!("{}1{}", "[".repeat(115), "]".repeat(115));
        let long = format!("\"{}\"", "y".repeat(200_000));
        let payloads = [
            "null",
            "true",
            "0",
            "-0",
            "1.0",
            "1e400",
            "-1E+2",
            "123456789012345678901234567890",
            "3.141592653589793238462643383279502884197",
            "\"\"",
            "\"text\"",
            "\"\\ud800\"",
            "\"\\u00e9\"",
            "\"\u{e9} \u{1f600}\"",
            "\"\\/ \\\\ \\\" \\n \\u0000\"",
            "\"}]}\"",
            "{\"b\":1,\"a\":2,\"b\":3}",
            "{ \"spaced\" :\t[ 1 , 2 ]\r\n}",
            "[]",
            "{}",
            "[[],{},[{}]]",
            &deep,
            &long,
        ];
        for payload in payloads {
            assert_eq!(push_raw(&queue, payload).status, 201, "{payload}");
            assert_eq!(popped_text(&queue), payload);
        }
    });
}

#[test]
fn whitespace_around_a_payload_is_trimmed_and_not_counted() {
    each_setup(|broker| {
        let queue = broker.queue("trimmed");
        assert_eq!(push_raw(&queue, " \t\r\n{ \"a\": 1 } \n").status, 201);
        assert_eq!(queue.held(), (1, "{ \"a\": 1 }".len() as u64));
        assert_eq!(popped_text(&queue), "{ \"a\": 1 }");
    });
}

#[test]
fn bytes_count_the_payload_text_alone() {
    each_setup(|broker| {
        let queue = broker.queue("bytes");
        push_raw(&queue, "\"\u{e9}\"");
        push_raw(&queue, "null");
        assert_eq!(queue.held(), (2, 8));
    });
}

#[test]
fn nesting_is_bounded_by_what_clients_can_read() {
    each_setup(|broker| {
        let queue = broker.queue("nesting");
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert_eq!(push_raw(&queue, &nested(120)).status, 201);
        push_raw(&queue, &nested(121)).assert_refused(400, "ephemeral_bad_request");
        push_raw(&queue, &nested(100_000)).assert_refused(400, "ephemeral_bad_request");
        let objects = |depth: usize| format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth));
        assert_eq!(push_raw(&queue, &objects(120)).status, 201);
        push_raw(&queue, &objects(121)).assert_refused(400, "ephemeral_bad_request");
        let in_a_string = format!("\"{}\"", "[{".repeat(500));
        assert_eq!(push_raw(&queue, &in_a_string).status, 201);
        let side_by_side = format!("[{}0]", "[],".repeat(500));
        assert_eq!(push_raw(&queue, &side_by_side).status, 201);
        assert_eq!(queue.held().0, 4);
    });
}

#[test]
fn what_is_no_json_is_refused_with_a_place() {
    each_setup(|broker| {
        let queue = broker.queue("no-json");
        let bad: [&[u8]; 14] = [
            b"NaN",
            b"Infinity",
            b"01",
            b"+1",
            b".5",
            b"1.",
            b"'x'",
            b"\"\\x\"",
            b"\"\xff\"",
            b"\"a\nb\"",
            b"[1,]",
            b"{\"a\":1,}",
            b"{a:1}",
            b"undefined",
        ];
        for payload in bad {
            let mut body = format!(
                "{{\"queue\":{},\"messages\":[{{\"payload\":",
                json!(queue.name)
            )
            .into_bytes();
            body.extend_from_slice(payload);
            body.extend_from_slice(b"}]}");
            let answer = push_body(&queue, &body);
            assert_eq!(answer.status, 400, "{:?}", String::from_utf8_lossy(payload));
            answer.assert_refused(400, "ephemeral_bad_request");
        }
        assert_eq!(queue.row(), None, "nothing was created");
    });
}

#[test]
fn ten_thousand_messages_fit_one_push_and_not_one_more() {
    each_setup(|broker| {
        let queue = broker.queue("ten-thousand");
        let payloads: Vec<_> = (0..10_001).map(|number| json!(number)).collect();
        let answer = queue.try_push(None, &payloads);
        answer.assert_refused(400, "ephemeral_bad_request");
        queue.push(&payloads[..10_000]);
        let got = queue.pop_payloads("batch=10000&autoAck=true");
        assert_eq!(got, payloads[..10_000]);
    });
}

#[test]
fn large_payloads_survive() {
    each_setup(|broker| {
        let queue = broker.queue("large");
        for size in [1_000, 65_536, 300_000, 3_000_000] {
            let payload = json!({"text": "z".repeat(size), "size": size});
            queue.push(std::slice::from_ref(&payload));
            assert!(queue.pop_one("autoAck=true").payload == payload, "{size}");
        }
    });
}

#[test]
fn a_chunked_body_is_a_body() {
    each_setup(|broker| {
        let queue = broker.queue("chunked");
        let body = json!({"queue": queue.name, "messages": [{"payload": "in pieces"}]}).to_string();
        let mut client = broker.client();
        client.send_raw(
            b"POST /api/v1/ephemeral/push HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n",
        );
        for piece in body.as_bytes().chunks(7) {
            client.send_raw(format!("{:x};ext=1\r\n", piece.len()).as_bytes());
            client.send_raw(piece);
            client.send_raw(b"\r\n");
        }
        client.send_raw(b"0\r\ntrailer: ignored\r\n\r\n");
        assert_eq!(client.read().expect(201)["pushed"], 1);
        assert_eq!(queue.pop_payloads(""), [json!("in pieces")]);
    });
}

#[test]
fn a_client_that_asks_first_is_told_to_continue() {
    each_setup(|broker| {
        let queue = broker.queue("expect");
        let body = json!({"queue": queue.name, "messages": [{"payload": 1}]}).to_string();
        let mut client = broker.client();
        let head = format!(
            "POST /api/v1/ephemeral/push HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\n\
             content-length: {}\r\n\r\n",
            body.len()
        );
        client.send_raw(head.as_bytes());
        let mut line = [0; 25];
        std::io::Read::read_exact(&mut client.stream(), &mut line).expect("an interim answer");
        assert_eq!(&line, b"HTTP/1.1 100 Continue\r\n\r\n");
        client.send_raw(body.as_bytes());
        assert_eq!(client.read().expect(201)["pushed"], 1);
    });
}
