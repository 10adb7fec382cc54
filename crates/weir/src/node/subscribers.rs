//! Which subscribers `weir node show subscribers` lists, and in which order.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::IpAddr;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use weir_control::client::Client;
use weir_plane::{QueueFigures, SubscriberCount, SubscriberEntry, SubscriberState};

use super::asked;
use crate::cli::{NodeShow, Top};

/// Subscribers that --top lists if the user does not say how many.
const TOP: usize = 10;
/// How long a rate is measured.
const RATE_TIME: Duration = Duration::from_secs(1);

/// A subscriber as it is listed.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Figures {
    #[serde(flatten)]
    pub(super) state: SubscriberState,
    /// Rates from and to it now, where they were measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) now_bits_per_s: Option<[u64; 2]>,
}

/// The table that was asked for.
pub(super) fn table(client: &mut Client, arguments: &NodeShow) -> Result<Value> {
    let NodeShow { which, top, limit, .. } = arguments;
    if which.is_none() && top.is_none() {
        return asked::table(client, arguments.what, *limit);
    }
    let before = match top {
        Some(Top::Rate) => Some((Instant::now(), asked::subscriber_counts(client)?)),
        _ => None,
    };
    if before.is_some() {
        thread::sleep(RATE_TIME);
    }
    let mut all = asked::subscribers(client, None)?;
    let time = before.as_ref().map(|(at, _)| at.elapsed());
    if let Some(which) = which {
        all.retain(|state| is_meant(&state.entry, which));
        if all.is_empty() {
            bail!("no session of a subscriber has {which}: weir node show subscribers lists all of them");
        }
    }
    let counts = before.map(|(_, counts)| counts).unwrap_or_default();
    let mut all = figures(all, &counts, time);
    if let Some(top) = top {
        all.sort_by_cached_key(|one| Reverse(key(*top, one)));
    }
    all.truncate(limit.unwrap_or(if top.is_some() { TOP } else { usize::MAX }));
    Ok(json!({ "subscribers": all }))
}

/// Whether a session has this address, number, Ethernet address, line, plan or group.
fn is_meant(entry: &SubscriberEntry, which: &str) -> bool {
    if let Ok(address) = which.parse::<IpAddr>() {
        return entry.prefixes.iter().any(|prefix| prefix.contains(address));
    }
    let is = |name: &Option<String>| name.as_deref() == Some(which);
    which.parse() == Ok(entry.session)
        || which.eq_ignore_ascii_case(&entry.mac.0)
        || which == entry.port
        || which.split_once(':') == Some((&entry.port, &entry.tags))
        || is(&entry.plan)
        || is(&entry.group)
}

/// Sessions with their rates since these counts were read, if they were. A session that began meanwhile has sent all of it since.
fn figures(all: Vec<SubscriberState>, before: &[SubscriberCount], time: Option<Duration>) -> Vec<Figures> {
    let before: HashMap<u64, &SubscriberCount> = before.iter().map(|count| (count.session, count)).collect();
    let rate = |state: &SubscriberState, time: Duration| {
        let before = before.get(&state.entry.session);
        let (from, to) = before.map_or((0, 0), |before| (before.from_bytes, before.to_bytes));
        [(state.from_bytes, from), (state.to_bytes, to)]
            .map(|(bytes, before)| (bytes.saturating_sub(before) as f64 * 8.0 / time.as_secs_f64()) as u64)
    };
    let one = |state: SubscriberState| {
        let now_bits_per_s = time.map(|time| rate(&state, time));
        Figures { state, now_bits_per_s }
    };
    all.into_iter().map(one).collect()
}

/// What the order follows, the largest first.
fn key(top: Top, one: &Figures) -> u64 {
    let state = &one.state;
    let queues: [&QueueFigures; 2] = [&state.from_queue, &state.to_queue];
    match top {
        Top::Rate => one.now_bits_per_s.map_or(0, |[from, to]| from.saturating_add(to)),
        Top::Drops => {
            let waiting: u64 = queues.iter().map(|queue| queue.dropped).sum();
            let over_rate = state.from_over_rate + state.to_over_rate;
            waiting + over_rate + state.foreign_sources + state.blocked + state.walled
        }
        Top::Delay => queues.iter().filter_map(|queue| queue.delay_us(0.99)).max().unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(session: u64, address: &str, plan: &str) -> SubscriberState {
        let value = json!({
            "session": session, "port": "access1", "tags": "100.7", "mac": "02:00:00:00:00:0a",
            "prefixes": [format!("{address}/32"), format!("2001:db8:{session}::/48")], "plan": plan,
            "is_dead": false, "from_frames": 0, "from_bytes": session * 1000, "to_frames": 0, "to_bytes": 0,
            "foreign_sources": 10 - session, "from_over_rate": 0, "to_over_rate": 0, "blocked": 0, "walled": 0,
            "classes": [],
        });
        serde_json::from_value(value).expect("a session")
    }

    #[test]
    fn a_subscriber_is_found_by_what_it_has() {
        let entry = state(7, "100.64.0.2", "basic").entry;
        for (which, expected) in [
            ("7", true),
            ("100.64.0.2", true),
            ("100.64.0.3", false),
            ("2001:db8:7:1::9", true),
            ("02:00:00:00:00:0A", true),
            ("access1", true),
            ("access1:100.7", true),
            ("access1:100.8", false),
            ("basic", true),
            ("gold", false),
            ("8", false),
        ] {
            assert_eq!(is_meant(&entry, which), expected, "{which}");
        }
    }

    #[test]
    fn rates_and_drops_put_subscribers_in_order() {
        let all = vec![state(1, "100.64.0.1", "basic"), state(3, "100.64.0.3", "basic")];
        let before = SubscriberCount {
            session: 1,
            is_dead: false,
            from_frames: 0,
            from_bytes: 500,
            to_frames: 0,
            to_bytes: 0,
        };
        let found = figures(all, &[before], Some(Duration::from_secs(2)));
        assert_eq!(found[0].now_bits_per_s, Some([2_000, 0]));
        assert_eq!(found[1].now_bits_per_s, Some([12_000, 0]));
        assert!(key(Top::Rate, &found[1]) > key(Top::Rate, &found[0]));
        assert!(key(Top::Drops, &found[0]) > key(Top::Drops, &found[1]));
        assert_eq!(key(Top::Delay, &found[0]), 0);
    }
}
