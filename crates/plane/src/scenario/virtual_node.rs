//! The plane, or several as the threads of a node, as the target of a scenario, in virtual time. What it asks about neighbours is answered: all addresses
//! are of one host at each end.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use weir_packet::frame::Mac;
use weir_packet::neighbour::{self, Heard, Host};

use super::ether;
use super::run::Target;
use super::shelf::Vector;
use super::text::End;
use crate::batch::{BATCH, Batch, Verdict};
use crate::config::Config;
use crate::fast::{FastState, FastTable};
use crate::filter::Count;
use crate::frame::{ETHERNET, Frame, HEAD_ROOM, PortId};
use crate::kept::Shelf;
use crate::plane::{Accounting, Departure, Leave, Plane};
use crate::prefix::Prefix;
use crate::sessions::Cursor;
use crate::threads::{Ingress, Share};
use crate::time::Time;

/// The hosts at the left and the right end.
const HOSTS: [Mac; 2] = [[0x02, 0, 0, 0, 0xcc, 1], [0x02, 0, 0, 0, 0xcc, 2]];
/// How often the node hears of time that passes without frames.
const TICK: Duration = Duration::from_millis(500);

/// A model of a fast path, which forwards frames in place of the plane.
pub trait FastPathModel: std::fmt::Debug {
    /// What the plane fills.
    fn table(&self) -> Box<dyn FastTable>;
    /// A frame comes in by a port, at which frames must be for this address if there is one: the port it leaves by and what it
    /// is then, or `None` if it is left to the plane.
    fn pass(&mut self, now: Time, port: PortId, mac: Option<Mac>, frame: &[u8]) -> Option<(PortId, Vec<u8>)>;
}

/// A node in virtual time.
#[derive(Debug)]
pub struct VirtualNode {
    /// By thread.
    planes: Vec<Plane>,
    /// By thread, the frames that its plane keeps.
    shelves: Vec<Shelf<Vector>>,
    threads: u8,
    /// The thread that the next batch comes to.
    next: usize,
    config: Option<Config>,
    now: Duration,
    left: Vec<(End, Vec<u8>)>,
    /// Networks in which no host answers.
    nobody_at: Vec<Prefix>,
    /// Frames that have come and are no batch yet; `None` where each is a batch of its own.
    arrived: Option<Vec<(PortId, Vec<u8>)>>,
    /// Its planes have flow caches.
    is_cached: bool,
    /// Passes frames on in the plane's place.
    fast: Option<Box<dyn FastPathModel>>,
    /// Time passes from one thing that is due to the next, and not in steps.
    by_due: bool,
}

/// Frames on their way to a thread.
struct Bunch {
    thread: usize,
    frames: Vec<(PortId, Ingress, Vec<u8>)>,
}

impl Default for VirtualNode {
    fn default() -> VirtualNode {
        VirtualNode::of_threads(1)
    }
}

impl VirtualNode {
    /// A node of so many threads, to which frames come alternately.
    pub fn of_threads(threads: u8) -> VirtualNode {
        VirtualNode {
            planes: Vec::new(),
            shelves: (0..threads).map(|_| Shelf::default()).collect(),
            threads,
            next: 0,
            config: None,
            now: Duration::ZERO,
            left: Vec::new(),
            nobody_at: Vec::new(),
            arrived: None,
            is_cached: false,
            fast: None,
            by_due: false,
        }
    }

    /// What all threads have counted.
    pub fn accounting(&self) -> Accounting {
        let mut all = Accounting::default();
        self.planes.iter().for_each(|plane| all.add(&plane.accounting()));
        all
    }

    /// Mappings, sessions and connections, by thread.
    pub fn sessions(&self) -> Vec<Vec<String>> {
        let of = |plane: &Plane| {
            let (mut all, mut from) = (Vec::new(), Some(Cursor::default()));
            while let Some(at) = from {
                let (some, next) = plane.sessions(at);
                all.extend(some.iter().map(ToString::to_string));
                from = next;
            }
            all
        };
        self.planes.iter().map(of).collect()
    }

    /// The rules of all filters as they were written, with what they held for, by thread.
    pub fn rules(&self) -> Vec<Vec<Vec<(String, Count)>>> {
        self.planes.iter().map(Plane::filter_counts).collect()
    }

    /// The same; in this network no host has an address.
    pub fn with_nobody_at(mut self, network: Prefix) -> VirtualNode {
        self.nobody_at.push(network);
        self
    }

    /// A frame comes in at an end, Ethernet header first.
    pub fn send_frame(&mut self, at: Duration, end: End, frame: &[u8]) {
        if at > self.now {
            self.wait(at);
        }
        self.frames(&[(self.first(end), frame.to_vec())]);
    }

    fn mac(port: PortId) -> Mac {
        let [high, low] = port.0.to_be_bytes();
        [0x02, 0, 0, high, 0xaa, low]
    }

    fn has_lines(&self, port: PortId) -> bool {
        let port = self.config.as_ref().and_then(|config| config.ports.get(usize::from(port.0)));
        port.is_some_and(|port| !port.vlan.is_fixed())
    }

    fn end(&self, port: PortId) -> End {
        let is_left = self.config.as_ref().is_some_and(|config| config.is_left(port.0.into()));
        if is_left { End::Left } else { End::Right }
    }

    /// The first port of an end.
    fn first(&self, end: End) -> PortId {
        let dir = if end == End::Left { crate::Dir::Inward } else { crate::Dir::Outward };
        self.config.as_ref().map_or(PortId(0), |config| config.across(dir))
    }

    /// The same, to which frames that come right behind each other come in one batch.
    pub fn in_batches(self) -> VirtualNode {
        VirtualNode { arrived: Some(Vec::new()), ..self }
    }

    /// The same with flow caches.
    pub fn with_flow_caches(self) -> VirtualNode {
        VirtualNode { is_cached: true, ..self }
    }

    /// The same, where frames come to the plane only if this leaves them to it; for a node of one thread.
    pub fn with_fast(self, fast: Box<dyn FastPathModel>) -> VirtualNode {
        VirtualNode { fast: Some(fast), ..self }
    }

    /// The fast path, if it has one.
    pub fn fast_state(&self) -> Option<FastState> {
        self.planes.first()?.fast_state()
    }

    /// Those of these frames that are left to the plane.
    fn left_to_plane(&mut self, frames: Vec<(PortId, Ingress, Vec<u8>)>) -> Vec<(PortId, Ingress, Vec<u8>)> {
        let Some(mut fast) = self.fast.take() else { return frames };
        let now = Time::default() + self.now;
        let mut others = Vec::new();
        for (port, ingress, bytes) in frames {
            let is_router = self.config.as_ref().is_some_and(|config| config.routes.is_some());
            match fast.pass(now, port, is_router.then(|| Self::mac(port)), &bytes) {
                Some((out, bytes)) => self.leaves(Some(out), bytes),
                None => others.push((port, ingress, bytes)),
            }
        }
        self.fast = Some(fast);
        others
    }

    /// What entries were used for is known.
    fn settle(&mut self) {
        self.planes.iter_mut().for_each(Plane::settle_fast);
    }

    /// The same; its planes are told the time only when something is due.
    pub fn when_due(self) -> VirtualNode {
        VirtualNode { by_due: true, ..self }
    }

    /// The next moment before `until` at which the planes hear of time.
    fn next_tick(&self, until: Duration) -> Duration {
        if !self.by_due {
            return (self.now + TICK).min(until);
        }
        let now = Time::default() + self.now;
        let due = self.planes.iter().filter_map(|plane| plane.due(now)).min();
        due.map_or(until, |due| (due - Time::default()).clamp(self.now, until))
    }

    /// Frames that passed by flow caches.
    pub fn cached_frames(&self) -> u64 {
        self.planes.iter().map(Plane::cached_frames).sum()
    }

    /// A frame with the tags of the port that it comes in by, or of its first line, unless the frame says its own.
    fn tagged(&self, port: PortId, mut frame: Vec<u8>) -> Vec<u8> {
        let port = self.config.as_ref().and_then(|config| config.ports.get(usize::from(port.0)));
        let at = ETHERNET - 2;
        if let Some(port) = port.filter(|_| !ether::has_tags(&frame[at..])) {
            frame.splice(at..at, port.tags().concat());
        }
        frame
    }

    /// A frame without the tags of the port that it left by, or of its first line; of one for the machine, without any.
    fn untagged(&self, port: Option<PortId>, mut frame: Vec<u8>) -> Vec<u8> {
        let at = ETHERNET - 2;
        let port = port.and_then(|port| self.config.as_ref()?.ports.get(usize::from(port.0)));
        let Some(port) = port else {
            while ether::has_tags(&frame[at..]) {
                frame.drain(at..at + 4);
            }
            return frame;
        };
        let own = port.tags().concat();
        if frame[at..].starts_with(&own) {
            frame.drain(at..at + own.len());
        }
        frame
    }

    /// The packet of a frame, or what stands for a frame that is none of IP, see `ether.rs`.
    fn packet(frame: &[u8]) -> Vec<u8> {
        match &frame[ETHERNET - 2..] {
            [0x08, 0x00, packet @ ..] | [0x86, 0xdd, packet @ ..] => packet.to_vec(),
            other => [&[0], other].concat(),
        }
    }

    /// What has come is a batch now.
    fn take(&mut self) {
        let arrived = self.arrived.as_mut().map(std::mem::take).unwrap_or_default();
        arrived.chunks(BATCH).for_each(|some| self.frames(some));
    }

    /// Frames come in, and so do the answers to what the node asks because of them.
    fn frames(&mut self, frames: &[(PortId, Vec<u8>)]) {
        let thread = self.next;
        self.next = (self.next + 1) % self.planes.len();
        let frames = frames.iter().map(|(port, bytes)| (*port, Ingress::Wire, bytes.clone())).collect();
        let frames = self.left_to_plane(frames);
        if frames.is_empty() {
            return;
        }
        self.run_planes(VecDeque::from([Bunch { thread, frames }]));
    }

    /// Leads frames through planes until nothing waits to be handed over.
    fn run_planes(&mut self, mut waiting: VecDeque<Bunch>) {
        while let Some(bunch) = waiting.pop_front() {
            self.pass(&bunch, &mut waiting);
        }
    }

    fn pass(&mut self, Bunch { thread, frames }: &Bunch, waiting: &mut VecDeque<Bunch>) {
        let now = Time::default() + self.now;
        let mut bufs: Vec<Vec<u8>> =
            frames.iter().map(|(_, _, bytes)| [&[0; HEAD_ROOM], &bytes[..]].concat()).collect();
        let mut batch = Batch::default();
        for (buf, (port, ingress, _)) in bufs.iter_mut().zip(frames) {
            let end = buf.len();
            let frame = Frame::new(buf, HEAD_ROOM, end, *port);
            match ingress {
                Ingress::Wire => batch.push(frame),
                ingress => batch.push_handed(frame, *ingress),
            }
        }
        self.planes[*thread].run(now, &mut batch);
        let mut outcome = Vec::new();
        for (frame, verdict) in batch.outcome() {
            match verdict {
                Verdict::Kept(ticket) => self.shelves[*thread].copy(ticket, frame),
                verdict => outcome.push((verdict, frame.port, frame.bytes().to_vec())),
            }
        }
        self.go(outcome, waiting);
        self.depart(waiting);
    }

    /// Frames go where a plane says.
    fn go(&mut self, frames: Vec<(Verdict, PortId, Vec<u8>)>, waiting: &mut VecDeque<Bunch>) {
        for (verdict, from, bytes) in frames {
            match verdict {
                Verdict::Out(port) => self.leaves(Some(port), bytes),
                Verdict::Punted(_) => self.leaves(None, bytes),
                Verdict::Control(_) => {
                    self.left.push((End::Control, Self::packet(&self.untagged(None, bytes))))
                }
                Verdict::Handed(to) => {
                    waiting
                        .push_back(Bunch { thread: to.to.into(), frames: vec![(from, to.ingress, bytes)] });
                }
                _ => {}
            }
        }
    }

    /// Frames that planes have kept go on.
    fn resume(&mut self, waiting: &mut VecDeque<Bunch>) {
        let now = Time::default() + self.now;
        let both = self.shelves.iter_mut().zip(&mut self.planes);
        let outcome = both.flat_map(|(shelf, plane)| shelf.resume(plane, now)).collect();
        self.go(outcome, waiting);
    }

    /// Threads hear what others tell of neighbours.
    fn exchange_news(&mut self) {
        let now = Time::default() + self.now;
        for thread in 0..self.planes.len() {
            for news in self.planes[thread].neighbour_news().collect::<Vec<_>>() {
                let others = self.planes.iter_mut().enumerate().filter(|(other, _)| *other != thread);
                others.for_each(|(_, plane)| plane.on_neighbour_news(now, &news));
            }
        }
    }

    /// What the planes say of their own leaves, or waits for another thread.
    fn depart(&mut self, waiting: &mut VecDeque<Bunch>) {
        self.exchange_news();
        self.resume(waiting);
        let departures: Vec<_> =
            self.planes.iter_mut().flat_map(|plane| plane.departures().collect::<Vec<_>>()).collect();
        for Departure { to, bytes } in departures {
            match to {
                Leave::Port(port) => self.leaves(Some(port), bytes),
                Leave::Machine(..) => self.leaves(None, bytes),
                Leave::Thread(to, from) => {
                    waiting
                        .push_back(Bunch { thread: to.to.into(), frames: vec![(from, to.ingress, bytes)] });
                }
            }
        }
    }

    fn leaves(&mut self, port: Option<PortId>, bytes: Vec<u8>) {
        let is_untagged =
            port.is_some_and(|port| self.has_lines(port)) && !ether::has_tags(&bytes[ETHERNET - 2..]);
        let bytes = self.untagged(port, bytes);
        let heard = neighbour::parse(&bytes);
        let Some(port) = port else {
            // What the node has learnt from, the machine may learn from too.
            if heard.is_none() {
                self.left.push((End::Local, Self::packet(&bytes)));
            }
            return;
        };
        match heard {
            Some(Heard::Question { target, .. })
                if self.nobody_at.iter().any(|network| network.contains(target)) => {}
            Some(Heard::Question { from, target }) => {
                let host = Host { mac: HOSTS[usize::from(self.end(port) == End::Right)], ip: target };
                let answer = self.tagged(port, neighbour::answer(host, from));
                self.frames(&[(port, answer)]);
            }
            Some(Heard::Answer(_)) => {}
            None if is_untagged => self.left.push((self.end(port), [&[0], &bytes[ETHERNET - 2..]].concat())),
            None => self.left.push((self.end(port), Self::packet(&bytes))),
        }
    }

    fn tick(&mut self) {
        let now = Time::default() + self.now;
        self.planes.iter_mut().for_each(|plane| while plane.tick(now) {});
        let mut waiting = VecDeque::new();
        self.depart(&mut waiting);
        self.run_planes(waiting);
    }
}

impl Target for VirtualNode {
    fn configure(&mut self, text: &str) -> Result<(), String> {
        self.take();
        let config = Config::read("node", text).map_err(|mistakes| mistakes.to_string())?;
        let macs: Vec<Mac> = (0..config.ports.len()).map(|port| Self::mac(PortId(port as u16))).collect();
        let config = match &self.config {
            Some(old) => config.instead_of(old, self.threads)?,
            None => config.shared_by(self.threads),
        };
        config.may_share(self.threads)?;
        let threads = 0..self.threads;
        let of_threads =
            threads.map(|thread| Config { share: Share { thread, of: self.threads }, ..config.clone() });
        if let Some(old) = &self.config {
            let now = Time::default() + self.now;
            for (plane, config) in self.planes.iter_mut().zip(of_threads) {
                plane.apply(now, old, &config)?;
            }
            let mut waiting = VecDeque::new();
            self.depart(&mut waiting);
            self.run_planes(waiting);
        } else {
            self.planes = of_threads.map(|config| Plane::new(&config, &macs)).collect();
            self.planes.iter_mut().for_each(|plane| plane.cache_flows(self.is_cached));
            self.planes.iter_mut().for_each(|plane| plane.set_control(true));
            if let (Some(fast), [plane]) = (&self.fast, &mut self.planes[..]) {
                plane.set_fast(fast.table());
                plane.use_fast(true);
            }
        }
        self.config = Some(config);
        Ok(())
    }

    fn send(&mut self, at: Duration, end: End, packet: &[u8]) {
        if at > self.now {
            self.wait(at);
        }
        let port = self.first(end);
        let (ether_type, source, packet): (&[u8], _, _) = match packet[0] >> 4 {
            4 => (&[8, 0], 12..16, packet),
            6 => (&[0x86, 0xdd], 20..24, packet),
            _ => (&[], 0..4, &packet[1..]),
        };
        let (source, is_untagged) = match ether::behind_tags(packet) {
            Some((inner, is_untagged)) => (ether::source(inner), is_untagged),
            None => (ether::in_session(packet).and_then(ether::source).or(packet.get(source)), false),
        };
        // Each host has an Ethernet address of its own.
        let host = [&[2, 0xcc], source.unwrap_or(&[0; 4])].concat();
        let frame = [&Self::mac(port), &host[..], ether_type, packet].concat();
        let frame = if is_untagged { frame } else { self.tagged(port, frame) };
        match &mut self.arrived {
            Some(arrived) => arrived.push((port, frame)),
            None => self.frames(&[(port, frame)]),
        }
    }

    fn wait(&mut self, until: Duration) {
        self.take();
        while self.now < until {
            self.now = self.next_tick(until);
            self.tick();
        }
    }

    fn left(&mut self) -> Vec<(End, Vec<u8>)> {
        self.take();
        self.settle();
        std::mem::take(&mut self.left)
    }

    fn patience(&self) -> u32 {
        1
    }

    fn drops(&self) -> Option<BTreeMap<String, u64>> {
        let drops = self.accounting().drops;
        Some(drops.occurred().map(|(reason, frames)| (reason.name().to_string(), frames)).collect())
    }

    fn sound(&self) -> Result<(), String> {
        let accounting = self.accounting();
        let all = self.planes.iter().all(|plane| plane.accounting().balance());
        if all && accounting.handed == accounting.taken {
            Ok(())
        } else {
            Err(format!("the frame accounting does not balance: {accounting:?}"))
        }
    }
}
