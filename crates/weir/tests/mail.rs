//! `weir run mail`, `weir run peers-mail` and `weir mail` as a user runs them: everybody is delivered to, and that is what is
//! recorded.

mod home;
mod watchdog;

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Stdio};

use home::{Home, WEIR, is_root, trials};
use serde_json::Value;
use weir_mail::command;
use weir_mail::sink::{Faults, Listening, Service};

#[test]
fn each_case_is_delivered_and_accounted_for() {
    if !is_root() {
        return;
    }
    let home = Home::new(&[]);
    let sets = [
        "rounds=1",
        "connections=[5,20]",
        "trial_s=0.3",
        "warm_up_s=0.1",
        "delay_ms=5",
        "recipients=3000",
        "domains=200",
        "whole_connections=50",
        "odd_domains=10%",
    ];
    let said = home.experiment("mail", "mail", &sets, &[]);
    let data = home.record();
    let points = data["points"].as_array().unwrap();
    let cases: Vec<&str> = points.iter().map(|point| setting(point, "case")).collect();
    assert_eq!(cases, ["capacity", "ramp", "ramp", "whole"], "{said}");
    for trial in trials(&data) {
        assert_ne!(trial["verdict"], "invalid", "{trial}");
        assert!(trial["mail"]["rate"].as_f64().unwrap() > 0.0, "{trial}");
    }
    let whole = &points[3]["trials"][0]["mail"]["report"];
    let outcomes: u64 =
        whole["outcomes"].as_object().unwrap().values().map(|count| count.as_u64().unwrap()).sum();
    assert_eq!((outcomes, whole["unfinished"].as_u64()), (3000, Some(0)), "{whole}");
    assert!(whole["outcomes"]["failed"].as_u64().unwrap() > 0, "some domains take no mail: {whole}");
    let shown = home.weir(&["show", "last"]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("CPUs, engine + receivers") && shown.contains("whole"), "{shown}");
}

#[test]
fn each_pair_exchanges_its_messages() {
    if !is_root() {
        return;
    }
    let home = Home::new(&[]);
    let said = home.experiment("peers-mail", "mail", &["rounds=1", "peer_messages=60"], &[]);
    let data = home.record();
    let points = data["points"].as_array().unwrap();
    assert_eq!(points.len(), 6, "two senders, three receivers: {said}");
    for point in points {
        let left_out = point["point"]["notes"].to_string().contains("left out");
        let trials = point["trials"].as_array().unwrap();
        assert_eq!(trials.len(), usize::from(!left_out), "{point}");
        for trial in trials {
            assert_eq!(trial["verdict"], "valid", "{}: {trial}", point["point"]["settings"]);
            assert!(trial["mail"]["rate"].as_f64().unwrap() > 0.0, "{trial}");
        }
    }
}

fn setting<'a>(point: &'a Value, name: &str) -> &'a str {
    let settings = point["point"]["settings"].as_array().unwrap();
    settings.iter().find(|setting| setting[0] == name).unwrap()[1].as_str().unwrap()
}

/// Receivers that end with the test.
struct Sink {
    child: Child,
    at: SocketAddr,
}

impl Sink {
    fn start(faults: Faults) -> Sink {
        let service = Service { faults, ..Service::default() };
        let mut command = command::sink(Path::new(WEIR), &service);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let listening: Listening = serde_json::from_str(line.strip_prefix(command::READY).unwrap()).unwrap();
        Sink { child, at: listening.at }
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What `weir mail` to this server ends with, and says as JSON.
fn mail(home: &Home, at: SocketAddr, more: &[&str]) -> (Option<i32>, Value) {
    let to = at.to_string();
    let words = ["mail", "--to", &to, "--from", "me@example.org", "--rcpt", "u{n}@example.net", "--json"];
    let output = home.weir(&[&words, more].concat());
    (output.status.code(), serde_json::from_slice(&output.stdout).unwrap_or_default())
}

#[test]
fn a_server_is_tested_only_if_its_owner_agrees() {
    let (home, sink) = (Home::new(&[]), Sink::start(Faults::default()));
    assert_eq!(mail(&home, sink.at, &[]), (Some(2), Value::Null));
    let (code, report) = mail(&home, sink.at, &["--owner-agrees", "--rate", "max"]);
    assert_eq!((code, &report["outcomes"]["delivered"]), (Some(0), &100.into()), "{report}");
    assert!(report["open_max"].as_u64().unwrap() <= 10, "{report}");
}

#[test]
fn outcomes_are_kept_and_a_second_delivery_goes_on() {
    let (home, sink) = (Home::new(&[]), Sink::start(Faults { refuse: 0.2, ..Faults::default() }));
    let agreed = ["--owner-agrees", "--rate", "max", "--recipients", "500", "--log", "outcomes"];
    let (code, report) = mail(&home, sink.at, &agreed);
    let failed = report["outcomes"]["failed"].as_u64().unwrap();
    assert_eq!(code, Some(3), "{report}");
    assert!((1..500).contains(&failed), "{report}");
    let log = fs::read_to_string(home.path("outcomes")).unwrap();
    assert_eq!(log.lines().count(), 501, "a header, and a line for each");
    assert_eq!(log.lines().filter(|line| line.contains(" failed 550 ")).count() as u64, failed);
    let (_, again) = mail(&home, sink.at, &agreed);
    assert_eq!((&again["before"], &again["connections"]), (&500.into(), &0.into()), "{again}");
}

#[test]
fn ctrl_c_ends_a_delivery_that_can_go_on() {
    let (home, sink) = (Home::new(&[]), Sink::start(Faults::default()));
    let to = sink.at.to_string();
    let words = ["mail", "--to", &to, "--from", "a@example.org", "--rcpt", "b@example.net", "--owner-agrees"];
    let more = ["--recipients", "100000", "--rate", "200", "--log", "outcomes", "--json"];
    let mut command = home.command(&[WEIR], &[&words[..], &more].concat());
    let child = command.spawn().unwrap();
    let lines = || fs::read_to_string(home.path("outcomes")).unwrap_or_default().lines().count();
    while lines() < 5 {
        std::thread::yield_now();
    }
    // SAFETY: no pointers. The child has not been waited for.
    assert_eq!(unsafe { libc::kill(child.id() as i32, libc::SIGINT) }, 0);
    let output = child.wait_with_output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let delivered = report["outcomes"]["delivered"].as_u64().unwrap();
    assert_eq!(output.status.code(), Some(130), "{report}");
    assert_eq!(report["unfinished"].as_u64().unwrap() + delivered, 100_000, "{report}");
    assert_eq!(lines() as u64, delivered + 1, "each is in the log");
}
