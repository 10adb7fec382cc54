//! What is mapped to what: the rules by which mappings and sessions come, stay and go.
//!
//! ```text
//! inside end   > hash > slot >  the fast answer: it is the one, it is alive, nothing changes but its time
//! outside port > entry > slot >                  otherwise: found, begun anew, filtered, created, refused
//! ```
//!
//! Invariant: each slot of a kind that owns a port is what that port's entry says, and is counted by its block and its
//! subscriber; `dependents` of a mapping counts its further sessions.

use std::collections::{HashMap, VecDeque};

use weir_packet::headers::{ICMP, TCP, UDP};

use super::block_events::BlockEvents;
use super::block_set::BlockSet;
use super::config::{Config, Dependence, Forward, Public};
use super::leases::Leases;
use super::log::{Log, What};
use super::outside::{Endpoint, Outside, Space};
use super::ports::{AtOnce, Pool, Refusal, Taken, Want};
use super::redirect::{Reach, Redirect};
use super::sessions::Sessions;
use super::slot::{Inside, Kind, Remote, Slot};
use super::subscribers::Subscribers;
use crate::drops::Drop;
use crate::table::secret::Secret;
use crate::table::tcp::{Effect, SYN, Segment, Side, Track};
use crate::table::timers::{Ages, Class, Hand, Tick, WALK_INTERVAL};
use crate::time::Time;
use crate::way::Share;

/// Blocks that go back to the pool per call.
const BLOCKS_AT_A_TIME: usize = 16;
/// Tells the choice of an outside address from other hashes of an inside one.
const HOME: u64 = 1 << 63;

/// A frame as the table sees it, from the inside.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flow {
    pub(crate) inside: Inside,
    pub(crate) remote: Remote,
    /// Of TCP; else all zero.
    pub(crate) segment: Segment,
}

/// A frame as the table sees it, from the outside.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival {
    pub(crate) endpoint: Endpoint,
    pub(crate) proto: u8,
    pub(crate) remote: Remote,
    pub(crate) segment: Segment,
}

/// What a new mapping is to be.
#[derive(Debug, Clone, Copy)]
pub(super) struct New {
    /// One that has an outside port.
    pub(super) kind: Kind,
    /// If it is redirected, by the redirect of this number.
    pub(super) redirect: u16,
    /// Its first session.
    pub(super) track: Track,
}

/// All mappings.
pub(crate) struct Table {
    pub(crate) config: Config,
    /// Which of the NAT's threads this is.
    pub(super) share: Share,
    pub(super) ages: Ages,
    pub(super) secret: Secret,
    pub(crate) sessions: Sessions,
    pub(super) subscribers: Subscribers,
    pub(crate) outside: Outside,
    pub(super) pool: Pool,
    /// Redirects that ever were configured.
    pub(super) redirects: Vec<Redirect>,
    pub(super) redirect_numbers: HashMap<Redirect, u16>,
    /// Whom those are about that are configured now.
    pub(super) reach: Reach,
    /// There may be redirected sessions of a configuration before this one.
    pub(super) were_redirects: bool,
    /// There may be private mappings of a configuration before this one.
    pub(super) was_private: bool,
    pub(super) leases: Leases,
    /// Configured mappings that wait until nobody is in their way.
    pub(super) awaited: VecDeque<Forward>,
    /// Public addresses with the ports that hosts are given, or were by an earlier text.
    pub(super) given: Vec<Public>,
    /// The slot that the walk for those in the way has come to.
    pub(super) walked: u32,
    /// There is, or was, a mapping by configuration.
    pub(super) has_forwards: bool,
    /// Of those, mappings that other threads use.
    pub(super) foreign: u32,
    hand: Hand,
    /// Where the next session is looked for that may give way.
    pub(super) victim: u32,
    pub(crate) log: Log,
    pub(super) block_events: BlockEvents,
}

impl Table {
    pub(crate) fn new(config: Config, seed: u64, share: Share) -> Table {
        let mut table = Table {
            share,
            ages: Ages::new(&config.timeouts),
            secret: Secret::new(seed).of_thread(share.thread),
            sessions: Sessions::new(),
            subscribers: Subscribers::new(),
            outside: Outside::new(),
            pool: Pool::new(config.ports.clone(), share, config.sharding),
            redirects: Vec::new(),
            redirect_numbers: HashMap::new(),
            reach: Reach::new(&config.redirects),
            were_redirects: false,
            was_private: false,
            leases: Leases::default(),
            awaited: VecDeque::new(),
            given: config.public.clone(),
            walked: 0,
            has_forwards: false,
            foreign: 0,
            hand: Hand::default(),
            victim: 0,
            log: Log::default(),
            block_events: BlockEvents::default(),
            config,
        };
        for (address, layout) in table.config.layouts() {
            let outside = table.outside.add(address);
            table.pool.put(outside, BlockSet::new(address, &layout));
        }
        let (redirects, forwards) = (table.config.redirects.clone(), table.config.forwards.clone());
        table.number_redirects(&redirects);
        table.await_forwards(forwards.into_iter());
        table.place_forwards(Time::default());
        table
    }

    /// Whether frames need a look at their addresses before all else.
    pub(crate) fn is_special(&self) -> bool {
        let Config { exclude, pairs, .. } = &self.config;
        !exclude.is_empty() || !pairs.is_empty() || !self.redirects.is_empty()
    }

    /// Whether there are all the sessions that there may be.
    pub(super) fn is_full(&self) -> bool {
        self.sessions.live() - self.foreign >= self.share.part(self.config.sessions)
    }

    /// Bytes in use for sessions, subscribers and ports.
    pub(crate) fn bytes(&self) -> usize {
        self.sessions.bytes() + self.subscribers.bytes() + self.outside.bytes() + self.pool.bytes()
    }

    /// What slots are found by from the inside.
    #[inline]
    fn kind(&self) -> Kind {
        match self.config.mapping {
            Dependence::AddressAndPort => Kind::Private,
            _ => Kind::Mapping,
        }
    }

    /// The hash under which the slot of a flow lies.
    #[inline]
    pub(crate) fn hash(&self, inside: &Inside, remote: Remote) -> u32 {
        match self.kind() {
            Kind::Private => Sessions::hash_with(&self.secret, inside, remote),
            _ => Sessions::hash(&self.secret, inside),
        }
    }

    /// Whether sessions of a mapping are distinguished by their remote ends.
    #[inline]
    pub(super) fn by_remote(&self, proto: u8) -> bool {
        proto == TCP || self.config.filtering != Dependence::Independent
    }

    /// The remote end as far as it tells sessions apart.
    pub(super) fn end(&self, proto: u8, remote: Remote) -> Remote {
        match (proto, self.config.filtering) {
            // Of UDP and ICMP, who may answer is all that there is to know.
            (TCP, _) | (_, Dependence::AddressAndPort) => remote,
            _ => Remote { port: 0, ..remote },
        }
    }

    /// The mapping of a frame from the inside, a new one if need be. `guess` is what lies under its hash. Each frame comes here:
    /// a call would cost some clocks.
    #[inline(always)]
    pub(crate) fn outbound(&mut self, now: Time, flow: Flow, hash: u32, guess: u32) -> Result<u32, Drop> {
        let tick = Tick::of(now);
        let (kind, by_remote) = (self.kind(), self.by_remote(flow.inside.proto));
        let slot = &mut self.sessions[guess];
        let is_it = slot.is(&flow.inside, kind) && !self.ages.over(slot.track.class, slot.seen, tick);
        if is_it && !by_remote {
            slot.seen.set(tick);
            return Ok(guess);
        }
        if is_it && slot.remote() == flow.remote {
            match slot.track.class {
                Class::TcpEstablished if Segment::is_plain(flow.segment.flags) => {
                    slot.track.advance(Side::Inside, &flow.segment);
                    slot.seen.set(tick);
                    return Ok(guess);
                }
                Class::Udp | Class::Icmp => {
                    slot.seen.set(tick);
                    return Ok(guess);
                }
                _ => {}
            }
        }
        if is_it
            && kind == Kind::Mapping
            && self.further_session(tick, (Side::Inside, &flow.inside, flow.remote), &flow.segment)
        {
            return Ok(guess);
        }
        self.outbound_slow(now, flow, hash)
    }

    /// A frame of a further session of a mapping, which lives; false if it is none, or changes more than its time.
    #[inline]
    fn further_session(
        &mut self,
        tick: Tick,
        (side, inside, remote): (Side, &Inside, Remote),
        segment: &Segment,
    ) -> bool {
        let end = self.end(inside.proto, remote);
        let number = self.sessions.session(&self.secret, inside, end, Kind::Session);
        let slot = &mut self.sessions[number];
        let is_plain = match slot.track.class {
            Class::TcpEstablished => Segment::is_plain(segment.flags),
            Class::Udp | Class::Icmp => side == Side::Inside || self.config.inbound_refresh,
            _ => false,
        };
        if number == 0 || !is_plain || slot.is_called() || self.ages.over(slot.track.class, slot.seen, tick) {
            return false;
        }
        if slot.track.class == Class::TcpEstablished {
            slot.track.advance(side, segment);
        }
        slot.seen.set(tick);
        true
    }

    /// By value: so none of it is written to memory where the quick way is enough.
    fn outbound_slow(&mut self, now: Time, flow: Flow, hash: u32) -> Result<u32, Drop> {
        let flow = &flow;
        let mapping = match self.kind() {
            Kind::Private => {
                let fixed = self.sessions.mapping(Sessions::hash(&self.secret, &flow.inside), &flow.inside);
                match fixed {
                    0 => self.sessions.session(&self.secret, &flow.inside, flow.remote, Kind::Private),
                    fixed => fixed,
                }
            }
            _ => match self.sessions.mapping(hash, &flow.inside) {
                0 if self.was_private => {
                    self.sessions.session(&self.secret, &flow.inside, flow.remote, Kind::Private)
                }
                mapping => mapping,
            },
        };
        let mapping = self.alive(now, mapping);
        if mapping == 0 {
            return self.create(now, flow);
        }
        let session = self.session_of(now, mapping, flow.remote);
        if self.is_free(mapping) {
            return self.create(now, flow);
        }
        if session == 0 {
            self.join(now, mapping, Side::Inside, flow)?;
        } else {
            self.heard(now, session, Side::Inside, &flow.segment);
        }
        Ok(mapping)
    }

    /// The mapping that a frame from the outside may use. `guess` is the slot that has its port.
    #[inline]
    pub(crate) fn inbound(&mut self, now: Time, arrival: &Arrival, guess: u32) -> Result<u32, Drop> {
        let tick = Tick::of(now);
        let by_remote = self.by_remote(arrival.proto);
        let slot = &mut self.sessions[guess];
        // It may have ended since it was looked up.
        let is_it = slot.owns_port() && !self.ages.over(slot.track.class, slot.seen, tick);
        if is_it && !by_remote && !self.config.inbound_refresh {
            return Ok(guess);
        }
        let is_open = slot.track.class == Class::TcpEstablished && Segment::is_plain(arrival.segment.flags);
        if is_it && is_open && slot.remote() == arrival.remote {
            slot.track.advance(Side::Outside, &arrival.segment);
            slot.seen.set(tick);
            return Ok(guess);
        }
        if is_it && slot.kind() == Kind::Mapping && by_remote {
            let inside = slot.inside();
            if self.further_session(tick, (Side::Outside, &inside, arrival.remote), &arrival.segment) {
                return Ok(guess);
            }
        }
        self.inbound_slow(now, arrival)
    }

    fn inbound_slow(&mut self, now: Time, arrival: &Arrival) -> Result<u32, Drop> {
        let mapping = self.alive(now, self.outside.slot(arrival.endpoint));
        if mapping == 0 {
            return Err(Drop::NatNoMapping);
        }
        let session = self.session_of(now, mapping, arrival.remote);
        if session != 0 {
            self.heard(now, session, Side::Outside, &arrival.segment);
            return Ok(mapping);
        }
        if self.is_free(mapping) {
            return Err(Drop::NatNoMapping);
        }
        if !self.permits(now, mapping, arrival.remote) {
            return Err(Drop::NatFiltered);
        }
        let inside = self.sessions[mapping].inside();
        self.join(
            now,
            mapping,
            Side::Outside,
            &Flow { inside, remote: arrival.remote, segment: arrival.segment },
        )?;
        Ok(mapping)
    }

    /// Whether somebody outside who is none of its sessions may use a mapping.
    fn permits(&mut self, now: Time, mapping: u32, remote: Remote) -> bool {
        let slot = &self.sessions[mapping];
        match self.config.filtering {
            _ if slot.is_fixed() => !slot.is_retired(),
            _ if slot.is_open() => true,
            Dependence::Independent => true,
            Dependence::AddressAndPort => false,
            Dependence::Address => {
                let has_session =
                    slot.track.class != Class::Lasting && slot.remote().address == remote.address;
                has_session || self.session_of(now, mapping, Remote { port: 0, ..remote }) != 0
            }
        }
    }

    /// The slot, if it is alive; what is too old ends here.
    pub(super) fn alive(&mut self, now: Time, number: u32) -> u32 {
        let slot = &self.sessions[number];
        if number == 0 || !self.ages.over(slot.track.class, slot.seen, Tick::of(now)) {
            return number;
        }
        self.end_session(now, number);
        // A mapping may have further sessions.
        if self.is_free(number) { 0 } else { number }
    }

    fn is_free(&self, number: u32) -> bool {
        self.sessions[number].kind() == Kind::Free
    }

    /// The session of a mapping with this remote end, or 0. One that is too old ends here, and the mapping with it if it
    /// was the last.
    fn session_of(&mut self, now: Time, mapping: u32, remote: Remote) -> u32 {
        let slot = &self.sessions[mapping];
        let inside = slot.inside();
        if !self.by_remote(inside.proto) {
            return mapping;
        }
        let end = self.end(inside.proto, remote);
        let is_own = slot.track.class != Class::Lasting && slot.remote() == end;
        if is_own && self.alive(now, mapping) != 0 && self.sessions[mapping].track.class != Class::Lasting {
            return mapping;
        }
        let session = self.sessions.session(&self.secret, &inside, end, Kind::Session);
        self.alive(now, session)
    }

    /// A segment or datagram of a session: its state, and its time.
    pub(super) fn heard(&mut self, now: Time, session: u32, side: Side, segment: &Segment) {
        if side == Side::Inside {
            self.call_is_over(session);
        }
        let slot = &mut self.sessions[session];
        let class = slot.track.class;
        let refreshes = match slot.inside().proto {
            TCP if slot.track.class != Class::Lasting => slot.track.segment(side, segment) == Effect::Refresh,
            _ => side == Side::Inside || self.config.inbound_refresh,
        };
        if refreshes {
            slot.seen = Tick::of(now);
        }
        if slot.track.class != class {
            self.sessions.renew(session);
        }
    }

    /// What the first frame of a session says about it.
    pub(super) fn begin(proto: u8, side: Side, segment: &Segment) -> Result<Track, Drop> {
        match proto {
            // From outside, only a SYN begins a connection.
            TCP if side == Side::Outside && segment.flags & SYN == 0 => Err(Drop::NatNoMapping),
            TCP => Track::begin(side, segment).ok_or(Drop::NatNoMapping),
            UDP => Ok(Track::plain(Class::Udp)),
            ICMP => Ok(Track::plain(Class::Icmp)),
            _ => Ok(Track::plain(Class::Other)),
        }
    }

    /// One more session of a mapping.
    fn join(&mut self, now: Time, mapping: u32, side: Side, flow: &Flow) -> Result<(), Drop> {
        let track = Table::begin(flow.inside.proto, side, &flow.segment)?;
        if self.sessions[mapping].is_retired() && !self.sessions[mapping].is_fixed() {
            // Its port is about to be somebody else's.
            return Err(Drop::NatNoMapping);
        }
        let is_call = side == Side::Outside && flow.inside.proto == TCP;
        if is_call {
            self.may_call(mapping)?;
        }
        let (tick, end) = (Tick::of(now), self.end(flow.inside.proto, flow.remote));
        let slot = &mut self.sessions[mapping];
        let session = if slot.track.class == Class::Lasting && !slot.is_fixed() {
            // Its own session is over: this is the next.
            slot.set_remote(end);
            slot.set_track(track);
            slot.seen = tick;
            self.sessions.renew(mapping);
            mapping
        } else {
            self.add_session(now, mapping, Slot::new(flow.inside, Kind::Session, end, track, tick))?
        };
        if is_call {
            self.called(session);
        }
        let knows_addresses = self.config.filtering == Dependence::Address && flow.inside.proto == TCP;
        if knows_addresses && side == Side::Inside {
            // Who was called may call back, from any port.
            let caller = Remote { port: 0, ..flow.remote };
            match self.session_of(now, mapping, caller) {
                0 => {
                    let track = Track::plain(Class::Other);
                    self.add_session(
                        now,
                        mapping,
                        Slot::new(flow.inside, Kind::Session, caller, track, tick),
                    )?;
                }
                known => self.sessions[known].seen = tick,
            }
        }
        Ok(())
    }

    fn add_session(&mut self, now: Time, mapping: u32, mut session: Slot) -> Result<u32, Drop> {
        self.room_for(now, &session.inside())?;
        let subscriber = self.sessions[mapping].subscriber;
        if subscriber != 0 && self.subscribers[subscriber].sessions >= self.config.subscriber_sessions {
            return Err(Drop::NatQuota);
        }
        let owner = &mut self.sessions[mapping];
        owner.dependents = owner.dependents.checked_add(1).ok_or(Drop::NatQuota)?;
        owner.set_shared();
        session.subscriber = subscriber;
        let number = self.sessions.insert(&self.secret, session);
        self.subscribers[subscriber].sessions += 1;
        Ok(number)
    }

    /// A new mapping with its first session.
    pub(super) fn create(&mut self, now: Time, flow: &Flow) -> Result<u32, Drop> {
        let proto = flow.inside.proto;
        let kind = if Space::of(proto).is_none() { Kind::Private } else { self.kind() };
        let track = Table::begin(proto, Side::Inside, &flow.segment)?;
        self.create_as(now, flow.inside, flow.remote, New { kind, redirect: 0, track })
    }

    /// A new mapping of an inside end for a remote one.
    pub(super) fn create_as(
        &mut self,
        now: Time,
        inside: Inside,
        remote: Remote,
        new: New,
    ) -> Result<u32, Drop> {
        let New { kind, redirect, track } = new;
        let proto = inside.proto;
        let space = Space::of(proto).unwrap_or(Space::Other);
        self.room_for(now, &inside)?;
        let subscriber = self.subscribers.find_or_add(&self.secret, inside.address);
        let taken = match self.port_for(now, subscriber, space, inside.port) {
            Ok(taken) => taken,
            Err(reason) => {
                self.subscribers.forget_idle(&self.secret, subscriber);
                return Err(reason);
            }
        };
        let Taken { endpoint, generation } = taken;
        if space == Space::Other && self.portless(now, endpoint.outside, proto, remote.address) != 0 {
            self.pool.give_back(taken, Tick::of(now), AtOnce::Yes);
            self.subscribers.forget_idle(&self.secret, subscriber);
            return Err(Drop::NatConflict);
        }
        let end = if kind == Kind::Mapping { self.end(proto, remote) } else { remote };
        let mut slot = Slot::new(inside, kind, end, track, Tick::of(now));
        slot.dependents = redirect;
        slot.subscriber = subscriber;
        slot.set_outside(endpoint, generation);
        let number = self.sessions.insert(&self.secret, slot);
        match space {
            Space::Other => self.sessions.add_hash(self.hash_outside(&slot), number),
            _ => self.outside.take(endpoint, number),
        }
        self.subscribers[subscriber].sessions += 1;
        self.log_session(now, What::SessionCreated, &slot);
        Ok(number)
    }

    /// An outside port for a new mapping.
    fn port_for(&mut self, now: Time, number: u32, space: Space, like: u16) -> Result<Taken, Drop> {
        let subscriber = &mut self.subscribers[number];
        if subscriber.sessions >= self.config.subscriber_sessions {
            self.log_refusal(now, What::QuotaExceeded, number);
            return Err(Drop::NatQuota);
        }
        if !self.pool.has_fixed(&subscriber.holding) {
            let [_, _, _, address] = subscriber.address;
            let fixed = self.config.deterministic.as_ref().and_then(|fixed| fixed.outside(address));
            let fixed = fixed
                .map(|(address, ports)| (self.outside.number(address).expect("of the pool"), *ports.start()));
            self.pool.fix(&mut subscriber.holding, fixed, number);
        }
        if let Some(rate) = self.config.rate_per_s
            && !subscriber.new.once_more(now, 1_000_000_000 / u64::from(rate), u64::from(rate))
        {
            return Err(Drop::NatRate);
        }
        let home = (self.share.of > 1).then(|| self.secret.hash(subscriber.address, HOME));
        let want = Want { space, like, subscriber: number, home };
        let taken =
            self.pool.take(&mut subscriber.holding, want, Tick::of(now), &self.outside, &mut self.secret);
        match taken {
            Ok((taken, block)) => {
                if let Some(block) = block {
                    self.log_block(now, What::BlockAllocated, number, block);
                }
                Ok(taken)
            }
            Err(Refusal::Quota) => {
                self.log_refusal(now, What::QuotaExceeded, number);
                Err(Drop::NatQuota)
            }
            Err(Refusal::NoPort) => {
                self.log_refusal(now, What::PortsExhausted, number);
                Err(Drop::NatNoPort)
            }
            // Whoever has asked for that knows of it.
            Err(Refusal::Withheld) => Err(Drop::NatWithheld),
        }
    }

    /// The mapping of an inside end, if there is one: nothing is created or refreshed.
    pub(crate) fn mapping_of(&mut self, now: Time, inside: &Inside, remote: Remote) -> Option<&Slot> {
        let fixed = self.sessions.mapping(Sessions::hash(&self.secret, inside), inside);
        let number = match fixed {
            0 => self.sessions.session(&self.secret, inside, remote, Kind::Private),
            fixed => fixed,
        };
        let number = self.alive(now, number);
        (number != 0).then(|| &self.sessions[number])
    }

    /// The mapping that has a port, if there is one: nothing is refreshed.
    pub(crate) fn holder(&mut self, now: Time, endpoint: Endpoint) -> Option<&Slot> {
        let number = self.alive(now, self.outside.slot(endpoint));
        (number != 0).then(|| &self.sessions[number])
    }

    /// Whether the mapping that has a port has a session with this remote end.
    pub(crate) fn has_session(&mut self, now: Time, endpoint: Endpoint, remote: Remote) -> bool {
        let mapping = self.alive(now, self.outside.slot(endpoint));
        mapping != 0 && self.session_of(now, mapping, remote) != 0
    }

    /// When something is due: leases to the moment, and while there are sessions or blocks that rest, the walk over all.
    pub(crate) fn due(&self, now: Time) -> Option<Time> {
        let has_any =
            self.sessions.live() > self.foreign || self.pool.has_resting() || !self.awaited.is_empty();
        [self.leases_due(), has_any.then(|| now + WALK_INTERVAL)].into_iter().flatten().min()
    }

    /// Ends what is too old, a fragment of it; true if there is more.
    pub(crate) fn expire(&mut self, now: Time) -> bool {
        let tick = Tick::of(now);
        if !self.awaited.is_empty() {
            self.place_forwards(now);
        }
        let more_leases = self.end_leases(now);
        for number in self.hand.walk(tick, self.sessions.numbers()).into_iter().flatten() {
            let slot = &self.sessions[number];
            if self.ages.over(slot.track.class, slot.seen, tick) {
                self.end_session(now, number);
            }
        }
        for _ in 0..BLOCKS_AT_A_TIME {
            let Some((owner, id)) = self.pool.rested(tick) else {
                return more_leases || self.hand.is_behind();
            };
            let block = self.pool.release(id, &mut self.subscribers[owner].holding);
            self.log_block(now, What::BlockReleased, owner, block);
            self.subscribers.forget_idle(&self.secret, owner);
        }
        true
    }

    /// A session is over. A mapping ends with its last session.
    pub(super) fn end_session(&mut self, now: Time, number: u32) {
        self.call_is_over(number);
        let slot = self.sessions[number];
        match slot.kind() {
            Kind::Free => {}
            Kind::Mapping if slot.dependents > 0 => {
                self.sessions[number].set_track(Track::plain(Class::Lasting));
                self.sessions.renew(number);
            }
            Kind::Mapping | Kind::Private | Kind::Redirected => self.remove(now, number, slot.track.class),
            Kind::Session => {
                let inside = slot.inside();
                let mapping = self.sessions.mapping(Sessions::hash(&self.secret, &inside), &inside);
                self.sessions.remove(&self.secret, number);
                self.leave(mapping);
                let owner = &mut self.sessions[mapping];
                let is_needed = owner.is_fixed() && !owner.is_retired();
                if owner.dependents == 0 && owner.track.class == Class::Lasting && !is_needed {
                    self.remove(now, mapping, slot.track.class);
                }
            }
        }
    }

    /// A further session of a mapping went away.
    pub(super) fn leave(&mut self, mapping: u32) {
        let owner = &mut self.sessions[mapping];
        owner.dependents -= 1;
        self.subscribers[owner.subscriber].sessions -= 1;
    }

    /// Takes a mapping away, whose last session was of this class.
    pub(super) fn remove(&mut self, now: Time, number: u32, class: Class) {
        self.call_is_over(number);
        let slot = self.sessions[number];
        let space = Space::of(slot.inside().proto).unwrap_or(Space::Other);
        let endpoint = Endpoint { outside: slot.outside, space, port: slot.outside_port };
        // Of several connections, others may have ended otherwise.
        let is_closed = class == Class::TcpClosing && !slot.is_shared();
        let at_once = if is_closed { AtOnce::Yes } else { AtOnce::No };
        let rest = match slot.is_fixed() {
            true => None,
            false => {
                let taken = Taken { endpoint, generation: slot.generation() };
                self.pool.give_back(taken, Tick::of(now), at_once)
            }
        };
        match space {
            Space::Other => self.sessions.remove_hash(self.hash_outside(&slot), number),
            _ => self.outside.give_back(endpoint, rest),
        }
        self.foreign -= u32::from(self.is_foreign(&slot));
        self.sessions.remove(&self.secret, number);
        if !slot.is_fixed() {
            self.subscribers[slot.subscriber].sessions -= 1;
            self.log_session(now, What::SessionDeleted, &slot);
            self.subscribers.forget_idle(&self.secret, slot.subscriber);
        }
    }
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
