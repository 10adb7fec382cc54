//! A store with invented runs.

use std::process::{Command, Output};

use serde_json::json;
use weir_record::record::{Point, PointResult, Run, RunId, RunState};
use weir_record::store::RunLog;
use weir_testkit::{Folder, check_session, output};

use crate::weir::WEIR;

/// A file of records of its own, gone after the test.
pub(crate) struct Kept {
    /// It is in here, and commands run here.
    pub(crate) folder: Folder,
    log: RunLog,
    plan: &'static str,
}

impl Kept {
    /// An empty one for runs of this plan.
    pub(crate) fn new(plan: &'static str) -> Kept {
        let folder = Folder::new();
        let log = RunLog::open(&folder.join("records.db")).expect("a log");
        Kept { folder, log, plan }
    }

    /// A complete run with a rate of about `fps` at one point, on day `day` of a month.
    pub(crate) fn run(&self, day: u32, fps: f64) {
        self.run_of(self.plan, day, fps);
    }

    /// A run that has failed before anything was measured.
    pub(crate) fn failed_run(&self, day: u32) {
        self.keep(&run(self.plan, day), None, RunState::Failed);
    }

    /// A complete run of another point.
    pub(crate) fn run_at(&self, day: u32, device: &str, fps: f64) {
        let settings = vec![("dut".to_string(), device.to_string())];
        let point = Point { dut: device.into(), settings, ..point() };
        self.keep(&run(self.plan, day), Some((point, fps)), RunState::Complete);
    }

    /// The same as [`Kept::run`], of this plan.
    pub(crate) fn run_of(&self, plan: &str, day: u32, fps: f64) {
        self.keep(&run(plan, day), Some((point(), fps)), RunState::Complete);
    }

    fn keep(&self, run: &Run, point: Option<(Point, f64)>, state: RunState) {
        let number = self.log.archive().runs().expect("it can be read").len() + 1;
        let uuid = RunId::try_from(format!("00000000-0000-4000-8000-{number:012}")).expect("a UUID");
        let run = &Run { uuid, ..run.clone() };
        self.log.begin(run).expect("kept");
        if let Some((point, fps)) = point {
            self.log.add_point(run.uuid, &point).expect("kept");
            self.log.finish_point(point.key(run.uuid), &result(fps)).expect("kept");
        }
        self.log.finish_run(run.uuid, state, &run.started.replace("10:00", "10:10")).expect("kept");
    }

    /// Closes the file, which stays in its folder.
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

fn point() -> Point {
    serde_json::from_value(json!({
        "id": 0, "run_id": 0, "index": 0, "settings": [["dut", "kernel-forward"], ["frame_bytes", "64"]],
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
