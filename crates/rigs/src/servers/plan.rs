//! The experiment `servers`: which servers and clients, and what is asked of them.

use std::time::Duration;

use toml_edit::Value;
use weir_apps::client::Mode;
use weir_apps::server::{Architecture, Reply};
use weir_config::rate::quantity;
use weir_config::{Section, shown, value};

/// The experiment. Lists of loads may be empty, but not all of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Servers {
    /// How servers of ours are built.
    pub architectures: Vec<Architecture>,
    /// Servers by others, which speak HTTP.
    pub(super) peers: Vec<Peer>,
    /// Clients by others, which speak HTTP.
    pub(super) clients: Vec<ClientPeer>,
    /// What servers say.
    pub replies: Vec<Reply>,
    /// Closed loop: connections at a time.
    pub concurrency: Vec<u32>,
    /// Open loop: connections per second.
    pub rates: Vec<f64>,
    /// Connections that stay open.
    pub hold: Vec<u32>,
    /// Processes of `prefork`, threads of `pool`.
    pub workers: u32,
    /// Threads of event loops that have several.
    pub reactors: u32,
    /// A process or thread each holds no more connections than this.
    pub most_tasks: u32,
    /// Connections that wait to be accepted.
    pub backlog: u32,
    /// Addresses of the client.
    pub sources: u32,
    /// Length of each trial.
    pub trial: Duration,
    /// Rounds, at least 1.
    pub rounds: u32,
}

/// Another server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Peer {
    Nginx,
    Haproxy,
}

impl Peer {
    pub(super) const ALL: [(Peer, &'static str); 2] = [(Peer::Nginx, "nginx"), (Peer::Haproxy, "haproxy")];

    pub(super) fn name(self) -> &'static str {
        Peer::ALL.iter().find(|(peer, _)| *peer == self).expect("every peer is in ALL").1
    }
}

/// Another client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClientPeer {
    Wrk,
    Oha,
}

impl ClientPeer {
    pub(super) const ALL: [(ClientPeer, &'static str); 2] =
        [(ClientPeer::Wrk, "wrk"), (ClientPeer::Oha, "oha")];

    pub(super) fn name(self) -> &'static str {
        ClientPeer::ALL.iter().find(|(peer, _)| *peer == self).expect("every peer is in ALL").1
    }
}

/// The server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Who {
    Weir(Architecture),
    Peer(Peer),
}

impl Who {
    pub(super) fn name(self) -> &'static str {
        match self {
            Who::Weir(architecture) => architecture.name(),
            Who::Peer(peer) => peer.name(),
        }
    }
}

/// What is measured at a point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Work {
    pub(super) who: Who,
    pub(super) reply: Reply,
    pub(super) mode: Mode,
    /// `None`: ours.
    pub(super) client: Option<ClientPeer>,
}

impl Servers {
    /// Building a namespace, starting and ending two programs, and connections that end after the trial.
    const AROUND_A_TRIAL: Duration = Duration::from_millis(400);
    /// A pool or prefork server never answers most of what is held: the client waits for so long.
    const HOLD: Duration = Duration::from_secs(2);

    /// The longest time that it takes, trials that end late apart.
    pub(super) fn estimate(&self) -> Duration {
        let of = |work: &Work| {
            let pools = [Architecture::Pool, Architecture::Prefork].map(Who::Weir);
            let waits = matches!(work.mode, Mode::Hold(_)) && pools.contains(&work.who);
            self.seconds(work.mode)
                + Servers::AROUND_A_TRIAL
                + if waits { Servers::HOLD } else { Duration::ZERO }
        };
        self.work().iter().map(of).sum::<Duration>() * self.rounds
    }

    /// How long new connections begin.
    pub(super) fn seconds(&self, mode: Mode) -> Duration {
        match mode {
            // As long as all take to begin.
            Mode::Hold(n) => Duration::from_micros(200) * n,
            _ => self.trial,
        }
    }

    /// All points: loads vary slowest, so that compared servers follow each other.
    pub(super) fn work(&self) -> Vec<Work> {
        let ours = self.architectures.iter().map(|&architecture| Who::Weir(architecture));
        let all: Vec<Who> = ours.chain(self.peers.iter().map(|&peer| Who::Peer(peer))).collect();
        let closed = self.concurrency.iter().map(|&n| Mode::Closed(n));
        let open = self.rates.iter().map(|&rate| Mode::Open(rate));
        let modes: Vec<Mode> = closed.chain(open).chain(self.hold.iter().map(|&n| Mode::Hold(n))).collect();
        let mut list = Vec::new();
        for &reply in &self.replies {
            for &mode in &modes {
                let takes_part = |who: &&Who| self.takes_part(**who, reply, mode);
                let servers: Vec<Who> = all.iter().filter(takes_part).copied().collect();
                list.extend(servers.iter().map(|&who| Work { who, reply, mode, client: None }));
                if reply == Reply::Http && matches!(mode, Mode::Closed(_)) {
                    // Clients differ in themselves: two servers are enough to show it.
                    let event_loops =
                        servers.iter().filter(|who| matches!(who, Who::Weir(a) if a.is_event_loop()));
                    let epoll = event_loops.clone().find(|who| **who == Who::Weir(Architecture::Epoll));
                    let peer = servers.iter().find(|who| matches!(who, Who::Peer(_)));
                    let both = epoll.or(event_loops.clone().next()).into_iter().chain(peer);
                    for &who in both {
                        let of = |&peer| Work { who, reply, mode, client: Some(peer) };
                        list.extend(self.clients.iter().map(of));
                    }
                }
            }
        }
        list
    }

    fn takes_part(&self, who: Who, reply: Reply, mode: Mode) -> bool {
        use Architecture::{Fork, ForkExec, Thread};
        match (who, mode) {
            (Who::Peer(_), Mode::Hold(_)) => false,
            (Who::Peer(_), _) => reply == Reply::Http,
            (_, Mode::Hold(_)) if reply != Reply::Busy => false,
            (Who::Weir(Fork | ForkExec | Thread), Mode::Hold(n)) => n <= self.most_tasks,
            _ => true,
        }
    }
}

/// Reads `[servers]`.
pub(super) fn read(section: Section<'_>) -> Option<Servers> {
    let architectures = section.required_axis(
        "architecture",
        "[\"fork\", \"thread\", \"epoll\"]",
        value::choice("architecture", &Architecture::ALL),
    );
    let peers = section.axis("peers", value::choice("server", &Peer::ALL));
    let clients = section.axis("client_peers", value::choice("client", &ClientPeer::ALL));
    let replies = section.axis("reply", value::choice("reply", &Reply::ALL));
    let [concurrency, hold] =
        ["concurrency", "hold"].map(|key| section.axis(key, value::count(1..=50_000)).unwrap_or_default());
    let rates = section.axis("rate", rate).unwrap_or_default();
    let count = |key, range, default| section.one(key, value::count(range)).unwrap_or(default);
    let (workers, reactors) = (count("workers", 1..=256, 64), count("reactors", 1..=256, 2));
    let most_tasks = count("most_tasks", 1..=50_000, 2000);
    let (backlog, sources) = (count("backlog", 1..=65_535, 65_535), count("sources", 1..=1000, 16));
    let trial = section.one("trial_s", value::seconds_up_to::<600>).unwrap_or(Duration::from_secs(1));
    let rounds = count("rounds", 1..=1000, 5);
    if section.is_present() && concurrency.is_empty() && rates.is_empty() && hold.is_empty() {
        section.wrong("architecture", "nothing is asked of them: add concurrency, rate or hold".into());
    }
    let replies = replies.unwrap_or(vec![Reply::Busy]);
    section.finish();
    Some(Servers {
        architectures: architectures?,
        peers: peers.unwrap_or_default(),
        clients: clients.unwrap_or_default(),
        replies,
        concurrency,
        rates,
        hold,
        workers,
        reactors,
        most_tasks,
        backlog,
        sources,
        trial,
        rounds,
    })
}

fn rate(value: &Value) -> Result<f64, String> {
    let rate = quantity(&shown(value)).ok().filter(|rate| (1.0..=1e7).contains(rate));
    rate.ok_or_else(|| format!("`{}` is no rate: use 1 to 10M connections/s, such as \"2k\"", shown(value)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PLANS;
    use weir_testkit::{golden, set_mistakes};

    fn servers(sets: &[&str]) -> Result<Servers, String> {
        let sets: Vec<String> = sets.iter().map(|set| set.to_string()).collect();
        let plan = PLANS.load("servers", &sets).map_err(|error| error.to_string())?;
        Ok(plan.experiment.of::<Servers>().expect("of this rig").clone())
    }

    #[test]
    fn mistakes_have_remedies() {
        let sets = [
            "servers.architecture=epol",
            "servers.reply=bsy",
            "servers.rate=0",
            "servers.concurrency=0",
            "servers.peers=apache",
        ];
        golden!("src/servers/mistakes.txt", &set_mistakes(&sets, |sets| PLANS.load("servers", sets)));
    }

    #[test]
    fn the_short_form_is_short() {
        let short = PLANS.load_short("servers", &[]).unwrap();
        assert!(short.estimate() <= Duration::from_secs(120), "{:?}", short.estimate());
    }

    #[test]
    fn points_are_what_can_be_measured() {
        let plan = servers(&[]).unwrap();
        let work = plan.work();
        let is_peer = |work: &&Work| matches!(work.who, Who::Peer(_)) || work.client.is_some();
        assert!(work.iter().filter(is_peer).all(|work| work.reply == Reply::Http));
        let held = work.iter().filter_map(|work| match (work.mode, work.who) {
            (Mode::Hold(n), Who::Weir(Architecture::Fork)) => Some(n),
            _ => None,
        });
        assert!(held.max() <= Some(plan.most_tasks));
        let of = |architecture| work.iter().filter(|w| w.who == Who::Weir(architecture)).count();
        assert!(of(Architecture::Epoll) > of(Architecture::Fork), "one event loop holds all");
    }
}
