//! Additional values that a rig records of a trial: its own types, each under its own key.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Trial, Verdict};

/// A type that a rig records with its trials.
pub trait Detail: Serialize + DeserializeOwned {
    /// The field of the trial in records and in JSON; no other rig uses it.
    const KEY: &'static str;
}

/// The details of a trial, as fields of it in JSON. What this version does not know is kept as it is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Details(BTreeMap<String, Value>);

impl Trial {
    /// The detail of this type; `None` if the trial has none, or that of another version.
    pub fn detail<D: Detail>(&self) -> Option<D> {
        D::deserialize(self.details.0.get(D::KEY)?).ok()
    }

    /// The detail of this type, of a trial that is not invalid: what was seen in spite of a disturbance counts.
    pub fn believed<D: Detail>(&self) -> Option<D> {
        if self.verdict == Verdict::Invalid { None } else { self.detail() }
    }

    /// The trial with this detail; a number that is not finite is lost, as in JSON.
    pub fn with_detail<D: Detail>(mut self, detail: &D) -> Trial {
        let value = serde_json::to_value(detail).unwrap_or_default();
        self.details.0.insert(D::KEY.into(), value);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use crate::record::Detection;

    #[test]
    fn a_detail_is_a_field_of_the_trial_in_json() {
        let trial = fixture::clean_trial();
        assert_eq!(trial.detail::<Detection>(), None);
        let found = Detection { after_s: Some(1.5), stated_fps: None, true_fps: 0.1 };
        let json = serde_json::to_value(trial.with_detail(&found)).unwrap();
        assert_eq!(json["detection"]["after_s"], 1.5, "records of 0.1.0 have it there, too");
        let mut json = json;
        json["of_later"] = Value::from("kept");
        let read: Trial = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(read.detail::<Detection>(), Some(found));
        assert_eq!(serde_json::to_value(&read).unwrap(), json);
    }
}
