//! The report of an attack.

use serde::{Deserialize, Serialize};

use super::Detail;

/// What a program that watches for attacks said of one, and what is true.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Detection {
    /// Seconds from the attack's first frame until it was reported; `None`: it was not.
    pub after_s: Option<f64>,
    /// The rate that the program states, frames/s.
    pub stated_fps: Option<f64>,
    /// Mean rate of the frames that arrived until it was reported, or until the attack was over, frames/s.
    pub true_fps: f64,
}

impl Detail for Detection {
    const KEY: &'static str = "detection";
}

impl Detection {
    /// The stated rate by the true one, less 1.
    pub fn error(&self) -> Option<f64> {
        (self.true_fps > 0.0).then(|| self.stated_fps.map(|stated| stated / self.true_fps - 1.0))?
    }
}
