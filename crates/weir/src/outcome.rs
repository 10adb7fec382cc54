//! How a command ends: what becomes of it is its exit code, and an error is shown with its causes.

/// How a command ended without an error.
pub(crate) enum Outcome {
    Done,
    NotAllValid,
    /// `weir compare --fail-on`.
    Differs,
    Interrupted,
    /// `weir doctor`: a run is not possible here.
    Unfit,
}

/// An error and its causes, each printed once: some messages already include their cause, followed by the remedy.
pub(crate) fn with_causes(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |text, cause| match text.as_str() {
        "" => cause,
        reported if reported.contains(&cause) => text,
        reported => format!("{reported}: {cause}"),
    })
}

#[cfg(test)]
mod tests {
    use std::io::{self, ErrorKind};

    use super::*;

    #[test]
    fn each_cause_is_reported_once() {
        let cause = || io::Error::from(ErrorKind::NotFound);
        let error = anyhow::Error::from(cause()).context("cannot read x").context("run 1 has failed");
        assert_eq!(with_causes(&error), "run 1 has failed: cannot read x: entity not found");
        let error = anyhow::Error::from(cause()).context("x: entity not found; look elsewhere");
        assert_eq!(with_causes(&error), "x: entity not found; look elsewhere");
    }
}
