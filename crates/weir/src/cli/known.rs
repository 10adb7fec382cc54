//! Words that an option knows, for completions, beside others that it takes, too.

use std::ffi::OsStr;

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

/// A plan that ships, or a file.
pub(super) fn plan() -> Known<String> {
    let names = || weir_lab::rigs::PLANS.shipped().into_iter().map(|(name, _)| name).collect();
    Known { read: |text| Ok(text.to_string()), names }
}
