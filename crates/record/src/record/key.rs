//! What identifies a record wherever it is kept: a run its UUID, a point its place in the run, a trial its place at the point.
//! Numbers (`id`) are of one archive; people use them, keys do not.

use std::fmt;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A run, the same in every archive: a random UUID (RFC 9562, version 4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RunId(Uuid);

impl RunId {
    /// That of a new run.
    pub fn random() -> RunId {
        RunId(Uuid::new_v4())
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl TryFrom<String> for RunId {
    type Error = uuid::Error;

    fn try_from(text: String) -> Result<RunId, uuid::Error> {
        // Runs of version 0.1.0 have none.
        if text.is_empty() { Ok(RunId::random()) } else { Uuid::parse_str(&text).map(RunId) }
    }
}

impl From<RunId> for String {
    fn from(id: RunId) -> String {
        id.to_string()
    }
}

/// A point of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PointKey {
    /// The run.
    pub run: RunId,
    /// [`Point::index`](super::Point::index): its place in the plan, from 0.
    pub index: usize,
}

impl fmt::Display for PointKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of run {}", self.index, self.run)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Run;
    use crate::fixture;
    use serde_json::json;

    #[test]
    fn a_run_that_was_exported_without_a_uuid_gets_one() {
        let read = |uuid: serde_json::Value| {
            let mut run = serde_json::to_value(fixture::run(1)).unwrap();
            run["uuid"] = uuid;
            serde_json::from_value::<Run>(run).map(|run| run.uuid)
        };
        let id = fixture::run(1).uuid;
        assert_eq!(read(json!(id.to_string().to_uppercase())).unwrap(), id);
        assert_ne!(read(json!("")).unwrap(), read(json!("")).unwrap());
        assert!(read(json!("run 1")).is_err());
        let mut run = serde_json::to_value(fixture::run(1)).unwrap();
        run.as_object_mut().unwrap().remove("uuid");
        assert_ne!(serde_json::from_value::<Run>(run).unwrap().uuid, id);
    }
}
