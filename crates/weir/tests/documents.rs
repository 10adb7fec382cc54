//! README.md and the book in docs/: what can be run is run, what can be checked is checked, links lead somewhere, and the
//! tables name every option that there is. That each command is understood is tested in `src/cli/documents.rs`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Output};

mod licences;
mod options;
mod pages;

use pages::{Block, Page, commands, read, root};
use weir_agent::hosts::Hosts;
use weir_testkit::output;

use crate::kept::Kept;
use crate::weir::WEIR;
use weir_testkit::schema;

/// A capture file without a frame.
const EMPTY_PCAP: [u8; 24] =
    [0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 1, 0, 0, 0];

/// What to do with a line of a shell.
#[derive(Debug, PartialEq, Eq)]
enum Form {
    /// It is run.
    AsWritten,
    /// This is run in its place.
    Instead(String),
    /// It needs privileges, hardware, time or another program.
    NotHere,
}

/// A folder in which the commands of a page are run, with the files that the page and all others show, and records of runs.
struct Folder {
    kept: Kept,
}

impl Folder {
    fn new(page: &Page, all: &[Page]) -> Folder {
        let kept = Kept::new("quick");
        (1..=12).for_each(|day| kept.run(day, 400e3));
        let folder = Folder { kept };
        for page in all.iter().chain([page]) {
            page.blocks().iter().for_each(|block| folder.put(block));
        }
        std::os::unix::fs::symlink(root().join("examples"), folder.path("examples")).expect("a link");
        fs::create_dir(folder.path("bin")).expect("room");
        std::os::unix::fs::symlink(WEIR, folder.path("bin/weir")).expect("a link");
        fs::write(folder.path("empty.pcap"), EMPTY_PCAP).expect("room");
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.kept.folder.join(name)
    }

    /// Writes the file that a block is.
    fn put(&self, block: &Block<'_>) {
        if let Some(name) = file_of(block) {
            fs::write(self.path(name), text_of(block)).expect("room");
        }
    }

    /// Runs a line of a shell; what went wrong.
    fn sh(&self, line: &str) -> Result<(), String> {
        let path = format!("{}:{}", self.path("bin").display(), std::env::var("PATH").unwrap_or_default());
        let mut shell = Command::new("sh");
        shell.args(["-ec", line]).current_dir(&self.kept.folder).env("PATH", path);
        for variable in ["HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR", "TMPDIR"] {
            shell.env(variable, &self.kept.folder);
        }
        failure(&output(shell.env("WEIR_STORE", self.path("records.db"))).expect("sh starts"))
    }

    /// Tries what can be tried of a block; what is wrong with it, with its lines.
    fn try_block(&self, block: &Block<'_>) -> Vec<String> {
        let first = block.lines.first().map_or(0, |(n, _)| *n);
        let name = file_of(block).unwrap_or("unnamed").to_string();
        let whole = |tried: Result<(), String>| {
            tried.err().map(|text| format!("{first}: {text}")).into_iter().collect()
        };
        fs::write(self.path(&name), text_of(block)).expect("room");
        match block.language {
            "sh" => block
                .lines
                .iter()
                .filter_map(|(n, line)| Some(format!("{n}: `{line}`: {}", self.try_line(line).err()?)))
                .collect(),
            "toml" if block.lines.iter().any(|(_, line)| line.starts_with("networks =")) => {
                whole(self.sh(&format!("weir detect --read empty.pcap --config {name}")))
            }
            "toml" if block.lines.iter().any(|(_, line)| *line == "[[host]]") => {
                let modes = ["forward", "stateless", "stateful"];
                let read = Hosts::read(&name, &text_of(block), &modes);
                whole(read.map(drop).map_err(|mistakes| mistakes.to_string()))
            }
            "toml" => whole(self.sh(&format!("weir plan check {name}"))),
            "node" => whole(self.sh(&format!("weir node check {name}"))),
            "rules" => {
                let node = format!("node lan(192.168.0.1/16) filter({name}) > wan");
                fs::write(self.path("of-rules.node"), node).expect("room");
                whole(self.sh("weir node check of-rules.node"))
            }
            "json" => {
                let wrong = |(n, line): &(usize, &str)| {
                    let error = serde_json::from_str::<serde_json::Value>(line).err()?;
                    Some(format!("{n}: {error}"))
                };
                block.lines.iter().filter_map(wrong).collect()
            }
            "text" => Vec::new(),
            other => vec![format!("{first}: `{other}` is no language of a block: see docs/development.md")],
        }
    }

    fn try_line(&self, line: &str) -> Result<(), String> {
        match form(line) {
            Form::AsWritten => self.sh(line),
            Form::Instead(line) => self.sh(&line).map_err(|text| format!("{line}: {text}")),
            Form::NotHere => Ok(()),
        }
    }
}

/// The name of the file that a block is: `# home.node` in its first line.
fn file_of<'a>(block: &Block<'a>) -> Option<&'a str> {
    let name = block.lines.first()?.1.strip_prefix("# ")?;
    let is_name =
        name.contains('.') && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-".contains(&byte));
    is_name.then_some(name)
}

fn text_of(block: &Block<'_>) -> String {
    block.lines.iter().map(|(_, line)| format!("{line}\n")).collect()
}

fn failure(output: &Output) -> Result<(), String> {
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(format!("{}: {}", output.status, said.trim())) }
}

/// What to do with a line: as many of its commands as need nothing are run.
fn form(line: &str) -> Form {
    let commands = commands(line);
    let mut forms = commands.iter().map(|words| {
        let words: Vec<&str> = words.iter().map(|word| word.trim_start_matches("./")).collect();
        match words[..] {
            ["weir", "run", ref rest @ ..] => check_of_run(rest),
            ["weir", "conformance", ref rest @ ..] if rest.contains(&"--against") => Form::NotHere,
            // An archive is a server.
            ["weir", ref rest @ ..] if rest.contains(&"--from") => Form::NotHere,
            // Records that only a run makes.
            ["weir", "list", ref rest @ ..] if rest.contains(&"--store") => Form::NotHere,
            ["weir", "plan" | "setup" | "completions" | "man" | "conformance", ..]
            | ["weir", "list" | "show" | "report" | "export" | "compare" | "trend", ..]
            | ["weir", "node", "check" | "owner" | "unit", ..]
            | ["weir", "detect", "--example", ..] => Form::AsWritten,
            [program @ "jq", ..] if has(program) => Form::AsWritten,
            _ => Form::NotHere,
        }
    });
    match (forms.next(), forms.next()) {
        (None, _) => Form::NotHere,
        (Some(form), None) => form,
        (Some(Form::AsWritten), Some(Form::AsWritten)) if forms.all(|form| form == Form::AsWritten) => {
            Form::AsWritten
        }
        _ => Form::NotHere,
    }
}

/// Checks the plan of a run, with all changes, without running it.
fn check_of_run(words: &[&str]) -> Form {
    let mut check = vec!["weir", "plan", "check"];
    let mut words = words.iter();
    while let Some(&word) = words.next() {
        match word {
            "--resume" => return Form::NotHere,
            "--set" => check.extend([word, words.next().expect("a value")]),
            "--seed" | "--report" | "--store" | "--push" | "--tester" | "--against" | "--fail-on"
            | "--times" | "--runs" | "--shard" | "--shards" | "--on" => {
                words.next();
            }
            "--short" => check.push(word),
            _ if word.starts_with('-') => {}
            // It runs the plan that follows.
            "repeat" => {}
            plan => check.push(plan),
        }
    }
    Form::Instead(check.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" "))
}

fn has(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

#[test]
fn blocks_are_right_and_what_can_be_run_runs() {
    let all = pages::all();
    let (mut wrong, mut blocks, mut run) = (Vec::new(), 0, 0);
    for page in &all {
        let folder = Folder::new(page, &all);
        for block in page.blocks() {
            blocks += 1;
            let lines = block.lines.iter().filter(|_| block.language == "sh");
            run += lines.filter(|(_, line)| form(line) != Form::NotHere).count();
            wrong.extend(folder.try_block(&block).into_iter().map(|text| format!("{}:{text}", page.name)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(blocks > 90 && run > 70, "{blocks} blocks and {run} commands are fewer than there were");
}

#[test]
fn a_command_is_run_where_it_needs_nothing() {
    let instead = |line: &str| Form::Instead(line.into());
    for (line, expected) in [
        ("weir plan list   # all", Form::AsWritten),
        (
            "./weir run quick --set a=[1,2] --seed 7 -q --short",
            instead("'weir' 'plan' 'check' 'quick' '--set' 'a=[1,2]' '--short'"),
        ),
        ("weir run --resume last", Form::NotHere),
        ("sudo weir node check x.node", Form::NotHere),
        ("weir list | tee x", Form::NotHere),
        ("weir capture -i eth1 | weir list", Form::NotHere),
        ("# weir list", Form::NotHere),
    ] {
        assert_eq!(form(line), expected, "{line}");
    }
}

#[test]
fn the_readme_is_short() {
    let lines = read("README.md").lines().count();
    assert!(lines <= 150, "README.md has {lines} lines: what more than one reader in ten needs is in docs/");
}

/// The links of a page outside blocks and code: where they lead.
fn links(page: &Page) -> Vec<String> {
    let mut is_inside = false;
    let mut found = Vec::new();
    for line in page.text.lines() {
        is_inside ^= line.trim_start().starts_with("```");
        let code = line.split('`').step_by(2).collect::<String>();
        let targets = code.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        found.extend(targets.filter(|_| !is_inside).map(str::to_string));
    }
    found
}

/// What a heading is called in a link.
fn anchor(heading: &str) -> String {
    let kept =
        heading.trim_start_matches('#').trim().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

/// A path without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

#[test]
fn links_lead_somewhere() {
    let mut all = pages::all();
    for name in ["ARCHITECTURE.md", "CHANGELOG.md", "SECURITY.md", "fuzz/README.md", "tests/vm/README.md"] {
        all.push(Page { name: name.into(), text: read(name) });
    }
    let (mut wrong, mut tried) = (Vec::new(), 0);
    for page in &all {
        for link in links(page).into_iter().filter(|link| !link.contains("://")) {
            tried += 1;
            let (file, heading) = link.split_once('#').unwrap_or((&link, ""));
            let folder = Path::new(&page.name).parent().expect("it is a file");
            let target = if file.is_empty() { PathBuf::from(&page.name) } else { plain(&folder.join(file)) };
            if !root().join(&target).exists() {
                wrong.push(format!("{}: {link}: there is no {}", page.name, target.display()));
            } else if !heading.is_empty() {
                let text = read(&target.display().to_string());
                if !text.lines().any(|line| line.starts_with('#') && anchor(line) == heading) {
                    wrong.push(format!("{}: {link}: there is no such heading", page.name));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(tried > 80, "only {tried} links were found");
}

#[test]
fn each_page_is_in_the_summary() {
    let summary = Page { name: "docs/SUMMARY.md".into(), text: read("docs/SUMMARY.md") };
    let listed: BTreeSet<String> = links(&summary).into_iter().map(|link| format!("docs/{link}")).collect();
    let pages = pages::all().into_iter().map(|page| page.name);
    let pages = pages.filter(|name| !["README.md", &summary.name].contains(&name.as_str()));
    assert_eq!(listed, pages.collect());
}

#[test]
fn the_page_of_options_is_made_from_what_weir_prints() {
    let output = output(Command::new(WEIR).args(["plan", "options"])).expect("weir starts");
    let options = String::from_utf8(output.stdout).expect("text");
    assert_eq!(options::unexplained(&options), [""; 0], "say in the plan of options what these mean");
    let page = options::page(&options);
    weir_testkit::check_golden(&root().join("docs/plan-options.md"), &page);
}

#[test]
fn the_schema_of_plans_is_made_from_what_weir_prints_and_fits_all_that_ship() {
    let output = output(Command::new(WEIR).args(["plan", "options"])).expect("weir starts");
    let schema = options::schema(&String::from_utf8(output.stdout).expect("text"));
    let text = serde_json::to_string_pretty(&schema).expect("JSON") + "\n";
    weir_testkit::check_golden(&root().join("docs/schemas/plan.schema.json"), &text);
    for entry in fs::read_dir(root().join("plans")).expect("it is there") {
        let name = entry.expect("readable").file_name().into_string().expect("a plain name");
        if !name.ends_with(".toml") || name == "options.toml" {
            continue;
        }
        let plan: toml_edit::DocumentMut = read(&format!("plans/{name}")).parse().expect("TOML");
        assert_eq!(schema::mistakes(&schema, &of_table(plan.as_table())), [""; 0], "{name}");
    }
    let mistyped: toml_edit::DocumentMut = "question = \"x\"\nquestoin = \"x\"\n".parse().expect("TOML");
    assert_eq!(schema::mistakes(&schema, &of_table(mistyped.as_table())).len(), 1, "it is no sieve");
}

#[test]
fn the_schema_of_a_node_s_lines_is_made_of_its_types() {
    let text = serde_json::to_string_pretty(&weir_control::schema::line()).expect("JSON") + "\n";
    weir_testkit::check_golden(&root().join("docs/schemas/control.schema.json"), &text);
}

/// The keys of a table; what the values are is not asked here.
fn of_table(table: &toml_edit::Table) -> serde_json::Value {
    let item = |item: &toml_edit::Item| match item {
        toml_edit::Item::Table(table) => of_table(table),
        toml_edit::Item::ArrayOfTables(tables) => tables.iter().map(of_table).collect(),
        _ => serde_json::Value::Null,
    };
    serde_json::Value::Object(table.iter().map(|(name, of)| (name.to_string(), item(of))).collect())
}

/// Strings in quotation marks of a file, from the line with `first` to the line that is `last`.
fn listed(file: &str, first: &str, last: &str) -> Vec<String> {
    let text = read(file);
    let lines = text.lines().skip_while(|line| !line.contains(first));
    let lines: Vec<&str> = lines.take_while(|line| line.trim() != last).collect();
    assert!(!lines.is_empty(), "{file} has no `{first}`: say here where it is now");
    let one_line = lines[0].ends_with("];");
    let strings = lines
        .iter()
        .take(if one_line { 1 } else { lines.len() })
        .flat_map(|line| line.split('"').skip(1).step_by(2));
    strings.map(|string| string.split(' ').next().unwrap_or_default().to_string()).collect()
}

/// The long options of a command, from its help.
fn long_options(command: &str) -> Vec<String> {
    let output = output(Command::new(WEIR).args(command.split(' ')).arg("--help")).expect("weir starts");
    let help = String::from_utf8(output.stdout).expect("text");
    let first = |line: &str| {
        let option = line.trim_start().split_once("--").filter(|(before, _)| before.len() <= 4)?.1;
        Some(format!("--{}", option.split([' ', ',']).next()?))
    };
    help.lines().filter_map(first).filter(|option| option != "--help").collect()
}

#[test]
fn pages_name_all_that_there_is() {
    let config = "crates/plane/src/nat/config.rs";
    let rules = "crates/plane/src/filter/rules.rs";
    let tables = [
        ("docs/node.md", listed(config, "const FORMS", "];")),
        ("docs/node.md", listed("crates/plane/src/port.rs", "const ARGS", "];")),
        ("docs/node.md", listed("crates/plane/src/limits.rs", "const SETTINGS", "];")),
        ("docs/node.md", listed("crates/node/src/config.rs", "const ARGS", "];")),
        ("docs/node.md", listed(rules, "const WORDS", "];")),
        ("docs/node.md", listed(rules, "const BEGINNINGS", "];")),
        ("docs/node.md", listed(rules, "const FLAGS", "];")),
        ("docs/node.md", listed(rules, "pub(crate) const STATES", "];")),
        ("docs/node.md", drop_reasons()),
        ("docs/node.md", long_options("node run")),
        ("docs/capture.md", long_options("capture")),
        ("docs/detect.md", long_options("detect")),
        ("docs/detect.md", options_of_detect()),
        ("docs/plans.md", shipped_plans()),
        ("docs/records.md", keys("crates/record/src/record")),
        ("docs/records.md", keys("crates/detect/src/event.rs")),
        ("docs/records.md", keys("crates/detect/src/counts.rs")),
        ("docs/records.md", keys("crates/detect/src/evidence.rs")),
    ];
    let mut missing = Vec::new();
    for (page, names) in tables {
        assert!(names.len() > 1, "{page}: {names:?} cannot be all");
        let text = read(page);
        let code: Vec<&str> = text.split('`').skip(1).step_by(2).collect();
        let named =
            |name: &String| code.iter().any(|code| code.split([' ', ',', '(']).any(|word| word == name));
        missing.extend(
            names.iter().filter(|name| !named(name)).map(|name| format!("{page} says nothing of `{name}`")),
        );
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

fn drop_reasons() -> Vec<String> {
    let strings = listed("crates/plane/src/drops.rs", "reasons! {", "}").into_iter();
    // Each has its name and its meaning.
    strings.step_by(2).collect()
}

fn options_of_detect() -> Vec<String> {
    let text = read("examples/detect.toml");
    let names =
        text.lines().filter_map(|line| line.trim_start_matches("# ").split_once(" = ")).map(|(name, _)| name);
    names.filter(|name| !name.contains(' ')).map(str::to_string).collect()
}

/// Public fields of the types in a file, or in all files of a folder: they are keys of JSON.
fn keys(place: &str) -> Vec<String> {
    let path = root().join(place);
    if path.is_dir() {
        let files = fs::read_dir(path).expect("readable");
        let files = files.map(|entry| format!("{place}/{}", entry.expect("readable").file_name().display()));
        return files.chain([format!("{place}.rs")]).flat_map(|file| keys(&file)).collect();
    }
    let text = read(place);
    let field = |(above, line): (&str, &str)| {
        let name = line.strip_prefix("    pub ")?.split_once(": ")?.0;
        let renamed =
            above.trim().strip_prefix("#[serde(rename = \"").and_then(|rest| rest.split('"').next());
        Some(renamed.unwrap_or(name).to_string())
    };
    let fields = text.lines().zip(text.lines().skip(1)).filter_map(field);
    fields
        .filter(|name| {
            name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_' || byte.is_ascii_digit())
        })
        .collect()
}

fn shipped_plans() -> Vec<String> {
    let plans = fs::read_dir(root().join("plans")).expect("plans/ is there");
    let files = plans.map(|entry| entry.expect("readable").file_name().display().to_string());
    let names = files.filter_map(|file| file.strip_suffix(".toml").map(str::to_string));
    names.filter(|name| name != "options").collect()
}

#[test]
fn the_book_can_be_made() {
    if !has("mdbook") {
        println!("skipped: the book needs mdbook (`cargo install mdbook`)");
        return;
    }
    let folder = std::env::temp_dir().join(format!("weir-book-{}", std::process::id()));
    let mut mdbook = Command::new("mdbook");
    mdbook.arg("build").arg(root().join("docs")).arg("--dest-dir").arg(&folder);
    failure(&output(&mut mdbook).expect("it starts")).unwrap_or_else(|text| panic!("mdbook: {text}"));
    for page in ["index.html", "node.html", "plan-options.html"] {
        assert!(folder.join(page).exists(), "{page}");
    }
    fs::remove_dir_all(&folder).expect("it is ours");
}
