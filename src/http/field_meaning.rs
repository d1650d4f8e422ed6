//! The fields that decide about framing and connection, gathered while a head is parsed.

use super::octets::{TOKEN, is_in_any_case, span, trim_blanks};
use super::target::is_authority;
use super::{Fault, Framing, Version};

/// What the fields seen so far say.
pub(super) struct FieldMeaning {
    version: Version,
    has_host: bool,
    length: Option<u64>,
    has_coding: bool,
    has_unknown_coding: bool,
    says_close: bool,
    says_keep_alive: bool,
    pub(super) expect_continue: bool,
    has_unknown_expectation: bool,
}

/// Whether a field has a fault whatever stands before it. Of codings nothing is said: what is wrong with
/// one depends on those before it.
pub(super) fn is_faulty_by_itself(name: &[u8], value: &[u8]) -> bool {
    let mut meaning = FieldMeaning::new(Version::Http11);
    let is_coding = is_in_any_case(name, b"transfer-encoding");
    !is_coding && meaning.take(name, value).is_err()
}

impl FieldMeaning {
    pub(super) fn new(version: Version) -> FieldMeaning {
        FieldMeaning {
            version,
            has_host: false,
            length: None,
            has_coding: false,
            has_unknown_coding: false,
            says_close: false,
            says_keep_alive: false,
            expect_continue: false,
            has_unknown_expectation: false,
        }
    }

    /// Takes one field; `value` has no whitespace around it.
    #[inline]
    pub(super) fn take(&mut self, name: &[u8], value: &[u8]) -> Result<(), &'static Fault> {
        // Length and first byte tell nearly all other names apart before anything is compared. What is
        // done with a value is not inlined, so that the loop over the fields keeps its registers.
        match (name.len(), name[0] | 0x20) {
            (4, b'h') if is_in_any_case(name, b"host") => self.host(value),
            (6, b'e') if is_in_any_case(name, b"expect") => {
                self.expect(value);
                Ok(())
            }
            (10, b'c') if is_in_any_case(name, b"connection") => {
                self.connection(value);
                Ok(())
            }
            (14, b'c') if is_in_any_case(name, b"content-length") => self.length(value),
            (17, b't') if is_in_any_case(name, b"transfer-encoding") => self.coding(value),
            _ => Ok(()),
        }
    }

    #[inline(never)]
    fn host(&mut self, value: &[u8]) -> Result<(), &'static Fault> {
        if self.has_host {
            return Err(&Fault::REPEATED_HOST);
        }
        self.has_host = true;
        if is_authority(value) {
            Ok(())
        } else {
            Err(&Fault::BAD_HOST)
        }
    }

    #[inline(never)]
    fn expect(&mut self, value: &[u8]) {
        // RFC 9110 section 10.1.1: HTTP/1.0 clients do not wait, whatever they say.
        if self.version == Version::Http10 {
            return;
        }
        if is_in_any_case(value, b"100-continue") {
            self.expect_continue = true;
        } else {
            self.has_unknown_expectation = true;
        }
    }

    #[inline(never)]
    fn connection(&mut self, value: &[u8]) {
        if is_in_any_case(value, b"keep-alive") {
            self.says_keep_alive = true;
            return;
        }
        for option in value.split(|&byte| byte == b',').map(trim_blanks) {
            self.says_close |= is_in_any_case(option, b"close");
            self.says_keep_alive |= is_in_any_case(option, b"keep-alive");
        }
    }

    #[inline(never)]
    fn length(&mut self, value: &[u8]) -> Result<(), &'static Fault> {
        if self.length.is_some() {
            return Err(&Fault::REPEATED_LENGTH);
        }
        if self.has_coding {
            return Err(&Fault::CONFLICTING_LENGTH);
        }
        // RFC 9110 section 8.6: however large the number is, it is well-formed. What does not fit
        // becomes a length that every limit is below.
        let mut length = 0u64;
        for &byte in value {
            if !byte.is_ascii_digit() {
                return Err(&Fault::BAD_LENGTH);
            }
            length = length
                .saturating_mul(10)
                .saturating_add(u64::from(byte - b'0'));
        }
        if value.is_empty() {
            return Err(&Fault::BAD_LENGTH);
        }
        self.length = Some(length);
        Ok(())
    }

    #[inline(never)]
    fn coding(&mut self, value: &[u8]) -> Result<(), &'static Fault> {
        if self.version == Version::Http10 {
            return Err(&Fault::CODING_ON_1_0);
        }
        if self.length.is_some() {
            return Err(&Fault::CONFLICTING_LENGTH);
        }
        for coding in value.split(|&byte| byte == b',').map(trim_blanks) {
            // Nothing may follow chunked, and chunked may not be applied twice.
            let chunked_came_before = self.has_coding && !self.has_unknown_coding;
            let name = &coding[..span(coding, &TOKEN)];
            if chunked_came_before || name.is_empty() {
                return Err(&Fault::BAD_CODING);
            }
            if is_in_any_case(name, b"chunked") && name.len() < coding.len() {
                return Err(&Fault::BAD_CODING);
            }
            self.has_coding = true;
            self.has_unknown_coding |= !is_in_any_case(coding, b"chunked");
        }
        Ok(())
    }

    /// What only the whole head can tell; `Err` also where a well-formed head cannot be served.
    pub(super) fn finish(&self) -> Result<(), &'static Fault> {
        if !self.has_host && self.version == Version::Http11 {
            return Err(&Fault::MISSING_HOST);
        }
        if self.has_unknown_coding {
            return Err(&Fault::UNKNOWN_CODING);
        }
        if self.has_unknown_expectation {
            return Err(&Fault::UNKNOWN_EXPECTATION);
        }
        Ok(())
    }

    /// How the end of the body is found.
    pub(super) fn framing(&self) -> Framing {
        assert!(!self.has_coding || self.length.is_none());
        match self.length {
            Some(length) => Framing::Length(length),
            None if self.has_coding => Framing::Chunked,
            None => Framing::None,
        }
    }

    /// Whether the connection stays open after the answer (RFC 9112 section 9.3).
    pub(super) fn keep_alive(&self) -> bool {
        let by_default = self.version == Version::Http11;
        !self.says_close && (by_default || self.says_keep_alive)
    }
}
