//! Words for people, on standard error. That nobody reads them any more (a closed pipe, a terminal that is
//! gone) is no reason to stop measuring.

use std::io::Write;

use weir_config::plain;

/// Writes a line.
pub(crate) fn say(text: &str) {
    // See above.
    let _ = writeln!(std::io::stderr(), "{}", plain(text));
}

/// Writes notes, one per line.
pub(crate) fn notes(notes: &[String]) {
    notes.iter().for_each(|note| say(&format!("note: {note}")));
}
