//! Texts of nodes and lines of packets, put together of pieces: each choice is a byte of an input, so that a changed byte is
//! another argument, and hardly ever the end of the text in its first word.

use weir_testkit::Dice;

/// What an input begins with that chooses pieces; no text does.
pub(crate) const CHOICES: u8 = 0xff;

/// The choices of an input, if it has some.
pub(crate) fn choices(input: &[u8]) -> Option<Dice> {
    input.strip_prefix(&[CHOICES]).map(Dice::of_bytes)
}

/// Inputs that choose, to begin from.
pub(crate) fn seeds(count: u64, bytes: usize) -> Vec<Vec<u8>> {
    let seed = |n| {
        let mut dice = Dice::new(n);
        [vec![CHOICES], (0..bytes).map(|_| dice.roll(256) as u8).collect()].concat()
    };
    (0..count).map(seed).collect()
}

/// An argument of an item, and in how many texts it stands: one of so many.
type Piece = (usize, &'static [&'static str]);

const PORT: &[Piece] = &[
    (3, &["vlan 7", DOUBLE]),
    (4, &["mtu 1280", "mtu 576", "mtu 68", "mtu 9216"]),
    (8, &["mac 02:00:00:00:00:77"]),
];
/// Tags of one line, tags of several, and subscribers on some of them.
const DOUBLE: &str = "vlan 8.9";
const LINES: &str = "vlan 1-9.1-4094, untagged";
const SUBSCRIBERS: &str = " subscribers(anna lan 7.9 02:cc:c6:12:00:02 198.18.0.2 2001:db8:1::/64, \
                           bob lan untagged 02:cc:c6:12:00:03 192.0.2.0/24)";
/// A port with subscribers, untagged or with lines, the stage behind it, and sessions of the text.
const ACCESS: &str = "lan(access";
const GATEWAYS: &str = "access(gateway 198.18.0.1/16, gateway 192.0.2.1/24)";
const LEFT: &[Piece] = &[
    (1, &["198.18.0.1/16", "198.18.0.1/24"]),
    (2, &["2001:db8:1::1/64"]),
    (6, &["fe80::2/64", "fe80::2/8", "2001:db8:1:1::1/128"]),
    (2, &["neighbour 198.18.0.2 02:00:00:00:00:01"]),
    (4, &["rpf off", "rpf strict", "rpf loose", "rpf end"]),
];
const RIGHT: &[Piece] = &[
    (1, &["198.19.0.1/16", "198.19.0.1/24"]),
    (2, &["2001:db8:2::1/64"]),
    (6, &["fe80::2/64", "fe80::2/8", "198.21.0.1/31", "198.21.0.1/32"]),
    (6, &["neighbour fe80::1 02:00:00:00:00:03"]),
    (1, &["neighbour 198.19.0.9 02:00:00:00:00:02"]),
    (4, &["rpf off", "rpf strict", "rpf loose", "rpf end"]),
];
const THIRD: &[Piece] = &[(1, &["198.20.0.1/16"]), (2, &["2001:db8:3::1/64"])];
const ROUTE: &[Piece] = &[
    (
        2,
        &["default via 198.19.0.9", "default via 198.19.0.9 via 198.19.0.8", "default via 198.19.0.9 on wan"],
    ),
    (
        3,
        &[
            "default via fe80::1 on wan",
            "default via fe80::1 on wan via fe80::1 on lan",
            "default via fe80::1",
            "default via 2001:db8:2::9",
            "2001:db8:9::/48 via fe80::9 on lan",
        ],
    ),
    (6, &["2001:db8:2::9/128 via fe80::1 on wan", "198.19.0.8/32 via 198.19.0.9", "fec0::/10 via fe00::5"]),
    (4, &["192.0.2.0/24 blackhole", "192.0.2.0/24 unreachable", "192.0.2.0/24 prohibit"]),
    (4, &["options drop", "options ignore", "options fill"]),
];
const NAT: &[Piece] = &[
    (
        1,
        &[
            "public 192.0.2.1",
            "public 192.0.2.0/30",
            "public 192.0.2.1 ports 1024-1151",
            "public 192.0.2.1 ports 1040-1043",
            "public 192.0.2.1-192.0.2.3 ports 1000-1999 3000-3999",
            "public 198.18.9.0/30",
        ],
    ),
    (3, &["block 4", "block 16", "block 1", "block 512"]),
    (4, &["blocks 1", "blocks 3"]),
    (6, &["deterministic 198.18.0.0/28", "deterministic 198.18.0.0/28 dynamic 2"]),
    (6, &["parity"]),
    (4, &["mapping address-and-port-dependent", "mapping address-dependent"]),
    (4, &["filtering address-dependent", "filtering address-and-port-dependent"]),
    (8, &["inbound-refresh"]),
    (8, &["rate 1", "rate 100"]),
    (2, &["sessions 64", "sessions 4", "sessions 1"]),
    (6, &["subscriber-sessions 3", "subscriber-calls 1"]),
    (4, &["hold 0s", "hold 120s"]),
    (8, &["resting-ports 0", "resting-ports 2"]),
    (4, &["forward tcp 192.0.2.1:80 to 198.18.0.2:1000", "forward udp 192.0.2.1:1041 to 198.18.0.3:53"]),
    (4, &["one-to-one 192.0.2.9 to 198.18.0.3"]),
    (
        4,
        &[
            "redirect udp any:53 to 198.19.0.9:5350",
            "redirect tcp any:80 from 198.18.0.0/16 to 198.19.0.9:1000",
        ],
    ),
    (6, &["exclude 198.19.0.0/16", "exclude 198.19.0.9/32", "exclude 0.0.0.0/0"]),
    (6, &["unsolicited silent"]),
    (6, &["exhausted silent"]),
    (6, &["mss 1200", "mss 88"]),
    (4, &["pcp"]),
    (3, &["prefix64 2001:db8:2::/96", "prefix64 64:ff9b::/96", "prefix64 2001:db8:2::/64"]),
    (3, &["log sessions", "log nothing", "log blocks"]),
    (8, &["udp-timeout 120s", "icmp-timeout 60s", "tcp-timeout 7440s", "tcp-opening-timeout 240s"]),
];
const QUEUE: &[Piece] = &[
    (1, &["outward 1Mbit", "outward 100kbit", "outward 1Gbit", "outward wifi:1Mbit"]),
    (2, &["inward 500kbit", "inward 1kbit", "inward lte:100kbit"]),
    (
        2,
        &[
            "aqm fifo",
            "aqm codel",
            "aqm fq-codel",
            "aqm pie",
            "aqm dualpi2",
            "aqm cake",
            "aqm red",
            "aqm gsp",
        ],
    ),
    (2, &["limit 8kB", "limit 50ms", "limit 100B", "limit 2bdp"]),
    (4, &["overhead 24"]),
    (4, &["delay 5ms", "delay 1s", "delay 0s"]),
    (8, &["path 198.18.0.2/32=1ms", "path 2001:db8:1::/64=50ms"]),
    (8, &["loss 10%", "loss 50%"]),
    (8, &["burst 3"]),
    (8, &["jitter 2ms"]),
    (8, &["reorder 10%"]),
    (8, &["reorder-by 10ms"]),
];
const POLICE: &[Piece] = &[
    (
        1,
        &[
            "profile a outward 1Mbit inward 500kbit",
            "profile a outward 1kbit burst 2kB",
            "profile a inward 8kbit burst 10ms",
        ],
    ),
    (2, &["profile a class 1 outward 8kbit", "profile a class 0 inward 8kbit"]),
    (4, &["profile b outward 100kbit burst 1514", "profile b outward 0"]),
    (2, &["198.18.0.2/32 none", "198.18.0.2 a", "2001:db8:1::/64 a"]),
    (4, &["each6 128", "each6 32"]),
    (2, &["subscribers 1", "subscribers 9"]),
    (1, &["others a", "others a", "others none", "others b"]),
];
const LIMITS: &[Piece] = &[
    (2, &["fragments 1", "fragments 2"]),
    (2, &["fragmented-packets 1", "fragmented-packets 2"]),
    (2, &["unresolved 1"]),
    (2, &["questions 1"]),
    (2, &["local-neighbours 1", "local-routing 1", "local-icmp 1", "local 1"]),
];
const RUN: &[Piece] = &[
    (1, &["io packet", "io xdp"]),
    (2, &["threads 2", "cpu 0", "cpu 0-3 5", "threads 64"]),
    (2, &["host none", "host kernel", "host tap0"]),
    (2, &["wait sleep", "wait poll"]),
    (2, &["fast on", "fast auto"]),
];
/// The words of a rule, in their order.
const RULE: &[Piece] = &[
    (1, &["accept", "accept", "accept", "drop", "reject", "count x", "log 1/2"]),
    (2, &["outward", "inward", "in lan"]),
    (2, &["udp", "tcp", "icmp", "icmp6", "ip", "ip6", "tcp,udp", "proto 47"]),
    (6, &["arp", "pppoe", "llc,lldp", "ethertype 0x8847,0x88b5"]),
    (
        4,
        &[
            "from 198.18.0.0/15",
            "from any port 1000-2000",
            "from 2001:db8:1::/64",
            "from 198.18.0.2,198.18.0.3",
        ],
    ),
    (4, &["to any port 53,80", "to 198.19.0.9", "to 2001:db8:2::/64", "to any port 1024-65535"]),
    (2, &["state new", "state established,related", "state established", "state invalid"]),
    (4, &["class 1", "class 0"]),
    (6, &["flags syn/syn", "flags syn/syn,ack", "flags none/fin", "type echo-request"]),
];
const POLICIES: &[&str] = &["policy accept", "policy accept", "policy drop", "policy reject"];
/// What makes a mistake of a text.
const ODD: &[&str] = &[
    "",
    "(",
    ")",
    ",",
    ">",
    "lan",
    "node",
    "99999999999999999999",
    "-1",
    "nat(",
    "#",
    "\u{1b}[2J",
    "sessions 0",
];

/// What stands between the parentheses of an item.
fn arguments(dice: &mut Dice, pieces: &[Piece]) -> Vec<&'static str> {
    let some = pieces.iter().filter_map(|(often, words)| {
        let is_said = dice.one_in(*often);
        is_said.then(|| dice.pick(words).copied()).flatten()
    });
    some.collect()
}

fn item(name: &str, arguments: &[&str]) -> String {
    if arguments.is_empty() { name.into() } else { format!("{name}({})", arguments.join(", ")) }
}

/// What a node is at both ends, which no other text changes while it runs.
#[derive(Debug, Clone)]
pub(crate) struct Ends {
    left: String,
    right: String,
    /// The table of subscribers, if there is one.
    subscribers: String,
    is_router: bool,
}

impl Ends {
    pub(crate) fn new(dice: &mut Dice) -> Ends {
        let is_router = dice.one_in(2);
        let has_third = is_router && dice.one_in(4);
        let mut port = |name, own: &[Piece]| {
            let mut all = arguments(dice, PORT);
            if is_router {
                all.splice(0..0, arguments(dice, own));
            }
            item(name, &all)
        };
        let (left, right) = (port("lan", LEFT), port("wan", RIGHT));
        let left = if has_third { format!("{} {left}", port("dmz", THIRD)) } else { left };
        // Without a choice, so that other texts stay what they were. A port with several lines has no neighbours.
        let may_have_lines = !left.contains("neighbour") && left.len().is_multiple_of(4);
        let left = if may_have_lines { left.replace(DOUBLE, LINES) } else { left };
        let has_access = is_router && !has_third && left.len().is_multiple_of(5);
        let has_subscribers = left.contains(LINES) || has_access;
        let subscribers = if has_subscribers { SUBSCRIBERS.to_string() } else { String::new() };
        let left = match has_access {
            true => format!("{ACCESS}, {LINES}) > {GATEWAYS}"),
            false => left,
        };
        Ends { left, right, subscribers, is_router }
    }
}

/// A node between these ends.
pub(crate) fn node(dice: &mut Dice, ends: &Ends) -> String {
    let mut items = vec![ends.left.clone()];
    for _ in 0..dice.roll(4) {
        items.push(stage(dice));
    }
    if ends.is_router {
        items.push(item("route", &arguments(dice, ROUTE)));
    }
    items.push(ends.right.clone());
    if dice.one_in(24) {
        let at = dice.roll(items.len());
        items[at].push_str(dice.pick(ODD).expect("there are some"));
    }
    let limits = if dice.one_in(3) { item(" limits", &arguments(dice, LIMITS)) } else { String::new() };
    format!("node {}{limits}{}", items.join(" > "), ends.subscribers)
}

fn stage(dice: &mut Dice) -> String {
    match dice.roll(6) {
        0 | 1 => {
            let mut rules = (0..dice.roll(5)).map(|_| arguments(dice, RULE).join(" ")).collect::<Vec<_>>();
            rules.push(dice.pick(POLICIES).expect("there are some").to_string());
            item("filter", &rules.iter().map(String::as_str).collect::<Vec<_>>())
        }
        2 | 3 => item("nat", &arguments(dice, NAT)),
        4 => item("queue", &arguments(dice, QUEUE)),
        _ => item("police", &arguments(dice, POLICE)),
    }
}

/// How a node is run.
pub(crate) fn run(dice: &mut Dice) -> String {
    item(" run", &arguments(dice, RUN))
}

const INSIDE: &[&str] = &["198.18.0.2", "198.18.0.3", "2001:db8:1::2"];
const OUTSIDE: &[&str] =
    &["198.19.0.9", "198.19.0.8", "192.0.2.1", "192.0.2.9", "2001:db8:2::9", "2001:db8:2::c613:9"];
const OWN: &[&str] = &["198.18.0.1", "198.19.0.1", "2001:db8:1::1"];
const PORTS: &[&str] = &["53", "80", "1000", "1000+", "1040", "1041", "1111", "5351"];
/// Options of a packet, written after its addresses.
const OPTIONS: &[Piece] = &[
    (3, &["len 100", "len 1400", "len 0", "len 3000"]),
    (6, &["ttl 1", "ttl 2", "ttl 255"]),
    (8, &["frag 0+ whole 64 id 9", "frag 24 whole 64 id 9", "frag 24+ whole 1480 id 9"]),
    (8, &["df", "nosum", "badsum", "badip"]),
    (8, &["tos 3", "id 7", "options 3"]),
];
const TCP: &[Piece] =
    &[(1, &["S seq 1", "SA seq 1 ack 2", "A seq 2 ack 2", "FA seq 2", "R seq 2", "S seq 1 mss 1460"])];

/// A packet as a line of a scenario, from inside or from outside.
pub(crate) fn packet(dice: &mut Dice, from_inside: bool) -> String {
    let mut of = |those: &[&'static str]| *dice.pick(those).expect("there are some");
    let other = if of(&["", "", "", "own"]) == "own" { OWN } else { OUTSIDE };
    let (inside, outside) = (of(INSIDE), of(other));
    let (from, to) = if from_inside { (inside, outside) } else { (outside, inside) };
    // From outside a packet goes to the translated address of an inside host.
    let to = if !from_inside && of(&["", "as"]) == "as" { "192.0.2.1" } else { to };
    let kind = of(&[
        "udp",
        "udp",
        "tcp",
        "tcp",
        "icmp echo",
        "icmp reply",
        "icmp exceeded",
        "icmp unreachable/4",
        "proto/47",
    ]);
    let (sport, dport) = (of(PORTS), of(PORTS));
    let end = |address: &str, port: &str| {
        if address.contains(':') { format!("[{address}]:{port}") } else { format!("{address}:{port}") }
    };
    let has_ports = kind == "udp" || kind == "tcp";
    let ends = if has_ports {
        format!("{kind} {} > {}", end(from, sport), end(to, dport))
    } else {
        format!("{kind} {from} > {to}")
    };
    let own = if kind == "tcp" { arguments(dice, TCP) } else { Vec::new() };
    let options = [own, arguments(dice, OPTIONS)].concat().join(" ");
    match kind {
        "icmp exceeded" | "icmp unreachable/4" => {
            format!("{ends} {options} {{udp {} > {}}}", end(to, dport), end(from, sport))
        }
        _ => format!("{ends} {options}"),
    }
}
