//! Results of a bottleneck: for each interval, and at the end.

use std::collections::BTreeMap;

use serde::Serialize;
use weir_link::Rate;
use weir_load::histogram::Histogram;
use weir_port::duplex::{Account, Chunk};
use weir_queue::{Reason, Time};

use crate::settings::Settings;
use crate::way::{Counts, Way};

/// Bits of a full frame on the link: its time there is a slot.
const SLOT_BITS: f64 = 1514.0 * 8.0;
/// What ports call frames that they could not send.
const NO_ROOM: &str = "no room to send";

/// Of times, in ns.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Quantiles {
    /// Median.
    pub p50: u64,
    /// 95th percentile.
    pub p95: u64,
    /// 99th percentile.
    pub p99: u64,
    /// The largest, to 1.6 %, or exactly where it was kept.
    pub max: u64,
}

impl Quantiles {
    /// Of a histogram.
    pub fn of(histogram: &Histogram) -> Quantiles {
        let at = |p| histogram.percentile(p);
        Quantiles { p50: at(0.5), p95: at(0.95), p99: at(0.99), max: at(1.0) }
    }
}

/// Why figures do not count if frames left so late, at the 99th percentile; `None` where they do: up to a slot.
pub fn too_late(p99_ns: u64, slot_ns: u64) -> Option<String> {
    (p99_ns > slot_ns).then(|| {
        format!(
            "frames left the bottleneck up to {p99_ns} ns late at the 99th percentile, more than a slot of {slot_ns} ns"
        )
    })
}

/// What is to be seen of a direction, since the last look.
#[derive(Debug, Clone, Serialize)]
pub struct View {
    /// The rate of the link now; `None` without a limit.
    pub rate_bits_per_s: Option<u64>,
    /// Bytes that the link has taken since the last look, as a rate.
    pub bits_per_s: f64,
    /// Bytes in the queue now.
    pub queue_bytes: u64,
    /// Time in the queue of packets that the link has taken since the last look.
    pub sojourn_ns: Quantiles,
    /// All of these times.
    #[serde(skip)]
    pub sojourns: Histogram,
    /// Packets that the queue has dropped since the last look.
    pub dropped: u64,
    /// Packets that got CE since the last look.
    pub marked: u64,
}

/// What is to be seen now.
#[derive(Debug, Clone, Serialize)]
pub struct Snapshot {
    /// Seconds since the start.
    pub at_s: f64,
    /// There, and back.
    pub directions: [View; 2],
    #[serde(skip)]
    counts: [Counts; 2],
}

impl Snapshot {
    pub(crate) fn of(now: Time, ways: &mut [Way<Chunk>; 2]) -> Snapshot {
        let counts = [ways[0].counts(), ways[1].counts()];
        let view = |way: &mut Way<Chunk>, counts: &Counts| {
            let sojourns = way.recent_sojourn();
            View {
                rate_bits_per_s: way.bits_per_s(),
                bits_per_s: 0.0,
                queue_bytes: counts.queued.bytes,
                sojourn_ns: Quantiles::of(&sojourns),
                sojourns,
                dropped: counts.dropped_packets(),
                marked: counts.marked,
            }
        };
        let [there, back] = ways;
        let directions = [view(there, &counts[0]), view(back, &counts[1])];
        Snapshot { at_s: now.secs(), directions, counts }
    }

    /// With counts since an earlier one; `None`: since the start.
    pub(crate) fn since(mut self, before: Option<&Snapshot>) -> Snapshot {
        let seconds = self.at_s - before.map_or(0.0, |before| before.at_s);
        for (number, view) in self.directions.iter_mut().enumerate() {
            let was = before.map_or(Counts::default(), |before| before.counts[number]);
            let bytes = self.counts[number].departed.bytes - was.departed.bytes;
            view.bits_per_s = bytes as f64 * 8.0 / seconds.max(1e-9);
            view.dropped -= was.dropped_packets();
            view.marked -= was.marked;
        }
        self
    }
}

/// Counts of the fate of the frames of a direction.
#[derive(Debug, Clone, Serialize)]
pub struct Direction {
    /// Its rate, that by which buffers are measured; `None` without a limit.
    pub rate_bits_per_s: Option<u64>,
    /// Bytes of the buffer.
    pub limit_bytes: u64,
    /// Time of a full frame on the link, in ns.
    pub slot_ns: u64,
    /// Frames that arrived, ..
    pub entered: u64,
    /// .. and their bytes.
    pub entered_bytes: u64,
    /// Of these, frames without a packet of IP that could be read, but for ARP and the like: to the queue they are flows by their
    /// Ethernet addresses, and without ECN.
    pub unread: u64,
    /// Frames that the queue dropped, by reason.
    pub dropped: BTreeMap<&'static str, u64>,
    /// Frames that got CE.
    pub marked: u64,
    /// Frames that were lost behind the link, as asked for.
    pub lost: u64,
    /// Frames that were sent, ..
    pub sent: u64,
    /// .. and the bytes that the link has taken.
    pub link_bytes: u64,
    /// Frames in the queue at the end.
    pub queued: u64,
    /// Frames in the delay line at the end.
    pub delayed: u64,
    /// Frames that the port lost, by place: these should not be.
    pub port_drops: BTreeMap<&'static str, u64>,
    /// Frames that are nowhere.
    pub unexplained: i64,
    /// Bytes that the link has taken, over the whole time.
    pub bits_per_s: f64,
    /// Time in the queue.
    pub sojourn_ns: Quantiles,
    /// How much later frames were sent than they were due.
    pub lateness_ns: Quantiles,
}

/// What a bottleneck has done.
#[derive(Debug, Clone, Serialize)]
pub struct Outcome {
    /// Whether the result counts.
    pub valid: bool,
    /// Why not.
    pub invalid: Vec<String>,
    /// Its whole time.
    pub duration_s: f64,
    /// There, and back.
    pub directions: [Direction; 2],
}

/// Where the figures of a direction are.
pub(crate) struct Place<'a> {
    pub(crate) way: &'a Way<Chunk>,
    pub(crate) lateness: &'a Histogram,
    pub(crate) latest_ns: u64,
    pub(crate) unread: u64,
    pub(crate) came: &'a Account,
    pub(crate) went: &'a Account,
    pub(crate) settings: &'a Settings,
    pub(crate) number: usize,
    pub(crate) seconds: f64,
}

pub(crate) fn direction(place: Place<'_>) -> Direction {
    let Place { way, settings, number, .. } = place;
    let counts = way.counts();
    let rate = settings.rate_of(number).map(Rate::nominal);
    let lost_at = |account: &Account, sending: bool| {
        let drops = account.drops.iter().filter(move |drops| (drops.name == NO_ROOM) == sending);
        drops.filter(|drops| drops.frames > 0).map(|drops| (drops.name, drops.frames)).collect::<Vec<_>>()
    };
    let no_room = lost_at(place.went, true);
    let unsent: u64 = no_room.iter().map(|(_, frames)| frames).sum();
    let taken_in = place.came.received as i64 - counts.entered.packets as i64;
    let handed_on = counts.left.packets as i64 - (place.went.sent + unsent) as i64;
    let reasons = Reason::ALL.iter().zip(&counts.dropped).filter(|(_, tally)| tally.packets > 0);
    Direction {
        rate_bits_per_s: rate,
        limit_bytes: rate.and(settings.bottleneck(number).ok()).map_or(0, |at| at.limit_bytes),
        slot_ns: (SLOT_BITS / rate.unwrap_or(settings.rate.nominal()) as f64 * 1e9) as u64,
        entered: counts.entered.packets,
        entered_bytes: counts.entered.bytes,
        unread: place.unread,
        dropped: reasons.map(|(reason, tally)| (reason.name(), tally.packets)).collect(),
        marked: counts.marked,
        lost: counts.lost.packets,
        sent: place.went.sent,
        link_bytes: counts.departed.bytes,
        queued: counts.queued.packets,
        delayed: counts.delayed,
        port_drops: lost_at(place.came, false).into_iter().chain(no_room).collect(),
        unexplained: counts.unexplained() + taken_in + handed_on,
        bits_per_s: counts.departed.bytes as f64 * 8.0 / place.seconds.max(1e-9),
        sojourn_ns: Quantiles::of(way.sojourn()),
        lateness_ns: Quantiles { max: place.latest_ns, ..Quantiles::of(place.lateness) },
    }
}

impl Outcome {
    pub(crate) fn of(now: Time, directions: [Direction; 2]) -> Outcome {
        let invalid: Vec<String> =
            ["there", "back"].iter().zip(&directions).flat_map(|(name, one)| one.faults(name)).collect();
        Outcome { valid: invalid.is_empty(), invalid, duration_s: now.secs(), directions }
    }
}

impl Direction {
    /// Why its figures do not count.
    fn faults(&self, name: &str) -> Vec<String> {
        let mut faults = Vec::new();
        if let Some(late) = too_late(self.lateness_ns.p99, self.slot_ns).filter(|_| self.sent > 0) {
            faults.push(format!("{name}: {late}: use a CPU of its own (--cpu), or a lower rate"));
        }
        for (place, frames) in &self.port_drops {
            faults.push(format!("{name}: {frames} frames were lost in this program: {place}"));
        }
        if self.unexplained != 0 {
            faults.push(format!("{name}: {} frames are unexplained", self.unexplained));
        }
        faults
    }
}
