//! A broker just good enough to be loaded: one thread per connection, queues without groups or
//! leases, answers in both framings and in two pieces. It can stall, fall silent or refuse.

use std::collections::{HashMap, VecDeque};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// What goes wrong, and at which request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Script {
    /// At this request every connection stops for so long, once.
    pub(crate) stall: Option<(u64, Duration)>,
    /// From this request on no request is answered.
    pub(crate) silent_from: Option<u64>,
    /// One push in so many is refused.
    pub(crate) refuse_every: Option<u64>,
}

#[derive(Debug, Default)]
struct Broker {
    script: Script,
    state: Mutex<State>,
    pushed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    requests: u64,
    queues: HashMap<String, VecDeque<String>>,
}

/// Starts a broker that lives as long as the process.
pub(crate) fn start(script: Script) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let broker = Arc::new(Broker {
        script,
        ..Broker::default()
    });
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, broker) = (stream.unwrap(), Arc::clone(&broker));
            // A client that leaves ends its thread with an error.
            std::thread::spawn(move || drop(serve(&broker, stream)));
        }
    });
    address
}

fn serve(broker: &Broker, mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut received = Vec::new();
    loop {
        let Some((line, body, length)) = split_request(&received) else {
            let mut part = [0; 4096];
            let count = stream.read(&mut part)?;
            if count == 0 {
                return Ok(());
            }
            received.extend_from_slice(&part[..count]);
            continue;
        };
        let (number, answer) = broker.answer(&line, &body);
        received.drain(..length);
        if broker.script.silent_from.is_some_and(|from| number >= from) {
            continue;
        }
        let (status, body) = answer;
        let text = if number.is_multiple_of(2) {
            format!(
                "HTTP/1.1 {status} X\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            )
        } else {
            let (first, last) = body.split_at(body.len() / 2);
            let (a, b) = (first.len(), last.len());
            let head = format!("HTTP/1.1 {status} X\r\ntransfer-encoding: chunked\r\n\r\n");
            format!("{head}{a:x}\r\n{first}\r\n{b:x}\r\n{last}\r\n0\r\n\r\n")
        };
        let cut = number as usize % text.len();
        stream.write_all(&text.as_bytes()[..cut])?;
        stream.write_all(&text.as_bytes()[cut..])?;
    }
}

/// Request line, body and length of the first request.
fn split_request(bytes: &[u8]) -> Option<(String, String, usize)> {
    let text = std::str::from_utf8(bytes).unwrap();
    let (head, rest) = text.split_once("\r\n\r\n")?;
    let length = head.split("content-length: ").nth(1);
    let length = length.map_or(0, |rest| rest.lines().next().unwrap().parse().unwrap());
    let body = rest.get(..length)?;
    Some((
        head.lines().next()?.to_owned(),
        body.to_owned(),
        head.len() + 4 + length,
    ))
}

impl Broker {
    fn answer(&self, line: &str, body: &str) -> (u64, (u16, String)) {
        let number = {
            let mut state = self.state.lock().unwrap();
            state.requests += 1;
            if let Some((at, pause)) = self.script.stall
                && state.requests == at
            {
                // The lock is held, so that every connection stops.
                std::thread::sleep(pause);
            }
            state.requests
        };
        let target = line.split(' ').nth(1).unwrap();
        let verb = target.trim_start_matches("/api/v1/ephemeral/");
        let answer = match verb.split(['?', '/']).next().unwrap() {
            "push"
                if self
                    .script
                    .refuse_every
                    .is_some_and(|every| number.is_multiple_of(every)) =>
            {
                (429, r#"{"error":"full","code":"queue_full"}"#.to_owned())
            }
            "push" => {
                let (before, rest) = body.split_once(r#"","messages":[{"payload":"#).unwrap();
                let queue = before.trim_start_matches(r#"{"queue":""#).to_owned();
                let payloads = rest.strip_suffix("}]}").unwrap();
                let payloads = payloads.split(r#"},{"payload":"#).map(str::to_owned);
                let mut state = self.state.lock().unwrap();
                state.queues.entry(queue).or_default().extend(payloads);
                self.pushed.notify_all();
                (201, r#"{"pushed":1}"#.to_owned())
            }
            "pop" => (200, self.pop(target)),
            "ack" => (
                200,
                r#"{"results":[{"id":"x","outcome":"acked"}]}"#.to_owned(),
            ),
            _ => (200, "{}".to_owned()),
        };
        (number, answer)
    }

    fn pop(&self, target: &str) -> String {
        let queue = target
            .split("queue=")
            .nth(1)
            .unwrap()
            .split('&')
            .next()
            .unwrap();
        let wait = target.split("timeout=").nth(1);
        let wait_ms = wait.map_or(0, |rest| rest.split('&').next().unwrap().parse().unwrap());
        let deadline = Instant::now() + Duration::from_millis(wait_ms);
        let mut state = self.state.lock().unwrap();
        loop {
            if let Some(payload) = state.queues.get_mut(queue).and_then(VecDeque::pop_front) {
                return format!(
                    r#"{{"messages":[{{"id":"e:1:Default:1","attempts":1,"payload":{payload}}}]}}"#
                );
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return format!(r#"{{"queue":"{queue}","messages":[]}}"#);
            }
            state = self.pushed.wait_timeout(state, left).unwrap().0;
        }
    }
}
