//! The access concentrator's side of discovery.
//!
//! ```text
//! PADI > limits of MAC and line > sessions that are being set up > Service-Name > PADO (after the configured delay)
//! PADR > AC-Cookie > the same request again: the same PADS > Service-Name > sessions of MAC and line > id > PADS
//! PADT > line, MAC and id > end
//! ```
//! A repeated PADR (same MAC, line, cookie and Host-Uniq) gets the same session until [`Concentrator::confirm`], since its PADS may have
//! been lost. Memory is bounded by the limits of sessions; a PADI makes none.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use super::MAX_PAYLOAD;
use super::cookie;
use super::discovery::{Code, Discovery};
use super::line_tag::LineTag;
use super::tags::{
    AC_COOKIE, AC_NAME, AC_SYSTEM_ERROR, GENERIC_ERROR, HOST_UNIQ, PPP_MAX_PAYLOAD, RELAY_SESSION_ID,
    SERVICE_NAME, SERVICE_NAME_ERROR, TagList,
};
use crate::drops::DropReason;
use crate::limit::{Limit, Limiter};
use crate::line::Line;
use crate::mac::Mac;
use crate::random::{Random, mac_sha256};

/// Session ids of a line: 1 to 65,534 (RFC 2516, section 4, reserves 0xffff).
const MOST_IDS: usize = 65_534;

/// Sessions that are being set up: 2 s of set-ups at 16,000 a second, in 64 MB.
const MOST_HALF_OPEN: usize = 32_768;

/// How the concentrator answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Its name (AC-Name).
    pub name: String,
    /// Services that it has; empty: one without a name.
    pub services: Vec<String>,
    /// What becomes of a request for another service.
    pub service_names: ServiceNames,
    /// How long a PADI waits for its PADO: a host takes the concentrator that answers first.
    pub pado_delay: Duration,
    /// PADI from one MAC on one line.
    pub mac_limit: Limit,
    /// PADI from one line.
    pub line_limit: Limit,
    /// Sessions of one MAC on one line (TR-101, R-79).
    pub most_of_mac: usize,
    /// Sessions of one line.
    pub most_of_line: usize,
    /// Sessions that are being set up, on all lines.
    pub most_half_open: usize,
    /// Largest PPP payload that the port carries: its MTU less 8 bytes. Above 1492 RFC 4638 is offered.
    pub max_payload: u16,
}

impl Default for Options {
    /// One service without a name, tolerant; 4 sessions of a MAC, all ids of a line, 32,768 that are being set up, MRU 1492.
    fn default() -> Options {
        Options {
            name: "weir".into(),
            services: Vec::new(),
            service_names: ServiceNames::Tolerant,
            pado_delay: Duration::ZERO,
            mac_limit: Limit { per_s: 1, burst: 5 },
            line_limit: Limit { per_s: 1_000, burst: 2_000 },
            most_of_mac: 4,
            most_of_line: MOST_IDS,
            most_half_open: MOST_HALF_OPEN,
            max_payload: MAX_PAYLOAD,
        }
    }
}

/// What becomes of a request for a service that the concentrator does not have, or of a PADR without a Service-Name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ServiceNames {
    /// A PADI is not answered (RFC 2516, section 5.2); a PADR gets an error.
    Strict,
    /// It is served and counted: many devices send what another provider told their owner.
    Tolerant,
}

/// Where a packet came in.
#[derive(Debug, Clone, Copy)]
pub struct Port<'a> {
    /// The line.
    pub line: &'a Line,
    /// MAC address of the port.
    pub mac: Mac,
}

/// A session by its line and id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionKey {
    /// The line.
    pub line: Line,
    /// The id, 1 to 65,534.
    pub id: u16,
}

/// What a packet of discovery comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answered {
    /// A PADI: send the PADO after this time.
    Offer {
        /// The delay that is configured.
        after: Duration,
        /// The PADO.
        frame: Vec<u8>,
    },
    /// A PADR: the session has an id. Send the PADS.
    Begin(Box<Begin>),
    /// A PADR again: send the same PADS.
    Again(Vec<u8>),
    /// A PADR is refused: send the PADS with an error.
    Refuse {
        /// Why.
        reason: DropReason,
        /// The PADS.
        frame: Vec<u8>,
    },
    /// A PADT: the session has ended, and nothing is sent (RFC 2516, section 5.5).
    End(SessionKey),
}

/// A session that begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Begin {
    /// Line and id.
    pub key: SessionKey,
    /// The host.
    pub mac: Mac,
    /// What the access node said of the line.
    pub line_tag: Option<LineTag>,
    /// Largest MRU of both sides: 1492, or more by RFC 4638.
    pub max_mru: u16,
    /// The PADS.
    pub frame: Vec<u8>,
}

/// A session that has an id.
#[derive(Debug)]
struct Entry {
    mac: Mac,
    /// By what its PADR is known when it comes again; `None`: it was confirmed.
    request: Option<u64>,
    stage: Stage,
}

/// How far a session is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// It is being set up.
    HalfOpen,
    /// It has been up at least once.
    Established,
}

/// What a concentrator has counted beside drops.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Requests for a service that it does not have, served nevertheless.
    pub other_services: u64,
    /// PADR without a Service-Name, served nevertheless.
    pub without_service: u64,
}

/// An access concentrator.
#[derive(Debug)]
pub struct Concentrator {
    options: Options,
    /// Of its cookies.
    key: [u8; 32],
    lines: HashMap<Line, BTreeMap<u16, Entry>>,
    requests: HashMap<u64, SessionKey>,
    macs: HashMap<(Line, Mac), usize>,
    half_open: usize,
    limiter: Limiter,
    random: Random,
    counts: Counts,
}

impl Concentrator {
    /// A concentrator without sessions. Its keys and the order of its ids follow from `random`.
    pub fn new(options: Options, mut random: Random) -> Concentrator {
        Concentrator {
            options,
            key: random.bytes(),
            lines: HashMap::new(),
            requests: HashMap::new(),
            macs: HashMap::new(),
            half_open: 0,
            limiter: Limiter::new(u64::from_be_bytes(random.bytes())),
            random,
            counts: Counts::default(),
        }
    }

    /// Answers differently from now on; sessions go on.
    pub fn configure(&mut self, options: Options) {
        self.options = options;
    }

    /// What it has counted.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Sessions that have an id.
    pub fn len(&self) -> usize {
        self.lines.values().map(BTreeMap::len).sum()
    }

    /// Sessions that are being set up.
    pub fn half_open(&self) -> usize {
        self.half_open
    }

    /// Whether no session has an id.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Takes a packet of discovery.
    ///
    /// # Errors
    /// It gets no answer.
    pub fn input(
        &mut self,
        now: Duration,
        port: Port<'_>,
        packet: &Discovery,
    ) -> Result<Answered, DropReason> {
        if packet.src == port.mac {
            return Err(DropReason::OwnMac);
        }
        let is_for_port = packet.dst == port.mac;
        match packet.code {
            Code::Padi if is_for_port || packet.dst == Mac::BROADCAST => self.padi(now, port, packet),
            Code::Padr if is_for_port => self.padr(now, port, packet),
            Code::Padt if is_for_port => self.padt(port, packet),
            Code::Padi | Code::Padr | Code::Padt => Err(DropReason::OtherServer),
            Code::Pado | Code::Pads => Err(DropReason::FromServer),
        }
    }

    fn padi(&mut self, now: Duration, port: Port<'_>, packet: &Discovery) -> Result<Answered, DropReason> {
        let Port { line, mac } = port;
        if !self.limiter.takes(now, &(line, Some(packet.src)), self.options.mac_limit) {
            return Err(DropReason::PadiRateMac);
        }
        if !self.limiter.takes(now, &(line, None::<Mac>), self.options.line_limit) {
            return Err(DropReason::PadiRateLine);
        }
        // One that cannot serve it does not answer (RFC 2516, section 5.2): its host asks again, or another concentrator answers.
        if self.half_open >= self.options.most_half_open {
            return Err(DropReason::PppoeHalfOpen);
        }
        let Some(service) = packet.tags.get(SERVICE_NAME) else { return Err(DropReason::PppoeServiceName) };
        self.check_service(Some(service))?;
        LineTag::read(&packet.tags)?;
        let mut tags = TagList::default();
        tags.push(AC_NAME, self.options.name.as_bytes());
        tags.push(SERVICE_NAME, service);
        let others = self.options.services.iter().map(|name| name.as_bytes());
        others.filter(|other| *other != service).for_each(|other| tags.push(SERVICE_NAME, other));
        tags.push(AC_COOKIE, &cookie::cookie(&self.key, now, packet.src, line));
        self.echo(packet, &mut tags);
        let pado = Discovery { dst: packet.src, src: mac, code: Code::Pado, session_id: 0, tags };
        let frame = pado.write().ok_or(DropReason::TooLong)?;
        Ok(Answered::Offer { after: self.options.pado_delay, frame })
    }

    /// Whether a service is offered, or is taken nevertheless; `None`: the packet names none.
    fn check_service(&mut self, service: Option<&[u8]>) -> Result<(), DropReason> {
        let is_known = |service: &[u8]| {
            service.is_empty() || self.options.services.iter().any(|name| name.as_bytes() == service)
        };
        match (service, self.options.service_names) {
            (Some(service), _) if is_known(service) => {}
            (Some(_), ServiceNames::Tolerant) => self.counts.other_services += 1,
            (None, ServiceNames::Tolerant) => self.counts.without_service += 1,
            (Some(_), ServiceNames::Strict) => return Err(DropReason::ServiceUnknown),
            (None, ServiceNames::Strict) => return Err(DropReason::PppoeServiceName),
        }
        Ok(())
    }

    /// Tags that come back unchanged in each answer, and the payload of RFC 4638 if it is larger than without it.
    fn echo(&self, packet: &Discovery, tags: &mut TagList) {
        for kind in [HOST_UNIQ, RELAY_SESSION_ID] {
            packet.tags.all(kind).take(1).for_each(|value| tags.push(kind, value));
        }
        if self.max_mru(packet) > MAX_PAYLOAD
            && let Some(value) = packet.tags.get(PPP_MAX_PAYLOAD)
        {
            tags.push(PPP_MAX_PAYLOAD, value);
        }
    }

    /// Largest MRU of both sides (RFC 4638, section 5.1): a tag below 1492 changes nothing.
    fn max_mru(&self, packet: &Discovery) -> u16 {
        let asked = packet.tags.get(PPP_MAX_PAYLOAD).and_then(|value| value.try_into().ok());
        let asked = asked.map_or(MAX_PAYLOAD, u16::from_be_bytes);
        asked.min(self.options.max_payload).max(MAX_PAYLOAD)
    }

    fn padr(&mut self, now: Duration, port: Port<'_>, packet: &Discovery) -> Result<Answered, DropReason> {
        let Port { line, mac } = port;
        let cookie = packet.tags.get(AC_COOKIE).unwrap_or_default();
        if !cookie::is_valid(&self.key, now, packet.src, line, cookie) {
            return Err(DropReason::AcCookie);
        }
        let line_tag = LineTag::read(&packet.tags)?;
        let request = self.request_of(line, packet, cookie);
        if let Some(key) = self.requests.get(&request) {
            let id = key.id;
            return Ok(Answered::Again(self.pads(mac, packet, id).ok_or(DropReason::TooLong)?));
        }
        let id = match self
            .check_service(packet.tags.get(SERVICE_NAME))
            .and_then(|()| self.free_id(line, packet.src))
        {
            Ok(id) => id,
            Err(reason) => {
                let frame = self.error(mac, packet, reason).ok_or(DropReason::TooLong)?;
                return Ok(Answered::Refuse { reason, frame });
            }
        };
        let frame = self.pads(mac, packet, id).ok_or(DropReason::TooLong)?;
        let key = SessionKey { line: line.clone(), id };
        self.requests.insert(request, key.clone());
        self.keep(&key, Entry { mac: packet.src, request: Some(request), stage: Stage::HalfOpen });
        let max_mru = self.max_mru(packet);
        Ok(Answered::Begin(Box::new(Begin { key, mac: packet.src, line_tag, max_mru, frame })))
    }

    /// By what a PADR is known when it comes again.
    fn request_of(&self, line: &Line, packet: &Discovery, cookie: &[u8]) -> u64 {
        let host = packet.tags.get(HOST_UNIQ).unwrap_or_default();
        // Hashed with the key, so that no host can make its PADR look like that of another one.
        let line = line.to_string();
        let hash = mac_sha256(&self.key, &[b"request", &packet.src.0, cookie, line.as_bytes(), b" ", host]);
        hash.first_chunk().copied().map_or(0, u64::from_be_bytes)
    }

    /// An id that no session of the line has.
    fn free_id(&mut self, line: &Line, mac: Mac) -> Result<u16, DropReason> {
        if self.half_open >= self.options.most_half_open {
            return Err(DropReason::PppoeHalfOpen);
        }
        if self.macs.get(&(line.clone(), mac)).is_some_and(|count| *count >= self.options.most_of_mac) {
            return Err(DropReason::PppoeSessionsMac);
        }
        let first = self.random.below(MOST_IDS as u64) as u16;
        let Some(used) = self.lines.get(line) else { return Ok(first + 1) };
        if used.len() >= self.options.most_of_line {
            return Err(DropReason::PppoeSessionsLine);
        }
        // From a random id on, so that an id that became free is not soon another session's.
        let ids = (first..MOST_IDS as u16).chain(0..first).map(|id| id + 1);
        ids.into_iter().find(|id| !used.contains_key(id)).ok_or(DropReason::PppoeIdsUsed)
    }

    fn keep(&mut self, key: &SessionKey, entry: Entry) {
        self.half_open += usize::from(entry.stage == Stage::HalfOpen);
        *self.macs.entry((key.line.clone(), entry.mac)).or_default() += 1;
        self.lines.entry(key.line.clone()).or_default().insert(key.id, entry);
    }

    fn pads(&self, mac: Mac, packet: &Discovery, session_id: u16) -> Option<Vec<u8>> {
        let mut tags = TagList::default();
        tags.push(SERVICE_NAME, packet.tags.get(SERVICE_NAME).unwrap_or_default());
        self.echo(packet, &mut tags);
        Discovery { dst: packet.src, src: mac, code: Code::Pads, session_id, tags }.write()
    }

    /// The PADS of a request that is refused.
    fn error(&self, mac: Mac, packet: &Discovery, reason: DropReason) -> Option<Vec<u8>> {
        let mut tags = TagList::default();
        tags.push(SERVICE_NAME, packet.tags.get(SERVICE_NAME).unwrap_or_default());
        let kind = match reason {
            DropReason::ServiceUnknown | DropReason::PppoeServiceName => SERVICE_NAME_ERROR,
            _ => AC_SYSTEM_ERROR,
        };
        tags.push(kind, reason.meaning().as_bytes());
        self.echo(packet, &mut tags);
        Discovery { dst: packet.src, src: mac, code: Code::Pads, session_id: 0, tags }.write()
    }

    /// Only the host of a session ends it (a PADT names no service and no cookie).
    fn padt(&mut self, port: Port<'_>, packet: &Discovery) -> Result<Answered, DropReason> {
        let key = SessionKey { line: port.line.clone(), id: packet.session_id };
        if self.mac(&key) != Some(packet.src) {
            return Err(DropReason::PppoeSession);
        }
        self.release(&key);
        Ok(Answered::End(key))
    }

    /// The host of a session; `None`: there is no such session.
    pub fn mac(&self, key: &SessionKey) -> Option<Mac> {
        Some(self.lines.get(&key.line)?.get(&key.id)?.mac)
    }

    /// The host has received its PADS: a PADR is a request for another session from now on.
    pub fn confirm(&mut self, key: &SessionKey) {
        let entry = self.lines.get_mut(&key.line).and_then(|used| used.get_mut(&key.id));
        if let Some(request) = entry.and_then(|entry| entry.request.take()) {
            self.requests.remove(&request);
        }
    }

    /// A session is up: it is not counted among those that are being set up any more.
    pub fn establish(&mut self, key: &SessionKey) {
        let entry = self.lines.get_mut(&key.line).and_then(|used| used.get_mut(&key.id));
        if let Some(entry) = entry.filter(|entry| entry.stage == Stage::HalfOpen) {
            entry.stage = Stage::Established;
            self.half_open -= 1;
        }
    }

    /// A session of the records has its id again; false: another one has it.
    pub fn adopt(&mut self, key: &SessionKey, mac: Mac) -> bool {
        let is_free = self.mac(key).is_none() && (1..=MOST_IDS).contains(&usize::from(key.id));
        if is_free {
            self.keep(key, Entry { mac, request: None, stage: Stage::Established });
        }
        is_free
    }

    /// The id of a session is free.
    pub fn release(&mut self, key: &SessionKey) {
        self.confirm(key);
        let Some(used) = self.lines.get_mut(&key.line) else { return };
        let Some(entry) = used.remove(&key.id) else { return };
        self.half_open -= usize::from(entry.stage == Stage::HalfOpen);
        if used.is_empty() {
            self.lines.remove(&key.line);
        }
        let of_mac = (key.line.clone(), entry.mac);
        if let Some(count) = self.macs.get_mut(&of_mac) {
            *count -= 1;
            if *count == 0 {
                self.macs.remove(&of_mac);
            }
        }
    }
}

/// The PADT of a session, with a text for the host's log.
pub fn padt(port: Mac, host: Mac, session_id: u16, text: &str) -> Vec<u8> {
    let mut tags = TagList::default();
    if !text.is_empty() {
        tags.push(GENERIC_ERROR, text.get(..text.len().min(200)).unwrap_or_default().as_bytes());
    }
    let packet = Discovery { dst: host, src: port, code: Code::Padt, session_id, tags };
    packet.write().unwrap_or_default()
}

#[cfg(test)]
mod tests;
