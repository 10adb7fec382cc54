//! Forwarding capacity: what a device forwards in steady overload.
//!
//! ```text
//! frames so far  . . . . . . . . .|. . . . . . . .|. . .      .|. . . . . . .
//! windows        [ settling ][ 16 ms ][ 16 ms ][ 16 ms ]  stop  [ 16 ms ][ 16 ms ]
//!                             rate      rate     (dropped)        rate     rate    > median: the rate of a round
//! ```
//! A loss threshold is decided by the one stop of a trial. The median over many short windows is not, and what is left of
//! stops is dropped where a witness saw them. Rounds go over all devices in random order, and two devices are compared
//! within their rounds: what disturbs both cancels out.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::placement::Place;
use crate::rng::Rng;
use crate::stats::{Ratio, median, ratio};

/// How many frames had arrived at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// ns on any clock.
    pub at_ns: u64,
    /// Frames so far.
    pub frames: u64,
}

/// How a time is divided into windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Windows {
    /// From the first mark to the begin of the first window: caches warm up, queues fill.
    pub settle: Duration,
    /// Length of a window; it ends with the first mark after that.
    pub length: Duration,
    /// No window ends after this, ns on the clock of the marks.
    pub end_ns: u64,
}

/// A short time, and what arrived in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// Begin, ns on the clock of the marks.
    pub at_ns: u64,
    /// Length, ns, above 0.
    pub ns: u64,
    /// Frames.
    pub frames: u64,
    /// Did tester and device run all the time?
    pub ran: bool,
}

impl Window {
    /// Frames/s.
    pub fn fps(&self) -> f64 {
        self.frames as f64 * 1e9 / self.ns as f64
    }
}

/// The windows between these marks, oldest first. `stops` are times, as begin and end, in which something did not run:
/// such a window ends where the next can begin.
pub fn windows(marks: &[Mark], how: Windows, stops: &[(u64, u64)]) -> Vec<Window> {
    let mut found = Vec::new();
    let Some(first) = marks.first() else { return found };
    let begin_ns = first.at_ns + how.settle.as_nanos() as u64;
    let mut marks = &marks[marks.partition_point(|m| m.at_ns < begin_ns)..];
    while let [start, ..] = marks {
        let enough_ns = start.at_ns + how.length.as_nanos() as u64;
        let Some(end) = marks.get(marks.partition_point(|m| m.at_ns < enough_ns)) else { break };
        let stopped = stops.iter().filter(|(from, to)| *from < end.at_ns && *to > start.at_ns);
        let again_ns = stopped.map(|(_, to)| *to).max();
        let last = marks.partition_point(|m| m.at_ns < again_ns.unwrap_or(0)).min(marks.len() - 1);
        let end = if again_ns.is_some() { &marks[last.max(1)] } else { end };
        if end.at_ns > how.end_ns {
            break;
        }
        found.push(Window {
            at_ns: start.at_ns,
            ns: (end.at_ns - start.at_ns).max(1),
            frames: end.frames.saturating_sub(start.frames),
            ran: again_ns.is_none(),
        });
        marks = &marks[marks.partition_point(|m| m.at_ns < end.at_ns)..];
    }
    found
}

/// Fewest windows in which everything ran that make a rate.
const FEWEST: usize = 3;

/// The rate of a round: the median over the windows in which everything ran. `None` where there are too few of them.
pub fn rate(windows: &[Window]) -> Option<f64> {
    let ran: Vec<f64> = windows.iter().filter(|w| w.ran).map(Window::fps).collect();
    median(&ran).filter(|fps| ran.len() >= FEWEST && *fps > 0.0)
}

/// Is a device in overload that is offered so much and forwards so much? If it is not, it may have more.
pub fn is_overloaded(offered_fps: f64, forwarded_fps: f64) -> bool {
    offered_fps >= 1.05 * forwarded_fps
}

/// From this share of the tester's ceiling on, the tester limits what is forwarded.
const OF_CEILING: f64 = 0.95;

/// What was offered in a round, and what was forwarded of it, frames/s.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Offer {
    /// The load that was really sent.
    pub offered_fps: f64,
    /// The rate that was forwarded.
    pub forwarded_fps: f64,
}

/// Is a capacity a lower bound, since the tester was the limit? It is near the tester's ceiling, the rate with no device in
/// between, or the device was not in overload in half of the rounds.
pub fn is_lower_bound(fps: f64, ceiling_fps: Option<f64>, rounds: &[Offer]) -> bool {
    let short = rounds.iter().filter(|round| !is_overloaded(round.offered_fps, round.forwarded_fps)).count();
    ceiling_fps.is_some_and(|ceiling| fps >= OF_CEILING * ceiling) || (short > 0 && 2 * short >= rounds.len())
}

/// What a device is offered in overload, by what it forwarded of an earlier load: as many times as much as it carries.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Overload {
    /// What is aimed at.
    pub times: f64,
    /// What will do.
    pub least: f64,
    /// What will do.
    pub most: f64,
    /// The tester can pace so much, frames/s.
    pub most_fps: f64,
}

impl Overload {
    /// The next load: the same one, if it was right for what the device forwarded of it.
    pub fn next_fps(&self, offered_fps: f64, forwarded_fps: f64) -> f64 {
        if self.fits(offered_fps, forwarded_fps) { offered_fps } else { self.at(forwarded_fps) }
    }

    /// The load for a device that forwards so much.
    pub fn at(&self, forwarded_fps: f64) -> f64 {
        (forwarded_fps * self.times).min(self.most_fps)
    }

    /// Was the load right, or as high as it can be?
    pub fn fits(&self, offered_fps: f64, forwarded_fps: f64) -> bool {
        let times = offered_fps / forwarded_fps;
        (self.least..=self.most).contains(&times) || (times < self.least && offered_fps >= self.most_fps)
    }
}

/// What a round found of a device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Round {
    /// Frames/s; `None` where it found nothing.
    pub fps: Option<f64>,
    /// Where the CPUs were meanwhile; `None` where that is not known, or changed.
    pub place: Option<Place>,
}

/// A place with this part of the rounds is good for a headline.
const ENOUGH: usize = 4;

/// The places of rounds that found a rate, that of the headline first: of those with a quarter of all rounds, and where no
/// other guest used the device's core, that of most rounds; else that of most rounds. Rounds whose place is not known have
/// none, unless that is so of all of them.
pub fn places<'a>(rounds: impl IntoIterator<Item = &'a Round>) -> Vec<Option<Place>> {
    let mut counts: Vec<(Option<Place>, usize)> = Vec::new();
    for round in rounds.into_iter().filter(|round| round.fps.is_some()) {
        match counts.iter_mut().find(|(place, _)| *place == round.place) {
            Some((_, n)) => *n += 1,
            None => counts.push((round.place, 1)),
        }
    }
    if counts.iter().any(|(place, _)| place.is_some()) {
        counts.retain(|(place, _)| place.is_some());
    }
    let total: usize = counts.iter().map(|(_, n)| n).sum();
    // Of equals the nearer one, in every run the same.
    counts.sort_by_key(|(place, n)| {
        let disturbed = place.is_none_or(|place| place.disturbed) || n * ENOUGH < total;
        (disturbed, std::cmp::Reverse(*n), *place)
    });
    counts.into_iter().map(|(place, _)| place).collect()
}

/// The rates of the rounds in a place.
pub fn rates(rounds: &[Round], place: Option<Place>) -> Vec<f64> {
    rounds.iter().filter(|round| round.place == place).filter_map(|round| round.fps).collect()
}

/// How many times as much one device forwards as another one, from the rounds in which both were in this place, with
/// their number. The interval is exact (that of the sign test).
pub fn compared(one: &[Round], other: &[Round], place: Option<Place>) -> Option<(Ratio, usize)> {
    let there = |round: &Round| round.fps.filter(|_| round.place == place);
    let pairs: Vec<(f64, f64)> = one.iter().zip(other).filter_map(|(a, b)| there(a).zip(there(b))).collect();
    Some((ratio(&pairs)?, pairs.len()))
}

/// The order of `n` devices in a round: random, but from the seed alone.
pub fn order(seed: u64, round: usize, n: usize) -> Vec<usize> {
    let mut rng = Rng::new(seed ^ (round as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut order: Vec<usize> = (0..n).collect();
    (1..n).rev().for_each(|i| order.swap(i, rng.below(i + 1)));
    order
}

#[cfg(test)]
mod sim;
#[cfg(test)]
mod tests;
