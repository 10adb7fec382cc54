//! Words for people, on standard error. That nobody reads them any more (a closed pipe, a terminal that is
//! gone) is no reason to stop measuring.

use std::io::Write;

use weir_config::plain;

/// What a terminal has at least.
const COLUMNS: usize = 80;

/// Writes a line.
pub fn say(text: &str) {
    // See above.
    let _ = writeln!(std::io::stderr(), "{}", plain(text));
}

/// Columns of text that is read later, too: those of the terminal, at least 80; 80 where there is none.
pub fn columns() -> usize {
    terminal().max(COLUMNS)
}

/// Columns of the terminal as it is now; 80 where there is none.
pub fn terminal() -> usize {
    let size = rustix::termios::tcgetwinsize(std::io::stderr());
    size.ok().map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0).unwrap_or(COLUMNS)
}

/// Writes notes, one per line.
pub fn notes(notes: &[String]) {
    notes.iter().for_each(|note| say(&format!("note: {note}")));
}
