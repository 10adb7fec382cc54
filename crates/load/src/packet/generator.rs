//! Builds test frames and sends them through sockets when they are due.

use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_packet::flow::Flow;
use weir_packet::frame::Signature;
use weir_packet::size::{FCS_BYTES, FrameSizes};
use weir_port::bpf::now_ns;
use weir_port::packet::{BATCH, PacketError, Sender};

use crate::counts::{GroupCounts, Load, StreamCounts, Traffic, empty_lateness};
use crate::{Control, grace};

/// Sends frames out of one or two interfaces.
pub struct PacketGenerator {
    senders: [Option<Arc<Sender>>; 2],
    traffic: Traffic,
    flows: Vec<Flow>,
}

impl PacketGenerator {
    /// Stream i leaves through sender i.
    pub fn new(senders: [Option<Arc<Sender>>; 2], traffic: Traffic) -> Self {
        let flows = traffic.flows.sequence();
        PacketGenerator { senders, traffic, flows }
    }

    /// Sends `load`; returns what was sent per stream and how long that took. `arrived` is what `control` is
    /// told beside what was sent.
    pub fn send(
        &self,
        load: &Load,
        epoch: u8,
        control: &Control,
        arrived: impl Fn() -> u64,
    ) -> Result<(Vec<StreamCounts>, Duration), PacketError> {
        let start = Instant::now();
        let transmitter = Transmitter::new(&self.traffic, &self.flows, epoch, load);
        let streams = transmitter.run(&self.senders, control, arrived)?;
        Ok((streams, start.elapsed()))
    }
}

/// Builds frames and sends them when they are due.
struct Transmitter<'a> {
    traffic: &'a Traffic,
    flows: &'a [Flow],
    epoch: u8,
    duration: Duration,
    streams: Vec<Outgoing>,
    random: u64,
}

/// Progress of one stream that is being sent.
struct Outgoing {
    counts: StreamCounts,
    gap_ns: f64,
    total: u64,
    seq: Vec<u32>,
    last_ns: u64,
}

impl Outgoing {
    fn due_ns(&self) -> u64 {
        (self.counts.sent as f64 * self.gap_ns) as u64
    }

    /// How many frames may leave now. Late, it catches up at 1.25 times the nominal rate.
    fn allowed(&self, now_ns: u64) -> u64 {
        let left = self.total - self.counts.sent;
        if self.gap_ns == 0.0 {
            return left.min(BATCH as u64);
        }
        if now_ns < self.due_ns() {
            return 0;
        }
        let due = (((now_ns - self.due_ns()) as f64 / self.gap_ns) as u64).saturating_add(1);
        let since_last = (now_ns - self.last_ns) as f64 * 1.25 / self.gap_ns;
        due.min((since_last as u64).max(1)).min(left).min(BATCH as u64)
    }
}

impl<'a> Transmitter<'a> {
    fn new(traffic: &'a Traffic, flows: &'a [Flow], epoch: u8, load: &Load) -> Self {
        let per_stream = load.fps.map(|fps| fps / traffic.streams() as f64);
        let total = per_stream.map_or(u64::MAX, |fps| (fps * load.duration.as_secs_f64()).round() as u64);
        let total = total.min(load.max_frames.unwrap_or(u64::MAX));
        let outgoing = |stream| Outgoing {
            counts: StreamCounts {
                stream,
                offered: total,
                sent: 0,
                sent_bytes: 0,
                late: empty_lateness(),
                late_max_ns: 0,
                late_end_ns: 0,
                last_ns: 0,
                groups: vec![GroupCounts::empty(); usize::from(traffic.flows.groups)],
            },
            gap_ns: per_stream.map_or(0.0, |fps| 1e9 / fps),
            total,
            seq: vec![0; usize::from(traffic.flows.groups)],
            last_ns: 0,
        };
        let streams = (0..2).filter(|&i| traffic.sends(i)).map(outgoing).collect();
        Transmitter { traffic, flows, epoch, duration: load.duration, streams, random: traffic.seed }
    }

    fn run(
        mut self,
        senders: &[Option<Arc<Sender>>; 2],
        control: &Control,
        arrived: impl Fn() -> u64,
    ) -> Result<Vec<StreamCounts>, PacketError> {
        let start = now_ns();
        let paced = self.streams.iter().all(|s| s.gap_ns > 0.0);
        let limit = self.duration + if paced { grace(self.duration) } else { Duration::ZERO };
        let mut frames = vec![Vec::new(); BATCH];
        while self.streams.iter().any(|s| s.counts.sent < s.total) && !control.stopped() {
            let elapsed = now_ns() - start;
            if elapsed >= limit.as_nanos() as u64 {
                break;
            }
            for i in 0..self.streams.len() {
                let n = self.streams[i].allowed(elapsed) as usize;
                if let (Some(sender), true) = (&senders[self.streams[i].counts.stream], n > 0) {
                    self.build(i, &mut frames[..n], start + elapsed);
                    let sent = sender.send(&frames[..n])?;
                    self.note(i, &frames[..sent], elapsed);
                }
            }
            control.report(self.streams.iter().map(|s| s.counts.sent).sum(), arrived());
        }
        Ok(self.streams.into_iter().map(finished).collect())
    }

    /// Builds the next frames of stream `i`; numbers are only used up when they are sent.
    fn build(&mut self, i: usize, frames: &mut [Vec<u8>], time_ns: u64) {
        let stream = &self.streams[i];
        let ends = &self.traffic.ends[stream.counts.stream];
        let mut seq = stream.seq.clone();
        for (k, frame) in frames.iter_mut().enumerate() {
            let n = stream.counts.sent + k as u64;
            let mut flow = self.flows[(n % self.flows.len() as u64) as usize];
            if stream.counts.stream == 1 {
                flow = flow.reversed();
            }
            let next = &mut seq[usize::from(flow.group)];
            let signature = Signature {
                stream: stream.counts.stream as u8,
                epoch: self.epoch,
                group: flow.group,
                seq: *next,
                time_ns,
            };
            *next += 1;
            *frame = ends.frame(&flow, size_of_frame(&self.traffic.sizes, n, &mut self.random), signature);
        }
    }

    fn note(&mut self, i: usize, sent: &[Vec<u8>], elapsed_ns: u64) {
        let stream = &mut self.streams[i];
        for frame in sent {
            if stream.gap_ns > 0.0 {
                let late = elapsed_ns.saturating_sub(stream.due_ns());
                stream.counts.late.record(late);
                stream.counts.late_max_ns = stream.counts.late_max_ns.max(late);
                stream.counts.late_end_ns = late;
            }
            let flow = &self.flows[(stream.counts.sent % self.flows.len() as u64) as usize];
            stream.seq[usize::from(flow.group)] += 1;
            stream.counts.sent += 1;
            stream.counts.sent_bytes += (frame.len() + FCS_BYTES) as u64;
            stream.last_ns = elapsed_ns;
        }
    }
}

fn finished(stream: Outgoing) -> StreamCounts {
    let mut counts = stream.counts;
    for (group, sent) in counts.groups.iter_mut().zip(stream.seq) {
        group.sent = u64::from(sent);
    }
    if stream.gap_ns > 0.0 {
        counts.last_ns = stream.last_ns;
    }
    if counts.offered == u64::MAX {
        counts.offered = counts.sent;
    }
    counts
}

fn size_of_frame(sizes: &FrameSizes, n: u64, random: &mut u64) -> u16 {
    match sizes {
        FrameSizes::Fixed(size) => *size,
        FrameSizes::Cycle { sizes, .. } => sizes[(n % sizes.len() as u64) as usize],
        FrameSizes::Random { min, max } => {
            *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            min + ((*random >> 33) % u64::from(max - min + 1)) as u16
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outgoing(fps: f64) -> Outgoing {
        let counts = StreamCounts {
            stream: 0,
            offered: u64::MAX,
            sent: 0,
            sent_bytes: 0,
            late: empty_lateness(),
            late_max_ns: 0,
            late_end_ns: 0,
            last_ns: 0,
            groups: Vec::new(),
        };
        Outgoing { counts, gap_ns: 1e9 / fps, total: u64::MAX, seq: Vec::new(), last_ns: 0 }
    }

    #[test]
    fn what_is_due_may_leave_and_no_more_than_a_batch() {
        for (fps, now_ns, expected) in [
            (1e6, 0, 1),
            (1e6, 10_000, 11),
            (1e6, 1_000_000, BATCH as u64),
            (1e30, 1, BATCH as u64),
            (1e-9, 1_000_000, 1),
        ] {
            assert_eq!(outgoing(fps).allowed(now_ns), expected, "{fps} frames/s after {now_ns} ns");
        }
        let mut early = outgoing(1e6);
        early.counts.sent = 11;
        assert_eq!(early.allowed(10_000), 0);
    }
}
