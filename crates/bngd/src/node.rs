//! The connection to the node, in a thread of its own: one request after the other, so that the main loop never waits for the node.
//!
//! ```text
//! main loop --- Order: commands, table ----> this thread --- lines of JSON ---> node
//!           <-- Report: attached, applied --             <--
//! ```
//! An attachment has a number. Orders for an attachment that has ended are ignored, and its reports are ignored by the main loop.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use weir_bng::NodeCommand;
use weir_control::client::{Attached, Client};
use weir_control::request::Refusal;
use weir_node::{
    EndedSubscribers, EndedSubscribersQuery, PortState, Ports, Query, RemovedSubscribers,
    RemovedSubscribersQuery, SubscriberCounts, Subscribers, SubscribersQuery,
};
use weir_plane::{Command, SubscriberCommand, UnknownSessions};

use crate::table::{self, Removed, Row};
use crate::wake::Waker;

/// Slots of each ring: as many frames wait for this program while it is busy.
const SLOTS: u32 = 8192;
/// Sessions of a page of the table.
const PAGE: u32 = 512;
/// Time between two attempts to reach the node.
const RETRY: Duration = Duration::from_millis(200);

/// An attachment that ends within this time is followed by a pause.
const SHORT: Duration = Duration::from_secs(1);

/// What the thread is to do; each for one attachment.
#[derive(Debug)]
pub(crate) enum Order {
    /// Have the node do these, all or none.
    Commands { attachment: u64, list: u64, changes: Vec<NodeCommand> },
    /// Read the ports and the table.
    Table { attachment: u64 },
    /// The node has all sessions that there are.
    Complete { attachment: u64 },
    /// So long the node keeps sessions whose port has lost its link, s.
    Grace { attachment: u64, grace_s: u32 },
    /// The rings are closed: attach again.
    Attach { attachment: u64 },
}

impl Order {
    fn attachment(&self) -> u64 {
        match *self {
            Order::Commands { attachment, .. }
            | Order::Table { attachment }
            | Order::Complete { attachment }
            | Order::Grace { attachment, .. }
            | Order::Attach { attachment } => attachment,
        }
    }
}

/// What the thread has to say.
#[derive(Debug)]
pub(crate) enum Report {
    /// No node answers; said once until one does.
    Unreachable { error: String },
    /// This program is attached.
    Attached { attachment: u64, attached: Box<Attached>, state: State },
    /// The connection has ended.
    Lost { attachment: u64, error: String },
    /// A list was applied, or refused because of one of its commands.
    Applied { attachment: u64, list: u64, result: Result<Vec<Removed>, Refusal> },
    /// The ports and the table.
    Table { attachment: u64, state: State },
}

/// What the node has.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) ports: Vec<PortState>,
    pub(crate) rows: Vec<Row>,
    /// Sessions that the node has ended itself, since their ports had no link; read when this program is attached.
    pub(crate) ended: Vec<Row>,
}

/// The other end of the thread.
#[derive(Debug)]
pub(crate) struct Connection {
    orders: Sender<Order>,
    reports: Receiver<Report>,
}

impl Connection {
    /// Starts the thread, which ends with this.
    ///
    /// # Errors
    /// There is no thread left.
    pub(crate) fn start(socket: PathBuf, waker: Waker) -> Result<Connection> {
        let (orders, to_do) = channel();
        let (to_tell, reports) = channel();
        let mut thread = Thread { socket, orders: to_do, reports: to_tell, waker, attachment: 0 };
        std::thread::Builder::new()
            .name("node".into())
            .spawn(move || thread.run())
            .context("cannot start the thread of the node")?;
        Ok(Connection { orders, reports })
    }

    /// Gives an order. A thread that has ended takes none.
    pub(crate) fn order(&self, order: Order) {
        let _ = self.orders.send(order);
    }

    /// What was reported since the last call.
    pub(crate) fn reports(&self) -> Vec<Report> {
        self.reports.try_iter().collect()
    }
}

struct Thread {
    socket: PathBuf,
    orders: Receiver<Order>,
    reports: Sender<Report>,
    waker: Waker,
    attachment: u64,
}

/// The main loop has ended.
struct HasEnded;

impl Thread {
    fn run(&mut self) {
        let mut is_unreachable = false;
        loop {
            let ended = match attach(&self.socket) {
                Ok((client, attached, state)) => {
                    is_unreachable = false;
                    self.attachment += 1;
                    let attachment = self.attachment;
                    let report = Report::Attached { attachment, attached: Box::new(attached), state };
                    let began = Instant::now();
                    let ended = self.report(report).and_then(|()| self.serve(client));
                    // Two programs that take the node from each other do so slowly.
                    let is_short = began.elapsed() < SHORT;
                    ended.and_then(|()| if is_short { self.wait() } else { Ok(()) })
                }
                Err(_) if is_unreachable => self.wait(),
                Err(error) => {
                    is_unreachable = true;
                    self.report(Report::Unreachable { error: format!("{error:#}") })
                }
            };
            if ended.is_err() {
                return;
            }
        }
    }

    fn report(&self, report: Report) -> Result<(), HasEnded> {
        self.reports.send(report).map_err(|_| HasEnded)?;
        self.waker.wake();
        Ok(())
    }

    /// Waits before the next attempt. Orders are for an attachment that has ended.
    fn wait(&self) -> Result<(), HasEnded> {
        match self.orders.recv_timeout(RETRY) {
            Ok(_) | Err(RecvTimeoutError::Timeout) => Ok(()),
            Err(RecvTimeoutError::Disconnected) => Err(HasEnded),
        }
    }

    /// Carries out orders until the connection ends. The table is read page by page, and changes go between two pages: clients wait for
    /// them.
    fn serve(&self, mut client: Client) -> Result<(), HasEnded> {
        let attachment = self.attachment;
        let mut reading: Option<Reading> = None;
        loop {
            let order = match reading {
                None => Some(self.orders.recv().map_err(|_| HasEnded)?),
                Some(_) => match self.orders.try_recv() {
                    Ok(order) => Some(order),
                    Err(TryRecvError::Empty) => None,
                    Err(TryRecvError::Disconnected) => return Err(HasEnded),
                },
            };
            let report = match order.filter(|order| order.attachment() == attachment) {
                Some(Order::Attach { .. }) => return Ok(()),
                Some(Order::Table { .. }) => {
                    reading = Some(Reading::default());
                    continue;
                }
                Some(Order::Complete { .. }) => complete(&mut client).map(|()| None),
                Some(Order::Grace { grace_s, .. }) => {
                    set(&mut client, SubscriberCommand::GraceS(grace_s)).map(|()| None)
                }
                Some(Order::Commands { list, changes, .. }) => apply(&mut client, &changes)
                    .map(|result| Some(Report::Applied { attachment, list, result })),
                None => read_on(&mut client, &mut reading, counts)
                    .map(|state| state.map(|state| Report::Table { attachment, state })),
            };
            match report {
                Ok(report) => report.map_or(Ok(()), |report| self.report(report))?,
                Err(error) => {
                    return self.report(Report::Lost { attachment, error: format!("{error:#}") });
                }
            }
        }
    }
}

fn attach(socket: &Path) -> Result<(Client, Attached, State)> {
    let mut client = Client::connect(socket)?;
    // From here on no program before this one changes the table.
    let attached = client.attach_control(SLOTS)?;
    let mut reading = Some(Reading::default());
    loop {
        if let Some(state) = read_on(&mut client, &mut reading, sessions)? {
            // Behind the table: a session is in one of them, or in both.
            let ended = ended(&mut client)?;
            return Ok((client, attached, State { ended, ..state }));
        }
    }
}

/// What was read of the table so far.
#[derive(Debug, Default)]
struct Reading {
    rows: Vec<Row>,
    after: Option<u32>,
}

/// A page of the table, and where the next one begins.
type Page = (Vec<Row>, Option<u32>);

/// A page of sessions as they were added.
fn sessions(client: &mut Client, query: SubscribersQuery) -> Result<Page> {
    let page: Subscribers = client.query(Query::Subscribers(query))?;
    Ok((page.subscribers.into_iter().map(Row::from).collect(), page.next))
}

/// A page of what sessions counted.
fn counts(client: &mut Client, query: SubscribersQuery) -> Result<Page> {
    let page: SubscriberCounts = client.query(Query::SubscriberCounts(query))?;
    Ok((page.counts.into_iter().map(Row::from).collect(), page.next))
}

/// Reads a page of the table; all of it and the ports, if it was the last one.
fn read_on(
    client: &mut Client,
    reading: &mut Option<Reading>,
    page: fn(&mut Client, SubscribersQuery) -> Result<Page>,
) -> Result<Option<State>> {
    let Some(read) = reading else { return Ok(None) };
    let (rows, next) = page(client, SubscribersQuery { after: read.after, most: Some(PAGE) })?;
    read.rows.extend(rows);
    read.after = next;
    if read.after.is_some() {
        return Ok(None);
    }
    let rows = std::mem::take(&mut read.rows);
    *reading = None;
    let Ports { ports } = client.query(Query::Ports)?;
    Ok(Some(State { ports, rows, ended: Vec::new() }))
}

/// Sessions that the node has ended itself.
fn ended(client: &mut Client) -> Result<Vec<Row>> {
    let (mut rows, mut after) = (Vec::new(), None);
    loop {
        let query = EndedSubscribersQuery { after, most: Some(PAGE) };
        let page: EndedSubscribers = client.query(Query::EndedSubscribers(query))?;
        rows.extend(page.ended.into_iter().map(Row::from));
        after = page.next;
        if after.is_none() {
            return Ok(rows);
        }
    }
}

/// From now on the node tells senders of unknown PPPoE sessions that they have ended.
fn complete(client: &mut Client) -> Result<()> {
    set(client, SubscriberCommand::UnknownSessions(UnknownSessions::Terminate))
}

fn set(client: &mut Client, command: SubscriberCommand) -> Result<()> {
    match client.command(vec![Command::Subscriber(command)]) {
        Ok(_) => Ok(()),
        // A node without access ports has no sessions.
        Err(error) => error.downcast::<Refusal>().map(|_| ()),
    }
}

/// Has the node apply changes, and asks what sessions had counted that were removed. The inner result is what the node says, the outer
/// one whether it could be asked.
fn apply(client: &mut Client, changes: &[NodeCommand]) -> Result<Result<Vec<Removed>, Refusal>> {
    let commands = table::commands(changes);
    if commands.is_empty() {
        return Ok(Ok(Vec::new()));
    }
    match client.command(commands) {
        Ok(_) => table::removed(changes, |sessions| {
            let query = Query::RemovedSubscribers(RemovedSubscribersQuery { sessions });
            Ok(client.query::<RemovedSubscribers>(query)?.removed)
        })
        .map(Ok),
        Err(error) => error.downcast::<Refusal>().map(Err),
    }
}
