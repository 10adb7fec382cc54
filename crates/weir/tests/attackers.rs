//! A hostile host beside an honest one, with real stacks: for each limit of a node an attack that reaches it, while
//! the honest one opens connections, transfers data, learns the path MTU, and gets errors about unreachable hosts.
//!
//! ```text
//! honest 198.18.0.2, attacker 198.18.0.66 - n0 [ node ] n1 - honest 192.0.2.2 and more, attackers 198.19.0.0/17
//! ```
//! `crates/plane/tests/shares.rs` has the same in virtual time, with each frame accounted for.

use std::io::Read;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::unix::net::UnixStream;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use weir_linux::namespace::Namespace;
use weir_linux::rtnl::Rtnl;
use weir_plane::scenario::packet;
use weir_port::packet::Sender;
use weir_testkit::wires::address;
use weir_testkit::{Dice, PATIENCE, need_root};

use crate::hosts::{at, find_path_mtu, pattern, set};
use crate::storm::{End, storm};
use crate::street::{At, LEFT4, NODE, RIGHT4, Street, sessions};

const LEFT6: At = ("2001:db8:1::2", "2001:db8:1::1");
const RIGHT6: At = ("2001:db8:2::2", "2001:db8:2::1");
/// What the node lets through to where the honest host talks to.
const NARROW: u32 = 1300;
/// How often the honest host does all that it does, each time with another address.
const ROUNDS: u8 = 3;
/// No attack may have more sessions than the limits of the nodes say.
const MOST_SESSIONS: u64 = 2100;
/// What an attacker sends at once, each millisecond or later: far more than any limit, and less than a node that waits for a CPU
/// loses in its ring, before it can tell one host from another.
const FRAMES: usize = 16;
/// A client that asks nothing is dropped when more than these are there.
const PLACES: usize = 64;
const IDLE_CLIENTS: usize = 100;

/// An attack that reaches a limit.
struct Attack {
    what: &'static str,
    /// Stages and limits of the node.
    stages: &'static str,
    limits: &'static str,
    /// The host that attacks, and its next packet.
    from: Side,
    /// It is the mapping of a host inside that is attacked.
    of_mapping: bool,
    packet: fn(&mut Attacker) -> String,
    /// What the node shows when the limit is reached.
    reached: Reached,
    honest: Honest,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Side {
    Left,
    Right,
}

struct Attacker {
    dice: Dice,
    /// The outside port of the mapping of the attacked host.
    mapped: u16,
}

#[derive(Debug, Clone, Copy)]
enum Reached {
    /// So many sessions live.
    Sessions(u64),
    /// So many frames were dropped for this reason.
    Drops(&'static str, u64),
}

/// The honest host, and its peer.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Honest {
    /// A host inside, with servers outside.
    Inside,
    /// One outside, with servers inside without earlier traffic, by IPv6.
    Outside,
    /// A host inside, with the node itself, too.
    OfTheNode,
    /// A host inside, some of whose fragments come in another order.
    InDisorder,
}

const STATEFUL: &str = "filter(accept outward, accept state established, accept state related)";

const ATTACKS: &[Attack] = &[
    Attack {
        what: "connections from a host inside without replies",
        stages: "nat(public 192.0.2.1, sessions 2000)",
        limits: "",
        from: Side::Left,
        of_mapping: false,
        packet: |a| {
            let (port, net, host) = (1 + a.dice.roll(1000), a.dice.roll(128), a.dice.roll(256));
            format!("tcp 198.18.0.66:{port} > 198.19.{net}.{host}:80 S seq 1")
        },
        reached: Reached::Sessions(1900),
        honest: Honest::Inside,
    },
    Attack {
        what: "connections from outside to the mapping of a host inside, which it does not answer",
        stages: "nat(public 192.0.2.1, subscriber-calls 100)",
        limits: "",
        from: Side::Right,
        of_mapping: true,
        packet: |a| {
            let (from, near, port) = (a.dice.roll(128), a.dice.roll(256), 1 + a.dice.roll(60_000));
            format!("tcp 198.19.{from}.{near}:{port} > 192.0.2.1:{} S seq 1", a.mapped)
        },
        reached: Reached::Drops("nat_quota", 1000),
        honest: Honest::Inside,
    },
    Attack {
        what: "connections from outside by a filter, without replies",
        stages: "filter(connections 2000, accept outward, accept state established, accept state related, \
                 accept inward tcp to port 80)",
        limits: "",
        from: Side::Right,
        of_mapping: false,
        packet: |a| {
            let (from, near, port) = (a.dice.roll(128), a.dice.roll(256), 1 + a.dice.roll(60_000));
            format!("tcp 198.19.{from}.{near}:{port} > 198.18.0.66:80 S seq 1")
        },
        reached: Reached::Sessions(1900),
        honest: Honest::Inside,
    },
    Attack {
        what: "packets to where there is no route",
        stages: "nat(public 192.0.2.1)",
        limits: "",
        from: Side::Left,
        of_mapping: false,
        packet: |a| format!("udp 198.18.0.66:{} > 198.19.200.9:53", 1 + a.dice.roll(60)),
        reached: Reached::Drops("no_route", 3000),
        honest: Honest::Inside,
    },
    Attack {
        what: "packets that are too long",
        stages: "nat(public 192.0.2.1)",
        limits: "",
        from: Side::Left,
        of_mapping: false,
        packet: |a| format!("udp 198.18.0.66:{} > 198.19.0.9:53 len 1400 df", 1 + a.dice.roll(60)),
        reached: Reached::Drops("too_big", 3000),
        honest: Honest::Inside,
    },
    Attack {
        what: "fragments of packets that never become whole",
        stages: "filter(accept outward, accept state established, accept state related) > nat(public 192.0.2.1)",
        limits: "limits(fragments 64, fragmented-packets 256)",
        from: Side::Left,
        of_mapping: false,
        packet: |a| {
            let (port, id) = (1 + a.dice.roll(100), a.dice.roll(65_536));
            if a.dice.one_in(2) {
                format!("udp 198.18.0.66:{port} > 198.19.0.9:53 frag 0+ len 16 whole 64 id {id}")
            } else {
                format!("udp 198.18.0.66 > 198.19.0.9 frag 24 len 16 whole 64 id {id}")
            }
        },
        reached: Reached::Drops("fragment_limit", 1000),
        honest: Honest::InDisorder,
    },
    Attack {
        what: "a scan of a /64",
        stages: "",
        limits: "limits(unresolved 64, questions 100)",
        from: Side::Right,
        of_mapping: false,
        packet: |a| {
            let (high, low) = (a.dice.roll(65_536), a.dice.roll(65_536));
            format!("udp [2001:db8:2::66]:1 > [2001:db8:1:0:8000:{high:x}:{low:x}:9]:53")
        },
        reached: Reached::Drops("neighbour_rate", 1000),
        honest: Honest::Outside,
    },
    Attack {
        what: "frames for the node itself",
        stages: STATEFUL,
        limits: "limits(local 1000)",
        from: Side::Left,
        of_mapping: false,
        packet: |a| format!("udp 198.18.0.66:{} > 198.18.0.1:53", 1 + a.dice.roll(60_000)),
        reached: Reached::Drops("local_rest", 1000),
        honest: Honest::OfTheNode,
    },
];

impl Attack {
    /// The node, whose way to the servers of the honest host is narrow.
    fn node(&self, io: &str) -> String {
        let (lan, wan) = match self.honest {
            Honest::Outside => (format!("mtu {NARROW}, "), String::new()),
            _ => (String::new(), format!("mtu {NARROW}, ")),
        };
        let stages = if self.stages.is_empty() { String::new() } else { format!("{} > ", self.stages) };
        format!(
            "node lan(198.18.0.1/24, 2001:db8:1::1/64, neighbour 198.18.0.66 02:00:00:00:00:01, {lan}on n0)
                > {stages}route(198.19.0.0/17 via 192.0.2.2) > wan(192.0.2.1/24, 2001:db8:2::1/64, {wan}on n1)
             {} run(io {io})",
            self.limits
        )
    }

    /// Attacks until it is asked to stop.
    fn go_on(&self, street: &Street, mapped: u16, over: &AtomicBool) {
        let (host, name, number) = match self.from {
            Side::Left => (&street.left, "l0", 0),
            Side::Right => (&street.right, "r0", 1),
        };
        let mut attacker = Attacker { dice: Dice::new(7), mapped };
        storm(host, name, over, || {
            (0..FRAMES).map(|_| frame(number, &(self.packet)(&mut attacker))).collect()
        });
    }
}

impl Reached {
    fn is_so(self, street: &Street) -> bool {
        match self {
            Reached::Sessions(all) => street.show("sessions")["live"].as_u64() >= Some(all),
            Reached::Drops(reason, least) => street.show("drops")[reason].as_u64() >= Some(least),
        }
    }
}

/// A packet for the node's end of this wire, from an attacker.
fn frame(wire: u8, line: &str) -> Vec<u8> {
    let packet = packet(line).unwrap_or_else(|wrong| panic!("{line}: {wrong}"));
    let kind = if packet[0] >> 4 == 4 { [8, 0] } else { [0x86, 0xdd] };
    [&[2, 0, 0, 0, wire, 2][..], &[2, 0, 0, 0, 0xcc, 1], &kind, &packet].concat()
}

/// The outside port of a mapping that a host inside makes by one packet, and never looks at again.
fn mapping(street: &Street) -> u16 {
    let over = AtomicBool::new(false);
    let begin = || vec![frame(0, "tcp 198.18.0.66:6666 > 198.19.0.9:80 S seq 1")];
    let deadline = Instant::now() + PATIENCE;
    std::thread::scope(|scope| {
        let _end = End(&over);
        scope.spawn(|| storm(&street.left, "l0", &over, begin));
        while Instant::now() < deadline {
            let lines = sessions(&street.show("sessions"));
            let is_it =
                |line: &String| line.strip_prefix("tcp 198.18.0.66:6666 as 192.0.2.1:").map(String::from);
            if let Some(rest) = lines.iter().find_map(is_it) {
                return rest.split(' ').next().and_then(|port| port.parse().ok()).expect("a port");
            }
        }
        panic!("no mapping in {PATIENCE:?}")
    })
}

/// Asks with a long datagram, until the answer comes, which is as long.
fn ask(host: &Namespace, server: &Namespace, served: &str) {
    let target: SocketAddr = served.parse().unwrap();
    let any = if target.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let server = server.run(|| UdpSocket::bind(target).unwrap());
    let client = host.run(|| UdpSocket::bind(any).unwrap());
    client.connect(target).unwrap();
    for socket in [&server, &client] {
        if target.is_ipv4() {
            // They may be cut on their way.
            set(socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_DONT);
        }
        socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    }
    let (sent, mut came) = (pattern(4000), [0; 5000]);
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        // It may hear how long packets may be.
        let Ok(_) = client.send(&sent) else { continue };
        let Ok((bytes, from)) = server.recv_from(&mut came) else { continue };
        assert!(came[..bytes] == sent, "{served}: {bytes} bytes, or others");
        let Ok(_) = server.send_to(&sent, from) else { continue };
        if client.recv(&mut came).is_ok_and(|bytes| came[..bytes] == sent) {
            return;
        }
    }
    panic!("{served}: no answer in {PATIENCE:?}");
}

/// Datagrams for which a host gets errors at once: its own quota is 10.
const ERRORS: u16 = 8;

/// Sends datagrams of this length to ports of a target, each once, and gets an error with this reason for most of them.
fn gets_errors(host: &Namespace, target: &str, bytes: usize, reason: i32) {
    let target: IpAddr = target.parse().unwrap();
    let gets_error = |port: u16| {
        let any: IpAddr = if target.is_ipv4() { [0; 4].into() } else { [0; 16].into() };
        let socket = host.run(|| UdpSocket::bind((any, 0)).unwrap());
        let (level, errors, discover) = match target {
            IpAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_RECVERR, libc::IP_MTU_DISCOVER),
            IpAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_RECVERR, libc::IPV6_MTU_DISCOVER),
        };
        set(&socket, level, errors, 1);
        // Whatever the stack knows of the path already.
        set(&socket, level, discover, libc::IP_PMTUDISC_PROBE);
        socket.connect((target, port)).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
        socket.send(&pattern(bytes)).unwrap();
        socket.recv(&mut [0; 9]).is_err_and(|error| error.raw_os_error() == Some(reason))
    };
    let all = (1..=ERRORS).filter(|port| gets_error(*port)).count();
    assert!(all >= usize::from(ERRORS * 3 / 4), "{target}, {bytes} bytes: {all} of {ERRORS} errors");
}

/// Small datagrams at once, as many as a host's own quota is of 1000 a second: most of them have to arrive.
fn arrive(host: &Namespace, server: &Namespace, served: &str) {
    const ALL: usize = 8;
    let server = server.run(|| UdpSocket::bind(served).unwrap());
    server.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    let client = host.run(|| UdpSocket::bind("0.0.0.0:0").unwrap());
    client.connect(served).unwrap();
    (0..ALL).for_each(|_| _ = client.send(b"hello").unwrap());
    let all = (0..ALL).take_while(|_| server.recv(&mut [0; 9]).is_ok()).count();
    assert!(all >= ALL * 3 / 4, "{served}: {all} of {ALL} datagrams arrive");
}

/// A datagram whose later fragment comes first, and waits while many others come to wait.
fn ask_in_disorder(street: &Street, served: &str) {
    let server = street.right.run(|| UdpSocket::bind(served).unwrap());
    server.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    let sender = street.left.run(|| Sender::open(Rtnl::open().unwrap().link("l0").unwrap().ifindex).unwrap());
    let others = || street.show("drops")["fragment_limit"].as_u64().unwrap_or(0);
    // A frame may be lost on its way to the node.
    for id in 0..10 {
        let host = served.split(':').next().expect("an address");
        sender
            .send(&[frame(0, &format!("udp 198.18.0.2 > {host} frag 24 len 48 whole 64 id {id} nosum"))])
            .unwrap();
        let before = others();
        let deadline = Instant::now() + PATIENCE;
        while others() < before + 500 {
            assert!(Instant::now() < deadline, "the attack has ended: {}", street.show("drops"));
        }
        let first = format!("udp 198.18.0.2:5000 > {served} frag 0+ len 16 whole 64 id {id} nosum");
        sender.send(&[frame(0, &first)]).unwrap();
        if server.recv(&mut [0; 100]).is_ok() {
            return;
        }
    }
    panic!("{served}: no datagram arrives whose later fragment comes first: {}", street.show("drops"));
}

/// The addresses that the honest host talks to: one for each round.
fn addresses(street: &Street, honest: Honest) -> Vec<String> {
    let (end, network) = match honest {
        Honest::Outside => ((&street.left, "l0"), "2001:db8:1::"),
        _ => ((&street.right, "r0"), "192.0.2."),
    };
    let all: Vec<String> = (0..ROUNDS).map(|n| format!("{network}{}", 100 + n)).collect();
    all.iter().for_each(|own| address(end, own));
    all
}

/// All that an honest host does, with others at these addresses.
fn talk(street: &Street, honest: Honest, others: &[String]) {
    let (host, remote, nowhere) = match honest {
        Honest::Outside => (&street.right, LEFT6.0, "2001:db8:9::9"),
        _ => (&street.left, "198.19.0.200", "198.19.200.1"),
    };
    gets_errors(host, remote, NARROW as usize, libc::EMSGSIZE);
    gets_errors(host, nowhere, 9, libc::ENETUNREACH);
    if honest == Honest::OfTheNode {
        arrive(host, &street.node, "198.18.0.1:9");
    }
    others.iter().for_each(|other| talk_with(street, honest, other));
}

fn talk_with(street: &Street, honest: Honest, other: &str) {
    let (host, server) = match honest {
        Honest::Outside => (&street.right, &street.left),
        _ => (&street.left, &street.right),
    };
    let served = at(other, 7);
    find_path_mtu(host, server, (&served, &served), NARROW);
    ask(host, server, &served);
    if honest == Honest::InDisorder {
        ask_in_disorder(street, &at(other, 9));
    }
}

#[test]
fn who_reaches_a_limit_takes_nothing_from_others() {
    need_root!();
    for (attack, io) in ATTACKS.iter().flat_map(|attack| ["packet", "xdp"].map(|io| (attack, io))) {
        // With AF_PACKET the kernel has each frame for itself, whatever the node does with its own: no limit protects it.
        if (attack.honest, io) == (Honest::OfTheNode, "packet") {
            continue;
        }
        let what = format!("{}, {io}", attack.what);
        let begin = Instant::now();
        let street = Street::for_threads(1, &[LEFT4, LEFT6], &[RIGHT4, RIGHT6]);
        if io == "xdp" {
            street.merge();
        }
        if attack.honest == Honest::OfTheNode {
            // As before the node came.
            address((&street.node, NODE[0]), "198.18.0.1");
        }
        let others = addresses(&street, attack.honest);
        let node = street.run(&attack.node(io));
        let mapped = if attack.of_mapping { mapping(&street) } else { 0 };
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let _end = End(&over);
            scope.spawn(|| attack.go_on(&street, mapped, &over));
            let deadline = Instant::now() + PATIENCE;
            while !attack.reached.is_so(&street) {
                assert!(Instant::now() < deadline, "{what}: the limit is reached: {}", street.show("drops"));
            }
            talk(&street, attack.honest, &others);
            let live = street.show("sessions")["live"].as_u64();
            assert!(
                attack.reached.is_so(&street) && live <= Some(MOST_SESSIONS),
                "{what}: {live:?} sessions"
            );
        });
        println!("{what}: {:?}, {}", begin.elapsed(), node.end()["drops"]);
    }
}

#[test]
fn idle_clients_of_the_socket_keep_nobody_from_it() {
    need_root!();
    let street = Street::new();
    let node = street.run("node lan(198.18.0.1/24, on n0) > route(198.19.0.0/17 via 192.0.2.2) > wan(192.0.2.1/24, mtu 1300, on n1)");
    let others = addresses(&street, Honest::Inside);
    let mut idle: Vec<UnixStream> =
        (0..IDLE_CLIENTS).map(|_| UnixStream::connect(street.socket()).unwrap()).collect();
    talk(&street, Honest::Inside, &others);
    for _ in 0..ROUNDS {
        assert!(street.show("counters")["left"].as_u64() > Some(100));
        let applied = street.weir(&["apply", street.folder.join("test.node").to_str().unwrap()]);
        assert!(applied.status.success(), "{applied:?}");
    }
    // All but the last of them have given their places to others, and heard why: an error alone gets each that is silent.
    for client in &mut idle[..IDLE_CLIENTS - PLACES] {
        let mut reply = String::new();
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        client.read_to_string(&mut reply).unwrap();
        assert!(reply.contains("connection closed: all 64 places for clients are taken"), "{reply}");
    }
    node.end();
}
