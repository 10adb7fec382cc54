//! One SMTP connection of the engine: a [`Session`] on a socket, with time limits and latencies.

use std::cell::{Cell, RefCell};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep_until, timeout, timeout_at};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

use crate::latency::Counts;
use crate::reply::Reply;
use crate::session::{AddressOf, Cause, Manner, News, Outcome, Recipient, Session, Trouble, Verb, Want};

/// How long a client waits, s: those of RFC 5321, section 4.5.3.2, unless something else is wanted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Patience {
    /// For a connection.
    pub connect_s: f64,
    /// For the greeting, and the replies to EHLO, STARTTLS, MAIL, RCPT, RSET.
    pub command_s: f64,
    /// For the reply to DATA.
    pub data_s: f64,
    /// For the reply to the message.
    pub text_s: f64,
    /// For the reply to QUIT, which no delivery depends on.
    pub quit_s: f64,
    /// For all of a connection.
    pub connection_s: f64,
}

impl Default for Patience {
    fn default() -> Patience {
        Patience {
            connect_s: 30.0,
            command_s: 300.0,
            data_s: 120.0,
            text_s: 600.0,
            quit_s: 5.0,
            connection_s: 3600.0,
        }
    }
}

impl Patience {
    fn of(&self, verb: Verb) -> Duration {
        let seconds = match verb {
            Verb::Connect => self.connect_s,
            Verb::Data => self.data_s,
            Verb::Text => self.text_s,
            Verb::Quit => self.quit_s,
            _ => self.command_s,
        };
        duration(seconds)
    }
}

/// A time of a plan; what is too long for one is for ever.
pub(crate) fn duration(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::from_secs(1 << 30))
}

/// What all connections of a thread share.
pub(crate) struct Client {
    pub(crate) manner: Rc<Manner>,
    pub(crate) patience: Patience,
    pub(crate) per_transaction: usize,
    pub(crate) tls: Option<TlsConnector>,
    pub(crate) latency: RefCell<Vec<Counts>>,
    pub(crate) pace: Option<Pace>,
    pub(crate) stop: Arc<AtomicBool>,
}

/// At most so many recipients per second, on all connections of a thread together.
pub(crate) struct Pace {
    each: Duration,
    next: Cell<Instant>,
}

impl Pace {
    pub(crate) fn new(per_s: f64) -> Pace {
        Pace { each: duration(1.0 / per_s), next: Cell::new(Instant::now()) }
    }

    /// When so many may be sent; the next ones may after them.
    fn turn(&self, recipients: usize, now: Instant) -> Instant {
        let turn = self.next.get().max(now);
        self.next.set(turn + self.each.saturating_mul(recipients.try_into().unwrap_or(u32::MAX)));
        turn
    }
}

/// How a connection ended.
#[derive(Debug)]
pub(crate) struct Visited {
    /// Of recipients without an outcome so far.
    pub(crate) news: News,
    /// Why it ended before its time, if it did.
    pub(crate) broken: Option<Trouble>,
}

/// The sender and the recipients of a message.
#[derive(Clone, Copy)]
pub(crate) struct Owner<'a> {
    pub(crate) address_of: AddressOf<'a>,
    /// Takes what a transaction has brought about, as soon as that is known.
    pub(crate) settle: &'a dyn Fn(News),
}

/// Where an answer may be, in the bytes of one connection.
struct Wire<S> {
    stream: S,
    bytes: Vec<u8>,
}

impl Client {
    /// Is the delivery to end?
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Delivers to all of them through one connection to the first server that is ready for mail.
    pub(crate) async fn visit(&self, hosts: &[SocketAddr], who: &[Recipient], owner: Owner<'_>) -> Visited {
        let mut last = Trouble { at: Verb::Connect, cause: Cause::Refused };
        for &host in hosts {
            let stream = match self.connect(host).await {
                Ok(stream) => stream,
                Err(cause) => {
                    last.cause = cause;
                    // Without resources no server will do.
                    if cause == Cause::NoResource { break } else { continue }
                }
            };
            let mut session = Session::new(self.manner.clone());
            let mut left = who;
            let all = self.converse(stream, &mut session, &mut left, owner);
            if timeout(duration(self.patience.connection_s), all).await.is_err() {
                session.break_off(Cause::Silent);
            }
            match session.broken {
                // The next server may be better (RFC 5321, section 5.1).
                Some(trouble) if !session.was_ready() => last = trouble,
                broken => return finished(session, left, broken),
            }
        }
        let outcomes = who.iter().map(|&recipient| (recipient, Outcome::Deferred(last))).collect();
        Visited { news: News { outcomes, transactions: 0 }, broken: Some(last) }
    }

    async fn connect(&self, host: SocketAddr) -> Result<TcpStream, Cause> {
        let begin = Instant::now();
        let connected = timeout(self.patience.of(Verb::Connect), TcpStream::connect(host)).await;
        let stream = connected.map_err(|_| Cause::Silent)?.map_err(|error| cause(&error, Cause::Refused))?;
        self.took(Verb::Connect, begin);
        // Commands are whole when they are written.
        let _ = stream.set_nodelay(true);
        Ok(stream)
    }

    /// The whole dialogue; recipients left in `left` were not part of it.
    async fn converse(
        &self,
        stream: TcpStream,
        session: &mut Session,
        left: &mut &[Recipient],
        owner: Owner<'_>,
    ) {
        let mut wire = Wire { stream, bytes: Vec::new() };
        match self.exchange(&mut wire, session, left, owner).await {
            Err(cause) => return session.break_off(cause),
            Ok(Want::Tls) => {}
            Ok(_) => return,
        }
        let begin = Instant::now();
        let (Some(tls), Ok(name)) = (&self.tls, ServerName::try_from("mx.weir.test")) else {
            return session.break_off(Cause::NoTls);
        };
        let handshake = timeout(self.patience.of(Verb::StartTls), tls.connect(name, wire.stream));
        let Ok(Ok(stream)) = handshake.await else { return session.break_off(Cause::NoTls) };
        self.took(Verb::StartTls, begin);
        session.secured();
        let mut wire = Wire { stream, bytes: Vec::new() };
        if let Err(cause) = self.exchange(&mut wire, session, left, owner).await {
            session.break_off(cause);
        }
    }

    /// Until the session is over, or TLS begins.
    async fn exchange<S>(
        &self,
        wire: &mut Wire<S>,
        session: &mut Session,
        left: &mut &[Recipient],
        owner: Owner<'_>,
    ) -> Result<Want, Cause>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        loop {
            match session.want() {
                Want::Reply(verb) => {
                    self.replies(wire, session, verb).await?;
                    let news = session.news();
                    if !news.outcomes.is_empty() {
                        (owner.settle)(news);
                    }
                }
                Want::Transaction if left.is_empty() || self.is_stopped() => session.quit(),
                Want::Transaction => {
                    let (now, later) = left.split_at(left.len().min(self.per_transaction));
                    if let Some(pace) = &self.pace {
                        sleep_until(pace.turn(now.len(), Instant::now()).into()).await;
                        if self.is_stopped() {
                            continue;
                        }
                    }
                    *left = later;
                    session.transaction(now, owner.address_of);
                }
                // Bytes before the handshake would be taken for ones within TLS (CVE-2011-0411).
                Want::Tls if !wire.bytes.is_empty() => return Err(Cause::Unasked),
                want => return Ok(want),
            }
        }
    }

    /// Writes what is to be sent, and takes replies until there is something else to do.
    async fn replies<S>(&self, wire: &mut Wire<S>, session: &mut Session, verb: Verb) -> Result<(), Cause>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let begin = Instant::now();
        let mut deadline = tokio::time::Instant::now() + self.patience.of(verb);
        if !session.out.is_empty() {
            let written = timeout_at(deadline, wire.stream.write_all(&session.out)).await;
            written.map_err(|_| Cause::Silent)?.map_err(|error| cause(&error, Cause::Closed))?;
            session.out.clear();
        }
        while let Want::Reply(verb) = session.want() {
            match Reply::first(&wire.bytes)? {
                Some((reply, length)) => {
                    session.reply(reply);
                    wire.bytes.drain(..length);
                    self.took(verb, begin);
                    if !session.out.is_empty() {
                        break;
                    }
                    deadline = tokio::time::Instant::now() + self.patience.of(verb);
                }
                None => wire.more(deadline).await?,
            }
        }
        // What came beyond the replies was not asked for; it may be the server's farewell.
        if session.want() == Want::Transaction
            && let Some((reply, _)) = Reply::first(&wire.bytes)?
        {
            session.reply(reply);
        }
        Ok(())
    }

    fn took(&self, verb: Verb, begin: Instant) {
        self.latency.borrow_mut()[verb as usize].add(begin.elapsed());
    }
}

impl<S: AsyncRead + Unpin> Wire<S> {
    async fn more(&mut self, deadline: tokio::time::Instant) -> Result<(), Cause> {
        if self.bytes.capacity() == self.bytes.len() {
            self.bytes.reserve(512);
        }
        match timeout_at(deadline, self.stream.read_buf(&mut self.bytes)).await {
            Err(_) => Err(Cause::Silent),
            Ok(Ok(0)) => Err(Cause::Closed),
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(cause(&error, Cause::Closed)),
        }
    }
}

fn finished(mut session: Session, left: &[Recipient], broken: Option<Trouble>) -> Visited {
    let mut news = session.news();
    // After a connection that ended well, recipients are left only if the delivery was stopped: they have no outcome.
    if let Some(trouble) = broken {
        news.outcomes.extend(left.iter().map(|&recipient| (recipient, Outcome::Deferred(trouble))));
    }
    Visited { news, broken }
}

/// What an error means; if nothing else, then `usual`.
fn cause(error: &io::Error, usual: Cause) -> Cause {
    match error.kind() {
        ErrorKind::AddrNotAvailable | ErrorKind::OutOfMemory => Cause::NoResource,
        ErrorKind::TimedOut => Cause::Silent,
        // EMFILE and ENFILE have no kind of their own.
        _ => match error.raw_os_error() {
            Some(23 | 24) => Cause::NoResource,
            _ => usual,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recipients_take_turns_at_a_rate() {
        let (pace, begin) = (Pace::new(100.0), Instant::now());
        let later = |ms| begin + Duration::from_millis(ms);
        let first = pace.turn(1, later(1000));
        assert_eq!(first, later(1000));
        assert_eq!(pace.turn(5, later(1000)), later(1010));
        assert_eq!(pace.turn(1, later(1000)), later(1060), "five came before");
        assert_eq!(pace.turn(1, later(3000)), later(3000), "what was not used is not made up for");
    }
}
