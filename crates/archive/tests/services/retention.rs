//! Old runs that are deleted.

use weir_archive::{Old, count_old, delete_old};
use weir_record::store::Archive;

use super::bed::{Bed, small_run};

#[test]
fn only_old_runs_are_deleted_with_all_that_belongs_to_them() {
    let Some(bed) = Bed::new() else { return };
    let archive = bed.archive();
    let runs = [(400, "quick"), (400, "other"), (10, "quick")].map(|(days, plan)| {
        let mut data = small_run();
        data.run.plan = plan.into();
        let number = archive.put(&data).expect("stored");
        bed.postgres.sql(
            &bed.database,
            &format!("UPDATE weir.runs SET started_at = now() - interval '{days} days' WHERE id = {number}"),
        );
        data.run.uuid
    });
    let server = bed.server(&bed.url);
    let of_plan = |days, plan: Option<&str>| Old { days, plan: plan.map(String::from) };
    assert_eq!(count_old(&server, &of_plan(365, None)).expect("counted"), 2);
    assert_eq!(delete_old(&server, &of_plan(365, Some("quick"))).expect("deleted"), 1);
    let left: Vec<_> = archive.list().expect("runs").into_iter().map(|run| run.uuid).collect();
    assert_eq!(left, runs[1..]);
    assert_eq!(delete_old(&server, &of_plan(5, None)).expect("deleted"), 2);
    let rows = "SELECT (SELECT count(*) FROM weir.points) + (SELECT count(*) FROM weir.trials)";
    assert_eq!(bed.postgres.sql(&bed.database, rows), "0");
}
