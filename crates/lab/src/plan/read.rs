//! A plan's TOML becomes a [`Plan`], or the list of all its mistakes.

use toml_edit::{Document, DocumentMut, Item, Value};
use weir_config::value;
use weir_config::{Mistake, Mistakes, Notes};
use weir_config::{Section, shown};

use super::set::Set;
use super::short::{self, Changes, Form};
use super::{Plan, Plans};
use crate::frames::Limits;
use crate::rig::Rig;
use weir_record::shards::{self, Shard};

/// What the user calls a plan.
pub struct Label<'a> {
    /// Name of the plan in records (`quick`).
    pub name: &'a str,
    /// What mistakes are found in: its path, or the name of a shipped one.
    pub place: &'a str,
}

impl Plans {
    /// Reads the plan in `text` with the changes `sets` (`key.path=value`) applied. A plan with a short form is right only
    /// if that is, too.
    ///
    /// # Errors
    /// All mistakes of the text and the changes.
    pub fn read(self, label: &Label<'_>, text: &str, form: Form, sets: &[String]) -> Result<Plan, Mistakes> {
        let plan = self.read_form(label, text, form, sets);
        let has_short =
            form == Form::Full && Document::parse(text).is_ok_and(|d| Changes::of(d.as_item()).is_some());
        let short = has_short.then(|| self.read_form(label, text, Form::Short, sets)).transpose();
        match (plan, short) {
            (Ok(plan), Ok(short)) => Ok(Plan { short: short.map(|plan| plan.estimate()), ..plan }),
            (Err(full), Err(short)) => Err(full.and(short)),
            (Err(mistakes), _) | (_, Err(mistakes)) => Err(mistakes),
        }
    }

    fn read_form(self, label: &Label<'_>, text: &str, form: Form, sets: &[String]) -> Result<Plan, Mistakes> {
        let notes = Notes::new("a plan", text);
        let document = notes.parse();
        let short = document.as_ref().filter(|_| form == Form::Short).map(Changes::of);
        if let Some(None) = short {
            let text =
                "this plan has no short form: omit --short, or add [short] with the options that differ";
            notes.add(Some(0..0), "", text.to_string());
        }
        let changes = short.flatten();
        let first = changes.as_ref().map_or(&[][..], |changes| &changes.sets);
        let parsed = document.and_then(|document| with_sets(document, text, first, sets, &notes));
        let plan = parsed.and_then(|(item, text)| {
            let root = Section::root(item.as_table_like()?, &notes);
            if is_from_the_future(&root) { None } else { self.read_plan(root, label.name, text) }
        });
        match plan {
            Some(plan) if notes.is_empty() => Ok(plan),
            _ => {
                let mut mistakes = notes.to_mistakes(label.place);
                changes.iter().for_each(|changes| changes.locate(&mut mistakes, &notes));
                Err(mistakes)
            }
        }
    }

    fn read_plan(self, root: Section<'_>, name: &str, text: String) -> Option<Plan> {
        let question = root.required("question", "\"How fast does this machine route?\"", value::text);
        let cites = root.one("cites", value::text);
        let shard = root.one(shards::OPTION, value::parsed::<Shard>);
        let limits = read_limits(root.section("limits"));
        let kinds: Vec<(&dyn Rig, &str)> = self.0.iter().map(|rig| (*rig, rig.name())).collect();
        let rig = match root.one("experiment", value::choice("experiment", &kinds)) {
            Some(rig) => rig,
            None if root.has("experiment") => return None,
            None => kinds[0].0,
        };
        let experiment = rig.read(&root);
        // Its options are read where they belong.
        root.section("short");
        root.finish();
        let (name, short) = (name.to_string(), None);
        let (question, experiment) = (question?, experiment?);
        Some(Plan { name, question, cites, experiment, limits, short, shard, text })
    }
}

/// The plan with the changes applied, twice: with spans for reading, and as text for the record. With changes to a
/// short form it is that form, and has no other.
fn with_sets(
    mut plan: Item,
    text: &str,
    short: &[Set],
    sets: &[String],
    notes: &Notes<'_>,
) -> Option<(Item, String)> {
    if short.is_empty() && sets.is_empty() {
        return Some((plan, text.to_string()));
    }
    let mut edited: DocumentMut = text.parse().ok()?;
    if !short.is_empty() {
        short::remove(edited.as_table_mut());
        short::remove(plan.as_table_like_mut().expect("a document is a table"));
    }
    let mut apply = |set: Set| -> Result<(), Mistake> {
        set.apply(edited.as_table_mut())?;
        set.apply(plan.as_table_mut().expect("a document is a table"))
    };
    let sets = short.iter().cloned().map(Ok).chain(sets.iter().map(|set| Set::parse(set)));
    let wrong: Vec<_> = sets.filter_map(|set| set.and_then(&mut apply).err()).collect();
    let all_applied = wrong.is_empty();
    wrong.into_iter().for_each(|mistake| notes.push(mistake));
    all_applied.then(|| (plan, edited.to_string()))
}

/// Notes that the plan needs a newer weir, which makes every other mistake meaningless.
fn is_from_the_future(root: &Section<'_>) -> bool {
    let this = env!("CARGO_PKG_VERSION");
    let version =
        |text: &str| text.split('.').map(|part| part.parse::<u32>().ok()).collect::<Option<Vec<_>>>();
    let needed = root.one("requires", |value: &Value| {
        let text = shown(value);
        version(&text)
            .map(|numbers| (text.clone(), numbers))
            .ok_or_else(|| format!("`{text}` is no version: use \"{this}\""))
    });
    let newer = needed.filter(|(_, numbers)| Some(numbers) > version(this).as_ref());
    if let Some((text, _)) = &newer {
        root.wrong(
            "requires",
            format!("this plan needs weir {text} or newer, and this is {this}: update weir"),
        );
    }
    newer.is_some()
}

fn read_limits(section: Section<'_>) -> Limits {
    let default = Limits::default();
    let limits = Limits {
        unexplained: section.one("unexplained", value::ratio).unwrap_or(default.unexplained),
        rate_error: section.one("rate_error", value::ratio).unwrap_or(default.rate_error),
        steal: section.one("steal", value::ratio).unwrap_or(default.steal),
        retries: section.one("retries", value::count(0..=100)).unwrap_or(default.retries),
        witness: section.one("witness", value::flag).unwrap_or(default.witness),
    };
    section.finish();
    limits
}
