//! Weir's own node as a device under test: the node file for a bed.

use std::fmt::Write;
use std::net::IpAddr;

use weir_node::{Config, Node, NodeError, Opened, Snapshot};

use crate::bed::{Bed, BedSpec, SESSIONS};
use crate::dut::{Function, NodeIo};
use crate::interface::Port;
use crate::rules::others::{Other, others};
use crate::rules::test_network;
use crate::topology::{D0, D1, Side};

/// Opens the node of a bed in the calling thread's namespace, and starts it, a thread on each of the DUT's CPUs.
pub(super) fn start(bed: &Bed, io: NodeIo, ports: &[Port; 2]) -> Result<Node, NodeError> {
    let config =
        Config::read("the node of the bed", &text(bed.spec(), io, ports), &|_| Ok(rules(bed.spec())));
    let config = config.unwrap_or_else(|mistakes| panic!("a text of ours is right: {mistakes}"));
    Opened::new(&config)?.start()
}

/// Frames that the node has lost, by name. No test frame is for the node itself: frames without a receiver there are requests of
/// the links.
pub(super) fn drops(snapshot: &Snapshot) -> Vec<(String, u64)> {
    let named = snapshot.accounting.drops.occurred().map(|(reason, frames)| (reason.name(), frames));
    let plane =
        named.filter(|(name, _)| *name != "no_local").map(|(name, frames)| (name.to_string(), frames));
    let ports = snapshot.ports.iter().zip([D0, D1]).flat_map(|(port, (_, name, _))| {
        let lost = port.drops.iter().filter(|drops| drops.frames > 0);
        lost.map(move |drops| (format!("{} of {name}", drops.name), drops.frames))
    });
    plane.chain(ports).collect()
}

/// The network that stands for IPv4 behind a NAT64: none that is well known, since by that one no private addresses are
/// translated (RFC 6052, section 3.1), and those of tests are.
const PREFIX64: &str = "2001:db8:64::/96";

fn text(spec: &BedSpec, io: NodeIo, ports: &[Port; 2]) -> String {
    let routes: Vec<String> = [Side::A, Side::B].into_iter().flat_map(|side| routes(spec, side)).collect();
    let routes = routes.join(",\n  ");
    let [lan, wan] = [0, 1].map(|n| port(spec, [Side::A, Side::B][n], &ports[n]));
    let stages = stages(spec);
    let cpus: Vec<String> = spec.dut_cpus.iter().map(ToString::to_string).collect();
    let cpus = cpus.join(" ");
    let backend = if io == NodeIo::Packet { "packet" } else { "xdp" };
    let fast =
        if io == NodeIo::Fast { format!("on, fast-entries {}", spec.fast_entries) } else { "off".into() };
    // A thread that sleeps until a frame is due is late for it.
    let wait = if spec.dut.function() == Function::Queue { "poll" } else { "sleep" };
    format!(
        "node lan({lan}) {stages}\n> route({routes})\n> wan({wan})\n\
         run(io {backend}, cpu {cpus}, fast {fast}, wait {wait}, host none)\n"
    )
}

/// What stands between the port of side a and the routes.
fn stages(spec: &BedSpec) -> String {
    // As many ports as these flows of 4096 hosts take.
    let public = if spec.sessions > SESSIONS { "198.19.2.0/25" } else { "198.19.2.0/26" };
    let nat = format!("public {public}, block 256, sessions {}", spec.sessions);
    match spec.dut.function() {
        Function::Stateless if spec.rules == 0 => String::new(),
        Function::Stateless | Function::Stateful => "filter(rules.fw)".into(),
        Function::Nat => format!("> nat({nat})"),
        Function::Nat64 => format!("> nat({nat}, prefix64 {PREFIX64})"),
        Function::Queue => format!("> {}", spec.link.stage()),
        Function::Forward | Function::Bridge | Function::Pass | Function::Faults | Function::Unknown => {
            String::new()
        }
    }
}

fn port(spec: &BedSpec, side: Side, port: &Port) -> String {
    let ip = spec.dut.ip_on(side, spec.ip);
    let (own, next) = (side.dut(ip), side.tester(ip));
    // Both of them, and no test address.
    let length = if matches!(own, IpAddr::V4(_)) { 30 } else { 126 };
    let mut text = format!("{own}/{length}, neighbour {next} ");
    for (n, byte) in port.next_hop_mac.iter().enumerate() {
        let colon = if n > 0 { ":" } else { "" };
        write!(text, "{colon}{byte:02x}").expect("a text takes all");
    }
    format!("{text}, mtu {}, on {}", spec.mtu, port.ifname)
}

/// The rules that the kernel's filters have: all but the last are single flows that are not the test's, and the policy
/// is to drop.
fn rules(spec: &BedSpec) -> String {
    let mut text = String::new();
    for Other { source, destination, protocol, source_port, destination_port } in
        others(spec.ip, spec.rules.saturating_sub(1))
    {
        writeln!(
            text,
            "accept {protocol} from {source} port {source_port} to {destination} port {destination_port}"
        )
        .expect("a text takes all");
    }
    let network = test_network(spec.ip);
    let state = match spec.dut.function() {
        Function::Stateful => " state new,established,related",
        _ => "",
    };
    text + &format!("accept from {network} to {network}{state}\npolicy drop\n")
}

fn routes(spec: &BedSpec, side: Side) -> Vec<String> {
    let ip = spec.dut.ip_on(side, spec.ip);
    let (network, length) = side.network(ip);
    vec![format!("{network}/{length} via {}", side.tester(ip))]
}
