//! The page of all options of a plan, made from what `weir plan options` prints: a section there is a section here, an
//! option a row.

use std::fmt::Write;

const HEAD: &str = "\
# Options of a plan

This page is made from what `weir plan options` prints ([plans/options.toml](../plans/options.toml) and the options of each rig):
`BLESS=1 cargo test -p weir --test weir documents::`. The values are defaults or examples; options without a section stand at the top of a
plan.

";

/// A section with its options.
#[derive(Default)]
struct Section {
    title: String,
    about: Vec<String>,
    rows: Vec<Row>,
}

/// Options that are explained together.
struct Row {
    options: Vec<(String, String)>,
    meaning: Vec<String>,
    /// Explained behind its value, not in front.
    is_explained_behind: bool,
}

/// The page.
pub(crate) fn page(toml: &str) -> String {
    let mut page = HEAD.to_string();
    for section in sections(toml) {
        write!(page, "## {}\n\n", section.title).unwrap();
        for paragraph in &section.about {
            write!(page, "{paragraph}\n\n").unwrap();
        }
        page += "| option | value | meaning |\n|---|---|---|\n";
        for row in &section.rows {
            let [names, values] =
                [|(name, _): &(String, String)| name.clone(), |(_, value): &(String, String)| value.clone()]
                    .map(|part| {
                        row.options.iter().map(|option| code(&part(option))).collect::<Vec<_>>().join("<br>")
                    });
            writeln!(page, "| {names} | {values} | {} |", row.meaning.join(" ").replace('|', "\\|")).unwrap();
        }
        page += "\n";
    }
    page.trim_end().to_string() + "\n"
}

/// A JSON Schema with the sections and options of a plan. Their values are the program's to judge: many may be a list, too.
pub(crate) fn schema(toml: &str) -> serde_json::Value {
    use serde_json::{Map, Value, json};
    let mut root = Map::new();
    for section in sections(toml) {
        let rows = section.rows.iter().flat_map(|row| row.options.iter().map(move |(name, _)| (name, row)));
        let options = rows.map(|(name, row)| (name.clone(), json!({ "description": row.meaning.join(" ") })));
        let options: Map<String, Value> = options.collect();
        let name = section.title.split(':').next().unwrap_or_default().trim();
        let is_list = name.starts_with("[[");
        let path: Vec<&str> = name.trim_matches(['[', ']']).split('.').collect();
        if !name.starts_with('[') {
            root.extend(options);
            continue;
        }
        let mut place = &mut root;
        for (depth, part) in path.iter().enumerate() {
            let is_last = depth + 1 == path.len();
            let new = if is_last && is_list {
                json!({ "items": { "type": "object", "properties": {} } })
            } else {
                json!({ "properties": {} })
            };
            let entry = place.entry(part.to_string()).or_insert(new);
            let within = if entry.get("items").is_some() {
                &mut entry["items"]["properties"]
            } else {
                &mut entry["properties"]
            };
            if within.is_null() {
                *within = json!({});
            }
            place = within.as_object_mut().expect("properties");
        }
        place.extend(options);
    }
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "weir: a plan",
        "description": "Sections and options, from `weir plan options`; `weir plan check` judges their values.",
        "type": "object",
        "required": ["question"],
        "properties": root,
        "additionalProperties": false,
    })
}

/// Options that nothing explains.
pub(crate) fn unexplained(toml: &str) -> Vec<String> {
    let rows = sections(toml).into_iter().flat_map(|section| {
        let title = section.title;
        section.rows.into_iter().map(move |row| (title.clone(), row))
    });
    let bare = rows.filter(|(_, row)| row.meaning.is_empty());
    bare.flat_map(|(title, row)| row.options.into_iter().map(move |(name, _)| format!("{title} {name}")))
        .collect()
}

fn code(text: &str) -> String {
    format!("`{}`", text.replace('|', "\\|"))
}

fn sections(toml: &str) -> Vec<Section> {
    // The head of the file is for readers of the file.
    let (_, toml) = toml.split_once("\n\n").expect("the file begins with what it is");
    let mut sections = vec![Section { title: "The plan itself".into(), ..Section::default() }];
    let mut said: Vec<String> = Vec::new();
    // A section that is a comment ends with an empty line.
    let mut is_comment = false;
    for line in toml.lines() {
        is_comment = !line.is_empty() && (is_comment || line.starts_with("# ["));
        let line = if is_comment { line.trim_start_matches('#').trim_end() } else { line };
        let line = line.strip_prefix(' ').filter(|_| is_comment).unwrap_or(line);
        let is_more = line.trim_start().starts_with('#') && (is_comment || line.starts_with(' '));
        match line.trim_start().strip_prefix('#') {
            Some(text) if is_more => last_row(&mut sections).meaning.push(text.trim().into()),
            Some(text) => said.push(text.trim().into()),
            None if line.is_empty() && said.is_empty() => {}
            None if line.is_empty() => said.push(String::new()),
            None if line.starts_with('[') => {
                let (title, behind) = split(line);
                let title = if behind.is_empty() { title } else { format!("{title}: {behind}") };
                let about = std::mem::take(&mut said);
                let paragraphs = about.split(String::is_empty).filter(|lines| !lines.is_empty());
                let about = paragraphs.map(|lines| lines.join(" ")).collect();
                sections.push(Section { title, about, rows: Vec::new() });
            }
            None => match option(line) {
                Some((name, value, behind)) => {
                    let rows = &mut sections.last_mut().unwrap().rows;
                    add(rows, (name, value), std::mem::take(&mut said), behind);
                }
                None => said.push(line.trim().into()),
            },
        }
    }
    assert!(said.iter().all(String::is_empty), "an explanation of nothing: {said:?}");
    sections
}

fn last_row(sections: &mut [Section]) -> &mut Row {
    sections
        .last_mut()
        .and_then(|section| section.rows.last_mut())
        .expect("an option before what continues it")
}

fn add(rows: &mut Vec<Row>, option: (String, String), mut meaning: Vec<String>, behind: String) {
    let is_explained_behind = meaning.is_empty() && !behind.is_empty();
    meaning.extend(Some(behind).filter(|behind| !behind.is_empty()));
    match rows.last_mut() {
        Some(row) if meaning.is_empty() && !row.is_explained_behind => row.options.push(option),
        _ => rows.push(Row { options: vec![option], meaning, is_explained_behind }),
    }
}

/// `name = value  # meaning`.
fn option(line: &str) -> Option<(String, String, String)> {
    let (line, behind) = split(line);
    let (name, value) = line.split_once(" = ").unwrap_or((line.as_str(), ""));
    let is_name = name.bytes().all(|byte| byte.is_ascii_lowercase() || b"_.\"0123456789".contains(&byte));
    (is_name && !value.is_empty()).then(|| (name.to_string(), value.trim().to_string(), behind))
}

/// What a line says, and the comment behind it.
fn split(line: &str) -> (String, String) {
    let mut is_quoted = false;
    let at = line.bytes().position(|byte| {
        is_quoted ^= byte == b'"';
        byte == b'#' && !is_quoted
    });
    let (line, behind) = at.map_or((line, ""), |at| (&line[..at], &line[at + 1..]));
    (line.trim().to_string(), behind.trim().to_string())
}
