//! What is announced by BGP: whatever attacks, daemons and crashes do, what a daemon knows is taken back.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use weir_detect::kept;
use weir_detect::{
    Announce, Class, Config, Direction, Event, Evidence, Kind, Metric, Order, Rates, Share, Standing,
};

use super::of_texts;

/// The file of what was announced: what is read is the same when it is written and read again.
pub(super) fn kept(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    match kept::read(&text) {
        Ok(all) => {
            assert_eq!(kept::read(&kept::write(&all)).as_ref(), Ok(&all));
            assert!(
                all.iter().all(|kept| kept.withdraw.contains("withdraw") || kept.withdraw.contains(" del "))
            );
        }
        Err(line) => assert!(line >= 1 && line <= text.lines().count()),
    }
}

pub(super) fn kept_seeds() -> Vec<Vec<u8>> {
    of_texts(["exabgp\t/run/exabgp/exabgp.in\twithdraw route 198.18.0.9/32 next-hop 192.0.2.1\n\
         gobgp\tgobgp global rib -a ipv4 del 198.18.0.9/32\n\
         gobgp\tgobgp global rib -a ipv6-flowspec del match destination 2001:db8::9/128 then discard\n"])
}

/// At most so many announcements.
const MOST: usize = 4;
/// The host that is never announced.
const NEVER: u8 = 7;

/// Announcements, and a daemon that may do something else than it says.
struct World {
    standing: Standing,
    now: Duration,
    /// What the daemon has, by the command that takes it back.
    daemon: BTreeSet<String>,
    /// What it is about to be asked.
    under_way: Option<Order>,
}

fn announce() -> Announce {
    let text = format!(
        "networks = [\"198.18.0.0/15\"]\n[in]\npps = 5\n[announce]\ndaemon = \"gobgp\"\nnext_hop = \"192.0.2.1\"\nsend = true\n\
         max = {MOST}\nlifetime_s = 60\nhold_s = 5\nnever = [\"198.18.0.{NEVER}/32\"]\n"
    );
    let config = Config::read("fuzz", &text).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    config.actions.announce.expect("it is configured")
}

/// An attack on one of eight hosts, the `n`th.
fn event(kind: Kind, n: u8) -> Event {
    let evidence = Evidence {
        frames_sampled: 9,
        others: Vec::new(),
        source_ports: vec![Share { value: 53, share: 1.0 }],
        destination_ports: Vec::new(),
        protocols: vec![Share { value: "UDP".to_string(), share: 1.0 }],
        frame_bytes: Vec::new(),
    };
    Event {
        event: kind,
        attack: u64::from(n),
        time_ns: 0,
        crossed_ns: 0,
        host: Some(IpAddr::V4(Ipv4Addr::new(198, 18, 0, n % 8))),
        group: None,
        direction: Direction::In,
        class: Class::UdpFlood,
        metric: Metric::Pps,
        limit: 1.0,
        limit_learned: false,
        rates: Rates::default(),
        measured_s: 1.0,
        lost_pps: 0.0,
        error_pps: 0.0,
        peak_pps: 0.0,
        peak_bits_per_s: 0.0,
        frames: 0,
        bytes: 0,
        evidence,
    }
}

impl World {
    fn new() -> World {
        World {
            standing: Standing::new(announce()),
            now: Duration::ZERO,
            daemon: BTreeSet::new(),
            under_way: None,
        }
    }

    /// Two bytes: what happens, and to whom or for how long.
    fn happens(&mut self, what: u8, n: u8) {
        match what % 9 {
            0 => drop(self.standing.take(&event(Kind::Start, n), self.now)),
            1 => drop(self.standing.take(&event(Kind::Update, n), self.now)),
            2 => drop(self.standing.take(&event(Kind::End, n), self.now)),
            3 => self.now += Duration::from_millis(u64::from(n) * 100),
            4 => drop(self.standing.expire(self.now)),
            5 => self.asks(),
            6 => self.does(n & 1 == 1, n & 2 == 2),
            7 => self.standing.withdraw_all(self.now),
            _ => self.restarts(),
        }
        let kept: BTreeSet<String> = self.standing.kept().into_iter().map(|kept| kept.withdraw).collect();
        assert!(self.daemon.is_subset(&kept), "the daemon has {:?}, the list {kept:?}", self.daemon);
        assert!(self.standing.kept().len() <= MOST, "{kept:?}");
        assert!(!self.daemon.iter().any(|withdraw| withdraw.contains(&format!(".{NEVER}/32"))));
    }

    fn asks(&mut self) {
        if self.under_way.is_none() {
            self.under_way = self.standing.next(self.now);
        }
    }

    /// The daemon does what it was asked, or not, and says so, or not.
    fn does(&mut self, done: bool, said: bool) {
        let Some(order) = self.under_way.take() else { return };
        // What says that it was done was done.
        if done || said {
            let is_withdrawal = order.command.contains(" del ");
            let key = order.command.replace(" add ", " del ");
            let key = key.split(" nexthop").next().unwrap_or_default().to_string();
            if is_withdrawal {
                self.daemon.remove(&key);
            } else {
                self.daemon.insert(key);
            }
        }
        self.standing.carried_out(&order, said, self.now);
    }

    /// Killed; the next program reads what was kept.
    fn restarts(&mut self) {
        let kept = kept::read(&kept::write(&self.standing.kept())).expect("weir wrote it");
        self.under_way = None;
        self.standing = Standing::new(announce());
        self.standing.withdraw_kept(kept);
    }
}

/// Attacks, a daemon and a crash in any order; at the end all is withdrawn.
pub(super) fn announced(input: &[u8]) {
    let mut world = World::new();
    for pair in input.chunks_exact(2).take(2000) {
        world.happens(pair[0], pair[1]);
    }
    world.does(true, true);
    world.standing.withdraw_all(world.now);
    for _ in 0..4 * MOST {
        // Longer than any pause between two tries.
        world.now += Duration::from_secs(4000);
        world.asks();
        world.does(true, true);
    }
    assert!(world.standing.is_empty() && world.daemon.is_empty(), "{:?}", world.daemon);
}

pub(super) fn announced_seeds() -> Vec<Vec<u8>> {
    let life = [0, 1, 5, 0, 6, 3, 1, 1, 3, 50, 2, 1, 5, 0, 6, 3];
    let crash = [0, 1, 5, 0, 6, 1, 0, 2, 0, 3, 5, 0, 8, 0, 5, 0, 6, 3];
    let expiry = [0, 1, 5, 0, 6, 3, 3, 255, 3, 255, 3, 255, 4, 0, 5, 0, 6, 3, 1, 1];
    vec![life.to_vec(), crash.to_vec(), expiry.to_vec()]
}
