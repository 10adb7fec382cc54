//! A packet as a line of words, and such a line as a pattern.
//!
//! ```text
//! udp 198.18.0.1:1111 > 198.19.0.9:53 ttl 64 len 100        tcp 198.18.0.1:1000+ > 198.19.0.9:80 S mss 1460
//! icmp echo 198.18.0.1 > 198.19.0.9 id 7                    icmp unreachable/1 198.19.0.9 > 192.0.2.1 {udp ... > ...}
//! udp [2001:db8::1]:1111 > [2001:db8:9::9]:53               proto/47 198.18.0.1 > 198.19.0.9
//! ```
//! A packet with `ether` stands in a frame of another kind, see `ether.rs`: `udp 198.18.0.1:1 > 198.19.0.9:2 ether pppoe`.
//!
//! In a pattern `*` stands for anything, or nothing, and `$name` for what it stood for where it was first met; what is not named
//! is not compared. In what is sent, `1000+` is one more with each repetition.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

/// What a packet says, by the name of the field; of the packet that an error quotes with `in.` in front.
pub(super) type Fields = BTreeMap<String, String>;

/// What names stand for.
pub(super) type Names = BTreeMap<String, String>;

/// Options that have a value.
const VALUED: &[&str] = &[
    "ttl", "tos", "id", "frag", "len", "whole", "data", "seq", "ack", "win", "mss", "mtu", "cut", "options",
    "pcp", "want", "for", "nonce", "result", "granted", "ether", "tags", "priority",
];
/// Options that are there or not.
const FLAGS: &[&str] = &["df", "nosum", "badsum", "badip"];
const NO_TYPE: &str = "icmp needs a type: echo, reply, unreachable/CODE, exceeded, TYPE/CODE";

/// Reads a line; the text says what is wrong with it.
pub(super) fn read(line: &str) -> Result<Fields, String> {
    let (outer, inner) = match line.split_once('{') {
        Some((outer, rest)) => {
            let inner =
                rest.trim_end().strip_suffix('}').ok_or("the quoted packet is not closed: add a `}`")?;
            (outer, Some(inner))
        }
        None => (line, None),
    };
    let mut fields = packet(outer)?;
    if let Some(inner) = inner {
        fields.extend(packet(inner)?.into_iter().map(|(name, value)| (format!("in.{name}"), value)));
    }
    Ok(fields)
}

fn packet(line: &str) -> Result<Fields, String> {
    let mut words = line.split_whitespace();
    let mut fields = Fields::new();
    let mut set = |name: &str, value: &str| fields.insert(name.to_string(), value.to_string());
    let proto =
        words.next().ok_or("a packet begins with its protocol: udp, tcp, sctp, icmp, proto/NUMBER")?;
    set("proto", proto);
    // A later fragment has none: there its addresses follow.
    let has_type = words.clone().nth(1) != Some(">");
    if proto == "icmp" && has_type {
        set("type", words.next().ok_or(NO_TYPE)?);
    }
    let ends = [words.next(), words.next().filter(|word| *word == ">"), words.next()];
    let [Some(src), Some(_), Some(dst)] = ends else {
        return Err(format!("`{}` has no `FROM > TO` behind its protocol", line.trim()));
    };
    for ((address, port), [address_name, port_name]) in
        [(end(src), ["src", "sport"]), (end(dst), ["dst", "dport"])]
    {
        set(address_name, address);
        if let Some(port) = port {
            set(port_name, port);
        }
    }
    while let Some(word) = words.next() {
        match word {
            _ if VALUED.contains(&word) => {
                set(word, words.next().ok_or_else(|| format!("`{word}` needs a value"))?);
            }
            _ if FLAGS.contains(&word) => {
                set(word, "yes");
            }
            _ if proto == "tcp" && word.bytes().all(|flag| b"FSRPAU.".contains(&flag)) => {
                set("flags", word);
            }
            _ => {
                return Err(format!(
                    "`{word}` is no option: use {}, {}",
                    VALUED.join(", "),
                    FLAGS.join(", ")
                ));
            }
        }
    }
    let is_later = fields.get("frag").is_some_and(|place| !matches!(place.as_str(), "0" | "0+"));
    if proto == "icmp" && !has_type && !is_later { Err(NO_TYPE.to_string()) } else { Ok(fields) }
}

/// Address and port of `1.2.3.4:5`, `[2001:db8::1]:5`, `$name:$name`; without a port of either.
fn end(text: &str) -> (&str, Option<&str>) {
    if let Some(rest) = text.strip_prefix('[') {
        let (address, port) = rest.split_once(']').unwrap_or((rest, ""));
        return (address, port.strip_prefix(':'));
    }
    match text.parse::<IpAddr>() {
        Ok(_) => (text, None),
        Err(_) => text.rsplit_once(':').map_or((text, None), |(address, port)| (address, Some(port))),
    }
}

/// The packet as a line again.
pub(super) fn shown(fields: &Fields) -> String {
    let one = |prefix: &str| {
        let get = |name: &str| fields.get(&format!("{prefix}{name}"));
        let mut words = vec![get("proto").cloned().unwrap_or_default()];
        words.extend(get("type").cloned());
        let end = |address: &str, port: &str| {
            let address = get(address).cloned().unwrap_or_default();
            match get(port) {
                Some(port) if address.contains(':') => format!("[{address}]:{port}"),
                Some(port) => format!("{address}:{port}"),
                None => address,
            }
        };
        words.extend([end("src", "sport"), ">".to_string(), end("dst", "dport")]);
        words.extend(get("flags").cloned());
        for name in VALUED {
            words.extend(get(name).map(|value| format!("{name} {value}")));
        }
        words.extend(FLAGS.iter().filter(|flag| get(flag).is_some()).map(|flag| flag.to_string()));
        words.join(" ")
    };
    if fields.contains_key("in.proto") { format!("{} {{{}}}", one(""), one("in.")) } else { one("") }
}

/// The fields with names replaced by what they stand for, and `+` by the repetition.
pub(super) fn resolved(fields: &Fields, names: &Names, repetition: u32) -> Result<Fields, String> {
    let value = |(name, text): (&String, &String)| match text.strip_prefix('$') {
        Some(known) => names.get(known).cloned().ok_or_else(|| format!("`${known}` stands for nothing yet")),
        None => Ok(counted(name, text, repetition)),
    };
    fields.iter().map(|field| Ok((field.0.clone(), value(field)?))).collect()
}

/// `1000+` as it is in this repetition; behind the offset of a fragment, `+` says that more follow.
pub(super) fn counted(name: &str, text: &str, repetition: u32) -> String {
    let first = text.strip_suffix('+').filter(|_| !name.ends_with("frag"));
    let next = |first: &str| match (first.parse::<u32>(), first.parse::<Ipv4Addr>()) {
        (Ok(first), _) => Some((first + repetition).to_string()),
        (_, Ok(first)) => Some(Ipv4Addr::from(u32::from(first) + repetition).to_string()),
        _ => None,
    };
    first.and_then(next).unwrap_or_else(|| text.to_string())
}

/// Whether a packet is as the pattern says; names that are met for the first time stand for its values from then on.
pub(super) fn matches(pattern: &Fields, seen: &Fields, names: &mut Names) -> bool {
    let mut met = Names::new();
    let fits = pattern.iter().all(|(field, wanted)| {
        let Some(value) = seen.get(field) else { return wanted == "*" };
        match wanted.strip_prefix('$') {
            Some(name) => match names.get(name).or_else(|| met.get(name)) {
                Some(known) => known == value,
                None => {
                    met.insert(name.to_string(), value.clone());
                    true
                }
            },
            None => wanted == "*" || wanted == value,
        }
    });
    if fits {
        names.extend(met);
    }
    fits
}

#[cfg(test)]
mod tests {
    use weir_testkit::{golden, mistakes};

    use super::*;

    #[test]
    fn lines_are_read_and_shown_again() {
        for line in [
            "udp 198.18.0.1:1111 > 198.19.0.9:53 ttl 64 len 100 df",
            "tcp 198.18.0.1:1000 > 198.19.0.9:80 SA seq 1 mss 1460",
            "icmp echo 198.18.0.1 > 198.19.0.9 id 7",
            "icmp unreachable/1 198.19.0.9 > 192.0.2.1 {udp 192.0.2.1:$p > 198.19.0.9:53 ttl 63}",
            "udp [2001:db8::1]:1111 > [2001:db8:9::9]:53",
            "icmp echo 2001:db8::1 > 2001:db8:9::9 id 1",
            "icmp 198.18.0.1 > 198.19.0.9 frag 24+ len 16",
            "proto/47 198.18.0.1 > *",
        ] {
            assert_eq!(read(line).map(|fields| shown(&fields)), Ok(line.to_string()));
        }
        let texts = [
            "",
            "udp 198.18.0.1:1",
            "udp a > b ttl",
            "udp a > b S",
            "icmp exceeded a > b {udp a > b",
            "icmp",
            "icmp a > b frag 0+",
            "icmp exceeded a > b {icmp a > b}",
        ];
        golden!("src/scenario/mistakes.txt", &mistakes(&texts, read));
    }

    #[test]
    fn names_stand_for_what_they_met_first() {
        let [pattern, first, other] =
            ["udp $a:$p > *:53", "udp 192.0.2.1:9 > 198.19.0.9:53", "udp 192.0.2.1:8 > 198.19.0.9:53"]
                .map(|line| read(line).expect("a packet"));
        let mut names = Names::new();
        assert!(!matches(&pattern, &read("tcp a:1 > b:53").expect("a packet"), &mut names));
        assert!(names.is_empty());
        assert!(matches(&pattern, &first, &mut names));
        assert!(!matches(&pattern, &other, &mut names));
        let sent = read("udp 198.19.0.9:1+ > $a:$p").expect("a packet");
        assert_eq!(shown(&resolved(&sent, &names, 4).expect("known")), "udp 198.19.0.9:5 > 192.0.2.1:9");
        assert!(resolved(&pattern, &Names::new(), 0).is_err());
    }
}
