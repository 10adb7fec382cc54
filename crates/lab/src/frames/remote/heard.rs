//! Untrusted values of the remote side are checked.

use serde::de::DeserializeOwned;
use weir_linux::rtnl::Mac;
use weir_load::counts::Counts;
use weir_load::foreign::{MOST_CLOCK_NS, MOST_NS};
use weir_testbed::interface::Device;

use super::Fired;

/// What the remote side replies. What depends on the trial is checked where that is known.
pub(crate) trait Heard: DeserializeOwned {
    /// Whether it can be so.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }
}

impl Heard for () {}
impl Heard for Mac {}
impl Heard for Device {}
impl Heard for Vec<String> {}
// With what was sent, see `Counts::check`.
impl Heard for Counts {}

/// A reading of its clock.
impl Heard for u64 {
    fn check(&self) -> Result<(), String> {
        in_time("its clock", *self, MOST_CLOCK_NS)
    }
}

impl Heard for Fired {
    fn check(&self) -> Result<(), String> {
        in_time("its clock", self.at_ns, MOST_CLOCK_NS)?;
        in_time("the time it waited for a CPU", self.wait_ns, MOST_NS)
    }
}

fn in_time(what: &str, ns: u64, most: u64) -> Result<(), String> {
    if ns <= most { Ok(()) } else { Err(format!("{what}: {ns} ns, which is impossible")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_cannot_be_is_refused() {
        assert_eq!(7_u64.check(), Ok(()));
        let why = "its clock: 18446744073709551615 ns, which is impossible";
        assert_eq!(u64::MAX.check(), Err(why.into()));
    }
}
