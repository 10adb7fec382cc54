//! An archive of ten million trials: how long a list and a trend take, and that they use indexes.
//!
//! `cargo test --release -p weir-archive --test archive -- --ignored --nocapture`, with `WEIR_RUNS=20000`; some 3 GB of disk.

use std::time::{Duration, Instant};

use weir_archive::PostgresArchive;
use weir_record::fixture;
use weir_record::record::RunId;
use weir_record::store::Archive;
use weir_report::trend::{self, Filter};
use weir_testkit::{PATIENCE, number};

use super::bed::Bed;
use super::serve::Pages;

/// Runs of a plan.
const OF_A_PLAN: u64 = 400;
/// Points of a run.
const POINTS: usize = 18;
/// Times of which the median counts.
const REPETITIONS: usize = 20;
/// Clients at once.
const CLIENTS: usize = 100;

#[test]
fn lists_runs_comparisons_and_trends_use_indexes() {
    let Some(bed) = Bed::new() else { return };
    fill(&bed, Size { runs: 4000, of_a_plan: 20, trials: 40 });
    let archive = bed.archive();
    let scans = |kind: &str| {
        let sql = format!(
            "SELECT relname || ' ' || {kind} FROM pg_stat_user_tables WHERE schemaname = 'weir' AND relname <> 'format' ORDER BY 1"
        );
        bed.postgres.sql(&bed.database, &sql)
    };
    let (before, by_index) = (scans("seq_scan"), scans("idx_scan"));
    assert_eq!(archive.list().expect("a list").len(), 4000);
    assert_eq!(archive.of_plan("plan1").expect("a plan").len(), 20);
    let newest = archive.newest().expect("a list").expect("a run");
    for run in [newest, archive.numbered(17).expect("a run")] {
        // Rows of trials are there to be found, and have no fields beyond their columns.
        assert_eq!(archive.run_data(run).expect("a run").points.len(), POINTS);
    }
    let pages = Pages::start(&bed.url, &[]);
    pages.get("/?plan=plan1");
    drop((archive, pages));
    await_counts(&bed);
    assert_eq!(scans("seq_scan"), before, "scans of whole tables");
    for (before, after) in by_index.lines().zip(scans("idx_scan").lines()) {
        assert_ne!(before, after, "the index of each table was used");
    }
}

/// Connections report what they have counted before they end.
fn await_counts(bed: &Bed) {
    let end = Instant::now() + PATIENCE;
    let open = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'weir'";
    while bed.postgres.sql(&bed.database, open) != "0" {
        assert!(Instant::now() < end, "a connection stays open");
    }
}

#[test]
#[ignore = "takes minutes and 3 GB"]
fn a_list_and_a_trend_of_ten_million_trials() {
    let Some(bed) = Bed::new() else { return };
    let runs = number("WEIR_RUNS", 20_000);
    fill(&bed, Size { runs, of_a_plan: OF_A_PLAN, trials: 500 });
    let archive = bed.archive();
    println!("{} trials in {runs} runs", bed.postgres.sql(&bed.database, "SELECT count(*) FROM weir.trials"));
    let scans = "SELECT string_agg(relname || ' ' || seq_scan, ', ' ORDER BY relname) FROM pg_stat_user_tables \
                 WHERE schemaname = 'weir' AND relname <> 'format'";
    let before = bed.postgres.sql(&bed.database, scans);
    let listed = median(|| assert_eq!(archive.list().expect("a list").len() as u64, runs));
    let read = median(|| assert_eq!(archive.of_plan("plan1").expect("a plan").len() as u64, OF_A_PLAN));
    let trended = median(|| {
        let runs = archive.of_plan("plan1").expect("a plan");
        assert!(trend::trend("plan1", &runs, &Filter::default()).is_some());
    });
    let newest = archive.newest().expect("a list").expect("a run");
    let shown = median(|| assert!(archive.run_data(newest).is_ok()));
    drop(archive);
    await_counts(&bed);
    println!("list {listed:?}, points of a plan {read:?}, trend {trended:?}, one run {shown:?}");
    assert_eq!(bed.postgres.sql(&bed.database, scans), before, "scans of whole tables");
    let servers: Vec<_> = (0..CLIENTS).map(|_| bed.server(&bed.url)).collect();
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for server in &servers {
            scope.spawn(|| {
                let archive = PostgresArchive::open_to_read(server).expect("a connection");
                assert_eq!(archive.list().expect("a list").len() as u64, runs);
            });
        }
    });
    println!("{CLIENTS} clients at once: {:?} for a list of each", begun.elapsed());
}

/// The median time of a call.
fn median(mut call: impl FnMut()) -> Duration {
    call();
    let mut times: Vec<Duration> = (0..REPETITIONS)
        .map(|_| {
            let begun = Instant::now();
            call();
            begun.elapsed()
        })
        .collect();
    times.sort();
    times[REPETITIONS / 2]
}

/// How large an archive is.
#[derive(Debug, Clone, Copy)]
struct Size {
    /// Runs.
    runs: u64,
    /// Runs of each plan.
    of_a_plan: u64,
    /// Trials of each run.
    trials: u64,
}

/// Copies of a run; only the run and its points are as large as those of a real run, because no list and no trend reads
/// a trial.
fn fill(bed: &Bed, Size { runs, of_a_plan, trials }: Size) {
    let mut data = fixture::quick();
    data.run.uuid = RunId::random();
    (data.run.plan, data.run.question) = ("plan0".into(), "How fast is each of these?".into());
    bed.archive().put(&data).expect("stored");
    let text = format!(
        "SET session_replication_role = replica; SET synchronous_commit = off;
         INSERT INTO weir.runs (uuid, plan, question, started, finished, state, version, rest, host, started_at)
             SELECT gen_random_uuid(), 'plan' || n / {of_a_plan}, question, started, finished, state, version, rest, 'host' || n % 10, started_at
             FROM weir.runs, generate_series(1, {runs} - 1) n;
         INSERT INTO weir.points (run_id, idx, dut, frame, frame_bytes_mean, line_fps, result, rest)
             SELECT r.id, idx, dut, frame, frame_bytes_mean, line_fps, result, p.rest
             FROM weir.runs r, weir.points p WHERE r.id > 1 AND p.run_id = 1;
         INSERT INTO weir.trials (run_id, point_idx, idx, purpose, started, duration_s, offered_fps, offered, sent, received, lost,
                 unexplained, verdict, rest)
             SELECT r.id, n % {POINTS}, 1000 + n / {POINTS}, 'search', '', 1, 1, 1, 1, 1, 0, 0, 'valid', '{{}}'
             FROM weir.runs r, generate_series(0, {trials} - 1) n WHERE r.id > 1;
         ANALYZE"
    );
    bed.postgres.sql(&bed.database, &text);
    bed.postgres.sql(&bed.database, "VACUUM");
}
