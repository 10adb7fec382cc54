//! Words of an item or a record, read one behind the other; what is wrong names the word.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::fmt::Display;
use std::str::FromStr;

/// What is left of a text.
#[derive(Debug)]
pub(crate) struct Words<'a> {
    rest: std::iter::Peekable<std::str::SplitWhitespace<'a>>,
}

impl<'a> Words<'a> {
    pub(crate) fn new(text: &'a str) -> Words<'a> {
        Words { rest: text.split_whitespace().peekable() }
    }

    /// The next word; `what` is what should be there.
    pub(crate) fn word(&mut self, what: &str) -> Result<&'a str, String> {
        self.rest.next().ok_or_else(|| format!("{what} is missing at the end"))
    }

    /// The next word, if there is one.
    pub(crate) fn next(&mut self) -> Option<&'a str> {
        self.rest.next()
    }

    /// The next word, which stays.
    pub(crate) fn peek(&mut self) -> Option<&'a str> {
        self.rest.peek().copied()
    }

    /// Takes the next word if it is this one.
    pub(crate) fn takes(&mut self, word: &str) -> bool {
        self.rest.next_if(|next| *next == word).is_some()
    }

    /// The next word must be this one.
    pub(crate) fn expect(&mut self, word: &str) -> Result<(), String> {
        match self.word(&format!("`{word}`"))? {
            found if found == word => Ok(()),
            found => Err(format!("`{word}` should stand in place of `{found}`")),
        }
    }

    /// The next word as a value whose error says what to write.
    pub(crate) fn value<T: FromStr<Err = String>>(&mut self, what: &str) -> Result<T, String> {
        self.word(what)?.parse()
    }

    /// The next word as a number or an address.
    pub(crate) fn number<T: FromStr<Err: Display>>(&mut self, what: &str) -> Result<T, String> {
        let word = self.word(what)?;
        word.parse().map_err(|error| format!("`{word}` is no {what}: {error}"))
    }

    /// Nothing is left.
    pub(crate) fn end(&mut self) -> Result<(), String> {
        match self.next() {
            None => Ok(()),
            Some(word) => Err(format!("`{word}` was not expected here: remove it")),
        }
    }
}
