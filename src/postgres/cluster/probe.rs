//! One question to a server: does it let a client in? Spoken by hand, because every step of it has
//! to end in time when the server hangs (PostgreSQL documentation, "Frontend/Backend Protocol").

use std::io::{self, Read, Write};
use std::path::Path;
use std::time::Duration;

use socket2::{Domain, SockAddr, Socket, Type};

use crate::limits::{CLUSTER_PROBE_BYTES_MAX, CLUSTER_PROBE_MS};

/// Version 3.0 of the protocol.
const PROTOCOL: u32 = 196_608;

/// `cannot_connect_now`: it starts, recovers or stops.
const CODE_NOT_NOW: &str = "57P03";

/// `too_many_connections`: it serves, only not us.
const CODE_TOO_MANY: &str = "53300";

/// How a server answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// It lets clients in.
    Ready,
    /// It runs but lets nobody in yet, or no longer.
    NotNow,
    /// It refuses for good: code and text.
    Refused(String),
    /// There is no answer: nobody listens, or whoever listens hangs.
    Silent,
}

/// Asks once; takes a second or two at most.
pub(super) fn ask(socket: &Path, user: &str, database: &str) -> Answer {
    match exchange(socket, user, database) {
        Ok(answer) => judge(&answer),
        Err(_) => Answer::Silent,
    }
}

fn exchange(path: &Path, user: &str, database: &str) -> io::Result<Vec<u8>> {
    let limit = Duration::from_millis(CLUSTER_PROBE_MS);
    let mut socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    // A plain connect would wait where nobody accepts any more.
    socket.connect_timeout(&SockAddr::unix(path)?, limit)?;
    socket.set_read_timeout(Some(limit))?;
    socket.set_write_timeout(Some(limit))?;
    socket.write_all(&startup(user, database))?;
    let mut answer = Vec::new();
    let mut chunk = [0; 4096];
    // It says that it is ready at the end of a longer greeting.
    while judge(&answer) == Answer::Silent && answer.len() < CLUSTER_PROBE_BYTES_MAX {
        match socket.read(&mut chunk)? {
            0 => break,
            count => answer.extend_from_slice(&chunk[..count]),
        }
    }
    // So that it does not log a client that vanished; whether it still reads is no matter.
    let _ = socket.write_all(&[b'X', 0, 0, 0, 4]);
    Ok(answer)
}

/// `StartupMessage`.
fn startup(user: &str, database: &str) -> Vec<u8> {
    let mut body = PROTOCOL.to_be_bytes().to_vec();
    for word in ["user", user, "database", database] {
        body.extend_from_slice(word.as_bytes());
        body.push(0);
    }
    body.push(0);
    let bytes = u32::try_from(body.len() + 4).expect("a startup message is short");
    [bytes.to_be_bytes().as_slice(), &body].concat()
}

/// What the messages that have come so far say. Each has a letter, its length without the letter,
/// and a body.
fn judge(mut messages: &[u8]) -> Answer {
    while let Some((head, rest)) = messages.split_first_chunk::<5>() {
        let [letter, length @ ..] = *head;
        let length = u32::from_be_bytes(length) as usize;
        let Some((body, next)) = length
            .checked_sub(4)
            .and_then(|length| rest.split_at_checked(length))
        else {
            break;
        };
        match letter {
            b'Z' => return Answer::Ready,
            b'E' => return judge_error(body),
            _ => messages = next,
        }
    }
    Answer::Silent
}

/// `ErrorResponse`: fields of a letter and a text, each ended by a zero byte.
fn judge_error(body: &[u8]) -> Answer {
    let field = |letter: u8| {
        let fields = body.split(|byte| *byte == 0);
        let text = fields.filter_map(|field| field.split_first());
        let mut text = text.filter(|(first, _)| **first == letter);
        text.next()
            .map(|(_, text)| String::from_utf8_lossy(text).into_owned())
            .unwrap_or_default()
    };
    let code = field(b'C');
    match code.as_str() {
        CODE_NOT_NOW => Answer::NotNow,
        CODE_TOO_MANY => Answer::Ready,
        _ => Answer::Refused(format!("{code} {}", field(b'M'))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(letter: u8, body: &[u8]) -> Vec<u8> {
        let bytes = u32::try_from(body.len() + 4).unwrap();
        [&[letter], bytes.to_be_bytes().as_slice(), body].concat()
    }

    #[test]
    fn a_greeting_is_ready_at_its_end_only() {
        let mut greeting = message(b'R', &[0; 4]);
        greeting.extend(message(b'S', b"server_version\x0015\0"));
        greeting.extend(message(b'Z', b"I"));
        for end in 0..greeting.len() {
            assert_eq!(judge(&greeting[..end]), Answer::Silent, "{end}");
        }
        assert_eq!(judge(&greeting), Answer::Ready);
    }

    #[test]
    fn errors_are_told_apart_by_their_code() {
        let error = |code: &str| {
            let body = format!("SFATAL\0C{code}\0Mno entry\0\0");
            judge(&message(b'E', body.as_bytes()))
        };
        assert_eq!(error("57P03"), Answer::NotNow);
        assert_eq!(error("53300"), Answer::Ready);
        assert_eq!(error("28000"), Answer::Refused("28000 no entry".to_owned()));
    }

    #[test]
    fn a_length_that_cannot_be_is_no_answer() {
        assert_eq!(judge(b"Z\0\0\0\0"), Answer::Silent);
        assert_eq!(judge(b"Z\xff\xff\xff\xff"), Answer::Silent);
    }

    #[test]
    fn who_hangs_or_is_not_there_is_silent() {
        let path = std::env::temp_dir().join(format!("probe-{}", uuid::Uuid::new_v4()));
        assert_eq!(ask(&path, "queen", "postgres"), Answer::Silent);
        let address = SockAddr::unix(&path).unwrap();
        let listener = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
        listener.bind(&address).unwrap();
        listener.listen(1).unwrap();
        assert_eq!(ask(&path, "queen", "postgres"), Answer::Silent);
        // Nobody accepts: now the queue of those who wait is full too.
        let mut waiting = Vec::new();
        loop {
            let socket = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
            socket.set_nonblocking(true).unwrap();
            if socket.connect(&address).is_err() {
                break;
            }
            waiting.push(socket);
            assert!(waiting.len() < 100);
        }
        assert_eq!(ask(&path, "queen", "postgres"), Answer::Silent);
        drop((waiting, listener));
        std::fs::remove_file(&path).unwrap();
    }
}
