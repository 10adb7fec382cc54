//! Rounds of a comparison: all in turn, each time another one first.

use super::{Event, RunError, Running};
use crate::record::Point;

/// Somebody who is compared with others.
pub(super) trait TakesTurns {
    fn point(&self) -> &Point;

    /// Or why not is in the notes of the point.
    fn takes_part(&self) -> bool;
}

impl<E> Running<'_, E> {
    /// Gives everybody who takes part a turn in each round.
    pub(super) fn in_rounds<T: TakesTurns>(
        &mut self,
        rounds: u32,
        all: &mut [T],
        mut turn: impl FnMut(&mut Self, &mut T) -> Result<(), RunError>,
    ) -> Result<(), RunError> {
        let (n, rounds) = (all.len(), rounds as usize);
        for round in 0..rounds {
            for (done, i) in rotation(n, round).enumerate() {
                let one = &mut all[i];
                if one.takes_part() {
                    let (index, point) = (Some(round * n + done), one.point());
                    (self.options.observe)(Event::Point { index, count: rounds * n, point });
                    turn(self, one)?;
                }
            }
        }
        Ok(())
    }
}

/// The order of `n` contestants in a round: everyone is first once, so that nobody always follows the same
/// neighbour's heat.
fn rotation(n: usize, round: usize) -> impl Iterator<Item = usize> {
    (0..n).map(move |i| (i + round) % n)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everyone_is_first_once() {
        let order = |round| rotation(3, round).collect::<Vec<_>>();
        assert_eq!([order(0), order(1), order(2), order(3)], [[0, 1, 2], [1, 2, 0], [2, 0, 1], [0, 1, 2]]);
        assert_eq!(rotation(0, 5).count(), 0);
    }
}
