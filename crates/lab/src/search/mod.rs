//! Searches for the highest rate that meets a goal. Pure: all they know of the world is a [`Measurer`].

use std::time::Duration;

/// Answers the question "what happens at this load for this long?".
pub trait Measurer {
    /// Measures one trial at `load_fps` frames/s, all directions together, for `duration`.
    fn measure(&mut self, load_fps: f64, duration: Duration) -> Result<Measured, Stop>;
}

/// A trial as a search sees it.
#[derive(Debug, Clone, PartialEq)]
pub enum Measured {
    /// The trial is valid.
    Loss {
        /// Lost frames / offered frames, 0..=1.
        loss_ratio: f64,
        /// What the trial took in all; MLRsearch weighs trials by it.
        effective: Duration,
    },
    /// The tester cannot offer this load: nothing is known about the DUT here, nor at any higher load.
    TesterLimited {
        /// What the tester managed, frames/s.
        achieved_fps: f64,
    },
    /// No valid trial could be had here after the allowed retries (noise, books that do not close).
    Unusable,
}

/// Ends a search at once: interrupted by the user, or the test bed is gone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Stop(pub String);
