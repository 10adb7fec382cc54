//! A device with deliberate faults: it drops, duplicates, reorders, corrupts or delays exact numbers of frames, so that one can
//! see whether a tester reports exactly that.
//!
//! Pure: frames and times go in, frames come out. Which frames are hit follows from their count alone.

use std::collections::VecDeque;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// What to do to which frames. Written as `drop=1/1000 reorder=3/500 delay=2ms`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Faults {
    /// Drop each n-th frame.
    pub drop: Option<u64>,
    /// Drop so many frames in a row, again and again.
    pub burst: Option<Burst>,
    /// Send each n-th frame twice.
    pub duplicate: Option<u64>,
    /// Flip a bit of the payload of each n-th frame.
    pub corrupt: Option<u64>,
    /// Send each n-th frame only after `by` later ones.
    pub reorder: Option<Reorder>,
    /// Hold every frame this long.
    pub delay: Duration,
    /// After this many frames, pass nothing for a while.
    pub stall: Option<Stall>,
    /// What a NAT does wrong; other devices have no addresses to confuse.
    pub nat: Option<NatMistakes>,
}

/// Mistakes of a NAT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NatMistakes {
    /// Of which kind.
    pub kind: NatMistake,
    /// In each n-th frame, or for each n-th subscriber.
    pub every: u32,
}

/// What a NAT can do wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NatMistake {
    /// Frames leave untranslated.
    Leak,
    /// Several subscribers get one and the same outside tuple.
    Clash,
    /// Answers go to the neighbour of the subscriber.
    WrongSubscriber,
    /// Frames get another outside tuple than those of their flow before.
    Remap,
}

impl NatMistake {
    const ALL: [(NatMistake, &'static str); 4] = [
        (NatMistake::Leak, "leak"),
        (NatMistake::Clash, "clash"),
        (NatMistake::WrongSubscriber, "wrong-subscriber"),
        (NatMistake::Remap, "remap"),
    ];
}

/// Each `every`-th frame leaves after `by` later ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reorder {
    /// How many later frames overtake it.
    pub by: u64,
    /// Which frames.
    pub every: u64,
}

/// The last `frames` of each `every` are dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Burst {
    /// How many.
    pub frames: u64,
    /// Of how many.
    pub every: u64,
}

/// Frames that arrive during a stall are lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stall {
    /// It starts at this frame.
    pub at: u64,
    /// It lasts this long.
    pub time: Duration,
}

/// Longest delay or stall: an hour.
const LONGEST_US: u64 = 3_600_000_000;

impl FromStr for Faults {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut faults = Faults::default();
        for word in text.split_whitespace() {
            let (name, value) = word.split_once('=').ok_or_else(|| format!("`{word}`: write NAME=VALUE"))?;
            match name {
                "drop" => faults.drop = Some(one_in(value)?),
                "duplicate" => faults.duplicate = Some(one_in(value)?),
                "corrupt" => faults.corrupt = Some(one_in(value)?),
                "reorder" => {
                    let (by, every) =
                        value.split_once('/').ok_or("write reorder=BY/EVERY, as in reorder=3/500")?;
                    faults.reorder = Some(Reorder { by: number(by)?, every: number(every)? });
                }
                "burst" => {
                    let (frames, every) =
                        value.split_once('/').ok_or("write burst=FRAMES/EVERY, as in burst=10/1000")?;
                    faults.burst = Some(Burst { frames: number(frames)?, every: number(every)? });
                }
                "delay" => faults.delay = time(value)?,
                "stall" => {
                    let (length, at) = value.split_once('@').ok_or("write stall=20ms@FRAME")?;
                    faults.stall = Some(Stall { at: number(at)?, time: time(length)? });
                }
                _ => {
                    let known = NatMistake::ALL.iter().find(|(_, known)| *known == name);
                    let (kind, _) = known.ok_or_else(|| {
                        format!(
                            "`{name}` is no fault: use drop, burst, duplicate, corrupt, reorder, delay or stall; of \
                             prefix-nat leak, clash, wrong-subscriber or remap"
                        )
                    })?;
                    let every = u32::try_from(one_in(value)?).unwrap_or(u32::MAX);
                    faults.nat = Some(NatMistakes { kind: *kind, every });
                }
            }
        }
        Ok(faults)
    }
}

fn one_in(value: &str) -> Result<u64, String> {
    number(value.strip_prefix("1/").ok_or_else(|| format!("`{value}`: write 1/N, as in 1/1000"))?)
}

fn number(value: &str) -> Result<u64, String> {
    value.parse().ok().filter(|n| *n > 0).ok_or_else(|| format!("`{value}` is no number above 0"))
}

fn time(value: &str) -> Result<Duration, String> {
    let read = |(unit, us): &(&str, u64)| value.strip_suffix(unit)?.parse::<u64>().ok()?.checked_mul(*us);
    let units = [("us", 1), ("ms", 1000), ("s", 1_000_000)];
    let us = units.iter().find_map(read).filter(|us| *us <= LONGEST_US);
    us.map(Duration::from_micros)
        .ok_or_else(|| format!("`{value}` is no time up to an hour: write 500us, 2ms or 1s"))
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words = Vec::new();
        for (name, every) in [("drop", self.drop), ("duplicate", self.duplicate), ("corrupt", self.corrupt)] {
            words.extend(every.map(|n| format!("{name}=1/{n}")));
        }
        words.extend(self.burst.map(|b| format!("burst={}/{}", b.frames, b.every)));
        words.extend(self.reorder.map(|r| format!("reorder={}/{}", r.by, r.every)));
        if !self.delay.is_zero() {
            words.push(format!("delay={}us", self.delay.as_micros()));
        }
        words.extend(self.stall.map(|s| format!("stall={}us@{}", s.time.as_micros(), s.at)));
        words.extend(self.nat.map(|NatMistakes { kind, every }| {
            let known = NatMistake::ALL.iter().find(|(known, _)| *known == kind);
            format!("{}=1/{every}", known.expect("every kind is in ALL").1)
        }));
        f.write_str(&words.join(" "))
    }
}

/// One direction of a faulty device.
#[derive(Debug, Default)]
pub struct FaultLine {
    faults: Faults,
    frames: u64,
    dropped: u64,
    stalled_until_ns: u64,
    /// Frames on their way, with the time at which they leave.
    ready: VecDeque<(u64, Vec<u8>)>,
    /// Frames that wait until so many later ones have passed.
    held: VecDeque<(u64, Vec<u8>)>,
}

impl FaultLine {
    /// A line that does `faults`.
    pub fn new(faults: Faults) -> Self {
        FaultLine { faults, ..FaultLine::default() }
    }

    /// A frame arrives.
    pub fn push(&mut self, now_ns: u64, mut frame: Vec<u8>) {
        self.frames += 1;
        let n = self.frames;
        let hit = |every: Option<u64>| every.is_some_and(|every| n.is_multiple_of(every));
        if let Some(stall) = self.faults.stall.filter(|s| s.at == n) {
            self.stalled_until_ns = now_ns + stall.time.as_nanos() as u64;
        }
        let burst = self.faults.burst.is_some_and(|b| (n - 1) % b.every + b.frames >= b.every);
        if now_ns < self.stalled_until_ns || burst || hit(self.faults.drop) {
            self.dropped += 1;
            return;
        }
        if hit(self.faults.corrupt) {
            let last = frame.len() - 1;
            frame[last] ^= 0x10;
        }
        let leave_ns = now_ns + self.faults.delay.as_nanos() as u64;
        if hit(self.faults.duplicate) {
            self.ready.push_back((leave_ns, frame.clone()));
        }
        match self.faults.reorder.filter(|r| hit(Some(r.every))) {
            Some(reorder) => self.held.push_back((n.saturating_add(reorder.by), frame)),
            None => self.ready.push_back((leave_ns, frame)),
        }
        while let Some((_, frame)) = self.held.pop_front_if(|(after, _)| *after <= n) {
            self.ready.push_back((leave_ns, frame));
        }
    }

    /// Passes nothing until then, or until its own stall ends, if that is later.
    pub fn stall_until(&mut self, until_ns: u64) {
        self.stalled_until_ns = self.stalled_until_ns.max(until_ns);
    }

    /// From now on every frame is held this long.
    pub fn delay_by(&mut self, delay: Duration) {
        self.faults.delay = delay;
    }

    /// Frames whose time has come.
    pub fn pop(&mut self, now_ns: u64) -> Option<Vec<u8>> {
        self.ready.pop_front_if(|(leave_ns, _)| *leave_ns <= now_ns).map(|(_, frame)| frame)
    }

    /// Frames dropped so far.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// When the next frame leaves, if one is on its way.
    pub fn next_ns(&self) -> Option<u64> {
        self.ready.front().map(|(leave_ns, _)| *leave_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pushes `n` frames, one per ms, and lists what leaves: frame numbers, `!` behind a corrupted one.
    fn check(faults: &str, n: u64, expected: &str) {
        let mut line = FaultLine::new(faults.parse().unwrap());
        let mut out = Vec::new();
        for i in 1..=n {
            line.push(i * 1_000_000, vec![i as u8, 0]);
            while let Some(frame) = line.pop(i * 1_000_000) {
                out.push(format!("{}{}", frame[0], if frame[1] != 0 { "!" } else { "" }));
            }
        }
        assert_eq!(out.join(" "), expected, "{faults}");
    }

    #[test]
    fn faults_hit_exactly_their_frames() {
        check("", 4, "1 2 3 4");
        check("drop=1/2", 6, "1 3 5");
        check("burst=2/5", 12, "1 2 3 6 7 8 11 12");
        check("duplicate=1/3", 4, "1 2 3 3 4");
        check("corrupt=1/2", 4, "1 2! 3 4!");
        check("reorder=2/3", 8, "1 2 4 5 3 7 8 6");
        check("delay=2ms", 5, "1 2 3");
        check("stall=2ms@3", 6, "1 2 5 6");
        check("drop=1/4 duplicate=1/3", 6, "1 2 3 3 5 6 6");
    }

    #[test]
    fn a_delay_from_outside_is_for_the_frames_that_follow() {
        let mut line = FaultLine::new("delay=5us".parse().unwrap());
        line.push(0, vec![1]);
        line.delay_by(Duration::from_micros(9));
        line.push(1_000, vec![2]);
        let leave: Vec<_> = std::iter::from_fn(|| {
            let due = line.next_ns()?;
            assert_eq!(line.pop(due - 1), None);
            line.pop(due).map(|frame| (due, frame[0]))
        })
        .collect();
        assert_eq!(leave, [(5_000, 1), (10_000, 2)]);
    }

    #[test]
    fn a_stall_from_outside_drops_what_arrives_in_it() {
        let mut line = FaultLine::default();
        line.stall_until(20);
        line.stall_until(10);
        let passed: Vec<u64> = [5, 15, 19, 20, 25]
            .into_iter()
            .filter(|&now_ns| {
                line.push(now_ns, vec![0]);
                line.pop(now_ns).is_some()
            })
            .collect();
        assert_eq!((passed, line.dropped()), (vec![20, 25], 3));
    }

    #[test]
    fn faults_are_written_as_they_are_read() {
        for text in [
            "",
            "drop=1/1000 corrupt=1/7 burst=2/9 reorder=3/500 delay=2000us stall=20000us@9",
            "wrong-subscriber=1/9",
        ] {
            assert_eq!(text.parse::<Faults>().unwrap().to_string(), text);
        }
        for text in
            ["drop", "drop=2/3", "drop=1/0", "melt=1/2", "reorder=3", "stall=3", "burst=3", "burst=0/3"]
        {
            assert!(text.parse::<Faults>().is_err(), "{text}");
        }
        for text in ["delay=soon", "delay=2", "delay=3601s", "stall=18446744073709551615s@1"] {
            assert!(text.parse::<Faults>().unwrap_err().contains("up to an hour"), "{text}");
        }
    }
}
