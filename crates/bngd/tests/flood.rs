//! A device of one line floods while those of other lines come up and send: none of their set-ups fails, none of their frames is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use weir_bng::api::State;
use weir_cpe::{Load, Options, SHORTEST_FRAME};
use weir_packet::checksum::write_ipv4;
use weir_port::duplex::{FRONT, Packet, Pool, Port, ReceiveMode};

use crate::restart::{DEVICES, Rig, TEXT, options};

/// Lines of the others, and of the device that floods.
const LINES: &str = "100.1-200";
const FLOODS: [u16; 2] = [101, 7];
/// Frames of the flood in a burst, and the time between two bursts: 6400 a second.
const BURST: u32 = 32;
const PACE: Duration = Duration::from_millis(5);
/// Bursts at most, whatever the others do.
const MOST: u32 = 60_000;

/// A frame of the flood: DISCOVER and ARP of made-up devices, packets with the address of another subscriber, an answer of a DHCP server.
fn frame(n: u32) -> Vec<u8> {
    let [a, b, c, d] = n.to_be_bytes();
    let mac = [2, 0x66, a, b, c, d];
    let tags = [&[0x88, 0xa8][..], &FLOODS[0].to_be_bytes(), &[0x81, 0], &FLOODS[1].to_be_bytes()].concat();
    let header = |dst: [u8; 6], kind: [u8; 2]| [&dst[..], &mac, &tags, &kind].concat();
    let everyone = [0xff; 6];
    match n % 4 {
        0 => {
            let discover =
                [&[1, 1, 6, 0, a, b, c, d][..], &[0; 20], &mac, &[0; 202], &[99, 130, 83, 99, 53, 1, 1, 255]];
            [header(everyone, [8, 0]), udp([0; 4], [255; 4], (68, 67), &discover.concat())].concat()
        }
        1 => {
            let request = [&[0, 1, 8, 0, 6, 4, 0, 1][..], &mac, &[100, 64, 0, 2], &[0; 6], &[100, 64, 0, 1]];
            [header(everyone, [8, 6]), request.concat()].concat()
        }
        2 => [header(everyone, [8, 0]), udp([100, 64, 0, 2], [198, 18, 0, 2], (7, 7), &[0; 18])].concat(),
        _ => [header(everyone, [8, 0]), udp([100, 64, 0, 9], [255; 4], (67, 68), &[2; 240])].concat(),
    }
}

fn udp(src: [u8; 4], dst: [u8; 4], (sport, dport): (u16, u16), data: &[u8]) -> Vec<u8> {
    let length = |more: usize| ((more + data.len()) as u16).to_be_bytes();
    let mut ip = [0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    ip[2..4].copy_from_slice(&length(28));
    ip[12..16].copy_from_slice(&src);
    ip[16..].copy_from_slice(&dst);
    write_ipv4(&mut ip);
    [&ip[..], &sport.to_be_bytes(), &dport.to_be_bytes(), &length(8), &[0, 0], data].concat()
}

/// Floods until `stop`; how many frames it sent.
fn flood(stop: &AtomicBool) -> u32 {
    let mut port = Packet::open("a", 1522, ReceiveMode::Own).unwrap();
    let mut pool = Pool::new(256, 1522).unwrap();
    let (mut sent, mut next) = (0, Instant::now());
    for _ in 0..MOST {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let mut leaving = Vec::new();
        for n in sent..sent + BURST {
            let (Some(mut chunk), frame) = (pool.take(), frame(n)) else { break };
            chunk.set_range(FRONT..FRONT + frame.len());
            pool.bytes_mut(&chunk).copy_from_slice(&frame);
            leaving.push(chunk);
        }
        sent += leaving.len() as u32;
        port.send(&mut pool, &mut leaving).unwrap();
        leaving.into_iter().for_each(|chunk| pool.give_back(chunk));
        next += PACE;
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    sent
}

#[test]
fn a_flood_on_one_line_costs_the_others_nothing() {
    let text = TEXT.replace("access1(access,", "access1(vlan 100-101.1-4094, access,");
    let Some(rig) = Rig::of(&text) else { return };
    let stop = Arc::new(AtomicBool::new(false));
    let flooding = {
        let stop = stop.clone();
        rig.devices.spawn("flood", move || flood(&stop)).unwrap()
    };
    let load = Load { from_subscriber_fps: 5.0, to_subscriber_fps: 5.0, frame_bytes: SHORTEST_FRAME };
    let lines = LINES.parse().unwrap();
    let emulated = rig.emulate(Options {
        lines,
        hold: Some(Duration::from_secs(2)),
        load: Some(load),
        tries: 4,
        ..options()
    });
    let summary = emulated.end();
    stop.store(true, Ordering::Relaxed);
    let sent = flooding.join().unwrap();
    assert!(summary.is_clean(), "{summary:?}");
    for traffic in [&summary.from_subscriber, &summary.to_subscriber] {
        assert_eq!(traffic.as_ref().map(|traffic| traffic.lost()), Some(0), "{summary:?}");
    }
    assert_eq!((summary.up, summary.foreign), (DEVICES.into(), 0), "{summary:?}");
    assert_eq!(rig.agree("after the flood").len(), DEVICES as usize);
    // It came in, and was dropped by name, some of it before the program saw it.
    assert!(
        rig.dropped("no_subscriber") >= u64::from(sent / 8),
        "{sent} sent, {}",
        rig.dropped("no_subscriber")
    );
    let state: State = rig.get("/v1/status").expect("it runs");
    for reason in ["line_rate", "dhcp_from_server"] {
        assert!(state.frames.drops.get(reason) > Some(&0), "{reason}: {:?}", state.frames);
    }
}
