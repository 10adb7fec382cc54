//! The test bed of a delivery: a namespace with only a loopback, and the processes of a trial.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use weir_linux::Error;
use weir_linux::namespace::Namespace;
use weir_mail::command::{self, DONE, READY};
use weir_mail::engine::Report;
use weir_mail::flood::Taken;
use weir_mail::sink;
use weir_mail::{dns, engine};
use weir_testbed::journal::{EntryId, Journal};

use super::case::{Case, PORT};
use super::peers;
use super::plan::{Mail, MailPeer};
use super::result::Delivered;
use weir_lab::error::RunError;
use weir_lab::run::folder::Folder;
use weir_lab::run::process::Failed;

/// Time limit for another program to accept connections.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(10);

/// Settings of the namespace: a queue as long as was asked for, and all ports.
const SETTINGS: [(&str, &str); 2] = [("core/somaxconn", "65535"), ("ipv4/ip_local_port_range", "1024 65535")];

/// The place.
pub(super) struct Bench {
    namespace: Namespace,
    folder: Folder,
}

impl Bench {
    pub(super) fn new() -> Result<Bench, RunError> {
        let namespace = Namespace::new()?;
        namespace.run(|| {
            SETTINGS.iter().try_for_each(|(name, value)| {
                let path = format!("/proc/sys/net/{name}");
                fs::write(&path, value).map_err(Error::os(format!("write {path}")))
            })
        })?;
        let within = std::env::temp_dir();
        let what = format!("create a folder in {}; choose another one with TMPDIR", within.display());
        let folder = Folder::new(&within).map_err(Error::os(what))?;
        Ok(Bench { namespace, folder })
    }

    /// One trial.
    pub(super) fn trial(&self, mail: &Mail, case: Case, journal: &mut Journal) -> Result<Delivered, Failed> {
        let mut delivered = self.namespace.run(|| match case {
            Case::Capacity => self.capacity(mail, journal),
            Case::Ramp(_) | Case::Whole => self.delivery(mail, case, journal),
            Case::Pair(sender, receiver) => self.pair(mail, (sender, receiver), journal),
        })?;
        delivered.threads = mail.threads;
        delivered.cpus = thread::available_parallelism().map_or(1, Into::into);
        Ok(delivered)
    }

    /// A process of weir; `name` is that of the file with its errors.
    fn weir(&self, command: Command, name: &str, journal: &mut Journal) -> Result<Helper, Failed> {
        Helper::start(command, &self.folder.path().join(name), journal)
    }

    fn receivers(&self, mail: &Mail, case: Case, journal: &mut Journal) -> Result<Helper, Failed> {
        let mut sink = self.weir(command::sink(&weir(), &mail.service(case)), "sink", journal)?;
        let listening: sink::Listening = sink.await_line(READY)?;
        match listening.descriptors.lacking() {
            Some(why) => Err(Failed::Program(format!("receivers: {why}"))),
            None => Ok(sink),
        }
    }

    fn capacity(&self, mail: &Mail, journal: &mut Journal) -> Result<Delivered, Failed> {
        let sink = self.receivers(mail, Case::Capacity, journal)?;
        let mut flood = self.weir(command::flood(&weir(), &mail.flood()), "flood", journal)?;
        let taken: Taken = flood.await_line(DONE)?;
        flood.end::<()>(journal)?;
        let received = sink.end(journal)?;
        let rate = taken.transactions as f64 / taken.seconds;
        Ok(Delivered { rate, received, ..Delivered::default() })
    }

    fn delivery(&self, mail: &Mail, case: Case, journal: &mut Journal) -> Result<Delivered, Failed> {
        let sink = self.receivers(mail, case, journal)?;
        let mut names = self.weir(command::names(&weir(), &mail.name_server()), "names", journal)?;
        names.await_line::<dns::Listening>(READY)?;
        let report = self.engine(&mail.order(case, sink.child.id()), journal)?;
        names.end::<()>(journal)?;
        let received = sink.end(journal)?;
        Ok(Delivered { rate: rate(&report), report: Some(report), received, ..Delivered::default() })
    }

    fn engine(&self, order: &engine::Order, journal: &mut Journal) -> Result<Report, Failed> {
        let mut engine = self.weir(command::engine(&weir(), order), "engine", journal)?;
        let report = engine.await_line(DONE)?;
        engine.end::<()>(journal)?;
        Ok(report)
    }

    fn pair(
        &self,
        mail: &Mail,
        (sender, receiver): (Option<MailPeer>, Option<MailPeer>),
        journal: &mut Journal,
    ) -> Result<Delivered, Failed> {
        let case = Case::Pair(sender, receiver);
        let server = match receiver {
            None => self.receivers(mail, case, journal)?,
            Some(peer) => {
                let folder = self.folder.path().join("peer");
                let command =
                    peers::receiver(peer, &folder).map_err(|error| Failed::Program(error.to_string()))?;
                let mut server = self.weir(command, "receiver", journal)?;
                server.await_port()?;
                server
            }
        };
        let mut delivered = match sender {
            None => {
                let report = self.engine(&mail.order(case, server.child.id()), journal)?;
                Delivered { rate: rate(&report), report: Some(report), ..Delivered::default() }
            }
            Some(_) => {
                let begin = Instant::now();
                let source = self.weir(peers::sender(mail.peer_messages), "sender", journal)?;
                source.await_end(journal)?;
                let rate = f64::from(mail.peer_messages) / begin.elapsed().as_secs_f64();
                Delivered { rate, ..Delivered::default() }
            }
        };
        match receiver {
            None => delivered.received = server.end(journal)?,
            Some(_) => server.stop(journal)?,
        }
        Ok(delivered)
    }
}

fn rate(report: &Report) -> f64 {
    report.measured.recipients as f64 / report.measured.seconds.max(1e-9)
}

fn weir() -> PathBuf {
    std::env::current_exe().unwrap_or_else(|_| "weir".into())
}

/// A process that is listened to; a server of weir's ends with its standard input.
struct Helper {
    child: Child,
    entry: EntryId,
    said: BufReader<ChildStdout>,
    errors: PathBuf,
}

impl Helper {
    /// Starts it in the namespace of the calling thread.
    fn start(mut command: Command, errors: &Path, journal: &mut Journal) -> Result<Helper, Failed> {
        let file = File::create(errors).map_err(|error| Failed::Program(error.to_string()))?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(file);
        let (mut child, entry) = journal.spawn(&mut command)?;
        let said = BufReader::new(child.stdout.take().expect("it is piped"));
        Ok(Helper { child, entry, said, errors: errors.into() })
    }

    /// Waits for a line that begins so; what follows.
    fn await_line<T: DeserializeOwned>(&mut self, word: &str) -> Result<T, Failed> {
        let mut line = String::new();
        // An error is as good as no line.
        let _ = self.said.read_line(&mut line);
        let text = line.strip_prefix(word).and_then(|rest| serde_json::from_str(rest).ok());
        text.ok_or_else(|| self.failed())
    }

    fn failed(&self) -> Failed {
        let errors = fs::read_to_string(&self.errors).unwrap_or_default();
        let last = errors.lines().rev().find(|line| !line.trim().is_empty());
        Failed::Program(last.unwrap_or("it ended without output").to_string())
    }

    /// Waits until a program accepts connections at the port.
    fn await_port(&mut self) -> Result<(), Failed> {
        let (at, begin) = (SocketAddrV4::new(Ipv4Addr::LOCALHOST, PORT), Instant::now());
        while TcpStream::connect(at).is_err() {
            let ended = !matches!(self.child.try_wait(), Ok(None));
            if ended || begin.elapsed() > PATIENCE {
                return Err(self.failed());
            }
            thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Closes its standard input and waits; what a server of weir's says then, if it is one.
    fn end<T: DeserializeOwned>(mut self, journal: &mut Journal) -> Result<Option<T>, Failed> {
        drop(self.child.stdin.take());
        let mut line = String::new();
        let _ = self.said.read_line(&mut line);
        let _ = self.child.wait();
        journal.undo(self.entry)?;
        Ok(line.strip_prefix(DONE).and_then(|rest| serde_json::from_str(rest).ok()))
    }

    /// Waits for its own end, which is to be a good one.
    fn await_end(mut self, journal: &mut Journal) -> Result<(), Failed> {
        let status = self.child.wait();
        journal.undo(self.entry)?;
        if status.is_ok_and(|status| status.success()) { Ok(()) } else { Err(self.failed()) }
    }

    /// Ends another program with its children, after giving it time to end them.
    fn stop(mut self, journal: &mut Journal) -> Result<(), Failed> {
        // SAFETY: no pointers. The child has not been waited for, so that the number is still its own.
        unsafe { libc::kill(self.child.id() as i32, libc::SIGTERM) };
        let begin = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) && begin.elapsed() < PATIENCE {
            thread::sleep(LOOK);
        }
        journal.undo(self.entry)?;
        let _ = self.child.wait();
        Ok(())
    }
}
