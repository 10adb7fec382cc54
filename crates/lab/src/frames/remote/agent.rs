//! The remote side: `weir port-agent`, which serves requests and ends with its input.

use std::io::{BufRead, Write, stdin, stdout};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use serde::Serialize;
use weir_linux::cpu::ThreadTimes;
use weir_linux::namespace::Namespace;
use weir_load::counts::{Load, Traffic};
use weir_load::xdp::pin_to;
use weir_load::{Control, Tester, TesterKind, soon_ns};
use weir_port::bpf::now_ns;
use weir_testbed::cpu::{CpuPlan, DutCpus};
use weir_testbed::error::Error;
use weir_testbed::external::{NearEnd, PortEnd};
use weir_testbed::journal;

use super::{Fired, Hello, Opening, Reply, Request, SILENCE, VERSION};
use crate::error::RunError;
use crate::frames::outside::{self, Seat};
use crate::frames::setup;
use crate::machine;

/// Time between two looks at how long nothing was heard.
const LOOK: Duration = Duration::from_secs(1);

/// Serves until its input is closed, or nothing is heard for [`SILENCE`]: then the process ends at once, and what it
/// holds ends with it.
///
/// # Errors
/// What a process that was killed has left behind could not be undone, or there are no namespaces here.
pub fn serve() -> Result<(), Error> {
    journal::clean(&journal::default_dir())?;
    say(Ok(Hello { weir: VERSION.into(), machine: machine::gather() }));
    let stop = Arc::new(AtomicBool::new(false));
    let (requests, queue) = channel();
    let heard_ns = Arc::new(AtomicU64::new(now_ns()));
    thread::spawn({
        let (stop, heard_ns) = (stop.clone(), heard_ns.clone());
        move || {
            read(&requests, &stop, &heard_ns);
            std::process::exit(0)
        }
    });
    thread::spawn(move || {
        while now_ns().saturating_sub(heard_ns.load(Ordering::Relaxed)) < SILENCE.as_nanos() as u64 {
            thread::sleep(LOOK);
        }
        std::process::exit(1)
    });
    let here = Namespace::current()?;
    Agent { here, idle: Namespace::new()?, end: None, tester: None, load: None, stop }.serve(&queue);
    Ok(())
}

/// Passes on what is to be done alternately, and does at once what is not.
fn read(requests: &Sender<Request>, stop: &AtomicBool, heard_ns: &AtomicU64) {
    for line in stdin().lock().lines().map_while(Result::ok) {
        heard_ns.store(now_ns(), Ordering::Relaxed);
        match serde_json::from_str(&line) {
            Ok(Request::Alive) => {}
            Ok(Request::Stop) => stop.store(true, Ordering::Relaxed),
            Ok(request) => {
                if requests.send(request).is_err() {
                    return;
                }
            }
            Err(error) => say::<()>(Err(format!("`{line:.80}` is no request: {error}"))),
        }
    }
}

/// What the agent has.
struct Agent {
    here: Namespace,
    idle: Namespace,
    end: Option<NearEnd>,
    tester: Option<Tester>,
    /// Of the trial that goes on.
    load: Option<Load>,
    stop: Arc<AtomicBool>,
}

impl Agent {
    fn serve(mut self, queue: &Receiver<Request>) {
        for request in queue {
            match request {
                Request::Alive | Request::Stop => {}
                Request::Open(opening) => say(words(self.open(&opening))),
                Request::Resolve { from, target } => {
                    say(words(self.end().and_then(|end| Ok(end.resolve(from, target)?))));
                }
                Request::Tester { kind, traffic } => say(words(self.open_tester(kind, &traffic))),
                Request::Counters => say(words(self.end().and_then(|end| Ok(end.counters()?)))),
                Request::Clock => say(Ok(now_ns())),
                Request::Arm { load, epoch } => say(words(self.arm(load, epoch))),
                Request::Send { at_ns } => say(words(self.send(at_ns))),
                Request::Settle(sent) => {
                    let stop = self.stop.clone();
                    say(words(self.trial().and_then(|(tester, load)| {
                        Ok(tester.settle(&load, sent, &Control::new(&stop, &|_, _| {}))?)
                    })));
                }
            }
        }
    }

    fn open(&mut self, opening: &Opening) -> Result<[u8; 6], RunError> {
        outside::check_port(&opening.port, opening.frame_bytes, opening.allow_default_route)?;
        let end = NearEnd::open(&opening.port, &[opening.address], &self.here)?;
        let mac = end.port().mac;
        self.end = Some(end);
        Ok(mac)
    }

    fn open_tester(&mut self, kind: TesterKind, traffic: &Traffic) -> Result<Vec<String>, RunError> {
        let port = self.end()?.port();
        let seat = Seat { ifindex: [0, port.ifindex], names: vec![port.ifname], idle: &self.idle };
        let mut notes = Vec::new();
        self.tester = Some(outside::open_tester(&seat, kind, traffic, &mut notes)?);
        Ok(notes)
    }

    fn arm(&mut self, load: Load, epoch: u8) -> Result<(), RunError> {
        self.stop.store(false, Ordering::Relaxed);
        self.load = Some(load);
        let (tester, load) = self.trial()?;
        Ok(tester.arm(&load, epoch)?)
    }

    fn send(&mut self, at_ns: Option<u64>) -> Result<Fired, RunError> {
        let cpu = CpuPlan::choose(DutCpus::All)?.tester[0];
        let placed = pin_to(cpu);
        debug_assert!(placed.is_ok(), "{placed:?}");
        let stop = self.stop.clone();
        let (tester, load) = self.trial()?;
        let before: ThreadTimes = setup::own_times();
        // Where the word came late, the start is late.
        let at_ns = at_ns.unwrap_or(0).max(soon_ns());
        let sent = tester.send(&load, at_ns, &Control::new(&stop, &|_, _| {}))?;
        Ok(Fired { sent, at_ns, wait_ns: setup::own_times().since(&before).wait_ns })
    }

    fn end(&self) -> Result<&NearEnd, RunError> {
        self.end.as_ref().ok_or_else(|| out_of_turn("an interface"))
    }

    fn trial(&mut self) -> Result<(&mut Tester, Load), RunError> {
        let tester = self.tester.as_mut().ok_or_else(|| out_of_turn("a tester"))?;
        Ok((tester, self.load.ok_or_else(|| out_of_turn("a load"))?))
    }
}

fn out_of_turn(what: &str) -> RunError {
    Error::Input(format!("this request comes before there is {what}")).into()
}

fn words<T>(result: Result<T, RunError>) -> Result<T, String> {
    result.map_err(|error| error.to_string())
}

/// Writes a line. An error is ignored: if the peer has gone, the input ends, too.
fn say<T: Serialize>(result: Result<T, String>) {
    let reply = match result {
        Ok(value) => Reply::Done(value),
        Err(why) => Reply::Failed(why),
    };
    let mut line = serde_json::to_vec(&reply).expect("replies are plain data");
    line.push(b'\n');
    let mut out = stdout().lock();
    let _ = out.write_all(&line).and_then(|()| out.flush());
}
