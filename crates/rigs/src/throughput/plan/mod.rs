//! The options of the experiment `throughput`.

mod axes;
mod capacity;
mod check_external;
mod percent;
mod procedures;
mod read;
mod read_procedures;
mod read_search;
mod search_spec;

pub(super) use axes::points;
pub use axes::{DutAxes, TrafficAxes};
pub use capacity::CapacitySpec;
pub(super) use procedures::percents;
pub use procedures::{
    BackToBackSpec, BurstsSpec, ForwardingSpec, FrameLossSpec, LatencySpec, PdvSpec, Procedures,
    RecoverySpec, ResetSpec, SoakSpec,
};
pub(super) use read::read;
pub use search_spec::{ClassicSpec, FixedSpec, LoadRange, MlrSpec, Rfc2544Spec, SearchLoss, SearchSpec};
pub use weir_lab::frames::SpreadAxes;
