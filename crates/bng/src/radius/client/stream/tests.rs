//! A server with TLS, whose connections come and go as each test says.

use super::super::tests::{Bench, s, server};
use super::super::{Failure, Output, Server, Token};
use super::*;

fn stream(name: &str) -> Server {
    Server { transport: Transport::Stream, has_status: true, dead_time: s(10), ..server(name) }
}

fn link(bench: &mut Bench, change: LinkChange) {
    bench.client.link(bench.now, "one", 0, change, &mut bench.out);
}

/// The servers and codes of what was sent since the last call.
fn sent(bench: &mut Bench) -> Vec<(String, u8)> {
    bench.sent().into_iter().map(|(server, _, packet)| (server, packet.code)).collect()
}

const ACCESS: u8 = code::ACCESS_REQUEST;

#[test]
fn a_request_waits_for_the_first_connection_and_fails_when_it_cannot_be_made() {
    let mut bench = Bench::new(vec![stream("one")]);
    let token = bench.ask(b"anna");
    assert_eq!(sent(&mut bench), []);
    link(&mut bench, LinkChange::Down);
    assert_eq!(bench.results(), [(token, Err(Failure::AllDead))]);
    let token = bench.ask(b"anna");
    assert_eq!(bench.results(), [(token, Err(Failure::AllDead))], "at once");
    link(&mut bench, LinkChange::Down);
    assert_eq!(bench.out, [Output::Dead("one".into())], "said once");
    link(&mut bench, LinkChange::Up);
    assert!(bench.out.contains(&Output::Alive("one".into())));
    let token = bench.ask(b"anna");
    let packet = bench.sent().remove(0);
    bench.answer(&packet, code::ACCESS_ACCEPT).unwrap();
    assert_eq!(bench.results(), [(token, Ok(code::ACCESS_ACCEPT))]);
}

#[test]
fn no_request_waits_where_another_server_takes_it() {
    let mut bench = Bench::new(vec![stream("one"), server("two")]);
    bench.ask(b"anna");
    assert_eq!(sent(&mut bench), [("two".into(), ACCESS)]);
    link(&mut bench, LinkChange::Up);
    bench.ask(b"anna");
    assert_eq!(sent(&mut bench), [("one".into(), ACCESS)]);
}

#[test]
fn requests_of_a_connection_that_ends_are_sent_by_the_next_one() {
    let mut bench = Bench::new(vec![stream("one")]);
    link(&mut bench, LinkChange::Up);
    let tokens: Vec<Token> = (0..3).map(|_| bench.ask(b"anna")).collect();
    let before = bench.sent();
    bench.answer(&before[0], code::ACCESS_ACCEPT).unwrap();
    link(&mut bench, LinkChange::Down);
    // Its answer came too late.
    assert!(bench.answer(&before[1], code::ACCESS_ACCEPT).is_err());
    assert_eq!((sent(&mut bench), bench.client.len()), (vec![], 2));
    link(&mut bench, LinkChange::Up);
    let again = bench.sent();
    for packet in &again {
        bench.answer(packet, code::ACCESS_ACCEPT).unwrap();
    }
    assert_ne!(before[1].2.authenticator, again[0].2.authenticator);
    let results: Vec<_> = tokens.iter().map(|token| (*token, Ok(code::ACCESS_ACCEPT))).collect();
    assert_eq!((bench.results(), bench.client.len()), (results, 0));
}

#[test]
fn nothing_is_sent_twice_by_a_connection_and_one_that_is_silent_is_ended() {
    let mut bench = Bench::new(vec![stream("one")]);
    link(&mut bench, LinkChange::Up);
    let token = bench.ask(b"anna");
    bench.pass(s(29));
    assert_eq!(sent(&mut bench), [("one".into(), ACCESS)]);
    bench.pass(s(2));
    assert_eq!(bench.results(), [(token, Err(Failure::NoAnswer))]);
    assert_eq!(sent(&mut bench), [("one".into(), code::STATUS_SERVER)]);
    bench.pass(s(3));
    let reconnect = Output::Reconnect { server: "one".into(), port: 0 };
    assert!(bench.out.contains(&reconnect), "{:?}", bench.out);
    // Its server is dead when it does not answer by other connections either.
    link(&mut bench, LinkChange::Up);
    bench.ask_often(8);
    bench.out.clear();
    bench.pass(s(3));
    assert!(bench.out.contains(&Output::Dead("one".into())), "{:?}", bench.out);
    assert!(bench.out.contains(&reconnect) && bench.results().len() == 8);
    bench.out.clear();
    link(&mut bench, LinkChange::Up);
    let probe = bench.sent().remove(0);
    assert_eq!(probe.2.code, code::STATUS_SERVER);
    bench.answer(&probe, code::ACCESS_ACCEPT).unwrap();
    assert_eq!(bench.out, [Output::Alive("one".into())]);
}

#[test]
fn an_idle_connection_whose_server_answers_stays() {
    let mut bench = Bench::new(vec![stream("one")]);
    link(&mut bench, LinkChange::Up);
    for _ in 0..5 {
        bench.pass(s(30));
        let probe = bench.sent().remove(0);
        assert_eq!(probe.2.code, code::STATUS_SERVER);
        bench.answer(&probe, code::ACCESS_ACCEPT).unwrap();
    }
    assert_eq!(bench.out, []);
}

#[test]
fn a_second_connection_takes_the_requests_of_the_first() {
    let mut bench = Bench::new(vec![Server { ports: 2, ..stream("one") }]);
    link(&mut bench, LinkChange::Up);
    bench.client.link(bench.now, "one", 1, LinkChange::Up, &mut bench.out);
    bench.ask_often(4);
    assert_eq!(bench.sent().iter().filter(|(_, port, _)| *port == 0).count(), 2);
    link(&mut bench, LinkChange::Down);
    assert!(bench.sent().iter().all(|(_, port, _)| *port == 1));
    bench.client.link(bench.now, "one", 1, LinkChange::Down, &mut bench.out);
    assert!(bench.client.servers.iter().all(|state| state.ids.used() == 0));
    assert_eq!((bench.client.len(), bench.client.deadlines.len()), (4, 0), "they wait");
}
