//! Bearer tokens (RFC 6750): JSON Web Tokens (RFC 7519) that somebody else has signed.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hashbrown::HashMap;
use jsonwebtoken::errors::{Error, ErrorKind};
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use serde_json::{Map, Value};

use super::access::Access;
use crate::http::Head;
use crate::limits;

/// What is asked of tokens.
#[derive(Clone, Debug)]
pub struct TokenSettings {
    /// The one way tokens may be signed; one that names another way is refused.
    pub algorithm: Algorithm,
    /// The key that has signed them.
    pub key: DecodingKey,
    /// The issuer (`iss`) that a token must name.
    pub issuer: Option<String>,
    /// The audience (`aud`) that a token must name.
    pub audience: Option<String>,
    /// By how much clocks may differ.
    pub clock_skew: Duration,
    /// Paths for which no token is asked, besides those that are open to all.
    pub skip_paths: Vec<String>,
    /// The claims that name roles.
    pub role_claims: [String; 2],
}

/// Tells which tokens hold. Made once, shared by all cores.
#[derive(Debug)]
pub struct TokenVerifier {
    settings: TokenSettings,
    validation: Validation,
}

impl TokenVerifier {
    /// A verifier by these settings.
    pub fn new(settings: TokenSettings) -> TokenVerifier {
        let mut validation = Validation::new(settings.algorithm);
        // Times are compared at each request, not only when a token is seen for the first time.
        validation.validate_exp = false;
        validation.validate_aud = settings.audience.is_some();
        if let Some(audience) = &settings.audience {
            validation.set_audience(&[audience]);
            validation.required_spec_claims.insert("aud".to_owned());
        }
        if let Some(issuer) = &settings.issuer {
            validation.set_issuer(&[issuer]);
            validation.required_spec_claims.insert("iss".to_owned());
        }
        TokenVerifier {
            settings,
            validation,
        }
    }

    /// What a token says, whatever the time is.
    fn verify(&self, token: &[u8]) -> Result<VerifiedToken, AuthFault> {
        if token.len() > limits::TOKEN_BYTES_MAX {
            return Err(AuthFault::TooLong);
        }
        let TokenSettings {
            key, role_claims, ..
        } = &self.settings;
        let claims: Map<String, Value> = jsonwebtoken::decode(token, key, &self.validation)?.claims;
        let subject = match claims.get("sub") {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) if text.len() <= limits::SUBJECT_BYTES_MAX => {
                Some(text.as_str().into())
            }
            Some(_) => return Err(AuthFault::Claim("sub")),
        };
        let roles = role_claims.iter().filter_map(|name| claims.get(name));
        Ok(VerifiedToken {
            expires_at: time(&claims, "exp")?.ok_or(AuthFault::Claim("exp"))?,
            not_before: time(&claims, "nbf")?.unwrap_or_default(),
            principal: Principal {
                level: roles.fold(Access::Authenticated, granted),
                subject,
            },
        })
    }
}

/// A time since 1970 (RFC 7519 section 2, NumericDate).
fn time(claims: &Map<String, Value>, name: &'static str) -> Result<Option<Duration>, AuthFault> {
    let Some(value) = claims.get(name).filter(|value| !value.is_null()) else {
        return Ok(None);
    };
    let seconds = value.as_f64().ok_or(AuthFault::Claim(name))?;
    let since = Duration::try_from_secs_f64(seconds);
    since.map(Some).map_err(|_| AuthFault::Claim(name))
}

/// What the roles of a claim grant besides what is granted already.
fn granted(already: Access, claim: &Value) -> Access {
    let one = std::slice::from_ref(claim);
    let roles = claim.as_array().map_or(one, Vec::as_slice);
    let roles = roles.iter().filter_map(Value::as_str);
    roles.map(Access::of_role).fold(already, Access::join)
}

/// A token whose signature holds.
#[derive(Debug)]
struct VerifiedToken {
    /// Since 1970.
    expires_at: Duration,
    not_before: Duration,
    principal: Principal,
}

impl VerifiedToken {
    fn principal_at(&self, now: SystemTime, skew: Duration) -> Result<Principal, AuthFault> {
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        if now >= self.expires_at.saturating_add(skew) {
            return Err(AuthFault::Expired);
        }
        if now.saturating_add(skew) < self.not_before {
            return Err(AuthFault::NotYetValid);
        }
        Ok(self.principal.clone())
    }
}

/// Who sends a request, and what that one may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    level: Access,
    subject: Option<Arc<str>>,
}

impl Principal {
    /// Whoever sends a request for which no token is asked.
    pub const UNCHECKED: Principal = Principal {
        level: Access::Admin,
        subject: None,
    };

    /// The subject of the token, at most [`SUBJECT_BYTES_MAX`](limits::SUBJECT_BYTES_MAX) bytes.
    pub fn subject(&self) -> Option<&Arc<str>> {
        self.subject.as_ref()
    }

    /// Requires the level.
    ///
    /// # Errors
    /// The token's roles do not grant it.
    pub fn require(&self, needed: Access) -> Result<(), AuthFault> {
        if self.level.includes(needed) {
            return Ok(());
        }
        Err(AuthFault::Forbidden { needed })
    }
}

/// Why a request is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthFault {
    /// There is no bearer token.
    #[error("a token is required: send it as authorization: Bearer <token>")]
    Missing,
    /// The field is there more than once, or has no token in it.
    #[error("the header authorization must be there once, as Bearer <token>")]
    MalformedHeader,
    /// The token has too many bytes.
    #[error("the token has more than {} bytes", limits::TOKEN_BYTES_MAX)]
    TooLong,
    /// It is no token.
    #[error("the token is not a JSON Web Token of three parts, or lacks the claim iss or aud")]
    Malformed,
    /// A claim cannot be used.
    #[error(
        "the claim {0} of the token is missing or not usable: exp and nbf are seconds since 1970, \
         sub is a text of at most {max} bytes",
        max = limits::SUBJECT_BYTES_MAX
    )]
    Claim(&'static str),
    /// It is signed in another way.
    #[error("the token is signed by another algorithm than this broker is set to (JWT_ALGORITHM)")]
    OtherAlgorithm,
    /// The key has not signed it.
    #[error("the signature of the token was not made with the key that this broker is set to")]
    Signature,
    /// It is another issuer's.
    #[error("the claim iss of the token names another issuer than this broker is set to")]
    WrongIssuer,
    /// It is meant for others.
    #[error("the claim aud of the token names another audience than this broker is set to")]
    WrongAudience,
    /// It holds no longer.
    #[error("the token has expired: get a new one")]
    Expired,
    /// It does not hold yet.
    #[error("the token is not valid yet (nbf): wait, or compare the clocks (JWT_CLOCK_SKEW)")]
    NotYetValid,
    /// It holds, but not for this.
    #[error("insufficient permissions: this takes a token with the role {}", .needed.name())]
    Forbidden {
        /// What it takes.
        needed: Access,
    },
}

impl From<Error> for AuthFault {
    fn from(error: Error) -> AuthFault {
        match error.kind() {
            ErrorKind::InvalidSignature => AuthFault::Signature,
            ErrorKind::InvalidAlgorithm | ErrorKind::InvalidAlgorithmName => {
                AuthFault::OtherAlgorithm
            }
            ErrorKind::InvalidIssuer => AuthFault::WrongIssuer,
            ErrorKind::InvalidAudience => AuthFault::WrongAudience,
            // Of a key nothing can be wrong: it was tried at the start.
            _ => AuthFault::Malformed,
        }
    }
}

/// Asks those who send requests to one core for their tokens. To verify a signature takes longer than
/// to serve a request, so tokens whose signature holds are remembered.
#[derive(Debug)]
pub struct Authenticator {
    verifier: Arc<TokenVerifier>,
    /// By the token's own bytes.
    verified: RefCell<HashMap<Box<[u8]>, VerifiedToken>>,
}

impl Authenticator {
    /// One that knows nobody yet.
    pub fn new(verifier: Arc<TokenVerifier>) -> Authenticator {
        Authenticator {
            verifier,
            verified: RefCell::default(),
        }
    }

    /// Who sends the request; `None`: no token is asked for.
    ///
    /// # Errors
    /// There is no token that holds now and grants the level.
    pub fn authorize(
        &self,
        head: &Head<'_>,
        needed: Option<Access>,
    ) -> Result<Principal, AuthFault> {
        self.authorize_at(head, needed, SystemTime::now())
    }

    fn authorize_at(
        &self,
        head: &Head<'_>,
        needed: Option<Access>,
        now: SystemTime,
    ) -> Result<Principal, AuthFault> {
        let Some(needed) = needed else {
            return Ok(Principal::UNCHECKED);
        };
        let mut skipped = self.verifier.settings.skip_paths.iter();
        if skipped.any(|path| path.as_bytes() == head.path) {
            return Ok(Principal::UNCHECKED);
        }
        let principal = self.principal(bearer(head)?, now)?;
        principal.require(needed)?;
        Ok(principal)
    }

    fn principal(&self, token: &[u8], now: SystemTime) -> Result<Principal, AuthFault> {
        let skew = self.verifier.settings.clock_skew;
        let mut verified = self.verified.borrow_mut();
        if let Some(token) = verified.get(token) {
            return token.principal_at(now, skew);
        }
        let read = self.verifier.verify(token)?;
        let principal = read.principal_at(now, skew);
        if verified.len() >= limits::TOKENS_REMEMBERED_MAX {
            verified.clear();
        }
        verified.insert(token.into(), read);
        principal
    }
}

/// The token in the one field `authorization` (RFC 6750 section 2.1).
fn bearer<'a>(head: &Head<'a>) -> Result<&'a [u8], AuthFault> {
    const SCHEME: &[u8] = b"Bearer";
    let mut values = head.fields("authorization");
    let value = values.next().ok_or(AuthFault::Missing)?;
    if values.next().is_some() {
        return Err(AuthFault::MalformedHeader);
    }
    let end = memchr::memchr(b' ', value).unwrap_or(value.len());
    let (scheme, token) = value.split_at(end);
    if !scheme.eq_ignore_ascii_case(SCHEME) {
        return Err(AuthFault::Missing);
    }
    match token.trim_ascii() {
        b"" => Err(AuthFault::MalformedHeader),
        token => Ok(token),
    }
}

#[cfg(test)]
#[path = "token_test.rs"]
mod tests;
