//! `weir` as a test runs it: to its end, or until it says that it is ready.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStderr, ChildStdout, Command, Output, Stdio};

use serde_json::Value;
use weir_testbed::namespace::Namespace;

use crate::watchdog::{self, Watch};

/// The program.
pub(crate) const WEIR: &str = env!("CARGO_BIN_EXE_weir");

/// Runs `weir LINE` to its end.
pub(crate) fn run(namespace: &Namespace, line: &str) -> Output {
    let mut command = Command::new(WEIR);
    namespace.run(|| watchdog::output(command.args(line.split_whitespace()))).unwrap()
}

/// `weir LINE` is refused with these words.
pub(crate) fn refused(namespace: &Namespace, line: &str, message: &str) {
    let output = run(namespace, line);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{line}: {said}");
    assert!(said.contains(message), "{line}: {said}\nexpected: {message}");
}

/// A `weir` that is at work, until the test is over.
pub(crate) struct Started {
    child: Child,
    lines: BufReader<ChildStdout>,
    words: BufReader<ChildStderr>,
    said: String,
    _watch: Watch,
}

/// What became of it.
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    /// All that it said beside its output.
    pub(crate) said: String,
    /// The last JSON of its output.
    pub(crate) result: Value,
}

impl Started {
    /// Starts `weir LINE`, and returns when it has said that it is `ready`.
    pub(crate) fn new(namespace: &Namespace, line: &str, ready: &str) -> Started {
        Started::by(Command::new(WEIR), namespace, line, ready)
    }

    /// The same, run by a command that takes its words.
    pub(crate) fn by(mut command: Command, namespace: &Namespace, line: &str, ready: &str) -> Started {
        command.args(line.split_whitespace()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = namespace.run(|| command.spawn()).unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        let words = BufReader::new(child.stderr.take().unwrap());
        let _watch = Watch::new(&child);
        let mut started = Started { child, lines, words, said: String::new(), _watch };
        started.await_words(ready);
        started
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns when it has said this, or had said it before.
    pub(crate) fn await_words(&mut self, words: &str) {
        while !self.said.contains(words) {
            assert_ne!(self.words.read_line(&mut self.said).unwrap(), 0, "no `{words}` in: {}", self.said);
        }
    }

    /// The next line of its output.
    pub(crate) fn line(&mut self) -> Value {
        let mut line = String::new();
        assert_ne!(self.lines.read_line(&mut line).unwrap(), 0, "its output has ended");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    pub(crate) fn signal(&self, signal: i32) {
        // SAFETY: a child that has not been waited for.
        assert_eq!(unsafe { libc::kill(self.child.id() as i32, signal) }, 0);
    }

    /// Ends it as Ctrl-C does.
    pub(crate) fn interrupt(self) -> Ended {
        self.signal(libc::SIGINT);
        self.end()
    }

    /// Waits until it ends by itself.
    pub(crate) fn end(mut self) -> Ended {
        let mut text = String::new();
        self.lines.read_to_string(&mut text).unwrap();
        self.words.read_to_string(&mut self.said).unwrap();
        let code = self.child.wait().unwrap().code();
        let said = std::mem::take(&mut self.said);
        let documents = serde_json::Deserializer::from_str(&text).into_iter();
        let documents = documents.map(|one| one.unwrap_or_else(|error| panic!("{error}: {text}")));
        Ended { code, said, result: documents.last().unwrap_or_default() }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // It has ended already unless the test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
