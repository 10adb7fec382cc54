//! A node and the frames that it was sent, so that what failed can be run again, be made shorter, and be kept as a file.
//!
//! ```text
//! node lan > filter(...) > wan
//! threads 3                               if it has more than one; batches come to them alternately
//! node lan > nat(...) > wan               it becomes this before the next batch comes
//! 100ms 0 0200...  1 0200...          a batch: milliseconds after the one before, then port and frame of each
//! ```

use std::collections::VecDeque;
use std::fmt::Write;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use weir_plane::scenario::{Vector, described};
use weir_plane::{
    Accounting, BATCH, Batch, Config, Frame, HEAD_ROOM, Handover, Ingress, Leave, Plane, PortId, Share,
    Shelf, Time, Verdict,
};

/// Frames that arrive together.
#[derive(Debug, Clone, Default)]
pub(crate) struct Arrivals {
    /// What the node becomes before they come, if its threads can.
    pub(crate) node: Option<String>,
    pub(crate) after: Duration,
    pub(crate) frames: Vec<(usize, Vec<u8>)>,
}

/// A node and what it is sent.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) node: String,
    pub(crate) threads: u8,
    pub(crate) batches: Vec<Arrivals>,
}

/// A node under test.
pub(crate) struct Bench {
    /// By thread.
    planes: Vec<Plane>,
    /// By thread, the frames that its plane keeps.
    shelves: Vec<Shelf<Vector>>,
    /// What became of frames that were kept when the text changed, with the ports that they came in by.
    resumed: Vec<(Verdict, PortId, Vec<u8>)>,
    /// The thread that the next batch comes to.
    next: usize,
    config: Config,
    /// Tags of its ports.
    pub(crate) tags: [Vec<[u8; 4]>; 2],
    now: Time,
    /// How often it became another one.
    pub(crate) changes: u32,
    /// The same with flow caches: what leaves and what is counted is to be the same.
    cached: Option<Box<Bench>>,
}

/// A frame on its way to a thread.
struct Coming {
    port: PortId,
    ingress: Ingress,
    bytes: Vec<u8>,
    /// The frame as it was sent, if its packet was sound and the node has not made another of it.
    sound: Option<Vec<u8>>,
    /// How many threads had it before.
    hops: u32,
}

/// What waits for its thread.
type Waiting = VecDeque<(usize, Vec<Coming>)>;

/// More threads than any frame comes to: each says once which thread it belongs to.
const MOST_HOPS: u32 = 8;

/// Packets that left, by their port.
pub(crate) type Left = Vec<(usize, Vec<u8>)>;

/// The same by port and pair of hosts, in the order in which each pair's left: between others a node owes none. Questions are
/// distinguished by their target: many neighbours have one address for them (RFC 4291, section 2.7.1).
fn by_hosts(left: &Left) -> Left {
    let hosts = |packet: &[u8]| {
        let addresses = match packet.first().map(|first| first >> 4) {
            Some(4) => packet.get(12..20),
            Some(6) if is_question(packet) => packet.get(8..64),
            Some(6) => packet.get(8..40),
            _ => None,
        };
        // ARP: what is asked and answered.
        addresses.unwrap_or(packet).to_vec()
    };
    let mut left = left.clone();
    left.sort_by_cached_key(|(port, packet)| (*port, hosts(packet)));
    left
}

/// Whether a packet of IPv6 asks for a neighbour (RFC 4861, section 4.3).
fn is_question(packet: &[u8]) -> bool {
    (packet.get(6), packet.get(40)) == (Some(&58), Some(&135))
}

pub(crate) fn mac(port: usize) -> [u8; 6] {
    [2, 0, 0, 0, 0xaa, port as u8]
}

/// A node's text, if so many threads can share it.
fn read(node: &str, threads: u8) -> Option<Config> {
    let config = Config::read("n", node).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    config.may_share(threads).is_ok().then_some(config)
}

/// What a thread has of a node.
fn part(config: &Config, thread: u8, of: u8) -> Config {
    let mut config = config.clone();
    config.share = Share { thread, of };
    config
}

/// As many of so many threads as can share a node.
pub(crate) fn fitting(node: &str, threads: u8) -> u8 {
    (1..=threads).rev().find(|&threads| read(node, threads).is_some()).unwrap_or(1)
}

impl Bench {
    /// A node of so many threads, which can share it.
    pub(crate) fn new(node: &str, threads: u8) -> Bench {
        let mut cached = Bench::without_caches(node, threads);
        cached.planes.iter_mut().for_each(|plane| plane.cache_flows(true));
        Bench { cached: Some(Box::new(cached)), ..Bench::without_caches(node, threads) }
    }

    fn without_caches(node: &str, threads: u8) -> Bench {
        let config = read(node, threads).expect("a node that can be shared").shared_by(threads);
        let of_thread = |thread| Plane::new(&part(&config, thread, threads), &[mac(0), mac(1)]);
        let tags = [0, 1].map(|port| config.ports[port].tags());
        let planes = (0..threads).map(of_thread).collect();
        let shelves = (0..threads).map(|_| Shelf::default()).collect();
        Bench {
            planes,
            shelves,
            resumed: Vec::new(),
            next: 0,
            config,
            tags,
            now: Time::default(),
            changes: 0,
            cached: None,
        }
    }

    /// Becomes what another text says, if its threads can.
    fn change(&mut self, node: &str) {
        let mut cached = self.cached.take();
        let is_changed = self.change_itself(node);
        if let Some(cached) = &mut cached {
            assert_eq!(cached.change_itself(node), is_changed, "a flow cache keeps a node from a change");
        }
        self.cached = cached;
        self.changes += u32::from(is_changed);
    }

    fn change_itself(&mut self, node: &str) -> bool {
        let threads = self.planes.len() as u8;
        let Some(config) = read(node, threads) else { return false };
        let Ok(config) = config.instead_of(&self.config, threads) else { return false };
        if config.may_share(threads).is_err() {
            return false;
        }
        for (thread, plane) in (0..).zip(&mut self.planes) {
            let part = part(&config, thread, threads);
            match plane.apply(self.now, &self.config, &part) {
                Ok(_) => {}
                // What threads have dealt out to each other does not change.
                Err(_) if threads > 1 && thread == 0 => return false,
                Err(wrong) => panic!("thread {thread} of {threads} refuses what it may become: {wrong}"),
            }
        }
        self.config = config;
        self.resume();
        true
    }

    /// Frames that planes have kept go on.
    fn resume(&mut self) {
        let both = self.shelves.iter_mut().zip(&mut self.planes);
        self.resumed.extend(both.flat_map(|(shelf, plane)| shelf.resume(plane, self.now)));
    }

    /// Bytes in front of the packet of a frame, by port.
    fn header(&self, port: PortId) -> usize {
        14 + 4 * self.tags[usize::from(port.0)].len()
    }

    /// Sends frames, at most 64, and tells what left.
    ///
    /// # Errors
    /// What the node did that no node may do: panic, lose a frame, make a wrong packet out of a right one, send a frame
    /// from thread to thread for ever.
    pub(crate) fn send(&mut self, arrivals: &Arrivals) -> Result<Left, String> {
        if let Some(node) = &arrivals.node {
            caught(|| {
                self.change(node);
                Ok(Left::new())
            })?;
        }
        let mut cached = self.cached.take();
        let left = self.send_itself(arrivals, is_sound)?;
        if let Some(cached) = &mut cached {
            // Its packets are compared with those, which have been judged.
            let with = cached
                .send_itself(arrivals, |_| false)
                .map_err(|wrong| format!("with a flow cache: {wrong}"))?;
            let (without, with) = (by_hosts(&left), by_hosts(&with));
            let different = without.iter().zip(&with).find(|(one, other)| one != other);
            if let Some((without, with)) = different {
                return Err(format!("{without:02x?} leaves, and with a flow cache {with:02x?}"));
            }
            let (one, other) = (self.accounting(), cached.accounting());
            if left.len() != with.len() || one != other {
                return Err(format!("{one:?}, and with a flow cache {other:?}"));
            }
        }
        self.cached = cached;
        Ok(left)
    }

    /// Frames that passed by flow caches.
    pub(crate) fn cached_frames(&self) -> u64 {
        let of = |bench: &Bench| bench.planes.iter().map(Plane::cached_frames).sum();
        self.cached.as_ref().map_or(0, |bench| of(bench))
    }

    fn send_itself(&mut self, arrivals: &Arrivals, is_sound: fn(&[u8]) -> bool) -> Result<Left, String> {
        caught(|| self.try_send(arrivals, is_sound))
    }

    /// What becomes of packets that are sound must be so, too.
    fn try_send(&mut self, arrivals: &Arrivals, is_sound: fn(&[u8]) -> bool) -> Result<Left, String> {
        self.now = self.now + arrivals.after;
        let coming = |(port, bytes): &(usize, Vec<u8>)| {
            let port = PortId(*port as u16);
            let is_sound = bytes.split_at_checked(self.header(port)).is_some_and(|(header, packet)| {
                (header.ends_with(&[8, 0]) || header.ends_with(&[0x86, 0xdd])) && is_sound(packet)
            });
            Coming {
                port,
                ingress: Ingress::Wire,
                bytes: bytes.clone(),
                sound: is_sound.then(|| bytes.clone()),
                hops: 0,
            }
        };
        let (mut waiting, mut left) = (Waiting::new(), Left::new());
        waiting.push_back((self.next, arrivals.frames.iter().map(coming).collect()));
        self.next = (self.next + 1) % self.planes.len();
        self.run_planes(&mut waiting, &mut left)?;
        self.planes.iter_mut().for_each(|plane| _ = plane.tick(self.now));
        self.depart(&mut waiting, &mut left)?;
        self.run_planes(&mut waiting, &mut left)?;
        let accounting = self.accounting();
        let all = self.planes.iter().all(|plane| plane.accounting().balance())
            && accounting.handed == accounting.taken;
        if all { Ok(left) } else { Err(format!("frames are missing: {accounting:?}")) }
    }

    /// Leads frames through the threads until none waits.
    fn run_planes(&mut self, waiting: &mut Waiting, left: &mut Left) -> Result<(), String> {
        while let Some((thread, coming)) = waiting.pop_front() {
            debug_assert!(coming.len() <= BATCH);
            self.pass(thread, &coming, waiting, left)?;
        }
        Ok(())
    }

    fn pass(
        &mut self,
        thread: usize,
        coming: &[Coming],
        waiting: &mut Waiting,
        left: &mut Left,
    ) -> Result<(), String> {
        let in_front = |coming: &Coming| [&[0; HEAD_ROOM][..], &coming.bytes].concat();
        let mut buffers: Vec<Vec<u8>> = coming.iter().map(in_front).collect();
        let mut batch = Batch::default();
        for (buf, coming) in buffers.iter_mut().zip(coming) {
            let end = buf.len();
            let frame = Frame::new(buf, HEAD_ROOM, end, coming.port);
            match coming.ingress {
                Ingress::Wire => batch.push(frame),
                ingress => batch.push_handed(frame, ingress),
            }
        }
        self.planes[thread].run(self.now, &mut batch);
        for ((frame, verdict), came) in batch.outcome().zip(coming) {
            match verdict {
                Verdict::Out(to) => {
                    let packet =
                        frame.bytes().get(self.header(to)..).ok_or("a frame left without its header")?;
                    if let (Some(sent), Err(wrong)) = (&came.sound, described(packet)) {
                        return Err(format!("{wrong}: {packet:02x?} out of {sent:02x?}"));
                    }
                    left.push((to.0.into(), packet.to_vec()));
                }
                Verdict::Handed(to) if came.hops == MOST_HOPS => {
                    return Err(format!("it goes from thread to thread, to {to:?}: {:02x?}", came.bytes));
                }
                Verdict::Handed(to) => {
                    hand(waiting, to, frame.port, frame.bytes(), (came.sound.clone(), came.hops + 1));
                }
                Verdict::Kept(ticket) => self.shelves[thread].copy(ticket, frame),
                Verdict::Punted(_)
                | Verdict::Control(_)
                | Verdict::KeptCopy
                | Verdict::Dropped(_)
                | Verdict::Local
                | Verdict::Live => {}
            }
        }
        for news in self.planes[thread].neighbour_news().collect::<Vec<_>>() {
            let others = self.planes.iter_mut().enumerate().filter(|(other, _)| *other != thread);
            others.for_each(|(_, plane)| plane.on_neighbour_news(self.now, &news));
        }
        self.depart(waiting, left)
    }

    /// What the planes have made leaves, or waits for another thread.
    fn depart(&mut self, waiting: &mut Waiting, left: &mut Left) -> Result<(), String> {
        self.resume();
        for (verdict, port, bytes) in std::mem::take(&mut self.resumed) {
            match verdict {
                Verdict::Out(to) => {
                    let packet = bytes.get(self.header(to)..).ok_or("a frame left without its header")?;
                    left.push((to.0.into(), packet.to_vec()));
                }
                Verdict::Handed(to) => hand(waiting, to, port, &bytes, (None, 0)),
                _ => {}
            }
        }
        let departures = self.planes.iter_mut().flat_map(|plane| plane.departures().collect::<Vec<_>>());
        for departure in departures.collect::<Vec<_>>() {
            let bytes = &departure.bytes;
            match departure.to {
                Leave::Port(port) => {
                    let packet =
                        bytes.get(self.header(port)..).ok_or("a frame of its own without its header")?;
                    left.push((port.0.into(), packet.to_vec()));
                }
                Leave::Machine(..) => {}
                Leave::Thread(to, port) => hand(waiting, to, port, bytes, (None, 0)),
            }
        }
        Ok(())
    }

    /// What all threads have counted.
    pub(crate) fn accounting(&self) -> Accounting {
        let mut all = Accounting::default();
        self.planes.iter().for_each(|plane| all.add(&plane.accounting()));
        all
    }
}

/// A panic is a failure with a text.
fn caught(run: impl FnOnce() -> Result<Left, String>) -> Result<Left, String> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        Err(format!("panic: {}", text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("?")))
    })
}

/// A frame waits for another thread.
fn hand(
    waiting: &mut Waiting,
    to: Handover,
    port: PortId,
    bytes: &[u8],
    (sound, hops): (Option<Vec<u8>>, u32),
) {
    let coming = Coming { port, ingress: to.ingress, bytes: bytes.to_vec(), sound, hops };
    waiting.push_back((to.to.into(), vec![coming]));
}

/// Whether the checksums of a packet are right, as far as they can be checked. Behind extension headers of IPv6 they are not
/// checked, but after a translation they may be in plain sight; those of ICMP of the other version of IP cannot be checked.
pub(crate) fn is_sound(packet: &[u8]) -> bool {
    let is_judged = match packet.first().map(|first| first >> 4) {
        Some(6) => matches!(packet.get(6), Some(6 | 17 | 58)),
        _ => packet.get(9) != Some(&58),
    };
    is_judged && described(packet).is_ok()
}

impl Case {
    /// A node that nothing was sent to.
    pub(crate) fn new(node: &str, threads: u8) -> Case {
        Case { node: node.into(), threads, batches: Vec::new() }
    }

    /// Sends frames to a node that got all before them, and tells what left.
    ///
    /// # Errors
    /// As [`Bench::send`].
    pub(crate) fn go_on(&mut self, bench: &mut Bench, arrivals: Arrivals) -> Result<Left, String> {
        self.batches.push(arrivals.clone());
        bench.send(&arrivals)
    }

    /// Ends a test: writes what went wrong, made short, to a file.
    pub(crate) fn fail(&self, seed: u64, wrong: &str) -> ! {
        let (short, file) = (self.shortened(), concat!(env!("CARGO_TARGET_TMPDIR"), "/hostile.txt"));
        std::fs::write(file, short.text()).expect("the target folder can be written to");
        let last = short.run().err().unwrap_or_default();
        panic!(
            "seed {seed}, {} threads: {wrong}\nmade short: {last}\n{}is in {file}",
            self.threads,
            short.text()
        );
    }

    /// What goes wrong in it.
    pub(crate) fn run(&self) -> Result<(), String> {
        let mut bench = Bench::new(&self.node, self.threads);
        self.batches.iter().try_for_each(|arrivals| bench.send(arrivals).map(drop))
    }

    /// A case that fails as well, with as few frames as halving and leaving out can find, one a batch if possible.
    pub(crate) fn shortened(&self) -> Case {
        let alone = |arrivals: &Arrivals| {
            let rest = arrivals.frames.iter().skip(1);
            let rest = rest.map(|frame| Arrivals { frames: vec![frame.clone()], ..Arrivals::default() });
            let first = arrivals.frames.iter().take(1).cloned().collect();
            [Arrivals { frames: first, ..arrivals.clone() }].into_iter().chain(rest).collect::<Vec<_>>()
        };
        let single = Case { batches: self.batches.iter().flat_map(alone).collect(), ..self.clone() };
        let best = if single.run().is_err() { single } else { self.clone() };
        let best = best.with_fewer(Case::without_batches);
        best.with_fewer(Case::without_frames)
            .with_fewer(Case::without_batches)
            .with_fewer(Case::without_change)
    }

    /// Without most of its parts: `without` takes a range of them out, as far as there are any.
    fn with_fewer(self, without: impl Fn(&Case, Range<usize>) -> Option<Case>) -> Case {
        let frames: usize = self.batches.iter().map(|arrivals| arrivals.frames.len()).sum();
        let (mut best, mut step) = (self, frames.next_power_of_two());
        while step > 0 {
            let mut at = 0;
            while let Some(fewer) = without(&best, at..at + step) {
                if fewer.run().is_err() { best = fewer } else { at += step }
            }
            step /= 2;
        }
        best
    }

    /// Without some batches; what comes behind them comes no earlier, and to the same node.
    fn without_batches(&self, these: Range<usize>) -> Option<Case> {
        let mut fewer = self.clone();
        let end = these.end.min(fewer.batches.len());
        let gone: Vec<Arrivals> =
            (these.start < end).then(|| fewer.batches.drain(these.start..end).collect())?;
        if let Some(next) = fewer.batches.get_mut(these.start) {
            next.after += gone.iter().map(|arrivals| arrivals.after).sum::<Duration>();
            next.node = next.node.take().or(gone.into_iter().rev().find_map(|arrivals| arrivals.node));
        }
        Some(fewer)
    }

    /// Without some frames, counted over all batches.
    fn without_frames(&self, these: Range<usize>) -> Option<Case> {
        let (mut fewer, mut n) = (self.clone(), 0..);
        let frames = fewer.batches.iter_mut().map(|arrivals| &mut arrivals.frames);
        frames.for_each(|frames| frames.retain(|_| n.next().is_some_and(|n| !these.contains(&n))));
        n.next().is_some_and(|count| these.start < count).then_some(fewer)
    }

    /// Without some of the changes of the node, counted by batches.
    fn without_change(&self, these: Range<usize>) -> Option<Case> {
        let mut fewer = self.clone();
        let gone = fewer.batches.iter_mut().skip(these.start).take(these.len());
        (these.start < self.batches.len()).then(|| gone.for_each(|arrivals| arrivals.node = None))?;
        Some(fewer)
    }

    /// As a file keeps it.
    pub(crate) fn text(&self) -> String {
        let mut text = format!("node {}\n", self.node);
        if self.threads > 1 {
            let _ = writeln!(text, "threads {}", self.threads);
        }
        for Arrivals { node, after, frames } in &self.batches {
            if let Some(node) = node {
                let _ = writeln!(text, "node {node}");
            }
            let _ = write!(text, "{}ms", after.as_millis());
            for (port, bytes) in frames {
                let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                let _ = write!(text, " {port} {hex}");
            }
            text.push('\n');
        }
        text
    }

    /// Reads it back; lines that begin with `#` say why it is kept.
    pub(crate) fn read(text: &str) -> Option<Case> {
        let mut lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).peekable();
        let node = lines.next()?.strip_prefix("node ")?.to_string();
        let threads = lines.next_if(|line| line.starts_with("threads "));
        let threads = threads.map_or(Some(1), |line| line.strip_prefix("threads ")?.parse().ok())?;
        let hex = |text: &str| {
            let byte = |at: usize| u8::from_str_radix(text.get(at..at + 2)?, 16).ok();
            (0..text.len()).step_by(2).map(byte).collect::<Option<Vec<u8>>>()
        };
        let batch = |line: &str, node| {
            let mut words = line.split_whitespace();
            let after = Duration::from_millis(words.next()?.strip_suffix("ms")?.parse().ok()?);
            let mut frames = Vec::new();
            while let Some(port) = words.next() {
                frames.push((port.parse().ok()?, hex(words.next()?)?));
            }
            Some(Arrivals { node, after, frames })
        };
        let (mut batches, mut becomes) = (Vec::new(), None);
        for line in lines {
            match line.strip_prefix("node ") {
                Some(node) => becomes = Some(node.to_string()),
                None => batches.push(batch(line, becomes.take())?),
            }
        }
        Some(Case { node, threads, batches })
    }
}
