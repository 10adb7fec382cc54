//! `--set traffic.flows=1000`: one option changed without editing the plan, whose text keeps its comments.

use toml_edit::{ArrayOfTables, Item, Table, TableLike, Value};

use weir_config::{Mistake, Place};

/// One change: the path of an option and its new value.
#[derive(Debug, Clone)]
pub(super) struct Set {
    path: String,
    value: Value,
}

impl Set {
    /// Reads `key.path=value`. The value is TOML; what is not is a text, also within a list: `imix`, `[1,all]`.
    pub(super) fn parse(text: &str) -> Result<Self, Mistake> {
        let (path, value) = text.split_once('=').unwrap_or((text, ""));
        let (path, value) = (path.trim(), value.trim());
        if value.is_empty() || path.split('.').any(str::is_empty) {
            let remedy = "sets nothing: use OPTION=VALUE, for example traffic.flows=1000";
            return Err(Mistake { place: Place::Set(text.to_string()), text: remedy.to_string() });
        }
        Ok(Set { path: path.to_string(), value: read_value(value) })
    }

    /// A change to the option at `path`.
    pub(super) fn new(path: String, value: Value) -> Self {
        Set { path, value }
    }

    /// Makes the change in a plan. Sections on the way are added; tables of a list go by number from 1
    /// (`search.goal.2.loss_ratio`).
    pub(super) fn apply(&self, root: &mut Table) -> Result<(), Mistake> {
        let (sections, key) = self.path.rsplit_once('.').unwrap_or(("", &self.path));
        let mut steps = sections.split('.').filter(|step| !step.is_empty());
        let mut table: &mut dyn TableLike = root;
        while let Some(step) = steps.next() {
            table = match entry(table, step) {
                Item::ArrayOfTables(list) => self.numbered(list, step, steps.next())?,
                item => item.as_table_like_mut().ok_or_else(|| {
                    self.wrong(format!("`{step}` is an option, not a section: remove the text after it"))
                })?,
            };
        }
        self.put(table, key)
    }

    fn numbered<'a>(
        &self,
        list: &'a mut ArrayOfTables,
        name: &str,
        number: Option<&str>,
    ) -> Result<&'a mut dyn TableLike, Mistake> {
        let count = list.len();
        let index = number.and_then(|number| number.parse::<usize>().ok()?.checked_sub(1));
        let table = index.and_then(|index| list.get_mut(index));
        table.map(|table| table as &mut dyn TableLike).ok_or_else(|| {
            self.wrong(format!("`{name}` is a list of {count}: write {name}.1 to {name}.{count}"))
        })
    }

    fn put(&self, table: &mut dyn TableLike, key: &str) -> Result<(), Mistake> {
        let mut new = self.value.clone();
        match table.get_mut(key) {
            None => drop(table.insert(key, Item::Value(new))),
            Some(Item::Value(old)) => {
                *new.decor_mut() = old.decor().clone();
                *old = new;
            }
            Some(_) => {
                return Err(
                    self.wrong(format!("is a section: set an option of it, {}.OPTION=VALUE", self.path))
                );
            }
        }
        Ok(())
    }

    fn wrong(&self, text: String) -> Mistake {
        Mistake { place: Place::Set(self.path.clone()), text }
    }
}

fn entry<'a>(table: &'a mut dyn TableLike, name: &str) -> &'a mut Item {
    if table.get(name).is_none() {
        table.insert(name, Item::Table(Table::new()));
    }
    table.get_mut(name).expect("was there or was just added")
}

fn read_value(text: &str) -> Value {
    if let Ok(value) = text.parse::<Value>() {
        return value;
    }
    match text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
        Some(list) => Value::Array(list.split(',').map(|entry| read_value(entry.trim())).collect()),
        None => Value::from(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use toml_edit::DocumentMut;
    use weir_testkit::{golden, set_mistakes};

    const PLAN: &str = "[traffic]\nflows = 1 # one is enough\n[[search.goal]]\nname = \"a\"\n";

    fn set(text: &str) -> Result<String, Mistake> {
        let mut plan: DocumentMut = PLAN.parse().unwrap();
        Set::parse(text)?.apply(plan.as_table_mut())?;
        Ok(plan.to_string())
    }

    #[test]
    fn values_are_toml_or_text_and_comments_stay() {
        for (text, line) in [
            ("traffic.flows=1000", "flows = 1000 # one is enough\n"),
            ("traffic.flows=[1, 1000]", "flows = [1, 1000] # one is enough\n"),
            ("traffic.flows = 1k", "flows = \"1k\" # one is enough\n"),
            ("traffic.frame_bytes=imix", "frame_bytes = \"imix\"\n"),
            ("traffic.frame_bytes=random:64-1518", "frame_bytes = \"random:64-1518\"\n"),
            ("dut.cpus=[1,all]", "[dut]\ncpus = [1, \"all\"]\n"),
            ("question=Why?", "question = \"Why?\"\n"),
            ("search.goal.1.loss_ratio=1%", "name = \"a\"\nloss_ratio = \"1%\"\n"),
        ] {
            let plan = set(text).unwrap();
            assert!(plan.contains(line), "{text} gives\n{plan}");
            plan.parse::<DocumentMut>().unwrap();
        }
    }

    #[test]
    fn what_cannot_be_set_is_refused() {
        let sets = [
            "traffic.flows",
            "=1",
            "traffic.flows=",
            "traffic..flows=1",
            "traffic=1",
            "traffic.flows.x=1",
            "search.goal.loss_ratio=1",
            "search.goal.2.loss_ratio=1",
        ];
        let one = |sets: &[String]| set(&sets[0]).map_err(|mistake| mistake.text);
        golden!("src/plan/golden/set-mistakes.txt", &set_mistakes(&sets, one));
    }
}
