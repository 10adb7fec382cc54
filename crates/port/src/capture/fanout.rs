//! A fan-out: several packet sockets of one interface, of which each frame reaches one.
//!
//! A socket hears every frame from when it is bound until it has joined the group. So the group starts with a
//! barrier: when all have joined, what came before is forgotten, and the books begin.

use std::sync::atomic::{AtomicU16, Ordering};

use super::tap::{Tap, instruction};
use super::{CaptureError, Fanout, Options};
use crate::packet::set;

/// Most sockets of a group, without the newer call that takes more.
const MOST: u16 = 256;
/// Where a filter finds the last byte of an IPv4 source address; SKF_NET_OFF of linux/filter.h is the IP header.
const SOURCE_BYTE: i32 = -0x10_0000 + 15;

/// A group in the making.
pub(super) struct Group {
    number: u16,
    mode: Fanout,
    pub(super) sockets: u16,
}

impl Group {
    pub(super) fn new(options: &Options) -> Result<Group, CaptureError> {
        if !(1..=MOST).contains(&options.sockets) {
            let text = format!("a fan-out has 1 to {MOST} sockets, not {}", options.sockets);
            return Err(CaptureError::Option(text));
        }
        // Numbers are of a network namespace, and other programs take the number of their process.
        static NEXT: AtomicU16 = AtomicU16::new(0);
        let number = (std::process::id() as u16).wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        Ok(Group { number, mode: options.fanout, sockets: options.sockets })
    }

    /// Makes a socket that is bound to the interface a member.
    pub(super) fn join(&self, tap: &Tap) -> Result<(), CaptureError> {
        let mode = match self.mode {
            Fanout::Hash => libc::PACKET_FANOUT_HASH,
            Fanout::Lb => libc::PACKET_FANOUT_LB,
            Fanout::Cpu => libc::PACKET_FANOUT_CPU,
            Fanout::Qm => libc::PACKET_FANOUT_QM,
            Fanout::Rnd => libc::PACKET_FANOUT_RND,
            Fanout::Rollover => libc::PACKET_FANOUT_ROLLOVER,
            Fanout::Cbpf => libc::PACKET_FANOUT_CBPF,
        };
        // The members agree on leaving out the interface's own frames, in the group's flags as in their own.
        let flags = libc::PACKET_FANOUT_FLAG_IGNORE_OUTGOING;
        let arguments = u32::from(self.number) | mode << 16 | flags << 16;
        let refused = tap.interface.refused("joining the fan-out");
        set(&tap.fd, libc::PACKET_FANOUT, &arguments).map_err(refused)?;
        if self.mode == Fanout::Cbpf {
            let program = [
                instruction(libc::BPF_LD | libc::BPF_B | libc::BPF_ABS, SOURCE_BYTE as u32),
                instruction(libc::BPF_RET | libc::BPF_A, 0),
            ];
            let program = libc::sock_fprog { len: 2, filter: program.as_ptr().cast_mut() };
            let refused = tap.interface.refused("giving the fan-out its program");
            set(&tap.fd, libc::PACKET_FANOUT_DATA, &program).map_err(refused)?;
        }
        Ok(())
    }
}
