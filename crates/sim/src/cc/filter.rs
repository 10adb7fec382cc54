//! The largest value of a window of rounds, with the three best of Linux's `win_minmax` (Kathleen Nichols).

/// A windowed maximum.
#[derive(Debug, Clone, Default)]
pub(crate) struct MaxFilter {
    /// Time and value, the best one first.
    best: [(u64, f64); 3],
}

impl MaxFilter {
    pub(crate) fn get(&self) -> f64 {
        self.best[0].1
    }

    /// A value at `time`; those older than `window` are forgotten. The maximum.
    pub(crate) fn update(&mut self, time: u64, value: f64, window: u64) -> f64 {
        let sample = (time, value);
        if value >= self.best[0].1 || time - self.best[2].0 > window {
            self.best = [sample; 3];
            return value;
        }
        if value >= self.best[1].1 {
            self.best[1] = sample;
            self.best[2] = sample;
        } else if value >= self.best[2].1 {
            self.best[2] = sample;
        }
        self.expire(sample, window);
        self.best[0].1
    }

    fn expire(&mut self, sample: (u64, f64), window: u64) {
        let age = sample.0 - self.best[0].0;
        if age > window {
            self.best = [self.best[1], self.best[2], sample];
            if sample.0 - self.best[0].0 > window {
                self.best = [self.best[1], self.best[2], sample];
            }
        } else if self.best[1].0 == self.best[0].0 && age > window / 4 {
            self.best[1] = sample;
            self.best[2] = sample;
        } else if self.best[2].0 == self.best[1].0 && age > window / 2 {
            self.best[2] = sample;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_maxima_are_forgotten() {
        let mut filter = MaxFilter::default();
        let values = [5.0, 9.0, 7.0, 6.0, 6.5, 3.0, 2.0, 1.0, 1.0];
        let got: Vec<f64> = (0..).zip(values).map(|(time, value)| filter.update(time, value, 4)).collect();
        assert_eq!(got, [5.0, 9.0, 9.0, 9.0, 9.0, 9.0, 6.5, 6.5, 6.5]);
    }
}
