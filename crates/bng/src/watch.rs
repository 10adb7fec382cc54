//! Clients that an operator follows live: each frame of them is kept until it is read, or until there is no room.
//!
//! ```text
//! frame of a device > Traces > watches with its MAC address, line or login > rings > reader, by number
//! ```
//! A watch that is not read for a while ends. Number and size of watches are bounded.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::collections::VecDeque;
use std::time::Duration;

use crate::line::Line;
use crate::mac::Mac;
use crate::traced::TraceFrame;

/// Most watches at a time; the one that was read longest ago gives way.
const MOST_WATCHES: usize = 8;
/// Frames of a watch that wait for its reader.
const MOST_FRAMES: usize = 512;
/// A watch that was not read for so long ends.
const KEPT: Duration = Duration::from_secs(30);

/// Whom an operator asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Whom {
    /// The device with this MAC address, on whichever line.
    Mac(Mac),
    /// All devices of a line.
    Line(Line),
    /// The device that has given this name by PPP.
    Login(String),
}

/// A frame of a client that is followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watched {
    /// Its number: 1 more than that of the frame before, of any watch.
    pub number: u64,
    /// The line.
    pub line: Line,
    /// The device.
    pub mac: Mac,
    /// The frame.
    pub frame: TraceFrame,
}

#[derive(Debug)]
struct Watch {
    whom: Whom,
    until: Duration,
    frames: VecDeque<Watched>,
}

impl Watch {
    fn push(&mut self, number: u64, line: &Line, mac: Mac, frame: &TraceFrame) {
        if self.frames.len() >= MOST_FRAMES {
            self.frames.pop_front();
        }
        self.frames.push_back(Watched { number, line: line.clone(), mac, frame: frame.clone() });
    }
}

/// All watches.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    all: Vec<Watch>,
    last: u64,
}

impl Watches {
    /// Begins to follow a client, or goes on.
    pub(crate) fn renew(&mut self, now: Duration, whom: Whom) {
        self.all.retain(|watch| watch.until > now);
        let until = now + KEPT;
        if let Some(watch) = self.all.iter_mut().find(|watch| watch.whom == whom) {
            watch.until = until;
            return;
        }
        if self.all.len() >= MOST_WATCHES {
            let oldest = self.all.iter().enumerate().min_by_key(|(_, watch)| watch.until).map(|(at, _)| at);
            oldest.into_iter().for_each(|at| _ = self.all.remove(at));
        }
        self.all.push(Watch { whom, until, frames: VecDeque::new() });
    }

    /// Keeps a frame for those who follow its device.
    pub(crate) fn keep(&mut self, line: &Line, mac: Mac, login: Option<&str>, frame: &TraceFrame) {
        for watch in &mut self.all {
            let is_wanted = match &watch.whom {
                Whom::Mac(of) => *of == mac,
                Whom::Line(of) => of == line,
                Whom::Login(of) => login == Some(of),
            };
            if is_wanted && watch.until > frame.at {
                self.last += 1;
                watch.push(self.last, line, mac, frame);
            }
        }
    }

    /// Keeps a frame for those who follow one client, which was not known to be its sender.
    pub(crate) fn keep_for(&mut self, whom: &Whom, line: &Line, mac: Mac, frame: &TraceFrame) {
        if let Some(watch) = self.all.iter_mut().find(|watch| watch.whom == *whom) {
            self.last += 1;
            watch.push(self.last, line, mac, frame);
        }
    }

    /// Frames behind a number.
    pub(crate) fn after<'a>(
        &'a self,
        whom: &Whom,
        number: u64,
    ) -> impl Iterator<Item = &'a Watched> + use<'a> {
        let watch = self.all.iter().find(|watch| watch.whom == *whom);
        watch.into_iter().flat_map(|watch| &watch.frames).filter(move |watched| watched.number > number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traced::Direction;

    fn frame(at_s: u64) -> TraceFrame {
        TraceFrame { at: Duration::from_secs(at_s), direction: Direction::FromSubscriber, bytes: vec![1] }
    }

    #[test]
    fn a_watch_has_its_frames_once_and_ends_when_it_is_not_read() {
        let mut watches = Watches::default();
        let (line, mac) = ("access1:7".parse().expect("a line"), Mac([2, 0, 0, 0, 0, 1]));
        let whom = Whom::Login("anna".into());
        watches.renew(Duration::ZERO, whom.clone());
        watches.renew(Duration::ZERO, Whom::Mac(Mac([2, 0, 0, 0, 0, 2])));
        watches.keep(&line, mac, None, &frame(1));
        (0..600).for_each(|_| watches.keep(&line, mac, Some("anna"), &frame(2)));
        let numbers: Vec<u64> = watches.after(&whom, 0).map(|watched| watched.number).collect();
        assert_eq!((numbers.len(), numbers.first(), numbers.last()), (MOST_FRAMES, Some(&89), Some(&600)));
        assert_eq!(watches.after(&whom, 599).count(), 1);
        watches.keep(&line, mac, Some("anna"), &frame(30));
        assert_eq!(watches.after(&whom, 600).count(), 0, "it was not read");
        for n in 0..20 {
            watches.renew(Duration::from_secs(40), Whom::Mac(Mac([2, 0, 0, 0, 1, n])));
        }
        assert_eq!(watches.all.len(), MOST_WATCHES);
    }
}
