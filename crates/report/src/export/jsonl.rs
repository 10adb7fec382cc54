//! JSON lines (one object per line) for jq, pandas and databases: the run, then each point, its trials, its result.

use serde::Serialize;

use crate::run_data::RunData;

/// Every line has its `kind`: `run`, `point`, `trial`, `goal`, `comparison` or `procedure`. All but the run name the
/// run and the point (`run_id`, `point_id`) that they belong to; their other fields are those of the record.
pub fn jsonl(data: &RunData) -> String {
    let run_id = data.run.id;
    let mut text = line("run", &[], &data.run);
    for point in &data.points {
        let of = [("run_id", run_id), ("point_id", point.point.id)];
        // The result has lines of its own.
        let bare = crate::record::Point { result: None, ..point.point.clone() };
        text += &line("point", &of[..1], &bare);
        text.extend(point.trials.iter().map(|trial| line("trial", &of[..1], trial)));
        let Some(result) = &point.point.result else { continue };
        text.extend(result.goals.iter().map(|goal| line("goal", &of, goal)));
        text.extend(result.comparisons.iter().map(|comparison| line("comparison", &of, comparison)));
        text.extend(result.procedures.iter().map(|procedure| line("procedure", &of, procedure)));
    }
    text
}

fn line(kind: &str, ids: &[(&str, i64)], record: &impl Serialize) -> String {
    let mut object = serde_json::Map::from_iter([("kind".to_string(), kind.into())]);
    object.extend(ids.iter().map(|(name, id)| (name.to_string(), (*id).into())));
    match serde_json::to_value(record).expect("records are plain data with text keys") {
        serde_json::Value::Object(fields) => object.extend(fields),
        other => panic!("{kind} is no object: {other}"),
    }
    serde_json::Value::Object(object).to_string() + "\n"
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::Value;

    use super::*;
    use crate::fixture;
    use crate::record::{GoalResult, Point, ProcedureResult, Run, Trial};

    /// The record of a line, without what a line adds to it.
    fn back<T: serde::de::DeserializeOwned>(value: &Value) -> T {
        let mut value = value.clone();
        let fields = value.as_object_mut().expect("a record");
        fields.remove("kind");
        // Of a trial: it is the point that has the run.
        if fields.contains_key("purpose") {
            fields.remove("run_id");
        }
        serde_json::from_value(value).expect("a record")
    }

    #[test]
    fn every_record_is_a_line_and_can_be_read_back() {
        let data = fixture::procedures();
        let text = jsonl(&data);
        let mut kinds: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for line in text.lines() {
            let value: Value = serde_json::from_str(line).expect("JSON on each line");
            kinds.entry(value["kind"].as_str().expect("a kind").into()).or_default().push(value);
        }
        assert_eq!(back::<Run>(&kinds["run"][0]), data.run);
        let points: Vec<Point> = kinds["point"].iter().map(back).collect();
        assert_eq!(points.len(), data.points.len());
        let trials: Vec<Trial> = kinds["trial"].iter().map(back).collect();
        assert_eq!(trials, data.points.iter().flat_map(|p| p.trials.clone()).collect::<Vec<_>>());
        assert!(kinds["trial"].iter().all(|t| t["run_id"] == data.run.id));
        let last = data.points.last().unwrap().point.clone();
        let of_last =
            |kind: &str| kinds[kind].iter().filter(|v| v["point_id"] == last.id).collect::<Vec<_>>();
        let result = last.result.unwrap();
        assert_eq!(of_last("goal").into_iter().map(back::<GoalResult>).collect::<Vec<_>>(), result.goals);
        let procedures: Vec<ProcedureResult> = of_last("procedure").into_iter().map(back).collect();
        assert_eq!(procedures, result.procedures);
    }
}
