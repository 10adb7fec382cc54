//! The tests of `weir-flows` from outside, as one program.

mod hostile;
mod iperf3;
mod loopback;
