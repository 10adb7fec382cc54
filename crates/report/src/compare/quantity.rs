//! What two points are compared by: the rates of their goals and the figures of their procedures.

use weir_measure::placement::{Place, Placement};

use super::{CoreSteps, Interval, Source, Verdict};
use crate::at_load::AtLoad;
use crate::figure::unit::{CYCLES, FRAMES_PER_S, SECONDS, TIMES};
use crate::figure::{name, procedure};
use crate::record::{Better, Bound, Figure, GoalResult, ProcedureResult};
use crate::run_data::PointData;
use crate::stats::{Sample, median, unpaired_ratio};
use crate::view::format::si;
