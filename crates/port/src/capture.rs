//! Capturing what arrives at an interface: the methods of a ladder, from one system call per frame to frames that the
//! driver puts straight into our memory.
//!
//! ```text
//!  wire > driver ----> XDP program: count; or redirect > [ring of chunks]  AF_XDP       (the stack sees nothing)
//!            \-> stack > socket's queue of buffers > copy                  recv, recvmmsg
//!                    \-> copy > [ring of blocks]                           ring, libpcap
//!                          \-> one of N sockets                            fanout, ring-fanout
//! ```
//! Each method opens one [`Queue`] or several, each for a separate thread. What they have in common:
//! - **the frame accounting balances.** All that the kernel received for a queue was taken, was dropped by name, or is waiting
//!   ([`Account`]); all counts are 64 bit wide, however narrow and forgetful the kernel's are.
//! - **Nothing arrives before all is set**: filter, ring and snap length stand before a socket hears of a frame.
//! - **VLAN tags are back in place**, where the kernel had taken them out.
//! - **Nothing outlives the process**: sockets and XDP links are descriptors, which the kernel closes after a crash.

pub(crate) mod attached;
mod count;
pub(crate) mod fanout;
pub(crate) mod filter;
mod interface;
mod libpcap;
mod recv;
mod recvmmsg;
mod ring;
pub(crate) mod tag;
pub(crate) mod tap;
mod wide;
mod xsk;

use std::fmt;
use std::io;
use std::str::FromStr;
use std::time::Duration;

use crate::bpf::BpfError;
pub(crate) use interface::Interface;

/// One captured frame; VLAN tags are back in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// What was kept of it: at most [`Options::snap`] bytes, without FCS.
    pub bytes: &'a [u8],
    /// Its whole length, tags included, without FCS.
    pub wire_len: u32,
    /// Arrival, ns since 1970.
    pub at: u64,
    /// Frames known to have been dropped between the previous frame of this queue and this one. Their sum is exact;
    /// the place is exact where the kernel says it with each frame, and to one filling of the ring where it does not.
    pub lost_before: u64,
}

/// One queue of one method; it belongs to one thread.
pub trait Queue: Send {
    /// Hands on what has arrived, and waits up to `wait` where nothing has. Returns how many frames; a method may hand
    /// on one at a time, so that the caller's own work per call should be small.
    ///
    /// # Errors
    /// [`CaptureError::Gone`], wrapped, when the interface is removed. While it is down nothing arrives.
    fn take(&mut self, wait: Duration, each: &mut dyn FnMut(&Frame<'_>)) -> io::Result<usize>;

    /// From now on nothing new comes in, while what is there can still be taken: the accounting can be completed. A ring
    /// hands on its last block within [`Options::retire`], so that a queue is empty when `take` has
    /// waited twice as long and returned 0.
    fn stop(&mut self) -> io::Result<()>;

    /// What became of all frames since the queue was opened.
    fn account(&mut self) -> io::Result<Account>;

    /// What the kernel granted.
    fn granted(&self) -> Granted;
}

/// Where the frames of a queue are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Account {
    /// Frames that the kernel had for this queue, after the filter; those that it dropped are among them.
    pub received: u64,
    /// Frames that were handed on.
    pub taken: u64,
    /// What was lost, by the name of the place.
    pub drops: Vec<Drops>,
    /// Times that a ring was full and stayed so for a while.
    pub freezes: u64,
    /// System calls to receive frames.
    pub calls: u64,
}

/// Frames lost at one place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drops {
    /// Which place, in plain words.
    pub name: &'static str,
    /// How many.
    pub frames: u64,
}

impl Account {
    /// Frames dropped, of any name.
    pub fn dropped(&self) -> u64 {
        self.drops.iter().map(|drops| drops.frames).sum()
    }

    /// Frames in the queue's buffer. While frames arrive this is a snapshot of counters that are not read at once.
    pub fn waiting(&self) -> u64 {
        self.received.saturating_sub(self.taken + self.dropped())
    }
}

/// What a queue has got from the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Granted {
    /// How frames come, such as "AF_XDP, copy mode".
    pub method: String,
    /// Memory of its buffer, bytes.
    pub memory: u64,
    /// Frames of [`Buffer::frame_bytes`] that fit into it.
    pub frames: u64,
}

/// How to capture.
#[derive(Debug, Clone)]
pub struct Options {
    /// Bytes kept of a frame.
    pub snap: u32,
    /// Buffer of all queues together.
    pub buffer: Buffer,
    /// Bytes of a ring's block: a power of two, of whole pages.
    pub block_bytes: u32,
    /// After this time a block is handed over although it is not full.
    pub retire: Duration,
    /// Sockets of a fan-out.
    pub sockets: u16,
    /// How frames are spread over them.
    pub fanout: Fanout,
    /// Runs in the kernel; frames that it refuses are never received. AF_XDP takes frames before that: there, this program
    /// runs it.
    pub filter: Option<Vec<libc::sock_filter>>,
    /// Take frames for other machines, too.
    pub promiscuous: bool,
    /// The reader itself has the driver receive, in place of interrupts; see [`Method::polls`].
    pub busy_poll: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            snap: 65_535,
            buffer: Buffer::default(),
            block_bytes: 1 << 20,
            retire: Duration::from_millis(10),
            sockets: 1,
            fanout: Fanout::Hash,
            filter: None,
            promiscuous: false,
            busy_poll: false,
        }
    }
}

/// How much each method may hold back while no frames are taken. Methods with the same buffer in bytes hold very
/// different numbers of frames, so that comparing them at equal memory compares their buffers. Time is the default.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Buffer {
    /// Time or memory.
    pub size: BufferSize,
    /// Captured bytes of the typical frame: what a time is in bytes, and bytes are in frames.
    pub frame_bytes: u32,
}

/// The size of a [`Buffer`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum BufferSize {
    /// What arrives in this time at this rate.
    Time {
        /// Frames per second.
        rate: f64,
        /// How long.
        time: Duration,
    },
    /// Bytes of memory.
    Memory(u64),
}

impl Default for Buffer {
    fn default() -> Self {
        let size = BufferSize::Time { rate: 1e6, time: Duration::from_millis(250) };
        Buffer { size, frame_bytes: 256 }
    }
}

impl Buffer {
    /// Frames that one of `queues` queues should hold, where a frame costs it `cost` bytes of memory; at least 1.
    pub(crate) fn frames_of_each(&self, queues: u64, cost: u64) -> u64 {
        let all = match self.size {
            BufferSize::Time { rate, time } => (rate * time.as_secs_f64()).ceil() as u64,
            BufferSize::Memory(bytes) => bytes / cost,
        };
        all.div_ceil(queues).max(1)
    }
}

/// How a fan-out spreads frames over its sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fanout {
    /// By the flow, both directions of it to the same socket.
    Hash,
    /// Alternately.
    Lb,
    /// By the CPU on which the frame arrives.
    Cpu,
    /// By the receive queue.
    Qm,
    /// By chance.
    Rnd,
    /// To the first, until it is full, then to the next.
    Rollover,
    /// By a program: here, the last byte of the IPv4 source address.
    Cbpf,
}

impl Fanout {
    /// All ways with their names, as they are written in plans and options.
    pub const ALL: [(Fanout, &str); 7] = [
        (Fanout::Hash, "hash"),
        (Fanout::Lb, "lb"),
        (Fanout::Cpu, "cpu"),
        (Fanout::Qm, "qm"),
        (Fanout::Rnd, "rnd"),
        (Fanout::Rollover, "rollover"),
        (Fanout::Cbpf, "cbpf"),
    ];
}

/// One way to capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Method {
    /// A system call per frame.
    Recv,
    /// A system call for many frames.
    RecvMmsg,
    /// The same with several sockets that share the frames.
    Fanout,
    /// libpcap, as most programs do it.
    Libpcap,
    /// A ring of blocks.
    Ring,
    /// The same with several rings that share the frames.
    RingFanout,
    /// AF_XDP sockets.
    Xdp,
    /// Counting in an XDP program, which captures nothing: the floor.
    Count,
}

impl Method {
    /// All, from the bottom up, with their names.
    pub const ALL: [(Method, &str); 8] = [
        (Method::Recv, "recv"),
        (Method::RecvMmsg, "recvmmsg"),
        (Method::Fanout, "fanout"),
        (Method::Libpcap, "libpcap"),
        (Method::Ring, "ring"),
        (Method::RingFanout, "ring-fanout"),
        (Method::Xdp, "xdp"),
        (Method::Count, "count"),
    ];

    /// All, from the bottom up.
    pub fn all() -> impl Iterator<Item = Method> {
        Method::ALL.iter().map(|(method, _)| *method)
    }

    /// Is it a fan-out, with as many queues as one asks for?
    pub fn fans_out(self) -> bool {
        matches!(self, Method::Fanout | Method::RingFanout)
    }

    /// Does it take frames away from the machine's own network stack, which then never sees them?
    pub fn steals(self) -> bool {
        matches!(self, Method::Xdp | Method::Count)
    }

    /// Can a reader have the driver receive? A packet socket cannot: it never learns of a queue of the driver's that it
    /// could poll, since it may get frames of all of them (net/packet/af_packet.c notes no NAPI).
    pub fn polls(self) -> bool {
        self == Method::Xdp
    }

    /// Does it hand frames on? What does not, only counts them.
    pub fn hands_on(self) -> bool {
        self != Method::Count
    }

    /// Opens its queues at an interface of the calling thread's network namespace. Frames are received from now on.
    pub fn open(self, interface: &str, options: &Options) -> Result<Vec<Box<dyn Queue>>, CaptureError> {
        let interface = Interface::named(interface)?;
        if options.busy_poll && !self.polls() {
            let text = format!(
                "only xdp can be polled busily, not {self}: take that method, or leave busy polling out"
            );
            return Err(CaptureError::Option(text));
        }
        match self {
            Method::Recv => recv::open(&interface, options),
            Method::RecvMmsg => recvmmsg::open(&interface, options),
            Method::Fanout => recvmmsg::open_fanout(&interface, options),
            Method::Libpcap => libpcap::open(&interface, options),
            Method::Ring => ring::open(&interface, options),
            Method::RingFanout => ring::open_fanout(&interface, options),
            Method::Xdp => xsk::open(&interface, options),
            Method::Count => count::open(&interface, options),
        }
    }
}

macro_rules! named {
    ($type:ty, $what:literal) => {
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let name = <$type>::ALL.iter().find(|(one, _)| one == self).expect("each has a name").1;
                f.pad(name)
            }
        }

        impl FromStr for $type {
            type Err = UnknownName;

            fn from_str(text: &str) -> Result<Self, UnknownName> {
                <$type>::ALL.iter().find(|(_, name)| *name == text).map(|(one, _)| *one).ok_or_else(|| {
                    UnknownName {
                        what: $what,
                        text: text.into(),
                        names: <$type>::ALL.iter().map(|(_, name)| *name).collect::<Vec<_>>().join(", "),
                    }
                })
            }
        }
    };
}
named!(Method, "method");
named!(Fanout, "fan-out");

/// A name that nothing has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no {what}; there are: {names}")]
pub struct UnknownName {
    what: &'static str,
    text: String,
    names: String,
}

/// Why nothing is captured.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// No such interface.
    #[error("there is no interface {0}; `ip link` lists them")]
    NoInterface(String),
    /// The interface was removed while frames were captured.
    #[error("interface {0} has vanished")]
    Gone(String),
    /// The kernel refused something.
    #[error("capturing at {interface}, {step}: {source}{}", hint(.source))]
    Refused {
        /// Which interface.
        interface: String,
        /// What was to be done.
        step: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
    /// An option has no sense.
    #[error("capturing: {0}")]
    Option(String),
    /// An XDP program.
    #[error(transparent)]
    Bpf(#[from] BpfError),
}

impl CaptureError {
    /// Whether a privilege is missing.
    pub fn is_forbidden(&self) -> bool {
        matches!(self, CaptureError::Refused { source, .. } if matches!(source.raw_os_error(), Some(libc::EPERM | libc::EACCES)))
    }
}

fn hint(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EPERM) => " (needs CAP_NET_RAW: run as root)",
        Some(libc::ENOMEM | libc::ENOBUFS) => " (ask for a smaller buffer)",
        Some(libc::ENXIO | libc::ENODEV) => " (the interface has vanished)",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for (method, name) in Method::ALL {
            assert_eq!((method.to_string().as_str(), name.parse()), (name, Ok(method)));
        }
        for (fanout, name) in Fanout::ALL {
            assert_eq!((fanout.to_string().as_str(), name.parse()), (name, Ok(fanout)));
        }
        let error = "rings".parse::<Fanout>().unwrap_err().to_string();
        assert_eq!(error, "`rings` is no fan-out; there are: hash, lb, cpu, qm, rnd, rollover, cbpf");
    }

    #[test]
    fn a_buffer_is_shared_by_the_queues() {
        let time = BufferSize::Time { rate: 1e6, time: Duration::from_millis(250) };
        let frames = |size, queues| Buffer { size, frame_bytes: 60 }.frames_of_each(queues, 144);
        assert_eq!((frames(time, 1), frames(time, 3)), (250_000, 83_334));
        assert_eq!((frames(BufferSize::Memory(14_400), 1), frames(BufferSize::Memory(14_400), 4)), (100, 25));
        assert_eq!(frames(BufferSize::Memory(10), 1), 1, "never nothing");
    }

    #[test]
    fn an_account_closes() {
        let drops = vec![Drops { name: "ring full", frames: 3 }, Drops { name: "too long", frames: 2 }];
        let account = Account { received: 20, taken: 8, drops, freezes: 0, calls: 9 };
        assert_eq!((account.dropped(), account.waiting()), (5, 7));
    }
}
