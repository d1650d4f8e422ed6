//! A blocking HTTP/1.1 client that sends what it is told and reads what comes.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// How long an answer may take unless the test says otherwise: longer than any pop of the tests.
const READ_LIMIT: Duration = Duration::from_secs(30);

/// Percent-encodes everything that is not unreserved (RFC 3986 section 2.3).
pub(crate) fn encode(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

/// One answer.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    /// Framing removed.
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// The first header of that name (in lower case).
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let named = |(key, _): &&(String, String)| key == name;
        self.headers.iter().find(named).map(|(_, value)| &**value)
    }

    /// The body as text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).expect("UTF-8")
    }

    /// The body as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|fault| panic!("{fault} in {:?} of {self:?}", self.text()))
    }

    /// This status and this code in an error body that also has a text.
    #[track_caller]
    pub(crate) fn assert_refused(&self, status: u16, code: &str) {
        assert_eq!(self.status, status, "{}", self.text());
        let body = self.json();
        assert_eq!(body["code"], code, "{body}");
        let text = body["error"].as_str().unwrap_or_default();
        assert!(!text.is_empty(), "{body}");
        assert_eq!(self.header("content-type"), Some("application/json"));
    }

    /// This status; the body as JSON.
    #[track_caller]
    pub(crate) fn expect(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text());
        self.json()
    }
}

/// One connection, opened anew when the broker has closed it.
#[derive(Debug)]
pub(crate) struct Client {
    address: SocketAddr,
    stream: TcpStream,
    received: Vec<u8>,
    closing: bool,
    /// Fields sent with every request.
    fields: String,
}

impl Client {
    /// Connects; panics when nobody listens.
    #[track_caller]
    pub(crate) fn connect(address: SocketAddr) -> Client {
        Client::try_connect(address).expect("the broker accepts connections")
    }

    /// Connects if somebody listens.
    pub(crate) fn try_connect(address: SocketAddr) -> io::Result<Client> {
        Ok(Client {
            address,
            stream: open(address)?,
            received: Vec::new(),
            closing: false,
            fields: String::new(),
        })
    }

    /// From now on every request has this field.
    pub(crate) fn with_field(mut self, name: &str, value: &str) -> Client {
        self.fields.push_str(&format!("{name}: {value}\r\n"));
        self
    }

    /// The socket, for tests that do to it what clients should not.
    pub(crate) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// How long an answer may take.
    pub(crate) fn set_read_limit(&self, limit: Duration) {
        self.stream.set_read_timeout(Some(limit)).expect("a limit");
    }

    /// The bytes of a request.
    pub(crate) fn request_bytes(&self, method: &str, target: &str, body: Option<&[u8]>) -> Vec<u8> {
        let mut bytes = format!(
            "{method} {target} HTTP/1.1\r\nhost: {}\r\n{}",
            self.address, self.fields
        );
        if let Some(body) = body {
            bytes.push_str(&format!(
                "content-type: application/json\r\ncontent-length: {}\r\n",
                body.len()
            ));
        }
        bytes.push_str("\r\n");
        let mut bytes = bytes.into_bytes();
        bytes.extend_from_slice(body.unwrap_or_default());
        bytes
    }

    /// Sends bytes as they are.
    #[track_caller]
    pub(crate) fn send_raw(&mut self, bytes: &[u8]) {
        self.try_send_raw(bytes).expect("the broker reads");
    }

    /// Sends bytes as they are, if the broker takes them.
    pub(crate) fn try_send_raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Sends a request without reading the answer.
    pub(crate) fn send(&mut self, method: &str, target: &str, body: Option<&[u8]>) {
        let bytes = self.request_bytes(method, target, body);
        self.send_raw(&bytes);
    }

    /// Sends a request and reads its answer.
    #[track_caller]
    pub(crate) fn request(&mut self, method: &str, target: &str, body: Option<&[u8]>) -> Answer {
        if self.closing {
            self.stream = open(self.address).expect("the broker accepts connections");
            self.received.clear();
            self.closing = false;
        }
        self.send(method, target, body);
        self.read_for(method)
            .unwrap_or_else(|fault| panic!("{method} {target}: {fault}"))
    }

    #[track_caller]
    pub(crate) fn get(&mut self, target: &str) -> Answer {
        self.request("GET", target, None)
    }

    #[track_caller]
    pub(crate) fn delete(&mut self, target: &str) -> Answer {
        self.request("DELETE", target, None)
    }

    #[track_caller]
    pub(crate) fn post(&mut self, target: &str, body: &Value) -> Answer {
        self.post_raw(target, body.to_string().as_bytes())
    }

    #[track_caller]
    pub(crate) fn post_raw(&mut self, target: &str, body: &[u8]) -> Answer {
        self.request("POST", target, Some(body))
    }

    /// Reads the next answer.
    #[track_caller]
    pub(crate) fn read(&mut self) -> Answer {
        self.read_for("GET").expect("an answer")
    }

    /// Reads the next answer, or says why there is none.
    pub(crate) fn try_read(&mut self) -> io::Result<Answer> {
        self.read_for("GET")
    }

    /// Whether the broker has closed the connection without sending more.
    pub(crate) fn is_closed(&mut self) -> bool {
        self.received.is_empty() && matches!(self.fill(), Ok(false))
    }

    /// Whether it can serve another request: open, and nothing left of an earlier answer.
    pub(crate) fn is_reusable(&self) -> bool {
        let quiet = || {
            self.stream.set_nonblocking(true)?;
            let peeked = self.stream.peek(&mut [0]);
            self.stream.set_nonblocking(false)?;
            peeked
        };
        let open = matches!(quiet(), Err(fault) if fault.kind() == io::ErrorKind::WouldBlock);
        open && !self.closing && self.received.is_empty()
    }

    /// Closes the sending half: FIN.
    pub(crate) fn close_sending(&self) {
        self.stream.shutdown(Shutdown::Write).expect("a socket");
    }

    /// Ends the connection with RST instead of FIN.
    pub(crate) fn reset(self) {
        let socket = socket2::Socket::from(self.stream);
        socket.set_linger(Some(Duration::ZERO)).expect("a socket");
    }

    fn fill(&mut self) -> io::Result<bool> {
        let mut chunk = [0; 65_536];
        let count = self.stream.read(&mut chunk)?;
        self.received.extend_from_slice(&chunk[..count]);
        Ok(count > 0)
    }

    fn fill_or_end(&mut self) -> io::Result<()> {
        if self.fill()? {
            return Ok(());
        }
        let text = format!("closed after {:?}", String::from_utf8_lossy(&self.received));
        Err(io::Error::new(io::ErrorKind::UnexpectedEof, text))
    }

    fn read_for(&mut self, method: &str) -> io::Result<Answer> {
        loop {
            let mut answer = self.read_head()?;
            if answer.status == 100 {
                continue;
            }
            let said = |name: &str, word: &str| {
                answer
                    .header(name)
                    .is_some_and(|value| value.eq_ignore_ascii_case(word))
            };
            self.closing = said("connection", "close");
            if method == "HEAD" || answer.status == 204 || answer.status == 304 {
                return Ok(answer);
            }
            answer.body = if said("transfer-encoding", "chunked") {
                self.read_chunks()?
            } else {
                let length = answer.header("content-length").expect("a framed answer");
                self.take(length.parse().expect("a length"))?
            };
            return Ok(answer);
        }
    }

    fn read_head(&mut self) -> io::Result<Answer> {
        let line = self.take_line()?;
        let status = line
            .strip_prefix("HTTP/1.1 ")
            .or_else(|| line.strip_prefix("HTTP/1.0 "))
            .and_then(|rest| rest.get(..3)?.parse().ok())
            .unwrap_or_else(|| panic!("not a status line: {line:?}"));
        let mut headers = Vec::new();
        loop {
            let line = self.take_line()?;
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(':').expect("a field");
            // Whitespace around a value has no meaning (RFC 9110 section 5.5).
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        Ok(Answer {
            status,
            headers,
            body: Vec::new(),
        })
    }

    fn read_chunks(&mut self) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let line = self.take_line()?;
            let size = usize::from_str_radix(&line, 16).expect("a chunk size");
            let chunk = self.take(size)?;
            body.extend_from_slice(&chunk);
            assert_eq!(self.take_line()?, "", "a chunk ends with CRLF");
            if size == 0 {
                return Ok(body);
            }
        }
    }

    fn take_line(&mut self) -> io::Result<String> {
        loop {
            if let Some(end) = self.received.windows(2).position(|pair| pair == b"\r\n") {
                let line = String::from_utf8(self.received[..end].to_vec()).expect("UTF-8");
                self.received.drain(..end + 2);
                return Ok(line);
            }
            self.fill_or_end()?;
        }
    }

    fn take(&mut self, count: usize) -> io::Result<Vec<u8>> {
        while self.received.len() < count {
            self.fill_or_end()?;
        }
        let rest = self.received.split_off(count);
        Ok(std::mem::replace(&mut self.received, rest))
    }
}

fn open(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(READ_LIMIT))?;
    stream.set_write_timeout(Some(READ_LIMIT))?;
    Ok(stream)
}
