//! Scenarios in virtual time. `scenarios.txt` has what comes in, and what the devices send because of it:
//!
//! ```text
//! == title
//! set devices 2 rate 1000 timeout 4s          options
//! 0ms in offer 0 100.64.0.2                   what comes in, for device 0; words behind it as in `Answer::read`
//! 10s end                                     time passes, then the figures
//! ```
//! All other lines are written by the test; `BLESS=1` writes them anew.

use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::time::Duration;

use weir_bng::dhcp4::frame::{self, CLIENT_PORT, Datagram, SERVER_PORT};
use weir_bng::dhcp4::message::{BOOTREPLY, Message, MessageType};
use weir_bng::dhcp4::options::{
    LEASE_TIME, MESSAGE_TYPE, REBINDING_TIME, RENEWAL_TIME, ROUTER, SERVER_ID, SUBNET_MASK,
};
use weir_bng::scenario::described;
use weir_cpe::{Emulator, Mac, Options, Output, Tapped};
use weir_packet::neighbour::{self, Heard, Host};
use weir_testkit::check_golden;

const GATEWAY: Ipv4Addr = Ipv4Addr::new(100, 64, 0, 1);
const GATEWAY_MAC: Mac = Mac([2, 0, 0, 0, 0, 0xfe]);
const FAR_MAC: Mac = Mac([2, 0, 0, 0, 1, 1]);

#[test]
fn devices_do_what_the_scenarios_say() {
    check_scenarios("scenarios.txt", |title, rows| {
        let mut world = World::new(title);
        rows.for_each(|row| world.row(row));
        world.written
    });
}

/// Compares what scenarios of a file come to, by their titles and rows, with what the file says.
pub(crate) fn check_scenarios(file: &str, run: impl Fn(&str, &mut dyn Iterator<Item = &str>) -> String) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(file);
    let text = std::fs::read_to_string(&path).unwrap();
    let mut written = String::new();
    for scenario in text.split("== ").skip(1) {
        let (title, rows) = scenario.split_once('\n').unwrap();
        let mut rows = rows.lines().filter(|row| !row.trim().is_empty());
        let _ = writeln!(written, "== {title}\n{}", run(title, &mut rows));
    }
    check_golden(&path, &written);
}

/// A scenario in progress.
struct World {
    emulator: Option<Emulator>,
    now_ns: u64,
    /// Transaction numbers as the devices sent them last.
    xids: Vec<u32>,
    /// Frames that a device sent last to the far end.
    first_packet: Option<Vec<u8>>,
    title: String,
    written: String,
}

impl World {
    fn new(title: &str) -> World {
        World {
            emulator: None,
            now_ns: 0,
            xids: vec![0; 10],
            first_packet: None,
            title: title.to_string(),
            written: String::new(),
        }
    }

    fn row(&mut self, row: &str) {
        let words: Vec<&str> = row.split_whitespace().collect();
        match words[..] {
            ["set", ref options @ ..] => {
                self.emulator = Some(Emulator::new(read_options(options), FAR_MAC).unwrap());
            }
            [time, "in", ref answer @ ..] => {
                self.pass(at_ns(time) - 1);
                self.keep(row);
                self.now_ns = at_ns(time);
                self.take(answer);
            }
            [time, "end"] => {
                self.pass(at_ns(time));
                self.keep(row);
                self.end();
            }
            [time, "stop"] => {
                self.pass(at_ns(time));
                self.emulator.as_mut().unwrap().stop(at_ns(time));
            }
            // What this writes.
            [_, "out", ..] | ["figures", ..] => return,
            _ => panic!("{}: `{row}`", self.title),
        }
        if matches!(words[..], ["set", ..] | [_, "stop"]) {
            self.keep(row);
        }
    }

    fn keep(&mut self, row: &str) {
        let _ = writeln!(self.written, "{}", row.trim());
    }

    /// Lets time pass, with all that is due meanwhile.
    fn pass(&mut self, until_ns: u64) {
        loop {
            let emulator = self.emulator.as_mut().unwrap();
            let due_ns = emulator.due_ns().max(self.now_ns);
            if due_ns > until_ns {
                break;
            }
            self.now_ns = due_ns;
            let (mut out, phase) = (Vec::new(), emulator.phase());
            emulator.advance(due_ns, &mut out);
            let is_done = out.is_empty() && emulator.due_ns() <= due_ns && emulator.phase() == phase;
            self.write(&out);
            if is_done {
                break;
            }
        }
        self.now_ns = until_ns;
    }

    fn take(&mut self, words: &[&str]) {
        let (now_ns, mut out) = (self.now_ns, Vec::new());
        let emulator = self.emulator.as_mut().unwrap();
        match words {
            ["first"] => {
                let sent = self.first_packet.clone().expect("a first packet was sent");
                emulator.far_frame(&sent, now_ns, &mut out);
            }
            ["echo"] => {
                let mut frame = self.first_packet.clone().expect("a first packet was sent");
                frame[..6].copy_from_slice(&device_mac(0).0);
                emulator.access_frame(&frame, now_ns, &mut out);
            }
            ["gateway", address] => {
                let gateway = Host { mac: GATEWAY_MAC.0, ip: IpAddr::V4(GATEWAY) };
                let to = Host { mac: device_mac(0).0, ip: address.parse().unwrap() };
                emulator.access_frame(&neighbour::answer(gateway, to), now_ns, &mut out);
            }
            ["who-has", address] => {
                let gateway = Host { mac: GATEWAY_MAC.0, ip: IpAddr::V4(GATEWAY) };
                let frame = neighbour::question(gateway, address.parse().unwrap());
                emulator.access_frame(&frame, now_ns, &mut out);
            }
            answer => emulator.access_frame(&Answer::read(answer, &self.xids).frame(), now_ns, &mut out),
        }
        emulator.advance(now_ns, &mut out);
        self.write(&out);
    }

    fn write(&mut self, out: &[Output]) {
        let ms = self.now_ns / 1_000_000;
        for output in out {
            let text = match output {
                Output::Access(frame) => self.described(frame),
                Output::Far(_) => "far: a frame".into(),
                Output::Tap(frame) => format!("tap: {} bytes", frame.len()),
            };
            let _ = writeln!(self.written, "{ms}ms out {text}");
        }
    }

    fn described(&mut self, frame: &[u8]) -> String {
        let number = usize::from(frame[11]) - 1;
        let mut frame = frame.to_vec();
        if frame[12..14] == [0x81, 0] {
            frame.drain(12..16);
        }
        let frame = &frame[..];
        if let Some(heard) = neighbour::parse(frame) {
            return match heard {
                Heard::Question { target, .. } => format!("{number} asks for {target}"),
                Heard::Answer(own) => format!("{number} answers for {}", own.ip),
            };
        }
        let Ok(fields) = described(frame) else {
            self.first_packet = Some(frame.to_vec());
            return format!("{number} first packet");
        };
        let field = |name: &str| fields.iter().find(|(known, _)| *known == name).map(|(_, value)| &**value);
        self.xids[number] = field("xid").unwrap().parse().unwrap();
        let words = ["message", "ciaddr", "server", "id", "circuit", "to", "flags"]
            .map(|name| (name, field(name).unwrap()));
        let shown: Vec<String> = words
            .into_iter()
            .filter(|(_, value)| !["none", "255.255.255.255", "0x0000"].contains(value))
            .map(
                |(name, value)| if name == "message" { value.to_string() } else { format!("{name} {value}") },
            )
            .collect();
        format!("{number} {}", shown.join(" "))
    }

    fn end(&mut self) {
        let summary = self.emulator.as_ref().unwrap().summary();
        let failures: Vec<String> =
            summary.failures.iter().map(|(step, count)| format!("{step} {count}")).collect();
        let (again, messages) = (summary.retransmissions, summary.messages);
        let _ = writeln!(
            self.written,
            "figures up {} failed [{}] again {} {} {} {} renewals {} unexpected {} malformed {} foreign {}",
            summary.up,
            failures.join(", "),
            again.discover,
            again.request,
            again.arp,
            again.first_packet,
            messages.renewals,
            messages.unexpected,
            messages.malformed,
            summary.foreign
        );
        if let Some(first) = summary.first_packet {
            let _ = writeln!(self.written, "figures first packet p50 {:?}", first.p50);
        }
    }
}

fn device_mac(number: u8) -> Mac {
    Mac([2, 0, 0, 0, 0, number + 1])
}

pub(crate) fn at_ns(text: &str) -> u64 {
    let units = [("ms", 1_000_000), ("s", 1_000_000_000)];
    let (number, unit) = units
        .into_iter()
        .find_map(|(unit, ns)| Some((text.strip_suffix(unit)?.parse::<u64>().ok()?, ns)))
        .unwrap_or_else(|| panic!("`{text}`"));
    number * unit
}

fn read_options(words: &[&str]) -> Options {
    let mut options = Options { hold: None, ..Options::new(1) };
    for pair in words.chunks(2) {
        match pair {
            ["devices", count] => options.devices = count.parse().unwrap(),
            ["rate", rate] => options.rate_per_s = rate.parse().unwrap(),
            ["timeout", time] => options.timeout = Duration::from_nanos(at_ns(time)),
            ["tries", tries] => options.tries = tries.parse().unwrap(),
            ["lines", lines] => options.lines = lines.parse().unwrap(),
            ["far", "own"] => {
                (options.far, options.own_far) = (Some("198.18.0.2:7".parse().unwrap()), true);
            }
            ["far", address] => options.far = Some(address.parse().unwrap()),
            ["id", "mac"] => options.client_id = weir_cpe::ClientId::Mac,
            ["circuit", text] => options.circuit = Some(weir_cpe::Template((*text).into())),
            ["broadcast", _] => options.broadcast = true,
            ["release", _] => options.release = true,
            ["tap", _] => options.tap = Tapped::First,
            other => panic!("{other:?}"),
        }
    }
    options
}

/// A message of a server.
struct Answer {
    kind: MessageType,
    message: Message,
    src_port: u16,
    cut: bool,
}

impl Answer {
    /// `offer 0 100.64.0.2`, with `lease`, `renew`, `rebind` SECONDS, `server`, `router` ADDRESS or none, `xid old`, `op 1`, `port 53`,
    /// `cut yes` behind it.
    fn read(words: &[&str], xids: &[u32]) -> Answer {
        let [kind, number, address, rest @ ..] = words else { panic!("{words:?}") };
        let kind = (1..=8).filter_map(MessageType::of).find(|known| known.name() == *kind).unwrap();
        let number: u8 = number.parse().unwrap();
        let mut message = Message::request(xids[usize::from(number)], device_mac(number));
        (message.op, message.yiaddr) = (BOOTREPLY, address.parse().unwrap());
        let (mut server, mut router) = (Some(GATEWAY), Some(GATEWAY));
        let (mut src_port, mut cut) = (SERVER_PORT, false);
        let (mut lease, mut times) = (Some(3600), Vec::new());
        for pair in rest.chunks(2) {
            match pair {
                ["server", address] => server = address.parse().ok(),
                ["router", address] => router = address.parse().ok(),
                ["lease", seconds] => lease = seconds.parse().ok(),
                ["renew", seconds] => times.push((RENEWAL_TIME, seconds.parse().unwrap())),
                ["rebind", seconds] => times.push((REBINDING_TIME, seconds.parse().unwrap())),
                ["xid", _] => message.xid ^= 1,
                ["op", op] => message.op = op.parse().unwrap(),
                ["port", port] => src_port = port.parse().unwrap(),
                ["cut", _] => cut = true,
                other => panic!("{other:?}"),
            }
        }
        let options = &mut message.options;
        options.push(MESSAGE_TYPE, &[kind as u8]);
        server.iter().for_each(|server| options.push_addresses(SERVER_ID, &[*server]));
        if kind != MessageType::Nak {
            lease.iter().for_each(|lease| options.push_seconds(LEASE_TIME, *lease));
            times.iter().for_each(|(code, seconds)| options.push_seconds(*code, *seconds));
            options.push_addresses(SUBNET_MASK, &[Ipv4Addr::new(255, 255, 255, 0)]);
            router.iter().for_each(|router| options.push_addresses(ROUTER, &[*router]));
        }
        Answer { kind, message, src_port, cut }
    }

    fn frame(&self) -> Vec<u8> {
        let is_nak = self.kind == MessageType::Nak;
        let payload = self.message.write();
        let mut frame = frame::write(&Datagram {
            dst_mac: if is_nak { Mac::BROADCAST } else { self.message.chaddr },
            src_mac: GATEWAY_MAC,
            src: GATEWAY,
            dst: self.message.yiaddr,
            src_port: self.src_port,
            dst_port: CLIENT_PORT,
            payload: &payload,
        })
        .unwrap();
        if self.cut {
            frame.truncate(100);
        }
        frame
    }
}
