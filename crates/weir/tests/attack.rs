//! Captures of attacks, and configurations that find them.

use std::path::{Path, PathBuf};

use weir_packet::flow::Flow;
use weir_packet::frame::{Ends, Signature};
use weir_port::pcapng::{ETHERNET, Interface, Packet, write};
use weir_testkit::Folder;

/// When captures begin.
pub(crate) const BEGIN_NS: u64 = 1_000_000_000_000_000_000;
/// The victim of files, in a watched network.
const VICTIM: u32 = 0xc613_0009;

/// A configuration with a limit of `pps` and `more`.
pub(crate) fn limited(folder: &Folder, pps: u32, more: &str) -> PathBuf {
    let text = format!("networks = [\"198.19.0.0/16\"]\n[in]\npps = {pps}\n[events]\nend_s = 1\n{more}");
    folder.file("detect.toml", text)
}

/// A capture of `seconds` with `pps` to the victim between the first and the last second, and little before and after;
/// by so many queues, of which each brings what came within a second at once, as `weir capture` writes it.
pub(crate) fn capture_of(queues: u32, pps: u32, seconds: u32) -> Vec<u8> {
    let ends = Ends::v4([2; 6], [4; 6]);
    let flow = Flow { src: 0xc612_0001, dst: VICTIM, sport: 53, dport: 4000, group: 0 };
    let frame = ends.frame(&flow, 64, Signature::default());
    let mut file = Vec::new();
    write::section(&mut file, &write::Author::default());
    (0..queues).for_each(|_| {
        write::interface(&mut file, &Interface { link_type: ETHERNET, ..Interface::default() });
    });
    for second in 0..seconds {
        let rate = if (1..seconds - 3).contains(&second) { pps } else { 100 };
        let mut of_queues = vec![Vec::new(); queues as usize];
        for n in 0..rate {
            let at_ns =
                BEGIN_NS + u64::from(second) * 1_000_000_000 + u64::from(n) * 1_000_000_000 / u64::from(rate);
            let interface = n % queues;
            let packet = Packet { interface, at_ns, wire_len: 60, bytes: &frame, dropped: 0 };
            write::packet(&mut of_queues[interface as usize], &packet);
        }
        file.extend(of_queues.concat());
    }
    file
}

pub(crate) fn capture(pps: u32, seconds: u32) -> Vec<u8> {
    capture_of(1, pps, seconds)
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A capture in which each of so many hosts receives six frames in each of three slots, followed by a second without frames.
pub(crate) fn many_hosts(hosts: u32) -> Vec<u8> {
    let ends = Ends::v4([2; 6], [4; 6]);
    let mut file = Vec::new();
    write::section(&mut file, &write::Author::default());
    write::interface(&mut file, &Interface { link_type: ETHERNET, ..Interface::default() });
    let mut put = |host: u32, at_ns: u64| {
        let flow = Flow { src: 0xc612_0001, dst: 0xc613_0000 + host, sport: 53, dport: 4000, group: 0 };
        let frame = ends.frame(&flow, 64, Signature::default());
        write::packet(&mut file, &Packet { interface: 0, at_ns, wire_len: 60, bytes: &frame, dropped: 0 });
    };
    for slot in 0..3 {
        for n in 0..6 * hosts {
            put(n % hosts, BEGIN_NS + slot * 100_000_000 + u64::from(n) * 1000);
        }
    }
    put(0, BEGIN_NS + 1_500_000_000);
    file
}
