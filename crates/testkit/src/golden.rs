//! Golden texts that were reviewed once: a test compares with them, and `BLESS=1` rewrites them.

use std::fmt::Display;
use std::fs;
use std::path::Path;

/// Compares a text with a file of the crate, by its path from the crate's folder.
#[macro_export]
macro_rules! golden {
    ($path:expr, $text:expr) => {
        $crate::check_golden(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join($path).as_path(), $text)
    };
}

/// Compares a text with a file, or writes the file where `BLESS` is set.
///
/// # Panics
/// With the first line that differs.
pub fn check_golden(path: &Path, text: &str) {
    let name = path.display();
    if std::env::var_os("BLESS").is_some() {
        fs::write(path, text).unwrap_or_else(|error| panic!("{name}: {error}"));
        return;
    }
    let golden = fs::read_to_string(path)
        .unwrap_or_else(|error| panic!("{name}: {error}: run this test with BLESS=1"));
    if let Some((line, was, is)) = difference(&golden, text) {
        panic!(
            "{name}:{line} says\n  {was}\nbut it is now\n  {is}\nIf that is meant, run this test with BLESS=1\n\n{text}"
        );
    }
}

/// Each of these texts, all of which are wrong, with what is said of it.
///
/// # Panics
/// If a text is read.
pub fn mistakes<T, E: Display>(texts: &[&str], read: impl Fn(&str) -> Result<T, E>) -> String {
    let one = |text: &&str| match read(text) {
        Ok(_) => panic!("{text} is no mistake"),
        Err(error) => format!("{text}\n    {}\n", error.to_string().replace('\n', "\n    ")),
    };
    texts.iter().map(one).collect()
}

/// As [`mistakes`], of changes of a plan; `a=1 --set b=2` are two changes.
///
/// # Panics
/// If a change is accepted.
pub fn set_mistakes<T, E: Display>(sets: &[&str], read: impl Fn(&[String]) -> Result<T, E>) -> String {
    mistakes(sets, |set| read(&set.split(" --set ").map(String::from).collect::<Vec<_>>()))
}

/// Number and text of the first line that differs, in both texts.
fn difference<'a>(golden: &'a str, text: &'a str) -> Option<(usize, &'a str, &'a str)> {
    if golden == text {
        return None;
    }
    let (mut was, mut is) = (golden.split('\n'), text.split('\n'));
    (1..).find_map(|line| match (was.next(), is.next()) {
        (was, is) if was != is => Some((line, was.unwrap_or("(the end)"), is.unwrap_or("(the end)"))),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_that_differs_is_named() {
        assert_eq!(difference("a\nb\n", "a\nb\n"), None);
        assert_eq!(difference("a\nb\n", "a\nc\n"), Some((2, "b", "c")));
        assert_eq!(difference("a\n", "a\nb\n"), Some((2, "", "b")));
        assert_eq!(difference("a\nb", "a"), Some((2, "b", "(the end)")));
    }
}
