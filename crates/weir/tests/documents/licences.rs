//! Each dependency may be linked under a licence that `deny.toml` allows.

use std::process::Command;

use super::pages::{read, root};

/// Is what this SPDX expression asks for allowed? `OR` offers a choice, `AND` asks for both; `/` is an old `OR`.
fn may_be_linked(expression: &str, allowed: &[String]) -> bool {
    let expression = expression.replace('/', " OR ");
    match parts(&expression, " OR ").as_slice() {
        [one] => match parts(one, " AND ").as_slice() {
            [one] => match one.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) {
                Some(inner) => may_be_linked(inner, allowed),
                None => allowed.iter().any(|licence| licence == one),
            },
            all => all.iter().all(|part| may_be_linked(part, allowed)),
        },
        any => any.iter().any(|part| may_be_linked(part, allowed)),
    }
}

/// What stands between these words outside of brackets.
fn parts<'a>(expression: &'a str, word: &str) -> Vec<&'a str> {
    let (mut parts, mut from, mut depth) = (Vec::new(), 0, 0);
    for (at, character) in expression.char_indices() {
        match character {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ if depth == 0 && at >= from && expression[at..].starts_with(word) => {
                parts.push(expression[from..at].trim());
                from = at + word.len();
            }
            _ => {}
        }
    }
    parts.push(expression[from..].trim());
    parts
}

#[test]
fn expressions_are_judged() {
    let allowed = ["MIT", "ISC"].map(String::from);
    for (expression, expected) in [
        ("MIT", true),
        ("GPL-2.0-only", false),
        ("GPL-2.0-only OR MIT", true),
        ("GPL-2.0-only AND MIT", false),
        ("ISC AND MIT", true),
        ("Apache-2.0/MIT", true),
        ("(GPL-2.0-only OR MIT) AND ISC", true),
        ("(GPL-2.0-only OR MIT) AND Zlib", false),
        ("MIT AND (GPL-2.0-only OR (ISC AND Zlib))", false),
    ] {
        assert_eq!(may_be_linked(expression, &allowed), expected, "{expression}");
    }
}

#[test]
fn licences_of_all_dependencies_are_allowed() {
    let rules: toml_edit::DocumentMut = read("deny.toml").parse().expect("TOML");
    let list = rules["licenses"]["allow"].as_array().expect("a list");
    let allowed: Vec<String> = list.iter().map(|one| one.as_str().expect("a text").to_string()).collect();

    // Packages for other systems are not part of weir, and building it has not downloaded them.
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let words = ["metadata", "--locked", "--offline", "--format-version", "1", "--filter-platform", &target];
    let output = Command::new(env!("CARGO")).args(words).current_dir(root()).output().expect("cargo starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    assert!(packages.len() > 50, "{} packages", packages.len());
    let refused = packages.iter().filter(|package| {
        let licence = package["license"].as_str().unwrap_or("none");
        !may_be_linked(licence, &allowed)
    });
    let refused: Vec<_> = refused.map(|p| format!("{} {}", p["name"], p["license"])).collect();
    assert_eq!(refused, [""; 0], "name a licence in deny.toml if it may be linked, or leave the package out");
}
