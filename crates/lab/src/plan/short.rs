//! `[short]`: the options that differ in the declared short form of a plan, so that a procedure of hours can be looked
//! at in minutes. They are changes like those of `--set`; deviations are reported as for any other plan.

use std::ops::Range;

use toml_edit::{Item, TableLike};

use super::set::Set;
use weir_config::{Mistakes, Notes, Place};

/// The name of the section.
const SECTION: &str = "short";

/// Which form of a plan is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// As it stands.
    Full,
    /// With the changes of `[short]`.
    Short,
}

/// The changes of a short form.
pub(super) struct Changes {
    /// In the order of the plan.
    pub(super) sets: Vec<Set>,
    /// Where the value of each begins in the text.
    places: Vec<(String, usize)>,
}

impl Changes {
    /// Those of a plan; `None` if it has no short form.
    pub(super) fn of(plan: &Item) -> Option<Changes> {
        let section = plan.get(SECTION)?.as_table_like()?;
        let mut changes = Changes { sets: Vec::new(), places: Vec::new() };
        changes.collect("", section);
        Some(changes)
    }

    /// `a.b = 1` is a table `a` to TOML, `"a.b" = 1` is not; both are the option a.b.
    fn collect(&mut self, path: &str, table: &dyn TableLike) {
        for (key, item) in table.iter() {
            let path = if path.is_empty() { key.to_string() } else { format!("{path}.{key}") };
            match item {
                Item::Value(value) if !value.is_inline_table() => {
                    self.places.push((path.clone(), value.span().map_or(0, |span: Range<usize>| span.start)));
                    self.sets.push(Set::new(path, value.clone()));
                }
                _ => item.as_table_like().into_iter().for_each(|table| self.collect(&path, table)),
            }
        }
    }

    /// Moves mistakes that lie in a change to its line.
    pub(super) fn locate(&self, mistakes: &mut Mistakes, notes: &Notes<'_>) {
        for mistake in &mut mistakes.list {
            let Place::Set(path) = &mistake.place else { continue };
            let is_it = |(of, _): &&(String, usize)| {
                of == path || of.strip_prefix(path.as_str()).is_some_and(|rest| rest.starts_with('.'))
            };
            if let Some((of, offset)) = self.places.iter().find(is_it) {
                mistake.text = format!("{SECTION}: {of}: {}", mistake.text);
                mistake.place = Place::Line(notes.line(*offset));
            }
        }
    }
}

/// Takes the section out of a plan, whose changes are made or not wanted.
pub(super) fn remove(plan: &mut dyn TableLike) {
    plan.remove(SECTION);
}
