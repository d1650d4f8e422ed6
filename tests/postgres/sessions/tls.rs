//! TLS: each `sslmode` against a server with a certificate of the tests' own.

use std::fs;
use std::path::{Path, PathBuf};

use queen::postgres::{Session, SessionFault, Target, TargetSettings};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

use super::server::{Database, PASSWORD, RULES, Server, away, close_to_others, own_as};

/// Two authorities, and what the first one signed.
#[derive(Debug)]
pub(crate) struct Certificates {
    folder: PathBuf,
}

impl Certificates {
    /// Makes all of them in a folder.
    pub(crate) fn make(folder: &Path) -> Certificates {
        let authority = authority(&folder.join("root.crt"), "the right one");
        authority_of_nobody(&folder.join("other-root.crt"));
        // The address is what the tests connect to; the name is nobody's.
        let names = vec!["127.0.0.1".to_owned(), "db.example".to_owned()];
        let server = CertificateParams::new(names).expect("names");
        sign(&authority, server, &folder.join("server"));
        let mut client = CertificateParams::new(Vec::new()).expect("no names");
        client
            .distinguished_name
            .push(DnType::CommonName, "by_certificate");
        sign(&authority, client, &folder.join("client"));
        Certificates {
            folder: folder.to_owned(),
        }
    }

    /// Puts what the server needs into its cluster.
    pub(crate) fn give_to_server(&self, cluster: &Path) {
        for (from, to) in [
            ("server.crt", "server.crt"),
            ("server.key", "server.key"),
            ("root.crt", "root.crt"),
        ] {
            let to = cluster.join(to);
            fs::copy(self.path(from), &to).expect("a copy");
            close_to_others(&to);
            own_as(cluster, &to);
        }
        let conf = cluster.join("postgresql.conf");
        let text = fs::read_to_string(&conf).expect("its settings");
        let more =
            "ssl_cert_file = 'server.crt'\nssl_key_file = 'server.key'\nssl_ca_file = 'root.crt'\n";
        fs::write(&conf, text + more).expect("its settings");
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }
}

fn authority(path: &Path, name: &str) -> Issuer<'static, KeyPair> {
    let mut params = CertificateParams::new(Vec::new()).expect("no names");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, name);
    let key = KeyPair::generate().expect("a key");
    let certificate = params.self_signed(&key).expect("a certificate");
    fs::write(path, certificate.pem()).expect("a file");
    Issuer::new(params, key)
}

fn authority_of_nobody(path: &Path) {
    authority(path, "the wrong one");
}

fn sign(authority: &Issuer<'static, KeyPair>, params: CertificateParams, path: &Path) {
    let key = KeyPair::generate().expect("a key");
    let signed = params.signed_by(&key, authority).expect("a certificate");
    fs::write(path.with_extension("crt"), signed.pem()).expect("a file");
    fs::write(path.with_extension("key"), key.serialize_pem()).expect("a file");
}

/// How one connection is asked for.
struct Case<'a> {
    user: &'a str,
    host: &'a str,
    mode: &'a str,
    roots: Option<&'a str>,
}

fn open(database: &Database, case: &Case<'_>) -> Result<Session, SessionFault> {
    let certificates = database.server.certificates.as_ref().expect("it has TLS");
    let settings = TargetSettings {
        host: Some(case.host.to_owned()),
        ssl_mode: Some(case.mode.to_owned()),
        ssl_root_cert: case.roots.map(|name| certificates.text(name)),
        ..database.network_settings(case.user)
    };
    let target = Target::parse(&settings).expect("settings that are right");
    Session::open(&target, &RULES, "incarnation-a", &mut || true)
}

/// Whether the broker's only session is encrypted, as the server sees it.
fn is_encrypted(database: &Database) -> bool {
    let sql = "SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
               WHERE application_name = 'queen' AND datname = current_database()";
    database.value(sql) == "true"
}

const RIGHT: Option<&str> = Some("root.crt");
const WRONG: Option<&str> = Some("other-root.crt");

#[test]
fn each_mode_encrypts_as_libpq_does() {
    let database = Server::shared().database();
    for (user, mode, roots, encrypted) in [
        ("either", "disable", None, false),
        ("either", "allow", None, false),
        ("either", "prefer", None, true),
        ("either", "prefer", RIGHT, true),
        ("either", "require", None, true),
        ("either", "require", RIGHT, true),
        ("either", "verify-ca", RIGHT, true),
        ("either", "verify-full", RIGHT, true),
        // The login is rejected on the first kind of connection.
        ("tls_only", "allow", None, true),
        ("plain_only", "prefer", None, false),
        // No chain to a root: the handshake fails, and the other kind is tried.
        ("either", "prefer", WRONG, false),
    ] {
        let host = "127.0.0.1";
        let case = Case {
            user,
            host,
            mode,
            roots,
        };
        let session = open(&database, &case);
        assert!(session.is_ok(), "{user} {mode} {roots:?}: {session:?}");
        assert_eq!(
            is_encrypted(&database),
            encrypted,
            "{user} {mode} {roots:?}"
        );
        drop(session);
        let gone = "SELECT count(*) FROM pg_stat_activity \
                    WHERE application_name = 'queen' AND datname = current_database()";
        crate::poll::eventually("the session ends", || database.value(gone) == "0");
    }
}

#[test]
fn what_must_not_connect_does_not() {
    let database = Server::shared().database();
    let (right_host, wrong_host) = ("127.0.0.1", "localhost");
    for (user, host, mode, roots, text) in [
        ("either", right_host, "require", WRONG, "UnknownIssuer"),
        ("either", right_host, "verify-ca", WRONG, "UnknownIssuer"),
        ("either", right_host, "verify-full", WRONG, "UnknownIssuer"),
        (
            "either",
            wrong_host,
            "verify-full",
            RIGHT,
            "not valid for name",
        ),
        (
            "tls_only",
            right_host,
            "disable",
            None,
            "no pg_hba.conf entry",
        ),
        (
            "plain_only",
            right_host,
            "require",
            None,
            "no pg_hba.conf entry",
        ),
        (
            "by_certificate",
            right_host,
            "verify-ca",
            RIGHT,
            "certificate",
        ),
    ] {
        let case = Case {
            user,
            host,
            mode,
            roots,
        };
        let reason = away(open(&database, &case));
        assert!(reason.contains(text), "{user} {host} {mode}: {reason}");
        assert!(!reason.contains(PASSWORD), "{reason}");
    }
    // A chain is enough for this one, whatever the host is called.
    let case = Case {
        user: "either",
        host: wrong_host,
        mode: "verify-ca",
        roots: RIGHT,
    };
    open(&database, &case).expect("the chain is right");
}

#[test]
fn a_name_with_an_address_is_verified_by_the_name() {
    let database = Server::shared().database();
    let certificates = database.server.certificates.as_ref().expect("it has TLS");
    let url = |host: &str| {
        format!(
            "host={host} hostaddr=127.0.0.1 port={} user=either dbname={} sslmode=verify-full \
             sslrootcert='{}'",
            database.server.port,
            database.name,
            certificates.text("root.crt")
        )
    };
    let open = |host: &str| {
        let settings = TargetSettings {
            database_url: Some(url(host)),
            password: Some(PASSWORD.to_owned()),
            ..TargetSettings::default()
        };
        let target = Target::parse(&settings).expect("settings that are right");
        Session::open(&target, &RULES, "incarnation-a", &mut || true)
    };
    open("db.example").expect("the certificate has the name");
    let reason = away(open("other.example"));
    assert!(reason.contains("not valid for name"), "{reason}");
}

#[test]
fn the_broker_can_show_a_certificate_of_its_own() {
    let database = Server::shared().database();
    let certificates = database.server.certificates.as_ref().expect("it has TLS");
    let url = format!(
        "postgres://by_certificate@127.0.0.1:{}/{}?sslmode=verify-full&sslrootcert={}&sslcert={}&sslkey={}",
        database.server.port,
        database.name,
        certificates.text("root.crt"),
        certificates.text("client.crt"),
        certificates.text("client.key")
    );
    let settings = TargetSettings {
        database_url: Some(url),
        ..TargetSettings::default()
    };
    let target = Target::parse(&settings).expect("settings that are right");
    Session::open(&target, &RULES, "incarnation-a", &mut || true).expect("a session");
}

#[test]
fn a_self_signed_certificate_can_be_trusted_itself() {
    let database = Server::shared().database();
    let certificates = database.server.certificates.as_ref().expect("it has TLS");
    // The server's own certificate as the root: nobody else's chain ends in it.
    let case = |host| Case {
        user: "either",
        host,
        mode: "verify-full",
        roots: Some("server.crt"),
    };
    assert!(certificates.path("server.crt").exists());
    open(&database, &case("127.0.0.1")).expect("it is this very certificate");
    let reason = away(open(&database, &case("localhost")));
    assert!(reason.contains("not valid for name"), "{reason}");
}

#[test]
fn a_server_without_tls_is_used_only_where_the_mode_allows_it() {
    let database = Server::own().database();
    let open = |mode: &str| {
        let settings = TargetSettings {
            ssl_mode: Some(mode.to_owned()),
            ..database.network_settings("either")
        };
        let target = Target::parse(&settings).expect("settings that are right");
        Session::open(&target, &RULES, "incarnation-a", &mut || true)
    };
    for mode in ["disable", "allow", "prefer"] {
        open(mode).expect(mode);
    }
    let reason = away(open("require"));
    assert!(reason.contains("does not support TLS"), "{reason}");
}

#[test]
fn a_socket_has_no_tls_whatever_the_mode() {
    let database = Server::shared().database();
    for mode in ["disable", "allow", "prefer", "require", "verify-full"] {
        let settings = TargetSettings {
            ssl_mode: Some(mode.to_owned()),
            ..database.settings()
        };
        let target = Target::parse(&settings).expect("settings that are right");
        Session::open(&target, &RULES, "incarnation-a", &mut || true).expect("a session");
    }
}
