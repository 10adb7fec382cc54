//! Events of the node on their way to the clients that subscribe to them.
//!
//! ```text
//!   any thread > Hub::publish > the mailbox of each client > the thread of that client
//!                               bounded: what does not fit is left out and counted
//! ```
//! Invariant: the thread that publishes never waits for a client, and for each subscription the events that were sent and the
//! numbers that were left out add up to all events since it began, in their order.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard};

use rustix::event::{EventfdFlags, eventfd};
use serde::Serialize;

/// Most events that wait for a client.
pub(crate) const MOST_EVENTS: usize = 4096;
/// Most bytes of them.
pub(crate) const MOST_BYTES: usize = 4 << 20;

/// The clients that subscribe to events.
#[derive(Default)]
pub(crate) struct Hub {
    subscribers: Mutex<Vec<Arc<Mailbox>>>,
    /// One client at a time becomes a subscriber.
    beginning: Mutex<()>,
}

impl Hub {
    /// Sends an event to all that subscribe. If none does, it costs a lock.
    pub(crate) fn publish(&self, event: &impl Serialize) {
        let subscribers = self.subscribers();
        if subscribers.is_empty() {
            return;
        }
        let text: Arc<str> = serde_json::to_string(event).expect("events are plain data").into();
        subscribers.iter().for_each(|mailbox| mailbox.put(&text));
    }

    /// Whether any client subscribes.
    pub(crate) fn has_subscribers(&self) -> bool {
        !self.subscribers().is_empty()
    }

    /// Begins a subscription of a client; `before_first` is called before, if there was no other subscriber.
    pub(crate) fn subscribe(&self, mailbox: &Arc<Mailbox>, id: u64, before_first: &dyn Fn()) {
        // Publishing goes on meanwhile.
        let _beginning = self.beginning.lock().expect("no thread panics while it holds the lock");
        if !self.has_subscribers() {
            before_first();
        }
        mailbox.state().subscriptions.push(Subscription { id, left_out: 0 });
        let mut subscribers = self.subscribers();
        if !subscribers.iter().any(|other| Arc::ptr_eq(other, mailbox)) {
            subscribers.push(mailbox.clone());
        }
    }

    /// Ends a subscription; false if there was none with this number.
    pub(crate) fn unsubscribe(&self, mailbox: &Arc<Mailbox>, id: u64) -> bool {
        let (was_there, is_last) = mailbox.unsubscribe(id);
        if is_last {
            self.leave(mailbox);
        }
        was_there
    }

    /// Ends all subscriptions of a client.
    pub(crate) fn leave(&self, mailbox: &Arc<Mailbox>) {
        self.subscribers().retain(|other| !Arc::ptr_eq(other, mailbox));
    }

    fn subscribers(&self) -> MutexGuard<'_, Vec<Arc<Mailbox>>> {
        self.subscribers.lock().expect("no thread panics while it holds the lock")
    }
}

/// Why the node ends a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Another client has its place.
    Replaced {
        /// How many places there are.
        places: usize,
    },
    /// The node ends.
    Over,
}

/// A message to a client that is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Notice {
    /// An event, in JSON.
    Event {
        /// The number of the subscription.
        subscription: u64,
        /// The event.
        text: Arc<str>,
    },
    /// Events for which there was no room here.
    LeftOut {
        /// The number of the subscription.
        subscription: u64,
        /// How many.
        events: u64,
    },
}

/// What other threads have for the thread of a client.
pub(crate) struct Mailbox {
    wake: OwnedFd,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    subscriptions: Vec<Subscription>,
    waiting: VecDeque<Notice>,
    /// Of the events that wait.
    bytes: usize,
    ending: Option<Ending>,
}

struct Subscription {
    id: u64,
    /// Events after those that wait.
    left_out: u64,
}

impl Mailbox {
    /// An empty one.
    ///
    /// # Errors
    /// This process has no descriptor left.
    pub(crate) fn new() -> io::Result<Mailbox> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Mailbox { wake, state: Mutex::default() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics while it holds the lock")
    }

    /// Can be read when there is news.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// The news is about to be looked at.
    pub(crate) fn quiet(&self) {
        // Without news there is nothing to read.
        let _ = rustix::io::read(&self.wake, &mut [0; 8]);
    }

    fn ring(&self) {
        // A counter that is at its end can be read, too.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    fn put(&self, text: &Arc<str>) {
        let mut state = self.state();
        let was_empty = state.waiting.is_empty();
        let State { subscriptions, waiting, bytes, .. } = &mut *state;
        for Subscription { id, left_out } in subscriptions {
            if waiting.len() >= MOST_EVENTS || *bytes + text.len() > MOST_BYTES {
                *left_out += 1;
                continue;
            }
            waiting.extend(notice_of(*id, left_out));
            *bytes += text.len();
            waiting.push_back(Notice::Event { subscription: *id, text: text.clone() });
        }
        drop(state);
        if was_empty {
            self.ring();
        }
    }

    /// The next one that waits.
    pub(crate) fn take(&self) -> Option<Notice> {
        let mut state = self.state();
        let Some(notice) = state.waiting.pop_front() else {
            return state.subscriptions.iter_mut().find_map(|one| notice_of(one.id, &mut one.left_out));
        };
        state.bytes -= bytes_of(&notice);
        Some(notice)
    }

    /// How many subscriptions to events there are.
    pub(crate) fn subscriptions(&self) -> usize {
        self.state().subscriptions.len()
    }

    /// Whether a subscription has this number.
    pub(crate) fn has(&self, id: u64) -> bool {
        self.state().subscriptions.iter().any(|one| one.id == id)
    }

    /// Whether a subscription has ended thereby, and whether there is none left.
    fn unsubscribe(&self, id: u64) -> (bool, bool) {
        let mut state = self.state();
        let before = state.subscriptions.len();
        state.subscriptions.retain(|one| one.id != id);
        let is_other = |notice: &Notice| match notice {
            Notice::Event { subscription, .. } | Notice::LeftOut { subscription, .. } => *subscription != id,
        };
        state.waiting.retain(is_other);
        state.bytes = state.waiting.iter().map(bytes_of).sum();
        (state.subscriptions.len() < before, state.subscriptions.is_empty())
    }

    /// Ends the connection.
    pub(crate) fn end(&self, ending: Ending) {
        self.state().ending.get_or_insert(ending);
        self.ring();
    }

    /// Why the connection is to end now.
    pub(crate) fn ending(&self) -> Option<Ending> {
        self.state().ending.clone()
    }
}

fn bytes_of(notice: &Notice) -> usize {
    match notice {
        Notice::Event { text, .. } => text.len(),
        Notice::LeftOut { .. } => 0,
    }
}

/// What was left out, if anything was.
fn notice_of(subscription: u64, left_out: &mut u64) -> Option<Notice> {
    match std::mem::take(left_out) {
        0 => None,
        events => Some(Notice::LeftOut { subscription, events }),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn subscriber(hub: &Hub, ids: &[u64]) -> Arc<Mailbox> {
        let mailbox = Arc::new(Mailbox::new().expect("a descriptor"));
        ids.iter().for_each(|&id| hub.subscribe(&mailbox, id, &|| {}));
        mailbox
    }

    fn has_rung(mailbox: &Mailbox) -> bool {
        rustix::io::read(&mailbox.wake, &mut [0; 8]).is_ok()
    }

    /// What a mailbox has: events as they are, numbers of those that were left out in brackets.
    fn all(mailbox: &Mailbox) -> Vec<String> {
        let notices = std::iter::from_fn(|| mailbox.take());
        let shown = notices.map(|notice| match notice {
            Notice::Event { subscription, text } => format!("{subscription}: {text}"),
            Notice::LeftOut { subscription, events } => format!("{subscription}: [{events}]"),
        });
        shown.collect()
    }

    #[test]
    fn events_go_to_all_subscriptions_until_they_end() {
        let hub = Hub::default();
        hub.publish(&0);
        let (one, two) = (subscriber(&hub, &[7, 8]), subscriber(&hub, &[7]));
        assert!(!has_rung(&one));
        hub.publish(&1);
        assert!(has_rung(&one) && has_rung(&two));
        hub.publish(&2);
        assert!(!has_rung(&one), "it has not looked yet");
        assert!(hub.unsubscribe(&one, 7) && !hub.unsubscribe(&one, 7) && one.has(8) && !one.has(7));
        hub.leave(&two);
        hub.publish(&3);
        assert_eq!(all(&one), ["8: 1", "8: 2", "8: 3"]);
        assert_eq!(all(&two), ["7: 1", "7: 2"]);
        assert!(hub.unsubscribe(&one, 8) && !hub.has_subscribers());
    }

    #[test]
    fn what_does_not_fit_is_counted_at_its_place() {
        let hub = Hub::default();
        let mailbox = subscriber(&hub, &[7]);
        let most = MOST_EVENTS as u64;
        (0..most + 5).for_each(|n| hub.publish(&n));
        for n in 0..2 {
            assert!(matches!(mailbox.take(), Some(Notice::Event { text, .. }) if *text == *n.to_string()));
        }
        // Now there is room, for the number and for one event.
        hub.publish(&"x");
        hub.publish(&"y");
        let found = all(&mailbox);
        assert_eq!(found.len() as u64, most - 2 + 3);
        let last: Vec<&str> = found[found.len() - 4..].iter().map(String::as_str).collect();
        assert_eq!(last, [&format!("7: {}", most - 1), "7: [5]", "7: \"x\"", "7: [1]"]);
        assert_eq!(all(&mailbox), [""; 0]);
    }

    #[test]
    fn long_events_have_their_own_limit() {
        let hub = Hub::default();
        let mailbox = subscriber(&hub, &[7]);
        let long = "x".repeat(MOST_BYTES / 4);
        (0..6).for_each(|_| hub.publish(&long));
        let found = all(&mailbox);
        assert_eq!((found.len(), found[3].as_str()), (4, "7: [3]"));
        hub.publish(&"x".repeat(MOST_BYTES));
        hub.publish(&1);
        assert_eq!(all(&mailbox), ["7: [1]", "7: 1"]);
    }

    #[test]
    fn what_comes_before_the_first_subscriber_is_done_once() {
        let hub = Hub::default();
        let begun = Cell::new(0);
        let mailbox = Arc::new(Mailbox::new().expect("a descriptor"));
        let subscribe = |id| hub.subscribe(&mailbox, id, &|| begun.set(begun.get() + 1));
        [1, 2].into_iter().for_each(subscribe);
        assert_eq!(begun.get(), 1);
        hub.leave(&mailbox);
        subscribe(3);
        assert_eq!(begun.get(), 2);
    }
}
