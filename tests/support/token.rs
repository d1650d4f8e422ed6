//! Tokens for brokers that ask for one.

use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::json;

/// What brokers of the tests are given as `JWT_SECRET`.
pub(crate) const SECRET: &str = "correct-horse-battery-staple-01234567";

/// The value of `authorization` for a caller with this role.
pub(crate) fn bearer(role: &str, subject: &str) -> String {
    let key = EncodingKey::from_secret(SECRET.as_bytes()).expect("a key");
    // The year 2100.
    let claims = json!({"exp": 4_102_444_800_u64, "role": role, "sub": subject});
    let token = jsonwebtoken::encode(&Header::new(Algorithm::HS256), &claims, &key);
    format!("Bearer {}", token.expect("a token"))
}
