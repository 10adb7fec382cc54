use std::process::Command;

use weir_testkit::{Dice, Folder};

use super::*;
use crate::pcapng::{ETHERNET, write};

/// What a file holds, in words.
fn reported(file: &[u8]) -> Result<Vec<String>, ReadError> {
    let mut reader = Reader::open(file)?;
    let mut reported = Vec::new();
    while let Some(item) = reader.next_item()? {
        reported.push(match item {
            // Those of the current section are below.
            Item::Section | Item::Interface(_) => continue,
            Item::Untimed(packet) => format!("untimed: {} of {} bytes", packet.bytes.len(), packet.wire_len),
            Item::Packet(Packet { interface, at_ns, wire_len, bytes, dropped }) => {
                let first = bytes.first().copied().unwrap_or_default();
                format!(
                    "{interface} at {at_ns}: {} of {wire_len} bytes, {first:02x}.., lost {dropped}",
                    bytes.len()
                )
            }
            Item::Statistics(s) => {
                format!("{} at {}: {:?} of {:?}", s.interface, s.at_ns, s.delivered, s.received)
            }
        });
    }
    reported.insert(
        0,
        reader.interfaces().iter().map(|i| format!("{}/{}", i.name, i.filter)).collect::<Vec<_>>().join(" "),
    );
    Ok(reported)
}

const AT: u64 = 1_700_000_000_123_456_789;

fn interface(name: &str, filter: &str) -> Interface {
    let (description, system) = (format!("queue of {name}"), "Linux".to_string());
    let (name, filter) = (name.to_string(), filter.to_string());
    Interface {
        name,
        description,
        filter,
        system,
        snap: 96,
        link_type: ETHERNET,
        bits_per_s: Some(10_000_000_000),
    }
}

/// Two interfaces, three packets of 60, 61 and 96 of 1514 bytes, a gap, statistics.
fn sample() -> Vec<u8> {
    let mut file = Vec::new();
    let author = write::Author { hardware: "test", system: "Linux", application: "weir" };
    write::section(&mut file, &author);
    write::interface(&mut file, &interface("eth0", "udp port 53"));
    write::interface(&mut file, &interface("eth1", ""));
    let mut packet = |interface, after, bytes: &[u8], wire_len, dropped| {
        let (before, most) = (file.len(), write::packet_bytes(bytes.len()));
        write::packet(&mut file, &Packet { interface, at_ns: AT + after, wire_len, bytes, dropped });
        assert!(file.len() - before <= most, "{} > {most}", file.len() - before);
    };
    packet(0, 0, &[0x45; 60], 60, 0);
    packet(1, 1, &[0x61; 61], 61, 0);
    packet(0, 1_000_000_000, &[0x45; 96], 1514, 7);
    let (received, delivered) = (Some(9), Some(2));
    let statistics =
        Statistics { interface: 0, at_ns: AT, start_ns: Some(AT), received, delivered, ..Default::default() };
    write::statistics(&mut file, &statistics);
    file
}

/// What [`sample`] holds, with times in steps of `resolution_ns`.
fn sample_reported(interfaces: &str, resolution_ns: u64) -> Vec<String> {
    let at = |after: u64| (AT + after) / resolution_ns * resolution_ns;
    vec![
        interfaces.into(),
        format!("0 at {}: 60 of 60 bytes, 45.., lost 0", at(0)),
        format!("1 at {}: 61 of 61 bytes, 61.., lost 0", at(1)),
        format!("0 at {}: 96 of 1514 bytes, 45.., lost 7", at(1_000_000_000)),
        format!("0 at {}: Some(2) of Some(9)", at(0)),
    ]
}

#[test]
fn what_is_written_is_read() {
    let file = sample();
    assert_eq!(reported(&file).unwrap(), sample_reported("eth0/udp port 53 eth1/", 1));
    let mut reader = Reader::open(file.as_slice()).unwrap();
    while reader.next_item().unwrap().is_some() {}
    assert_eq!(reader.interfaces(), [interface("eth0", "udp port 53"), interface("eth1", "")]);
    // A second section has interfaces of its own.
    let twice = [file.clone(), file].concat();
    assert_eq!(reported(&twice).unwrap().len(), 9);
}

/// A block of big-endian words.
fn big(kind: u32, body: &[u32]) -> Vec<u8> {
    let length = 12 + 4 * body.len() as u32;
    let words = [&[kind, length], body, &[length]].concat();
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

#[test]
fn the_other_byte_order_and_all_clocks_are_read() {
    let section = big(SECTION, &[BYTE_ORDER, 1 << 16, u32::MAX, u32::MAX]);
    // Option 9, one byte; option 14, 8 bytes.
    let interface = |resolution: u8, offset: u32| {
        let options = [9 << 16 | 1, u32::from(resolution) << 24, 14 << 16 | 8, 0, offset, 0];
        big(INTERFACE, &[[1 << 16, 0].as_slice(), &options].concat())
    };
    let packet = |ticks: u32| big(PACKET, &[0, 1, ticks, 2, 2, 0xabcd_0000]);
    for (resolution, offset, ns) in [
        (9, 0, (1 << 32) + 5),
        (6, 0, ((1 << 32) + 5) * 1000),
        (0, 0, ((1_u64 << 32) + 5) * 1_000_000_000),
        (12, 0, ((1 << 32) + 5) / 1000),
        (127, 3, 3_000_000_000),
        (0x80 | 32, 0, 1_000_000_001),
        (0xff, 0, 0),
        (9, 2, 2_000_000_000 + (1 << 32) + 5),
    ] {
        let file = [section.clone(), interface(resolution, offset), packet(5)].concat();
        let expected = format!("0 at {ns}: 2 of 2 bytes, ab.., lost 0");
        assert_eq!(reported(&file).unwrap()[1], expected, "resolution {resolution:#x}, offset {offset}");
    }
}

#[test]
fn older_and_unknown_blocks_do_no_harm() {
    let section = big(SECTION, &[BYTE_ORDER, 1 << 16, 0, 0]);
    let interface = big(INTERFACE, &[1 << 16, 3]);
    let names = big(4, &[0, 0]);
    let simple = big(SIMPLE_PACKET, &[100, 0xaabb_cc00]);
    // Interface and losses share a word.
    let obsolete = |lost: u32| big(OBSOLETE_PACKET, &[lost, 0, 7, 2, 60, 0xabcd_0000]);
    let file = [section, interface, names, simple, obsolete(9), obsolete(0xffff)].concat();
    assert_eq!(
        reported(&file).unwrap(),
        [
            "/",
            "untimed: 3 of 100 bytes",
            "0 at 7000: 2 of 60 bytes, ab.., lost 9",
            "0 at 7000: 2 of 60 bytes, ab.., lost 0"
        ]
    );
}

#[test]
fn interfaces_are_reported_before_their_packets_and_anew_in_each_section() {
    let kinds = |file: &[u8]| {
        let mut reader = Reader::open(file).unwrap();
        let mut kinds = String::new();
        while let Some(item) = reader.next_item().unwrap() {
            kinds.push(match item {
                Item::Section => 'S',
                Item::Interface(_) => 'i',
                Item::Packet(_) => 'p',
                Item::Untimed(_) => 'u',
                Item::Statistics(_) => 's',
            });
        }
        kinds
    };
    assert_eq!(kinds(&[sample(), sample()].concat()), "iipppsSiippps");
    let mut old = Vec::new();
    crate::pcap::header(&mut old, 96, ETHERNET);
    crate::pcap::packet(&mut old, 5, 60, &[7; 60]);
    assert_eq!(kinds(&old), "ip");
}

#[test]
fn old_files_are_read_in_both_byte_orders() {
    for (magic, fraction_ns) in [(0xa1b2_c3d4_u32, 1000), (0xa1b2_3c4d, 1)] {
        let words = [magic, 2 << 16 | 4, 0, 0, 65535, 1, 10, 7, 3, 60];
        // Versions are two u16, which swap within the word.
        let order = |big: bool| {
            let mut file: Vec<u8> =
                words.iter().flat_map(|w| if big { w.to_be_bytes() } else { w.to_le_bytes() }).collect();
            if !big {
                file[4..8].copy_from_slice(&[2, 0, 4, 0]);
            }
            [file, vec![0xee; 3]].concat()
        };
        let expected = format!("0 at {}: 3 of 60 bytes, ee.., lost 0", 10_000_000_000_u64 + 7 * fraction_ns);
        for big in [false, true] {
            assert_eq!(reported(&order(big)).unwrap(), ["/", &expected], "{magic:x} {big}");
        }
    }
}

#[test]
fn errors_say_where_and_what() {
    let good = sample();
    let find = |kind: u32| good.windows(4).position(|w| w == kind.to_le_bytes()).expect("is there");
    let packet = find(PACKET);
    let changed = |at: usize, word: u32| {
        let mut file = good.clone();
        file[at..at + 4].copy_from_slice(&word.to_le_bytes());
        file
    };
    let block = format!("at byte {packet}: ");
    for (file, message) in [
        (b"GIF89a..".to_vec(), "at byte 0: neither pcapng nor pcap: it begins with [47, 49, 46, 38]".into()),
        (b"GI".to_vec(), "at byte 0: the file ends in the middle of its first bytes".into()),
        (good[..packet + 40].to_vec(), format!("{block}the file ends in the middle of a block")),
        (changed(packet + 4, 13), format!("{block}a block of 13 bytes; it should have 12 to 16777216")),
        (changed(packet + 4, u32::MAX - 3), format!("{block}a block of 4294967292 bytes")),
        (changed(packet + 4, 88), format!("{block}a block of 88 bytes that ends as one of")),
        (changed(packet + 8, 9), format!("{block}interface 9 is not described before; 2 are")),
        (changed(packet + 20, 61 + 4), format!("{block}a packet of 65 bytes in a block with 60")),
        (changed(8, 7), "at byte 0: a section's byte order is [07, 00, 00, 00], which is none".into()),
        (changed(12, 2), "at byte 0: version 2 of pcapng".into()),
    ] {
        let error = reported(&file).expect_err(&message).to_string();
        assert!(error.starts_with(&message), "{error}\nexpected: {message}");
    }
}

#[test]
fn no_input_panics() {
    let big_file = [
        big(SECTION, &[BYTE_ORDER, 1 << 16, 0, 0]),
        big(INTERFACE, &[1 << 16, 0]),
        big(PACKET, &[0, 1, 5, 2, 2, 7]),
    ];
    let seeds = [sample(), big_file.concat()];
    let mut dice = Dice::new(1);
    let (mut read, mut refused) = (0, 0);
    for round in 0..60_000 {
        let mut file = seeds[round % 2].clone();
        for _ in 0..=dice.roll(4) {
            let at = dice.roll(file.len());
            match dice.roll(5) {
                0 => file[at] = dice.roll(256) as u8,
                1 => file[at] ^= 1 << dice.roll(8_u32),
                2 => file.truncate(at.max(1)),
                3 => {
                    file.splice(at..at, [0, 0xff, 0x7f, 0x80][..dice.roll(5)].iter().copied()).for_each(drop)
                }
                _ => {
                    let word = [0, 1, 4, 12, 0x7fff_ffff, u32::MAX, 1 << 20][dice.roll(7)].to_le_bytes();
                    let at = at & !3;
                    let end = file.len().min(at + 4);
                    file[at..end].copy_from_slice(&word[..end - at]);
                }
            }
        }
        match reported(&file) {
            Ok(_) => read += 1,
            Err(error) => {
                assert!(error.offset <= file.len() as u64, "{error}");
                refused += 1;
            }
        }
    }
    assert!(read > 1000 && refused > 1000, "both happen: {read} read, {refused} refused");
}

/// What a program prints; `None`, aloud, if there is none of this name.
fn run(program: &str, words: &[&str]) -> Option<String> {
    match Command::new(program).args(words).output() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            println!("skipped: no {program} here");
            None
        }
        output => {
            let output = output.unwrap();
            let words = String::from_utf8_lossy(&output.stdout).to_string();
            assert!(
                output.status.success(),
                "{program}: {words} {}",
                String::from_utf8_lossy(&output.stderr)
            );
            let complaint = String::from_utf8_lossy(&output.stderr).to_lowercase();
            assert!(!complaint.contains("error") && !complaint.contains("damaged"), "{program}: {complaint}");
            Some(words)
        }
    }
}

#[test]
fn others_read_what_is_written() {
    let folder = Folder::new();
    let ours = folder.file("ours.pcapng", sample());
    let name = ours.to_str().unwrap();
    if let Some(text) = run("capinfos", &["-M", name]) {
        for line in [
            "Number of packets:   3",
            "Number of interfaces in file: 2",
            "eth0",
            "Filter string = udp port 53",
            "Time precision = nanoseconds (9)",
            "Number of stat entries = 1",
            "Capture oper-sys:    Linux",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
    }
    if let Some(text) = run("tcpdump", &["-r", name, "-n", "-q", "-tt", "--time-stamp-precision=nano"]) {
        assert_eq!(text.lines().count(), 3, "{text}");
        assert!(text.starts_with("1700000000.123456789 "), "{text}");
    }
}

#[test]
fn what_others_write_is_read() {
    let folder = Folder::new();
    let (ours, theirs) = (folder.file("source.pcapng", sample()), folder.join("theirs"));
    let (from, to) = (ours.to_str().unwrap(), theirs.to_str().unwrap());
    // A pcap knows neither gaps nor interfaces nor statistics.
    let plain = |resolution_ns: u64| -> Vec<String> {
        let reported = sample_reported("/", resolution_ns);
        reported[..4].iter().map(|line| line.replace("1 at", "0 at").replace("lost 7", "lost 0")).collect()
    };
    for (precision, resolution_ns) in [("micro", 1000), ("nano", 1)] {
        let precision = format!("--time-stamp-precision={precision}");
        if run("tcpdump", &["-r", from, "-w", to, &precision]).is_some() {
            assert_eq!(
                reported(&std::fs::read(&theirs).unwrap()).unwrap(),
                plain(resolution_ns),
                "tcpdump {precision}"
            );
        }
    }
    for (format, resolution_ns) in [("pcap", 1000), ("nsecpcap", 1), ("pcapng", 1)] {
        if run("editcap", &["-F", format, from, to]).is_some() {
            let found = reported(&std::fs::read(&theirs).unwrap()).unwrap();
            if format == "pcapng" {
                assert_eq!(found[..4], sample_reported("eth0/udp port 53 eth1/", 1)[..4], "editcap {format}");
            } else {
                assert_eq!(found, plain(resolution_ns), "editcap {format}");
            }
        }
    }
}
