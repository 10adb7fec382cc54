//! The program accepts every command in README.md and in the book.

use std::ffi::OsString;

use super::Cli;

#[path = "../../tests/documents/pages.rs"]
mod pages;

/// Other programs in the examples of the book.
const OTHERS: &[&str] = &[
    "./test",
    "cargo",
    "chrt",
    "cp",
    "createdb",
    "curl",
    "ethtool",
    "ip",
    "jq",
    "kubectl",
    "mkdir",
    "mount",
    "parallel",
    "packaging/container",
    "packaging/deb",
    "sbatch",
    "seq",
    "target/release/examples/ceiling",
    "target/release/examples/flows",
    "target/release/examples/link",
    "tcpdump",
    "tee",
    "unshare",
    "xargs",
];

#[test]
fn commands_of_documents_are_understood() {
    let (mut wrong, mut tried) = (Vec::new(), 0);
    for page in pages::all() {
        for block in page.blocks().iter().filter(|block| block.language == "sh") {
            for (n, line) in &block.lines {
                for words in pages::commands(line) {
                    tried += 1;
                    if let Err(text) = understood(&words) {
                        wrong.push(format!("{}:{n}: `{line}`: {text}", page.name));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(tried > 150, "only {tried} commands were found");
}

fn understood(words: &[String]) -> Result<(), String> {
    let words = &words[usize::from(words[0] == "sudo")..];
    match words[0].trim_start_matches("./") {
        "weir" => {
            let read = Cli::read(words.iter().map(OsString::from));
            read.map(|_| ()).map_err(|error| error.to_string())
        }
        _ if OTHERS.contains(&words[0].as_str()) => Ok(()),
        other => {
            Err(format!("`{other}` is no program that a reader is known to have: see OTHERS in {}", file!()))
        }
    }
}

#[test]
fn lines_are_read_as_a_shell_reads_them() {
    for (line, expected) in [
        ("weir pps eth1   # count", "weir|pps|eth1"),
        ("weir capture --trigger 'pps>100k' -w \"a b\"", "weir|capture|--trigger|pps>100k|-w|a b"),
        ("weir show last --json > run.json", "weir|show|last|--json"),
        ("weir man >weir.1", "weir|man"),
        ("weir list | tee x &", "weir|list / tee|x"),
        ("# nothing", ""),
    ] {
        let read: Vec<String> = pages::commands(line).iter().map(|words| words.join("|")).collect();
        assert_eq!(read.join(" / "), expected, "{line}");
    }
}
