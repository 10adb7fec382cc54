//! Accounting (RFC 2866, RFC 2869, section 2.1; RFC 5080, section 2.3): what servers are told of each session, in its order.
//!
//! ```text
//! Start > Interim (the newest only) > Stop       one message of a session is on its way; the others wait for its answer
//! ```
//! A message that is not answered is sent again, later and later, until it is: Acct-Delay-Time says how late it is. So every Start has
//! a Stop, whatever happened between them, and a Stop has the final counters. What a message says is asked for when it is sent: only
//! which ones wait is kept here.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use super::access::Request;
use super::attribute::{Attributes, number};
use super::packet::code;
use crate::random::Random;
use crate::session::{Counters, EndCause, SessionId};

/// First and longest pause before a message is sent again that no server has answered.
const PAUSES: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(300));
/// Shortest interval between interim updates (RFC 2869, section 5.16).
pub const LEAST_INTERIM_S: u32 = 60;
/// Most messages that are on their way at once: others wait here, and not as whole requests in the client.
const MOST_SENT: usize = 4096;
/// In place of a session: the concentrator itself, whose first message is Accounting-On and whose last one is Accounting-Off.
pub const NODE: SessionId = SessionId(0);

/// Why a session ended (RFC 2866, section 5.10).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum TerminateCause {
    /// The subscriber ended it.
    UserRequest = 1,
    /// The line was lost.
    LostCarrier = 2,
    /// No protocol of the network layer is open any more.
    LostService = 3,
    /// No traffic for the idle timeout.
    IdleTimeout = 4,
    /// The session timeout, or a quota.
    SessionTimeout = 5,
    /// An operator ended it.
    AdminReset = 6,
    /// An operator ended all sessions.
    AdminReboot = 7,
    /// The port failed.
    PortError = 8,
    /// The concentrator cannot go on with it.
    NasError = 9,
    /// The concentrator ended it for another session of its subscriber.
    NasRequest = 10,
}

impl From<EndCause> for TerminateCause {
    fn from(cause: EndCause) -> TerminateCause {
        match cause {
            EndCause::Released => TerminateCause::UserRequest,
            EndCause::Lost | EndCause::Expired => TerminateCause::LostCarrier,
            EndCause::ServiceLost => TerminateCause::LostService,
            EndCause::IdleTimeout => TerminateCause::IdleTimeout,
            EndCause::SessionTimeout | EndCause::Quota => TerminateCause::SessionTimeout,
            EndCause::Disconnected | EndCause::Blocked | EndCause::SubscriberChanged => {
                TerminateCause::AdminReset
            }
            EndCause::Shutdown => TerminateCause::AdminReboot,
            EndCause::LinkLost | EndCause::PortRemoved => TerminateCause::PortError,
            EndCause::Declined | EndCause::NotStored | EndCause::Refused => TerminateCause::NasError,
            EndCause::Replaced => TerminateCause::NasRequest,
        }
    }
}

/// A message, in the order in which those of a session are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Message {
    /// The session began; of the concentrator: it lost all sessions.
    Start = 1,
    /// The session goes on.
    Interim = 2,
    /// The session ended; of the concentrator: it ended all sessions.
    Stop = 4,
}

/// What a message says beside what all messages of its session say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report {
    /// Which message.
    pub message: Message,
    /// When it happened, s since 1970.
    pub happened_s: u64,
    /// When the session began, s since 1970.
    pub start_s: u64,
    /// What the session has counted.
    pub counters: Counters,
    /// Why it ended; for a Stop.
    pub cause: EndCause,
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

impl Report {
    /// The request for a server; `attributes` are those of all messages of the session, with its Acct-Session-Id.
    pub fn request(&self, mut attributes: Attributes, input: InputIs) -> Request {
        let status = match self.message {
            Message::Start => 1,
            Message::Stop => 2,
            Message::Interim => 3,
        };
        attributes.push_u32(number::ACCT_STATUS_TYPE, status);
        if self.message != Message::Start {
            self.push_counters(input, &mut attributes);
        }
        if self.message == Message::Stop {
            attributes.push_u32(number::ACCT_TERMINATE_CAUSE, TerminateCause::from(self.cause) as u32);
        }
        dated(attributes, self.happened_s)
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

/// Accounting-On (RFC 2866, section 5.1), or Accounting-Off for the last message. `attributes` say who the concentrator is.
pub fn node_request(mut attributes: Attributes, message: Message, happened_s: u64) -> Request {
    attributes.push_u32(number::ACCT_STATUS_TYPE, if message == Message::Stop { 8 } else { 7 });
    dated(attributes, happened_s)
}

fn dated(mut attributes: Attributes, happened_s: u64) -> Request {
    attributes.push_u32(number::EVENT_TIMESTAMP, u32::try_from(happened_s).unwrap_or(u32::MAX));
    let happened_s = Some(happened_s);
    Request { code: code::ACCOUNTING_REQUEST, attributes, password: None, happened_s }
}

/// The interval between interim updates of a session: the server's, but not below the local minimum (RFC 5080, section 2.3.4).
pub fn interim_s(accepted: Option<u32>, least: u32) -> Option<u32> {
    accepted.filter(|interval| *interval > 0).map(|interval| interval.max(least).max(LEAST_INTERIM_S))
}

/// When a session's first interim update is due: anywhere in the first interval, so that sessions that began together do not report
/// together.
pub fn first_interim(start: Duration, interval_s: u32, random: &mut Random) -> Duration {
    start + Duration::from_millis(random.below(u64::from(interval_s) * 1000).max(1))
}

/// What waits of a session.
#[derive(Debug)]
struct Queue {
    /// Messages that were not answered, as bits.
    waits: u8,
    /// The one that is on its way.
    sent: Option<Message>,
    /// When the first one is sent again.
    retry: Option<Duration>,
    pause: Duration,
}

impl Queue {
    fn has(&self, message: Message) -> bool {
        self.waits & message as u8 != 0
    }

    fn first(&self) -> Option<Message> {
        [Message::Start, Message::Interim, Message::Stop].into_iter().find(|message| self.has(*message))
    }
}

/// Messages that were not answered yet, a queue for each session.
#[derive(Debug)]
pub struct Spool {
    queues: HashMap<SessionId, Queue>,
    /// Sessions whose first message may be sent.
    ready: VecDeque<SessionId>,
    retries: BTreeSet<(Duration, SessionId)>,
    sent: usize,
    len: usize,
    random: Random,
}

impl Spool {
    /// Nothing to tell.
    pub fn new(random: Random) -> Spool {
        let (queues, ready, retries) = Default::default();
        Spool { queues, ready, retries, sent: 0, len: 0, random }
    }

    /// Messages that were not answered.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether all were answered.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether a session has a message that was not answered.
    pub fn has(&self, session: SessionId) -> bool {
        self.queues.contains_key(&session)
    }

    /// When [`Spool::timer`] is to be called.
    pub fn deadline(&self) -> Option<Duration> {
        self.retries.first().map(|(at, _)| *at)
    }

    /// A message is to be sent, when those before it of the same session were answered. One that waits already does so once.
    pub fn add(&mut self, session: SessionId, message: Message) {
        let is_new = !self.queues.contains_key(&session);
        let new = || Queue { waits: 0, sent: None, retry: None, pause: PAUSES.0 };
        let queue = self.queues.entry(session).or_insert_with(new);
        // An interim update that was not sent yet says less than the Stop.
        let is_old =
            message == Message::Stop && queue.has(Message::Interim) && queue.sent != Some(Message::Interim);
        if is_old {
            queue.waits &= !(Message::Interim as u8);
            self.len -= 1;
        }
        self.len += usize::from(!queue.has(message));
        queue.waits |= message as u8;
        if is_new {
            self.ready.push_back(session);
        }
    }

    /// A message to be sent now. Accounting-On comes before all others: a server ends with it the sessions that it knows.
    pub fn take(&mut self) -> Option<(SessionId, Message)> {
        if self.queues.get(&NODE).is_some_and(|queue| queue.has(Message::Start)) {
            let place = self.ready.iter().position(|session| *session == NODE)?;
            self.ready.remove(place);
            self.ready.push_front(NODE);
        }
        while self.sent < MOST_SENT {
            let session = self.ready.pop_front()?;
            let Some(queue) = self.queues.get_mut(&session).filter(|queue| queue.sent.is_none()) else {
                continue;
            };
            let Some(message) = queue.first() else { continue };
            queue.sent = Some(message);
            self.sent += 1;
            return Some((session, message));
        }
        None
    }

    /// The message of a session that was on its way was answered by an Accounting-Response, or no server has answered it. Which one it
    /// is, if it was answered.
    pub fn done(&mut self, now: Duration, session: SessionId, answered: Answered) -> Option<Message> {
        let queue = self.queues.get_mut(&session)?;
        let message = queue.sent.take()?;
        self.sent -= 1;
        if answered == Answered::No {
            // Between half of the pause and all of it, so that they do not all return together.
            let pause = queue.pause / 2 + queue.pause * (self.random.below(501) as u32) / 1000;
            queue.pause = (queue.pause * 2).min(PAUSES.1);
            queue.retry = Some(now + pause);
            self.retries.insert((now + pause, session));
            return None;
        }
        queue.pause = PAUSES.0;
        queue.waits &= !(message as u8);
        self.len -= 1;
        match queue.waits {
            0 => _ = self.queues.remove(&session),
            _ => self.ready.push_back(session),
        }
        Some(message)
    }

    /// Deadlines may have passed.
    pub fn timer(&mut self, now: Duration) {
        while let Some((at, session)) = self.retries.first().copied().filter(|(at, _)| *at <= now) {
            self.retries.remove(&(at, session));
            if let Some(queue) = self.queues.get_mut(&session) {
                queue.retry = None;
                self.ready.push_back(session);
            }
        }
    }

    /// A server answers again, or there is another one: what waits is sent at once.
    pub fn hurry(&mut self) {
        for (_, session) in std::mem::take(&mut self.retries) {
            if let Some(queue) = self.queues.get_mut(&session) {
                (queue.retry, queue.pause) = (None, PAUSES.0);
                self.ready.push_back(session);
            }
        }
    }

    /// Nothing of a session is told any more.
    pub fn forget(&mut self, session: SessionId) {
        let Some(queue) = self.queues.remove(&session) else { return };
        self.len -= queue.waits.count_ones() as usize;
        self.sent -= usize::from(queue.sent.is_some());
        if let Some(at) = queue.retry {
            self.retries.remove(&(at, session));
        }
    }
}

/// Whether a server has answered a message.
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

    const A: SessionId = SessionId(1);
    const B: SessionId = SessionId(2);

    fn report(message: Message) -> Report {
        Report {
            message,
            happened_s: 1_790_000_600,
            start_s: 1_790_000_000,
            counters: Counters { down_frames: 5, down_bytes: (3 << 32) + 7, up_frames: 2, up_bytes: 9 },
            cause: EndCause::Released,
        }
    }

    fn spool() -> Spool {
        Spool::new(Random::new([1; 32]))
    }

    fn all(spool: &mut Spool) -> Vec<(SessionId, Message)> {
        std::iter::from_fn(|| spool.take()).collect()
    }

    #[test]
    fn r9_octets_beyond_four_gigabytes_are_exact_and_the_sense_can_be_swapped() {
        let found = |input| {
            let attributes = report(Message::Stop).request(Attributes::default(), input).attributes;
            [42, 52, 43, 53, 47, 48, 46, 49].map(|kind| attributes.u32(kind).unwrap())
        };
        assert_eq!(found(InputIs::FromSubscriber), [9, 0, 7, 3, 2, 5, 600, 1]);
        assert_eq!(found(InputIs::ToSubscriber), [7, 3, 9, 0, 5, 2, 600, 1]);
    }

    #[test]
    fn r6_interim_has_all_of_stop_but_the_cause() {
        let kinds = |message| {
            let request = report(message).request(Attributes::default(), InputIs::FromSubscriber);
            request.attributes.iter().map(|(kind, _)| kind).collect::<BTreeSet<u8>>()
        };
        let (interim, stop) = (kinds(Message::Interim), kinds(Message::Stop));
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
    fn r7_messages_of_a_session_are_sent_in_order_each_after_the_answer_to_the_one_before() {
        let mut spool = spool();
        for message in [Message::Start, Message::Interim, Message::Stop] {
            spool.add(A, message);
        }
        spool.add(B, Message::Start);
        // The interim update was not sent yet when the Stop came.
        assert_eq!((all(&mut spool), spool.len()), (vec![(A, Message::Start), (B, Message::Start)], 3));
        assert_eq!(spool.done(Duration::ZERO, A, Answered::Yes), Some(Message::Start));
        assert_eq!(all(&mut spool), [(A, Message::Stop)]);
        assert_eq!(spool.done(Duration::ZERO, A, Answered::Yes), Some(Message::Stop));
        assert_eq!(spool.done(Duration::ZERO, B, Answered::Yes), Some(Message::Start));
        assert_eq!((all(&mut spool), spool.len(), spool.is_empty()), (vec![], 0, true));
    }

    /// Table 1.3, rows 4 and 51: the Stop is sent although the Start was not answered for long.
    #[test]
    fn r7_a_message_that_is_not_answered_is_sent_until_it_is() {
        let (mut spool, mut now) = (spool(), Duration::ZERO);
        spool.add(A, Message::Start);
        spool.add(A, Message::Stop);
        let mut sent = Vec::new();
        for round in 0..11 {
            let [(_, message)] = *all(&mut spool) else { panic!("{spool:?}") };
            sent.push(message);
            let answered = if round >= 9 { Answered::Yes } else { Answered::No };
            spool.done(now, A, answered);
            if let Some(at) = spool.deadline() {
                assert!(all(&mut spool).is_empty() && at - now <= PAUSES.1);
                now = at;
                spool.timer(at);
            }
        }
        assert_eq!(sent, [vec![Message::Start; 10], vec![Message::Stop]].concat());
        assert!(spool.is_empty() && spool.deadline().is_none());
        assert!(now > Duration::from_secs(600), "{now:?}");
    }

    #[test]
    fn r7_only_the_newest_interim_update_waits() {
        let mut spool = spool();
        spool.add(A, Message::Start);
        (0..1000).for_each(|_| spool.add(A, Message::Interim));
        assert_eq!(spool.len(), 2);
    }

    /// Table 1.3, row 47.
    #[test]
    fn r8_accounting_on_comes_before_the_sessions() {
        let mut spool = spool();
        spool.add(A, Message::Start);
        spool.add(NODE, Message::Start);
        assert_eq!(all(&mut spool), [(NODE, Message::Start)]);
        spool.add(B, Message::Start);
        assert_eq!(all(&mut spool), []);
        spool.done(Duration::ZERO, NODE, Answered::Yes);
        assert_eq!(all(&mut spool), [(A, Message::Start), (B, Message::Start)]);
        let request = node_request(Attributes::default(), Message::Start, 7);
        assert_eq!(request.attributes.u32(number::ACCT_STATUS_TYPE), Some(7));
    }

    #[test]
    fn messages_on_their_way_are_bounded_and_a_server_that_returns_gets_all_at_once() {
        let mut spool = spool();
        let count = MOST_SENT as u64 + 10;
        (1..=count).for_each(|number| spool.add(SessionId(number), Message::Start));
        let sent = all(&mut spool);
        assert_eq!(sent.len(), MOST_SENT);
        for (session, _) in sent {
            spool.done(Duration::ZERO, session, Answered::No);
        }
        assert_eq!(all(&mut spool).len(), 10);
        spool.hurry();
        assert_eq!((all(&mut spool).len(), spool.deadline()), (MOST_SENT - 10, None));
        (1..=count).for_each(|number| spool.forget(SessionId(number)));
        assert_eq!((spool.len(), spool.sent, spool.take()), (0, 0, None));
    }
}
