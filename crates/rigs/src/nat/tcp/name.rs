//! Names in records.

use super::plan::Flood;

/// Of the procedure and the section.
pub(super) const ID: &str = "nat-tcp";
pub(super) const ESTABLISHED: &str = "TCP connection establishment rate";
pub(super) const WHOLE: &str = "TCP connection rate";
pub(super) const TOOK_MEDIAN: &str = "time of a TCP connection, median";
pub(super) const TOOK_P99: &str = "time of a TCP connection, 99th percentile";
pub(super) const CPS: &str = "connections/s";

/// Why a search ended before the device did.
pub(super) const TESTER_ENDS: &str = "the tester ends the search";
pub(super) const BEGIN_ENDS: &str = "the search began at";
pub(super) const UNTRIED: &str = "could not be tried";
pub(super) const OPEN_ENDS: [&str; 3] = [TESTER_ENDS, BEGIN_ENDS, UNTRIED];

/// All figures of floods begin so.
pub(super) const FLOODED: &str = "TCP connections established under ";

/// Of a flood.
pub(super) fn flooded(flood: &Flood) -> String {
    format!("{FLOODED}{:.0} SYN/s from {}", flood.fps, flood.from.name())
}
