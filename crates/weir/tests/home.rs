//! A home for runs of a test: their plans, records and journals, gone after the test.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use weir_testkit::{Folder, check_session, output};

use crate::weir::WEIR;

/// A separate home folder, removed after the test.
pub(crate) struct Home(Folder);

impl Home {
    /// A home with these plans: name and text.
    pub(crate) fn new(plans: &[(&str, &str)]) -> Home {
        let home = Home(Folder::for_all());
        for (name, text) in plans {
            home.0.file(name, text);
        }
        home
    }

    /// A file in this home.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// `WORDS ARGUMENTS` with the files of this home.
    pub(crate) fn command(&self, words: &[&str], arguments: &[&str]) -> Command {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).args(arguments).current_dir(&self.0);
        command.env("HOME", &self.0).env_remove("WEIR_STORE");
        command.env("XDG_STATE_HOME", self.path("state")).env("XDG_DATA_HOME", self.path("data"));
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs the shipped plan of an experiment, its section changed by these options, without a report; what it says. On a busy
    /// machine a trial may be none.
    pub(crate) fn experiment(&self, plan: &str, section: &str, options: &[&str], more: &[&str]) -> String {
        let sets: Vec<String> = options.iter().map(|option| format!("--set={section}.{option}")).collect();
        let mut arguments = vec!["run", plan, "--no-report"];
        arguments.extend(more);
        arguments.extend(sets.iter().map(String::as_str));
        let run = self.weir(&arguments);
        let said = String::from_utf8_lossy(&run.stderr).into_owned();
        assert!(matches!(run.status.code(), Some(0 | 3)), "{said}");
        said.lines().filter(|line| line.contains("left out: ")).for_each(|line| println!("skipped: {line}"));
        said
    }

    /// Runs weir to its end.
    pub(crate) fn weir(&self, arguments: &[&str]) -> Output {
        output(&mut self.command(&[WEIR], arguments)).expect("weir starts")
    }

    /// Commands of weir, and all that is said to them.
    pub(crate) fn check(&self, session: &str) {
        check_session(session, &self.0, |line| self.weir(&line.split(' ').collect::<Vec<_>>()));
    }

    /// The newest run, as JSON.
    pub(crate) fn record(&self) -> Value {
        let output = self.weir(&["show", "last", "--json"]);
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
    }
}

/// All trials of a run.
pub(crate) fn trials(record: &Value) -> Vec<&Value> {
    let points = record["points"].as_array().expect("points");
    points.iter().flat_map(|point| point["trials"].as_array().expect("trials")).collect()
}
