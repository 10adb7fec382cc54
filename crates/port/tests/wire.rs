//! A wire between two namespaces, and numbered frames to send through it.

use weir_linux::ethtool::{Offload, set_offload};
use weir_linux::namespace::Namespace;
use weir_linux::rtnl::Rtnl;
use weir_packet::flow::Flow;
use weir_packet::frame::{Ends, Mac, Parsed, Signature, parse};
use weir_port::packet::{BATCH, Sender};
use weir_testkit::wires::{self as kit, join, keep_quiet, set_up};

/// Where frames are captured.
pub(crate) const LISTENER: &str = "listener";
/// Where they are sent.
pub(crate) const SENDER: &str = "sender";
const MACS: [Mac; 2] = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]];
/// Flows of the frames, so that a fan-out by flows reaches every socket.
const FLOWS: u32 = 64;

pub(crate) struct Wire {
    pub(crate) sender: Namespace,
    pub(crate) tool: Namespace,
}

impl Wire {
    /// A wire with both ends up; it carries nothing but what we send.
    pub(crate) fn new() -> Wire {
        let wire = Wire { sender: Namespace::new().unwrap(), tool: Namespace::new().unwrap() };
        let ends = [(&wire.sender, SENDER), (&wire.tool, LISTENER)];
        join(ends, kit::Wire { number: 0, queues: 1 });
        for end in ends {
            keep_quiet(end);
            set_up(end, true);
            // With its NAPI, so that frames that find no room are counted by the sender.
            end.0.run(|| set_offload(end.1, Offload::Gro, true)).unwrap();
        }
        wire
    }

    /// Sends frames; returns how many of them the wire itself lost.
    pub(crate) fn send(&self, frames: &[Vec<u8>]) -> u64 {
        self.sender.run(|| {
            // Frames from two CPUs arrive in two queues, and are dated in them.
            // SAFETY: no arguments, cannot fail.
            let cpu = unsafe { libc::sched_getcpu() };
            weir_port::thread::pin_to(cpu as usize).unwrap();
            let mut rtnl = Rtnl::open().unwrap();
            let before = rtnl.link(SENDER).unwrap();
            let sender = Sender::open(before.ifindex).unwrap();
            let mut left = frames;
            while !left.is_empty() {
                left = &left[sender.send(&left[..left.len().min(BATCH)]).unwrap()..];
            }
            rtnl.link(SENDER).unwrap().stats.tx_dropped - before.stats.tx_dropped
        })
    }

    /// Removes the wire while the namespace in which frames are captured stays.
    pub(crate) fn cut(self) -> Namespace {
        drop(self.sender);
        self.tool
    }
}

/// Frames number 0 to `n` of many sizes and flows.
pub(crate) fn frames(n: u32) -> Vec<Vec<u8>> {
    let ends = Ends::v4(MACS[0], MACS[1]);
    let frame = |seq: u32| {
        let flow = Flow {
            src: 0xc612_0000 + seq % FLOWS,
            dst: 0xc613_0001,
            sport: 10_000 + (seq % FLOWS) as u16,
            dport: 9 + (seq % 2) as u16,
            group: 0,
        };
        let size = [64, 65, 128, 511, 1518][seq as usize % 5];
        ends.frame(&flow, size, Signature { seq, ..Signature::default() })
    };
    (0..n).map(frame).collect()
}

/// The number of a captured frame.
pub(crate) fn number_of(frame: &[u8]) -> u32 {
    let Parsed::Test(signature) = parse(frame) else { panic!("no test frame: {frame:02x?}") };
    signature.seq
}
