//! Whether callers are asked for a token, and which tokens hold.

use std::time::Duration;

use jsonwebtoken::crypto::CryptoProvider;
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey};

use super::load::Given;
use super::secret::Secret;

/// The ways a token may be signed, as `JWT_ALGORITHM` names them.
pub(super) const ALGORITHMS: [&str; 12] = [
    "hs256", "hs384", "hs512", "rs256", "rs384", "rs512", "ps256", "ps384", "ps512", "es256",
    "es384", "eddsa",
];

/// How the PEM of a public key begins (RFC 7468 section 13, RFC 8017 appendix A.1.1).
const PUBLIC: [&str; 2] = [
    "-----BEGIN PUBLIC KEY-----",
    "-----BEGIN RSA PUBLIC KEY-----",
];

/// All the settings that have no effect where nobody is asked for a token.
const OF_TOKENS: [&str; 9] = [
    "JWT_ALGORITHM",
    "JWT_SECRET",
    "JWT_PUBLIC_KEY",
    "JWT_ISSUER",
    "JWT_AUDIENCE",
    "JWT_CLOCK_SKEW",
    "JWT_SKIP_PATHS",
    "JWT_ROLES_CLAIM",
    "JWT_ROLES_ARRAY_CLAIM",
];

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
    pub skip_paths: Vec<String>,
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

/// The key, if tokens of the algorithm can be verified by it. Of an RSA key it is not known before one is.
fn decoding_key(algorithm: Algorithm, key: &Secret) -> Option<DecodingKey> {
    let decoding_key = match algorithm.family() {
        AlgorithmFamily::Hmac => DecodingKey::from_secret(key.expose().as_bytes()).ok()?,
        family => {
            // An environment that holds no line ends has them as a backslash and an n.
            let pem = key.expose().trim().replace("\\n", "\n");
            let is_public = PUBLIC.iter().any(|title| pem.starts_with(title));
            let pem = is_public.then_some(pem.as_bytes())?;
            match family {
                AlgorithmFamily::Rsa => {
                    DecodingKey::from_rsa_pem(pem).ok().filter(has_2_048_bits)?
                }
                AlgorithmFamily::Ec => DecodingKey::from_ec_pem(pem).ok()?,
                _ => DecodingKey::from_ed_pem(pem).ok().filter(is_of_32_bytes)?,
            }
        }
    };
    let verifier = CryptoProvider::try_get_default()?.verifier_factory;
    verifier(&algorithm, &decoding_key).ok()?;
    Some(decoding_key)
}

/// RFC 7518 section 3.3. The key is little more than its modulus.
fn has_2_048_bits(key: &DecodingKey) -> bool {
    key.try_get_as_bytes().is_ok_and(|bytes| bytes.len() >= 256)
}

/// The verifier takes it for granted (RFC 8032 section 5.1.5).
fn is_of_32_bytes(key: &DecodingKey) -> bool {
    key.try_get_as_bytes().is_ok_and(|bytes| bytes.len() == 32)
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
        let skip_paths = self.skip_paths();
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
            skip_paths,
            role_claims,
            key: self.jwt_key(algorithm)?,
        })
    }

    fn jwt_key(&mut self, algorithm: Algorithm) -> Option<Secret> {
        let (name, other, what) = match algorithm.family() {
            AlgorithmFamily::Hmac => ("JWT_SECRET", "JWT_PUBLIC_KEY", "a secret"),
            _ => ("JWT_PUBLIC_KEY", "JWT_SECRET", "a public key as PEM"),
        };
        if self.is_given(other) {
            let text = format!("{other} has no effect: tokens are signed by {algorithm:?}");
            self.warnings.push(text);
        }
        let key = self.secret(name);
        let bytes = key.as_ref().map_or(0, |key| key.expose().len());
        if key
            .as_ref()
            .is_none_or(|key| decoding_key(algorithm, key).is_none())
        {
            let text = format!(
                "{name} must be {what} of JWT_ALGORITHM, which is {algorithm:?}, because JWT_ENABLED \
                 is on"
            );
            self.faults.push(text);
        } else if let Some(least) = hash_bytes(algorithm).filter(|least| bytes < *least) {
            self.warnings.push(format!(
                "JWT_SECRET has {bytes} bytes; {algorithm:?} needs at least {least}, or it can be \
                 guessed from a token (RFC 7518 section 3.2)"
            ));
        }
        key
    }

    /// Whole paths, with commas between them.
    fn skip_paths(&mut self) -> Vec<String> {
        let text = self.text_if_given("JWT_SKIP_PATHS").unwrap_or_default();
        let paths = text
            .split(',')
            .map(str::trim)
            .filter(|path| !path.is_empty());
        let paths: Vec<String> = paths.map(str::to_owned).collect();
        let is_whole = |path: &&String| path.starts_with('/') && !path.contains(['*', '?', ' ']);
        if let Some(path) = paths.iter().find(|path| !is_whole(path)) {
            self.faults.push(format!(
                "JWT_SKIP_PATHS: {path:?} must be a whole path such as /api/v1/status; there are no \
                 patterns"
            ));
        }
        paths
    }
}

/// Bytes of the hash of an algorithm with a shared secret.
fn hash_bytes(algorithm: Algorithm) -> Option<usize> {
    match algorithm {
        Algorithm::HS256 => Some(32),
        Algorithm::HS384 => Some(48),
        Algorithm::HS512 => Some(64),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::load::tests::{faults, load};

    const ED_KEY: &str = "-----BEGIN PUBLIC KEY-----\n\
        MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PUBLIC KEY-----\n";

    const P_256: &str = "\
        -----BEGIN PUBLIC KEY-----\n\
        MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEp8l0pgp4n61/HlS85m5k2Z1YUCw/\n\
        /NFOImc0TBpsxSQIohfr1i8gPteBkbH7eFzLuhwxvurBl8p8DxT302UXQQ==\n\
        -----END PUBLIC KEY-----\n";

    const SHORT_RSA: &str = "\
        -----BEGIN PUBLIC KEY-----\n\
        MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQCxdwLONAERh0K8mWG8Eg4MU7C2\n\
        Vj0NP78br3lH88s6SNIOxEmIof4I3nCsCs+MaGYFU7tgzG1jqZc+95YpSny7RaBj\n\
        EzgcvfZctzkcnAhg5tfxqKa8snC/Mn1gRRQcNyx32fYontQ5kqIEU9eUfNoqhvAq\n\
        8hKknGf9WYeq9iLPAQIDAQAB\n\
        -----END PUBLIC KEY-----\n";

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
            config.skip_paths.is_empty() && config.issuer.is_none() && config.audience.is_none()
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
            assert_eq!(config.skip_paths, ["/a", "/b"]);
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
        let short = "-----BEGIN PUBLIC KEY-----\nMCEwBQYDK2VwAxgAGb9ECWmEzf6FQbrBZ9w7lshQhqowtg==\n\
            -----END PUBLIC KEY-----";
        // Another kind's, another curve's, a private one, too few bytes.
        let private = ED_KEY.replace("PUBLIC", "PRIVATE");
        for (word, key) in [
            ("rs256", ED_KEY),
            ("ps512", SHORT_RSA),
            ("es384", ED_KEY),
            ("es384", P_256),
            ("eddsa", P_256),
            ("eddsa", private.as_str()),
            ("eddsa", short),
        ] {
            let given = [
                ("JWT_ENABLED", "1"),
                ("JWT_ALGORITHM", word),
                ("JWT_PUBLIC_KEY", key),
            ];
            assert_eq!(faults(&[], &given).len(), 1, "{word}");
        }
        let paths = [
            ("JWT_ENABLED", "1"),
            ("JWT_SECRET", "hunter2"),
            ("JWT_SKIP_PATHS", "/api/v1/status,/api/*"),
        ];
        let faults = faults(&[], &paths);
        assert!(
            faults[0].contains("\"/api/*\" must be a whole path"),
            "{faults:?}"
        );
    }
}
