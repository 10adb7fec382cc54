//! Accounting (RFC 2866, RFC 2869, section 2.1; RFC 5080, section 2.3): what is told of each session, in its order.
//!
//! ```text
//! Start > Interim (the newest only) > Stop          one record of a session is on its way; the others wait for its answer
//! ```
//! A record that is not answered is sent again, later and later, until it is: Acct-Delay-Time says how late it is. So every Start has
//! a Stop, whatever happened between them, and a Stop has the final counters.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::access::Request;
use super::attribute::{Attributes, number};
use super::client::Token;
use super::packet::code;
use crate::random::Random;
use crate::session::Counters;

/// First and longest pause before a record is sent again that no server has answered.
const PAUSES: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(300));
/// Shortest interval between interim records (RFC 2869, section 5.16).
const LEAST_INTERIM_S: u32 = 60;

/// Why a session ended (RFC 2866, section 5.10).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum TerminateCause {
    /// The subscriber ended it.
    UserRequest = 1,
    /// The line was lost.
    LostCarrier = 2,
    /// No traffic for the idle timeout.
    IdleTimeout = 4,
    /// The session timeout, or a quota.
    SessionTimeout = 5,
    /// An operator ended it.
    AdminReset = 6,
    /// The concentrator was stopped for good.
    AdminReboot = 7,
    /// The port failed.
    PortError = 8,
    /// The concentrator failed.
    NasError = 9,
    /// The concentrator needed its resources for another session.
    NasRequest = 10,
}

/// What a record says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The session began.
    Start,
    /// It goes on.
    Interim,
    /// It ended.
    Stop(TerminateCause),
}

impl Kind {
    /// Acct-Status-Type.
    fn status(self) -> u32 {
        match self {
            Kind::Start => 1,
            Kind::Stop(_) => 2,
            Kind::Interim => 3,
        }
    }
}

/// A record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Acct-Session-Id, unique over restarts and nodes.
    pub session_id: Arc<str>,
    /// What it says.
    pub kind: Kind,
    /// When it happened, s since 1970.
    pub happened_s: u64,
    /// When the session began, s since 1970.
    pub start_s: u64,
    /// What the session has counted.
    pub counters: Counters,
    /// User-Name, addresses, Class and what else all records of the session have.
    pub base: Arc<Attributes>,
}

/// Which counter is Acct-Input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum InputIs {
    /// From the subscriber (RFC 2866, section 5.3).
    #[default]
    FromSubscriber,
    /// To the subscriber, as some servers expect.
    ToSubscriber,
}

impl Record {
    /// The request for a server.
    pub fn request(&self, input: InputIs) -> Request {
        let mut attributes = (*self.base).clone();
        attributes.push_u32(number::ACCT_STATUS_TYPE, self.kind.status());
        attributes.push(number::ACCT_SESSION_ID, self.session_id.as_bytes());
        let happened = u32::try_from(self.happened_s).unwrap_or(u32::MAX);
        attributes.push_u32(number::EVENT_TIMESTAMP, happened);
        if self.kind != Kind::Start {
            self.push_counters(input, &mut attributes);
        }
        if let Kind::Stop(cause) = self.kind {
            attributes.push_u32(number::ACCT_TERMINATE_CAUSE, cause as u32);
        }
        let happened_s = Some(self.happened_s);
        Request { code: code::ACCOUNTING_REQUEST, attributes, password: None, happened_s }
    }

    fn push_counters(&self, input: InputIs, attributes: &mut Attributes) {
        let Counters { down_frames, down_bytes, up_frames, up_bytes } = self.counters;
        let (up, down) = ((up_frames, up_bytes), (down_frames, down_bytes));
        let (into, out) = if input == InputIs::FromSubscriber { (up, down) } else { (down, up) };
        // The low 32 bits; the high ones are Gigawords, also if they are 0.
        let mut push = |kind, value: u64| attributes.push_u32(kind, value as u32);
        push(number::ACCT_INPUT_OCTETS, into.1);
        push(number::ACCT_INPUT_GIGAWORDS, into.1 >> 32);
        push(number::ACCT_OUTPUT_OCTETS, out.1);
        push(number::ACCT_OUTPUT_GIGAWORDS, out.1 >> 32);
        push(number::ACCT_INPUT_PACKETS, into.0);
        push(number::ACCT_OUTPUT_PACKETS, out.0);
        push(number::ACCT_SESSION_TIME, self.happened_s.saturating_sub(self.start_s).min(u32::MAX.into()));
    }
}

/// Acct-Session-Id of a session: unique for each node, and for each session of its records.
pub fn session_id(node: &str, session: u64) -> Arc<str> {
    format!("{node}-{session:x}").into()
}

/// The interval between interim records of a session: the server's, but not below the local minimum (RFC 5080, section 2.3.4).
pub fn interim_s(accepted: Option<u32>, least: u32) -> Option<u32> {
    accepted.filter(|interval| *interval > 0).map(|interval| interval.max(least).max(LEAST_INTERIM_S))
}

/// When a session's first interim record is due: anywhere in the first interval, so that sessions that began together do not report
/// together.
pub fn first_interim(start: Duration, interval_s: u32, random: &mut Random) -> Duration {
    start + Duration::from_millis(random.below(u64::from(interval_s) * 1000).max(1))
}

/// Number of a record, in the order in which they were made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordId(pub u64);

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Send a record, with this token.
    Send(Token, Request),
    /// A record was answered, or a newer one has replaced it: it need not be kept.
    Forget(RecordId),
}

#[derive(Debug)]
struct Queue {
    records: VecDeque<(RecordId, Record)>,
    /// The first record is on its way.
    is_sent: bool,
    /// When the first one is sent again; `None`: it is on its way.
    retry: Option<Duration>,
    pause: Duration,
}

/// Records that were not answered yet, a queue for each session.
#[derive(Debug)]
pub struct Spool {
    input: InputIs,
    queues: HashMap<Arc<str>, Queue>,
    sent: HashMap<Token, Arc<str>>,
    retries: BTreeSet<(Duration, Arc<str>)>,
    tokens: u64,
    random: Random,
}

type Outputs = Vec<Output>;

impl Spool {
    /// Nothing to tell.
    pub fn new(input: InputIs, random: Random) -> Spool {
        Spool {
            input,
            queues: HashMap::new(),
            sent: HashMap::new(),
            retries: BTreeSet::new(),
            tokens: 0,
            random,
        }
    }

    /// Records that were not answered.
    pub fn len(&self) -> usize {
        self.queues.values().map(|queue| queue.records.len()).sum()
    }

    /// Whether all were answered.
    pub fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }

    /// When [`Spool::timer`] is to be called.
    pub fn deadline(&self) -> Option<Duration> {
        self.retries.first().map(|(at, _)| *at)
    }

    /// A record is on disk: it is sent when those before it of the same session were answered. Also for each record that was on disk
    /// when the program began, in their order.
    pub fn add(&mut self, now: Duration, id: RecordId, record: Record, out: &mut Outputs) {
        let session = record.session_id.clone();
        let new = || Queue { records: VecDeque::new(), is_sent: false, retry: None, pause: PAUSES.0 };
        let queue = self.queues.entry(session.clone()).or_insert_with(new);
        // An interim record that was not sent yet says less than what follows it.
        let is_old = queue.records.len() > usize::from(queue.is_sent || queue.retry.is_some())
            && queue.records.back().is_some_and(|(_, last)| last.kind == Kind::Interim);
        if is_old && let Some((old, _)) = queue.records.pop_back() {
            out.push(Output::Forget(old));
        }
        queue.records.push_back((id, record));
        self.send_first(now, &session, out);
    }

    fn send_first(&mut self, now: Duration, session: &Arc<str>, out: &mut Outputs) {
        let Some(queue) = self.queues.get_mut(session) else { return };
        if queue.is_sent || queue.retry.is_some_and(|at| at > now) {
            return;
        }
        let Some((_, record)) = queue.records.front() else { return };
        if let Some(at) = queue.retry.take() {
            self.retries.remove(&(at, session.clone()));
        }
        queue.is_sent = true;
        self.tokens += 1;
        let token = Token(self.tokens);
        self.sent.insert(token, session.clone());
        out.push(Output::Send(token, record.request(self.input)));
    }

    /// A record was answered by an Accounting-Response, or no server has answered it.
    pub fn done(&mut self, now: Duration, token: Token, answered: Answered, out: &mut Outputs) {
        let Some(session) = self.sent.remove(&token) else { return };
        let Some(queue) = self.queues.get_mut(&session) else { return };
        queue.is_sent = false;
        match answered {
            Answered::Yes => {
                queue.pause = PAUSES.0;
                if let Some((id, _)) = queue.records.pop_front() {
                    out.push(Output::Forget(id));
                }
                if queue.records.is_empty() {
                    self.queues.remove(&session);
                }
                self.send_first(now, &session, out);
            }
            Answered::No => {
                // Between half of the pause and all of it, so that they do not all return together.
                let pause = queue.pause / 2 + queue.pause * (self.random.below(501) as u32) / 1000;
                queue.pause = (queue.pause * 2).min(PAUSES.1);
                queue.retry = Some(now + pause);
                self.retries.insert((now + pause, session));
            }
        }
    }

    /// Deadlines may have passed.
    pub fn timer(&mut self, now: Duration, out: &mut Outputs) {
        while let Some((_, session)) = self.retries.first().filter(|(at, _)| *at <= now).cloned() {
            self.send_first(now, &session, out);
        }
    }
}

/// Whether a server has answered a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Answered {
    /// It has it.
    Yes,
    /// None has.
    No,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(session: &str, kind: Kind) -> Record {
        Record {
            session_id: session.into(),
            kind,
            happened_s: 1_790_000_600,
            start_s: 1_790_000_000,
            counters: Counters { down_frames: 5, down_bytes: (3 << 32) + 7, up_frames: 2, up_bytes: 9 },
            base: Arc::default(),
        }
    }

    const STOP: Kind = Kind::Stop(TerminateCause::UserRequest);

    struct Bench {
        spool: Spool,
        now: Duration,
        out: Vec<Output>,
        ids: u64,
    }

    impl Bench {
        fn new() -> Bench {
            let spool = Spool::new(InputIs::FromSubscriber, Random::new([1; 32]));
            Bench { spool, now: Duration::ZERO, out: Vec::new(), ids: 0 }
        }

        fn add(&mut self, session: &str, kind: Kind) {
            self.ids += 1;
            self.spool.add(self.now, RecordId(self.ids), record(session, kind), &mut self.out);
        }

        /// What was sent: token, session, Acct-Status-Type.
        fn sent(&mut self) -> Vec<(Token, String, u32)> {
            let read = |output| match output {
                Output::Send(token, request) => {
                    let Request { attributes, .. } = request;
                    let session = attributes.text(number::ACCT_SESSION_ID).unwrap();
                    Some((token, session, attributes.u32(number::ACCT_STATUS_TYPE).unwrap()))
                }
                Output::Forget(_) => None,
            };
            self.out.drain(..).filter_map(read).collect()
        }

        fn done(&mut self, token: Token, answered: Answered) {
            self.spool.done(self.now, token, answered, &mut self.out);
        }
    }

    #[test]
    fn r9_octets_beyond_four_gigabytes_are_exact_and_the_sense_can_be_swapped() {
        let record = record("a", STOP);
        let found = |input| {
            let attributes = record.request(input).attributes;
            [42, 52, 43, 53, 47, 48, 46, 49].map(|kind| attributes.u32(kind).unwrap())
        };
        assert_eq!(found(InputIs::FromSubscriber), [9, 0, 7, 3, 2, 5, 600, 1]);
        assert_eq!(found(InputIs::ToSubscriber), [7, 3, 9, 0, 5, 2, 600, 1]);
    }

    #[test]
    fn r6_interim_has_all_of_stop_but_the_cause() {
        let kinds = |kind| {
            let request = record("a", kind).request(InputIs::FromSubscriber);
            request.attributes.iter().map(|(kind, _)| kind).collect::<BTreeSet<u8>>()
        };
        let (interim, stop) = (kinds(Kind::Interim), kinds(STOP));
        assert_eq!(stop.difference(&interim).copied().collect::<Vec<_>>(), [number::ACCT_TERMINATE_CAUSE]);
        for (accepted, least, expected) in [
            (None, 600, None),
            (Some(0), 1, None),
            (Some(300), 600, Some(600)),
            (Some(900), 600, Some(900)),
            (Some(10), 1, Some(60)),
        ] {
            assert_eq!(interim_s(accepted, least), expected, "{accepted:?} {least}");
        }
        let random = &mut Random::new([1; 32]);
        let mut tenths = [0; 10];
        for _ in 0..1000 {
            let at = first_interim(Duration::ZERO, 600, random);
            tenths[(at.as_secs() / 60) as usize] += 1;
        }
        assert!(tenths.iter().all(|count| (60..140).contains(count)), "{tenths:?}");
    }

    #[test]
    fn r7_records_of_a_session_are_sent_in_order_each_after_the_answer_to_the_one_before() {
        let mut bench = Bench::new();
        for kind in [Kind::Start, Kind::Interim, STOP] {
            bench.add("a", kind);
        }
        bench.add("b", Kind::Start);
        // The interim record was not sent yet when the stop came.
        let sent = bench.sent();
        assert_eq!(
            sent.iter().map(|(_, session, status)| (&**session, *status)).collect::<Vec<_>>(),
            [("a", 1), ("b", 1)]
        );
        bench.done(sent[0].0, Answered::Yes);
        let stop = bench.sent();
        assert_eq!(stop[0].2, 2);
        bench.done(stop[0].0, Answered::Yes);
        bench.done(sent[1].0, Answered::Yes);
        assert_eq!((bench.sent(), bench.spool.len(), bench.spool.is_empty()), (vec![], 0, true));
    }

    /// Table 1.3, rows 4 and 51: the stop is sent although the start was not answered for long.
    #[test]
    fn r7_a_record_that_is_not_answered_is_sent_until_it_is() {
        let mut bench = Bench::new();
        bench.add("a", Kind::Start);
        bench.add("a", STOP);
        let mut statuses = Vec::new();
        for round in 0..12 {
            let sent = bench.sent();
            let [(token, _, status)] = &*sent else { panic!("{sent:?}") };
            statuses.push(*status);
            bench.done(*token, if round >= 9 { Answered::Yes } else { Answered::No });
            if round >= 10 {
                break;
            }
            if let Some(at) = bench.spool.deadline() {
                assert!(bench.sent().is_empty() && at - bench.now <= PAUSES.1);
                bench.now = at;
                bench.spool.timer(at, &mut bench.out);
            }
        }
        assert_eq!(statuses, [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2]);
        assert!(bench.spool.is_empty() && bench.spool.deadline().is_none());
        assert!(bench.now > Duration::from_secs(600), "{:?}", bench.now);
    }

    #[test]
    fn r7_only_the_newest_interim_record_waits() {
        let mut bench = Bench::new();
        bench.add("a", Kind::Start);
        (0..1000).for_each(|_| bench.add("a", Kind::Interim));
        assert_eq!(bench.spool.len(), 2);
        let forgotten = bench.out.iter().filter(|output| matches!(output, Output::Forget(_))).count();
        assert_eq!(forgotten, 999);
    }

    #[test]
    fn session_ids_are_unique_for_node_and_session() {
        assert_eq!(&*session_id("bng1", 255), "bng1-ff");
    }
}
