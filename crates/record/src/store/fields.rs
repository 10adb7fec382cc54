//! How a record becomes a row of a database, and a row a record.
//!
//! ```text
//! record <-> JSON object <-> fields that people query <-> columns
//!                            all other fields         <-> one column `rest`
//! ```
//! A field that is added to a record is stored in `rest` without a change here.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Error, Map, Value};

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

/// The record with these values by column, and the other fields in `rest`.
///
/// # Errors
/// A field is missing or has another type.
pub fn join<'a, R: DeserializeOwned>(
    values: impl IntoIterator<Item = (&'a str, Value)>,
    rest: &str,
) -> Result<R, Error> {
    let mut fields: Map<String, Value> = serde_json::from_str(rest)?;
    let present = values.into_iter().filter(|(_, value)| !value.is_null());
    fields.extend(present.map(|(column, value)| (field_of(column).into(), value)));
    serde_json::from_value(Value::Object(fields))
}

/// `index` is a word of SQL, so its column has another name.
fn field_of(column: &str) -> &str {
    if column == "idx" { "index" } else { column }
}
