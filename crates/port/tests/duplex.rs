//! What every port of a node promises.

mod offloads;
mod order;

use std::fs::File as Bytes;
use std::io::BufReader;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

use weir_linux::ethtool::{Offload, set_offload};
use weir_linux::namespace::Namespace;
use weir_linux::rtnl::Rtnl;
use weir_packet::headers::UDP;
use weir_port::duplex::{
    BATCH, Chunk, FRONT, File, Memory, MemoryEnd, Packet, Pool, Port, ReceiveMode, Tap, Xdp, takes_redirected,
};
use weir_port::packet::{Receiver, Sender};
use weir_port::pcapng::read::{Item, Reader};
use weir_port::pcapng::{ETHERNET, Interface, write};
use weir_testkit::{PATIENCE, is_root, need_root};

use crate::wire::{LISTENER, SENDER, Wire, frames};

/// Chunks of a port under test: more than it has with the kernel.
const CHUNKS: u32 = 8192;
const TAP: &str = "tap9";
/// When nothing has arrived for so long, nothing will.
const QUIET: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Memory,
    Packet,
    Xdp,
    Tap,
    File,
}

const KINDS: [Kind; 5] = [Kind::Memory, Kind::Packet, Kind::Xdp, Kind::Tap, Kind::File];

/// What is at the other end of the port.
enum Far {
    Memory(MemoryEnd),
    Wire(Namespace, u32, Receiver),
    Files(PathBuf),
}

/// A port and all around it.
struct Rig {
    port: Box<dyn Port>,
    pool: Pool,
    far: Far,
    wire: Option<Wire>,
}

impl Rig {
    /// `first` are the frames that a file holds.
    fn new(kind: Kind, first: &[Vec<u8>]) -> Rig {
        let mut pool = Pool::new(CHUNKS, 1518).unwrap();
        let remote_at = |ns: &Namespace, name| {
            ns.run(|| {
                let index = Rtnl::open().unwrap().link(name).unwrap().ifindex;
                Far::Wire(ns.clone(), index, Receiver::open(index, 16 << 20).unwrap())
            })
        };
        let (port, far, wire): (Box<dyn Port>, _, _) = match kind {
            Kind::Memory => {
                let (port, end) = Memory::new().unwrap();
                (Box::new(port), Far::Memory(end), None)
            }
            Kind::Packet | Kind::Xdp => {
                let wire = Wire::new();
                let far = remote_at(&wire.sender, SENDER);
                let port: Box<dyn Port> = wire.tool.run(|| match kind {
                    Kind::Packet => {
                        Box::new(Packet::open(LISTENER, pool.longest(), ReceiveMode::Own).unwrap()) as _
                    }
                    _ => {
                        let mut all =
                            Xdp::open(LISTENER, std::slice::from_mut(&mut pool), ReceiveMode::Own).unwrap();
                        Box::new(all.pop().unwrap()) as _
                    }
                });
                (port, far, Some(wire))
            }
            Kind::Tap => {
                let ns = Namespace::new().unwrap();
                let port = ns.run(|| {
                    // So that the machine says nothing by itself.
                    std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1").unwrap();
                    Tap::open(TAP, None).unwrap()
                });
                (Box::new(port), remote_at(&ns, TAP), None)
            }
            Kind::File => {
                static NEXT: AtomicU32 = AtomicU32::new(0);
                let (folder, n) = (PathBuf::from(env!("CARGO_TARGET_TMPDIR")), NEXT.fetch_add(1, Relaxed));
                let [from, to] = ["in", "out"].map(|name| folder.join(format!("duplex-{n}-{name}.pcapng")));
                std::fs::write(&from, capture_of(first)).unwrap();
                // That of an earlier run; a port of files makes only what is not there.
                let _ = std::fs::remove_file(&to);
                (Box::new(File::open(Some(&from), Some(&to)).unwrap()), Far::Files(to), None)
            }
        };
        Rig { port, pool, far, wire }
    }

    /// Has frames arrive, and takes them.
    fn arrive(&mut self, frames: &[Vec<u8>]) -> Vec<Chunk> {
        self.feed(frames);
        self.take(frames.len(), PATIENCE)
    }

    /// The next `n` frames that arrive, or fewer if none arrives for this time.
    fn take(&mut self, n: usize, patience: Duration) -> Vec<Chunk> {
        let mut chunks = vec![];
        let mut deadline = Instant::now() + patience;
        while chunks.len() < n && Instant::now() < deadline {
            let before = chunks.len();
            self.port.receive(&mut self.pool, &mut chunks).unwrap();
            assert!(chunks.len() - before <= BATCH, "{} frames in one call", chunks.len() - before);
            if chunks.len() > before {
                deadline = Instant::now() + patience;
            } else if let Some(fd) = self.port.descriptor() {
                readable(fd, patience);
            }
        }
        chunks
    }

    fn feed(&mut self, frames: &[Vec<u8>]) {
        match &self.far {
            Far::Memory(end) => frames.iter().for_each(|frame| assert!(end.send(frame))),
            Far::Wire(ns, index, _) => ns.run(|| {
                let sender = Sender::open(*index).unwrap();
                let mut left = frames;
                while !left.is_empty() {
                    left = &left[sender.send(left).unwrap()..];
                }
            }),
            Far::Files(_) => {}
        }
    }

    /// The next `n` frames that the port has sent.
    fn left(&mut self, n: usize) -> Vec<Vec<u8>> {
        self.left_within(n, PATIENCE)
    }

    /// The same, or fewer if they have not arrived in this time.
    fn left_within(&mut self, n: usize, patience: Duration) -> Vec<Vec<u8>> {
        let mut all = vec![];
        let deadline = Instant::now() + patience;
        while all.len() < n && Instant::now() < deadline {
            match &mut self.far {
                Far::Memory(end) => all.extend(end.receive()),
                Far::Wire(_, _, receiver) => {
                    // Before Linux 6.3, a port finds out with a frame of the experimental protocol what the wire takes.
                    let mut note = |frame: &[u8]| {
                        if frame[12..14] != [0x88, 0xb5] {
                            all.push(frame.to_vec());
                        }
                    };
                    receiver.receive(Duration::from_millis(50), &mut note).unwrap();
                }
                Far::Files(path) => all = frames_of(path),
            }
        }
        all
    }

    fn chunks_of(&mut self, frames: &[Vec<u8>]) -> Vec<Chunk> {
        let fill = |frame: &Vec<u8>| {
            let mut chunk = self.pool.take().expect("there are enough");
            chunk.set_range(FRONT..FRONT + frame.len());
            self.pool.bytes_mut(&chunk).copy_from_slice(frame);
            chunk
        };
        frames.iter().map(fill).collect()
    }

    fn bytes(&self, chunks: &[Chunk]) -> Vec<Vec<u8>> {
        chunks.iter().map(|chunk| self.pool.bytes(chunk).to_vec()).collect()
    }
}

fn capture_of(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut file = vec![];
    write::section(&mut file, &write::Author::default());
    write::interface(&mut file, &Interface { link_type: ETHERNET, ..Interface::default() });
    for bytes in frames {
        let wire_len = bytes.len() as u32;
        write::packet(
            &mut file,
            &weir_port::pcapng::Packet { interface: 0, at_ns: 1, wire_len, bytes, dropped: 0 },
        );
    }
    file
}

fn frames_of(path: &Path) -> Vec<Vec<u8>> {
    let mut reader = Reader::open(BufReader::new(Bytes::open(path).unwrap())).unwrap();
    let mut frames = vec![];
    while let Some(item) = reader.next_item().unwrap() {
        if let Item::Packet(packet) = item {
            frames.push(packet.bytes.to_vec());
        }
    }
    frames
}

fn readable(fd: BorrowedFd<'_>, wait: Duration) -> bool {
    let mut poll = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one pollfd.
    unsafe { libc::poll(&mut poll, 1, wait.as_millis() as i32) > 0 && poll.revents & libc::POLLIN != 0 }
}

/// Runs a test for each kind that can be had here.
fn each(test: impl Fn(Kind)) {
    for kind in KINDS {
        match kind {
            Kind::Memory | Kind::File => test(kind),
            _ if is_root() => test(kind),
            _ => eprintln!("skipped: a port of kind {kind:?} needs root (network namespaces)"),
        }
    }
}

#[test]
fn frames_arrive_as_they_were_sent_with_room_in_front() {
    each(|kind| {
        // Fewer than any wire holds, so that none is lost.
        let sent = frames(200);
        let mut rig = Rig::new(kind, &sent);
        let chunks = rig.arrive(&sent);
        assert!(rig.bytes(&chunks) == sent, "{kind:?}: {} of 200 frames, or others", chunks.len());
        for (whole, range) in rig.pool.all_mut(&chunks) {
            assert!(range.start >= 8 && range.end <= whole.len(), "{kind:?}: {range:?}");
        }
        assert_eq!(rig.port.account().unwrap().received, 200, "{kind:?}");
    });
}

#[test]
fn frames_leave_as_they_are_and_their_chunks_come_back() {
    each(|kind| {
        let mut rig = Rig::new(kind, &[]);
        let (all, free) = (frames(3000), rig.pool.free());
        for some in all.chunks(150) {
            let mut chunks = rig.chunks_of(some);
            rig.port.send(&mut rig.pool, &mut chunks).unwrap();
            assert!(chunks.is_empty(), "{kind:?}: the port takes them");
            let known =
                if kind == Kind::File { all.iter().position(|one| one == &some[0]).unwrap() } else { 0 };
            let left = rig.left(known + some.len());
            assert!(
                left[known..] == *some,
                "{kind:?}: {} of {} frames, or others",
                left.len() - known,
                some.len()
            );
        }
        let account = rig.port.account().unwrap();
        assert_eq!(
            (account.sent, account.drops.iter().map(|one| one.frames).sum::<u64>()),
            (3000, 0),
            "{kind:?}"
        );
        // All have arrived, so that the kernel is through with them.
        rig.port.receive(&mut rig.pool, &mut vec![]).unwrap();
        assert_eq!(rig.pool.free(), free, "{kind:?}");
    });
}

#[test]
fn many_frames_leave_at_once_where_the_other_end_takes_them_so() {
    need_root!();
    let mut rig = Rig::new(Kind::Xdp, &[]);
    let wire = rig.wire.take().unwrap();
    let mut watch = rig.port.watch().expect("it asks about its interface");
    // More than leave in one call, and than the other end's ring holds.
    let all = frames(700);
    for at_once in [true, false, true] {
        wire.sender.run(|| set_offload(SENDER, Offload::Gro, at_once).unwrap());
        wire.tool.run(|| {
            assert_eq!(takes_redirected(LISTENER).unwrap(), Some(at_once));
            assert!(watch.look(), "the port is open");
        });
        assert_eq!(rig.port.method().contains("many frames leave at once"), at_once);
        assert_eq!(rig.port.obstacle().is_none(), at_once, "{:?}", rig.port.obstacle());
        // Where the machine has little time, the other end may not look at its ring before that is full: not each time.
        let whole = (0..6).any(|_| {
            let mut chunks = rig.chunks_of(&all);
            rig.port.send(&mut rig.pool, &mut chunks).unwrap();
            rig.left_within(all.len(), PATIENCE / 12) == all
        });
        assert!(whole, "at once: {at_once}: some of 700 frames were lost each time, or others came");
    }
    drop(rig.port);
    assert!(!watch.look(), "the port is closed");
}

#[test]
fn a_frame_that_has_arrived_leaves_with_another_beginning() {
    each(|kind| {
        // Such that the wire takes them when they are longer.
        let sent: Vec<_> = frames(60).into_iter().filter(|frame| frame.len() < 1500).collect();
        let mut rig = Rig::new(kind, &sent);
        let mut chunks = rig.arrive(&sent);
        for (n, chunk) in chunks.iter_mut().enumerate() {
            // A tag more, or four bytes less.
            let Range { start, end } = chunk.range();
            chunk.set_range(if n % 2 == 0 { start - 4 } else { start + 4 }..end);
        }
        let expected = rig.bytes(&chunks);
        rig.port.send(&mut rig.pool, &mut chunks).unwrap();
        assert!(rig.left(expected.len()) == expected, "{kind:?}");
    });
}

#[test]
fn what_arrives_can_be_waited_for() {
    each(|kind| {
        let sent = frames(1);
        let mut rig = Rig::new(kind, &sent);
        let Some(fd) = rig.port.descriptor() else {
            assert!(!rig.port.is_over(), "{kind:?}: there is a frame in the file");
            rig.arrive(&sent);
            rig.port.receive(&mut rig.pool, &mut vec![]).unwrap();
            return assert!(rig.port.is_over(), "{kind:?}: nobody need wait for the next");
        };
        assert!(!readable(fd, Duration::ZERO), "{kind:?}: nothing is there");
        rig.feed(&sent);
        assert!(readable(rig.port.descriptor().unwrap(), PATIENCE), "{kind:?}");
        let mut chunks = vec![];
        rig.port.receive(&mut rig.pool, &mut chunks).unwrap();
        assert!(rig.bytes(&chunks) == sent, "{kind:?}");
        assert!(!readable(rig.port.descriptor().unwrap(), Duration::ZERO), "{kind:?}: it was taken");
    });
}

#[test]
fn nothing_new_comes_in_after_the_end() {
    each(|kind| {
        let mut rig = Rig::new(kind, &[]);
        rig.port.stop().unwrap();
        rig.feed(&frames(10));
        let mut chunks = vec![];
        rig.port.receive(&mut rig.pool, &mut chunks).unwrap();
        assert!(chunks.is_empty(), "{kind:?}");
        // And still it sends.
        let last = frames(1);
        let mut chunks = rig.chunks_of(&last);
        rig.port.send(&mut rig.pool, &mut chunks).unwrap();
        assert!(rig.left(1) == last, "{kind:?}");
    });
}

#[test]
fn each_frame_is_sent_or_counted() {
    each(|kind| {
        let mut rig = Rig::new(kind, &[]);
        let given = frames(3500);
        let mut chunks = rig.chunks_of(&given);
        rig.port.send(&mut rig.pool, &mut chunks).unwrap();
        let account = rig.port.account().unwrap();
        let dropped: u64 = account.drops.iter().map(|one| one.frames).sum();
        assert_eq!(account.sent + dropped, 3500, "{kind:?}: {account:?}");
        assert!(account.sent > 200, "{kind:?}: {account:?}");
    });
}

#[test]
fn what_a_sender_left_to_a_network_card_is_done() {
    each(|kind| {
        if matches!(kind, Kind::Memory | Kind::File) {
            return;
        }
        for offloads in offloads::all() {
            let mut rig = Rig::new(kind, &[]);
            let Far::Wire(ns, index, _) = &rig.far else { unreachable!("an interface") };
            let (ns, index) = (ns.clone(), *index);
            let send = || ns.run(|| offloads.send(index));
            let mut sent = send();
            if offloads.protocol == UDP
                && let Err(error) = &sent
                && error.raw_os_error() == Some(libc::EINVAL)
            {
                // Large frames of UDP came with Linux 6.2.
                eprintln!("skipped: this kernel knows no large frames of UDP");
                continue;
            }
            // A kernel that is short of memory for a moment drops frames: then it is sent again.
            let (mut chunks, mut received, mut tries) = (vec![], 0, 1);
            loop {
                if sent.is_ok() {
                    chunks = rig.take(offloads.segments(), QUIET);
                    received += chunks.len() as u64;
                }
                if chunks.len() == offloads.segments() || tries == 3 {
                    break;
                }
                eprintln!("{kind:?}: {offloads:?}: {} segments arrived of {sent:?}", chunks.len());
                tries += 1;
                sent = send();
            }
            offloads.check(&rig.bytes(&chunks), &format!("{kind:?}"));
            let account = rig.port.account().unwrap();
            assert_eq!(account.received, received, "{kind:?}: {offloads:?}: {account:?}");
            let dropped = account.drops.iter().map(|one| one.frames).sum::<u64>();
            assert!(dropped == 0 || tries > 1, "{kind:?}: {account:?}");
        }
    });
}

#[test]
fn a_frame_that_no_chunk_holds_is_counted_as_such_and_the_next_ones_arrive() {
    need_root!();
    let mut rig = Rig::new(Kind::Packet, &[]);
    let wire = rig.wire.as_ref().unwrap();
    for (ns, name) in [(&wire.tool, LISTENER), (&wire.sender, SENDER)] {
        ns.run(|| std::fs::write(format!("/sys/class/net/{name}/mtu"), "9000").unwrap());
    }
    rig.feed(&[vec![2; 4000]]);
    let sent = frames(5);
    let chunks = rig.arrive(&sent);
    assert!(rig.bytes(&chunks) == sent, "{} of 5 frames, or others", chunks.len());
    let account = rig.port.account().unwrap();
    let lost: Vec<_> = account.drops.iter().filter(|one| one.frames > 0).collect();
    assert!(
        matches!(lost[..], [one] if (one.name, one.frames) == ("too long for a chunk", 1)),
        "{account:?}"
    );
}
