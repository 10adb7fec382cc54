//! Packets of scenarios as bytes, both ways. What is read is checked: each checksum that covers it must be right.

use std::net::IpAddr;

use weir_packet::checksum::{fold, sum, write_ipv4};
use weir_packet::headers::{DCCP, HIP, ICMP, ICMP6, SCTP, TCP, UDP, UDP_LITE};

use super::fields::Fields;
use super::pcp;

/// Types of ICMP with names: for IPv4, for IPv6.
const TYPES: &[(&str, u8, u8)] = &[
    ("echo", 8, 128),
    ("reply", 0, 129),
    ("unreachable", 3, 1),
    ("redirect", 5, 137),
    ("exceeded", 11, 3),
    ("problem", 12, 4),
    ("toobig", 255, 2),
];
const TCP_FLAGS: &[(char, u8)] = &[('F', 1), ('S', 2), ('R', 4), ('P', 8), ('A', 16), ('U', 32)];

/// Reads one field as a number, with what it is if it is not there.
struct Reader<'a> {
    fields: &'a Fields,
    prefix: &'a str,
}

impl Reader<'_> {
    fn text(&self, name: &str) -> Option<&str> {
        self.fields.get(&format!("{}{name}", self.prefix)).map(String::as_str)
    }

    fn number(&self, name: &str, default: u32) -> Result<u32, String> {
        let Some(text) = self.text(name) else { return Ok(default) };
        let most = match name {
            "seq" | "ack" | "id" => u32::MAX,
            "len" => 9000,
            "whole" => 70_000,
            "options" => 10,
            "ttl" | "tos" | "data" => 255,
            _ => 65535,
        };
        let number = text.parse().ok().filter(|number| *number <= most);
        number.ok_or_else(|| format!("`{name} {text}` is no number up to {most}"))
    }

    fn address(&self, name: &str) -> Result<IpAddr, String> {
        let text = self.text(name).unwrap_or_default();
        text.parse().map_err(|_| format!("`{text}` is no address"))
    }
}

/// The packet that the fields describe, from its IP header on.
pub(super) fn packet(fields: &Fields) -> Result<Vec<u8>, String> {
    build(fields, "")
}

fn build(fields: &Fields, prefix: &str) -> Result<Vec<u8>, String> {
    let read = Reader { fields, prefix };
    let (src, dst) = (read.address("src")?, read.address("dst")?);
    if src.is_ipv4() != dst.is_ipv4() {
        return Err(format!("{src} and {dst} are of two versions"));
    }
    let v6 = src.is_ipv6();
    let proto = match read.text("proto").unwrap_or_default() {
        "udp" => UDP,
        "tcp" => TCP,
        "sctp" => SCTP,
        "icmp" if v6 => ICMP6,
        "icmp" => ICMP,
        other => other
            .strip_prefix("proto/")
            .and_then(|number| number.parse().ok())
            .ok_or_else(|| format!("`{other}` is no protocol: use udp, tcp, sctp, icmp, proto/NUMBER"))?,
    };
    let (offset, more) = fragment(&read)?;
    let mut l4 = transport(&read, proto)?;
    checksum(&read, proto, &mut l4, (src, dst));
    if offset > 0 || more {
        l4 = cut_out(&read, l4, offset.into())?;
    }
    if let Some(cut) = read.text("cut") {
        l4.truncate(cut.parse().map_err(|_| format!("`cut {cut}` is no number"))?);
    }
    let mut packet = if v6 {
        header6(&read, proto, l4.len(), (src, dst), (offset, more))?
    } else {
        header4(&read, proto, l4.len(), (src, dst), (offset, more))?
    };
    packet.extend(l4);
    Ok(packet)
}

/// Offset of a fragment in bytes, and whether more follows.
type FragmentOffset = (u16, bool);

fn fragment(read: &Reader<'_>) -> Result<FragmentOffset, String> {
    let Some(text) = read.text("frag") else { return Ok((0, false)) };
    let (offset, more) = text.strip_suffix('+').map_or((text, false), |offset| (offset, true));
    let offset = offset.parse().ok().filter(|offset| offset % 8 == 0);
    Ok((offset.ok_or_else(|| format!("`frag {text}` is no offset: write a multiple of 8"))?, more))
}

/// The fragment of the packet whose payload is `whole` bytes long; its own payload has `len`.
fn cut_out(read: &Reader<'_>, l4: Vec<u8>, offset: usize) -> Result<Vec<u8>, String> {
    let payload = if offset == 0 { read.number("whole", 8)? as usize } else { l4.len() };
    let header = l4.len().saturating_sub(payload);
    let end = offset + header + read.number("len", 8)? as usize;
    let part = l4.get(offset..end).map(<[u8]>::to_vec);
    part.ok_or_else(|| {
        "a fragment lies within its packet: say how long that one's payload is with `whole`".into()
    })
}

fn payload(read: &Reader<'_>, len: usize) -> Result<Vec<u8>, String> {
    let seed = read.number("data", 0)? as u8;
    Ok((0..len).map(|i| (i as u8).wrapping_mul(7) ^ seed).collect())
}

fn request(read: &Reader<'_>, opcode: &str) -> Result<Vec<u8>, String> {
    let request = pcp::Request {
        opcode,
        host: read.address("src")?,
        port: read.number("want", 0)? as u16,
        lifetime_s: read.number("for", 0)?,
        nonce: read.number("nonce", 0)? as u8,
    };
    request.bytes()
}

fn transport(read: &Reader<'_>, proto: u8) -> Result<Vec<u8>, String> {
    let port = |name: &str| read.number(name, 0).map(|port| (port as u16).to_be_bytes());
    let own = if read.text("frag").is_some() { "whole" } else { "len" };
    let len = read.number(own, 8)? as usize;
    let mut l4 = Vec::new();
    match proto {
        UDP => {
            let data = match read.text("pcp") {
                Some(opcode) => request(read, opcode)?,
                None => payload(read, len)?,
            };
            let length = ((8 + data.len()) as u16).to_be_bytes();
            l4.extend([port("sport")?, port("dport")?, length, [0, 0]].concat());
            l4.extend(data);
        }
        TCP => {
            let options = match read.text("mss") {
                Some(_) => [&[2, 4][..], &(read.number("mss", 0)? as u16).to_be_bytes()].concat(),
                None => Vec::new(),
            };
            let flags = read.text("flags").unwrap_or("A");
            let flags =
                TCP_FLAGS.iter().filter(|(letter, _)| flags.contains(*letter)).map(|(_, bit)| bit).sum();
            l4.extend([port("sport")?, port("dport")?].concat());
            l4.extend([read.number("seq", 1)?.to_be_bytes(), read.number("ack", 0)?.to_be_bytes()].concat());
            let words = 5 + options.len() / 4;
            l4.extend([(words << 4) as u8, flags]);
            l4.extend((read.number("win", 65535)? as u16).to_be_bytes());
            l4.extend([0; 4]);
            l4.extend(options);
            l4.extend(payload(read, read.number(own, 0)? as usize)?);
        }
        ICMP | ICMP6 => {
            // Of a packet of which a later fragment is sent no type is seen: any will do.
            let (kind, code) = icmp_type(read.text("type").unwrap_or("echo"), proto == ICMP6)?;
            l4.extend([kind, code, 0, 0]);
            if read.prefix.is_empty() && read.fields.contains_key("in.proto") {
                l4.extend([0, 0]);
                l4.extend((read.number("mtu", 0)? as u16).to_be_bytes());
                let mut quoted = build(read.fields, "in.")?;
                if read.fields.contains_key("in.badip") {
                    quoted[10] ^= 0x55;
                }
                l4.extend(quoted);
            } else {
                l4.extend((read.number("id", 0)? as u16).to_be_bytes());
                l4.extend((read.number("seq", 1)? as u16).to_be_bytes());
                l4.extend(payload(read, len)?);
            }
        }
        SCTP => {
            // Its checksum is not checked here (RFC 9260, section 6.8).
            l4.extend([&port("sport")?[..], &port("dport")?, &[0; 8]].concat());
            l4.extend(payload(read, len)?);
        }
        UDP_LITE | DCCP | HIP if len < 8 => {
            return Err(format!("protocol {proto} has a header of 8 bytes or more"));
        }
        // All of it is covered, as the zero in this place says.
        UDP_LITE | DCCP | HIP => {
            l4.extend(payload(read, len)?);
            l4[4..8].fill(0);
        }
        _ => l4.extend(payload(read, len)?),
    }
    Ok(l4)
}

fn icmp_type(text: &str, v6: bool) -> Result<(u8, u8), String> {
    let (name, code) = text.split_once('/').unwrap_or((text, "0"));
    let known =
        TYPES.iter().find(|(known, ..)| *known == name).map(|&(_, v4, six)| if v6 { six } else { v4 });
    let kind = known.or_else(|| name.parse().ok());
    let names = || TYPES.iter().map(|(name, ..)| *name).collect::<Vec<_>>().join(", ");
    Ok((
        kind.ok_or_else(|| format!("`{text}` is no type of ICMP: use {} or a number", names()))?,
        code.parse().map_err(|_| format!("`{text}` has no code behind the slash"))?,
    ))
}

fn checksum(read: &Reader<'_>, proto: u8, l4: &mut [u8], ends: (IpAddr, IpAddr)) {
    let at = match proto {
        UDP | UDP_LITE | DCCP => 6,
        HIP => 4,
        TCP => 16,
        ICMP | ICMP6 => 2,
        _ => return,
    };
    if read.text("nosum").is_none() {
        let right = !fold(covered(proto, l4, ends));
        let right = if proto == UDP && right == 0 { 0xffff } else { right };
        l4[at..at + 2].copy_from_slice(&right.to_be_bytes());
    }
    if read.text("badsum").is_some() {
        l4[at] ^= 0x55;
    }
}

/// The sum over the transport with its pseudo header; ICMP for IPv4 has none.
fn covered(proto: u8, l4: &[u8], ends: (IpAddr, IpAddr)) -> u64 {
    let address = |address: IpAddr| match address {
        IpAddr::V4(address) => sum(&address.octets()),
        IpAddr::V6(address) => sum(&address.octets()),
    };
    let pseudo = match proto {
        ICMP => 0,
        _ => address(ends.0) + address(ends.1) + l4.len() as u64 + u64::from(proto),
    };
    sum(l4) + pseudo
}

fn header4(
    read: &Reader<'_>,
    proto: u8,
    l4: usize,
    ends: (IpAddr, IpAddr),
    offset: FragmentOffset,
) -> Result<Vec<u8>, String> {
    let (IpAddr::V4(src), IpAddr::V4(dst)) = ends else { unreachable!("seen before") };
    // Options of IP are no-operations.
    let options = read.number("options", 0)? as usize;
    let total = 20 + options * 4 + l4;
    let flags = u16::from(read.text("df").is_some()) << 14 | u16::from(offset.1) << 13 | (offset.0 / 8);
    let is_query = proto == ICMP && !read.fields.contains_key("in.proto");
    let id = if is_query { 0x1234 } else { read.number("id", 0x1234)? };
    let mut header = vec![0x45 + options as u8, read.number("tos", 0)? as u8];
    header.extend((total as u16).to_be_bytes());
    header.extend((id as u16).to_be_bytes());
    header.extend(flags.to_be_bytes());
    header.extend([read.number("ttl", 64)? as u8, proto, 0, 0]);
    header.extend([src.octets(), dst.octets()].concat());
    header.extend(vec![1; options * 4]);
    write_ipv4(&mut header);
    if read.prefix.is_empty() && read.text("badip").is_some() {
        header[10] ^= 0x55;
    }
    Ok(header)
}

fn header6(
    read: &Reader<'_>,
    proto: u8,
    l4: usize,
    ends: (IpAddr, IpAddr),
    offset: FragmentOffset,
) -> Result<Vec<u8>, String> {
    let (IpAddr::V6(src), IpAddr::V6(dst)) = ends else { unreachable!("seen before") };
    let extension = match read.text("frag") {
        Some(_) => {
            let offset = (offset.0 & !7 | u16::from(offset.1)).to_be_bytes();
            [&[proto, 0][..], &offset, &read.number("id", 0x1234)?.to_be_bytes()].concat()
        }
        None => Vec::new(),
    };
    let first = if extension.is_empty() { proto } else { 44 };
    let tos = read.number("tos", 0)? as u8;
    let mut header = vec![0x60 | tos >> 4, tos << 4, 0, 0];
    header.extend(((l4 + extension.len()) as u16).to_be_bytes());
    header.extend([first, read.number("ttl", 64)? as u8]);
    header.extend([src.octets(), dst.octets()].concat());
    header.extend(extension);
    Ok(header)
}

/// What a packet says; an error if one of its checksums is wrong, or its headers contradict each other.
pub(super) fn seen(packet: &[u8]) -> Result<Fields, String> {
    let mut fields = Fields::new();
    describe(packet, "", &mut fields)?;
    Ok(fields)
}

/// What fragments of a packet have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Origin {
    ends: (IpAddr, IpAddr),
    proto: u8,
    id: u32,
}

/// A fragment.
pub(super) struct Fragment {
    pub(super) origin: Origin,
    pub(super) offset: u16,
    pub(super) more: bool,
    pub(super) l4: Vec<u8>,
}

/// The fragment that a packet is; `None` of a whole one.
pub(super) fn as_fragment(packet: &[u8]) -> Result<Option<Fragment>, String> {
    let mut fields = Fields::new();
    let mut notes = Notes { fields: &mut fields, prefix: "" };
    let v4 = packet.first().is_some_and(|first| first >> 4 == 4);
    let ip = if v4 { describe4(packet, &mut notes)? } else { describe6(packet, &mut notes)? };
    if ip.offset == 0 && !ip.more {
        return Ok(None);
    }
    let id = if v4 { &packet[4..6] } else { &packet[44..48] };
    let id = id.iter().fold(0, |id, byte| id << 8 | u32::from(*byte));
    let l4 = packet.get(ip.at..).ok_or("it ends before its transport begins")?.to_vec();
    let origin = Origin { ends: ip.ends, proto: ip.proto, id };
    Ok(Some(Fragment { origin, offset: ip.offset, more: ip.more, l4 }))
}

/// Whether the checksum of what fragments make is right.
pub(super) fn judge(origin: &Origin, l4: &[u8]) -> Result<(), String> {
    if is_right(origin.proto, l4, origin.ends) {
        Ok(())
    } else {
        Err("the checksum of what its fragments make is wrong".to_string())
    }
}

/// Whether the checksum of a transport is right, where it has one; UDP of IPv6 must (RFC 8200, section 8.1).
fn is_right(proto: u8, l4: &[u8], ends: (IpAddr, IpAddr)) -> bool {
    match proto {
        UDP if l4.get(6..8).is_none_or(|sum| sum == [0, 0]) => ends.0.is_ipv4(),
        UDP | TCP | ICMP | ICMP6 | UDP_LITE | DCCP | HIP => fold(covered(proto, l4, ends)) == 0xffff,
        _ => true,
    }
}

/// Where the fields of a packet are noted: `in.` stands in front of those of a quoted one.
struct Notes<'a> {
    fields: &'a mut Fields,
    prefix: &'a str,
}

impl Notes<'_> {
    fn set(&mut self, name: &str, value: impl ToString) {
        self.fields.insert(format!("{}{name}", self.prefix), value.to_string());
    }
}

/// What an IP header says of the rest.
struct Ip {
    ends: (IpAddr, IpAddr),
    proto: u8,
    /// Where the transport begins.
    at: usize,
    /// Bytes of the packet by its own account.
    total: usize,
    offset: u16,
    more: bool,
}

fn describe(packet: &[u8], prefix: &str, fields: &mut Fields) -> Result<(), String> {
    let quoted = !prefix.is_empty();
    let mut notes = Notes { fields, prefix };
    let ip = match packet.first().map(|first| first >> 4) {
        Some(4) => describe4(packet, &mut notes)?,
        Some(6) => describe6(packet, &mut notes)?,
        version => return Err(format!("it is of version {version:?}")),
    };
    if !quoted && ip.total != packet.len() {
        return Err(format!("its length says {}, it has {} bytes", ip.total, packet.len()));
    }
    notes.set("src", ip.ends.0);
    notes.set("dst", ip.ends.1);
    let name = match ip.proto {
        UDP => "udp".to_string(),
        TCP => "tcp".to_string(),
        SCTP => "sctp".to_string(),
        ICMP | ICMP6 => "icmp".to_string(),
        other => format!("proto/{other}"),
    };
    notes.set("proto", &name);
    let whole = ip.offset == 0 && !ip.more;
    if !whole {
        notes.set("frag", format!("{}{}", ip.offset, if ip.more { "+" } else { "" }));
    }
    let l4 = packet.get(ip.at..).ok_or("it ends before its transport begins")?;
    if ip.offset > 0 {
        notes.set("len", l4.len());
        return Ok(());
    }
    describe_transport(l4, ip.proto, &mut notes)?;
    if whole && ip.total == packet.len() && !is_right(ip.proto, l4, ip.ends) {
        if !quoted {
            return Err(format!("the checksum of its {} is wrong", name.to_uppercase()));
        }
        notes.set("badsum", "yes");
    }
    if !quoted && matches!(ip.proto, ICMP | ICMP6) && is_error(ip.proto, l4[0]) {
        describe(l4.get(8..).ok_or("it quotes nothing")?, "in.", fields)?;
    }
    Ok(())
}

fn describe4(packet: &[u8], notes: &mut Notes<'_>) -> Result<Ip, String> {
    let header = packet.first_chunk::<20>().ok_or("it ends within its IPv4 header")?;
    let at = usize::from(header[0] & 15) * 4;
    let all = packet.get(..at).filter(|_| at >= 20).ok_or("it ends within its IPv4 header")?;
    if fold(sum(all)) != 0xffff {
        return Err(format!("the checksum of its {}IPv4 header is wrong", notes.prefix));
    }
    let word = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    let quad = |at: usize| IpAddr::from([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    let (proto, frag_off) = (header[9], word(6));
    notes.set("ttl", header[8]);
    notes.set("tos", header[1]);
    // `id` of a query of ICMP is its identifier.
    if proto != ICMP {
        notes.set("id", word(4));
    }
    if frag_off & 0x4000 != 0 {
        notes.set("df", "yes");
    }
    if at > 20 {
        notes.set("options", (at - 20) / 4);
    }
    let (offset, more) = ((frag_off & 0x1fff) * 8, frag_off & 0x2000 != 0);
    Ok(Ip { ends: (quad(12), quad(16)), proto, at, total: word(2).into(), offset, more })
}

fn describe6(packet: &[u8], notes: &mut Notes<'_>) -> Result<Ip, String> {
    let header = packet.first_chunk::<40>().ok_or("it ends within its IPv6 header")?;
    let address = |at: usize| IpAddr::from(<[u8; 16]>::try_from(&header[at..at + 16]).expect("16 bytes"));
    let total = 40 + usize::from(u16::from_be_bytes([header[4], header[5]]));
    let mut ip =
        Ip { ends: (address(8), address(24)), proto: header[6], at: 40, total, offset: 0, more: false };
    notes.set("ttl", header[7]);
    notes.set("tos", header[0] << 4 | header[1] >> 4);
    if header[6] == 44 {
        let extension = packet.get(40..48).ok_or("it ends within its fragment header")?;
        let frag_off = u16::from_be_bytes([extension[2], extension[3]]);
        (ip.proto, ip.at, ip.offset, ip.more) = (extension[0], 48, frag_off & 0xfff8, frag_off & 1 != 0);
        notes.set("id", u32::from_be_bytes([extension[4], extension[5], extension[6], extension[7]]));
    }
    Ok(ip)
}

/// Of a quoted packet eight bytes are enough (RFC 792).
fn describe_transport(l4: &[u8], proto: u8, notes: &mut Notes<'_>) -> Result<(), String> {
    let word = |at: usize| l4.get(at..at + 2).map_or(0, |two| u16::from_be_bytes([two[0], two[1]]));
    let long = |at: usize| u32::from(word(at)) << 16 | u32::from(word(at + 2));
    if matches!(proto, UDP | TCP | ICMP | ICMP6) && l4.len() < 8 {
        return Err("it ends within its transport header".to_string());
    }
    let header = match proto {
        UDP | TCP => {
            notes.set("sport", word(0));
            notes.set("dport", word(2));
            if proto == UDP && word(6) == 0 {
                notes.set("nosum", "yes");
            }
            if proto == UDP && word(0) == pcp::PORT {
                pcp::answer(&l4[8..]).into_iter().for_each(|(name, value)| notes.set(name, value));
            }
            if proto == TCP { describe_tcp(l4, notes) } else { 8 }
        }
        ICMP | ICMP6 => {
            let (kind, code) = (l4[0], l4[1]);
            let name = TYPES.iter().find(|&&(_, v4, v6)| kind == if proto == ICMP { v4 } else { v6 });
            let name = name.map_or(kind.to_string(), |(name, ..)| name.to_string());
            notes.set("type", if code == 0 { name } else { format!("{name}/{code}") });
            if is_error(proto, kind) && notes.prefix.is_empty() {
                // RFC 1191, section 4; RFC 4443, section 3.2.
                notes.set("mtu", if proto == ICMP { word(6).into() } else { long(4) });
            } else {
                notes.set("id", word(4));
                notes.set("seq", word(6));
            }
            8
        }
        SCTP => {
            notes.set("sport", word(0));
            notes.set("dport", word(2));
            12
        }
        _ => 0,
    };
    notes.set("len", l4.len().saturating_sub(header));
    Ok(())
}

/// The length of its header.
fn describe_tcp(l4: &[u8], notes: &mut Notes<'_>) -> usize {
    let word = |at: usize| u16::from_be_bytes([l4[at], l4[at + 1]]);
    notes.set("seq", u32::from(word(4)) << 16 | u32::from(word(6)));
    if l4.len() < 20 {
        return 20;
    }
    notes.set("ack", u32::from(word(8)) << 16 | u32::from(word(10)));
    notes.set("win", word(14));
    let flags = TCP_FLAGS.iter().filter(|(_, bit)| l4[13] & bit != 0).map(|(letter, _)| letter);
    notes.set("flags", flags.collect::<String>());
    if let Some([2, 4, a, b]) = l4.get(20..24) {
        notes.set("mss", u16::from_be_bytes([*a, *b]));
    }
    usize::from(l4[12] >> 4) * 4
}

fn is_error(proto: u8, kind: u8) -> bool {
    if proto == ICMP { matches!(kind, 3 | 4 | 5 | 11 | 12) } else { kind < 128 }
}

#[cfg(test)]
mod tests {
    use super::super::fields::{Names, matches, read, shown};
    use weir_testkit::{golden, mistakes};

    use super::*;

    #[test]
    fn what_is_built_is_seen_again() {
        for line in [
            "udp 198.18.0.1:1111 > 198.19.0.9:53 ttl 63 id 7 len 100 df",
            "udp 198.18.0.1:1111 > 198.19.0.9:53 len 0 nosum",
            "udp [2001:db8::1]:1111 > [2001:db8:9::9]:53 len 3",
            "tcp 198.18.0.1:1000 > 198.19.0.9:80 SA seq 9 ack 8 win 7 mss 1460",
            "icmp echo 198.18.0.1 > 198.19.0.9 id 7 seq 2 len 11",
            "icmp reply 2001:db8::1 > 2001:db8:9::9 id 7",
            "icmp unreachable/4 198.19.0.9 > 192.0.2.1 mtu 1400 {udp 192.0.2.1:1024 > 198.19.0.9:53 ttl 1}",
            "icmp exceeded 2001:db8::9 > 2001:db8::1 {tcp [2001:db8::1]:1 > [2001:db8::2]:2 S}",
            "icmp unreachable/1 198.19.0.9 > 192.0.2.1 {udp 192.0.2.1:1024 > 198.19.0.9:53 cut 8}",
            "udp 198.18.0.1:1 > 198.19.0.9:2 len 24 whole 48 frag 0+ id 77",
            "udp 198.18.0.1 > 198.19.0.9 len 24 whole 48 frag 32 id 77",
            "icmp echo 198.18.0.1 > 198.19.0.9 len 16 whole 48 frag 0+",
            "icmp 198.18.0.1 > 198.19.0.9 len 16 whole 48 frag 24+",
            "icmp 2001:db8::1 > 2001:db8:9::9 len 16 whole 48 frag 40 id 77",
            "icmp exceeded 198.19.0.9 > 192.0.2.1 {icmp 192.0.2.1 > 198.19.0.9 len 16 whole 48 frag 24+}",
            "proto/47 198.18.0.1 > 198.19.0.9 options 2",
        ] {
            let mut fields = read(line).expect(line);
            let bytes = packet(&fields).expect(line);
            let seen = seen(&bytes).expect(line);
            fields.remove("in.cut");
            fields.remove("whole");
            fields.remove("in.whole");
            assert!(matches(&fields, &seen, &mut Names::new()), "{line}\n{}", shown(&seen));
            assert_eq!(read(&shown(&seen)), Ok(seen), "{line}");
        }
    }

    #[test]
    fn wrong_checksums_are_seen() {
        let texts = [
            "udp 198.18.0.1:1 > 198.19.0.9:2 badsum",
            "tcp 198.18.0.1:1 > 198.19.0.9:2 S badsum",
            "icmp echo 198.18.0.1 > 198.19.0.9 badsum",
            "udp 198.18.0.1:1 > 198.19.0.9:2 badip",
            "icmp exceeded 198.18.0.1 > 198.19.0.9 {udp 198.18.0.1:1 > 198.19.0.9:2 badip}",
        ];
        golden!("src/scenario/checksums.txt", &mistakes(&texts, |line| seen(&packet(&read(line)?)?)));
    }
}
