//! Commands of a plan that are run on the box over SSH.

use std::collections::BTreeMap;

use crate::error::{Error, Result};

/// Reads lines of `NAME NUMBER`; of a name with spaces the last word is the number. Names that come twice are added up.
///
/// # Errors
/// [`Error::Input`] for any other line.
pub(super) fn numbers(hook: &str, text: &str) -> Result<BTreeMap<String, i64>> {
    let mut numbers = BTreeMap::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let found = line
            .rsplit_once(char::is_whitespace)
            .and_then(|(name, number)| Some((name.trim_end(), number.parse::<i64>().ok()?)));
        let Some((name, number)) = found else {
            return Err(Error::Input(format!(
                "the command `{hook}` of [external] printed `{line}`: it must print lines with a name and a whole number"
            )));
        };
        let sum: &mut i64 = numbers.entry(name.to_string()).or_insert(0);
        *sum = sum.saturating_add(number);
    }
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_name_and_number_are_read() {
        let found = numbers("counters", "rx 5\n\n ring full\t 7 \nrx 1\nslab -3\n").unwrap();
        let text: Vec<String> = found.iter().map(|(name, number)| format!("{name}={number}")).collect();
        assert_eq!(text, ["ring full=7", "rx=6", "slab=-3"]);
        let much = format!("x {}\nx {}", i64::MAX, i64::MAX);
        assert_eq!(numbers("counters", &much).unwrap()["x"], i64::MAX);
        for wrong in ["rx", "rx 1.5", "rx: many"] {
            let error = numbers("counters", wrong).unwrap_err().to_string();
            assert_eq!(
                error,
                format!(
                    "the command `counters` of [external] printed `{wrong}`: it must print lines with a name and a whole number"
                )
            );
        }
    }
}
