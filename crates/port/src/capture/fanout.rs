//! A fan-out: several packet sockets of one interface, of which each frame reaches one.
//!
//! A socket hears every frame from when it is bound until it has joined the group. So all of them refuse every frame
//! until the last one has joined.

use std::sync::atomic::{AtomicU16, Ordering};

use super::tap::{Tap, instruction};
use super::{CaptureError, Fanout, Options, Queue};
use crate::packet::set;

/// Most sockets of a group, without the newer call that takes more.
const MOST: u16 = 256;
/// Where a filter finds the last byte of an IPv4 source address; SKF_NET_OFF of linux/filter.h is the IP header.
const SOURCE_BYTE: i32 = -0x10_0000 + 15;

/// Opens as many sockets as `options` wants and puts them into a group. `open` makes one of so many; `tap` is its
/// socket.
pub(super) fn open<Q: Queue + 'static>(
    options: &Options,
    open: impl Fn(u64) -> Result<Q, CaptureError>,
    tap: impl Fn(&Q) -> &Tap,
) -> Result<Vec<Box<dyn Queue>>, CaptureError> {
    let sockets = options.sockets;
    if !(1..=MOST).contains(&sockets) {
        return Err(CaptureError::Option(format!("a fan-out has 1 to {MOST} sockets, not {sockets}")));
    }
    let group = Group::new(options.fanout);
    let join = |_| {
        let queue = open(sockets.into())?;
        tap(&queue).bind()?;
        group.join(tap(&queue))?;
        Ok(queue)
    };
    let queues = (0..sockets).map(join).collect::<Result<Vec<_>, CaptureError>>()?;
    queues.iter().try_for_each(|queue| tap(queue).admit())?;
    Ok(queues.into_iter().map(|queue| Box::new(queue) as Box<dyn Queue>).collect())
}

/// A group in the making.
pub(crate) struct Group {
    number: u16,
    mode: Fanout,
    /// Of [`Fanout::Cbpf`].
    program: Vec<libc::sock_filter>,
}

impl Group {
    pub(crate) fn new(mode: Fanout) -> Group {
        // Numbers are of a network namespace, and other programs take the number of their process.
        static NEXT: AtomicU16 = AtomicU16::new(0);
        let number = (std::process::id() as u16).wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        let program = vec![
            instruction(libc::BPF_LD | libc::BPF_B | libc::BPF_ABS, SOURCE_BYTE as u32),
            instruction(libc::BPF_RET | libc::BPF_A, 0),
        ];
        Group { number, mode, program }
    }

    /// One in which this program returns the number of a frame's socket.
    pub(crate) fn by(program: Vec<libc::sock_filter>) -> Group {
        Group { program, ..Group::new(Fanout::Cbpf) }
    }

    /// Makes a socket that is bound to the interface a member.
    pub(crate) fn join(&self, tap: &Tap) -> Result<(), CaptureError> {
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
        let refused = tap.interface.refused("joining the fan-out (is the interface up?)");
        set(&tap.fd, libc::PACKET_FANOUT, &arguments).map_err(refused)?;
        if self.mode == Fanout::Cbpf {
            let (len, filter) = (self.program.len() as u16, self.program.as_ptr().cast_mut());
            let program = libc::sock_fprog { len, filter };
            let refused = tap.interface.refused("giving the fan-out its program");
            set(&tap.fd, libc::PACKET_FANOUT_DATA, &program).map_err(refused)?;
        }
        Ok(())
    }
}
