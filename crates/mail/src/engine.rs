//! The delivery engine: connections of one thread or several, within limits, until each recipient has its outcome.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{sleep_until, timeout_at};

use crate::connection::{Client, Owner, Pace, Visited, duration};
use crate::dns::{Resolver, domain_name};
use crate::latency::Counts;
use crate::limits::{Descriptors, descriptors};
use crate::log::{Done, Durability, LogError, OutcomeLog, Record, Verdict};
use crate::queue::{Delivery, Queue, Share};
use crate::session::{Cause, News, Outcome, Recipient, StartTls, Trouble, Verb};
use crate::{Job, Latency, tls, usage};

pub use crate::connection::Patience;
pub use crate::queue::{PerDomain, Retry};
pub use crate::session::Manner;

/// Most records that wait for the log; above it no connection is opened until the log has caught up.
const UNWRITTEN: usize = 200_000;
/// Records are given to the log so often at least.
const FLUSH: Duration = Duration::from_millis(50);
/// Time that connections have to complete their transaction when the delivery is stopped.
const FAREWELL: Duration = Duration::from_secs(5);
/// An attempt to ask the name server.
const DNS: Duration = Duration::from_secs(2);

/// The servers of the delivery.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Route {
    /// By the MX records that this name server has; only to addresses of the loopback.
    Mx {
        /// The name server.
        server: SocketAddr,
        /// The port of all mail servers.
        port: u16,
    },
    /// All to one server, and to one address there.
    Host {
        /// Its addresses, in the order in which they are tried.
        at: Vec<SocketAddr>,
        /// The address, with the number of the recipient for `{n}`; `None`: that of each recipient.
        to: Option<String>,
    },
}

impl Route {
    /// One server, and the address there; empty for the servers of domains.
    fn text(&self) -> String {
        match self {
            Route::Mx { .. } => String::new(),
            Route::Host { at, to } => {
                // Name servers change the order from query to query.
                let mut at: Vec<_> = at.iter().map(ToString::to_string).collect();
                at.sort();
                format!("{} {}", at.join(" "), to.as_deref().unwrap_or(""))
            }
        }
    }
}

/// The part of a delivery that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Window {
    /// Seconds before it.
    pub after_s: f64,
    /// Its length; the delivery ends with it.
    pub seconds: f64,
}

/// A delivery and its settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Order {
    /// The recipients.
    pub job: Job,
    /// Messages per recipient, at least 1; with a log only 1.
    pub messages: u32,
    /// Where to.
    pub route: Route,
    /// Connections at the same time.
    pub connections: u32,
    /// Recipients per second, at most.
    pub rate: Option<f64>,
    /// Threads, at least 1; each has a share of the domains and of the connections.
    pub threads: u32,
    /// Recipients of a transaction, 1 to 100 (RFC 5321, section 4.5.3.1.8).
    pub per_transaction: u32,
    /// Limits of a domain.
    pub per_domain: PerDomain,
    /// When delivery is tried again.
    pub retry: Retry,
    /// How the client speaks SMTP on its connections.
    pub manner: Manner,
    /// Timeouts.
    pub patience: Patience,
    /// The outcome log.
    pub log: Option<(PathBuf, Durability)>,
    /// The part that is measured; `None`: all of it.
    pub window: Option<Window>,
    /// Another process, the CPU time of which is measured in the window, too.
    pub beside: Option<u32>,
}

/// Counts of the events in the window.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Its length.
    pub seconds: f64,
    /// Recipients that got their final outcome.
    pub recipients: u64,
    /// Completed transactions.
    pub transactions: u64,
    /// Connections that were open, on average.
    pub open_mean: f64,
    /// CPU time of the engine.
    pub cpu_s: f64,
    /// That of the process beside it.
    pub beside_cpu_s: f64,
}

/// The result of a delivery.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Recipients with an outcome, by outcome.
    pub outcomes: BTreeMap<String, u64>,
    /// Those that had theirs from an earlier part of the delivery.
    pub before: u64,
    /// Those that have none: the delivery was ended.
    pub unfinished: u64,
    /// Completed transactions.
    pub transactions: u64,
    /// Connections that were opened, or tried.
    pub connections: u64,
    /// Most at the same time.
    pub open_max: u64,
    /// Why connections failed and recipients were deferred or failed: how many recipients.
    pub troubles: BTreeMap<String, u64>,
    /// Of all steps that occurred, by name.
    pub latency: Vec<(String, Latency)>,
    /// From the first to the last recipient.
    pub elapsed_s: f64,
    /// Counts of the measured part.
    pub measured: Measured,
    /// Memory before the first connection, KiB.
    pub memory_kib: u64,
    /// Its maximum.
    pub memory_max_kib: u64,
    /// Descriptors for its connections.
    pub descriptors: Option<Descriptors>,
}

/// Why a delivery failed or is incomplete.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The outcome log.
    #[error(transparent)]
    Log(#[from] LogError),
    /// Descriptors do not suffice.
    #[error("{0}")]
    Descriptors(String),
    /// More than one message per recipient, with a log that has one line for each.
    #[error("an outcome log needs one message per recipient: omit the log, or send one message")]
    Repeated,
    /// No runtime, socket or thread.
    #[error("the delivery cannot start: {0}")]
    Start(#[from] std::io::Error),
}

/// Counters of a thread.
#[derive(Default)]
struct Counters {
    outcomes: [Cell<u64>; 3],
    transactions: Cell<u64>,
    connections: Cell<u64>,
    open: Cell<u64>,
    open_max: Cell<u64>,
    /// Time of all open connections together, until `since`.
    open_ns: Cell<u128>,
    since: Cell<Duration>,
    troubles: RefCell<BTreeMap<Trouble, u64>>,
}

/// Data shared by all threads.
struct Common {
    order: Arc<Order>,
    begin: Instant,
    stop: Arc<AtomicBool>,
    log: Option<SyncSender<Vec<Record>>>,
}

/// One thread.
struct Shard {
    order: Arc<Order>,
    begin: Instant,
    connections: u64,
    queue: RefCell<Queue>,
    client: Client,
    resolver: Option<Resolver>,
    counters: Counters,
    changed: Notify,
    unwritten: RefCell<Vec<Record>>,
    log: Option<SyncSender<Vec<Record>>>,
}

/// A thread's part of the report.
struct Part {
    report: Report,
    latency: Vec<Counts>,
}

/// Delivers; returns when every recipient has its outcome, the window is over, or soon after `stop` is set: transactions that
/// have begun are completed.
///
/// # Errors
/// See [`EngineError`].
pub fn deliver(order: &Order, stop: &Arc<AtomicBool>) -> Result<Report, EngineError> {
    let descriptors = descriptors(order.connections);
    if let Some(why) = descriptors.lacking() {
        return Err(EngineError::Descriptors(why));
    }
    let (log, done) = match &order.log {
        Some(_) if order.messages > 1 => return Err(EngineError::Repeated),
        Some((path, durability)) => {
            let (log, done) = OutcomeLog::open(path, &order.job, &order.route.text(), *durability)?;
            (Some(log), done)
        }
        None => (None, Done::default()),
    };
    let (memory_kib, before) = (usage::memory_kib("VmRSS"), done.count());
    let (sender, records) = log.is_some().then(|| sync_channel(8)).unzip();
    let failure = Mutex::new(None);
    let (order, begin) = (Arc::new(order.clone()), Instant::now());
    let shares = thread::scope(|scope| {
        let threads: Vec<_> = (0..order.threads)
            .map(|number| {
                let (order, done, sender) = (order.clone(), done.clone(), sender.clone());
                let common = Common { order, begin, stop: stop.clone(), log: sender };
                scope.spawn(move || run(common, number, done))
            })
            .collect();
        drop(sender);
        if let (Some(log), Some(records)) = (log, records) {
            *failure.lock().expect("no thread panics with the lock") = write(log, records, stop).err();
        }
        threads
            .into_iter()
            .map(|thread| thread.join().expect("a thread of the engine does not panic"))
            .collect::<Result<Vec<Part>, _>>()
    })?;
    if let Some(error) = failure.into_inner().expect("no thread panics with the lock") {
        return Err(error.into());
    }
    let mut report = merged(shares);
    (report.before, report.memory_kib, report.descriptors) = (before, memory_kib, Some(descriptors));
    report.memory_max_kib = usage::memory_kib("VmHWM");
    Ok(report)
}

/// Writes records to the log until no thread has any left. When that fails, the delivery is stopped; the outcomes of messages
/// under way are written once more at the end, and counted if there is no room for them.
fn write(mut log: OutcomeLog, records: Receiver<Vec<Record>>, stop: &AtomicBool) -> Result<(), LogError> {
    let (mut waiting, mut failure) = (Vec::new(), None);
    for group in records {
        waiting.extend(group);
        if failure.is_none() {
            match log.append(&waiting) {
                Ok(()) => waiting.clear(),
                Err(error) => {
                    stop.store(true, Ordering::Relaxed);
                    failure = Some(error);
                }
            }
        }
    }
    match failure {
        Some(LogError::Write { path, source, .. }) => {
            let unrecorded = (waiting.len() - log.append_some(&waiting)) as u64;
            Err(LogError::Write { path, source, recorded: log.recorded(), unrecorded })
        }
        Some(other) => Err(other),
        None => Ok(()),
    }
}

fn run(common: Common, number: u32, done: Done) -> Result<Part, std::io::Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let local = LocalSet::new();
    runtime.block_on(local.run_until(async {
        let shard = Rc::new(Shard::new(common, number, done).await?);
        let measured = shard.clone().deliver().await;
        Ok(shard.share(measured))
    }))
}

impl Shard {
    async fn new(common: Common, number: u32, done: Done) -> Result<Shard, std::io::Error> {
        let Common { order, begin, stop, log } = common;
        let delivery = Delivery {
            limits: order.per_domain.clone(),
            retry: order.retry.clone(),
            repeats: order.messages.saturating_sub(1),
        };
        let queue = Queue::new(&order.job, Share { number, of: order.threads }, done, delivery);
        let resolver = match &order.route {
            Route::Mx { server, .. } => Some(Resolver::new(*server, DNS, number.into()).await?),
            Route::Host { .. } => None,
        };
        let client = Client {
            manner: Rc::new(order.manner.clone()),
            patience: order.patience.clone(),
            per_transaction: order.per_transaction.max(1) as usize,
            tls: (order.manner.tls != StartTls::Never).then(tls::connector).transpose()?,
            latency: RefCell::new(vec![Counts::new(); Verb::ALL.len()]),
            pace: order.rate.map(|rate| Pace::new(rate / f64::from(order.threads))),
            stop,
        };
        let (all, threads) = (order.connections, order.threads);
        Ok(Shard {
            connections: (all / threads + u32::from(number < all % threads)).max(1).into(),
            queue: RefCell::new(queue),
            resolver,
            client,
            counters: Counters::default(),
            changed: Notify::new(),
            unwritten: RefCell::default(),
            log,
            order,
            begin,
        })
    }

    /// Opens connections while there are recipients.
    async fn deliver(self: Rc<Self>) -> Measured {
        let window = self.order.window;
        let end = window.map(|window| self.begin + duration(window.after_s + window.seconds));
        let measuring = window.map(|window| spawn_local(self.clone().measure(window)));
        let begun = self.snapshot();
        let mut stopped = None;
        loop {
            while let Some((place, who)) = self.next() {
                // Before it begins: it counts against the limit at once.
                self.opened(1);
                spawn_local(self.clone().visit(place, who));
            }
            let is_over = self.queue.borrow().open() == 0
                || !self.flush()
                || end.is_some_and(|end| Instant::now() >= end)
                || self.has_stopped(&mut stopped);
            if is_over {
                break;
            }
            let due = self.queue.borrow().next_due().map(|due| self.begin + due);
            let until =
                [Some(Instant::now() + FLUSH), due, end].into_iter().flatten().min().unwrap_or(self.begin);
            // The state is checked again in any case.
            let _ = timeout_at(until.into(), self.changed.notified()).await;
        }
        let all = self.since(&begun);
        self.drain().await;
        match measuring {
            Some(task) if end.is_some_and(|end| Instant::now() >= end) => task.await.unwrap_or(all),
            _ => all,
        }
    }

    /// Was it stopped, and are connections at their end, or out of time? `since` is when that was seen first.
    fn has_stopped(&self, since: &mut Option<Instant>) -> bool {
        self.client.is_stopped()
            && (self.counters.open.get() == 0 || since.get_or_insert_with(Instant::now).elapsed() > FAREWELL)
    }

    /// The last records, which the log has to take.
    async fn drain(&self) {
        while !self.unwritten.borrow().is_empty() && self.flush() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    fn next(&self) -> Option<(usize, Vec<Recipient>)> {
        let may = self.counters.open.get() < self.connections
            && self.unwritten.borrow().len() < UNWRITTEN
            && !self.client.is_stopped();
        may.then(|| self.queue.borrow_mut().next(self.begin.elapsed()))?
    }

    async fn visit(self: Rc<Self>, place: usize, who: Vec<Recipient>) {
        let domain = self.queue.borrow().domain(place);
        let address_of = |id, out: &mut Vec<u8>| self.address(id, domain, out);
        let owner = Owner { address_of: &address_of, settle: &|news| self.settle(place, news) };
        let Visited { news, broken } = match self.hosts(domain).await {
            Ok(hosts) => self.client.visit(&hosts, &who, owner).await,
            Err(cause) => nobody(&who, cause),
        };
        self.counters.connections.set(self.counters.connections.get() + 1);
        self.settle(place, news);
        if let Some(trouble) = broken.filter(|trouble| trouble.cause == Cause::NoResource) {
            // Other connections end, and give back their descriptors and ports.
            *self.counters.troubles.borrow_mut().entry(trouble).or_default() += 1;
        }
        self.opened(-1);
        self.queue.borrow_mut().ended(place);
        self.changed.notify_one();
    }

    async fn hosts(&self, domain: u32) -> Result<Vec<SocketAddr>, Cause> {
        let (resolver, port) = match (&self.resolver, &self.order.route) {
            (Some(resolver), Route::Mx { port, .. }) => (resolver, *port),
            (_, Route::Host { at, .. }) => return Ok(at.clone()),
            (None, Route::Mx { .. }) => return Err(Cause::NoAnswer),
        };
        let hosts = resolver.hosts(domain).await?;
        let own: Vec<_> =
            hosts.iter().filter(|host| host.is_loopback()).map(|&host| at(host, port)).collect();
        if own.is_empty() { Err(Cause::Elsewhere) } else { Ok(own) }
    }

    fn address(&self, id: u64, domain: u32, out: &mut Vec<u8>) {
        match &self.order.route {
            Route::Host { to: Some(to), .. } => match to.split_once("{n}") {
                Some((before, after)) => out.extend_from_slice(format!("{before}{id}{after}").as_bytes()),
                None => out.extend_from_slice(to.as_bytes()),
            },
            _ => out.extend_from_slice(format!("u{id}@{}", domain_name(domain)).as_bytes()),
        }
    }

    fn settle(&self, place: usize, news: News) {
        self.counters.transactions.set(self.counters.transactions.get() + news.transactions);
        let (mut queue, now) = (self.queue.borrow_mut(), self.begin.elapsed());
        let mut troubles = self.counters.troubles.borrow_mut();
        for (who, outcome) in news.outcomes {
            if let Outcome::Deferred(trouble) | Outcome::Failed(trouble) = outcome {
                *troubles.entry(trouble).or_default() += 1;
            }
            if let Some(record) = queue.settle(place, who, outcome, now) {
                let count = &self.counters.outcomes[record.verdict as usize];
                count.set(count.get() + 1);
                if self.log.is_some() {
                    self.unwritten.borrow_mut().push(record);
                }
            }
        }
    }

    /// Hands records to the log; false if it accepts none any more.
    fn flush(&self) -> bool {
        let (Some(log), mut unwritten) = (&self.log, self.unwritten.borrow_mut()) else { return true };
        if unwritten.is_empty() {
            return true;
        }
        match log.try_send(std::mem::take(&mut *unwritten)) {
            Ok(()) => true,
            Err(TrySendError::Full(records)) => {
                *unwritten = records;
                true
            }
            Err(TrySendError::Disconnected(_)) => false,
        }
    }

    fn opened(&self, change: i64) {
        let (counters, now) = (&self.counters, self.begin.elapsed());
        let lasted = now.saturating_sub(counters.since.get()).as_nanos();
        counters.open_ns.set(counters.open_ns.get() + lasted * u128::from(counters.open.get()));
        counters.since.set(now);
        counters.open.set(counters.open.get().saturating_add_signed(change));
        counters.open_max.set(counters.open_max.get().max(counters.open.get()));
    }

    async fn measure(self: Rc<Self>, window: Window) -> Measured {
        sleep_until((self.begin + duration(window.after_s)).into()).await;
        let begun = self.snapshot();
        sleep_until((self.begin + duration(window.after_s + window.seconds)).into()).await;
        self.since(&begun)
    }

    fn snapshot(&self) -> (Duration, Measured) {
        self.opened(0);
        let counters = &self.counters;
        let measured = Measured {
            seconds: 0.0,
            recipients: counters.outcomes.iter().map(Cell::get).sum(),
            transactions: counters.transactions.get(),
            open_mean: counters.open_ns.get() as f64,
            // Of the whole process: one thread looks.
            cpu_s: usage::cpu_ns(std::process::id()) as f64 / 1e9,
            beside_cpu_s: self.order.beside.map_or(0, usage::cpu_ns) as f64 / 1e9,
        };
        (self.begin.elapsed(), measured)
    }

    fn since(&self, (at, begun): &(Duration, Measured)) -> Measured {
        let (now, ended) = self.snapshot();
        let lasted = now.saturating_sub(*at);
        Measured {
            seconds: lasted.as_secs_f64(),
            recipients: ended.recipients - begun.recipients,
            transactions: ended.transactions - begun.transactions,
            open_mean: (ended.open_mean - begun.open_mean) / lasted.as_nanos().max(1) as f64,
            cpu_s: ended.cpu_s - begun.cpu_s,
            beside_cpu_s: ended.beside_cpu_s - begun.beside_cpu_s,
        }
    }

    fn share(&self, measured: Measured) -> Part {
        let counters = &self.counters;
        let outcomes = [Verdict::Delivered, Verdict::Failed, Verdict::Expired]
            .map(|verdict| (verdict.name().to_string(), counters.outcomes[verdict as usize].get()));
        let troubles = counters.troubles.borrow();
        let report = Report {
            outcomes: outcomes.into_iter().collect(),
            unfinished: self.queue.borrow().open(),
            transactions: counters.transactions.get(),
            connections: counters.connections.get(),
            open_max: counters.open_max.get(),
            troubles: troubles.iter().map(|(trouble, n)| (trouble.to_string(), *n)).collect(),
            elapsed_s: self.begin.elapsed().as_secs_f64(),
            measured,
            ..Report::default()
        };
        Part { report, latency: self.client.latency.borrow().clone() }
    }
}

fn nobody(who: &[Recipient], cause: Cause) -> Visited {
    let trouble = Trouble { at: Verb::Connect, cause };
    let outcome = if cause == Cause::NoMail { Outcome::Failed(trouble) } else { Outcome::Deferred(trouble) };
    let outcomes = who.iter().map(|&who| (who, outcome)).collect();
    Visited { news: News { outcomes, transactions: 0 }, broken: None }
}

fn at(host: Ipv4Addr, port: u16) -> SocketAddr {
    SocketAddr::from((host, port))
}

fn merged(shares: Vec<Part>) -> Report {
    let mut latency = vec![Counts::new(); Verb::ALL.len()];
    let mut all = Report::default();
    for Part { report, latency: own } in shares {
        latency.iter_mut().zip(&own).for_each(|(all, own)| all.merge(own));
        report.outcomes.into_iter().for_each(|(name, n)| *all.outcomes.entry(name).or_default() += n);
        report.troubles.into_iter().for_each(|(name, n)| *all.troubles.entry(name).or_default() += n);
        all.unfinished += report.unfinished;
        all.transactions += report.transactions;
        all.connections += report.connections;
        all.open_max += report.open_max;
        all.elapsed_s = all.elapsed_s.max(report.elapsed_s);
        let (sum, own) = (&mut all.measured, report.measured);
        sum.recipients += own.recipients;
        sum.transactions += own.transactions;
        sum.open_mean += own.open_mean;
        // Each thread has looked at the whole process.
        sum.seconds = sum.seconds.max(own.seconds);
        sum.cpu_s = sum.cpu_s.max(own.cpu_s);
        sum.beside_cpu_s = sum.beside_cpu_s.max(own.beside_cpu_s);
    }
    let named =
        Verb::ALL.iter().zip(latency).map(|(verb, counts)| (verb.name().to_string(), counts.summary()));
    all.latency = named.filter(|(_, latency)| latency.count > 0).collect();
    all
}
