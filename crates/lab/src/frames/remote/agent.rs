//! The remote side: `weir agent tester`, which serves requests and ends with its input.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use weir_agent::serve::{Requests, say};
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

use super::{Fired, Opening, Request};
use crate::error::RunError;
use crate::frames::outside::{self, Seat};
use crate::frames::setup;
use crate::machine;

/// Serves until its input is closed, or nothing is heard for [`SILENCE`](weir_agent::protocol::SILENCE): then the process ends at
/// once, and what it holds ends with it.
///
/// # Errors
/// What a process that was killed has left behind could not be undone, or there are no namespaces here.
pub fn serve() -> Result<(), Error> {
    journal::clean(&journal::default_dir())?;
    let requests = Requests::open(machine::gather());
    let stop = requests.stop().clone();
    let here = Namespace::current()?;
    let mut agent = Agent { here, idle: Namespace::new()?, end: None, tester: None, load: None, stop };
    requests.for_each(|request| agent.answer(request));
    Ok(())
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
    fn answer(&mut self, request: Request) {
        match request {
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
