//! The scenarios that ship with the program.

use super::text::{Scenario, read};

/// The files of `tests/` at the root of the project, by name.
const FILES: &[(&str, &str)] = &[
    ("rfc4787.txt", include_str!("../../../../tests/rfc4787.txt")),
    ("rfc5382.txt", include_str!("../../../../tests/rfc5382.txt")),
    ("rfc5508.txt", include_str!("../../../../tests/rfc5508.txt")),
    ("rfc6052.txt", include_str!("../../../../tests/rfc6052.txt")),
    ("rfc6146.txt", include_str!("../../../../tests/rfc6146.txt")),
    ("rfc6887.txt", include_str!("../../../../tests/rfc6887.txt")),
    ("rfc6888.txt", include_str!("../../../../tests/rfc6888.txt")),
    ("rfc7857.txt", include_str!("../../../../tests/rfc7857.txt")),
    ("rfc7422.txt", include_str!("../../../../tests/rfc7422.txt")),
    ("nat-static.txt", include_str!("../../../../tests/nat-static.txt")),
    ("nat-redirect.txt", include_str!("../../../../tests/nat-redirect.txt")),
    ("nat-chain.txt", include_str!("../../../../tests/nat-chain.txt")),
    ("nat-apply.txt", include_str!("../../../../tests/nat-apply.txt")),
    ("stages-apply.txt", include_str!("../../../../tests/stages-apply.txt")),
    ("nat-regressions.txt", include_str!("../../../../tests/nat-regressions.txt")),
    ("forward.txt", include_str!("../../../../tests/forward.txt")),
    ("filter.txt", include_str!("../../../../tests/filter.txt")),
    ("bump.txt", include_str!("../../../../tests/bump.txt")),
    ("police.txt", include_str!("../../../../tests/police.txt")),
    ("punt.txt", include_str!("../../../../tests/punt.txt")),
    ("queue.txt", include_str!("../../../../tests/queue.txt")),
    ("lines.txt", include_str!("../../../../tests/lines.txt")),
    ("subscribers.txt", include_str!("../../../../tests/subscribers.txt")),
    ("subscribers-pppoe.txt", include_str!("../../../../tests/subscribers-pppoe.txt")),
    ("tr101.txt", include_str!("../../../../tests/tr101.txt")),
    ("walled.txt", include_str!("../../../../tests/walled.txt")),
];

/// All scenarios, each with the file it stands in.
pub fn suites() -> Vec<(&'static str, Vec<Scenario>)> {
    FILES.iter().map(|(name, text)| (*name, read(text).expect("the tests have read it"))).collect()
}
