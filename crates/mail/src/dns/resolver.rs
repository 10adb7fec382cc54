//! The mail servers of a domain, asked for at one name server: by UDP, again by TCP where an answer is truncated.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::{Duration, Instant};

use simple_dns::rdata::RData;
use simple_dns::{CLASS, Name, Packet, PacketFlag, QCLASS, QTYPE, Question, RCODE, TYPE};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::{JoinHandle, spawn_local};
use tokio::time::timeout;
use weir_rng::Rng;

use super::domain_name;
use crate::session::Cause;

/// A question is asked so often.
const ATTEMPTS: u32 = 3;
/// Questions at a time: their answers fit the buffer of a socket.
const AT_ONCE: usize = 128;
/// Most servers of a domain that are tried.
const HOSTS: usize = 10;

type Waiting = Rc<RefCell<HashMap<u16, oneshot::Sender<Vec<u8>>>>>;
type Hosts = Rc<[Ipv4Addr]>;

/// Asks one name server, and remembers its answers for as long as it allows.
pub(crate) struct Resolver {
    server: SocketAddr,
    socket: Rc<UdpSocket>,
    waiting: Waiting,
    at_once: Semaphore,
    ids: RefCell<Rng>,
    known: RefCell<HashMap<u32, (Hosts, Instant)>>,
    patience: Duration,
    receiver: JoinHandle<()>,
}

/// An answer: its parts are taken from the message where they are needed.
enum Answer {
    Message(Vec<u8>),
    None(Cause),
}

impl Resolver {
    /// In a `LocalSet`; an attempt waits for `patience`.
    pub(crate) async fn new(server: SocketAddr, patience: Duration, seed: u64) -> io::Result<Resolver> {
        let any = if server.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let socket = UdpSocket::bind(any).await?;
        // From others the kernel takes nothing.
        socket.connect(server).await?;
        let socket = Rc::new(socket);
        let waiting = Waiting::default();
        let receiver = spawn_local(receive(socket.clone(), waiting.clone()));
        Ok(Resolver {
            server,
            socket,
            waiting,
            at_once: Semaphore::new(AT_ONCE),
            ids: RefCell::new(Rng::new(seed)),
            known: RefCell::default(),
            patience,
            receiver,
        })
    }

    /// The addresses of the mail servers of a domain, the preferred first.
    pub(crate) async fn hosts(&self, domain: u32) -> Result<Hosts, Cause> {
        if let Some((hosts, until)) = self.known.borrow().get(&domain)
            && Instant::now() < *until
        {
            return Ok(hosts.clone());
        }
        let (hosts, ttl_s) = self.look_up(&domain_name(domain)).await?;
        let hosts: Hosts = hosts.into();
        let until = Instant::now() + Duration::from_secs(ttl_s.into());
        self.known.borrow_mut().insert(domain, (hosts.clone(), until));
        Ok(hosts)
    }

    async fn look_up(&self, domain: &str) -> Result<(Vec<Ipv4Addr>, u32), Cause> {
        let message = match self.ask(domain, TYPE::MX).await {
            Answer::Message(message) => message,
            Answer::None(cause) => return Err(cause),
        };
        let packet = Packet::parse(&message).map_err(|_| Cause::NoAnswer)?;
        let mut ttl_s = ttl_s(&packet);
        let mut found = Vec::new();
        for host in servers(&packet, domain)? {
            let before = found.len();
            found.extend(additional(&packet, &host));
            if found.len() == before {
                ttl_s = ttl_s.min(self.addresses(&host, &mut found).await?);
            }
        }
        if found.is_empty() { Err(Cause::NoMail) } else { Ok((found, ttl_s)) }
    }

    /// The addresses of a host, and for how many seconds they are good.
    async fn addresses(&self, host: &str, found: &mut Vec<Ipv4Addr>) -> Result<u32, Cause> {
        let message = match self.ask(host, TYPE::A).await {
            Answer::Message(message) => message,
            Answer::None(Cause::NoMail) => return Ok(u32::MAX),
            Answer::None(cause) => return Err(cause),
        };
        let packet = Packet::parse(&message).map_err(|_| Cause::NoAnswer)?;
        found.extend(packet.answers.iter().filter_map(|record| address(&record.rdata)));
        Ok(ttl_s(&packet))
    }

    async fn ask(&self, name: &str, kind: TYPE) -> Answer {
        let Ok(_one) = self.at_once.acquire().await else { return Answer::None(Cause::NoAnswer) };
        for _ in 0..ATTEMPTS {
            let Some((id, query)) = self.query(name, kind) else { return Answer::None(Cause::NoMail) };
            let message = timeout(self.patience, self.by_udp(id, &query)).await.ok().flatten();
            self.waiting.borrow_mut().remove(&id);
            let message = match judge(message.as_deref(), &query) {
                Judged::Truncated => {
                    timeout(self.patience, self.by_tcp(&query)).await.ok().and_then(Result::ok)
                }
                _ => message,
            };
            match (judge(message.as_deref(), &query), message) {
                (Judged::Good, Some(message)) => return Answer::Message(message),
                (Judged::NoDomain, _) => return Answer::None(Cause::NoMail),
                // A server that fails fails again: later is soon enough.
                (Judged::Failure, _) => return Answer::None(Cause::NoAnswer),
                _ => {}
            }
        }
        Answer::None(Cause::NoAnswer)
    }

    /// A question with a number that no other one has.
    fn query(&self, name: &str, kind: TYPE) -> Option<(u16, Vec<u8>)> {
        let waiting = self.waiting.borrow();
        let id = std::iter::repeat_with(|| (self.ids.borrow_mut().next_u64() >> 48) as u16);
        let id = id.take(1000).find(|id| !waiting.contains_key(id))?;
        let mut packet = Packet::new_query(id);
        let question =
            Question::new(Name::new(name).ok()?, QTYPE::TYPE(kind), QCLASS::CLASS(CLASS::IN), false);
        packet.questions.push(question);
        Some((id, packet.build_bytes_vec().ok()?))
    }

    async fn by_udp(&self, id: u16, query: &[u8]) -> Option<Vec<u8>> {
        let (reply, answer) = oneshot::channel();
        self.waiting.borrow_mut().insert(id, reply);
        self.socket.send(query).await.ok()?;
        answer.await.ok()
    }

    async fn by_tcp(&self, query: &[u8]) -> io::Result<Vec<u8>> {
        let mut stream = TcpStream::connect(self.server).await?;
        let length = u16::try_from(query.len()).map_err(io::Error::other)?;
        stream.write_all(&[&length.to_be_bytes(), query].concat()).await?;
        let mut message = vec![0; stream.read_u16().await?.into()];
        stream.read_exact(&mut message).await?;
        Ok(message)
    }
}

impl Drop for Resolver {
    fn drop(&mut self) {
        self.receiver.abort();
    }
}

async fn receive(socket: Rc<UdpSocket>, waiting: Waiting) {
    let mut message = [0; 1500];
    loop {
        // An error is an ICMP port unreachable: the attempt times out.
        let Ok(length) = socket.recv(&mut message).await else { continue };
        let message = message.get(..length).unwrap_or_default();
        let id = message.first_chunk().map(|id| u16::from_be_bytes(*id));
        if let Some(who) = id.and_then(|id| waiting.borrow_mut().remove(&id)) {
            let _ = who.send(message.to_vec());
        }
    }
}

/// The mail servers that an answer names, the preferred first; without any it is the domain itself.
pub(crate) fn servers(packet: &Packet<'_>, domain: &str) -> Result<Vec<String>, Cause> {
    let named = packet.answers.iter().filter_map(|record| match &record.rdata {
        RData::MX(mx) => Some((mx.preference, mx.exchange.to_string())),
        _ => None,
    });
    let mut servers: Vec<(u16, String)> = named.collect();
    servers.sort();
    servers.truncate(HOSTS);
    if servers.iter().any(|(_, host)| host.is_empty()) {
        return Err(Cause::NoMail);
    }
    if servers.is_empty() {
        servers.push((0, domain.to_string()));
    }
    Ok(servers.into_iter().map(|(_, host)| host).collect())
}

/// Addresses of a server that an answer has beside its name.
pub(crate) fn additional(packet: &Packet<'_>, host: &str) -> impl Iterator<Item = Ipv4Addr> {
    let named = packet.additional_records.iter().filter(move |record| record.name.to_string() == host);
    named.filter_map(|record| address(&record.rdata))
}

/// For how many seconds an answer is good.
fn ttl_s(packet: &Packet<'_>) -> u32 {
    packet.answers.iter().map(|record| record.ttl).min().unwrap_or(u32::MAX)
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Judged {
    Good,
    Truncated,
    NoDomain,
    Failure,
    /// No answer, or not to this question.
    None,
}

/// What an answer to a question is worth.
pub(crate) fn judge(message: Option<&[u8]>, query: &[u8]) -> Judged {
    let packets = message.map(Packet::parse).zip(Packet::parse(query).ok());
    let Some((Ok(message), query)) = packets else { return Judged::None };
    let same = message.id() == query.id()
        && message.has_flags(PacketFlag::RESPONSE)
        && message.questions.first().map(|q| (&q.qname, q.qtype))
            == query.questions.first().map(|q| (&q.qname, q.qtype));
    match message.rcode() {
        _ if !same => Judged::None,
        RCODE::NoError if message.has_flags(PacketFlag::TRUNCATION) => Judged::Truncated,
        RCODE::NoError => Judged::Good,
        RCODE::NameError => Judged::NoDomain,
        _ => Judged::Failure,
    }
}

fn address(data: &RData<'_>) -> Option<Ipv4Addr> {
    if let RData::A(a) = data { Some(Ipv4Addr::from_bits(a.address)) } else { None }
}
