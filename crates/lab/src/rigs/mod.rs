//! All rigs: a folder and a line each. None uses another one; what several need is the [engine](crate::run)'s, or that of
//! [trials with frames](crate::frames).

pub mod buffers;
pub mod capture;
pub mod capture_peers;
pub mod detect_peers;
pub mod files;
pub mod fixes;
pub mod generators;
pub mod mail;
pub mod nat;
pub mod servers;
#[cfg(test)]
mod sleep;
pub mod throughput;

use crate::plan::Plans;
use crate::report::Sections;
use crate::report::answer::Answer;
use crate::report::block::Part;
use crate::rig::Rig;
use crate::run_data::RunData;

const ALL: &[&dyn Rig] = &[
    &throughput::ThroughputRig,
    &generators::GeneratorsRig,
    &capture::CaptureRig,
    &capture_peers::CapturePeersRig,
    &detect_peers::DetectPeersRig,
    &nat::NatRig,
    &buffers::BuffersRig,
    &servers::ServersRig,
    &files::FilesRig,
    &mail::MailRig,
    &fixes::FixesRig,
    #[cfg(test)]
    &sleep::SleepRig,
];

/// The plans of all rigs.
pub const PLANS: Plans = Plans(ALL);

/// All rigs, in the order in which people read of them.
pub fn all() -> impl Iterator<Item = &'static dyn Rig> {
    ALL.iter().copied()
}

/// What all rigs say of a run, for reports and exports: each of its own.
pub fn sections() -> &'static dyn Sections {
    &All
}

struct All;

impl Sections for All {
    fn findings(&self, data: &RunData) -> Vec<String> {
        all().flat_map(|rig| rig.findings(data)).collect()
    }

    fn parts(&self, data: &RunData) -> Vec<Part> {
        all().flat_map(|rig| rig.parts(data)).collect()
    }

    fn answer(&self, data: &RunData) -> Option<Answer> {
        all().find_map(|rig| rig.answer(data))
    }
}

/// The first screen of a run, on a terminal of 80 columns, after the same one of a page was looked at: for tests.
///
/// # Panics
/// If a line of it is too long, or the page has no drawing.
#[cfg(test)]
pub(crate) fn first_screen(data: &RunData) -> String {
    use crate::report::block::page;
    let text = crate::export::answer(data, sections(), 80);
    let long = text.lines().find(|line| line.chars().count() > 80);
    assert!(long.is_none(), "{long:?} has {:?} columns", long.map(|line| line.chars().count()));
    let answer = sections().answer(data).expect("an answer of the rig");
    let blocks = answer.drawing.into_iter().collect();
    let drawing = page(&[Part { id: "drawing", heading: "Drawing".into(), blocks }]);
    assert!(drawing.contains("<svg") && !drawing.contains("NaN"), "{drawing}");
    text
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    fn sources(below: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(below).unwrap().map(|entry| entry.unwrap().path());
        entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] }).collect()
    }

    /// Modules that a text names behind this path, alone or in braces.
    fn named<'a>(text: &'a str, path: &str) -> Vec<&'a str> {
        let first =
            |text: &'a str| text.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default();
        let all = |rest: &'a str| match rest.strip_prefix('{') {
            Some(list) => list.split('}').next().unwrap_or_default(),
            None => first(rest),
        };
        text.split(path)
            .skip(1)
            .map(all)
            .flat_map(|list| list.split(','))
            .map(|name| first(name.trim()))
            .collect()
    }

    /// What stands further left in the order of `lib.rs` imports nothing that stands further right.
    #[test]
    fn imports_follow_the_order_of_the_rooms() {
        const ORDER: [&str; 7] = ["error", "frames", "run/*", "rig", "plan", "run", "rigs"];
        let rank = |room: &str| ORDER.iter().position(|name| *name == room);
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut wrong = Vec::new();
        for file in sources(&source) {
            let place = file.strip_prefix(&source).unwrap().with_extension("");
            let way: Vec<&str> = place.iter().map(|part| part.to_str().unwrap()).collect();
            let own = if way[0] == "run" && way[1] != "mod" { "run/*" } else { way[0] };
            let Some(own) = rank(own).filter(|_| !["tests", "testing"].contains(way.last().unwrap())) else {
                continue;
            };
            let text = fs::read_to_string(&file).unwrap();
            let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
            for line in code.lines().filter(|line| !line.trim_start().starts_with("//")) {
                for room in named(line, "crate::") {
                    let of_run = named(line, "crate::run::").into_iter().next();
                    let is_means = of_run.is_some_and(|name| !name.starts_with(char::is_uppercase));
                    let used = if room == "run" && is_means { "run/*" } else { room };
                    wrong.extend(rank(used).filter(|used| *used > own).map(|_| format!("{way:?}: {line}")));
                }
            }
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
    }

    /// Plan, engine and trials with frames do not know a certain rig, and no rig knows another one.
    #[test]
    fn a_rig_is_used_by_nobody_but_itself() {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let is_rig = |name: &str| !name.is_empty() && source.join("rigs").join(name).is_dir();
        let mut wrong = Vec::new();
        for file in sources(&source) {
            let place = file.strip_prefix(&source).unwrap().with_extension("");
            let mut way: Vec<&str> = place.iter().map(|part| part.to_str().unwrap()).collect();
            if way.last() == Some(&"mod") {
                way.pop();
            }
            let (own, depth) = (way.get(1).filter(|_| way[0] == "rigs"), way.len() - 1);
            if way == ["rigs"] || way.last() == Some(&"tests") {
                continue;
            }
            let text = fs::read_to_string(&file).unwrap();
            let by_parents = format!(" {}", "super::".repeat(depth));
            let relative = if own.is_some() { named(&text, &by_parents) } else { Vec::new() };
            let others = named(&text, "rigs::").into_iter().chain(relative);
            wrong.extend(
                others
                    .filter(|name| is_rig(name) && Some(name) != own)
                    .map(|name| format!("{way:?}: {name}")),
            );
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
        assert_eq!(
            named("use crate::rigs::{nat::x, files}; rigs::mail::y", "rigs::"),
            ["nat", "files", "mail"]
        );
    }
}
