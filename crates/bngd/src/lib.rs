//! The program bngd: it runs the control plane of a concentrator ([`weir_bng`]) and connects it with the disk.
//!
//! Folders:
//! - `store/`: what must outlive the program: log and database
#![forbid(unsafe_code)]

pub mod store;
