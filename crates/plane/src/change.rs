//! Another text for a node that runs: what is new is made beside it, and taken between two batches.
//!
//! ```text
//! old text, new text > prepare (any thread, takes its time) > Change > accept > commit, commit, ... (between batches)
//! ```
//!
//! Invariant: what is not accepted has changed nothing, what is accepted is changed; and no call takes longer for a larger
//! text: routes that differ are changed in pieces, and what is of no more use is left in the change, to be freed by whoever
//! made it.

use std::collections::{HashMap, HashSet, VecDeque};
use std::net::IpAddr;

use crate::chain::Stage;
use crate::config::{Config, StageConfig};
use crate::filter;
use crate::nat;
use crate::plane::{Exit, Plane};
use crate::prefix::Prefix;
use crate::route::{Route, Target};
use crate::time::Time;

/// Routes that a call changes.
const ROUTES_AT_A_TIME: usize = 128;

/// The difference between two texts.
#[derive(Debug)]
pub struct Change {
    /// By stage, where it is another.
    stages: Vec<Option<StageChange>>,
    /// Addresses that each port of the right end answers for.
    translated: Vec<Vec<(u32, u32)>>,
    routes: VecDeque<RouteChange>,
    /// Next hops of the new routes.
    gateways: Vec<IpAddr>,
    /// Part of it is done already.
    begun: bool,
}

#[derive(Debug)]
enum StageChange {
    Filter(Box<filter::Change>),
    Nat(Box<nat::Change>),
}

#[derive(Debug)]
enum RouteChange {
    Add(Route),
    Remove(Prefix),
}

impl Change {
    /// What it takes to become `new`, where `old` is what the node is: rules are compiled here, texts compared.
    ///
    /// # Errors
    /// What cannot be changed while the node runs.
    pub fn prepare(old: &Config, new: &Config) -> Result<Change, String> {
        if (&old.ports, old.left) != (&new.ports, new.left) {
            return Err("ports change only when the node begins anew".to_string());
        }
        if old.stages.len() != new.stages.len() {
            return Err("stages come and go only when the node begins anew".to_string());
        }
        if old.routes.is_some() != new.routes.is_some() {
            return Err("a bump becomes a router only when the node begins anew".to_string());
        }
        let stages = old.stages.iter().zip(&new.stages).map(|(old, new)| stage(old, new));
        let stages = stages.collect::<Result<_, _>>()?;
        let (old_routes, new_routes) = (old.routes.as_deref(), new.routes.as_deref());
        let routes = routes(old_routes.unwrap_or_default(), new_routes.unwrap_or_default());
        let mut gateways = Vec::new();
        for change in &routes {
            if let RouteChange::Add(Route { target: Target::Via(hops), .. }) = change {
                gateways.extend(hops);
            }
        }
        gateways.sort_unstable();
        gateways.dedup();
        let translated = new.ports[new.left..].iter().map(|_| new.translated()).collect();
        Ok(Change { stages, translated, routes, gateways, begun: false })
    }
}

fn stage(old: &StageConfig, new: &StageConfig) -> Result<Option<StageChange>, String> {
    match (old, new) {
        (old, new) if old == new => Ok(None),
        (StageConfig::Nat(old), StageConfig::Nat(new)) => {
            Ok(Some(StageChange::Nat(Box::new(nat::Change::prepare(old, new)))))
        }
        (StageConfig::Filter(old), StageConfig::Filter(new)) => {
            Ok(Some(StageChange::Filter(Box::new(filter::Change::prepare(old, new)))))
        }
        _ => Err("stages change places only when the node begins anew".to_string()),
    }
}

/// What differs, new routes first: a prefix that comes in the place of others leaves no gap.
fn routes(old: &[Route], new: &[Route]) -> VecDeque<RouteChange> {
    if old == new {
        return VecDeque::new();
    }
    let before: HashMap<Prefix, &Route> = old.iter().map(|route| (route.prefix, route)).collect();
    let after: HashSet<Prefix> = new.iter().map(|route| route.prefix).collect();
    let added = new.iter().filter(|route| before.get(&route.prefix) != Some(route));
    let added = added.map(|route| RouteChange::Add(route.clone()));
    let removed = old.iter().filter(|route| !after.contains(&route.prefix));
    let removed = removed.map(|route| RouteChange::Remove(route.prefix));
    added.chain(removed).collect()
}

impl Plane {
    /// Sees that there is room for a change, and keeps it; nothing else changes.
    ///
    /// # Errors
    /// There is none.
    pub fn accept(&mut self, change: &Change) -> Result<(), String> {
        for (stage, change) in self.stages.iter().zip(&change.stages) {
            if let (Stage::Nat(nat), Some(StageChange::Nat(change))) = (stage, change) {
                nat.accepts(change)?;
            }
        }
        match &mut self.exit {
            Exit::Router(router) => router.keep(&change.gateways).map_err(|far| far.to_string()),
            Exit::Across => Ok(()),
        }
    }

    /// Gives back the room that was kept for a change, of which nothing was done.
    pub fn decline(&mut self, change: &Change) {
        if let Exit::Router(router) = &mut self.exit {
            router.let_go(&change.gateways);
        }
    }

    /// Becomes what a change says that was accepted, between two batches: sessions, neighbours and frames that wait stay.
    /// `true`: there is more to do, by the same call behind the next batch.
    pub fn commit(&mut self, now: Time, change: &mut Change) -> bool {
        if !change.begun {
            change.begun = true;
            self.take_stages(now, change);
        }
        let Exit::Router(router) = &mut self.exit else { return false };
        for _ in 0..ROUTES_AT_A_TIME {
            match change.routes.pop_front() {
                Some(RouteChange::Add(route)) => router.add(&route).expect("its next hops were kept"),
                Some(RouteChange::Remove(prefix)) => _ = router.remove(prefix),
                None => {
                    router.let_go(&change.gateways);
                    return false;
                }
            }
        }
        true
    }

    fn take_stages(&mut self, now: Time, change: &mut Change) {
        if let Exit::Router(router) = &mut self.exit {
            for (port, addresses) in (self.left..).zip(&mut change.translated) {
                router.answer_for(port, addresses);
            }
        }
        for (stage, change) in self.stages.iter_mut().zip(&mut change.stages) {
            match (stage, change) {
                (Stage::Nat(nat), Some(StageChange::Nat(change))) => nat.take(now, change),
                (Stage::Filter(filter), Some(StageChange::Filter(change))) => filter.take(change),
                (_, change) => assert!(change.is_none(), "stages keep their places"),
            }
        }
        self.steering.look(&self.stages);
    }

    /// Becomes what `new` says, where `old` is what it was, at once.
    ///
    /// # Errors
    /// What cannot be changed while the node runs; nothing has changed then.
    pub fn apply(&mut self, now: Time, old: &Config, new: &Config) -> Result<(), String> {
        let mut change = Change::prepare(old, new)?;
        self.accept(&change)?;
        while self.commit(now, &mut change) {}
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_packet::frame::Mac;

    const MACS: [Mac; 2] = [[2; 6], [4; 6]];

    fn config(text: &str) -> Config {
        Config::read("n", text).unwrap_or_else(|mistakes| panic!("{mistakes}"))
    }

    fn router(routes: &str) -> Config {
        config(&format!("lan(10.0.0.1/8) > route({routes}) > wan(198.18.0.2/24)"))
    }

    /// What differs between two lists of routes, in words.
    fn differs(old: &str, new: &str) -> String {
        let change = Change::prepare(&router(old), &router(new)).expect("only routes differ");
        let shown = |change: &RouteChange| match change {
            RouteChange::Add(route) => format!("+{route}"),
            RouteChange::Remove(prefix) => format!("-{prefix}"),
        };
        change.routes.iter().map(shown).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn routes_that_are_the_same_are_left_alone() {
        let a = "default via 198.18.0.1";
        for (old, new, expected) in [
            (a, a, ""),
            (a, "default via 198.18.0.3", "+0.0.0.0/0 via 198.18.0.3"),
            (a, "192.0.2.0/24 blackhole", "+192.0.2.0/24 blackhole, -0.0.0.0/0"),
            ("192.0.2.0/24 blackhole", "192.0.2.0/24 prohibit", "+192.0.2.0/24 prohibit"),
            ("192.0.2.0/24 prohibit", a, "+0.0.0.0/0 via 198.18.0.1, -192.0.2.0/24"),
        ] {
            assert_eq!(differs(old, new), expected, "{old} to {new}");
        }
    }

    #[test]
    fn what_cannot_be_changed_is_told() {
        for (old, new, why) in [
            ("a > b", "a > c", "ports change"),
            ("a > b", "a > route > b", "a bump becomes a router"),
            ("a filter(policy drop) > b", "a > b", "stages come and go"),
            ("a filter(policy drop) > b", "a nat(public 192.0.2.1) > b", "stages change places"),
        ] {
            let wrong = Change::prepare(&config(old), &config(new)).expect_err(old);
            assert!(wrong.starts_with(why), "{wrong}");
        }
    }

    fn neighbours(plane: &Plane) -> usize {
        let Exit::Router(router) = &plane.exit else { panic!("it has routes") };
        router.neighbours()
    }

    /// The changes of routes that are left after each call.
    fn calls(plane: &mut Plane, change: &mut Change) -> Vec<usize> {
        let mut left = vec![change.routes.len()];
        plane.accept(change).expect("room");
        while plane.commit(Time::from_ms(1), change) {
            left.push(change.routes.len());
        }
        left
    }

    #[test]
    fn many_routes_are_changed_in_pieces_and_leave_nothing_behind() {
        let route = |n: usize| format!("192.0.{}.{}/32 via 198.18.0.{}", n >> 8, n & 255, 10 + n % 100);
        let many = (0..300).map(route).collect::<Vec<_>>().join(", ");
        let (none, many) =
            (router("default via 198.18.0.1"), router(&format!("default via 198.18.0.1, {many}")));
        let mut plane = Plane::new(&none, &MACS);
        let mut change = Change::prepare(&none, &many).expect("routes");
        assert_eq!(calls(&mut plane, &mut change), [300, 172, 44]);
        assert_eq!(neighbours(&plane), 101);
        let mut change = Change::prepare(&many, &none).expect("routes");
        assert_eq!(calls(&mut plane, &mut change), [300, 172, 44]);
        assert_eq!(neighbours(&plane), 1, "next hops that nobody needs are forgotten");
    }

    #[test]
    fn what_is_refused_has_changed_nothing() {
        let text =
            |policy: &str| format!("lan(10.0.0.1/8) filter(policy {policy}) > route > wan(198.18.0.2/24)");
        let (old, mut new) = (config(&text("drop")), config(&text("accept")));
        let mut plane = Plane::new(&old, &MACS);
        // More next hops than the node can know neighbours.
        let gateway = |n: u32| IpAddr::from((0x0a01_0000 + n).to_be_bytes());
        let route = |n: u32| Route {
            prefix: Prefix { address: gateway(n), len: 32 },
            target: Target::Via(vec![gateway(n)]),
        };
        new.routes = Some((0..1 << 17 | 1).map(route).collect());
        let change = Change::prepare(&old, &new).expect("nobody has counted neighbours yet");
        let wrong = plane.accept(&change).expect_err("too many");
        assert!(wrong.contains("there are too many"), "{wrong}");
        assert_eq!(plane.filter_counts()[0][0].0, "policy drop");
        assert_eq!(neighbours(&plane), 0);
        // What was accepted and then declined has not changed anything either.
        new.routes = Some((0..100).map(route).collect());
        let change = Change::prepare(&old, &new).expect("fewer");
        plane.accept(&change).expect("room");
        assert_eq!(neighbours(&plane), 100);
        plane.decline(&change);
        assert_eq!((neighbours(&plane), &plane.filter_counts()[0][0].0[..]), (0, "policy drop"));
        plane.apply(Time::from_ms(1), &old, &config(&text("accept"))).expect("room");
        assert_eq!(plane.filter_counts()[0][0].0, "policy accept");
    }
}
