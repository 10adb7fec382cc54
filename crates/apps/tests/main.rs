//! The tests of `weir-apps` from outside, as one program.

mod inspect;
mod servers;
