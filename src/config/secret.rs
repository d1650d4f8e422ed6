//! Text that may hold a password.

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_not_shown() {
        let secret = Secret::new("hunter2".to_owned());
        assert_eq!(format!("{secret:?}"), "(not shown)");
        assert_eq!(secret.expose(), "hunter2");
    }
}
