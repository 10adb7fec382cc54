//! Does a capture account for every frame? Numbered frames are sent over a wire and captured to files as `weir capture`
//! does it; then the files are read, and each frame is compared with the sent one.
//!
//! ```text
//! generator > wire > session > files > each frame: as it was sent? once? in time?
//!   sent      =  lost on the wire + dropped by name  +  in files
//! ```

use std::fs::File;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use weir_capture::files::{Files, Target};
use weir_capture::session::{Limits, Recording, Report, Session, Signals};
use weir_capture::source::{Source, SourceError, Wanted};
use weir_capture::{Format, Rotation, Written};
use weir_linux::rtnl::Rtnl;
use weir_load::Control;
use weir_load::counts::{Load, Traffic};
use weir_load::xdp::pin_to;
use weir_packet::flow::Flow;
use weir_packet::frame::{Parsed, parse};
use weir_packet::size::FrameSizes;
use weir_port::bpf::now_ns;
use weir_port::capture::{Buffer, BufferSize, Method, Options};
use weir_port::pcapng::Packet;
use weir_port::pcapng::read::{Item, ReadError, Reader};
use weir_testbed::dut::DutKind;
use weir_testbed::journal::{self, Journal};

use crate::error::RunError;
use crate::frames::PointSpec;
use crate::frames::mirror::Mirror;
use crate::run::folder::Folder;

/// Sizes of the frames alternately, and how many flows they are of.
const SIZES: &str = "mix:64,65,66,128,300";
const FLOWS: u32 = 1000;
/// What every method takes on a slow machine, frames/s; more where there are so many frames that it would take longer than
/// [`STEADY_S`], up to [`MOST_FPS`].
const STEADY_FPS: f64 = 100e3;
const STEADY_S: f64 = 10.0;
const MOST_FPS: f64 = 500e3;
/// Sending at full speed takes no longer.
const LONGEST: Duration = Duration::from_secs(3600);
/// What is under way arrives within this time.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often the interface's counters are looked at meanwhile.
const LOOK: Duration = Duration::from_millis(2);
/// The clock of a method's stamps and ours are no further apart than that.
const CLOCKS_NS: u64 = 1_000_000;
/// Sockets of a fan-out.
const SOCKETS: u16 = 3;

/// What a capture is put through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// A rate that it can take, into files of a few MiB.
    Steady,
    /// All that the generator can send, with small buffers, and little of the generator's CPU.
    Overload,
    /// It ends while frames arrive.
    End,
}

impl Way {
    /// All of them with their names.
    pub const ALL: [(Way, &str); 3] = [
        (Way::Steady, "steady, rotated files"),
        (Way::Overload, "overload"),
        (Way::End, "ended in midstream"),
    ];

    fn options(self) -> Options {
        let plain = Options { sockets: SOCKETS, promiscuous: true, ..Options::default() };
        let time = Duration::from_millis(1);
        match self {
            Way::Overload => Options {
                buffer: Buffer { size: BufferSize::Time { rate: 1e6, time }, frame_bytes: 128 },
                block_bytes: 1 << 14,
                ..plain
            },
            Way::Steady | Way::End => plain,
        }
    }

    fn load(self, frames: u64) -> Load {
        let fps = (frames as f64 / STEADY_S).clamp(STEADY_FPS, MOST_FPS);
        let steady = |seconds: f64| Load::steady(fps, Duration::from_secs_f64(seconds));
        match self {
            Way::Steady => steady(frames as f64 / fps),
            Way::Overload => Load { max_frames: Some(frames), ..Load::full_speed(LONGEST) },
            // For as long as it takes; it is ended when the capture has.
            Way::End => steady(LONGEST.as_secs_f64()),
        }
    }
}

/// The outcome of one way to lose frames on one capture method.
#[derive(Debug, Default)]
pub struct Proof {
    /// Frames sent.
    pub sent: u64,
    /// Frames in files.
    pub captured: u64,
    /// Frames lost, by the name of the place.
    pub drops: Vec<(String, u64)>,
    /// Frames that were sent after the capture's end.
    pub after: u64,
    /// Files that they are in.
    pub files: usize,
    /// From a frame's departure to its stamp, ns: least, median, most.
    pub lag_ns: Option<[i64; 3]>,
    /// All that is not as it should be, in words.
    pub wrong: Vec<String>,
}

impl Proof {
    /// Frames lost at any place.
    pub fn dropped(&self) -> u64 {
        self.drops.iter().map(|(_, frames)| frames).sum()
    }
}

/// Why a capture could not be checked.
#[derive(Debug, thiserror::Error)]
pub enum CaptureCheckError {
    /// The wire, or sending over it.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The kernel refused something.
    #[error(transparent)]
    Linux(#[from] weir_linux::Error),
    /// The test bed's counters.
    #[error(transparent)]
    Testbed(#[from] weir_testbed::error::Error),
    /// The method.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The files could not be made.
    #[error("{}: {source}", .folder.display())]
    Folder {
        /// Where.
        folder: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A file cannot be read again.
    #[error("{}, {source}", .file.display())]
    File {
        /// Which one.
        file: PathBuf,
        /// Why not.
        source: ReadError,
    },
}

/// A wire and its sender.
pub struct CaptureChecker {
    mirror: Mirror,
    flows: Vec<Flow>,
    folder: PathBuf,
}

impl CaptureChecker {
    /// `folder` takes the files of one proof at a time: some 150 bytes a frame.
    ///
    /// # Errors
    /// Without the right to build test beds.
    pub fn new(folder: &Path) -> Result<CaptureChecker, CaptureCheckError> {
        let plain = PointSpec::plain(DutKind::WIRE, 64, FLOWS);
        let spec = PointSpec { frame: SIZES.parse().expect("written as sizes are"), ..plain };
        let mirror = Mirror::build(&spec, 1, &mut Journal::in_dir(&journal::default_dir()))?;
        let flows = mirror.traffic().flows.sequence();
        Ok(CaptureChecker { mirror, flows, folder: folder.into() })
    }

    /// Sends about so many frames, captures them, and reads them again.
    ///
    /// # Errors
    /// Where nothing could be sent, captured or read. What is wrong with what was, is in the proof.
    pub fn prove(&self, method: Method, way: Way, frames: u64) -> Result<Proof, CaptureCheckError> {
        let folder = |source| CaptureCheckError::Folder { folder: self.folder.clone(), source };
        let files = Folder::new(&self.folder).map_err(folder)?;
        let recording = recording(files.path(), way).map_err(folder)?;
        let wanted = Wanted { method: Some(method), options: way.options(), filter: String::new() };
        let before = self.mirror.ring_full()?;
        let start = || -> Result<_, CaptureCheckError> {
            let link = Rtnl::open()?.link(self.mirror.wire()[1])?;
            let source = Source::open(&link, wanted)?;
            Session::start(vec![source], Some(recording), Limits::default(), false).map_err(folder)
        };
        // Its threads inherit the CPU, and what they are there.
        let starved = way == Way::Overload;
        let cpu = if starved { self.mirror.sending_cpu() } else { self.mirror.other_cpu() };
        let session = on(cpu, || {
            if starved {
                give_way();
            }
            self.mirror.bed().tester().run(start)
        })?;
        let clocks = Clocks::read();
        let (report, sent) = self.capture(session, way, frames)?;
        let clocks = clocks.until(Clocks::read());
        let wire = self.mirror.ring_full()? - before;
        let mut seen = Seen::new(self.mirror.traffic(), &self.flows, sent, clocks);
        let paths = paths(files.path()).map_err(folder)?;
        for path in &paths {
            seen.read(path)?;
        }
        Ok(seen.close(way, &report, wire, paths.len()))
    }

    /// Captures what is sent meanwhile; returns how much that was.
    fn capture(&self, session: Session, way: Way, frames: u64) -> Result<(Report, u64), CaptureCheckError> {
        let (end_sending, end_capture) = (AtomicBool::new(false), AtomicBool::new(false));
        let start = self.arrived()?;
        let progress = |sent, _| {
            if way == Way::End && sent >= frames {
                end_capture.store(true, Ordering::Relaxed);
            }
        };
        std::thread::scope(|scope| {
            let sender = scope.spawn(|| {
                let control = Control::new(&end_sending, &progress);
                let all = self.mirror.send(&way.load(frames), None, &control).map(|sent| sent.stream.sent);
                if let (Ok(all), true) = (&all, way != Way::End) {
                    self.await_arrival(start + all)?;
                }
                end_capture.store(true, Ordering::Relaxed);
                Ok(all?)
            });
            let never = AtomicBool::new(false);
            let report = session
                .run(Signals { stop: &end_capture, trigger: &never, asks_to_reopen: &|| false }, |_| ());
            end_sending.store(true, Ordering::Relaxed);
            let sent = sender.join().expect("the sender does not panic");
            sent.map(|sent| (report, sent))
        })
    }

    /// Frames that have reached the remote end of the wire so far, or were lost on it.
    fn arrived(&self) -> Result<u64, CaptureCheckError> {
        let devices = self.mirror.bed().snapshot()?.devices;
        let [sender, listener] = self.mirror.wire().map(|name| devices[name].link);
        Ok(listener.rx_packets + sender.tx_dropped)
    }

    /// Waits until `frames` have arrived, as far as they do: the accounting will tell.
    fn await_arrival(&self, frames: u64) -> Result<(), CaptureCheckError> {
        let begin = Instant::now();
        while self.arrived()? < frames && begin.elapsed() < PATIENCE {
            std::thread::sleep(LOOK);
        }
        Ok(())
    }
}

/// Does something on one CPU.
fn on<T: Send>(cpu: usize, what: impl FnOnce() -> T + Send) -> T {
    let pinned = || {
        let placed = pin_to(cpu);
        debug_assert!(placed.is_ok(), "{placed:?}");
        what()
    };
    std::thread::scope(|scope| scope.spawn(pinned).join().expect("it does not panic"))
}

/// Leaves most of its CPU to others: this thread, and those that it starts.
fn give_way() {
    const NICE: i32 = 15;
    // SAFETY: no pointers. Zero is the calling thread; lowering the priority needs no privilege.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICE) };
}

/// Files of their own for one proof.
fn recording(folder: &Path, way: Way) -> io::Result<Recording> {
    let target = Target { path: folder.join("x.pcapng"), numbered: true, keep: None, append: false };
    Ok(Recording {
        files: Files::of(&target)?,
        rotation: Rotation::Bytes(2 << 20),
        format: Format::Pcapng,
        compress: false,
        before: None,
        memory: if way == Way::Overload { 4 << 20 } else { 256 << 20 },
        application: "weir check".into(),
        system: String::new(),
    })
}

/// The files in a folder, in the order of their names.
fn paths(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path()));
    let mut paths = entries.collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

/// What has to be added to CLOCK_MONOTONIC for the time since 1970, ns: at least and at most, and that time.
#[derive(Debug, Clone, Copy)]
struct Clocks {
    least: u64,
    most: u64,
    now: u64,
}

impl Clocks {
    fn read() -> Clocks {
        let before = now_ns();
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let now = since.map_or(0, |since| since.as_nanos() as u64);
        Clocks { least: now - now_ns(), most: now - before, now }
    }

    fn until(self, end: Clocks) -> Clocks {
        Clocks { least: self.least.min(end.least), most: self.most.max(end.most), now: end.now }
    }
}

/// What the files hold.
struct Seen<'a> {
    traffic: &'a Traffic,
    flows: &'a [Flow],
    sent: u64,
    clocks: Clocks,
    /// A bit for each frame that was sent.
    numbers: Vec<u64>,
    /// Stamp of the newest frame of each queue.
    newest: Vec<u64>,
    lags: Vec<i64>,
    captured: u64,
    /// Frames sent of each flow up to its last one in the files. The queues of a fan-out do not end at once, but each
    /// flow is in one of them.
    until: Vec<u64>,
    /// Drops that frames tell of.
    reported: u64,
    altered: u64,
    foreign: u64,
    twice: u64,
    backwards: u64,
    untimely: u64,
}

impl<'a> Seen<'a> {
    fn new(traffic: &'a Traffic, flows: &'a [Flow], sent: u64, clocks: Clocks) -> Seen<'a> {
        Seen {
            traffic,
            flows,
            sent,
            clocks,
            numbers: vec![0; sent.div_ceil(64) as usize],
            newest: Vec::new(),
            lags: Vec::new(),
            captured: 0,
            until: vec![0; flows.len()],
            reported: 0,
            altered: 0,
            foreign: 0,
            twice: 0,
            backwards: 0,
            untimely: 0,
        }
    }

    fn read(&mut self, path: &Path) -> Result<(), CaptureCheckError> {
        let wrong = |source| CaptureCheckError::File { file: path.into(), source };
        let file =
            File::open(path).map_err(|source| CaptureCheckError::Folder { folder: path.into(), source })?;
        let mut reader = Reader::open(BufReader::with_capacity(1 << 20, file)).map_err(wrong)?;
        while let Some(item) = reader.next_item().map_err(wrong)? {
            if let Item::Packet(packet) = item {
                self.see(&packet);
            }
        }
        Ok(())
    }

    fn see(&mut self, packet: &Packet<'_>) {
        self.captured += 1;
        self.reported += packet.dropped;
        let Parsed::Test(signature) = parse(packet.bytes) else {
            self.foreign += 1;
            return;
        };
        let number = u64::from(signature.seq);
        if number >= self.sent {
            self.foreign += 1;
            return;
        }
        let flow = &self.flows[number as usize % self.flows.len()];
        let size = match &self.traffic.sizes {
            FrameSizes::Cycle { sizes, .. } => sizes[number as usize % sizes.len()],
            others => others.max(),
        };
        let whole = self.traffic.ends[0].carry(self.traffic.transport, flow, size, signature);
        self.altered += u64::from(whole != packet.bytes || packet.wire_len as usize != whole.len());
        let (word, bit) = (&mut self.numbers[number as usize / 64], 1 << (number % 64));
        self.twice += u64::from(*word & bit != 0);
        *word |= bit;
        let (turn, flow) = (number / self.flows.len() as u64, number as usize % self.flows.len());
        self.until[flow] = self.until[flow].max(turn + 1);
        self.time(packet, signature.time_ns);
    }

    fn time(&mut self, packet: &Packet<'_>, sent_ns: u64) {
        let queue = packet.interface as usize;
        self.newest.resize(self.newest.len().max(queue + 1), 0);
        self.backwards += u64::from(packet.at_ns < self.newest[queue]);
        self.newest[queue] = packet.at_ns;
        let (from, until) = (sent_ns + self.clocks.least, self.clocks.now);
        let timely = from.saturating_sub(CLOCKS_NS)..=until + CLOCKS_NS;
        self.untimely += u64::from(!timely.contains(&packet.at_ns));
        self.lags.push(packet.at_ns.wrapping_sub(sent_ns + self.clocks.most).cast_signed());
    }

    /// The accounting of a capture, of which the wire lost some frames before.
    fn close(mut self, way: Way, report: &Report, wire: u64, files: usize) -> Proof {
        let accounting = &report.accounting[0];
        let mut drops: Vec<(String, u64)> =
            accounting.drops.iter().map(|drops| (drops.name.to_string(), drops.frames)).collect();
        let own: u64 = drops.iter().map(|(_, frames)| frames).sum();
        drops.push(("the disk was too slow".into(), report.slow()));
        drops.push(("interface ring full".into(), wire));
        drops.retain(|(_, frames)| *frames > 0);
        let mut proof = Proof { sent: self.sent, captured: self.captured, drops, files, ..Proof::default() };
        let mut wrong = self.complaints();
        let until: u64 = self.until.iter().sum();
        let missing = until - (self.captured - self.twice - self.foreign);
        let dropped = proof.dropped();
        if way == Way::End {
            proof.after = self.sent - until;
            if missing > dropped {
                wrong.push(format!(
                    "{missing} frames are missing before the last of their flow, {dropped} were dropped"
                ));
            }
        } else if self.sent != self.captured + dropped {
            wrong.push(format!(
                "{} frames were sent, {} are accounted for",
                self.sent,
                self.captured + dropped
            ));
        }
        if self.reported > own + report.slow() {
            wrong.push(format!(
                "the gaps have {} drops, the frame accounting has {}",
                self.reported,
                own + report.slow()
            ));
        }
        match accounting.unexplained() {
            Some(0) => {}
            unexplained => wrong.push(format!("accounting of the interface: {unexplained:?} unexplained")),
        }
        let Some(Written { frames, error: None, .. }) = &report.written else {
            wrong.push(format!("writing failed: {:?}", report.written));
            return Proof { wrong, ..proof };
        };
        if *frames != self.captured {
            wrong.push(format!("{frames} frames were written, {} are in the files", self.captured));
        }
        if !self.lags.is_empty() {
            self.lags.sort_unstable();
            let last = self.lags.len() - 1;
            proof.lag_ns = Some([0, last / 2, last].map(|i| self.lags[i]));
        }
        Proof { wrong, ..proof }
    }

    fn complaints(&self) -> Vec<String> {
        let counts = [
            (self.altered, "differ from the sent ones"),
            (self.foreign, "were never sent"),
            (self.twice, "are in the files twice"),
            (self.backwards, "have an earlier stamp than the previous frame of their queue"),
            (self.untimely, "have a stamp before their departure, or after the end"),
        ];
        let some = counts.into_iter().filter(|(frames, _)| *frames > 0);
        some.map(|(frames, what)| format!("{frames} frames {what}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use weir_packet::flow::{Direction, FlowOrder, FlowSpec, HOSTS};
    use weir_packet::frame::{Ends, Signature, Transport};

    use super::*;

    const DEPARTURE_NS: u64 = 5_000_000_000;
    const CLOCKS: Clocks =
        Clocks { least: 1_000_000_000_000, most: 1_000_000_000_001, now: 1_010_000_000_000 };

    fn traffic() -> Traffic {
        let ends = Ends::v4([2; 6], [4; 6]);
        let order = FlowOrder::Sequential;
        let flows =
            FlowSpec { count: 3, order, groups: 1, hosts: HOSTS, networks: 1, src: 1, dst: 2, seed: 1 };
        let sizes = "mix:64,70".parse().unwrap();
        let (transport, direction) = (Transport::Udp, Direction::Forward);
        Traffic { sizes, transport, direction, flows, ends: [ends, ends], seed: 1 }
    }

    fn sent(traffic: &Traffic, number: u32) -> Vec<u8> {
        let flow = traffic.flows.flow(number % 3);
        let signature = Signature { seq: number, time_ns: DEPARTURE_NS, ..Signature::default() };
        traffic.ends[0].frame(&flow, if number.is_multiple_of(2) { 64 } else { 70 }, signature)
    }

    /// Complaints about frames number 0 to 4, one of which was changed or stamped so much later than it was sent.
    fn complaints(change: impl Fn(u32, &mut Vec<u8>, &mut i64)) -> Vec<String> {
        let traffic = traffic();
        let flows = traffic.flows.sequence();
        let mut seen = Seen::new(&traffic, &flows, 5, CLOCKS);
        for number in 0..5 {
            let (mut bytes, mut lag) = (sent(&traffic, number), 1000 + i64::from(number));
            change(number, &mut bytes, &mut lag);
            let at_ns = (DEPARTURE_NS + CLOCKS.least).checked_add_signed(lag).unwrap();
            let wire_len = bytes.len() as u32;
            seen.see(&Packet { interface: 0, at_ns, wire_len, bytes: &bytes, dropped: 0 });
        }
        assert_eq!(seen.captured, 5);
        seen.complaints()
    }

    #[test]
    fn frames_as_they_were_sent_are_no_reason_for_complaints() {
        assert_eq!(complaints(|_, _, _| ()), [""; 0]);
    }

    #[test]
    fn each_thing_that_is_wrong_is_named() {
        let one = |what: &str| vec![format!("1 frames {what}")];
        let is = |n: u32| n == 2;
        // Another MAC address is covered by no checksum.
        let found = complaints(|n, bytes, _| bytes[0] ^= u8::from(is(n)));
        assert_eq!(found, one("differ from the sent ones"));
        let found = complaints(|n, bytes, _| bytes.truncate(if is(n) { 59 } else { 99 }));
        assert_eq!(found, one("were never sent"));
        let found = complaints(|n, bytes, _| {
            if is(n) {
                *bytes = sent(&traffic(), 1);
            }
        });
        assert_eq!(found, one("are in the files twice"));
        let found = complaints(|n, bytes, _| {
            if is(n) {
                *bytes = sent(&traffic(), 5);
            }
        });
        assert_eq!(found, one("were never sent"));
        let found = complaints(|n, _, lag| *lag -= if is(n) { 2 } else { 0 });
        assert_eq!(found, one("have an earlier stamp than the previous frame of their queue"));
        let found = complaints(|n, _, lag| *lag += if n == 4 { 6_000_000_000 } else { 0 });
        assert_eq!(found, one("have a stamp before their departure, or after the end"));
        let found = complaints(|n, _, lag| *lag -= if n == 0 { 2_000_000 } else { 0 });
        assert_eq!(found, one("have a stamp before their departure, or after the end"));
    }
}
