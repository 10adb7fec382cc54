//! A node as a text: items in the order that frames pass them from left to right, each a name with arguments.
//!
//! ```text
//! # a home router
//! node lan(192.168.0.1/16) filter(rules.fw) > nat(public 192.0.2.0/28, block 512) > route > wan(198.18.0.2/24)
//! ```
//!
//! An argument is a list of words; commas stand between arguments, `>` between items may be left out, and `#` begins
//! a comment. The item decides what the words mean.

use std::ops::Range;

use weir_config::Notes;
use weir_link::Rate;

/// Most stages of a node.
pub(crate) const MOST_STAGES: usize = 15;

/// The text of a file by its name, or what to do about it.
pub(crate) type FileOf<'a> = &'a dyn Fn(&str) -> Result<String, String>;

/// A name with its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// What it is called.
    pub name: Word,
    /// In the order written.
    pub args: Vec<Arg>,
}

/// The words between two commas; at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arg(pub Vec<Word>);

/// A word and its span in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    /// The word.
    pub text: String,
    /// Where it stands.
    pub span: Range<usize>,
}

impl Arg {
    /// The words, for a match.
    pub fn words(&self) -> Vec<&str> {
        self.0.iter().map(|word| word.text.as_str()).collect()
    }

    /// Notes what is wrong with the argument.
    pub fn wrong(&self, notes: &Notes<'_>, text: String) {
        notes.add(Some(self.0[0].span.clone()), "", text);
    }
}

impl Item {
    /// Notes what is wrong with the item.
    pub fn wrong(&self, notes: &Notes<'_>, text: String) {
        notes.add(Some(self.name.span.clone()), "", text);
    }

    /// Notes words that are said again, if they may be said once only.
    pub fn said_once(&self, words: &[&str], notes: &Notes<'_>) {
        let mut said: Vec<&str> = Vec::new();
        for arg in &self.args {
            let word = arg.0[0].text.as_str();
            if said.contains(&word) {
                arg.wrong(notes, format!("`{word}` is said already: leave one of them out"));
            } else if words.contains(&word) {
                said.push(word);
            }
        }
    }
}

/// The items of a text; what is no item is noted.
pub(crate) fn items(text: &str, notes: &Notes<'_>) -> Vec<Item> {
    let mark = text.strip_prefix(MARK).map_or(0, |_| MARK.len_utf8());
    let mut rest = Tokens { text, at: mark };
    let mut items: Vec<Item> = Vec::new();
    while let Some(token) = rest.next() {
        match token.text.as_str() {
            "node" if items.is_empty() => {}
            ">" => {}
            "(" if items.last().is_some_and(|item| item.args.is_empty()) => {
                let item = items.last_mut().expect("there is one");
                item.args = args(&mut rest, &token, notes);
            }
            "(" | ")" | "," => {
                let what = format!("a `{}` without the name of a stage or a port in front", token.text);
                notes.add(Some(token.span), "", format!("{what}: write name(argument, argument)"));
            }
            name => {
                if name == "node" || !name.starts_with(char::is_alphanumeric) {
                    let what = format!("`{name}` is no name of a stage or a port");
                    notes.add(
                        Some(token.span.clone()),
                        "",
                        format!("{what}: leave it out, or write another"),
                    );
                }
                items.push(Item { name: token, args: Vec::new() });
            }
        }
    }
    if items.is_empty() && notes.is_empty() {
        let example = "node lan(192.168.0.1/24) > route > wan(198.18.0.2/24)";
        notes.add(Some(0..0), "", format!("there is no node in it: write one, as in `{example}`"));
    }
    items
}

/// What stands behind `open` up to its closing parenthesis.
fn args(rest: &mut impl Iterator<Item = Word>, open: &Word, notes: &Notes<'_>) -> Vec<Arg> {
    let mut list = vec![Arg(Vec::new())];
    for token in rest.by_ref() {
        match token.text.as_str() {
            ")" => {
                list.retain(|arg| !arg.0.is_empty());
                return list;
            }
            "," => list.push(Arg(Vec::new())),
            _ => list.last_mut().expect("begun with one").0.push(token),
        }
    }
    notes.add(Some(open.span.clone()), "", "this parenthesis is not closed: add a `)`".to_string());
    Vec::new()
}

/// Words and signs of a text.
struct Tokens<'a> {
    text: &'a str,
    at: usize,
}

/// What some editors begin a text with.
pub(crate) const MARK: char = '\u{feff}';
const SIGNS: &[u8] = b"(),>";

impl Iterator for Tokens<'_> {
    type Item = Word;

    fn next(&mut self) -> Option<Word> {
        let bytes = self.text.as_bytes();
        loop {
            match bytes.get(self.at)? {
                b'#' => self.at = self.text[self.at..].find('\n').map_or(bytes.len(), |line| self.at + line),
                byte if byte.is_ascii_whitespace() => self.at += 1,
                _ => break,
            }
        }
        let start = self.at;
        let is_word = |byte: &u8| !SIGNS.contains(byte) && !byte.is_ascii_whitespace() && *byte != b'#';
        let len = bytes[start..].iter().take_while(|byte| is_word(byte)).count().max(1);
        self.at += len;
        Some(Word { text: self.text[start..self.at].to_string(), span: start..self.at })
    }
}

/// A rate in bits/s that does not change.
pub(crate) fn constant_rate(text: &str) -> Result<u64, String> {
    if text.trim_end_matches(|unit: char| unit.is_ascii_alphabetic() || unit == '/').parse() == Ok(0.0) {
        return Err(
            "at a rate of 0 nothing passes: write 1kbit or more, or drop these frames in a filter".into()
        );
    }
    let constant = || format!("`{text}`: a subscriber has a constant rate: write 20Mbit");
    match Rate::read_with(text, |_| Err(constant()))? {
        Rate::Constant(bits_per_s) => Ok(bits_per_s),
        _ => Err(constant()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        let notes = Notes::new("a node", text);
        let items = items(text, &notes);
        if !notes.is_empty() {
            return notes.to_mistakes("n").to_string();
        }
        let show = |item: Item| {
            let args: Vec<_> = item.args.iter().map(|arg| arg.words().join(" ")).collect();
            format!("{}[{}]", item.name.text, args.join("|"))
        };
        items.into_iter().map(show).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn items_with_their_arguments() {
        for (text, expected) in [
            (
                "node lan(192.168.0.0/16) filter(r.fw) > nat(public 192.0.2.0/28, block 512) > wan",
                "lan[192.168.0.0/16] filter[r.fw] nat[public 192.0.2.0/28|block 512] wan[]",
            ),
            ("# nothing\nlan>wan # the end\n", "lan[] wan[]"),
            ("lan(a,\n  b c, # two\n  d,)", "lan[a|b c|d]"),
            ("\u{feff}node lan > wan", "lan[] wan[]"),
            ("node lan(a)\r\n> wan\r\n", "lan[a] wan[]"),
            (
                "node lan\nnode = wan",
                "n:2: `=` is no name of a stage or a port: leave it out, or write another\n\
                 n:2: `node` is no name of a stage or a port: leave it out, or write another",
            ),
            ("node lan(a > wan", "n:1: this parenthesis is not closed: add a `)`"),
            (
                "node lan\n, wan",
                "n:2: a `,` without the name of a stage or a port in front: write name(argument, argument)",
            ),
            (
                " # only words",
                "n:1: there is no node in it: write one, as in `node lan(192.168.0.1/24) > route > \
                              wan(198.18.0.2/24)`",
            ),
        ] {
            assert_eq!(shown(text), expected, "{text}");
        }
    }
}
