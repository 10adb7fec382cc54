//! Commands of operators: who waits for which.

use std::collections::{HashMap, VecDeque};
use std::sync::mpsc::Receiver;

use tokio::sync::oneshot;
use weir_bng::{Command, CommandError, Subscriber};

use crate::asks::{Ask, Look};

/// Most commands of a turn: frames of clients do not wait for a long list.
const MOST: usize = 256;

/// What is next.
pub(super) enum Next {
    /// A command with its number.
    Command(u64, Command),
    /// A look at the state.
    Look(Look),
}

/// A command that is carried out.
enum Waits {
    One(oneshot::Sender<Result<(), CommandError>>),
    /// The place in a list.
    InList(u64, usize),
}

/// A list of subscribers that are added.
struct List {
    /// How many were not carried out yet.
    left: usize,
    refused: Vec<(usize, CommandError)>,
    answer: oneshot::Sender<Vec<(usize, CommandError)>>,
}

/// Questions and commands, and those who wait for them.
pub(super) struct Operators {
    asks: Receiver<Ask>,
    numbers: u64,
    waiting: HashMap<u64, Waits>,
    lists: HashMap<u64, List>,
    /// Subscribers of lists that were not added yet.
    to_add: VecDeque<(u64, usize, Subscriber)>,
}

impl Operators {
    pub(super) fn new(asks: Receiver<Ask>) -> Operators {
        let (waiting, lists, to_add) = Default::default();
        Operators { asks, numbers: 0, waiting, lists, to_add }
    }

    /// A number for a command.
    pub(super) fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// What is asked now, up to the most of a turn.
    pub(super) fn next(&mut self) -> Vec<Next> {
        let mut all = Vec::new();
        while all.len() < MOST {
            if let Some((list, place, subscriber)) = self.to_add.pop_front() {
                let id = self.number();
                self.waiting.insert(id, Waits::InList(list, place));
                all.push(Next::Command(id, Command::AddSubscriber(subscriber)));
                continue;
            }
            match self.asks.try_recv() {
                Ok(Ask::Look(look)) => all.push(Next::Look(look)),
                Ok(Ask::Command(command, answer)) => {
                    let id = self.number();
                    self.waiting.insert(id, Waits::One(answer));
                    all.push(Next::Command(id, *command));
                }
                Ok(Ask::Add(subscribers, answer)) => self.begin(subscribers, answer),
                Err(_) => break,
            }
        }
        all
    }

    fn begin(&mut self, subscribers: Vec<Subscriber>, answer: oneshot::Sender<Vec<(usize, CommandError)>>) {
        if subscribers.is_empty() {
            drop(answer.send(Vec::new()));
            return;
        }
        let list = self.number();
        self.lists.insert(list, List { left: subscribers.len(), refused: Vec::new(), answer });
        let places = subscribers.into_iter().enumerate();
        self.to_add.extend(places.map(|(place, subscriber)| (list, place, subscriber)));
    }

    /// A command was carried out or refused; false: nobody waits for it.
    pub(super) fn done(&mut self, id: u64, result: Result<(), CommandError>) -> bool {
        match self.waiting.remove(&id) {
            None => return false,
            Some(Waits::One(answer)) => drop(answer.send(result)),
            Some(Waits::InList(number, place)) => {
                let Some(list) = self.lists.get_mut(&number) else { return true };
                list.left -= 1;
                list.refused.extend(result.err().map(|error| (place, error)));
                if list.left == 0
                    && let Some(list) = self.lists.remove(&number)
                {
                    drop(list.answer.send(list.refused));
                }
            }
        }
        true
    }
}
