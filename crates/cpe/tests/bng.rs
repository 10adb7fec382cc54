//! Runs against a real control plane: `weir_bng::Bng` answers what comes in by interface b, without a node. Only set-ups, no forwarding.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use weir_bng::{Bng, Command, Config, Input, Now, Output, Punt, Tags};
use weir_cpe::{ClientId, Lines, Options, Summary};
use weir_packet::neighbour::{self, Heard, Host};
use weir_port::duplex::{FRONT, Packet, Pool, Port, ReceiveMode, wait};

use crate::wires::{Street, emulate};

const MAC: [u8; 6] = [2, 0, 0, 0, 0xff, 0xfe];
const TEXT: &str =
    "port access1 mac 02:00:00:00:ff:fe trusted, pool main 100.64.0.2-100.64.3.254 router 100.64.0.1/22,
    limit line 100000 burst 100000";

/// Tags of a frame, and the frame without them.
fn untagged(frame: &[u8]) -> (Tags, Vec<u8>) {
    let vid = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]) & 0xfff;
    let kind = |at: usize| [frame[at], frame[at + 1]];
    let (tags, count) = match (kind(12), kind(16)) {
        ([0x88, 0xa8], [0x81, 0]) => (Tags::Two { outer: vid(14), inner: vid(18) }, 8),
        ([0x81, 0], _) => (Tags::One(vid(14)), 4),
        _ => (Tags::None, 0),
    };
    (tags, [&frame[..12], &frame[12 + count..]].concat())
}

fn tagged(tags: Tags, frame: &[u8]) -> Vec<u8> {
    let tag = |kind: [u8; 2], vid: u16| [kind, vid.to_be_bytes()].concat();
    let tags = match tags {
        Tags::None => Vec::new(),
        Tags::One(vid) => tag([0x81, 0], vid),
        Tags::Two { outer, inner } => [tag([0x88, 0xa8], outer), tag([0x81, 0], inner)].concat(),
    };
    [&frame[..12], &tags, &frame[12..]].concat()
}

/// Answers until `stop`; records are on disk at once.
fn serve(mut bng: Bng, stop: &AtomicBool, ready: impl FnOnce()) {
    let mut port = Packet::open("b", 1522, ReceiveMode::Promiscuous).unwrap();
    let mut pool = Pool::new(1024, 1522).unwrap();
    let begin = std::time::Instant::now();
    ready();
    while !stop.load(Ordering::Relaxed) {
        let (mut arrived, mut leaving) = (Vec::new(), Vec::new());
        port.receive(&mut pool, &mut arrived).unwrap();
        let is_idle = arrived.is_empty();
        for mut chunk in arrived {
            let (tags, bytes) = untagged(pool.bytes(&chunk));
            let now = Now { at: begin.elapsed(), wall_s: 1_790_000_000 };
            let answer = answer(&mut bng, now, tags, &bytes);
            match answer.map(|(tags, frame)| tagged(tags, &frame)) {
                Some(frame) => {
                    chunk.set_range(FRONT..FRONT + frame.len());
                    pool.bytes_mut(&chunk).copy_from_slice(&frame);
                    leaving.push(chunk);
                }
                None => pool.give_back(chunk),
            }
        }
        port.send(&mut pool, &mut leaving).unwrap();
        if is_idle {
            wait(&[port.descriptor().unwrap()], Duration::from_millis(20)).unwrap();
        }
    }
}

/// The answer to a frame: to ARP for any address, and that of the BNG.
fn answer(bng: &mut Bng, now: Now, tags: Tags, bytes: &[u8]) -> Option<(Tags, Vec<u8>)> {
    if let Some(Heard::Question { from, target }) = neighbour::parse(bytes) {
        return Some((tags, neighbour::answer(Host { mac: MAC, ip: target }, from)));
    }
    let (mut out, mut sent) = (Vec::new(), None);
    bng.input(now, Input::Punt(Punt { port: "access1".parse().unwrap(), tags, bytes }), &mut out);
    while let Some(output) = out.pop() {
        match output {
            Output::Store(record) => bng.input(now, Input::Stored { revision: record.revision }, &mut out),
            Output::Send { tags, frame, .. } => sent = Some((tags, frame)),
            _ => {}
        }
    }
    sent
}

/// A run against a BNG with a subscriber for each of `subscribers`, the keys of which are these texts.
fn against_bng(subscribers: impl Iterator<Item = String>, options: Options) -> Option<Summary> {
    let street = Street::new()?;
    let (config, _) = Config::read("test", TEXT).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    let mut bng = Bng::new(config, 7).unwrap();
    for (n, key) in subscribers.enumerate() {
        let subscriber = format!("s{n} {key} plan down 20Mbit up 5Mbit").parse().unwrap();
        let command = Input::Command { id: 1, command: Command::AddSubscriber(subscriber) };
        bng.input(Now::default(), command, &mut Vec::new());
        bng.input(Now::default(), Input::Stored { revision: n as u64 + 1 }, &mut Vec::new());
    }
    let stop = Arc::new(AtomicBool::new(false));
    let (ready, is_ready) = mpsc::channel();
    let server = {
        let stop = stop.clone();
        street.bng.spawn("bng", move || serve(bng, &stop, || ready.send(()).unwrap()))
    };
    is_ready.recv().unwrap();
    let summary = street.devices.run(|| emulate(options));
    stop.store(true, Ordering::Relaxed);
    server.unwrap().join().unwrap();
    Some(summary)
}

fn mac_key(n: u32) -> String {
    format!("mac 02:00:00:00:{:02x}:{:02x}", (n + 1) >> 8, (n + 1) & 0xff)
}

#[test]
fn subscribers_known_by_their_macs_come_up_and_others_do_not() {
    let options = Options {
        rate_per_s: 2000.0,
        timeout: Duration::from_millis(200),
        tries: 2,
        release: true,
        ..Options::new(303)
    };
    let Some(summary) = against_bng((0..300).map(mac_key), options) else { return };
    assert_eq!((summary.up, summary.released), (300, 300), "{summary:?}");
    assert_eq!(summary.failures, [(weir_cpe::Step::Discover, 3)], "{summary:?}");
    let mut failed: Vec<String> = summary.first_failed.iter().map(|failed| failed.mac.to_string()).collect();
    failed.sort();
    assert_eq!(failed, ["02:00:00:00:01:2d", "02:00:00:00:01:2e", "02:00:00:00:01:2f"]);
}

#[test]
fn subscribers_known_by_their_lines_and_circuits_come_up() {
    let lines: Lines = "100-101.1-50".parse().unwrap();
    let line = |n: u32| format!("line access1:{}.{}", 100 + n / 50, 1 + n % 50);
    let circuit = |n: u32| format!("circuit olt1/{n}");
    let by_line = Options { lines, rate_per_s: 2000.0, client_id: ClientId::Mac, ..Options::new(100) };
    let template = weir_cpe::Template("olt1/{n}".into());
    let by_circuit =
        Options { circuit: Some(template), rate_per_s: 2000.0, broadcast: true, ..Options::new(100) };
    let keys: [(Vec<String>, Options); 2] =
        [((0..100).map(line).collect(), by_line), ((0..100).map(circuit).collect(), by_circuit)];
    for (keys, options) in keys {
        let Some(summary) = against_bng(keys.into_iter(), options) else { return };
        assert!(summary.is_clean(), "{summary:?}");
    }
}
