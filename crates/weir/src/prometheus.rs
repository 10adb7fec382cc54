//! Counters in Prometheus' text format, for whoever asks with HTTP.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Whoever is slower does not get an answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// A longer request is none of a scraper.
const LONGEST_REQUEST: u64 = 8192;

/// Answers with the last page, one asker after the other.
pub(crate) struct Server {
    page: Arc<Mutex<String>>,
}

impl Server {
    /// Starts its thread, which ends with the process.
    pub(crate) fn start(listener: TcpListener) -> io::Result<Server> {
        let page = Arc::new(Mutex::new(String::new()));
        let shown = page.clone();
        std::thread::Builder::new().name("prometheus".into()).spawn(move || {
            for asker in listener.incoming().flatten() {
                // An asker who goes away in between is none of ours.
                let _ = answer(asker, &shown);
            }
        })?;
        Ok(Server { page })
    }

    /// What is answered from now on.
    pub(crate) fn tell(&self, page: String) {
        *self.page.lock().expect("nobody panics with it") = page;
    }
}

fn answer(mut asker: TcpStream, page: &Mutex<String>) -> io::Result<()> {
    asker.set_read_timeout(Some(PATIENCE))?;
    asker.set_write_timeout(Some(PATIENCE))?;
    let mut request = BufReader::new(asker.try_clone()?.take(LONGEST_REQUEST));
    let (mut first, mut line) = (String::new(), String::new());
    request.read_line(&mut first)?;
    while request.read_line(&mut line)? > 2 {
        line.clear();
    }
    let known = ["GET / ", "GET /metrics "].iter().any(|start| first.starts_with(start));
    let (status, body) = match known {
        true => ("200 OK", page.lock().expect("nobody panics with it").clone()),
        false => ("404 Not Found", "ask for /metrics\n".to_string()),
    };
    write!(
        asker,
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

/// Adds a counter with its values, each with its labels.
pub(crate) fn metric(page: &mut String, name: &str, help: &str, values: impl Iterator<Item = (String, u64)>) {
    *page += &format!("# HELP weir_{name} {help}\n# TYPE weir_{name} counter\n");
    for (labels, value) in values {
        let labels = if labels.is_empty() { labels } else { format!("{{{labels}}}") };
        *page += &format!("weir_{name}{labels} {value}\n");
    }
}

/// Adds a value that may also become less.
pub(crate) fn gauge(page: &mut String, name: &str, help: &str, value: u64) {
    *page += &format!("# HELP weir_{name} {help}\n# TYPE weir_{name} gauge\nweir_{name} {value}\n");
}

/// A value of a label.
pub(crate) fn quoted(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
