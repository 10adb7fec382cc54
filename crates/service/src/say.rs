//! Messages on standard error. An error of standard error (a closed pipe, a terminal that is gone) does not stop a
//! measurement.

use std::io::Write;

use weir_config::plain;

/// Smallest assumed width of a terminal.
const COLUMNS: usize = 80;

/// Writes a line.
pub fn say(text: &str) {
    // See above.
    let _ = writeln!(std::io::stderr(), "{}", plain(text));
}

/// Columns for text that is also read later: those of the terminal, at least 80; 80 without a terminal.
pub fn columns() -> usize {
    terminal().max(COLUMNS)
}

/// Current columns of the terminal; 80 without a terminal.
pub fn terminal() -> usize {
    let size = rustix::termios::tcgetwinsize(std::io::stderr());
    size.ok().map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0).unwrap_or(COLUMNS)
}

/// Writes notes, one per line.
pub fn notes(notes: &[String]) {
    notes.iter().for_each(|note| say(&format!("note: {note}")));
}
