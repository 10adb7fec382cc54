//! Counters in Prometheus text format, over HTTP.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// From the first byte of a request to the last one of its answer, at most.
const DEADLINE: Duration = Duration::from_secs(5);
/// Clients that are served at the same time; others wait in the backlog of the socket.
const CLIENTS: usize = 8;
/// Longest request; a scraper sends less.
const LONGEST_REQUEST: u64 = 8192;

/// Answers with the last page.
pub struct Server {
    page: Arc<Mutex<String>>,
}

impl Server {
    /// Starts its threads, which end with the process.
    pub fn start(listener: TcpListener) -> io::Result<Server> {
        Server::with_deadline(listener, DEADLINE)
    }

    fn with_deadline(listener: TcpListener, deadline: Duration) -> io::Result<Server> {
        let page = Arc::new(Mutex::new(String::new()));
        for _ in 0..CLIENTS {
            let (listener, page) = (listener.try_clone()?, page.clone());
            std::thread::Builder::new().name("prometheus".into()).spawn(move || {
                for client in listener.incoming().flatten() {
                    // A client that is slow or gone gets no answer.
                    let _ = answer(&client, deadline, &page);
                }
            })?;
        }
        Ok(Server { page })
    }

    /// Sets the page for the next answers.
    pub fn publish(&self, page: String) {
        *self.page.lock().unwrap_or_else(PoisonError::into_inner) = page;
    }
}

/// Listens where Prometheus shall ask.
///
/// # Errors
/// The address is taken, or is not of this machine.
pub fn listen(address: SocketAddr) -> Result<TcpListener> {
    TcpListener::bind(address).with_context(|| format!("cannot listen at {address} for Prometheus"))
}

/// A connection until its deadline.
struct Timed<'a> {
    stream: &'a TcpStream,
    until: Instant,
}

impl Timed<'_> {
    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(Some(left)) }
    }
}

impl Read for Timed<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.left()?)?;
        self.stream.read(bytes)
    }
}

impl Write for Timed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn answer(stream: &TcpStream, deadline: Duration, page: &Mutex<String>) -> io::Result<()> {
    let mut client = Timed { stream, until: Instant::now() + deadline };
    let mut request = BufReader::new(Read::by_ref(&mut client).take(LONGEST_REQUEST));
    let (mut first, mut line) = (Vec::new(), Vec::new());
    request.read_until(b'\n', &mut first)?;
    while request.read_until(b'\n', &mut line)? > 2 {
        line.clear();
    }
    let (status, has_body) = judge(&String::from_utf8_lossy(&first));
    let body = match status {
        OK => page.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        _ => "use GET /metrics\n".to_string(),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    client.write_all(head.as_bytes())?;
    if has_body { client.write_all(body.as_bytes()) } else { Ok(()) }
}

const OK: &str = "200 OK";

/// The status that a request line gets (RFC 9112, section 3), and whether the answer has a body.
fn judge(line: &str) -> (&'static str, bool) {
    let mut words = line.split_ascii_whitespace();
    let (Some(method), Some(target), Some(version)) = (words.next(), words.next(), words.next()) else {
        return ("400 Bad Request", true);
    };
    if !version.starts_with("HTTP/1.") {
        return ("400 Bad Request", true);
    }
    // Clients of a proxy name the host as well: http://host/metrics.
    let path = match target.split_once("://") {
        Some((_, rest)) => rest.find('/').map_or("/", |at| &rest[at..]),
        None => target,
    };
    let status = match path.split('?').next() {
        Some("/" | "/metrics") => OK,
        _ => "404 Not Found",
    };
    match method {
        "GET" => (status, true),
        "HEAD" => (status, false),
        _ => ("405 Method Not Allowed\r\nAllow: GET, HEAD", true),
    }
}

/// Adds a counter with its values, each with its labels.
pub fn metric(page: &mut String, name: &str, help: &str, values: impl Iterator<Item = (String, u64)>) {
    *page += &format!("# HELP weir_{name} {help}\n# TYPE weir_{name} counter\n");
    for (labels, value) in values {
        let labels = if labels.is_empty() { labels } else { format!("{{{labels}}}") };
        *page += &format!("weir_{name}{labels} {value}\n");
    }
}

/// Adds a value that may also become less.
pub fn gauge(page: &mut String, name: &str, help: &str, value: u64) {
    *page += &format!("# HELP weir_{name} {help}\n# TYPE weir_{name} gauge\nweir_{name} {value}\n");
}

/// A value of a label.
pub fn quoted(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn serving(deadline: Duration) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        Server::with_deadline(listener, deadline).unwrap().publish("weir_x 1\n".into());
        at
    }

    fn ask(at: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(at).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn requests_of_other_forms_are_answered() {
        let at = serving(Duration::from_secs(3600));
        for (line, status, has_body) in [
            ("GET /metrics HTTP/1.1", "200 OK", true),
            ("GET / HTTP/1.0", "200 OK", true),
            ("GET /metrics?name=x HTTP/1.1", "200 OK", true),
            ("GET http://router:9100/metrics HTTP/1.1", "200 OK", true),
            ("GET http://router:9100 HTTP/1.1", "200 OK", true),
            ("HEAD /metrics HTTP/1.1", "200 OK", false),
            ("HEAD /other HTTP/1.1", "404 Not Found", false),
            ("GET /metricsx HTTP/1.1", "404 Not Found", true),
            ("POST /metrics HTTP/1.1", "405 Method Not Allowed", true),
            ("\u{e4}", "400 Bad Request", true),
            ("GET /metrics", "400 Bad Request", true),
        ] {
            let answer = ask(at, &format!("{line}\r\nHost: router\r\n\r\n"));
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{line}: {answer}");
            let (head, body) = answer.split_once("\r\n\r\n").unwrap();
            let body_bytes = if status == OK { 9 } else { 17 };
            assert!(head.contains(&format!("Content-Length: {body_bytes}\r\n")), "{line}: {answer}");
            assert_eq!(body.len(), if has_body { body_bytes } else { 0 }, "{line}: {answer}");
        }
    }

    #[test]
    fn slow_clients_block_no_other() {
        let at = serving(Duration::from_secs(3600));
        let slow: Vec<_> = (1..CLIENTS).map(|_| TcpStream::connect(at).unwrap()).collect();
        slow.iter().for_each(|mut stream| stream.write_all(b"G").unwrap());
        assert!(ask(at, "GET /metrics HTTP/1.1\r\n\r\n").ends_with("weir_x 1\n"));
    }

    #[test]
    fn a_client_that_sends_a_byte_now_and_then_is_left() {
        let at = serving(Duration::from_millis(50));
        let mut slow = TcpStream::connect(at).unwrap();
        slow.set_nonblocking(true).unwrap();
        let mut sent = 0;
        // Its connection is closed long before its request is as long as it may be.
        while slow.write_all(b"x").is_ok()
            && slow.read(&mut [0]).is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
        {
            sent += 1;
            assert!(sent < LONGEST_REQUEST, "{sent} bytes");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
