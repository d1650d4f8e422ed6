//! HTTP/1.1 conformance of `queen::http`: vectors, each also cut at every byte, and a comparison
//! with `httparse`.

mod differential;
mod receiver;
mod vectors;

use receiver::Receiver;
use vectors::Vector;

const FILES: [(&str, &str); 4] = [
    ("good_heads.txt", include_str!("good_heads.txt")),
    ("bad_heads.txt", include_str!("bad_heads.txt")),
    ("bodies.txt", include_str!("bodies.txt")),
    ("pipelines.txt", include_str!("pipelines.txt")),
];

fn outcomes<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<String> {
    let mut receiver = Receiver::default();
    for piece in pieces {
        receiver.feed(piece);
    }
    receiver.finish()
}

fn check(vector: &Vector) {
    let input = vector.input.as_slice();
    let context = |how: &str| format!("{}:{}: {how}", vector.file, vector.line);
    assert_eq!(outcomes([input]), vector.expected, "{}", context("whole"));
    let bytes = input.chunks(1);
    assert_eq!(
        outcomes(bytes),
        vector.expected,
        "{}",
        context("byte by byte")
    );
    for cut in 0..=input.len() {
        let context = context(&format!("cut at {cut}"));
        let (front, back) = input.split_at(cut);
        assert_eq!(outcomes([front, back]), vector.expected, "{context}");
        // What the front alone gives is what the whole gives, as far as it goes.
        let mut early = outcomes([front]);
        if early.last().is_some_and(|last| last == "partial") {
            early.pop();
        }
        assert!(vector.expected.starts_with(&early), "{context}: {early:?}");
    }
}

#[test]
fn every_vector_in_every_cutting() {
    for (file, text) in FILES {
        let vectors = vectors::read(file, text);
        assert!(vectors.len() >= 5, "{file} has lost its vectors");
        vectors.iter().for_each(check);
    }
}

#[test]
fn every_good_vector_with_another_request_behind_it() {
    let follower = b"GET /follower HTTP/1.1\r\nHost: a\r\n\r\n";
    for (file, text) in FILES.iter().filter(|(file, _)| *file != "bad_heads.txt") {
        for mut vector in vectors::read(file, text) {
            let ends_early = |outcome: &String| {
                outcome == "partial" || outcome.starts_with(|first: char| first.is_ascii_digit())
            };
            if vector.expected.iter().any(ends_early) {
                continue;
            }
            vector.input.extend_from_slice(follower);
            vector
                .expected
                .push("GET /follower - 1.1 keep-alive none".to_owned());
            check(&vector);
        }
    }
}

/// A head of exactly `length` bytes.
fn head_of(length: usize) -> Vec<u8> {
    let mut head = b"GET / HTTP/1.1\r\nHost: a\r\nX-Filler: ".to_vec();
    head.resize(length - 4, b'f');
    head.extend_from_slice(b"\r\n\r\n");
    head
}

#[test]
fn heads_at_the_bound() {
    let good = ["GET / - 1.1 keep-alive none"];
    let bad = ["431 header_too_large"];
    let limit = queen::limits::HEAD_BYTES_MAX;
    for (length, expected) in [(limit - 1, good), (limit, good), (limit + 1, bad)] {
        let head = head_of(length);
        assert_eq!(outcomes([head.as_slice()]), expected, "{length}");
        assert_eq!(outcomes(head.chunks(1)), expected, "{length} byte by byte");
        for cut in [
            1,
            length / 2,
            length - 5,
            length - 4,
            length - 3,
            length - 2,
            length - 1,
        ] {
            assert_eq!(
                outcomes([&head[..cut], &head[cut..]]),
                expected,
                "{length} cut at {cut}"
            );
        }
    }
    // Refused as soon as it cannot become a head within the bound.
    assert_eq!(outcomes([&head_of(limit * 2)[..limit]]), bad);
    assert_eq!(outcomes([&head_of(limit * 2)[..limit - 1]]), ["partial"]);
}

#[test]
fn fields_at_the_bound() {
    let with_fields = |count: usize| {
        let mut head = b"GET / HTTP/1.1\r\nHost: a\r\n".to_vec();
        for number in 1..count {
            head.extend_from_slice(format!("X-{number}: {number}\r\n").as_bytes());
        }
        head.extend_from_slice(b"\r\n");
        head
    };
    let limit = queen::limits::HEAD_FIELDS_MAX;
    for (count, expected) in [
        (limit, "GET / - 1.1 keep-alive none"),
        (limit + 1, "431 header_too_large"),
    ] {
        let head = with_fields(count);
        for cut in 0..head.len() {
            assert_eq!(
                outcomes([&head[..cut], &head[cut..]]),
                [expected],
                "{count} cut at {cut}"
            );
        }
    }
}

#[test]
fn control_bytes_are_refused_everywhere() {
    let template = b"GET /a?b=c HTTP/1.1\r\nHost: a\r\nX-Name: some value\r\n\r\n";
    for byte in (0..0x20).chain([0x7f]) {
        for position in 0..template.len() {
            // Where a tab is blank space or part of a value.
            let may_be_tab = matches!(position, 26 | 27 | 37..48);
            if template[position] == byte || (byte == b'\t' && may_be_tab) {
                continue;
            }
            let mut head = template.to_vec();
            head[position] = byte;
            let got = outcomes([head.as_slice(), b"\r\n\r\n"]);
            assert!(
                got[0].starts_with("400 "),
                "byte {byte} at {position}: {got:?}"
            );
        }
    }
}
