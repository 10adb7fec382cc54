//! Text from outside that is printed on a terminal.

use std::borrow::Cow;

/// The text, so that it can be printed: what a terminal or a reader would take for something else than letters, such as
/// ESC, a carriage return, or marks that turn the direction of writing, becomes `\u{1b}`. Ends of lines and tabs stay.
pub fn plain(text: &str) -> Cow<'_, str> {
    if !text.contains(is_active) {
        return Cow::Borrowed(text);
    }
    let shown = text.chars().map(|c| {
        if is_active(c) { Cow::Owned(c.escape_unicode().to_string()) } else { Cow::Owned(c.to_string()) }
    });
    Cow::Owned(shown.collect())
}

/// Control characters of both sets, and the marks of bidirectional writing (Unicode Standard Annex 9, section 2).
fn is_active(c: char) -> bool {
    let is_mark =
        matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    is_mark || c.is_control() && c != '\n' && c != '\t'
}

/// The text of a file without the byte order mark that some editors write first.
pub fn without_bom(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_shown() {
        let plain_already = "two lines,\n\ta tab, é and 日本";
        assert!(matches!(plain(plain_already), Cow::Borrowed(text) if text == plain_already));
        assert_eq!(plain("a\u{1b}[2Jb\r\u{7f}\u{9b}31m"), r"a\u{1b}[2Jb\u{d}\u{7f}\u{9b}31m");
        assert_eq!(plain("x\u{202e}y\u{2066}z\u{200f}"), r"x\u{202e}y\u{2066}z\u{200f}");
        assert_eq!(plain("\0"), r"\u{0}");
    }
}
