//! Frame generators of other projects: how each is called, and the file that it reads.

use std::fmt::Write as _;
use std::ops::RangeInclusive;
use std::path::Path;
use std::process::Command;

use crate::peers::contest::command;

/// Frames in the capture that tcpreplay repeats.
const CAPTURE_FRAMES: usize = 1000;
/// What iperf3's smallest frame carries besides its data: Ethernet, IPv4, UDP and FCS.
const UDP_OVERHEAD: u16 = 14 + 20 + 8 + 4;
/// A process namespace of its own: a signal that kills it kills all processes in it. trafgen sends from a process that it forks,
/// which would go on without it.
const BOUNDED: &str = "--pid --fork --kill-child -- {program} ";

/// A generator. Without limits it sends at full speed until it is killed.
#[derive(Debug)]
pub(super) struct Peer {
    /// Name in plans and records, and of its program.
    pub(super) name: &'static str,
    /// How it sends, for the record.
    pub(super) how: &'static str,
    /// Frame sizes that it sends, and how a note says so.
    sizes: (RangeInclusive<u16>, &'static str),
    /// The file that it reads, made from a frame without FCS.
    input: fn(&[u8]) -> Option<Vec<u8>>,
    arguments: &'static str,
    /// Arguments of its receiver at the other end of the wire, if it needs one.
    server: Option<&'static str>,
}

const TRAFGEN: Peer = Peer {
    name: "trafgen",
    how: "one prepared frame, one process, AF_PACKET ring without queueing discipline",
    sizes: (0..=u16::MAX, ""),
    input: |frame| Some(trafgen_config(frame).into_bytes()),
    // -P 1: one process. No change of interrupts and sysctls of the machine (-A is refused, against its help).
    arguments: "--dev {device} -P 1 -Q --no-sock-mem --conf {input}",
    server: None,
};

const TCPREPLAY: Peer = Peer {
    name: "tcpreplay",
    how: "a capture of one frame, 1000 times, kept in memory, top speed",
    sizes: (0..=u16::MAX, ""),
    input: |frame| Some(capture(frame, CAPTURE_FRAMES)),
    // -K: the capture in memory; --loop=0: without end.
    arguments: "-i {device} --topspeed -K -q --loop=0 {input}",
    server: None,
};

const IPERF3: Peer = Peer {
    name: "iperf3",
    how: "UDP sockets, against its own server, which has another CPU; frames counted at the interface",
    // It has a header of 16 bytes in each datagram.
    sizes: (UDP_OVERHEAD + 16..=1518, "it sends frames of 62 to 1518 bytes here"),
    input: |_| None,
    arguments: "-c {server} -u -b 0 -l {data} -t {seconds} -i 0",
    server: Some("-s -1 -B {server}"),
};

const XDP_TRAFFICGEN: Peer = Peer {
    name: "xdp-trafficgen",
    how: "live frames from an XDP program, one prepared IPv6 frame",
    sizes: (64..=64, "it sends frames of 64 bytes only"),
    input: |_| None,
    arguments: "udp {device}",
    server: None,
};

/// All of them.
pub(super) const PEERS: [&Peer; 4] = [&TRAFGEN, &TCPREPLAY, &IPERF3, &XDP_TRAFFICGEN];

impl PartialEq for Peer {
    fn eq(&self, other: &Peer) -> bool {
        self.name == other.name
    }
}

/// Where a peer sends.
pub(super) struct Target<'a> {
    /// Interface that it sends on.
    pub(super) device: &'a str,
    /// IP address of its receiver.
    pub(super) server: std::net::IpAddr,
    /// Frame size in bytes, FCS included.
    pub(super) frame_bytes: u16,
    /// A limit of its run time in seconds, for a peer that takes one.
    pub(super) most_s: u64,
    /// The file that it reads.
    pub(super) input: &'a Path,
}

impl Peer {
    /// Why it cannot send such frames; `None`: it can.
    pub(super) fn cannot(&self, frame_bytes: u16) -> Option<String> {
        let (sizes, why) = &self.sizes;
        (!sizes.contains(&frame_bytes)).then(|| why.to_string())
    }

    /// Writes the file that it reads.
    pub(super) fn prepare(&self, frame: &[u8], file: &Path) -> std::io::Result<()> {
        (self.input)(frame).map_or(Ok(()), |bytes| std::fs::write(file, bytes))
    }

    /// Does it need a receiver of its own?
    pub(super) fn has_server(&self) -> bool {
        self.server.is_some()
    }

    /// The command line of its receiver.
    pub(super) fn server(&self, target: &Target<'_>) -> Option<Command> {
        self.server.map(|arguments| self.bounded(arguments, target))
    }

    /// Its command line.
    pub(super) fn sender(&self, target: &Target<'_>) -> Command {
        self.bounded(self.arguments, target)
    }

    fn bounded(&self, arguments: &str, target: &Target<'_>) -> Command {
        let values = [
            ("{program}", self.name),
            ("{device}", target.device),
            ("{server}", &target.server.to_string()),
            ("{data}", &target.frame_bytes.saturating_sub(UDP_OVERHEAD).to_string()),
            ("{seconds}", &target.most_s.to_string()),
            ("{input}", &target.input.to_string_lossy()),
        ];
        command("unshare", &format!("{BOUNDED}{arguments}"), &values)
    }
}

/// What helps a peer that said this and does not work.
pub(super) fn remedy(said: &str) -> &'static str {
    match said.contains("xdp_redirect_map_err") || said.contains("probing kernel support: No such process") {
        // Commit 2398dd4 of xdp-tools.
        true => {
            " (xdp-tools before 1.5.6 look for tracepoints of XDP that newer kernels do not have: take 1.5.6 or newer, from \
             https://github.com/xdp-project/xdp-tools)"
        }
        false => "",
    }
}

/// The frame as a packet of trafgen(8): bytes only, so that nothing is computed while it sends.
fn trafgen_config(frame: &[u8]) -> String {
    let mut text = String::from("{\n");
    for line in frame.chunks(16) {
        for byte in line {
            // Writing to a string does not fail.
            let _ = write!(text, " 0x{byte:02x},");
        }
        text.push('\n');
    }
    text + "}\n"
}

/// A capture of `count` times this frame, 1 us apart (pcap, microseconds, Ethernet).
fn capture(frame: &[u8], count: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(24 + count * (16 + frame.len()));
    let words = |bytes: &mut Vec<u8>, words: &[u32]| {
        words.iter().for_each(|word| bytes.extend(word.to_le_bytes()));
    };
    // Magic, version 2.4, time zone, accuracy, snap length, link type.
    words(&mut bytes, &[0xa1b2_c3d4, 2 | 4 << 16, 0, 0, 65_535, 1]);
    for n in 0..count as u32 {
        words(&mut bytes, &[n / 1_000_000, n % 1_000_000, frame.len() as u32, frame.len() as u32]);
        bytes.extend_from_slice(frame);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_remedy_is_named() {
        let said = "Error probing kernel support: No such process";
        assert_eq!(
            remedy(said),
            " (xdp-tools before 1.5.6 look for tracepoints of XDP that newer kernels do not have: take 1.5.6 or newer, \
             from https://github.com/xdp-project/xdp-tools)"
        );
        assert_eq!(remedy("out of memory"), "");
    }

    #[test]
    fn command_lines_are_complete() {
        let input = Path::new("/files/input");
        let target =
            Target { device: "t0", server: [198, 18, 1, 1].into(), frame_bytes: 64, most_s: 7, input };
        let line = |command: Command| format!("{command:?}").replace('"', "");
        for (peer, expected) in [
            (&TRAFGEN, "trafgen --dev t0 -P 1 -Q --no-sock-mem --conf /files/input"),
            (&TCPREPLAY, "tcpreplay -i t0 --topspeed -K -q --loop=0 /files/input"),
            (&IPERF3, "iperf3 -c 198.18.1.1 -u -b 0 -l 18 -t 7 -i 0"),
            (&XDP_TRAFFICGEN, "xdp-trafficgen udp t0"),
        ] {
            let expected = format!("unshare --pid --fork --kill-child -- {expected}");
            assert_eq!(line(peer.sender(&target)), expected);
        }
        let server = IPERF3.server(&target).map(line);
        let expected = "unshare --pid --fork --kill-child -- iperf3 -s -1 -B 198.18.1.1";
        assert_eq!(server.as_deref(), Some(expected));
    }

    #[test]
    fn files_hold_the_frame() {
        assert_eq!(trafgen_config(&[2, 0xff]), "{\n 0x02, 0xff,\n}\n");
        let bytes = capture(&[7; 60], 3);
        assert_eq!(bytes.len(), 24 + 3 * 76);
        assert_eq!(bytes[..4], [0xd4, 0xc3, 0xb2, 0xa1]);
        assert_eq!(bytes[24 + 76..][..8], [0, 0, 0, 0, 1, 0, 0, 0], "the second frame, after 1 us");
    }

    #[test]
    fn sizes_that_a_peer_does_not_send() {
        assert_eq!(IPERF3.cannot(64), None);
        assert!(IPERF3.cannot(61).is_some() && IPERF3.cannot(9018).is_some());
        assert!(XDP_TRAFFICGEN.cannot(512).is_some());
        assert_eq!(TRAFGEN.cannot(1518), None);
    }
}
