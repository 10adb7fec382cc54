//! Changes of single objects of a node that runs: routes, neighbours, rules, port forwards, one-to-one addresses, rates.
//!
//! ```text
//! Command (of a program, by names) > decide > Change (what was, what is) > Update > each thread, some behind each batch
//! text, text > the same changes, where only such objects differ (update.rs)
//! ```
//! Each kind of object has its commands in its own folder; `stages.rs` has the list of them, and here is how they become changes of
//! the configuration.
//!
//! Invariant: a list of commands is decided whole or not at all, and each command costs the same however many objects of its kind
//! there are (but for the logarithm of their number, and for rules, which are compiled together).

use std::fmt;

use crate::access::SubscriberChange;
use crate::change::{Change, Object};
use crate::config::Config;
use crate::stages::Command;

/// Why a list of commands was refused: nothing of it was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The command, counted from 0.
    pub command: usize,
    /// What is wrong with it, and what to do about it.
    pub why: String,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "command {}: {}; no command of the list was done", self.command, self.why)
    }
}

impl Config {
    /// Does a list of commands in the configuration, and returns what changes. Commands that change nothing leave nothing.
    ///
    /// # Errors
    /// The first command that cannot be done; the configuration is as before.
    pub fn decide(&mut self, commands: &[Command]) -> Result<Vec<Change>, Refused> {
        let mut changes: Vec<Change> = Vec::new();
        for (command, wanted) in commands.iter().enumerate() {
            let decided = self.changes_of(wanted).and_then(|all| {
                for change in all {
                    self.take(&change)?;
                    changes.push(change);
                }
                Ok(())
            });
            if let Err(why) = decided {
                self.undo(changes);
                return Err(Refused { command, why });
            }
        }
        Ok(changes)
    }

    /// All that a command changes: a session may have an address of a NAT.
    fn changes_of(&self, command: &Command) -> Result<Vec<Change>, String> {
        let change = self.change(command)?;
        let mut changes = match &change {
            Some(Change(Object::Subscriber(SubscriberChange::Session(was)))) => {
                was.new.iter().try_for_each(|new| self.check_fixed(new))?;
                self.profile_changes(was)?
            }
            _ => Vec::new(),
        };
        changes.extend(change);
        Ok(changes)
    }

    /// What a command changes; `None`: it is so already.
    fn change(&self, command: &Command) -> Result<Option<Change>, String> {
        let object = match command {
            Command::Route(command) => {
                let routes = self.routes.as_ref().ok_or("the node has no `route`: it is no router")?;
                command.change(routes, &self.ports)?.map(Object::Route)
            }
            Command::Neighbour(_) if self.routes.is_none() => {
                return Err("the node has no `route`: it knows no neighbours".into());
            }
            Command::Neighbour(command) => command.change(&self.ports)?.map(Object::Neighbour),
            Command::Nat(_) if self.nats().any(|nat| !nat.before.is_empty()) => {
                let why = "several threads share several NATs here, which know each other's ends";
                return Err(format!("{why}: write it into the text, and apply that"));
            }
            Command::Subscriber(command) => {
                let access =
                    self.access.as_ref().ok_or("the node has no `access`: no port of it has subscribers")?;
                command.change(access, &self.sessions, &self.ports)?.map(Object::Subscriber)
            }
            of_stage => {
                let decided = of_stage.change_of_stage(&self.stages, &self.ports).transpose()?;
                decided.flatten().map(|(stage, change)| Object::Stage(stage, change))
            }
        };
        Ok(object.map(Change))
    }
}
