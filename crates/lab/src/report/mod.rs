//! Reports.
#[cfg(test)]
pub(crate) mod fixture;
