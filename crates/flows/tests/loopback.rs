//! Flows over loopback, and through a listener that stops reading.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use weir_flows::{FlowOutcome, FlowsError, Group, Load, Observe, Outcome, Server, run};

fn group(flows: u32) -> Group {
    Group { flows, cc: None, from: None, start: Duration::ZERO }
}

fn load(to: SocketAddr, groups: Vec<Group>, ms: u64) -> Load {
    let (duration, interval) = (Duration::from_millis(ms), Duration::from_millis(100));
    Load {
        to,
        groups,
        duration,
        interval,
        grace: Duration::from_secs(60),
        reset: false,
        iperf3: false,
        rate: None,
    }
}

fn server() -> Server {
    Server::start("127.0.0.1:0".parse().unwrap()).unwrap()
}

/// Runs it; the outcome, and what the intervals sum up to, flow by flow.
fn sent(load: &Load) -> Result<(Outcome, Vec<f64>), FlowsError> {
    let (stop, mut bytes) = (AtomicBool::new(false), Vec::new());
    let mut see = |interval: &weir_flows::Interval| {
        bytes.resize(interval.goodput_bits_per_s.len(), 0.0);
        for (sum, rate) in bytes.iter_mut().zip(&interval.goodput_bits_per_s) {
            *sum += rate / 8.0 * (interval.to_s - interval.from_s);
        }
    };
    run(load, Observe { stop: &stop, see: &mut see }).map(|outcome| (outcome, bytes))
}

#[test]
fn what_is_sent_arrives_flow_by_flow() {
    let server = server();
    for flows in [1, 200] {
        let (outcome, intervals) = sent(&load(server.address(), vec![group(flows)], 500)).unwrap();
        assert_eq!(outcome.flows.len(), flows as usize);
        assert!(outcome.incomplete.is_empty(), "{:?}", outcome.incomplete);
        let mut sum = 0.0;
        for (flow, counted) in outcome.flows.iter().zip(&intervals) {
            assert_eq!(flow.sent_bytes, flow.received_bytes, "{flow:?}");
            assert_eq!(flow.end, "closed", "{flow:?}");
            assert!(flow.started_s.is_some() && flow.sent_bytes > 0 && !flow.cc.is_empty(), "{flow:?}");
            assert!(flow.arrived_s.is_some(), "the server says when it had the first byte: {flow:?}");
            let in_time = flow.received_bytes - flow.late_bytes;
            assert!((counted - in_time as f64).abs() < 1.0, "intervals sum up to {counted}: {flow:?}");
            assert!((flow.goodput_bits_per_s * outcome.window_s / 8.0 - in_time as f64).abs() < 1.0);
            sum += flow.goodput_bits_per_s;
        }
        assert!((sum / outcome.sum_bits_per_s - 1.0).abs() < 1e-9 && outcome.window_s >= 0.5);
        let apart = |of: fn(&FlowOutcome) -> Option<f64>| {
            let times: Vec<f64> = outcome.flows.iter().filter_map(of).collect();
            times.iter().copied().fold(f64::MIN, f64::max) - times.iter().copied().fold(f64::MAX, f64::min)
        };
        assert_eq!(outcome.start_spread_s, apart(|flow| flow.started_s));
        assert_eq!(outcome.arrival_spread_s, Some(apart(|flow| flow.arrived_s)));
    }
    assert_eq!(server.connected(), 0, "nothing is left");
}

#[test]
fn groups_have_their_congestion_control_their_source_and_their_start() {
    let server = server();
    let late = Duration::from_millis(300);
    let groups = vec![
        Group {
            flows: 3,
            cc: Some("reno".into()),
            from: Some("127.0.0.2:0".parse().unwrap()),
            start: Duration::ZERO,
        },
        Group { flows: 2, cc: Some("cubic".into()), from: None, start: late },
    ];
    let (outcome, _) = sent(&load(server.address(), groups, 600)).unwrap();
    for flow in &outcome.flows {
        let (cc, from, start) =
            [("reno", "127.0.0.2:", 0.0), ("cubic", "127.0.0.1:", 0.3)][flow.group as usize];
        assert!(flow.cc == cc && flow.from.starts_with(from), "{flow:?}");
        assert!(flow.started_s.unwrap() >= start && flow.sent_bytes == flow.received_bytes, "{flow:?}");
    }
    let groups: Vec<u32> = outcome.flows.iter().map(|flow| flow.group).collect();
    assert_eq!(groups, [0, 1, 0, 1, 0]);
}

#[test]
fn flows_that_are_reset_leave_nothing() {
    let server = server();
    let (outcome, _) = sent(&Load { reset: true, ..load(server.address(), vec![group(5)], 200) }).unwrap();
    assert!(outcome.flows.iter().all(|flow| flow.end == "reset"), "{outcome:?}");
    assert_eq!(server.connected(), 0);
}

#[test]
fn what_cannot_be_is_named() {
    let server = server();
    let wrong = |group: Group| sent(&load(server.address(), vec![group], 200)).unwrap_err().to_string();
    let error = wrong(Group { cc: Some("cubik".into()), ..group(1) });
    assert!(error.contains("congestion control `cubik`: see"), "{error}");
    let error = wrong(Group { from: Some("192.0.2.77:0".parse().unwrap()), ..group(1) });
    assert!(error.contains("connecting from 192.0.2.77"), "{error}");
    let error = wrong(group(90_000_000));
    assert!(error.contains("need 90000064 descriptors"), "{error}");
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = sent(&load(nobody, vec![group(1)], 200)).unwrap_err().to_string();
    assert!(error.contains("`weir flows --serve` must run"), "{error}");
    // A server of another protocol.
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap();
    let speaker = std::thread::spawn(move || {
        let (mut stream, _) = other.accept().unwrap();
        stream.write_all(b"220 mail\r\n").unwrap();
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let error = sent(&load(address, vec![group(1)], 200)).unwrap_err().to_string();
    assert!(error.contains("unexpected answer `220 mail`"), "{error}");
    speaker.join().unwrap();
}

/// A server that reads of its flows only the first.
fn half_asleep(listener: &TcpListener) {
    let mut word = [0; 8];
    let (mut control, _) = listener.accept().unwrap();
    control.read_exact(&mut word).unwrap();
    assert_eq!(&word, b"WEIRctl1");
    let mut lines = BufReader::new(control.try_clone().unwrap());
    let hear = |lines: &mut BufReader<TcpStream>, expected: &str| {
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        assert!(line.contains(expected), "{line}");
    };
    hear(&mut lines, "hello");
    writeln!(control, r#"{{"ready":{{"backlog":128,"descriptors":1024,"receive_buffer":1000000}}}}"#)
        .unwrap();
    let mut asleep: Vec<TcpStream> = Vec::new();
    let mut readers = Vec::new();
    for _ in 0..2 {
        let (mut flow, _) = listener.accept().unwrap();
        let mut header = [0; 20];
        flow.read_exact(&mut header).unwrap();
        match header[19] {
            0 => readers
                .push(std::thread::spawn(move || std::io::copy(&mut flow, &mut std::io::sink()).unwrap())),
            _ => asleep.push(flow),
        }
    }
    writeln!(control, r#"{{"connected":{{"missing":[]}}}}"#).unwrap();
    hear(&mut lines, "start");
    let read = readers.pop().unwrap().join().unwrap();
    // Its client ends flow 0 at the deadline, and gives flow 1 its time of grace.
    writeln!(
        control,
        r#"{{"end":{{"window_ns":2000000000,"bytes":[{read},0],"late":[0,0],"closed":[true,false],"first_ns":[0,null]}}}}"#
    )
    .unwrap();
    // Until its client is gone.
    let _ = lines.read_to_end(&mut Vec::new());
    drop(asleep);
}

#[test]
fn a_flow_without_progress_is_named_with_its_times() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = std::thread::spawn(move || half_asleep(&listener));
    let load = Load { grace: Duration::from_millis(200), ..load(address, vec![group(2)], 2500) };
    let (outcome, _) = sent(&load).unwrap();
    server.join().unwrap();
    assert!(outcome.stalled.contains(&1), "{:?}", outcome.flows[1]);
    let stall = outcome.flows[1].stalls[0];
    assert!(stall.from_s < 1.5 && stall.to_s.is_none(), "{stall:?}");
    assert!(outcome.flows[1].end == "cut" && outcome.incomplete.contains(&1), "{:?}", outcome.flows[1]);
    assert!(outcome.flows[0].end == "closed" && !outcome.incomplete.contains(&0), "{:?}", outcome.flows[0]);
}
