//! Queues of a bottleneck: what is queued, marked, dropped, and which packet is served next. Pure: no clock, no I/O, no unsafe.
//!
//! ```text
//! offer(packet, now) -> [ limit in bytes | AQM | scheduler ] -> take(now) -> link
//!                              |
//!                              +-> dropped: packet and reason, for the owner of its payload
//! ```
//! A queue sees sizes, flows, ECN and values, never bytes of a packet: the payload is a handle of the owner's choice. So the
//! same code works in a simulator and in a node that keeps frames without copying them.
//!
//! - Time is an integer in ps and comes with each call, never backwards. Controllers that step at fixed times make their
//!   steps at the next call, with the state of the time between: no timer is needed, and the result is that of a timer.
//! - The limit is exact to the byte. A packet that was taken is in service: it is outside of the buffer.
//! - offered = taken + dropped + backlog at any time, in packets and in bytes ([`Counters`]).
//! - All randomness follows from the seed: the same calls give the same drops on every machine with IEEE 754 arithmetic (RED
//!   and markers use `exp`, `ln`, `pow` of the platform's libm).
//!
//! Each queue is tested against an independent model in Python (`tests/models`) on random arrivals: the same packets are
//! dropped and marked.
//!
//! Per-packet values and the square of PI2 are claimed in patents: see [`ppv`] and [`dualpi2`].
//!
//! Files:
//! - `fifo.rs`, `red.rs`, `pie.rs`, `codel.rs`, `fair.rs`, `gsp.rs`, `dualpi2.rs`, `cake/`, `ppv/`: one file or folder for each
//!   AQM
//! - `buffer.rs`, `accounting.rs`: the limit in bytes, the counters
//! - `tests/contract.rs`: what every queue promises; `tests/models.rs`: compares with the models in `tests/models`
#![forbid(unsafe_code)]

mod accounting;
mod buffer;
pub mod cake;
pub mod codel;
pub mod dualpi2;
pub mod fair;
pub mod fifo;
pub mod gsp;
mod packet;
pub mod pie;
pub mod ppv;
pub mod red;
mod time;

use serde::{Deserialize, Serialize};

pub use accounting::{Accounting, Counters, Dropped, Reason, Tally};
pub use packet::{Ecn, Packet};
pub use time::{Pace, Time};

/// Where a queue stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bottleneck {
    /// Bytes that may be queued; a packet that is larger is always dropped.
    pub limit_bytes: u64,
    /// Rate of the link in bits/s, for those that need it (RED, CAKE, core-stateless).
    pub bits_per_s: u64,
    /// All that is random follows from it.
    pub seed: u64,
}

/// What is done to packets that know ECN in place of a drop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnEct {
    /// They get CE.
    #[default]
    Mark,
    /// They are dropped as all others are.
    Drop,
}

/// A queue in front of a link.
pub trait Queue<T> {
    /// A packet arrives at `now`. It, and others in its place, may be dropped: see [`Queue::dropped`].
    fn offer(&mut self, packet: Packet<T>, now: Time);

    /// The packet that the link sends next; none if there is none, or none is due.
    fn take(&mut self, now: Time) -> Option<Packet<T>>;

    /// When [`Queue::take`] will have a packet: `now`, or later if the queue is shaped; none while it is empty.
    fn due(&self, now: Time) -> Option<Time> {
        (self.backlog().packets > 0).then_some(now)
    }

    /// Its counters and drops.
    fn accounting(&self) -> &Accounting<T>;

    /// Its counters and drops.
    fn accounting_mut(&mut self) -> &mut Accounting<T>;

    /// What is queued.
    fn backlog(&self) -> Tally {
        self.accounting().backlog
    }

    /// What was done so far.
    fn counters<'a>(&'a self) -> &'a Counters
    where
        T: 'a,
    {
        &self.accounting().counters
    }

    /// Packets that were dropped since the caller emptied this list last. It grows until then.
    fn dropped(&mut self) -> &mut Vec<Dropped<T>> {
        &mut self.accounting_mut().dropped
    }
}

/// A setting that makes no sense; the text says which one, and what is right.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(pub(crate) String);

impl ConfigError {
    fn share(name: &str, value: f64) -> Result<(), ConfigError> {
        if (0.0..=1.0).contains(&value) {
            Ok(())
        } else {
            Err(ConfigError(format!("{name} is {value}: it must be 0 to 1")))
        }
    }
}

/// A queue's name and its settings.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Config {
    /// Taildrop.
    Fifo(fifo::Config),
    /// RED, Adaptive RED.
    Red(red::Config),
    /// PIE, RFC 8033.
    Pie(pie::Config),
    /// CoDel, RFC 8289.
    Codel(codel::Config),
    /// FQ-CoDel, RFC 8290.
    FqCodel(fair::FqCodelConfig),
    /// FQ-PIE.
    FqPie(fair::FqPieConfig),
    /// GSP.
    Gsp(gsp::Config),
    /// DualPI2, RFC 9332.
    Dualpi2(dualpi2::Config),
    /// Like CAKE.
    Cake(cake::Config),
    /// Packet values: the lowest makes room.
    PpvDropMin(ppv::DropMinConfig),
    /// Packet values: PVPIE.
    Pvpie(ppv::PvPieConfig),
    /// Packet values: core-stateless threshold.
    CoreStateless(ppv::CoreStatelessConfig),
}

impl Config {
    /// All queues with their defaults, and the variants that have a name: name and settings.
    pub fn catalogue() -> Vec<(&'static str, Config)> {
        vec![
            ("fifo", Config::Fifo(fifo::Config::default())),
            ("red", Config::Red(red::Config::default())),
            ("ared", Config::Red(red::Config::adaptive())),
            ("pie-basic", Config::Pie(pie::Config::basic())),
            ("pie", Config::Pie(pie::Config::default())),
            ("codel", Config::Codel(codel::Config::default())),
            ("fq-codel", Config::FqCodel(fair::FqCodelConfig::default())),
            ("fq-pie", Config::FqPie(fair::FqPieConfig::default())),
            ("gsp", Config::Gsp(gsp::Config::default())),
            ("gsp-adaptive", Config::Gsp(gsp::Config::adaptive())),
            ("dualpi2", Config::Dualpi2(dualpi2::Config::default())),
            ("cake", Config::Cake(cake::Config::default())),
            ("ppv-drop-min", Config::PpvDropMin(ppv::DropMinConfig::default())),
            ("pvpie", Config::Pvpie(ppv::PvPieConfig::default())),
            ("core-stateless", Config::CoreStateless(ppv::CoreStatelessConfig::default())),
        ]
    }

    /// The settings of a name of the catalogue.
    pub fn named(name: &str) -> Option<Config> {
        Config::catalogue().into_iter().find_map(|(known, config)| (known == name).then_some(config))
    }

    /// Whether packets need values: a marker before the queue.
    pub fn needs_values(&self) -> bool {
        matches!(self, Config::PpvDropMin(_) | Config::Pvpie(_) | Config::CoreStateless(_))
    }

    /// An empty queue.
    ///
    /// # Errors
    /// A setting that makes no sense.
    pub fn build<T: Send + 'static>(&self, at: &Bottleneck) -> Result<Box<dyn Queue<T> + Send>, ConfigError> {
        if at.bits_per_s == 0 {
            return Err(ConfigError("the rate of the link must be above 0 bit/s".into()));
        }
        self.check()?;
        Ok(match *self {
            Config::Fifo(config) => Box::new(fifo::Fifo::new(config, at)),
            Config::Red(config) => Box::new(red::Red::new(config, at)),
            Config::Pie(config) => Box::new(pie::Pie::new(config, at)),
            Config::Codel(config) => Box::new(codel::Codel::new(config, at)),
            Config::FqCodel(config) => Box::new(fair::FqCodel::new(config, at)),
            Config::FqPie(config) => Box::new(fair::FqPie::new(config, at)),
            Config::Gsp(config) => Box::new(gsp::Gsp::new(config, at)),
            Config::Dualpi2(config) => Box::new(dualpi2::DualPi2::new(config, at)),
            Config::Cake(config) => Box::new(cake::Cake::new(config, at)),
            Config::PpvDropMin(config) => Box::new(ppv::DropMin::new(config, at)),
            Config::Pvpie(config) => Box::new(ppv::PvPie::new(config, at)),
            Config::CoreStateless(config) => Box::new(ppv::CoreStateless::new(config, at)),
        })
    }

    fn check(&self) -> Result<(), ConfigError> {
        match self {
            Config::Fifo(_) | Config::Codel(_) | Config::PpvDropMin(_) => Ok(()),
            Config::Red(config) => config.check(),
            Config::Pie(config) => config.check(),
            Config::FqCodel(config) => config.check(),
            Config::FqPie(config) => config.check(),
            Config::Gsp(config) => config.check(),
            Config::Dualpi2(config) => config.check(),
            Config::Cake(config) => config.check(),
            Config::Pvpie(config) => config.check(),
            Config::CoreStateless(config) => config.check(),
        }
    }
}
