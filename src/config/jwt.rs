//! Whether callers are asked for a token, and which tokens hold.

use std::time::Duration;

use jsonwebtoken::{Algorithm, DecodingKey};

use super::load::Given;
use super::secret::Secret;

/// The ways a token may be signed, as `JWT_ALGORITHM` names them.
pub(super) const ALGORITHMS: [&str; 12] = [
    "hs256", "hs384", "hs512", "rs256", "rs384", "rs512", "ps256", "ps384", "ps512", "es256",
    "es384", "eddsa",
];

/// Everything that means something only where tokens are asked for.
const OF_TOKENS: [&str; 4] = ["JWT_SECRET", "JWT_PUBLIC_KEY", "JWT_ISSUER", "JWT_AUDIENCE"];

/// Which tokens hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JwtConfig {
    /// The one way a token may be signed.
    pub algorithm: Algorithm,
    /// The issuer that a token must name; `None`: any or none.
    pub issuer: Option<String>,
    /// The audience that a token must name; `None`: any or none.
    pub audience: Option<String>,
    /// By how much clocks may differ.
    pub clock_skew: Duration,
    /// Paths for which no token is asked.
    pub open_paths: Vec<String>,
    /// The claims that name roles.
    pub role_claims: [String; 2],
    key: Secret,
}

impl JwtConfig {
    /// The key that tokens are verified by.
    ///
    /// # Panics
    /// Never: a key that is none of the algorithm's refuses the start.
    pub fn key(&self) -> DecodingKey {
        decoding_key(self.algorithm, &self.key).expect("it was read when the settings were")
    }
}

fn decoding_key(algorithm: Algorithm, key: &Secret) -> Option<DecodingKey> {
    // An environment that holds no line ends has them as a backslash and an n.
    let text = key.expose().trim().replace("\\n", "\n");
    let key = match algorithm {
        Algorithm::HS256 | Algorithm::HS384 | Algorithm::HS512 => {
            DecodingKey::from_secret(key.expose().as_bytes())
        }
        Algorithm::ES256 | Algorithm::ES384 => DecodingKey::from_ec_pem(text.as_bytes()),
        Algorithm::EdDSA => DecodingKey::from_ed_pem(text.as_bytes()),
        _ => DecodingKey::from_rsa_pem(text.as_bytes()),
    };
    key.ok()
}

impl Given {
    /// `None`: nobody is asked for a token, or a fault was noted.
    pub(super) fn jwt(&mut self) -> Option<JwtConfig> {
        let word = self.word("JWT_ALGORITHM");
        let algorithm = match word.as_str() {
            "eddsa" => Some(Algorithm::EdDSA),
            word => word.to_ascii_uppercase().parse().ok(),
        };
        let clock_skew = Duration::from_secs(self.number("JWT_CLOCK_SKEW"));
        let role_claims =
            ["JWT_ROLES_CLAIM", "JWT_ROLES_ARRAY_CLAIM"].map(|name| self.text(name).2);
        let open_paths = self.text_if_given("JWT_SKIP_PATHS").unwrap_or_default();
        if !self.switch("JWT_ENABLED") {
            for name in OF_TOKENS {
                if self.is_given(name) {
                    let text = format!("{name} has no effect: JWT_ENABLED is off");
                    self.warnings.push(text);
                }
            }
            return None;
        }
        let algorithm = algorithm?;
        Some(JwtConfig {
            algorithm,
            issuer: self.text_if_given("JWT_ISSUER"),
            audience: self.text_if_given("JWT_AUDIENCE"),
            clock_skew,
            open_paths: open_paths
                .split(',')
                .map(|path| path.trim().to_owned())
                .filter(|path| !path.is_empty())
                .collect(),
            role_claims,
            key: self.jwt_key(algorithm, &word)?,
        })
    }

    fn jwt_key(&mut self, algorithm: Algorithm, word: &str) -> Option<Secret> {
        let (name, other, what) = match word.starts_with("hs") {
            true => ("JWT_SECRET", "JWT_PUBLIC_KEY", "the shared secret"),
            false => ("JWT_PUBLIC_KEY", "JWT_SECRET", "a public key as PEM"),
        };
        if self.is_given(other) {
            let text = format!("{other} has no effect: tokens are signed by JWT_ALGORITHM={word}");
            self.warnings.push(text);
        }
        let key = self.secret(name);
        let is_key = |key: &Secret| decoding_key(algorithm, key).is_some();
        if !key.as_ref().is_some_and(is_key) {
            let text =
                format!("{name} must be {what} for JWT_ALGORITHM={word} (JWT_ENABLED is on)");
            self.faults.push(text);
        }
        key
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::load::tests::{faults, load};

    const ED_KEY: &str = "-----BEGIN PUBLIC KEY-----\n\
        MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PUBLIC KEY-----\n";

    fn jwt(environment: &[(&str, &str)]) -> Option<JwtConfig> {
        load(&[], environment).expect("a configuration").jwt
    }

    #[test]
    fn nobody_is_asked_where_nothing_is_said() {
        assert_eq!(jwt(&[]), None);
        let config = load(&[], &[("JWT_SECRET", "hunter2")]).expect("a configuration");
        assert_eq!(config.jwt, None);
        assert_eq!(config.warnings.len(), 1);
        assert!(config.warnings[0].starts_with("JWT_SECRET has no effect"));
        assert!(!config.warnings[0].contains("hunter2"));
    }

    #[test]
    fn what_is_said_holds() {
        let on = ("JWT_ENABLED", "on");
        let config = jwt(&[on, ("JWT_SECRET", " a secret ")]).expect("tokens");
        assert_eq!(config.algorithm, Algorithm::HS256);
        assert_eq!(config.key.expose(), " a secret ");
        assert_eq!(config.clock_skew, Duration::from_secs(30));
        assert_eq!(config.role_claims, ["role", "roles"]);
        assert!(
            config.open_paths.is_empty() && config.issuer.is_none() && config.audience.is_none()
        );
        let one_line = ED_KEY.replace('\n', "\\n");
        for key in [ED_KEY, &one_line] {
            let config = jwt(&[
                on,
                ("JWT_ALGORITHM", "EdDSA"),
                ("JWT_PUBLIC_KEY", key),
                ("JWT_ISSUER", "us"),
                ("JWT_AUDIENCE", "them"),
                ("JWT_CLOCK_SKEW", "0"),
                ("JWT_SKIP_PATHS", " /a ,,/b"),
                ("JWT_ROLES_CLAIM", "r"),
                ("JWT_ROLES_ARRAY_CLAIM", "rs"),
            ]);
            let config = config.expect("tokens");
            assert_eq!(config.algorithm, Algorithm::EdDSA);
            config.key();
            assert_eq!(config.issuer.as_deref(), Some("us"));
            assert_eq!(config.audience.as_deref(), Some("them"));
            assert_eq!(config.clock_skew, Duration::ZERO);
            assert_eq!(config.open_paths, ["/a", "/b"]);
            assert_eq!(config.role_claims, ["r", "rs"]);
        }
    }

    #[test]
    fn a_key_that_is_none_refuses_the_start_and_is_not_shown() {
        for word in ALGORITHMS {
            let name = match word.starts_with("hs") {
                true => "JWT_SECRET",
                false => "JWT_PUBLIC_KEY",
            };
            let environment = [("JWT_ENABLED", "1"), ("JWT_ALGORITHM", word)];
            let missing = faults(&[], &environment);
            assert_eq!(missing.len(), 1, "{word}: {missing:?}");
            assert!(missing[0].starts_with(name), "{missing:?}");
            if name == "JWT_PUBLIC_KEY" {
                let [on, algorithm] = environment;
                let malformed = faults(&[], &[on, algorithm, (name, "hunter2")]);
                assert_eq!(malformed, missing);
            }
        }
        let other = faults(&[], &[("JWT_ENABLED", "1"), ("JWT_ALGORITHM", "none")]);
        assert!(
            other[0].starts_with("JWT_ALGORITHM must be one of hs256"),
            "{other:?}"
        );
        let rsa = [
            ("JWT_ENABLED", "1"),
            ("JWT_ALGORITHM", "rs256"),
            ("JWT_PUBLIC_KEY", ED_KEY),
        ];
        assert_eq!(faults(&[], &rsa).len(), 1);
    }
}
