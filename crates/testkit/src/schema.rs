//! As much of JSON Schema as docs/schemas uses: a schema with another keyword is refused, so that none is believed to be tested
//! that is not.

use serde_json::Value;

/// What does not fit, each with its path; empty if the value fits.
pub fn mistakes(schema: &Value, value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    check(schema, schema, value, "$", &mut found);
    found
}

/// Forms of text and of numbers are not tested.
const SAYS_NOTHING: [&str; 6] = ["$schema", "$defs", "title", "description", "format", "default"];

fn check(root: &Value, schema: &Value, value: &Value, path: &str, found: &mut Vec<String>) {
    for (keyword, wanted) in schema.as_object().expect("a schema is an object") {
        let is_wrong = match keyword.as_str() {
            "type" => !one_or_more(wanted).any(|name| is_of(name.as_str().unwrap_or_default(), value)),
            "enum" => !one_or_more(wanted).any(|one| one == value),
            "$ref" => {
                let name =
                    wanted.as_str().and_then(|text| text.strip_prefix("#/$defs/")).expect("a definition");
                check(root, &root["$defs"][name], value, path, found);
                false
            }
            "const" => wanted != value,
            "minimum" => {
                value.as_f64().is_some_and(|value| wanted.as_f64().is_some_and(|least| value < least))
            }
            "maximum" => value.as_f64().is_some_and(|value| wanted.as_f64().is_some_and(|most| value > most)),
            "prefixItems" => {
                let items = value.as_array().into_iter().flatten();
                for (n, (value, wanted)) in items.zip(one_or_more(wanted)).enumerate() {
                    check(root, wanted, value, &format!("{path}[{n}]"), found);
                }
                false
            }
            // What generated schemas say so is of one kind by its names.
            "anyOf" | "oneOf" => {
                let mut tries = one_or_more(wanted).map(|one| {
                    let mut found = Vec::new();
                    check(root, one, value, path, &mut found);
                    found
                });
                !tries.any(|mistakes| mistakes.is_empty())
            }
            "required" => {
                let names = one_or_more(wanted).filter_map(Value::as_str);
                names.filter(|name| value.is_object() && value.get(name).is_none()).for_each(|name| {
                    found.push(format!("{path} has no {name}"));
                });
                false
            }
            "properties" => {
                for (name, of) in wanted.as_object().expect("properties") {
                    if let Some(value) = value.get(name) {
                        check(root, of, value, &format!("{path}.{name}"), found);
                    }
                }
                false
            }
            "additionalProperties" => {
                let known = |name: &String| schema["properties"].get(name).is_some();
                let others = value.as_object().into_iter().flatten().filter(|(name, _)| !known(name));
                for (name, value) in others {
                    match wanted {
                        Value::Bool(false) => found.push(format!("{path} has {name}, which is unknown")),
                        of => check(root, of, value, &format!("{path}.{name}"), found),
                    }
                }
                false
            }
            "items" => {
                for (n, value) in value.as_array().into_iter().flatten().enumerate() {
                    check(root, wanted, value, &format!("{path}[{n}]"), found);
                }
                false
            }
            "minItems" => {
                value.as_array().is_some_and(|all| (all.len() as u64) < wanted.as_u64().unwrap_or(0))
            }
            "maxItems" => {
                value.as_array().is_some_and(|all| (all.len() as u64) > wanted.as_u64().unwrap_or(0))
            }
            _ if SAYS_NOTHING.contains(&keyword.as_str()) => false,
            other => panic!("{path}: the keyword {other} is not tested"),
        };
        if is_wrong {
            let text: String = value.to_string().chars().take(60).collect();
            found.push(format!("{path} is {text}, and should have {keyword} {wanted}"));
        }
    }
}

fn one_or_more(value: &Value) -> impl Iterator<Item = &Value> {
    match value {
        Value::Array(all) => all.iter(),
        one => std::slice::from_ref(one).iter(),
    }
}

fn is_of(name: &str, value: &Value) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("{other} is no type"),
    }
}
