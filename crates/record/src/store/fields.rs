//! How a record becomes a row of a database, and a row a record.
//!
//! ```text
//! record <-> JSON object <-> fields that people query <-> columns
//!                            all other fields         <-> one column `rest`
//! ```
//! A field that is added to a record is stored in `rest` without a change here.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Error, Value};

/// The values of these columns in order, and the text of `rest`; the numbers that the database gives are left out.
///
/// # Errors
/// The record could not be read back: one of its numbers is not finite.
pub fn split<R: Serialize + DeserializeOwned>(
    record: &R,
    numbers: &[&str],
    columns: &[&str],
) -> Result<(Vec<Value>, String), Error> {
    let json = serde_json::to_value(record)?;
    // A number that is not finite becomes null and would be found only when the record is read.
    serde_json::from_value::<R>(json.clone())?;
    let Value::Object(mut fields) = json else { unreachable!("records are structs") };
    for number in numbers {
        fields.remove(*number);
    }
    let values =
        columns.iter().map(|column| fields.remove(field_of(column)).unwrap_or(Value::Null)).collect();
    Ok((values, Value::Object(fields).to_string()))
}

/// The text of a record as a JSON object, made of its columns one after another and read at its end. Nothing is parsed twice: a
/// list of many records is mostly this.
#[derive(Debug)]
pub struct Fields {
    text: Vec<u8>,
}

impl Fields {
    /// No columns yet; `rest` will add about so many bytes.
    pub fn with_room(rest: usize) -> Fields {
        let mut text = Vec::with_capacity(rest + 512);
        text.push(b'{');
        Fields { text }
    }

    /// Adds the value of a column.
    ///
    /// # Errors
    /// The value is not one of JSON.
    pub fn add(&mut self, column: &str, value: &impl Serialize) -> Result<(), Error> {
        self.name(column)?;
        serde_json::to_writer(&mut self.text, value)?;
        self.text.push(b',');
        Ok(())
    }

    /// Adds a column whose value is JSON itself.
    ///
    /// # Errors
    /// The name is not one of JSON.
    pub fn add_json(&mut self, column: &str, json: &[u8]) -> Result<(), Error> {
        self.name(column)?;
        self.text.extend_from_slice(json);
        self.text.push(b',');
        Ok(())
    }

    fn name(&mut self, column: &str) -> Result<(), Error> {
        serde_json::to_writer(&mut self.text, field_of(column))?;
        self.text.push(b':');
        Ok(())
    }

    /// The record with these columns, and the other fields in `rest`.
    ///
    /// # Errors
    /// A field is missing, is there twice, or has another type.
    pub fn record<R: DeserializeOwned>(mut self, rest: &str) -> Result<R, Error> {
        let fields = rest.trim().strip_prefix('{').map_or(rest, str::trim_start);
        if fields.starts_with('}') && self.text.last() == Some(&b',') {
            self.text.pop();
        }
        self.text.extend_from_slice(fields.as_bytes());
        serde_json::from_slice(&self.text)
    }
}

/// `index` is a word of SQL, so its column has another name.
fn field_of(column: &str) -> &str {
    if column == "idx" { "index" } else { column }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn columns_and_the_rest_are_one_object() {
        let record = |columns: &[(&str, Value)], rest: &str| {
            let mut fields = Fields::with_room(rest.len());
            for (column, value) in columns {
                fields.add(column, value)?;
            }
            fields.add_json("result", br#"{"a":1}"#)?;
            fields.record::<Value>(rest)
        };
        let columns = [("idx", json!(3)), ("dut", json!("a \"b\""))];
        let expected = json!({"index": 3, "dut": "a \"b\"", "result": {"a": 1}, "notes": ["x"]});
        assert_eq!(record(&columns, r#" {"notes":["x"]}"#).expect("a record"), expected);
        assert_eq!(record(&[], "{ }").expect("a record"), json!({"result": {"a": 1}}));
        assert_eq!(Fields::with_room(0).record::<Value>("{}").expect("a record"), json!({}));
        for damaged in ["", "{", "[1]", "null", r#"{"notes":"#] {
            assert!(record(&columns, damaged).is_err(), "{damaged}");
        }
    }
}
