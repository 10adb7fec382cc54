//! A thread that receives the frames of one queue: it counts them, passes them to the file, and publishes its counts.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use weir_port::capture::{Account, Frame, Queue};
use weir_port::confined::{Work, confine};

use crate::mix::{Mix, Talker, Talkers};
use crate::recorder::Recorder;

/// Longest wait for frames: how late the end of a capture may be noticed.
const WAIT: Duration = Duration::from_millis(50);
/// How often counts are shown.
const SHOWN_EVERY: Duration = Duration::from_millis(100);
/// How often counters go to the file.
const SECOND: Duration = Duration::from_secs(1);
/// Talkers that are reported of each queue.
const TALKERS: usize = 16;

/// Counters of a queue so far.
#[derive(Debug, Clone, Default)]
pub struct Reading {
    /// Frames captured.
    pub frames: u64,
    /// Their bytes on the wire, without FCS.
    pub bytes: u64,
    /// Frames after the limit was reached.
    pub beyond: u64,
    /// Captured frames that were lost because the disk was too slow.
    pub slow: u64,
    /// Frames longer than the interface's MTU: several that were merged on receipt.
    pub merged: u64,
    /// The kernel's counters.
    pub account: Account,
    /// Protocols and sizes, where they are wanted.
    pub mix: Mix,
    /// Top senders since the last look.
    pub talkers: Vec<Talker>,
    /// Why the queue has ended before the capture.
    pub failed: Option<String>,
}

/// Data shared by workers and session.
pub(crate) struct Shared {
    /// Workers should end.
    pub(crate) stop: AtomicBool,
    /// Frames that are still wanted, of all queues.
    pub(crate) wanted: Option<AtomicI64>,
}

/// The counts of a worker as it shows them.
#[derive(Default)]
pub(crate) struct Shown {
    reading: Mutex<Reading>,
    /// The counts were read since they were published.
    looked: AtomicBool,
}

impl Shown {
    pub(crate) fn reading(&self) -> Reading {
        self.reading.lock().expect("no thread panics with the lock").clone()
    }

    /// A look that takes the talkers: none goes by unseen, and none is reported twice, however late the looks are.
    pub(crate) fn look(&self) -> Reading {
        let mut reading = self.reading.lock().expect("no thread panics with the lock");
        self.looked.store(true, Ordering::Relaxed);
        let talkers = std::mem::take(&mut reading.talkers);
        Reading { talkers, ..reading.clone() }
    }

    fn show(&self, reading: &mut Reading, senders: Option<&mut Senders>) {
        let mut shown = self.reading.lock().expect("no thread panics with the lock");
        if let Some(senders) = senders {
            reading.talkers = senders.tell(self.looked.swap(false, Ordering::Relaxed));
        }
        shown.clone_from(reading);
    }
}

/// Senders: those that were published but not yet read, and those since then.
struct Senders {
    shown: Talkers,
    since: Talkers,
}

impl Senders {
    fn new() -> Self {
        Senders { shown: Talkers::new(), since: Talkers::new() }
    }

    fn tell(&mut self, looked: bool) -> Vec<Talker> {
        if looked {
            self.shown.forget();
        }
        self.shown.take_over(&mut self.since);
        self.shown.top(TALKERS)
    }
}

/// A message from a worker to the session.
pub(crate) enum Event {
    /// The queue receives no more frames.
    Stopped,
    /// It has ended.
    Ended,
}

/// A queue and its thread.
pub(crate) struct Worker {
    pub(crate) queue: Box<dyn Queue>,
    pub(crate) recorder: Option<Recorder>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) shown: Arc<Shown>,
    pub(crate) events: Sender<Event>,
    /// A stopped queue is empty when no frame has arrived for this time.
    pub(crate) quiet: Duration,
    /// Longest frame without merging.
    pub(crate) longest: u32,
    /// Count protocols, sizes and talkers.
    pub(crate) details: bool,
}

/// Counters that each frame updates.
struct Counts {
    reading: Reading,
    senders: Option<Senders>,
    recorder: Option<Recorder>,
}

impl Counts {
    #[inline]
    fn count(&mut self, frame: &Frame<'_>, shared: &Shared, longest: u32) {
        if let Some(wanted) = &shared.wanted {
            match wanted.fetch_sub(1, Ordering::Relaxed) {
                ..=0 => {
                    self.reading.beyond += 1;
                    return;
                }
                1 => shared.stop.store(true, Ordering::Relaxed),
                _ => {}
            }
        }
        self.reading.frames += 1;
        self.reading.bytes += u64::from(frame.wire_len);
        self.reading.merged += u64::from(frame.wire_len > longest);
        if let Some(senders) = &mut self.senders
            && let Some(source) = self.reading.mix.count(frame.bytes, frame.wire_len)
        {
            senders.since.count(source, frame.wire_len);
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.record(frame);
        }
    }
}

impl Worker {
    pub(crate) fn run(mut self) {
        // A kernel without such filters is no reason not to capture.
        let _ = confine(Work::Capture);
        let senders = self.details.then(Senders::new);
        let mut counts = Counts { reading: Reading::default(), senders, recorder: self.recorder.take() };
        let (mut shown, mut second, mut stopped) = (Instant::now(), Instant::now(), None);
        loop {
            let (shared, longest) = (&self.shared, self.longest);
            let taken = self.queue.take(WAIT, &mut |frame| counts.count(frame, shared, longest));
            let now = Instant::now();
            let taken = match taken {
                Ok(taken) => taken,
                Err(error) => {
                    counts.reading.failed = Some(error.to_string());
                    // A removed interface still delivers here the frames that had arrived before.
                    let mut count = |frame: &Frame<'_>| counts.count(frame, shared, longest);
                    while self.queue.take(self.quiet, &mut count).is_ok_and(|taken| taken > 0) {}
                    break;
                }
            };
            match stopped {
                None if self.shared.stop.load(Ordering::Relaxed) => {
                    if let Err(error) = self.queue.stop() {
                        counts.reading.failed = Some(error.to_string());
                        break;
                    }
                    // An error means that the receiver has ended.
                    let _ = self.events.send(Event::Stopped);
                    stopped = Some(now);
                }
                Some(_) if taken > 0 => stopped = Some(now),
                Some(since) if now - since >= self.quiet => break,
                _ => {}
            }
            if now - shown >= SHOWN_EVERY {
                shown = now;
                let new_second = now - second >= SECOND;
                if new_second {
                    second = now;
                }
                self.show(&mut counts, new_second);
            }
        }
        self.show(&mut counts, true);
        if let Some(recorder) = counts.recorder {
            recorder.finish(&counts.reading.account, crate::now_ns());
        }
        // The receiver of the event may reopen the interface.
        drop(self.queue);
        let _ = self.events.send(Event::Ended);
    }

    fn show(&mut self, counts: &mut Counts, new_second: bool) {
        match self.queue.account() {
            Ok(account) => counts.reading.account = account,
            Err(error) => counts.reading.failed = counts.reading.failed.take().or(Some(error.to_string())),
        }
        if new_second && let Some(recorder) = &mut counts.recorder {
            recorder.tick(&counts.reading.account, crate::now_ns());
        }
        counts.reading.slow = counts.recorder.as_ref().map_or(0, Recorder::slow);
        self.shown.show(&mut counts.reading, counts.senders.as_mut());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_sent_is_reported_at_the_next_look_and_once() {
        let (shown, mut reading, mut senders) = (Shown::default(), Reading::default(), Senders::new());
        let mut sends = |last: u8| {
            senders.since.count([192, 0, 2, last].into(), 60);
            shown.show(&mut reading, Some(&mut senders));
        };
        let reported = || {
            let mut reported: Vec<_> =
                shown.look().talkers.iter().map(|talker| talker.address.to_string()).collect();
            reported.sort();
            reported
        };
        [1, 2].into_iter().for_each(&mut sends);
        assert_eq!(reported(), ["192.0.2.1", "192.0.2.2"]);
        assert!(reported().is_empty(), "its thread may be gone");
        [3, 3].into_iter().for_each(&mut sends);
        assert_eq!(reported(), ["192.0.2.3"]);
    }
}
