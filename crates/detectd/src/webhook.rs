//! A web service that gets each event. Its URL may hold secrets: messages show only the host, and redirects are not followed.

use std::time::Duration;

use anyhow::{Result, bail};

/// A request that may succeed later is repeated this many times, ...
const RETRIES: u32 = 5;
/// ... the first time after this, then after twice that, and so on.
const FIRST_WAIT: Duration = Duration::from_millis(250);

/// The web service.
pub(crate) struct Webhook {
    url: String,
    /// The host, for messages.
    shown: String,
    agent: ureq::Agent,
    first_wait: Duration,
}

/// The result of a request.
enum Answer {
    Taken,
    /// Not accepted; a retry may succeed.
    Later(String),
    /// Not accepted; a retry is useless.
    Refused(String),
}

impl Webhook {
    /// The service at `url`; `patience` is the time limit of a request.
    pub(crate) fn new(url: &str, patience: Duration) -> Webhook {
        let config = ureq::Agent::config_builder().timeout_global(Some(patience)).max_redirects(0);
        let agent = config.http_status_as_error(false).build().new_agent();
        Webhook { url: url.to_string(), shown: host_of(url), agent, first_wait: FIRST_WAIT }
    }

    /// Posts an event, again if the service is not there or too busy.
    ///
    /// # Errors
    /// The service did not accept it.
    pub(crate) fn post(&self, event: &str) -> Result<()> {
        let mut wait = self.first_wait;
        for retry in 0.. {
            match self.try_once(event) {
                Answer::Taken => break,
                Answer::Later(_) if retry < RETRIES => std::thread::sleep(wait),
                Answer::Later(why) => bail!("{} {why}, also after {RETRIES} retries", self.shown),
                Answer::Refused(why) => bail!("{} {why}", self.shown),
            }
            wait *= 2;
        }
        Ok(())
    }

    fn try_once(&self, event: &str) -> Answer {
        let sent = self.agent.post(&self.url).header("content-type", "application/json").send(event);
        match sent.map(|response| response.status().as_u16()) {
            Ok(200..300) => Answer::Taken,
            Ok(status @ 300..400) => Answer::Refused(format!(
                "redirects (status {status}), and weir follows no redirect: configure the final URL"
            )),
            Ok(status @ (408 | 425 | 429 | 500..)) => Answer::Later(format!("answers with status {status}")),
            Ok(status) => Answer::Refused(format!("answers with status {status}")),
            Err(error) => Answer::Later(what_failed(&error)),
        }
    }
}

/// The text of an error, without the URL.
fn what_failed(error: &ureq::Error) -> String {
    match error {
        ureq::Error::Io(error) => format!("cannot be reached: {error}"),
        ureq::Error::Timeout(_) => "does not answer in time".to_string(),
        ureq::Error::HostNotFound => "has no address".to_string(),
        ureq::Error::Tls(why) => format!("has no valid TLS certificate: {why}"),
        ureq::Error::Rustls(why) => format!("has no valid TLS certificate: {why}"),
        ureq::Error::Protocol(_) => "does not speak HTTP".to_string(),
        _ => "cannot be reached".to_string(),
    }
}

/// The scheme, host and port of a URL; the other parts may be secret.
fn host_of(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let authority = rest.split(['/', '?', '#', '\\']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    format!("{scheme}://{host}")
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::TcpListener;

    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    /// A service that answers so, alternately, and has no more to say: what it was asked for.
    fn asked(answers: &[&'static str], post: impl FnOnce(&str)) -> Vec<String> {
        let answers = answers.to_vec();
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("it has one");
        let service = std::thread::spawn(move || {
            let answer = |answer: &&str| {
                let (mut stream, _) = listener.accept().expect("a client");
                let mut reader = BufReader::new(stream.try_clone().expect("a stream"));
                let mut head = Vec::new();
                let mut line = String::new();
                while reader.read_line(&mut line).expect("a line") > 2 {
                    head.push(std::mem::take(&mut line).trim().to_ascii_lowercase());
                }
                let length = head.iter().find_map(|line| line.strip_prefix("content-length: "));
                let mut body = vec![0; length.map_or(0, |length| length.parse().expect("a number"))];
                reader.read_exact(&mut body).expect("a body");
                write!(stream, "HTTP/1.1 {answer}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                    .expect("a client");
                format!("{} {}", head[0], String::from_utf8(body).expect("a text"))
            };
            answers.iter().map(answer).collect()
        });
        post(&format!("http://user:secret@{address}/hook/secret?token=secret#secret"));
        service.join().expect("it answers")
    }

    /// One that does not wait between its tries.
    fn webhook(url: &str, patience: Duration) -> Webhook {
        Webhook { first_wait: Duration::ZERO, ..Webhook::new(url, patience) }
    }

    fn failure(url: &str, patience: Duration) -> String {
        let error = webhook(url, patience).post("an event").expect_err("a failure");
        let text = format!("{error:#}");
        assert!(text.starts_with("http://127.0.0.1:") && !text.contains("secret"), "{text}");
        text
    }

    #[test]
    fn a_service_that_is_busy_gets_the_event_later() {
        let got = asked(&["503 Busy", "429 Slow", "204 Done"], |url| {
            webhook(url, LONG).post("an event").expect("it is taken");
        });
        assert_eq!(got, ["post /hook/secret?token=secret http/1.1 an event"; 3]);
    }

    #[test]
    fn a_redirect_is_not_followed() {
        for answer in ["302 Found\r\nLocation: /elsewhere", "307 Moved\r\nLocation: http://127.0.0.1:1/x"] {
            let got = asked(&[answer], |url| {
                assert!(failure(url, LONG).contains("redirects (status 30"));
            });
            assert_eq!(got.len(), 1);
        }
    }

    #[test]
    fn what_a_service_refuses_is_not_repeated() {
        asked(&["404 Not Found"], |url| assert!(failure(url, LONG).ends_with("answers with status 404")));
    }

    #[test]
    fn a_service_that_stays_away_is_given_up() {
        asked(&["500 No", "500 No", "500 No", "500 No", "500 No", "500 No"], |url| {
            assert!(failure(url, LONG).contains("answers with status 500, also after 5 retries"));
        });
        // Nothing listens there.
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("it has one");
        drop(listener);
        let said = failure(&format!("http://{address}/secret"), LONG);
        assert!(said.contains("cannot be reached: "), "{said}");
    }

    #[test]
    fn a_service_that_stalls_is_left_after_its_time() {
        // The kernel accepts the connection, but no program does.
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}/secret", listener.local_addr().expect("it has one"));
        assert!(failure(&url, Duration::from_millis(50)).contains("does not answer in time"));
    }

    #[test]
    fn secrets_of_an_address_are_not_shown() {
        for (url, shown) in [
            ("https://hooks.example/T0/B1/secret", "https://hooks.example"),
            ("http://user:secret@192.0.2.9:8080/x?y", "http://192.0.2.9:8080"),
            ("https://[2001:db8::1]:443?token=secret", "https://[2001:db8::1]:443"),
            ("https://host#secret", "https://host"),
            ("https://a@secret@host/", "https://host"),
        ] {
            assert_eq!(host_of(url), shown);
        }
    }
}
