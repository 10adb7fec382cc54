//! A bug on purpose, for tests of what a panic costs: a datagram that asks for it makes the first stage on its way out panic. It
//! is compiled only where a test asks for it (feature `faults`), never into a program for users.

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
