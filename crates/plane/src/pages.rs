//! The objects of a configuration that programs ask for a page at a time: routes, port forwards, one-to-one addresses.

use std::net::Ipv4Addr;

use crate::config::Config;
use crate::nat::{self, ForwardEntry, OneToOneEntry};
use crate::prefix::Prefix;
use crate::route::RouteEntry;
use crate::stages::OneOf;

impl Config {
    /// Up to so many routes behind a prefix, in their order; those inside of a network, if one is named.
    pub fn routes_behind(
        &self,
        after: Option<Prefix>,
        within: Option<Prefix>,
        most: usize,
    ) -> Vec<RouteEntry> {
        let routes = self.routes.iter().flat_map(|routes| routes.behind(after));
        let is_wanted = |prefix: &Prefix| {
            within.is_none_or(|within| within.len <= prefix.len && within.contains(prefix.address))
        };
        let wanted = routes.filter(|(prefix, _)| is_wanted(prefix)).take(most);
        wanted.map(|(prefix, target)| RouteEntry::of(prefix, target, &self.ports)).collect()
    }

    /// Up to so many port forwards behind one, in the order of stage, protocol and outside end.
    pub fn forwards_behind(&self, after: Option<&ForwardEntry>, most: usize) -> Vec<ForwardEntry> {
        let nats = (1..).zip(&self.stages).filter_map(|(n, stage)| Some((n, nat::Config::of(stage)?)));
        let first = after.map_or(0, |after| after.stage);
        let of = |(n, nat)| ForwardEntry::of_nat(nat, n, after.filter(|after| after.stage == n));
        nats.skip_while(|(n, _)| *n < first).flat_map(of).take(most).collect()
    }

    /// Up to so many one-to-one addresses behind one, in the order of stage and outside address.
    pub fn one_to_one_behind(&self, after: Option<(usize, Ipv4Addr)>, most: usize) -> Vec<OneToOneEntry> {
        let nats = (1..).zip(&self.stages).filter_map(|(n, stage)| Some((n, nat::Config::of(stage)?)));
        let first = after.map_or(0, |(stage, _)| stage);
        let of = |(n, nat)| {
            let after = after.filter(|(stage, _)| *stage == n).map(|(_, outside)| outside);
            OneToOneEntry::of_nat(nat, n, after)
        };
        nats.skip_while(|(n, _)| *n < first).flat_map(of).take(most).collect()
    }
}
