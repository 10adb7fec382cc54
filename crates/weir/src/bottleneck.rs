//! `weir bottleneck`: a link with a rate, a buffer and delays between two interfaces of the user.

use std::fs::File;
use std::io::{BufRead, BufWriter, IsTerminal, Read, Write};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, sync_channel};

use anyhow::{Context, Result, anyhow, bail};
use weir_bottleneck::{Bridge, Direction, Observe, Outcome as Found, Snapshot, chunks_for, run};
use weir_port::duplex::{Packet, Pool, Port, ReceiveMode};
use weir_port::thread;

use crate::cli;
use crate::outcome::Outcome;
use weir_service::say;
use weir_service::units::{bits, size};

/// Bytes of a frame beyond the MTU: Ethernet with two VLAN tags.
const FRAMING: usize = 22;
/// Changes that may wait for the bottleneck; the reader of standard input blocks when there are more.
const CHANGES: usize = 64;
/// Longest change in bytes.
const LONGEST: u64 = 4096;

pub(crate) fn run_one(arguments: &cli::Bottleneck, out: &mut impl Write) -> Result<Outcome> {
    let settings = arguments.settings().map_err(anyhow::Error::msg)?;
    if arguments.one == arguments.other {
        bail!("IF1 and IF2 are both {}: give two different interfaces", arguments.one);
    }
    let links = [&arguments.one, &arguments.other].map(|name| weir_lab::interface::find(name));
    let [one, other] = links;
    let (one, other) = (one?, other?);
    for link in [&one, &other] {
        weir_lab::interface::check_ready(link)?;
    }
    let longest = one.mtu.max(other.mtu) as usize + FRAMING;
    let stop = crate::run::stop_flag()?;
    let log = arguments.log.as_deref().map(|path| new_log(path).map(|file| (file, path))).transpose()?;
    let port = |name: &str| -> Result<Box<dyn Port>> {
        Ok(Box::new(Packet::open(name, longest, ReceiveMode::Promiscuous)?))
    };
    let ports = [port(&one.name)?, port(&other.name)?];
    let pool = Pool::new(chunks_for(&settings), longest).context("memory for frames")?;
    let mut bridge =
        Bridge::new(ports, pool, settings.clone(), arguments.log.is_some()).map_err(anyhow::Error::msg)?;
    // Without this right frames may leave late on a busy machine, which the histogram of lateness shows.
    let _ = thread::prefer();
    if let Some(cpu) = arguments.cpu {
        thread::pin_to(cpu).with_context(|| format!("--cpu {cpu}"))?;
    }
    // The code that parses frames from outside needs no rights; from here on only files that the user may read are read.
    crate::capture::give_up_privileges()?;
    weir_capture::privilege::run_no_program();
    let changes = lines();
    // A script that waits for this line may begin to send.
    say::say(&format!("bottleneck between {} and {}, {}", one.name, other.name, settings.aqm.text));
    let live = Live { terminal: std::io::stderr().is_terminal() };
    let mut broken = Ok(());
    let mut see = |snapshot: &Snapshot| {
        if arguments.json && broken.is_ok() {
            broken = json(out, snapshot);
            // Without a reader of the output the measurement ends.
            stop.fetch_or(broken.is_err(), Ordering::Relaxed);
        } else {
            live.show(snapshot);
        }
    };
    let mut changed = |line: &str, result: Result<(), String>| match result {
        Ok(()) => say::say(&format!("changed: {line}")),
        Err(error) => say::say(&format!("not changed: {error}")),
    };
    let observe = Observe {
        stop: &stop,
        changes: changes.as_ref(),
        interval: arguments.interval,
        duration: arguments.duration,
        see: &mut see,
        changed: &mut changed,
    };
    let found = run(&mut bridge, observe)?;
    live.finish();
    // The log and the result are written independently: an error of one does not lose the other.
    let kept = log.map_or(Ok(()), |(file, path)| write_log(&bridge, file, path));
    broken?;
    if arguments.json {
        json(out, &found)?;
    } else {
        out.write_all(text(&found, [&one.name, &other.name]).as_bytes())?;
    }
    kept?;
    Ok(if found.valid { Outcome::Done } else { Outcome::NotAllValid })
}

fn json(out: &mut impl Write, what: &impl serde::Serialize) -> Result<()> {
    writeln!(out, "{}", serde_json::to_string(what)?)?;
    Ok(out.flush()?)
}

/// Lines of standard input, as they arrive; none if the program runs in the background of a terminal.
fn lines() -> Option<Receiver<String>> {
    // SAFETY: no pointers. By default the kernel stops a background program that reads from its terminal; with this it gets an
    // error.
    unsafe { libc::signal(libc::SIGTTIN, libc::SIG_IGN) };
    let (sender, lines) = sync_channel(CHANGES);
    std::thread::Builder::new()
        .name("changes".into())
        .spawn(move || {
            let mut input = std::io::stdin().lock();
            while let Some(line) = next_line(&mut input) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        })
        .ok()?;
    Some(lines)
}

/// The next change; `None` at the end of the input, and after a line that is too long.
fn next_line(input: &mut impl BufRead) -> Option<String> {
    let mut line = Vec::new();
    let read = input.by_ref().take(LONGEST + 1).read_until(b'\n', &mut line).ok()?;
    if line.len() as u64 > LONGEST {
        say::say(&format!(
            "not changed: a line of standard input has more than {LONGEST} bytes; further lines are ignored"
        ));
        return None;
    }
    (read > 0).then(|| String::from_utf8_lossy(&line).into_owned())
}

/// Creates the log before the measurement, with the rights of the calling user.
fn new_log(path: &Path) -> Result<File> {
    weir_disk::create(path, 0o600).with_context(|| format!("cannot create {}", path.display()))
}

fn write_log(bridge: &Bridge, file: File, path: &Path) -> Result<()> {
    let name = path.display();
    let mut file = BufWriter::new(file);
    let log = bridge.log(0).ok_or_else(|| anyhow!("there is no log"))?;
    log.write(&mut file)
        .with_context(|| format!("cannot write {name} completely: free space on the disk, and run again"))?;
    if log.missing() > 0 {
        say::say(&format!("note: {name} misses the last {} frames", log.missing()));
    }
    Ok(())
}

/// Text for each interval: one line that is rewritten on a terminal, one line each in a log.
struct Live {
    terminal: bool,
}

impl Live {
    fn show(&self, snapshot: &Snapshot) {
        let of = |arrow: &str, view: &weir_bottleneck::View| {
            let limit = view.rate_bits_per_s.map_or("no limit".into(), |rate| bits(rate as f64));
            let ms = |ns: u64| ns as f64 / 1e6;
            format!(
                "{arrow} {} of {limit}, queue {}, sojourn {:.1} to {:.1} ms, dropped {}, marked {}",
                bits(view.bits_per_s),
                size(view.queue_bytes),
                ms(view.sojourn_ns.p50),
                ms(view.sojourn_ns.max),
                view.dropped,
                view.marked
            )
        };
        let [there, back] = &snapshot.directions;
        let line = format!("{:.0} s {}  {}", snapshot.at_s, of(">", there), of("<", back));
        if self.terminal {
            let _ = write!(std::io::stderr(), "\r{line}\x1b[K");
        } else {
            say::say(&line);
        }
    }

    fn finish(&self) {
        if self.terminal {
            say::say("");
        }
    }
}

/// Whether the result is valid, and the frame accounting.
fn text(found: &Found, [one, other]: [&str; 2]) -> String {
    let mut text: String = if found.valid {
        format!("valid, {:.1} s\n", found.duration_s)
    } else {
        found.invalid.iter().map(|why| format!("invalid: {why}\n")).collect()
    };
    for (direction, (from, to)) in found.directions.iter().zip([(one, other), (other, one)]) {
        text += &accounting(direction, from, to);
    }
    text
}

fn accounting(way: &Direction, from: &str, to: &str) -> String {
    let mut text = format!(
        "{from} > {to}: {} of {}, {} frames arrived\n",
        bits(way.bits_per_s),
        way.rate_bits_per_s.map_or("no limit".into(), |rate| bits(rate as f64)),
        way.entered
    );
    let mut line = |frames: i64, name: &str| {
        if frames != 0 {
            text += &format!("  {frames:>12} {name}\n");
        }
    };
    line(way.sent as i64, "sent");
    way.dropped.iter().for_each(|(reason, frames)| line(*frames as i64, &format!("dropped: {reason}")));
    line(way.lost as i64, "lost by --loss");
    line(way.queued as i64, "in the queue at the end");
    line(way.delayed as i64, "in the delay line at the end");
    way.port_drops.iter().for_each(|(place, frames)| line(*frames as i64, place));
    line(way.unexplained, "unexplained");
    line(way.unread as i64, "of them without readable IP headers: no flows, no ECN");
    let ms = |ns: u64| ns as f64 / 1e6;
    let (sojourn, late) = (&way.sojourn_ns, &way.lateness_ns);
    text += &format!(
        "  sojourn ms: median {:.3}, p99 {:.3}, max {:.3}; marked {}\n",
        ms(sojourn.p50),
        ms(sojourn.p99),
        ms(sojourn.max),
        way.marked
    );
    text += &format!(
        "  lateness ms: median {:.3}, p99 {:.3}, max {:.3}; a slot is {:.3}\n",
        ms(late.p50),
        ms(late.p99),
        ms(late.max),
        ms(way.slot_ns)
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_without_an_end_are_read_no_further() {
        let mut input = &b"rate 1mbit\n\xff\ndelay 1ms"[..];
        let lines: Vec<String> = std::iter::from_fn(|| next_line(&mut input)).collect();
        assert_eq!(lines, ["rate 1mbit\n", "\u{fffd}\n", "delay 1ms"]);
        assert_eq!(next_line(&mut std::io::BufReader::new(std::io::repeat(0))), None);
    }
}
