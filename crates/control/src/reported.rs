//! The output of a node: JSON, text, and Prometheus text format.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use weir_node::{Counters, Snapshot};
use weir_plane::{Accounting, ClassCount, Event, EventKind, LabelCounts, SubscriberEvent, address_of};

use weir_service::prometheus::{metric, quoted};

/// Frame accounting of the node, and of each thread if it has several.
pub fn counters(threads: &[Snapshot], names: &[String]) -> Value {
    serde_json::to_value(Counters::of(threads, names)).expect("plain data")
}

/// A session that the node has ended, since its access port had no link for the grace.
pub(crate) fn session_ended(session: u64) -> Value {
    json!({ "event": "session ended", "session": session, "reason": "link lost" })
}

/// A PPPoE session of a subscriber that has died or come alive.
pub(crate) fn subscriber_event(event: &SubscriberEvent) -> Value {
    let SubscriberEvent { session, is_alive } = *event;
    json!({ "event": if is_alive { "session alive" } else { "session dead" }, "session": session })
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
    let present = || names.iter().zip(&snapshot.ports).filter(|(name, _)| !name.is_empty());
    let ports = present().flat_map(|(name, port)| {
        let name = quoted(name);
        let label = |way: &str| format!("port=\"{name}\",direction=\"{way}\"");
        [(label("received"), port.received), (label("sent"), port.sent)]
    });
    metric(&mut page, "node_port_frames_total", "Frames of each port", ports);
    let lost = present().flat_map(|(name, port)| {
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

/// Counters by plan and group of subscribers; empty for a node without subscribers.
pub(crate) fn plans(plans: &[LabelCounts]) -> String {
    let mut page = String::new();
    if plans.is_empty() {
        return page;
    }
    let label = |of: &LabelCounts| {
        let [plan, group] = [&of.plan, &of.group].map(|name| quoted(name.as_deref().unwrap_or_default()));
        format!("plan=\"{plan}\",group=\"{group}\"")
    };
    let classes = |value: fn(&ClassCount) -> u64| {
        let rows = plans.iter().flat_map(move |of| of.classes.iter().map(move |count| (label(of), count)));
        rows.map(move |(label, count)| {
            let ClassCount { direction, ip, class, .. } = count;
            (format!("{label},direction=\"{direction}\",ip=\"{ip}\",class=\"{class}\""), value(count))
        })
    };
    let help = "Frames from and to subscribers, by plan, group, family and class";
    metric(&mut page, "node_subscriber_frames_total", help, classes(|count| count.frames));
    let help = "Bytes of these frames, without FCS";
    metric(&mut page, "node_subscriber_bytes_total", help, classes(|count| count.bytes));
    page += "# HELP weir_node_subscribers Sessions of subscribers, by plan and group\n# TYPE weir_node_subscribers gauge\n";
    for of in plans {
        page += &format!("weir_node_subscribers{{{}}} {}\n", label(of), of.sessions);
    }
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
    fn plans_are_metrics() {
        let count = ClassCount { direction: "from".into(), ip: 4, class: 3, frames: 7, bytes: 700 };
        let of = LabelCounts { plan: Some("gold".into()), group: None, sessions: 2, classes: vec![count] };
        let page = plans(&[of]);
        for line in [
            "weir_node_subscriber_frames_total{plan=\"gold\",group=\"\",direction=\"from\",ip=\"4\",class=\"3\"} 7",
            "weir_node_subscriber_bytes_total{plan=\"gold\",group=\"\",direction=\"from\",ip=\"4\",class=\"3\"} 700",
            "weir_node_subscribers{plan=\"gold\",group=\"\"} 2",
        ] {
            assert!(page.lines().any(|found| found == line), "{page}");
        }
        assert_eq!(plans(&[]), "");
    }

    #[test]
    fn what_a_name_does_to_a_terminal_is_shown() {
        let value = json!({ "routes": ["198.18.0.0/15 on lan\u{1b}[2J"], "a\u{9b}b": 1 });
        let text = text(&value);
        assert!(text.contains(r"on lan\u{1b}[2J") && text.contains(r"a\u{9b}b"), "{text}");
    }
}
