use jsonwebtoken::{AlgorithmFamily, EncodingKey, Header};
use serde_json::json;

use super::*;
use crate::auth::token_vectors::TOKENS;
use crate::http::{FieldSlots, HeadScan, ParsedHead, parse_head};

const SECRET: &str = "0123456789abcdef0123456789abcdef";
const NOW_S: u64 = 1_800_000_000;

fn rules(issuer: Option<&str>, audience: Option<&str>) -> TokenVerifier {
    TokenVerifier::new(TokenSettings {
        algorithm: Algorithm::HS256,
        key: DecodingKey::from_secret(SECRET.as_bytes()).expect("a key"),
        issuer: issuer.map(str::to_owned),
        audience: audience.map(str::to_owned),
        clock_skew: Duration::from_secs(30),
        skip_paths: vec!["/open".to_owned()],
        role_claims: ["role".to_owned(), "roles".to_owned()],
    })
}

fn gate() -> Authenticator {
    Authenticator::new(Arc::new(rules(None, None)))
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
    gate: &Authenticator,
    path: &str,
    fields: &str,
    needed: Option<Access>,
    since: u64,
) -> Result<Principal, AuthFault> {
    let bytes = format!("GET {path} HTTP/1.1\r\nhost: a\r\n{fields}\r\n");
    let mut slots = FieldSlots::new();
    let now = UNIX_EPOCH + Duration::from_secs(NOW_S + since);
    match parse_head(bytes.as_bytes(), &mut HeadScan::default(), &mut slots) {
        ParsedHead::Complete { head, .. } => gate.authorize_at(&head, needed, now),
        other => panic!("{other:?}"),
    }
}

fn asked(
    gate: &Authenticator,
    token: &str,
    needed: Access,
    since: u64,
) -> Result<Principal, AuthFault> {
    let field = format!("Authorization: Bearer {token}\r\n");
    admitted(gate, "/", &field, Some(needed), since)
}

fn fault_of(claims: &Value) -> AuthFault {
    asked(&gate(), &signed(claims), Access::Authenticated, 0).unwrap_err()
}

#[test]
fn a_token_grants_what_its_roles_grant_together() {
    for (claims, level) in [
        (json!({}), Access::Authenticated),
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
            Access::Authenticated,
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
                (caller.level, caller.subject().map(|subject| &**subject)),
                (level, Some("me")),
                "{claims}"
            );
            let more = asked(&gate, &token, Access::Admin, 0);
            match level {
                Access::Admin => assert_eq!(more, Ok(caller)),
                _ => assert_eq!(
                    more,
                    Err(AuthFault::Forbidden {
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
    assert_eq!(admitted(&gate, "/", "", None, 0), Ok(Principal::UNCHECKED));
    let admin = Some(Access::Admin);
    assert_eq!(
        admitted(&gate, "/open", "", admin, 0),
        Ok(Principal::UNCHECKED)
    );
    for path in ["/open/", "/Open", "/ope", "/"] {
        assert_eq!(admitted(&gate, path, "", admin, 0), Err(AuthFault::Missing));
    }
}

#[test]
fn a_token_stands_once_in_its_field() {
    let gate = gate();
    let token = signed(&json!({"exp": NOW_S + 1}));
    let asked = |fields: &str| admitted(&gate, "/", fields, Some(Access::Authenticated), 0);
    assert!(asked(&format!("authorization: bearer   {token} \r\n")).is_ok());
    assert_eq!(asked("x: y\r\n"), Err(AuthFault::Missing));
    let twice = format!("authorization: Bearer {token}\r\n").repeat(2);
    for malformed in [
        &twice,
        "authorization: Bearer\r\n",
        "authorization: Bearer  \r\n",
    ] {
        assert_eq!(
            asked(malformed),
            Err(AuthFault::MalformedHeader),
            "{malformed}"
        );
    }
    for other in ["", "Basic YTpi", token.as_str()] {
        let field = format!("authorization: {other}\r\n");
        assert_eq!(asked(&field), Err(AuthFault::Missing), "{other}");
    }
    let long = "a".repeat(limits::TOKEN_BYTES_MAX + 1);
    let long = asked(&format!("authorization: Bearer {long}\r\n"));
    assert_eq!(long, Err(AuthFault::TooLong));
}

#[test]
fn a_token_holds_for_its_time_also_where_it_is_known() {
    let gate = gate();
    let token = signed(&json!({"exp": NOW_S + 100, "nbf": NOW_S + 40}));
    let asked = |since| asked(&gate, &token, Access::Authenticated, since).map(|_| ());
    assert_eq!(asked(9), Err(AuthFault::NotYetValid));
    assert_eq!(asked(10), Ok(()));
    assert_eq!(asked(129), Ok(()));
    assert_eq!(asked(130), Err(AuthFault::Expired));
    // A clock that was set back.
    assert_eq!(asked(0), Err(AuthFault::NotYetValid));
}

#[test]
fn what_somebody_else_has_signed_does_not_hold() {
    let claims = json!({"exp": NOW_S + 60, "role": "admin"});
    let gate = gate();
    let fault = |token: &str| asked(&gate, token, Access::Authenticated, 0).unwrap_err();
    let other_key = signed_with(Algorithm::HS256, "another", &claims);
    assert_eq!(fault(&other_key), AuthFault::Signature);
    let other_algorithm = signed_with(Algorithm::HS512, SECRET, &claims);
    assert_eq!(fault(&other_algorithm), AuthFault::OtherAlgorithm);
    let token = signed(&claims);
    let (rest, signature) = token.rsplit_once('.').expect("three parts");
    // {"alg":"none"}
    let none = format!(
        "eyJhbGciOiJub25lIn0.{}.",
        rest.split_once('.').expect("two parts").1
    );
    assert!(asked(&gate, &none, Access::Authenticated, 0).is_err());
    assert_eq!(fault(&format!("{rest}.")), AuthFault::Signature);
    assert_eq!(fault(rest), AuthFault::Malformed);
    assert_eq!(fault("x"), AuthFault::Malformed);
    let reversed: String = signature.chars().rev().collect();
    assert!(
        asked(
            &gate,
            &format!("{rest}.{reversed}"),
            Access::Authenticated,
            0
        )
        .is_err()
    );
    assert!(asked(&gate, &token, Access::Authenticated, 0).is_ok());
}

#[test]
fn claims_that_are_no_such_claims_do_not_hold() {
    let long = "a".repeat(limits::SUBJECT_BYTES_MAX + 1);
    for (name, claims) in [
        ("exp", json!({})),
        ("exp", json!({"exp": null})),
        ("exp", json!({"exp": "1900000000"})),
        ("exp", json!({"exp": -1})),
        ("exp", json!({"exp": 1e300})),
        ("nbf", json!({"exp": NOW_S + 60, "nbf": "0"})),
        ("sub", json!({"exp": NOW_S + 60, "sub": 5})),
        ("sub", json!({"exp": NOW_S + 60, "sub": long})),
    ] {
        let fault = fault_of(&claims);
        // The library has a word of its own for a missing exp.
        let is_named = fault == AuthFault::Claim(name);
        assert!(
            is_named || (name, fault) == ("exp", AuthFault::Malformed),
            "{claims}: {fault:?}"
        );
    }
    assert_eq!(fault_of(&json!([])), AuthFault::Malformed);
    let fraction = signed(&json!({"exp": NOW_S as f64 + 0.5, "sub": null}));
    let caller = asked(&gate(), &fraction, Access::Authenticated, 0).expect("admitted");
    assert_eq!(caller.subject().map(|subject| &**subject), None);
}

#[test]
fn a_token_of_another_issuer_or_for_others_does_not_hold() {
    let gate = Authenticator::new(Arc::new(rules(Some("us"), Some("queen"))));
    let fault = |claims: Value| {
        let mut claims = claims;
        claims["exp"] = json!(NOW_S + 60);
        asked(&gate, &signed(&claims), Access::Authenticated, 0).err()
    };
    assert_eq!(fault(json!({"iss": "us", "aud": "queen"})), None);
    assert_eq!(fault(json!({"iss": "us", "aud": ["x", "queen"]})), None);
    let them = json!({"iss": "them", "aud": "queen"});
    assert_eq!(fault(them), Some(AuthFault::WrongIssuer));
    let others = json!({"iss": "us", "aud": "x"});
    assert_eq!(fault(others), Some(AuthFault::WrongAudience));
    for claims in [
        json!({"iss": "us"}),
        json!({"aud": "queen"}),
        json!({"iss": 5, "aud": "queen"}),
    ] {
        assert_eq!(
            fault(claims.clone()),
            Some(AuthFault::Malformed),
            "{claims}"
        );
    }
    // Where nobody is named an audience does no harm.
    let aimed = signed(&json!({"exp": NOW_S + 60, "aud": "x", "iss": "y"}));
    assert!(asked(&self::gate(), &aimed, Access::Authenticated, 0).is_ok());
}

#[test]
fn so_many_tokens_are_remembered() {
    let gate = gate();
    for number in 0..=limits::TOKENS_REMEMBERED_MAX {
        let token = signed(&json!({"exp": NOW_S + 60, "sub": number.to_string()}));
        let caller = asked(&gate, &token, Access::Authenticated, 0).expect("admitted");
        assert_eq!(
            caller.subject().map(|subject| &**subject),
            Some(number.to_string().as_str())
        );
        assert!(gate.verified.borrow().len() <= limits::TOKENS_REMEMBERED_MAX);
    }
    assert_eq!(gate.verified.borrow().len(), 1);
    // One whose signature holds, too, whatever the time is; no other one.
    let expired = signed(&json!({"exp": NOW_S - 60}));
    let asked = |token: &str| asked(&gate, token, Access::Authenticated, 0).unwrap_err();
    assert_eq!(asked(&expired), AuthFault::Expired);
    assert_eq!(asked("a.b.c"), AuthFault::Malformed);
    assert_eq!(gate.verified.borrow().len(), 2);
    // What is remembered is not verified again.
    let token = gate.verified.borrow_mut().remove(expired.as_bytes());
    let token = token.expect("remembered");
    gate.verified.borrow_mut().insert((*b"x").into(), token);
    assert_eq!(asked("x"), AuthFault::Expired);
}

#[test]
fn each_algorithm_verifies_its_own_tokens_and_no_other_ones() {
    for (algorithm, key, _) in TOKENS {
        let pem = key.as_bytes();
        let key = match algorithm.family() {
            AlgorithmFamily::Hmac => DecodingKey::from_secret(pem),
            AlgorithmFamily::Rsa => DecodingKey::from_rsa_pem(pem),
            AlgorithmFamily::Ec => DecodingKey::from_ec_pem(pem),
            _ => DecodingKey::from_ed_pem(pem),
        };
        let mut verifier = rules(None, None);
        verifier.settings.key = key.expect("a key");
        verifier.settings.algorithm = algorithm;
        let gate = Authenticator::new(Arc::new(TokenVerifier::new(verifier.settings)));
        for (signed_by, _, token) in TOKENS {
            let asked = asked(&gate, token, Access::Admin, 0);
            if signed_by == algorithm {
                let subject = format!("{algorithm:?}");
                assert_eq!(
                    asked.expect("admitted").subject().map(|subject| &**subject),
                    Some(&*subject)
                );
            } else {
                assert_eq!(asked, Err(AuthFault::OtherAlgorithm), "{signed_by:?}");
            }
        }
        // The public key taken for a shared secret.
        let confused = signed_with(
            Algorithm::HS256,
            &String::from_utf8_lossy(pem),
            &json!({"exp": NOW_S + 60}),
        );
        if algorithm != Algorithm::HS256 {
            let asked = asked(&gate, &confused, Access::Authenticated, 0);
            assert_eq!(asked, Err(AuthFault::OtherAlgorithm));
        }
    }
}
