//! A bottleneck of this program between two hosts, for real TCP.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use weir_bottleneck::{Bridge, Observe, Outcome, Settings, Snapshot, chunks_for};
use weir_port::duplex::{Packet, Pool, Port, ReceiveMode};
use weir_port::thread;
use weir_testbed::graph::Graph;

use crate::error::RunError;

/// Length of an interval in which a bottleneck, or a load of flows, is looked at.
pub const INTERVAL: Duration = Duration::from_millis(100);
/// Longest frame of the wires, with VLAN tags.
const LONGEST: usize = 1522;

/// An error of a bottleneck or of flows, which ends the run.
pub fn failed(error: impl ToString) -> RunError {
    RunError::Search(error.to_string())
}

/// A bottleneck that runs in a separate thread.
pub struct Link {
    stop: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<Result<Passed, RunError>>,
}

/// What a bottleneck saw, from this time on: in all, and in each interval.
pub struct Passed {
    /// When it began to look.
    pub since: Instant,
    /// The whole time.
    pub outcome: Outcome,
    /// Each interval.
    pub snapshots: Vec<Snapshot>,
}

impl Link {
    /// In the middle of a [`BOTTLENECK`](weir_testbed::graph::BOTTLENECK); `changes` are lines that change settings.
    pub fn start(
        graph: &Graph,
        settings: Settings,
        changes: Option<Receiver<String>>,
    ) -> Result<Link, RunError> {
        let middle = graph.host("middle");
        let bridge = middle.run(|| {
            let open = |name| {
                Packet::open(name, LONGEST, ReceiveMode::Promiscuous)
                    .map(|port| Box::new(port) as Box<dyn Port>)
            };
            let ports = [open("m0").map_err(failed)?, open("m1").map_err(failed)?];
            let pool = Pool::new(chunks_for(&settings), LONGEST).map_err(failed)?;
            Bridge::new(ports, pool, settings, false).map_err(failed)
        });
        let mut bridge = bridge?;
        let stop = Arc::new(AtomicBool::new(false));
        let ended = stop.clone();
        let thread = middle.spawn("bottleneck", move || {
            let (mut snapshots, mut refused) = (Vec::new(), Vec::new());
            let observe = Observe {
                stop: &ended,
                changes: changes.as_ref(),
                interval: INTERVAL,
                duration: None,
                see: &mut |snapshot| snapshots.push(snapshot.clone()),
                changed: &mut |line, result| refused.extend(result.err().map(|why| format!("{line}: {why}"))),
            };
            // What it bridges needs the CPUs, too. Where it may not be preferred it is late, and the trial invalid.
            let _ = thread::prefer();
            let since = Instant::now();
            let outcome = weir_bottleneck::run(&mut bridge, observe).map_err(failed)?;
            match refused.first() {
                Some(refused) => Err(failed(refused)),
                None => Ok(Passed { since, outcome, snapshots }),
            }
        })?;
        Ok(Link { stop, thread })
    }

    /// Ends it.
    pub fn end(self) -> Result<Passed, RunError> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| failed("the bottleneck's thread has panicked"))?
    }
}
