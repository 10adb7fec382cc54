//! Rounds of a comparison: all alternately, each time another one first.

use super::running::{Event, Running};
use crate::error::RunError;
use weir_measure::stats;
use weir_record::record::{Comparison, Point, PointResult, ProcedureResult};

/// A contestant that is compared with others.
pub trait Interleaved {
    /// Its point.
    fn point(&self) -> &Point;

    /// Or why not is in the notes of the point.
    fn takes_part(&self) -> bool {
        true
    }
}

/// Turns of some of the contestants that alternate in a run.
pub struct Rounds<'a> {
    /// Where progress is reported.
    pub observe: &'a (dyn Fn(Event) + Sync),
    /// How many rounds there are.
    pub rounds: u32,
    /// Turns of the run before them.
    pub done: usize,
    /// Turns of the run in all.
    pub count: usize,
}

impl<'a, E> Running<'a, E> {
    /// Rounds of `n` contestants that alternate from beginning to end.
    pub fn rounds(&self, rounds: u32, n: usize) -> Rounds<'a> {
        Rounds { observe: self.options.observe, rounds, done: 0, count: rounds as usize * n }
    }
}

/// What the rounds found at a point: `procedure` and how it was measured, with the remarks on its trials, each once.
pub fn result(mut procedure: ProcedureResult, rounds: u32, mut remarks: Vec<String>) -> PointResult {
    let order = "alternately within a round, another one first in each".to_string();
    procedure.parameters.extend([("rounds".to_string(), rounds.to_string()), ("order".to_string(), order)]);
    remarks.sort();
    remarks.dedup();
    procedure.irregular = remarks;
    PointResult::without_search("rounds", procedure)
}

/// Gives each contestant a turn in each round.
pub fn interleave<T: Interleaved>(
    interleaved: &Rounds<'_>,
    all: &mut [T],
    mut turn: impl FnMut(&mut T) -> Result<(), RunError>,
) -> Result<(), RunError> {
    let n = all.len();
    let rounds = interleaved.rounds as usize;
    for round in 0..rounds {
        for (done, i) in rotation(n, round).enumerate() {
            let one = &mut all[i];
            if one.takes_part() {
                let (done, count) = ((interleaved.done + round * n + done) as f64, interleaved.count);
                let (number, point) = (round + 1, one.point());
                (interleaved.observe)(Event::Round { number, of: rounds, done, count, point });
                turn(one)?;
            }
        }
    }
    Ok(())
}

/// A point with its rates, one per round.
pub struct Rated<R> {
    /// Number of the point.
    pub point_index: usize,
    /// Its rates; `None` in a round that counts for nothing.
    pub rates: R,
}

/// The ratio of the rates of one point by those of another one, round by round; `None` without a common round.
pub fn comparison(
    own: impl IntoIterator<Item = Option<f64>>,
    other: Rated<impl IntoIterator<Item = Option<f64>>>,
) -> Option<Comparison> {
    let Rated { point_index, rates } = other;
    let pairs: Vec<(f64, f64)> = own.into_iter().zip(rates).filter_map(|(a, b)| a.zip(b)).collect();
    let ratio = stats::ratio(&pairs)?;
    Some(Comparison {
        point_index,
        ratio: ratio.value,
        interval: ratio.interval,
        rounds: pairs.len(),
        ..Comparison::default()
    })
}

/// The order of `n` contestants in a round: each is first once, so that none always follows the same neighbour's heat.
fn rotation(n: usize, round: usize) -> impl Iterator<Item = usize> {
    (0..n).map(move |i| (i + round) % n)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_compared_within_their_rounds() {
        // The second round was slow for both; the last one has no partner.
        let own = [10e6, 5e6, 10e6, 10e6, 10e6, 10e6, 99e6].map(Some);
        let other = [Some(1e6), Some(0.5e6), Some(1e6), Some(1e6), Some(1e6), Some(1e6), None];
        let found = comparison(own, Rated { point_index: 3, rates: other }).unwrap();
        assert_eq!((found.point_index, found.ratio, found.rounds), (3, 10.0, 6));
        let (low, high) = found.interval.unwrap();
        assert!((low, high) == (10.0, 10.0), "{low} to {high}");
        assert_eq!(comparison(own, Rated { point_index: 3, rates: [None; 7] }), None);
    }

    #[test]
    fn everyone_is_first_once() {
        let order = |round| rotation(3, round).collect::<Vec<_>>();
        assert_eq!([order(0), order(1), order(2), order(3)], [[0, 1, 2], [1, 2, 0], [2, 0, 1], [0, 1, 2]]);
        assert_eq!(rotation(0, 5).count(), 0);
    }
}
