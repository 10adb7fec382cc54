//! Commands for port forwards, one-to-one addresses and mappings.

use std::net::{Ipv4Addr, SocketAddrV4};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_packet::headers::{TCP, UDP};

use super::config::Config;
use super::forwards::{Forward, Forwards};
use super::pairs::{Pair, Pairs};
use crate::port::Port;
use crate::stage::StageCommand;
use crate::was::Was;

/// A command for a NAT. `stage` is the number of the stage in the text, from 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NatCommand {
    /// Forwards a public port, or changes where it leads.
    SetForward(ForwardEntry),
    /// Removes a forward; its sessions live on.
    RemoveForward {
        /// The NAT.
        stage: usize,
        /// TCP or UDP.
        proto: Transport,
        /// The public end.
        outside: SocketAddrV4,
    },
    /// Gives an inside address a public one with all its ports.
    SetOneToOne(OneToOneEntry),
    /// Takes it away.
    RemoveOneToOne {
        /// The NAT.
        stage: usize,
        /// The public address.
        outside: Ipv4Addr,
    },
    /// Ends a mapping that a host has opened, with all its sessions. It may have ended already.
    EndMapping {
        /// The NAT.
        stage: usize,
        /// TCP or UDP.
        proto: Transport,
        /// The public end.
        outside: SocketAddrV4,
    },
}

/// A port forward.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ForwardEntry {
    /// The NAT.
    pub stage: usize,
    /// TCP or UDP.
    pub proto: Transport,
    /// The public end.
    #[schemars(with = "String")]
    pub outside: SocketAddrV4,
    /// The end inside.
    #[schemars(with = "String")]
    pub inside: SocketAddrV4,
}

/// A one-to-one address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OneToOneEntry {
    /// The NAT.
    pub stage: usize,
    /// The public address.
    pub outside: Ipv4Addr,
    /// The address inside.
    pub inside: Ipv4Addr,
}

/// A protocol with ports that can be forwarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

impl Transport {
    fn number(self) -> u8 {
        match self {
            Transport::Tcp => TCP,
            Transport::Udp => UDP,
        }
    }

    fn of(number: u8) -> Transport {
        if number == TCP { Transport::Tcp } else { Transport::Udp }
    }
}

fn bits(end: &SocketAddrV4) -> (u32, u16) {
    (u32::from(*end.ip()), end.port())
}

impl ForwardEntry {
    /// Those of a NAT behind one of them.
    pub(crate) fn of_nat<'a>(
        nat: &'a Config,
        stage: usize,
        after: Option<&ForwardEntry>,
    ) -> Box<dyn Iterator<Item = ForwardEntry> + 'a> {
        let after = after.map(|after| (after.proto.number(), bits(&after.outside)));
        Box::new(nat.forwards.behind(after).map(move |forward| ForwardEntry::of(stage, forward)))
    }

    /// A forward of the NAT of this stage.
    fn of(stage: usize, forward: &Forward) -> ForwardEntry {
        let end = |(address, port): (u32, u16)| SocketAddrV4::new(address.into(), port);
        let Forward { proto, outside, inside } = *forward;
        ForwardEntry { stage, proto: Transport::of(proto), outside: end(outside), inside: end(inside) }
    }
}

impl OneToOneEntry {
    /// Those of a NAT behind one of them.
    pub(crate) fn of_nat<'a>(
        nat: &'a Config,
        stage: usize,
        after: Option<Ipv4Addr>,
    ) -> Box<dyn Iterator<Item = OneToOneEntry> + 'a> {
        Box::new(nat.pairs.behind(after.map(u32::from)).map(move |pair| OneToOneEntry::of(stage, pair)))
    }

    /// A one-to-one address of the NAT of this stage.
    fn of(stage: usize, pair: &Pair) -> OneToOneEntry {
        OneToOneEntry { stage, outside: pair.outside.into(), inside: pair.inside.into() }
    }
}

/// A change of a NAT.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum NatChange {
    Forward(Was<Forward>),
    OneToOne(Was<Pair>),
    /// A mapping ends. The configuration has no mappings, and stays as it is.
    EndMapping(Mapping),
}

/// A mapping by its public end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mapping {
    pub(crate) proto: u8,
    pub(crate) outside: (u32, u16),
}

impl NatChange {
    fn is_same(&self) -> bool {
        match self {
            NatChange::Forward(was) => was.is_same(),
            NatChange::OneToOne(was) => was.is_same(),
            NatChange::EndMapping(_) => false,
        }
    }
}

impl StageCommand for NatCommand {
    type Config = Config;
    const KIND: &'static str = "NAT";

    fn stage(&self) -> usize {
        let (NatCommand::SetForward(ForwardEntry { stage, .. })
        | NatCommand::RemoveForward { stage, .. }
        | NatCommand::SetOneToOne(OneToOneEntry { stage, .. })
        | NatCommand::RemoveOneToOne { stage, .. }
        | NatCommand::EndMapping { stage, .. }) = self;
        *stage
    }

    /// Its errors are that what it names is not there.
    fn change(&self, nat: &Config, _: &[Port]) -> Result<Option<NatChange>, String> {
        let forward = |proto: Transport, outside| nat.forwards.at(proto.number(), bits(outside));
        let change = match self {
            NatCommand::SetForward(ForwardEntry { proto, outside, inside, .. }) => {
                let new = Forward { proto: proto.number(), outside: bits(outside), inside: bits(inside) };
                NatChange::Forward(Was { old: forward(*proto, outside), new: Some(new) })
            }
            NatCommand::RemoveForward { proto, outside, .. } => {
                let old =
                    forward(*proto, outside).ok_or_else(|| format!("no forward begins at {outside}"))?;
                NatChange::Forward(Was { old: Some(old), new: None })
            }
            NatCommand::SetOneToOne(OneToOneEntry { outside, inside, .. }) => {
                let new = Pair { outside: (*outside).into(), inside: (*inside).into() };
                NatChange::OneToOne(Was { old: nat.pairs.at(new.outside), new: Some(new) })
            }
            NatCommand::RemoveOneToOne { outside, .. } => {
                let old = nat.pairs.at((*outside).into());
                let old = old.ok_or_else(|| format!("{outside} is the address of no one-to-one"))?;
                NatChange::OneToOne(Was { old: Some(old), new: None })
            }
            NatCommand::EndMapping { proto, outside, .. } => {
                if forward(*proto, outside).is_some() {
                    return Err(format!("{outside} is the end of a forward: remove that"));
                }
                NatChange::EndMapping(Mapping { proto: proto.number(), outside: bits(outside) })
            }
        };
        Ok(Some(change).filter(|change| !change.is_same()))
    }
}

impl Config {
    /// Takes a change.
    ///
    /// # Errors
    /// An end is in use already; nothing has changed then.
    pub(super) fn take_end(&mut self, change: &NatChange) -> Result<(), String> {
        match change {
            NatChange::Forward(was) => {
                was.old.iter().for_each(|old| self.forwards.remove(old));
                let taken = was.new.map_or(Ok(()), |new| self.add_forward(new));
                taken.inspect_err(|_| {
                    was.old.into_iter().for_each(|old| self.add_forward(old).unwrap_or_default())
                })
            }
            NatChange::OneToOne(was) => {
                was.old.iter().for_each(|old| self.pairs.remove(old));
                let taken = was.new.map_or(Ok(()), |new| self.add_pair(new));
                taken.inspect_err(|_| {
                    was.old.into_iter().for_each(|old| self.add_pair(old).unwrap_or_default())
                })
            }
            NatChange::EndMapping(_) => Ok(()),
        }
    }

    /// The forwards and one-to-one addresses that differ, if nothing else does. Those that go come first, since an end may move from
    /// one to another.
    pub(super) fn ends_to(&self, new: &Config) -> Option<Vec<NatChange>> {
        let without_ends =
            |nat: &Config| Config { forwards: Forwards::default(), pairs: Pairs::default(), ..nat.clone() };
        if without_ends(self) != without_ends(new) {
            return None;
        }
        let has = |nat: &Config, pair: &Pair| nat.pairs.at(pair.outside) == Some(*pair);
        let without = |some: &Config, others: &Config| {
            let forwards: Vec<Forward> =
                some.forwards.iter().filter(|one| !others.forwards.contains(one)).copied().collect();
            let pairs: Vec<Pair> = some.pairs.iter().filter(|pair| !has(others, pair)).copied().collect();
            (forwards, pairs)
        };
        let ((forwards_gone, pairs_gone), (forwards_come, pairs_come)) =
            (without(self, new), without(new, self));
        let gone = |old| NatChange::Forward(Was { old: Some(old), new: None });
        let come = |new| NatChange::Forward(Was { old: None, new: Some(new) });
        let pair_gone = |old| NatChange::OneToOne(Was { old: Some(old), new: None });
        let pair_come = |new| NatChange::OneToOne(Was { old: None, new: Some(new) });
        let all_gone = forwards_gone.into_iter().map(gone).chain(pairs_gone.into_iter().map(pair_gone));
        let all_come = pairs_come.into_iter().map(pair_come).chain(forwards_come.into_iter().map(come));
        Some(all_gone.chain(all_come).collect())
    }
}
