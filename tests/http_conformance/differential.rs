//! Ours against `httparse` on generated and mutated heads: ours may only be stricter.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use queen::http::{FieldSlots, Head, HeadScan, Method, ParsedHead, Version, parse_head};

const CASES: u32 = 20_000;

const METHODS: [&str; 11] = [
    "GET", "GET", "POST", "POST", "DELETE", "HEAD", "OPTIONS", "CONNECT", "PUT", "PURGE", "get",
];

const TARGETS: [&str; 10] = [
    "/",
    "/api/v1/ephemeral/push",
    "/api/v1/ephemeral/pop/queue/a%2Fb?wait=true&group=a+b",
    "/?",
    "/a|b[c]",
    "*",
    "http://example.org",
    "http://example.org:80/a?b",
    "example.org:443",
    "/%4",
];

const VERSIONS: [&str; 6] = [
    "HTTP/1.1", "HTTP/1.1", "HTTP/1.1", "HTTP/1.0", "HTTP/2.0", "HTTP/1.2",
];

const NAMES: [&str; 12] = [
    "Accept",
    "Connection",
    "Content-Length",
    "Content-Type",
    "Expect",
    "Host",
    "Transfer-Encoding",
    "User-Agent",
    "X-Queen-Tenant",
    "a",
    "x!#$%&'*+-.^_`|~",
    "X y",
];

const VALUES: [&[u8]; 14] = [
    b"",
    b"5",
    b"5, 5",
    b"+5",
    b"*/*",
    b"100-continue",
    b"application/json",
    b"chunked",
    b"close",
    b"keep-alive, TE",
    b"localhost:6632",
    b" \t padded \t ",
    b"caf\xe9",
    b"a value that is longer than two words of eight bytes\tand has a tab",
];

const LINE_ENDS: [&str; 8] = ["\r\n", "\r\n", "\r\n", "\r\n", "\r\n", "\r\n", "\r\n", "\n"];

const BYTES: &[u8] = b"\r\n \t:,;%?#/\0\x7f\x80\xffaA0-\"";

/// A small change to a head.
#[derive(Clone, Debug)]
enum Mutation {
    Replace(Index, u8),
    Insert(Index, u8),
    Remove(Index),
    Duplicate(Index, Index),
    Truncate(Index),
}

fn byte() -> impl Strategy<Value = u8> {
    prop_oneof![3 => select(BYTES), 1 => any::<u8>()]
}

fn mutation() -> impl Strategy<Value = Mutation> {
    prop_oneof![
        4 => (any::<Index>(), byte()).prop_map(|(at, byte)| Mutation::Replace(at, byte)),
        4 => (any::<Index>(), byte()).prop_map(|(at, byte)| Mutation::Insert(at, byte)),
        2 => any::<Index>().prop_map(Mutation::Remove),
        1 => any::<(Index, Index)>().prop_map(|(from, to)| Mutation::Duplicate(from, to)),
        1 => any::<Index>().prop_map(Mutation::Truncate),
    ]
}

fn apply(head: &mut Vec<u8>, mutation: &Mutation) {
    let length = head.len();
    if length == 0 {
        return;
    }
    match mutation {
        Mutation::Replace(at, byte) => head[at.index(length)] = *byte,
        Mutation::Insert(at, byte) => head.insert(at.index(length), *byte),
        Mutation::Remove(at) => {
            head.remove(at.index(length));
        }
        Mutation::Duplicate(from, to) => {
            let (from, to) = (from.index(length), to.index(length));
            let copy = head[from.min(to)..from.max(to)].to_vec();
            head.splice(to..to, copy);
        }
        Mutation::Truncate(at) => head.truncate(at.index(length)),
    }
}

fn value() -> impl Strategy<Value = Vec<u8>> {
    let printable = vec(0x20..0x7fu8, 0..40);
    prop_oneof![3 => select(&VALUES[..]).prop_map(<[u8]>::to_vec), 1 => printable]
}

fn field() -> impl Strategy<Value = Vec<u8>> {
    (
        select(&NAMES[..]),
        select(&["", " ", " \t"][..]),
        value(),
        select(&LINE_ENDS[..]),
    )
        .prop_map(|(name, blank, value, line_end)| {
            [
                name.as_bytes(),
                b":",
                blank.as_bytes(),
                &value,
                line_end.as_bytes(),
            ]
            .concat()
        })
}

fn head() -> impl Strategy<Value = Vec<u8>> {
    let line = (
        select(&METHODS[..]),
        select(&TARGETS[..]),
        select(&VERSIONS[..]),
    );
    let host = prop_oneof![8 => Just("Host: a\r\n"), 1 => Just("")];
    let mutations = prop_oneof![Just(Vec::new()), vec(mutation(), 0..4)];
    (line, host, vec(field(), 0..6), mutations).prop_map(|(line, host, fields, mutations)| {
        let (method, target, version) = line;
        let mut head = format!("{method} {target} {version}\r\n{host}").into_bytes();
        head.extend(fields.concat());
        head.extend_from_slice(b"\r\n");
        mutations
            .iter()
            .for_each(|mutation| apply(&mut head, mutation));
        head
    })
}

fn method_of(text: &str) -> Method {
    match text {
        "GET" => Method::Get,
        "HEAD" => Method::Head,
        "POST" => Method::Post,
        "PUT" => Method::Put,
        "DELETE" => Method::Delete,
        "PATCH" => Method::Patch,
        "OPTIONS" => Method::Options,
        "TRACE" => Method::Trace,
        "CONNECT" => Method::Connect,
        _ => Method::Other,
    }
}

/// What our reduction of a target must give: path, and query with its question mark.
fn reduced(target: &str) -> String {
    let Some((_, rest)) = target
        .split_once("://")
        .filter(|_| !target.starts_with('/'))
    else {
        return target.to_owned();
    };
    match rest.find(['/', '?']) {
        Some(at) if rest[at..].starts_with('/') => rest[at..].to_owned(),
        Some(at) => format!("/{}", &rest[at..]),
        None => "/".to_owned(),
    }
}

fn compare(ours: &Head<'_>, theirs: &httparse::Request<'_, '_>) -> Result<(), TestCaseError> {
    prop_assert_eq!(ours.method, method_of(theirs.method.unwrap_or_default()));
    let version = if ours.version == Version::Http10 {
        0
    } else {
        1
    };
    prop_assert_eq!(Some(version), theirs.version);
    let mut target = ours.path.to_vec();
    if let Some(query) = ours.query {
        target.push(b'?');
        target.extend_from_slice(query);
    }
    let raw = theirs.path.unwrap_or_default();
    let expected = match (ours.method, reduced(raw)) {
        // RFC 9112 section 3.2.4.
        (Method::Options, path) if path == "/" && raw != "/" && !raw.ends_with('/') => "*".into(),
        (_, path) => path,
    };
    prop_assert_eq!(target, expected.into_bytes());
    let our_fields: Vec<_> = ours.all_fields().collect();
    let trim = |field: &httparse::Header<'_>| field.value.trim_ascii().to_vec();
    let their_fields: Vec<_> = theirs
        .headers
        .iter()
        .map(|field| (field.name.as_bytes(), trim(field)))
        .collect();
    prop_assert_eq!(our_fields.len(), their_fields.len());
    for ((name, value), (their_name, their_value)) in our_fields.iter().zip(&their_fields) {
        prop_assert_eq!(name, their_name);
        prop_assert_eq!(*value, their_value.as_slice());
    }
    Ok(())
}

/// Judges `input` with both parsers; whether ours takes it.
fn judge(input: &[u8]) -> Result<bool, TestCaseError> {
    let mut their_fields = [httparse::EMPTY_HEADER; 128];
    let mut theirs = httparse::Request::new(&mut their_fields);
    let their_outcome = theirs.parse(input);
    let mut slots = FieldSlots::new();
    match parse_head(input, &mut HeadScan::default(), &mut slots) {
        ParsedHead::Complete { head, length } => {
            prop_assert_eq!(their_outcome, Ok(httparse::Status::Complete(length)));
            compare(&head, &theirs)?;
            Ok(true)
        }
        ParsedHead::Partial => {
            let is_complete = their_outcome.is_ok_and(|outcome| outcome.is_complete());
            prop_assert!(!is_complete, "ours waits for more than httparse needs");
            Ok(false)
        }
        ParsedHead::Bad(_) => Ok(false),
    }
}

#[test]
fn whatever_ours_takes_httparse_takes_alike() {
    let config = Config {
        cases: CASES,
        failure_persistence: None,
        ..Config::default()
    };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(config, rng);
    let taken = std::cell::Cell::new(0);
    let outcome = runner.run(&head(), |input| {
        taken.set(taken.get() + u32::from(judge(&input)?));
        Ok(())
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
    assert!(
        taken.get() > CASES / 20,
        "only {} heads were good: the test is idle",
        taken.get()
    );
}
