//! Another text for a node that runs: new parts are made beside it, and taken between two batches.
//!
//! ```text
//! old text, new text > prepare (any thread, takes its time) > Update > accept > commit, commit, ... (between batches)
//!                                                                      UnreadLog < removed stages, freed by the caller
//! ```
//!
//! | of the stages | what lives |
//! |---|---|
//! | one stays, see `config/align.rs`, as it was or changed | lives on, see `filter/ruleset.rs`, `nat/table/apply.rs`, `police.rs` |
//! | one comes | begins empty: a connection that is under way is new to a filter, and unknown to a NAT |
//! | one goes | is gone; the log tells of a NAT's sessions and blocks that they have ended. Frames that waited in it go on |
//! | one is moved past another | the same: it goes there and comes here |
//!
//! Invariant: what is not accepted has changed nothing, what is accepted is changed; and no call takes longer for a larger
//! text: stages are moved whole, routes that differ are changed in pieces, and what is of no more use is left in the update,
//! to be freed by the caller. No number of a stage outlives the text that it counts in: frames that were emitted are
//! renumbered here, recipes depend on the epoch of the text, entries of the fast path are cleared, and what waits for longer
//! names a direction.

use std::collections::{HashMap, HashSet, VecDeque};

use crate::config::{Config, StageConfig, align};
use crate::dir::{Dir, EntryPoint};
use crate::filter;
use crate::limits::Limits;
use crate::nat;
use crate::pipeline::{Exit, Stage};
use crate::plane::{Plane, stage_of};
use crate::police;
use crate::prefix::Prefix;
use crate::queue;
use crate::route::{NextHop, Options, Route, Target};
use crate::time::Time;
use crate::unread_log::UnreadLog;

/// Routes that a call updates.
const ROUTES_AT_A_TIME: usize = 128;

/// The difference between two texts.
#[derive(Debug)]
pub struct Update {
    /// By stage of the new text, where it comes from.
    stages: Vec<Source>,
    /// Stages that were removed.
    gone: Vec<Stage>,
    /// Limits for what hosts share.
    limits: Limits,
    /// Addresses that each port of the right end answers for.
    translated: Vec<Vec<(u32, u32)>>,
    routes: VecDeque<RouteUpdate>,
    options: Options,
    /// Next hops of the new routes.
    gateways: Vec<NextHop>,
    /// When part of it was done, if any is.
    begun: Option<Time>,
    /// The first entry of the fast path that is to be read before.
    settled: u32,
}

/// A stage of the new text.
#[derive(Debug)]
enum Source {
    /// It was the old stage of this number, with these changes.
    Old(usize, Option<StageUpdate>),
    /// It is new, and waits here until it is taken.
    New(Option<Stage>),
}

#[derive(Debug)]
enum StageUpdate {
    Filter(Box<filter::Update>),
    Nat(Box<nat::Update>),
    Queue(Box<queue::Config>),
    Police(Box<police::Update>),
}

#[derive(Debug)]
enum RouteUpdate {
    Add(Route),
    Remove(Prefix),
}

impl Update {
    /// The update from `old` to `new`: rules are compiled here, texts compared. Each thread of a node takes an update of its own,
    /// for the share that `new` has.
    ///
    /// # Errors
    /// What cannot be changed while the node runs.
    pub fn prepare(old: &Config, new: &Config) -> Result<Update, String> {
        if (&old.ports, old.left) != (&new.ports, new.left) {
            return Err("ports change only when the node begins anew".to_string());
        }
        if old.subscribers != new.subscribers {
            return Err("the subscribers of the text change only when the node begins anew".to_string());
        }
        if old.routes.is_some() != new.routes.is_some() {
            return Err("a bump becomes a router only when the node begins anew".to_string());
        }
        let aligned = align(&old.stages, &new.stages);
        let source = |(from, stage): (Option<usize>, &StageConfig)| match from {
            Some(from) => Source::Old(from, stage_update(&old.stages[from], stage)),
            None => Source::New(Some(stage_of(stage, new))),
        };
        let stages = aligned.into_iter().zip(&new.stages).map(source).collect();
        let (old_routes, new_routes) = (old.routes.as_deref(), new.routes.as_deref());
        let routes = routes(old_routes.unwrap_or_default(), new_routes.unwrap_or_default());
        let mut gateways = Vec::new();
        for update in &routes {
            if let RouteUpdate::Add(Route { target: Target::Via(hops), .. }) = update {
                gateways.extend(hops);
            }
        }
        gateways.sort_unstable();
        gateways.dedup();
        let translated = new.ports[new.left..].iter().map(|_| new.translated()).collect();
        let (limits, options) = (new.limits, new.options);
        let gone = Vec::new();
        Ok(Update { stages, gone, limits, translated, routes, options, gateways, begun: None, settled: 0 })
    }

    /// The log of the stages that were removed, once all is done; the rest is freed. It takes its time.
    pub fn unread_log(self) -> UnreadLog {
        let mut log = UnreadLog::default();
        for stage in self.gone {
            match stage {
                Stage::Filter(mut filter) => log.logged.extend(filter.logged()),
                Stage::Nat(mut nat) => {
                    let (events, lost) =
                        nat.table.end_all(self.begun.expect("it went when part of it was done"));
                    log.events.extend(events);
                    log.lost += lost;
                }
                Stage::Queue(_) | Stage::Police(_) => {}
            }
        }
        log
    }

    /// Where a frame that was to enter the old stages `at` enters the new ones: behind the last stage that it has passed and that
    /// stays. It also passes the stages that came since then.
    fn entry(&self, at: EntryPoint) -> EntryPoint {
        let stays = |(n, source): (usize, &Source)| match source {
            Source::Old(from, _) => Some((n, *from)),
            Source::New(_) => None,
        };
        let mut all = self.stages.iter().enumerate().filter_map(stays);
        match at {
            EntryPoint::Outward { above } => {
                let before = all.take_while(|(_, from)| *from < above).last();
                EntryPoint::Outward { above: before.map_or(0, |(n, _)| n + 1) }
            }
            EntryPoint::Inward { below } => {
                let behind = all.find(|(_, from)| *from >= below);
                EntryPoint::Inward { below: behind.map_or(self.stages.len(), |(n, _)| n) }
            }
            EntryPoint::Begin(_) | EntryPoint::Leave(_) | EntryPoint::Hand(_) => at,
        }
    }

    /// Where a frame that waited in the old stage of this number enters, outward or inward; that stage is removed.
    fn entry_of(&self, gone: usize, dir: Dir) -> EntryPoint {
        self.entry(match dir {
            Dir::Outward => EntryPoint::Outward { above: gone },
            Dir::Inward => EntryPoint::Inward { below: gone + 1 },
        })
    }
}

/// The change of a stage into another one of the same kind, if they differ.
fn stage_update(old: &StageConfig, new: &StageConfig) -> Option<StageUpdate> {
    match (old, new) {
        (old, new) if old == new => None,
        (StageConfig::Nat(old), StageConfig::Nat(new)) => {
            Some(StageUpdate::Nat(Box::new(nat::Update::prepare(old, new))))
        }
        (StageConfig::Filter(old), StageConfig::Filter(new)) => {
            Some(StageUpdate::Filter(Box::new(filter::Update::prepare(old, new))))
        }
        (StageConfig::Queue(_), StageConfig::Queue(new)) => Some(StageUpdate::Queue(new.clone())),
        (StageConfig::Police(old), StageConfig::Police(new)) => {
            Some(StageUpdate::Police(Box::new(police::Update::prepare(old, new))))
        }
        _ => unreachable!("a stage stays what it is"),
    }
}

/// What differs, new routes first: a prefix that comes in the place of others leaves no gap.
fn routes(old: &[Route], new: &[Route]) -> VecDeque<RouteUpdate> {
    if old == new {
        return VecDeque::new();
    }
    let before: HashMap<Prefix, &Route> = old.iter().map(|route| (route.prefix, route)).collect();
    let after: HashSet<Prefix> = new.iter().map(|route| route.prefix).collect();
    let added = new.iter().filter(|route| before.get(&route.prefix) != Some(route));
    let added = added.map(|route| RouteUpdate::Add(route.clone()));
    let removed = old.iter().filter(|route| !after.contains(&route.prefix));
    let removed = removed.map(|route| RouteUpdate::Remove(route.prefix));
    added.chain(removed).collect()
}

impl Plane {
    /// Reserves room for an update; nothing else changes.
    ///
    /// # Errors
    /// There is no room.
    pub fn accept(&mut self, update: &Update) -> Result<(), String> {
        for source in &update.stages {
            if let Source::Old(from, Some(StageUpdate::Nat(update))) = source
                && let Stage::Nat(nat) = &self.pipeline.stages[*from]
            {
                nat.table.accepts(update)?;
            }
        }
        match &mut self.pipeline.exit {
            Exit::Router(router) => router.hold_gateways(&update.gateways).map_err(|far| far.to_string()),
            Exit::Across => Ok(()),
        }
    }

    /// Gives back the room that was reserved for an update, of which nothing was done.
    pub fn decline(&mut self, update: &Update) {
        if let Exit::Router(router) = &mut self.pipeline.exit {
            router.release_gateways(&update.gateways);
        }
    }

    /// Applies a part of an accepted update, between two batches: sessions, neighbours and frames that wait stay. `true`: there
    /// is more to do, by the same call behind the next batch.
    pub fn commit(&mut self, now: Time, update: &mut Update) -> bool {
        self.outbox.begin();
        if update.begun.is_none() {
            if self.pause_fast(&mut update.settled) {
                return true;
            }
            update.begun = Some(now);
            self.take_stages(now, update);
            self.resume_fast();
        }
        let more = self.take_routes(update);
        self.publish();
        more
    }

    /// Changes some of the routes that differ; `true`: there are more.
    fn take_routes(&mut self, update: &mut Update) -> bool {
        let Exit::Router(router) = &mut self.pipeline.exit else { return false };
        for _ in 0..ROUTES_AT_A_TIME {
            match update.routes.pop_front() {
                Some(RouteUpdate::Add(route)) => router.add(&route).expect("its next hops were kept"),
                Some(RouteUpdate::Remove(prefix)) => _ = router.remove(prefix),
                None => {
                    router.release_gateways(&update.gateways);
                    return false;
                }
            }
        }
        true
    }

    fn take_stages(&mut self, now: Time, update: &mut Update) {
        self.outbox.kept.renumber(|at| update.entry(at));
        if let Exit::Router(router) = &mut self.pipeline.exit {
            router.options = update.options;
            for (port, addresses) in (self.pipeline.left..).zip(&mut update.translated) {
                router.answer_for(port, addresses);
            }
        }
        let mut old: Vec<Option<Stage>> = self.pipeline.stages.drain(..).map(Some).collect();
        for source in &mut update.stages {
            let stage = match source {
                Source::New(stage) => stage.take(),
                Source::Old(from, None) => old[*from].take(),
                Source::Old(from, Some(update)) => old[*from].take().map(|stage| stage.taking(now, update)),
            };
            self.pipeline.stages.push(stage.expect("each is used once"));
        }
        self.limit(&update.limits);
        self.steering.look(&self.pipeline.stages);
        // Frames that wait for a stage that is removed go on.
        for (gone, stage) in old.into_iter().enumerate() {
            if let Some(mut stage) = stage {
                stage.emit_waiting(now, &mut self.outbox, |dir| update.entry_of(gone, dir));
                update.gone.push(stage);
            }
        }
        self.steering.emit_waiting(self.pipeline.left, &mut self.outbox);
        self.run_outbox(now);
    }

    /// Changes the plane from `old` to `new` at once; returns the log of stages that were removed.
    ///
    /// # Errors
    /// What cannot be changed while the node runs; nothing has changed then.
    pub fn apply(&mut self, now: Time, old: &Config, new: &Config) -> Result<UnreadLog, String> {
        let mut update = Update::prepare(old, new)?;
        self.accept(&update)?;
        while self.commit(now, &mut update) {}
        Ok(update.unread_log())
    }
}

impl Stage {
    /// Applies the changes; what is of no more use is left in `update`.
    fn taking(mut self, now: Time, update: &mut StageUpdate) -> Stage {
        match (&mut self, update) {
            (Stage::Nat(nat), StageUpdate::Nat(update)) => nat.take(now, update),
            (Stage::Filter(filter), StageUpdate::Filter(update)) => filter.take(update),
            (Stage::Queue(queue), StageUpdate::Queue(config)) => queue.take(now, config),
            (Stage::Police(police), StageUpdate::Police(update)) => police.take(now, update),
            _ => unreachable!("a stage stays what it is"),
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use weir_packet::frame::Mac;

    use crate::batch::{Batch, Verdict};
    use crate::drops::DropReason;
    use crate::frame::{Frame, HEAD_ROOM, PortId};
    use crate::kept::Emitted;
    use crate::nat::{Event, EventKind};
    use crate::scenario::packet;

    const MACS: [Mac; 2] = [[2; 6], [4; 6]];

    fn config(text: &str) -> Config {
        Config::read("n", text).unwrap_or_else(|mistakes| panic!("{mistakes}"))
    }

    fn router(routes: &str) -> Config {
        config(&format!("lan(10.0.0.1/8) > route({routes}) > wan(198.18.0.2/24)"))
    }

    /// What differs between two lists of routes, in words.
    fn differs(old: &str, new: &str) -> String {
        let update = Update::prepare(&router(old), &router(new)).expect("only routes differ");
        let shown = |update: &RouteUpdate| match update {
            RouteUpdate::Add(route) => format!("+{route}"),
            RouteUpdate::Remove(prefix) => format!("-{prefix}"),
        };
        update.routes.iter().map(shown).collect::<Vec<_>>().join(", ")
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
    fn what_cannot_be_changed_is_reported() {
        for (old, new, why) in
            [("a > b", "a > c", "ports change"), ("a > b", "a > route > b", "a bump becomes a router")]
        {
            let wrong = Update::prepare(&config(old), &config(new)).expect_err(old);
            assert!(wrong.starts_with(why), "{wrong}");
        }
    }

    fn neighbours(plane: &Plane) -> usize {
        let Exit::Router(router) = &plane.pipeline.exit else { panic!("it has routes") };
        router.neighbours()
    }

    /// The updates of routes that are left after each call.
    fn calls(plane: &mut Plane, update: &mut Update) -> Vec<usize> {
        let mut left = vec![update.routes.len()];
        plane.accept(update).expect("room");
        while plane.commit(Time::from_ms(1), update) {
            left.push(update.routes.len());
        }
        left
    }

    #[test]
    fn many_routes_are_changed_in_fragments_and_leave_nothing_behind() {
        let route = |n: usize| format!("192.0.{}.{}/32 via 198.18.0.{}", n >> 8, n & 255, 10 + n % 100);
        let many = (0..300).map(route).collect::<Vec<_>>().join(", ");
        let (none, many) =
            (router("default via 198.18.0.1"), router(&format!("default via 198.18.0.1, {many}")));
        let mut plane = Plane::new(&none, &MACS);
        let mut update = Update::prepare(&none, &many).expect("routes");
        assert_eq!(calls(&mut plane, &mut update), [300, 172, 44]);
        assert_eq!(neighbours(&plane), 101);
        let mut update = Update::prepare(&many, &none).expect("routes");
        assert_eq!(calls(&mut plane, &mut update), [300, 172, 44]);
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
            target: Target::Via(vec![gateway(n).into()]),
        };
        new.routes = Some((0..1 << 17 | 1).map(route).collect());
        let update = Update::prepare(&old, &new).expect("nobody has counted neighbours yet");
        let wrong = plane.accept(&update).expect_err("too many");
        assert!(wrong.contains("there are too many"), "{wrong}");
        assert_eq!(plane.filter_counts()[0][0].0, "policy drop");
        assert_eq!(neighbours(&plane), 0);
        // What was accepted and then declined has not changed anything either.
        new.routes = Some((0..100).map(route).collect());
        let update = Update::prepare(&old, &new).expect("fewer");
        plane.accept(&update).expect("room");
        assert_eq!(neighbours(&plane), 100);
        plane.decline(&update);
        assert_eq!((neighbours(&plane), &plane.filter_counts()[0][0].0[..]), (0, "policy drop"));
        plane.apply(Time::from_ms(1), &old, &config(&text("accept"))).expect("room");
        assert_eq!(plane.filter_counts()[0][0].0, "policy accept");
    }

    /// What an old stage is by its letter, the new ones as `align` says, and where frames that waited in it enter.
    #[test]
    fn what_waited_in_a_stage_passes_what_comes_in_its_place() {
        let stage = |letter: char| match letter {
            'n' => "nat(public 192.0.2.1)".to_string(),
            _ => format!("filter(count {letter} udp)"),
        };
        let text = |letters: &str| {
            config(&format!("lan {} wan", letters.chars().map(stage).collect::<Vec<_>>().join(" ")))
        };
        for (old, new, gone, above, below) in [
            ("a", "", 0, 0, 0),
            ("n", "a", 0, 0, 1),
            ("na", "bca", 0, 0, 2),
            ("anb", "ab", 1, 1, 1),
            ("anb", "acb", 1, 1, 2),
            ("ab", "b", 0, 0, 0),
            ("nab", "nb", 1, 1, 1),
            ("ban", "bnc", 1, 1, 1),
        ] {
            let update = Update::prepare(&text(old), &text(new)).expect("stages");
            let entries = [Dir::Outward, Dir::Inward].map(|dir| update.entry_of(gone, dir));
            let expected = [EntryPoint::Outward { above }, EntryPoint::Inward { below }];
            assert_eq!(entries, expected, "{old} to {new}");
        }
    }

    /// A queue has emitted a frame, and stages come and go before its memory is back: it passes those that it has not yet, in
    /// the order of the new text, and none twice.
    #[test]
    fn a_frame_that_was_emitted_goes_on_behind_the_stages_that_it_has_passed() {
        let queue = "queue(outward 8Mbit, inward 8Mbit)";
        let (a, b, c) = (
            "filter(count a udp, policy accept)",
            "filter(count b udp, policy accept)",
            "filter(drop udp, policy accept)",
        );
        let through = |stages: &[&str], port: u16| (stages.join(" > "), port);
        for ((old, port), new, expected, counted) in [
            // The stage before it goes, or one comes there: it has passed what is there.
            (through(&[a, queue, b], 0), vec![queue, b], Verdict::Out(PortId(1)), vec![1]),
            (through(&[queue, b], 0), vec![c, queue, b], Verdict::Out(PortId(1)), vec![0, 1]),
            (through(&[a, queue, b], 1), vec![a, queue], Verdict::Out(PortId(0)), vec![1]),
            // One comes behind it, beside the queue or not.
            (
                through(&[queue, b], 0),
                vec![queue, c, b],
                Verdict::Dropped(DropReason::FilterDrop),
                vec![1, 0],
            ),
            (through(&[queue], 0), vec![queue, a, b], Verdict::Out(PortId(1)), vec![1, 1]),
            (
                through(&[a, queue], 1),
                vec![c, a, queue],
                Verdict::Dropped(DropReason::FilterDrop),
                vec![1, 1],
            ),
            (through(&[queue], 1), vec![a, queue, c], Verdict::Out(PortId(0)), vec![1, 0]),
            // The queue goes, or is moved past another: what it has passed by then stays passed.
            (through(&[a, queue, b], 0), vec![a, c], Verdict::Dropped(DropReason::FilterDrop), vec![0, 1]),
            (through(&[a, queue, b], 0), vec![a, b], Verdict::Out(PortId(1)), vec![0, 1]),
        ] {
            let what = format!("{old} to {}, port {port}", new.join(" > "));
            let [old, new] = [old, new.join(" > ")].map(|stages| config(&format!("lan > {stages} > wan")));
            let mut plane = Plane::new(&old, &MACS);
            let packet = packet("udp 198.18.0.1:1 > 198.19.0.9:53").expect("a packet");
            let mut buf = [&[0; HEAD_ROOM + 12][..], &[8, 0], &packet].concat();
            let end = buf.len();
            let mut batch = Batch::default();
            batch.push(Frame::new(&mut buf, HEAD_ROOM, end, PortId(port)));
            plane.run(Time::from_ms(1), &mut batch);
            let Some((_, Verdict::Kept(ticket))) = batch.outcome().next() else { panic!("{what}: not kept") };
            plane.tick(Time::from_ms(9));
            assert_eq!(plane.next_emitted(), Some(Emitted::Back(ticket)), "{what}");
            let counts = |plane: &Plane| -> Vec<u64> {
                plane.filter_counts().iter().map(|rules| rules[0].1.frames).collect()
            };
            plane.apply(Time::from_ms(9), &old, &new).expect("other stages");
            let before = counts(&plane);
            let mut batch = Batch::default();
            batch.push_kept(Frame::new(&mut buf, HEAD_ROOM, end, PortId(port)), ticket);
            plane.resume(Time::from_ms(9), &mut batch);
            assert_eq!(batch.outcome().next().expect("one").1, expected, "{what}");
            let passed: Vec<u64> =
                counts(&plane).iter().zip(before).map(|(now, before)| now - before).collect();
            assert_eq!(passed, counted, "{what}: filters that it passed on behind the queue");
            assert!(plane.accounting().balance(), "{what}: {:?}", plane.accounting());
        }
    }

    /// Sends a packet from the left.
    fn send(plane: &mut Plane, line: &str) {
        let packet = packet(line).unwrap_or_else(|wrong| panic!("{wrong}"));
        let mut buf = [&[0; HEAD_ROOM + 12][..], &[8, 0], &packet].concat();
        let end = buf.len();
        let mut batch = Batch::default();
        batch.push(Frame::new(&mut buf, HEAD_ROOM, end, PortId(0)));
        plane.run(Time::from_ms(1), &mut batch);
    }

    #[test]
    fn the_end_of_all_that_lived_is_reported() {
        let dynamic = "public 192.0.2.1, log sessions";
        for (nat, reported) in [
            (dynamic, "block+ session+ block+ session+ block- block- session- session-"),
            ("public 192.0.2.1", "block+ block+ block- block-"),
            ("public 192.0.2.1, log nothing", ""),
            // What follows from the configuration is nothing that happens.
            ("public 192.0.2.1, forward udp 192.0.2.1:53 to 198.18.0.9:53", "block+ block+ block- block-"),
            (
                "public 192.0.2.1, log sessions, deterministic 198.18.0.0/28 dynamic 2",
                "session+ session+ session- session-",
            ),
        ] {
            let old = config(&format!("lan nat({nat}) filter(log 1/1 udp, policy accept) wan"));
            let mut plane = Plane::new(&old, &MACS);
            send(&mut plane, "udp 198.18.0.1:1 > 198.19.0.9:53");
            send(&mut plane, "udp 198.18.0.2:1 > 198.19.0.9:53");
            let log = plane.apply(Time::from_ms(7), &old, &config("lan > wan")).expect("no stages");
            let shown = |event: &Event| {
                let word = match event.kind {
                    EventKind::BlockAllocated => "block+",
                    EventKind::BlockReleased => "block-",
                    EventKind::SessionCreated => "session+",
                    EventKind::SessionDeleted => "session-",
                    other => panic!("{other:?}"),
                };
                assert_eq!(event.at, Time::from_ms(if word.ends_with('+') { 1 } else { 7 }), "{nat}");
                word
            };
            assert_eq!(log.events.iter().map(shown).collect::<Vec<_>>().join(" "), reported, "{nat}");
            // What ends is what began.
            let ends = |kind: EventKind| -> HashSet<_> {
                let of_kind = log.events.iter().filter(|event| event.kind == kind);
                of_kind.map(|event| (event.inside, event.outside, event.ports, event.proto)).collect()
            };
            assert_eq!(ends(EventKind::BlockReleased), ends(EventKind::BlockAllocated), "{nat}");
            assert_eq!(ends(EventKind::SessionDeleted), ends(EventKind::SessionCreated), "{nat}");
            assert_eq!((log.lost, log.logged.len()), (0, 2), "{nat}");
            assert_eq!((plane.nat_usage().sessions, plane.accounting().balance()), (0, true));
        }
    }
}
