//! `--stats`: a table of the capture each second, redrawn in place on a terminal, appended in a log.

use std::io::{IsTerminal, Write};

use weir_capture::mix::{self, Mix, PROTOCOLS};
use weir_capture::session::{QueueView, View};

use super::{json::size_names, text};
use weir_service::units::{bits, rate};

/// Talkers shown.
const TALKERS: usize = 5;

pub(super) struct Stats {
    terminal: bool,
    /// Lines of the table on the terminal.
    lines: usize,
    before: Mix,
    /// Number of files to keep.
    keep: Option<u64>,
}

impl Stats {
    pub(super) fn new(keep: Option<u64>) -> Self {
        Stats { terminal: std::io::stderr().is_terminal(), lines: 0, before: Mix::default(), keep }
    }

    pub(super) fn draw(&mut self, view: &View) {
        let lines = self.picture(view);
        // Back to the first line, and clear from there.
        let again = if self.terminal && self.lines > 0 {
            format!("\x1b[{}F\x1b[J", self.lines)
        } else {
            String::new()
        };
        self.lines = lines.len();
        // An error of the terminal does not stop the capture.
        let _ = std::io::stderr().write_all(format!("{again}{}\n", lines.join("\n")).as_bytes());
    }

    /// Leaves the last table on the terminal.
    pub(super) fn finish(&mut self) {
        self.lines = 0;
    }

    fn picture(&mut self, view: &View) -> Vec<String> {
        let mut lines: Vec<String> = view.queues.iter().map(queue).collect();
        let mut mix = Mix::default();
        view.queues.iter().for_each(|queue| mix.add(&queue.reading.mix));
        let shares = |now: &[u64], before: &[u64], names: &mut dyn Iterator<Item = String>| {
            let new: Vec<u64> = now.iter().zip(before).map(|(now, before)| now - before).collect();
            let all = new.iter().sum::<u64>().max(1) as f64;
            let shown = names.zip(&new).filter(|(_, n)| **n > 0);
            shown
                .map(|(name, n)| format!("{name} {:.0} %", 100.0 * *n as f64 / all))
                .collect::<Vec<_>>()
                .join(", ")
        };
        let protocols =
            shares(&mix.protocols, &self.before.protocols, &mut PROTOCOLS.iter().map(ToString::to_string));
        let sizes = shares(&mix.sizes, &self.before.sizes, &mut size_names());
        self.before = mix;
        if !sizes.is_empty() {
            lines.push(format!("  {protocols}; bytes: {sizes}"));
        }
        let not_ip: Vec<_> = mix.not_ip().map(|(unread, frames)| format!("{frames} ({unread})")).collect();
        if !not_ip.is_empty() {
            lines.push(format!("  frames without IP so far: {}", not_ip.join(", ")));
        }
        let talkers = mix::merge(view.queues.iter().map(|queue| queue.reading.talkers.as_slice()), TALKERS);
        for talker in talkers {
            let bit_rate = 8.0 * talker.bytes as f64;
            lines.push(format!(
                "  {:39} {:>10} {:>12}",
                talker.address,
                rate(talker.frames as f64),
                bits(bit_rate)
            ));
        }
        if let Some(written) = &view.written {
            let state = if view.waiting { ", waiting for the trigger" } else { "" };
            lines.push(format!("  {}{state}", text::written(written, self.keep)));
        }
        lines
    }
}

fn queue(queue: &QueueView) -> String {
    let reading = &queue.reading;
    let mut drops: Vec<String> = Vec::new();
    let mut drop = |name: &str, frames: u64| {
        if frames > 0 {
            drops.push(format!("{name} {frames}"));
        }
    };
    reading.account.drops.iter().for_each(|one| drop(one.name, one.frames));
    drop("disk too slow", reading.slow);
    let drops = if drops.is_empty() { "nothing lost".into() } else { format!("lost: {}", drops.join(", ")) };
    let place = format!("{}/{}", queue.interface, queue.number);
    let (fps, bit_rate) = (rate(queue.frames_per_s), bits(queue.bits_per_s));
    let failed = reading.failed.as_ref().map_or(String::new(), |error| format!("; {error}"));
    format!("{place:12} {fps:>10} {bit_rate:>12}  {} frames, {drops}{failed}", reading.frames)
}
