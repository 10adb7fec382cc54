//! Student's t distribution, for intervals from few values.
//!
//! The distribution function is a regularised incomplete beta function, evaluated as a continued fraction by
//! Lentz's method (Press et al.: "Numerical Recipes", 3rd edition, section 6.4).

/// From so many degrees of freedom on it is the normal distribution, to five digits.
const NORMAL: f64 = 1e5;
/// So far from the middle nothing is left of the normal distribution.
const FAR: f64 = 9.0;

/// Probability that |T| is at least `t` with `freedom` degrees of freedom (> 0, need not be whole).
pub(super) fn two_sided(t: f64, freedom: f64) -> f64 {
    match freedom >= NORMAL {
        true => normal_two_sided(t.abs()),
        false if t.is_infinite() => 0.0,
        false => beta(freedom / (freedom + t * t), freedom / 2.0, 0.5),
    }
}

/// The same for the normal distribution, by its power series around the middle.
fn normal_two_sided(t: f64) -> f64 {
    if t > FAR {
        return 0.0;
    }
    let (mut term, mut sum, mut odd) = (t, t, 1.0);
    while term > sum * 1e-16 {
        odd += 2.0;
        term *= t * t / odd;
        sum += term;
    }
    1.0 - 2.0 * sum * (-t * t / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt()
}

/// The t that |T| exceeds with probability `p` (0 < p <= 1).
pub(super) fn critical(p: f64, freedom: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    while two_sided(high, freedom) > p {
        (low, high) = (high, high * 2.0);
    }
    for _ in 0..80 {
        let middle = (low + high) / 2.0;
        if two_sided(middle, freedom) > p { low = middle } else { high = middle }
    }
    (low + high) / 2.0
}

/// Regularised incomplete beta function of `x` (0..=1).
fn beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    let front = (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (1.0 - x).ln()).exp();
    // The fraction converges fast on this side of the mean only.
    if x < (a + 1.0) / (a + b + 2.0) {
        front * fraction(x, a, b) / a
    } else {
        1.0 - front * fraction(1.0 - x, b, a) / b
    }
}

fn fraction(x: f64, a: f64, b: f64) -> f64 {
    const STEPS: usize = 2000;
    const TINY: f64 = 1e-300;
    let held = |v: f64| if v.abs() < TINY { TINY } else { v };
    let (mut c, mut d) = (1.0, 1.0 / held(1.0 - (a + b) * x / (a + 1.0)));
    let mut value = d;
    for step in 1..STEPS {
        let m = step as f64;
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let mut change = 1.0;
        for term in [even, odd] {
            d = 1.0 / held(1.0 + term * d);
            c = held(1.0 + term / c);
            change = c * d;
            value *= change;
        }
        if (change - 1.0).abs() < 1e-14 {
            break;
        }
    }
    value
}

/// Natural logarithm of the gamma function for x > 0 (Lanczos, g = 7).
fn ln_gamma(x: f64) -> f64 {
    const LANCZOS: [f64; 8] = [
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_1,
        -176.615_029_162_140_6,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_572e-6,
        1.505_632_735_149_311_6e-7,
    ];
    let x = x - 1.0;
    let sum = LANCZOS.iter().zip(1..).map(|(c, i)| c / (x + f64::from(i))).sum::<f64>();
    let t = x + 7.5;
    0.5 * (2.0 * std::f64::consts::PI).ln() + (x + 0.5) * t.ln() - t + (0.999_999_999_999_809_9 + sum).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The published table (two-sided 10 %, 5 %, 1 %).
    #[test]
    fn critical_values_are_those_of_the_table() {
        for (freedom, expected) in [
            (1.0, [6.3138, 12.7062, 63.6567]),
            (2.0, [2.9200, 4.3027, 9.9248]),
            (4.0, [2.1318, 2.7764, 4.6041]),
            (10.0, [1.8125, 2.2281, 3.1693]),
            (100.0, [1.6602, 1.9840, 2.6259]),
            (f64::INFINITY, [1.6449, 1.9600, 2.5758]),
        ] {
            for (p, expected) in [0.1, 0.05, 0.01].into_iter().zip(expected) {
                let t = critical(p, freedom);
                assert!((t - expected).abs() < 1e-3, "{p} at {freedom}: {t}, table {expected}");
                assert!((two_sided(t, freedom) - p).abs() < 1e-9, "{p} at {freedom}");
            }
        }
    }

    #[test]
    fn ends_of_the_distribution() {
        assert_eq!(two_sided(0.0, 3.0), 1.0);
        assert_eq!(two_sided(f64::INFINITY, 3.0), 0.0);
        // Cauchy: 1 - 2/pi atan(t).
        assert!((two_sided(1.0, 1.0) - 0.5).abs() < 1e-12);
    }
}
