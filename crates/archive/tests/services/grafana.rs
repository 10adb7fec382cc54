//! The dashboard over the tables: each of its queries is one that PostgreSQL answers with rows.

use serde_json::Value;
use weir_record::store::Archive;

use super::bed::{Bed, small_run};

const DASHBOARD: &str = include_str!("../../../../docs/grafana-archive.json");

#[test]
fn every_query_of_the_dashboard_has_rows() {
    let Some(bed) = Bed::new() else { return };
    let archive = bed.archive();
    archive.put(&small_run()).expect("stored");
    let plan = archive.runs().expect("runs")[0].plan.clone();
    let host = bed.postgres.sql(&bed.database, "SELECT host FROM weir.runs");
    let dashboard: Value = serde_json::from_str(DASHBOARD).expect("JSON");
    let array = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let of_panels = array(&dashboard["panels"]).into_iter().flat_map(|panel| array(&panel["targets"]));
    let of_panels = of_panels.map(|target| target["rawSql"].clone());
    let of_variables =
        array(&dashboard["templating"]["list"]).into_iter().skip(1).map(|one| one["query"].clone());
    let queries: Vec<String> =
        of_panels.chain(of_variables).filter_map(|sql| sql.as_str().map(String::from)).collect();
    assert_eq!(queries.len(), 6);
    for sql in queries {
        // What Grafana puts in the places of these.
        let own = sql.replace("${plan}", &plan).replace("${host}", &host).replace(
            "$__timeFilter(r.started_at)",
            "r.started_at BETWEEN '2026-01-01T00:00:00Z' AND '2027-01-01T00:00:00Z'",
        );
        assert!(!bed.postgres.sql(&bed.database, &own).is_empty(), "{sql}");
    }
}
