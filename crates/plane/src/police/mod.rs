//! What each subscriber of a network may send and receive: a token bucket for each of them, for each direction and for each class
//! of frames with a rate of its own. Excess frames are dropped at once; a queue has them wait.
//!
//! ```text
//! frame > inside address > profile (longest prefix) > rate of its class and direction > bucket of the subscriber > on, or dropped
//!              `--> policed host of the frame, for queues behind
//! ```
//! The inside address is the source of a frame on its way outward and the destination of one on its way inward. A subscriber has one
//! address of IPv4, or a network of IPv6; but where the text has `subscribers`, it is the one of that table that the frame comes from or
//! goes to, whatever its address. A frame counts with its Ethernet header, as in a queue.
//!
//! Invariant: over any time no more than burst + rate * time passes of a subscriber, see `police/buckets.rs`.
//!
//! Files:
//! - `police/buckets.rs`: token buckets; `police/config.rs`: the text; `police/ranges.rs`: prefixes and their profiles
//! - classes of frames come from filter rules (`class` in `filter/rules.rs`); scenarios: `tests/police.txt` of the repository
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

mod answer;
mod buckets;
mod command;
mod config;
mod configured;
mod ranges;

use std::collections::HashMap;
use std::net::IpAddr;

use weir_packet::steer::{mix4, mix6};

use crate::access::Subscribers;
use crate::address::{mapped4, words6};
use crate::batch::{PerFrame, Set};
use crate::dir::Dir;
use crate::drops::DropReason;
use crate::filter::CLASSES;
use crate::frame::{Frame, Kind, Subscriber};
use crate::prefix::mask6;
use crate::recipe::{Ends, Key, Never, Part};
use crate::stage::{ByDir, StageKind, Step};
use crate::table::secret::Secret;
use crate::time::Time;

pub use answer::PoliceCounts;
use buckets::Buckets;
pub use command::PoliceCommand;
pub(crate) use command::RateChange;
pub(crate) use config::Config;
use ranges::Ranges;

/// Bits of the buckets of subscribers that the node knows, beside index and generation: no host has such an address of IPv6.
const KNOWN: u128 = 0xffff << 112;

/// In the place of a number of a rate: no limit.
const FREE: u16 = u16::MAX;

/// A policer.
#[derive(Debug)]
pub(crate) struct Police {
    secret: Secret,
    rules: Rules,
}

/// The profiles, and the buckets of the subscribers.
#[derive(Debug)]
struct Rules {
    /// By address the number of a profile; the first one limits nothing.
    of4: Ranges<u32, u16>,
    of6: Ranges<u128, u16>,
    /// Bits of an address of IPv6 that tell subscribers apart.
    each6: u128,
    /// By profile and class the number of a rate.
    profiles: Vec<ByDir<[u16; CLASSES as usize]>>,
    rates: Vec<Rate>,
}

/// A rate of a profile.
#[derive(Debug)]
struct Rate {
    profile: String,
    class: Option<u8>,
    dir: Dir,
    buckets: Buckets,
    /// Frames, and their bytes.
    passed: (u64, u64),
    dropped: u64,
}

/// What a frame is checked by: the rate, and the bucket.
#[derive(Debug, Clone, Copy)]
struct Asked {
    rate: u16,
    hash: u32,
    subscriber: u128,
}

impl Police {
    /// A policer as the text says. What must not be predictable from outside follows from `seed`.
    pub(crate) fn new(config: &Config, seed: u64) -> Police {
        Police { secret: Secret::new(seed), rules: Rules::new(config) }
    }

    /// Takes another configuration; subscribers of a profile keep the level of their buckets. What is of no more use is left in
    /// `update`.
    fn take_profiles(&mut self, now: Time, update: &mut Update) {
        for (new, from) in update.rules.rates.iter_mut().zip(&update.from) {
            if let Some(old) = from.and_then(|from| self.rules.rates.get_mut(from)) {
                new.buckets.take_over(&mut old.buckets, now);
                (new.passed, new.dropped) = (old.passed, old.dropped);
            }
        }
        std::mem::swap(&mut self.rules, &mut update.rules);
    }

    /// Changes a rate; subscribers keep the level of their buckets.
    fn set_rate(&mut self, now: Time, change: &RateChange) {
        let name = &change.name;
        let is_it =
            |rate: &&mut Rate| (&rate.profile, rate.class, rate.dir) == (&name.profile, name.class, name.dir);
        if let (Some(rate), Some(limit)) = (self.rules.rates.iter_mut().find(is_it), change.was.new) {
            rate.buckets.set_limit(limit, now);
        }
    }

    /// Its counters, as the stage of this number.
    pub(crate) fn counts(&self, stage: usize) -> impl Iterator<Item = PoliceCounts> {
        self.rules.rates.iter().map(move |rate| PoliceCounts {
            stage,
            profile: rate.profile.clone(),
            class: rate.class,
            direction: rate.dir,
            bits_per_s: rate.buckets.limit().bits_per_s,
            burst_bytes: rate.buckets.limit().burst_bytes(),
            subscribers: rate.buckets.known(),
            displaced: rate.buckets.displaced(),
            passed_frames: rate.passed.0,
            passed_bytes: rate.passed.1,
            dropped: rate.dropped,
        })
    }
}

impl StageKind for Police {
    fn name(&self) -> &'static str {
        "police"
    }

    /// Drops frames of `set`, on their way in `dir`, for which their subscribers have no tokens; returns the others.
    fn run(&mut self, step: &mut Step<'_, '_>, dir: Dir, set: Set) -> Set {
        let (mut limited, mut asked) =
            (Set::EMPTY, PerFrame::all(Asked { rate: FREE, hash: 0, subscriber: 0 }));
        let has_subscribers = !step.subscribers.is_empty();
        for i in set {
            let frame = &mut step.frames[i];
            let (profile, mut subscriber, mut mixed) = self.rules.subscriber(frame, dir);
            let known = if has_subscribers { subscriber_of(step.subscribers, frame, dir) } else { None };
            if let Some(Subscriber { index, generation }) = known {
                subscriber = KNOWN | u128::from(generation) << 32 | u128::from(index);
                mixed = mix4(index);
            }
            // 0 stands for no host.
            frame.policed_host = mixed.max(1);
            let number = self.rules.number(profile, dir, frame.class);
            if let Some(rate) = self.rules.rates.get(usize::from(number)) {
                let hash = self.secret.hash(words6(subscriber), known.is_some().into());
                rate.buckets.touch(hash);
                asked[i] = Asked { rate: number, hash, subscriber };
                limited.insert(i);
            }
        }
        let mut passed = set;
        for i in limited {
            let Asked { rate, hash, subscriber } = asked[i];
            let Some(rate) = self.rules.rates.get_mut(usize::from(rate)) else { continue };
            let bytes = step.frames[i].bytes().len();
            if rate.buckets.allow(step.now, subscriber, hash, bytes) {
                rate.passed = (rate.passed.0 + 1, rate.passed.1 + bytes as u64);
            } else {
                rate.dropped += 1;
                step.drop(i, DropReason::PoliceRate);
                passed.remove(i);
            }
        }
        passed
    }

    fn begin_anew(&mut self, _: Time) {
        self.rules.rates.iter_mut().for_each(|rate| rate.buckets.begin_anew());
    }

    fn recipe(&self, _: Time, at: &Key, dir: Dir, class: u8) -> Result<Option<Part>, Never> {
        let profile = match (at.ends, dir) {
            (Ends::V4 { src, .. }, Dir::Outward) => self.rules.of4.of(src),
            (Ends::V4 { dst, .. }, Dir::Inward) => self.rules.of4.of(dst),
            (Ends::V6 { src, .. }, Dir::Outward) => self.rules.of6.of(src),
            (Ends::V6 { dst, .. }, Dir::Inward) => self.rules.of6.of(dst),
        };
        match self.rules.number(profile.unwrap_or_default(), dir, class) {
            FREE => Ok(None),
            _ => Err(Never::Configured),
        }
    }
}

impl Rules {
    fn new(config: &Config) -> Rules {
        // Behind that which limits nothing.
        let number = |profile: Option<usize>| profile.map_or(0, |n| n as u16 + 1);
        let (mut of4, mut of6) = (Vec::new(), Vec::new());
        for &(prefix, profile) in &config.networks {
            match config::ends(prefix) {
                (IpAddr::V4(first), IpAddr::V4(last)) => {
                    of4.push((u32::from(first), u32::from(last), number(profile)));
                }
                (IpAddr::V6(first), IpAddr::V6(last)) => {
                    of6.push((u128::from(first), u128::from(last), number(profile)));
                }
                _ => unreachable!("both ends are of one version"),
            }
        }
        let rate = |(profile, class, dir, limit)| Rate {
            profile: name(config, profile),
            class,
            dir,
            buckets: Buckets::new(limit, config.subscribers),
            passed: (0, 0),
            dropped: 0,
        };
        let none = || ByDir::new(|| [FREE; CLASSES as usize]);
        let mut profiles: Vec<_> = (0..=config.profiles.len()).map(|_| none()).collect();
        // Rates of a class come last: they replace the others.
        for of_class in [false, true] {
            for (n, (profile, class, dir, _)) in config.limits().enumerate() {
                let is_of = |n: usize| class.is_none_or(|class| usize::from(class) == n);
                if let Some(numbers) = profiles.get_mut(profile + 1).filter(|_| class.is_some() == of_class) {
                    let places = numbers[dir].iter_mut().enumerate().filter(|(n, _)| is_of(*n));
                    places.for_each(|(_, place)| *place = n as u16);
                }
            }
        }
        let others = number(config.others);
        Rules {
            of4: Ranges::new(of4, others, |address: u32| address.checked_add(1)),
            of6: Ranges::new(of6, others, |address: u128| address.checked_add(1)),
            each6: mask6(config.each6),
            profiles,
            rates: config.limits().map(rate).collect(),
        }
    }

    /// The number of the profile of a frame's subscriber, the subscriber, and the same as queues see it.
    #[inline]
    fn subscriber(&self, frame: &Frame<'_>, dir: Dir) -> (u16, u128, u32) {
        let own = |outward, inward| if dir == Dir::Outward { outward } else { inward };
        match frame.kind() {
            Kind::V4 => {
                let (src, dst) = frame.addresses4();
                let address = own(src, dst);
                let profile = self.of4.of(address).unwrap_or_default();
                (profile, crate::address::bits(mapped4(address)), mix4(address))
            }
            _ => {
                let (src, dst) = frame.addresses6();
                let address = if dir == Dir::Outward { src } else { dst };
                let subscriber = address & self.each6;
                (self.of6.of(address).unwrap_or_default(), subscriber, mix6(subscriber))
            }
        }
    }

    /// The number of the rate that frames of a class of a profile have.
    #[inline]
    fn number(&self, profile: u16, dir: Dir, class: u8) -> u16 {
        let numbers = self.profiles.get(usize::from(profile));
        numbers.and_then(|numbers| numbers[dir].get(usize::from(class))).copied().unwrap_or(FREE)
    }
}

/// The subscriber that the node knows for a frame on its way in `dir`: it came from the one outward, and goes to the other inward.
fn subscriber_of(subscribers: &Subscribers, frame: &mut Frame<'_>, dir: Dir) -> Option<Subscriber> {
    if dir == Dir::Inward {
        frame.subscriber = subscribers.lookup_to(frame.destination());
    }
    subscribers.line(frame.subscriber).map(|_| frame.subscriber)
}

/// Another configuration, ready to be taken; afterwards the old one.
#[derive(Debug)]
pub(crate) struct Update {
    rules: Rules,
    /// By rate of the new text, the same one of the old.
    from: Vec<Option<usize>>,
}

impl Update {
    /// The update from `old` to `new`.
    pub(crate) fn prepare(old: &Config, new: &Config) -> Update {
        let places: HashMap<_, usize> = names_of_rates(old).zip(0..).collect();
        let from = names_of_rates(new).map(|name| places.get(&name).copied()).collect();
        Update { rules: Rules::new(new), from }
    }
}

/// What tells rates apart: profile, class and direction.
fn names_of_rates(config: &Config) -> impl Iterator<Item = (String, Option<u8>, Dir)> {
    config.limits().map(|(profile, class, dir, _)| (name(config, profile), class, dir))
}

/// The name of the profile of this number.
fn name(config: &Config, profile: usize) -> String {
    config.profiles.get(profile).map(|profile| profile.name.clone()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::{BATCH, Batch, Verdict};
    use crate::config;
    use crate::frame::{HEAD_ROOM, PortId};
    use crate::plane::Plane;
    use crate::queue::Queue;
    use crate::random::Random;

    const MACS: [[u8; 6]; 2] = [[2; 6], [4; 6]];

    fn config(text: &str) -> config::Config {
        config::Config::read("n", text).unwrap_or_else(|wrong| panic!("{text}: {wrong}"))
    }

    fn frame(line: &str) -> Vec<u8> {
        let packet = crate::scenario::packet(line).unwrap_or_else(|wrong| panic!("{line}: {wrong}"));
        let kind = if packet[0] >> 4 == 4 { [8, 0] } else { [0x86, 0xdd] };
        [&[0; HEAD_ROOM][..], &[2; 12], &kind, &packet].concat()
    }

    /// How many of so many frames that come in together pass.
    fn passed(plane: &mut Plane, now: Time, port: u16, line: &str, frames: usize) -> usize {
        let mut buffers = vec![frame(line); frames];
        let mut batch = Batch::default();
        for buf in &mut buffers {
            let end = buf.len();
            batch.push(Frame::new(buf, HEAD_ROOM, end, PortId(port)));
        }
        plane.run(now, &mut batch);
        assert!(plane.accounting().balance(), "{:?}", plane.accounting());
        let out = |(_, verdict): (&Frame<'_>, Verdict)| match verdict {
            Verdict::Out(_) => true,
            Verdict::Dropped(DropReason::PoliceRate) => false,
            other => panic!("{line}: {other:?}"),
        };
        batch.outcome().filter(|one| out((one.0, one.1))).count()
    }

    /// However many come at a time, and whenever: of a subscriber that always has more to send the rate passes, to the frame.
    #[test]
    fn the_rate_is_exact_whenever_frames_come() {
        let text = "lan > police(profile p outward 80Mbit burst 10kB, others p) > wan";
        let (mut plane, mut random) = (Plane::new(&config(text), &MACS), Random(1));
        let (mut ns, mut all) = (0, 0);
        // A frame of 1000 bytes takes 100 us.
        while ns < 300_000_000 {
            let frames = 10 + random.below(50) as usize;
            all +=
                passed(&mut plane, Time::from_ns(ns), 0, "udp 198.18.0.1:5 > 198.19.0.9:53 len 958", frames);
            assert_eq!(all as u64, 10 + ns / 100_000, "at {ns} ns");
            // No longer than the burst lasts.
            ns += random.below(900_000);
        }
        let [counts] = &plane.police_counts()[..] else { panic!("one rate") };
        assert_eq!(
            (counts.passed_frames, counts.passed_bytes, counts.subscribers),
            (all as u64, all as u64 * 1000, 1)
        );
        assert_eq!(counts.dropped, plane.accounting().drops[DropReason::PoliceRate]);
    }

    /// Frames of many subscribers with invented addresses come between those of an honest one, at some hundred thousand a second.
    #[test]
    fn a_flood_of_invented_addresses_leaves_others_what_is_theirs() {
        let text = "lan > police(profile p outward 8Mbit burst 10kB, others p, subscribers 4096) > wan";
        let (mut plane, mut random) = (Plane::new(&config(text), &MACS), Random(2));
        let mut all = 0;
        for ms in 0..100_u64 {
            for part in 0..2 {
                let now = Time::from_ns(ms * 1_000_000 + part * 500_000);
                let mut buffers: Vec<Vec<u8>> = Vec::new();
                for _ in 0..BATCH {
                    let [a, b, c, _, _, _, _, _] = random.next().to_le_bytes();
                    buffers.push(frame(&format!("udp 10.{a}.{b}.{c}:5 > 198.19.0.9:53 len 958")));
                }
                let mut batch = Batch::default();
                for buf in &mut buffers {
                    let end = buf.len();
                    batch.push(Frame::new(buf, HEAD_ROOM, end, PortId(0)));
                }
                plane.run(now, &mut batch);
                let out = batch.outcome().filter(|(_, verdict)| matches!(verdict, Verdict::Out(_))).count();
                assert_eq!(
                    out, BATCH,
                    "it is not the flood that is limited, whose addresses send one frame each"
                );
                // Twice its rate, which is a frame of 1000 bytes in 1 ms.
                all += passed(&mut plane, now, 0, "udp 198.18.0.1:5 > 198.19.0.9:53 len 958", 1);
                assert!(all as u64 <= 10 + ms, "{all} frames at {ms} ms");
            }
        }
        assert_eq!(all, 10 + 99);
        assert_eq!(plane.police_counts()[0].subscribers, 4096);
    }

    /// What is asked of profiles, classes, directions and addresses, as rows: port, packet, and how many of nine frames of 1000 bytes pass.
    #[test]
    fn each_subscriber_has_the_rate_of_its_profile_class_and_direction() {
        let text =
            "lan > filter(accept udp to any port 5060 class 1, accept udp from any port 5060 class 1, \
                    accept udp to any port 7 class 7, policy accept) > police(
                    profile basic outward 8Mbit inward 16Mbit burst 3000,
                    profile basic class 1 outward 8Mbit burst 2000,
                    profile gold outward 8Mbit burst 5000, profile class7 class 7 outward 8Mbit burst 2000,
                    198.18.1.0/24 gold, 198.18.1.128/25 none, 198.18.9.0/24 class7,
                    2001:db8:1::/48 gold, 2001:db8:1:9::/64 none, 2001:db8:9::/48 none, others basic) > wan";
        let mut plane = Plane::new(&config(text), &MACS);
        for (port, line, expected) in [
            (0, "udp 198.18.0.1:5 > 198.19.0.9:53", 3),
            (0, "udp 198.18.0.1:6 > 198.19.0.8:54", 0),
            // Another subscriber, another class, another direction.
            (0, "udp 198.18.0.2:5 > 198.19.0.9:53", 3),
            (0, "udp 198.18.0.1:5 > 198.19.0.9:5060", 2),
            (1, "udp 198.19.0.9:53 > 198.18.0.1:5", 3),
            // A class without a rate of its own in this direction: with all others.
            (1, "udp 198.19.0.9:5060 > 198.18.0.1:5", 0),
            (0, "udp 198.18.0.1:5 > 198.19.0.9:7", 0),
            // The longest prefix.
            (0, "udp 198.18.1.1:5 > 198.19.0.9:53", 5),
            (1, "udp 198.19.0.9:53 > 198.18.1.1:5", 9),
            (0, "udp 198.18.1.128:5 > 198.19.0.9:53", 9),
            // A profile that limits one class.
            (0, "udp 198.18.9.1:5 > 198.19.0.9:53", 9),
            (0, "udp 198.18.9.1:5 > 198.19.0.9:7", 2),
            // A /64 of IPv6 is one subscriber.
            (0, "udp [2001:db8:1::1]:5 > [2001:db8:2::9]:53", 5),
            (0, "udp [2001:db8:1::2]:5 > [2001:db8:2::9]:53", 0),
            (0, "udp [2001:db8:1:1::1]:5 > [2001:db8:2::9]:53", 5),
            (0, "udp [2001:db8:1:9::1]:5 > [2001:db8:2::9]:53", 9),
            (0, "udp [2001:db8:9::1]:5 > [2001:db8:2::9]:5060", 9),
            (0, "udp [2001:db8:8::1]:5 > [2001:db8:2::9]:5060", 2),
            (1, "udp [2001:db8:2::9]:53 > [2001:db8:8::1]:5", 3),
            (1, "udp [2001:db8:2::9]:53 > [2001:db8:8:0:1::1]:5", 0),
        ] {
            let bytes = if line.contains('[') { 938 } else { 958 };
            let line = format!("{line} len {bytes}");
            assert_eq!(passed(&mut plane, Time::default(), port, &line, 9), expected, "{line}");
        }
    }

    #[test]
    fn a_subscriber_has_the_network_of_ipv6_that_the_text_says() {
        for (each6, expected) in [("each6 56", [3, 0, 0]), ("each6 64", [3, 3, 0]), ("each6 128", [3, 3, 3])]
        {
            let text = format!("lan > police(profile p outward 8Mbit burst 3000, others p, {each6}) > wan");
            let mut plane = Plane::new(&config(&text), &MACS);
            let hosts = ["2001:db8:1::1", "2001:db8:1:1::1", "2001:db8:1:1::2"];
            let all = hosts.map(|host| {
                let line = format!("udp [{host}]:5 > [2001:db8:2::9]:53 len 938");
                passed(&mut plane, Time::default(), 0, &line, 9)
            });
            assert_eq!(all, expected, "{each6}");
        }
    }

    /// A flow that meets no limit on its way needs not come here; whether it does depends on direction, profile and class.
    #[test]
    fn flows_that_meet_no_limit_have_recipes() {
        let text = "lan > filter(accept udp to any port 5060 class 1, accept udp to any port 5061 class 2, policy accept) > police(
                    profile up outward 8Mbit, profile one class 1 outward 8Mbit,
                    198.18.1.0/24 up, 198.18.2.0/24 one) > wan";
        let plane = Plane::new(&config(text), &MACS);
        for (port, line, expected) in [
            (0, "udp 198.18.0.1:5 > 198.19.0.9:53", Ok(())),
            (0, "udp 198.18.1.1:5 > 198.19.0.9:53", Err(Never::Configured)),
            (1, "udp 198.19.0.9:53 > 198.18.1.1:5", Ok(())),
            (0, "udp 198.18.2.1:5 > 198.19.0.9:53", Ok(())),
            (0, "udp 198.18.2.1:5 > 198.19.0.9:5061", Ok(())),
            (0, "udp 198.18.2.1:5 > 198.19.0.9:5060", Err(Never::Configured)),
        ] {
            let mut buf = frame(line);
            let end = buf.len();
            let mut frame = Frame::new(&mut buf, HEAD_ROOM, end, PortId(port));
            frame.read(12).expect("a packet");
            let key = Key::of(&frame).expect("a plain one");
            assert_eq!(plane.pipeline.recipe(Time::default(), key).map(|_| ()), expected, "{line}");
        }
    }

    #[test]
    fn what_subscribers_lack_outlives_another_text() {
        let text = |police: &str| config(&format!("lan > police({police}) > wan"));
        let old = text("profile p outward 8Mbit burst 4000, profile q outward 8Mbit burst 4000, others p");
        let line = "udp 198.18.0.1:5 > 198.19.0.9:53 len 958";
        for (new, at_once, a_ms_later) in [
            ("profile p outward 8Mbit burst 4000, 10.0.0.0/8 none, others p", 0, 1),
            ("profile p outward 32Mbit burst 4000, others p", 0, 4),
            ("profile p outward 8Mbit burst 2000, others p", 0, 1),
            // Another profile, or none.
            ("profile q outward 8Mbit burst 4000, others q", 4, 1),
            ("others none", 9, 9),
            // Subscribers are known by other addresses, or others of them: the stage begins anew.
            ("profile p outward 8Mbit burst 4000, others p, each6 56", 4, 1),
            ("profile p outward 8Mbit burst 4000, others p, subscribers 9", 4, 1),
        ] {
            let mut plane = Plane::new(&old, &MACS);
            let now = Time::from_ms(5);
            assert_eq!(passed(&mut plane, now, 0, line, 9), 4);
            let before = plane.police_counts()[0].passed_frames;
            plane.apply(now, &old, &text(new)).expect("another text");
            if at_once == 0 {
                assert_eq!(plane.police_counts()[0].passed_frames, before, "{new}");
            }
            assert_eq!(passed(&mut plane, now, 0, line, 9), at_once, "{new}");
            assert_eq!(passed(&mut plane, Time::from_ms(6), 0, line, 9), a_ms_later, "{new}");
        }
    }

    /// The subscribers of the frames that wait in the queues of a node.
    fn subscribers_in_queues(plane: &Plane) -> Vec<u32> {
        let queues = plane.pipeline.of_kind::<Queue>();
        queues
            .flat_map(|(_, queue)| queue.waiting().kept)
            .map(|ticket| plane.outbox.kept.known(ticket).policed_host)
            .collect()
    }

    /// Frames keep their subscriber when a NAT copies them, and have none when it turns them.
    #[test]
    fn queues_behind_a_nat_see_subscribers() {
        let host = mix6(0x2001_0db8_0001_u128 << 80);
        let nat64 = "prefix64 2001:db8:64::/96";
        let fragment =
            |at: &str| format!("udp [2001:db8:1::1]:5 > [2001:db8:64::c613:9]:53 whole 1600 frag {at} id 7");
        for (queue, frames, expected) in [
            (
                "outward 8kbit",
                vec!["udp [2001:db8:1::1]:5 > [2001:db8:64::c613:9]:53".to_string(); 2],
                vec![host],
            ),
            ("outward 8kbit", vec![fragment("800 len 808"), fragment("0+ len 800")], vec![host]),
            (
                "outward 8kbit",
                vec!["udp 198.18.0.1:5 > 198.19.0.9:53".to_string(); 3],
                vec![mix4(0xc612_0001); 2],
            ),
        ] {
            let text = format!(
                "lan > police(others none) > nat(public 192.0.2.1, {nat64}) > queue({queue}, aqm fifo) > wan"
            );
            let mut plane = Plane::new(&config(&text), &MACS);
            for line in &frames {
                send(&mut plane, line);
            }
            assert_eq!(subscribers_in_queues(&plane), expected, "{frames:?}");
        }
        let text = "lan > police(others none) > queue(inward 8kbit, aqm fifo) >
                    nat(public 192.0.2.1, forward udp 192.0.2.1:53 to 198.18.0.9:53) > wan";
        let mut plane = Plane::new(&config(text), &MACS);
        (0..3).for_each(|_| send(&mut plane, "udp 198.18.0.1:5 > 192.0.2.1:53"));
        assert_eq!(subscribers_in_queues(&plane), [0, 0], "of nobody whom a policer has seen inward");
    }

    fn send(plane: &mut Plane, line: &str) {
        let mut buf = frame(line);
        let end = buf.len();
        let mut batch = Batch::default();
        batch.push(Frame::new(&mut buf, HEAD_ROOM, end, PortId(0)));
        plane.run(Time::default(), &mut batch);
        assert_eq!(plane.accounting().drops.total(), 0, "{line}: {:?}", plane.accounting());
    }

    /// A frame of a host on a line.
    fn of_line(vid: u8, mac: u8, src: &str) -> Vec<u8> {
        let mut frame = frame(&format!("udp {src}:5 > 198.19.0.9:53 len 958"));
        frame[HEAD_ROOM + 11] = mac;
        frame.splice(HEAD_ROOM + 12..HEAD_ROOM + 12, [0x81, 0, 0, vid]);
        frame
    }

    /// What is known of a subscriber decides, and not what its frames say of addresses; other hosts are counted by their addresses.
    #[test]
    fn a_subscriber_of_the_table_has_one_bucket_whatever_its_addresses() {
        let text = "lan(vlan 7-9) > police(profile p outward 8Mbit burst 3100, others p) > wan(vlan 7-9)
                    subscribers(anna lan 7 02:02:02:02:02:01, bob lan 8 02:02:02:02:02:01)";
        let mut plane = Plane::new(&config(text), &MACS);
        for (vid, mac, src, expected) in [
            (7, 1, "198.18.0.1", 2),
            (7, 1, "198.18.0.2", 1),
            (7, 1, "198.18.0.1", 0),
            // The same address on the line of another one.
            (8, 1, "198.18.0.1", 2),
            // A host of the first line that the table does not know.
            (7, 2, "198.18.0.1", 2),
            (9, 1, "198.18.0.1", 1),
            (9, 1, "198.18.0.3", 2),
        ] {
            let mut out = 0;
            for _ in 0..2 {
                let mut buf = of_line(vid, mac, src);
                let end = buf.len();
                let mut batch = Batch::default();
                batch.push(Frame::new(&mut buf, HEAD_ROOM, end, PortId(0)));
                plane.run(Time::default(), &mut batch);
                let (_, verdict) = batch.outcome().next().expect("one");
                out += u32::from(verdict == Verdict::Out(PortId(1)));
            }
            assert_eq!(out, expected, "{src} of {mac} on {vid}");
        }
    }
}
