//! Flows to a real iperf3 server; skipped where it is not installed.

use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use weir_flows::{Group, Load, Observe, Outcome, run};

/// A server for one test, that listens.
fn server() -> Option<(Child, BufReader<ChildStdout>, SocketAddr)> {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut command = Command::new("iperf3");
    command.args(["-s", "-1", "--forceflush", "-B", "127.0.0.1", "-p", &free.port().to_string()]);
    let Ok(mut child) = command.stdout(Stdio::piped()).spawn() else {
        println!("skipped: iperf3 is not installed");
        return None;
    };
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("Server listening") {
        line.clear();
        assert_ne!(lines.read_line(&mut line).unwrap(), 0, "iperf3 listens at {free}");
    }
    Some((child, lines, free))
}

fn load(to: SocketAddr, flows: u32) -> Load {
    let group = Group { flows, cc: Some("reno".into()), from: None, start: Duration::ZERO };
    let (duration, interval) = (Duration::from_millis(1000), Duration::from_millis(250));
    Load {
        to,
        groups: vec![group],
        duration,
        interval,
        grace: Duration::from_secs(60),
        reset: false,
        iperf3: true,
        rate: None,
    }
}

/// Runs it; the outcome, and what was acknowledged by its intervals.
fn sent(load: &Load) -> (Outcome, f64) {
    let (stop, mut bytes) = (AtomicBool::new(false), 0.0);
    let mut see = |one: &weir_flows::Interval| bytes += one.sum_bits_per_s / 8.0 * (one.to_s - one.from_s);
    (run(load, Observe { stop: &stop, see: &mut see }).unwrap(), bytes)
}

#[test]
fn an_iperf3_server_counts_what_was_sent() {
    let Some((mut child, mut lines, to)) = server() else { return };
    let (outcome, counted) = sent(&load(to, 4));
    let mut said = String::new();
    lines.read_to_string(&mut said).unwrap();
    assert!(child.wait().unwrap().success(), "{said}");
    assert!(!said.contains("error"), "{said}");
    assert_eq!(outcome.flows.len(), 4);
    let sum = |of: fn(&weir_flows::FlowOutcome) -> u64| outcome.flows.iter().map(of).sum::<u64>() as f64;
    for flow in &outcome.flows {
        assert!(flow.cc == "reno" && flow.end == "ended by the server" && flow.sent_bytes > 0, "{flow:?}");
        assert!((1..=flow.sent_bytes).contains(&flow.received_bytes), "{flow:?}");
    }
    // What the server has read was sent; what was acknowledged in time is what the intervals say.
    let received = outcome.sum_bits_per_s * outcome.window_s / 8.0;
    let in_time = sum(|flow| flow.received_bytes - flow.late_bytes);
    assert!(received > 0.0 && received <= sum(|flow| flow.sent_bytes) + 1.0, "{outcome:?}");
    assert!((counted - in_time).abs() < 4.0, "intervals sum up to {counted}: {outcome:?}");
}

#[test]
fn more_streams_than_it_takes_are_refused_before_it_is_asked() {
    let to = "127.0.0.1:9".parse().unwrap();
    let observe = Observe { stop: &AtomicBool::new(false), see: &mut |_| () };
    let error = run(&load(to, 129), observe).unwrap_err().to_string();
    assert!(error.contains("accepts 128 streams, but 129 are needed"), "{error}");
}
