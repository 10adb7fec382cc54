//! TCP connections through a NAT, without sockets: how many each second are established, send data and are closed while so
//! many others are open, and what is left of that under a SYN flood.
//!
//! ```text
//! held     [a] SYN, ACK ---------------------------------> NAT --> [b]    stay open
//! whole    [a] SYN, ACK, data, FIN, ACK at a rate -------> NAT --> [b]    searched: the highest at which all complete
//! at last  [a] data of those held, FIN of one half, RST of the other --> NAT --> [b]
//! ```

use std::time::Duration;

use weir_load::TesterKind;

use weir_lab::error::RunError;
use weir_lab::error::Unfit;
use weir_lab::frames::{PointSpec, preflight};
use weir_lab::rig::Experiment;
use weir_lab::run::Running;

pub(super) mod answer;
mod flood;
mod name;
mod plan;
pub(super) mod report;
mod run;
#[cfg(test)]
mod tests;

pub(super) use plan::read;
pub use plan::{Flood, Side, TcpLoad};

impl Experiment for TcpLoad {
    fn estimate(&self) -> Duration {
        TcpLoad::points(self).iter().map(|point| self.estimate_at(point)).sum()
    }

    fn points(&self) -> usize {
        TcpLoad::points(self).len()
    }

    fn bases(&self) -> Vec<Vec<usize>> {
        vec![Vec::new(); TcpLoad::points(self).len()]
    }

    fn settings(&self) -> Vec<Vec<(String, String)>> {
        TcpLoad::points(self).iter().map(PointSpec::settings).collect()
    }

    fn preflight(&self, tester: TesterKind) -> Result<(), Unfit> {
        preflight::devices(&TcpLoad::points(self), tester)
    }

    fn run(&self, run: Running<'_>) -> Result<(), RunError> {
        run::Measuring::from(run.of(self)).all_points()
    }
}
