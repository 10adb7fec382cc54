//! What each service of weir has: signals that end it or open its files again, a log, lines on standard error, counters over HTTP, a
//! word to systemd, times and rates in words.
#![forbid(unsafe_code)]

pub mod http;
pub mod log;
pub mod prometheus;
pub mod say;
pub mod signals;
pub mod systemd;
pub mod time;
pub mod units;
