//! TCP_INFO: the kernel's state of a connection. Source: include/uapi/linux/tcp.h; older kernels know less, then the rest is 0.

use serde::Serialize;

/// Bytes of the part that is read.
pub(crate) const BYTES: usize = 232;

/// What the kernel says of a connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Info {
    /// Congestion window, in segments.
    pub cwnd: u32,
    /// Slow start threshold, in segments.
    pub ssthresh: u32,
    /// Smoothed round trip, in us.
    pub rtt_us: u32,
    /// Its mean deviation, in us.
    pub rttvar_us: u32,
    /// Smallest round trip, in us.
    pub min_rtt_us: u32,
    /// Segments that were sent again, from the start on.
    pub retransmissions: u32,
    /// Bytes that were acknowledged, from the start on.
    pub acked_bytes: u64,
    /// In bytes/s.
    pub delivery_bytes_per_s: u64,
    /// In bytes/s.
    pub pacing_bytes_per_s: u64,
    /// Bytes in the socket that were not sent yet.
    pub unsent_bytes: u32,
    /// Time in which the receiver's window was the limit, in us.
    pub window_limited_us: u64,
    /// Time in which the socket's send buffer was the limit, in us.
    pub buffer_limited_us: u64,
}

impl Info {
    pub(crate) fn read(bytes: &[u8; BYTES]) -> Info {
        let u32_at = |at: usize| {
            bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |b| u32::from_ne_bytes(*b))
        };
        let u64_at = |at: usize| {
            bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |b| u64::from_ne_bytes(*b))
        };
        Info {
            rtt_us: u32_at(68),
            rttvar_us: u32_at(72),
            ssthresh: u32_at(76),
            cwnd: u32_at(80),
            retransmissions: u32_at(100),
            pacing_bytes_per_s: u64_at(104),
            acked_bytes: u64_at(120),
            unsent_bytes: u32_at(144),
            min_rtt_us: u32_at(148),
            delivery_bytes_per_s: u64_at(160),
            window_limited_us: u64_at(176),
            buffer_limited_us: u64_at(184),
        }
    }

    /// The retransmission timeout without backoff (RFC 6298, with the kernel's least of 200 ms), in s.
    pub(crate) fn timeout_s(&self) -> f64 {
        (f64::from(self.rtt_us) + 4.0 * f64::from(self.rttvar_us)).max(200_000.0) / 1e6
    }
}
