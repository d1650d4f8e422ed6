//! The receiving half of a connection without the socket: pieces in, one text per outcome out.

use bytes::BytesMut;
use queen::http::{
    ChunkedDecoder, Fault, FieldSlots, Framing, Head, HeadScan, ParsedHead, Version, parse_head,
};

/// Bytes that a chunked body may have here.
pub(crate) const BODY_LIMIT_BYTES: u64 = 100;

#[derive(Default)]
enum Stage {
    #[default]
    Head,
    Length(usize),
    Chunked(ChunkedDecoder, BytesMut),
    Closed,
}

/// Takes a byte stream in pieces.
#[derive(Default)]
pub(crate) struct Receiver {
    buffer: Vec<u8>,
    scan: HeadScan,
    slots: FieldSlots,
    stage: Stage,
    outcomes: Vec<String>,
}

fn describe(head: &Head<'_>) -> String {
    let framing = match head.framing {
        Framing::None => "none".to_owned(),
        Framing::Length(length) => format!("length:{length}"),
        Framing::Chunked => "chunked".to_owned(),
    };
    let query = match head.query {
        Some(query) => format!("?{}", query.escape_ascii()),
        None => "-".to_owned(),
    };
    format!(
        "{} {} {query} {} {} {framing}{}",
        format!("{:?}", head.method).to_uppercase(),
        head.path.escape_ascii(),
        if head.version == Version::Http10 {
            "1.0"
        } else {
            "1.1"
        },
        if head.keep_alive {
            "keep-alive"
        } else {
            "close"
        },
        if head.expect_continue { " expect" } else { "" },
    )
}

impl Receiver {
    /// Takes the next piece and everything that it completes.
    pub(crate) fn feed(&mut self, piece: &[u8]) {
        self.buffer.extend_from_slice(piece);
        while self.advance() {}
    }

    /// The outcomes so far; `partial` at the end if bytes are left over.
    pub(crate) fn finish(mut self) -> Vec<String> {
        let is_between_requests = match self.stage {
            Stage::Head => self.buffer.is_empty(),
            Stage::Closed => true,
            Stage::Length(_) | Stage::Chunked(..) => false,
        };
        if !is_between_requests {
            self.outcomes.push("partial".to_owned());
        }
        self.outcomes
    }

    /// One step; `false` when it needs more bytes.
    fn advance(&mut self) -> bool {
        match &mut self.stage {
            Stage::Head => self.take_head(),
            Stage::Length(length) => {
                let length = *length;
                if self.buffer.len() < length {
                    return false;
                }
                let body: Vec<u8> = self.buffer.drain(..length).collect();
                self.end_body(&body);
                true
            }
            Stage::Chunked(decoder, body) => {
                let progress = match decoder.decode(&self.buffer, body) {
                    Ok(progress) => progress,
                    Err(fault) => {
                        self.close(fault);
                        return false;
                    }
                };
                assert!(progress.complete || progress.consumed == self.buffer.len());
                self.buffer.drain(..progress.consumed);
                if progress.complete {
                    let body = body.split();
                    self.end_body(&body);
                }
                progress.complete
            }
            Stage::Closed => false,
        }
    }

    fn take_head(&mut self) -> bool {
        let (framing, length) = match parse_head(&self.buffer, &mut self.scan, &mut self.slots) {
            ParsedHead::Complete { head, length } => {
                self.outcomes.push(describe(&head));
                (head.framing, length)
            }
            ParsedHead::Partial => return false,
            ParsedHead::Bad(fault) => {
                self.close(fault);
                return false;
            }
        };
        self.scan = HeadScan::default();
        self.buffer.drain(..length);
        self.stage = match framing {
            Framing::None => Stage::Head,
            Framing::Length(length) => Stage::Length(length.try_into().expect("a small body")),
            Framing::Chunked => {
                Stage::Chunked(ChunkedDecoder::new(BODY_LIMIT_BYTES), BytesMut::new())
            }
        };
        true
    }

    fn end_body(&mut self, body: &[u8]) {
        self.outcomes.push(
            format!("body {}", body.escape_ascii())
                .trim_end()
                .to_owned(),
        );
        self.stage = Stage::Head;
    }

    fn close(&mut self, fault: Fault) {
        self.outcomes
            .push(format!("{} {}", fault.status, fault.code));
        self.stage = Stage::Closed;
    }
}
