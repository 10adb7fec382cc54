//! Commands for a BGP daemon: a blackhole route for the victim (RFC 7999), or a flow specification (RFC 8955) that
//! matches what the frames of the attack have in common.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::counts::Direction;
use crate::event::Event;
use crate::evidence::Share;
use crate::prefix::{Prefix, bits};

/// How attacks are announced.
#[derive(Debug, Clone, PartialEq)]
pub struct Announce {
    /// The BGP daemon, whose syntax is used.
    pub daemon: Daemon,
    /// The kind of route that is announced.
    pub what: Route,
    /// Why the daemon gets no command, and each is only shown; `None`: it gets them.
    pub withheld: Option<&'static str>,
    /// Announcements at a time, at most.
    pub max: usize,
    /// An announcement is withdrawn after this time, whatever the attack does.
    pub lifetime: Duration,
    /// It stays for this long after its attack has ended: where it stops the attack's frames from being seen, the attack may
    /// go on. One that comes back as soon as it is withdrawn is held for twice as long, and so on up to `lifetime`.
    pub hold: Duration,
    /// Hosts in these prefixes are never announced.
    pub(crate) never: Vec<Prefix>,
    /// The file that keeps the list of announcements.
    pub state: PathBuf,
}

/// Daemons that take commands.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Daemon {
    /// ExaBGP: lines into this named pipe.
    ExaBgp(String),
    /// GoBGP: its command line `gobgp`.
    GoBgp,
}

/// The route that is announced for an attacked host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route {
    /// All of its traffic is dropped.
    Blackhole {
        /// For hosts of this version of IP.
        next_hop: IpAddr,
        /// RFC 7999 reserves 65535:666.
        community: String,
    },
    /// Traffic that matches the attack is dropped.
    Flowspec,
}

/// Commands for the start and for the end of an attack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commands {
    /// At the start.
    pub announce: String,
    /// At the end: withdraws exactly that route.
    pub withdraw: String,
}

/// A value belongs to an attack if so much of the sample has it.
const COMMON: f64 = 0.8;

impl Announce {
    /// The commands for the start of an attack; `None` for groups, for what hosts send, and for hosts of the other
    /// version than the next hop's.
    pub fn commands(&self, start: &Event) -> Option<Commands> {
        let host = start.host.filter(|_| start.direction == Direction::In)?;
        let prefix = format!("{host}/{}", if host.is_ipv4() { 32 } else { 128 });
        match &self.what {
            Route::Blackhole { next_hop, .. } if next_hop.is_ipv4() != host.is_ipv4() => None,
            Route::Blackhole { next_hop, community } => Some(self.blackhole(&prefix, *next_hop, community)),
            Route::Flowspec => Some(self.flowspec(&prefix, host, start)),
        }
    }

    /// The entry of the never-list that a host is in, if it is in any.
    pub(crate) fn never(&self, host: IpAddr) -> Option<Prefix> {
        self.never.iter().copied().find(|never| never.contains(bits(host)))
    }

    fn blackhole(&self, prefix: &str, hop: IpAddr, community: &str) -> Commands {
        let family = if hop.is_ipv4() { "ipv4" } else { "ipv6" };
        let (announce, withdraw) = match &self.daemon {
            Daemon::ExaBgp(_) => (
                format!("announce route {prefix} next-hop {hop} community [{community}]"),
                format!("withdraw route {prefix} next-hop {hop}"),
            ),
            Daemon::GoBgp => (
                format!("gobgp global rib -a {family} add {prefix} nexthop {hop} community {community}"),
                format!("gobgp global rib -a {family} del {prefix}"),
            ),
        };
        Commands { announce, withdraw }
    }

    fn flowspec(&self, prefix: &str, host: IpAddr, start: &Event) -> Commands {
        let evidence = &start.evidence;
        let protocol = common(&evidence.protocols).map(|name| name.to_lowercase());
        let has_ports = matches!(protocol.as_deref(), Some("tcp" | "udp"));
        let port = |ports| common::<u16>(ports).filter(|_| has_ports);
        let (from, to) = (port(&evidence.source_ports), port(&evidence.destination_ports));
        // A protocol without a name for a daemon is left out: the rule matches more, not something else.
        let protocol = protocol.filter(|name| matches!(&**name, "tcp" | "udp" | "icmp" | "gre"));
        let option = |text: Option<String>| text.unwrap_or_default();
        let (verbs, rest) = match &self.daemon {
            Daemon::ExaBgp(_) => {
                let protocol = option(protocol.map(|name| format!(" protocol [ {name} ]")));
                let from = option(from.map(|port| format!(" source-port [ ={port} ]")));
                let to = option(to.map(|port| format!(" destination-port [ ={port} ]")));
                let rest = format!("destination {prefix}{protocol}{from}{to} discard");
                (["announce flow route", "withdraw flow route"], rest)
            }
            Daemon::GoBgp => {
                let protocol = option(protocol.map(|name| format!(" protocol =={name}")));
                let from = option(from.map(|port| format!(" source-port =={port}")));
                let to = option(to.map(|port| format!(" destination-port =={port}")));
                let rest = format!("match destination {prefix}{protocol}{from}{to} then discard");
                if host.is_ipv4() {
                    (["gobgp global rib -a ipv4-flowspec add", "gobgp global rib -a ipv4-flowspec del"], rest)
                } else {
                    (["gobgp global rib -a ipv6-flowspec add", "gobgp global rib -a ipv6-flowspec del"], rest)
                }
            }
        };
        let [announce, withdraw] = verbs.map(|verb| format!("{verb} {rest}"));
        Commands { announce, withdraw }
    }
}

/// The value that nearly all frames of the attack share.
fn common<T: Clone>(shares: &[Share<T>]) -> Option<T> {
    shares.first().filter(|first| first.share >= COMMON).map(|first| first.value.clone())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::class::Class;
    use crate::counts::{Metric, Rates};
    use crate::event::Kind;
    use crate::evidence::Evidence;

    impl Announce {
        /// A blackhole by GoBGP.
        pub(crate) fn for_tests() -> Announce {
            Announce {
                daemon: Daemon::GoBgp,
                what: blackhole(),
                withheld: Some("send = false"),
                max: 100,
                lifetime: Duration::from_secs(1800),
                hold: Duration::ZERO,
                never: Vec::new(),
                state: PathBuf::new(),
            }
        }
    }

    pub(crate) fn start(host: &str, source_port_share: f64) -> Event {
        let share = |value, share| vec![Share { value, share }];
        Event {
            event: Kind::Start,
            attack: 1,
            time_ns: 0,
            crossed_ns: 0,
            host: Some(host.parse().expect("an address")),
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
            evidence: Evidence {
                frames_sampled: 100,
                others: Vec::new(),
                source_ports: share(53, source_port_share),
                destination_ports: share(4444, 0.1),
                protocols: vec![Share { value: "UDP".to_string(), share: 1.0 }],
                frame_bytes: Vec::new(),
            },
        }
    }

    fn commands(daemon: Daemon, what: Route, event: &Event) -> Option<[String; 2]> {
        let announce = Announce { daemon, what, ..Announce::for_tests() };
        announce.commands(event).map(|commands| [commands.announce, commands.withdraw])
    }

    fn exabgp() -> Daemon {
        Daemon::ExaBgp("/run/exabgp/exabgp.in".to_string())
    }

    fn blackhole() -> Route {
        let next_hop = [192, 0, 2, 1].into();
        Route::Blackhole { next_hop, community: "65535:666".to_string() }
    }

    #[test]
    fn a_victim_of_the_next_hops_version_is_blackholed() {
        assert_eq!(
            commands(exabgp(), blackhole(), &start("198.18.0.9", 1.0)).expect("IPv4"),
            [
                "announce route 198.18.0.9/32 next-hop 192.0.2.1 community [65535:666]",
                "withdraw route 198.18.0.9/32 next-hop 192.0.2.1"
            ]
        );
        assert_eq!(
            commands(Daemon::GoBgp, blackhole(), &start("198.18.0.9", 1.0)).expect("IPv4"),
            [
                "gobgp global rib -a ipv4 add 198.18.0.9/32 nexthop 192.0.2.1 community 65535:666",
                "gobgp global rib -a ipv4 del 198.18.0.9/32"
            ]
        );
        assert_eq!(commands(exabgp(), blackhole(), &start("2001:db8::9", 1.0)), None);
        let outwards = Event { direction: Direction::Out, ..start("198.18.0.9", 1.0) };
        assert_eq!(commands(exabgp(), blackhole(), &outwards), None);
    }

    #[test]
    fn a_flow_specification_has_what_the_frames_have_in_common() {
        assert_eq!(
            commands(exabgp(), Route::Flowspec, &start("198.18.0.9", 0.9)).expect("a rule")[0],
            "announce flow route destination 198.18.0.9/32 protocol [ udp ] source-port [ =53 ] discard"
        );
        assert_eq!(
            commands(Daemon::GoBgp, Route::Flowspec, &start("2001:db8::9", 0.3)).expect("a rule"),
            ["add", "del"].map(|verb| format!(
                "gobgp global rib -a ipv6-flowspec {verb} match destination 2001:db8::9/128 protocol ==udp then \
                 discard"
            ))
        );
    }
}
