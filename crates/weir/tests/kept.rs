//! A store with invented runs.

use std::process::{Command, Output};

use serde_json::json;
use weir_record::record::{Point, PointResult, Run, RunState};
use weir_record::store::{SqliteStore, Store};
use weir_testkit::{Folder, check_session, output};

use crate::weir::WEIR;

/// A store of its own, gone after the test.
pub(crate) struct Kept {
    /// It is in here, and commands run here.
    pub(crate) folder: Folder,
    store: SqliteStore,
    plan: &'static str,
}

impl Kept {
    /// An empty one for runs of this plan.
    pub(crate) fn new(plan: &'static str) -> Kept {
        let folder = Folder::new();
        let store = SqliteStore::open(&folder.join("records.db")).expect("a store");
        Kept { folder, store, plan }
    }

    /// A complete run with a rate of about `fps` at one point, on day `day` of a month.
    pub(crate) fn run(&self, day: u32, fps: f64) {
        self.run_of(self.plan, day, fps);
    }

    /// A run that has failed before anything was measured.
    pub(crate) fn failed_run(&self, day: u32) {
        let id = self.store.begin_run(&run(self.plan, day)).expect("kept");
        self.store.finish_run(id, RunState::Failed, &format!("2026-03-{day:02}T10:10:00Z")).expect("kept");
    }

    /// A complete run of another point.
    pub(crate) fn run_at(&self, day: u32, device: &str, fps: f64) {
        let id = self.store.begin_run(&run(self.plan, day)).expect("kept");
        let (device, other) = (device.to_string(), point(id));
        let settings = vec![("dut".to_string(), device.clone())];
        let point = self.store.add_point(&Point { dut: device, settings, ..other }).expect("kept");
        self.store.finish_point(point, &result(fps)).expect("kept");
        self.store.finish_run(id, RunState::Complete, &format!("2026-03-{day:02}T10:10:00Z")).expect("kept");
    }

    /// The same as [`Kept::run`], of this plan.
    pub(crate) fn run_of(&self, plan: &str, day: u32, fps: f64) {
        let id = self.store.begin_run(&run(plan, day)).expect("kept");
        let point = self.store.add_point(&point(id)).expect("kept");
        self.store.finish_point(point, &result(fps)).expect("kept");
        self.store.finish_run(id, RunState::Complete, &format!("2026-03-{day:02}T10:10:00Z")).expect("kept");
    }

    /// Closes the store, whose file stays in its folder.
    pub(crate) fn close(self) -> Folder {
        self.folder
    }

    /// Runs `weir LINE` to its end.
    pub(crate) fn weir(&self, line: &str) -> Output {
        let mut command = Command::new(WEIR);
        command.args(line.split_whitespace()).env("WEIR_STORE", self.folder.join("records.db"));
        output(command.current_dir(&self.folder)).expect("weir starts")
    }

    /// Commands of weir, and all that is said to them.
    pub(crate) fn check(&self, session: &str) {
        check_session(session, &self.folder, |line| {
            let output = self.weir(line);
            let plain = String::from_utf8_lossy(&output.stdout).replace('\u{202f}', " ");
            Output { stdout: plain.into_bytes(), ..output }
        });
    }

    /// What a command says on standard output, and its exit code.
    pub(crate) fn said(&self, line: &str) -> (String, Option<i32>) {
        let output = self.weir(line);
        (String::from_utf8(output.stdout).expect("text").replace('\u{202f}', " "), output.status.code())
    }
}

// Records are made from JSON: fields that are added later have their defaults.

fn run(plan: &str, day: u32) -> Run {
    serde_json::from_value(json!({
        "id": 0, "plan": plan, "question": "How fast?", "plan_toml": "question = \"How fast?\"\n",
        "started": format!("2026-03-{day:02}T10:00:00Z"), "finished": null, "state": "running", "seed": 1,
        "version": "0.1.0", "deviations": [],
        "machine": {
            "cpu": "Example 9000", "cpus": 2, "kernel": "6.18", "os": "Debian", "memory_bytes": 1 << 30, "facts": [],
        },
        "tester": { "generator": "xdp-live-frames", "receiver": "xdp", "cpus": [0], "limits": [] },
    }))
    .expect("a record")
}

fn point(run_id: i64) -> Point {
    serde_json::from_value(json!({
        "id": 0, "run_id": run_id, "index": 0, "settings": [["dut", "kernel-forward"], ["frame_bytes", "64"]],
        "dut": "kernel-forward", "frame": "64", "frame_bytes_mean": 64.0, "cpus": [1], "cpus_shared": [],
        "line_fps": null, "result": null,
    }))
    .expect("a record")
}

fn result(fps: f64) -> PointResult {
    let value = |factor: f64| {
        let fps = fps * factor;
        json!({ "fps": fps, "lower_fps": fps, "upper_fps": fps * 1.005, "irregular": null, "trials": 30, "trial_s": 30.0 })
    };
    let repetitions = [0.99, 0.995, 1.0, 1.004, 1.01].map(value);
    serde_json::from_value(json!({
        "search": "mlrsearch",
        "goals": [{
            "goal": "NDR", "parameters": [["loss ratio", "0 %"]],
            "repetitions": repetitions,
            "fps_median": fps, "fps_interval": [fps * 0.99, fps * 1.01],
        }],
    }))
    .expect("a record")
}
