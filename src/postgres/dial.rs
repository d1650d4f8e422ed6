//! Connects: every endpoint in turn, each with or without TLS as `sslmode` says.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;
use tokio_postgres::config::SslMode as Encryption;
use tokio_postgres::{AsyncMessage, CancelToken, Client, Connection, Error, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::SessionFault;
use super::fault::text_of;
use super::target::{Endpoint, Target};
use super::tls::SslMode;
use crate::limits::{SESSION_CANCEL_MS, SESSION_CONNECT_MS};

/// Connected and logged in.
pub(super) struct Line {
    pub(super) client: Client,
    /// Carries the bytes; its end says why the connection has ended.
    pub(super) carrier: JoinHandle<Result<(), Error>>,
    /// Whether a commit was not waited for as far as a standby.
    unconfirmed: Arc<AtomicBool>,
    /// For the connection that asks the server to cancel.
    connector: Option<MakeRustlsConnect>,
}

impl Line {
    /// Asks the server, over a connection of its own, to give up what it is at.
    pub(super) async fn cancel(token: CancelToken, connector: Option<MakeRustlsConnect>) {
        let asked = match connector {
            Some(connector) => token.cancel_query(connector).await,
            None => token.cancel_query(NoTls).await,
        };
        if let Err(fault) = asked {
            tracing::debug!(
                fault = text_of(&fault),
                "PostgreSQL was not asked to cancel"
            );
        }
    }

    /// What an error that the server did not send means: its last word, if there was one.
    pub(super) async fn reason(&mut self, error: &Error) -> SessionFault {
        if error.is_closed() || self.client.is_closed() {
            let limit = Duration::from_millis(SESSION_CANCEL_MS);
            let ended = tokio::time::timeout(limit, &mut self.carrier).await;
            let reason = match ended {
                Ok(Ok(Err(last))) => text_of(&last),
                _ => text_of(error),
            };
            return SessionFault::away(format!("the session with PostgreSQL has ended: {reason}"));
        }
        SessionFault::of_statement(error)
    }

    /// Whether the server has said of any commit that its wait for a standby was ended. It says so
    /// before it reports the commit.
    pub(super) fn is_unconfirmed(&self) -> bool {
        self.unconfirmed.load(Ordering::Relaxed)
    }

    pub(super) fn connector(&self) -> Option<MakeRustlsConnect> {
        self.connector.clone()
    }
}

/// Where the server says that it waits for a standby no longer: a warning, and the commit is reported
/// all the same. The text may be in any language, the place in its source is not.
const STANDBY_WAIT: &str = "SyncRepWaitForLSN";

/// Carries the bytes of a connection to its end, and listens to what the server says by the way.
async fn carry<S, T>(
    mut connection: Connection<S, T>,
    unconfirmed: Arc<AtomicBool>,
) -> Result<(), Error>
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    while let Some(message) = poll_fn(|context| connection.poll_message(context)).await {
        if let AsyncMessage::Notice(notice) = message?
            && notice.routine() == Some(STANDBY_WAIT)
        {
            unconfirmed.store(true, Ordering::Relaxed);
        }
    }
    Ok(())
}

/// One way to try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Plain,
    /// TLS if the server has it, on the same connection.
    TlsOrPlain,
    Tls,
}

fn ways(mode: SslMode, endpoint: &Endpoint) -> &'static [Way] {
    // There is no TLS on unix sockets, whatever the mode.
    if endpoint.is_socket() {
        return &[Way::Plain];
    }
    match mode {
        SslMode::Disable => &[Way::Plain],
        SslMode::Allow => &[Way::Plain, Way::Tls],
        SslMode::Prefer => &[Way::TlsOrPlain, Way::Plain],
        SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull => &[Way::Tls],
    }
}

/// Why one way failed.
struct Failure {
    text: String,
    /// Whether the other kind of connection may do better: the server or TLS refused this one.
    is_refusal: bool,
}

/// Connects to the first endpoint that lets the broker in.
///
/// # Errors
/// What went wrong at each endpoint.
pub(super) async fn dial(target: &Target) -> Result<Line, String> {
    let mut texts = Vec::new();
    for endpoint in &target.endpoints {
        let mut at_this = Vec::new();
        for way in ways(target.tls.mode, endpoint) {
            match try_way(target, endpoint, *way).await {
                Ok(line) => return Ok(line),
                Err(failure) => {
                    if !at_this.contains(&failure.text) {
                        at_this.push(failure.text);
                    }
                    if !failure.is_refusal {
                        break;
                    }
                }
            }
        }
        texts.push(format!(
            "{endpoint}: {}",
            at_this.join("; and the other way, without TLS or with it: ")
        ));
    }
    Err(format!(
        "no connection to PostgreSQL at {}",
        texts.join("; at ")
    ))
}

async fn try_way(target: &Target, endpoint: &Endpoint, way: Way) -> Result<Line, Failure> {
    let mut login = target.login_at(endpoint);
    let connector = match way {
        Way::Plain => None,
        Way::Tls | Way::TlsOrPlain => Some(target.tls.connector().map_err(|text| Failure {
            text,
            is_refusal: false,
        })?),
    };
    login.ssl_mode(match way {
        Way::Plain => Encryption::Disable,
        Way::TlsOrPlain => Encryption::Prefer,
        Way::Tls => Encryption::Require,
    });
    let limit = Duration::from_millis(SESSION_CONNECT_MS);
    let unconfirmed = Arc::new(AtomicBool::new(false));
    let heard = Arc::clone(&unconfirmed);
    let connected = tokio::time::timeout(limit, async {
        match &connector {
            None => {
                let (client, connection) = login.connect(NoTls).await?;
                Ok((client, tokio::spawn(carry(connection, heard))))
            }
            Some(connector) => {
                let (client, connection) = login.connect(connector.clone()).await?;
                Ok((client, tokio::spawn(carry(connection, heard))))
            }
        }
    });
    match connected.await {
        Ok(Ok((client, carrier))) => Ok(Line {
            client,
            carrier,
            unconfirmed,
            connector,
        }),
        Ok(Err(fault)) => Err(Failure {
            is_refusal: is_refusal(&fault),
            text: text_of(&fault),
        }),
        Err(_) => Err(Failure {
            text: format!("no answer within {SESSION_CONNECT_MS} ms"),
            is_refusal: false,
        }),
    }
}

/// Whether the server has answered with an error, or TLS could not be agreed on.
fn is_refusal(fault: &Error) -> bool {
    fault.as_db_error().is_some() || fault.to_string().contains("TLS")
}
