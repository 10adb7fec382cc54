//! The command line of each peer, and its input files.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::Command;

use crate::generators::plan::Peer;
use weir_lab::run::folder::Folder;

/// Frames in the capture that tcpreplay repeats.
const CAPTURE_FRAMES: usize = 1000;
/// What iperf3's smallest frame carries besides its data: Ethernet, IPv4, UDP and FCS.
const UDP_OVERHEAD: u16 = 14 + 20 + 8 + 4;

/// The files and the output of peers.
pub(super) struct Files(Folder);

impl Files {
    pub(super) fn new() -> io::Result<Files> {
        Folder::new(&std::env::temp_dir()).map(Files)
    }

    /// Writes what the peer reads: `frame` without FCS, as a trafgen configuration or as a capture.
    pub(super) fn prepare(&self, peer: Peer, frame: &[u8]) -> io::Result<()> {
        match peer {
            Peer::Trafgen => fs::write(self.input(), trafgen_config(frame)),
            Peer::Tcpreplay => fs::write(self.input(), capture(frame, CAPTURE_FRAMES)),
            Peer::Iperf3 | Peer::XdpTrafficgen => Ok(()),
        }
    }

    fn input(&self) -> PathBuf {
        self.0.path().join("input")
    }

    /// Lets a command write what it says to a file, so that no full pipe stops it.
    pub(super) fn collect(&self, command: &mut Command) -> io::Result<()> {
        let file = fs::File::create(self.output())?;
        command.stdin(std::process::Stdio::null()).stdout(file.try_clone()?).stderr(file);
        Ok(())
    }

    fn output(&self) -> PathBuf {
        self.0.path().join("output")
    }

    /// The last line that the command wrote, for people, and what is known to help.
    pub(super) fn last_words(&self) -> String {
        let bytes = fs::read(self.output()).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        last_line(&text) + remedy(&text)
    }
}

/// What helps a peer that said this and does not work.
fn remedy(said: &str) -> &'static str {
    match said.contains("xdp_redirect_map_err") || said.contains("probing kernel support: No such process") {
        // Commit 2398dd4 of xdp-tools.
        true => {
            " (xdp-tools before 1.5.6 look for tracepoints of XDP that newer kernels do not have: take 1.5.6 or newer, from \
             https://github.com/xdp-project/xdp-tools)"
        }
        false => "",
    }
}

fn last_line(text: &str) -> String {
    let line = text.lines().rev().map(str::trim).find(|line| !line.is_empty());
    line.map_or_else(|| "it printed nothing".into(), |line| line.chars().take(160).collect())
}

/// Where a peer sends.
pub(super) struct Target<'a> {
    /// Interface that it sends on.
    pub(super) device: &'a str,
    /// IP address of iperf3's server.
    pub(super) server: std::net::IpAddr,
    /// Frame size in bytes, FCS included.
    pub(super) frame_bytes: u16,
    /// A bound on how long it runs, in seconds, for those that can be limited.
    pub(super) most_s: u64,
}

/// A program in its own process namespace: killing it also kills all processes that it started. trafgen sends from a process
/// that it forks, which would go on without it.
fn bounded(program: &str) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--kill-child", "--", program]);
    command
}

/// The command line of a peer at full speed: it sends until it is killed.
pub(super) fn sender(peer: Peer, target: &Target<'_>, files: &Files) -> Command {
    let mut command = bounded(peer.name());
    let input = files.input();
    match peer {
        // -P 1: one process. No change of interrupts and sysctls of the machine (-A is refused, against its help).
        Peer::Trafgen => {
            command.args(["--dev", target.device, "-P", "1", "-Q", "--no-sock-mem", "--conf"]).arg(input);
        }
        // -K: the capture in memory; --loop=0: for ever.
        Peer::Tcpreplay => {
            command.args(["-i", target.device, "--topspeed", "-K", "-q", "--loop=0"]).arg(input);
        }
        Peer::Iperf3 => {
            let (seconds, data) = (target.most_s.to_string(), target.frame_bytes - UDP_OVERHEAD);
            command.args(["-c", &target.server.to_string(), "-u", "-b", "0", "-l", &data.to_string()]);
            command.args(["-t", &seconds, "-i", "0"]);
        }
        Peer::XdpTrafficgen => {
            command.args(["udp", target.device]);
        }
    }
    command
}

/// iperf3's other end.
pub(super) fn iperf3_server(address: std::net::IpAddr) -> Command {
    let mut command = bounded(Peer::Iperf3.name());
    command.args(["-s", "-1", "-B", &address.to_string()]);
    command
}

/// Why a peer cannot send such frames; `None`: it can.
pub(super) fn cannot(peer: Peer, frame_bytes: u16) -> Option<String> {
    match peer {
        // 16 bytes of its own header per datagram.
        Peer::Iperf3 if !(UDP_OVERHEAD + 16..=1518).contains(&frame_bytes) => {
            Some("it sends frames of 62 to 1518 bytes here".into())
        }
        Peer::XdpTrafficgen if frame_bytes != 64 => Some("it sends frames of 64 bytes only".into()),
        _ => None,
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

    fn line(peer: Peer) -> String {
        let files = Files::new().unwrap();
        let target = Target { device: "t0", server: [198, 18, 1, 1].into(), frame_bytes: 64, most_s: 7 };
        let line = format!("{:?}", sender(peer, &target, &files)).replace('"', "");
        line.replace(&files.0.path().display().to_string(), "/files")
    }

    #[test]
    fn what_is_known_to_help_is_said() {
        let said = "Error probing kernel support: No such process";
        assert_eq!(
            remedy(said),
            " (xdp-tools before 1.5.6 look for tracepoints of XDP that newer kernels do not have: take 1.5.6 or newer, \
             from https://github.com/xdp-project/xdp-tools)"
        );
        assert_eq!(remedy("out of memory"), "");
    }

    #[test]
    fn commands_say_all_that_matters() {
        for (peer, expected) in [
            (Peer::Trafgen, "trafgen --dev t0 -P 1 -Q --no-sock-mem --conf /files/input"),
            (Peer::Tcpreplay, "tcpreplay -i t0 --topspeed -K -q --loop=0 /files/input"),
            (Peer::Iperf3, "iperf3 -c 198.18.1.1 -u -b 0 -l 18 -t 7 -i 0"),
            (Peer::XdpTrafficgen, "xdp-trafficgen udp t0"),
        ] {
            assert_eq!(line(peer), format!("unshare --pid --fork --kill-child -- {expected}"));
        }
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
    fn the_last_line_is_the_reason() {
        assert_eq!(last_line("one\ntwo \n\n"), "two");
        assert_eq!(last_line(""), "it printed nothing");
    }

    #[test]
    fn sizes_that_a_peer_does_not_send() {
        assert_eq!(cannot(Peer::Iperf3, 64), None);
        assert!(cannot(Peer::Iperf3, 61).is_some() && cannot(Peer::Iperf3, 9018).is_some());
        assert!(cannot(Peer::XdpTrafficgen, 512).is_some());
        assert_eq!(cannot(Peer::Trafgen, 1518), None);
    }
}
