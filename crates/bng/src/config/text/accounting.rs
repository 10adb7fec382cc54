//! The item `accounting` of a configuration.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::time::Duration;

use weir_config::unit;

use super::Words;
use crate::config::Accounting;
use crate::radius::accounting::{InputIs, LEAST_INTERIM_S};

/// Reads what is behind the word `accounting`.
pub(super) fn read(words: &mut Words<'_>) -> Result<Accounting, String> {
    let mut accounting = Accounting::default();
    while let Some(word) = words.next() {
        match word {
            "interim" => accounting.interim_s = Some(interval(words)?),
            "least-interim" => accounting.least_interim_s = interval(words)?,
            "swapped" => accounting.input = InputIs::ToSubscriber,
            other => {
                return Err(format!(
                    "`{other}` is no option of accounting: use interim, least-interim or swapped"
                ));
            }
        }
    }
    Ok(accounting)
}

/// Up to a day.
fn interval(words: &mut Words<'_>) -> Result<u32, String> {
    let (least, most) = (Duration::from_secs(LEAST_INTERIM_S.into()), Duration::from_secs(86_400));
    let interval = unit::time(words.word("an interval")?, least, most)?;
    Ok(u32::try_from(interval.as_secs()).unwrap_or(u32::MAX))
}
