//! A RADIUS server for measurements: it accepts and refuses by a table, answers after a stated delay, and loses a stated share. It sums up
//! what it is told by accounting (`ledger.rs`).
//!
//! ```text
//!  datagram > Answers: Accept with a plan, Reject, Accounting-Response > queue for the delay > datagram
//! ```
//! One thread: an answer takes some 5 us. An answer depends on its request alone, so that a repeated one gets the same.

mod ledger;

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use weir_bng::ppp::auth::{Attempt, Credential, Password};
use weir_bng::radius::attribute::{Attributes, number};
use weir_bng::radius::packet::{MOST_BYTES, Packet, Require, code, reveal_password};
use weir_port::duplex;
use weir_rng::Rng;

pub use ledger::{Accounted, Ledger};

/// Longest wait, so that a stop is seen.
const LOOK: Duration = Duration::from_millis(50);
/// Datagrams of a socket in a turn.
const MOST: usize = 64;

/// What the server knows of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// The password that is right.
    pub password: String,
    /// Filter-Id of the Accept: the name of the plan.
    pub plan: String,
}

/// What is answered.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Answers {
    /// Shared with the client.
    pub secret: Vec<u8>,
    /// Users by name.
    pub users: HashMap<String, User>,
    /// Every other name; `None`: it is refused.
    pub others: Option<User>,
}

/// How answers arrive.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Delivery {
    /// From the request to its answer.
    pub delay: Duration,
    /// Share of the requests that are lost, 0 to 1.
    pub loss: f64,
    /// Decides which ones are lost.
    pub seed: u64,
}

impl Answers {
    /// The answer to a datagram, of which `ledger` takes note; `None`: it is none of a client with the secret.
    pub fn answer(&self, datagram: &[u8], ledger: &Mutex<Ledger>) -> Option<Vec<u8>> {
        let request = Packet::read(datagram).ok()?;
        let none = Attributes::default();
        let answer = match request.code {
            code::ACCESS_REQUEST => {
                request.check_access(&self.secret, Require::Nothing).ok()?;
                let (code, attributes) = self.access(&request);
                request.answer(code, &attributes, &self.secret)
            }
            code::ACCOUNTING_REQUEST => {
                request.check_hashed(&self.secret, Require::Nothing).ok()?;
                ledger.lock().unwrap_or_else(PoisonError::into_inner).take(&request.attributes);
                request.answer(code::ACCOUNTING_RESPONSE, &none, &self.secret)
            }
            code::STATUS_SERVER => {
                request.check_access(&self.secret, Require::MessageAuthenticator).ok()?;
                request.answer(code::ACCESS_ACCEPT, &none, &self.secret)
            }
            _ => None,
        };
        answer.map(|answer| answer.write())
    }

    fn access(&self, request: &Packet) -> (u8, Attributes) {
        let mut attributes = Attributes::default();
        let user = self.attempt(request).and_then(|attempt| {
            let name = std::str::from_utf8(&attempt.name).ok()?;
            let user = self.users.get(name).or(self.others.as_ref())?;
            attempt.check(&Password::new(user.password.as_bytes())).map(|_| user)
        });
        let Some(user) = user else { return (code::ACCESS_REJECT, attributes) };
        attributes.push(number::FILTER_ID, user.plan.as_bytes());
        (code::ACCESS_ACCEPT, attributes)
    }

    /// What the client of the request's subject says: PAP, or CHAP with MD5 (RFC 2865, sections 5.2, 5.3 and 5.40).
    fn attempt(&self, request: &Packet) -> Option<Attempt> {
        let attributes = &request.attributes;
        let name = attributes.get(number::USER_NAME)?.into();
        let credential = match attributes.fixed::<17>(number::CHAP_PASSWORD) {
            Some([id, response @ ..]) => {
                let challenge = attributes.get(number::CHAP_CHALLENGE).unwrap_or(&request.authenticator);
                Credential::ChapMd5 { id, challenge: challenge.into(), response }
            }
            None => {
                let hidden = attributes.get(number::USER_PASSWORD)?;
                let password = reveal_password(hidden, &self.secret, &request.authenticator)?;
                Credential::Pap(Password::new(&password))
            }
        };
        Some(Attempt { name, credential })
    }
}

/// An answer that is under way.
struct Late {
    due: Instant,
    socket: usize,
    to: SocketAddr,
    bytes: Vec<u8>,
}

/// Answers what arrives at these sockets until `stop`.
///
/// # Errors
/// A socket cannot be used.
pub fn serve(
    sockets: &[UdpSocket],
    answers: &Answers,
    delivery: Delivery,
    ledger: &Mutex<Ledger>,
    stop: &AtomicBool,
) -> io::Result<()> {
    sockets.iter().try_for_each(|socket| socket.set_nonblocking(true))?;
    let descriptors: Vec<_> = sockets.iter().map(AsFd::as_fd).collect();
    let mut rng = Rng::new(delivery.seed);
    // The delay is the same for all, so that answers leave in the order of their requests.
    let mut late: VecDeque<Late> = VecDeque::new();
    let mut buffer = [0; MOST_BYTES];
    while !stop.load(Ordering::Relaxed) {
        for (socket, from) in sockets.iter().enumerate() {
            for _ in 0..MOST {
                // An error is that of an earlier answer: its client has gone.
                let Ok((len, to)) = from.recv_from(&mut buffer) else { break };
                let answer = buffer.get(..len).and_then(|datagram| answers.answer(datagram, ledger));
                let Some(bytes) = answer.filter(|_| rng.unit() >= delivery.loss) else { continue };
                late.push_back(Late { due: Instant::now() + delivery.delay, socket, to, bytes });
            }
        }
        while let Some(Late { socket, to, bytes, .. }) = late.pop_front_if(|late| late.due <= Instant::now())
        {
            if let Some(socket) = sockets.get(socket) {
                // Its client asks again.
                let _ = socket.send_to(&bytes, to);
            }
        }
        let due = late.front().map_or(LOOK, |late| late.due.saturating_duration_since(Instant::now()));
        duplex::wait(&descriptors, due.min(LOOK))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &[u8] = b"secret of both";

    fn answers() -> Answers {
        let user = |password: &str, plan: &str| User { password: password.into(), plan: plan.into() };
        let users = [("slow@isp".to_string(), user("secret", "slow"))].into();
        Answers { secret: SECRET.into(), users, others: Some(user("pw", "fast")) }
    }

    /// A request by PAP, and its answer: code and Filter-Id.
    fn ask(answers: &Answers, name: &str, password: &str) -> Option<(u8, Option<String>)> {
        let mut attributes = Attributes::default();
        attributes.push(number::USER_NAME, name.as_bytes());
        let hidden = weir_bng::radius::packet::hide_password(password.as_bytes(), SECRET, &[7; 16]);
        attributes.push(number::USER_PASSWORD, &hidden);
        let request = Packet::access(code::ACCESS_REQUEST, 9, [7; 16], &attributes, SECRET)?;
        let answer = Packet::read(&answers.answer(&request.write(), &Mutex::default())?).ok()?;
        answer.check_answer(&[7; 16], SECRET, Require::MessageAuthenticator).ok()?;
        Some((answer.code, answer.attributes.text(number::FILTER_ID)))
    }

    #[test]
    fn names_and_passwords_decide_what_is_answered() {
        let answers = answers();
        let accept = |plan: &str| Some((code::ACCESS_ACCEPT, Some(plan.to_string())));
        let reject = Some((code::ACCESS_REJECT, None));
        assert_eq!(ask(&answers, "slow@isp", "secret"), accept("slow"));
        assert_eq!(ask(&answers, "slow@isp", "pw"), reject);
        assert_eq!(ask(&answers, "anna@isp", "pw"), accept("fast"));
        let closed = Answers { others: None, ..answers.clone() };
        assert_eq!(ask(&closed, "anna@isp", "pw"), reject);
        let other = Answers { secret: b"another one".into(), ..answers };
        assert_eq!(ask(&other, "anna@isp", "pw"), None);
    }

    #[test]
    fn accounting_and_status_are_answered() {
        let none = Attributes::default();
        let start = Packet::hashed(code::ACCOUNTING_REQUEST, 1, &none, SECRET).unwrap();
        let status = Packet::access(code::STATUS_SERVER, 2, [3; 16], &none, SECRET).unwrap();
        let codes = [start, status].map(|request| {
            let answer = answers().answer(&request.write(), &Mutex::default()).unwrap();
            let answer = Packet::read(&answer).unwrap();
            assert_eq!(answer.check_answer(&request.authenticator, SECRET, Require::Nothing), Ok(()));
            answer.code
        });
        assert_eq!(codes, [code::ACCOUNTING_RESPONSE, code::ACCESS_ACCEPT]);
    }

    #[test]
    fn answers_arrive_after_their_delay_or_never() {
        let bind = || UdpSocket::bind("127.0.0.1:0").unwrap();
        let (server, client) = (bind(), bind());
        client.connect(server.local_addr().unwrap()).unwrap();
        let stop = AtomicBool::new(false);
        let delay = Duration::from_millis(20);
        let request =
            Packet::access(code::STATUS_SERVER, 2, [3; 16], &Attributes::default(), SECRET).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let delivery = Delivery { delay, loss: 0.5, seed: 1 };
                serve(&[server], &answers(), delivery, &Mutex::default(), &stop).unwrap();
            });
            let mut buffer = [0; MOST_BYTES];
            let mut answered = 0;
            let begin = Instant::now();
            (0..100).for_each(|_| assert!(client.send(&request.write()).is_ok()));
            while answered < 30 {
                client.recv(&mut buffer).unwrap();
                answered += 1;
            }
            assert!(begin.elapsed() >= delay, "{:?}", begin.elapsed());
            stop.store(true, Ordering::Relaxed);
        });
    }
}
