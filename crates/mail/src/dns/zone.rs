//! The domains of a job: each has mail servers, and some have what domains on the Internet have as well. Pure.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};
use simple_dns::rdata::{A, MX, RData};
use simple_dns::{CLASS, Name, Packet, PacketFlag, QTYPE, RCODE, ResourceRecord, TYPE};

use super::Transport;

/// Where all domains are (RFC 2606).
const ORIGIN: &str = "weir.test";
/// The longest message by UDP without EDNS (RFC 1035, section 2.3.4).
const UDP: usize = 512;
const TTL_S: u32 = 300;
/// Connections to the broadcast address of the loopback always fail.
const DEAD: Ipv4Addr = Ipv4Addr::new(127, 255, 255, 255);

/// The name of a domain of a job.
pub fn domain_name(domain: u32) -> String {
    format!("d{domain}.{ORIGIN}")
}

/// What is known of all domains.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Zone {
    /// Domains.
    pub domains: u32,
    /// Address of the mail server of the first domain.
    pub first: Ipv4Addr,
    /// So many addresses from there on are those of mail servers, at least 1.
    pub addresses: u32,
    /// Share of the domains that are [`Kind`]s other than plain, 0..=1.
    pub odd: f64,
}

/// What a domain is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One mail server.
    Plain,
    /// None is named: mail goes to the address of the domain (RFC 5321, section 5.1).
    Implicit,
    /// So many that their names need TCP.
    Many,
    /// The one to be tried first is dead.
    DeadFirst,
    /// It says that it takes no mail (RFC 7505).
    NullMx,
    /// There is none.
    Absent,
    /// Its name servers fail.
    Failing,
}

impl Kind {
    const ODD: [Kind; 6] =
        [Kind::Implicit, Kind::Many, Kind::DeadFirst, Kind::NullMx, Kind::Absent, Kind::Failing];
}

impl Zone {
    /// What this domain is like: the same in every run.
    pub(crate) fn kind(&self, domain: u32) -> Kind {
        let hash = crc32fast::hash(&domain.to_be_bytes());
        let is_odd = f64::from(hash) < self.odd * f64::from(u32::MAX);
        let which = (hash.rotate_left(16) as usize) % Kind::ODD.len();
        if is_odd { Kind::ODD.get(which).copied().unwrap_or(Kind::Plain) } else { Kind::Plain }
    }

    fn address(&self, domain: u32) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.first.to_bits().wrapping_add(domain % self.addresses.max(1)))
    }

    /// The answer to a query; `None` for what is none.
    pub(crate) fn answer(&self, query: &[u8], transport: Transport) -> Option<Vec<u8>> {
        let query = Packet::parse(query).ok().filter(|query| !query.has_flags(PacketFlag::RESPONSE))?;
        let question = query.questions.first()?.clone();
        let mut answer = Packet::new_reply(query.id());
        answer.set_flags(PacketFlag::AUTHORITATIVE_ANSWER);
        let (name, asked) = (question.qname.to_string().to_ascii_lowercase(), question.qtype);
        answer.questions.push(question);
        *answer.rcode_mut() = self.fill(&name, asked, &mut answer);
        let bytes = answer.build_bytes_vec_compressed().ok()?;
        if transport == Transport::Tcp || bytes.len() <= UDP {
            return Some(bytes);
        }
        answer.set_flags(PacketFlag::TRUNCATION);
        (answer.answers, answer.additional_records) = (Vec::new(), Vec::new());
        answer.build_bytes_vec_compressed().ok()
    }

    fn fill(&self, name: &str, asked: QTYPE, answer: &mut Packet<'_>) -> RCODE {
        let Some((host, domain)) = parse(name).filter(|(_, domain)| *domain < self.domains) else {
            return RCODE::NameError;
        };
        let kind = self.kind(domain);
        let records = match (kind, asked, host) {
            (Kind::Failing, ..) => return RCODE::ServerFailure,
            (Kind::Absent, ..) => return RCODE::NameError,
            (_, QTYPE::TYPE(TYPE::MX), None) => self.servers(kind, domain),
            (_, QTYPE::TYPE(TYPE::A), Some(0)) if kind == Kind::DeadFirst => vec![a(name, DEAD)],
            (_, QTYPE::TYPE(TYPE::A), Some(_)) => vec![a(name, self.address(domain))],
            (Kind::Implicit, QTYPE::TYPE(TYPE::A), None) => vec![a(name, self.address(domain))],
            _ => Vec::new(),
        };
        let hosts = records.iter().flatten().filter_map(|record| match &record.rdata {
            RData::MX(mx) => Some(mx.exchange.to_string()),
            _ => None,
        });
        let addresses = hosts.filter_map(|host| {
            let (number, domain) = parse(&host)?;
            let dead = kind == Kind::DeadFirst && number == Some(0);
            a(&host, if dead { DEAD } else { self.address(domain) })
        });
        answer.additional_records = addresses.collect();
        answer.answers = records.into_iter().flatten().collect();
        RCODE::NoError
    }

    fn servers(&self, kind: Kind, domain: u32) -> Vec<Option<ResourceRecord<'static>>> {
        let count = match kind {
            Kind::Implicit => return Vec::new(),
            Kind::NullMx => return vec![mx(&domain_name(domain), 0, "")],
            Kind::Many => 20,
            Kind::DeadFirst => 2,
            Kind::Plain | Kind::Absent | Kind::Failing => 1,
        };
        let host = |number: u16| {
            mx(&domain_name(domain), 10 * (number + 1), &format!("mx{number}.{}", domain_name(domain)))
        };
        (0..count).map(host).collect()
    }
}

/// The number of a mail server, if it is one, and that of its domain: of `mx0.d17.weir.test`, or `d17.weir.test`.
fn parse(name: &str) -> Option<(Option<u16>, u32)> {
    let name = name.strip_suffix(ORIGIN)?.strip_suffix('.')?;
    let (host, domain) = name.rsplit_once('.').map_or((None, name), |(host, domain)| (Some(host), domain));
    let host = match host {
        Some(host) => Some(host.strip_prefix("mx")?.parse().ok()?),
        None => None,
    };
    Some((host, domain.strip_prefix('d')?.parse().ok()?))
}

fn record(name: &str, rdata: RData<'static>) -> Option<ResourceRecord<'static>> {
    Some(ResourceRecord::new(Name::new(name).ok()?.into_owned(), CLASS::IN, TTL_S, rdata))
}

fn a(name: &str, address: Ipv4Addr) -> Option<ResourceRecord<'static>> {
    record(name, RData::A(A { address: address.to_bits() }))
}

fn mx(name: &str, preference: u16, exchange: &str) -> Option<ResourceRecord<'static>> {
    let exchange = Name::new(exchange).ok()?.into_owned();
    record(name, RData::MX(MX { preference, exchange }))
}
