use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{channel, sync_channel};

use rustix::event::{PollFd, PollFlags, poll};
use serde_json::json;
use weir_testkit::kills::{Kills, kill_after};

use super::*;
use crate::client::{Client, Notice};
use crate::hub::{MOST_BYTES, MOST_EVENTS};
use weir_node::{NeighboursQuery, Query};

use crate::request::{LONGEST, Topic, WEIR, Wants};
use crate::socket::LIMITS;

/// Longer than any test: a test that waits for its end fails.
const NEVER: Duration = Duration::from_secs(3600);
/// Set where this program is a client: the path of the socket.
const CLIENT_OF: &str = "WEIR_TEST_CONTROL_CLIENT";

/// A socket that is served.
struct Socket<'a> {
    path: PathBuf,
    hub: &'a Hub,
}

/// A question that carries a text, for the answers of these tests.
fn carrying(text: String) -> Query {
    Query::Neighbours(NeighboursQuery { after: None, port: Some(text) })
}

impl Socket<'_> {
    fn connect(&self) -> Talk {
        let stream = UnixStream::connect(&self.path).expect("it listens");
        stream.set_read_timeout(Some(weir_testkit::PATIENCE)).expect("a socket");
        Talk { lines: BufReader::new(stream.try_clone().expect("a descriptor")), stream }
    }

    /// A client that has greeted.
    fn greeted(&self) -> Talk {
        let mut talk = self.connect();
        talk.greet();
        talk
    }
}

/// A client, line by line.
struct Talk {
    stream: UnixStream,
    lines: BufReader<UnixStream>,
}

impl Talk {
    fn say(&mut self, words: &str) {
        self.stream.write_all(words.as_bytes()).expect("the node listens");
    }

    /// The next line; empty at the end.
    fn heard(&mut self) -> String {
        let mut line = String::new();
        // What the node has not read when it closes is an error behind the last line.
        if let Err(error) = self.lines.read_line(&mut line) {
            assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        }
        line
    }

    fn json(&mut self) -> Value {
        let line = self.heard();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    fn greet(&mut self) {
        self.say("{\"protocol\": 1}\n");
        assert_eq!(self.json(), json!({ "weir": WEIR, "protocol": 1 }));
        // The node has read the greeting when it answers.
        let answer = self.asked("{\"id\": 0, \"unsubscribe\": 0}\n");
        assert!(answer.contains("\"id\":0,\"error\""), "{answer}");
    }

    fn asked(&mut self, words: &str) -> String {
        self.say(words);
        self.heard()
    }

    /// The message of the last line before the end.
    fn refused(&mut self) -> String {
        let line = self.json();
        assert_eq!(self.heard(), "", "it is the last line: {line}");
        line["error"]["message"].as_str().unwrap_or_else(|| panic!("an error: {line}")).to_string()
    }

    /// The message where the node has greeted.
    fn refused_after_greeting(&mut self) -> String {
        assert_eq!(self.json()["protocol"], 1);
        self.refused()
    }

    /// Returns when the node has closed the connection, whatever there is to read.
    fn await_end(&self) {
        poll(&mut [PollFd::new(&self.stream, PollFlags::empty())], None).expect("a socket");
    }
}

/// Counts how often it was asked.
fn counters(asked: &AtomicU64) -> Result<Value> {
    Ok(json!({ "asked": asked.fetch_add(1, Ordering::Relaxed) }))
}

/// Serves a socket while `test` runs, to its end.
fn served(limits: Limits, answer: &Answer<'_>, test: impl FnOnce(&Socket<'_>)) {
    let asked = AtomicU64::new(0);
    served_with(limits, answer, &|| counters(&asked), test);
}

fn served_with(
    limits: Limits,
    answer: &Answer<'_>,
    counters: &(dyn Fn() -> Result<Value> + Sync),
    test: impl FnOnce(&Socket<'_>),
) {
    let folder = weir_testkit::Folder::new();
    let path = folder.join("socket");
    let listener = UnixListener::bind(&path).expect("a new socket");
    listener.set_nonblocking(true).expect("a socket");
    let (alive, over) = UnixStream::pair().expect("two ends");
    let hub = Hub::default();
    let served = Served { answer, counters, hub: &hub, before_events: &|| {}, limits };
    std::thread::scope(|scope| {
        scope.spawn(|| serve(&listener, &over, &served));
        // A test that fails ends it as well.
        let _alive = alive;
        test(&Socket { path, hub: &hub });
    });
    assert!(!hub.has_subscribers(), "all clients have gone");
}

fn text_of(ask: Ask) -> String {
    match ask {
        Ask::Query(Query::Neighbours(NeighboursQuery { port: Some(text), .. })) => text,
        Ask::Apply(texts) => texts.text,
        other => panic!("no test asks for {other:?}"),
    }
}

/// Says the length of each text.
fn length(ask: Ask) -> Result<Reply, Refusal> {
    Reply::of(&text_of(ask).len())
}

fn query(id: u64, text: &str) -> String {
    format!("{}\n", json!({ "id": id, "query": { "neighbours": { "port": text } } }))
}

fn answer(id: u64, ok: usize) -> String {
    format!("{{\"id\":{id},\"ok\":{ok}}}\n")
}

fn limits(places: usize) -> Limits {
    Limits { places, line_bytes: 1000, patience: NEVER, subscriptions: 3 }
}

#[test]
fn a_client_is_answered_while_others_are_silent_and_they_are_answered_later() {
    // A place for each: one of a client that has just gone may still be taken.
    served(limits(25), &length, |socket| {
        let mut silent: Vec<_> = (0..5).map(|_| socket.greeted()).collect();
        silent[0].say("{\"id\": 3, \"query\": ");
        for n in 0..20 {
            assert_eq!(socket.greeted().asked(&query(n, "12345")), answer(n, 5));
        }
        assert_eq!(silent[0].asked("{\"neighbours\": {\"port\": \"12\"}}}\n"), answer(3, 2));
        silent[1..].iter_mut().for_each(|client| assert_eq!(client.asked(&query(1, "")), answer(1, 0)));
    });
}

#[test]
fn many_requests_of_two_clients_are_answered_in_their_order() {
    served(limits(2), &length, |socket| {
        let mut clients = [socket.greeted(), socket.greeted()];
        for round in 0..50 {
            let several: String = (0..40).map(|n| query(n, &"x".repeat(n as usize))).collect();
            clients.iter_mut().for_each(|client| client.say(&several));
            for client in &mut clients {
                (0..40).for_each(|n| assert_eq!(client.heard(), answer(n, n as usize), "{round}"));
            }
        }
    });
}

#[test]
fn greetings_and_requests_may_be_sent_at_once_and_the_end_of_the_bytes_ends_the_last() {
    served(limits(1), &length, |socket| {
        let mut client = socket.connect();
        client.say(&format!(
            "{{\"protocol\":1,\"client\":\"x\"}}\n{}{}",
            query(1, "a"),
            query(2, "bc").trim_end()
        ));
        client.stream.shutdown(Shutdown::Write).expect("it is open");
        let all: String = (0..4).map(|_| client.heard()).collect();
        assert_eq!(all, format!("{{\"weir\":\"{WEIR}\",\"protocol\":1}}\n{}{}", answer(1, 1), answer(2, 2)));
    });
}

#[test]
fn clients_of_other_versions_are_refused_with_the_remedy() {
    served(limits(3), &length, |socket| {
        for (first, has) in [
            ("{\"protocol\": 2}\n", "its client speaks protocol 2: use weir of the same version as the node"),
            (
                "{\"show\": \"counters\"}\n",
                "its client did not greet with a version: use weir of the same version",
            ),
            ("\n", "did not greet with a version"),
        ] {
            let mut client = socket.connect();
            client.say(first);
            let reported = client.refused_after_greeting();
            assert!(
                reported.contains(has) && reported.contains(&format!("this node is weir {WEIR}")),
                "{reported}"
            );
        }
    });
}

#[test]
fn a_newcomer_gets_the_place_of_the_oldest_client_that_has_not_greeted() {
    served(limits(3), &length, |socket| {
        let mut greeted = socket.greeted();
        let mut silent: Vec<_> = (0..2).map(|_| socket.connect()).collect();
        assert_eq!(socket.greeted().asked(&query(1, "1")), answer(1, 1));
        let reported = silent[0].refused_after_greeting();
        assert!(
            reported.contains("all 3 places for clients are taken, and this one was not in use"),
            "{reported}"
        );
        silent[1].greet();
        [&mut greeted, &mut silent[1]]
            .into_iter()
            .for_each(|client| assert_eq!(client.asked(&query(1, "12")), answer(1, 2)));
    });
}

#[test]
fn then_that_of_the_client_that_is_idle_longest_but_never_one_with_a_subscription() {
    served(limits(3), &length, |socket| {
        let mut subscribed = socket.greeted();
        assert_eq!(
            subscribed.asked("{\"id\": 5, \"subscribe\": {\"events\": true}}\n"),
            "{\"id\":5,\"ok\":null}\n"
        );
        let mut idle = [socket.greeted(), socket.greeted()];
        // The older one has been served last.
        [1, 0].into_iter().for_each(|n: usize| assert_eq!(idle[n].asked(&query(1, "1")), answer(1, 1)));
        let mut third = socket.greeted();
        let reported = idle[1].refused();
        assert!(reported.contains("was not in use; connect again"), "{reported}");
        assert_eq!(idle[0].asked(&query(2, "1")), answer(2, 1));
        for client in [&mut idle[0], &mut third] {
            assert_eq!(
                client.asked("{\"id\": 6, \"subscribe\": {\"events\": true}}\n"),
                "{\"id\":6,\"ok\":null}\n"
            );
        }
        let reported = socket.connect().refused();
        assert!(reported.contains("all 3 places for clients are taken: end one of them"), "{reported}");
        socket.hub.publish(&1);
        assert_eq!(subscribed.heard(), "{\"subscription\":5,\"event\":1}\n");
    });
}

#[test]
fn a_newcomer_is_told_to_come_again_while_the_node_works_for_all_others() {
    let (begun, begins) = sync_channel(0);
    let (end, ends) = channel::<()>();
    let ends = Mutex::new(ends);
    let slow = |ask| {
        begun.send(()).expect("the test waits");
        ends.lock().expect("one at a time").recv().expect("it ends");
        length(ask)
    };
    served(limits(2), &slow, |socket| {
        let mut working: Vec<_> = (0..2).map(|_| socket.greeted()).collect();
        for client in &mut working {
            client.say(&query(1, "1"));
            begins.recv().expect("the node works for it");
        }
        let reported = socket.connect().refused();
        assert!(reported.contains("all 2 places for clients are taken"), "{reported}");
        working.iter().for_each(|_| end.send(()).expect("the node waits"));
        working.iter_mut().for_each(|client| assert_eq!(client.heard(), answer(1, 1)));
    });
}

#[test]
fn a_client_that_does_not_greet_or_end_its_line_is_dropped_at_its_deadline_and_an_idle_one_is_not() {
    let limits = Limits { patience: Duration::from_millis(200), ..limits(4) };
    served(limits, &length, |socket| {
        let mut idle = socket.greeted();
        let reported = socket.connect().refused_after_greeting();
        assert!(
            reported.contains("no greeting within 200ms: the first line is {\"protocol\": 1}"),
            "{reported}"
        );
        let mut half = socket.greeted();
        half.say("{\"id\"");
        assert!(half.refused().contains("no complete line within 200ms"));
        // Nor does it help to send a little.
        let mut client = socket.greeted();
        while client.stream.write_all(b"x").is_ok() {}
        let reported = client.refused();
        assert!(
            reported.contains("no complete line within") || reported.contains("longer than 1000 bytes"),
            "{reported}"
        );
        assert_eq!(idle.asked(&query(1, "1")), answer(1, 1));
    });
}

#[test]
fn a_line_has_a_longest_length() {
    served(limits(4), &length, |socket| {
        let padded = |bytes: usize| {
            format!("{}{}\n", query(1, "1").trim_end(), " ".repeat(bytes - query(1, "1").trim_end().len()))
        };
        assert_eq!(socket.greeted().asked(&padded(1000)), answer(1, 1));
        let mut client = socket.greeted();
        client.say(&padded(1001));
        assert!(client.refused().contains("longer than 1000 bytes"));
        // Without an end; and a greeting.
        let mut client = socket.connect();
        while client.stream.write_all(&[b'x'; 4096]).is_ok() {}
        assert!(client.refused_after_greeting().contains("longer than 1000 bytes"));
    });
}

#[test]
fn the_longest_text_of_a_node_is_taken_in_one_line_and_no_longer_one() {
    served(LIMITS, &length, |socket| {
        let line = |bytes: usize| {
            json!({ "id": 1, "apply": { "file": "x", "text": "#".repeat(bytes) } }).to_string()
        };
        let frame = line(0).len();
        let mut client = socket.greeted();
        assert_eq!(client.asked(&format!("{}\n", line(LONGEST - frame))), answer(1, LONGEST - frame));
        // The node may end the connection before all is written.
        let _ = client.stream.write_all(format!("{}\n", line(LONGEST - frame + 1)).as_bytes());
        assert!(client.refused().contains("longer than 67108864 bytes"));
    });
}

/// More than a socket holds, or the length.
fn long(ask: Ask) -> Result<Reply, Refusal> {
    match ask {
        Ask::Query(Query::Neighbours(NeighboursQuery { port: Some(text), .. })) if text == "long" => {
            Reply::of(&"x".repeat(8 << 20))
        }
        ask => length(ask),
    }
}

#[test]
fn a_client_that_does_not_read_its_answer_is_dropped() {
    let limits = Limits { patience: Duration::from_millis(50), ..limits(2) };
    served(limits, &long, |socket| {
        let mut client = socket.greeted();
        client.say(&query(1, "long"));
        client.await_end();
        // It has what its socket held, and no more.
        assert!(client.heard().len() < 8 << 20);
    });
}

#[test]
fn a_client_that_does_not_read_delays_neither_others_nor_the_end() {
    served(limits(3), &long, |socket| {
        let mut deaf: Vec<_> = (0..2).map(|_| socket.greeted()).collect();
        for client in &mut deaf {
            client.say(&query(1, "long"));
            // The answer has begun.
            client.lines.read_exact(&mut [0]).expect("the first byte");
        }
        let mut other = socket.greeted();
        (0..20).for_each(|n| assert_eq!(other.asked(&query(n, "1")), answer(n, 1)));
    });
}

#[test]
fn a_client_that_reads_slowly_has_its_whole_answer() {
    served(limits(1), &long, |socket| {
        let mut client = socket.greeted();
        client.say(&(query(1, "long") + &query(2, "1")));
        assert_eq!(client.heard().len(), (8 << 20) + "{\"id\":1,\"ok\":\"\"}\n".len());
        assert_eq!(client.heard(), answer(2, 1));
    });
}

#[test]
fn a_client_that_does_not_read_is_not_answered_further() {
    let answered = AtomicU64::new(0);
    let counted = |ask| {
        answered.fetch_add(1, Ordering::Relaxed);
        long(ask)
    };
    served(limits(2), &counted, |socket| {
        let [mut deaf, mut other] = [socket.greeted(), socket.greeted()];
        (0..10).for_each(|n| deaf.say(&query(n, "long")));
        deaf.lines.read_exact(&mut [0]).expect("the first byte");
        (0..100).for_each(|n| assert_eq!(other.asked(&query(n, "1")), answer(n, 1)));
        // The next answer is not computed before it can be sent.
        assert_eq!(answered.load(Ordering::Relaxed), 1 + 100);
        assert!((0..10).all(|_| deaf.heard().len() > 8 << 20));
    });
}

#[test]
fn a_failure_in_an_answer_is_an_error_to_its_request_alone() {
    let fails = |ask: Ask| match text_of(ask.clone()).as_str() {
        "bad" => panic!("a mistake of ours"),
        _ => length(ask),
    };
    served(limits(1), &fails, |socket| {
        let mut client = socket.greeted();
        let failed = client.asked(&query(1, "bad"));
        assert!(
            failed.contains(
                "{\"id\":1,\"error\":{\"message\":\"the node failed at this request, and continues"
            ),
            "{failed}"
        );
        assert_eq!(client.asked(&query(2, "1")), answer(2, 1));
    });
}

#[test]
fn what_is_no_request_is_an_error_that_says_what_one_is_and_the_connection_lives_on() {
    let deep = "[".repeat(900);
    let nested = format!("{{\"id\":1,\"apply\":{}", "{\"files\":".repeat(100));
    served(limits(1), &length, |socket| {
        let mut client = socket.greeted();
        for hostile in [
            "",
            "{",
            "null",
            "\"show\"",
            "{\"show\":\"counters\"}",
            "{\"protocol\":1}",
            "{\"id\":1,\"query\":{\"routes\":null}}",
            "{\"id\":1,\"query\":\"counters\",\"apply\":1}",
            "{\"id\":1,\"query\":[\"counters\"]}",
            "{\"id\":1,\"apply\":{\"file\":\"x\"}}",
            "{\"id\":1,\"apply\":{\"file\":\"x\",\"text\":\"\",\"files\":{\"a\":1}}}",
            "{\"id\":1,\"apply\":{\"file\":\"x\",\"text\":\"\",\"other\":1}}",
            "{\"sh\u{1b}[2Jow\":1}",
            "\u{1b}]0;title\u{7}",
            "1e999999999",
            "{\"id\":1,\"query\":\"\\ud800\"}",
            &deep,
            &nested,
        ] {
            let reported = client.asked(&format!("{hostile}\n"));
            let document: Value = serde_json::from_str(&reported).expect("JSON");
            let error =
                document["error"]["message"].as_str().unwrap_or_else(|| panic!("{hostile}: {reported}"));
            assert!(
                error.contains("this is no valid request") && error.contains("\"query\": \"counters\""),
                "{reported}"
            );
            // As JSON it has no byte that a terminal obeys.
            assert!(reported.trim_end().chars().all(|c| !c.is_control()), "{reported:?}");
        }
        // Nor is what is no text.
        client.stream.write_all(b"{\"id\":1,\"query\":\"\xff\xfe\"}\n").expect("room");
        assert!(client.heard().contains("this is no valid request"));
        assert_eq!(client.asked(&query(2, "1")), answer(2, 1));
    });
}

#[test]
fn a_subscriber_that_does_not_read_is_told_what_it_missed_and_delays_no_other() {
    served(limits(3), &length, |socket| {
        let subscribe = "{\"id\": 9, \"subscribe\": {\"events\": true}}\n";
        let [mut slow, mut quick] = [socket.greeted(), socket.greeted()];
        [&mut slow, &mut quick]
            .into_iter()
            .for_each(|client| assert_eq!(client.asked(subscribe), "{\"id\":9,\"ok\":null}\n"));
        let mut asking = socket.greeted();
        // Some 8 MiB: more than the mailbox and the socket hold.
        let (event, all) = ("x".repeat(1000), 2 * MOST_EVENTS.max(MOST_BYTES / 1000) as u64);
        for n in 0..all {
            socket.hub.publish(&json!({ "n": n, "text": event }));
            assert_eq!(quick.json()["event"]["n"], n);
        }
        assert_eq!(asking.asked(&query(1, "1")), answer(1, 1));
        // Its own answers come behind the lines that wait for it, not never.
        slow.say(&query(2, "1"));
        let (mut next, mut gaps, mut has_answer) = (0, 0, false);
        while next < all || !has_answer {
            let line = slow.json();
            match line["left_out"].as_u64() {
                Some(left_out) => {
                    assert!(left_out > 0 && line["subscription"] == 9, "{line}");
                    (next, gaps) = (next + left_out, gaps + 1);
                }
                None if line["id"] == 2 => has_answer = true,
                None => {
                    assert_eq!((&line["event"]["n"], &line["subscription"]), (&json!(next), &json!(9)));
                    next += 1;
                }
            }
        }
        assert!(next == all && gaps > 0, "{next} of {all}, {gaps} gaps");
        socket.hub.publish(&all);
        assert_eq!(slow.json()["event"], all);
    });
}

#[test]
fn subscriptions_have_numbers_of_their_own_and_an_end() {
    served(limits(1), &length, |socket| {
        let mut client = socket.greeted();
        let subscribe = |id: u64| format!("{{\"id\": {id}, \"subscribe\": {{\"events\": true}}}}\n");
        (1..=3).for_each(|id| {
            assert_eq!(client.asked(&subscribe(id)), format!("{{\"id\":{id},\"ok\":null}}\n"))
        });
        assert!(client.asked(&subscribe(2)).contains("there is a subscription 2 already"));
        assert!(
            client
                .asked(&subscribe(4))
                .contains("there are 3 subscriptions already: end one with `unsubscribe`")
        );
        socket.hub.publish(&"first");
        (1..=3).for_each(|id| {
            assert_eq!(client.heard(), format!("{{\"subscription\":{id},\"event\":\"first\"}}\n"))
        });
        for id in [1, 3] {
            assert_eq!(
                client.asked(&format!("{{\"id\": 7, \"unsubscribe\": {id}}}\n")),
                "{\"id\":7,\"ok\":null}\n"
            );
        }
        assert!(
            client
                .asked("{\"id\": 8, \"unsubscribe\": 3}\n")
                .contains("there is no subscription 3 on this connection")
        );
        socket.hub.publish(&"second");
        assert_eq!(client.heard(), "{\"subscription\":2,\"event\":\"second\"}\n");
    });
}

#[test]
fn a_subscriber_that_sends_nothing_more_still_has_its_events_until_it_goes() {
    served(limits(1), &length, |socket| {
        let mut client = socket.greeted();
        client.say("{\"id\": 1, \"subscribe\": {\"events\": true}}\n");
        client.stream.shutdown(Shutdown::Write).expect("it is open");
        assert_eq!(client.heard(), "{\"id\":1,\"ok\":null}\n");
        (0..3).for_each(|n| {
            socket.hub.publish(&n);
            assert_eq!(client.heard(), format!("{{\"subscription\":1,\"event\":{n}}}\n"));
        });
        drop(client);
        while socket.hub.has_subscribers() {
            std::thread::yield_now();
        }
    });
}

#[test]
fn counters_come_at_their_interval_and_those_that_are_not_read_are_left_out() {
    let asked = AtomicU64::new(0);
    let long = || Ok(json!({ "n": asked.fetch_add(1, Ordering::Relaxed), "long": "x".repeat(1 << 20) }));
    served_with(limits(2), &length, &long, |socket| {
        let subscribe = "{\"id\": 4, \"subscribe\": {\"counters\": {\"interval_ms\": 100}}}\n";
        let [mut slow, mut quick] = [socket.greeted(), socket.greeted()];
        [&mut slow, &mut quick]
            .into_iter()
            .for_each(|client| assert_eq!(client.asked(subscribe), "{\"id\":4,\"ok\":null}\n"));
        // The intervals of the one are the clock for the other.
        let mut last = None;
        let mut read = 0;
        while read < 5 {
            let line = quick.json();
            assert_eq!(line["subscription"], 4);
            if line["counters"].is_object() {
                let n = line["counters"]["n"].as_u64();
                assert!(n > last, "{last:?}, {n:?}");
                (last, read) = (n, read + 1);
            }
        }
        let lines = std::iter::repeat_with(|| slow.json()).take(10).collect::<Vec<_>>();
        assert!(lines.iter().any(|line| line["left_out"].as_u64() > Some(0)), "none was left out");
        quick.say(
            "{\"id\": 5, \"unsubscribe\": 4}\n{\"id\": 6, \"query\": {\"neighbours\": {\"port\": \"1\"}}}\n",
        );
        let end = std::iter::repeat_with(|| quick.json()).find(|line| line["id"] == 5).expect("an answer");
        assert_eq!(end, json!({ "id": 5, "ok": null }));
        assert_eq!(quick.json(), json!({ "id": 6, "ok": 1 }), "no counters come behind");
    });
}

#[test]
fn the_node_tells_its_subscribers_that_it_ends() {
    let mut left = None;
    served(limits(1), &length, |socket| {
        let mut client = socket.greeted();
        assert_eq!(
            client.asked("{\"id\": 1, \"subscribe\": {\"events\": true}}\n"),
            "{\"id\":1,\"ok\":null}\n"
        );
        left = Some(client);
    });
    assert_eq!(left.expect("it was there").refused(), "connection closed: the node has ended");
}

/// This program again as a client of a socket, which runs one of the tests that are called `client_...`.
fn client_program(test: &str, path: &Path) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", &format!("clients::tests::{test}"), "--nocapture"]).env(CLIENT_OF, path);
    command.stdout(Stdio::piped()).spawn().expect("it starts")
}

/// The socket, where this program is a client of it.
fn socket_of_client() -> Option<PathBuf> {
    std::env::var_os(CLIENT_OF).map(PathBuf::from)
}

/// Answers with descriptors of files that hold numbers; three with more text than a socket holds.
fn with_files(ask: Ask) -> Result<Reply, Refusal> {
    let files: usize = text_of(ask).parse().expect("a number");
    let file = |n: usize| {
        let (reader, mut writer) = std::io::pipe().expect("two ends");
        writer.write_all(n.to_string().as_bytes()).expect("room");
        OwnedFd::from(reader)
    };
    let value = if files == 3 { json!("x".repeat(1 << 20)) } else { json!(files) };
    Ok(Reply { fds: (0..files).map(file).collect(), ..Reply::of(&value)? })
}

/// The client of the next test.
#[test]
fn client_that_takes_descriptors() {
    let Some(path) = socket_of_client() else { return };
    let mut client = Client::connect(&path).expect("it is served");
    for files in [2, 0, 3, 250, 1] {
        let wants = Wants::Answer(Ask::Query(carrying(files.to_string())));
        let answer = client.request(wants).expect("an answer");
        let texts = answer.descriptors.into_iter().map(|descriptor| {
            let mut text = String::new();
            File::from(descriptor).read_to_string(&mut text).expect("a pipe");
            text
        });
        println!("\nfiles {}", texts.collect::<Vec<_>>().join(" "));
    }
}

#[test]
fn descriptors_pass_to_another_process() {
    served(limits(2), &with_files, |socket| {
        let mut here = socket.greeted();
        assert_eq!(here.json_of(&query(1, "1")), json!({ "id": 1, "ok": 1, "descriptors": 1 }));
        assert_eq!(here.json_of(&query(2, "0")), json!({ "id": 2, "ok": 0 }));
        let output =
            client_program("client_that_takes_descriptors", &socket.path).wait_with_output().expect("it ran");
        let text = String::from_utf8(output.stdout).expect("text");
        let found: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("files ")).collect();
        let numbers = |n: usize| (0..n).map(|n| n.to_string()).collect::<Vec<_>>().join(" ");
        assert_eq!(found, [2, 0, 3, 250, 1].map(numbers), "{text}");
    });
}

impl Talk {
    fn json_of(&mut self, words: &str) -> Value {
        self.say(words);
        self.json()
    }
}

/// The client of the next test: it asks and subscribes until it is killed.
#[test]
fn client_that_is_killed() {
    let Some(path) = socket_of_client() else { return };
    loop {
        // Without a place, for a moment: another one that was killed has not been noticed.
        let Ok(mut client) = Client::connect(&path) else { continue };
        for n in 0..5 {
            client.ask(carrying("x".repeat(n))).expect("an answer");
        }
        let mut stream = UnixStream::connect(&path).expect("it is served");
        let _ = stream.write_all(b"{\"protocol\":1}\n{\"id\":1,\"que");
        if let Ok(notices) = client.subscribe(Topic::Events) {
            notices.take(3).for_each(drop);
        }
    }
}

#[test]
fn clients_that_are_killed_at_any_instant_leave_nothing_behind() {
    served(limits(8), &length, |socket| {
        let mut kills = Kills::new(20);
        let mut here = socket.greeted();
        assert_eq!(
            here.asked("{\"id\": 1, \"subscribe\": {\"events\": true}}\n"),
            "{\"id\":1,\"ok\":null}\n"
        );
        while let Some((delay, about)) = kills.next(Duration::from_millis(60)) {
            let mut child = client_program("client_that_is_killed", &socket.path);
            std::thread::scope(|scope| {
                let killed = scope.spawn(|| kill_after(&mut child, delay));
                let mut n = 0;
                while !killed.is_finished() {
                    socket.hub.publish(&n);
                    assert_eq!(here.heard(), format!("{{\"subscription\":1,\"event\":{n}}}\n"), "{about}");
                    n += 1;
                }
            });
            assert_eq!(socket.greeted().asked(&query(1, "12")), answer(1, 2), "{about}");
        }
    });
}

#[test]
fn the_library_asks_and_subscribes() {
    served(limits(2), &length, |socket| {
        let mut client = Client::connect(&socket.path).expect("it is served");
        assert_eq!(client.ask(carrying("123".into())).expect("an answer"), 3);
        let notices = client.subscribe(Topic::Events).expect("a place");
        socket.hub.publish(&json!({ "n": 1 }));
        socket.hub.publish(&json!({ "n": 2 }));
        let two: Vec<Notice> = notices.take(2).map(|notice| notice.expect("an event")).collect();
        assert_eq!(two, [1, 2].map(|n| Notice::Event(json!({ "n": n }))));
        let counters = Client::connect(&socket.path).expect("it is served");
        let mut counters = counters.subscribe(Topic::Counters { interval_ms: 100 }).expect("a place");
        assert_eq!(
            counters.next().expect("a line").expect("counters"),
            Notice::Counters(json!({ "asked": 0 }))
        );
    });
}

#[test]
fn the_library_tells_nodes_of_other_versions_apart() {
    let folder = weir_testkit::Folder::new();
    let path = folder.join("socket");
    let listener = UnixListener::bind(&path).expect("a new socket");
    for (first, has) in [
        ("{\"weir\":\"9.1.0\",\"protocol\":2}\n", "is weir 9.1.0 with protocol 2, this program is weir"),
        (
            "{\"error\":\"this is no valid request: ...\"}\n",
            "does not greet with a version, this program is weir",
        ),
        ("{\"error\":{\"message\":\"all 64 places\"}}\n", "all 64 places"),
        ("no JSON\n", "sent a line that is no JSON"),
        ("", "closed the connection"),
    ] {
        std::thread::scope(|scope| {
            scope.spawn(|| listener.accept().expect("a client").0.write_all(first.as_bytes()).expect("room"));
            let error = format!("{:#}", Client::connect(&path).expect_err(first));
            assert!(error.contains(has), "{first}: {error}");
            assert_eq!(
                error.contains("use weir of the same version"),
                has.contains("this program"),
                "{error}"
            );
        });
    }
}
