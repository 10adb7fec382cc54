//! README.md and the pages of docs/: their blocks, and the commands in them.

use std::fs;
use std::path::{Path, PathBuf};

/// A page as it is written.
pub(crate) struct Page {
    /// Its path from the root of the repository.
    pub(crate) name: String,
    pub(crate) text: String,
}

/// A fenced block.
pub(crate) struct Block<'a> {
    /// What stands behind the fence: `sh`, `toml`, `node`.
    pub(crate) language: &'a str,
    /// Its lines, each with its number in the page.
    pub(crate) lines: Vec<(usize, &'a str)>,
}

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// README.md and all pages of docs/, in the order of their names.
pub(crate) fn all() -> Vec<Page> {
    let docs = fs::read_dir(root().join("docs")).expect("docs/ is there");
    let docs = docs.map(|entry| format!("docs/{}", entry.expect("readable").file_name().display()));
    let mut names: Vec<String> = docs.filter(|name| name.ends_with(".md")).collect();
    names.push("README.md".into());
    names.sort();
    names.into_iter().map(|name| Page { text: read(&name), name }).collect()
}

/// A text of the repository.
pub(crate) fn read(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

impl Page {
    /// Its fenced blocks in order.
    pub(crate) fn blocks(&self) -> Vec<Block<'_>> {
        let mut blocks: Vec<Block<'_>> = Vec::new();
        let mut is_inside = false;
        for (n, line) in (1..).zip(self.text.lines()) {
            match (line.trim_start().strip_prefix("```"), is_inside) {
                (Some(_), true) => is_inside = false,
                (Some(language), false) => {
                    is_inside = true;
                    blocks.push(Block { language, lines: Vec::new() });
                }
                (None, true) => blocks.last_mut().expect("it has begun").lines.push((n, line)),
                (None, false) => {}
            }
        }
        assert!(!is_inside, "{}: the last block has no end", self.name);
        blocks
    }
}

/// The commands of a line of a shell, each as its words; what it is redirected to is left out.
pub(crate) fn commands(line: &str) -> Vec<Vec<String>> {
    let mut commands = vec![Vec::new()];
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut is_target = false;
    for c in line.chars().chain([' ']) {
        match c {
            _ if quote == Some(c) => quote = None,
            _ if quote.is_some() => word.get_or_insert_default().push(c),
            '\'' | '"' => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            '#' if word.is_none() => break,
            ' ' | '|' | '&' | ';' | '<' | '>' => {
                if let Some(whole) = word.take()
                    && !std::mem::take(&mut is_target)
                {
                    commands.last_mut().expect("begun with one").push(whole);
                }
                match c {
                    ' ' => {}
                    '<' | '>' => is_target = true,
                    _ => commands.push(Vec::new()),
                }
            }
            _ => word.get_or_insert_default().push(c),
        }
    }
    assert!(quote.is_none(), "`{line}`: a quotation mark is missing");
    commands.retain(|words| !words.is_empty());
    commands
}
