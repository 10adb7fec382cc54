//! The client's side of PAP and CHAP.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::time::Duration;

use super::{Method, Password, chap_md5, is_equal, mschap};
use crate::ppp::negotiation::Timers;
use crate::ppp::packet::Packet;
use crate::random::Random;

/// Name and password of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Login {
    /// Its name, at most 255 bytes.
    pub name: Box<[u8]>,
    /// Its password.
    pub password: Password,
}

/// What an authentication comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Send this packet of the method's protocol.
    Send(Vec<u8>),
    /// The concentrator lets the client in.
    Accepted,
    /// It does not; its text.
    Rejected(Vec<u8>),
    /// It does not answer.
    NoAnswer,
}

/// An authentication of this client.
#[derive(Debug)]
pub struct Supplicant {
    method: Method,
    login: Login,
    id: u8,
    /// What is sent again: PAP's request, CHAP's response.
    last: Vec<u8>,
    /// MS-CHAPv2: what a concentrator that knows the password says.
    proof: Option<String>,
    peer_challenge: [u8; 16],
    tries_left: u32,
    deadline: Option<Duration>,
    timers: Timers,
}

impl Supplicant {
    /// Begins.
    pub fn start(
        method: Method,
        login: Login,
        timers: Timers,
        now: Duration,
        random: &mut Random,
        out: &mut Vec<Step>,
    ) -> Supplicant {
        let mut supplicant = Supplicant {
            method,
            login,
            id: 0,
            last: Vec::new(),
            proof: None,
            peer_challenge: random.bytes(),
            tries_left: timers.max_configure,
            deadline: Some(now),
            timers,
        };
        supplicant.timer(now, out);
        supplicant
    }

    /// When [`Supplicant::timer`] is to be called.
    pub fn deadline(&self) -> Option<Duration> {
        self.deadline
    }

    /// The deadline may have passed.
    pub fn timer(&mut self, now: Duration, out: &mut Vec<Step>) {
        if self.deadline.is_none_or(|at| at > now) {
            return;
        }
        let Some(left) = self.tries_left.checked_sub(1) else {
            self.deadline = None;
            return out.push(Step::NoAnswer);
        };
        self.tries_left = left;
        self.deadline = Some(now + self.timers.restart);
        if self.method == Method::Pap {
            self.id = self.id.wrapping_add(1);
            let (name, password) = (&self.login.name, self.login.password.bytes());
            let len = |bytes: &[u8]| u8::try_from(bytes.len()).unwrap_or(u8::MAX);
            let data = [&[len(name)], &**name, &[len(password)], password].concat();
            self.last = Packet { code: 1, id: self.id, data: &data }.write();
        }
        if !self.last.is_empty() {
            out.push(Step::Send(self.last.clone()));
        }
    }

    /// A packet of the method's protocol. False: it is discarded.
    pub fn packet(&mut self, now: Duration, packet: Packet<'_>, out: &mut Vec<Step>) -> bool {
        if self.deadline.is_none() {
            return false;
        }
        match (self.method, packet.code) {
            (Method::Pap, 2 | 3) | (_, 3 | 4) if packet.id == self.id && !self.last.is_empty() => {
                let is_good = packet.code == if self.method == Method::Pap { 2 } else { 3 };
                // A concentrator that does not know the password is none of this client.
                let is_proved = self.proof.as_ref().is_none_or(|proof| {
                    let found = packet.data.get(..proof.len()).unwrap_or_default();
                    is_equal(found, proof.as_bytes())
                });
                self.deadline = None;
                out.push(match is_good && is_proved {
                    true => Step::Accepted,
                    false => Step::Rejected(packet.data.to_vec()),
                });
                true
            }
            (Method::ChapMd5 | Method::MsChapV2, 1) => self.challenge(now, packet, out),
            _ => false,
        }
    }

    fn challenge(&mut self, now: Duration, packet: Packet<'_>, out: &mut Vec<Step>) -> bool {
        let value = packet.data.split_first().and_then(|(len, rest)| rest.get(..usize::from(*len)));
        let Some(challenge) = value.filter(|challenge| !challenge.is_empty()) else { return false };
        let value = if self.method == Method::ChapMd5 {
            chap_md5(packet.id, self.login.password.bytes(), challenge).to_vec()
        } else {
            let Ok(challenge) = challenge.try_into() else { return false };
            let (name, peer_challenge) = (&*self.login.name, &self.peer_challenge);
            let login = mschap::Login { name, challenge, peer_challenge };
            let hash = mschap::password_hash(self.login.password.bytes());
            let response = login.response(&hash);
            self.proof = Some(login.authenticator_response(&hash, &response));
            [&self.peer_challenge[..], &[0; 8], &response, &[0]].concat()
        };
        self.id = packet.id;
        let data = [&[u8::try_from(value.len()).unwrap_or(u8::MAX)], &*value, &self.login.name].concat();
        self.last = Packet { code: 2, id: packet.id, data: &data }.write();
        self.deadline = Some(now + self.timers.restart);
        out.push(Step::Send(self.last.clone()));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started(method: Method) -> (Supplicant, Vec<Step>) {
        let login = Login { name: b"anna".as_slice().into(), password: Password::new(b"secret") };
        let (random, mut out) = (&mut Random::new([1; 32]), Vec::new());
        (Supplicant::start(method, login, Timers::default(), Duration::ZERO, random, &mut out), out)
    }

    #[test]
    fn l6_challenges_of_1_to_255_bytes_are_answered() {
        for len in [1_u8, 8, 16, 17, 255] {
            let (mut chap, mut out) = started(Method::ChapMd5);
            let challenge = vec![len; len.into()];
            let data = [&[len], &*challenge, b"other"].concat();
            assert!(chap.packet(Duration::ZERO, Packet { code: 1, id: 9, data: &data }, &mut out));
            let hash = chap_md5(9, b"secret", &challenge);
            let data = [&[16], &hash[..], b"anna"].concat();
            assert_eq!(out, [Step::Send(Packet { code: 2, id: 9, data: &data }.write())], "{len} bytes");
        }
    }

    #[test]
    fn a_concentrator_without_the_password_is_refused() {
        let (mut chap, mut out) = started(Method::MsChapV2);
        let data = [&[16][..], &[3; 16]].concat();
        assert!(chap.packet(Duration::ZERO, Packet { code: 1, id: 9, data: &data }, &mut out));
        out.clear();
        let forged = Packet { code: 3, id: 9, data: b"S=0000000000000000000000000000000000000000" };
        assert!(chap.packet(Duration::ZERO, forged, &mut out));
        assert!(matches!(*out, [Step::Rejected(_)]), "{out:?}");
    }

    #[test]
    fn pap_asks_ten_times() {
        let (mut pap, mut out) = started(Method::Pap);
        while let Some(at) = pap.deadline() {
            pap.timer(at, &mut out);
        }
        assert_eq!((out.len(), out.last()), (11, Some(&Step::NoAnswer)));
    }
}
