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

/// What is asked of tokens, as an operator says it.
#[derive(Clone, Debug)]
pub struct TokenSettings<'a> {
    /// The one way tokens may be signed; one that names another way is refused.
    pub algorithm: Algorithm,
    /// The key of that way.
    pub key: DecodingKey,
    /// The issuer (`iss`) that a token must name.
    pub issuer: Option<&'a str>,
    /// The audience (`aud`) that a token must name.
    pub audience: Option<&'a str>,
    /// By how much clocks may differ.
    pub clock_skew: Duration,
    /// Paths for which no token is asked, besides those that are open to all.
    pub open_paths: &'a [String],
    /// The claims that name roles.
    pub role_claims: &'a [String; 2],
}

/// Which tokens hold. Made once, shared by all cores.
pub struct TokenRules {
    key: DecodingKey,
    validation: Validation,
    clock_skew: Duration,
    open_paths: Vec<String>,
    role_claims: [String; 2],
}

impl TokenRules {
    /// The rules that the settings make.
    pub fn new(settings: TokenSettings<'_>) -> TokenRules {
        let mut validation = Validation::new(settings.algorithm);
        // Times are compared at each request, not only when a token is seen for the first time.
        validation.validate_exp = false;
        validation.validate_aud = settings.audience.is_some();
        if let Some(audience) = settings.audience {
            validation.set_audience(&[audience]);
            validation.required_spec_claims.insert("aud".to_owned());
        }
        if let Some(issuer) = settings.issuer {
            validation.set_issuer(&[issuer]);
            validation.required_spec_claims.insert("iss".to_owned());
        }
        TokenRules {
            key: settings.key,
            validation,
            clock_skew: settings.clock_skew,
            open_paths: settings.open_paths.to_vec(),
            role_claims: settings.role_claims.clone(),
        }
    }

    /// What a token says, whatever the time is.
    fn read(&self, token: &[u8]) -> Result<Token, TokenFault> {
        let claims: Map<String, Value> =
            jsonwebtoken::decode(token, &self.key, &self.validation)?.claims;
        let time = |name: &'static str| match claims.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => {
                let seconds = value.as_f64().filter(|seconds| *seconds >= 0.0);
                let since = Duration::try_from_secs_f64(seconds.ok_or(TokenFault::Malformed)?);
                since.map(Some).map_err(|_| TokenFault::Malformed)
            }
        };
        let subject = match claims.get("sub") {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) if text.len() <= limits::SUBJECT_BYTES_MAX => {
                Some(text.as_str().into())
            }
            Some(_) => return Err(TokenFault::Malformed),
        };
        let roles = self.role_claims.iter().filter_map(|name| claims.get(name));
        Ok(Token {
            expires: time("exp")?.ok_or(TokenFault::Malformed)?,
            begins: time("nbf")?.unwrap_or_default(),
            caller: Caller {
                level: roles.fold(Access::Any, granted),
                subject,
            },
        })
    }
}

impl std::fmt::Debug for TokenRules {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("TokenRules").finish_non_exhaustive()
    }
}

/// What the roles of a claim grant besides what is granted already.
fn granted(already: Access, claim: &Value) -> Access {
    let one = std::slice::from_ref(claim);
    let roles = claim.as_array().map_or(one, Vec::as_slice);
    let roles = roles.iter().filter_map(Value::as_str);
    roles.map(Access::of_role).fold(already, Access::and)
}

/// A token whose signature holds.
#[derive(Debug)]
struct Token {
    /// Since 1970.
    expires: Duration,
    begins: Duration,
    caller: Caller,
}

/// Who calls, and what that one may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    level: Access,
    subject: Option<Arc<str>>,
}

impl Caller {
    /// Whoever calls a broker that asks nobody.
    pub const ANYONE: Caller = Caller {
        level: Access::Admin,
        subject: None,
    };

    /// The subject of the token, at most [`SUBJECT_BYTES_MAX`](limits::SUBJECT_BYTES_MAX) bytes.
    pub fn subject(&self) -> Option<&str> {
        self.subject.as_deref()
    }

    /// Checks that the caller may do what needs this level.
    ///
    /// # Errors
    /// The token does not grant it.
    pub fn may(&self, needed: Access) -> Result<(), TokenFault> {
        if self.level.includes(needed) {
            return Ok(());
        }
        Err(TokenFault::Forbidden { needed })
    }
}

/// Why a request is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenFault {
    /// There is no token.
    #[error("a token is required: send it as authorization: Bearer <token>")]
    Missing,
    /// There is more than one field with one, or something else than a token in it.
    #[error("the header authorization must be there once, as Bearer <token>")]
    Unclear,
    /// What is sent is no token as this broker asks for.
    #[error(
        "the token is malformed, or lacks a claim that is required (exp, and iss and aud where they are set)"
    )]
    Malformed,
    /// It is signed by another algorithm.
    #[error("the token is not signed by the algorithm that this broker is set to")]
    OtherAlgorithm,
    /// The key has not signed it.
    #[error("the signature of the token does not fit the key of this broker")]
    Signature,
    /// It is meant for somebody else.
    #[error("the token is of another issuer or for another audience than this broker is set to")]
    NotForUs,
    /// It holds no longer.
    #[error("the token has expired")]
    Expired,
    /// It does not hold yet.
    #[error("the token does not hold yet (nbf)")]
    Early,
    /// It holds, but not for this.
    #[error("insufficient permissions: this takes the role {} or one that includes it", .needed.name())]
    Forbidden {
        /// What it takes.
        needed: Access,
    },
}

impl From<Error> for TokenFault {
    fn from(error: Error) -> TokenFault {
        match error.kind() {
            ErrorKind::InvalidSignature => TokenFault::Signature,
            ErrorKind::InvalidAlgorithm | ErrorKind::InvalidAlgorithmName => {
                TokenFault::OtherAlgorithm
            }
            ErrorKind::InvalidIssuer | ErrorKind::InvalidAudience => TokenFault::NotForUs,
            _ => TokenFault::Malformed,
        }
    }
}

/// The tokens of one core's callers. To check a signature takes longer than to serve a request, so
/// those that held are remembered.
#[derive(Debug)]
pub struct Gate {
    rules: Arc<TokenRules>,
    /// By the token's own bytes.
    known: RefCell<HashMap<Box<[u8]>, Token>>,
}

impl Gate {
    /// A gate that knows nobody yet.
    pub fn new(rules: Arc<TokenRules>) -> Gate {
        Gate {
            rules,
            known: RefCell::default(),
        }
    }

    /// Who sends the request, and that they may do what needs this level; `None`: anybody may.
    ///
    /// # Errors
    /// There is no token that holds now and grants it.
    pub fn admit(
        &self,
        head: &Head<'_>,
        needed: Option<Access>,
        now: SystemTime,
    ) -> Result<Caller, TokenFault> {
        let Some(needed) = needed else {
            return Ok(Caller::ANYONE);
        };
        if self
            .rules
            .open_paths
            .iter()
            .any(|path| path.as_bytes() == head.path)
        {
            return Ok(Caller::ANYONE);
        }
        let caller = self.caller(bearer(head)?, now)?;
        caller.may(needed)?;
        Ok(caller)
    }

    fn caller(&self, token: &[u8], now: SystemTime) -> Result<Caller, TokenFault> {
        let mut known = self.known.borrow_mut();
        if let Some(token) = known.get(token) {
            return token.caller_at(now, self.rules.clock_skew);
        }
        let read = self.rules.read(token)?;
        let caller = read.caller_at(now, self.rules.clock_skew)?;
        if known.len() >= limits::TOKENS_REMEMBERED_MAX {
            known.clear();
        }
        known.insert(token.into(), read);
        Ok(caller)
    }
}

impl Token {
    fn caller_at(&self, now: SystemTime, skew: Duration) -> Result<Caller, TokenFault> {
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        if now >= self.expires.saturating_add(skew) {
            return Err(TokenFault::Expired);
        }
        if now.saturating_add(skew) < self.begins {
            return Err(TokenFault::Early);
        }
        Ok(self.caller.clone())
    }
}

/// The token in the one field `authorization` (RFC 6750 section 2.1).
fn bearer<'a>(head: &Head<'a>) -> Result<&'a [u8], TokenFault> {
    let mut values = head.fields("authorization");
    let value = values.next().ok_or(TokenFault::Missing)?;
    if values.next().is_some() {
        return Err(TokenFault::Unclear);
    }
    let (scheme, token) = value
        .split_at_checked("Bearer ".len())
        .ok_or(TokenFault::Unclear)?;
    let token = token.trim_ascii();
    if !scheme.eq_ignore_ascii_case(b"Bearer ") || token.is_empty() {
        return Err(TokenFault::Unclear);
    }
    Ok(token)
}

#[cfg(test)]
#[path = "token_test.rs"]
mod tests;
