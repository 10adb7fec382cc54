//! Dialling in virtual time, against the responder. `pppoe.txt` has what is disturbed, and each message because of it:
//!
//! ```text
//! == title
//! set devices 2 auth pap                      options of the devices; `accepts METHOD` is one of the responder
//! lose pado 1                                 the first PADO does not arrive; so do `double` and `cut`
//! 5s in padt 0 wrong-id                       a frame for device 0 that the responder did not send
//! 10s end                                     time passes, then the figures
//! ```
//! A message takes 1 ms. All other lines are written by the test; `BLESS=1` writes them anew.

use std::collections::{HashMap, VecDeque};
use std::fmt::Write;
use std::time::Duration;

use weir_bng::ppp::packet::Packet;
use weir_bng::ppp::protocol;
use weir_bng::pppoe::discovery::{Code, Discovery};
use weir_bng::pppoe::session::SessionFrame;
use weir_cpe::responder::{Responder, Sent};
use weir_cpe::{Emulator, Mac, Method, Options, Output, Pppoe, Preset, Template};

use crate::scenarios::{at_ns, check_scenarios};

const FAR_MAC: Mac = Mac([2, 0, 0, 0, 1, 1]);
const BNG_MAC: Mac = Mac([2, 0, 0, 0, 0xff, 0xfe]);
/// How long a message takes.
const WAY_NS: u64 = 1_000_000;
/// Deadlines of the responder are looked at so often.
const TICK_NS: u64 = 100_000_000;

#[test]
fn devices_dial_as_the_scenarios_say() {
    check_scenarios("pppoe.txt", |title, rows| {
        let mut world = World::new(title);
        rows.for_each(|row| world.row(row));
        world.written
    });
}

/// To whom a frame goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum To {
    Bng,
    BngFar,
    Devices,
    Far,
}

/// What becomes of the n-th message of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Lose,
    Double,
    Cut,
}

struct World {
    emulator: Option<Emulator>,
    responder: Responder,
    /// Frames on their way, in the order of their arrival.
    wire: VecDeque<(u64, To, Vec<u8>)>,
    now_ns: u64,
    /// Whether the responder answers.
    is_on: bool,
    faults: Vec<(Fault, String, u32)>,
    /// How many of each name were sent.
    seen: HashMap<String, u32>,
    /// The last id of device 0.
    session_id: u16,
    /// The last packet of device 0.
    packet: Option<Vec<u8>>,
    title: String,
    written: String,
}

impl World {
    fn new(title: &str) -> World {
        World {
            emulator: None,
            responder: responder(&[Method::ChapMd5, Method::MsChapV2, Method::Pap]),
            wire: VecDeque::new(),
            now_ns: 0,
            is_on: true,
            faults: Vec::new(),
            seen: HashMap::new(),
            session_id: 0,
            packet: None,
            title: title.to_string(),
            written: String::new(),
        }
    }

    fn row(&mut self, row: &str) {
        let words: Vec<&str> = row.split_whitespace().collect();
        match words[..] {
            ["set", ref options @ ..] => {
                let options = self.read_options(options);
                self.emulator = Some(Emulator::new(options, FAR_MAC).unwrap());
            }
            [fault @ ("lose" | "double" | "cut"), ref names @ .., number] => {
                let fault = match fault {
                    "lose" => Fault::Lose,
                    "double" => Fault::Double,
                    _ => Fault::Cut,
                };
                self.faults.push((fault, names.join(" "), number.parse().unwrap()));
            }
            [time, "in", ref frame @ ..] => {
                self.pass(at_ns(time));
                self.keep(row);
                return self.inject(frame);
            }
            [time, "bng", state] => {
                self.pass(at_ns(time));
                self.is_on = state == "on";
            }
            [time, "stop"] => {
                self.pass(at_ns(time));
                self.emulator.as_mut().unwrap().stop(at_ns(time));
            }
            [time, "end"] => {
                self.pass(at_ns(time));
                self.keep(row);
                return self.end();
            }
            // What this writes.
            [_, "device" | "bng:" | "far:" | "tap:", ..] | ["figures", ..] => return,
            _ => panic!("{}: `{row}`", self.title),
        }
        self.keep(row);
    }

    fn keep(&mut self, row: &str) {
        let _ = writeln!(self.written, "{}", row.trim());
    }

    fn read_options(&mut self, words: &[&str]) -> Options {
        let mut pppoe = Pppoe::default();
        let mut options =
            Options { hold: None, timeout: Duration::from_secs(3), tries: 3, ..Options::new(1) };
        for pair in words.chunks(2) {
            match pair {
                ["devices", count] => options.devices = count.parse().unwrap(),
                ["rate", rate] => options.rate_per_s = rate.parse().unwrap(),
                ["tries", tries] => options.tries = tries.parse().unwrap(),
                ["redial", time] => options.redial = Some(Duration::from_nanos(at_ns(time))),
                ["lines", lines] => options.lines = lines.parse().unwrap(),
                ["far", "own"] => {
                    (options.far, options.own_far) = (Some("198.18.0.2:7".parse().unwrap()), true);
                }
                ["far-echo", address] => options.far = Some(address.parse().unwrap()),
                ["release", _] => options.release = true,
                ["auth", method] => pppoe.methods = vec![method_of(method)],
                ["accepts", method] => self.responder = responder(&[method_of(method)]),
                ["password", text] => pppoe.password = Template((*text).into()),
                ["dual-stack", _] => pppoe.dual_stack = true,
                ["max-payload", bytes] => pppoe.max_payload = bytes.parse().unwrap(),
                ["echo", time] => pppoe.echo = Some(Duration::from_nanos(at_ns(time))),
                ["churn", time] => options.churn = Some(Duration::from_nanos(at_ns(time))),
                ["monkey", seed] => options.monkey = Some(seed.parse().unwrap()),
                ["hold", time] => options.hold = Some(Duration::from_nanos(at_ns(time))),
                ["preset", id] => {
                    pppoe.preset = Some(Preset {
                        first_id: id.parse().unwrap(),
                        first_address: "100.64.0.2".parse().unwrap(),
                        bng_mac: BNG_MAC,
                    });
                    self.session_id = id.parse().unwrap();
                }
                ["dial", time] => pppoe.dial_timeout = Duration::from_nanos(at_ns(time)),
                other => panic!("{other:?}"),
            }
        }
        Options { pppoe: Some(pppoe), ..options }
    }

    /// Lets time pass, with all that is due meanwhile.
    fn pass(&mut self, until_ns: u64) {
        loop {
            let emulator = self.emulator.as_ref().unwrap();
            let arrival_ns = self.wire.front().map_or(u64::MAX, |(at_ns, _, _)| *at_ns);
            let tick_ns = (self.now_ns / TICK_NS + 1) * TICK_NS;
            let due_ns = emulator.due_ns().max(self.now_ns).min(arrival_ns).min(tick_ns);
            if due_ns > until_ns {
                break;
            }
            let phase = (emulator.phase(), self.now_ns);
            self.now_ns = due_ns;
            if arrival_ns == due_ns {
                self.arrive();
            }
            let mut out = Vec::new();
            let emulator = self.emulator.as_mut().unwrap();
            emulator.advance(due_ns, &mut out);
            let is_idle = out.is_empty() && (emulator.phase(), due_ns) == phase && arrival_ns != due_ns;
            self.send(out);
            if due_ns == tick_ns || is_idle {
                self.now_ns = self.now_ns.max(tick_ns.min(until_ns));
                let mut sent = Vec::new();
                self.responder.tick(Duration::from_nanos(self.now_ns), &mut sent);
                self.answer(sent);
            }
            if self.now_ns >= until_ns {
                break;
            }
        }
        self.now_ns = until_ns;
    }

    fn arrive(&mut self) {
        let Some((_, to, frame)) = self.wire.pop_front() else { return };
        let (now, emulator) = (Duration::from_nanos(self.now_ns), self.emulator.as_mut().unwrap());
        let (mut out, mut sent) = (Vec::new(), Vec::new());
        match to {
            To::Bng if self.is_on => self.responder.access_frame(&frame, now, &mut sent),
            To::BngFar => sent.extend(self.responder.far_frame(&frame)),
            To::Bng => {}
            To::Devices => emulator.access_frame(&frame, self.now_ns, &mut out),
            To::Far => emulator.far_frame(&frame, self.now_ns, &mut out),
        }
        self.send(out);
        self.answer(sent);
    }

    fn send(&mut self, out: Vec<Output>) {
        for output in out {
            match output {
                Output::Access(frame) => {
                    let number = frame[11] - 1;
                    self.carry(&format!("device {number}"), To::Bng, frame);
                }
                Output::Far(frame) => self.carry("far:", To::BngFar, frame),
                Output::Tap(frame) => self.carry("tap:", To::BngFar, frame),
            }
        }
    }

    fn answer(&mut self, sent: Vec<Sent>) {
        for sent in sent {
            match sent {
                Sent::Access(frame) => self.carry("bng:", To::Devices, frame),
                Sent::Far(frame) => self.carry("bng: to the far end:", To::Far, frame),
            }
        }
    }

    /// Puts a frame on the wire, unless something is wrong with it.
    fn carry(&mut self, from: &str, to: To, mut frame: Vec<u8>) {
        let name = self.described(&frame);
        let count = self.seen.entry(name.clone()).or_default();
        *count += 1;
        let count = *count;
        let fault = self.faults.iter().find(|(_, wanted, number)| *wanted == name && *number == count);
        let fault = fault.map(|(fault, _, _)| *fault);
        let ms = self.now_ns / 1_000_000;
        let note = match fault {
            None => "",
            Some(Fault::Lose) => " (lost)",
            Some(Fault::Double) => " (doubled)",
            Some(Fault::Cut) => " (cut)",
        };
        let _ = writeln!(self.written, "{ms}ms {from} {name}{note}");
        if fault == Some(Fault::Cut) {
            frame.truncate(frame.len() - 3);
        }
        for _ in 0..usize::from(fault != Some(Fault::Lose)) + usize::from(fault == Some(Fault::Double)) {
            self.wire.push_back((self.now_ns + WAY_NS, to, frame.clone()));
        }
    }

    fn described(&mut self, frame: &[u8]) -> String {
        let mut frame = frame.to_vec();
        if frame[12..14] == [0x81, 0] {
            frame.drain(12..16);
        }
        if let Ok(packet) = Discovery::read(&frame) {
            if packet.code == Code::Pads && packet.dst.0[5] == 1 {
                self.session_id = packet.session_id;
            }
            return format!("{:?}", packet.code).to_lowercase();
        }
        match SessionFrame::read(&frame) {
            Ok(session) => {
                if session.protocol == protocol::IPV4 && session.src.0[5] == 1 {
                    self.packet = Some(frame.clone());
                }
                ppp_name(&session)
            }
            Err(_) => "packet".into(),
        }
    }

    /// A frame for device 0 that the responder did not send.
    fn inject(&mut self, words: &[&str]) {
        let mac = Mac([2, 0, 0, 0, 0, 1]);
        let wrong = |word: &str| words.contains(&word);
        let src = if wrong("wrong-mac") { Mac([2, 0, 0, 0, 9, 9]) } else { BNG_MAC };
        let session_id = if wrong("wrong-id") { self.session_id ^ 1 } else { self.session_id };
        let ppp = |protocol, code, id, data: &[u8]| {
            let payload = Packet { code, id, data }.write();
            SessionFrame { dst: mac, src, session_id, protocol, payload: &payload }.write()
        };
        let mut frame = match words[0] {
            "echoed" => {
                let mut frame = self.packet.clone().unwrap();
                frame[..6].copy_from_slice(&mac.0);
                frame[6..12].copy_from_slice(&src.0);
                frame
            }
            "padt" => {
                let tags = weir_bng::pppoe::tags::TagList::default();
                Discovery { dst: mac, src, code: Code::Padt, session_id, tags }.write().unwrap()
            }
            "pado" => {
                let tags = weir_bng::pppoe::tags::TagList::default();
                Discovery { dst: mac, src, code: Code::Pado, session_id: 0, tags }.write().unwrap()
            }
            "echo" => ppp(protocol::LCP, 9, 1, &[0, 0, 0, 0, 1, 2]),
            "lcp" => ppp(protocol::LCP, 1, 77, &[5, 6, 9, 9, 9, 9]),
            "ipcp" => ppp(protocol::IPCP, 1, 77, &[3, 6, 100, 64, 0, 1]),
            "terminate" => ppp(protocol::LCP, 5, 78, &[]),
            "other" => ppp(0x80fd, 1, 1, &[]),
            "packet" => {
                let payload = [0x45; 40];
                SessionFrame { dst: mac, src, session_id, protocol: protocol::IPV4, payload: &payload }
                    .write()
            }
            other => panic!("{other}"),
        };
        if wrong("tagged") {
            frame.splice(12..12, [0x81, 0, 0, 7]);
        }
        let (now_ns, mut out) = (self.now_ns, Vec::new());
        self.emulator.as_mut().unwrap().access_frame(&frame, now_ns, &mut out);
        self.send(out);
    }

    fn end(&mut self) {
        let summary = self.emulator.as_ref().unwrap().summary();
        let failures: Vec<String> =
            summary.failures.iter().map(|(step, count)| format!("{step} {count}")).collect();
        let (again, messages) = (summary.retransmissions, summary.messages);
        let _ = writeln!(
            self.written,
            "figures up {} failed [{}] again padi {} padr {} ppp {} unexpected {} malformed {} foreign {} released {}",
            summary.up,
            failures.join(", "),
            again.padi,
            again.padr,
            again.ppp,
            messages.unexpected,
            messages.malformed,
            summary.foreign,
            summary.released
        );
        if !summary.redials.is_empty() {
            let steps = summary.redials.iter().map(|(step, count)| format!("{step} {count}"));
            let _ = writeln!(self.written, "figures began again [{}]", steps.collect::<Vec<_>>().join(", "));
        }
        if let Some(churn) = summary.churn {
            let _ = writeln!(self.written, "figures ended {} up again {}", churn.ended, churn.up_again);
        }
        for (name, times) in [("set-up", summary.setup), ("first packet", summary.first_packet)] {
            if let Some(times) = times {
                let _ = writeln!(self.written, "figures {name} p50 {:?}", times.p50);
            }
        }
    }
}

fn responder(methods: &[Method]) -> Responder {
    Responder::new(Mac([2, 0, 0, 0, 1, 2]), FAR_MAC, methods)
}

fn method_of(name: &str) -> Method {
    match name {
        "pap" => Method::Pap,
        "chap" => Method::ChapMd5,
        "mschapv2" => Method::MsChapV2,
        _ => panic!("{name}"),
    }
}

/// The monkey against the responder: after it, every device is up, whatever the seed.
#[test]
fn all_devices_are_up_after_the_monkey() {
    for seed in 1..=20 {
        let mut world = World::new("monkey");
        world.row(&format!("set devices 20 rate 100 far own hold 30s dual-stack yes monkey {seed} dial 20s"));
        world.pass(300_000_000_000);
        let summary = world.emulator.as_ref().unwrap().summary();
        assert!(summary.is_clean(), "seed {seed}: {summary:?}");
        let monkey = summary.monkey.unwrap();
        assert_eq!((monkey.power_cuts, monkey.up_at_end), (1, 20), "seed {seed}: {monkey:?}");
        let counts = [monkey.lost, monkey.doubled, monkey.late, monkey.overtaken, monkey.malformed];
        assert!(counts.iter().all(|count| *count > 0), "seed {seed}: {monkey:?}");
    }
}

/// `lcp request`, `chap 1`, `packet`.
fn ppp_name(session: &SessionFrame<'_>) -> String {
    let name = match session.protocol {
        protocol::LCP => "lcp",
        protocol::IPCP => "ipcp",
        protocol::IPV6CP => "ipv6cp",
        protocol::PAP => "pap",
        protocol::CHAP => "chap",
        protocol::IPV4 => return "packet".into(),
        protocol::IPV6 => return "packet6".into(),
        other => return format!("{other:#06x}"),
    };
    let names = match name {
        "pap" => ["request", "ack", "nak", "?"].as_slice(),
        "chap" => &["challenge", "response", "success", "failure"],
        _ => &[
            "request",
            "ack",
            "nak",
            "reject",
            "terminate",
            "terminated",
            "code-reject",
            "protocol-reject",
            "echo",
            "echo-reply",
        ],
    };
    let code = session.payload.first().copied().unwrap_or(0);
    let word = names.get(usize::from(code).wrapping_sub(1)).copied().unwrap_or("?");
    format!("{name} {word}")
}
