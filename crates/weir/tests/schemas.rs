//! The schemas in docs/schemas fit what the program writes and reads.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use weir_testkit::{Folder, output};

use crate::attack::{capture, limited, text};
use crate::kept::Kept;
use crate::weir::WEIR;
use weir_testkit::schema;

fn schema_of(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../docs/schemas/{name}.schema.json"));
    serde_json::from_str(&fs::read_to_string(path).expect("it is there")).expect("JSON")
}

fn fits(schema: &Value, value: &Value) {
    assert_eq!(schema::mistakes(schema, value), [""; 0], "{value}");
}

#[test]
fn records() {
    let kept = Kept::new("small");
    kept.run(1, 400e3);
    let (text, _) = kept.said("show 1 --json");
    let mut record: Value = serde_json::from_str(&text).expect("JSON");
    let schema = schema_of("record");
    fits(&schema, &record);
    // And the schema is no sieve.
    record["run"]["state"] = "asleep".into();
    record["points"][0]["point"]["result"]["goals"][0]["fps_median"] = "fast".into();
    record["run"].as_object_mut().unwrap().remove("plan");
    assert_eq!(schema::mistakes(&schema, &record).len(), 2 + 1, "{:?}", schema::mistakes(&schema, &record));
}

#[test]
fn events_of_attacks() {
    let folder = Folder::new();
    let config = limited(&folder, 20_000, "");
    let file = folder.file("attack.pcapng", capture(30_000, 7));
    let mut command = Command::new(WEIR);
    command.args(["detect", "--read", text(&file), "--config", text(&config), "--json"]);
    let output = output(&mut command).expect("weir starts");
    let lines = String::from_utf8(output.stdout).expect("text");
    let schema = schema_of("event");
    let events: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    events.iter().for_each(|event| fits(&schema, event));
    assert!(events.len() >= 3 && events[0]["event"] == "start", "{events:?}");
    assert!(!schema::mistakes(&schema, &json!({ "event": "start" })).is_empty());
}

#[test]
fn events_of_a_file_with_a_clock_that_was_set_back() {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("../detectd/tests/cases");
    let (file, config) = (cases.join("1-setback.pcap"), cases.join("detect.toml"));
    let mut command = Command::new(WEIR);
    command.args(["detect", "--read", text(&file), "--config", text(&config)]);
    let shown = String::from_utf8(output(&mut command).expect("weir starts").stdout).expect("text");
    assert_eq!(
        shown,
        "2023-11-14T22:13:20.000Z the clock went back 64.9 s: a new period begins\n\
         760 IP frames, 0 of them outside the watched networks; 1 hosts and directions; 0 frames lost before detection; the clock \
         went back 1 times\n"
    );
    let lines = String::from_utf8(output(command.arg("--json")).expect("weir starts").stdout).expect("text");
    let schema = schema_of("event");
    let events: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    events.iter().for_each(|event| fits(&schema, event));
    assert_eq!(events[0]["event"], "clock", "{events:?}");
}

#[test]
fn lines_between_a_node_and_its_clients() {
    let schema = schema_of("control");
    for (value, is_right) in [
        (json!({ "weir": "0.1.0", "protocol": 1, "later": 1 }), true),
        (json!({ "protocol": 1 }), true),
        (json!({ "protocol": 1, "client": "x" }), true),
        (json!({ "id": 7, "query": "counters" }), true),
        (json!({ "id": 7, "apply": { "file": "home.node", "text": "node lan > wan", "files": {} } }), true),
        (json!({ "id": 7, "subscribe": { "events": true } }), true),
        (json!({ "id": 7, "subscribe": { "counters": { "interval_ms": 1000 } } }), true),
        (json!({ "id": 7, "unsubscribe": 10 }), true),
        (json!({ "id": 7, "query": { "routes": { "after": "192.0.2.0/24", "most": 7 } } }), true),
        (json!({ "id": 7, "commands": [{ "route": { "remove": { "prefix": "192.0.2.0/24" } } }] }), true),
        (json!({ "id": 7, "control": { "slots": 64 } }), true),
        (json!({ "id": 7, "ok": { "total": 0, "routes": [], "next": null } }), true),
        (json!({ "id": 7, "ok": null, "descriptors": 2 }), true),
        (json!({ "id": 7, "error": { "message": "no", "command": 3 } }), true),
        (json!({ "error": { "message": "no" } }), true),
        (json!({ "subscription": 7, "event": {} }), true),
        (json!({ "subscription": 7, "left_out": 1 }), true),
        (json!({ "protocol": 2 }), false),
        (json!({ "show": "counters" }), false),
        (json!({ "id": "a", "query": "counters" }), false),
        (json!({ "query": "counters" }), false),
        (json!({ "id": 7, "query": "weather" }), false),
        (json!({ "id": 7, "apply": { "file": "home.node" } }), false),
        (json!({ "id": 7, "subscribe": { "events": false } }), false),
        (json!({ "id": 7, "stop": true }), false),
        (json!({ "id": 7, "query": { "routes": { "moist": 7 } } }), false),
        (json!({ "id": 7, "commands": [{ "route": { "set": { "prefix": "192.0.2.0/24" } } }] }), false),
        (json!({ "id": 7, "ok": { "routes": [{ "prefix": 7 }] } }), false),
        (json!({ "subscription": 7, "counters": {} }), false),
        (json!({ "ok": 1 }), false),
        (json!({ "error": "no" }), false),
    ] {
        assert_eq!(schema::mistakes(&schema, &value).is_empty(), is_right, "{value}");
    }
}
