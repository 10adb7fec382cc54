use std::io::{BufRead, BufReader};
use std::os::fd::AsRawFd;
use std::sync::mpsc::{channel, sync_channel};

use super::*;
use crate::request::Request;

/// Longer than any test: a test that waits for its end fails.
const NEVER: Duration = Duration::from_secs(3600);

/// A socket that is served while `test` runs, to its end.
fn served(limits: Limits, answer: &Answer<'_>, test: impl FnOnce(&dyn Fn() -> UnixStream)) {
    let folder = weir_testkit::Folder::new();
    let path = folder.join("socket");
    let listener = UnixListener::bind(&path).expect("a new socket");
    listener.set_nonblocking(true).expect("a socket");
    let (alive, over) = UnixStream::pair().expect("two ends");
    std::thread::scope(|scope| {
        scope.spawn(|| serve(&listener, &over, limits, answer));
        // A test that fails ends it as well.
        let _alive = alive;
        test(&|| UnixStream::connect(&path).expect("it listens"));
    });
}

/// Says the length of each request.
fn length(sent: &[u8]) -> Result<Value> {
    Ok(json!(sent.len()))
}

fn limits(places: usize) -> Limits {
    Limits { places, request_bytes: 1000, patience: NEVER }
}

fn say(mut client: &UnixStream, words: &str) {
    client.write_all(words.as_bytes()).expect("the node listens");
}

/// What the node says to the client until it closes the connection.
fn heard(client: &UnixStream) -> String {
    let mut line = String::new();
    BufReader::new(client).read_line(&mut line).expect("whole words");
    line
}

fn asked(client: &UnixStream, words: &str) -> String {
    say(client, words);
    heard(client)
}

#[test]
fn a_client_is_answered_while_others_are_silent_and_they_are_answered_later() {
    served(limits(6), &length, |connect| {
        let silent: Vec<_> = (0..5).map(|_| connect()).collect();
        say(&silent[0], "half a li");
        for _ in 0..20 {
            assert_eq!(asked(&connect(), "12345\n"), "{\"ok\":5}\n");
        }
        assert_eq!(asked(&silent[0], "ne\n"), "{\"ok\":11}\n");
        silent[1..].iter().for_each(|client| assert_eq!(asked(client, "\n"), "{\"ok\":0}\n"));
    });
}

#[test]
fn the_end_of_what_a_client_sends_is_the_end_of_its_request() {
    served(limits(1), &length, |connect| {
        let client = connect();
        say(&client, "123");
        client.shutdown(Shutdown::Write).expect("it is open");
        assert_eq!(heard(&client), "{\"ok\":3}\n");
    });
}

#[test]
fn a_newcomer_gets_the_place_of_the_oldest_silent_client() {
    served(limits(3), &length, |connect| {
        let silent: Vec<_> = (0..3).map(|_| connect()).collect();
        assert_eq!(asked(&connect(), "1\n"), "{\"ok\":1}\n");
        let reported = heard(&silent[0]);
        assert!(reported.contains("\"error\"") && reported.contains("no request received"), "{reported}");
        silent[1..].iter().for_each(|client| assert_eq!(asked(client, "12\n"), "{\"ok\":2}\n"));
    });
}

#[test]
fn a_newcomer_is_reported_to_come_again_while_the_node_works_for_all_others() {
    let (begun, begins) = sync_channel(0);
    let (end, ends) = channel::<()>();
    let ends = Mutex::new(ends);
    let answer = |sent: &[u8]| {
        begun.send(()).expect("the test waits");
        ends.lock().expect("one at a time").recv().expect("it ends");
        length(sent)
    };
    served(limits(2), &answer, |connect| {
        let working: Vec<_> = (0..2).map(|_| connect()).collect();
        for client in &working {
            say(client, "1\n");
            begins.recv().expect("the node works for it");
        }
        let reported = heard(&connect());
        assert!(reported.contains("working for 2 other clients: try again"), "{reported}");
        working.iter().for_each(|_| end.send(()).expect("the node waits"));
        working.iter().for_each(|client| assert_eq!(heard(client), "{\"ok\":1}\n"));
    });
}

#[test]
fn a_silent_client_is_dropped_at_its_deadline() {
    let limits = Limits { patience: Duration::from_millis(1), ..limits(2) };
    served(limits, &length, |connect| {
        let reported = heard(&connect());
        assert!(reported.contains("no complete request within 1ms"), "{reported}");
        // Nor does it help to send a little.
        let client = connect();
        while (&client).write_all(b"x").is_ok() {}
        let reported = heard(&client);
        assert!(
            reported.contains("no complete request within") || reported.contains("longer than 1000 bytes"),
            "{reported}"
        );
    });
}

#[test]
fn a_request_has_a_longest_length() {
    let limits = Limits { request_bytes: 10_000, ..limits(2) };
    served(limits, &length, |connect| {
        for (bytes, expected) in [(10_000, "{\"ok\":10000}\n"), (10_001, "longer than 10000 bytes")] {
            let reported = asked(&connect(), &format!("{}\n", "x".repeat(bytes)));
            assert!(reported.contains(expected), "{bytes}: {reported}");
        }
        // Without an end.
        let client = connect();
        while (&client).write_all(&[b'x'; 4096]).is_ok() {}
        assert!(heard(&client).contains("longer than 10000 bytes"));
    });
}

/// More than a socket holds.
fn long(_: &[u8]) -> Result<Value> {
    Ok(json!("x".repeat(8 << 20)))
}

#[test]
fn a_client_that_does_not_read_its_answer_is_dropped() {
    let limits = Limits { patience: Duration::from_millis(50), ..limits(2) };
    served(limits, &long, |connect| {
        let client = connect();
        say(&client, "1\n");
        await_end(&client);
        // It has what its socket held, and no more.
        assert!(heard(&client).len() < 8 << 20);
    });
}

/// Returns when the node has closed the connection, whatever there is to read.
fn await_end(client: &UnixStream) {
    let mut poll = libc::pollfd { fd: client.as_raw_fd(), events: 0, revents: 0 };
    // SAFETY: one pollfd that lives through the call.
    assert_eq!(unsafe { libc::poll(&raw mut poll, 1, -1) }, 1, "{}", io::Error::last_os_error());
}

#[test]
fn a_client_that_does_not_read_delays_neither_others_nor_the_end() {
    served(limits(3), &|sent: &[u8]| if sent == b"long" { long(sent) } else { length(sent) }, |connect| {
        let deaf: Vec<_> = (0..2).map(|_| connect()).collect();
        for client in &deaf {
            say(client, "long\n");
            // The answer has begun.
            (&*client).read_exact(&mut [0]).expect("the first byte");
        }
        assert_eq!(asked(&connect(), "1\n"), "{\"ok\":1}\n");
        // It is dropped for another, as one that is silent is.
        let (one, two) = (connect(), connect());
        assert_eq!(asked(&one, "1\n"), "{\"ok\":1}\n");
        assert_eq!(asked(&two, "1\n"), "{\"ok\":1}\n");
    });
}

#[test]
fn a_failure_in_an_answer_is_an_error_to_its_client_alone() {
    let answer = |sent: &[u8]| if sent == b"bad" { panic!("a mistake of ours") } else { length(sent) };
    served(limits(1), &answer, |connect| {
        assert!(asked(&connect(), "bad\n").contains("the node failed at this request, and continues"));
        assert_eq!(asked(&connect(), "1\n"), "{\"ok\":1}\n");
    });
}

#[test]
fn what_is_no_request_is_an_error_that_says_what_one_is() {
    let answer = |sent: &[u8]| {
        let request = Request::read(sent).map_err(anyhow::Error::msg)?;
        Ok(serde_json::to_value(request)?)
    };
    let deep = "[".repeat(900);
    let nested = format!("{{\"apply\":{}", "{\"files\":".repeat(100));
    served(limits(4), &answer, |connect| {
        for hostile in [
            "",
            "{",
            "null",
            "\"show\"",
            "{\"show\":null}",
            "{\"show\":\"counters\",\"apply\":1}",
            "{\"show\":[\"counters\"]}",
            "{\"apply\":{\"file\":\"x\"}}",
            "{\"apply\":{\"file\":\"x\",\"text\":\"\",\"files\":{\"a\":1}}}",
            "{\"apply\":{\"file\":\"x\",\"text\":\"\",\"other\":1}}",
            "{\"sh\u{1b}[2Jow\":1}",
            "\u{1b}]0;title\u{7}",
            "1e999999999",
            "{\"show\":\"\\ud800\"}",
            &deep,
            &nested,
        ] {
            let reported = asked(&connect(), &format!("{hostile}\n"));
            let document: Value = serde_json::from_str(&reported).expect("JSON");
            let error = document["error"].as_str().unwrap_or_else(|| panic!("{hostile}: {reported}"));
            assert!(
                error.contains("this is no valid request") && error.contains("{\"show\": \"counters\"}"),
                "{reported}"
            );
            // As JSON it has no byte that a terminal obeys.
            assert!(reported.trim_end().chars().all(|c| !c.is_control()), "{reported:?}");
        }
        // Nor is what is no text.
        let client = connect();
        (&client).write_all(b"{\"show\":\"\xff\xfe\"}\n").expect("room");
        assert!(heard(&client).contains("this is no valid request"));
    });
}
