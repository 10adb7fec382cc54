//! Pseudorandom numbers that repeat exactly from a seed, on every machine and in every version.
//!
//! splitmix64 (Steele, Lea, Flood: "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014): 64 bits
//! of state, equidistributed, good enough to resample and to simulate noise. Not for secrets.

#![forbid(unsafe_code)]

/// A stream of pseudorandom numbers.
#[derive(Debug, Clone)]
pub struct Rng(u64);

impl Rng {
    /// A stream that is a function of `seed` alone.
    pub fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    /// Uniform over all 64-bit numbers.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Uniform over 0.0..1.0.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Uniform over 0..n. The bias of n / 2^64 does not matter for samples.
    ///
    /// # Panics
    /// When `n` is 0.
    pub fn below(&mut self, n: usize) -> usize {
        assert!(n > 0, "no number is below 0");
        ((u128::from(self.next_u64()) * n as u128) >> 64) as usize
    }

    /// Number of events in an interval in which `mean` are expected (Knuth, TAOCP 3.4.1; time is O(mean)).
    pub fn poisson(&mut self, mean: f64) -> u64 {
        let (mut events, mut elapsed) = (0, 0.0);
        loop {
            elapsed -= (1.0 - self.unit()).ln();
            if elapsed >= mean {
                return events;
            }
            events += 1;
        }
    }

    /// Normally distributed with mean 0 and standard deviation 1 (Marsaglia's polar method, TAOCP 3.4.1).
    pub fn normal(&mut self) -> f64 {
        loop {
            let (x, y) = (2.0 * self.unit() - 1.0, 2.0 * self.unit() - 1.0);
            let square = x * x + y * y;
            if square > 0.0 && square < 1.0 {
                return x * (-2.0 * square.ln() / square).sqrt();
            }
        }
    }

    /// Number of successes in `n` attempts that succeed with probability `p` each; approximately where many do.
    pub fn binomial(&mut self, n: u64, p: f64) -> u64 {
        let mean = n as f64 * p;
        if mean < 100.0 {
            return self.poisson(mean).min(n);
        }
        let drawn = mean + (mean * (1.0 - p)).sqrt() * self.normal();
        drawn.round().clamp(0.0, n as f64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeats_the_published_sequence() {
        let mut rng = Rng::new(1234567);
        let expected = [6457827717110365317, 3203168211198807973, 9817491932198370423];
        assert_eq!(expected, [rng.next_u64(), rng.next_u64(), rng.next_u64()]);
    }

    #[test]
    fn means_are_as_promised() {
        const N: usize = 100_000;
        let mut rng = Rng::new(1);
        let mean = |draws: Vec<f64>| draws.iter().sum::<f64>() / draws.len() as f64;
        for (name, got, expected, tolerance) in [
            ("unit", mean((0..N).map(|_| rng.unit()).collect()), 0.5, 0.01),
            ("below 7", mean((0..N).map(|_| rng.below(7) as f64).collect()), 3.0, 0.05),
            ("poisson 0", mean((0..N).map(|_| rng.poisson(0.0) as f64).collect()), 0.0, 0.0),
            ("normal", mean((0..N).map(|_| rng.normal()).collect()), 0.0, 0.02),
            ("normal squared", mean((0..N).map(|_| rng.normal().powi(2)).collect()), 1.0, 0.03),
            ("few successes", mean((0..N).map(|_| rng.binomial(1000, 0.01) as f64).collect()), 10.0, 0.1),
            ("many successes", mean((0..N).map(|_| rng.binomial(1000, 0.9) as f64).collect()), 900.0, 0.2),
            ("poisson 2.5", mean((0..N).map(|_| rng.poisson(2.5) as f64).collect()), 2.5, 0.05),
        ] {
            assert!((got - expected).abs() <= tolerance, "{name}: mean {got}, expected {expected}");
        }
    }
}
