//! What a node that runs can be asked, and its answers: plain structs, which programs get as JSON.
//!
//! Large tables are answered a page at a time. A page costs a bounded time, whatever the table has: what was asked for may begin on a
//! later page, so that a page may be short or empty and still name the place where the next one goes on. An entry that is added or
//! removed between two pages may be missing, or appear twice.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_plane::{
    Cursor, ForwardEntry, GroupState, LabelCounts, NeighbourState, OneToOneEntry, PoliceCounts, Prefix,
    QueueState, RouteEntry, RuleCount, SessionRecord, SubscriberCount, SubscriberState,
};

use crate::counters::Snapshot;

/// A question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Query {
    /// The frame accounting: total, per port, per thread.
    Counters,
    /// Dropped frames by reason.
    Drops,
    /// Its ports.
    Ports,
    /// Mappings and sessions of NATs, connections of filters.
    Sessions(SessionsQuery),
    /// Routes.
    Routes(RoutesQuery),
    /// Hosts on the links of the ports.
    Neighbours(NeighboursQuery),
    /// Sessions of subscribers.
    Subscribers(SubscribersQuery),
    /// What sessions of subscribers had counted when they were removed.
    RemovedSubscribers(RemovedSubscribersQuery),
    /// Sessions of subscribers that the node has ended itself, and what they had counted.
    EndedSubscribers(EndedSubscribersQuery),
    /// What sessions of subscribers have counted, without the rest of each.
    SubscriberCounts(SubscribersQuery),
    /// What sessions of subscribers have counted, by plan and group.
    Plans,
    /// Ports and groups of subscribers that share a rate: their queues.
    Groups,
    /// Port forwards.
    Forwards(ForwardsQuery),
    /// One-to-one addresses.
    OneToOne(OneToOneQuery),
    /// Rules of the filters, and what they held for.
    Rules,
    /// Queues.
    Queues,
    /// Policers.
    Police,
    /// Frames that rules have logged since this was last asked for.
    Log,
    /// Flows that XDP programs forward.
    Fast,
}

/// Which sessions.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SessionsQuery {
    /// Where the page begins: `next` of the one before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<SessionsCursor>,
    /// Sessions of a page at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub most: Option<u32>,
    /// Sessions with an end at this address alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
}

/// The place in the sessions of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct SessionsCursor {
    /// The thread.
    pub(crate) thread: usize,
    /// The place in its tables.
    pub(crate) at: Cursor,
}

/// Which routes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RoutesQuery {
    /// The last prefix of the page before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Prefix>,
    /// Routes of a page at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub most: Option<u32>,
    /// Routes to this network and to parts of it alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub within: Option<Prefix>,
}

/// Which neighbours.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NeighboursQuery {
    /// Where the page begins: `next` of the one before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<u32>,
    /// Neighbours at this port alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<String>,
}

/// Which sessions of subscribers.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SubscribersQuery {
    /// Where the page begins: `next` of the one before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<u32>,
    /// Sessions of a page at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub most: Option<u32>,
}

/// Which sessions of subscribers that were removed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RemovedSubscribersQuery {
    /// Their numbers.
    pub sessions: Vec<u64>,
}

/// Which sessions of subscribers that the node has ended itself.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EndedSubscribersQuery {
    /// The answer begins behind this session: `next` of the page before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
    /// Sessions of a page at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub most: Option<u32>,
}

/// Which port forwards.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ForwardsQuery {
    /// The last forward of the page before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<ForwardEntry>,
    /// Forwards of a page at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub most: Option<u32>,
}

/// Which one-to-one addresses.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct OneToOneQuery {
    /// The last one of the page before: its stage and public address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<(usize, Ipv4Addr)>,
    /// Addresses of a page at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub most: Option<u32>,
}

/// An answer; its form follows from the question.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
#[expect(missing_docs, reason = "each says what it is")]
pub enum Answer {
    Counters(Counters),
    Drops(BTreeMap<String, u64>),
    Ports(Ports),
    Sessions(Sessions),
    Routes(Routes),
    Neighbours(Neighbours),
    Subscribers(Subscribers),
    RemovedSubscribers(RemovedSubscribers),
    EndedSubscribers(EndedSubscribers),
    SubscriberCounts(SubscriberCounts),
    Plans(Plans),
    Groups(Groups),
    Forwards(Forwards),
    OneToOne(OneToOne),
    Rules(Rules),
    Queues(Queues),
    Police(Police),
    Log(Log),
    Fast(Fast),
}

/// The frame accounting of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Counters {
    /// Frames that came in by a port.
    pub entered: u64,
    /// Frames that the node has made itself.
    pub originated: u64,
    /// Frames that the control program has had enter.
    pub injected: u64,
    /// Frames that left by a port.
    pub left: u64,
    /// Frames for the machine that the node runs on.
    pub local: u64,
    /// These by reason.
    pub punted: BTreeMap<String, u64>,
    /// Frames for the control program.
    pub control: u64,
    /// These by reason.
    pub punted_to_control: BTreeMap<String, u64>,
    /// Frames that wait inside.
    pub kept: u64,
    /// Frames that were dropped.
    pub dropped: u64,
    /// Whether entered + originated + injected is the sum of all others.
    pub balance: bool,
    /// Batches that have passed.
    pub batches: u64,
    /// How often a thread slept.
    pub sleeps: u64,
    /// Frames of the node's own for which there was no memory.
    pub withheld: u64,
    /// Panics of the node, after each of which it went on.
    pub panics: u64,
    /// Rings of control programs that had what no such program writes.
    pub damaged: u64,
    /// By port.
    pub ports: Vec<PortCounters>,
    /// Dropped frames by reason; those that a port lost have its name in front.
    pub drops: BTreeMap<String, u64>,
    /// By thread, if there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub threads: Vec<ThreadCounters>,
}

/// Frames of a port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PortCounters {
    /// Its name.
    pub port: String,
    /// Frames received.
    pub received: u64,
    /// Frames sent.
    pub sent: u64,
}

/// The accounting of a thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ThreadCounters {
    /// Its number, from 0.
    pub thread: usize,
    /// Frames that came in by its part of a port.
    pub entered: u64,
    /// Frames that it has made itself.
    pub originated: u64,
    /// Frames that the control program has had enter.
    pub injected: u64,
    /// Frames that other threads have handed over to it.
    pub taken: u64,
    /// Frames that left.
    pub left: u64,
    /// Frames for the machine.
    pub local: u64,
    /// Frames for the control program.
    pub control: u64,
    /// Frames that wait inside.
    pub kept: u64,
    /// Frames that it has handed over to other threads.
    pub handed: u64,
    /// Frames that were dropped.
    pub dropped: u64,
    /// Whether entered + originated + taken is the sum of all others.
    pub balance: bool,
    /// Batches that have passed.
    pub batches: u64,
    /// How often it slept.
    pub sleeps: u64,
    /// News about neighbours for which another thread had no room.
    pub unheard: u64,
}

/// The ports of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ports {
    /// In the order of the text.
    pub ports: Vec<PortState>,
}

/// A port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PortState {
    /// Its number, by which punted frames name it.
    pub number: usize,
    /// Its name.
    pub port: String,
    /// Whether it is of the left end.
    pub left: bool,
    /// Where frames come and go: an interface with its method, a TAP device, files.
    pub on: String,
    /// Its addresses with their networks.
    pub addresses: Vec<Prefix>,
    /// Its Ethernet address.
    pub mac: String,
    /// The longest packet, in bytes.
    pub mtu: u16,
    /// Whether its interface has a carrier; true where that is not known.
    pub up: bool,
}

/// A page of sessions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Sessions {
    /// How many there are in all.
    pub live: u64,
    /// Those of the page.
    pub sessions: Vec<SessionRecord>,
    /// Where the next page begins; none: this was the last.
    pub next: Option<SessionsCursor>,
}

/// A page of routes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Routes {
    /// How many there are in all.
    pub total: u64,
    /// Those of the page, in order of their prefixes.
    pub routes: Vec<RouteEntry>,
    /// Where the next page begins; none: this was the last.
    pub next: Option<Prefix>,
}

/// A page of neighbours.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Neighbours {
    /// Those of the page.
    pub neighbours: Vec<NeighbourState>,
    /// Where the next page begins; none: this was the last.
    pub next: Option<u32>,
}

/// A page of sessions of subscribers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Subscribers {
    /// Those of the page.
    pub subscribers: Vec<SubscriberState>,
    /// Where the next page begins; none: this was the last.
    pub next: Option<u32>,
}

/// Sessions of subscribers that were removed: a node remembers the last 65,536.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RemovedSubscribers {
    /// Those that were asked for, but for the forgotten ones.
    pub removed: Vec<SubscriberCount>,
}

/// A page of sessions of subscribers that the node has ended itself, since their access ports had no link: the last 65,536.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EndedSubscribers {
    /// Those of the page, by their numbers, and what they had counted.
    pub ended: Vec<SubscriberCount>,
    /// Where the next page begins; none: this was the last.
    pub next: Option<u64>,
}

/// A page of what sessions of subscribers have counted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SubscriberCounts {
    /// Those of the page.
    pub counts: Vec<SubscriberCount>,
    /// Where the next page begins; none: this was the last.
    pub next: Option<u32>,
}

/// Counters by plan and group of subscribers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Plans {
    /// By pair of plan and group.
    pub plans: Vec<LabelCounts>,
}

/// Ports and groups of subscribers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Groups {
    /// Access ports, and the groups behind them, in the order of the text.
    pub groups: Vec<GroupState>,
}

/// A page of port forwards.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Forwards {
    /// Those of the page.
    pub forwards: Vec<ForwardEntry>,
    /// Where the next page begins; none: this was the last.
    pub next: Option<ForwardEntry>,
}

/// A page of one-to-one addresses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OneToOne {
    /// Those of the page.
    pub one_to_one: Vec<OneToOneEntry>,
    /// Where the next page begins; none: this was the last.
    pub next: Option<(usize, Ipv4Addr)>,
}

/// All rules.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Rules {
    /// In the order of the text; each filter ends with its policy.
    pub rules: Vec<RuleCount>,
}

/// All queues.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Queues {
    /// By stage and direction.
    pub queues: Vec<QueueState>,
}

/// All policers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Police {
    /// By stage, profile, class and direction.
    pub police: Vec<PoliceCounts>,
}

/// Frames that rules have logged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Log {
    /// Each with the time since the node began, its ends, and the rule.
    pub log: Vec<String>,
}

/// The fast path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Fast {
    /// `on`, or why it is not.
    pub fast: String,
    /// Flows that there are entries for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entries: Option<u64>,
    /// Frames that were forwarded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frames: Option<u64>,
    /// These by port.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<PortCounters>,
    /// Frames that came to the node, by reason.
    #[serde(default, rename = "to the node", skip_serializing_if = "BTreeMap::is_empty")]
    pub to_the_node: BTreeMap<String, u64>,
}

impl Counters {
    /// The counters of the threads of a node with ports of these names.
    pub fn of(threads: &[Snapshot], names: &[String]) -> Counters {
        let snapshot = Snapshot::sum(threads);
        let accounting = &snapshot.accounting;
        let punted = accounting.local.by_reason().filter(|(_, frames)| *frames > 0);
        let to_control = accounting.control.by_reason().filter(|(_, frames)| *frames > 0);
        let port = |(name, port): (&String, &crate::PortCounts)| PortCounters {
            port: name.clone(),
            received: port.received,
            sent: port.sent,
        };
        let of_threads = threads.iter().enumerate().map(|(n, snapshot)| ThreadCounters::of(n, snapshot));
        Counters {
            entered: accounting.entered,
            originated: accounting.originated,
            left: accounting.left,
            local: accounting.local.total(),
            injected: accounting.injected,
            control: accounting.control.total(),
            punted_to_control: to_control
                .map(|(reason, frames)| (reason.name().to_string(), frames))
                .collect(),
            punted: punted.map(|(punt, frames)| (punt.name().to_string(), frames)).collect(),
            kept: accounting.kept,
            dropped: accounting.drops.total(),
            balance: accounting.balance(),
            batches: snapshot.batches,
            sleeps: snapshot.sleeps,
            withheld: snapshot.withheld,
            panics: snapshot.panics,
            damaged: snapshot.damaged,
            ports: present(names, &snapshot).map(port).collect(),
            drops: drops(&snapshot, names),
            threads: if threads.len() > 1 { of_threads.collect() } else { Vec::new() },
        }
    }
}

impl ThreadCounters {
    fn of(thread: usize, snapshot: &Snapshot) -> ThreadCounters {
        let accounting = &snapshot.accounting;
        ThreadCounters {
            thread,
            entered: accounting.entered,
            originated: accounting.originated,
            injected: accounting.injected,
            control: accounting.control.total(),
            taken: accounting.taken,
            left: accounting.left,
            local: accounting.local.total(),
            kept: accounting.kept,
            handed: accounting.handed,
            dropped: accounting.drops.total(),
            balance: accounting.balance(),
            batches: snapshot.batches,
            sleeps: snapshot.sleeps,
            unheard: snapshot.unheard,
        }
    }
}

/// The ports that there are, with their names.
fn present<'a>(
    names: &'a [String],
    snapshot: &'a Snapshot,
) -> impl Iterator<Item = (&'a String, &'a crate::PortCounts)> {
    names.iter().zip(&snapshot.ports).filter(|(name, _)| !name.is_empty())
}

/// Dropped frames by reason; drops of a port have its name in front.
pub(crate) fn drops(snapshot: &Snapshot, names: &[String]) -> BTreeMap<String, u64> {
    let plane =
        snapshot.accounting.drops.occurred().map(|(reason, frames)| (reason.name().to_string(), frames));
    let ports = present(names, snapshot).flat_map(|(name, port)| {
        let lost = port.drops.iter().filter(|drops| drops.frames > 0);
        lost.map(move |drops| (format!("{name}: {}", drops.name), drops.frames))
    });
    plane.chain(ports).collect()
}
