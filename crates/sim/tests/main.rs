//! The tests of `weir-sim` from outside, as one program.

mod causes;
mod contract;
mod expected;
mod ns3;
