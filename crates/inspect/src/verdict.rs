//! From evidence to a verdict. Pure.

use serde::Serialize;

use crate::evidence::{Evidence, Instant, Outside, Step};
use crate::tasks::{Idle, Wait};

/// How an event loop learns of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "names of the kernel's interfaces")]
pub enum Mechanism {
    Poll,
    Epoll,
    IoUring,
}

/// How a server is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Architecture {
    /// A process for each connection, which ends with it.
    ProcessPerConnection,
    /// Processes that take one connection after another; `workers`: as many as were seen.
    Prefork {
        /// Processes.
        workers: usize,
    },
    /// A thread for each connection, which ends with it.
    ThreadPerConnection,
    /// Threads that take one connection after another; `workers`: as many as were seen.
    ThreadPool {
        /// Threads.
        workers: usize,
    },
    /// A few threads that each have many connections.
    EventLoop {
        /// The system call in which they wait.
        by: Mechanism,
        /// Threads that wait so while there is nothing to do.
        loops: usize,
    },
    /// One thread that takes one connection after another.
    Iterative,
    /// The evidence does not say.
    Unknown,
}

/// How sure a verdict is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Confidence {
    /// One kind of evidence, which other architectures could show, too.
    Low,
    /// Tasks were counted, or what threads wait in is plain.
    Medium,
    /// Both, and they agree.
    High,
}

/// A verdict with its reasons.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// How the server is built.
    pub architecture: Architecture,
    /// How sure that is.
    pub confidence: Confidence,
    /// Sentences, the most important first.
    pub reasons: Vec<String>,
}

impl Architecture {
    /// In words.
    pub fn text(self) -> String {
        match self {
            Architecture::ProcessPerConnection => "a process per connection".into(),
            Architecture::Prefork { workers } => format!("prefork, {workers} processes"),
            Architecture::ThreadPerConnection => "a thread per connection".into(),
            Architecture::ThreadPool { workers } => format!("a pool of {workers} threads"),
            Architecture::EventLoop { by, loops } => {
                let by = match by {
                    Mechanism::Poll => "poll",
                    Mechanism::Epoll => "epoll",
                    Mechanism::IoUring => "io_uring",
                };
                match loops {
                    1 => format!("an event loop by {by}"),
                    _ => format!("{loops} event loops by {by}"),
                }
            }
            Architecture::Iterative => "one connection after another".into(),
            Architecture::Unknown => "unknown".into(),
        }
    }
}

/// From here on tasks are counted as one for each connection.
const ONE_EACH: f64 = 0.8;
/// Up to here tasks do not depend on connections.
const NONE: f64 = 0.05;

/// How the server is built, by what was seen of it on this machine.
pub fn decide(evidence: &Evidence) -> Verdict {
    match (&evidence.instant, evidence.steps.last()) {
        (Some(instant), _) => by_starts(&evidence.idle, instant),
        (None, Some(last)) if last.accepted > 0 => by_slope(evidence, last),
        _ => Verdict {
            architecture: Architecture::Unknown,
            confidence: Confidence::Low,
            reasons: vec![
                "It accepted none of the connections, or closed them before its threads could be inspected."
                    .into(),
            ],
        },
    }
}

fn several(n: usize, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

/// Connections stay open: how many tasks are there for each?
fn by_slope(evidence: &Evidence, last: &Step) -> Verdict {
    let idle = &evidence.idle;
    let connections = last.accepted as f64;
    let processes = (last.processes as f64 - idle.processes as f64) / connections;
    // A process has a thread.
    let threads = (last.threads as f64 - idle.threads as f64) / connections - processes;
    let stay = evidence.after.map_or(0.0, |after| {
        let grown = last.threads.saturating_sub(idle.threads).max(1) as f64;
        after.threads.saturating_sub(idle.threads) as f64 / grown
    });
    let counted = format!(
        "With {} connections held it has {} and {}, {} and {} without.",
        last.accepted,
        several(last.processes, "process", "processes"),
        several(last.threads, "thread", "threads"),
        idle.processes,
        idle.threads
    );
    let after = format!("{:.0} % of the added ones stay when the connections are closed.", stay * 100.0);
    let waiting = waiting_for_it(last);
    let workers = last.accepted;
    let (architecture, reasons) = if processes >= ONE_EACH {
        let kept = Architecture::Prefork { workers: last.processes };
        (if stay > 0.5 { kept } else { Architecture::ProcessPerConnection }, vec![counted, after])
    } else if threads >= ONE_EACH {
        let kept = Architecture::ThreadPool { workers: last.threads };
        (if stay > 0.5 { kept } else { Architecture::ThreadPerConnection }, vec![counted, after])
    } else if let Some(waiting) = waiting {
        // A worker with a connection accepts no other one: there are as many workers as accepted connections.
        match (last.processes > 1 && last.processes * 2 > workers, workers) {
            (_, 1) => (Architecture::Iterative, vec![waiting, counted]),
            (true, _) => (Architecture::Prefork { workers }, vec![waiting, counted]),
            (false, _) => (Architecture::ThreadPool { workers }, vec![waiting, counted]),
        }
    } else if processes > NONE {
        (
            Architecture::Prefork { workers: last.processes },
            vec![counted, "The first of them took processes that waited.".into()],
        )
    } else if threads > NONE && mechanism(idle, 0).is_none() {
        (
            Architecture::ThreadPool { workers: last.threads },
            vec![counted, "The first of them took threads that waited.".into()],
        )
    } else if last.reading as f64 >= ONE_EACH * connections {
        let reading = format!("{} of its threads wait in a read, one for each connection.", last.reading);
        if last.processes > last.threads / 2 {
            (Architecture::Prefork { workers: last.processes }, vec![reading, counted])
        } else {
            (Architecture::ThreadPool { workers: last.threads }, vec![reading, counted])
        }
    } else {
        return event_loop(idle, last.loops, counted);
    };
    let confidence = if agrees(architecture, idle) { Confidence::High } else { Confidence::Medium };
    Verdict { architecture, confidence, reasons }
}

/// A part of the connections that stay open waits to be accepted.
fn waiting_for_it(last: &Step) -> Option<String> {
    let is_part = (last.accepted as f64) < 0.9 * last.held as f64;
    is_part.then(|| format!("It accepted {} of {} connections; the others wait.", last.accepted, last.held))
}

/// Many connections, no more tasks: what do its threads wait in?
fn event_loop(idle: &Idle, loops: usize, counted: String) -> Verdict {
    match mechanism(idle, loops) {
        Some((by, loops, seen)) => Verdict {
            architecture: Architecture::EventLoop { by, loops },
            confidence: if seen { Confidence::High } else { Confidence::Medium },
            reasons: vec![counted, waits(idle)],
        },
        None => Verdict {
            architecture: Architecture::Unknown,
            confidence: Confidence::Low,
            reasons: vec![
                counted,
                "The system calls of its threads cannot be read: run this as root, or as the user of the server."
                    .into(),
            ],
        },
    }
}

/// How it waits for events, in how many threads, and whether they were seen in it; by the threads of the processes that listen,
/// else by their descriptors. `loops` of epoll were seen to wait for a socket of the server when it had connections.
fn mechanism(idle: &Idle, loops: usize) -> Option<(Mechanism, usize, bool)> {
    let threads = |wait| idle.waits.get(&wait).copied().unwrap_or(0);
    let seen =
        [(Mechanism::IoUring, Wait::Ring), (Mechanism::Epoll, Wait::Epoll), (Mechanism::Poll, Wait::Poll)];
    let seen = seen.into_iter().map(|(by, wait)| (by, threads(wait))).find(|(_, threads)| *threads > 0);
    let held = [(Mechanism::IoUring, idle.rings), (Mechanism::Epoll, idle.epolls)];
    let held = held.into_iter().find(|(_, count)| *count > 0);
    // Some threads wait in epoll for nothing but timers, or for other threads.
    let of_sockets = idle.loops.max(loops);
    let seen = seen.map(|(by, threads)| match by {
        Mechanism::Epoll if of_sockets > 0 => (by, of_sockets),
        _ => (by, threads),
    });
    seen.map(|(by, loops)| (by, loops, true)).or(held.map(|(by, loops)| (by, loops, false)))
}

/// Connections end at once: what the server starts, or process ids, say whether each had its own task.
fn by_starts(idle: &Idle, instant: &Instant) -> Verdict {
    let (each, ids) = match instant.starts_per_connection {
        Some(each) => (
            each,
            format!(
                "For each of {} connections it started {each:.2} processes or threads, by the kernel's count.",
                instant.connections
            ),
        ),
        None => {
            let each = instant.ids_per_connection;
            (each, format!("{} connections used up {each:.2} process ids each.", instant.connections))
        }
    };
    let threads = |wait| idle.waits.get(&wait).copied().unwrap_or(0);
    if each >= ONE_EACH {
        let faults = instant.child_faults_per_connection;
        let children =
            format!("Children that it waited for had {faults:.0} page faults for each connection.");
        let architecture = if faults >= 1.0 {
            Architecture::ProcessPerConnection
        } else {
            Architecture::ThreadPerConnection
        };
        return Verdict { architecture, confidence: Confidence::High, reasons: vec![ids, children] };
    }
    if let Some((by, loops, seen)) = mechanism(idle, 0) {
        return Verdict {
            architecture: Architecture::EventLoop { by, loops },
            confidence: if seen { Confidence::Medium } else { Confidence::Low },
            reasons: vec![ids, waits(idle)],
        };
    }
    // Where one at a time may wait for a connection, the others wait for that one.
    let workers = match threads(Wait::Accept) {
        alone @ 0..=1 => alone + threads(Wait::Lock),
        several => several,
    };
    let architecture = match (idle.listening_processes, workers) {
        (_, 0) => Architecture::Unknown,
        (_, 1) => Architecture::Iterative,
        (1, _) => Architecture::ThreadPool { workers },
        _ => Architecture::Prefork { workers },
    };
    let confidence = if architecture == Architecture::Unknown { Confidence::Low } else { Confidence::Medium };
    Verdict { architecture, confidence, reasons: vec![ids, waits(idle)] }
}

/// Do threads without connections wait as such a server's do?
fn agrees(architecture: Architecture, idle: &Idle) -> bool {
    let threads = |wait| idle.waits.get(&wait).copied().unwrap_or(0);
    match architecture {
        Architecture::ProcessPerConnection | Architecture::ThreadPerConnection | Architecture::Iterative => {
            idle.threads - threads(Wait::Unknown) > 0 && idle.threads < 20
        }
        Architecture::Prefork { .. } => idle.listening_processes > 1,
        Architecture::ThreadPool { .. } => threads(Wait::Accept) + threads(Wait::Lock) > 1,
        Architecture::EventLoop { .. } | Architecture::Unknown => false,
    }
}

/// What threads wait in, as a sentence.
fn waits(idle: &Idle) -> String {
    let word = |wait: &Wait| match wait {
        Wait::Accept => "accept",
        Wait::Epoll => "epoll",
        Wait::Poll => "poll",
        Wait::Ring => "io_uring",
        Wait::Read => "read",
        Wait::Lock => "a lock",
        Wait::Child => "wait",
        Wait::Other => "something else",
        Wait::Unknown => "unknown calls",
    };
    let list: Vec<_> =
        idle.waits.iter().map(|(wait, threads)| format!("{threads} in {}", word(wait))).collect();
    format!(
        "Without connections its threads wait: {}; {} descriptors of epoll, {} of io_uring, {} listening sockets; {} threads wait in \
         epoll for a socket of the server.",
        list.join(", "),
        idle.epolls,
        idle.rings,
        idle.sockets,
        idle.loops
    )
}

/// The same of a server elsewhere: only a pool that is smaller than the connections shows.
pub(crate) fn from_greetings(seen: &Outside) -> Verdict {
    let text = format!(
        "Of {} concurrent connections {} got a greeting, {} were closed.",
        seen.held, seen.greeted, seen.closed
    );
    let unknown = |more: &str| Verdict {
        architecture: Architecture::Unknown,
        confidence: Confidence::Low,
        reasons: vec![text.clone(), more.to_string()],
    };
    match seen.greeted {
        0 => unknown(
            "The server does not send first, so a remote inspection shows nothing: inspect it on its own machine.",
        ),
        workers if (workers as f64) < 0.9 * seen.held as f64 => Verdict {
            architecture: Architecture::ThreadPool { workers },
            confidence: Confidence::Low,
            reasons: vec![
                text.clone(),
                "This is the size of a pool of threads or processes, or a limit of the server.".into(),
            ],
        },
        _ => unknown(
            "An event loop and a task per connection cannot be distinguished remotely: inspect it on its own machine.",
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn idle(processes: usize, threads: usize, waits: &[(Wait, usize)]) -> Idle {
        Idle {
            processes,
            listening_processes: processes,
            threads,
            sockets: 1,
            waits: waits.iter().copied().collect::<BTreeMap<_, _>>(),
            loops: 0,
            epolls: 0,
            rings: 0,
        }
    }

    fn step(held: usize, accepted: usize, processes: usize, threads: usize, reading: usize) -> Step {
        Step { held, accepted, processes, threads, reading, loops: 0 }
    }

    fn verdict(idle: Idle, last: Step, after: Step) -> (Architecture, Confidence) {
        let verdict = decide(&Evidence { idle, steps: vec![last], after: Some(after), instant: None });
        (verdict.architecture, verdict.confidence)
    }

    #[test]
    fn tasks_for_each_connection() {
        use Architecture::{Prefork, ProcessPerConnection, ThreadPerConnection, ThreadPool};
        let one = || idle(1, 1, &[(Wait::Accept, 1)]);
        let fork = verdict(one(), step(200, 200, 201, 201, 200), step(0, 0, 1, 1, 0));
        assert_eq!(fork, (ProcessPerConnection, Confidence::High));
        // Two processes each, as of a server that keeps a privileged one beside each.
        let two = verdict(one(), step(60, 60, 121, 121, 60), step(0, 0, 1, 1, 0));
        assert_eq!(two.0, ProcessPerConnection);
        let kept = verdict(one(), step(200, 200, 201, 201, 0), step(0, 0, 201, 201, 0));
        assert_eq!(kept.0, Prefork { workers: 201 }, "they wait for the next connections");
        let thread = verdict(one(), step(200, 200, 1, 201, 200), step(0, 0, 1, 1, 0));
        assert_eq!(thread, (ThreadPerConnection, Confidence::High));
        let grown = verdict(one(), step(200, 200, 1, 201, 200), step(0, 0, 1, 190, 0));
        assert_eq!(grown.0, ThreadPool { workers: 201 });
    }

    #[test]
    fn pools_that_are_full_or_large() {
        use Architecture::{Iterative, Prefork, ThreadPool};
        let prefork = verdict(
            idle(65, 65, &[(Wait::Accept, 64), (Wait::Child, 1)]),
            step(200, 64, 65, 65, 64),
            step(0, 0, 65, 65, 0),
        );
        assert_eq!(prefork, (Prefork { workers: 64 }, Confidence::High));
        let pool = verdict(
            idle(1, 65, &[(Wait::Accept, 64), (Wait::Lock, 1)]),
            step(200, 64, 1, 65, 64),
            step(0, 0, 1, 65, 0),
        );
        assert_eq!(pool, (ThreadPool { workers: 64 }, Confidence::High));
        let large =
            verdict(idle(1, 300, &[(Wait::Accept, 300)]), step(200, 200, 1, 300, 200), step(0, 0, 1, 300, 0));
        assert_eq!(large.0, ThreadPool { workers: 300 });
        let iterative = verdict(idle(1, 1, &[(Wait::Accept, 1)]), step(200, 1, 1, 1, 1), step(0, 0, 1, 1, 0));
        assert_eq!(iterative.0, Iterative);
    }

    #[test]
    fn event_loops() {
        let same = |idle: Idle| {
            let (processes, threads) = (idle.processes, idle.threads);
            verdict(idle, step(200, 200, processes, threads, 0), step(0, 0, processes, threads, 0))
        };
        for (wait, by) in
            [(Wait::Epoll, Mechanism::Epoll), (Wait::Poll, Mechanism::Poll), (Wait::Ring, Mechanism::IoUring)]
        {
            let expected = Architecture::EventLoop { by, loops: 2 };
            assert_eq!(same(idle(3, 3, &[(wait, 2), (Wait::Other, 1)])), (expected, Confidence::High));
        }
        // One of two threads waits for timers alone, until connections come, too.
        let timers = Idle { loops: 1, ..idle(1, 11, &[(Wait::Epoll, 2), (Wait::Lock, 9)]) };
        let expected = Architecture::EventLoop { by: Mechanism::Epoll, loops: 1 };
        assert_eq!(same(timers.clone()), (expected, Confidence::High));
        let held = Step { loops: 2, ..step(200, 200, 1, 11, 0) };
        let both = Architecture::EventLoop { by: Mechanism::Epoll, loops: 2 };
        assert_eq!(verdict(timers, held, step(0, 0, 1, 11, 0)).0, both);
        // Without privileges only the descriptors are seen, or nothing.
        let unseen = Idle { epolls: 1, ..idle(1, 4, &[(Wait::Unknown, 4)]) };
        let expected = Architecture::EventLoop { by: Mechanism::Epoll, loops: 1 };
        assert_eq!(same(unseen), (expected, Confidence::Medium));
        assert_eq!(same(idle(1, 4, &[(Wait::Unknown, 4)])).0, Architecture::Unknown);
    }

    #[test]
    fn servers_that_close_at_once() {
        let counted = |idle: Idle, ids, starts, faults| {
            let instant = Instant {
                connections: 200,
                ids_per_connection: ids,
                starts_per_connection: starts,
                child_faults_per_connection: faults,
            };
            decide(&Evidence { idle, steps: Vec::new(), after: None, instant: Some(instant) }).architecture
        };
        let of = |idle, ids, faults| counted(idle, ids, None, faults);
        let one = || idle(1, 1, &[(Wait::Accept, 1)]);
        assert_eq!(of(one(), 1.0, 90.0), Architecture::ProcessPerConnection);
        assert_eq!(of(one(), 1.0, 0.0), Architecture::ThreadPerConnection);
        assert_eq!(of(one(), 0.01, 0.0), Architecture::Iterative);
        // The kernel's count decides where there is one: others on the machine use up ids, too.
        assert_eq!(counted(one(), 3.0, Some(0.0), 0.0), Architecture::Iterative);
        assert_eq!(counted(one(), 3.0, Some(1.0), 90.0), Architecture::ProcessPerConnection);
        let prefork = idle(9, 9, &[(Wait::Accept, 8), (Wait::Child, 1)]);
        assert_eq!(of(prefork, 0.0, 0.0), Architecture::Prefork { workers: 8 });
        let expected = Architecture::EventLoop { by: Mechanism::Epoll, loops: 1 };
        assert_eq!(of(idle(1, 1, &[(Wait::Epoll, 1)]), 0.0, 0.0), expected);
    }

    #[test]
    fn nothing_is_made_of_nothing() {
        let silent = Evidence {
            idle: idle(1, 1, &[]),
            steps: vec![step(200, 0, 1, 1, 0)],
            after: None,
            instant: None,
        };
        assert_eq!(decide(&silent).architecture, Architecture::Unknown);
    }

    #[test]
    fn from_elsewhere_only_a_limit_shows() {
        let seen = |held, greeted| from_greetings(&Outside { held, greeted, closed: 0 }).architecture;
        assert_eq!([seen(200, 0), seen(200, 200)], [Architecture::Unknown; 2]);
        assert_eq!(seen(200, 50), Architecture::ThreadPool { workers: 50 });
    }
}
