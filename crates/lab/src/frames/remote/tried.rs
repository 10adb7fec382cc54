//! Processes replies of a remote side, from the line to the record, without a remote side: for fuzzers.

use std::time::Duration;

use weir_agent::protocol::{self, Hello, Reply, Trouble, VERSION};
use weir_linux::rtnl::Mac;
use weir_load::counts::{Counts, GroupCounts, Load, Sent, StreamCounts, Traffic, empty_lateness};
use weir_packet::flow::{Direction, FlowOrder, FlowSpec};
use weir_packet::frame::{Ends, Transport};
use weir_packet::size::FrameSizes;
use weir_record::record::Machine;
use weir_testbed::interface::Device;

use super::heard::Heard;
use super::{Fired, Request, pair};
use crate::frames::counted;
use crate::machine::gather;

/// Takes a line in as each of the replies that it may be.
///
/// # Errors
/// Why it is none, in words.
pub fn take_in(line: &str) -> Result<(), String> {
    let traffic = traffic();
    let load = Load::steady(1e6, Duration::from_secs(1));
    let mut refused = Vec::new();
    refused.extend(protocol::greeting::<Machine>(line, "remote_weir").map(drop).err());
    refused.extend(
        serde_json::from_str::<protocol::Line<Request>>(line)
            .map(drop)
            .map_err(|error| error.to_string())
            .err(),
    );
    refused.extend(one::<Mac>(line).map(drop).err());
    refused.extend(one::<Vec<String>>(line).map(drop).err());
    refused.extend(one::<Device>(line).map(drop).err());
    refused.extend(one::<u64>(line).map(drop).err());
    refused
        .extend(one::<Fired>(line).and_then(|fired| fired.sent.check(&traffic, pair::there(&traffic))).err());
    let counts = one::<Counts>(line).and_then(|counts| counts.check(&traffic, &[0]).map(|()| counts));
    match counts {
        Ok(counts) => recorded(counts, &load),
        Err(why) => refused.push(why),
    }
    if refused.len() == 8 { Err(refused.join("; ")) } else { Ok(()) }
}

fn one<T: Heard>(line: &str) -> Result<T, String> {
    let value: Option<T> =
        protocol::reply(line).map_err(|(Trouble::Failed(why) | Trouble::Lost(why))| why)?;
    let value = value.ok_or("it is a note")?;
    value.check().map(|()| value)
}

/// What a record says of the counts of both sides.
fn recorded(remote: Counts, load: &Load) {
    let near = Counts {
        streams: vec![stream(1)],
        ports: [Default::default(); 2],
        sending: load.duration,
        drops: vec![],
    };
    let counts = pair::both(near, remote);
    counted::sent_fps(&counts, load.duration);
    counted::rate_changed_ns(&counts, load);
    counted::rate_error(&counts, load);
    counted::broadcasts(&counts, 1);
    counted::remarks(&counts);
    for stream in &counts.streams {
        counted::departures(stream);
        for group in &stream.groups {
            counted::stream_record("a>b", 0, counts.ports[1].corrupted, group);
        }
    }
}

fn traffic() -> Traffic {
    let flows = FlowSpec {
        count: 4,
        order: FlowOrder::Sequential,
        groups: 2,
        hosts: 4,
        networks: 1,
        src: 0xc612_0002,
        dst: 0xc613_0002,
        seed: 1,
    };
    let ends = Ends::v4([2; 6], [4; 6]);
    Traffic {
        sizes: FrameSizes::Fixed(64),
        transport: Transport::Udp,
        direction: Direction::Both,
        flows,
        ends: [ends; 2],
        seed: 1,
    }
}

fn stream(number: usize) -> StreamCounts {
    let group = || {
        let mut group = GroupCounts { sent: 500, received: 499, latency_max_ns: 900, ..GroupCounts::empty() };
        group.latency.record(900);
        group.ipdv = Some(Box::default());
        group.lost.events =
            vec![weir_load::counts::LossEvent { first_sent_ns: 1, last_sent_ns: 2, lost: 1, outage_ns: 3 }];
        group
    };
    StreamCounts {
        stream: number,
        offered: 1000,
        sent: 1000,
        sent_bytes: 64_000,
        late: empty_lateness(),
        late_max_ns: 7,
        late_end_ns: 7,
        start_ns: 1 << 40,
        last_ns: 999_999_000,
        turned_ns: None,
        broadcasts: 0,
        groups: vec![group(), group()],
        marks: Vec::new(),
    }
}

/// Lines as the remote side says them, and requests.
pub fn examples() -> Vec<String> {
    let counts = Counts {
        streams: vec![stream(0)],
        ports: Default::default(),
        sending: Duration::from_secs(1),
        drops: vec![weir_load::counts::TesterDrops { name: "ring".into(), frames: 3, source: "x".into() }],
    };
    let fired = Fired {
        sent: Sent { streams: vec![stream(1)], sending: Duration::from_secs(1) },
        at_ns: 1 << 40,
        wait_ns: 9,
    };
    let done = |value: &dyn Fn() -> serde_json::Result<String>| value().expect("replies are plain data");
    vec![
        done(&|| serde_json::to_string(&Reply::Done(Hello { weir: VERSION.into(), machine: gather() }))),
        done(&|| serde_json::to_string(&Reply::Done(counts.clone()))),
        done(&|| serde_json::to_string(&Reply::Done(&fired))),
        done(&|| serde_json::to_string(&Reply::Done(Device::default()))),
        done(&|| serde_json::to_string(&Reply::Done(vec!["a note"]))),
        done(&|| serde_json::to_string(&Reply::Done([2, 0, 0, 0, 0, 1]))),
        done(&|| serde_json::to_string(&Reply::Done(1_u64 << 40))),
        done(&|| {
            serde_json::to_string(&Request::Tester { kind: weir_load::TesterKind::Xdp, traffic: traffic() })
        }),
        done(&|| serde_json::to_string(&Request::Settle(fired.sent.clone()))),
        r#"{"failed":"no such interface"}"#.into(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_far_side_says_is_taken_and_lies_are_not() {
        for line in examples().iter().filter(|line| !line.contains("failed")) {
            take_in(line).unwrap_or_else(|why| panic!("{line:.200}: {why}"));
        }
        let counts = &examples()[1];
        for (from, to, expected) in [
            (r#""stream":0"#, r#""stream":1"#, "counts of the streams [1] in place of [0]"),
            (r#""stream":0"#, r#""stream":18446744073709551615"#, "in place of [0]"),
            (r#""sent":1000"#, r#""sent":18446744073709551615"#, "frames of a stream: 18446744073709551615"),
            (r#""sending":{"secs":1"#, r#""sending":{"secs":18446744073709551615"#, "the time of sending"),
            (
                r#""latency_min_ns":0"#,
                r#""latency_min_ns":901"#,
                "a smallest latency that is above the largest",
            ),
            (r#""bits":6"#, r#""bits":63"#, "a histogram of latency that is none"),
            (r#""count":0"#, r#""count":9"#, "contradict each other"),
            (r#""last_sent_ns":2"#, r#""last_sent_ns":0"#, "ends before it begins"),
            (r#""frames":3"#, r#""frames":99999999999999"#, "frames that the tester lost"),
        ] {
            check_lie(counts, from, to, expected);
        }
    }

    fn check_lie(truth: &str, from: &str, to: &str, expected: &str) {
        let lie = truth.replacen(from, to, 1);
        assert_ne!(lie, truth, "{from}");
        let why = take_in(&lie).expect_err(from);
        assert!(why.contains(expected), "{from}: {why}");
    }

    #[test]
    fn streams_that_are_not_there_and_times_without_end_are_lies() {
        let (counts, fired) = (&examples()[1], &examples()[2]);
        let most = u64::MAX.to_string();
        for (truth, name, value, expected) in [
            (counts, "stream", "0", "counts of the streams [18446744073709551615] in place of [0]"),
            (counts, "late_max_ns", "7", "ns of a stream"),
            (counts, "late_end_ns", "7", "ns of a stream"),
            (counts, "last_ns", "999999000", "ns of a stream"),
            (counts, "turned_ns", "null", "ns of a stream"),
            (counts, "start_ns", "1099511627776", "the start of a stream"),
            (counts, "last_sent_ns", "2", "ns of a period of loss"),
            (counts, "outage_ns", "3", "ns of a period of loss"),
            (fired, "stream", "1", "counts of the streams [18446744073709551615] in place of [1]"),
            (fired, "secs", "1", "the time of sending"),
            (fired, "last_ns", "999999000", "ns of a stream"),
            (fired, "at_ns", "1099511627776", "its clock"),
            (fired, "wait_ns", "9", "the time it waited for a CPU"),
        ] {
            let (from, to) = (format!("\"{name}\":{value}"), format!("\"{name}\":{most}"));
            check_lie(truth, &from, &to, expected);
        }
    }
}
