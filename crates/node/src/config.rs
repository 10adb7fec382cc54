//! The file of a node: its text, and how it is run.
//!
//! ```text
//! node lan(192.168.0.1/16, on eth0) > route(default via 198.18.0.1) > wan(198.18.0.2/24, on eth1)
//! run(io packet, cpu 2-3, wait poll, host tap0)
//! ```
//!
//! | argument of `run` | meaning | else |
//! |---|---|---|
//! | `io xdp` | frames of interfaces go past the machine's own stack (AF_XDP) | this |
//! | `io packet` | AF_PACKET: slower, for interfaces with a driver that AF_XDP does not work with | |
//! | `cpu N`, `cpu 2-5 7` | one thread on each of these CPUs | one thread, on any |
//! | `threads N` | so many threads, on any CPUs, which share nothing: each has its queue of each port, and its sessions | 1 |
//! | `wait sleep` | without frames a thread sleeps | this |
//! | `wait poll` | it looks again at once, takes all of its CPU, and is preferred there to other work (nice -20), if the node may | |
//! | `fast off` | every frame comes to the plane | this |
//! | `fast on` | frames of established sessions are passed on by XDP programs at the ports, without coming to the plane | |
//! | `fast-entries 131072` | flows in one direction that these programs know at a time | 131072 |
//! | `fast auto` | the same, where the node has one thread, and AF_XDP and no VLAN tag at every port, and as long as it pays | |
//! | `host kernel` | what is for the node itself goes to the stack of this machine, as if the interface had received it | this |
//! | `host NAME` | it goes to this TAP device, which has the Ethernet address of the first port without a TAP device of its own; what the machine sends there leaves by that port | |
//! | `host none` | it is dropped and counted (`no_local`) | |
//! | `ports fixed` | once its ports are open the node gives up the right to open more, unless it keeps all of its rights | this |
//! | `ports change` | it keeps the right to open AF_PACKET ports (CAP_NET_RAW), and AF_XDP ports if it begins with one, for texts that are applied later | |
//!
//! An item `bng(...)` is left to the program that controls the subscribers of the node.
//!
//! A port that says `host tap NAME` has a TAP device of its own; `host` of `run` is for all others.

use std::ops::{Range, RangeInclusive};

use weir_config::{Mistakes, Notes, did_you_mean};
use weir_plane::text::{Arg, Item};
use weir_plane::{Beside, MOST_THREADS, Port};
use weir_port::fast::{MOST_ROOM, PORTS, ROOM};

use crate::backend::Backend;

/// A node and how it is run.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// What happens to frames.
    pub plane: weir_plane::Config,
    /// What its ports stand for, in their order.
    pub backends: Vec<Backend>,
    /// How it is run.
    pub settings: Settings,
    /// Where the text in the parentheses of `bng(...)` stands: it is for the program that controls the subscribers.
    pub bng: Option<Range<usize>>,
}

/// How a node is run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The CPU of each of its threads, where it is to have a certain one.
    pub threads: Vec<Option<usize>>,
    /// What it does without frames.
    pub wait: Wait,
    /// Where frames go that are for the node itself.
    pub host: Host,
    /// Whether XDP programs pass frames on.
    pub fast: Fast,
    /// Flows in one direction that these programs know at a time.
    pub fast_entries: u32,
    /// Whether it keeps the right to open ports.
    pub right_to_open: RightToOpen,
}

/// What becomes of the right to open ports once the node has opened its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RightToOpen {
    /// It is given up.
    Dropped,
    /// That to AF_PACKET is kept.
    Kept,
}

/// Whether XDP programs pass frames on that the plane knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fast {
    /// None do.
    Off,
    /// They do.
    On,
    /// They do where the node can have it, and as long as it pays.
    Auto,
}

/// What a thread without frames does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// It sleeps until some arrive.
    Sleep,
    /// It looks again at once.
    Poll,
}

/// The receiver of frames for the node itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Host {
    /// The stack of this machine.
    Kernel,
    /// This TAP device.
    Tap(String),
    /// None: they are dropped.
    None,
}

/// A TAP device of the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HostTap<'c> {
    pub(crate) name: &'c str,
    /// The port whose address and MTU it has: frames that the machine sends there leave by this port.
    pub(crate) port: usize,
    /// Ports whose frames for the node itself it gets.
    pub(crate) takes: Vec<usize>,
}

const ARGS: &[&str] = &["io", "cpu", "threads", "wait", "host", "fast", "fast-entries", "ports"];
/// How many entries a fast path may have.
const MOST_FAST_ENTRIES: RangeInclusive<u32> = 1024..=MOST_ROOM;

/// What is read of `run`.
struct Run {
    usual: fn(String) -> Backend,
    settings: Settings,
    /// The argument that said how many threads there are.
    threads_said: Option<&'static str>,
}

impl Config {
    /// Reads the file that the user calls `file`; `beside` gives the text of a file that it names.
    ///
    /// # Errors
    /// All mistakes of the text, each with its line and what to do about it.
    pub fn read(
        file: &str,
        text: &str,
        beside: &dyn Fn(&str) -> Result<String, String>,
    ) -> Result<Config, Mistakes> {
        let settings = Settings {
            threads: vec![None],
            wait: Wait::Sleep,
            host: Host::Kernel,
            fast: Fast::Off,
            fast_entries: ROOM,
            right_to_open: RightToOpen::Dropped,
        };
        let mut run = Run { usual: Backend::Xdp, settings, threads_said: None };
        let (mut run_item, mut bng, mut items) = (None, None, Vec::new());
        let mut own = |item: &Item, notes: &Notes<'_>| {
            if item.name.text == "bng" {
                if bng.replace(inside(text, item)).is_some() {
                    item.wrong(notes, "there is a `bng` already: write all in one".to_string());
                }
                return true;
            }
            if item.name.text != "run" {
                check_place(item, notes);
                items.push(item.clone());
                return false;
            }
            if run_item.replace(item.clone()).is_some() {
                item.wrong(notes, "there is a `run` already: write all in one".to_string());
            }
            item.said_once(&["io", "wait", "host", "fast", "fast-entries", "ports"], notes);
            for arg in &item.args {
                if let Err(text) = run.argument(arg) {
                    arg.wrong(notes, text);
                }
            }
            true
        };
        let plane = weir_plane::Config::read_with(file, text, &mut Beside { item: &mut own, file: beside })?;
        let backend = |port: &Port| Backend::read(&port.interface, run.usual).expect("looked at already");
        let backends = plane.ports.iter().map(backend).collect();
        let config = Config { plane, backends, settings: run.settings, bng };
        let notes = Notes::new("a node", text);
        let mut wrong = |port: &Port, text| {
            let item = items.iter().find(|item| item.name.text == port.name);
            // A port that the text leaves out has the place of all.
            item.unwrap_or(&items[0]).wrong(&notes, text);
        };
        config.check_interfaces(&mut wrong);
        config.check_taps(&mut wrong);
        let checked = config.check_threads().and_then(|()| config.check_fast());
        if let Err(text) = checked.and_then(|()| config.check_host()) {
            run_item.as_ref().unwrap_or(&items[0]).wrong(&notes, text);
        }
        if notes.is_empty() { Ok(config) } else { Err(notes.to_mistakes(file)) }
    }

    /// Whether no two ports are in each other's way.
    fn check_interfaces(&self, mut wrong: impl FnMut(&Port, String)) {
        let all: Vec<(&Port, &Backend)> = self.plane.ports.iter().zip(&self.backends).collect();
        for (n, &(port, backend)) in all.iter().enumerate() {
            let is_apart =
                |other: &Port| matches!(backend, Backend::Packet(_)) && !port.vlan.overlaps(&other.vlan);
            let same = |other: &&(&Port, &Backend)| other.1 == backend && !is_apart(other.0);
            let Some((other, _)) = all[..n].iter().find(same) else { continue };
            match backend {
                Backend::Packet(name) if port.vlan == other.vlan => {
                    wrong(
                        port,
                        format!("`{}` is on {name} as well: give each a VLAN tag of its own", other.name),
                    );
                }
                Backend::Packet(name) => wrong(
                    port,
                    format!(
                        "`{}` is on {name} as well, and a frame may be of both ({} and {}): give each VLAN tags of its own",
                        other.name, other.vlan, port.vlan
                    ),
                ),
                Backend::Xdp(name) => wrong(
                    port,
                    format!(
                        "`{}` is on {name} as well, and AF_XDP gives an interface to one port: write packet:{name} for both",
                        other.name
                    ),
                ),
                Backend::Tap(name) => {
                    wrong(port, format!("`{}` is on {name} as well: give it another", other.name))
                }
                Backend::Files(..) => {}
            }
        }
    }

    /// The TAP devices of the machine: those of ports, and that of all other ports.
    pub(crate) fn host_taps(&self) -> impl Iterator<Item = HostTap<'_>> {
        let ports = || self.plane.ports.iter().enumerate();
        let own = ports()
            .filter_map(|(n, port)| Some(HostTap { name: port.tap.as_deref()?, port: n, takes: vec![n] }));
        let others: Vec<usize> = ports().filter(|(_, port)| port.tap.is_none()).map(|(n, _)| n).collect();
        let of_others = match (&self.settings.host, others.first()) {
            (Host::Tap(name), Some(&port)) => Some(HostTap { name, port, takes: others }),
            _ => None,
        };
        own.chain(of_others)
    }

    /// Whether TAP devices of ports can be what the text says.
    fn check_taps(&self, mut wrong: impl FnMut(&Port, String)) {
        for (n, port) in self.plane.ports.iter().enumerate() {
            let Some(tap) = &port.tap else { continue };
            if self.plane.routes.is_none() {
                let text = "only a router has frames for the machine: add `route`, or leave `host` out";
                wrong(port, text.into());
            }
            let is_of_port = |other: &Port| other.tap.as_ref() == Some(tap);
            let before = self.plane.ports[..n].iter().find(|other| is_of_port(other));
            let is_on = |(_, backend): &(&Port, &Backend)| backend.interface() == Some(tap);
            let on = self.plane.ports.iter().zip(&self.backends).find(is_on).map(|(other, _)| other);
            if let Some(other) = before.or(on) {
                wrong(
                    port,
                    format!("`{}` has the device {tap}: give each a TAP device of its own", other.name),
                );
            }
        }
    }

    /// Whether the TAP device of all other ports can be one.
    ///
    /// # Errors
    /// Why not, and what to do about it.
    fn check_host(&self) -> Result<(), String> {
        let Host::Tap(name) = &self.settings.host else { return Ok(()) };
        let ports = &self.plane.ports;
        if ports.iter().all(|port| port.tap.is_some()) {
            return Err(format!("each port has a TAP device of its own: leave `host {name}` out of `run`"));
        }
        match ports.iter().find(|port| port.tap.as_ref() == Some(name)) {
            Some(port) => Err(format!("{name} is the TAP device of `{}`: give `run` another", port.name)),
            None => Ok(()),
        }
    }

    /// Whether the node can have a fast path, if it is to.
    ///
    /// # Errors
    /// Why not, and what to do about it.
    pub(crate) fn check_fast(&self) -> Result<(), String> {
        if self.settings.fast == Fast::On { self.may_be_fast() } else { Ok(()) }
    }

    /// Whether XDP programs could pass frames of this node on.
    ///
    /// # Errors
    /// Why not, and what to do about it.
    pub(crate) fn may_be_fast(&self) -> Result<(), String> {
        let ports = || self.plane.ports.iter().zip(&self.backends);
        if self.settings.threads.len() > 1 {
            return Err(
                "a fast path is one thread's: give the node one, since programs run on all CPUs anyway"
                    .into(),
            );
        }
        if let Some((port, _)) = ports().find(|(_, backend)| !matches!(backend, Backend::Xdp(_))) {
            return Err(format!(
                "a fast path needs AF_XDP at every port: put `{}` on an interface by xdp",
                port.name
            ));
        }
        if let Some((port, _)) = ports().find(|(port, _)| !port.vlan.is_plain()) {
            return Err(format!("a fast path knows no VLAN tags: `{}` has one", port.name));
        }
        if self.plane.ports.len() > PORTS {
            Err(format!("a fast path has at most {PORTS} ports"))
        } else {
            Ok(())
        }
    }

    /// Whether so many threads can be this node.
    ///
    /// # Errors
    /// Why not, and what to do about it.
    pub fn check_threads(&self) -> Result<(), String> {
        if self.settings.threads.len() == 1 {
            return Ok(());
        }
        self.plane.may_share(self.settings.threads.len() as u8)?;
        if self.backends.iter().any(|backend| matches!(backend, Backend::Files(..))) {
            Err("a node between capture files has one thread: give it one CPU, and no `threads`".into())
        } else {
            Ok(())
        }
    }
}

/// Notes what a port cannot stand for.
/// Where the text in the parentheses of an item stands, which may hold comments; empty: it has none.
fn inside(text: &str, item: &Item) -> Range<usize> {
    let (mut open, mut in_comment) = (None, false);
    for (at, byte) in text.bytes().enumerate().skip(item.name.span.end) {
        match byte {
            b'\n' => in_comment = false,
            _ if in_comment => {}
            b'#' => in_comment = true,
            b'(' if open.is_none() => open = Some(at + 1),
            b')' => return open.unwrap_or(at)..at,
            byte if open.is_none() && !byte.is_ascii_whitespace() => break,
            _ => {}
        }
    }
    item.name.span.end..item.name.span.end
}

fn check_place(item: &Item, notes: &Notes<'_>) {
    let place = item.args.iter().find_map(|arg| match &arg.0[..] {
        [on, place] if on.text == "on" => Some(place),
        _ => None,
    });
    let place = place.unwrap_or(&item.name);
    if let Err(text) = Backend::read(&place.text, Backend::Xdp) {
        notes.add(Some(place.span.clone()), "", text);
    }
}

impl Run {
    fn argument(&mut self, arg: &Arg) -> Result<(), String> {
        let settings = &mut self.settings;
        match arg.words()[..] {
            ["io", "xdp"] => self.usual = Backend::Xdp,
            ["io", "packet"] => self.usual = Backend::Packet,
            ["cpu", ref cpus @ ..] if !cpus.is_empty() => {
                self.threads_from("cpu")?;
                self.settings.threads = cpus_of(cpus)?.into_iter().map(Some).collect();
            }
            ["threads", number] => {
                self.threads_from("threads")?;
                let threads = number.parse().ok().filter(|threads| (1..=MOST_THREADS).contains(threads));
                let wrong = || format!("threads takes a number from 1 to {MOST_THREADS}");
                self.settings.threads = vec![None; usize::from(threads.ok_or_else(wrong)?)];
            }
            ["wait", "sleep"] => settings.wait = Wait::Sleep,
            ["wait", "poll"] => settings.wait = Wait::Poll,
            ["fast", "off"] => settings.fast = Fast::Off,
            ["fast", "on"] => settings.fast = Fast::On,
            ["fast", "auto"] => settings.fast = Fast::Auto,
            ["fast-entries", number] => {
                let entries = number.parse().ok().filter(|entries| MOST_FAST_ENTRIES.contains(entries));
                let (least, most) = MOST_FAST_ENTRIES.into_inner();
                let wrong = || format!("fast-entries takes a number from {least} to {most}");
                settings.fast_entries = entries.ok_or_else(wrong)?;
            }
            ["host", "kernel"] => settings.host = Host::Kernel,
            ["host", "none"] => settings.host = Host::None,
            ["host", name] => settings.host = Host::Tap(name.to_string()),
            ["ports", "fixed"] => settings.right_to_open = RightToOpen::Dropped,
            ["ports", "change"] => settings.right_to_open = RightToOpen::Kept,
            ["ports", ..] => return Err("ports takes one word: fixed or change".into()),
            ["io", ..] => return Err("io takes one word: xdp or packet".into()),
            ["fast", ..] => return Err("fast takes one word: off, on or auto".into()),
            ["wait", ..] => return Err("wait takes one word: sleep or poll".into()),
            [word, ..] if ARGS.contains(&word) => return Err(format!("{word} takes one word")),
            [word, ..] => {
                return Err(format!("`{word}` is no argument of run: {}", did_you_mean(word, ARGS)));
            }
            [] => unreachable!("an argument has a word"),
        }
        Ok(())
    }

    /// The number of threads is said once.
    fn threads_from(&mut self, word: &'static str) -> Result<(), String> {
        match self.threads_said.replace(word) {
            Some(other) => Err(format!("{other} has said already how many threads there are")),
            None => Ok(()),
        }
    }
}

/// The CPUs of a list, each one once: `2-5 7`.
///
/// # Errors
/// What is no CPU in it, and what to write.
pub fn cpus_of(list: &[&str]) -> Result<Vec<usize>, String> {
    let mut cpus = Vec::new();
    for &text in list {
        let wrong =
            || format!("`{text}` is no CPU: write its number, from 0, or the first and the last: 2-5");
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let [first, last] = [first, last].map(str::parse::<usize>);
        let (first, last) = first.and_then(|first| last.map(|last| (first, last))).map_err(|_| wrong())?;
        if first > last || last > 1 << 16 {
            return Err(wrong());
        }
        cpus.extend(first..=last);
    }
    let all = cpus.len();
    if all > usize::from(MOST_THREADS) {
        return Err(format!("a node has at most {MOST_THREADS} threads: these are {all} CPUs"));
    }
    if (1..all).any(|n| cpus[..n].contains(&cpus[n])) {
        return Err(format!("`{}` names a CPU twice: each has one thread", list.join(" ")));
    }
    Ok(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Config, Mistakes> {
        Config::read("n", text, &|name| Err(format!("there is no {name}")))
    }

    #[test]
    fn a_file_is_a_text_and_how_it_is_run() {
        let config = read("node lan(on a) > wan(on packet:b)\nrun(cpu 3, wait poll, host tap0)");
        let config = config.expect("right");
        assert_eq!(config.backends, [Backend::Xdp("a".into()), Backend::Packet("b".into())]);
        let settings = Settings {
            threads: vec![Some(3)],
            wait: Wait::Poll,
            host: Host::Tap("tap0".into()),
            fast: Fast::Off,
            fast_entries: ROOM,
            right_to_open: RightToOpen::Dropped,
        };
        assert_eq!(config.settings, settings);
        let config = read("lan > wan run(io packet)").expect("right");
        assert_eq!(config.backends, [Backend::Packet("lan".into()), Backend::Packet("wan".into())]);
        assert_eq!((config.settings.host, config.settings.threads), (Host::Kernel, vec![None]));
    }

    #[test]
    fn the_item_of_subscribers_is_left_to_their_program() {
        for (inside, what) in [("pool a 1-2, # b) (c\n plan x ", "comments"), ("", "nothing")] {
            let text = format!("node a > b # bng(no)\nbng ({inside}) run(io packet)");
            let config = read(&text).unwrap_or_else(|mistakes| panic!("{what}: {mistakes}"));
            assert_eq!(config.bng.map(|at| &text[at]), Some(inside), "{what}");
        }
        assert_eq!(read("a > b").expect("right").bng, None);
        let twice = read("a > b bng(x) bng(y)").expect_err("two").to_string();
        assert_eq!(twice, "n:1: there is a `bng` already: write all in one");
    }

    #[test]
    fn tap_devices_of_the_machine_are_those_of_ports_and_that_of_the_others() {
        let taps = |text: &str| {
            let config = read(text).unwrap_or_else(|mistakes| panic!("{mistakes}"));
            config
                .host_taps()
                .map(|tap| format!("{} {} {:?}", tap.name, tap.port, tap.takes))
                .collect::<Vec<_>>()
        };
        let own = "a(host tap t0) > route > b(host tap t1) c d";
        assert_eq!(taps(own), ["t0 0 [0]", "t1 1 [1]"]);
        assert_eq!(taps(&format!("{own} run(host rest)")), ["t0 0 [0]", "t1 1 [1]", "rest 2 [2, 3]"]);
        assert_eq!(taps("a > b run(host all)"), ["all 0 [0, 1]"]);
        for (text, wrong) in [
            (
                "a(host tap t) > route > b(host tap t)",
                "`a` has the device t: give each a TAP device of its own",
            ),
            (
                "a(host tap t) > route > b(on tap:t)",
                "`b` has the device t: give each a TAP device of its own",
            ),
            ("a(on n, host tap n) > route > b", "`a` has the device n: give each a TAP device of its own"),
            ("a(host tap t) > b", "only a router has frames for the machine"),
            ("a(host tap t) > route > b run(host t)", "t is the TAP device of `a`: give `run` another"),
            ("a(host tap t) > route > b(host tap u) run(host v)", "leave `host v` out of `run`"),
        ] {
            let seen = read(text).expect_err(text).to_string();
            assert!(seen.contains(wrong) && seen.lines().count() == 1, "{text}: {seen}");
        }
    }

    #[test]
    fn threads_are_a_number_or_a_list_of_cpus() {
        let threads = |text: &str| read(&format!("lan > wan run({text})")).map(|read| read.settings.threads);
        assert_eq!(threads("threads 3"), Ok(vec![None; 3]));
        assert_eq!(threads("cpu 2-4 7"), Ok([2, 3, 4, 7].map(Some).to_vec()));
        for (text, wrong) in [
            ("threads 0", "threads takes a number from 1 to 64"),
            ("threads 65", "threads takes a number from 1 to 64"),
            ("cpu 4-2", "`4-2` is no CPU: write its number, from 0, or the first and the last: 2-5"),
            ("cpu 0-64", "a node has at most 64 threads: these are 65 CPUs"),
            ("cpu 1-3 2", "`1-3 2` names a CPU twice: each has one thread"),
            ("cpu 1-3, threads 3", "cpu has said already how many threads there are"),
        ] {
            assert_eq!(threads(text).expect_err(text).to_string(), format!("n:1: {wrong}"), "{text}");
        }
        let wrong = read("lan(on pcapng:a:) > wan run(threads 2)").expect_err("wrong").to_string();
        assert!(wrong.contains("between capture files has one thread: give it one CPU"), "{wrong}");
    }

    #[test]
    fn all_mistakes_are_reported() {
        let wrong = read("lan(mtu 1) > wan\nrun(cpu x,\nwiat poll, io dpdk, host)");
        let wrong = wrong.expect_err("wrong").to_string();
        let lines: Vec<_> = wrong.lines().collect();
        assert_eq!(
            lines,
            [
                "n:1: mtu takes bytes from 68 to 9216",
                "n:2: `x` is no CPU: write its number, from 0, or the first and the last: 2-5",
                "n:3: `wiat` is no argument of run: did you mean `wait`?",
                "n:3: host takes one word",
                "n:3: io takes one word: xdp or packet",
            ]
        );
        let wrong = read("lan(on dpdk:1) > wan").expect_err("wrong").to_string();
        assert!(wrong.contains("`dpdk:1` is no place for a port"), "{wrong}");
        let wrong =
            read("lan(mtu 1)\nwan(\non dpdk:1)\nrun(io xdp, io xdp)\nrun").expect_err("wrong").to_string();
        let lines: Vec<_> = wrong.lines().map(|line| line.split(' ').next().unwrap_or_default()).collect();
        assert_eq!(lines, ["n:1:", "n:3:", "n:4:", "n:5:"], "{wrong}");
    }

    #[test]
    fn an_interface_is_one_port_unless_tags_tell_frames_apart() {
        read("lan(on packet:a, vlan 1-9) dmz(on packet:a, vlan 1.1-9) filter(policy accept) > wan(on packet:a)")
            .expect("right");
        read("lan(on packet:a, vlan 1) > wan(on packet:a, vlan 2)").expect("right");
        read("lan(on pcapng:a:) > wan(on pcapng:a:)").expect("right");
        for (text, wrong) in [
            (
                "lan(on a) >\nwan(on a)",
                "n:2: `lan` is on a as well, and AF_XDP gives an interface to one port",
            ),
            (
                "lan(on packet:a, vlan 1)\nwan(on packet:a, vlan 1)",
                "n:2: `lan` is on a as well: give each a VLAN",
            ),
            (
                "lan(on packet:a, vlan 1)\nfilter(policy accept) wan(on packet:a, vlan 2)\ndmz(on packet:a, vlan 2-9)",
                "n:3: `wan` is on a as well, and a frame may be of both (vlan 2 and vlan 2-9): give each VLAN",
            ),
            (
                "lan(on packet:a, vlan 1, untagged)\nwan(on packet:a)",
                "n:2: `lan` is on a as well, and a frame may be of both (vlan 1, untagged and untagged): give each",
            ),
            ("lan(on tap:a)\nwan(on tap:a)", "n:2: `lan` is on a as well: give it another"),
        ] {
            let reported = read(text).expect_err(text).to_string();
            assert!(reported.starts_with(wrong), "{reported}");
        }
    }
}
