use jsonwebtoken::{EncodingKey, Header};
use serde_json::json;

use super::*;
use crate::http::{FieldSlots, HeadScan, ParsedHead, parse_head};

const SECRET: &str = "0123456789abcdef0123456789abcdef";
const NOW_S: u64 = 1_800_000_000;

fn rules(issuer: Option<&str>, audience: Option<&str>) -> TokenRules {
    TokenRules::new(TokenSettings {
        algorithm: Algorithm::HS256,
        key: DecodingKey::from_secret(SECRET.as_bytes()).expect("a key"),
        issuer,
        audience,
        clock_skew: Duration::from_secs(30),
        open_paths: &["/open".to_owned()],
        role_claims: &["role".to_owned(), "roles".to_owned()],
    })
}

fn gate() -> Gate {
    Gate::new(Arc::new(rules(None, None)))
}

fn signed_with(algorithm: Algorithm, secret: &str, claims: &Value) -> String {
    let key = EncodingKey::from_secret(secret.as_bytes()).expect("a key");
    jsonwebtoken::encode(&Header::new(algorithm), claims, &key).expect("a token")
}

fn signed(claims: &Value) -> String {
    signed_with(Algorithm::HS256, SECRET, claims)
}

/// Asks the gate with these fields, `since` seconds after the moment of all these tests.
fn admitted(
    gate: &Gate,
    path: &str,
    fields: &str,
    needed: Option<Access>,
    since: u64,
) -> Result<Caller, TokenFault> {
    let bytes = format!("GET {path} HTTP/1.1\r\nhost: a\r\n{fields}\r\n");
    let mut slots = FieldSlots::new();
    let now = UNIX_EPOCH + Duration::from_secs(NOW_S + since);
    match parse_head(bytes.as_bytes(), &mut HeadScan::default(), &mut slots) {
        ParsedHead::Complete { head, .. } => gate.admit(&head, needed, now),
        other => panic!("{other:?}"),
    }
}

fn asked(gate: &Gate, token: &str, needed: Access, since: u64) -> Result<Caller, TokenFault> {
    let field = format!("Authorization: Bearer {token}\r\n");
    admitted(gate, "/", &field, Some(needed), since)
}

fn fault_of(claims: &Value) -> TokenFault {
    asked(&gate(), &signed(claims), Access::Any, 0).unwrap_err()
}

#[test]
fn a_token_grants_what_its_roles_grant_together() {
    for (claims, level) in [
        (json!({}), Access::Any),
        (json!({"role": "read-only"}), Access::Read),
        (
            json!({"role": ["write-only", 5, "nonsense"]}),
            Access::Write,
        ),
        (
            json!({"roles": ["read-only", "write-only"]}),
            Access::ReadWrite,
        ),
        (
            json!({"role": "write-only", "roles": "read-only"}),
            Access::ReadWrite,
        ),
        (
            json!({"role": "ADMIN", "roles": {"admin": true}}),
            Access::Any,
        ),
        (json!({"roles": ["admin"]}), Access::Admin),
    ] {
        let mut claims = claims;
        claims["exp"] = json!(NOW_S + 60);
        claims["sub"] = json!("me");
        let gate = gate();
        let token = signed(&claims);
        // Once it is read, then it is remembered.
        for _ in 0..2 {
            let caller = asked(&gate, &token, level, 0).expect("admitted");
            assert_eq!(
                (caller.level, caller.subject()),
                (level, Some("me")),
                "{claims}"
            );
            let more = asked(&gate, &token, Access::Admin, 0);
            match level {
                Access::Admin => assert_eq!(more, Ok(caller)),
                _ => assert_eq!(
                    more,
                    Err(TokenFault::Forbidden {
                        needed: Access::Admin
                    })
                ),
            }
        }
    }
}

#[test]
fn without_a_level_and_on_open_paths_nobody_is_asked() {
    let gate = gate();
    assert_eq!(admitted(&gate, "/", "", None, 0), Ok(Caller::ANYONE));
    let admin = Some(Access::Admin);
    assert_eq!(admitted(&gate, "/open", "", admin, 0), Ok(Caller::ANYONE));
    for path in ["/open/", "/Open", "/ope", "/"] {
        assert_eq!(
            admitted(&gate, path, "", admin, 0),
            Err(TokenFault::Missing)
        );
    }
}

#[test]
fn a_token_stands_once_in_its_field() {
    let gate = gate();
    let token = signed(&json!({"exp": NOW_S + 1}));
    let asked = |fields: &str| admitted(&gate, "/", fields, Some(Access::Any), 0);
    assert!(asked(&format!("authorization: bearer   {token} \r\n")).is_ok());
    assert_eq!(asked("x: y\r\n"), Err(TokenFault::Missing));
    let twice = format!("authorization: Bearer {token}\r\n").repeat(2);
    for unclear in [
        &twice,
        "authorization: \r\n",
        "authorization: Bearer\r\n",
        "authorization: Basic YTpi\r\n",
        &format!("authorization: {token}\r\n"),
    ] {
        assert_eq!(asked(unclear), Err(TokenFault::Unclear), "{unclear}");
    }
}

#[test]
fn a_token_holds_for_its_time_also_where_it_is_known() {
    let gate = gate();
    let token = signed(&json!({"exp": NOW_S + 100, "nbf": NOW_S + 40}));
    let asked = |since| asked(&gate, &token, Access::Any, since).map(|_| ());
    assert_eq!(asked(9), Err(TokenFault::Early));
    assert_eq!(asked(10), Ok(()));
    assert_eq!(asked(129), Ok(()));
    assert_eq!(asked(130), Err(TokenFault::Expired));
    // A clock that was set back.
    assert_eq!(asked(0), Err(TokenFault::Early));
}

#[test]
fn what_somebody_else_has_signed_does_not_hold() {
    let claims = json!({"exp": NOW_S + 60, "role": "admin"});
    let gate = gate();
    let fault = |token: &str| asked(&gate, token, Access::Any, 0).unwrap_err();
    let other_key = signed_with(Algorithm::HS256, "another", &claims);
    assert_eq!(fault(&other_key), TokenFault::Signature);
    let other_algorithm = signed_with(Algorithm::HS512, SECRET, &claims);
    assert_eq!(fault(&other_algorithm), TokenFault::OtherAlgorithm);
    let token = signed(&claims);
    let (rest, signature) = token.rsplit_once('.').expect("three parts");
    // {"alg":"none"}
    let none = format!(
        "eyJhbGciOiJub25lIn0.{}.",
        rest.split_once('.').expect("two parts").1
    );
    assert!(asked(&gate, &none, Access::Any, 0).is_err());
    assert_eq!(fault(&format!("{rest}.")), TokenFault::Signature);
    assert_eq!(fault(rest), TokenFault::Malformed);
    assert_eq!(fault("x"), TokenFault::Malformed);
    let reversed: String = signature.chars().rev().collect();
    assert!(asked(&gate, &format!("{rest}.{reversed}"), Access::Any, 0).is_err());
    assert!(asked(&gate, &token, Access::Any, 0).is_ok());
}

#[test]
fn claims_that_are_no_such_claims_do_not_hold() {
    let long = "a".repeat(limits::SUBJECT_BYTES_MAX + 1);
    for claims in [
        json!({}),
        json!({"exp": null}),
        json!({"exp": "1900000000"}),
        json!({"exp": -1}),
        json!({"exp": 1e300}),
        json!({"exp": NOW_S + 60, "nbf": "0"}),
        json!({"exp": NOW_S + 60, "sub": 5}),
        json!({"exp": NOW_S + 60, "sub": long}),
        json!([]),
    ] {
        assert_eq!(fault_of(&claims), TokenFault::Malformed, "{claims}");
    }
    let fraction = signed(&json!({"exp": NOW_S as f64 + 0.5, "sub": null}));
    let caller = asked(&gate(), &fraction, Access::Any, 0).expect("admitted");
    assert_eq!(caller.subject(), None);
}

#[test]
fn a_token_of_another_issuer_or_for_others_does_not_hold() {
    let gate = Gate::new(Arc::new(rules(Some("us"), Some("queen"))));
    let fault = |claims: Value| {
        let mut claims = claims;
        claims["exp"] = json!(NOW_S + 60);
        asked(&gate, &signed(&claims), Access::Any, 0).err()
    };
    assert_eq!(fault(json!({"iss": "us", "aud": "queen"})), None);
    assert_eq!(fault(json!({"iss": "us", "aud": ["x", "queen"]})), None);
    for claims in [
        json!({"iss": "them", "aud": "queen"}),
        json!({"iss": "us", "aud": "x"}),
    ] {
        assert_eq!(
            fault(claims.clone()),
            Some(TokenFault::NotForUs),
            "{claims}"
        );
    }
    for claims in [
        json!({"iss": "us"}),
        json!({"aud": "queen"}),
        json!({"iss": 5, "aud": "queen"}),
    ] {
        assert_eq!(
            fault(claims.clone()),
            Some(TokenFault::Malformed),
            "{claims}"
        );
    }
    // Where nobody is named an audience does no harm.
    let aimed = signed(&json!({"exp": NOW_S + 60, "aud": "x", "iss": "y"}));
    assert!(asked(&self::gate(), &aimed, Access::Any, 0).is_ok());
}

#[test]
fn so_many_tokens_are_remembered() {
    let gate = gate();
    for number in 0..=limits::TOKENS_REMEMBERED_MAX {
        let token = signed(&json!({"exp": NOW_S + 60, "sub": number.to_string()}));
        let caller = asked(&gate, &token, Access::Any, 0).expect("admitted");
        assert_eq!(caller.subject(), Some(number.to_string().as_str()));
        assert!(gate.known.borrow().len() <= limits::TOKENS_REMEMBERED_MAX);
    }
    assert_eq!(gate.known.borrow().len(), 1);
    // Only what holds is remembered.
    let expired = signed(&json!({"exp": NOW_S - 60}));
    assert_eq!(
        asked(&gate, &expired, Access::Any, 0),
        Err(TokenFault::Expired)
    );
    assert!(asked(&gate, "a.b.c", Access::Any, 0).is_err());
    assert_eq!(gate.known.borrow().len(), 1);
}
