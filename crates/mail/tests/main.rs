//! The tests of `weir-mail` from outside, as one program.

mod delivery;
mod hostile;
