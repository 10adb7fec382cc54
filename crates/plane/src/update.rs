//! Changes of a node that runs, another text or a list of commands: new parts are made beside it, and taken between two batches.
//!
//! ```text
//! old text, new text > prepare (any thread, takes its time) > Update > accept, accept, ... > commit, commit, ... (between batches)
//! commands > decide > Changes > of_changes >                                                 UnreadLog < removed stages, freed
//!                                                                                            by the caller
//! ```
//!
//! | of the stages | what lives |
//! |---|---|
//! | one stays, see `config/align.rs`, as it was or changed | lives on, see `filter/ruleset.rs`, `nat/table/apply.rs`, `police/mod.rs` |
//! | one comes | begins empty: a connection that is under way is new to a filter, and unknown to a NAT |
//! | one goes | is gone; the log tells of a NAT's sessions and blocks that they have ended. Frames that waited in it go on |
//! | one is moved past another | the same: it goes there and comes here |
//!
//! Ports keep their numbers, since threads take an update one after the other and frames pass between them meanwhile: no frame, neighbour
//! or route is renumbered, see `config/number.rs` and `update/ports.rs`.
//!
//! Invariant: what is not accepted has changed nothing, what is accepted is changed; and no call takes longer for a larger
//! text or a longer list: stages are moved whole, objects that differ are changed [`AT_A_TIME`] in a call, and what is of no more
//! use is left in the update, to be freed by the caller. No number of a stage outlives the text that it counts in: frames that were
//! emitted are renumbered here, recipes depend on the epoch of the text, entries of the fast path are cleared, and what waits for
//! longer names a direction.

mod ports;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::access::{AccessPolicy, SubscriberChange};
use crate::change::{Change, Object};
use crate::config::{Config, align};
use crate::dir::{Dir, EntryPoint};
use crate::frame::PortId;
use crate::limits::Limits;
use crate::neighbour::{NeighbourChange, Translated};
use crate::outbox::Outbox;
use crate::pipeline::{Exit, Pipeline};
use crate::plane::{Plane, stage_of};
use crate::route::{NextHop, Options, PortChange, RouteChange, Sweep};
use crate::stages::{Stage, StageChange, StageUpdate};
use crate::time::Time;
use crate::unread_log::UnreadLog;
use crate::was::Was;
use ports::{PortChanges, PortsText};

/// Objects that a call changes: some 100 us, less than what a port holds while nobody receives.
pub const AT_A_TIME: usize = 256;
/// Ports that a call makes room for.
const PORTS_AT_A_TIME: usize = 8;

/// What is to be changed in a thread.
#[derive(Debug)]
pub struct Update {
    /// What is changed at once.
    text: Option<Box<Text>>,
    /// Objects that are changed behind that, one by one.
    objects: VecDeque<Work>,
    /// Next hops that the objects need.
    gateways: Vec<NextHop>,
    /// So many of them are held.
    held: usize,
    /// So many ports are to have room.
    room: usize,
    /// By stage, how many places the objects need.
    places: BTreeMap<usize, usize>,
    /// Frames that know their way must find it anew.
    is_of_stages: bool,
    /// When part of it was done, if any is.
    begun: Option<Time>,
    /// The first entry of the fast path that is to be read before.
    settled: u32,
    /// What was changed at once, and what it has replaced.
    taken: Option<Box<Text>>,
    /// Stages that were removed.
    gone: Vec<Stage>,
    /// What objects were, to be freed by the caller.
    replaced: Vec<StageUpdate>,
}

/// The difference between two texts but for single objects.
#[derive(Debug)]
struct Text {
    /// By stage of the new text, where it comes from.
    stages: Vec<Source>,
    /// The ports, if they differ.
    ports: Option<PortsText>,
    /// Limits for what hosts share.
    limits: Limits,
    /// Addresses that ports of the right end answer for.
    translated: Translated,
    options: Options,
    /// What the text says of all subscribers.
    access: Option<AccessPolicy>,
}

/// A stage of the new text.
#[derive(Debug)]
enum Source {
    /// It was the old stage of this number, with these changes.
    Old(usize, Option<StageUpdate>),
    /// It is new, and waits here until it is taken.
    New(Option<Stage>),
}

/// An object to change in a thread. Stages are counted as in the new text.
#[derive(Debug)]
enum Work {
    Port(Box<PortChange>),
    /// Neighbours that are none any more are forgotten.
    Sweep(Sweep),
    Route(RouteChange),
    Neighbour(NeighbourChange),
    /// Other rules, which were compiled before.
    Stage(usize, StageUpdate),
    Object(usize, StageChange),
    Subscriber(Box<SubscriberChange>),
}

impl Update {
    /// The update from `old` to `new`: rules are compiled here, texts compared. Each thread of a node takes an update of its own,
    /// for the share that `new` has.
    ///
    /// # Errors
    /// What cannot be changed while the node runs.
    pub fn prepare(old: &Config, new: &Config) -> Result<Update, String> {
        if old.subscribers != new.subscribers {
            return Err("the subscribers of the text change only when the node begins anew".to_string());
        }
        if old.access.is_some() != new.access.is_some() {
            return Err("`access` comes and goes only when the node begins anew".to_string());
        }
        if old.routes.is_some() != new.routes.is_some() {
            return Err("a bump becomes a router only when the node begins anew".to_string());
        }
        let ports = PortChanges::between(old, new)?;
        let changes = if ports.text.is_some() { old.changes_to_ports(new) } else { old.changes_to(new) };
        let (mut changes, mut stages) = (changes, Vec::new());
        for (n, (from, stage)) in align(&old.stages, &new.stages).into_iter().zip(&new.stages).enumerate() {
            let Some(from) = from else {
                stages.push(Source::New(Some(stage_of(stage, new))));
                continue;
            };
            match old.stages[from].changes_to(stage) {
                Some(objects) => {
                    changes.extend(objects.into_iter().map(|change| Change(Object::Stage(n, change))));
                    stages.push(Source::Old(from, None));
                }
                None => stages.push(Source::Old(from, Some(old.stages[from].update_to(stage)))),
            }
        }
        let is_as_before =
            |(n, source): (usize, &Source)| matches!(source, Source::Old(from, None) if *from == n);
        let has_text = ports.text.is_some()
            || (old.limits, old.options) != (new.limits, new.options)
            || old.access_policy() != new.access_policy()
            || stages.len() != old.stages.len()
            || !stages.iter().enumerate().all(is_as_before);
        let mut update = Update::of_changes(&changes);
        if has_text {
            let (limits, options, translated) = (new.limits, new.options, new.translated());
            update.add_ports(&ports, new.ports.len());
            let access = new.access_policy().cloned();
            update.text =
                Some(Box::new(Text { stages, ports: ports.text, limits, translated, options, access }));
            update.is_of_stages = true;
        }
        Ok(update)
    }

    /// Ports come or change before the objects that name them, and go behind those.
    fn add_ports(&mut self, ports: &PortChanges, room: usize) {
        self.room = room;
        let work = |change: &PortChange| Work::Port(Box::new(change.clone()));
        ports.changed.iter().rev().for_each(|change| self.objects.push_front(work(change)));
        self.objects.extend(ports.gone.iter().map(work));
        let all = ports.changed.iter().chain(&ports.gone).map(|change| change.port).collect();
        self.objects.push_back(Work::Sweep(Sweep { ports: all, networks: ports.networks.clone(), from: 0 }));
    }

    /// What is for the node itself and comes in by these ports is dropped, if the update changes ports.
    pub fn without_machine(mut self, ports: Vec<PortId>) -> Update {
        if let Some(text) = self.text.as_mut().and_then(|text| text.ports.as_mut()) {
            text.not_taken = Some(ports);
        }
        self
    }

    /// The update that makes these changes.
    pub fn of_changes(changes: &[Change]) -> Update {
        let gateways: BTreeSet<NextHop> = changes.iter().flat_map(Change::gateways).collect();
        let mut addresses = BTreeSet::new();
        for Change(object) in changes {
            if let Object::Stage(stage, change) = object {
                addresses.extend(change.place().map(|place| (*stage, place)));
            }
        }
        let mut places = BTreeMap::new();
        addresses.iter().for_each(|(stage, _)| *places.entry(*stage).or_default() += 1);
        Update {
            text: None,
            objects: changes.iter().map(|Change(object)| Work::of(object)).collect(),
            gateways: gateways.into_iter().collect(),
            held: 0,
            room: 0,
            places,
            is_of_stages: changes.iter().any(Change::is_of_stage),
            begun: None,
            settled: 0,
            taken: None,
            gone: Vec::new(),
            replaced: Vec::new(),
        }
    }

    /// Whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        self.text.is_none() && self.objects.is_empty()
    }

    /// How many objects are left to change one by one.
    pub fn objects(&self) -> usize {
        self.objects.len()
    }

    /// The log of the stages that were removed, once all is done; the rest is freed. It takes its time.
    pub fn unread_log(self) -> UnreadLog {
        let mut log = UnreadLog::default();
        for mut stage in self.gone {
            log.add_ended(&mut stage, self.begun.expect("it went when part of it was done"));
        }
        log
    }

    /// The stage of the old text that is one of the new text.
    fn old_stage(&self, new: usize) -> Option<usize> {
        match &self.text {
            None => Some(new),
            Some(text) => match text.stages.get(new) {
                Some(Source::Old(from, _)) => Some(*from),
                _ => None,
            },
        }
    }
}

impl Text {
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

impl Work {
    /// How many objects it counts for, since it takes as long.
    fn objects(&self) -> usize {
        match self {
            Work::Port(_) => AT_A_TIME / 8,
            Work::Sweep(_) => AT_A_TIME / 2,
            _ => 1,
        }
    }

    fn of(object: &Object) -> Work {
        match object {
            Object::Route(change) => Work::Route(change.clone()),
            Object::Neighbour(change) => Work::Neighbour(change.clone()),
            Object::Stage(stage, change) => match change.update() {
                Some(update) => Work::Stage(*stage, update),
                None => Work::Object(*stage, change.clone()),
            },
            Object::Subscriber(change) => Work::Subscriber(Box::new(change.clone())),
        }
    }
}

impl Plane {
    /// Reserves some of the room for an update; nothing else changes. `true`: there is more to reserve, by the same call behind the
    /// next batch.
    ///
    /// # Errors
    /// There is no room.
    pub fn accept(&mut self, update: &mut Update) -> Result<bool, String> {
        if update.held == 0 {
            self.has_room_for(update)?;
        }
        let Exit::Router(router) = &mut self.pipeline.exit else { return Ok(false) };
        if router.ports() < update.room {
            router.make_room_for_ports(update.room.min(router.ports() + PORTS_AT_A_TIME));
            return Ok(true);
        }
        let piece = some_of(&update.gateways, update.held);
        router.hold_gateways(piece).map_err(|far| far.to_string())?;
        update.held += piece.len();
        Ok(update.held < update.gateways.len())
    }

    /// Whether the stages have room.
    fn has_room_for(&self, update: &Update) -> Result<(), String> {
        let stage = |number: usize| self.pipeline.stages.get(number);
        for source in update.text.iter().flat_map(|text| &text.stages) {
            if let Source::Old(from, Some(update)) = source
                && let Some(stage) = stage(*from)
            {
                stage.accepts(update)?;
            }
        }
        for (&number, &places) in &update.places {
            if let Some(stage) = update.old_stage(number).and_then(stage) {
                stage.has_room_for(places)?;
            }
        }
        Ok(())
    }

    /// Gives back some of the room that was reserved for an update, of which nothing was done. `true`: there is more.
    pub fn decline(&mut self, update: &mut Update) -> bool {
        let Exit::Router(router) = &mut self.pipeline.exit else { return false };
        let rest = update.held.saturating_sub(AT_A_TIME);
        router.release_gateways(&update.gateways[rest..update.held]);
        update.held = rest;
        rest > 0
    }

    /// Applies a part of an accepted update, between two batches: sessions, neighbours and frames that wait stay. `true`: there
    /// is more to do, by the same call behind the next batch.
    pub fn commit(&mut self, now: Time, update: &mut Update) -> bool {
        self.outbox.begin();
        if update.begun.is_none() {
            if update.is_of_stages && self.pause_fast(&mut update.settled) {
                return true;
            }
            update.begun = Some(now);
            if let Some(mut text) = update.text.take() {
                self.take_text(now, &mut text, &mut update.gone);
                update.taken = Some(text);
            }
        }
        let more = self.change_objects(now, update);
        if !more && std::mem::take(&mut update.is_of_stages) {
            self.resume_fast();
        }
        self.publish();
        more || self.decline(update)
    }

    /// Changes some of the objects that differ; `true`: there are more.
    fn change_objects(&mut self, now: Time, update: &mut Update) -> bool {
        let mut rest = AT_A_TIME;
        while let Some(work) = update.objects.pop_front_if(|work| work.objects() <= rest) {
            rest -= work.objects();
            match self.pipeline.change(now, work, &mut self.outbox) {
                Changed::Done => {}
                Changed::Replaced(old) => update.replaced.push(old),
                Changed::More(work) => update.objects.push_front(work),
            }
        }
        if update.is_of_stages {
            self.pipeline.text_epoch = self.pipeline.text_epoch.wrapping_add(1);
        }
        self.run_outbox(now);
        !update.objects.is_empty()
    }

    fn take_text(&mut self, now: Time, text: &mut Text, removed: &mut Vec<Stage>) {
        self.outbox.kept.renumber(|at| text.entry(at));
        text.access.iter().for_each(|access| self.pipeline.subscribers.set_policy(access));
        if let Exit::Router(router) = &mut self.pipeline.exit {
            router.options = text.options;
            *router.translated() = std::mem::take(&mut text.translated);
        }
        let mut old: Vec<Option<Stage>> = self.pipeline.stages.drain(..).map(Some).collect();
        for source in &mut text.stages {
            let stage = match source {
                Source::New(stage) => stage.take(),
                Source::Old(from, None) => old[*from].take(),
                Source::Old(from, Some(update)) => {
                    let mut stage = old[*from].take();
                    stage.iter_mut().for_each(|stage| stage.take(now, update));
                    stage
                }
            };
            self.pipeline.stages.push(stage.expect("each is used once"));
        }
        if let Some(ports) = &mut text.ports {
            self.take_ports(ports);
        }
        self.limit(&text.limits);
        self.steering.look(&self.pipeline.stages);
        // Frames that wait for a stage that is removed go on.
        for (gone, stage) in old.into_iter().enumerate() {
            if let Some(mut stage) = stage {
                let entry = |dir| text.entry_of(gone, dir);
                stage.kind_mut().emit_waiting(now, &mut self.outbox, &entry);
                removed.push(stage);
            }
        }
        self.steering.emit_waiting(&self.pipeline.ports, &mut self.outbox);
        self.run_outbox(now);
    }

    /// Changes the plane from `old` to `new` at once; returns the log of stages that were removed.
    ///
    /// # Errors
    /// What cannot be changed while the node runs; nothing has changed then.
    pub fn apply(&mut self, now: Time, old: &Config, new: &Config) -> Result<UnreadLog, String> {
        self.take(now, Update::prepare(old, new)?)
    }

    /// Takes an update at once; returns the log of stages that were removed.
    ///
    /// # Errors
    /// There is no room for it; nothing has changed then.
    pub fn take(&mut self, now: Time, mut update: Update) -> Result<UnreadLog, String> {
        loop {
            match self.accept(&mut update) {
                Ok(true) => {}
                Ok(false) => break,
                Err(why) => {
                    while self.decline(&mut update) {}
                    return Err(why);
                }
            }
        }
        while self.commit(now, &mut update) {}
        Ok(update.unread_log())
    }
}

/// As many of a list, from a place on, as a call handles.
fn some_of<T>(list: &[T], from: usize) -> &[T] {
    &list[from..list.len().min(from + AT_A_TIME)]
}

impl Pipeline {
    /// Changes an object.
    fn change(&mut self, now: Time, work: Work, outbox: &mut Outbox) -> Changed {
        match (work, &mut self.exit) {
            (Work::Port(change), Exit::Router(router)) => router.change_port(*change),
            (Work::Sweep(mut sweep), Exit::Router(router)) => {
                if router.sweep(&mut sweep, outbox) {
                    return Changed::More(Work::Sweep(sweep));
                }
            }
            (Work::Port(_) | Work::Sweep(_), Exit::Across) => {}
            (Work::Route(change), Exit::Router(router)) => router.change_route(change),
            (Work::Neighbour(change), Exit::Router(router)) => router.change_neighbour(&change, outbox),
            (Work::Route(_) | Work::Neighbour(_), Exit::Across) => {}
            (Work::Stage(stage, mut update), _) => {
                if let Some(stage) = self.stages.get_mut(stage) {
                    stage.take(now, &mut update);
                }
                return Changed::Replaced(update);
            }
            (Work::Object(stage, change), exit) => {
                if let Exit::Router(router) = exit {
                    let Was { old, new } = change.translated();
                    old.into_iter().for_each(|old| router.translated().remove(old));
                    new.into_iter().for_each(|new| router.translated().add(new));
                }
                if let Some(stage) = self.stages.get_mut(stage) {
                    stage.change(now, &change);
                }
            }
            (Work::Subscriber(change), _) => match *change {
                SubscriberChange::UnknownSessions(was) => {
                    self.subscribers.set_unknown_sessions(was.new.unwrap_or_default());
                }
                SubscriberChange::Session(was) => {
                    self.subscribers.change(was.old.as_ref(), was.new.as_ref(), outbox.kept.epoch());
                }
                // The node sees to it, not its threads.
                SubscriberChange::Grace(_) => {}
            },
        }
        Changed::Done
    }
}

/// What has become of an object.
enum Changed {
    Done,
    /// This is of no more use and takes its time to be freed.
    Replaced(StageUpdate),
    /// This is left to do.
    More(Work),
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::net::IpAddr;

    use super::*;
    use weir_packet::frame::Mac;

    use crate::batch::{Batch, Verdict};
    use crate::drops::DropReason;
    use crate::frame::{Frame, HEAD_ROOM};
    use crate::kept::Emitted;
    use crate::nat::{Event, EventKind};
    use crate::prefix::Prefix;
    use crate::route::{Route, Target};
    use crate::scenario::packet;
    use crate::was::Was;

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
        let shown = |work: &Work| match work {
            Work::Route(RouteChange { prefix, was: Was { new: Some(target), .. } }) => {
                format!("+{}", Route { prefix: *prefix, target: target.clone() })
            }
            Work::Route(RouteChange { prefix, .. }) => format!("-{prefix}"),
            other => panic!("{other:?}"),
        };
        assert!(update.text.is_none(), "nothing else");
        update.objects.iter().map(shown).collect::<Vec<_>>().join(", ")
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
        for (old, new, why) in [
            ("a > b", "a > c", "port `c` has the number of `b`"),
            ("a > b", "a > route > b", "a bump becomes a router"),
            ("a > route > b", "a c filter(policy accept) > route > b", "port `c` has the number of `b`"),
        ] {
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
        let mut left = vec![update.objects.len()];
        while plane.accept(update).expect("room") {}
        while plane.commit(Time::from_ms(1), update) {
            left.push(update.objects.len());
        }
        left
    }

    #[test]
    fn many_routes_are_changed_in_fragments_and_leave_nothing_behind() {
        let route = |n: usize| format!("192.0.{}.{}/32 via 198.18.0.{}", n >> 8, n & 255, 10 + n % 100);
        let many = (0..600).map(route).collect::<Vec<_>>().join(", ");
        let (none, many) =
            (router("default via 198.18.0.1"), router(&format!("default via 198.18.0.1, {many}")));
        let mut plane = Plane::new(&none, &MACS);
        let mut update = Update::prepare(&none, &many).expect("routes");
        assert_eq!(calls(&mut plane, &mut update), [600, 344, 88]);
        assert_eq!(neighbours(&plane), 101);
        let mut update = Update::prepare(&many, &none).expect("routes");
        assert_eq!(calls(&mut plane, &mut update), [600, 344, 88]);
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
        let wrong = plane.take(Time::from_ms(1), update).expect_err("too many");
        assert!(wrong.contains("there are too many"), "{wrong}");
        assert_eq!(plane.filter_counts()[0][0].0, "policy drop");
        assert_eq!(neighbours(&plane), 0);
        // What was accepted and then declined has not changed anything either.
        new.routes = Some((0..100).map(route).collect());
        let mut update = Update::prepare(&old, &new).expect("fewer");
        while plane.accept(&mut update).expect("room") {}
        assert_eq!(neighbours(&plane), 100);
        while plane.decline(&mut update) {}
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
            let text = update.text.expect("stages differ");
            let entries = [Dir::Outward, Dir::Inward].map(|dir| text.entry_of(gone, dir));
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
