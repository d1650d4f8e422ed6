//! The values that a request head is parsed into.

use std::fmt;

use super::Fault;
use crate::limits;

/// The method of a request, case-sensitive (RFC 9110 section 9.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// GET.
    Get,
    /// HEAD.
    Head,
    /// POST.
    Post,
    /// PUT.
    Put,
    /// DELETE.
    Delete,
    /// PATCH.
    Patch,
    /// OPTIONS.
    Options,
    /// TRACE.
    Trace,
    /// CONNECT.
    Connect,
    /// A token that is none of these.
    Other,
}

/// The version that the client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// HTTP/1.0.
    Http10,
    /// HTTP/1.1.
    Http11,
}

/// How the end of the body is found (RFC 9112 section 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// No body follows.
    None,
    /// So many bytes follow.
    Length(u64),
    /// Chunks follow.
    Chunked,
}

/// Where a field stands in the head. The head is at most [`limits::HEAD_BYTES_MAX`], so `u32` does.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Slot {
    pub(super) name_start: u32,
    pub(super) name_end: u32,
    pub(super) value_start: u32,
    pub(super) value_end: u32,
}

const _: () = assert!(limits::HEAD_BYTES_MAX <= u32::MAX as usize);

/// Room for the fields of one head, lent to [`super::parse_head`] and reusable for the next.
pub struct FieldSlots(pub(super) [Slot; limits::HEAD_FIELDS_MAX]);

impl FieldSlots {
    /// Empty room.
    pub fn new() -> FieldSlots {
        FieldSlots([Slot::default(); limits::HEAD_FIELDS_MAX])
    }
}

impl Default for FieldSlots {
    fn default() -> FieldSlots {
        FieldSlots::new()
    }
}

impl fmt::Debug for FieldSlots {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("FieldSlots").finish_non_exhaustive()
    }
}

/// How far the search for the end of one head went, so that a head that arrives in many small
/// pieces is not scanned from its start each time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeadScan {
    /// Bytes in which no end of the head and no line with a fault was found.
    pub(super) searched: usize,
    /// Bytes that were there when the head was last parsed from its start.
    pub(super) parsed: usize,
}

/// A request head; borrows from the buffer it was parsed from.
#[derive(Clone, Copy)]
pub struct Head<'a> {
    /// The method.
    pub method: Method,
    /// The path, raw: still percent-encoded, every escape well-formed. An absolute-form target is
    /// reduced to it; `*` for the asterisk-form, the authority for CONNECT.
    pub path: &'a [u8],
    /// The query, raw, without its question mark.
    pub query: Option<&'a [u8]>,
    /// The version.
    pub version: Version,
    /// Whether the client wants the connection to stay open (RFC 9112 section 9.3).
    pub keep_alive: bool,
    /// Whether the client waits for an interim answer before it sends the body.
    pub expect_continue: bool,
    /// How the end of the body is found.
    pub framing: Framing,
    pub(super) buffer: &'a [u8],
    pub(super) slots: &'a [Slot],
}

impl<'a> Head<'a> {
    /// The value of the first field of that name (any case), without whitespace around it.
    pub fn field(&self, name: &str) -> Option<&'a [u8]> {
        self.fields(name).next()
    }

    /// The values of all fields of that name (any case), in order.
    pub fn fields(&self, name: &str) -> impl Iterator<Item = &'a [u8]> {
        self.all_fields()
            .filter(move |(candidate, _)| candidate.eq_ignore_ascii_case(name.as_bytes()))
            .map(|(_, value)| value)
    }

    /// All fields in order: name as sent, value without whitespace around it.
    pub fn all_fields(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        let buffer = self.buffer;
        self.slots.iter().map(move |slot| {
            let name = &buffer[slot.name_start as usize..slot.name_end as usize];
            let value = &buffer[slot.value_start as usize..slot.value_end as usize];
            (name, value)
        })
    }
}

/// Leaves the fields out: they carry credentials.
impl fmt::Debug for Head<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Head")
            .field("method", &self.method)
            .field("path", &self.path.escape_ascii().to_string())
            .field("version", &self.version)
            .field("keep_alive", &self.keep_alive)
            .field("expect_continue", &self.expect_continue)
            .field("framing", &self.framing)
            .finish_non_exhaustive()
    }
}

/// What became of the bytes at the start of a buffer.
#[derive(Debug)]
pub enum ParsedHead<'a> {
    /// A whole head.
    Complete {
        /// The head.
        head: Head<'a>,
        /// Bytes of the head, its empty line included; the body starts there.
        length: usize,
    },
    /// Nothing is wrong so far; more bytes are needed.
    Partial,
    /// This is no request that can be served.
    Bad(Fault),
}
