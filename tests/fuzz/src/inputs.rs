//! Seeded inputs: random bytes, and texts of a corpus cut, joined and changed.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Inputs per function.
const RUNS: u64 = 100_000;

/// Bytes that mean something to one of the parsers.
const BYTES: &[u8] = b"\r\n\r\n\t :;,%?#/=&+0123456789aAfF\0\x7f\x80\xc3\xff*\"";

/// The first bytes of each entry steer the function; see there.
pub(crate) const HEADS: &[&[u8]] = &[
    b"\0\x10GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    b"\0\x20POST /a%2Fb?c=d+e HTTP/1.1\r\nhost: a:1\r\ncontent-length: 10\r\n\r\n{\"a\":true}",
    b"\0\x30POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n",
    b"\0\x05GET http://a:80/b?c HTTP/1.0\r\nConnection: keep-alive, TE\r\nX: \t caf\xe9 \t\r\n\r\n",
    b"\0\x08OPTIONS * HTTP/1.1\r\nHost: [::1]:80\r\nConnection: close\r\n\r\n",
    b"\0\x09CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n",
    b"\0\x0aPRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
];

pub(crate) const CHUNKED_BODIES: &[&[u8]] = &[
    b"\0\x05\xff5\r\nhello\r\n0\r\n\r\n",
    b"\0\x07\x101;a=b;c=\"d\"\r\nx\r\n00A\r\n0123456789\r\n0;e\r\nX: y\r\nZ:\r\n\r\nGET",
    b"\0\x02\xffffffffffffffffff\r\n",
    b"\0\x09\x030\r\n\r\n",
];

pub(crate) const QUERIES: &[&[u8]] = &[
    b"wait=true&timeout=30000&consumerGroup=a%20b+c&&=&x",
    b"a=%F0%9F%98%80&b=%2B%25&c=%zz",
    b"partition=Default&limit=10&after=%C3%A9",
];

pub(crate) const PATHS: &[&[u8]] = &[b"inbox", b"a%2Fb%20c%252F", b"%F0%9F%98%80", b"caf%c3%a9+"];

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn pick<'a>(&mut self, corpus: &[&'a [u8]]) -> &'a [u8] {
        corpus[self.below(corpus.len())]
    }

    fn byte(&mut self) -> u8 {
        match self.below(3) {
            0 => self.next() as u8,
            _ => BYTES[self.below(BYTES.len())],
        }
    }
}

fn input(random: &mut Random, corpus: &[&[u8]]) -> Vec<u8> {
    if random.below(8) == 0 {
        return (0..random.below(64)).map(|_| random.byte()).collect();
    }
    let mut bytes = random.pick(corpus).to_vec();
    if random.below(2) == 0 {
        // A new steering prefix: another cut, the same text.
        bytes[0] = 0;
        bytes[1] = random.next() as u8;
    }
    for _ in 0..random.below(5) {
        let at = random.below(bytes.len() + 1);
        match random.below(6) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, random.byte()),
            2 if at < bytes.len() => bytes[at] = random.byte(),
            3 if at < bytes.len() => drop(bytes.remove(at)),
            4 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            _ => {
                let other = random.pick(corpus);
                bytes.splice(at..at, other[random.below(other.len())..].iter().copied());
            }
        }
    }
    bytes
}

/// Feeds `function` with the corpus and with [`RUNS`] inputs made from it. A failure names the seed
/// and shows the input, so that it can become an entry of the corpus.
pub(crate) fn run(name: &str, function: fn(&[u8]), corpus: &[&[u8]]) {
    let judge = |seed: Option<u64>, bytes: &[u8]| {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| function(bytes))) {
            eprintln!("{name}: seed {seed:?}, input b\"{}\"", bytes.escape_ascii());
            resume_unwind(panic);
        }
    };
    for bytes in corpus {
        judge(None, bytes);
    }
    for seed in 0..RUNS {
        judge(Some(seed), &input(&mut Random(seed), corpus));
    }
}
