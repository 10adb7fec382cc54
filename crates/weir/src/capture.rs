//! `weir capture` and `weir pps`: captures or counts the frames of interfaces, and accounts for each of them.

use std::io::{ErrorKind, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use signal_hook::consts::SIGUSR1;
use weir_capture::files::{Files, Target};
use weir_capture::filter;
use weir_capture::privilege as privileges;
use weir_capture::session::{End, Limits, Recording, Report, Session, Signals, View};
use weir_capture::source::{Source, Wanted};
use weir_capture::{Format, Rotation, privilege::User};
use weir_config::plain;
use weir_lab::interface;
use weir_linux::rtnl::Link;
use weir_port::capture::{BufferSize, Options};

use crate::live::Live;
use crate::outcome::Outcome;
use crate::{cli, privilege, run};
use weir_service::prometheus::Server;
use weir_service::say;
use weir_service::signals::Hangup;
use weir_service::units::{bits, rate};

mod hint;
mod json;
mod prometheus;
mod stats;
mod text;

/// All interfaces.
const ANY: &str = "any";
const LOOPBACK: &str = "lo";
/// Most threads for an interface without --threads.
const MOST_THREADS: usize = 4;

/// Captures until the end, and completes the accounting.
pub(crate) fn capture(arguments: &cli::Capture, out: &mut impl Write) -> Result<Outcome> {
    if arguments.list {
        return list(out).map(|()| Outcome::Done);
    }
    // A wrong filter is reported without privileges, too.
    if !arguments.filter.is_empty() {
        filter::check(&arguments.filter)?;
    }
    let links = ethernet(&arguments.interfaces)?;
    check_permission()?;
    let (hangup, trigger) = (Hangup::of_service()?, Arc::new(AtomicBool::new(false)));
    signal_hook::flag::register(SIGUSR1, trigger.clone())?;
    let files = arguments.write.as_deref().map(|path| files(arguments, path)).transpose()?;
    let files = files.map(|files| {
        let hangup = hangup.clone();
        files.until(move || hangup.ends())
    });
    let scraped = arguments.prometheus.map(weir_service::prometheus::listen).transpose()?;
    let mut sources = Vec::new();
    for link in &links {
        let source = Source::open(link, wanted(arguments))?;
        say::say(&format!("capturing on {}: {}, {}", link.name, source.method, source.reason));
        source.obstacles.iter().for_each(|obstacle| say::say(&format!("note: {obstacle}")));
        sources.push(source);
    }
    give_up_privileges()?;
    privileges::run_no_program();

    let details = arguments.stats || arguments.json || arguments.prometheus.is_some();
    let recording = files.map(|files| recording(arguments, files));
    let limits = Limits { duration: arguments.duration, frames: arguments.count, bytes: arguments.size };
    let session = match Session::start(sources, recording, limits, details) {
        Err(error) if error.kind() == ErrorKind::Interrupted => {
            let pipe = arguments.write.as_deref().unwrap_or(Path::new("the pipe")).display();
            say::say(&format!("interrupted: {pipe} has no reader yet; nothing was captured"));
            return Ok(Outcome::Interrupted);
        }
        started => started.with_context(|| file_error(arguments))?,
    };
    let server = scraped.map(Server::start).transpose()?;
    let mut shown = Shown::new(arguments, !arguments.filter.is_empty());
    let mut broken = None;
    let signals =
        Signals { stop: hangup.stop(), trigger: &trigger, asks_to_reopen: &|| hangup.asks_to_reopen() };
    let report = session.run(signals, |view| {
        if let Some(server) = &server {
            server.publish(prometheus::page(view));
        }
        if arguments.json && broken.is_none() {
            broken = writeln!(out, "{}", json::second(view)).and_then(|()| out.flush()).err();
            // The reader of the output has gone.
            hangup.stop().fetch_or(broken.is_some(), Ordering::Relaxed);
        }
        shown.update(view);
    });
    shown.finish();
    if let Some(error) = broken {
        return Err(error.into());
    }
    if arguments.json {
        writeln!(out, "{}", json::end(&report))?;
    } else if arguments.to_stdout() {
        say::say(text::report(&report, arguments.keep).trim_end());
    } else {
        out.write_all(text::report(&report, arguments.keep).as_bytes())?;
    }
    outcome(arguments, report)
}

/// `weir pps`: one line per second.
pub(crate) fn pps(arguments: &cli::Pps, out: &mut impl Write) -> Result<Outcome> {
    if !arguments.filter.is_empty() {
        filter::check(&arguments.filter)?;
    }
    let link = interface::find(&arguments.interface)?;
    check_permission()?;
    let stop = run::stop_flag()?;
    let options = Options { snap: 64, sockets: threads(None), promiscuous: true, ..Options::default() };
    let source = Source::open(&link, Wanted { method: None, options, filter: arguments.filter.clone() })?;
    source.obstacles.iter().for_each(|obstacle| say::say(&format!("note: {obstacle}")));
    give_up_privileges()?;
    privileges::run_no_program();
    let limits = Limits { duration: arguments.duration, ..Limits::default() };
    let session = Session::start(vec![source], None, limits, false)?;
    let never = AtomicBool::new(false);
    let mut broken = Ok(());
    let report = session.run(Signals { stop: &stop, trigger: &never, asks_to_reopen: &|| false }, |view| {
        let sum =
            |value: fn(&weir_capture::session::QueueView) -> f64| view.queues.iter().map(value).sum::<f64>();
        let (fps, bit_rate, drops) = (sum(|q| q.frames_per_s), sum(|q| q.bits_per_s), sum(|q| q.drops_per_s));
        if broken.is_ok() {
            broken = writeln!(out, "{}, {}, lost {}", rate(fps), bits(bit_rate), rate(drops))
                .and_then(|()| out.flush());
        }
        if broken.is_err() {
            stop.store(true, Ordering::Relaxed);
        }
    });
    broken?;
    match report.end {
        End::NothingLeft => Err(vanished(&report)),
        _ => Ok(Outcome::Done),
    }
}

/// The interfaces with these names; all must have Ethernet frames.
pub(crate) fn ethernet(names: &[String]) -> Result<Vec<Link>> {
    if names.iter().any(|name| name == ANY) {
        return any();
    }
    let find = |name: &String| {
        let link = interface::find(name)?;
        interface::check_ethernet(&link)?;
        Ok(link)
    };
    names.iter().map(find).collect()
}

/// All interfaces that can receive frames, without the loopback.
fn any() -> Result<Vec<Link>> {
    let fits = |link: &Link| link.up && link.carrier && link.ethernet && link.name != LOOPBACK;
    let links: Vec<Link> = interface::all()?.into_iter().filter(fits).collect();
    if links.is_empty() {
        bail!("no interface is up and has a carrier: see `weir capture --list`");
    }
    Ok(links)
}

/// A line for each interface: name, state, MTU, and whether its frames can be parsed.
fn list(out: &mut impl Write) -> Result<()> {
    for link in interface::all()? {
        let state = match (link.up, link.carrier) {
            (false, _) => "down",
            (true, false) => "no carrier",
            (true, true) => "up",
        };
        let kind = if link.ethernet { "" } else { "  no Ethernet: use `weir pps`" };
        let name = plain(&link.name).into_owned();
        writeln!(out, "{name:16} {state:11} mtu {}{kind}", link.mtu)?;
    }
    Ok(())
}

pub(crate) fn check_permission() -> Result<()> {
    if !privilege::may_use_packet_sockets() {
        bail!("no permission to capture: run weir as root, or give it CAP_NET_RAW");
    }
    Ok(())
}

fn wanted(arguments: &cli::Capture) -> Wanted {
    let options = Options {
        snap: arguments.snap,
        sockets: threads(arguments.threads),
        promiscuous: !arguments.no_promiscuous,
        busy_poll: arguments.busy_poll,
        ..Options::default()
    };
    let options = with_buffer(options, arguments.buffer);
    Wanted { method: arguments.method.asked(), options, filter: arguments.filter.clone() }
}

/// The same options with this buffer size, if one is given.
pub(crate) fn with_buffer(mut options: Options, bytes: Option<u64>) -> Options {
    if let Some(bytes) = bytes {
        options.buffer.size = BufferSize::Memory(bytes);
        options.block_bytes = block_bytes(bytes, options.block_bytes);
    }
    options
}

/// The block size, at most `largest` bytes, such that a small buffer has several blocks, too.
fn block_bytes(buffer: u64, largest: u32) -> u32 {
    const BLOCKS: u64 = 64;
    const SMALLEST: u64 = 64 << 10;
    (buffer / BLOCKS).clamp(SMALLEST, largest.into()).next_power_of_two() as u32
}

fn threads(wanted: Option<u16>) -> u16 {
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    wanted.unwrap_or(cpus.min(MOST_THREADS) as u16)
}

/// Opens the files; as root in a child process, because this process drops its privileges.
fn files(arguments: &cli::Capture, path: &Path) -> Result<Files> {
    let name = if arguments.to_stdout() { Path::new("/dev/stdout") } else { path };
    if let Some(file) = weir_disk::inherited(name).with_context(|| file_error(arguments))? {
        return Ok(Files::given(file));
    }
    if std::fs::metadata(path).is_ok_and(|file| file.file_type().is_fifo()) {
        say::say(&format!("waiting for a reader of the pipe {}", path.display()));
    }
    let target = Target {
        path: path.into(),
        numbered: arguments.rotate.is_some(),
        keep: arguments.keep,
        append: false,
    };
    let files = if privileges::is_root() { Files::by_child(&target) } else { Files::of(&target) };
    files.with_context(|| file_error(arguments))
}

fn file_error(arguments: &cli::Capture) -> String {
    let path = arguments.write.as_deref().unwrap_or(Path::new("the capture"));
    format!("cannot write {}", path.display())
}

fn recording(arguments: &cli::Capture, files: Files) -> Recording {
    let system = weir_disk::kernel_text("/proc/sys/kernel/osrelease").unwrap_or_default();
    Recording {
        files,
        rotation: arguments.rotate.unwrap_or(Rotation::None),
        format: format(arguments.write.as_deref()),
        compress: arguments
            .write
            .as_ref()
            .is_some_and(|path| path.extension().is_some_and(|end| end == "zst")),
        before: arguments.ring_before.zip(arguments.trigger),
        memory: arguments.memory,
        application: format!("weir {}", env!("CARGO_PKG_VERSION")),
        system: format!("Linux {}", system.trim()),
    }
}

/// The format follows from the end of the file name, as in other capture tools.
fn format(path: Option<&Path>) -> Format {
    let name = path.and_then(|path| path.to_str()).unwrap_or_default();
    let name = name.strip_suffix(".zst").unwrap_or(name);
    if name.ends_with(".pcap") { Format::Pcap } else { Format::Pcapng }
}

/// Drops all privileges, and says so.
pub(crate) fn give_up_privileges() -> Result<()> {
    if let Some(user) = drop_privileges()? {
        say::say(&all_is_open(user));
    }
    Ok(())
}

/// Drops all privileges; returns the user that root changed to.
pub(crate) fn drop_privileges() -> Result<Option<User>> {
    privileges::drop_all().context("cannot drop privileges")
}

pub(crate) fn all_is_open(User { uid, .. }: User) -> String {
    format!("all is open; running as user {uid} without privileges")
}

fn outcome(arguments: &cli::Capture, report: Report) -> Result<Outcome> {
    let asked_for_end = arguments.duration.is_some() || arguments.count.is_some() || arguments.size.is_some();
    let vanished = vanished(&report);
    if let Some(error) = report.written.and_then(|written| written.error) {
        let kept = "the file is valid up to this point";
        return Err(anyhow::Error::from(error).context(format!("{}; {kept}", file_error(arguments))));
    }
    match report.end {
        End::NothingLeft => Err(vanished),
        End::Stopped if asked_for_end => Ok(Outcome::Interrupted),
        _ => Ok(Outcome::Done),
    }
}

/// The reason why the last queue ended.
fn vanished(report: &Report) -> anyhow::Error {
    let mut reasons = report.view.queues.iter().filter_map(|queue| queue.reading.failed.as_deref());
    anyhow!("{}", reasons.next_back().unwrap_or("all interfaces are gone"))
}

/// The text on standard error during a capture.
struct Shown {
    stats: Option<stats::Stats>,
    live: Live,
    hint: hint::Hint,
    said: Vec<String>,
    waiting: bool,
    keep: Option<u64>,
}

impl Shown {
    fn new(arguments: &cli::Capture, filtered: bool) -> Self {
        Shown {
            stats: arguments.stats.then(|| stats::Stats::new(arguments.keep)),
            live: Live::new(),
            hint: hint::Hint::new(filtered, arguments.no_promiscuous),
            said: Vec::new(),
            waiting: arguments.trigger.is_some(),
            keep: arguments.keep,
        }
    }

    fn update(&mut self, view: &View) {
        let mut news = self.hint.about(view);
        news.extend(view.notes.iter().cloned());
        if self.waiting && !view.waiting {
            self.waiting = false;
            news.push("triggered: writing".into());
        }
        for queue in view.queues.iter().filter_map(|queue| queue.reading.failed.as_ref()) {
            if !self.said.contains(queue) {
                self.said.push(queue.clone());
                news.push(queue.clone());
            }
        }
        if !news.is_empty() {
            self.finish();
            say::notes(&news);
        }
        if let Some(stats) = &mut self.stats {
            return stats.draw(view);
        }
        let frames = view.queues.iter().map(|queue| queue.reading.frames).sum();
        let drops: u64 =
            view.queues.iter().map(|queue| queue.reading.account.dropped() + queue.reading.slow).sum();
        let bit_rate: f64 = view.queues.iter().map(|queue| queue.bits_per_s).sum();
        let written =
            view.written.map_or(String::new(), |written| format!(", {}", text::written(&written, self.keep)));
        let state = if view.waiting { ", waiting for the trigger" } else { "" };
        self.live.update("captured", frames, &format!(", {}, lost {drops}{written}{state}", bits(bit_rate)));
    }

    fn finish(&mut self) {
        match &mut self.stats {
            Some(stats) => stats.finish(),
            None => self.live.finish(),
        }
    }
}

/// Time without a frame before a hint is printed.
const SILENCE: Duration = Duration::from_secs(3);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_says_what_is_written() {
        let of = |name| format(Some(Path::new(name)));
        assert_eq!(["x.pcap", "x.pcap.zst"].map(of), [Format::Pcap; 2]);
        assert_eq!(["x.pcapng", "x.pcapng.zst", "x", "-"].map(of), [Format::Pcapng; 4]);
    }

    #[test]
    fn a_buffer_has_blocks_enough_to_be_emptied_in_turn() {
        let blocks = |buffer| block_bytes(buffer, 1 << 20);
        assert_eq!([2 << 20, 20 << 20, 64 << 20, 1 << 30].map(blocks), [1 << 16, 1 << 19, 1 << 20, 1 << 20]);
    }
}
