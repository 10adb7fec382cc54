//! What services log on standard error: the same messages as text, in the journal and as JSON.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use weir_testkit::{Folder, output, schema};

use crate::weir::WEIR;

/// A detector without a configuration.
const DETECT: &str = "detect --read none.pcapng --config none.toml";
const REFUSED: &str = "weir: cannot read the configuration none.toml (write one with `weir detect --example > none.toml`): No such file \
                       or directory (os error 2)";

fn weir(folder: &Folder, line: &str) -> Command {
    let mut command = Command::new(WEIR);
    command.args(line.split_whitespace()).current_dir(folder);
    for name in ["WEIR_LOG", "WEIR_LOG_FORMAT", "JOURNAL_STREAM"] {
        command.env_remove(name);
    }
    command
}

fn said(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("text")
}

/// The objects of a log, which fit their schema.
fn objects(log: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schemas/log.schema.json");
    let known = serde_json::from_str(&std::fs::read_to_string(path).expect("it is there")).expect("JSON");
    let lines =
        log.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {log}")));
    lines.inspect(|line| assert_eq!(schema::mistakes(&known, line), [""; 0], "{line}")).collect()
}

#[test]
fn an_error_has_the_same_words_in_each_format() {
    let folder = Folder::new();
    let text = output(&mut weir(&folder, DETECT)).expect("weir starts");
    assert_eq!((text.status.code(), said(&text)), (Some(1), format!("{REFUSED}\n")));

    let option = output(&mut weir(&folder, &format!("{DETECT} --log-format json"))).expect("weir starts");
    let variable = output(weir(&folder, DETECT).env("WEIR_LOG_FORMAT", "json")).expect("weir starts");
    for json in [option, variable] {
        let lines = objects(&said(&json));
        assert_eq!((json.status.code(), lines.len()), (Some(1), 1), "{lines:?}");
        assert_eq!((&lines[0]["level"], &lines[0]["fields"]["message"]), (&"ERROR".into(), &REFUSED.into()));
    }

    let path = folder.join("journal");
    let journal = File::create(&path).expect("room");
    let about = journal.metadata().expect("it is there");
    let mut command = weir(&folder, DETECT);
    command.env("JOURNAL_STREAM", format!("{}:{}", about.dev(), about.ino()));
    assert_eq!(command.stderr(Stdio::from(journal)).status().expect("weir starts").code(), Some(1));
    assert_eq!(std::fs::read_to_string(path).expect("it is there"), format!("<3>{REFUSED}\n"));
}

#[test]
fn unknown_levels_and_formats_are_refused() {
    let folder = Folder::new();
    let levels = "`loud` is no level of a log: use error, warn, info or debug";
    let variable = output(weir(&folder, DETECT).env("WEIR_LOG", "loud")).expect("weir starts");
    assert_eq!(said(&variable), format!("weir: WEIR_LOG: {levels}\n"));
    let option = output(&mut weir(&folder, &format!("{DETECT} --log-level loud"))).expect("weir starts");
    assert!(said(&option).contains(levels), "{}", said(&option));
    // The option alone counts.
    let both = output(weir(&folder, &format!("{DETECT} --log-level warn")).env("WEIR_LOG", "loud"));
    assert_eq!(said(&both.expect("weir starts")), format!("{REFUSED}\n"));
    let example = output(weir(&folder, "detect --example").env("WEIR_LOG", "debug")).expect("weir starts");
    assert_eq!((example.status.code(), said(&example)), (Some(0), String::new()));
}

/// What a node logs that ends at once, because its files have no frames.
fn node(folder: &Folder, options: &str) -> String {
    folder.file("x.node", "node lan(on pcapng::a.pcapng) > wan(on pcapng::b.pcapng)\n");
    let line = format!("node run x.node --socket node.sock --keep-privileges {options}");
    let ended = output(&mut weir(folder, &line)).expect("weir starts");
    for file in ["a.pcapng", "b.pcapng"] {
        std::fs::remove_file(folder.join(file)).expect("the node made it");
    }
    said(&ended)
}

#[test]
fn a_node_logs_its_ports_as_fields() {
    let folder = Folder::new();
    let (text, json) = (node(&folder, ""), node(&folder, "--log-format json"));
    let lines = objects(&json);
    let messages: Vec<&str> = lines.iter().filter_map(|line| line["fields"]["message"].as_str()).collect();
    assert_eq!(messages, text.lines().collect::<Vec<_>>());
    assert_eq!(
        (&lines[0]["fields"]["port"], &lines[1]["fields"]["port"]),
        (&"lan".into(), &"wan".into()),
        "{json}"
    );
    assert_eq!((&lines[0]["level"], &lines[0]["target"]), (&"INFO".into(), &"weir_control".into()), "{json}");
    assert!(!node(&folder, "--log-level warn").contains("lan: "));
}
