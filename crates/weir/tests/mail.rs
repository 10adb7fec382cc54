//! `weir run mail`, `weir run peers-mail` and `weir mail` as a user runs them: all recipients are delivered to, and that is
//! what is recorded.

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use weir_mail::command;
use weir_mail::sink::{Faults, Listening, Received, Service};
use weir_testkit::{Started, need_root, output};

use crate::home::{Home, trials};
use crate::weir::WEIR;
use weir_testkit::full_disk::{refuses_output, shell_with_disk};
use weir_testkit::kills::{Kills, kill_after};

#[test]
fn each_case_is_delivered_and_accounted_for() {
    need_root!();
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
    need_root!();
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
    process: Started,
    at: SocketAddr,
}

impl Sink {
    fn start(faults: Faults) -> Sink {
        let mut command = command::sink(Path::new(WEIR), &Service { faults, ..Service::default() });
        command.stdin(Stdio::piped());
        let mut process = Started::new(command);
        let listening: Listening = process.json(command::READY);
        Sink { process, at: listening.at }
    }

    /// The received messages, after all deliveries have ended.
    fn end(mut self) -> Received {
        drop(self.process.child.stdin.take());
        self.process.json(command::DONE)
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
    let delivery = Started::new(home.command(&[WEIR], &[&words[..], &more].concat()));
    let lines = || fs::read_to_string(home.path("outcomes")).unwrap_or_default().lines().count();
    while lines() < 5 {
        std::thread::yield_now();
    }
    let ended = delivery.interrupt();
    let report = &ended.result;
    let delivered = report["outcomes"]["delivered"].as_u64().unwrap();
    assert_eq!(ended.code, Some(130), "{report}");
    assert_eq!(report["unfinished"].as_u64().unwrap() + delivered, 100_000, "{report}");
    assert_eq!(lines() as u64, delivered + 1, "each is in the log");
}

/// Recipients that have a line in a log of deliveries, each of them once.
fn recorded(log: &Path) -> BTreeSet<u64> {
    let text = fs::read_to_string(log).unwrap_or_default();
    // The last line may be cut off.
    let whole = text.split_inclusive('\n').skip(1).filter(|line| line.ends_with('\n'));
    let mut all = BTreeSet::new();
    for line in whole {
        let is_new = all.insert(line.split(' ').next().unwrap().parse().unwrap());
        assert!(is_new, "twice: {line}");
    }
    all
}

/// The command line of a delivery to 3000 recipients with a log.
fn with_log(to: SocketAddr, log: &str, rate: &str) -> String {
    format!(
        "mail --to {to} --from a@example.org --rcpt u{{n}}@example.net --owner-agrees --recipients 3000 --json --log {log} --rate {rate}"
    )
}

#[test]
fn killed_at_any_instant_it_goes_on_where_it_was() {
    let (home, sink) = (Home::new(&[]), Sink::start(Faults { refuse: 0.1, ..Faults::default() }));
    let (log, slow) = (home.path("outcomes"), with_log(sink.at, "outcomes", "2000"));
    let (mut kills, mut before) = (Kills::new(5), BTreeSet::new());
    while let Some((delay, trace)) = kills.next(Duration::from_millis(400)) {
        kill_after(&mut home.command(&[WEIR], &slow.split(' ').collect::<Vec<_>>()).spawn().unwrap(), delay);
        let now = recorded(&log);
        assert!(now.is_superset(&before), "{trace}: {} lines, {} before", now.len(), before.len());
        before = now;
    }
    let output = home.weir(&with_log(sink.at, "outcomes", "max").split(' ').collect::<Vec<_>>());
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["before"].as_u64(), Some(before.len() as u64), "{report}");
    assert!(recorded(&log).into_iter().eq(0..3000), "each has its outcome");
    let failed = fs::read_to_string(&log).unwrap().matches(" failed ").count() as u64;
    assert!(sink.end().recipients >= 3000 - failed, "whoever is delivered in the log was delivered to");
}

#[test]
fn a_log_without_room_ends_a_delivery_which_goes_on_when_there_is_some() {
    need_root!();
    let (home, sink) = (Home::new(&[]), Sink::start(Faults::default()));
    let script = format!(
        r#""{WEIR}" "$@" >first.json 2>first; echo $? >code; cp disk/outcomes before
        mount -o remount,size=1m disk && "{WEIR}" "$@" >second.json && cp disk/outcomes after"#
    );
    let mut shell = shell_with_disk("16k", &script);
    shell.current_dir(home.path("")).args(with_log(sink.at, "disk/outcomes", "max").split(' '));
    let output = output(&mut shell).unwrap();
    assert!(output.status.success(), "{output:?}");
    let read = |name: &str| fs::read_to_string(home.path(name)).unwrap();
    let (said, before) = (read("first"), recorded(&home.path("before")).len() as u64);
    assert_eq!(read("code"), "1\n", "{said}");
    assert!(said.contains("No space left on device") && said.contains("make room"), "{said}");
    let number = |after: &str| {
        let (before, _) = said.split_once(after).unwrap_or_else(|| panic!("no `{after}`: {said}"));
        before.rsplit(' ').next().unwrap().parse::<u64>().unwrap()
    };
    assert!(before > 0 && number(" recipients have their outcome in it") == before, "{before}: {said}");
    let twice = number(" more have one that is not in it");
    assert!(recorded(&home.path("after")).into_iter().eq(0..3000), "each has its outcome");
    assert_eq!(sink.end().recipients, 3000 + twice, "{said}");
}

#[test]
fn a_report_that_nobody_can_keep_is_named() {
    let (home, sink) = (Home::new(&[]), Sink::start(Faults::default()));
    let to = sink.at.to_string();
    let words = ["mail", "--to", &to, "--from", "a@example.org", "--rcpt", "b@example.net", "--owner-agrees"];
    for more in [&[][..], &["--json"]] {
        let words = [&words[..], &["--rate", "max", "--recipients", "20"], more].concat();
        refuses_output(home.command(&[WEIR], &words), &format!("mail {more:?}"));
    }
}
