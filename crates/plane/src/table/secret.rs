//! What must not be predictable from outside: the order of the tables and the choice of ports. All follows from the seed.

/// Keys of the hashes, and a generator of numbers.
#[derive(Debug, Clone)]
pub(crate) struct Secret {
    keys: [u64; 3],
    state: u64,
}

impl Secret {
    pub(crate) fn new(seed: u64) -> Secret {
        let mut secret = Secret {
            keys: [0x9e37_79b9_7f4a_7c15, 0xd1b5_4a32_d192_ed03, 0x8cb9_2ba7_2f3d_8dd7],
            state: seed,
        };
        secret.keys =
            [0; 3].map(|_: u64| (u64::from(secret.random()) << 32 | u64::from(secret.random())) | 1);
        secret
    }

    /// The same hashes, and other numbers for each thread.
    pub(crate) fn of_thread(mut self, thread: u8) -> Secret {
        self.state = fold(self.state ^ self.keys[2], u64::from(thread) << 32 | 1) ^ self.state;
        self
    }

    /// The next number: a counter, mixed with the keys by a wide product as in wyrand.
    pub(crate) fn random(&mut self) -> u32 {
        self.state = self.state.wrapping_add(0xa076_1d64_78bd_642f);
        let mixed = fold(self.state ^ self.keys[0], self.state ^ self.keys[1]);
        (fold(mixed ^ self.keys[2], 0xe703_7ed1_a0b4_28db) >> 32) as u32
    }

    /// A number below `limit`, which is not zero.
    pub(crate) fn below(&mut self, limit: u32) -> u32 {
        ((u64::from(self.random()) * u64::from(limit)) >> 32) as u32
    }

    /// The hash of an address and what else distinguishes.
    #[inline]
    pub(crate) fn hash(&self, address: [u32; 4], rest: u64) -> u32 {
        let high = u64::from(address[0]) << 32 | u64::from(address[1]);
        let low = u64::from(address[2]) << 32 | u64::from(address[3]);
        let mixed = fold(high ^ rest ^ self.keys[0], low ^ self.keys[1]);
        fold(mixed ^ rest, self.keys[2]) as u32
    }
}

/// The halves of the wide product.
#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let wide = u128::from(a) * u128::from(b);
    wide as u64 ^ (wide >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_follow_from_the_seed_and_are_spread() {
        let draw = |seed| {
            let mut secret = Secret::new(seed);
            (0..4096).map(|_| secret.below(64) as usize).collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        let mut counts = [0_u32; 64];
        draw(3).into_iter().for_each(|n| counts[n] += 1);
        assert!(counts.iter().all(|&n| (25..120).contains(&n)), "{counts:?}");
    }

    #[test]
    fn neighbours_do_not_meet() {
        let secret = Secret::new(5);
        let mut lines = vec![0_u32; 4096];
        for host in 0..64 {
            for port in 0..256 {
                lines[secret.hash([0, 0, 0xffff, 0x0a00_0000 + host], port << 16) as usize % 4096] += 1;
            }
        }
        // Four each on average.
        assert!(lines.iter().all(|&n| n < 20), "{:?}", lines.iter().max());
        assert!(lines.iter().filter(|&&n| n == 0).count() < 200);
    }
}
