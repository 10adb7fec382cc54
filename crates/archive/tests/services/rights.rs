//! Roles: a reader reads, a writer pushes and deletes nothing.

use weir_archive::{PostgresArchive, Rights, set_up};
use weir_record::store::Archive;

use super::bed::{Bed, refusal, small_run};

#[test]
fn a_reader_reads_and_a_writer_pushes() {
    let Some(bed) = Bed::new() else { return };
    bed.postgres.sql(
        "postgres",
        "CREATE ROLE host LOGIN; CREATE ROLE \"Guest \"\"1\"\"\" LOGIN; CREATE ROLE guest LOGIN",
    );
    let [host, guest] = ["host", "guest"].map(|role| bed.server(&bed.postgres.url(role, &bed.database)));
    let text = refusal(PostgresArchive::open(&host));
    assert!(
        text.contains("the server refused: permission denied") && text.contains("weir archive setup"),
        "{text}"
    );
    let rights = Rights { writers: vec!["host".into()], readers: vec!["Guest \"1\"".into(), "guest".into()] };
    set_up(&bed.server(&bed.url), &rights).expect("made");
    set_up(&bed.server(&bed.url), &rights).expect("twice is once");

    let data = small_run();
    let writer = PostgresArchive::open(&host).expect("a writer");
    writer.put(&data).expect("a writer pushes");
    let reader = PostgresArchive::open_to_read(&guest).expect("a reader");
    assert_eq!(reader.list().expect("runs").len(), 1);
    let [read, written] = [&reader, &writer].map(|archive| archive.run_data(data.run.uuid).expect("a run"));
    assert_eq!(read, written);
    let text = reader.put(&small_run()).expect_err("a reader only reads").to_string();
    assert!(text.contains("permission denied"), "{text}");
    // What the tables refuse to a client that speaks SQL itself.
    for (role, sql) in [
        ("host", "DELETE FROM weir.runs"),
        ("host", "UPDATE weir.trials SET lost = 0"),
        ("host", "UPDATE weir.runs SET plan = 'other'"),
        ("host", "DROP TABLE weir.trials"),
        ("guest", "INSERT INTO weir.format VALUES (9)"),
        ("guest", "DELETE FROM weir.points"),
        ("guest", "UPDATE weir.runs SET state = 'failed'"),
    ] {
        let tried = format!(
            "DO $$ BEGIN SET LOCAL ROLE {role}; {sql}; EXCEPTION WHEN insufficient_privilege THEN RAISE EXCEPTION 'refused'; END $$"
        );
        let said = bed.postgres.refusal(&bed.database, &tried);
        assert!(said.contains("refused"), "{role}: {sql}: {said}");
    }
    assert_eq!(reader.list().expect("runs").len(), 1, "it is still there");
    let may = "SELECT has_table_privilege('host', 'weir.' || name, 'DELETE, TRUNCATE') FROM (VALUES ('runs'), ('points'), ('trials')) t (name)";
    assert_eq!(bed.postgres.sql(&bed.database, may), "f\nf\nf", "a writer deletes nothing");
}
