//! The limit of connections of a process: raises the descriptor limit before it is needed.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::{Deserialize, Serialize};

/// Descriptors beside connections: files, timers, the runtime's own, name servers.
const OTHERS: u64 = 64;

/// Descriptors of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Descriptors {
    /// For all connections and the rest.
    pub needed: u64,
    /// What this process may have now (RLIMIT_NOFILE, soft).
    pub limit: u64,
    /// What it could have raised that to (hard).
    pub most: u64,
}

impl Descriptors {
    /// Why the connections are not possible, and what to do.
    pub fn lacking(self) -> Option<String> {
        let Descriptors { needed, limit, .. } = self;
        (needed > limit).then(|| {
            format!("{needed} descriptors are needed, but {limit} are allowed: use fewer connections, or `ulimit -n {needed}` as root")
        })
    }
}

/// Raises the soft limit to what `connections` need, as far as it may.
pub fn descriptors(connections: u32) -> Descriptors {
    let needed = u64::from(connections) + OTHERS;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let (limit, most) = (current.unwrap_or(u64::MAX), maximum.unwrap_or(u64::MAX));
    if limit < needed {
        let wanted = Rlimit { current: Some(needed.min(most)), maximum };
        // What it is in the end is read back.
        let _ = setrlimit(Resource::Nofile, wanted);
    }
    Descriptors { needed, limit: getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX), most }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lacking_is_said_with_a_remedy() {
        let few = Descriptors { needed: 30_064, limit: 20_000, most: 20_000 };
        assert!(few.lacking().unwrap().contains("ulimit -n 30064"));
        assert_eq!(Descriptors { limit: 40_000, ..few }.lacking(), None);
        assert_eq!(descriptors(1).lacking(), None);
    }
}
