//! The profile of a trial: counts of sampled stacks, folded into named causes. Pure.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

mod cause;
mod symbols;

pub use cause::{CAUSES, cause};
pub use symbols::Symbols;

/// What all CPUs did during a trial.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// Samples per second of each CPU.
    pub hz: u64,
    /// Samples that found no room.
    pub lost: u64,
    /// Stacks with their samples: the owner, then functions from the outermost to the innermost, with `;` between them. Idle
    /// time is left out.
    pub stacks: Vec<(String, u64)>,
}

impl Profile {
    /// Owner of a stack: the frame generator.
    pub const GENERATOR: &str = "generator";
    /// The kernel, receiving in the thread of the generator.
    pub const RECEIVE: &str = "receive softirq";
    /// The kernel, receiving on another CPU what the generator's hands to it (RPS).
    pub const RECEIVE_ELSEWHERE: &str = "receive softirq elsewhere";
    /// The threads that capture.
    pub const CAPTURE: &str = "capture thread";
    /// A function of the program: what threads do outside of the kernel, unless it is known better.
    pub const USER: &str = "user code";
    /// A function: what a capture thread does with a frame once it has it.
    pub const CONSUMER: &str = "consumer";
    /// Everything else on this machine.
    pub const OTHER: &str = "others";

    /// All samples.
    pub fn samples(&self) -> u64 {
        self.stacks.iter().map(|(_, n)| n).sum()
    }

    /// Share of the generator's thread in which the kernel receives, 0..=1.
    pub fn receive_share(&self) -> f64 {
        let samples = |who: &[&str]| self.of(who).map(|(_, n)| n).sum::<u64>() as f64;
        samples(&[Profile::RECEIVE]) / samples(&[Profile::RECEIVE, Profile::GENERATOR]).max(1.0)
    }

    /// Share of what the capture threads do outside of the kernel that the consumer takes, 0..=1; `None` if they were
    /// never seen there.
    pub fn consumer_share(&self) -> Option<f64> {
        let samples = |function: &str| {
            let of = self.of(&[Profile::CAPTURE]).filter(|(functions, _)| *functions == function);
            of.map(|(_, n)| n).sum::<u64>() as f64
        };
        let (own, consumer) = (samples(Profile::USER), samples(Profile::CONSUMER));
        (own + consumer > 0.0).then(|| consumer / (own + consumer))
    }

    /// Stacks of these threads, without the names of the threads.
    pub fn of<'a>(&'a self, who: &'a [&'a str]) -> impl Iterator<Item = (&'a str, u64)> {
        self.stacks.iter().filter_map(move |(stack, n)| {
            let (whose, functions) = stack.split_once(';')?;
            who.contains(&whose).then_some((functions, *n))
        })
    }

    /// Samples of these threads by cause, the largest first.
    pub fn by_cause(&self, who: &[&str]) -> Vec<(&'static str, u64)> {
        let mut causes = BTreeMap::<&str, u64>::new();
        for (functions, n) in self.of(who) {
            *causes.entry(cause(functions)).or_default() += n;
        }
        sorted(causes)
    }

    /// The innermost functions of these threads with what they were at work for and their samples, the largest first.
    pub fn by_function<'a>(&'a self, who: &'a [&'a str]) -> Vec<((&'a str, &'static str), u64)> {
        let mut functions = BTreeMap::<(&str, &str), u64>::new();
        for (stack, n) in self.of(who) {
            *functions.entry((stack.rsplit(';').next().unwrap_or(stack), cause(stack))).or_default() += n;
        }
        sorted(functions)
    }
}

fn sorted<T: Ord>(counts: BTreeMap<T, u64>) -> Vec<(T, u64)> {
    let mut list: Vec<_> = counts.into_iter().collect();
    list.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    list
}

/// Counts samples by stack.
#[derive(Debug, Default)]
pub struct Stacks(BTreeMap<String, u64>);

impl Stacks {
    /// Notes `n` samples of a thread: functions from the innermost to the outermost; none: its own code.
    pub fn add<'a>(&mut self, who: &str, functions: impl DoubleEndedIterator<Item = &'a str>, n: u64) {
        let mut stack = who.to_string();
        for function in functions.rev() {
            stack.push(';');
            stack.push_str(function);
        }
        if stack.len() == who.len() {
            stack.push(';');
            stack.push_str(Profile::USER);
        }
        *self.0.entry(stack).or_default() += n;
    }

    /// The counts.
    pub fn finish(self) -> Vec<(String, u64)> {
        self.0.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_consumer_has_a_share_of_what_is_outside_of_the_kernel() {
        let mut stacks = Stacks::default();
        assert_eq!(Profile::default().consumer_share(), None);
        stacks.add(Profile::CAPTURE, std::iter::empty(), 6);
        stacks.add(Profile::CAPTURE, [Profile::CONSUMER].into_iter(), 2);
        stacks.add(Profile::CAPTURE, ["do_syscall_64"].into_iter(), 100);
        stacks.add(Profile::OTHER, std::iter::empty(), 100);
        let profile = Profile { hz: 1, lost: 0, stacks: stacks.finish() };
        assert_eq!(profile.consumer_share(), Some(0.25));
    }

    #[test]
    fn samples_are_counted_by_stack_cause_and_function() {
        let mut stacks = Stacks::default();
        stacks.add(Profile::RECEIVE, ["memcpy", "tpacket_rcv", "net_rx_action"].into_iter(), 2);
        stacks.add(Profile::RECEIVE, ["memcpy", "tpacket_rcv", "net_rx_action"].into_iter(), 1);
        stacks.add(Profile::RECEIVE, ["tpacket_rcv", "net_rx_action"].into_iter(), 1);
        stacks.add(Profile::CAPTURE, std::iter::empty(), 1);
        stacks.add("generator", ["bpf_test_run"].into_iter(), 1);
        let profile = Profile { hz: 1000, lost: 0, stacks: stacks.finish() };
        assert_eq!(profile.samples(), 6);
        assert_eq!(profile.stacks[2], ("receive softirq;net_rx_action;tpacket_rcv".to_string(), 1));
        assert_eq!(profile.receive_share(), 0.8);
        let causes = profile.by_cause(&[Profile::RECEIVE, Profile::CAPTURE]);
        assert_eq!(causes[0], ("copies", 3));
        assert!(causes.contains(&("user code", 1)) && causes.contains(&("packet socket", 1)), "{causes:?}");
        let functions = profile.by_function(&[Profile::RECEIVE]);
        assert_eq!(functions, [(("memcpy", "copies"), 3), (("tpacket_rcv", "packet socket"), 1)]);
    }
}
