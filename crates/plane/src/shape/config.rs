//! Rates of ports and groups in the text of `access`, and what is shaped at all.
//!
//! ```text
//! access(gateway 100.64.0.1/10, group north vlan 100-149 rate 1Gbit, group olt7 vlan 107 rate 400Mbit in north,
//!        port access1 rate 10Gbit, strict 30%, overhead 24)
//! ```
//! A group is a range of VLANs at one access port; a subscriber belongs to the group that has its line, of two the one that is within
//! the other. `rate` is for both directions, `to` and `from` are for one: `group north vlan 100 to 1Gbit from 200Mbit`.

use super::hosts::HostShares;
use crate::frame::{Line, PortId};
use crate::port::{Port, port_named};
use crate::tags::Tags;
use crate::text::constant_rate;

/// Most groups.
const MOST_GROUPS: usize = 4096;
/// What the strict class of a subscriber may send first, in percent of its rate.
const STRICT_PERCENT: u8 = 50;
/// The last VLAN.
const LAST_VLAN: u16 = 4094;
/// Most bytes of overhead.
const MOST_OVERHEAD: u8 = 128;

/// What the text says of shaping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ShapeConfig {
    /// Rates of subscribers are policed: excess frames are dropped and none waits.
    pub(crate) is_policed: bool,
    pub(super) strict_percent: u8,
    pub(super) hosts: HostShares,
    /// Bytes of each frame on the line beside those that it has in the node.
    pub(super) overhead: u8,
    /// The same of PPPoE sessions, if it is another one.
    pub(super) overhead_pppoe: Option<u8>,
    /// The access ports with their rates from subscribers and to them, bits/s; 0: no limit.
    pub(super) ports: Vec<(PortId, [u64; 2])>,
    pub(super) groups: Vec<GroupConfig>,
}

impl Default for ShapeConfig {
    fn default() -> ShapeConfig {
        let (ports, groups) = (Vec::new(), Vec::new());
        ShapeConfig {
            is_policed: false,
            strict_percent: STRICT_PERCENT,
            hosts: HostShares::Ignored,
            overhead: 0,
            overhead_pppoe: None,
            ports,
            groups,
        }
    }
}

/// A group of lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GroupConfig {
    pub(super) name: String,
    pub(super) port: PortId,
    pub(super) lines: Lines,
    /// From subscribers and to them, bits/s; 0: no limit.
    pub(super) rates: [u64; 2],
    /// The group that it is within, by its place in the text.
    pub(super) within: Option<usize>,
}

/// Lines by their VLANs: a range of outer ones, with all inner ones or a range of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lines {
    outer: [u16; 2],
    inner: Option<[u16; 2]>,
}

impl Lines {
    fn read(text: &str) -> Result<Lines, String> {
        let number = |text: &str| text.parse().ok().filter(|vid| (1..=LAST_VLAN).contains(vid));
        let range = |text: &str| {
            let (first, last) = text.split_once('-').unwrap_or((text, text));
            Some([number(first)?, number(last)?]).filter(|[first, last]| first <= last)
        };
        let (outer, inner) = text.split_once('.').map_or((text, None), |(outer, inner)| (outer, Some(inner)));
        let read = range(outer).and_then(|outer| match inner {
            None => Some(Lines { outer, inner: None }),
            Some(inner) => Some(Lines { outer, inner: Some(range(inner)?) }),
        });
        read.ok_or_else(|| {
            format!("`{text}` are no VLANs of a group: write `vlan 100-149` for all lines of S-VLANs, or `vlan 100.1-500`")
        })
    }

    fn accept(&self, tags: Tags) -> bool {
        let is_in = |[first, last]: [u16; 2], vid| (first..=last).contains(&vid);
        is_in(self.outer, tags.outer) && self.inner.is_none_or(|inner| is_in(inner, tags.inner))
    }

    fn overlap(&self, other: &Lines) -> bool {
        let meet = |[a, b]: [u16; 2], [c, d]: [u16; 2]| a <= d && c <= b;
        let inner = self.inner.zip(other.inner);
        meet(self.outer, other.outer) && inner.is_none_or(|(one, other)| meet(one, other))
    }
}

impl ShapeConfig {
    /// Adds the access ports, without rates so far.
    pub(crate) fn take_ports(&mut self, ports: &[Port]) {
        let access = ports.iter().enumerate().filter(|(_, port)| port.is_access);
        self.ports = access.map(|(n, _)| (PortId(n as u16), [0; 2])).collect();
    }

    /// Reads an argument of the stage; `None`: it is not about shaping.
    pub(crate) fn read(&mut self, words: &[&str], ports: &[Port]) -> Option<Result<(), String>> {
        Some(match words {
            ["police"] => {
                self.is_policed = true;
                Ok(())
            }
            ["strict", percent] => self.read_strict(percent),
            ["hosts", "fair"] => {
                self.hosts = HostShares::Fair;
                Ok(())
            }
            ["hosts", ..] => Err(
                "hosts of a subscriber share its rate by flows, or each gets the same: write `hosts fair`"
                    .into(),
            ),
            ["overhead", bytes] => read_overhead(bytes).map(|read| self.overhead = read),
            ["overhead", "pppoe", bytes] => read_overhead(bytes).map(|read| self.overhead_pppoe = Some(read)),
            ["port", name, rest @ ..] => self.read_port(name, rest, ports),
            ["group", name, rest @ ..] => self.read_group(name, rest, ports),
            _ => return None,
        })
    }

    fn read_strict(&mut self, percent: &str) -> Result<(), String> {
        let read = percent.strip_suffix('%').and_then(|number| number.parse().ok());
        let percent = read.filter(|percent| (1..=100).contains(percent));
        self.strict_percent = percent.ok_or("`strict` is the part of a subscriber's rate that its strict class may have first: write `strict 50%`, from 1% to 100%")?;
        Ok(())
    }

    fn read_port(&mut self, name: &str, rest: &[&str], ports: &[Port]) -> Result<(), String> {
        let number = PortId(port_named(ports, name)? as u16);
        let known = self.ports.iter_mut().find(|(port, _)| *port == number);
        let (_, rates) = known.ok_or_else(|| {
            format!("`{name}` is no access port: write `access` among its arguments, or another port")
        })?;
        *rates = read_rates(rest)?;
        Ok(())
    }

    fn read_group(&mut self, name: &str, rest: &[&str], ports: &[Port]) -> Result<(), String> {
        const FORM: &str = "a group is a name, its VLANs, a rate, and the group that it is within, if any: write `group olt7 vlan 107 rate 400Mbit in north`";
        if self.groups.iter().any(|group| group.name == name) {
            return Err(format!("there is a group `{name}` already: give each its own name"));
        }
        if self.groups.len() >= MOST_GROUPS {
            return Err(format!("there are at most {MOST_GROUPS} groups"));
        }
        let (port, rest) = match rest {
            ["port", port, rest @ ..] => (Some(*port), rest),
            _ => (None, rest),
        };
        let ["vlan", lines, rest @ ..] = rest else { return Err(FORM.into()) };
        let (rates, within) = match rest {
            [rates @ .., "in", within] => (rates, Some(*within)),
            _ => (rest, None),
        };
        let port = match (port, &self.ports[..]) {
            (Some(port), _) => PortId(port_named(ports, port)? as u16),
            (None, [(only, _)]) => *only,
            (None, _) => {
                return Err(format!(
                    "there are several access ports: write `group {name} port PORT vlan ...`"
                ));
            }
        };
        if !self.ports.iter().any(|(access, _)| *access == port) {
            return Err(format!(
                "the port of the group `{name}` is no access port: write `access` among its arguments"
            ));
        }
        let within = match within {
            None => None,
            Some(other) => Some(self.outer_group(name, port, other)?),
        };
        let group = GroupConfig {
            name: name.into(),
            port,
            lines: Lines::read(lines)?,
            rates: read_rates(rates)?,
            within,
        };
        let is_beside = |other: &&GroupConfig| {
            (other.port, other.within.is_some()) == (port, within.is_some())
                && other.lines.overlap(&group.lines)
        };
        if let Some(other) = self.groups.iter().find(is_beside) {
            return Err(format!(
                "`{name}` and `{}` have some of the same lines: give each its own, or write `in {}`",
                other.name, other.name
            ));
        }
        self.groups.push(group);
        Ok(())
    }

    /// The group that another one is within.
    fn outer_group(&self, name: &str, port: PortId, within: &str) -> Result<usize, String> {
        let at = self.groups.iter().position(|group| group.name == within);
        let at = at.ok_or_else(|| format!("`{within}` is no group: write it in front of `{name}`"))?;
        match self.groups.get(at) {
            Some(outer) if outer.port != port => Err(format!(
                "`{within}` is at another port than `{name}`: a group is within one of its own port"
            )),
            Some(GroupConfig { within: Some(_), .. }) => Err(format!(
                "`{within}` is within another group itself: there is one level of groups within groups"
            )),
            _ => Ok(at),
        }
    }

    /// The group of a line, by its place in the text.
    pub(super) fn group_of(&self, line: Line) -> Option<usize> {
        let has = |group: &GroupConfig| group.port == line.port && group.lines.accept(line.tags);
        let place = |is_inner: bool| {
            self.groups.iter().position(|group| group.within.is_some() == is_inner && has(group))
        };
        place(true).or_else(|| place(false))
    }

    /// Whether another text has the same levels, which may have other rates.
    pub(super) fn has_the_levels_of(&self, other: &ShapeConfig) -> bool {
        let ports = |config: &ShapeConfig| config.ports.iter().map(|(port, _)| *port).collect::<Vec<_>>();
        let level = |group: &GroupConfig| (group.name.clone(), group.port, group.lines, group.within);
        self.is_policed == other.is_policed
            && ports(self) == ports(other)
            && self.groups.iter().map(level).eq(other.groups.iter().map(level))
            && (self.overhead, self.overhead_pppoe) == (other.overhead, other.overhead_pppoe)
            && (self.strict_percent, self.hosts) == (other.strict_percent, other.hosts)
    }

    /// Bytes of each frame on this line beside those that it has in the node.
    pub(super) fn overhead_of(&self, line: Line) -> u8 {
        if line.pppoe_session == 0 { self.overhead } else { self.overhead_pppoe.unwrap_or(self.overhead) }
    }
}

fn read_overhead(bytes: &str) -> Result<u8, String> {
    let read = bytes.parse().ok().filter(|bytes| *bytes <= MOST_OVERHEAD);
    read.ok_or_else(|| {
        format!("`overhead` is 0 to {MOST_OVERHEAD} bytes for each frame: write `overhead 24` to count FCS, preamble and gap")
    })
}

/// `rate 1Gbit`, or `to 1Gbit from 200Mbit`: from subscribers, and to them.
fn read_rates(words: &[&str]) -> Result<[u64; 2], String> {
    let rate = constant_rate;
    match words {
        ["rate", both] => rate(both).map(|both| [both; 2]),
        ["to", to] => Ok([0, rate(to)?]),
        ["from", from] => Ok([rate(from)?, 0]),
        ["to", to, "from", from] | ["from", from, "to", to] => Ok([rate(from)?, rate(to)?]),
        [] => Ok([0; 2]),
        _ => Err("rates are written `rate 1Gbit`, or `to 1Gbit from 200Mbit` for each direction".into()),
    }
}
