//! The main loop: `Bng` between the node, the store and operators. It waits in one place only.
//!
//! ```text
//! turn: reports of the node > records committed > punts > operators > counters > timer > frames and commands to the node
//! idle: poll(rings, store, waker)
//! ```
//! Invariant: all outputs of an input are carried out before the next input.

mod link;
mod operators;
mod totals;

use std::collections::{HashSet, VecDeque};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};
use tracing::{debug, info, warn};
use weir_bng::radius::Service;
use weir_bng::radius::client::{Server, Transport};
use weir_bng::radius::packet::Require;
use weir_bng::{
    Bng, Change, Command, Config, Event, Input, Lacks, LinkState, NodeCommand, Now, Output, PortName, Punt,
    RadiusServer, Record, SessionId,
};
use weir_control::request::Refusal;
use weir_node::PortState;
use weir_plane::PuntReason;
use weir_service::signals::Hangup;

use crate::asks::{Ask, View};
use crate::dynauth::Listener;
use crate::metrics::{Losses, Metrics};
use crate::node::{Connection, Order, Report, State};
use crate::passwords::{Done, Passwords};
use crate::radius::{Radius, Received};
use crate::secrets::Secrets;
use crate::store::{self, Store};
use crate::table::{self, Removed, Row};
use crate::wake::Waker;
use link::{Frame, Link};
use operators::{Next, Operators};
use totals::Totals;

/// Interval between checks for signals.
const LOOK: Duration = Duration::from_millis(100);
/// Frames of a ring in a turn.
const MOST_PUNTS: usize = 256;
/// Sessions whose counters are taken in within a turn.
const MOST_COUNTED: usize = 1024;
/// Interval between two looks at the table of the node: for each session so much, within these bounds.
const TABLE_PER_SESSION: Duration = Duration::from_micros(300);
const TABLE_EVERY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// Frames of the node that the control plane takes.
const TAKEN: [PuntReason; 4] =
    [PuntReason::Dhcp4, PuntReason::PppoeDiscovery, PuntReason::PppControl, PuntReason::Nd];

/// What the main loop begins with.
pub(crate) struct Parts {
    /// What the file says.
    pub(crate) config: Config,
    /// The folder of the records.
    pub(crate) store: PathBuf,
    /// The file of the key of secrets.
    pub(crate) key: Option<PathBuf>,
    /// The socket of the node.
    pub(crate) node: PathBuf,
    /// What operators ask.
    pub(crate) asks: Receiver<Ask>,
    /// Wakes the loop.
    pub(crate) waker: Waker,
    /// Where the metrics are published.
    pub(crate) metrics: Metrics,
}

/// The main loop.
pub(crate) struct Engine {
    bng: Bng,
    /// As the file says.
    config: Config,
    /// Ports of the node at the last attachment.
    ports: Vec<PortState>,
    store: Store,
    connection: Connection,
    link: Option<Link>,
    operators: Operators,
    waker: Waker,
    totals: Totals,
    metrics: Metrics,
    outputs: Vec<Output>,
    /// When the control plane wants to be asked.
    timer: Option<Duration>,
    /// Sessions whose counters were read and not taken in yet.
    counted: VecDeque<Row>,
    /// When the table of the node is read next; none: it is being read.
    table_at: Option<Instant>,
    node_trouble: Option<String>,
    store_trouble: Option<String>,
    losses: Losses,
    radius: Radius,
    accounting: Radius,
    dynauth: Listener,
    passwords: Passwords,
    secrets: Secrets,
}

/// Which frames may leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Frames {
    /// At once.
    Now,
    /// When the node has applied all changes so far: answers that say that a session is there.
    AfterChanges,
}

/// The time of an input.
fn now() -> Now {
    let at = Duration::try_from(clock_gettime(ClockId::Monotonic)).unwrap_or_default();
    Now { at, wall_s: wall().as_secs() }
}

/// The clock on the wall, since 1970.
fn wall() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

impl Engine {
    /// Opens the store, and takes in its records.
    ///
    /// # Errors
    /// The store cannot be opened, or the configuration contradicts itself.
    pub(crate) fn new(parts: Parts) -> Result<Engine> {
        let Parts { config, store, key, node, asks, waker, metrics } = parts;
        let (store, records, secrets) = open_store(&store, key.as_deref())?;
        let connection = Connection::start(node, waker.clone())?;
        let (radius, accounting) = (Radius::new(waker.clone()), Radius::new(waker.clone()));
        let passwords = Passwords::start(waker.clone())?;
        let mut engine = Engine {
            bng: Bng::new(config.clone(), seed())?,
            config,
            ports: Vec::new(),
            store,
            connection,
            link: None,
            operators: Operators::new(asks),
            waker,
            totals: Totals::default(),
            metrics,
            outputs: Vec::new(),
            timer: None,
            counted: VecDeque::new(),
            table_at: None,
            node_trouble: Some("the program has just started".into()),
            store_trouble: None,
            losses: Losses::default(),
            radius,
            accounting,
            dynauth: Listener::default(),
            passwords,
            secrets,
        };
        let (count, now) = (records.len(), now());
        let mut ports = HashSet::new();
        for mut record in records {
            share_port(&mut record, &mut ports);
            engine.bng.input(now, Input::Adopt(record), &mut engine.outputs);
        }
        engine.carry_out(Frames::Now);
        engine.configure_radius();
        let sizes = engine.bng.sizes();
        info!(
            records = count,
            subscribers = sizes.subscribers,
            sessions = sizes.sessions,
            "the store is open: subscribers: {}, sessions: {}",
            sizes.subscribers,
            sizes.sessions
        );
        Ok(engine)
    }

    /// Runs until a signal comes, and writes all records. SIGHUP reads the file again by `reload`.
    ///
    /// # Errors
    /// The kernel refuses to wait, or some records could not be written at the end.
    pub(crate) fn run(mut self, hangup: &Hangup, reload: &dyn Fn() -> Result<Config>) -> Result<()> {
        while !hangup.ends() {
            if hangup.asks_to_reopen() {
                self.reload(reload);
            }
            if !self.turn() {
                self.sleep()?;
            }
        }
        info!("ending: the node keeps its sessions");
        self.store.close().context("the last records were not written")
    }

    /// Takes in what is there; whether there may be more.
    fn turn(&mut self) -> bool {
        self.waker.clear();
        let reports = self.connection.reports();
        let mut is_busy = !reports.is_empty();
        reports.into_iter().for_each(|report| self.report(report));
        is_busy |= self.stored();
        is_busy |= self.punts();
        is_busy |= self.radius();
        is_busy |= self.passwords();
        is_busy |= self.asked();
        is_busy |= self.count();
        self.pass_time();
        if let Some(order) = self.link.as_mut().and_then(Link::flush) {
            self.connection.order(order);
        }
        is_busy
    }

    /// Gives an input to the control plane, and carries out what it returns.
    fn input(&mut self, input: Input<'_>, frames: Frames) {
        self.bng.input(now(), input, &mut self.outputs);
        self.carry_out(frames);
    }

    fn carry_out(&mut self, frames: Frames) {
        let mut outputs = std::mem::take(&mut self.outputs);
        for output in outputs.drain(..) {
            match output {
                Output::Store(record) => self.store.append(self.secrets.seal(record)),
                Output::Send { port, tags, frame } => self.send(Frame { port, tags, bytes: frame }, frames),
                // Without a node nothing is to be changed: the next one is asked what it has.
                Output::Node(change) => {
                    if let Some(link) = &mut self.link {
                        link.change(change);
                    }
                }
                Output::Event(event) => log(&event),
                Output::Radius { service, server, port, bytes } => {
                    self.of_service(service).send(&server, port, &bytes);
                }
                Output::Dynauth { to, bytes } => self.dynauth.send(to, &bytes),
                Output::RadiusReconnect { service, server, port } => {
                    self.of_service(service).reconnect(&server, port);
                }
                Output::HashPassword { login, mark, password } => self.passwords.hash(login, mark, password),
                Output::CheckPassword { id, password, hash } => self.passwords.check(id, password, hash),
                Output::Done { id, result } => {
                    let failed = result.as_ref().err().map(ToString::to_string);
                    if !self.operators.done(id, result)
                        && let Some(error) = failed
                    {
                        warn!(%error, "note: {error}");
                    }
                }
                Output::Wake(at) => self.timer = Some(at),
            }
        }
        self.outputs = outputs;
    }

    fn send(&mut self, frame: Frame, frames: Frames) {
        match (&mut self.link, frames) {
            // A device that has this one sends packets, which the node must know the session of.
            (Some(link), Frames::Now) if !link::follows_session(&frame.bytes) => link.send(&frame),
            (Some(link), _) => link.send_after_changes(frame),
            // Its client asks again.
            (None, _) => self.losses.without_node += 1,
        }
    }

    /// Records that were committed.
    fn stored(&mut self) -> bool {
        let reports = self.store.reports();
        let is_busy = !reports.is_empty();
        for report in reports {
            match report {
                store::Report::Stored { revision } => {
                    if self.store_trouble.take().is_some() {
                        info!("note: records are written again");
                    }
                    self.input(Input::Stored { revision }, Frames::AfterChanges);
                }
                store::Report::Failed(error) => {
                    if self.store_trouble.is_none() {
                        warn!(%error, "note: {error}; sessions go on, no new ones begin until records can be written");
                    }
                    self.store_trouble = Some(error.to_string());
                    self.input(Input::StoreFailed, Frames::Now);
                }
                store::Report::NotFilled(error) => {
                    warn!(%error, "note: the database is not filled: {error}; records stay in the log");
                }
            }
        }
        is_busy
    }

    /// Frames that the node did not forward.
    fn punts(&mut self) -> bool {
        let Some(link) = &mut self.link else { return false };
        let (now, mut taken) = (now(), 0);
        for (punts, _) in &mut link.threads {
            let (bng, outputs, ports) = (&mut self.bng, &mut self.outputs, &link.ports);
            taken += punts.take(MOST_PUNTS, |punt| {
                // Packets of devices without a session (unknown_source) begin none: DHCP and PPPoE do.
                let is_taken = TAKEN.iter().any(|reason| punt.reason == reason.number());
                if let Some(port) = ports.name(punt.port).filter(|_| is_taken) {
                    let tags = link::tags_of(punt.tags);
                    let punt = Punt { port: port.clone(), tags, bytes: punt.bytes };
                    bng.input(now, Input::Punt(punt), outputs);
                }
            });
        }
        self.carry_out(Frames::Now);
        taken > 0
    }

    /// Datagrams of RADIUS servers, and requests of CoA and Disconnect.
    fn radius(&mut self) -> bool {
        let mut is_busy = false;
        for service in [Service::Access, Service::Accounting] {
            let radius = if service == Service::Access { &mut self.radius } else { &mut self.accounting };
            let all = radius.receive();
            is_busy |= !all.is_empty();
            for received in &all {
                let input = match received {
                    Received::Packet { server, port, bytes } => {
                        Input::Radius { service, server, port: *port, bytes }
                    }
                    Received::Link { server, port, change } => {
                        Input::RadiusLink { service, server, port: *port, change: *change }
                    }
                };
                self.input(input, Frames::Now);
            }
        }
        let asked = self.dynauth.receive();
        for (from, bytes) in &asked {
            self.input(Input::Dynauth { from: *from, bytes }, Frames::Now);
        }
        is_busy || !asked.is_empty()
    }

    fn of_service(&self, service: Service) -> &Radius {
        match service {
            Service::Access => &self.radius,
            Service::Accounting => &self.accounting,
        }
    }

    /// Hashes of passwords.
    fn passwords(&mut self) -> bool {
        let all = self.passwords.done();
        for done in &all {
            let input = match done {
                Done::Hashed { login, mark, hash } => Input::PasswordHashed { login, mark: *mark, hash },
                Done::Checked { id, checked } => Input::PasswordChecked { id: *id, checked: *checked },
            };
            self.input(input, Frames::Now);
        }
        !all.is_empty()
    }

    /// Servers of the file, with their secrets.
    fn configure_radius(&mut self) {
        let (servers, wrong) = self.radius.configure(&self.config.radius, &self.secrets);
        wrong.iter().for_each(|error| warn!(%error, "note: {error}; the server is not asked"));
        let open = servers
            .iter()
            .filter(|server| server.transport == Transport::Datagrams && server.require == Require::Nothing);
        for Server { name, .. } in open {
            info!(
                "note: answers of RADIUS server {name} need no Message-Authenticator and can be forged (CVE-2024-3596): add `require`, or use tls://"
            );
        }
        self.input(Input::RadiusServers(servers), Frames::Now);
        let of_accounting: Vec<_> =
            self.config.radius.iter().filter_map(RadiusServer::of_accounting).collect();
        // What is wrong with a secret was said above.
        let (accounting, _) = self.accounting.configure(&of_accounting, &self.secrets);
        self.input(Input::AccountingServers(accounting), Frames::Now);
        let (options, wrong) = self.dynauth.configure(self.config.dynauth.as_ref(), &self.secrets);
        wrong.iter().for_each(|error| warn!(%error, "note: {error}"));
        self.input(Input::DynauthOptions(options), Frames::Now);
    }

    /// Questions and commands of operators.
    fn asked(&mut self) -> bool {
        let all = self.operators.next();
        let is_busy = !all.is_empty();
        for next in all {
            match next {
                Next::Command(id, command) => self.input(Input::Command { id, command }, Frames::Now),
                Next::Look(look) => {
                    let waits_for: Vec<String> =
                        [&self.node_trouble, &self.store_trouble].into_iter().flatten().cloned().collect();
                    look(&View { bng: &self.bng, now: now(), wall: wall(), waits_for: &waits_for });
                }
            }
        }
        is_busy
    }

    /// What the node has counted.
    fn count(&mut self) -> bool {
        if self.counted.is_empty() {
            return false;
        }
        let now = now();
        for row in self.counted.drain(..self.counted.len().min(MOST_COUNTED)) {
            let session = SessionId(row.session);
            let counters = self.totals.total(session, row.counters);
            self.bng.input(now, Input::Counted { session, counters }, &mut self.outputs);
            if row.is_dead {
                self.bng.input(now, Input::SessionLost { session }, &mut self.outputs);
            }
        }
        self.carry_out(Frames::Now);
        true
    }

    /// What is due.
    fn pass_time(&mut self) {
        if self.timer.is_some_and(|at| at <= now().at) {
            self.timer = None;
            self.input(Input::Timer, Frames::Now);
        }
        if let Some(link) = &mut self.link
            && self.table_at.is_some_and(|at| at <= Instant::now())
        {
            self.table_at = None;
            link.at_table = link.settled();
            self.connection.order(Order::Table { attachment: link.attachment });
        }
        self.losses.injections += self.link.as_mut().map_or(0, |link| std::mem::take(&mut link.lost_frames));
        self.metrics.publish(&self.bng, &self.losses);
    }

    /// Waits until there is something to do.
    fn sleep(&mut self) -> Result<()> {
        let due = self.timer.map(|at| at.saturating_sub(now().at));
        let table = self.table_at.map(|at| at.saturating_duration_since(Instant::now()));
        let time = [due, table].into_iter().flatten().fold(LOOK, Duration::min);
        let link = self.link.as_ref();
        let rings = || link.iter().flat_map(|link| link.threads.iter().map(|(punts, _)| punts));
        if rings().all(|punts| punts.may_sleep()) {
            let fds = [self.waker.as_fd(), self.store.as_fd()].into_iter().chain(rings().map(AsFd::as_fd));
            let fds = fds.chain(self.radius.descriptors()).chain(self.accounting.descriptors());
            let fds = fds.chain(self.dynauth.descriptor());
            let mut fds: Vec<_> = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
            let time = Timespec::try_from(time).ok();
            match poll(&mut fds, time.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error).context("cannot wait for frames"),
            }
        }
        // Each of them is told, whichever was readable.
        let mut are_open = true;
        rings().for_each(|punts| are_open &= punts.woke());
        if !are_open {
            self.attach_again("the node has ended, or another program controls it");
        }
        Ok(())
    }

    /// What the thread of the node says.
    fn report(&mut self, report: Report) {
        let current = self.link.as_ref().map(|link| link.attachment);
        match report {
            Report::Unreachable { error } => {
                info!("waiting for the node: {error}");
                self.node_trouble = Some(error);
            }
            Report::Attached { attachment, attached, state } => {
                self.link = Some(Link::new(attachment, *attached, &state.ports));
                self.attached(state);
            }
            Report::Lost { attachment, error } if current == Some(attachment) => {
                self.link = None;
                self.lost(&error);
            }
            Report::Applied { attachment, list, result } if current == Some(attachment) => match result {
                Ok(removed) => {
                    self.link.iter_mut().for_each(|link| link.applied(list));
                    self.removed(removed);
                }
                Err(refusal) => self.refused(&refusal),
            },
            Report::Table { attachment, state } if current == Some(attachment) => self.table(state),
            Report::Lost { .. } | Report::Applied { .. } | Report::Table { .. } => {}
        }
    }

    /// The node has removed sessions: what they counted at last.
    fn removed(&mut self, removed: Vec<Removed>) {
        for (session, count) in removed {
            let counters = count.map(|count| self.totals.total(session, count));
            self.totals.forget(session);
            self.input(Input::Removed { session, counters }, Frames::Now);
        }
    }

    fn lost(&mut self, error: &str) {
        warn!(%error, "note: attaching to the node again: {error}");
        self.node_trouble = Some(format!("attaching to the node again: {error}"));
        self.counted.clear();
        self.table_at = None;
    }

    /// A node, which this program has never seen or has lost: it gets what it lacks.
    fn attached(&mut self, State { ports, rows, ended }: State) {
        self.node_trouble = None;
        self.counted.clear();
        let online = self.bng.sessions().map(|session| (session.id, session.counters));
        let unaccounted = self.bng.unaccounted().map(|of| (of.session, of.counters));
        self.totals.begin(online.chain(unaccounted), rows.iter().chain(&ended));
        // First of all: no other input gives them to the node once more.
        self.ended_by_node(&ended);
        self.links(&ports);
        self.ports = ports;
        self.configure();
        self.set_grace();
        let known = table::sessions(&rows, self.bng.node_sessions());
        self.input(Input::NodeTable(&known), Frames::Now);
        info!(
            sessions = rows.len(),
            "attached to the node: sessions there: {}, to be there: {}",
            rows.len(),
            self.bng.sizes().sessions
        );
        self.look_later();
    }

    /// Sessions that the node has ended while this program was away, or while it was attached: it misses them in the table then.
    fn ended_by_node(&mut self, ended: &[Row]) {
        for row in ended {
            let session = SessionId(row.session);
            let counters = self.totals.total(session, row.counters);
            self.input(Input::EndedByNode { session, counters }, Frames::Now);
        }
    }

    /// The node ends sessions whose port has lost its link, also while this program is not there.
    fn set_grace(&self) {
        if let Some(link) = &self.link {
            let grace_s = u32::try_from(self.config.grace.as_secs()).unwrap_or(u32::MAX);
            self.connection.order(Order::Grace { attachment: link.attachment, grace_s });
        }
    }

    /// The node's ports and counters, read now and then. A text that was applied may have ended sessions.
    fn table(&mut self, State { ports, rows, .. }: State) {
        let Some(link) = &mut self.link else { return };
        // Sessions that there are were added: a frame of another one gets a PADT.
        if self.config.pppoe.is_some() && link.settled().is_some() && !link.is_complete {
            link.is_complete = true;
            self.connection.order(Order::Complete { attachment: link.attachment });
        }
        let is_settled = link.settled().is_some() && link.settled() == link.at_table && !link.has_refused;
        let in_node = rows.iter().filter(|row| row.session != 0).count();
        self.links(&ports);
        if ports != self.ports {
            self.attach_again("its ports or gateways have changed");
        } else if is_settled && in_node != self.bng.node_sessions().count() {
            self.attach_again("it has other sessions");
        } else {
            self.counted = rows.into();
            self.look_later();
        }
    }

    /// Ports have lost their links, or have them again.
    fn links(&mut self, ports: &[PortState]) {
        for port in ports {
            let before = self.ports.iter_mut().find(|before| before.port == port.port);
            let was_up = before.is_none_or(|before| std::mem::replace(&mut before.up, port.up));
            if let Ok(name) = port.port.parse()
                && was_up != port.up
            {
                let link = if port.up { LinkState::Up } else { LinkState::Down };
                self.input(Input::PortLink { port: name, link }, Frames::Now);
            }
        }
    }

    /// Drops the attachment, and has the thread of the node begin another one.
    fn attach_again(&mut self, reason: &str) {
        if let Some(link) = self.link.take() {
            self.connection.order(Order::Attach { attachment: link.attachment });
            self.lost(reason);
        }
    }

    fn look_later(&mut self) {
        let sessions = self.bng.sizes().sessions.min(1_000_000) as u32;
        let (least, most) = TABLE_EVERY;
        self.table_at = Some(Instant::now() + (TABLE_PER_SESSION * sessions).clamp(least, most));
    }

    /// The node does not take a change. Its session waits for a node that takes it, and its client is not answered.
    fn refused(&mut self, refusal: &Refusal) {
        let Some(link) = &mut self.link else { return };
        let message = &refusal.message;
        let Some(refused) = refusal.command.map(|place| link.refused(place)).filter(|all| !all.is_empty())
        else {
            return self.attach_again(message);
        };
        let is_first = !std::mem::replace(&mut link.has_refused, true);
        for change in refused {
            match change {
                NodeCommand::AddSession(add) => {
                    let (session, subscriber) = (add.session, add.subscriber);
                    if is_first {
                        warn!(%session, %subscriber, "note: the node refuses session {session} of {subscriber}, and perhaps others: {message}");
                    }
                    debug!(%session, %subscriber, "the node refuses session {session} of {subscriber}: {message}");
                    let has_port = self.ports.iter().any(|port| port.port == add.line.port.to_string());
                    let lacks = if has_port { Lacks::Place } else { Lacks::Port };
                    self.input(Input::NodeRefused { session, lacks, why: message }, Frames::Now);
                }
                NodeCommand::RemoveSession { session } => {
                    debug!(%session, "the node does not have session {session}: {message}");
                    self.removed(vec![(session, None)]);
                }
            }
        }
    }

    fn reload(&mut self, reload: &dyn Fn() -> Result<Config>) {
        match reload() {
            Ok(config) => {
                self.config = config;
                self.configure();
                self.configure_radius();
                self.set_grace();
                info!("the file was read again");
            }
            Err(error) => warn!("note: {error:#}; the configuration stays as it was"),
        }
    }

    /// The configuration of the file, with the ports of the node.
    fn configure(&mut self) {
        let mut config = self.config.clone();
        for state in &self.ports {
            let (Ok(name), Ok(mac)) = (state.port.parse(), state.mac.parse()) else { continue };
            config.ports.entry(name).or_default().mac.get_or_insert(mac);
        }
        if config != *self.bng.config() {
            let id = self.operators.number();
            let command = Command::Configure(Box::new(config));
            self.input(Input::Command { id, command }, Frames::Now);
        }
    }
}

/// The store, its records with readable passwords, and the key that encrypts them on disk.
fn open_store(folder: &Path, key: Option<&Path>) -> Result<(Store, Vec<Record>, Secrets)> {
    let mut opened = None;
    let mut seal = |records: &[Record]| {
        let secrets = Secrets::open(key, records);
        let sealed = secrets.as_ref().map(|secrets| secrets.seal_readable(records)).unwrap_or_default();
        opened = Some(secrets);
        sealed
    };
    let (store, mut records) = Store::open_sealed(folder, store::Options::default(), &mut seal)?;
    let secrets = opened.context("the store has no records")??;
    for record in &mut records {
        secrets.unseal(record)?;
    }
    Ok((store, records, secrets))
}

/// Sessions of a port share the text of its name.
fn share_port(record: &mut Record, ports: &mut HashSet<PortName>) {
    if let Change::Lease { lease, .. } = &mut record.change {
        let port = &mut lease.device.line.port;
        match ports.get(port) {
            Some(shared) => port.clone_from(shared),
            None => _ = ports.insert(port.clone()),
        }
    }
}

/// A number that nobody else knows.
fn seed() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish()
}

fn log(event: &Event) {
    match event {
        Event::SessionStarted { session, subscriber, address } => {
            debug!(%session, %subscriber, %address, "session {session} of {subscriber} began with {address}");
        }
        Event::SessionEnded { session, subscriber, address, cause, .. } => {
            debug!(%session, %subscriber, %address, %cause, "session {session} of {subscriber} with {address} has ended: {cause}");
        }
        Event::AddressDeclined { subscriber, address } => {
            warn!(%subscriber, %address, "note: a client of {subscriber} found {address} in use: it is not assigned for a time");
        }
        Event::PoolExhausted { what } => warn!("note: no address is free: {what}; add a range to a pool"),
        Event::ServerSeen { line, mac } => {
            warn!(%line, %mac, "note: a DHCP server with the address {mac} answers on the subscriber side at {line}; its frames are dropped");
        }
        Event::RadiusServer { server, is_alive: false } => {
            warn!(%server, "note: RADIUS server {server} does not answer: others are asked; see its address and secret");
        }
        Event::RadiusServer { server, is_alive: true } => {
            info!(%server, "RADIUS server {server} answers again")
        }
        Event::RadiusDistrusted { server, why } => {
            warn!(%server, "note: answers of RADIUS server {server} are dropped: {why}");
        }
        Event::PortLink { port, link: LinkState::Down, sessions } => {
            warn!(%port, sessions, "note: {port} has lost its link: its sessions ({sessions}) end unless the link is up again in time");
        }
        Event::PortLink { port, link: LinkState::Up, sessions } => {
            info!(%port, sessions, "{port} has its link again: its sessions ({sessions}) go on");
        }
        Event::RecordSkipped { revision, why } => {
            warn!(revision, "note: record {revision} changes nothing: {why}");
        }
    }
}
