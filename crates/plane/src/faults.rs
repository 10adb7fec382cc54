//! A mistake on purpose, for tests of what one costs: a datagram that says so has the stage panic that it comes to on its way
//! out. It is there where a test asks for it (feature `faults`), and in no program that anybody runs.

use crate::batch::Set;
use crate::stage::Step;

/// What the datagram says.
pub const DATAGRAM: &[u8] = b"have the stage panic that this comes to";

/// Panics if one of these frames says so.
pub(crate) fn strike(step: &Step<'_, '_>, set: Set) {
    for i in set {
        assert!(!step.frames[i].l4().ends_with(DATAGRAM), "a mistake on purpose");
    }
}
