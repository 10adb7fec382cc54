//! Programs that a test waits for: one that does not come to an end is killed, so that the test fails and says where.

use std::io::{self, BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Longer than any of them takes on a loaded machine: one that still runs then is not coming to an end.
const LONGEST: Duration = Duration::from_secs(600);

/// Watches a program until it is dropped, which is after the program has been waited for.
#[derive(Debug)]
pub struct Watch {
    _over: Sender<()>,
}

impl Watch {
    /// Begins to watch.
    pub fn new(child: &Child) -> Watch {
        let (_over, ended) = channel();
        let pid = Pid::from_child(child);
        std::thread::spawn(move || {
            if ended.recv_timeout(LONGEST) == Err(RecvTimeoutError::Timeout) {
                eprintln!("process {pid:?} has not ended in {LONGEST:?}: it is killed");
                let _ = kill_process(pid, Signal::KILL);
            }
        });
        Watch { _over }
    }
}

/// Runs a program to its end, without input.
///
/// # Errors
/// It does not start.
pub fn output(command: &mut Command) -> io::Result<Output> {
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let _watch = Watch::new(&child);
    child.wait_with_output()
}

/// A program that is at work, until the test is over. What it says on standard error is always taken, so that it never waits
/// for the reader of the test; its output is read line by line.
#[derive(Debug)]
pub struct Started {
    /// The process: its input, if it has any.
    pub child: Child,
    lines: BufReader<ChildStdout>,
    words: Receiver<String>,
    said: String,
    _watch: Watch,
}

/// The outcome of a program that has ended.
#[derive(Debug)]
pub struct Ended {
    /// Its exit code; `None`: a signal has ended it.
    pub code: Option<i32>,
    /// All that it said beside its output.
    pub said: String,
    /// The last JSON of its output.
    pub result: Value,
}

impl Started {
    /// Starts a command, whose output is taken here.
    pub fn new(mut command: Command) -> Started {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Started::of(command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}")))
    }

    /// The same of one that has been started with pipes behind its output and its errors.
    pub fn of(mut child: Child) -> Started {
        let lines = BufReader::new(child.stdout.take().expect("a pipe"));
        let (say, words) = channel();
        let mut errors = BufReader::new(child.stderr.take().expect("a pipe"));
        std::thread::spawn(move || {
            let mut line = Vec::new();
            while errors.read_until(b'\n', &mut line).is_ok_and(|bytes| bytes > 0) {
                let _ = say.send(String::from_utf8_lossy(&line).into_owned());
                line.clear();
            }
        });
        Started { _watch: Watch::new(&child), child, lines, words, said: String::new() }
    }

    /// The number of its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns when it has said this on standard error, or had said it before.
    pub fn await_words(&mut self, words: &str) {
        while !self.said.contains(words) {
            let line = self.words.recv().unwrap_or_else(|_| panic!("no `{words}` in: {}", self.said));
            self.said.push_str(&line);
        }
    }

    /// The next line of its output.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        if self.lines.read_line(&mut line).unwrap() == 0 {
            self.said.extend(self.words.iter());
            panic!("its output has ended: {}", self.said);
        }
        line
    }

    /// The next line of its output, which is JSON behind this word.
    pub fn json<T: serde::de::DeserializeOwned>(&mut self, word: &str) -> T {
        let line = self.line();
        let rest = line.strip_prefix(word).unwrap_or_else(|| panic!("{word} expected: {line}"));
        serde_json::from_str(rest).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    /// Sends it a signal, by its number.
    pub fn signal(&self, signal: i32) {
        let signal = Signal::from_named_raw(signal).expect("a signal");
        kill_process(Pid::from_child(&self.child), signal).expect("it has not been waited for");
    }

    /// Ends it as Ctrl-C does.
    pub fn interrupt(self) -> Ended {
        self.signal(Signal::INT.as_raw());
        self.end()
    }

    /// Waits until it ends by itself, or because its input has ended.
    pub fn end(mut self) -> Ended {
        drop(self.child.stdin.take());
        let mut text = String::new();
        self.lines.read_to_string(&mut text).unwrap();
        self.said.extend(self.words.iter());
        let code = self.child.wait().unwrap().code();
        let documents = serde_json::Deserializer::from_str(&text).into_iter();
        let documents = documents.map(|one| one.unwrap_or_else(|error| panic!("{error}: {text}")));
        Ended { code, said: std::mem::take(&mut self.said), result: documents.last().unwrap_or_default() }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // It has ended already unless the test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_heard_and_ended() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo begun >&2; echo 'now {\"a\": 1}'; printf '2\\n3\\n'; exec sleep 1000"]);
        let mut started = Started::new(command);
        started.await_words("begun");
        assert_eq!(started.json::<Value>("now ")["a"], 1);
        assert_eq!(started.line(), "2\n");
        started.signal(Signal::KILL.as_raw());
        let ended = started.end();
        assert_eq!((ended.code, ended.result, ended.said.as_str()), (None, 3.into(), "begun\n"));
    }

    #[test]
    #[should_panic(expected = "its output has ended: why")]
    fn a_program_that_says_nothing_is_shown_with_its_errors() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo why >&2"]);
        Started::new(command).line();
    }
}
