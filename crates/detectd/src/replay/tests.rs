//! Files of others, and what is reported of them.

use std::path::PathBuf;

use serde_json::Value;
use weir_detect::{Config, Engine};
use weir_port::pcapng::{ETHERNET, Interface, write};
use weir_testkit::Folder;

use super::*;
use crate::actions::Actions;

const S: u64 = 1_000_000_000;

/// A file of the folder with cases from outside.
fn case(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases").join(name)
}

/// What is reported of a file with a limit of 100 frames/s, a word or two for each line, and the error at the end.
fn reported(path: &Path) -> String {
    let text = std::fs::read_to_string(case("detect.toml")).unwrap();
    let config = Config::read("detect.toml", &text).unwrap();
    let teller = Teller::new(true, Actions::start(&config.actions).unwrap());
    let mut judge = Judge { engine: Engine::new(config, [1, 2]), events: Vec::new(), captures: None };
    let mut written = Vec::new();
    let mut page = Page::new(&mut written);
    let read = replay(path, &mut judge, teller, &mut page);
    page.finish().unwrap();
    let lines = String::from_utf8(written).unwrap();
    let lines = lines.lines().map(|line| word_of(&serde_json::from_str(line).unwrap()));
    let error = read.err().map(|error| {
        let error = format!("{error:#}");
        let end = error.split_once(": ").map_or(error.clone(), |(_, what)| what.to_string());
        format!("error {end}")
    });
    lines.chain(error).collect::<Vec<_>>().join("; ")
}

fn word_of(line: &Value) -> String {
    let number = |name: &str| line[name].as_f64().unwrap();
    match line["event"].as_str().unwrap() {
        "start" => format!(
            "start {} {:.0}/s",
            line["host"].as_str().unwrap(),
            line["rates"]["pps"].as_f64().unwrap()
        ),
        "clock" => format!("back {:.1} s", number("back_s")),
        "time_stamp" => format!("off {:.1} s", number("off_s")),
        "gap" => format!("gap {}", line["words"].as_str().unwrap()),
        "status" => {
            let not_judged = line["not_judged"].as_array().unwrap();
            let frames: u64 = not_judged.iter().map(|reason| reason["frames"].as_u64().unwrap()).sum();
            format!("{} frames, {} hosts, {frames} not", line["frames"], line["hosts"])
        }
        other => other.to_string(),
    }
}

#[test]
fn files_from_outside_are_judged_as_what_they_hold() {
    for (file, expected) in [
        ("0-control.pcapng", "start 198.18.0.9 301/s; 600 frames, 1 hosts, 0 not"),
        ("1-setback.pcap", "back 64.9 s; 760 frames, 1 hosts, 0 not"),
        ("3-obsolete.pcapng", "start 198.18.0.9 301/s; 600 frames, 1 hosts, 0 not"),
        ("5-raw-first.pcapng", "start 198.18.0.9 301/s; 601 frames, 1 hosts, 0 not"),
        ("8-pppoe.pcap", "start 198.18.0.9 301/s; 600 frames, 1 hosts, 0 not"),
    ] {
        assert_eq!(reported(&case(file)), expected, "{file}");
    }
}

/// A frame of a file that a test writes.
#[derive(Clone)]
struct Sent {
    interface: u32,
    at_ns: u64,
    wire_len: u32,
    bytes: Vec<u8>,
}

/// The frames of the control: 301 per second to a host that may have 100.
fn control() -> Vec<Sent> {
    let mut reader = Reader::open(BufReader::new(File::open(case("0-control.pcapng")).unwrap())).unwrap();
    let mut frames = Vec::new();
    while let Some(item) = reader.next_item().unwrap() {
        if let Item::Packet(Packet { interface, at_ns, wire_len, bytes, .. }) = item {
            frames.push(Sent { interface, at_ns, wire_len, bytes: bytes.to_vec() });
        }
    }
    frames
}

/// The control with each frame changed.
fn changed(change: impl Fn(&mut Sent)) -> Vec<Sent> {
    let mut frames = control();
    frames.iter_mut().for_each(change);
    frames
}

/// The control with these bytes in place of each EtherType.
fn behind(header: &[u8]) -> Vec<Sent> {
    changed(|sent| drop(sent.bytes.splice(12..14, header.iter().copied())))
}

fn section(link_types: &[u16], frames: &[Sent]) -> Vec<u8> {
    let mut file = Vec::new();
    write::section(&mut file, &write::Author::default());
    for &link_type in link_types {
        write::interface(&mut file, &Interface { link_type, ..Interface::default() });
    }
    for Sent { interface, at_ns, wire_len, bytes } in frames {
        let (interface, at_ns, wire_len) = (*interface, *at_ns, *wire_len);
        write::packet(&mut file, &Packet { interface, at_ns, wire_len, bytes, dropped: 0 });
    }
    file
}

fn check(what: &str, file: &[u8], expected: &str) {
    let folder = Folder::new();
    assert_eq!(reported(&folder.file("x.pcapng", file)), expected, "{what}");
}

fn check_frames(what: &str, frames: &[Sent], expected: &str) {
    check(what, &section(&[ETHERNET], frames), expected);
}

const FLOOD: &str = "start 198.18.0.9 301/s; 600 frames, 1 hosts, 0 not";

#[test]
fn one_wrong_time_stamp_hides_no_flood_and_ends_none() {
    let day = 86_400 * S;
    let mut first = control();
    first[0].at_ns += day;
    check_frames("first", &first, &format!("off 86400.0 s; {FLOOD}"));
    let mut middle = control();
    middle[450].at_ns += day;
    check_frames("middle", &middle, "start 198.18.0.9 301/s; off 86400.0 s; 600 frames, 1 hosts, 0 not");
    middle[450].at_ns -= 2 * day;
    check_frames("back", &middle, "start 198.18.0.9 301/s; off -86400.0 s; 600 frames, 1 hosts, 0 not");
    // Two agree: the clock was wrong, and is set right.
    first[1].at_ns += day;
    check_frames("two", &first, "back 86400.0 s; start 198.18.0.9 299/s; 600 frames, 1 hosts, 0 not");
    let late = changed(|sent| sent.at_ns += if sent.at_ns % S < S / 2 { 0 } else { 64 * S });
    assert!(
        reported(&Folder::new().file("late.pcapng", section(&[ETHERNET], &late))).contains("back 64.0 s")
    );
}

#[test]
fn frames_without_time_have_no_rate() {
    let expected = |frames: u32| {
        format!(
            "gap frames without a time stamp: they have no rate; 0 frames, 0 hosts, {frames} not; error none of its frames can \
             be judged: {frames} frames without a time stamp: they have no rate"
        )
    };
    // Simple packets: the length on the wire, then the bytes.
    let mut simple = section(&[ETHERNET], &[]);
    for Sent { bytes, .. } in control() {
        let padded = bytes.len().next_multiple_of(4);
        let length = (16 + padded) as u32;
        let mut body = bytes.clone();
        body.resize(padded, 0);
        for word in [3, length, bytes.len() as u32] {
            simple.extend(word.to_le_bytes());
        }
        simple.extend(body);
        simple.extend(length.to_le_bytes());
    }
    check("simple packets", &simple, &expected(600));
    // One may be at 0.
    let zeros = changed(|sent| sent.at_ns = 0);
    check_frames(
        "zeros",
        &zeros,
        "gap frames without a time stamp: they have no rate; 1 frames, 1 hosts, 599 not",
    );
    let begin = control()[0].at_ns;
    check_frames("from 0", &changed(|sent| sent.at_ns -= begin), FLOOD);
}

#[test]
fn what_encapsulates_ip_is_passed_and_all_else_is_reported() {
    for (what, header) in [
        ("QinQ", &[0x88, 0xa8, 0, 7, 0x81, 0, 0, 8, 8, 0][..]),
        ("MPLS", &[0x88, 0x47, 0, 1, 0, 255, 0, 2, 1, 255]),
        ("SNAP", &[0, 54, 0xaa, 0xaa, 3, 0, 0, 0, 8, 0]),
    ] {
        check_frames(what, &behind(header), FLOOD);
    }
    let none = |gap: &str| {
        format!("gap {gap}; 0 frames, 0 hosts, 600 not; error none of its frames can be judged: 600 {gap}")
    };
    let macsec = "frames (0x88e5, MACsec): no IP packet in this protocol";
    check_frames("MACsec", &behind(&[0x88, 0xe5]), &none(macsec));
    let cut = "frames (0x0800, IPv4) end within their headers: capture more bytes of each";
    check_frames("24 bytes", &changed(|sent| sent.bytes.truncate(24)), &none(cut));
    let no_ports =
        "gap frames by ports, new flows and SYN: they end before these; capture more bytes of each";
    check_frames(
        "34 bytes",
        &changed(|sent| sent.bytes.truncate(34)),
        &format!("{no_ports}; start 198.18.0.9 301/s; 600 frames, 1 hosts, 600 not"),
    );
    check_frames("ARP", &behind(&[8, 6]), "0 frames, 0 hosts, 0 not");
    let link = "frames of link type 105: Ethernet, raw IP and Linux cooked are understood";
    check("Wi-Fi", &section(&[105], &control()), &none(link));
    // Each interface has its own.
    let both = changed(|sent| sent.interface = u32::from(sent.at_ns % 2_000_000 < 1_000_000));
    let of_second = both.iter().filter(|sent| sent.interface == 1).count();
    let reported = reported(&Folder::new().file("both.pcapng", section(&[105, ETHERNET], &both)));
    assert!(
        reported.contains(&format!("{of_second} frames, 1 hosts, {} not", 600 - of_second)),
        "{reported}"
    );
}

#[test]
fn joined_frames_count_as_their_segments() {
    // Ten frames per second of 40 segments each; UDP has 42 bytes of headers.
    let mut joined = control();
    joined.truncate(20);
    let begin = joined[0].at_ns;
    for (n, sent) in joined.iter_mut().enumerate() {
        (sent.at_ns, sent.wire_len) = (begin + n as u64 * S / 10, 42 + 40 * 1472);
    }
    check_frames("joined", &joined, "start 198.18.0.9 400/s; 800 frames, 1 hosts, 0 not");
}

#[test]
fn a_file_that_ends_early_is_judged_up_to_its_end() {
    let truncated = |at: usize| {
        format!(
            "at byte {at}: the file ends in the middle of a block: whoever wrote it was stopped, or the disk was full"
        )
    };
    let cut = |interfaces: &[u16], frames: &[Sent]| {
        let mut file = section(interfaces, frames);
        let last = section(interfaces, &frames[..frames.len() - 1]).len();
        file.truncate(file.len() - 10);
        (file, last)
    };
    let expected =
        |at| format!("start 198.18.0.9 301/s; 599 frames, 1 hosts, 0 not; error {}", truncated(at));
    let (file, at) = cut(&[ETHERNET], &control());
    check("one interface", &file, &expected(at));
    // The second interface has told nothing when the file ends.
    let (file, at) = cut(&[ETHERNET; 2], &control());
    check("two interfaces", &file, &expected(at));
    // A section behind it begins anew, wherever its interfaces were.
    let twice = [section(&[ETHERNET; 2], &control()), section(&[ETHERNET], &control()[..30])].concat();
    check("two sections", &twice, "start 198.18.0.9 301/s; back 2.0 s; 630 frames, 1 hosts, 0 not");
}

#[test]
fn no_more_is_held_of_a_packet_than_on_the_wire() {
    let packet = |bytes| Packet { interface: 0, at_ns: 1, wire_len: 1500, bytes, dropped: 2 };
    let held = |bytes, keeps_bytes| {
        let Held { bytes, wire_len, lost, .. } = Held::of(Link::Ethernet, &packet(bytes), keeps_bytes);
        (bytes.len(), wire_len, lost)
    };
    assert_eq!(held(&[0; 1500], true), (SNAP as usize, 1500, 2));
    assert_eq!(held(&[0; 60], true), (60, 1500, 2));
    assert_eq!(held(&[0; 60], false), (0, 1500, 2));
}

#[test]
fn a_packet_of_another_link_counts_as_in_a_frame_of_ethernet() {
    let mut ip = [0; 60];
    (ip[0], ip[9], ip[12], ip[16]) = (0x45, 17, 192, 198);
    let cooked = [&[0; 14], &[8, 0][..], &ip].concat();
    for (link, bytes, wire_len) in [(Link::RawIp, ip.to_vec(), 1500), (Link::Cooked, cooked, 1500 + 16)] {
        let packet = Packet { interface: 0, at_ns: 1, wire_len, bytes: &bytes, dropped: 0 };
        let held = Held::of(link, &packet, true);
        assert_eq!((held.bytes.len(), held.wire_len), (14 + 60, 1514), "{link:?}");
        assert_eq!(headers::read(&held.bytes), held.headers.ok(), "what is kept is what was judged");
    }
}
