//! Proportional rate reduction (RFC 6937): during a recovery the volume in flight approaches its target evenly.

/// The state of one recovery, in segments.
#[derive(Debug, Clone, Default)]
pub(super) struct Prr {
    recover_from: f64,
    delivered: f64,
    out: f64,
    window: f64,
}

impl Prr {
    /// A recovery begins: `flight` segments are not acknowledged, `pipe` of them are in flight.
    pub(super) fn begin(&mut self, flight: u64, pipe: u64) {
        *self =
            Prr { recover_from: flight.max(1) as f64, delivered: 0.0, out: 0.0, window: pipe as f64 + 1.0 };
    }

    pub(super) fn sent(&mut self) {
        self.out += 1.0;
    }

    /// An ACK of the recovery; `safe`: it advances, and shows no new loss.
    pub(super) fn acked(&mut self, delivered: u64, pipe: u64, target: f64, safe: bool) {
        let (delivered, pipe) = (delivered as f64, pipe as f64);
        self.delivered += delivered;
        let sends = if pipe > target {
            (self.delivered * target / self.recover_from).ceil() - self.out
        } else {
            let limit = (self.delivered - self.out).max(delivered) + if safe { 1.0 } else { 0.0 };
            limit.min(target - pipe)
        };
        // the first retransmission is sent whatever the target
        let least = if self.out == 0.0 { 1.0 } else { 0.0 };
        self.window = pipe + sends.max(least);
    }

    pub(super) fn window(&self) -> f64 {
        self.window
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_what_is_delivered_is_sent() {
        // RFC 6937, section 4: 20 in flight, one lost, target 10
        let mut prr = Prr::default();
        prr.begin(20, 19);
        let (mut pipe, mut sent) = (19, 0);
        for _ in 0..18 {
            pipe -= 1;
            prr.acked(1, pipe, 10.0, false);
            while pipe as f64 + 1.0 <= prr.window() {
                pipe += 1;
                sent += 1;
                prr.sent();
            }
        }
        assert_eq!((sent, pipe), (9, 10));
    }
}
