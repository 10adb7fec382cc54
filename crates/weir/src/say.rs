//! Words for people, on standard error. That nobody reads them any more (a closed pipe, a terminal that is
//! gone) is no reason to stop measuring.

use std::io::Write;

use weir_config::plain;

/// Writes a line.
pub(crate) fn say(text: &str) {
    // See above.
    let _ = writeln!(std::io::stderr(), "{}", plain(text));
}

/// Columns of the terminal, at least 80; 80 where there is none.
pub(crate) fn columns() -> usize {
    const LEAST: usize = 80;
    let size = rustix::termios::tcgetwinsize(std::io::stderr());
    size.map_or(LEAST, |size| usize::from(size.ws_col).max(LEAST))
}

/// Writes notes, one per line.
pub(crate) fn notes(notes: &[String]) {
    notes.iter().for_each(|note| say(&format!("note: {note}")));
}
