//! TLS to the server, by libpq's rules (PostgreSQL's manual, "SSL Support"): which certificates are
//! trusted, and whether the name in one must be the host's.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};
use tokio_postgres_rustls::MakeRustlsConnect;

/// The values of `sslmode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SslMode {
    Disable,
    Allow,
    Prefer,
    Require,
    VerifyCa,
    VerifyFull,
}

impl SslMode {
    pub(super) fn parse(text: &str) -> Option<SslMode> {
        Some(match text {
            "disable" => SslMode::Disable,
            "allow" => SslMode::Allow,
            "prefer" => SslMode::Prefer,
            "require" => SslMode::Require,
            "verify-ca" => SslMode::VerifyCa,
            "verify-full" => SslMode::VerifyFull,
            _ => return None,
        })
    }
}

/// Whom to trust.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Roots {
    /// Every certificate: encryption alone.
    Any,
    /// The certificates of a file.
    File(PathBuf),
    /// What the machine trusts.
    System,
}

/// How a connection is encrypted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TlsRules {
    pub(super) mode: SslMode,
    pub(super) roots: Roots,
    /// The files of the broker's own certificate and of its key.
    pub(super) own: Option<(PathBuf, PathBuf)>,
}

impl TlsRules {
    /// A connector as of now: files are read anew for each session, so that they can be renewed.
    ///
    /// # Errors
    /// What is wrong with a file, as a whole sentence.
    pub(super) fn connector(&self) -> Result<MakeRustlsConnect, String> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let trusted = self.trusted()?;
        let chain = match &trusted {
            Some(trusted) => Some(chain_verifier(trusted, &provider)?),
            None => None,
        };
        let verifier = Verifier {
            chain,
            trusted: trusted.unwrap_or_default(),
            checks_name: self.mode == SslMode::VerifyFull,
            provider: Arc::clone(&provider),
        };
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|fault| fault.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier));
        let config = match &self.own {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let read = PrivateKeyDer::from_pem_file(key);
                let private = read.map_err(|fault| unusable(key, &fault))?;
                builder
                    .with_client_auth_cert(certificates(certificate)?, private)
                    .map_err(|fault| unusable(certificate, &fault))?
            }
        };
        Ok(MakeRustlsConnect::new(config))
    }

    fn trusted(&self) -> Result<Option<Vec<CertificateDer<'static>>>, String> {
        match &self.roots {
            Roots::Any => Ok(None),
            Roots::File(path) => Ok(Some(certificates(path)?)),
            Roots::System => {
                let found = rustls_native_certs::load_native_certs();
                if found.certs.is_empty() {
                    let text = "this machine has no trusted certificates (sslrootcert=system)";
                    return Err(text.to_owned());
                }
                Ok(Some(found.certs))
            }
        }
    }
}

fn unusable(path: &Path, fault: &dyn std::fmt::Display) -> String {
    format!("{} cannot be used: {fault}", path.display())
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect)
        .map_err(|fault| unusable(path, &fault));
    match found {
        Ok(found) if found.is_empty() => Err(unusable(path, &"it has no certificate")),
        found => found,
    }
}

fn chain_verifier(
    trusted: &[CertificateDer<'static>],
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<WebPkiServerVerifier>, String> {
    let mut roots = RootCertStore::empty();
    // One that cannot be read is of no use to anybody; the others still are.
    roots.add_parsable_certificates(trusted.iter().cloned());
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
        .build()
        .map_err(|fault| format!("the root certificates cannot be used: {fault}"))
}

/// Judges the server's certificate.
#[derive(Debug)]
struct Verifier {
    /// Judges chain and name; `None` where every certificate will do.
    chain: Option<Arc<WebPkiServerVerifier>>,
    trusted: Vec<CertificateDer<'static>>,
    checks_name: bool,
    provider: Arc<CryptoProvider>,
}

impl Verifier {
    /// A server's own certificate that is trusted as such: the usual way with self-signed ones, which
    /// a chain must not end in because they may sign others too.
    fn is_trusted_itself(&self, certificate: &CertificateDer<'_>, fault: &Error) -> bool {
        let is_over = matches!(
            fault,
            Error::InvalidCertificate(
                CertificateError::Expired
                    | CertificateError::ExpiredContext { .. }
                    | CertificateError::NotValidYet
                    | CertificateError::NotValidYetContext { .. }
            )
        );
        !is_over && self.trusted.iter().any(|one| one == certificate)
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let trusted = Ok(ServerCertVerified::assertion());
        let Some(chain) = &self.chain else {
            return trusted;
        };
        // The chain comes first there: where only the name is wrong, the chain is right.
        let judged =
            chain.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        let fault = match judged {
            Ok(_) => return trusted,
            Err(fault) => fault,
        };
        let is_name = matches!(
            fault,
            Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. }
            )
        );
        match fault {
            _ if is_name && !self.checks_name => trusted,
            fault if !is_name && self.is_trusted_itself(end_entity, &fault) => {
                if self.checks_name {
                    let parsed = ParsedCertificate::try_from(end_entity)?;
                    rustls::client::verify_server_name(&parsed, server_name)?;
                }
                trusted
            }
            fault => Err(fault),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let algorithms = &self.provider.signature_verification_algorithms;
        algorithms.supported_schemes()
    }
}
