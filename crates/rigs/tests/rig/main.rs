//! Whole rigs with real frames: every device forwards, faults are reported as what they are, and what the
//! tester or the machine did wrong is never loss of the device.
//!
//! A loaded machine may disturb any trial, but never in silence: [`bench::Bench::calm`] repeats a trial until
//! one was left in peace, and checks the frame accounting of every single one. Next to a crowd there is no peace: [`crowd`].

mod bench;
mod crowd;
mod dates;
mod devices;
mod faults;
mod loads;
mod planted;
mod procedures;
mod resume;
mod sizes;
mod trouble;
