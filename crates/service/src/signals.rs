//! Signals: Ctrl-C and SIGTERM end a program, and SIGHUP of one that runs as a service: its files were renamed, and are reopened by name. When a terminal closes, the
//! kernel sends the same signal to the programs in it: they end.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// The signals of a service.
#[derive(Debug, Clone)]
pub struct Hangup {
    stop: Arc<AtomicBool>,
    came: Arc<AtomicBool>,
    had_terminal: bool,
}

impl Hangup {
    /// Receives the signals from here on.
    pub fn of_service() -> Result<Hangup> {
        let hangup =
            Hangup { stop: stop_at(&[SIGINT, SIGTERM])?, came: Arc::default(), had_terminal: has_terminal() };
        // Under nohup the program continues without its terminal.
        if !ignores(SIGHUP) {
            signal_hook::flag::register(SIGHUP, hangup.came.clone())?;
        }
        Ok(hangup)
    }

    /// Set by Ctrl-C and SIGTERM, and when the terminal has closed.
    pub fn stop(&self) -> &AtomicBool {
        &self.stop
    }

    /// Whether SIGHUP asked to reopen files since the last call.
    pub fn asks_to_reopen(&self) -> bool {
        !self.ends() && self.came.swap(false, Ordering::Relaxed)
    }

    /// Whether the program is to end.
    pub fn ends(&self) -> bool {
        // The kernel detaches the terminal from its programs before it sends the signal.
        if self.had_terminal && self.came.load(Ordering::Relaxed) && !has_terminal() {
            self.stop.store(true, Ordering::Relaxed);
        }
        self.stop.load(Ordering::Relaxed)
    }
}

/// Set by each of these signals, the second of which ends the process at once.
pub fn stop_at(signals: &[i32]) -> Result<Arc<AtomicBool>> {
    let (stop, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    for &signal in signals {
        signal_hook::flag::register_conditional_shutdown(signal, 130, asked.clone())?;
        signal_hook::flag::register(signal, asked.clone())?;
        signal_hook::flag::register(signal, stop.clone())?;
    }
    Ok(stop)
}

/// Whether this process was started with a signal ignored.
pub fn ignores(signal: i32) -> bool {
    let status = weir_disk::kernel_text("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask >> (signal - 1) & 1 != 0)
}

/// Whether this process has a controlling terminal: tty(4).
fn has_terminal() -> bool {
    File::open("/dev/tty").is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_opens_its_files_again_and_goes_on() {
        let hangup = Hangup { stop: Arc::default(), came: Arc::default(), had_terminal: has_terminal() };
        assert!(!hangup.asks_to_reopen() && !hangup.ends());
        hangup.came.store(true, Ordering::Relaxed);
        assert!(hangup.asks_to_reopen() && !hangup.asks_to_reopen() && !hangup.ends(), "once");
        hangup.stop.store(true, Ordering::Relaxed);
        hangup.came.store(true, Ordering::Relaxed);
        assert!(hangup.ends() && !hangup.asks_to_reopen());
    }
}
