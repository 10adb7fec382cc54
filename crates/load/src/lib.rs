//! Who sends and who receives: the tester.
//!
//! ```text
//!            stream 0 (a>b)                    stream 1 (b>a)
//!  [a] generator --------> DUT --------> receiver [b]
//!  [a] receiver  <-------- DUT <-------- generator [b]
//! ```
//! A [`Tester`] owns both ports. [`Tester::trial`] sends at a given load for a given time, waits until what
//! is under way has arrived, and returns what was sent and received. Two kinds behind one interface: XDP
//! (live frames out, counting in the driver) and AF_PACKET sockets for those who may not load eBPF.

pub mod counts;
pub mod histogram;
pub mod xdp;
