//! stub
pub(crate) fn run(_: &crate::cli::Doctor, _: &mut impl std::io::Write) -> anyhow::Result<crate::Outcome> {
    Ok(crate::Outcome::Unfit)
}
