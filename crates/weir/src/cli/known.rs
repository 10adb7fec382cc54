//! Options that complete known words and accept others, too.

use std::ffi::{OsStr, OsString};

use clap::builder::{PossibleValue, TypedValueParser};
use clap::{Arg, Command, Error};

/// Reads a value by `read`; completions offer `names`.
#[derive(Clone)]
pub(super) struct Known<T> {
    pub(super) read: fn(&str) -> Result<T, String>,
    pub(super) names: fn() -> Vec<&'static str>,
}

impl<T: Clone + Send + Sync + 'static> TypedValueParser for Known<T> {
    type Value = T;

    fn parse_ref(&self, command: &Command, argument: Option<&Arg>, value: &OsStr) -> Result<T, Error> {
        self.read.parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new((self.names)().into_iter().map(PossibleValue::new)))
    }
}

/// A shipped plan, or a file; file names need not be UTF-8.
#[derive(Clone)]
pub(super) struct PlanName;

impl TypedValueParser for PlanName {
    type Value = OsString;

    fn parse_ref(&self, _: &Command, _: Option<&Arg>, value: &OsStr) -> Result<OsString, Error> {
        Ok(value.to_os_string())
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let shipped = weir_rigs::PLANS.shipped().into_iter();
        Some(Box::new(shipped.map(|(name, _)| PossibleValue::new(name))))
    }
}
