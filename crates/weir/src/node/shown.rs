//! The text of `weir node show`: rules as `nft -a list ruleset` prints them, counters as `tc -s` does. All other tables are the
//! JSON, line by line.
//!
//! ```text
//! port lan
//!  Received 1000 frames, sent 990 (dropped 3: ring full 3)
//! ```

use std::time::{SystemTime, UNIX_EPOCH};

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use weir_config::rate::Rate;
use weir_node::PortState;
use weir_plane::{
    AccessState, ClassCount, ForwardEntry, GroupState, LabelCounts, NeighbourState, OneToOneEntry,
    QueueFigures, RouteEntry, SessionRecord, SubscriberEntry, Transport,
};

use super::subscribers::Figures;
use crate::cli::Shown;
use weir_control::reported;

/// An answer of a node, for a terminal.
pub(super) fn text(what: Shown, answer: &Value) -> String {
    let text = match (what, answer) {
        (Shown::Counters, Value::Object(counters)) => counted(counters),
        (Shown::Drops, Value::Object(drops)) => dropped(drops),
        (Shown::Rules, Value::Object(shown)) => rules(shown),
        (Shown::Queues, Value::Object(shown)) => queues(shown),
        (Shown::Police, Value::Object(shown)) => police(shown),
        (Shown::Sessions, Value::Object(shown)) => sessions(shown),
        (Shown::Routes, Value::Object(shown)) => {
            let route = |route: RouteEntry| route.to_string();
            records(shown, "routes", "the node has no routes", route)
        }
        (Shown::Ports, Value::Object(shown)) => records(shown, "ports", "the node has no ports", port),
        (Shown::Neighbours, Value::Object(shown)) => {
            records(shown, "neighbours", "the node knows no neighbours", neighbour)
        }
        (Shown::Subscribers, Value::Object(shown)) => {
            records(shown, "subscribers", "the node has no sessions of subscribers", subscriber)
        }
        (Shown::Plans, Value::Object(shown)) => {
            records(shown, "plans", "the node has no sessions of subscribers", plan)
        }
        (Shown::Groups, Value::Object(shown)) => {
            records(shown, "groups", "the node has no access ports", group)
        }
        (Shown::Forwards, Value::Object(shown)) => {
            records(shown, "forwards", "the node has no port forwards", forward)
        }
        (Shown::OneToOne, Value::Object(shown)) => {
            let pair = |one: OneToOneEntry| format!("nat {} {} to {}", one.stage, one.outside, one.inside);
            records(shown, "one_to_one", "the node has no one-to-one addresses", pair)
        }
        _ => return reported::text(answer),
    };
    // Names in it come from a user's file, and may hold control characters.
    weir_config::plain(&text).into_owned()
}

/// How many sessions there are, and those that are listed.
fn sessions(shown: &Map<String, Value>) -> String {
    let session = |session: SessionRecord| session.to_string();
    let listed = records(shown, "sessions", "none are listed", session);
    format!("{} sessions\n{listed}", number(shown.get("live")))
}

/// The records of a list, a line each, and how many are left out.
fn records<T: DeserializeOwned>(
    shown: &Map<String, Value>,
    name: &str,
    none: &str,
    line: impl Fn(T) -> String,
) -> String {
    let all = list(shown, name);
    let read = |value: &Value| serde_json::from_value(value.clone()).ok();
    let mut text: String = all.iter().filter_map(|one| read(one)).map(|one| line(one) + "\n").collect();
    if all.is_empty() {
        text += &format!("{none}\n");
    }
    match number(shown.get("left_out")) {
        0 => text,
        more => text + &format!("and {more} more: --limit says how many are listed\n"),
    }
}

fn port(port: PortState) -> String {
    let end = if port.left { "left" } else { "right" };
    let addresses: String = port.addresses.iter().map(|address| format!(" {address}")).collect();
    format!("{} {end} on {} {} mtu {}{addresses}", port.port, port.on, port.mac, port.mtu)
}

/// As `ip neighbour` does.
fn neighbour(host: NeighbourState) -> String {
    let mac = host.mac.map_or_else(String::new, |mac| format!(" lladdr {mac}"));
    format!("{} dev {}{mac} {}", host.address, host.port, host.state)
}

/// `session 7 access1 100.7 02:00:00:00:00:01 100.64.0.2/32 from 9 frames 800 bytes, to 9 frames 800 bytes`.
fn subscriber(Figures { state, now_bits_per_s }: Figures) -> String {
    let SubscriberEntry { session, port, tags, mac, prefixes, state: is, plan, group, pppoe_session, .. } =
        state.entry;
    let pppoe: String = pppoe_session.into_iter().map(|id| format!(" pppoe {id}")).collect();
    let dead = if state.is_dead { " dead" } else { "" };
    let plan: String = plan.into_iter().map(|name| format!(" plan {name}")).collect();
    let group: String = group.into_iter().map(|name| format!(" group {name}")).collect();
    let is = if is == AccessState::Active { String::new() } else { format!(" {is}") };
    let prefixes: String = prefixes.iter().map(|prefix| format!(" {prefix}")).collect();
    let seen = state.last_seen_s.map(|at_s| format!(", last seen {} s ago", now_s().saturating_sub(at_s)));
    let seen = seen.unwrap_or_default();
    let now: String = now_bits_per_s.map_or_else(String::new, |[from, to]| {
        format!(", now from {} to {}", Rate::BitsPerS(from as f64), Rate::BitsPerS(to as f64))
    });
    format!(
        "session {session} {port} {tags} {mac}{pppoe}{prefixes}{plan}{group}{is}{dead} from {} frames {} bytes, to {} frames {} bytes{seen}{now}",
        state.from_frames, state.from_bytes, state.to_frames, state.to_bytes
    ) + &queue(" from", &state.from_queue, true)
        + &queue(" to", &state.to_queue, true)
}

/// Of the clock of this machine, s since 1970.
fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

/// What waits for a rate, where any frame had to: a line.
fn queue(direction: &str, queue: &QueueFigures, of_one: bool) -> String {
    let QueueFigures { backlog_frames, backlog_bytes, marked, dropped, .. } = queue;
    let (Some(p50), Some(p99)) = (queue.delay_us(0.5), queue.delay_us(0.99)) else {
        return match backlog_frames + dropped {
            0 => String::new(),
            _ => format!(
                "\n{direction} backlog {backlog_bytes} bytes {backlog_frames} frames dropped {dropped}"
            ),
        };
    };
    let (plan, parent) = (queue.limited_by_plan_ms, queue.limited_by_parent_ms);
    let limited =
        if of_one { format!(" limited by plan {plan} ms by group {parent} ms") } else { String::new() };
    format!(
        "\n{direction} backlog {backlog_bytes} bytes {backlog_frames} frames marked {marked} dropped {dropped} delay p50 {p50} us p99 {p99} us{limited}"
    )
}

/// `group olt7 access1 in north: from no limit, to 400000000 bits/s, sent 9 frames 800 bytes` and a line for each direction.
fn group(state: GroupState) -> String {
    let within: String = state.within.iter().map(|name| format!(" in {name}")).collect();
    let name = state.group.map_or_else(|| "port".to_string(), |name| format!("group {name}"));
    let side = |rate: Option<u64>, (frames, bytes): (u64, u64)| {
        let rate = rate.map_or_else(|| "no limit".to_string(), |bits| format!("{bits} bits/s"));
        format!("{rate}, {frames} frames {bytes} bytes")
    };
    let (from, to) = (side(state.from_bits_per_s, state.from_sent), side(state.to_bits_per_s, state.to_sent));
    format!("{name} {}{within}: from {from}; to {to}", state.port)
        + &queue(" from", &state.from_queue, false)
        + &queue(" to", &state.to_queue, false)
}

/// `plan gold group west: 2 sessions` and a line for each direction, family and class.
fn plan(of: LabelCounts) -> String {
    let name = |name: Option<String>| name.unwrap_or_else(|| "-".into());
    let mut text = format!("plan {} group {}: {} sessions", name(of.plan), name(of.group), of.sessions);
    for ClassCount { direction, ip, class, frames, bytes } in of.classes {
        text += &format!("\n{direction} ip {ip} class {class}: {bytes} bytes {frames} frames");
    }
    text
}

fn forward(forward: ForwardEntry) -> String {
    let ForwardEntry { stage, proto, outside, inside } = forward;
    let proto = match proto {
        Transport::Tcp => "tcp",
        Transport::Udp => "udp",
    };
    format!("nat {stage} {proto} {outside} to {inside}")
}

fn counted(counters: &Map<String, Value>) -> String {
    let of = |name: &str| number(counters.get(name));
    let drops = counters.get("drops").and_then(Value::as_object);
    let is_port = |name: &str, port: &str| name.strip_prefix(port).is_some_and(|rest| rest.starts_with(": "));
    let ports = list(counters, "ports");
    let name = |port: &Value| port["port"].as_str().unwrap_or_default().to_string();
    let own =
        drops.into_iter().flatten().filter(|(reason, _)| !ports.iter().any(|p| is_port(reason, &name(p))));
    let punted = counters.get("punted").and_then(Value::as_object).into_iter().flatten();
    let balance = match counters.get("balance").and_then(Value::as_bool) {
        Some(true) => "every frame is accounted for",
        _ => "frames are missing in the accounting: please report this",
    };
    let punted: Vec<(String, u64)> = punted.map(|(reason, n)| (reason.clone(), number(Some(n)))).collect();
    let mut text = format!(
        "node: {balance}\n Entered {} frames, left {}, for this machine {}{}, originated {}, kept {}\n{}",
        of("entered"),
        of("left"),
        of("local"),
        in_parentheses(punted),
        of("originated"),
        of("kept"),
        with_reasons(" Dropped", of("dropped"), own.map(|(reason, n)| (reason.clone(), number(Some(n)))))
    );
    if of("control") + of("injected") > 0 {
        let reasons = counters.get("punted_to_control").and_then(Value::as_object).into_iter().flatten();
        let reasons = reasons.map(|(reason, n)| (reason.clone(), number(Some(n)))).collect();
        let (control, reasons, injected) = (of("control"), in_parentheses(reasons), of("injected"));
        text += &format!(" For the control program {control}{reasons}, injected {injected}\n");
    }
    text += &format!(" batches {}, sleeps {}", of("batches"), of("sleeps"));
    let rare = ["withheld", "panics", "damaged"].map(|name| (name, of(name)));
    rare.iter().filter(|(_, n)| *n > 0).for_each(|(name, n)| text += &format!(", {name} {n}"));
    text.push('\n');
    for port in &ports {
        let name = name(port);
        let lost = drops.into_iter().flatten().filter(|(reason, _)| is_port(reason, &name));
        let lost: Vec<_> =
            lost.map(|(reason, n)| (reason[name.len() + 2..].to_string(), number(Some(n)))).collect();
        let (received, sent) = (number(port.get("received")), number(port.get("sent")));
        text += &format!("port {name}\n Received {received} frames, sent {sent}\n");
        let sum = lost.iter().map(|(_, n)| n).sum();
        text += &with_reasons(" Dropped", sum, lost.into_iter());
    }
    for thread in list(counters, "threads") {
        let of = |name: &str| number(thread.get(name));
        text += &format!(
            "thread {}\n Entered {} frames, from others {}, to others {}, left {}, dropped {}\n",
            of("thread"),
            of("entered"),
            of("taken"),
            of("handed"),
            of("left"),
            of("dropped")
        );
    }
    text
}

/// `Dropped 7 (no_route 4, malformed 3)`; empty if nothing was dropped.
fn with_reasons(name: &str, sum: u64, reasons: impl Iterator<Item = (String, u64)>) -> String {
    match sum {
        0 => String::new(),
        _ => format!("{name} {sum}{}\n", in_parentheses(reasons.collect())),
    }
}

/// ` (no_route 4, malformed 3)`, the most first; empty without reasons.
fn in_parentheses(mut reasons: Vec<(String, u64)>) -> String {
    reasons.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    let reasons: Vec<String> = reasons.iter().map(|(reason, n)| format!("{reason} {n}")).collect();
    if reasons.is_empty() { String::new() } else { format!(" ({})", reasons.join(", ")) }
}

fn dropped(drops: &Map<String, Value>) -> String {
    if drops.is_empty() {
        return "nothing was dropped\n".into();
    }
    let mut drops: Vec<_> = drops.iter().map(|(reason, n)| (number(Some(n)), reason)).collect();
    drops.sort_by_key(|(n, _)| std::cmp::Reverse(*n));
    drops.iter().map(|(n, reason)| format!("{n:>12} {reason}\n")).collect()
}

fn rules(shown: &Map<String, Value>) -> String {
    let rules = list(shown, "rules");
    if rules.is_empty() {
        return "the node has no rules\n".into();
    }
    let line = |(n, rule): (usize, &&Value)| {
        let text = rule["rule"].as_str().unwrap_or_default();
        format!("{text}  counter packets {}  # rule {}\n", number(rule.get("frames")), n + 1)
    };
    rules.iter().enumerate().map(line).collect()
}

/// As `tc -s qdisc show` does.
fn queues(shown: &Map<String, Value>) -> String {
    let queues = list(shown, "queues");
    if queues.is_empty() {
        return "the node has no queues\n".into();
    }
    let one = |queue: &&Value| {
        let of = |name: &str| number(queue.get(name));
        let word = |name: &str| queue[name].as_str().unwrap_or_default().to_string();
        let link = match queue["bits_per_s"].as_u64() {
            Some(0) => format!("{} paused limit {} bytes", word("aqm"), of("limit_bytes")),
            Some(rate) => {
                format!("{} {} limit {} bytes", word("aqm"), Rate::BitsPerS(rate as f64), of("limit_bytes"))
            }
            None => "no limit".into(),
        };
        let behind = match queue["delayed"].as_u64() {
            Some(delayed) => format!(" delayed {delayed} frames (lost {})\n", of("lost")),
            None => String::new(),
        };
        // Older nodes do not report it.
        let late = match queue["late_ns_p99"].as_u64() {
            Some(p99) => {
                let [p50, p99, max] = [of("late_ns_p50"), p99, of("late_ns_max")].map(|ns| ns as f64 / 1e3);
                format!(" late {p50:.1} us at the median, {p99:.1} us at 99 %, {max:.1} us at most\n")
            }
            None => String::new(),
        };
        format!(
            "queue {} {}: {link}\n Sent {} bytes {} frames (dropped {}, marked {})\n backlog {} bytes {} frames\n{behind}{late}",
            of("stage"),
            word("direction"),
            of("sent_bytes"),
            of("sent_frames"),
            of("dropped"),
            of("marked"),
            of("backlog_bytes"),
            of("backlog_frames"),
        )
    };
    queues.iter().map(one).collect()
}

/// As `tc -s filter show` prints policers: one block per rate of a profile.
fn police(shown: &Map<String, Value>) -> String {
    let rates = list(shown, "police");
    if rates.is_empty() {
        return "the node has no policers, or they limit nothing\n".into();
    }
    let one = |rate: &&Value| {
        let of = |name: &str| number(rate.get(name));
        let word = |name: &str| rate[name].as_str().unwrap_or_default().to_string();
        let class = rate["class"].as_u64().map_or_else(String::new, |class| format!(" class {class}"));
        format!(
            "police {} {}{class} {}: {} burst {} bytes\n Passed {} bytes {} frames (dropped {})\n \
             subscribers {} (displaced {})\n",
            of("stage"),
            word("profile"),
            word("direction"),
            Rate::BitsPerS(of("bits_per_s") as f64),
            of("burst_bytes"),
            of("passed_bytes"),
            of("passed_frames"),
            of("dropped"),
            of("subscribers"),
            of("displaced"),
        )
    };
    rates.iter().map(one).collect()
}

/// The list with this name in an answer.
fn list<'a>(answer: &'a Map<String, Value>, name: &str) -> Vec<&'a Value> {
    answer.get(name).and_then(Value::as_array).into_iter().flatten().collect()
}

fn number(value: Option<&Value>) -> u64 {
    value.and_then(Value::as_u64).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn counters_read_like_those_of_tc() {
        let answer = json!({
            "entered": 1000, "originated": 2, "left": 980, "local": 5, "kept": 0, "dropped": 17, "balance": true,
            "punted": { "icmp": 1, "routing": 4 }, "batches": 40, "sleeps": 3, "withheld": 0, "panics": 0,
            "ports": [{ "port": "lan", "received": 1003, "sent": 0 }, { "port": "wan", "received": 0, "sent": 980 }],
            "drops": { "no_route": 5, "nat_no_port": 12, "lan: ring full": 3 },
        });
        assert_eq!(
            text(Shown::Counters, &answer),
            "node: every frame is accounted for\n \
             Entered 1000 frames, left 980, for this machine 5 (routing 4, icmp 1), originated 2, kept 0\n \
             Dropped 17 (nat_no_port 12, no_route 5)\n \
             batches 40, sleeps 3\n\
             port lan\n Received 1003 frames, sent 0\n Dropped 3 (ring full 3)\n\
             port wan\n Received 0 frames, sent 980\n"
        );
        let with_control = json!({
            "balance": true, "entered": 9, "control": 7, "injected": 2, "punted_to_control": { "arp": 3, "dhcp4": 4 }, "damaged": 1,
        });
        let shown = text(Shown::Counters, &with_control);
        assert!(shown.contains("\n For the control program 7 (dhcp4 4, arp 3), injected 2\n"), "{shown}");
        assert!(shown.contains(", damaged 1\n"), "{shown}");
        let missing = text(Shown::Counters, &json!({ "balance": false }));
        assert!(missing.starts_with("node: frames are missing"), "{missing}");
    }

    #[test]
    fn queues_read_like_those_of_tc() {
        let queue = json!({
            "stage": 1, "direction": "outward", "aqm": "fq-codel", "bits_per_s": 20_000_000, "limit_bytes": 250_000,
            "backlog_frames": 2, "backlog_bytes": 2000, "sent_frames": 7, "sent_bytes": 7000, "marked": 1, "dropped": 3,
        });
        assert_eq!(
            text(Shown::Queues, &json!({ "queues": [queue] })),
            "queue 1 outward: fq-codel 20Mbit/s limit 250000 bytes\n \
             Sent 7000 bytes 7 frames (dropped 3, marked 1)\n \
             backlog 2000 bytes 2 frames\n"
        );
        let queue = json!({
            "stage": 2, "direction": "inward", "aqm": "fq-codel", "bits_per_s": null, "limit_bytes": 0,
            "backlog_frames": 0, "backlog_bytes": 0, "sent_frames": 7, "sent_bytes": 7000, "marked": 0, "dropped": 0,
            "delayed": 3, "lost": 1, "late_ns_p50": 100, "late_ns_p99": 12_345, "late_ns_max": 1_000_000,
        });
        assert_eq!(
            text(Shown::Queues, &json!({ "queues": [queue] })),
            "queue 2 inward: no limit\n \
             Sent 7000 bytes 7 frames (dropped 0, marked 0)\n \
             backlog 0 bytes 0 frames\n \
             delayed 3 frames (lost 1)\n \
             late 0.1 us at the median, 12.3 us at 99 %, 1000.0 us at most\n"
        );
        assert_eq!(text(Shown::Queues, &json!({ "queues": [] })), "the node has no queues\n");
    }

    #[test]
    fn policers_read_like_those_of_tc() {
        let rate = json!({
            "stage": 2, "profile": "basic", "class": null, "direction": "outward", "bits_per_s": 20_000_000,
            "burst_bytes": 250_000, "subscribers": 12, "displaced": 0, "passed_frames": 7, "passed_bytes": 7000, "dropped": 3,
        });
        let mut of_class = rate.clone();
        (of_class["class"], of_class["direction"]) = (1.into(), "inward".into());
        assert_eq!(
            text(Shown::Police, &json!({ "police": [rate, of_class] })),
            "police 2 basic outward: 20Mbit/s burst 250000 bytes\n \
             Passed 7000 bytes 7 frames (dropped 3)\n \
             subscribers 12 (displaced 0)\n\
             police 2 basic class 1 inward: 20Mbit/s burst 250000 bytes\n \
             Passed 7000 bytes 7 frames (dropped 3)\n \
             subscribers 12 (displaced 0)\n"
        );
        assert_eq!(
            text(Shown::Police, &json!({ "police": [] })),
            "the node has no policers, or they limit nothing\n"
        );
    }

    #[test]
    fn rules_read_like_those_of_nft() {
        let answer = json!({ "rules": [{ "rule": "tcp dport 22 accept", "frames": 7 }, { "rule": "drop", "frames": 0 }] });
        assert_eq!(
            text(Shown::Rules, &answer),
            "tcp dport 22 accept  counter packets 7  # rule 1\ndrop  counter packets 0  # rule 2\n"
        );
        assert_eq!(text(Shown::Drops, &json!({ "a": 1, "b": 20 })), "          20 b\n           1 a\n");
        assert_eq!(
            text(
                Shown::Routes,
                &json!({ "routes": [{ "prefix": "0.0.0.0/0", "target": { "via": [{ "address": "192.0.2.1" }] } }], "left_out": 2 })
            ),
            "0.0.0.0/0 via 192.0.2.1\nand 2 more: --limit says how many are listed\n"
        );
    }
}
