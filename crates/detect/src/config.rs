//! The configuration: watched networks, limits and actions, read from TOML.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use toml_edit::{Item, Value};
use weir_config::{Mistakes, Notes, Section, shown, unit, value};

use crate::announce::{Announce, Daemon, Route};
use crate::counts::{Direction, Limits, Metric};
use crate::prefix::Prefix;

/// Of an announcement, where the configuration does not say it: as long as FastNetMon bans.
const LIFETIME: Duration = Duration::from_secs(1900);
/// After the end of an attack, where the configuration does not say it.
const HOLD: Duration = Duration::from_secs(60);

/// That of an Ethernet.
const DEFAULT_MTU: u32 = 1500;

/// A valid configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    pub(crate) networks: Vec<Prefix>,
    /// Bytes of the longest IP packet on the links; `None`: [`DEFAULT_MTU`]. What is longer was joined from segments.
    pub mtu: Option<u32>,
    /// The first is that of all hosts that are in no other.
    pub(crate) groups: Vec<Group>,
    pub(crate) baseline: Option<Baseline>,
    pub(crate) hysteresis: Hysteresis,
    pub(crate) memory: Memory,
    /// Commonest values of each kind in an event.
    pub(crate) top: u32,
    /// What is done about an attack.
    pub actions: Actions,
}

/// Hosts with limits of their own.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Group {
    pub(crate) name: Option<String>,
    pub(crate) prefixes: Vec<Prefix>,
    /// Of each host, in and out.
    pub(crate) limits: [Limits; 2],
    /// Of all together, in and out.
    pub(crate) total: [Limits; 2],
}

/// Limits that are learned.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Baseline {
    /// So many times the mean of a host is too much.
    pub(crate) factor: f64,
    /// Time constant of the mean; nothing is judged by it before.
    pub(crate) learn_s: f64,
    /// Means below are taken as this, frames/s.
    pub(crate) floor_pps: f64,
    /// Means below are taken as this, bits/s.
    pub(crate) floor_bits_per_s: f64,
}

/// When an attack ends, and how often it is reported.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Hysteresis {
    pub(crate) end_share: f64,
    pub(crate) end_s: f64,
    pub(crate) update_s: f64,
}

/// Memory for tables, bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Memory {
    pub(crate) hosts: usize,
    pub(crate) flows: usize,
}

/// What is done about an attack, besides telling it.
#[derive(Debug, Clone, PartialEq)]
pub struct Actions {
    /// A program that gets each event as JSON on its standard input.
    pub script: Option<String>,
    /// Time for the script; then it is killed.
    pub script_time: Duration,
    /// Where each event is posted to as JSON, `http://` or `https://`.
    pub webhook: Option<String>,
    /// A capture of each attack.
    pub captures: Option<CaptureSpec>,
    /// A BGP daemon that gets announcements.
    pub announce: Option<Announce>,
}

/// How attacks are captured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaptureSpec {
    /// Where the files go.
    pub folder: PathBuf,
    /// Memory for the frames before the start of an attack.
    pub memory_bytes: usize,
    /// Frames of a file, at most.
    pub frames: u32,
    /// Files in the folder, at most.
    pub files: u32,
    /// Bytes of all of them, at most.
    pub total_bytes: u64,
}

impl Config {
    /// Reads a configuration; `file` is what the user calls it.
    ///
    /// # Errors
    /// All mistakes at once, each with its line and what to do about it.
    pub fn read(file: &str, text: &str) -> Result<Config, Mistakes> {
        let notes = Notes::new("a configuration", text);
        let item = notes.parse();
        let config = item.as_ref().and_then(Item::as_table_like).and_then(|table| {
            let root = Section::root(table, &notes);
            let config = read(&root);
            root.finish();
            if notes.is_empty() && config.as_ref().is_some_and(|config| !config.limits_anything()) {
                let text = "there is no limit to exceed: add [in] with `pps = \"20k\"`, or [baseline]";
                notes.add(Some(0..0), "", text.to_string());
            }
            config
        });
        config.filter(|_| notes.is_empty()).ok_or_else(|| notes.to_mistakes(file))
    }

    pub(crate) fn mtu(&self) -> u32 {
        self.mtu.unwrap_or(DEFAULT_MTU)
    }

    /// Whether a limit asks for new flows.
    pub(crate) fn counts_flows(&self) -> bool {
        self.limits().any(|limits| limits.get(Metric::FlowsPerS).is_some())
    }

    fn limits_anything(&self) -> bool {
        self.baseline.is_some() || self.limits().any(|limits| !limits.is_empty())
    }

    fn limits(&self) -> impl Iterator<Item = &Limits> {
        self.groups.iter().flat_map(|group| group.limits.iter().chain(&group.total))
    }
}

fn read(root: &Section<'_>) -> Option<Config> {
    let networks = root.required_axis("networks", "[\"198.18.0.0/15\"]", value::parsed::<Prefix>);
    let mtu = root.one("mtu", value::count(576..=65_535));
    let everyone = Group {
        name: None,
        prefixes: Vec::new(),
        limits: [read_limits(root.section("in")), read_limits(root.section("out"))],
        total: [read_limits(root.section("total_in")), read_limits(root.section("total_out"))],
    };
    let mut groups = vec![everyone];
    for section in root.sections("group") {
        if let Some(group) = read_group(&section, &groups[0]) {
            check_group(&section, &group, &groups, networks.as_deref());
            groups.push(group);
        }
        section.finish();
    }
    let baseline = read_baseline(root.section("baseline"));
    let (hysteresis, top) = read_events(root.section("events"));
    let memory = read_memory(root.section("memory"));
    let captures = read_captures(root.section("captures"));
    let announce = read_announce(root.section("announce"));
    let actions = Actions { captures, announce, ..read_actions(root.section("actions")) };
    Some(Config { networks: networks?, mtu, groups, baseline, hysteresis, memory, top, actions })
}

fn read_limits(section: Section<'_>) -> Limits {
    let limits = Metric::ALL.iter().fold(Limits::default(), |limits, &(metric, key)| {
        let limit = match metric {
            Metric::SynShare => section.one(key, value::width),
            _ => section.one(key, quantity),
        };
        limit.map_or(limits, |limit| limits.at_most(metric, limit))
    });
    section.finish();
    limits
}

/// What is right by itself, but not beside the groups before and the networks.
fn check_group(section: &Section<'_>, group: &Group, before: &[Group], networks: Option<&[Prefix]>) {
    if before.iter().any(|other| other.name == group.name) {
        section.wrong("name", "another group has this name: events need unique group names".to_string());
    }
    for (index, &prefix) in group.prefixes.iter().enumerate() {
        let owner = before.iter().find(|other| other.prefixes.contains(&prefix));
        if let Some(name) = owner.and_then(|owner| owner.name.as_ref()) {
            let text =
                format!("`{prefix}` belongs to group `{name}` already: a host has the limits of one group");
            section.wrong_entry("prefixes", index, text);
        }
        if networks.is_some_and(|networks| !networks.iter().any(|network| network.meets(prefix))) {
            let text = format!("`{prefix}` is not in `networks`, so it is not watched: add it there");
            section.wrong_entry("prefixes", index, text);
        }
    }
}

fn read_group(section: &Section<'_>, everyone: &Group) -> Option<Group> {
    let name = section.required("name", "\"web\"", value::text);
    let prefixes = section.required_axis("prefixes", "[\"198.18.1.0/24\"]", value::parsed::<Prefix>);
    // Without limits of its own a host of the group has those of everyone.
    let limits = |key, of_all| match section.section(key) {
        own if own.is_present() => read_limits(own),
        _ => of_all,
    };
    let limits = [limits("in", everyone.limits[0]), limits("out", everyone.limits[1])];
    let total = ["total_in", "total_out"].map(|key| read_limits(section.section(key)));
    Some(Group { name: Some(name?), prefixes: prefixes?, limits, total })
}

fn read_baseline(section: Section<'_>) -> Option<Baseline> {
    if !section.is_present() {
        return None;
    }
    let baseline = Baseline {
        factor: section.one("factor", factor).unwrap_or(5.0),
        learn_s: section.one("learn_s", value::seconds).map_or(600.0, |time| time.as_secs_f64()),
        floor_pps: section.one("floor_pps", quantity).unwrap_or(1000.0),
        floor_bits_per_s: section.one("floor_bits_per_s", quantity).unwrap_or(10e6),
    };
    section.finish();
    Some(baseline)
}

fn read_events(section: Section<'_>) -> (Hysteresis, u32) {
    let seconds = |key, default| section.one(key, value::seconds).map_or(default, |time| time.as_secs_f64());
    let hysteresis = Hysteresis {
        end_share: section.one("end_share", value::width).unwrap_or(0.8),
        end_s: seconds("end_s", 10.0),
        update_s: seconds("update_s", 10.0),
    };
    let top = section.one("top", value::count(1..=50)).unwrap_or(10);
    section.finish();
    (hysteresis, top)
}

fn read_memory(section: Section<'_>) -> Memory {
    let megabytes = |key, default: u32| {
        section.one(key, value::count(1..=65_536)).unwrap_or(default) as usize * 1024 * 1024
    };
    let memory = Memory { hosts: megabytes("hosts_mib", 128), flows: megabytes("flows_mib", 64) };
    section.finish();
    memory
}

fn read_actions(section: Section<'_>) -> Actions {
    let script = section.one("script", value::text);
    let script_time = section.one("script_s", value::seconds).unwrap_or(Duration::from_secs(30));
    let webhook = section.one("webhook", url);
    section.finish();
    Actions { script, script_time, webhook, captures: None, announce: None }
}

fn read_captures(section: Section<'_>) -> Option<CaptureSpec> {
    if !section.is_present() {
        return None;
    }
    let folder = section.required("folder", "\"/var/lib/weir/attacks\"", value::text);
    let memory_mib = section.one("memory_mib", value::count(1..=65_536)).unwrap_or(64);
    let frames = section.one("frames", value::count(1..=1_000_000_000)).unwrap_or(100_000);
    let files = section.one("files", value::count(1..=1_000_000)).unwrap_or(1000);
    let total_mib = section.one("total_mib", value::count(1..=1_000_000_000)).unwrap_or(1024);
    section.finish();
    let memory_bytes = memory_mib as usize * 1024 * 1024;
    let total_bytes = u64::from(total_mib) * 1024 * 1024;
    Some(CaptureSpec { folder: folder?.into(), memory_bytes, frames, files, total_bytes })
}

fn read_announce(section: Section<'_>) -> Option<Announce> {
    if !section.is_present() {
        return None;
    }
    let is_gobgp = value::choice("daemon", &[(false, "exabgp"), (true, "gobgp")]);
    let is_gobgp = section.required("daemon", "\"exabgp\"", is_gobgp);
    let is_flowspec = value::choice("route", &[(false, "blackhole"), (true, "flowspec")]);
    let is_flowspec = section.one("route", is_flowspec).unwrap_or(false);
    let send = section.one("send", value::flag).unwrap_or(false);
    let max = section.one("max", value::count(1..=100_000)).unwrap_or(100) as usize;
    let lifetime = section.one("lifetime_s", value::seconds_up_to::<2_592_000>).unwrap_or(LIFETIME);
    let held = section.one("hold_s", hold).unwrap_or(HOLD);
    let mut never = section.axis("never", value::parsed::<Prefix>).unwrap_or_default();
    let state =
        section.one("state", value::text).unwrap_or_else(|| "/var/lib/weir/announced".to_string()).into();
    let daemon = match is_gobgp {
        Some(true) => Some(Daemon::GoBgp),
        // Not reported if the daemon is unknown.
        _ => {
            let pipe = section.one("pipe", value::text);
            let pipe = pipe.unwrap_or_else(|| "/run/exabgp/exabgp.in".to_string());
            is_gobgp.map(|_| Daemon::ExaBgp(pipe))
        }
    };
    let what = if is_flowspec {
        Some(Route::Flowspec)
    } else {
        let next_hop = section.required("next_hop", "\"192.0.2.1\"", ip);
        // A route to itself is none.
        never.extend(next_hop.map(Prefix::host));
        let community = section.one("community", community).unwrap_or_else(|| "65535:666".to_string());
        next_hop.map(|next_hop| Route::Blackhole { next_hop, community })
    };
    section.finish();
    let withheld = (!send).then_some("send = false");
    Some(Announce { daemon: daemon?, what: what?, withheld, max, lifetime, hold: held, never, state })
}

/// A number above 0, also `"20k"`.
fn quantity(value: &Value) -> Result<f64, String> {
    let number = unit::quantity(&shown(value)).ok();
    number
        .filter(|number| *number > 0.0)
        .ok_or_else(|| format!("`{}` is no limit: use a number above 0, such as \"20k\"", shown(value)))
}

/// A time, or none.
fn hold(value: &Value) -> Result<Duration, String> {
    if shown(value) == "0" { Ok(Duration::ZERO) } else { value::seconds(value) }
}

fn factor(value: &Value) -> Result<f64, String> {
    let number = shown(value).parse().ok();
    number
        .filter(|number: &f64| (1.1..=1000.0).contains(number))
        .ok_or_else(|| format!("`{}` is no factor: use 1.1 to 1000", shown(value)))
}

fn ip(value: &Value) -> Result<IpAddr, String> {
    let text = shown(value);
    text.parse().map_err(|_| format!("`{text}` is no address: write 192.0.2.1 or 2001:db8::1"))
}

/// Two numbers of 16 bits (RFC 1997).
fn community(value: &Value) -> Result<String, String> {
    let text = value::text(value)?;
    let is_one = text.split_once(':').is_some_and(|(a, b)| [a, b].iter().all(|n| n.parse::<u16>().is_ok()));
    if is_one { Ok(text) } else { Err(format!("`{text}` is no community: write \"65535:666\"")) }
}

fn url(value: &Value) -> Result<String, String> {
    let text = value::text(value)?;
    match text.starts_with("http://") || text.starts_with("https://") {
        true => Ok(text),
        // It may hold a secret.
        false => Err("is no address of a web service: write http://... or https://...".to_string()),
    }
}

impl Group {
    pub(crate) fn limits(&self, direction: Direction) -> &Limits {
        &self.limits[direction as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_is_read() {
        let text = include_str!("../../../examples/detect.toml");
        let config = Config::read("detect.toml", text).unwrap_or_else(|mistakes| panic!("{mistakes}"));
        assert_eq!(config.groups.len(), 2);
        assert!(
            config.baseline.is_some()
                && config.actions.announce.is_some_and(|announce| announce.withheld.is_some())
        );
    }

    #[test]
    fn groups_do_not_contradict_each_other_or_the_networks() {
        let text = "networks = [\"198.18.0.0/15\"]\n[in]\npps = 5\n[[group]]\nname = \"web\"\nprefixes = [\"198.18.0.0/16\"]\n\
                    [[group]]\nname = \"web\"\nprefixes = [\"198.18.1.0/24\",\n\"198.18.0.0/16\",\n\"203.0.113.0/24\"]\n\
                    [[group]]\nname = \"all\"\nprefixes = [\"198.0.0.0/8\"]\n\
                    [announce]\ndaemon = \"gobgp\"\nnext_hop = \"192.0.2.1\"\npipe = \"x\"\ncommunity = \"65536:1\"\n";
        let mistakes = Config::read("c.toml", text).expect_err("it is wrong").to_string();
        assert_eq!(
            mistakes,
            "c.toml:8: group.2.name: another group has this name: events need unique group names\n\
             c.toml:10: group.2.prefixes: `198.18.0.0/16` belongs to group `web` already: a host has the \
             limits of one group\n\
             c.toml:11: group.2.prefixes: `203.0.113.0/24` is not in `networks`, so it is not watched: add it there\n\
             c.toml:18: `pipe` is no option of [announce]: use daemon, route, send, max, lifetime_s, \
             hold_s, never, state, next_hop, community\n\
             c.toml:19: announce.community: `65536:1` is no community: write \"65535:666\""
        );
    }

    #[test]
    fn all_mistakes_are_reported_at_once() {
        let text = "networks = [\"198.18.0.1/15\", \"x\"]\n[in]\npps = \"20q\"\nsyn_share = 2\nsyn_pp = 3\n\
                    [[group]]\nname = \"web\"\n[announce]\ndaemon = \"bird\"\n[actions]\nwebhook = \"there\"\n";
        let mistakes = Config::read("c.toml", text).expect_err("it is wrong").to_string();
        assert_eq!(
            mistakes,
            "c.toml:1: networks: `198.18.0.1/15` has host bits set: use 198.18.0.0/15\n\
             c.toml:1: networks: `x` is no prefix: write 198.18.0.0/15 or 2001:db8::/32\n\
             c.toml:3: in.pps: `20q` is no limit: use a number above 0, such as \"20k\"\n\
             c.toml:4: in.syn_share: `2` is no share below 1: write half a percent as \"0.5%\" or 0.005\n\
             c.toml:5: `syn_pp` is no option of [in]: did you mean `syn_pps`?\n\
             c.toml:6: group.1.prefixes: is missing: add `prefixes = [\"198.18.1.0/24\"]` to [group.1]\n\
             c.toml:8: announce.next_hop: is missing: add `next_hop = \"192.0.2.1\"` to [announce]\n\
             c.toml:9: announce.daemon: `bird` is no daemon: use exabgp, gobgp\n\
             c.toml:11: actions.webhook: is no address of a web service: write http://... or https://..."
        );
        let nothing = Config::read("c.toml", "networks = [\"198.18.0.0/15\"]").expect_err("no limit");
        assert_eq!(
            nothing.to_string(),
            "c.toml:1: there is no limit to exceed: add [in] with `pps = \"20k\"`, or \
             [baseline]"
        );
    }
}
