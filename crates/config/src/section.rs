//! One table of a file, read option by option. Every wrong value is noted and reading continues; options that were not
//! read are unknown.

use std::cell::RefCell;
use std::ops::Range;

use toml_edit::{Item, TableLike, Value};

use crate::mistake::{Notes, did_you_mean};

/// A table of the file, or its absence.
pub struct Section<'a> {
    /// Path with dots (`traffic`), empty for the whole file.
    path: String,
    table: Option<&'a dyn TableLike>,
    /// Where the table begins; `None` if it came with `--set`.
    span: Option<Range<usize>>,
    notes: &'a Notes<'a>,
    known: RefCell<Vec<&'static str>>,
}

/// How a value becomes a `T`; the message says what is wrong and what to write.
pub trait Parse<T>: Fn(&Value) -> Result<T, String> {}
impl<T, F: Fn(&Value) -> Result<T, String>> Parse<T> for F {}

impl<'a> Section<'a> {
    /// The whole file.
    pub fn root(table: &'a dyn TableLike, notes: &'a Notes<'a>) -> Self {
        Section {
            path: String::new(),
            table: Some(table),
            span: Some(0..0),
            notes,
            known: RefCell::default(),
        }
    }

    /// The table `key` in this one.
    pub fn section(&self, key: &'static str) -> Section<'a> {
        let item = self.get(key);
        let table = item.and_then(Item::as_table_like);
        if let (Some(item), None) = (item, table) {
            self.note(span_of(item), key, format!("is a section: write [{}]", self.path_of(key)));
        }
        // An absent section is missing where its parent begins.
        let span = item.map_or(self.span.clone(), span_of);
        self.child(self.path_of(key), table, span)
    }

    /// The tables `[[key]]` in this one.
    pub fn sections(&self, key: &'static str) -> Vec<Section<'a>> {
        let path = |i: usize| format!("{}.{}", self.path_of(key), i + 1);
        match self.get(key) {
            None => Vec::new(),
            Some(Item::ArrayOfTables(tables)) => {
                let one = |(i, t): (usize, &'a toml_edit::Table)| {
                    self.child(path(i), Some(t as &dyn TableLike), t.span())
                };
                tables.iter().enumerate().map(one).collect()
            }
            Some(Item::Value(Value::Array(array)))
                if !array.is_empty() && array.iter().all(Value::is_inline_table) =>
            {
                let tables = array.iter().filter_map(Value::as_inline_table).enumerate();
                tables.map(|(i, t)| self.child(path(i), Some(t as &dyn TableLike), t.span())).collect()
            }
            Some(other) => {
                self.note(
                    span_of(other),
                    key,
                    format!("is a list of sections: write [[{}]]", self.path_of(key)),
                );
                Vec::new()
            }
        }
    }

    fn child(
        &self,
        path: String,
        table: Option<&'a dyn TableLike>,
        span: Option<Range<usize>>,
    ) -> Section<'a> {
        Section { path, table, span, notes: self.notes, known: RefCell::default() }
    }

    /// Is this option there, right or wrong?
    pub fn has(&self, key: &str) -> bool {
        self.table.is_some_and(|table| table.contains_key(key))
    }

    /// Is the table there at all?
    pub fn is_present(&self) -> bool {
        self.table.is_some()
    }

    /// One value, `None` if it is absent or wrong.
    pub fn one<T>(&self, key: &'static str, parse: impl Parse<T>) -> Option<T> {
        let value = self.value(key)?;
        if value.is_array() {
            self.note(value.span(), key, "takes one value: only an axis takes a list".to_string());
            return None;
        }
        self.parsed(key, value, &parse)
    }

    /// One value that has to be there; `example` shows how.
    pub fn required<T>(&self, key: &'static str, example: &str, parse: impl Parse<T>) -> Option<T> {
        self.require(key, example);
        self.one(key, parse)
    }

    /// An axis that has to be there; `example` shows how.
    pub fn required_axis<T: PartialEq>(
        &self,
        key: &'static str,
        example: &str,
        parse: impl Parse<T>,
    ) -> Option<Vec<T>> {
        self.require(key, example);
        self.axis(key, parse)
    }

    fn require(&self, key: &'static str, example: &str) {
        if !self.has(key) {
            let place = if self.path.is_empty() { String::new() } else { format!(" to [{}]", self.path) };
            self.note(self.span.clone(), key, format!("is missing: add `{key} = {example}`{place}"));
        }
    }

    /// An axis: one value or a list without repeats. `None` if it is absent or any of it is wrong.
    pub fn axis<T: PartialEq>(&self, key: &'static str, parse: impl Parse<T>) -> Option<Vec<T>> {
        let value = self.value(key)?;
        let Some(array) = value.as_array() else {
            return self.parsed(key, value, &parse).map(|one| vec![one]);
        };
        if array.is_empty() {
            self.note(value.span(), key, "the list is empty: give a value".to_string());
            return None;
        }
        let mut list = Vec::with_capacity(array.len());
        for item in array {
            match self.parsed(key, item, &parse) {
                Some(one) if list.contains(&one) => {
                    self.note(item.span(), key, format!("`{}` is listed twice: remove one", shown(item)));
                }
                one => list.extend(one),
            }
        }
        (list.len() == array.len()).then_some(list)
    }

    fn parsed<T>(&self, key: &str, value: &Value, parse: &impl Parse<T>) -> Option<T> {
        parse(value).map_err(|text| self.note(value.span(), key, text)).ok()
    }

    fn value(&self, key: &'static str) -> Option<&'a Value> {
        let item = self.get(key)?;
        if item.as_value().is_none() {
            self.note(span_of(item), key, format!("takes a value: write `{key} = ...`"));
        }
        item.as_value()
    }

    fn get(&self, key: &'static str) -> Option<&'a Item> {
        self.known.borrow_mut().push(key);
        self.table?.get(key)
    }

    /// Notes what is wrong with the option `key` as a whole, at its value or, if it is absent, at the table.
    pub fn wrong(&self, key: &str, text: String) {
        let item = self.table.and_then(|table| table.get(key));
        self.note(item.map_or(self.span.clone(), span_of), key, text);
    }

    /// Notes what is wrong with entry `index` of the axis `key`.
    pub fn wrong_entry(&self, key: &str, index: usize, text: String) {
        let entry = self.table.and_then(|table| table.get(key)?.as_array()?.get(index));
        match entry {
            Some(entry) => self.note(entry.span(), key, text),
            None => self.wrong(key, text),
        }
    }

    fn note(&self, span: Option<Range<usize>>, key: &str, text: String) {
        let path = self.path_of(key);
        let text = if span.is_some() { format!("{path}: {text}") } else { text };
        self.notes.add(span, &path, text);
    }

    fn path_of(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_string() } else { format!("{}.{key}", self.path) }
    }

    /// Notes every option that was not asked for.
    pub fn finish(self) {
        let known = self.known.borrow();
        for (key, _) in self.table.iter().flat_map(|table| table.iter()) {
            if !known.contains(&key) {
                let span = self.table.and_then(|table| table.key(key)?.span());
                let place = if self.path.is_empty() {
                    self.notes.what.to_string()
                } else {
                    format!("[{}]", self.path)
                };
                let path = self.path_of(key);
                let text = format!("`{key}` is no option of {place}: {}", did_you_mean(key, &known));
                self.notes.add(span, &path, text);
            }
        }
    }
}

/// Where an item begins. A table that has no header of its own (`[a.b]` without `[a]`) is at its first entry.
fn span_of(item: &Item) -> Option<Range<usize>> {
    let first = || item.as_table_like().and_then(|table| table.iter().find_map(|(_, item)| span_of(item)));
    item.span().or_else(first)
}

/// A value as the user wrote it, without quotes.
pub fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string().trim().to_string(), str::to_string)
}
