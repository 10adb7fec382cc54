//! PPPoE sessions with both families and traffic of both, while a program is killed and while PADI flood: what a session loses, by counts.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_control::client::Client;
use weir_cpe::{Flood, FloodKind, Load, Options, Pppoe, SHORTEST_FRAME6, Summary};
use weir_node::{Query, Subscribers, SubscribersQuery};

use crate::pppoe::{FAR6, dual_stack};
use crate::restart::{Rig, options};

const DEVICES: u32 = 50;
/// PADI per second that the program is given.
const DISCOVERY_PER_S: u32 = 400;

fn both_families(hold: Option<Duration>) -> Options {
    Options {
        devices: DEVICES,
        pppoe: Some(Pppoe { dual_stack: true, ..Pppoe::default() }),
        far6: Some(FAR6),
        load: Some(Load { from_subscriber_fps: 20.0, to_subscriber_fps: 20.0, frame_bytes: SHORTEST_FRAME6 }),
        hold,
        ..options()
    }
}

impl Rig {
    /// Frames that the node has passed on, from and to subscribers, of IPv4 and IPv6.
    fn passed(&self) -> Option<BTreeMap<(String, u8), u64>> {
        let mut client = Client::connect(&self.folder.join("node.sock")).ok()?;
        let query = SubscribersQuery { after: None, most: Some(10_000) };
        let page: Subscribers = client.query(Query::Subscribers(query)).ok()?;
        let mut passed = BTreeMap::new();
        for class in page.subscribers.iter().flat_map(|one| &one.classes) {
            *passed.entry((class.direction.clone(), class.ip)).or_default() += class.frames;
        }
        Some(passed)
    }

    /// Waits until so many more frames have passed in each direction and family.
    fn until_passed(&self, name: &str, more: u64) {
        let before = self.passed().unwrap_or_default();
        self.until(name, |rig| {
            rig.passed().is_some_and(|now| {
                let is_more = |(of, frames): (&(String, u8), &u64)| {
                    *frames > before.get(of).copied().unwrap_or_default() + more
                };
                now.len() == 4 && now.iter().all(is_more)
            })
        });
    }
}

/// Frames of IPv4 and IPv6 that were lost, in both directions.
fn lost(summary: &Summary) -> [u64; 2] {
    let both = [summary.from_subscriber, summary.to_subscriber].map(Option::unwrap_or_default);
    assert!(both.iter().all(|traffic| traffic.sent6 > 0 && traffic.sent > traffic.sent6), "{summary:?}");
    let lost6: u64 = both.iter().map(|traffic| traffic.sent6 - traffic.received6).sum();
    [both.iter().map(|traffic| traffic.lost()).sum::<u64>() - lost6, lost6]
}

#[test]
fn frames_of_both_families_pass_while_the_program_is_killed() {
    let Some(mut rig) = Rig::of(&dual_stack("pppoe")) else { return };
    rig.add_logins(DEVICES);
    let emulated = rig.emulate(both_families(None));
    rig.until_passed("traffic", 100);
    let before = rig.agree("all are up");
    rig.kill_bngd();
    rig.until_passed("traffic after the kill", 100);
    let after = rig.agree("after the kill");
    let summary = emulated.stop();
    assert_eq!((lost(&summary), summary.foreign), ([0, 0], 0), "{summary:?}");
    assert!(summary.is_clean() && summary.messages.padts_received == 0, "{summary:?}");
    assert_eq!(after.len(), DEVICES as usize);
    for (before, after) in before.iter().zip(&after) {
        let of = |one: &weir_bng::api::Session| (one.session, one.start_s, one.address, one.prefix.clone());
        assert_eq!(of(before), of(after));
    }
}

#[test]
fn frames_of_both_families_pass_again_when_the_node_was_killed() {
    let Some(mut rig) = Rig::of(&dual_stack("pppoe")) else { return };
    rig.add_logins(DEVICES);
    let emulated = rig.emulate(both_families(None));
    rig.until_passed("traffic", 100);
    let before = rig.agree("all are up");
    rig.kill_node();
    rig.until_passed("traffic through the new node", 100);
    let after = rig.agree("the new node");
    let summary = emulated.stop();
    // Frames of the time without a node are lost; no session is.
    assert_eq!((summary.up, summary.failed(), summary.foreign), (DEVICES.into(), 0, 0), "{summary:?}");
    assert_eq!((summary.messages.padts_received, summary.churn.map(|churn| churn.up_again)), (0, None));
    let numbers = |all: &[weir_bng::api::Session]| all.iter().map(|one| one.session).collect::<Vec<_>>();
    assert_eq!(numbers(&before), numbers(&after));
}

#[test]
fn a_flood_of_padi_costs_no_frame_of_a_session() {
    let limit = format!("limits(punt-pppoe-discovery {DISCOVERY_PER_S}) run(");
    let Some(rig) = Rig::of(&dual_stack("pppoe").replace("run(", &limit)) else { return };
    rig.add_logins(DEVICES);
    let flood = Flood { kind: FloodKind::Padi, per_s: 6_400.0 };
    let options = Options { flood: Some(flood), ..both_families(Some(Duration::from_secs(2))) };
    let summary = rig.emulate(Options { rate_per_s: 100.0, ..options }).end();
    assert!(summary.is_clean() && summary.flood > 1_000, "{summary:?}");
    let drops = rig.drops();
    assert_eq!(lost(&summary), [0, 0], "{drops:?} {summary:?}");
    // Every frame that the node dropped is of the flood, and most of the flood never reached the program.
    let of_flood = drops.get("punt_pppoe_discovery").copied().unwrap_or_default();
    assert_eq!(of_flood, drops.values().sum::<u64>(), "{drops:?}");
    assert!(of_flood > summary.flood / 2, "{of_flood} of {}", summary.flood);
    assert_eq!(rig.agree("after the flood").len(), DEVICES as usize);
}
