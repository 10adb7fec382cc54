//! One protocol that is negotiated: the automaton with its timer, counters and identifiers.
//!
//! ```text
//! packet > its identifier, the peer's options judged > event > automaton > actions > packets, up, down, finished
//! ```
//! Invariant: the timer runs in the states Closing to Ack-Sent, and in no other (RFC 1661, section 4.1).
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::time::Duration;

use super::automaton::{Action, Event, State, transition};
use super::packet::{OptionList, Packet, code};

/// Counters and the timer of RFC 1661, section 4.6.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timers {
    /// Between two requests.
    pub restart: Duration,
    /// Configure-Requests without an answer before the peer counts as gone.
    pub max_configure: u32,
    /// Terminate-Requests without an answer.
    pub max_terminate: u32,
    /// Configure-Naks before what the peer insists on is rejected.
    pub max_failure: u32,
}

impl Default for Timers {
    /// 3 s, 10, 2 and 5, as section 4.6 recommends.
    fn default() -> Timers {
        Timers { restart: Duration::from_secs(3), max_configure: 10, max_terminate: 2, max_failure: 5 }
    }
}

/// What is said of a peer's options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judgement {
    /// All are accepted.
    Ack,
    /// These should have other values.
    Nak(OptionList),
    /// These are not negotiable, with the peer's values.
    Reject(OptionList),
}

/// The options of a protocol.
pub trait Protocol {
    /// Its number.
    const NUMBER: u16;
    /// Whether it has the codes 9 to 11.
    const HAS_ECHO: bool = false;

    /// The options of the next Configure-Request.
    fn request(&self) -> OptionList;
    /// Judges the peer's options, and remembers them if they are accepted.
    fn judge(&mut self, asked: &OptionList) -> Judgement;
    /// The peer wants other values.
    fn naked(&mut self, options: &OptionList);
    /// The peer does not negotiate these.
    fn rejected(&mut self, options: &OptionList);
    /// The data of an Echo-Reply.
    fn echo(&self, data: &[u8]) -> Vec<u8> {
        data.to_vec()
    }
}

/// What a negotiation comes to, in its order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Send this packet.
    Send(Vec<u8>),
    /// The protocol is open.
    Up,
    /// It is not open any more.
    Down,
    /// It has ended: the layer below is not needed.
    Finished,
}

/// A protocol that is negotiated.
#[derive(Debug)]
pub struct Negotiation<P> {
    /// Its options.
    pub protocol: P,
    timers: Timers,
    state: State,
    /// Requests that are left before the peer counts as gone.
    restarts: u32,
    deadline: Option<Duration>,
    /// Identifier of the last packet of its own.
    id: u8,
    /// Identifier of the last Configure-Request.
    request_id: u8,
    /// The options of the last Configure-Request.
    sent: OptionList,
    reply: Reply,
    /// Configure-Naks since the last Configure-Ack, as far as they count; when the last one was counted, and how many followed soon.
    failures: u8,
    failed_ms: u32,
    soon: u8,
}

/// Configure-Naks that follow each other within this time count as one, up to so many more.
const SOON_MS: u32 = 1000;
const MOST_SOON: u8 = 4;

/// Whether the last Configure-Request has a valid reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reply {
    /// It has none, and was repeated because of that.
    Missing,
    /// It has one, or is the first one of its negotiation.
    Known,
}

/// What the actions of an event refer to.
#[derive(Debug, Clone, Copy)]
struct Context<'a> {
    now: Duration,
    packet: Packet<'a>,
    /// Code and options of the answer to a Configure-Request.
    answer: Option<(u8, &'a OptionList)>,
}

impl<P: Protocol> Negotiation<P> {
    /// A protocol that is neither up nor opened.
    pub fn new(protocol: P, timers: Timers) -> Negotiation<P> {
        Negotiation {
            protocol,
            timers,
            state: State::Initial,
            restarts: 0,
            deadline: None,
            id: 0,
            request_id: 0,
            sent: OptionList::default(),
            reply: Reply::Known,
            failures: 0,
            failed_ms: 0,
            soon: 0,
        }
    }

    /// A protocol that was open when the program ended.
    pub fn opened(protocol: P, timers: Timers) -> Negotiation<P> {
        let restarts = timers.max_configure;
        Negotiation { state: State::Opened, restarts, ..Negotiation::new(protocol, timers) }
    }

    /// Its state.
    pub fn state(&self) -> State {
        self.state
    }

    /// When [`Negotiation::timer`] is to be called.
    pub fn deadline(&self) -> Option<Duration> {
        self.deadline
    }

    /// The layer below is up, and this one is wanted.
    pub fn start(&mut self, now: Duration, out: &mut Vec<Step>) {
        self.failures = 0;
        self.plain(now, Event::Open, out);
        self.plain(now, Event::Up, out);
    }

    /// The layer below is down.
    pub fn lower_down(&mut self, now: Duration, out: &mut Vec<Step>) {
        self.plain(now, Event::Down, out);
    }

    /// It is not wanted any more.
    pub fn close(&mut self, now: Duration, out: &mut Vec<Step>) {
        self.plain(now, Event::Close, out);
    }

    /// The peer does not have this protocol (Protocol-Reject).
    pub fn protocol_rejected(&mut self, now: Duration, out: &mut Vec<Step>) {
        self.plain(now, Event::FatalReject, out);
    }

    /// A Protocol-Reject of another protocol came.
    pub fn other_rejected(&mut self, now: Duration, out: &mut Vec<Step>) {
        self.plain(now, Event::HarmlessReject, out);
    }

    /// The deadline may have passed.
    pub fn timer(&mut self, now: Duration, out: &mut Vec<Step>) {
        if self.deadline.is_some_and(|at| at <= now) {
            self.deadline = None;
            let event = if self.restarts > 0 { Event::TimeoutLeft } else { Event::TimeoutLast };
            // After a Configure-Ack the next request is a new one.
            if matches!(self.state, State::ReqSent | State::AckSent) {
                self.reply = Reply::Missing;
            }
            self.plain(now, event, out);
            self.reply = Reply::Known;
        }
    }

    /// Number for a packet of its own.
    pub fn next_id(&mut self) -> u8 {
        self.id = self.id.wrapping_add(1);
        self.id
    }

    /// A packet of the peer. False: it is discarded without an answer.
    pub fn packet(&mut self, now: Duration, packet: Packet<'_>, out: &mut Vec<Step>) -> bool {
        let context = Context { now, packet, answer: None };
        let event = match packet.code {
            code::REQUEST => return self.request(context, out),
            code::ACK if packet.id != self.request_id || packet.data != self.sent.as_bytes() => return false,
            code::ACK => Event::Ack,
            code::NAK | code::REJECT => match self.nak_or_reject(packet) {
                Some(event) => event,
                None => return false,
            },
            code::TERMINATE_REQUEST => Event::TerminateRequest,
            code::TERMINATE_ACK => Event::TerminateAck,
            code::CODE_REJECT => match packet.data.first() {
                Some(code::REQUEST..=code::CODE_REJECT) => Event::FatalReject,
                _ => Event::HarmlessReject,
            },
            code::ECHO_REQUEST..=code::DISCARD_REQUEST if P::HAS_ECHO => Event::Echo,
            _ => Event::UnknownCode,
        };
        self.event(event, context, out);
        true
    }

    /// A Configure-Nak or Configure-Reject of the last request.
    fn nak_or_reject(&mut self, packet: Packet<'_>) -> Option<Event> {
        let is_own = packet.id == self.request_id
            && matches!(self.state, State::ReqSent | State::AckRcvd | State::AckSent | State::Opened);
        let options = OptionList::read(packet.data)?;
        match packet.code {
            // Repeated, or of a request that is not known any more; in other states the options do not matter.
            _ if !is_own => {
                return matches!(self.state, State::Closed | State::Stopped).then_some(Event::NakOrReject);
            }
            code::NAK => self.protocol.naked(&options),
            _ => {
                let is_sent = |(kind, value)| self.sent.iter().any(|sent| sent == (kind, value));
                if !options.iter().all(is_sent) {
                    return None;
                }
                self.protocol.rejected(&options);
            }
        }
        Some(Event::NakOrReject)
    }

    /// A Configure-Request.
    fn request(&mut self, context: Context<'_>, out: &mut Vec<Step>) -> bool {
        let Some(asked) = OptionList::read(context.packet.data) else { return false };
        if matches!(self.state, State::Closing | State::Stopping) {
            return false;
        }
        let (code, options) = match self.protocol.judge(&asked) {
            Judgement::Ack => {
                self.failures = 0;
                (code::ACK, asked)
            }
            Judgement::Reject(options) => (code::REJECT, options),
            Judgement::Nak(options) if self.may_nak(context.now) => (code::NAK, options),
            // What it insists on is rejected, and nothing is proposed any more (section 4.6).
            Judgement::Nak(options) => {
                let mut rejected = OptionList::default();
                let is_wrong = |kind: u8| options.get(kind).is_some();
                asked
                    .iter()
                    .filter(|(kind, _)| is_wrong(*kind))
                    .for_each(|(kind, value)| rejected.push(kind, value));
                if rejected.is_empty() {
                    self.close(context.now, out);
                    return true;
                }
                (code::REJECT, rejected)
            }
        };
        let event = if code == code::ACK { Event::GoodRequest } else { Event::BadRequest };
        self.event(event, Context { answer: Some((code, &options)), ..context }, out);
        true
    }

    /// Whether another Configure-Nak is sent (Max-Failure). A peer with a short timer repeats its request before a slow answer comes: of
    /// requests within a second the first one counts, and each fifth.
    fn may_nak(&mut self, now: Duration) -> bool {
        let now_ms = now.as_millis() as u32;
        let is_soon = self.failures > 0 && now_ms.wrapping_sub(self.failed_ms) < SOON_MS;
        if is_soon && self.soon < MOST_SOON {
            self.soon += 1;
            return true;
        }
        if u32::from(self.failures) >= self.timers.max_failure {
            return false;
        }
        (self.failures, self.failed_ms, self.soon) = (self.failures.saturating_add(1), now_ms, 0);
        true
    }

    fn plain(&mut self, now: Duration, event: Event, out: &mut Vec<Step>) {
        let packet = Packet { code: 0, id: 0, data: &[] };
        self.event(event, Context { now, packet, answer: None }, out);
    }

    fn event(&mut self, event: Event, context: Context<'_>, out: &mut Vec<Step>) {
        let Some((actions, next)) = transition(self.state, event) else { return };
        self.state = next;
        for action in actions {
            self.act(*action, context, out);
        }
        let is_waiting = matches!(
            self.state,
            State::Closing | State::Stopping | State::ReqSent | State::AckRcvd | State::AckSent
        );
        if !is_waiting {
            self.deadline = None;
        } else if self.deadline.is_none() {
            self.deadline = Some(context.now + self.timers.restart);
        }
    }

    fn act(&mut self, action: Action, context: Context<'_>, out: &mut Vec<Step>) {
        let Context { now, packet, answer } = context;
        match action {
            Action::LayerUp => out.push(Step::Up),
            Action::LayerDown => out.push(Step::Down),
            Action::LayerStarted => {}
            Action::LayerFinished => out.push(Step::Finished),
            Action::InitRestart => {
                self.restarts = match self.state {
                    State::Closing | State::Stopping => self.timers.max_terminate,
                    _ => self.timers.max_configure,
                };
            }
            Action::ZeroRestart => {
                self.restarts = 0;
                self.deadline = Some(now + self.timers.restart);
            }
            Action::SendRequest => {
                let options = self.protocol.request();
                // A repeated request keeps its identifier (section 5.1), so that the reply to any of them is valid: else a peer whose
                // replies take longer than the timer would never come up.
                let is_repeated = self.reply == Reply::Missing && options.as_bytes() == self.sent.as_bytes();
                self.request_id = if is_repeated { self.request_id } else { self.next_id() };
                self.sent = options;
                let data = self.sent.as_bytes().to_vec();
                self.send_counted(now, Packet { code: code::REQUEST, id: self.request_id, data: &data }, out);
            }
            Action::SendTerminate => {
                let id = self.next_id();
                self.send_counted(now, Packet { code: code::TERMINATE_REQUEST, id, data: &[] }, out);
            }
            Action::SendAck | Action::SendNak => {
                if let Some((code, options)) = answer {
                    let data = options.as_bytes();
                    out.push(Step::Send(Packet { code, id: packet.id, data }.write()));
                }
            }
            Action::SendTerminateAck => {
                let id = if packet.code == code::TERMINATE_REQUEST { packet.id } else { self.next_id() };
                out.push(Step::Send(Packet { code: code::TERMINATE_ACK, id, data: &[] }.write()));
            }
            Action::SendCodeReject => {
                let (id, rejected) = (self.next_id(), packet.write());
                out.push(Step::Send(Packet { code: code::CODE_REJECT, id, data: &rejected }.write()));
            }
            Action::SendEchoReply => {
                if packet.code == code::ECHO_REQUEST {
                    let data = self.protocol.echo(packet.data);
                    let reply = Packet { code: code::ECHO_REPLY, id: packet.id, data: &data };
                    out.push(Step::Send(reply.write()));
                }
            }
        }
    }

    /// Sends a request that is repeated if it is not answered.
    fn send_counted(&mut self, now: Duration, packet: Packet<'_>, out: &mut Vec<Step>) {
        self.restarts = self.restarts.saturating_sub(1);
        self.deadline = Some(now + self.timers.restart);
        out.push(Step::Send(packet.write()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A protocol that wants option 1 to be 7 in both directions.
    #[derive(Default)]
    struct Seven {
        asks: Option<u8>,
    }

    impl Protocol for Seven {
        const NUMBER: u16 = 0x8001;

        fn request(&self) -> OptionList {
            let mut options = OptionList::default();
            self.asks.iter().for_each(|value| options.push(1, &[*value]));
            options
        }

        fn judge(&mut self, asked: &OptionList) -> Judgement {
            let mut right = OptionList::default();
            right.push(1, &[7]);
            if *asked == right { Judgement::Ack } else { Judgement::Nak(right) }
        }

        fn naked(&mut self, options: &OptionList) {
            self.asks = options.fixed::<1>(1).map(|[value]| value);
        }

        fn rejected(&mut self, _: &OptionList) {
            self.asks = None;
        }
    }

    fn started() -> (Negotiation<Seven>, Vec<Step>) {
        let mut seven = Negotiation::new(Seven { asks: Some(5) }, Timers::default());
        let mut out = Vec::new();
        seven.start(Duration::ZERO, &mut out);
        (seven, out)
    }

    fn codes(out: &mut Vec<Step>) -> Vec<u8> {
        let code = |step| match step {
            Step::Send(packet) => packet[0],
            Step::Up => 100,
            Step::Down => 101,
            Step::Finished => 102,
        };
        out.drain(..).map(code).collect()
    }

    #[test]
    fn l1_ten_requests_three_seconds_apart_and_then_the_end() {
        let (mut seven, mut out) = started();
        let mut s = 0;
        while let Some(at) = seven.deadline() {
            assert_eq!(at, Duration::from_secs(s + 3));
            s += 3;
            seven.timer(at, &mut out);
        }
        assert_eq!((s, codes(&mut out)), (30, vec![1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 102]));
        assert_eq!(seven.state(), State::Stopped);
    }

    #[test]
    fn l1_two_terminate_requests_and_then_the_end() {
        let (mut seven, mut out) = started();
        out.clear();
        seven.close(Duration::ZERO, &mut out);
        while let Some(at) = seven.deadline() {
            seven.timer(at, &mut out);
        }
        assert_eq!((codes(&mut out), seven.state()), (vec![5, 5, 102], State::Closed));
    }

    #[test]
    fn l1_after_five_naks_the_option_is_rejected() {
        let (mut seven, mut out) = started();
        out.clear();
        for id in 0..7 {
            assert!(seven.packet(
                Duration::from_secs(id.into()),
                Packet { code: 1, id, data: &[1, 3, 9] },
                &mut out
            ));
        }
        assert_eq!(codes(&mut out), [3, 3, 3, 3, 3, 4, 4]);
        // A request without the option cannot be rejected: the layer ends.
        assert!(seven.packet(Duration::ZERO, Packet { code: 1, id: 9, data: &[] }, &mut out));
        assert_eq!(codes(&mut out), [5]);
    }

    /// A client with a timer of 300 ms whose concentrator answers after two seconds; one that insists has an end, too.
    #[test]
    fn l1_requests_that_are_repeated_before_the_answer_count_once_a_second() {
        let (mut seven, mut out) = started();
        out.clear();
        for id in 0..8 {
            let now = Duration::from_millis(300 * u64::from(id));
            assert!(seven.packet(now, Packet { code: 1, id, data: &[1, 3, 9] }, &mut out));
        }
        assert_eq!(codes(&mut out), [3; 8]);
        let (mut seven, mut out) = started();
        out.clear();
        for id in 0..26 {
            assert!(seven.packet(Duration::ZERO, Packet { code: 1, id, data: &[1, 3, 9] }, &mut out));
        }
        let found = codes(&mut out);
        assert_eq!((found[24], found[25]), (3, 4));
    }

    /// The identifier changes with the options and after a valid reply alone (section 5.1): a late reply is one to each of them.
    #[test]
    fn l1_a_repeated_request_keeps_its_identifier_and_a_late_ack_is_valid() {
        let (mut seven, mut out) = started();
        seven.timer(Duration::from_secs(3), &mut out);
        // A packet in between does not make it invalid.
        seven.packet(Duration::from_secs(4), Packet { code: 9, id: 3, data: &[8] }, &mut out);
        seven.timer(Duration::from_secs(6), &mut out);
        let ids = |out: &mut Vec<Step>| {
            let requests = out.drain(..).filter_map(|step| match step {
                Step::Send(packet) if packet[0] == code::REQUEST => Some(packet[1]),
                _ => None,
            });
            requests.collect::<Vec<u8>>()
        };
        assert_eq!(ids(&mut out), [1, 1, 1]);
        let late = Packet { code: 2, id: 1, data: &[1, 3, 5] };
        assert!(seven.packet(Duration::from_secs(7), late, &mut out));
        assert_eq!(seven.state(), State::AckRcvd);
        // It was replied to: the next one is new.
        seven.timer(Duration::from_secs(9), &mut out);
        assert_eq!((ids(&mut out), seven.state()), (vec![3], State::ReqSent));
        // So it is with other options.
        assert!(seven.packet(Duration::from_secs(9), Packet { code: 3, id: 3, data: &[1, 3, 7] }, &mut out));
        assert_eq!(ids(&mut out), [4]);
    }

    #[test]
    fn answers_of_other_requests_are_discarded() {
        let (mut seven, mut out) = started();
        out.clear();
        for (code, id, data) in
            [(2, 9, &[1, 3, 5][..]), (2, 1, &[1, 3, 6]), (3, 9, &[1, 3, 7]), (4, 1, &[2, 2]), (3, 1, &[1])]
        {
            assert!(
                !seven.packet(Duration::ZERO, Packet { code, id, data }, &mut out),
                "{code} {id} {data:?}"
            );
        }
        assert!(out.is_empty());
        assert!(seven.packet(Duration::ZERO, Packet { code: 3, id: 1, data: &[1, 3, 7] }, &mut out));
        assert_eq!(out, [Step::Send(vec![1, 2, 0, 7, 1, 3, 7])]);
    }

    #[test]
    fn l4_an_unknown_code_is_rejected_with_its_packet() {
        let (mut seven, mut out) = started();
        out.clear();
        seven.packet(Duration::ZERO, Packet { code: 9, id: 3, data: &[8] }, &mut out);
        assert_eq!(out, [Step::Send(vec![7, 2, 0, 9, 9, 3, 0, 5, 8])]);
    }
}
