//! The schema of the lines between a node and its clients, made of the types that read and write them: docs/schemas/control.schema.json.

use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};
use weir_node::{Answer, Counters, Query};
use weir_plane::Command;

use super::answers::{Done, Rings};
use super::request::{Apply, Attach, Greeting, Hello, INTERVALS_MS, PROTOCOL, Refusal};

/// The schema of a line.
pub fn line() -> Value {
    let mut types = SchemaGenerator::default();
    let mut lines = Map::new();
    let mut define = |name: &str, keys: Value, required: &[&str]| {
        let schema = json!({ "type": "object", "properties": keys, "required": required, "additionalProperties": false });
        lines.insert(name.to_string(), schema);
    };
    let (id, many) = (json!({ "type": "integer" }), of::<Vec<Command>>(&mut types));
    let (query, apply, attach) = (of::<Query>(&mut types), of::<Apply>(&mut types), of::<Attach>(&mut types));
    define("query", json!({ "id": id, "query": query }), &["id", "query"]);
    define("apply", json!({ "id": id, "apply": apply }), &["id", "apply"]);
    define("commands", json!({ "id": id, "commands": many }), &["id", "commands"]);
    define("control", json!({ "id": id, "control": attach }), &["id", "control"]);
    define("subscribe", json!({ "id": id, "subscribe": topic() }), &["id", "subscribe"]);
    define("unsubscribe", json!({ "id": id, "unsubscribe": id }), &["id", "unsubscribe"]);
    let ok = [
        of::<Answer>(&mut types),
        of::<Done>(&mut types),
        of::<Rings>(&mut types),
        json!({ "type": "null" }),
    ];
    define("answer", json!({ "id": id, "ok": { "anyOf": ok }, "descriptors": id }), &["id", "ok"]);
    define("refusal", json!({ "id": id, "error": of::<Refusal>(&mut types) }), &["error"]);
    let (event, counters) = (json!({ "type": "object" }), of::<Counters>(&mut types));
    define("event", json!({ "subscription": id, "event": event }), &["subscription", "event"]);
    define("counters", json!({ "subscription": id, "counters": counters }), &["subscription", "counters"]);
    define("left_out", json!({ "subscription": id, "left_out": id }), &["subscription", "left_out"]);
    let mut hello = of::<Hello>(&mut types);
    if let Some(definition) = types.definitions_mut().get_mut("Hello") {
        definition["properties"]["protocol"] = json!({ "enum": [PROTOCOL] });
    } else {
        hello["properties"]["protocol"] = json!({ "enum": [PROTOCOL] });
    }
    let greetings = [of::<Greeting>(&mut types), hello];
    let names = lines.keys().map(|name| json!({ "$ref": format!("#/$defs/{name}") }));
    let all: Vec<Value> = greetings.into_iter().chain(names).collect();
    lines.extend(types.take_definitions(true));
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "weir: the lines between a node and its clients",
        "description": "One line each, on the socket of the node: docs/control.md. Greetings, requests, answers, lines of subscriptions.",
        "anyOf": all,
        "$defs": lines,
    })
}

fn of<T: JsonSchema>(types: &mut SchemaGenerator) -> Value {
    types.subschema_for::<T>().to_value()
}

fn topic() -> Value {
    let closed = |keys: Value, required: &str| json!({ "type": "object", "properties": keys, "required": [required], "additionalProperties": false });
    let interval =
        json!({ "type": "integer", "minimum": INTERVALS_MS.start(), "maximum": INTERVALS_MS.end() });
    let counters = closed(json!({ "interval_ms": interval }), "interval_ms");
    json!({ "anyOf": [closed(json!({ "events": { "enum": [true] } }), "events"), closed(json!({ "counters": counters }), "counters")] })
}
