//! Numbers that environment variables of a test run may set.

use std::str::FromStr;

/// What this variable of the environment says, or the usual number where it is not set.
///
/// # Panics
/// It says something else than a number.
pub fn number<N: FromStr>(variable: &str, usual: N) -> N {
    std::env::var(variable)
        .map_or(usual, |text| text.parse().unwrap_or_else(|_| panic!("{variable}={text}: not a number")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_is_a_number_or_the_usual_one_stands() {
        assert_eq!(number("WEIR_NOBODY_SETS_THIS", 8), 8);
        assert!(std::panic::catch_unwind(|| number("PATH", 8)).is_err());
    }
}
