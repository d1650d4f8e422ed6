//! What is shown nowhere: text that may hold a password, and the key of encryption.

use std::fmt;

/// Text that may hold a password: it is shown nowhere, and whoever needs it says so.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Keeps the text from being shown.
    pub fn new(text: String) -> Secret {
        Secret(text)
    }

    /// The text itself, for whoever logs in with it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("(not shown)")
    }
}

/// The key that payloads are encrypted with: it is shown nowhere.
#[derive(Clone, PartialEq, Eq)]
pub struct EncryptionKey([u8; 32]);

impl EncryptionKey {
    /// Reads 64 hexadecimal digits; `None`: it is something else.
    pub fn parse(text: &str) -> Option<EncryptionKey> {
        let digits = text.as_bytes();
        if digits.len() != 64 || !digits.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        let mut key = [0; 32];
        for (byte, pair) in key.iter_mut().zip(digits.chunks_exact(2)) {
            let pair = std::str::from_utf8(pair).ok()?;
            *byte = u8::from_str_radix(pair, 16).ok()?;
        }
        Some(EncryptionKey(key))
    }

    /// The key itself, for whoever encrypts with it.
    pub fn expose(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for EncryptionKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("(not shown)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_so_many_digits_and_not_shown() {
        let text = "00ff".repeat(8) + &"A1b2".repeat(8);
        let key = EncryptionKey::parse(&text).expect("a key");
        assert_eq!(key.expose()[..4], [0, 255, 0, 255]);
        assert_eq!(key.expose()[30..], [0xa1, 0xb2]);
        assert_eq!(format!("{key:?}"), "(not shown)");
        let long = text.clone() + "0";
        let signed = "+f".repeat(32);
        let wide = "é".repeat(32);
        for malformed in ["", "00", &text[1..], &long, &signed, &wide, &"g".repeat(64)] {
            assert_eq!(EncryptionKey::parse(malformed), None, "{malformed}");
        }
    }

    #[test]
    fn it_is_not_shown() {
        let secret = Secret::new("hunter2".to_owned());
        assert_eq!(format!("{secret:?}"), "(not shown)");
        assert_eq!(secret.expose(), "hunter2");
    }
}
