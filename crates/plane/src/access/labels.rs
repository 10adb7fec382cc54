//! What a session is sold as: the name of its plan and of its group. Rules of filters ask for them, and counters are kept for each pair.
//!
//! ```text
//! names of a session > number of the pair, in the entry of the subscriber > counters of the pair
//! ```
//! Invariant: number 0 is the pair without names. A number is given to another pair only when no session has it.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::collections::HashMap;
use std::sync::Arc;

use super::counts::KindCounts;

/// Most pairs that sessions have at a time, and that counters are kept for.
pub(crate) const MOST_LABELS: usize = 4096;
/// Longest name, bytes.
const MOST_BYTES: usize = 64;

/// The names of a session's plan and group.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct Labels {
    pub(crate) plan: Option<Arc<str>>,
    pub(crate) group: Option<Arc<str>>,
}

/// Reads the name of a plan or a group.
///
/// # Errors
/// It is none; the message says what to write.
pub(crate) fn name(text: &str) -> Result<Arc<str>, String> {
    let is_letter = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '@' | '/' | '+');
    if (1..=MOST_BYTES).contains(&text.len()) && text.chars().all(is_letter) {
        return Ok(text.into());
    }
    Err(format!(
        "`{text}` is no name of a plan or group: use up to {MOST_BYTES} letters, digits, _, -, ., @, / and +"
    ))
}

/// A pair that sessions have or had.
#[derive(Debug, Default)]
pub(super) struct LabelRow {
    pub(super) labels: Labels,
    pub(super) sessions: u32,
    /// What its sessions have counted, also those that have ended: from them, and to them.
    pub(super) counts: [KindCounts; 2],
}

/// All pairs by their numbers.
#[derive(Debug)]
pub(super) struct LabelTable {
    numbers: HashMap<Labels, u16>,
    rows: Vec<LabelRow>,
}

impl LabelTable {
    pub(super) fn new() -> LabelTable {
        LabelTable { numbers: HashMap::from([(Labels::default(), 0)]), rows: vec![LabelRow::default()] }
    }

    /// One more session has these names; the number of the pair.
    pub(super) fn take(&mut self, labels: &Labels) -> u16 {
        let number = match self.numbers.get(labels) {
            Some(&number) => number,
            None => self.insert(labels),
        };
        if let Some(row) = self.rows.get_mut(usize::from(number)) {
            row.sessions += 1;
        }
        number
    }

    /// A session has this pair no more; its counters stay.
    pub(super) fn give_back(&mut self, number: u16) {
        if let Some(row) = self.rows.get_mut(usize::from(number)) {
            row.sessions = row.sessions.saturating_sub(1);
        }
    }

    fn insert(&mut self, labels: &Labels) -> u16 {
        let new = LabelRow { labels: labels.clone(), ..LabelRow::default() };
        let number = if self.rows.len() < MOST_LABELS {
            self.rows.push(new);
            self.rows.len() - 1
        } else {
            // The configuration has no session for which there is none.
            let is_free = |(number, row): &(usize, &LabelRow)| *number > 0 && row.sessions == 0;
            let Some((number, _)) = self.rows.iter().enumerate().find(is_free) else { return 0 };
            if let Some(row) = self.rows.get_mut(number) {
                self.numbers.remove(&row.labels);
                *row = new;
            }
            number
        };
        self.numbers.insert(labels.clone(), number as u16);
        number as u16
    }

    #[inline]
    pub(super) fn get(&self, number: u16) -> Option<&LabelRow> {
        self.rows.get(usize::from(number))
    }

    #[inline]
    pub(super) fn get_mut(&mut self, number: u16) -> Option<&mut LabelRow> {
        self.rows.get_mut(usize::from(number))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &LabelRow> {
        self.rows.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(plan: &str) -> Labels {
        Labels { plan: Some(plan.into()), group: None }
    }

    #[test]
    fn a_number_is_given_again_only_when_no_session_has_it() {
        let mut table = LabelTable::new();
        assert_eq!(
            (table.take(&Labels::default()), table.take(&labels("a")), table.take(&labels("a"))),
            (0, 1, 1)
        );
        for n in 2..MOST_LABELS {
            assert_eq!(usize::from(table.take(&labels(&n.to_string()))), n);
        }
        table.give_back(1);
        assert_eq!(table.take(&labels("b")), 0, "there is no room, and `a` is in use");
        table.give_back(0);
        table.give_back(1);
        assert_eq!((table.take(&labels("b")), table.take(&labels("2"))), (1, 2));
        assert_eq!(table.get(1).map(|row| &row.labels), Some(&labels("b")));
    }

    #[test]
    fn names_are_words() {
        assert!(name("gold@isp/1+2").is_ok());
        for wrong in ["", "a b", "a(b", "a,b", &"x".repeat(65)] {
            assert!(name(wrong).is_err(), "{wrong}");
        }
    }
}
