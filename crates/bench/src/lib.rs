//! Cost of a frame in the plane: reference cycles per frame, in memory, on one core.
//!
//! Frames of 64 bytes, 1,024 of them in 128 KiB, written anew before each pass: a port would have put them into the
//! cache as well. Each batch of 64 is timed by itself, so that a row has the median over rounds with their spread, and
//! the time that all but one of 10,000 batches stay under. The clock is read once per batch: about 1 cycle a frame.
//! Beside each row stands a walk through as much memory as its tables take, see [`probe`].

use std::io::{self, Write};

mod access;
mod change;
mod fast;
mod filter;
mod forward;
mod nat;
mod probe;
mod threads;

/// How the rows are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A table.
    Text,
    /// A JSON object per row.
    Json,
}

/// Measures the rows of the plane with `wanted` in their names.
///
/// # Errors
/// Those of `out`, and that no row is wanted.
pub fn plane(wanted: &str, form: Form, out: &mut dyn Write) -> io::Result<()> {
    let mut bench = probe::Bench::new(wanted, form, out);
    bench.heading()?;
    forward::rows(&mut bench)?;
    access::rows(&mut bench)?;
    filter::rows(&mut bench)?;
    nat::rows(&mut bench)?;
    fast::rows(&mut bench)?;
    threads::rows(&mut bench)?;
    change::rows(&mut bench)?;
    bench.end()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The addresses of a row are those of hosts, so that all its frames leave; a row that loses some fails.
    #[test]
    fn a_row_measures_frames_that_leave() {
        let mut out = Vec::new();
        for wanted in ["64k subscribers", "nat and route 10k", "forward 1 prefix IPv4", "nat 1 udp random"] {
            plane(wanted, Form::Json, &mut out).unwrap_or_else(|error| panic!("{error}"));
        }
        let mut bench = probe::Bench::new("", Form::Json, &mut out);
        let mut router = forward::router();
        let prefix = "64.0.0.0/3".parse().expect("a prefix");
        let frame = |buf: &mut [u8]| (forward::frame(buf, prefix, 5), weir_plane::PortId(0));
        bench.row("no route", &mut router, 0, frame).expect("written");
        let wrong = bench.end().expect_err("no frame has left").to_string();
        assert!(wrong.contains("of these rows did not leave: no route: "), "{wrong}");
        assert!(wrong.contains(" of 16384 left: no_route 16384"), "{wrong}");
    }
}
