//! The loads that MLRsearch may offer: integer steps on a logarithmic scale.
//!
//! Expanding and halving an interval must undo each other exactly, which floating point does not promise;
//! integers do. Step 0 is the smallest load, equal steps are equal ratios. The unit is chosen so that each
//! goal's width is just under a whole number of steps: an interval of that many steps is never wider than
//! the goal allows.

/// Load or width in steps of the grid.
pub(super) type Steps = i64;

/// Share of a goal's width that its whole number of steps must reach.
const USED_AT_LEAST: f64 = 0.99;
/// What a whole number of steps stays below the goal's width, so that rounding never makes it wider.
const SAFETY_STEPS: f64 = 1e-6;

/// Logarithmic scale from the smallest to the largest load.
#[derive(Debug, Clone)]
pub(super) struct Grid {
    min_fps: f64,
    max_fps: f64,
    /// Step of the largest load.
    pub(super) top: Steps,
}

impl Grid {
    /// The coarsest grid on which every one of `widths` (relative, 0..1) is well approximated.
    pub(super) fn new(min_fps: f64, max_fps: f64, widths: &[f64]) -> Grid {
        let range = (max_fps / min_fps).ln();
        let logs: Vec<f64> = widths.iter().map(|w| log_width(*w)).collect();
        let mut top = 1.0;
        while let Some(next) =
            logs.iter().filter_map(|log| finer(top, log * top / range)).max_by(f64::total_cmp)
        {
            top = next;
        }
        Grid { min_fps, max_fps, top: top as Steps }
    }

    /// Load of a step in frames/s; steps beyond the ends are the ends.
    pub(super) fn fps(&self, load: Steps) -> f64 {
        match load {
            ..=0 => self.min_fps,
            load if load >= self.top => self.max_fps,
            load => self.min_fps * (load as f64 * self.log_step()).exp(),
        }
    }

    /// The highest step whose load does not exceed `fps`; -1 when `fps` is below the grid.
    pub(super) fn at_or_below(&self, fps: f64) -> Steps {
        if fps < self.min_fps {
            return -1;
        }
        let near = ((fps / self.min_fps).ln() / self.log_step()).round() as Steps;
        if self.fps(near) > fps { near - 1 } else { near.min(self.top) }
    }

    /// The most steps whose relative width does not exceed `relative`; at least one.
    pub(super) fn width(&self, relative: f64) -> Steps {
        ((log_width(relative) / self.log_step()) as Steps).clamp(1, self.top)
    }

    fn log_step(&self) -> f64 {
        (self.max_fps / self.min_fps).ln() / self.top as f64
    }
}

/// ln(high / low) of an interval of relative width (high - low) / high.
fn log_width(relative: f64) -> f64 {
    -(-relative).ln_1p()
}

/// `None` when a width of `units` steps is well approximated by whole steps on a grid of `top` steps;
/// otherwise a finer grid to try.
fn finer(top: f64, units: f64) -> Option<f64> {
    let whole = units.floor();
    let good = whole >= USED_AT_LEAST * units && units - whole >= SAFETY_STEPS * whole.clamp(1.0, 1e4);
    let wanted = (whole + 1.0) / (1.0 - SAFETY_STEPS);
    (!good).then(|| (top * wanted / units).ceil().max(top + 1.0))
}

/// Splits an interval wider than `width` so that one part is a power of two times `width`, as evenly as
/// that allows, the smaller part below. Later splits then end exactly at `width`.
pub(super) fn middle(low: Steps, high: Steps, width: Steps) -> Steps {
    let whole = high - low;
    assert!(whole > width, "interval of {whole} steps is narrow enough for {width}");
    if whole < 2 * width {
        return if width % 2 == 0 { middle(low, high, width / 2) } else { low + whole / 2 };
    }
    let mut upper = width;
    while whole - 2 * upper > 2 * upper {
        upper *= 2;
    }
    let (even, doubled) = (upper * (whole - upper), 2 * upper * (whole - 2 * upper));
    low + if even > doubled { upper } else { whole - 2 * upper }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_is_found_again_and_widths_are_kept() {
        for widths in [&[0.005][..], &[0.005, 0.001], &[0.5, 0.000_01], &[0.3, 0.07, 0.011]] {
            let grid = Grid::new(9001.0, 14.88e6, widths);
            for load in (0..=grid.top).step_by(1 + grid.top as usize / 1000) {
                let fps = grid.fps(load);
                assert_eq!(grid.at_or_below(fps), load, "{widths:?} {fps}");
                assert_eq!(grid.at_or_below(fps * (1.0 - 1e-9)), load - 1, "{widths:?} below {fps}");
            }
            for width in widths {
                let (low, high) = (grid.fps(0), grid.fps(grid.width(*width)));
                let got = (high - low) / high;
                assert!(got <= *width && got >= 0.98 * width, "{widths:?} {width} became {got}");
            }
            assert_eq!(grid.at_or_below(1e12), grid.top);
        }
    }

    fn check(rows: &[(Steps, Steps, Steps)]) {
        for &(whole, width, lower) in rows {
            assert_eq!(middle(100, 100 + whole, width), 100 + lower, "split of {whole} with width {width}");
        }
    }

    #[test]
    fn one_part_of_a_split_is_a_power_of_two_times_the_width() {
        // (interval, width, lower part)
        check(&[
            (2, 1, 1),
            (3, 1, 1),
            (4, 1, 2),
            (5, 1, 2),
            (6, 1, 2),
            (7, 1, 3),
            (8, 1, 4),
            (10, 1, 4),
            (11, 1, 4),
            (13, 1, 5),
            (16, 1, 8),
            (8, 4, 4),
            (7, 4, 3),
            (5, 4, 2),
            (5, 3, 2),
            (12, 4, 4),
        ]);
    }
}
