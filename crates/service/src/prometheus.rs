//! Counters in Prometheus text format, over HTTP.
//!
//! One thread serves all clients, as tasks of a runtime that has no other thread. A connection costs one buffer and has one deadline:
//! a client that is slow, silent, gone or sends no HTTP is left when it has passed, and delays no other one before that.

use std::cell::Cell;
use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context as Waking, Poll};
use std::time::Duration;

use anyhow::{Context, Result};
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Semaphore;
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{Instant, sleep, timeout_at};

/// What clients may take.
#[derive(Debug, Clone, Copy)]
struct Limits {
    /// From the first byte of a request to the last one of its answer, and from there to the next request.
    deadline: Duration,
    /// Connections at the same time; others wait in the backlog of the socket.
    clients: usize,
}

const LIMITS: Limits = Limits { deadline: Duration::from_secs(10), clients: 64 };
/// Longest head of a request; a scraper sends less.
const LONGEST_HEAD: usize = 8192;
/// Until connections are accepted again, if there is no descriptor for another one.
const PAUSE: Duration = Duration::from_millis(100);
/// The text format of Prometheus.
const FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";
const HINT: &str = "use GET /metrics\n";

/// Answers with the last page.
pub struct Server {
    page: Arc<Mutex<Bytes>>,
}

impl Server {
    /// Starts its thread, which ends with the process.
    pub fn start(listener: TcpListener) -> io::Result<Server> {
        Server::limited(listener, LIMITS)
    }

    fn limited(listener: TcpListener, limits: Limits) -> io::Result<Server> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        listener.set_nonblocking(true)?;
        let listener = {
            let _context = runtime.enter();
            tokio::net::TcpListener::from_std(listener)?
        };
        let page = Arc::new(Mutex::new(Bytes::new()));
        let served = page.clone();
        std::thread::Builder::new()
            .name("prometheus".into())
            .spawn(move || LocalSet::new().block_on(&runtime, accept(&listener, &served, limits)))?;
        Ok(Server { page })
    }

    /// Sets the page for the next answers.
    pub fn publish(&self, page: String) {
        *self.page.lock().unwrap_or_else(PoisonError::into_inner) = page.into();
    }
}

/// Listens where Prometheus shall ask.
///
/// # Errors
/// The address is taken, or is not of this machine.
pub fn listen(address: SocketAddr) -> Result<TcpListener> {
    TcpListener::bind(address).with_context(|| format!("cannot listen at {address} for Prometheus"))
}

/// Starts a task for each client.
async fn accept(listener: &tokio::net::TcpListener, page: &Arc<Mutex<Bytes>>, limits: Limits) {
    let places = Arc::new(Semaphore::new(limits.clients));
    loop {
        let place = places.clone().acquire_owned().await;
        let Ok((stream, _)) = listener.accept().await else {
            sleep(PAUSE).await;
            continue;
        };
        let page = page.clone();
        spawn_local(async move {
            serve(stream, &page, limits.deadline).await;
            drop(place);
        });
    }
}

/// Answers the requests of a client until it closes the connection, sends no HTTP, or its deadline has passed.
async fn serve<S: AsyncRead + AsyncWrite + Unpin>(stream: S, page: &Mutex<Bytes>, deadline: Duration) {
    let until = Rc::new(Cell::new(Instant::now() + deadline));
    let timed = Timed { stream, state: State::Idle, deadline, until: until.clone() };
    let answering = service_fn(async |request| Ok::<_, Infallible>(answer(&request, page)));
    let connection = http1::Builder::new()
        .half_close(true)
        .title_case_headers(true)
        .max_buf_size(LONGEST_HEAD)
        .serve_connection(TokioIo::new(timed), answering);
    let mut connection = pin!(connection);
    loop {
        let end = until.get();
        // The next request of a connection has a later deadline.
        if timeout_at(end, &mut connection).await.is_ok() || until.get() <= end {
            return;
        }
    }
}

fn answer<T>(request: &Request<T>, page: &Mutex<Bytes>) -> Response<Full<Bytes>> {
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    match request.uri().path() {
        _ if !is_read => {
            let mut refused = hint(StatusCode::METHOD_NOT_ALLOWED);
            refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            refused
        }
        "/metrics" => {
            text(StatusCode::OK, FORMAT, page.lock().unwrap_or_else(PoisonError::into_inner).clone())
        }
        "/" => hint(StatusCode::OK),
        _ => hint(StatusCode::NOT_FOUND),
    }
}

fn hint(status: StatusCode) -> Response<Full<Bytes>> {
    text(status, "text/plain; charset=utf-8", HINT.into())
}

fn text(status: StatusCode, format: &'static str, body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(format));
    response
}

/// What a connection waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The first byte of a request.
    Idle,
    /// The rest of it.
    Request,
    /// A client that reads its answer.
    Answer,
}

/// A connection that moves its deadline when a request begins, and when its answer has been sent.
struct Timed<S> {
    stream: S,
    state: State,
    deadline: Duration,
    until: Rc<Cell<Instant>>,
}

impl<S> Timed<S> {
    fn begin(&mut self, state: State) {
        self.state = state;
        self.until.set(Instant::now() + self.deadline);
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Timed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        waking: &mut Waking<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(waking, into);
        if self.state == State::Idle && into.filled().len() > before {
            self.begin(State::Request);
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Timed<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        waking: &mut Waking<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.state = State::Answer;
        Pin::new(&mut self.stream).poll_write(waking, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        waking: &mut Waking<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.state = State::Answer;
        Pin::new(&mut self.stream).poll_write_vectored(waking, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// Is called when nothing is left to write.
    fn poll_flush(mut self: Pin<&mut Self>, waking: &mut Waking<'_>) -> Poll<io::Result<()>> {
        if self.state == State::Answer {
            self.begin(State::Idle);
        }
        Pin::new(&mut self.stream).poll_flush(waking)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, waking: &mut Waking<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(waking)
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
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::{Shutdown, TcpStream};
    use std::process::Command;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// Never, in a test.
    const LATE: Duration = Duration::from_secs(3600);
    const SOON: Duration = Duration::from_millis(50);
    const PAGE: &str = "weir_x 1\n";

    fn serving(limits: Limits, page: &str) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        Server::limited(listener, limits).unwrap().publish(page.into());
        at
    }

    fn sent(at: SocketAddr, request: &str) -> TcpStream {
        let mut stream = TcpStream::connect(at).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        stream
    }

    /// All answers until the server closes the connection.
    fn answers(mut stream: TcpStream) -> String {
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn ask(at: SocketAddr, line: &str) -> String {
        answers(sent(at, &format!("{line}\r\nHost: router\r\nConnection: close\r\n\r\n")))
    }

    #[test]
    fn requests_of_other_forms_are_answered() {
        let at = serving(Limits { deadline: LATE, ..LIMITS }, PAGE);
        for (line, status, body) in [
            ("GET /metrics HTTP/1.1", "HTTP/1.1 200 OK", PAGE),
            ("GET /metrics HTTP/1.0", "HTTP/1.0 200 OK", PAGE),
            ("GET /metrics?name=x HTTP/1.1", "HTTP/1.1 200 OK", PAGE),
            ("GET http://router:9100/metrics HTTP/1.1", "HTTP/1.1 200 OK", PAGE),
            ("GET http://router:9100 HTTP/1.1", "HTTP/1.1 200 OK", HINT),
            ("GET / HTTP/1.1", "HTTP/1.1 200 OK", HINT),
            ("GET /metricsx HTTP/1.1", "HTTP/1.1 404 Not Found", HINT),
            ("POST /metrics HTTP/1.1", "HTTP/1.1 405 Method Not Allowed", HINT),
        ] {
            let answer = ask(at, line);
            let (head, found) = answer.split_once("\r\n\r\n").unwrap();
            assert!(head.starts_with(&format!("{status}\r\n")), "{line}: {answer}");
            assert!(head.contains(&format!("\r\nContent-Length: {}\r\n", body.len())), "{line}: {answer}");
            assert_eq!(head.contains("version=0.0.4"), body == PAGE, "{line}: {answer}");
            assert_eq!(head.contains("\r\nAllow: GET, HEAD"), status.contains("405"), "{line}: {answer}");
            assert_eq!(found, body, "{line}: {answer}");
        }
    }

    #[test]
    fn a_head_has_the_length_of_the_page_and_no_body() {
        let at = serving(Limits { deadline: LATE, ..LIMITS }, PAGE);
        let answer = ask(at, "HEAD /metrics HTTP/1.1");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(answer.contains("\r\nContent-Length: 9\r\n") && answer.ends_with("\r\n\r\n"), "{answer}");
        assert!(ask(at, "HEAD /other HTTP/1.1").starts_with("HTTP/1.1 404 Not Found\r\n"));
    }

    #[test]
    fn what_is_no_request_is_refused() {
        let at = serving(Limits { deadline: LATE, ..LIMITS }, PAGE);
        for garbage in
            ["\u{e4}\r\n\r\n", "GET /metrics\r\n\r\n", "\0\0\0\0\r\n\r\n", "GET / HTTP/7.0\r\n\r\n"]
        {
            let answer = answers(sent(at, garbage));
            assert!(answer.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{garbage:?}: {answer}");
        }
        assert!(ask(at, "GET /metrics HTTP/1.1").ends_with(PAGE));
    }

    #[test]
    fn a_head_without_end_is_cut_off() {
        let at = serving(Limits { deadline: LATE, ..LIMITS }, PAGE);
        let mut stream = sent(at, "GET /metrics HTTP/1.1\r\nHost: ");
        // Far more than the buffers of both sockets.
        let refused = (0..1 << 10).find_map(|_| stream.write_all(&[b'x'; 1 << 16]).err());
        assert!(refused.is_some(), "64 MiB of a header were read");
        assert!(ask(at, "GET /metrics HTTP/1.1").ends_with(PAGE));
    }

    #[test]
    fn a_connection_has_many_requests() {
        let at = serving(Limits { deadline: LATE, ..LIMITS }, PAGE);
        let mut stream = sent(at, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        for _ in 0..100 {
            let mut line = String::new();
            while line != PAGE {
                line.clear();
                assert_ne!(reader.read_line(&mut line).unwrap(), 0, "the connection was closed");
            }
            stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        }
    }

    #[test]
    fn requests_that_come_together_are_answered_in_order() {
        let at = serving(Limits { deadline: LATE, ..LIMITS }, PAGE);
        let asked =
            ["/metrics", "/", "/x", "/metrics"].map(|path| format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n"));
        let stream = sent(at, &asked.concat());
        // The end of what a client sends is not the end of what it reads.
        stream.shutdown(Shutdown::Write).unwrap();
        let answer = answers(stream);
        let found: Vec<&str> =
            answer.lines().filter(|line| line.starts_with("HTTP/") || line.starts_with("weir_")).collect();
        let page = ["HTTP/1.1 200 OK", "weir_x 1"];
        assert_eq!(found, [&page[..], &["HTTP/1.1 200 OK", "HTTP/1.1 404 Not Found"], &page].concat());
    }

    #[test]
    fn a_hundred_clients_are_answered() {
        let at = serving(Limits { deadline: LATE, ..LIMITS }, PAGE);
        let asked: Vec<_> =
            (0..100).map(|_| sent(at, "GET /metrics HTTP/1.1\r\nConnection: close\r\n\r\n")).collect();
        // The first one is read last.
        asked.into_iter().rev().for_each(|stream| assert!(answers(stream).ends_with(PAGE)));
    }

    #[test]
    fn slow_clients_block_no_other() {
        let at = serving(Limits { deadline: LATE, ..LIMITS }, PAGE);
        let _slow: Vec<_> = (1..LIMITS.clients).map(|_| sent(at, "G")).collect();
        assert!(ask(at, "GET /metrics HTTP/1.1").ends_with(PAGE));
    }

    /// Clients take all places; another one is answered, so they have been left.
    #[test]
    fn clients_are_left_at_their_deadline() {
        let long = format!("{PAGE}{}", "#".repeat(16 << 20));
        for (does, request, page) in [
            ("is silent", "", PAGE),
            ("sends half a request", "GET /metrics HTTP/1.1\r\nHost:", PAGE),
            ("keeps the connection", "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", PAGE),
            ("reads nothing", "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", &long),
            ("reads nothing and asks on", &"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n".repeat(200), &long),
        ] {
            let at = serving(Limits { deadline: SOON, clients: 2 }, page);
            let _slow = [(); 2].map(|()| sent(at, request));
            assert!(ask(at, "GET / HTTP/1.1").ends_with(HINT), "{does}");
        }
    }

    #[test]
    fn a_client_that_sends_a_byte_now_and_then_is_left() {
        let at = serving(Limits { deadline: SOON, ..LIMITS }, PAGE);
        let mut slow = TcpStream::connect(at).unwrap();
        slow.set_nonblocking(true).unwrap();
        let mut sent = 0;
        // Its connection is closed long before its request is as long as it may be.
        while slow.write_all(b"x").is_ok()
            && slow.read(&mut [0]).is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
        {
            sent += 1;
            assert!(sent < LONGEST_HEAD, "{sent} bytes");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Asks at these times after the connection began; how many answers come before the connection is closed.
    fn answered(asked_at_s: &[u64]) -> usize {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        let (mut client, server) = tokio::io::duplex(1 << 16);
        LocalSet::new().block_on(&runtime.unwrap(), async {
            let began = Instant::now();
            let page = Mutex::new(Bytes::from(PAGE));
            spawn_local(async move { serve(server, &page, Duration::from_secs(10)).await });
            for after_s in asked_at_s {
                tokio::time::sleep_until(began + Duration::from_secs(*after_s)).await;
                // A closed connection takes none.
                let _ = client.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").await;
            }
            let mut all = String::new();
            client.read_to_string(&mut all).await.unwrap();
            all.matches(PAGE).count()
        })
    }

    #[test]
    fn each_request_has_a_deadline_of_its_own() {
        assert_eq!(answered(&[9, 18, 27, 36]), 4);
        assert_eq!(answered(&[9, 20, 21]), 1);
        assert_eq!(answered(&[11]), 0);
    }

    #[test]
    fn curl_reads_the_page() {
        let at = serving(Limits { deadline: LATE, ..LIMITS }, PAGE);
        let url = format!("http://{at}/metrics");
        let Ok(got) =
            Command::new("curl").args(["--silent", "--fail", "--noproxy", "*", &url, &url]).output()
        else {
            return println!("skipped: no program curl (Debian: apt-get install curl)");
        };
        assert_eq!((got.status.code(), got.stdout), (Some(0), PAGE.repeat(2).into_bytes()));
    }
}
