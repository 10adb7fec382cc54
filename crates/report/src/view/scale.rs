//! From a value to a place on an axis, and where the axis has its ticks.

/// An axis: values `low..=high` are drawn at `from..=to`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    log: bool,
}

impl Scale {
    /// A linear axis from zero to a round value at or above `highest`.
    pub fn linear(highest: f64, from: f64, to: f64) -> Scale {
        let highest = if highest.is_finite() && highest > 0.0 { highest } else { 1.0 };
        let step = nice_step(highest / 4.0);
        Scale { low: 0.0, high: (highest / step - 1e-9).ceil() * step, from, to, log: false }
    }

    /// A linear axis between round values around `lowest..=highest`, without zero where that is far away.
    pub fn span(lowest: f64, highest: f64, from: f64, to: f64) -> Scale {
        if !(lowest.is_finite() && highest > lowest) {
            return Scale::linear(highest.max(0.0) * 1.5, from, to);
        }
        let step = nice_step((highest - lowest) / 3.0);
        let (low, high) = ((lowest / step + 1e-9).floor() * step, (highest / step - 1e-9).ceil() * step);
        Scale { low, high, from, to, log: false }
    }

    /// A logarithmic axis whose ends are 1, 2 or 5 times a power of ten around `lowest..=highest`.
    pub fn log(lowest: f64, highest: f64, from: f64, to: f64) -> Scale {
        let positive = |x: f64, other: f64| if x.is_finite() && x > 0.0 { x } else { other };
        let highest = positive(highest, 1.0);
        let lowest = positive(lowest, highest).min(highest);
        let (mut low, mut high) = (round_log(lowest, f64::floor), round_log(highest, f64::ceil));
        if high / low < 9.9 {
            (low, high) =
                (low.min(10f64.powf(lowest.log10().floor())), high.max(10f64.powf(highest.log10().ceil())));
        }
        if high <= low {
            high = low * 10.0;
        }
        Scale { low, high, from, to, log: true }
    }

    /// Place of a value; values beyond the ends are drawn at the end.
    pub fn at(&self, value: f64) -> f64 {
        let value = if value.is_nan() { self.low } else { value.clamp(self.low, self.high) };
        let share = if self.log {
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.from + share * (self.to - self.from)
    }

    /// True for a value between the ends.
    pub fn contains(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }

    /// Largest value.
    pub fn high(&self) -> f64 {
        self.high
    }

    /// Values for the ticks: round numbers, about five on a linear axis; on a logarithmic one the powers of
    /// ten, with 2 and 5 times, or 3 times them where there are few, and only each second or third where there are many.
    pub fn ticks(&self) -> Vec<f64> {
        if !self.log {
            let step = nice_step((self.high - self.low) / 4.0);
            let n = ((self.high - self.low) / step + 1e-9) as usize;
            return (0..=n).map(|i| self.low + i as f64 * step).collect();
        }
        let inside = |x: &f64| (self.low * 0.999..=self.high * 1.001).contains(x);
        let (first, last) = (self.low.log10().floor() as i32, self.high.log10().ceil() as i32);
        let factors: &[f64] = match self.high / self.low {
            ratio if ratio < 101.0 => &[1.0, 2.0, 5.0],
            ratio if ratio < 1001.0 => &[1.0, 3.0],
            _ => &[1.0],
        };
        let stride = ((last - first) as usize / 6 + 1).max(1);
        let decades = (first..=last).step_by(stride).map(|e| 10f64.powi(e));
        decades.flat_map(|d| factors.iter().map(move |f| f * d)).filter(inside).collect()
    }
}

/// The smallest of 1, 2, 2.5, 5 times a power of ten that is at least `step`.
fn nice_step(step: f64) -> f64 {
    let power = 10f64.powf(step.log10().floor());
    let factor = [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().find(|f| f * power >= step * (1.0 - 1e-9));
    factor.unwrap_or(10.0) * power
}

/// The next of 1, 2, 5 times a power of ten below (`floor`) or above (`ceil`).
fn round_log(value: f64, towards: fn(f64) -> f64) -> f64 {
    let power = 10f64.powf(value.log10().floor());
    let up = towards(0.5) > 0.0;
    let steps = [1.0, 2.0, 5.0, 10.0].map(|f| f * power);
    let slack = value * 1e-9;
    if up {
        steps.into_iter().find(|s| *s >= value - slack).unwrap_or(value)
    } else {
        steps.into_iter().rev().find(|s| *s <= value + slack).unwrap_or(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(scale: Scale, ticks: &[f64]) {
        let found = scale.ticks();
        assert_eq!(found.len(), ticks.len(), "{scale:?}: {found:?}");
        for (a, b) in found.iter().zip(ticks) {
            assert!((a - b).abs() <= b.abs() * 1e-9, "{scale:?}: {found:?}");
        }
    }

    #[test]
    fn linear_ticks_are_round() {
        check(Scale::linear(100.0, 0.0, 1.0), &[0.0, 25.0, 50.0, 75.0, 100.0]);
        check(Scale::linear(412_300.0, 0.0, 1.0), &[0.0, 200e3, 400e3, 600e3]);
        check(Scale::linear(1.0, 0.0, 1.0), &[0.0, 0.25, 0.5, 0.75, 1.0]);
        check(Scale::linear(7.3, 0.0, 1.0), &[0.0, 2.0, 4.0, 6.0, 8.0]);
        check(Scale::linear(0.0, 0.0, 1.0), &[0.0, 0.25, 0.5, 0.75, 1.0]);
        check(Scale::linear(f64::NAN, 0.0, 1.0), &[0.0, 0.25, 0.5, 0.75, 1.0]);
        check(Scale::span(358e3, 412e3, 0.0, 1.0), &[340e3, 360e3, 380e3, 400e3, 420e3]);
        check(Scale::span(-8.0, 9.0, 0.0, 1.0), &[-10.0, -5.0, 0.0, 5.0, 10.0]);
        check(Scale::span(4.0, 4.0, 0.0, 1.0), &[0.0, 2.0, 4.0, 6.0]);
        check(Scale::span(f64::NAN, 0.0, 0.0, 1.0), &[0.0, 0.25, 0.5, 0.75, 1.0]);
    }

    #[test]
    fn log_ticks_are_powers_of_ten() {
        check(Scale::log(12e3, 800e3, 0.0, 1.0), &[1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6]);
        check(Scale::log(25e3, 2.4e6, 0.0, 1.0), &[3e4, 1e5, 3e5, 1e6, 3e6]);
        check(Scale::log(1.0, 1e4, 0.0, 1.0), &[1.0, 10.0, 100.0, 1e3, 1e4]);
        check(Scale::log(1e-3, 1e9, 0.0, 1.0), &[1e-3, 1.0, 1e3, 1e6, 1e9]);
        check(Scale::log(30.0, 30.0, 0.0, 1.0), &[10.0, 20.0, 50.0, 100.0]);
        check(Scale::log(10.0, 10.0, 0.0, 1.0), &[10.0, 20.0, 50.0, 100.0]);
        check(Scale::log(0.0, f64::NAN, 0.0, 1.0), &[1.0, 2.0, 5.0, 10.0]);
    }

    #[test]
    fn values_are_placed_and_kept_inside() {
        let linear = Scale::linear(100.0, 10.0, 210.0);
        assert_eq!((linear.at(0.0), linear.at(50.0), linear.at(1e9)), (10.0, 110.0, 210.0));
        let log = Scale::log(1.0, 100.0, 300.0, 100.0);
        assert_eq!((log.at(1.0), log.at(10.0), log.at(0.0)), (300.0, 200.0, 300.0));
    }
}
