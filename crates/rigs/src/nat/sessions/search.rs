//! The searches of RFC 9693. Pure: they ask for trials and know nothing else.

/// The highest rate, up to `max`, that passes, by halving (RFC 9693), within a relative `error`; `None` if none
/// of those that were tried does. `passes` may fail, which ends the search. It ends, too, when nothing passes at twice `stop`.
pub(in crate::nat) fn highest<E>(
    max: f64,
    (error, stop): (f64, f64),
    mut passes: impl FnMut(f64) -> Result<bool, E>,
) -> Result<Option<f64>, E> {
    if passes(max)? {
        return Ok(Some(max));
    }
    let (mut low, mut high) = (0.0, max);
    while high - low > error * high && high > 2.0 * stop.max(1.0) {
        let rate = (low + high) / 2.0;
        if passes(rate)? { low = rate } else { high = rate }
    }
    Ok((low > 0.0).then_some(low))
}

/// A table whose rate falls below this share of that of half as many connections is full.
const BETA: f64 = 0.1;
/// The same while halving.
const GAMMA: f64 = 0.5;

/// The capacity of a connection table (RFC 9693): so many connections can be established and validated at a rate
/// that is near that of fewer. `rate` tells the highest rate for so many connections, up to the given one and not below
/// another one; `None` if there is none. The second value tells whether `most` was reached: the capacity is at least that.
pub(super) fn capacity<E>(
    (first, most): (u32, u32),
    (max_rate, error): (f64, f64),
    mut rate: impl FnMut(u32, f64, f64) -> Result<Option<f64>, E>,
) -> Result<Option<(u32, bool)>, E> {
    let Some(mut safe_rate) = rate(first, max_rate, 0.0)? else { return Ok(None) };
    let mut safe = first;
    let mut tried;
    loop {
        if safe >= most {
            return Ok(Some((safe, true)));
        }
        tried = safe.saturating_mul(2).min(most);
        match rate(tried, safe_rate, safe_rate * BETA)?.filter(|rate| *rate >= safe_rate * BETA) {
            Some(rate) => (safe, safe_rate) = (tried, rate),
            None => break,
        }
    }
    while f64::from(tried - safe) > (error * f64::from(tried)).max(1.0) {
        let middle = safe + (tried - safe) / 2;
        match rate(middle, safe_rate, safe_rate * GAMMA)?.filter(|rate| *rate >= safe_rate * GAMMA) {
            Some(rate) => (safe, safe_rate) = (middle, rate),
            None => tried = middle,
        }
    }
    Ok(Some((safe, false)))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    #[test]
    fn the_rate_is_found_within_the_error() {
        for truth in [1_000.0, 123_456.0, 999_999.0] {
            let mut trials = 0;
            let found = highest(1e6, (0.02, 0.0), |rate| {
                trials += 1;
                Ok::<_, Infallible>(rate <= truth)
            });
            let found = found.unwrap().unwrap();
            assert!(found <= truth && found >= 0.98 * truth * 0.98, "{truth}: {found} after {trials}");
            assert!(trials < 24, "{truth}: {trials} trials");
        }
        assert_eq!(highest(1e6, (0.02, 0.0), |_| Ok::<_, Infallible>(true)), Ok(Some(1e6)));
        assert_eq!(highest(1e6, (0.02, 0.0), |_| Ok::<_, Infallible>(false)), Ok(None));
        assert_eq!(highest(1e6, (0.02, 0.0), |_| Err("stopped")), Err("stopped"));
    }

    #[test]
    fn a_rate_that_is_too_low_to_matter_is_not_looked_for() {
        let mut least = f64::MAX;
        let found = highest(1e6, (0.02, 1e5), |rate| {
            least = least.min(rate);
            Ok::<_, Infallible>(false)
        });
        assert_eq!(found, Ok(None));
        assert!(least >= 1e5, "{least}");
    }

    #[test]
    fn the_capacity_is_found_whatever_the_first_guess() {
        let rate = |entries: u32| {
            move |connections: u32, max: f64, _: f64| {
                Ok::<_, Infallible>((connections <= entries).then_some(max.min(200e3)))
            }
        };
        for entries in [100_000, 262_144, 300_001] {
            let (found, is_most) =
                capacity((10_000, 4_000_000), (1e6, 0.01), rate(entries)).unwrap().unwrap();
            assert!(
                !is_most && found <= entries && f64::from(found) > 0.98 * f64::from(entries),
                "{entries}: {found}"
            );
        }
        let beyond = capacity((10_000, 40_000), (1e6, 0.01), rate(1_000_000)).unwrap();
        assert_eq!(beyond, Some((40_000, true)));
        assert_eq!(capacity((10_000, 40_000), (1e6, 0.01), rate(5_000)).unwrap(), None);
    }
}
