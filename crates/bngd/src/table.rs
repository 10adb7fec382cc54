//! The node's table of subscribers: sessions as the node has them, and the commands that change them.

use std::collections::HashMap;
use std::net::Ipv4Addr;

use anyhow::Result;
use weir_bng::{
    AddSession, Counters, LinkPrefix, Mac, NO_ADDRESS, Name, Nat, NodeCommand, Rates, Service, SessionId,
    Status, Tags,
};
use weir_plane::{
    AccessState, Command, MacText, NatProfile, Prefix, SubscriberCommand, SubscriberCount, SubscriberEntry,
    SubscriberState,
};

/// A session of the node.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    /// Its number.
    pub(crate) session: u64,
    /// As it was added; left out where only counters are read.
    entry: Option<Box<SubscriberEntry>>,
    /// What it counted since.
    pub(crate) counters: Counters,
    /// Its device does not answer echo requests of LCP any more.
    pub(crate) is_dead: bool,
}

impl From<SubscriberCount> for Row {
    fn from(count: SubscriberCount) -> Row {
        let SubscriberCount { session, is_dead, from_frames, from_bytes, to_frames, to_bytes } = count;
        let counters = Counters {
            down_frames: to_frames,
            down_bytes: to_bytes,
            up_frames: from_frames,
            up_bytes: from_bytes,
        };
        Row { session, entry: None, counters, is_dead }
    }
}

impl From<SubscriberState> for Row {
    fn from(state: SubscriberState) -> Row {
        let SubscriberState { entry, from_frames, from_bytes, to_frames, to_bytes, is_dead, .. } = state;
        let counters = Counters {
            down_frames: to_frames,
            down_bytes: to_bytes,
            up_frames: from_frames,
            up_bytes: from_bytes,
        };
        Row { session: entry.session, entry: Some(Box::new(entry)), counters, is_dead }
    }
}

/// A session that the node has removed, and what it had counted; `None`: the node has forgotten it.
pub(crate) type Removed = (SessionId, Option<Counters>);

/// What sessions had counted that these changes have removed; `ask` asks the node.
pub(crate) fn removed(
    changes: &[NodeCommand],
    ask: impl FnOnce(Vec<u64>) -> Result<Vec<SubscriberCount>>,
) -> Result<Vec<Removed>> {
    let removed = changes.iter().filter_map(|change| match change {
        NodeCommand::RemoveSession { session } => Some(session.0),
        NodeCommand::AddSession(_) => None,
    });
    let removed: Vec<u64> = removed.collect();
    if removed.is_empty() {
        return Ok(Vec::new());
    }
    let one = |count: SubscriberCount| {
        let Row { session, counters, .. } = count.into();
        (session, counters)
    };
    let known: HashMap<u64, Counters> = ask(removed.clone())?.into_iter().map(one).collect();
    Ok(removed.into_iter().map(|session| (SessionId(session), known.get(&session).copied())).collect())
}

/// The commands of the node for changes of sessions.
pub(crate) fn commands(changes: &[NodeCommand]) -> Vec<Command> {
    let command = |change: &NodeCommand| match change {
        NodeCommand::AddSession(add) => SubscriberCommand::Add(entry(add)),
        NodeCommand::RemoveSession { session } => SubscriberCommand::Remove { session: session.0 },
    };
    changes.iter().map(command).map(Command::Subscriber).collect()
}

/// A session as the node gets it. The number of a session changes with its line, device and address, so that it is its revision, too.
fn entry(add: &AddSession) -> SubscriberEntry {
    let AddSession { session, line, mac, address, prefix, ppp, service, .. } = add;
    let link = prefix.map(|prefix| Prefix { address: prefix.network().into(), len: LinkPrefix::LEN });
    let Service { rates, status, plan, group, nat, routes } = service;
    let routes = routes.iter().map(|route| Prefix { address: route.address(), len: route.prefix_len() });
    let own = (*address != NO_ADDRESS).then(|| Prefix { address: (*address).into(), len: 32 });
    let prefixes = [own, link].into_iter().flatten();
    let name = |name: &Option<Name>| name.as_ref().map(ToString::to_string);
    SubscriberEntry {
        session: session.0,
        revision: session.0,
        port: line.port.to_string(),
        tags: if line.tags == Tags::None { "untagged".into() } else { line.tags.to_string() },
        mac: MacText(mac.to_string()),
        prefixes: prefixes.chain(routes).collect(),
        from_bits_per_s: Some(rates.up_bits_per_s),
        to_bits_per_s: Some(rates.down_bits_per_s),
        pppoe_session: ppp.map(|ppp| ppp.id),
        line_from_bits_per_s: ppp.and_then(|ppp| bits_per_s(ppp.line_rates.up_kbit_per_s)),
        line_to_bits_per_s: ppp.and_then(|ppp| bits_per_s(ppp.line_rates.down_kbit_per_s)),
        mru: ppp.map(|ppp| ppp.agreed.peer_mru),
        magic: ppp.map(|ppp| ppp.agreed.magic),
        state: match status {
            Status::Active => AccessState::Active,
            Status::Walled => AccessState::Walled,
            Status::Blocked => AccessState::Blocked,
        },
        nat: match *nat {
            Nat::Configured => NatProfile::Configured,
            Nat::None => NatProfile::None,
            Nat::Block => NatProfile::Block,
            Nat::Deterministic => NatProfile::Deterministic,
            Nat::OneToOne(address) => NatProfile::OneToOne(address),
        },
        plan: name(plan),
        group: name(group),
        ..SubscriberEntry::default()
    }
}

/// The rate of a line; `None`: it is unknown, or the access node says 0.
fn bits_per_s(kbit_per_s: u32) -> Option<u64> {
    (kbit_per_s > 0).then(|| u64::from(kbit_per_s) * 1000)
}

/// The sessions of the node for a comparison with those that it should have: equal to these where it has them so. Those of the node's
/// text, which have the number 0, stay as they are.
pub(crate) fn sessions(rows: &[Row], wanted: impl Iterator<Item = AddSession>) -> Vec<AddSession> {
    let mut wanted: HashMap<u64, AddSession> = wanted.map(|add| (add.session.0, add)).collect();
    let session = |row: &Row| match wanted.remove(&row.session) {
        Some(add) if row.entry.as_deref() == Some(&entry(&add)) => Some(add),
        _ => other(row.session),
    };
    rows.iter().filter(|row| row.session != 0).filter_map(session).collect()
}

/// A session of this number that is like none that there is.
fn other(session: u64) -> Option<AddSession> {
    let nothing = Rates { down_bits_per_s: 0, up_bits_per_s: 0 };
    Some(AddSession {
        session: SessionId(session),
        subscriber: "unknown".parse().ok()?,
        line: "unknown".parse().ok()?,
        mac: Mac::default(),
        address: Ipv4Addr::UNSPECIFIED,
        prefix: None,
        relay: None,
        ppp: None,
        service: Service::of_rates(nothing),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_that_the_node_has_as_it_should_be_is_not_sent_again() {
        let add = |number: u64, down_bits_per_s: u64| AddSession {
            session: SessionId(number),
            subscriber: "anna".parse().unwrap(),
            line: "access1:100.7".parse().unwrap(),
            mac: "02:00:00:00:00:01".parse().unwrap(),
            address: "100.64.0.2".parse().unwrap(),
            prefix: None,
            relay: None,
            ppp: None,
            service: Service::of_rates(Rates { down_bits_per_s, up_bits_per_s: 5 }),
        };
        let row = |add: &AddSession| Row {
            session: add.session.0,
            entry: Some(Box::new(entry(add))),
            counters: Counters::default(),
            is_dead: false,
        };
        let (same, faster, gone) = (add(1, 20), add(2, 20), add(3, 20));
        let fixed = add(0, 20);
        let rows = [row(&same), row(&faster), row(&gone), row(&fixed)];
        let found = sessions(&rows, [same.clone(), add(2, 40)].into_iter());
        assert_eq!(found[0], same);
        assert_eq!(found[1..].iter().map(|add| add.session.0).collect::<Vec<_>>(), [2, 3]);
        assert!(found[1] != faster && found[1] != add(2, 40));
    }
}
