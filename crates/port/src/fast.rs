//! The fast path of a node: an XDP program at each of its ports, which passes on the frames of flows that it has an entry
//! for, and the maps that all of them share.
//!
//! ```text
//!   frame > [ program ] > entry that holds > another port
//!                       > none             > AF_XDP socket of the queue
//! ```
//! Entries, what leads to them, epochs and counters lie in memory that both sides map, so that nothing that is done to them
//! takes a call of the system.
//!
//! Invariant: an entry that is being written is over, and holds once the whole of it is there. The caller keeps this one: a
//! number is used again only when no program can hold its entry any more.

pub mod bench;
mod index;
pub(crate) mod layout;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use index::Index;
pub use layout::{
    Control, Counts, Entry, FRAME, Gate, IS_ENDLESS, IS_FOLLOWED, IS_REWRITTEN, IS_ROUTED, KIND_V4,
    KIND_V4_WHOLE, Key, NO_ENTRY, PORTS, PUNTS, Sides, TICK_BITS, Track, Wide,
};
use layout::{IS_OVER, KIND_V6};

use crate::bpf::{BpfError, Memory, Program, now_ns, object};
use crate::field;

/// Entries that there is room for by default.
pub const ROOM: u32 = 1 << 17;
/// How many there can be room for at most.
pub const MOST_ROOM: u32 = 1 << 23;
/// Maps that all instances of the program share.
const SHARED: [&str; 8] = ["outs", "buckets", "entries", "sides", "wides", "tracks", "control", "counts"];
const WHAT: &str = "fast path of a node";

/// The maps, with an instance of the program that is attached nowhere.
pub struct Fast {
    program: Program,
    index: Index,
    entries: Memory<Entry>,
    sides: Memory<Sides>,
    wides: Memory<Wide>,
    tracks: Memory<Track>,
    control: Memory<Control>,
    counts: Memory<Counts>,
    /// The clock of programs goes by steps of so many ns: ticks of the kernel.
    step_ns: u64,
}

impl Fast {
    /// With room for so many entries, and as many connections.
    ///
    /// # Errors
    /// The kernel refuses the program or has no memory.
    pub fn new(entries: u32) -> Result<Fast, BpfError> {
        let (cpus, buckets) = (possible_cpus(), Index::buckets(entries));
        let sizes = [
            ("buckets", buckets),
            ("entries", entries),
            ("sides", entries),
            ("wides", entries),
            ("tracks", entries),
            ("counts", cpus),
            ("sockets", 1),
        ];
        let program = Program::load(WHAT, object::FAST, &sizes)?;
        let index = Index::new(program.memory("buckets", buckets as usize)?);
        let control: Memory<Control> = program.memory("control", 1)?;
        control
            .set(0, &Control { seed: index.seed, mask: index.mask(), room: entries, ..Control::default() });
        Ok(Fast {
            index,
            entries: program.memory("entries", entries as usize)?,
            sides: program.memory("sides", entries as usize)?,
            wides: program.memory("wides", entries as usize)?,
            tracks: program.memory("tracks", entries as usize)?,
            control,
            counts: program.memory("counts", cpus as usize)?,
            step_ns: step_ns(),
            program,
        })
    }

    /// How many entries there is room for.
    pub fn room(&self) -> u32 {
        self.entries.len() as u32
    }

    /// The program for a port, which has so many receive queues; frames may leave by it from now on.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub fn instance(&self, gate: &Gate, index: u32, queues: u32) -> Result<Program, BpfError> {
        let program =
            Program::load_sharing(WHAT, object::FAST, &[("sockets", queues)], &self.program, &SHARED)?;
        program.memory::<Gate>("bss", 1)?.set(0, gate);
        self.program.write("outs", gate.number, &index)?;
        Ok(program)
    }

    /// Whether entries are used at all.
    pub fn set_on(&self, on: bool) {
        self.control.set_field(0, u32::from(on), field!(Control, on));
    }

    /// Entries with another epoch hold no more.
    pub fn set_epoch(&self, epoch: u32) {
        self.control.set_field(0, epoch, field!(Control, epoch));
    }

    /// The time that programs take for that of the machine; 0: they ask.
    pub fn set_clock(&self, ns: u64) {
        self.control.set_field(0, ns, field!(Control, clock_ns));
    }

    /// Ticks of entries begin then, ns of CLOCK_MONOTONIC.
    pub fn set_start(&self, ns: u64) {
        self.control.set_field(0, ns, field!(Control, start_ns));
    }

    /// The time that was set for programs, or that of the machine; and by how much what they take for it may be behind.
    pub fn clock_ns(&self) -> (u64, u64) {
        match self.control.field(0, field!(Control, clock_ns)) {
            0 => (now_ns(), self.step_ns),
            set => (set, 0),
        }
    }

    /// The key of a flow of IPv6 with these addresses.
    pub fn key6(&self, key: &Key, wide: &Wide) -> Key {
        Key { src: self.index.hash6(wide.src), dst: self.index.hash6(wide.dst), kind: KIND_V6, ..*key }
    }

    /// The number of the entry in which programs find this key soonest.
    pub fn place(&self, key: &Key) -> u32 {
        self.index.place(key, self.room())
    }

    /// The entry that a key leads to.
    pub fn find(&self, key: &Key) -> Option<u32> {
        self.index.number(key, &self.entries)
    }

    /// Writes an entry with its connections (`sides`) and, for IPv6, its addresses (`wide`), and has a key lead to it; false if
    /// there is no room.
    #[must_use]
    pub fn insert(&self, key: &Key, number: u32, entry: &Entry, sides: &Sides, wide: Option<&Wide>) -> bool {
        // Programs look here before any key leads here.
        self.set_flags(number, IS_OVER);
        fence(Ordering::Release);
        self.entries.set(number as usize, &Entry { key: *key, flags: entry.flags | IS_OVER, ..*entry });
        self.sides.set(number as usize, sides);
        wide.into_iter().for_each(|wide| self.wides.set(number as usize, wide));
        let publish = |mask: u32| self.control.set_field(0, mask, field!(Control, mask));
        let has_room = self.index.insert(key, number, &self.entries, publish);
        if has_room {
            fence(Ordering::Release);
            self.set_flags(number, entry.flags);
        }
        has_room
    }

    /// A key leads nowhere any more; false if it did not lead anywhere.
    pub fn remove(&self, key: &Key) -> bool {
        self.index.remove(key, &self.entries)
    }

    /// What an entry was used for so far, see [`Entry::used`], and the tick when last.
    pub fn uses(&self, number: u32) -> (u64, u32) {
        let n = number as usize;
        let used = self.entries.field(n, field!(Entry, used));
        (used, self.entries.field(n, field!(Entry, last)))
    }

    /// An entry holds until this tick; `None`: for good.
    pub fn prolong(&self, number: u32, until: Option<u32>) {
        let flags = self.flags(number) & !IS_ENDLESS;
        if let Some(until) = until {
            self.entries.set_field(number as usize, until, field!(Entry, until));
        }
        self.set_flags(number, flags | if until.is_none() { IS_ENDLESS } else { 0 });
    }

    /// An entry holds no more, whatever is said of it later.
    pub fn end(&self, number: u32) {
        self.set_flags(number, self.flags(number) | IS_OVER);
    }

    /// Programs do not write them.
    fn flags(&self, number: u32) -> u8 {
        self.entries.field(number as usize, field!(Entry, flags))
    }

    fn set_flags(&self, number: u32, flags: u8) {
        self.entries.set_field(number as usize, flags, field!(Entry, flags));
    }

    /// A connection as far as it has come.
    pub fn track(&self, number: u32) -> Track {
        self.tracks.get(number as usize)
    }

    /// A connection goes on from here.
    pub fn set_track(&self, number: u32, track: &Track) {
        self.tracks.set(number as usize, track);
    }

    /// What the program of a port without sockets does to a frame: the port that it leaves by, or `None` if it is left to the
    /// plane, and the frame as it is then. For tests: all frames that leave do so by the interface of this index.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn try_on(
        &self,
        gate: &Gate,
        index: u32,
        frame: &[u8],
    ) -> Result<(Option<usize>, Vec<u8>), BpfError> {
        const XDP_PASS: u32 = 2;
        const XDP_REDIRECT: u32 = 4;
        (0..PORTS as u32).try_for_each(|port| self.program.write("outs", port, &index))?;
        self.program.memory::<Gate>("bss", 1)?.set(0, gate);
        let before = self.counts().sent;
        let (verdict, frame) = self.program.run_on(frame)?;
        let port = self.counts().sent.into_iter().zip(before).position(|(now, before)| now > before);
        match (verdict, port) {
            (XDP_REDIRECT, Some(port)) => Ok((Some(port), frame)),
            (XDP_PASS, None) => Ok((None, frame)),
            _ => Err(BpfError::Run(io::Error::other(format!("verdict {verdict}, left by {port:?}")))),
        }
    }

    /// All counters, over all CPUs.
    pub fn counts(&self) -> Counts {
        let mut all = Counts::default();
        for cpu in 0..self.counts.len() {
            let Counts { received, sent, punts } = self.counts.get(cpu);
            let add = |to: &mut [u64; PORTS], from: [u64; PORTS]| {
                to.iter_mut().zip(from).for_each(|(to, n)| *to += n)
            };
            add(&mut all.received, received);
            add(&mut all.sent, sent);
            add(&mut all.punts, punts);
        }
        all
    }
}

/// A port of a node with a fast path, before it is opened.
#[derive(Clone)]
pub struct FastPort {
    /// The maps.
    pub fast: Arc<Fast>,
    /// Its number.
    pub number: u8,
    /// The Ethernet address that frames must be for, if the node is a router.
    pub router: Option<[u8; 6]>,
}

/// Resolution of CLOCK_MONOTONIC_COARSE.
fn step_ns() -> u64 {
    let step = rustix::time::clock_getres(rustix::time::ClockId::MonotonicCoarse);
    step.tv_sec as u64 * 1_000_000_000 + step.tv_nsec as u64
}

fn possible_cpus() -> u32 {
    libbpf_rs::num_possible_cpus().map_or(1, |cpus| cpus as u32)
}
