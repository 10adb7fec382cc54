//! Delivery rate samples (draft-ietf-ccwg-bbr, section "Delivery Rate Samples").

use weir_queue::Time;

use super::Segment;
use crate::cc::RateSample;

/// The connection's side of the sampler.
#[derive(Debug, Clone, Default)]
pub(super) struct Sampler {
    pub(super) delivered: u64,
    pub(super) lost: u64,
    /// Delivered with CE.
    pub(super) ce: u64,
    /// Until so many are delivered, samples are limited by the application; 0: they are not.
    pub(super) app_limited: u64,
    delivered_time: Time,
    first_sent: Time,
    newest: Option<Newest>,
}

/// The newest segment that the present ACK delivers.
#[derive(Debug, Clone, Copy)]
struct Newest {
    number: u64,
    sample: RateSample,
    interval: Time,
}

impl Sampler {
    /// A segment is sent; `in_flight` includes it.
    pub(super) fn sent(&mut self, segment: &mut Segment, in_flight: u64) {
        if in_flight <= 1 {
            self.first_sent = segment.sent;
            self.delivered_time = segment.sent;
        }
        segment.first_sent = self.first_sent;
        segment.delivered_time = self.delivered_time;
        segment.delivered = self.delivered;
        segment.lost_before = self.lost;
        segment.ce_before = self.ce;
        segment.tx_in_flight = in_flight as u32;
        segment.app_limited = self.app_limited != 0;
    }

    /// A segment is delivered for the first time.
    pub(super) fn delivers(&mut self, segment: &Segment, now: Time) {
        self.delivered += 1;
        self.delivered_time = now;
        if self.newest.is_some_and(|newest| newest.number > segment.number) {
            return;
        }
        let interval = (segment.sent - segment.first_sent).max(now - segment.delivered_time);
        let sample = RateSample {
            prior_delivered: segment.delivered,
            is_app_limited: segment.app_limited,
            tx_in_flight: u64::from(segment.tx_in_flight),
            lost: segment.lost_before,
            ce: segment.ce_before,
            ..RateSample::default()
        };
        self.first_sent = segment.sent;
        self.newest = Some(Newest { number: segment.number, sample, interval });
    }

    /// The sample of the present ACK; none if it delivered nothing.
    pub(super) fn sample(&mut self, min_rtt: Time) -> Option<RateSample> {
        if self.app_limited != 0 && self.delivered > self.app_limited {
            self.app_limited = 0;
        }
        let Newest { mut sample, interval, .. } = self.newest.take()?;
        sample.delivered = self.delivered - sample.prior_delivered;
        sample.lost = self.lost - sample.lost;
        sample.ce = self.ce - sample.ce;
        if interval >= min_rtt && interval > Time::ZERO {
            sample.delivery_rate = sample.delivered as f64 / interval.secs();
        }
        Some(sample)
    }
}
