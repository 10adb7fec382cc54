//! The mistakes of a file: all at once, each with its place and its remedy.

use std::cell::RefCell;
use std::fmt;
use std::ops::Range;

use toml_edit::{Document, Item, TomlError};

/// Everything that is wrong with a file, in the order of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistakes {
    /// What the user calls the file: its path, or the name of one that ships.
    pub file: String,
    /// At least one.
    pub list: Vec<Mistake>,
}

/// One mistake.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mistake {
    /// Where it is.
    pub place: Place,
    /// What is wrong, and after a colon what to do about it.
    pub text: String,
}

/// Where a mistake is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// A line of the file, from 1.
    Line(usize),
    /// A value given with `--set`, by the path of its option.
    Set(String),
}

impl std::error::Error for Mistakes {}

impl Mistakes {
    /// Those of two readings of the same file, each once.
    pub fn and(mut self, other: Mistakes) -> Mistakes {
        self.list.extend(other.list);
        self.list.sort();
        self.list.dedup();
        self
    }
}

impl fmt::Display for Mistakes {
    /// One line per mistake: `plan.toml:12: what is wrong: what to do`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, mistake) in self.list.iter().enumerate() {
            let end = if i + 1 < self.list.len() { "\n" } else { "" };
            match &mistake.place {
                Place::Line(line) => write!(f, "{}:{line}: {}{end}", self.file, mistake.text)?,
                Place::Set(path) => write!(f, "--set {path}: {}{end}", mistake.text)?,
            }
        }
        Ok(())
    }
}

/// Collects mistakes while a file is read.
pub struct Notes<'a> {
    /// What the file is: `a plan`.
    pub(crate) what: &'static str,
    text: &'a str,
    /// Where its lines end.
    ends: Vec<usize>,
    list: RefCell<Vec<Mistake>>,
}

impl<'a> Notes<'a> {
    /// An empty list for a file with this text, which is `what`: `a plan`.
    pub fn new(what: &'static str, text: &'a str) -> Self {
        let ends = text.match_indices('\n').map(|(at, _)| at).collect();
        Notes { what, text, ends, list: RefCell::new(Vec::new()) }
    }

    /// The document; what is no TOML is noted.
    pub fn parse(&self) -> Option<Item> {
        let note = |error: TomlError| {
            let message = error.message().lines().collect::<Vec<_>>().join(", ");
            self.add(error.span().or(Some(0..0)), "", format!("this is not TOML: {message}"));
        };
        Document::parse(self.text).map(Document::into_item).map_err(note).ok()
    }

    /// Notes a mistake. What came from `--set` has no span and is named by its `path`.
    pub fn add(&self, span: Option<Range<usize>>, path: &str, text: String) {
        let place = match span {
            Some(span) => Place::Line(self.line(span.start)),
            None => Place::Set(path.to_string()),
        };
        self.push(Mistake { place, text });
    }

    /// Notes a mistake that knows its place.
    pub fn push(&self, mistake: Mistake) {
        self.list.borrow_mut().push(mistake);
    }

    /// The line of a place in the text, from 1.
    pub fn line(&self, offset: usize) -> usize {
        1 + self.ends.partition_point(|&end| end < offset)
    }

    /// Whether nothing was noted so far.
    pub fn is_empty(&self) -> bool {
        self.list.borrow().is_empty()
    }

    /// All mistakes in the order of the file, those of `--set` last.
    pub fn to_mistakes(&self, file: &str) -> Mistakes {
        let mut list = self.list.take();
        assert!(!list.is_empty(), "a file is refused for a reason");
        list.sort();
        list.dedup();
        Mistakes { file: file.to_string(), list }
    }
}

/// What to do about a wrong `word`: the candidate that was most likely meant, otherwise all of them.
pub fn did_you_mean(word: &str, candidates: &[&str]) -> String {
    match closest(word, candidates) {
        Some(candidate) => format!("did you mean `{candidate}`?"),
        None => format!("use {}", candidates.join(", ")),
    }
}

/// The candidate that a wrong `word` was most likely meant to be, if it is close to any.
pub fn closest<'c>(word: &str, candidates: &[&'c str]) -> Option<&'c str> {
    let close = candidates.iter().filter(|candidate| is_close(word, candidate));
    close.min_by_key(|candidate| distance(word, candidate)).copied()
}

/// Close: one slip per three letters, or one word is the beginning of the other (`frame`, `frame_bytes`).
fn is_close(word: &str, candidate: &str) -> bool {
    let long_enough = word.len() >= 3 && candidate.len() >= 3;
    distance(word, candidate) <= candidate.len().max(word.len()).div_ceil(3)
        || long_enough && (candidate.starts_with(word) || word.starts_with(candidate))
}

/// Edit distance by insertion, deletion and replacement (Levenshtein 1966), two rows of memory.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, letter) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for j in 0..b.len() {
            let replaced = diagonal + usize::from(letter != b[j]);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_recognised() {
        let options = ["frame_bytes", "flows", "flow_order", "direction"];
        for (word, meant) in [
            ("flowz", "did you mean `flows`?"),
            ("flow", "did you mean `flows`?"),
            ("frame", "did you mean `frame_bytes`?"),
            ("directoin", "did you mean `direction`?"),
            ("colour", "use frame_bytes, flows, flow_order, direction"),
        ] {
            assert_eq!(did_you_mean(word, &options), meant, "{word}");
        }
    }

    #[test]
    fn distances() {
        for (a, b, expected) in [("", "", 0), ("a", "", 1), ("kitten", "sitting", 3), ("flaw", "lawn", 2)] {
            assert_eq!(distance(a, b), expected, "{a} {b}");
            assert_eq!(distance(b, a), expected, "{b} {a}");
        }
    }
}
