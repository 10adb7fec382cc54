//! When frames were lost: gaps between the numbers of a flow group, merged into periods and dated.
//!
//! ```text
//! numbers   1 2 3 . . 6 . 8 9 10 11 12 ... 40 . . 43      periods  {4..7, 3 lost}  {41..42, 2 lost}
//! ```
//! The first half is the same algorithm as in `bpf/recv.bpf.c`, on the same memory; the second half reads the result
//! of either. A gap that late frames may still fill is none yet: only the [`GAPS`] newest are looked at, and what is
//! left of an older one becomes part of a period.

use weir_packet::flow::FlowSpec;
use weir_port::shared::{EVENTS, GAPS, Gap, LATE_EVENTS, Losses, Passed};

use crate::counts::{Load, LossEvent, LostFrames, StreamCounts, Traffic};
use crate::schedule::Schedule;

/// Nothing lost.
pub(crate) const NO_LOSSES: Losses =
    Losses { gaps: 0, events: 0, runs: 0, run_max: 0, gap: [NO_GAP; GAPS], event: [NO_GAP; EVENTS] };
const NO_PASS: Passed = Passed { sent_ns: 0, arrived_ns: 0 };
const NO_GAP: Gap = Gap { first: 0, last: 0, lost: 0, before: NO_PASS, after: NO_PASS };

/// Notes a new gap.
pub(crate) fn note_gap(losses: &mut Losses, gap: Gap, merge_ns: u64) {
    let at = losses.gaps as usize % GAPS;
    if losses.gaps >= GAPS as u64 {
        settle(losses, losses.gap[at], merge_ns);
    }
    losses.gap[at] = gap;
    losses.gaps += 1;
}

/// Notes that `seq` came after a higher number.
pub(crate) fn note_late(losses: &mut Losses, seq: u64) {
    let newest = |n: u64, kept: usize, depth: usize| {
        (1..=n.min(depth as u64)).map(move |back| (n - back) as usize % kept)
    };
    for at in newest(losses.gaps, GAPS, GAPS) {
        if fill(&mut losses.gap[at], seq) {
            return;
        }
    }
    for at in newest(losses.events, EVENTS, LATE_EVENTS) {
        if fill(&mut losses.event[at], seq) {
            return;
        }
    }
}

/// A gap that is too old to be filled becomes a period of loss, or part of the last one.
fn settle(losses: &mut Losses, gap: Gap, merge_ns: u64) {
    if gap.lost == 0 {
        return;
    }
    losses.runs += 1;
    losses.run_max = losses.run_max.max(gap.lost);
    if let Some(last) = losses.events.checked_sub(1) {
        let last = &mut losses.event[last as usize % EVENTS];
        if gap.before.sent_ns < last.after.sent_ns + merge_ns {
            last.last = gap.last;
            last.lost += gap.lost;
            last.after = gap.after;
            return;
        }
    }
    losses.event[losses.events as usize % EVENTS] = gap;
    losses.events += 1;
}

fn fill(gap: &mut Gap, seq: u64) -> bool {
    if gap.lost == 0 || !(gap.first..=gap.last).contains(&seq) {
        return false;
    }
    gap.lost -= 1;
    if seq == gap.first {
        gap.first += 1;
    } else if seq == gap.last {
        gap.last -= 1;
    }
    true
}

/// Dates the losses of a stream's groups: `lost` reads a receiver.
pub(crate) fn date_groups<E>(
    stream: &mut StreamCounts,
    traffic: &Traffic,
    load: &Load,
    lost: impl Fn(usize, &Sender) -> Result<LostFrames, E>,
) -> Result<(), E> {
    if stream.received() >= stream.sent {
        return Ok(());
    }
    let places = Places::of(&traffic.flows);
    let schedule = Schedule::of(load, stream.stream, traffic.streams());
    let (start_ns, last_ns) = (stream.start_ns, stream.last_ns);
    for (i, (group, places)) in stream.groups.iter_mut().zip(&places).enumerate() {
        if group.received < group.sent {
            group.lost = lost(i, &Sender { sent: group.sent, start_ns, last_ns, schedule, places })?;
        }
    }
    Ok(())
}

/// The sender's data of the frames of a group.
pub(crate) struct Sender<'a> {
    /// How many were sent.
    pub(crate) sent: u64,
    /// When sending began, CLOCK_MONOTONIC ns.
    pub(crate) start_ns: u64,
    /// When the last frame left, ns after the start.
    pub(crate) last_ns: u64,
    /// When each was due; `None` if as soon as possible.
    pub(crate) schedule: Option<Schedule>,
    /// Which frames of the stream they were.
    pub(crate) places: &'a Places,
}

/// Which frames of a stream belong to a group: its n-th frame is one of each round through the flows.
pub(crate) struct Places {
    /// Frames of a round.
    round: u64,
    /// Those of the group; `None` = all.
    of_group: Option<Vec<u32>>,
}

impl Places {
    /// For each group of `flows`.
    pub(crate) fn of(flows: &FlowSpec) -> Vec<Places> {
        if flows.groups == 1 {
            return vec![Places { round: 1, of_group: None }];
        }
        let sequence = flows.sequence();
        let mut of_group = vec![Vec::new(); usize::from(flows.groups)];
        for (at, flow) in sequence.iter().enumerate() {
            of_group[usize::from(flow.group)].push(at as u32);
        }
        let round = sequence.len() as u64;
        of_group.into_iter().map(|places| Places { round, of_group: Some(places) }).collect()
    }

    fn place(&self, number: u64) -> u64 {
        match &self.of_group {
            None => number,
            Some(places) => {
                let n = places.len() as u64;
                (number / n) * self.round + u64::from(places[(number % n) as usize])
            }
        }
    }
}

/// The periods of loss of a group, the end of the trial included. `next` is the highest number that arrived, + 1, and
/// `newest` that frame.
pub(crate) fn dated(
    losses: &Losses,
    next: u64,
    newest: Passed,
    merge_ns: u64,
    sender: &Sender,
) -> LostFrames {
    let mut losses = *losses;
    for n in losses.gaps.saturating_sub(GAPS as u64)..losses.gaps {
        let gap = losses.gap[n as usize % GAPS];
        settle(&mut losses, gap, merge_ns);
    }
    if next < sender.sent {
        let gap = Gap {
            first: next,
            last: sender.sent - 1,
            lost: sender.sent - next,
            before: newest,
            after: NO_PASS,
        };
        settle(&mut losses, gap, merge_ns);
    }
    let oldest = losses.events.saturating_sub(EVENTS as u64);
    let kept = (oldest..losses.events).map(|n| losses.event[n as usize % EVENTS]);
    let events: Vec<LossEvent> = kept.filter(|gap| gap.lost > 0).map(|gap| sender.date(&gap)).collect();
    let Losses { runs, run_max, .. } = losses;
    LostFrames { count: oldest + events.len() as u64, events, runs, run_max }
}

impl Sender<'_> {
    fn date(&self, gap: &Gap) -> LossEvent {
        let known = |passed: Passed| (passed != NO_PASS).then_some(passed);
        let (before, after) = (known(gap.before), known(gap.after));
        // The number before the gap and the one after it, and when they were sent: at the ends of the trial, its own.
        let from = before.map_or(0, |p| p.sent_ns.saturating_sub(self.start_ns));
        let to = after.map_or(self.last_ns, |p| p.sent_ns.saturating_sub(self.start_ns)).max(from);
        let numbers =
            (gap.last - gap.first) as f64 + f64::from(u8::from(before.is_some()) + u8::from(after.is_some()));
        let sent_ns = |number: u64| match &self.schedule {
            // Frames leave when they are due or later, and in order.
            Some(schedule) => schedule.due_ns(self.places.place(number)).clamp(from, to),
            None => {
                let nth = (number - gap.first) as f64 + f64::from(u8::from(before.is_some()));
                from + ((to - from) as f64 * nth / numbers.max(1.0)) as u64
            }
        };
        let (first_sent_ns, last_sent_ns) = (sent_ns(gap.first), sent_ns(gap.last));
        let outage_ns = match before.zip(after) {
            Some((before, after)) => after.arrived_ns.saturating_sub(before.arrived_ns),
            // A frame that did not arrive has no time of arrival.
            None => to - from,
        };
        LossEvent { first_sent_ns, last_sent_ns, lost: gap.lost, outage_ns }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::counts::Load;
    use crate::sequence::Window;

    /// ns from a frame's departure to its arrival.
    const LATENCY: u64 = 500;
    const START: u64 = 7_000_000;

    /// 1 frame per us is sent; `arrivals` are numbers and ranges in the order of their arrival. Returns the number of
    /// runs and the longest.
    fn check(sent: u64, arrivals: &str, expected: &str) -> (u64, u64) {
        let load = Load::steady(1e6, Duration::from_secs(1));
        let paced = Schedule::of(&load, 0, 1);
        let in_order = arrivals
            .split_whitespace()
            .is_sorted_by_key(|word| word.split('-').next().and_then(|n| n.parse::<u64>().ok()));
        // Without due times a date is a guess between those of the frames around the gap, all of which counts.
        let mut runs = (0, 0);
        for schedule in if in_order { vec![paced, None] } else { vec![paced] } {
            let (mut window, mut losses) = (Window::default(), NO_LOSSES);
            for word in arrivals.split_whitespace() {
                let (first, last) = word.split_once('-').unwrap_or((word, word));
                for n in first.parse::<u64>().unwrap()..=last.parse().unwrap() {
                    let sent_ns = START + n * 1000;
                    window.arrive(
                        n as u32,
                        Passed { sent_ns, arrived_ns: sent_ns + LATENCY },
                        &mut losses,
                        50_000,
                    );
                }
            }
            let last_ns = (sent - 1) * 1000;
            let places = Places { round: 1, of_group: None };
            let sender = Sender { sent, start_ns: START, last_ns, schedule, places: &places };
            let lost = dated(&losses, window.next(), window.newest(), 50_000, &sender);
            let text = |e: &LossEvent| {
                format!(
                    "{}-{}us:{}/{}us",
                    e.first_sent_ns / 1000,
                    e.last_sent_ns / 1000,
                    e.lost,
                    e.outage_ns / 1000
                )
            };
            let events: Vec<String> = lost.events.iter().map(text).collect();
            assert_eq!(events.join(" "), expected, "{arrivals} with {schedule:?}");
            assert_eq!(lost.count, events.len() as u64, "{arrivals}");
            runs = (lost.runs, lost.run_max);
        }
        runs
    }

    #[test]
    fn gaps_become_periods() {
        check(300, "0-299", "");
        check(300, "0-99 101-299", "100-100us:1/2us");
        // Less than 50 us apart is one period, and its outage ends with its last gap.
        check(300, "0-99 101-140 145-299", "100-144us:5/46us");
        check(300, "0-99 101-160 165-299", "100-100us:1/2us 161-164us:4/5us");
        // At both ends of the trial the sender's own times count.
        check(300, "10-299", "0-9us:10/10us");
        check(300, "0-199", "200-299us:100/100us");
        check(300, "", "0-299us:300/299us");
    }

    #[test]
    fn frames_lost_in_a_row_are_runs_whatever_period_they_are_in() {
        assert_eq!(check(300, "0-299", ""), (0, 0));
        assert_eq!(check(300, "0-99 101-140 145-299", "100-144us:5/46us"), (2, 4));
        assert_eq!(check(300, "0-9 20-30 12 10 14 31-299 11 13", "12-19us:5/11us"), (1, 5));
        assert_eq!(check(300, "0-9 12 14-199", "10-13us:3/5us 200-299us:100/100us"), (3, 100));
    }

    #[test]
    fn late_frames_fill_gaps() {
        check(300, "0-9 11-13 10 14-299", "");
        check(300, "0-9 20-30 12 31-299", "10-19us:9/11us");
        check(300, "0-9 20-30 10 11 19 31-299", "12-18us:7/11us");
        // A gap that is filled later does not join the losses before and after it.
        check(300, "0-9 11-49 51-60 50 61-99 101-299", "10-10us:1/2us 100-100us:1/2us");
        // A duplicate fills nothing.
        check(300, "0-9 12-13 9 9 14-299", "10-11us:2/3us");
    }

    #[test]
    fn very_late_frames_are_found_in_their_period() {
        let numbers: Vec<String> = (0..300).filter(|n| n % 2 == 0).map(|n| n.to_string()).collect();
        check(299, &numbers.join(" "), "1-297us:149/298us");
        check(299, &format!("{} 5 1 297", numbers.join(" ")), "2-295us:146/296us");
        // 20 gaps of 60 us: the first is its own period by then, and a late frame leaves nothing of it.
        let arrivals: Vec<String> = (0..20).map(|n| format!("{}-{}", n * 60 + 1, n * 60 + 59)).collect();
        let all = |late: &str| format!("{} {late}", arrivals.join(" "));
        let mut periods: Vec<String> =
            (0..20).map(|n| format!("{0}-{0}us:1/{1}us", n * 60, if n == 0 { 1 } else { 2 })).collect();
        check(1200, &all(""), &periods.join(" "));
        periods.remove(3);
        check(1200, &all("180"), &periods.join(" "));
    }

    #[test]
    fn only_the_last_periods_are_kept_but_all_are_counted() {
        let mut losses = NO_LOSSES;
        for n in 0..3000 {
            let at = |n: u64| Passed { sent_ns: n * 1_000_000, arrived_ns: n * 1_000_000 + LATENCY };
            let gap = Gap { first: 2 * n, last: 2 * n, lost: 1, before: at(2 * n), after: at(2 * n + 1) };
            note_gap(&mut losses, gap, 1000);
        }
        let places = Places { round: 1, of_group: None };
        let sender = Sender { sent: 6000, start_ns: 0, last_ns: 0, schedule: None, places: &places };
        let lost = dated(&losses, 6000, NO_PASS, 1000, &sender);
        assert_eq!((lost.count, lost.events.len()), (3000, EVENTS));
        assert_eq!(lost.events.last().map(|e| e.last_sent_ns), Some(5_998_500_000));
    }

    #[test]
    fn the_frames_of_a_group_have_their_place_in_the_stream() {
        use weir_packet::flow::FlowOrder;
        for order in [FlowOrder::Sequential, FlowOrder::Random, FlowOrder::Unique] {
            let flows =
                FlowSpec { count: 10, order, groups: 3, hosts: 10, networks: 1, src: 0, dst: 0, seed: 1 };
            let (places, sequence) = (Places::of(&flows), flows.sequence());
            let mut number = [0; 3];
            for n in 0..3 * sequence.len() {
                let group = usize::from(sequence[n % sequence.len()].group);
                assert_eq!(places[group].place(number[group]), n as u64, "{order:?}");
                number[group] += 1;
            }
        }
    }
}
