//! The structure of the source: ARCHITECTURE.md says which crate uses which, and what it says is so; within a crate no two rooms (a
//! file or folder directly below `src`) use each other; and each path in a document is there.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The folder of the whole project.
fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the project is there")
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut entries: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    entries.sort();
    entries
}

fn files_below(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let entries = entries(folder).into_iter();
    let below = entries.flat_map(|path| if path.is_dir() { files_below(&path, ending) } else { vec![path] });
    below.filter(|path| path.extension().is_some_and(|found| found == ending)).collect()
}

fn name(path: &Path) -> &str {
    path.file_stem().and_then(|name| name.to_str()).expect("a name of letters")
}

/// The crates of weir that a crate uses, but for its tests.
fn used_by(manifest: &Path) -> BTreeSet<String> {
    let manifest: toml_edit::DocumentMut = text(manifest).parse().expect("a manifest");
    let used = manifest.get("dependencies").and_then(|table| table.as_table_like());
    let used = used.into_iter().flat_map(|table| table.iter());
    used.filter_map(|(name, _)| name.strip_prefix("weir-").map(String::from)).collect()
}

/// Rows of the table of crates: name, and what it uses.
fn table(document: &str) -> BTreeMap<String, BTreeSet<String>> {
    let rows = document.lines().filter_map(|line| {
        let cells: Vec<&str> = line.strip_prefix("| `")?.trim_end_matches('|').split('|').collect();
        let [name, _, used] = cells[..] else { return None };
        let used = used.split(',').map(|name| name.trim().to_string()).filter(|name| name != "nothing");
        Some((name.trim().trim_end_matches('`').to_string(), used.collect()))
    });
    rows.collect()
}

#[test]
fn the_table_of_crates_is_what_their_manifests_say() {
    let project = project();
    let document = text(&project.join("ARCHITECTURE.md"));
    let crates = entries(&project.join("crates")).into_iter();
    let found: BTreeMap<String, BTreeSet<String>> =
        crates.map(|folder| (name(&folder).to_string(), used_by(&folder.join("Cargo.toml")))).collect();
    let shown = |table: &BTreeMap<String, BTreeSet<String>>| -> String {
        let row = |(name, used): (&String, &BTreeSet<String>)| {
            format!("{name}: {}\n", used.iter().map(String::as_str).collect::<Vec<_>>().join(", "))
        };
        table.iter().map(row).collect()
    };
    assert_eq!(shown(&table(&document)), shown(&found), "left: ARCHITECTURE.md, right: the manifests");
}

/// The code of a file without its comments and its tests.
fn code(path: &Path) -> String {
    let text = text(path);
    let starts = text.match_indices("#[cfg(test)]").map(|(at, _)| at);
    let is_module = |at: &usize| {
        let mut behind = text[*at..].lines().skip(1).skip_while(|line| line.starts_with("#["));
        behind.next().is_some_and(|line| line.starts_with("mod ") && line.ends_with('{'))
    };
    let end = starts.into_iter().find(is_module).unwrap_or(text.len());
    text[..end].lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

/// The first names behind each occurrence of `prefix`: one, or those in braces.
fn names_behind(code: &str, prefix: &str) -> Vec<String> {
    let starts = code.match_indices(prefix).map(|(at, _)| at);
    let whole = starts.filter(|&at| !code[..at].ends_with(|c: char| c.is_alphanumeric() || "_:".contains(c)));
    whole.flat_map(|at| first_names(&code[at + prefix.len()..])).collect()
}

fn first_names(rest: &str) -> Vec<String> {
    let word = |text: &str| -> String {
        text.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
    };
    let Some(list) = rest.strip_prefix('{') else { return vec![word(rest)] };
    let (mut depth, mut names, mut begin) = (0, Vec::new(), 0);
    for (at, letter) in list.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' if depth == 0 => {
                names.push(word(&list[begin..at]));
                break;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                names.push(word(&list[begin..at]));
                begin = at + 1;
            }
            _ => {}
        }
    }
    names
}

/// Where a file is in its crate: `["a", "b"]` for `src/a/b.rs` and `src/a/b/mod.rs`.
fn module(source: &Path, file: &Path) -> Vec<String> {
    let place = file.strip_prefix(source).expect("below the source").with_extension("");
    let mut module: Vec<String> =
        place.iter().map(|part| part.to_str().expect("letters").to_string()).collect();
    if module.last().is_some_and(|last| last == "mod") {
        module.pop();
    }
    module
}

fn is_of_tests(module: &[String]) -> bool {
    module.iter().any(|part| part == "tests" || part == "testing" || part.ends_with("_tests"))
}

/// Which rooms of a crate use which others of it.
fn rooms(source: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let mut rooms: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for file in files_below(source, "rs") {
        let module = module(source, &file);
        let is_root = ["lib", "main"].contains(&module[0].as_str()) || module[0] == "bin";
        if is_root || is_of_tests(&module) {
            continue;
        }
        let code = code(&file);
        let to_root = "super::".repeat(module.len());
        let used = names_behind(&code, "crate::").into_iter().chain(names_behind(&code, &to_root));
        rooms.entry(module[0].clone()).or_default().extend(used);
    }
    let known: BTreeSet<String> = rooms.keys().cloned().collect();
    for (room, used) in &mut rooms {
        used.retain(|name| name != room && known.contains(name));
    }
    rooms
}

/// All that a room uses, and what these use.
fn reached(rooms: &BTreeMap<String, BTreeSet<String>>, from: &str) -> BTreeSet<String> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<&String> = rooms[from].iter().collect();
    while let Some(room) = open.pop() {
        if reached.insert(room.clone()) {
            open.extend(&rooms[room]);
        }
    }
    reached
}

#[test]
fn no_two_rooms_of_a_crate_use_each_other() {
    let mut circles = Vec::new();
    for folder in entries(&project().join("crates")) {
        let rooms = rooms(&folder.join("src"));
        for (room, used) in &rooms {
            let back: Vec<_> = used.iter().filter(|other| reached(&rooms, other).contains(room)).collect();
            if !back.is_empty() {
                circles.push(format!("{}: {room} uses {back:?}, which use it", name(&folder)));
            }
        }
    }
    assert!(circles.is_empty(), "{circles:#?}");
}

/// What a room of the lab may use stands further left; `rigs` and `engine` are not for trials.
#[test]
fn the_lab_has_an_order() {
    const ORDER: [&str; 6] = ["error", "frames", "run", "rig", "plan", "engine"];
    let rank = |room: &str| ORDER.iter().position(|name| *name == room);
    let rooms = rooms(&project().join("crates/lab/src"));
    for (room, used) in &rooms {
        let Some(own) = rank(room) else { continue };
        let wrong: Vec<_> = used.iter().filter(|used| rank(used).is_some_and(|rank| rank > own)).collect();
        assert!(wrong.is_empty(), "{room} uses {wrong:?}");
    }
}

#[test]
fn no_rig_uses_another_one() {
    let rooms = rooms(&project().join("crates/rigs/src"));
    assert!(rooms.len() > 8, "{rooms:?}");
    let wrong: Vec<_> = rooms.iter().filter(|(_, used)| !used.is_empty()).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn names_are_found_behind_a_path() {
    let code = "use crate::{nat::x, files::{a, b}, mail}; crate::rules::y; super::super::z; mycrate::no";
    assert_eq!(names_behind(code, "crate::"), ["nat", "files", "mail", "rules"]);
    assert_eq!(names_behind(code, "super::super::"), ["z"]);
}

/// `a/{b,c}.rs` are two paths.
fn expanded(path: &str) -> Vec<String> {
    let Some((before, rest)) = path.split_once('{') else { return vec![path.to_string()] };
    let (list, after) = rest.split_once('}').unwrap_or((rest, ""));
    list.split(',').flat_map(|one| expanded(&format!("{before}{one}{after}"))).collect()
}

/// Paths in backquotes that begin with a folder of the project.
fn paths(document: &str) -> Vec<String> {
    let quoted = document.split('`').skip(1).step_by(2);
    let is_path = |text: &&str| {
        let folder = text.split('/').next().unwrap_or_default();
        text.contains('/')
            && !text.contains(|c: char| c.is_whitespace() || "*<$".contains(c))
            && ["crates", "bpf", "plans", "docs", "packaging", "fuzz", "examples"].contains(&folder)
    };
    quoted.filter(is_path).flat_map(expanded).collect()
}

#[test]
fn each_path_in_a_document_is_there() {
    let project = project();
    let documents = files_below(&project.join("docs"), "md").into_iter();
    let at_root = entries(&project).into_iter().filter(|path| path.extension().is_some_and(|e| e == "md"));
    let mut missing = Vec::new();
    let mut tried = 0;
    for document in documents.chain(at_root) {
        for path in paths(&text(&document)) {
            tried += 1;
            if !project.join(&path).exists() {
                missing.push(format!("{}: {path}", name(&document)));
            }
        }
    }
    assert!(missing.is_empty() && tried > 10, "{tried} tried, missing: {missing:#?}");
}
