//! A resumed run measures only what is missing.

use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use rusqlite::Connection;
use weir_lab::engine;
use weir_lab::error::RunError;
use weir_lab::plan::Plan;
use weir_lab::run::{Event, Options};
use weir_load::TesterKind;
use weir_record::record::{Purpose, RunState, Trial};
use weir_record::run_data::RunData;
use weir_record::store::RunLog;
use weir_rigs::PLANS;

use crate::bench::on_rig;

/// The same trials whatever becomes of them: none is repeated.
const FIXED: &str = r#"question = "Does it go on?"
[dut]
kind = "kernel-forward"
cpus = 1
[traffic]
frame_bytes = [128, 256]
direction = "forward"
broadcast_every = 100
[search]
kind = "fixed"
loads_fps = ["10k", "20k", "15k"]
trial_s = 0.05
[limits]
retries = 0
"#;

/// A file of records, gone after the test, and the plan of its only run.
struct Kept {
    folder: weir_testkit::Folder,
    plan: Plan,
}

impl Kept {
    /// A complete run of a plan.
    fn complete(plan: &str) -> (Kept, RunData) {
        let plan = PLANS.reload("two", plan).expect("a valid plan");
        let kept = Kept { folder: weir_testkit::Folder::new(), plan };
        let log = kept.log();
        with_options(|_| {}, |options| engine::run(&kept.plan, &log, options)).expect("it runs");
        let data = only(&log);
        (kept, data)
    }

    fn log(&self) -> RunLog {
        RunLog::open(&self.folder.join("records.db")).expect("a file of records")
    }

    /// Takes something away again, as if the run had been cut short.
    fn cut(&self, sql: &str) -> RunData {
        let db = Connection::open(self.folder.join("records.db")).expect("it is there");
        db.execute_batch("UPDATE runs SET state = 'interrupted', finished = NULL").expect("a table of runs");
        db.execute_batch(sql).expect("right SQL");
        only(&self.log())
    }

    /// Goes on with the run; the trials that were announced, and everything that is kept now.
    fn resume(&self) -> (usize, RunData) {
        let log = self.log();
        let data = only(&log);
        let announced = Mutex::new(0);
        let observe = |event: Event| {
            if let Event::Trial { .. } = event {
                *announced.lock().expect("counting does not panic") += 1;
            }
        };
        with_options(observe, |options| engine::resume(&self.plan, data, &log, options)).expect("it goes on");
        (announced.into_inner().expect("no panic"), only(&log))
    }
}

/// The only run of a log.
fn only(log: &RunLog) -> RunData {
    let run = log.archive().newest().expect("it can be read").expect("it was kept");
    log.archive().run_data(run).expect("it can be read")
}

fn with_options<T>(observe: impl Fn(Event) + Sync, go: impl FnOnce(&Options) -> T) -> T {
    let stop = AtomicBool::new(false);
    let tester = TesterKind::Packet;
    go(&Options { seed: 1, tester, tester_limits: Vec::new(), stop: &stop, observe: &observe })
}

fn trials(data: &RunData) -> Vec<&Trial> {
    data.points.iter().flat_map(|point| &point.trials).collect()
}

#[test]
fn only_what_is_missing_is_measured() {
    on_rig(|| {
        let (kept, whole) = Kept::complete(FIXED);
        // Two wires with three trials of their ceiling and three of their latency; two points with a warm-up and three
        // loads.
        assert_eq!(trials(&whole).len(), 2 * 6 + 2 * 4);
        let broadcasts = |purpose| {
            let of_purpose = trials(&whole).into_iter().filter(|t| t.purpose == purpose);
            of_purpose.map(|t| t.broadcasts.as_ref().map_or(0, |b| b.sent)).collect::<Vec<_>>()
        };
        assert_eq!(broadcasts(Purpose::Ceiling), [0; 6]);
        assert!(
            broadcasts(Purpose::Search).iter().all(|sent| *sent > 0),
            "{:?}",
            broadcasts(Purpose::Search)
        );

        let cut = kept.cut("DELETE FROM trials WHERE id > 18; UPDATE points SET result = NULL WHERE id = 4");
        let (announced, resumed) = kept.resume();
        assert_eq!(announced, 1 + 2, "a warm-up and the two trials that were missing");
        assert_eq!(trials(&resumed)[..18], trials(&cut)[..]);
        assert_eq!((resumed.run.state, resumed.run.resumed.len()), (RunState::Complete, 1));

        kept.cut("DELETE FROM trials WHERE id > 6; DELETE FROM points WHERE id > 1");
        assert_eq!(kept.resume().0, 6 + 2 * 4, "all but the first wire");
        kept.cut("UPDATE points SET result = NULL WHERE id = (SELECT max(id) FROM points)");
        let (announced, resumed) = kept.resume();
        assert_eq!((announced, resumed.run.resumed.len()), (0, 3), "only a result was missing");
    });
}

#[test]
fn a_search_comes_to_the_same_end() {
    on_rig(|| {
        let search = "kind = \"rfc2544\"\nmax_fps = \"20k\"\nloss_ratio = \"50%\"\ntrial_s = 0.05\n[repeat]\ntimes = 3";
        let start = FIXED.find("kind = \"fixed\"").expect("a search");
        let (kept, whole) = Kept::complete(&format!("{}{search}\n", &FIXED[..start]));
        kept.cut("UPDATE points SET result = NULL WHERE id = 4");
        let (announced, resumed) = kept.resume();
        assert_eq!(announced, 0);
        assert_eq!(resumed.points, whole.points);
    });
}

#[test]
fn what_would_not_fit_together_is_refused() {
    on_rig(|| {
        let (kept, _) = Kept::complete(FIXED);
        let refused = |sql: &str| {
            if !sql.is_empty() {
                kept.cut(sql);
            }
            let log = kept.log();
            let data = only(&log);
            match with_options(|_| {}, |options| engine::resume(&kept.plan, data, &log, options)) {
                Err(RunError::Resume { id: 1, why }) => why,
                other => panic!("{other:?}"),
            }
        };
        assert!(refused("").contains("it is complete"));
        assert!(refused("UPDATE runs SET state = 'running'").contains("still running"));
        assert!(refused("UPDATE runs SET version = '0.0.1'").contains("with weir 0.0.1, and this is"));
        let version = env!("CARGO_PKG_VERSION");
        let kernel = format!(
            "UPDATE runs SET version = '{version}', rest = json_set(rest, '$.machine.kernel', 'Linux 2.4')"
        );
        assert!(refused(&kernel).contains("the kernel Linux 2.4"));
    });
}

#[test]
fn rounds_of_the_capacity_go_on_where_they_were() {
    on_rig(|| {
        let plan = FIXED
            .replace("\"kernel-forward\"", "[\"kernel-forward\", \"kernel-nat\"]")
            .replace("[128, 256]", "128")
            .replace("\"10k\", \"20k\", \"15k\"", "\"10k\"")
            + "[capacity]\nrounds = 7\ntrial_s = 0.1\n";
        let (kept, whole) = Kept::complete(&plan);
        let of_capacity = |data: &RunData| -> Vec<Vec<i64>> {
            let of_point = |point: &weir_record::run_data::PointData| {
                let noted = point.trials.iter().filter(|t| t.load.iter().any(|(name, _)| name == "arrivals"));
                noted.map(|t| t.id).collect()
            };
            data.points.iter().map(of_point).collect()
        };
        let trials = of_capacity(&whole);
        assert!(trials[0].is_empty(), "no rounds on the wire");
        assert!(trials[1..].iter().all(|ids| (8..=11).contains(&ids.len())), "{trials:?}");
        let result = |data: &RunData, i: usize| data.points[i].point.result.clone().expect("it is complete");
        let capacity = &result(&whole, 2).procedures[0];
        assert_eq!(capacity.procedure, "capacity");
        // On a machine that others keep busy no round may find a rate, and then it says so.
        let found = capacity.figures.first().and_then(|figure| figure.value);
        assert!(found.map_or(!capacity.irregular.is_empty(), |fps| fps > 0.0), "{capacity:?}");

        // One point was finished: the other is still compared with it.
        kept.cut("UPDATE points SET result = NULL WHERE id = 3");
        let (announced, resumed) = kept.resume();
        assert_eq!((announced, result(&resumed, 2)), (0, result(&whole, 2)));

        // In the middle of the rounds.
        let last = trials[2][trials[2].len() - 3];
        let cut = kept.cut(&format!(
            "DELETE FROM trials WHERE id >= {last}; UPDATE points SET result = NULL WHERE id > 1"
        ));
        let (_, resumed) = kept.resume();
        assert_eq!(resumed.run.state, RunState::Complete);
        for (before, after) in cut.points.iter().zip(&resumed.points) {
            assert_eq!(after.trials[..before.trials.len()], before.trials[..]);
        }
        assert!(of_capacity(&resumed)[1..].iter().all(|ids| (8..=11).contains(&ids.len())));
    });
}
