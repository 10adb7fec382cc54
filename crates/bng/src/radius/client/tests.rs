//! A client and servers that answer as each test says.

use super::*;
use crate::ppp::auth::Password;
use crate::radius::packet::reveal_password;

const SECRET: &[u8] = b"secret";

pub(super) struct Bench {
    pub(super) client: Client,
    pub(super) now: Now,
    pub(super) out: Vec<Output>,
    tokens: u64,
}

impl Bench {
    pub(super) fn new(servers: Vec<Server>) -> Bench {
        let mut client = Client::new(Timers::default(), Random::new([1; 32]));
        let now = Now { at: Duration::ZERO, wall_s: 1_790_000_000 };
        client.configure(now, servers, &mut Vec::new());
        Bench { client, now, out: Vec::new(), tokens: 0 }
    }

    pub(super) fn ask(&mut self, name: &[u8]) -> Token {
        let mut attributes = Attributes::default();
        attributes.push(number::USER_NAME, name);
        let password = Some(Password::new(b"arctangent"));
        self.send(Request { code: code::ACCESS_REQUEST, attributes, password, happened_s: None })
    }

    pub(super) fn ask_often(&mut self, times: usize) {
        for _ in 0..times {
            self.ask(b"anna");
        }
    }

    fn send(&mut self, request: Request) -> Token {
        self.tokens += 1;
        self.client.send(self.now, Token(self.tokens), request, &mut self.out);
        Token(self.tokens)
    }

    /// The datagrams since the last call: server, port, packet.
    pub(super) fn sent(&mut self) -> Vec<(String, u16, Packet)> {
        let read = |output| match output {
            Output::Send { server, port, bytes } => Some((server, port, Packet::read(&bytes).unwrap())),
            _ => None,
        };
        self.out.extract_if(.., |output| matches!(output, Output::Send { .. })).filter_map(read).collect()
    }

    pub(super) fn answer(&mut self, to: &(String, u16, Packet), code: u8) -> Result<(), NoAnswer> {
        let (server, port, request) = to;
        let answer = request.answer(code, &Attributes::default(), SECRET).unwrap().write();
        self.client.datagram(self.now, server, *port, &answer, &mut self.out)
    }

    pub(super) fn pass(&mut self, time: Duration) {
        let end = self.now.at + time;
        while let Some(at) = self.client.deadline().filter(|at| *at <= end) {
            self.now.at = self.now.at.max(at);
            self.client.timer(self.now, &mut self.out);
        }
        self.now.wall_s += (end - self.now.at).as_secs();
        self.now.at = end;
    }

    pub(super) fn results(&mut self) -> Vec<(Token, Result<u8, Failure>)> {
        let read = |output| match output {
            Output::Done { token, result } => Some((token, result.map(|(code, _)| code))),
            _ => None,
        };
        self.out.extract_if(.., |output| matches!(output, Output::Done { .. })).filter_map(read).collect()
    }
}

pub(super) fn server(name: &str) -> Server {
    Server { ports: 1, ..Server::new(name, Secret::new(SECRET)) }
}

pub(super) fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn a_request_is_answered() {
    let mut bench = Bench::new(vec![server("one")]);
    let token = bench.ask(b"anna");
    let sent = bench.sent();
    let [(_, _, packet)] = &*sent else { panic!("{sent:?}") };
    let hidden = packet.attributes.get(number::USER_PASSWORD).unwrap();
    assert_eq!(reveal_password(hidden, SECRET, &packet.authenticator).as_deref(), Some(&b"arctangent"[..]));
    assert_eq!(packet.check_access(SECRET, Require::MessageAuthenticator), Ok(()));
    bench.answer(&sent[0], code::ACCESS_ACCEPT).unwrap();
    assert_eq!(bench.results(), [(token, Ok(code::ACCESS_ACCEPT))]);
    assert!(bench.client.is_empty() && bench.client.deadline().is_none());
}

#[test]
fn r1_waits_grow_with_jitter_and_a_request_ends_after_thirty_seconds() {
    let mut bench = Bench::new(vec![server("one")]);
    let token = bench.ask(b"anna");
    let mut at = Vec::new();
    while let Some(next) = bench.client.deadline() {
        at.push(bench.now.at);
        bench.pass(next - bench.now.at);
        if bench.results() == [(token, Err(Failure::NoAnswer))] {
            break;
        }
    }
    let packets: Vec<_> = bench.sent();
    assert!(packets.windows(2).all(|pair| pair[0].2 == pair[1].2), "all are the same datagram");
    // After 2, 6 and 14 s, and at the end if jitter leaves time for it.
    assert!((4..=5).contains(&packets.len()), "{}", packets.len());
    let waits: Vec<f64> = at.windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64()).collect();
    assert!((1.8..=2.2).contains(&waits[0]), "{waits:?}");
    assert!(waits[..3].windows(2).all(|pair| (1.9..=2.1).contains(&(pair[1] / pair[0]))), "{waits:?}");
    assert_eq!(bench.now.at, s(30));
}

#[test]
fn r2_requests_beyond_the_identifiers_wait_in_order_and_their_number_is_bounded() {
    let mut bench = Bench::new(vec![server("one")]);
    bench.client.timers.most_waiting = 10;
    bench.ask_often(266);
    let refused = bench.ask(b"anna");
    assert_eq!(bench.results(), [(refused, Err(Failure::Busy))]);
    let sent = bench.sent();
    assert_eq!((sent.len(), bench.client.len()), (256, 266));
    for request in &sent[..3] {
        bench.answer(request, code::ACCESS_REJECT).unwrap();
    }
    assert_eq!((bench.sent().len(), bench.client.len()), (3, 263));
    bench.pass(s(31));
    assert_eq!((bench.results().len(), bench.client.len()), (266, 0), "each has one result");
    // A soak with lost replies: identifiers are all free again (table 1.3, rows 1 and 2).
    assert!(bench.client.servers.iter().all(|state| state.ids.used() == 0));
    assert!(bench.client.deadlines.is_empty());
}

#[test]
fn r3_late_foreign_and_repeated_answers_change_nothing() {
    let mut bench = Bench::new(vec![server("one"), server("two")]);
    bench.ask(b"anna");
    let sent = bench.sent().remove(0);
    let (name, port, packet) = sent.clone();
    let answer = packet.answer(code::ACCESS_ACCEPT, &Attributes::default(), SECRET).unwrap();
    let forged = packet.answer(code::ACCESS_ACCEPT, &Attributes::default(), b"other").unwrap();
    let say = |bench: &mut Bench, server: &str, port, bytes: &[u8]| {
        bench.client.datagram(bench.now, server, port, bytes, &mut bench.out)
    };
    let wrong = Err(NoAnswer::Distrusted(Distrust::Authenticator));
    assert_eq!(say(&mut bench, &name, port, &forged.write()), wrong);
    assert_eq!(say(&mut bench, "two", port, &answer.write()), Err(NoAnswer::Late), "another server");
    assert_eq!(say(&mut bench, &name, port + 1, &answer.write()), Err(NoAnswer::Late), "another port");
    assert_eq!(
        say(&mut bench, &name, port, &answer.write()[..19]),
        Err(NoAnswer::Distrusted(Distrust::Length))
    );
    let acct = packet.answer(code::ACCOUNTING_RESPONSE, &Attributes::default(), SECRET).unwrap();
    assert_eq!(say(&mut bench, &name, port, &acct.write()), Err(NoAnswer::OtherKind));
    assert!(bench.results().is_empty());
    assert_eq!(say(&mut bench, &name, port, &answer.write()), Ok(()));
    assert_eq!(say(&mut bench, &name, port, &answer.write()), Err(NoAnswer::Late), "repeated");
    assert_eq!(bench.results().len(), 1);
    let (_, counts) = bench.client.counts().next().unwrap();
    assert_eq!((counts.answers, counts.late, counts.forged, counts.malformed), (1, 2, 1, 2));
}

#[test]
fn r5_message_authenticator_is_required_by_option() {
    for (require, result) in [
        (Require::Nothing, Ok(())),
        (Require::MessageAuthenticator, Err(NoAnswer::Distrusted(Distrust::NoMessageAuthenticator))),
    ] {
        let mut bench = Bench::new(vec![Server { require, ..server("one") }]);
        bench.ask(b"anna");
        let (_, port, request) = bench.sent().remove(0);
        // As FreeRADIUS 3.2.1 answers: no attribute at all.
        use md5::{Digest, Md5};
        let header = [code::ACCESS_ACCEPT, request.id, 0, 20];
        let hash = Md5::new().chain_update(header).chain_update(request.authenticator).chain_update(SECRET);
        let answer = [&header[..], &hash.finalize()].concat();
        assert_eq!(bench.client.datagram(bench.now, "one", port, &answer, &mut bench.out), result);
    }
}

#[test]
fn r11_a_server_that_is_silent_is_dead_and_its_requests_go_to_the_next_one() {
    let mut bench = Bench::new(vec![server("one"), server("two")]);
    let tokens: Vec<Token> = (0..20).map(|_| bench.ask(b"anna")).collect();
    assert!(bench.sent().iter().all(|(server, ..)| server == "one"));
    bench.pass(Duration::from_millis(2200));
    assert!(bench.out.contains(&Output::Dead("one".into())));
    let sent = bench.sent();
    for sent in sent.iter().filter(|(server, ..)| server == "two") {
        // The answer to a datagram that was sent twice is late the second time.
        let _ = bench.answer(sent, code::ACCESS_ACCEPT);
    }
    let mut results: Vec<_> =
        bench.results().into_iter().filter_map(|(token, result)| result.ok().map(|_| token)).collect();
    results.sort();
    assert_eq!(results, tokens);
    // The next one goes to the second server at once, and to the first again after its dead time.
    bench.ask(b"anna");
    let next = bench.sent().remove(0);
    assert_eq!(next.0, "two");
    bench.answer(&next, code::ACCESS_ACCEPT).unwrap();
    bench.pass(s(61));
    bench.ask(b"anna");
    assert_eq!(bench.sent()[0].0, "one");
}

#[test]
fn r11_when_all_servers_are_dead_a_request_fails_at_once() {
    let mut bench = Bench::new(vec![server("one")]);
    bench.ask_often(8);
    bench.pass(s(3));
    assert_eq!(bench.results().len(), 8, "none waits for the end of its thirty seconds");
    let token = bench.ask(b"anna");
    assert_eq!(bench.results(), [(token, Err(Failure::AllDead))]);
    assert!(bench.client.is_empty());
}

#[test]
fn r11_status_server_finds_a_server_that_has_returned() {
    let mut bench = Bench::new(vec![Server { has_status: true, dead_time: s(10), ..server("one") }]);
    bench.ask_often(8);
    bench.pass(s(3));
    bench.sent();
    bench.pass(s(25));
    let probes = bench.sent();
    assert!(
        probes.len() >= 2 && probes.iter().all(|(_, _, packet)| packet.code == code::STATUS_SERVER),
        "{probes:?}"
    );
    assert_eq!(probes[0].2.check_access(SECRET, Require::MessageAuthenticator), Ok(()));
    bench.pass(s(11));
    let probe = bench.sent().pop().unwrap();
    bench.out.clear();
    bench.answer(&probe, code::ACCESS_ACCEPT).unwrap();
    assert_eq!(bench.out, [Output::Alive("one".into())]);
    bench.ask(b"anna");
    assert_eq!(bench.sent().len(), 1);
}

#[test]
fn r11_an_overload_that_has_passed_costs_one_round_trip() {
    let mut bench = Bench::new(vec![Server { has_status: true, dead_time: s(10), ..server("one") }]);
    bench.ask_often(8);
    while !bench.out.contains(&Output::Dead("one".into())) {
        bench.pass(Duration::from_millis(1));
    }
    let statuses = |bench: &mut Bench| {
        let sent = bench.sent().into_iter();
        sent.filter(|(_, _, packet)| packet.code == code::STATUS_SERVER).collect::<Vec<_>>()
    };
    let probe = statuses(&mut bench).pop().expect("the status is asked for at once");
    // Then after 1, 2, 4 and 8 s, and each 10 s.
    bench.pass(Duration::from_millis(24_500));
    assert_eq!(statuses(&mut bench).len(), 4);
    assert_eq!(bench.answer(&probe, code::ACCESS_ACCEPT), Err(NoAnswer::Late));
    bench.pass(s(1));
    let probe = statuses(&mut bench).pop().expect("after 25 s");
    bench.answer(&probe, code::ACCESS_ACCEPT).unwrap();
    bench.ask(b"anna");
    assert_eq!(bench.sent().len(), 1);
}

#[test]
fn realms_have_servers_of_their_own() {
    let isp = Server { realms: vec!["isp.example".into()], ..server("isp") };
    let mut bench = Bench::new(vec![server("others"), isp]);
    for (name, expected) in [(&b"anna@ISP.example"[..], "isp"), (b"ben@other", "others"), (b"carl", "others")]
    {
        bench.ask(name);
        assert_eq!(bench.sent()[0].0, expected);
    }
    let mut bench = Bench::new(vec![Server { realms: vec!["isp".into()], ..server("isp") }]);
    let token = bench.ask(b"anna");
    assert_eq!(bench.results(), [(token, Err(Failure::NoServer))]);
}

#[test]
fn a_new_secret_takes_effect_and_open_requests_are_answered_with_the_old_one() {
    let mut bench = Bench::new(vec![server("one")]);
    bench.ask(b"anna");
    let old = bench.sent().remove(0);
    let changed = Server { secret: Secret::new(b"new"), ..server("one") };
    bench.client.configure(bench.now, vec![changed], &mut bench.out);
    bench.ask(b"anna");
    let new = bench.sent().remove(0).2;
    assert_eq!(new.check_access(b"new", Require::MessageAuthenticator), Ok(()));
    bench.answer(&old, code::ACCESS_ACCEPT).unwrap();
    // Requests to a server that is gone go to another one.
    bench.client.configure(bench.now, vec![server("two")], &mut bench.out);
    assert_eq!(bench.sent()[0].0, "two");
    assert!(!format!("{:?}", bench.client).contains("arctangent"));
}

#[test]
fn r7_an_accounting_request_says_how_late_it_is_and_has_a_new_identifier_then() {
    let mut bench = Bench::new(vec![server("one"), server("two")]);
    let happened_s = Some(bench.now.wall_s - 7);
    let attributes = Attributes::default();
    bench.send(Request { code: code::ACCOUNTING_REQUEST, attributes, password: None, happened_s });
    let first = bench.sent().remove(0).2;
    assert_eq!(first.attributes.u32(number::ACCT_DELAY_TIME), Some(7));
    assert_eq!(first.check_hashed(SECRET, Require::MessageAuthenticator), Ok(()));
}

#[test]
fn a_cancelled_request_frees_its_identifier() {
    let mut bench = Bench::new(vec![server("one")]);
    let token = bench.ask(b"anna");
    bench.client.cancel(token);
    assert!(bench.client.is_empty() && bench.client.deadline().is_none());
}

#[test]
fn r11_a_request_goes_to_the_next_server_after_two_datagrams() {
    let mut bench = Bench::new(vec![server("one"), server("two")]);
    bench.ask(b"anna");
    bench.pass(s(8));
    let servers: Vec<String> = bench.sent().into_iter().map(|(server, ..)| server).collect();
    assert_eq!(servers[..3], ["one", "one", "two"].map(String::from));
}

#[test]
fn r5_dropped_answers_are_reported_once_a_minute_and_status_answers_need_no_message_authenticator() {
    use md5::{Digest, Md5};
    let without = |code, request: &Packet| {
        let header = [code, request.id, 0, 20];
        let hash = Md5::new().chain_update(header).chain_update(request.authenticator).chain_update(SECRET);
        [&header[..], &hash.finalize()].concat()
    };
    let require = Require::MessageAuthenticator;
    let mut bench = Bench::new(vec![Server { require, has_status: true, dead_time: s(10), ..server("one") }]);
    bench.ask_often(8);
    for (_, port, request) in bench.sent() {
        let answer = without(code::ACCESS_ACCEPT, &request);
        assert!(bench.client.datagram(bench.now, "one", port, &answer, &mut bench.out).is_err());
    }
    let why = Distrust::NoMessageAuthenticator;
    let told = Output::Distrusted { server: "one".into(), why };
    assert_eq!(bench.out.iter().filter(|output| **output == told).count(), 1);
    bench.pass(s(3));
    bench.sent();
    // The third one, 3 s after the server was dead.
    bench.pass(Duration::from_millis(2500));
    let (_, port, probe) = bench.sent().pop().unwrap();
    assert_eq!(probe.code, code::STATUS_SERVER);
    let answer = without(code::ACCESS_ACCEPT, &probe);
    assert_eq!(bench.client.datagram(bench.now, "one", port, &answer, &mut bench.out), Ok(()));
}
