//! Runs of plans that ship, for tests.

use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use weir_load::TesterKind;

use crate::PLANS;
use weir_lab::engine;
use weir_lab::run::{Event, Options};
use weir_record::run_data::RunData;
use weir_record::store::RunLog;

/// Runs a plan with these options; what was measured, and what the user was shown.
pub(crate) fn run(name: &str, sets: &[&str]) -> (RunData, Vec<String>) {
    let plan = PLANS.load(name, &sets.iter().map(ToString::to_string).collect::<Vec<_>>()).unwrap();
    let notes = Mutex::new(Vec::new());
    let observe = |event: Event| {
        if let Event::Note(note) = event {
            notes.lock().unwrap().push(note.to_string());
        }
    };
    let options = Options {
        seed: 7,
        tester: TesterKind::Xdp,
        tester_limits: Vec::new(),
        stop: &AtomicBool::new(false),
        observe: &observe,
    };
    let log = RunLog::in_memory();
    let run = engine::run(&plan, &log, &options).unwrap();
    let data = log.archive().run_data(run).unwrap();
    (data, notes.into_inner().unwrap())
}
