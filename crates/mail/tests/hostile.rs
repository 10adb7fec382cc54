//! Servers that misbehave: the engine ends in bounded time and memory, and reports what they did.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::thread;

use weir_mail::engine::{Manner, Order, Patience, PerDomain, Report, Retry, Route};
use weir_mail::{Ending, Job, StartTls, command};

fn order(at: Vec<SocketAddr>) -> Order {
    let quick = Patience { command_s: 2.0, quit_s: 2.0, connection_s: 300.0, ..Patience::default() };
    Order {
        job: Job { recipients: 8, domains: 1, skew: 0.0 },
        messages: 1,
        route: Route::Host { at, to: Some("me@example.test".into()) },
        connections: 2,
        rate: None,
        threads: 1,
        per_transaction: 2,
        per_domain: PerDomain { connections: 2, recipients: 4 },
        retry: Retry { attempts: 1, after_s: 1.0 },
        manner: Manner {
            helo: "weir.test".into(),
            from: "a@weir.test".into(),
            pipelining: true,
            tls: StartTls::Offered,
            ending: Ending::Rset,
        },
        patience: quick,
        log: None,
        window: None,
        beside: None,
    }
}

/// Delivers to a server that does this with each connection.
fn deliver(behaviour: impl Fn(TcpStream) -> io::Result<()> + Send + Clone + 'static) -> Report {
    deliver_past(&[], behaviour)
}

/// The same, where these addresses of the server come first.
fn deliver_past(
    others: &[SocketAddr],
    behaviour: impl Fn(TcpStream) -> io::Result<()> + Send + Clone + 'static,
) -> Report {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let behaviour = behaviour.clone();
            // The engine hangs up: that is no mistake of the test.
            thread::spawn(move || drop(behaviour(stream.unwrap())));
        }
    });
    let order = order([others, &[at]].concat());
    run(command::engine(env!("CARGO_BIN_EXE_weir-mail").as_ref(), &order))
}

fn run(mut engine: Command) -> Report {
    let output = engine.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let json = text
        .strip_prefix(command::DONE)
        .unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    serde_json::from_str(json).unwrap()
}

/// Checks that each recipient has an outcome for this reason, and that the engine needs little memory.
fn check(trouble: &str, behaviour: impl Fn(TcpStream) -> io::Result<()> + Send + Clone + 'static) {
    let report = deliver(behaviour);
    assert_eq!((report.outcomes["expired"], report.unfinished), (8, 0), "{trouble}: {report:?}");
    assert_eq!(report.troubles.get(trouble), Some(&8), "{report:?}");
    assert!(report.memory_max_kib < report.memory_kib + 32 * 1024, "{trouble}: {report:?}");
}

/// Waits for the client to hang up.
fn hold(mut stream: TcpStream) -> io::Result<()> {
    io::copy(&mut stream, &mut io::sink()).map(drop)
}

fn forever(mut stream: TcpStream, first: &'static [u8], rest: &'static [u8]) -> io::Result<()> {
    stream.write_all(first)?;
    loop {
        stream.write_all(rest)?;
    }
}

#[test]
fn greetings_of_all_kinds_end() {
    // At the same time: each waits for its own limit.
    thread::scope(|scope| {
        scope.spawn(|| check("no reply to greeting in time", hold));
        scope.spawn(|| {
            check("endless reply to greeting", |stream| forever(stream, b"220-mx\r\n", b"220-and more\r\n"))
        });
        scope.spawn(|| check("endless reply to greeting", |stream| forever(stream, b"220 ", &[b'x'; 1000])));
        scope.spawn(|| {
            check("no SMTP reply to greeting", |stream| forever(stream, b"", b"HTTP/1.1 200 OK\r\n"))
        });
        scope.spawn(|| check("connection closed at greeting", |_| Ok(())));
        scope.spawn(|| check("421 to greeting", |mut stream| stream.write_all(b"421 busy\r\n")));
        // A byte now and then is no progress.
        scope.spawn(|| {
            check("no reply to greeting in time", |mut stream| {
                loop {
                    stream.write_all(b"2")?;
                    thread::sleep(std::time::Duration::from_millis(20));
                    stream.write_all(b"20-")?;
                    thread::sleep(std::time::Duration::from_millis(200));
                }
            })
        });
    });
}

/// A server that answers so to EHLO, then to each group of commands; after the last it waits.
fn scripted(replies: &'static [&'static str]) -> impl Fn(TcpStream) -> io::Result<()> + Send + Clone {
    move |mut stream| {
        stream.write_all(b"220 mx\r\n")?;
        let mut bytes = [0; 4096];
        for reply in replies {
            if stream.read(&mut bytes)? == 0 {
                return Ok(());
            }
            stream.write_all(reply.as_bytes())?;
        }
        hold(stream)
    }
}

#[test]
fn dialogues_of_all_kinds_end() {
    // At the same time: each waits for its own limit.
    thread::scope(|scope| {
        const HELLO: &str = "250-mx\r\n250 PIPELINING\r\n";
        scope.spawn(|| check("no reply to EHLO in time", scripted(&["250-mx\r\n"])));
        scope.spawn(|| check("no reply to MAIL in time", scripted(&[HELLO])));
        scope.spawn(|| check("421 to RCPT", scripted(&[HELLO, "250 ok\r\n421 closing\r\n"])));
        scope.spawn(|| {
            check("no reply to RSET in time", scripted(&[HELLO, "250 ok\r\n250 ok\r\n250 ok\r\n"]))
        });
        scope.spawn(|| check("no SMTP reply to RCPT", scripted(&[HELLO, "250 ok\r\n354 what?\r\n"])));
        scope.spawn(|| check("no SMTP reply to MAIL", scripted(&[HELLO, "\0\0\0\r\n"])));
        scope.spawn(|| check("a reply too many after EHLO", scripted(&["250 mx\r\n250 STARTTLS\r\n"])));
        scope.spawn(|| {
            check("no TLS", scripted(&["250-mx\r\n250 STARTTLS\r\n", "220 go\r\n", "not TLS\r\n"]))
        });
    });
}

#[test]
fn a_reply_before_the_handshake_is_not_believed_within_tls() {
    check(
        "a reply too many after STARTTLS",
        scripted(&["250-mx\r\n250 STARTTLS\r\n", "220 go\r\n250 injected\r\n"]),
    );
}

#[test]
fn what_was_taken_before_the_server_ended_is_delivered() {
    const TWO: &str = "250 ok\r\n250 ok\r\n250 ok\r\n250 ok\r\n";
    let report = deliver(scripted(&["250-mx\r\n250 PIPELINING\r\n", TWO, "421 enough\r\n"]));
    // Two connections: of four recipients each the first two.
    assert_eq!((report.outcomes["delivered"], report.outcomes["expired"]), (4, 4), "{report:?}");
    assert_eq!(report.troubles["421 to MAIL"], 4, "{report:?}");
}

#[test]
fn all_addresses_of_a_server_are_tried() {
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    const ALL: &str = "250 ok\r\n250 ok\r\n250 ok\r\n250 ok\r\n";
    let report = deliver_past(&[gone], scripted(&["250-mx\r\n250 PIPELINING\r\n", ALL, ALL]));
    assert_eq!(report.outcomes["delivered"], 8, "{report:?}");
}

#[test]
fn a_port_without_a_server_is_refused() {
    let at = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let report = run(command::engine(env!("CARGO_BIN_EXE_weir-mail").as_ref(), &order(vec![at])));
    assert_eq!((report.outcomes["expired"], report.troubles["connection refused"]), (8, 8), "{report:?}");
}
