//! What every archive promises, and what tables of another weir do.

use weir_archive::PostgresArchive;
use weir_record::store::{Archive, contract};

use super::bed::{Bed, refusal, small_run};

#[test]
fn it_keeps_what_each_archive_promises() {
    let Some(bed) = Bed::new() else { return };
    for (name, check) in contract::ALL {
        println!("{name}");
        let (url, _) = bed.postgres.database();
        let archive = PostgresArchive::open(&bed.server(&url)).expect("an archive");
        check(&archive, &archive);
    }
}

#[test]
fn tables_of_a_newer_weir_are_refused_and_missing_ones_named() {
    let Some(bed) = Bed::new() else { return };
    let server = bed.server(&bed.url);
    let text = refusal(PostgresArchive::open_to_read(&server));
    assert!(
        text.ends_with("there are no tables yet: `weir push` or `weir archive setup` makes them"),
        "{text}"
    );
    drop(bed.archive());
    bed.postgres.sql(&bed.database, "UPDATE weir.format SET format = 99");
    for text in [refusal(PostgresArchive::open(&server)), refusal(PostgresArchive::open_to_read(&server))] {
        assert!(text.contains("have format 99") && text.ends_with("use a newer weir"), "{text}");
    }
    bed.postgres.sql(&bed.database, "UPDATE weir.format SET format = 0");
    let text = refusal(PostgresArchive::open_to_read(&server));
    assert!(text.contains("of an older weir: bring them up to date with `weir archive setup`"), "{text}");
}

#[test]
fn an_archive_of_an_older_weir_keeps_its_runs_and_gets_what_is_new() {
    let Some(bed) = Bed::new() else { return };
    let data = small_run();
    bed.archive().put(&data).expect("stored");
    // As it was before the second step.
    let back = "DROP INDEX weir.runs_of_kernel, weir.runs_of_version; UPDATE weir.format SET format = 1";
    bed.postgres.sql(&bed.database, back);
    let server = bed.server(&bed.url);
    let text = refusal(PostgresArchive::open_to_read(&server));
    assert!(text.contains("of an older weir: bring them up to date with `weir archive setup`"), "{text}");
    let archive = PostgresArchive::open(&server).expect("the owner may");
    assert_eq!(archive.run_data(data.run.uuid).expect("a run").points.len(), data.points.len());
    let new = "SELECT format, to_regclass('weir.runs_of_kernel') IS NOT NULL FROM weir.format";
    assert_eq!(bed.postgres.sql(&bed.database, new), "2|t");
}

#[test]
fn several_clients_may_make_the_tables_at_once() {
    let Some(bed) = Bed::new() else { return };
    let servers: Vec<_> = (0..8).map(|_| bed.server(&bed.url)).collect();
    std::thread::scope(|scope| {
        for server in &servers {
            scope.spawn(|| {
                PostgresArchive::open(server).expect("an archive").put(&small_run()).expect("stored")
            });
        }
    });
    assert_eq!(bed.archive().list().expect("runs").len(), 8);
}

#[test]
fn a_row_that_cannot_be_read_hides_nothing_but_itself() {
    let Some(bed) = Bed::new() else { return };
    let archive = bed.archive();
    let data = small_run();
    archive.put(&data).expect("stored");
    bed.postgres.sql(&bed.database, "UPDATE weir.trials SET rest = '{}' WHERE point_idx = 0 AND idx = 1");
    let read = archive.run_data(data.run.uuid).expect("a run");
    assert_eq!(read.points[0].trials.len(), data.points[0].trials.len() - 1);
    assert!(archive.damaged()[0].contains("of table trials in postgres://"), "once");
    assert!(archive.damaged().is_empty());
}
