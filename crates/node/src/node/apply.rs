//! Another text for a node that runs.
//!
//! ```text
//! numbers > ports that come are opened > updates prepared > room in each thread > filters of sockets
//!         > each thread, between two batches: places for ports that come > its update, piece by piece
//!         > each thread: ports that come into their places, those that went out of them, closed here
//! ```
//! Invariant: what fails has changed nothing. A number of a port that went is free again when no thread keeps a frame of it and none
//! is on its way to one: frames of it that come out of a ring are dropped, so that none of these is kept any more.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use weir_plane::{Port as TextPort, Update};
use weir_port::duplex::{Chunk, Port};

use super::ports::{Arranged, PortChoice, numbers};
use super::{Node, NodeError, answers};
use crate::applied::Applied;
use crate::backend::OpenError;
use crate::config::{Config, Settings};
use crate::counters::Shown;
use crate::links::watches;
use crate::running_config::{Resting, RunningConfig, by_thread, without_machine};
use crate::worker::PortParts;

/// By so much [`weir_plane::Plane::frames_epoch`] grows until a frame has gone that stages keep one behind the other: by one for each, and
/// there are at most 15 stages.
const REST: u64 = 64;

/// For each thread its part of a port.
pub type PartsOfPort = Vec<Box<dyn Port>>;

impl Node {
    /// Takes over another configuration between two batches; sessions stay. Ports that come are opened in the calling thread's network
    /// namespace, with its privileges.
    ///
    /// # Errors
    /// What differs cannot change while it runs, a port cannot be opened, or it has ended.
    pub fn apply(&self, config: &Config) -> Result<Applied, NodeError> {
        self.apply_arranged(config, |arranged, running| arranged.open(running))
    }

    /// The same where ports that come are open already: `port` gives for each thread its part.
    ///
    /// # Errors
    /// What differs cannot change while it runs, `port` gives none, or it has ended.
    pub fn apply_between(
        &self,
        config: &Config,
        mut port: impl FnMut(&TextPort) -> Result<PartsOfPort, OpenError>,
    ) -> Result<Applied, NodeError> {
        self.apply_arranged(config, |arranged, _| {
            let mut open = |&n: &usize| {
                let text = &arranged.plane.ports[n];
                port(text).map_err(|source| NodeError::Open { port: text.name.clone(), source })
            };
            arranged.new.iter().map(&mut open).collect()
        })
    }

    fn apply_arranged(
        &self,
        config: &Config,
        open: impl FnOnce(&Arranged, &RunningConfig) -> Result<Vec<PartsOfPort>, NodeError>,
    ) -> Result<Applied, NodeError> {
        let mut running = self.running.lock().expect("no thread panics with it");
        if let Some(what) = other_setting(&running.settings, &config.settings) {
            let text = format!("another `{what}` of `run`: this takes a restart of the node");
            return Err(NodeError::Update(text));
        }
        self.free_numbers(&mut running)?;
        let threads = self.threads.len();
        let arranged = Arranged::new(&running, config).map_err(NodeError::Update)?;
        let unheard = without_machine(&arranged.plane, &running.settings);
        let update = |new: &weir_plane::Config| {
            let update = Update::prepare(&running.config, new).map_err(NodeError::Update)?;
            Ok(update.without_machine(unheard.clone()))
        };
        let updates = by_thread(arranged.plane.clone(), threads, update);
        let updates = updates.into_iter().collect::<Result<Vec<_>, NodeError>>()?;
        let mut opened = open(&arranged, &running)?;
        self.links.lock().expect("no thread panics with it").add(watches(&mut opened));
        let updates = self.accept(updates)?;
        if let Err(wrong) = self.choose(&arranged.choices) {
            self.decline(updates)?;
            return Err(wrong);
        }
        // A caller that reads the log meanwhile sees the end of a session before its port is allocated again.
        let mut unread_log = self.unread_log.lock().expect("no thread panics with it");
        self.make_places(&arranged, &running)?;
        let (updates, turns) = self.commit(updates)?;
        self.exchange_ports(arranged.parts(&running, opened))?;
        for update in updates {
            unread_log.add(update.unread_log());
        }
        self.nats_changed.store(true, Ordering::Release);
        self.rest(&mut running, &arranged)?;
        running.take(arranged);
        *self.names.lock().expect("no thread panics with it") = running.port_names().into();
        Ok(running.applied(turns))
    }

    /// Ports take other frames from their interfaces, or none does.
    fn choose(&self, choices: &[PortChoice]) -> Result<(), NodeError> {
        if choices.is_empty() {
            return Ok(());
        }
        let wrong = |error| {
            NodeError::Update(format!("a port cannot take other VLAN tags from its interface: {error}"))
        };
        let numbers: Arc<[usize]> = choices.iter().map(|choice| choice.number).collect();
        let choosers = self.ask(move |worker| worker.choosers(&numbers))?.into_iter();
        let choosers = choosers.collect::<std::io::Result<Vec<_>>>().map_err(wrong)?;
        let all = choosers.iter().flat_map(|of_thread| of_thread.iter().zip(choices));
        let all: Vec<_> = all.filter_map(|(chooser, choice)| Some((chooser.as_ref()?, choice))).collect();
        for (done, (chooser, choice)) in all.iter().enumerate() {
            if let Err(error) = chooser.choose(&choice.before, &choice.now) {
                // What was as it is can be so again.
                all[..done]
                    .iter()
                    .for_each(|(chooser, choice)| _ = chooser.choose(&choice.now, &choice.before));
                return Err(wrong(error));
            }
        }
        Ok(())
    }

    /// There are places for ports that come.
    fn make_places(&self, arranged: &Arranged, running: &RunningConfig) -> Result<(), NodeError> {
        let places = arranged.plane.ports.len();
        if places == running.config.ports.len() {
            return Ok(());
        }
        let shown = self.ask(move |worker| worker.make_places(places))?;
        for (thread, shown) in self.threads.iter().zip(shown) {
            thread.show(shown.map_err(NodeError::Stopped)?);
        }
        Ok(())
    }

    /// Ports that come take their places in all threads, and others go, which are closed here.
    fn exchange_ports(&self, parts: Vec<PortParts>) -> Result<(), NodeError> {
        let exchange = |(thread, parts): (&super::Thread, PortParts)| {
            thread.ask(move |worker| worker.exchange_ports(parts))
        };
        let exchanged = answers(self.threads.iter().zip(parts).map(exchange).collect())?;
        let mut closing = Vec::new();
        for (thread, exchanged) in self.threads.iter().zip(exchanged) {
            let (replaced, shown) = exchanged.map_err(NodeError::Stopped)?;
            thread.show(shown);
            closing.push((thread, replaced));
        }
        for (thread, replaced) in closing {
            let chunks: Vec<Chunk> = replaced.into_iter().flat_map(|port| port.close()).collect();
            if !chunks.is_empty() {
                answers(vec![thread.ask(move |worker| worker.take_back(chunks))])?;
            }
        }
        Ok(())
    }

    /// The numbers of ports that went rest until no frame names them.
    fn rest(&self, running: &mut RunningConfig, arranged: &Arranged) -> Result<(), NodeError> {
        if arranged.gone.is_empty() {
            return Ok(());
        }
        let since = self.ask(|worker| worker.plane.frames_epoch())?;
        running.resting.extend(numbers(&arranged.gone).map(|number| Resting {
            number,
            since: since.clone(),
            is_unkept: false,
            is_unhanded: vec![false; since.len()],
        }));
        Ok(())
    }

    /// Numbers that no frame names any more are free.
    fn free_numbers(&self, running: &mut RunningConfig) -> Result<(), NodeError> {
        if running.resting.is_empty() {
            return Ok(());
        }
        let epochs = self.ask(|worker| worker.plane.frames_epoch())?;
        // Behind that: what a frame that was kept has become is in a ring by now.
        let unhanded = self.ask(|worker| worker.is_unhanded())?;
        for resting in &mut running.resting {
            resting.is_unkept |= epochs.iter().zip(&resting.since).all(|(now, since)| *now >= since + REST);
            if resting.is_unkept {
                resting.is_unhanded.iter_mut().zip(&unhanded).for_each(|(seen, now)| *seen |= now);
            }
        }
        let is_free = |resting: &mut Resting| resting.is_unkept && !resting.is_unhanded.contains(&false);
        for resting in running.resting.extract_if(.., is_free).collect::<Vec<_>>() {
            running.config.free_number(resting.number);
        }
        Ok(())
    }
}

impl super::Thread {
    /// Its counters are shown there from now on.
    fn show(&self, shown: Arc<Shown>) {
        *self.shown.lock().expect("no thread panics with it") = shown;
    }
}

impl RunningConfig {
    fn take(&mut self, arranged: Arranged) {
        let Arranged { plane, backends, own_macs, .. } = arranged;
        (self.config, self.backends, self.own_macs) = (plane, backends, own_macs);
    }
}

/// The argument of `run` that differs.
fn other_setting(old: &Settings, new: &Settings) -> Option<&'static str> {
    [
        ("threads", old.threads == new.threads),
        ("wait", old.wait == new.wait),
        ("host", old.host == new.host),
        ("fast", old.fast == new.fast),
        ("fast-entries", old.fast_entries == new.fast_entries),
        ("ports", old.right_to_open == new.right_to_open),
    ]
    .into_iter()
    .find(|(_, is_same)| !is_same)
    .map(|(name, _)| name)
}
