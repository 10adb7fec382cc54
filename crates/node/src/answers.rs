//! How a node that runs answers: what its threads have is put together, and pages are made of what its text says.

use std::collections::BTreeMap;
use std::time::UNIX_EPOCH;

use weir_linux::rtnl::Rtnl;
use weir_plane::{
    FastState, ForwardEntry, GroupState, LabelCounts, PoliceCounts, QueueCounts, RuleCount, SessionRecord,
    SubscriberCount, SubscriberState,
};

use crate::carrier::has_carrier;
use crate::counters::Snapshot;
use crate::node::{Node, NodeError, answers};
use crate::query::{
    Answer, Counters, EndedSubscribers, EndedSubscribersQuery, Fast, Forwards, ForwardsQuery, Groups, Log,
    Neighbours, NeighboursQuery, OneToOne, OneToOneQuery, Plans, Police, PortCounters, PortState, Ports,
    Query, Queues, RemovedSubscribers, RemovedSubscribersQuery, Routes, RoutesQuery, Rules, Sessions,
    SessionsCursor, SessionsQuery, SubscriberCounts, Subscribers, SubscribersQuery, drops,
};
use crate::worker::Worker;

/// Records of a page, if the question does not say.
const USUAL: u32 = 1_000;
/// Records of a page at most.
const MOST: u32 = 10_000;
/// Pages of threads that are looked at for one page of an answer.
const LOOKS: usize = 64;

fn most(asked: Option<u32>) -> usize {
    asked.unwrap_or(USUAL).clamp(1, MOST) as usize
}

/// A page of what `behind` gives up to so many of, and where the next one begins, if there is more.
fn page<T, C>(
    asked: Option<u32>,
    behind: impl FnOnce(usize) -> Vec<T>,
    place: impl FnOnce(&T) -> C,
) -> (Vec<T>, Option<C>) {
    let most = most(asked);
    let mut all = behind(most + 1);
    let more = all.len() > most;
    all.truncate(most);
    let next = all.last().filter(|_| more).map(place);
    (all, next)
}

impl Node {
    /// Answers a question.
    ///
    /// # Errors
    /// It has ended.
    pub fn query(&self, query: &Query) -> Result<Answer, NodeError> {
        Ok(match query {
            Query::Counters => Answer::Counters(Counters::of(&self.count()?, &self.port_names())),
            Query::Drops => Answer::Drops(drops(&Snapshot::sum(&self.count()?), &self.port_names())),
            Query::Ports => Answer::Ports(self.ports()),
            Query::Sessions(query) => Answer::Sessions(self.sessions(query)?),
            Query::Routes(query) => Answer::Routes(self.routes(query)),
            Query::Neighbours(query) => Answer::Neighbours(self.neighbours(query)?),
            Query::Subscribers(query) => Answer::Subscribers(self.subscribers(query)?),
            Query::RemovedSubscribers(query) => Answer::RemovedSubscribers(self.removed_subscribers(query)?),
            Query::EndedSubscribers(query) => Answer::EndedSubscribers(self.ended_subscribers(query)?),
            Query::SubscriberCounts(query) => Answer::SubscriberCounts(self.subscriber_counts(query)?),
            Query::Plans => Answer::Plans(Plans { plans: self.plans()? }),
            Query::Groups => Answer::Groups(Groups { groups: self.groups()? }),
            Query::Forwards(query) => Answer::Forwards(self.forwards(query)),
            Query::OneToOne(query) => Answer::OneToOne(self.one_to_one(query)),
            Query::Rules => Answer::Rules(Rules { rules: self.rules()? }),
            Query::Queues => {
                Answer::Queues(Queues { queues: self.queues()?.into_iter().map(Into::into).collect() })
            }
            Query::Police => Answer::Police(Police { police: self.policers()? }),
            Query::Log => Answer::Log(Log { log: self.logged()? }),
            Query::Fast => Answer::Fast(self.fast_answer()?),
        })
    }

    /// The names of its ports by their numbers; empty: no port has the number, since it was removed.
    pub fn port_names(&self) -> Vec<String> {
        self.names.lock().expect("no thread panics with it").to_vec()
    }

    fn ports(&self) -> Ports {
        let running = self.running.lock().expect("no thread panics with it");
        let all = running.config.ordered().map(|(number, port)| (usize::from(number.0), port));
        let mut rtnl = Rtnl::open().ok();
        let one = |(number, port): (usize, &weir_plane::Port)| PortState {
            number,
            port: port.name.clone(),
            left: port.is_left(),
            on: running.backends[number].as_ref().map(ToString::to_string).unwrap_or_default(),
            addresses: port.addresses.clone(),
            mac: running.mac(number),
            mtu: port.mtu,
            up: has_carrier(&mut rtnl, running.backends[number].as_ref()),
        };
        Ports { ports: all.map(one).collect() }
    }

    /// A page of sessions.
    ///
    /// # Errors
    /// It has ended.
    pub fn sessions(&self, query: &SessionsQuery) -> Result<Sessions, NodeError> {
        let live = |worker: &mut Worker| {
            u64::from(worker.plane.nat_usage().sessions) + u64::from(worker.plane.connections())
        };
        let _of_one_text = self.unread_log.lock().expect("no thread panics with it");
        let live: u64 = self.ask(live)?.iter().sum();
        let (mut sessions, mut from) = (Vec::new(), Some(query.after.unwrap_or_default()));
        for _ in 0..LOOKS {
            let Some(at) = from.filter(|_| sessions.len() < most(query.most)) else { break };
            let Some(thread) = self.threads.get(at.thread) else {
                from = None;
                break;
            };
            // A page between two batches; its records are made here.
            let page = thread.ask(move |worker| worker.plane.sessions(at.at));
            for (some, next) in answers(vec![page])? {
                let is_wanted =
                    |record: &SessionRecord| query.address.is_none_or(|address| record.has(address));
                sessions.extend(some.iter().map(|one| one.record()).filter(is_wanted));
                let next_thread = SessionsCursor { thread: at.thread + 1, ..SessionsCursor::default() };
                let there = next.map(|next| SessionsCursor { thread: at.thread, at: next });
                from = there.or(Some(next_thread).filter(|next| next.thread < self.threads.len()));
            }
        }
        Ok(Sessions { live, sessions, next: from })
    }

    fn routes(&self, query: &RoutesQuery) -> Routes {
        let running = self.running.lock().expect("no thread panics with it");
        let behind = |most| running.config.routes_behind(query.after, query.within, most);
        let (routes, next) = page(query.most, behind, |last| last.prefix);
        let total = running.config.routes.as_ref().map_or(0, |routes| routes.len() as u64);
        Routes { total, routes, next }
    }

    /// All threads know the same neighbours: the first one is asked.
    fn neighbours(&self, query: &NeighboursQuery) -> Result<Neighbours, NodeError> {
        let from = query.after.unwrap_or_default();
        let names = self.names.lock().expect("no thread panics with it").clone();
        let page = self.threads[0].ask(move |worker| worker.plane.neighbours(from, &names));
        let (mut neighbours, next) = answers(vec![page])?.remove(0);
        neighbours.retain(|one| query.port.as_ref().is_none_or(|port| one.port == *port));
        Ok(Neighbours { neighbours, next })
    }

    /// A node with sessions has one thread.
    fn subscribers(&self, query: &SubscribersQuery) -> Result<Subscribers, NodeError> {
        let names = self.names.lock().expect("no thread panics with it").clone();
        let (mut subscribers, mut next) = (Vec::new(), Some(query.after.unwrap_or_default()));
        let began_s = self.began().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        for _ in 0..LOOKS {
            let Some(from) = next.filter(|_| subscribers.len() < most(query.most)) else { break };
            let names = names.clone();
            let page = self.threads[0].ask(move |worker| worker.plane.subscribers(from, &names));
            let (some, more) = answers(vec![page])?.remove(0);
            subscribers.extend(some.into_iter().map(|state| SubscriberState {
                last_seen_s: state.last_seen_s.map(|seen_s| began_s + seen_s),
                ..state
            }));
            next = more;
        }
        Ok(Subscribers { subscribers, next })
    }

    fn removed_subscribers(&self, query: &RemovedSubscribersQuery) -> Result<RemovedSubscribers, NodeError> {
        Ok(RemovedSubscribers { removed: self.counts_of_removed(query.sessions.clone())? })
    }

    fn counts_of_removed(&self, sessions: Vec<u64>) -> Result<Vec<SubscriberCount>, NodeError> {
        let removed = self.threads[0].ask(move |worker| worker.plane.removed_subscribers(&sessions));
        Ok(answers(vec![removed])?.remove(0))
    }

    /// A page of sessions that the node has ended. One that the control program has added once more is none of them.
    fn ended_subscribers(&self, query: &EndedSubscribersQuery) -> Result<EndedSubscribers, NodeError> {
        let behind = |most: usize| {
            let running = self.running.lock().expect("no thread panics with it");
            let grace = self.grace.lock().expect("no thread panics with it");
            let ended = grace.ended_after(query.after);
            ended.filter(|session| !running.config.has_session(*session)).take(most).collect()
        };
        let (sessions, next) = page(query.most, behind, |session: &u64| *session);
        Ok(EndedSubscribers { ended: self.counts_of_removed(sessions)?, next })
    }

    fn subscriber_counts(&self, query: &SubscribersQuery) -> Result<SubscriberCounts, NodeError> {
        let (mut counts, mut next) = (Vec::new(), Some(query.after.unwrap_or_default()));
        for _ in 0..LOOKS {
            let Some(from) = next.filter(|_| counts.len() < most(query.most)) else { break };
            let page = self.threads[0].ask(move |worker| worker.plane.subscriber_counts(from));
            let (some, more) = answers(vec![page])?.remove(0);
            counts.extend(some);
            next = more;
        }
        Ok(SubscriberCounts { counts, next })
    }

    fn forwards(&self, query: &ForwardsQuery) -> Forwards {
        let running = self.running.lock().expect("no thread panics with it");
        let behind = |most| running.config.forwards_behind(query.after.as_ref(), most);
        let (forwards, next) = page(query.most, behind, ForwardEntry::clone);
        Forwards { forwards, next }
    }

    fn one_to_one(&self, query: &OneToOneQuery) -> OneToOne {
        let running = self.running.lock().expect("no thread panics with it");
        let behind = |most| running.config.one_to_one_behind(query.after, most);
        let (one_to_one, next) = page(query.most, behind, |last| (last.stage, last.outside));
        OneToOne { one_to_one, next }
    }

    /// What the rules of its filters held for.
    ///
    /// # Errors
    /// It has ended.
    pub fn rules(&self) -> Result<Vec<RuleCount>, NodeError> {
        let _of_one_text = self.unread_log.lock().expect("no thread panics with it");
        let mut of_threads = self.ask(|worker| worker.plane.rule_counts())?.into_iter();
        let mut rules = of_threads.next().expect("a node has a thread");
        for other in of_threads {
            for (to, from) in rules.iter_mut().zip(other) {
                (to.frames, to.bytes) = (to.frames + from.frames, to.bytes + from.bytes);
            }
        }
        Ok(rules)
    }

    /// What its queues have done, in the order of the text.
    ///
    /// # Errors
    /// It has ended.
    pub fn queues(&self) -> Result<Vec<QueueCounts>, NodeError> {
        Ok(self.ask(|worker| worker.plane.queue_counts())?.into_iter().flatten().collect())
    }

    /// What sessions of subscribers have counted, by plan and group.
    ///
    /// # Errors
    /// It has ended.
    pub fn plans(&self) -> Result<Vec<LabelCounts>, NodeError> {
        // A node with sessions has one thread.
        Ok(self.ask(|worker| worker.plane.label_counts())?.into_iter().flatten().collect())
    }

    /// Ports and groups of subscribers that share a rate.
    ///
    /// # Errors
    /// It has ended.
    pub fn groups(&self) -> Result<Vec<GroupState>, NodeError> {
        let names = self.port_names();
        // A node with sessions has one thread.
        Ok(self.ask(move |worker| worker.plane.groups(&names))?.into_iter().flatten().collect())
    }

    /// What its policers have done, in the order of the text.
    ///
    /// # Errors
    /// It has ended.
    pub fn policers(&self) -> Result<Vec<PoliceCounts>, NodeError> {
        Ok(self.ask(|worker| worker.plane.police_counts())?.into_iter().flatten().collect())
    }

    /// Frames that rules of its filters have written down since the last call, in words.
    ///
    /// # Errors
    /// It has ended.
    pub fn logged(&self) -> Result<Vec<String>, NodeError> {
        let mut all = std::mem::take(&mut self.unread_log.lock().expect("no thread panics with it").logged);
        all.extend(self.ask(|worker| worker.plane.logged())?.into_iter().flatten());
        all.sort_by_key(|logged| logged.time);
        Ok(all.iter().map(ToString::to_string).collect())
    }

    /// How its fast path is; `None`: it has none.
    ///
    /// # Errors
    /// It has ended.
    pub fn fast(&self) -> Result<Option<FastState>, NodeError> {
        Ok(self.ask(|worker| worker.plane.fast_state())?.into_iter().flatten().next())
    }
    fn fast_answer(&self) -> Result<Fast, NodeError> {
        let Some(FastState { on, entries, counts }) = self.fast()? else {
            let fast = "off: write run(fast on) in the node's file".to_string();
            return Ok(Fast {
                fast,
                entries: None,
                frames: None,
                ports: Vec::new(),
                to_the_node: BTreeMap::new(),
            });
        };
        let port =
            |(name, (&received, &sent)): (String, (&u64, &u64))| PortCounters { port: name, received, sent };
        let ports = self.port_names().into_iter().zip(counts.received.iter().zip(&counts.sent)).map(port);
        let punts = counts.punts.iter().filter(|(_, frames)| *frames > 0);
        let state = if on { "on" } else { "waiting: not all ports take frames that are redirected to them" };
        Ok(Fast {
            fast: state.to_string(),
            entries: Some(entries),
            frames: Some(counts.received.iter().sum()),
            ports: ports.collect(),
            to_the_node: punts.map(|(reason, frames)| (reason.to_string(), *frames)).collect(),
        })
    }
}
