//! The case of a point, and the orders for weir's engine and receivers.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::time::Duration;

use weir_mail::dns::{NameServer, Zone};
use weir_mail::engine::{Manner, Order, Patience, PerDomain, Retry, Route, Window};
use weir_mail::flood::Flood;
use weir_mail::sink::Service;
use weir_mail::{Ending, Job, StartTls};

use super::plan::{Mail, MailPeer};

/// Of SMTP, within the namespace.
pub(super) const PORT: u16 = 25;
/// Mail servers of the domains: an address each.
const FIRST: Ipv4Addr = Ipv4Addr::new(127, 1, 0, 0);
/// A message that the ramp sends again and again until the time is over.
const REPEATS: u32 = 1000;
/// Sockets of the flood that shows what receivers take, and transactions in each of its writes.
const FLOOD: (u32, u32) = (50, 50);
/// Connections between a pair of programs, of which one does not tell how many it has.
pub(super) const PAIR_CONNECTIONS: u32 = 50;
/// Bytes of their messages.
pub(super) const PAIR_BYTES: u32 = 4096;

/// The sender or receiver: weir (`None`), or another program.
pub(super) type Who = Option<MailPeer>;

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Case {
    /// Receivers alone: what they take.
    Capacity,
    /// So many connections, with the delay of the plan.
    Ramp(u32),
    /// All recipients once, as fast as it goes.
    Whole,
    /// A sender and a receiver: the same messages to one server, one recipient each, without PIPELINING.
    Pair(Who, Who),
}

impl Case {
    /// Its name in records.
    pub(super) fn name(self) -> &'static str {
        match self {
            Case::Capacity => "capacity",
            Case::Ramp(_) => "ramp",
            Case::Whole => "whole",
            Case::Pair(..) => "pair",
        }
    }
}

/// The name of a sender or a receiver.
pub(super) fn name(who: Who) -> &'static str {
    who.map_or("weir", MailPeer::name)
}

impl Mail {
    /// Starting and ending what a trial needs.
    const AROUND: Duration = Duration::from_secs(1);
    /// What the whole task, or a pair of programs, takes at most.
    const LONG: Duration = Duration::from_secs(15);

    /// The longest time that it takes, about.
    pub(super) fn estimate(&self) -> Duration {
        self.cases().iter().map(|case| self.length(*case) + Mail::AROUND).sum::<Duration>() * self.rounds
    }

    /// The length of a trial as recorded.
    pub(super) fn length(&self, case: Case) -> Duration {
        match case {
            Case::Ramp(_) => self.warm_up + self.trial,
            Case::Capacity => self.trial,
            Case::Whole | Case::Pair(..) => Mail::LONG,
        }
    }

    /// All that is measured.
    pub(super) fn cases(&self) -> Vec<Case> {
        let mut cases: Vec<Case> = self.connections.iter().map(|&n| Case::Ramp(n)).collect();
        if self.whole_connections > 0 {
            cases.push(Case::Whole);
        }
        if !cases.is_empty() {
            cases.insert(0, Case::Capacity);
        }
        let senders = [None, Some(MailPeer::SmtpSource)];
        let receivers = [None, Some(MailPeer::SmtpSink), Some(MailPeer::Postfix)];
        let takes_part = |who: &Who| who.is_none_or(|peer| self.peers.contains(&peer));
        for receiver in receivers.into_iter().filter(takes_part) {
            let senders = senders.into_iter().filter(takes_part);
            cases.extend(
                senders.filter(|_| !self.peers.is_empty()).map(|sender| Case::Pair(sender, receiver)),
            );
        }
        cases
    }

    /// Connections that its receivers must have room for.
    pub(super) fn open(&self, case: Case) -> u32 {
        match case {
            Case::Capacity => FLOOD.0,
            Case::Ramp(connections) => connections,
            Case::Whole => self.whole_connections,
            Case::Pair(..) => PAIR_CONNECTIONS,
        }
    }

    pub(super) fn service(&self, case: Case) -> Service {
        let delay_s = if let Case::Ramp(_) = case { self.delay.as_secs_f64() } else { 0.0 };
        Service {
            listen: SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, PORT),
            backlog: 65_535,
            connections: 2 * self.open(case),
            threads: self.threads,
            delay_s,
            pipelining: self.pipelining,
            tls: self.starttls && !matches!(case, Case::Pair(..)),
            ..Service::default()
        }
    }

    pub(super) fn name_server(&self) -> NameServer {
        let zone = Zone {
            domains: self.job.domains,
            first: FIRST,
            addresses: self.job.domains,
            odd: self.odd_domains,
        };
        NameServer { listen: SocketAddrV4::new(Ipv4Addr::LOCALHOST, 53), zone }
    }

    /// For the engine; `beside` is the process of the receivers.
    pub(super) fn order(&self, case: Case, beside: u32) -> Order {
        let ramp = matches!(case, Case::Ramp(_));
        let window = Window { after_s: self.warm_up.as_secs_f64(), seconds: self.trial.as_secs_f64() };
        let data = |bytes| if bytes == 0 { Ending::Rset } else { Ending::Data(bytes) };
        let order = Order {
            job: self.job.clone(),
            messages: if ramp { REPEATS } else { 1 },
            route: Route::Mx { server: SocketAddr::from((Ipv4Addr::LOCALHOST, 53)), port: PORT },
            connections: self.open(case),
            rate: None,
            threads: self.threads,
            per_transaction: self.per_transaction,
            per_domain: PerDomain {
                connections: self.domain_connections,
                recipients: self.connection_recipients,
            },
            retry: Retry { attempts: 5, after_s: 0.1 },
            manner: Manner {
                helo: "weir.test".into(),
                from: "sender@weir.test".into(),
                pipelining: self.pipelining,
                tls: if self.starttls { StartTls::Required } else { StartTls::Never },
                ending: data(self.message_bytes),
            },
            patience: Patience { command_s: 30.0, ..Patience::default() },
            log: None,
            window: ramp.then_some(window),
            beside: Some(beside),
        };
        match case {
            Case::Pair(..) => self.pair(order),
            _ => order,
        }
    }

    /// The same work as smtp-source does: one domain, one server, a message to one recipient at a time.
    fn pair(&self, order: Order) -> Order {
        let per_connection = self.peer_messages.div_ceil(PAIR_CONNECTIONS);
        Order {
            job: Job { recipients: self.peer_messages.into(), domains: 1, skew: 0.0 },
            route: Route::Host { at: vec![SERVER], to: Some("rcpt@weir.test".into()) },
            threads: 1,
            per_transaction: 1,
            per_domain: PerDomain { connections: PAIR_CONNECTIONS, recipients: per_connection },
            manner: Manner {
                pipelining: false,
                tls: StartTls::Never,
                ending: Ending::Data(PAIR_BYTES),
                ..order.manner
            },
            ..order
        }
    }

    pub(super) fn flood(&self) -> Flood {
        Flood { to: SERVER, connections: FLOOD.0, group: FLOOD.1, seconds: self.trial.as_secs_f64() }
    }
}

/// The server of a pair of programs.
const SERVER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), PORT);
