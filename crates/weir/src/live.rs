//! Progress each second while frames are sent or received: one line that is rewritten on a terminal, separate lines in a
//! log.

use std::io::{IsTerminal, Write};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use weir_service::say::say;
use weir_service::units::rate;

/// Between two lines.
const INTERVAL: Duration = Duration::from_millis(950);

/// Prints a growing count to standard error.
pub(crate) struct Live {
    terminal: bool,
    last: Mutex<Last>,
}

struct Last {
    at: Instant,
    frames: u64,
    width: usize,
}

impl Live {
    pub(crate) fn new() -> Self {
        let last = Last { at: Instant::now(), frames: 0, width: 0 };
        Live { terminal: std::io::stderr().is_terminal(), last: Mutex::new(last) }
    }

    /// May be called at any rate; prints once a second. `more` follows the rate.
    pub(crate) fn update(&self, verb: &str, frames: u64, more: &str) {
        let mut last = self.last.lock().expect("printing does not panic");
        let elapsed = last.at.elapsed();
        if elapsed < INTERVAL {
            return;
        }
        let fps = frames.saturating_sub(last.frames) as f64 / elapsed.as_secs_f64();
        let line = format!("{verb} {frames} frames, {}{more}", rate(fps));
        last.frames = frames;
        self.print(&mut last, &line);
    }

    /// The same with another text, which is only made when it is printed.
    pub(crate) fn update_with(&self, text: impl FnOnce() -> String) {
        let mut last = self.last.lock().expect("printing does not panic");
        if last.at.elapsed() >= INTERVAL {
            let line = text();
            self.print(&mut last, &line);
        }
    }

    fn print(&self, last: &mut Last, line: &str) {
        if self.terminal {
            // Spaces cover the rest of a longer line.
            // An error of the terminal does not stop the measurement. Standard error is not buffered.
            let _ = write!(std::io::stderr(), "\r{line:width$}", width = last.width);
        } else {
            say(line);
        }
        (last.at, last.width) = (Instant::now(), line.len());
    }

    /// Ends the line.
    pub(crate) fn finish(&self) {
        if self.terminal && self.last.lock().is_ok_and(|last| last.width > 0) {
            say("");
        }
    }
}
