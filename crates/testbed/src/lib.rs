//! Where a trial takes place: namespaces, wires, devices under test, CPU placement, counters, and undo.

pub mod dut;
pub mod fault;
