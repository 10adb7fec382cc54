//! What emulated devices receive: any frames at any times, on both sides and from the interface of device 0. Once with DHCP, once with
//! PPPoE, once with PPPoE while sessions end and a monkey disturbs them.
//!
//! ```text
//!  what | ms to wait | length: 2 bytes | frame | what ..      what: 0 access, 1 far, 2 interface, 3 access, repaired
//! ```
//! Repaired are transaction number and checksums of DHCP, and a Host-Uniq that is the first tag.

use std::net::Ipv4Addr;
use std::time::Duration;

use weir_bng::dhcp4::frame::{self, CLIENT_PORT, Datagram, SERVER_PORT};
use weir_bng::dhcp4::message::{BOOTREPLY, Message, MessageType};
use weir_bng::dhcp4::options::{LEASE_TIME, MESSAGE_TYPE, ROUTER, SERVER_ID};
use weir_bng::pppoe::{DISCOVERY, SESSION};
use weir_cpe::responder::{Responder, Sent};
use weir_cpe::{Emulator, Load, Mac, Method, Options, Output, Phase, Pppoe, SHORTEST_FRAME, Side, Tapped};
use weir_packet::neighbour::{Host, answer, question};
use weir_testkit::repair;

const GATEWAY: Ipv4Addr = Ipv4Addr::new(100, 64, 0, 1);
const GATEWAY_MAC: Mac = Mac([2, 0, 0, 0, 0, 0xfe]);
/// Where the transaction number of an untagged message is.
const XID: usize = 46;
const MOST_PASSES: usize = 200;
/// Where the first tag of a packet of discovery is, and Host-Uniq of 8 bytes behind the Service-Name of a PADI.
const FIRST_TAG: usize = 20;
const HOST_UNIQ: [u8; 4] = [1, 3, 0, 8];

/// What the devices do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Dhcp,
    Pppoe,
    /// PPPoE with churn and a monkey.
    Unrest,
}

/// A run of two devices.
struct World {
    emulator: Emulator,
    now_ns: u64,
    /// Transaction numbers as each device sent them last.
    xids: [[u8; 4]; 2],
    /// Host-Uniq as each device sent it last.
    host_uniqs: [[u8; 8]; 2],
    /// Frames of the access side that were sent.
    access: Vec<Vec<u8>>,
}

impl World {
    fn new(kind: Kind) -> World {
        let load = Load { from_subscriber_fps: 10.0, to_subscriber_fps: 10.0, frame_bytes: SHORTEST_FRAME };
        let pppoe = Pppoe { dual_stack: true, echo: Some(Duration::from_millis(100)), ..Pppoe::default() };
        let options = Options {
            pppoe: Some(pppoe).filter(|_| kind != Kind::Dhcp),
            churn: Some(Duration::from_millis(300)).filter(|_| kind == Kind::Unrest),
            monkey: Some(1).filter(|_| kind == Kind::Unrest),
            far: "198.18.0.2:7".parse().ok(),
            own_far: true,
            load: Some(load),
            tap: Tapped::First,
            release: true,
            hold: Some(Duration::from_secs(1)),
            rate_per_s: 1000.0,
            ..Options::new(2)
        };
        let emulator =
            Emulator::new(options, Mac([2, 0, 0, 0, 1, 1])).unwrap_or_else(|wrong| panic!("{wrong}"));
        let (xids, host_uniqs) = ([[0; 4]; 2], [[0; 8]; 2]);
        World { emulator, now_ns: 0, xids, host_uniqs, access: Vec::new() }
    }

    /// Lets time pass, with all that is due meanwhile.
    fn pass(&mut self, until_ns: u64) {
        for _ in 0..MOST_PASSES {
            let due_ns = self.emulator.due_ns().max(self.now_ns);
            if due_ns > until_ns || self.emulator.phase() == Phase::Done {
                break;
            }
            self.now_ns = due_ns;
            let (mut out, mut room) = (Vec::new(), [0; 1600]);
            self.emulator.advance(due_ns, &mut out);
            for side in [Side::Access, Side::Far] {
                while let Some(bytes) = self.emulator.traffic(side, due_ns, &mut room) {
                    assert!((SHORTEST_FRAME..=room.len()).contains(&bytes));
                }
            }
            self.sent(&out);
        }
        self.now_ns = until_ns;
    }

    /// Every frame that is sent is one.
    fn sent(&mut self, out: &[Output]) {
        for output in out {
            let (Output::Access(bytes) | Output::Far(bytes) | Output::Tap(bytes)) = output;
            assert!(bytes.len() >= 14, "{output:?}");
            let device = usize::from(bytes[11]).wrapping_sub(1);
            if let Output::Access(bytes) = output {
                self.access.push(bytes.clone());
            }
            if let (Some(found), Some(own)) = (bytes.get(28..36), self.host_uniqs.get_mut(device))
                && bytes[12..14] == DISCOVERY.to_be_bytes()
                && bytes[24..28] == HOST_UNIQ
            {
                own.copy_from_slice(found);
            }
            if let (Output::Access(bytes), Some(xid)) = (output, self.xids.get_mut(device))
                && let Ok(datagram) = frame::read(bytes)
                && datagram.dst_port == SERVER_PORT
            {
                assert!(Message::read(datagram.payload).is_ok(), "{bytes:?}");
                xid.copy_from_slice(&bytes[XID..XID + 4]);
            }
        }
    }

    fn take(&mut self, what: u8, frame: &[u8]) {
        let mut out = Vec::new();
        match what % 4 {
            0 => self.emulator.access_frame(frame, self.now_ns, &mut out),
            1 => self.emulator.far_frame(frame, self.now_ns, &mut out),
            2 => self.emulator.tap_frame(frame, &mut out),
            _ => {
                let mut repaired = frame.to_vec();
                let device = usize::from(repaired.get(5).copied().unwrap_or(1)).wrapping_sub(1);
                if let (Some(place), Some(xid)) = (repaired.get_mut(XID..XID + 4), self.xids.get(device))
                    && *xid != [0; 4]
                {
                    place.copy_from_slice(xid);
                }
                let kind = repaired.get(12..14).map(<[u8]>::to_vec).unwrap_or_default();
                if kind == DISCOVERY.to_be_bytes() {
                    if let (Some([a, b, c, d, value @ ..]), Some(own)) =
                        (repaired.get_mut(FIRST_TAG..FIRST_TAG + 12), self.host_uniqs.get(device))
                        && [*a, *b, *c, *d] == HOST_UNIQ
                    {
                        value.copy_from_slice(own);
                    }
                } else if let Some(packet) = repaired.get_mut(14..).filter(|_| kind != SESSION.to_be_bytes())
                {
                    repair(packet);
                }
                self.emulator.access_frame(&repaired, self.now_ns, &mut out);
            }
        }
        self.sent(&out);
    }
}

pub(super) fn cpe(input: &[u8]) {
    [Kind::Dhcp, Kind::Pppoe, Kind::Unrest].into_iter().for_each(|kind| run(kind, input));
}

fn run(kind: Kind, input: &[u8]) {
    let mut world = World::new(kind);
    let mut rest = input;
    while let [what, ms, a, b, behind @ ..] = rest {
        world.pass(world.now_ns + u64::from(*ms) * 1_000_000);
        let len = usize::from(u16::from_be_bytes([*a, *b])).min(behind.len());
        let (frame, behind) = behind.split_at(len);
        world.take(*what, frame);
        rest = behind;
    }
    world.pass(world.now_ns + 1_000_000_000);
    let summary = world.emulator.summary();
    assert!(summary.up <= summary.devices && summary.failed() <= summary.devices, "{summary:?}");
    // A set-up that is not done may be released, too.
    assert!(summary.released <= summary.devices, "{summary:?}");
    for traffic in [summary.from_subscriber, summary.to_subscriber].into_iter().flatten() {
        assert!(traffic.reordered <= traffic.received, "{traffic:?}");
    }
}

/// Frames as a run takes them in.
fn taken(frames: &[(u8, Vec<u8>)]) -> Vec<u8> {
    let one = |(what, frame): &(u8, Vec<u8>)| {
        let [a, b] = u16::try_from(frame.len()).unwrap_or(0).to_be_bytes();
        [&[*what, 2, a, b][..], frame].concat()
    };
    frames.iter().flat_map(one).collect()
}

fn message(device: u8, kind: MessageType) -> Vec<u8> {
    let mac = Mac([2, 0, 0, 0, 0, device + 1]);
    let address = Ipv4Addr::new(100, 64, 0, device + 2);
    let mut message = Message { op: BOOTREPLY, yiaddr: address, ..Message::request(0, mac) };
    message.options.push(MESSAGE_TYPE, &[kind as u8]);
    message.options.push_addresses(SERVER_ID, &[GATEWAY]);
    message.options.push_seconds(LEASE_TIME, 1);
    message.options.push_addresses(ROUTER, &[GATEWAY]);
    let payload = message.write();
    let datagram = Datagram {
        dst_mac: mac,
        src_mac: GATEWAY_MAC,
        src: GATEWAY,
        dst: address,
        src_port: SERVER_PORT,
        dst_port: CLIENT_PORT,
        payload: &payload,
    };
    frame::write(&datagram).expect("it is short")
}

/// What the responder answers to both devices until they are up, and to their packets.
fn dialogue(methods: &[Method]) -> Vec<(u8, Vec<u8>)> {
    let mut world = World::new(Kind::Pppoe);
    let mut responder = Responder::new(GATEWAY_MAC, Mac([2, 0, 0, 0, 1, 1]), methods);
    let (mut waiting, mut all) = (std::collections::VecDeque::new(), Vec::new());
    for _ in 0..100 {
        world.pass(world.now_ns + 2_000_000);
        for frame in std::mem::take(&mut world.access) {
            let mut sent = Vec::new();
            responder.access_frame(&frame, Duration::from_nanos(world.now_ns), &mut sent);
            waiting.extend(sent);
        }
        let next = match waiting.pop_front() {
            Some(Sent::Access(frame)) => (0, frame),
            Some(Sent::Far(frame)) => (1, frame),
            None => break,
        };
        world.take(next.0, &next.1);
        all.push(next);
    }
    all
}

pub(super) fn cpe_seeds() -> Vec<Vec<u8>> {
    let gateway = Host { mac: GATEWAY_MAC.0, ip: GATEWAY.into() };
    let device = |n: u8| Host { mac: [2, 0, 0, 0, 0, n + 1], ip: Ipv4Addr::new(100, 64, 0, n + 2).into() };
    let up = |n: u8| {
        [
            (3, message(n, MessageType::Offer)),
            (3, message(n, MessageType::Ack)),
            (0, answer(gateway, device(n))),
            (0, question(gateway, device(n).ip)),
        ]
    };
    // A first packet of device 0: the emulator knows its own run by the seed.
    let far = (1, question(gateway, Ipv4Addr::new(198, 18, 0, 2).into()));
    let tap = (2, [&[0xff; 6][..], &device(0).mac, &[8, 0, 1, 2]].concat());
    let all: Vec<(u8, Vec<u8>)> = up(0).into_iter().chain(up(1)).chain([far, tap]).collect();
    let refused = [(3, message(0, MessageType::Offer)), (3, message(0, MessageType::Nak))];
    let dialled = [Method::ChapMd5, Method::Pap].map(|method| taken(&dialogue(&[method])));
    let mut seeds = vec![taken(&all), taken(&refused), taken(&all[..2])];
    seeds.extend(dialled);
    seeds
}
