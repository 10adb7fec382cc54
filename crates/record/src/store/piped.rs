//! An archive of another process, over two pipes: one line of JSON for each question and each answer.
//!
//! ```text
//! PipedArchive > {"run_data":{"run":"..."}}  > answer > Archive
//!              < {"ok":{"run":{..},..}}      <
//!              < {"error":"there is no ..."} <
//! ```
//! The client of a database server then stays out of the programs that only ask it.

use std::cell::RefCell;
use std::io::{BufRead, BufWriter, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{Archive, StoreError};
use crate::record::{Point, PointKey, Run, RunId, RunSummary, Trial};
use crate::run_data::RunData;

/// Parts of an answer, bytes: the size of a pipe.
const PART_BYTES: usize = 64 << 10;

/// A call of [`Archive`].
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Question {
    Damaged,
    Runs,
    List,
    OfPlan { plan: String },
    Numbered { number: i64 },
    Newest,
    Run { run: RunId },
    Points { run: RunId },
    Trials { run: RunId, index: usize },
    RunData { run: RunId },
}

/// What it returned.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer<T> {
    Ok(T),
    Error(String),
}

/// Answers questions until they end. An archive that could not be opened answers each with the reason.
///
/// # Errors
/// The pipe is closed, or a line is no question.
pub fn answer<A: Archive + ?Sized>(
    archive: &Result<Box<A>, StoreError>,
    questions: impl BufRead,
    mut answers: impl Write,
) -> std::io::Result<()> {
    for line in questions.lines() {
        let question = serde_json::from_str(&line?)?;
        match archive {
            Ok(archive) => returned(&**archive, question, &mut answers)?,
            Err(error) => write(&mut answers, Err::<(), _>(StoreError::Answered(error.to_string())))?,
        }
        answers.write_all(b"\n")?;
        answers.flush()?;
    }
    Ok(())
}

fn returned<A: Archive + ?Sized>(
    archive: &A,
    question: Question,
    answers: &mut impl Write,
) -> std::io::Result<()> {
    match question {
        Question::Damaged => write(answers, Ok(archive.damaged())),
        Question::Runs => write(answers, archive.runs()),
        Question::List => write(answers, archive.list()),
        Question::OfPlan { plan } => write(answers, archive.of_plan(&plan)),
        Question::Numbered { number } => write(answers, archive.numbered(number)),
        Question::Newest => write(answers, archive.newest()),
        Question::Run { run } => write(answers, archive.run(run)),
        Question::Points { run } => write(answers, archive.points(run)),
        Question::Trials { run, index } => write(answers, archive.trials(PointKey { run, index })),
        Question::RunData { run } => write(answers, archive.run_data(run)),
    }
}

/// Writes what a call returned. A list of many runs goes to the pipe in large parts, without a copy of it as JSON values.
fn write<T: Serialize>(answers: &mut impl Write, returned: Result<T, StoreError>) -> std::io::Result<()> {
    let answer = returned.map_or_else(|error| Answer::Error(error.to_string()), Answer::Ok);
    let mut answers = BufWriter::with_capacity(PART_BYTES, answers);
    serde_json::to_writer(&mut answers, &answer)?;
    answers.flush()
}

/// The archive of another process, as long as that process runs.
pub struct PipedArchive {
    pipes: RefCell<(Box<dyn Write>, Box<dyn BufRead>)>,
}

impl PipedArchive {
    /// Asks by the first pipe, and reads answers from the second one.
    pub fn over(questions: Box<dyn Write>, answers: Box<dyn BufRead>) -> PipedArchive {
        PipedArchive { pipes: RefCell::new((questions, answers)) }
    }

    fn ask<T: DeserializeOwned>(&self, question: &Question) -> Result<T, StoreError> {
        let ended = |error: &dyn std::fmt::Display| {
            StoreError::Answered(format!("the program that reads the archive has ended: {error}"))
        };
        let (questions, answers) = &mut *self.pipes.borrow_mut();
        let line =
            serde_json::to_string(question).map_err(|error| StoreError::Answered(error.to_string()))?;
        writeln!(questions, "{line}").and_then(|()| questions.flush()).map_err(|error| ended(&error))?;
        let mut line = String::new();
        answers.read_line(&mut line).map_err(|error| ended(&error))?;
        match serde_json::from_str(&line) {
            Ok(Answer::Ok(value)) => Ok(value),
            Ok(Answer::Error(text)) => Err(StoreError::Answered(text)),
            Err(error) => Err(ended(&error)),
        }
    }
}

impl Archive for PipedArchive {
    fn damaged(&self) -> Vec<String> {
        self.ask(&Question::Damaged).unwrap_or_default()
    }

    fn runs(&self) -> Result<Vec<Run>, StoreError> {
        self.ask(&Question::Runs)
    }

    fn list(&self) -> Result<Vec<RunSummary>, StoreError> {
        self.ask(&Question::List)
    }

    fn of_plan(&self, plan: &str) -> Result<Vec<(Run, Vec<Point>)>, StoreError> {
        self.ask(&Question::OfPlan { plan: plan.into() })
    }

    fn numbered(&self, number: i64) -> Result<RunId, StoreError> {
        self.ask(&Question::Numbered { number })
    }

    fn newest(&self) -> Result<Option<RunId>, StoreError> {
        self.ask(&Question::Newest)
    }

    fn run(&self, run: RunId) -> Result<Run, StoreError> {
        self.ask(&Question::Run { run })
    }

    fn points(&self, run: RunId) -> Result<Vec<Point>, StoreError> {
        self.ask(&Question::Points { run })
    }

    fn trials(&self, PointKey { run, index }: PointKey) -> Result<Vec<Trial>, StoreError> {
        self.ask(&Question::Trials { run, index })
    }

    fn run_data(&self, run: RunId) -> Result<RunData, StoreError> {
        self.ask(&Question::RunData { run })
    }

    fn put(&self, _: &RunData) -> Result<i64, StoreError> {
        Err(StoreError::Answered("this archive is only read: `weir push` adds runs to it".into()))
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufReader, pipe};

    use super::*;
    use crate::store::{SqliteArchive, contract};
    use weir_testkit::Folder;

    /// The archive that a thread answers for.
    fn piped(archive: Result<Box<SqliteArchive>, StoreError>) -> PipedArchive {
        let [(asked, questions), (answers, answered)] = [pipe(), pipe()].map(|pipe| pipe.expect("a pipe"));
        std::thread::spawn(move || answer(&archive, BufReader::new(asked), answered));
        PipedArchive::over(Box::new(questions), Box::new(BufReader::new(answers)))
    }

    #[test]
    fn it_keeps_what_each_archive_promises() {
        for (name, check) in contract::ALL {
            println!("{name}");
            let folder = Folder::new();
            let [file, same] =
                [(); 2].map(|()| SqliteArchive::open(&folder.join("records.db")).expect("a file"));
            check(&piped(Ok(Box::new(same))), &file);
        }
    }

    #[test]
    fn an_archive_that_could_not_be_opened_says_why() {
        let archive =
            piped(Err(StoreError::Server { archive: "postgres://a/b".into(), what: "down".into() }));
        assert_eq!(archive.runs().unwrap_err().to_string(), "archive postgres://a/b: down");
    }

    #[test]
    fn a_program_that_has_ended_is_an_error() {
        let [(asked, questions), (answers, _)] = [pipe(), pipe()].map(|pipe| pipe.expect("a pipe"));
        drop(asked);
        let archive = PipedArchive::over(Box::new(questions), Box::new(BufReader::new(answers)));
        assert!(archive.newest().unwrap_err().to_string().contains("has ended"));
    }
}
