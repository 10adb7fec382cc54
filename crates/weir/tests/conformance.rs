//! `weir conformance` as a program: against its own node, and against the kernel's NAT over wires.

use std::process::Command;

use serde_json::Value;
use weir_testkit::{need_root, output};

use crate::weir::WEIR;

fn run(arguments: &[&str]) -> (i32, String) {
    let mut command = Command::new(WEIR);
    let output = output(command.arg("conformance").args(arguments)).expect("it runs");
    let text = String::from_utf8(output.stdout).expect("text") + &String::from_utf8_lossy(&output.stderr);
    (output.status.code().expect("it ends by itself"), text)
}

fn findings(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {line}")))
        .collect()
}

#[test]
fn the_node_keeps_what_the_documentation_says() {
    let (code, text) = run(&["--json"]);
    assert_eq!(code, 0, "{text}");
    let documented = include_str!("../../../docs/conformance.md");
    let rows = documented.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| requirement"));
    let documented: Vec<Vec<&str>> = rows.map(|row| row.split('|').map(str::trim).collect()).collect();
    let found = findings(&text);
    let word = |value: &Value| value.as_str().expect("text").to_string();
    let found: Vec<[String; 3]> = found
        .iter()
        .map(|finding| {
            [&finding["reference"], &finding["verdicts"]["node"]["verdict"], &finding["title"]].map(word)
        })
        .collect();
    let documented: Vec<[String; 3]> =
        documented.iter().map(|row| [row[1], row[2], row[4]].map(str::to_string)).collect();
    let without = |rows: &[[String; 3]], others: &[[String; 3]]| -> Vec<String> {
        rows.iter().filter(|row| !others.contains(row)).map(|row| row.join(" | ")).collect()
    };
    assert!(
        found == documented,
        "docs/conformance.md differs; write it again:\n\
         weir conformance --against kernel --markdown > docs/conformance.md\n\
         only found: {:#?}\nonly in docs/conformance.md: {:#?}\n(neither: the order differs)",
        without(&found, &documented),
        without(&documented, &found)
    );
}

#[test]
fn the_kernel_is_tried_over_wires() {
    need_root!();
    let (code, text) = run(&["--against", "kernel", "--json"]);
    assert_eq!(code, 0, "{text}");
    let verdict = |title: &str| {
        let found =
            findings(&text).into_iter().find(|finding| finding["title"] == title).expect("it is there");
        found["verdicts"]["kernel"]["verdict"].clone()
    };
    assert_eq!(verdict("queries and their answers pass"), "kept");
    assert_eq!(verdict("an error about a connection reaches its host"), "kept");
    // Linux accepts only hosts that were addressed before.
    assert_eq!(verdict("any external host may answer"), "broken");
    assert_eq!(verdict("all protocols of a subscriber share one address"), "untried");
}

#[test]
fn what_is_no_box_is_refused() {
    let (code, text) = run(&["--against", "router"]);
    assert_eq!(
        (code, text.as_str()),
        (1, "weir: router has no external device: describe it in a section [external]\n")
    );
}
