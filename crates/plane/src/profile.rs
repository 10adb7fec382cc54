//! NAT profiles of subscribers: each agrees with what the NAT does with the subscriber's address, and a one-to-one address of its own comes
//! and goes with the session.
//!
//! ```text
//! block          the address has no deterministic ports     deterministic   it has
//! one-to-one A   all ports of A, a pair of the NAT           none            no NAT translates it
//! ```
//! The NAT is the first one of the text.
//!
//! Invariant: each session with a one-to-one address has its pair in the NAT.

use std::net::{IpAddr, Ipv4Addr};

use crate::access::{AccessSession, NatProfile};
use crate::change::{Change, Object};
use crate::config::Config;
use crate::nat::{self, NatChange, Pair};
use crate::prefix::{Prefix, mask4};
use crate::stages::{OneOf, StageChange};
use crate::was::Was;

impl Config {
    /// What changes in the NAT when a session comes, changes or goes: what goes, and what comes.
    ///
    /// # Errors
    /// The NAT does not do what the profile of the session says.
    pub(crate) fn profile_changes(&self, was: &Was<AccessSession>) -> Result<Vec<Change>, String> {
        let [old, new] = [&was.old, &was.new].map(|session| session.as_ref().map(pair_of));
        if let Some(session) = &was.new {
            self.check_profile(session)?;
        }
        let (old, new) = (old.transpose()?.flatten(), new.transpose()?.flatten());
        if old == new {
            return Ok(Vec::new());
        }
        let (at, nat) = self.first_nat().ok_or(NO_NAT)?;
        // A command may have taken it away.
        let gone = old.filter(|pair| nat.pairs.at(pair.outside) == Some(*pair));
        let gone = gone.map(|pair| Was { old: Some(pair), new: None });
        let comes = new.map(|pair| Was { old: None, new: Some(pair) });
        let change = |was| Change(Object::Stage(at, StageChange::Nat(NatChange::OneToOne(was))));
        Ok(gone.into_iter().chain(comes).map(change).collect())
    }

    /// Adds the one-to-one addresses of sessions that another text has kept; those that it has no room for end.
    pub(crate) fn keep_profiles(&mut self) {
        let sessions: Vec<AccessSession> = self.sessions.iter().cloned().collect();
        for session in sessions {
            let added = pair_of(&session).and_then(|pair| pair.map_or(Ok(()), |pair| self.keep_pair(pair)));
            if added.is_err() {
                self.sessions.replace(Some(&session), None);
            }
        }
    }

    fn keep_pair(&mut self, pair: Pair) -> Result<(), String> {
        let (at, nat) = self.first_nat().ok_or(NO_NAT)?;
        if nat.pairs.at(pair.outside) == Some(pair) {
            return Ok(());
        }
        let change = StageChange::Nat(NatChange::OneToOne(Was { old: None, new: Some(pair) }));
        self.take(&Change(Object::Stage(at, change)))
    }

    /// Whether the NAT does with the addresses of a session what its profile says.
    ///
    /// # Errors
    /// What it does, and what to write.
    pub(crate) fn check_profile(&self, session: &AccessSession) -> Result<(), String> {
        if matches!(session.nat, NatProfile::Configured | NatProfile::None) {
            return Ok(());
        }
        let (_, nat) = self.first_nat().ok_or(NO_NAT)?;
        let is_fixed = |prefix: &Prefix| has_fixed_ports(nat, *prefix);
        let mut inside = session.prefixes.iter().filter(|prefix| prefix.address.is_ipv4());
        match session.nat {
            NatProfile::Block => match inside.find(|prefix| is_fixed(prefix)) {
                Some(prefix) => Err(format!(
                    "{prefix} is in the `deterministic` network of the NAT: set the profile `deterministic`, or give the session another address"
                )),
                None => Ok(()),
            },
            NatProfile::Deterministic => match inside.find(|prefix| !is_fixed(prefix)) {
                Some(prefix) => Err(format!(
                    "{prefix} is not in a `deterministic` network of the NAT: set the profile `block`, or give the session another address"
                )),
                None => Ok(()),
            },
            NatProfile::OneToOne(_) if self.nats().any(|nat| !nat.before.is_empty()) => {
                Err("several threads share several NATs here: a session cannot have a one-to-one address"
                    .into())
            }
            NatProfile::OneToOne(_) | NatProfile::Configured | NatProfile::None => Ok(()),
        }
    }

    fn first_nat(&self) -> Option<(usize, &nat::Config)> {
        self.stages.iter().map(nat::Config::of).enumerate().find_map(|(at, nat)| Some((at, nat?)))
    }
}

const NO_NAT: &str = "the node has no `nat`: set the profile `configured` or `none`";

/// The pair of a session: its first address of IPv4 is the inside one.
fn pair_of(session: &AccessSession) -> Result<Option<Pair>, String> {
    let NatProfile::OneToOne(outside) = session.nat else { return Ok(None) };
    let inside = session.prefixes.iter().find_map(|prefix| match prefix.address {
        IpAddr::V4(address) if prefix.len == 32 => Some(address),
        _ => None,
    });
    let inside = inside.ok_or("a one-to-one address is for an address of IPv4: the session has none")?;
    Ok(Some(Pair { outside: Ipv4Addr::into(outside), inside: inside.into() }))
}

/// Whether a network has deterministic ports, or a part of it.
fn has_fixed_ports(nat: &nat::Config, prefix: Prefix) -> bool {
    let IpAddr::V4(first) = prefix.address else { return false };
    let first = u32::from(first);
    let range = first..=first | !mask4(prefix.len);
    nat.deterministic.as_ref().is_some_and(|fixed| fixed.has_subscriber_in(&range))
}
