//! The concentrator's side of PAP and CHAP.
//!
//! ```text
//! PAP:   wait > Authenticate-Request > Attempt > verdict > Ack or Nak
//! CHAP:  Challenge (repeated) > Response > Attempt > verdict > Success or Failure
//! ```
//! A request that comes again, also when the network is up, gets the same answer again (RFC 1994, section 4.1).
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::time::Duration;

use super::{Attempt, Credential, Method, Password, Verdict};
use crate::ppp::negotiation::Timers;
use crate::ppp::packet::Packet;
use crate::random::Random;

/// PAP: Authenticate-Request. CHAP: Challenge.
const FIRST: u8 = 1;
/// PAP: Authenticate-Ack. CHAP: Response.
const SECOND: u8 = 2;
/// PAP: Authenticate-Nak. CHAP: Success.
const THIRD: u8 = 3;
/// CHAP: Failure.
const FOURTH: u8 = 4;

/// What an authentication comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Send this packet of the method's protocol.
    Send(Vec<u8>),
    /// Ask who knows the password.
    Ask(Attempt),
    /// The peer did not answer in time.
    NoAnswer,
}

/// How far it is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    /// The peer is to answer.
    Peer,
    /// The verdict is not there yet.
    Verdict,
    /// The peer was told.
    Told { answer: Vec<u8> },
}

/// An authentication of a peer.
#[derive(Debug)]
pub struct Authenticator {
    method: Method,
    /// The concentrator's name in a challenge.
    name: Box<[u8]>,
    challenge: [u8; 16],
    /// Identifier of the challenge, or of PAP's last request.
    id: u8,
    state: State,
    tries_left: u32,
    deadline: Option<Duration>,
    timers: Timers,
}

impl Authenticator {
    /// Begins.
    pub fn start(
        method: Method,
        name: &str,
        timers: Timers,
        now: Duration,
        random: &mut Random,
        out: &mut Vec<Step>,
    ) -> Authenticator {
        let [id] = random.bytes();
        let mut authenticator = Authenticator {
            method,
            name: name.as_bytes().into(),
            challenge: random.bytes(),
            id,
            state: State::Peer,
            tries_left: timers.max_configure,
            deadline: None,
            timers,
        };
        authenticator.challenge(now, out);
        authenticator
    }

    /// An authentication that had succeeded when the program ended.
    pub fn told(method: Method, timers: Timers) -> Authenticator {
        Authenticator {
            method,
            name: Box::default(),
            challenge: [0; 16],
            id: 0,
            state: State::Told { answer: Vec::new() },
            tries_left: 0,
            deadline: None,
            timers,
        }
    }

    /// When [`Authenticator::timer`] is to be called.
    pub fn deadline(&self) -> Option<Duration> {
        self.deadline
    }

    fn challenge(&mut self, now: Duration, out: &mut Vec<Step>) {
        self.tries_left = self.tries_left.saturating_sub(1);
        self.deadline = Some(now + self.timers.restart);
        if self.method != Method::Pap {
            let mut data = vec![16];
            data.extend(self.challenge);
            data.extend(&self.name);
            out.push(Step::Send(Packet { code: FIRST, id: self.id, data: &data }.write()));
        }
    }

    /// The deadline may have passed.
    pub fn timer(&mut self, now: Duration, out: &mut Vec<Step>) {
        if self.deadline.is_none_or(|at| at > now) {
            return;
        }
        if self.tries_left > 0 {
            self.challenge(now, out);
        } else {
            self.deadline = None;
            out.push(Step::NoAnswer);
        }
    }

    /// A packet of the method's protocol. False: it is discarded.
    pub fn packet(&mut self, packet: Packet<'_>, out: &mut Vec<Step>) -> bool {
        let code = if self.method == Method::Pap { FIRST } else { SECOND };
        if packet.code != code || (self.method != Method::Pap && packet.id != self.id) {
            return false;
        }
        match &self.state {
            State::Verdict => return false,
            State::Told { answer } => {
                // Its identifier may be another one: PAP's client counts.
                if let [code, _, rest @ ..] = &**answer {
                    out.push(Step::Send([&[*code, packet.id], rest].concat()));
                }
                return true;
            }
            State::Peer => {}
        }
        let Some(attempt) = self.read(packet) else { return false };
        self.id = packet.id;
        self.state = State::Verdict;
        self.deadline = None;
        out.push(Step::Ask(attempt));
        true
    }

    fn read(&self, packet: Packet<'_>) -> Option<Attempt> {
        let (&len, rest) = packet.data.split_first()?;
        let (first, rest) = rest.split_at_checked(len.into())?;
        if self.method == Method::Pap {
            let (&len, rest) = rest.split_first()?;
            let credential = Credential::Pap(Password::new(rest.get(..len.into())?));
            return Some(Attempt { name: first.into(), credential });
        }
        // What is behind the value is the name, at most 255 bytes: that is what an attribute of RADIUS carries.
        let name = Some(rest).filter(|name| name.len() <= 255)?;
        let credential = if self.method == Method::ChapMd5 {
            let response = first.try_into().ok()?;
            Credential::ChapMd5 { id: packet.id, challenge: self.challenge.into(), response }
        } else {
            // Peer challenge 16, reserved 8, response 24, flags 1 (RFC 2759, section 4).
            let (peer_challenge, rest) =
                Some(first).filter(|value| value.len() == 49)?.split_first_chunk()?;
            let response = rest.get(8..)?.first_chunk()?;
            let (challenge, peer_challenge, response) = (self.challenge, *peer_challenge, *response);
            Credential::MsChapV2 { id: packet.id, challenge, peer_challenge, response }
        };
        Some(Attempt { name: name.into(), credential })
    }

    /// Tells the peer. False: no verdict was waited for.
    pub fn verdict(&mut self, verdict: &Verdict, out: &mut Vec<Step>) -> bool {
        if self.state != State::Verdict {
            return false;
        }
        let (code, message) = match (self.method, verdict) {
            (Method::Pap, Verdict::Accept { message }) => (SECOND, message.clone()),
            (Method::Pap, Verdict::Reject { message }) => (THIRD, message.clone()),
            (_, Verdict::Accept { message }) => (THIRD, message.clone()),
            // 691: wrong name or password; no retry; a new challenge nevertheless (RFC 2759, section 6).
            (Method::MsChapV2, Verdict::Reject { message }) => {
                let digits: String = self.challenge.iter().map(|byte| format!("{byte:02X}")).collect();
                let message = if message.is_empty() { b"Authentication failed" } else { &**message };
                (FOURTH, [format!("E=691 R=0 C={digits} V=3 M=").as_bytes(), message].concat())
            }
            (_, Verdict::Reject { message }) => (FOURTH, message.clone()),
        };
        let message = message.get(..message.len().min(255)).unwrap_or_default();
        // PAP's message has a length of its own (RFC 1334, section 2.2.2).
        let len = u8::try_from(message.len()).unwrap_or(u8::MAX);
        let data = if self.method == Method::Pap { [&[len], message].concat() } else { message.to_vec() };
        let answer = Packet { code, id: self.id, data: &data }.write();
        out.push(Step::Send(answer.clone()));
        self.state = State::Told { answer };
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::chap_md5;
    use super::*;

    fn started(method: Method) -> (Authenticator, Vec<Step>) {
        let mut out = Vec::new();
        let random = &mut Random::new([1; 32]);
        (Authenticator::start(method, "weir", Timers::default(), Duration::ZERO, random, &mut out), out)
    }

    #[test]
    fn l6_a_repeated_response_gets_the_same_answer_again() {
        let (mut chap, mut out) = started(Method::ChapMd5);
        let Some(Step::Send(challenge)) = out.pop() else { panic!("no challenge") };
        let sent = Packet::read(&challenge).unwrap();
        assert_eq!((sent.code, sent.data[0], &sent.data[17..]), (1, 16, &b"weir"[..]));
        let hash = chap_md5(sent.id, b"secret", &sent.data[1..17]);
        let data = [&[16][..], &hash, b"anna"].concat();
        let response = Packet { code: 2, id: sent.id, data: &data };
        assert!(!chap.packet(Packet { id: sent.id ^ 1, ..response }, &mut out), "another challenge");
        assert!(chap.packet(response, &mut out));
        let Some(Step::Ask(attempt)) = out.pop() else { panic!("no attempt") };
        assert!(attempt.check(&Password::new(b"secret")).is_some());
        assert!(!chap.packet(response, &mut out), "the verdict is not there yet");
        assert!(chap.verdict(&Verdict::Accept { message: b"welcome".into() }, &mut out));
        assert!(chap.packet(response, &mut out));
        let success = Step::Send(Packet { code: 3, id: sent.id, data: b"welcome" }.write());
        assert_eq!(out, [success.clone(), success]);
        assert!(!chap.verdict(&Verdict::Accept { message: Vec::new() }, &mut out), "a second verdict");
    }

    #[test]
    fn l6_challenges_differ_and_are_repeated_unchanged() {
        let random = &mut Random::new([1; 32]);
        let mut challenge = || {
            let mut out = Vec::new();
            let (timers, now) = (Timers::default(), Duration::ZERO);
            let mut chap = Authenticator::start(Method::ChapMd5, "w", timers, now, random, &mut out);
            chap.timer(Duration::from_secs(3), &mut out);
            assert_eq!(out[0], out[1]);
            out.remove(0)
        };
        assert_ne!(challenge(), challenge());
    }

    #[test]
    fn a_peer_that_is_silent_has_thirty_seconds() {
        for method in [Method::Pap, Method::MsChapV2] {
            let (mut authenticator, mut out) = started(method);
            let mut last = Duration::ZERO;
            while let Some(at) = authenticator.deadline() {
                last = at;
                authenticator.timer(at, &mut out);
            }
            assert_eq!((last, out.last()), (Duration::from_secs(30), Some(&Step::NoAnswer)), "{method:?}");
        }
    }

    #[test]
    fn pap_answers_carry_a_length_and_a_repeated_request_its_own_identifier() {
        let (mut pap, mut out) = started(Method::Pap);
        let data = [&[4][..], b"anna", &[6], b"secret"].concat();
        assert!(pap.packet(Packet { code: 1, id: 5, data: &data }, &mut out));
        assert!(pap.verdict(&Verdict::Reject { message: b"no".into() }, &mut out));
        assert!(pap.packet(Packet { code: 1, id: 6, data: &data }, &mut out));
        assert_eq!(
            out[1..],
            [Step::Send(vec![3, 5, 0, 7, 2, b'n', b'o']), Step::Send(vec![3, 6, 0, 7, 2, b'n', b'o'])]
        );
    }

    #[test]
    fn requests_that_contradict_themselves_are_discarded() {
        for (method, data) in [
            (Method::Pap, &[][..]),
            (Method::Pap, &[5, b'a']),
            (Method::Pap, &[1, b'a', 2, b'p']),
            (Method::ChapMd5, &[15, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, b'a']),
            (Method::ChapMd5, &[16, 0]),
            (Method::MsChapV2, &[16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        ] {
            let (mut authenticator, mut out) = started(method);
            out.clear();
            let code = if method == Method::Pap { 1 } else { 2 };
            let packet = Packet { code, id: authenticator.id, data };
            assert!(!authenticator.packet(packet, &mut out), "{method:?} {data:?}");
            assert!(out.is_empty());
        }
    }
}
