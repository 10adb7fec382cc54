//! Filters and NAT of nftables.
//!
//! The named counters can be read without listing all rules; the one after the last rule counts what the policy is
//! about to drop and is never reached by accepted frames. A rule that does not match costs one comparison of the
//! source address and, now and then, of the destination.

use std::fmt::Write as _;

use serde_json::Value;
use weir_packet::flow::IpVersion;

use super::others::{Other, others};
use super::tool::Tool;
use super::{Described, Shape, Verdicts, test_network};
use crate::error::Result;

pub(super) const NFT: Tool = Tool { program: "nft", package: "nftables" };

const TABLE: &str = "weir";
const CHAIN: &str = "forwarding";
/// The set or map, and the chain that its elements lead to.
const LISTED: &str = "listed";

/// Installs a filter in one transaction.
pub(super) fn install(filter: &Described) -> Result<()> {
    replace(filter.ip, &body(filter))
}

/// Installs source NAT.
pub(super) fn install_masquerade(ip: IpVersion) -> Result<()> {
    let chain = "chain source_nat {\n type nat hook postrouting priority srcnat; policy accept;\n oifname \"d1\" \
                 masquerade\n}";
    replace(ip, chain)
}

/// Lets the kernel track connections, which it does as soon as a rule asks for them, in a chain that no frame enters.
pub(super) fn install_tracking(ip: IpVersion) -> Result<()> {
    replace(ip, "chain never_entered {\n ct state new accept\n}")
}

fn replace(ip: IpVersion, body: &str) -> Result<()> {
    let family = family(ip);
    // Adding before deleting makes the deletion right whether the table is there or not.
    let script = format!(
        "add table {family} {TABLE}\ndelete table {family} {TABLE}\ntable {family} {TABLE} {{\n{body}\n}}\n"
    );
    NFT.run(&["-f", "-"], &script).map(drop)
}

/// Packets and bytes of all rules, in order.
pub(super) fn counters(filter: &Described) -> Result<Vec<(u64, u64)>> {
    let objects = list(filter.ip, &["table"])?;
    let accepted = named(&objects, "accepted");
    let of_chain = |chain: &'static str| {
        let rules = objects.iter().filter_map(|object| object.get("rule"));
        rules.filter(move |rule| rule["chain"] == chain).filter_map(move |rule| rule_counter(rule, accepted))
    };
    Ok(of_chain(LISTED).chain(of_chain(CHAIN)).collect())
}

/// What the filter accepted and refused. Quick at any size.
pub(super) fn verdicts(filter: &Described) -> Result<Verdicts> {
    let objects = list(filter.ip, &["counters", "table"])?;
    Ok(Verdicts { accepted: named(&objects, "accepted").0, refused: named(&objects, "refused").0 })
}

fn list(ip: IpVersion, what: &[&str]) -> Result<Vec<Value>> {
    let text = NFT.run(&[&["-j", "list"], what, &[family(ip), TABLE]].concat(), "")?;
    let mut json: Value =
        serde_json::from_str(&text).map_err(|error| NFT.refused(format!("its list is not JSON: {error}")))?;
    match json["nftables"].take() {
        Value::Array(objects) => Ok(objects),
        other => Err(NFT.refused(format!("its list has no objects: {other}"))),
    }
}

fn family(ip: IpVersion) -> &'static str {
    match ip {
        IpVersion::V4 => "ip",
        IpVersion::V6 => "ip6",
    }
}

fn body(filter: &Described) -> String {
    let family = family(filter.ip);
    let key = format!("{family} saddr . {family} daddr . meta l4proto . th sport . th dport");
    let (listed, first) = match filter.shape {
        Shape::Chain => (String::new(), chain_rules(filter)),
        Shape::Set => (collection(filter, "set", "", ""), format!(" {key} @{LISTED} counter accept\n")),
        Shape::Map => {
            let map = collection(filter, "map", " : verdict", &format!(" : goto {LISTED}"));
            (format!("chain {LISTED} {{\n counter accept\n}}\n{map}"), format!(" {key} vmap @{LISTED}\n"))
        }
    };
    let network = test_network(filter.ip);
    let state = if filter.tracked { "ct state new,established,related " } else { "" };
    format!(
        "counter accepted {{ }}\ncounter refused {{ }}\n{listed}chain {CHAIN} {{\n type filter hook forward priority \
         filter; policy drop;\n{first} {family} saddr {network} {family} daddr {network} {state}counter name accepted \
         accept\n counter name refused\n}}"
    )
}

fn chain_rules(filter: &Described) -> String {
    let family = family(filter.ip);
    let mut text = String::new();
    for Other { source, destination, protocol, source_port, destination_port } in
        others(filter.ip, filter.rules - 1)
    {
        writeln!(
            text,
            " {family} saddr {source} {family} daddr {destination} {protocol} sport {source_port} {protocol} dport \
             {destination_port} counter accept"
        )
        .expect("a String takes all");
    }
    text
}

/// A set or a map of all other flows.
fn collection(filter: &Described, kind: &str, data_type: &str, data: &str) -> String {
    let address = match filter.ip {
        IpVersion::V4 => "ipv4_addr",
        IpVersion::V6 => "ipv6_addr",
    };
    let element = |other: Other| {
        let Other { source, destination, protocol, source_port, destination_port } = other;
        format!("{source} . {destination} . {protocol} . {source_port} . {destination_port}{data}")
    };
    let elements: Vec<_> = others(filter.ip, filter.rules - 1).map(element).collect();
    let elements = if elements.is_empty() {
        String::new()
    } else {
        format!(" elements = {{ {} }}\n", elements.join(", "))
    };
    format!(
        "{kind} {LISTED} {{\n type {address} . {address} . inet_proto . inet_service . \
         inet_service{data_type}\n{elements}}}\n"
    )
}

/// Packets and bytes of a counter object of this name.
fn named(objects: &[Value], name: &str) -> (u64, u64) {
    let counter = objects.iter().filter_map(|object| object.get("counter")).find(|c| c["name"] == name);
    counter.map_or((0, 0), packets_and_bytes)
}

/// Counter of a rule: its own, or the object `accepted`. None for the rule that counts what is refused.
fn rule_counter(rule: &Value, accepted: (u64, u64)) -> Option<(u64, u64)> {
    let counter = rule["expr"].as_array()?.iter().find_map(|expression| expression.get("counter"))?;
    match counter.as_str() {
        Some("accepted") => Some(accepted),
        Some(_) => None,
        None => Some(packets_and_bytes(counter)),
    }
}

fn packets_and_bytes(counter: &Value) -> (u64, u64) {
    (counter["packets"].as_u64().unwrap_or(0), counter["bytes"].as_u64().unwrap_or(0))
}
