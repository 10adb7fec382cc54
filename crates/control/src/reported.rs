//! The output of a node: JSON, text, and Prometheus text format.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value, json};
use weir_node::Snapshot;
use weir_plane::{
    Accounting, Dir, Event, EventKind, FastState, PoliceCounts, PuntCounts, Punts, QueueCounts, address_of,
};

use weir_service::prometheus::{metric, quoted};

/// Frame accounting of the node, and of each thread if it has several.
pub fn counters(threads: &[Snapshot], names: &[String]) -> Value {
    let mut all = of(&Snapshot::sum(threads), names);
    if threads.len() > 1 {
        all["threads"] = threads.iter().enumerate().map(|(n, snapshot)| of_thread(n, snapshot)).collect();
    }
    all
}

/// The accounting of a thread.
fn of_thread(n: usize, snapshot: &Snapshot) -> Value {
    let accounting = &snapshot.accounting;
    json!({
        "thread": n,
        "entered": accounting.entered,
        "originated": accounting.originated,
        "injected": accounting.injected,
        "taken": accounting.taken,
        "left": accounting.left,
        "local": accounting.local.total(),
        "control": accounting.control.total(),
        "kept": accounting.kept,
        "handed": accounting.handed,
        "dropped": accounting.drops.total(),
        "balance": accounting.balance(),
        "batches": snapshot.batches,
        "sleeps": snapshot.sleeps,
        "unheard": snapshot.unheard,
    })
}

fn of(snapshot: &Snapshot, names: &[String]) -> Value {
    let accounting = &snapshot.accounting;
    let ports: Vec<Value> = names
        .iter()
        .zip(&snapshot.ports)
        .map(|(name, port)| json!({ "port": name, "received": port.received, "sent": port.sent }))
        .collect();
    json!({
        "entered": accounting.entered,
        "originated": accounting.originated,
        "injected": accounting.injected,
        "left": accounting.left,
        "local": accounting.local.total(),
        "punted": punted(&accounting.local),
        "control": accounting.control.total(),
        "punted_to_control": punted_to_control(&accounting.control),
        "kept": accounting.kept,
        "dropped": accounting.drops.total(),
        "balance": accounting.balance(),
        "batches": snapshot.batches,
        "sleeps": snapshot.sleeps,
        "withheld": snapshot.withheld,
        "panics": snapshot.panics,
        "damaged": snapshot.damaged,
        "ports": ports,
        "drops": drops(snapshot, names),
    })
}

/// Frames for this machine, by reason.
fn punted(punts: &Punts) -> Value {
    let occurred = punts.by_reason().filter(|(_, frames)| *frames > 0);
    Value::Object(occurred.map(|(punt, frames)| (punt.name().to_string(), frames.into())).collect())
}

/// Frames for the control program, by reason.
fn punted_to_control(counts: &PuntCounts) -> Value {
    let occurred = counts.by_reason().filter(|(_, frames)| *frames > 0);
    Value::Object(occurred.map(|(reason, frames)| (reason.name().to_string(), frames.into())).collect())
}

/// Dropped frames by reason; drops of a port have its name in front.
pub(crate) fn drops(snapshot: &Snapshot, names: &[String]) -> Value {
    let plane =
        snapshot.accounting.drops.occurred().map(|(reason, frames)| (reason.name().to_string(), frames));
    let ports = names.iter().zip(&snapshot.ports).flat_map(|(name, port)| {
        let lost = port.drops.iter().filter(|drops| drops.frames > 0);
        lost.map(move |drops| (format!("{name}: {}", drops.name), drops.frames))
    });
    Value::Object(plane.chain(ports).map(|(name, frames)| (name, frames.into())).collect::<Map<_, _>>())
}

/// Fast path: frames by port, and the reasons why frames went to the plane.
pub(crate) fn fast(state: Option<&FastState>, names: &[String]) -> Value {
    let Some(FastState { on, entries, counts }) = state else {
        return json!({ "fast": "off: write run(fast on) in the node's file" });
    };
    let ports = names.iter().zip(counts.received.iter().zip(&counts.sent));
    let ports =
        ports.map(|(name, (received, sent))| json!({ "port": name, "received": received, "sent": sent }));
    let punts = counts.punts.iter().filter(|(_, frames)| *frames > 0);
    let punts = punts.map(|(reason, frames)| (reason.to_string(), (*frames).into()));
    json!({
        "fast": if *on { "on" } else { "waiting: not all ports take frames that are redirected to them" },
        "entries": entries,
        "frames": counts.received.iter().sum::<u64>(),
        "ports": ports.collect::<Vec<_>>(),
        "to the node": Value::Object(punts.collect::<Map<_, _>>()),
    })
}

/// Counters of the queues, by stage and direction.
pub(crate) fn queues(queues: &[QueueCounts]) -> Value {
    let of = |queue: &QueueCounts| {
        json!({
            "stage": queue.stage,
            "direction": direction(queue.dir),
            "aqm": queue.aqm,
            "bits_per_s": queue.bits_per_s,
            "limit_bytes": queue.limit_bytes,
            "backlog_frames": queue.backlog.0,
            "backlog_bytes": queue.backlog.1,
            "sent_frames": queue.sent.0,
            "sent_bytes": queue.sent.1,
            "marked": queue.marked,
            "dropped": queue.dropped,
            "delayed": queue.behind.map(|(delayed, _)| delayed),
            "lost": queue.behind.map(|(_, lost)| lost),
            "late_ns_p50": queue.late.percentile(0.5),
            "late_ns_p99": queue.late.percentile(0.99),
            "late_ns_max": queue.late.percentile(1.0),
        })
    };
    json!({ "queues": queues.iter().map(of).collect::<Vec<_>>() })
}

/// Counters of the policers, by stage, profile, class and direction.
pub(crate) fn police(rates: &[PoliceCounts]) -> Value {
    let of = |rate: &PoliceCounts| {
        json!({
            "stage": rate.stage,
            "profile": rate.profile,
            "class": rate.class,
            "direction": direction(rate.dir),
            "bits_per_s": rate.bits_per_s,
            "burst_bytes": rate.burst_bytes,
            "subscribers": rate.subscribers,
            "displaced": rate.displaced,
            "passed_frames": rate.passed.0,
            "passed_bytes": rate.passed.1,
            "dropped": rate.dropped,
        })
    };
    json!({ "police": rates.iter().map(of).collect::<Vec<_>>() })
}

fn direction(dir: Dir) -> &'static str {
    match dir {
        Dir::Outward => "outward",
        Dir::Inward => "inward",
    }
}

/// An event of a NAT; `began` is the start of the node's time, `lost` the number of lost events so far.
pub(crate) fn event(event: &Event, began: SystemTime, lost: u64) -> Value {
    let at = began.duration_since(UNIX_EPOCH).unwrap_or_default() + Duration::from_nanos(event.at.ns());
    let name = match event.kind {
        EventKind::SessionCreated => "NAT44 session create",
        EventKind::SessionDeleted => "NAT44 session delete",
        EventKind::PortsExhausted => "NAT ports exhausted",
        EventKind::QuotaExceeded => "quota exceeded",
        EventKind::BlockAllocated => "NAT port block allocation",
        EventKind::BlockReleased => "NAT port block de-allocation",
    };
    json!({
        "at_s": at.as_secs_f64(),
        "nat_event": event.kind as u8,
        "event": name,
        "inside": address_of(event.inside).to_string(),
        "outside": Ipv4Addr::from(event.outside).to_string(),
        "first_port": event.ports.0,
        "last_port": event.ports.1,
        "proto": event.proto,
        "lost": lost,
    })
}

/// JSON as text: a line for each number, lists indented.
pub fn text(value: &Value) -> String {
    let mut text = String::new();
    lines(value, 0, &mut text);
    // Names in it come from a user's file, and may hold control characters.
    weir_config::plain(&text).into_owned()
}

fn lines(value: &Value, depth: usize, text: &mut String) {
    let indent = "  ".repeat(depth);
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                match value {
                    Value::Object(inner) if inner.is_empty() => {}
                    Value::Array(inner) if inner.is_empty() => {}
                    Value::Object(_) | Value::Array(_) => {
                        *text += &format!("{indent}{key}\n");
                        lines(value, depth + 1, text);
                    }
                    _ => *text += &format!("{indent}{key:24} {}\n", plain(value)),
                }
            }
        }
        Value::Array(list) => {
            for value in list {
                match value {
                    Value::Object(map) => {
                        let words = map.iter().map(|(key, value)| format!("{key} {}", plain(value)));
                        *text += &format!("{indent}{}\n", words.collect::<Vec<_>>().join(", "));
                    }
                    _ => *text += &format!("{indent}{}\n", plain(value)),
                }
            }
        }
        _ => *text += &format!("{indent}{}\n", plain(value)),
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_string)
}

/// A page of counters.
pub(crate) fn prometheus(threads: &[Snapshot], names: &[String]) -> String {
    let snapshot = Snapshot::sum(threads);
    let accounting = &snapshot.accounting;
    let mut page = String::new();
    let places = [
        ("entered", accounting.entered),
        ("originated", accounting.originated),
        ("injected", accounting.injected),
        ("left", accounting.left),
        ("local", accounting.local.total()),
        ("control", accounting.control.total()),
        ("dropped", accounting.drops.total()),
    ];
    let places = places.into_iter().map(|(place, frames)| (format!("place=\"{place}\""), frames));
    metric(&mut page, "node_frames_total", "Frames by outcome", places);
    let control = accounting.control.by_reason().filter(|(_, frames)| *frames > 0);
    let control = control.map(|(reason, frames)| (format!("reason=\"{}\"", reason.name()), frames));
    metric(&mut page, "node_punts_total", "Frames punted to the control program, by reason", control);
    let drops =
        accounting.drops.occurred().map(|(reason, frames)| (format!("reason=\"{}\"", reason.name()), frames));
    metric(&mut page, "node_drops_total", "Dropped frames by reason", drops);
    let ports = names.iter().zip(&snapshot.ports).flat_map(|(name, port)| {
        let name = quoted(name);
        let label = |way: &str| format!("port=\"{name}\",direction=\"{way}\"");
        [(label("received"), port.received), (label("sent"), port.sent)]
    });
    metric(&mut page, "node_port_frames_total", "Frames of each port", ports);
    let lost = names.iter().zip(&snapshot.ports).flat_map(|(name, port)| {
        let name = quoted(name);
        port.drops
            .iter()
            .map(move |drops| (format!("port=\"{name}\",place=\"{}\"", drops.name), drops.frames))
    });
    metric(&mut page, "node_port_drops_total", "Frames that a port lost, by place", lost);
    let threads = threads.iter().enumerate().flat_map(|(n, thread)| {
        let Accounting { entered, taken, left, handed, drops, .. } = &thread.accounting;
        let places = [
            ("entered", *entered),
            ("taken", *taken),
            ("left", *left),
            ("handed", *handed),
            ("dropped", drops.total()),
        ];
        places.map(|(place, frames)| (format!("thread=\"{n}\",place=\"{place}\""), frames))
    });
    let help = "Frames of each thread; handed: passed to another thread, taken: received from another thread";
    metric(&mut page, "node_thread_frames_total", help, threads);
    page
}

/// Counts of unwritten events and blocks, shared between threads.
#[derive(Debug, Default)]
pub(crate) struct Unwritten {
    /// Lost events in total.
    pub(crate) events: AtomicU64,
    /// Changes of port blocks that wait for the disk.
    pub(crate) blocks: AtomicU64,
}

/// Unwritten events and blocks, as counters.
pub(crate) fn unwritten(unwritten: &Unwritten) -> String {
    let mut page = String::new();
    let events = [(String::new(), unwritten.events.load(Ordering::Relaxed))];
    metric(&mut page, "node_events_lost_total", "Lost events of NATs", events.into_iter());
    let blocks = unwritten.blocks.load(Ordering::Relaxed);
    page += "# HELP weir_node_blocks_waiting Changes of port blocks that wait for the disk\n";
    page += &format!("# TYPE weir_node_blocks_waiting gauge\nweir_node_blocks_waiting {blocks}\n");
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_lines() {
        let names = ["lan".to_string()];
        let port = weir_node::PortCounts { received: 7, sent: 5, ..weir_node::PortCounts::default() };
        let snapshot = Snapshot { ports: vec![port], ..Snapshot::default() };
        let one = std::slice::from_ref(&snapshot);
        let value = counters(one, &names);
        assert_eq!(value.get("threads"), None);
        let text = text(&value);
        assert!(text.contains("entered                  0\n"), "{text}");
        assert!(text.contains("ports\n  port lan, received 7, sent 5\n"), "{text}");
        let page = prometheus(one, &names);
        let line = "weir_node_port_frames_total{port=\"lan\",direction=\"received\"} 7";
        assert!(page.lines().any(|found| found == line), "{page}");
        let lost = Unwritten::default();
        lost.events.store(3, Ordering::Relaxed);
        lost.blocks.store(4, Ordering::Relaxed);
        let page = unwritten(&lost);
        for line in ["weir_node_events_lost_total 3", "weir_node_blocks_waiting 4"] {
            assert!(page.lines().any(|found| found == line), "{page}");
        }
        let two = [snapshot.clone(), snapshot];
        let value = counters(&two, &names);
        assert_eq!((&value["ports"][0]["received"], &value["threads"][1]["thread"]), (&json!(14), &json!(1)));
        assert!(
            prometheus(&two, &names).contains("node_thread_frames_total{thread=\"1\",place=\"taken\"} 0")
        );
    }

    #[test]
    fn what_a_name_does_to_a_terminal_is_shown() {
        let value = json!({ "routes": ["198.18.0.0/15 on lan\u{1b}[2J"], "a\u{9b}b": 1 });
        let text = text(&value);
        assert!(text.contains(r"on lan\u{1b}[2J") && text.contains(r"a\u{9b}b"), "{text}");
    }
}
