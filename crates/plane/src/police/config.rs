//! The configuration of a policer, read from its item.
//!
//! ```text
//! police(
//!   profile basic outward 20Mbit inward 50Mbit burst 50ms,
//!   profile gold outward 100Mbit inward 200Mbit,
//!   profile basic class 1 outward 256kbit inward 256kbit,
//!   198.18.1.0/24 gold, 198.18.2.0/24 none, others basic)
//! ```
//!
//! | argument | | else |
//! |---|---|---|
//! | `profile NAME [class N] [outward RATE] [inward RATE] [burst TIME\|SIZE]` | what a subscriber may send and receive; a class that has a rate of its own takes nothing from the others | |
//! | `PREFIX NAME`, `PREFIX none` | subscribers with this profile, or without a limit; the longest prefix counts | |
//! | `others NAME`, `others none` | all other subscribers | `none` |
//! | `each6 LEN` | a subscriber has a network of IPv6 of this length, 32 to 128 | 64 |
//! | `subscribers N` | subscribers that are known at a time, for each rate | 65536 |

use std::net::IpAddr;
use std::ops::RangeInclusive;

use weir_config::{Notes, did_you_mean};
use weir_link::Buffer;
use weir_queue::Time;

use super::buckets::Limit;
use crate::dir::Dir;
use crate::filter::class;
use crate::port::Port;
use crate::prefix::Prefix;
use crate::text::{Arg, Item, constant_rate};

/// What may pass at once where the text does not say it.
const BURST: Buffer = Buffer::Time(Time::from_ms(100));
/// A frame of full size, which a burst holds at least.
const FRAME: u16 = 1514;
/// Ethernet header, and each of its tags.
const ETHERNET: u16 = 14;
const TAG: u16 = 4;
/// Bursts that the text says.
pub(super) const MOST_BURST: u64 = 4_000_000_000;
const BURSTS: RangeInclusive<u64> = 0..=MOST_BURST;
const BURST_TIMES: RangeInclusive<Time> = Time::from_us(10)..=Time::from_s(10);
/// Lengths of what a subscriber has of IPv6.
const EACH6: RangeInclusive<u8> = 32..=128;
const SUBSCRIBERS: RangeInclusive<u32> = 1..=1 << 20;
/// Rates of all profiles: each has a table of buckets.
const MOST_RATES: usize = 256;
/// In the place of a profile: no limit.
const NONE: &str = "none";
/// What arguments begin with that are no prefixes.
const NAMES: [&str; 4] = ["profile", "others", "each6", "subscribers"];

/// The configuration of a policer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Config {
    pub(super) profiles: Vec<Profile>,
    /// Networks, each with the number of its profile; `None`: no limit.
    pub(super) networks: Vec<(Prefix, Option<usize>)>,
    pub(super) others: Option<usize>,
    pub(super) each6: u8,
    pub(super) subscribers: u32,
}

/// What subscribers may send and receive.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Profile {
    pub(super) name: String,
    pub(super) rates: Vec<Rates>,
}

/// The rates of a class, or of all that have none of their own.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Rates {
    pub(super) class: Option<u8>,
    outward: Option<Limit>,
    inward: Option<Limit>,
}

/// What tells rates apart.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct RateName {
    pub(crate) profile: String,
    /// The class with a rate of its own.
    pub(crate) class: Option<u8>,
    pub(crate) dir: Dir,
}

impl Rates {
    fn limit_mut(&mut self, dir: Dir) -> &mut Option<Limit> {
        match dir {
            Dir::Outward => &mut self.outward,
            Dir::Inward => &mut self.inward,
        }
    }

    /// The rate in a direction, if it is limited there.
    pub(super) fn limit(&self, dir: Dir) -> Option<Limit> {
        match dir {
            Dir::Outward => self.outward,
            Dir::Inward => self.inward,
        }
    }
}

/// A text that is being read: a profile may be defined after the subscribers that have it.
#[derive(Debug)]
struct Reading<'a> {
    config: Config,
    /// The longest frame of the node's ports.
    longest: u64,
    /// Arguments that name a profile, with their networks; `None`: all others.
    having: Vec<(&'a Arg, Option<Prefix>)>,
}

impl Config {
    /// Reads an item of a node with these ports; mistakes are noted.
    pub(crate) fn read(item: &Item, ports: &[Port], notes: &Notes<'_>) -> Config {
        let config = Config {
            profiles: Vec::new(),
            networks: Vec::new(),
            others: None,
            each6: 64,
            subscribers: 1 << 16,
        };
        let mut reading = Reading { config, longest: Config::longest_frame(ports), having: Vec::new() };
        for arg in &item.args {
            if let Err(text) = reading.argument(arg) {
                arg.wrong(notes, text);
            }
        }
        item.said_once(&["others", "each6", "subscribers"], notes);
        if item.args.is_empty() {
            let example = "police(profile basic outward 20Mbit inward 50Mbit, others basic)";
            item.wrong(notes, format!("a policer needs profiles, and who has them: write `{example}`"));
        }
        reading.assign(notes);
        let config = reading.config;
        let rates = config.limits().count();
        if rates > MOST_RATES {
            item.wrong(notes, format!("a policer has at most {MOST_RATES} rates: these are {rates}"));
        }
        config
    }

    /// The longest frame of these ports, which a burst holds at least.
    pub(super) fn longest_frame(ports: &[Port]) -> u64 {
        let of_port = |port: &Port| port.mtu + ETHERNET + TAG * port.vlan.most() as u16;
        ports.iter().map(of_port).max().unwrap_or_default().max(FRAME).into()
    }

    /// The rate with this name.
    ///
    /// # Errors
    /// There is none.
    pub(super) fn limit_of(&self, name: &RateName) -> Result<Limit, String> {
        let names: Vec<&str> = self.profiles.iter().map(|profile| profile.name.as_str()).collect();
        let profile = self.profiles.iter().find(|profile| profile.name == name.profile).ok_or_else(|| {
            format!("there is no profile `{}`: {}", name.profile, did_you_mean(&name.profile, &names))
        })?;
        let rates = profile.rates.iter().find(|rates| rates.class == name.class);
        rates.and_then(|rates| rates.limit(name.dir)).ok_or_else(|| {
            format!("the profile `{}` has no such rate: write it into the text, and apply that", name.profile)
        })
    }

    /// Changes a rate that there is.
    pub(super) fn set_limit(&mut self, name: &RateName, limit: Limit) {
        let profile = self.profiles.iter_mut().find(|profile| profile.name == name.profile);
        let rates =
            profile.and_then(|profile| profile.rates.iter_mut().find(|rates| rates.class == name.class));
        if let Some(limited) = rates.map(|rates| rates.limit_mut(name.dir)) {
            *limited = Some(limit);
        }
    }

    /// All rates: the number of the profile, the class if the rate is for one class, the direction, and the rate.
    pub(super) fn limits(&self) -> impl Iterator<Item = (usize, Option<u8>, Dir, Limit)> {
        self.profiles.iter().enumerate().flat_map(|(n, profile)| {
            profile.rates.iter().flat_map(move |rates| {
                let of = move |dir| Some((n, rates.class, dir, rates.limit(dir)?));
                [Dir::Outward, Dir::Inward].into_iter().filter_map(of)
            })
        })
    }

    /// Whether the other one knows subscribers by the same addresses, and as many of them.
    pub(crate) fn has_the_shape_of(&self, other: &Config) -> bool {
        (self.each6, self.subscribers) == (other.each6, other.subscribers)
    }
}

impl<'a> Reading<'a> {
    fn argument(&mut self, arg: &'a Arg) -> Result<(), String> {
        match arg.words()[..] {
            ["profile", name, ref rest @ ..] => self.profile(name, rest),
            ["profile"] => Err("a profile has a name and rates: write `profile basic outward 20Mbit`".into()),
            ["others", _] => {
                self.having.push((arg, None));
                Ok(())
            }
            ["each6", len] => {
                let len = len.parse().ok().filter(|len| EACH6.contains(len));
                let wrong = "each6 takes the length of a subscriber's network of IPv6, 32 to 128";
                self.config.each6 = len.ok_or(wrong)?;
                Ok(())
            }
            ["subscribers", number] => {
                let number = number.parse().ok().filter(|number| SUBSCRIBERS.contains(number));
                let wrong = || {
                    format!(
                        "subscribers takes a number from {} to {}",
                        SUBSCRIBERS.start(),
                        SUBSCRIBERS.end()
                    )
                };
                self.config.subscribers = number.ok_or_else(wrong)?;
                Ok(())
            }
            [name, ..] if NAMES.contains(&name) => {
                Err(format!("`{name}` takes one value, as in `{}`", example(name)))
            }
            [prefix, _] if prefix.contains(['.', ':']) => {
                let prefix: Prefix = prefix.parse()?;
                if prefix.network() != prefix {
                    return Err(format!("`{prefix}` has bits behind its length: write {}", prefix.network()));
                }
                self.having.push((arg, Some(prefix)));
                Ok(())
            }
            [prefix, ..] if prefix.contains(['.', ':']) => {
                Err(format!("`{prefix}` needs one profile: write `{prefix} basic`, or `{prefix} none`"))
            }
            [name, ..] => {
                Err(format!("`{name}` is no argument of a policer: {}", did_you_mean(name, &NAMES)))
            }
            [] => Ok(()),
        }
    }

    /// `NAME [class N] [outward RATE] [inward RATE] [burst TIME|SIZE]`.
    #[expect(clippy::indexing_slicing, reason = "chunks have a word, and a profile that was found is there")]
    fn profile(&mut self, name: &str, words: &[&str]) -> Result<(), String> {
        const WORDS: [&str; 4] = ["class", "outward", "inward", "burst"];
        if name == NONE || WORDS.contains(&name) {
            return Err(format!("`{name}` cannot be the name of a profile: write another"));
        }
        let (mut own, mut outward, mut inward, mut burst) = (None, None, None, None);
        for pair in words.chunks(2) {
            let &[word, value] = pair else {
                let known = WORDS.contains(&pair[0]);
                return Err(if known {
                    format!("`{}` takes one value, as in `{}`", pair[0], example(pair[0]))
                } else {
                    unknown(pair[0], &WORDS)
                });
            };
            let said_before = match word {
                "class" => own.replace(class(value)?).is_some(),
                "outward" => outward.replace(constant_rate(value)?).is_some(),
                "inward" => inward.replace(constant_rate(value)?).is_some(),
                "burst" => burst.replace(self.burst(value)?).is_some(),
                _ => return Err(unknown(word, &WORDS)),
            };
            if said_before {
                return Err(format!("`{word}` is said already: leave one of them out"));
            }
        }
        if outward.is_none() && inward.is_none() {
            return Err(format!("profile `{name}` limits nothing: write a rate, as in `outward 20Mbit`"));
        }
        let limit = |rate: Option<u64>| rate.map(|rate| self.limit(rate, burst.unwrap_or(BURST)));
        let rates = Rates { class: own, outward: limit(outward), inward: limit(inward) };
        let profiles = &mut self.config.profiles;
        let n = profiles.iter().position(|profile| profile.name == name).unwrap_or_else(|| {
            profiles.push(Profile { name: name.to_string(), rates: Vec::new() });
            profiles.len() - 1
        });
        if profiles[n].rates.iter().any(|rates| rates.class == own) {
            let what = own.map_or_else(String::new, |own| format!(" class {own}"));
            return Err(format!("there is a profile `{name}`{what} already: write all its rates in one"));
        }
        profiles[n].rates.push(rates);
        Ok(())
    }

    /// What may pass at once.
    fn burst(&self, text: &str) -> Result<Buffer, String> {
        let burst = Buffer::read(text);
        match burst {
            Ok(Buffer::Bytes(bytes)) if bytes < self.longest => {
                Err(format!("a burst of {text} holds no frame of {} bytes: write 64kB or 50ms", self.longest))
            }
            Ok(Buffer::Bytes(bytes)) if BURSTS.contains(&bytes) => burst,
            Ok(Buffer::Time(time)) if BURST_TIMES.contains(&time) => burst,
            _ => Err(format!("`{text}` is no burst up to 4GB, or of 10us to 10s: write 64kB or 50ms")),
        }
    }

    fn limit(&self, bits_per_s: u64, burst: Buffer) -> Limit {
        match burst {
            Buffer::Time(time) => Limit::with_ns(bits_per_s, time.ns(), self.longest),
            _ => Limit::with_bytes(bits_per_s, burst.bytes(bits_per_s, Time::ZERO)),
        }
    }

    /// Gives networks, and all others, their profiles.
    #[expect(clippy::indexing_slicing, reason = "arguments that name a profile have two words")]
    fn assign(&mut self, notes: &Notes<'_>) {
        let names: Vec<&str> = self.config.profiles.iter().map(|profile| profile.name.as_str()).collect();
        let of = |name: &str| match names.iter().position(|known| *known == name) {
            None if name == NONE => Ok(None),
            None => Err(match &names[..] {
                [] => format!("there is no profile `{name}`: write `profile {name} outward 20Mbit`"),
                names => format!(
                    "there is no profile `{name}`: {}",
                    did_you_mean(name, &[names, &[NONE]].concat())
                ),
            }),
            found => Ok(found),
        };
        let (mut networks, mut others): (Vec<(Prefix, Option<usize>)>, _) = (Vec::new(), None);
        for &(arg, prefix) in &self.having {
            let profile = of(&arg.0[1].text);
            if let Err(text) = &profile {
                arg.wrong(notes, text.clone());
            }
            let profile = profile.unwrap_or_default();
            let Some(prefix) = prefix else {
                others = profile;
                continue;
            };
            if networks.iter().any(|(network, _)| *network == prefix) {
                arg.wrong(notes, format!("{prefix} has a profile already: leave one of them out"));
            } else if prefix.address.is_ipv6() && prefix.len > self.config.each6 {
                arg.wrong(
                    notes,
                    format!(
                        "{prefix} is less than a subscriber, who has a /{each6}: write that, or `each6 {}`",
                        prefix.len,
                        each6 = self.config.each6
                    ),
                );
            }
            networks.push((prefix, profile));
        }
        (self.config.networks, self.config.others) = (networks, others);
    }
}

fn unknown(word: &str, words: &[&str]) -> String {
    format!("`{word}` is no word of a profile: {}", did_you_mean(word, words))
}

fn example(name: &str) -> &'static str {
    match name {
        "others" => "others basic",
        "each6" => "each6 56",
        "subscribers" => "subscribers 65536",
        "class" => "class 1",
        "inward" => "inward 50Mbit",
        "burst" => "burst 50ms",
        _ => "outward 20Mbit",
    }
}

/// The network of IPv4 or of IPv6 from its first to its last address.
pub(super) fn ends(prefix: Prefix) -> (IpAddr, IpAddr) {
    let last = match prefix.address {
        IpAddr::V4(address) => IpAddr::V4((u32::from(address) | !crate::prefix::mask4(prefix.len)).into()),
        IpAddr::V6(address) => IpAddr::V6((u128::from(address) | !crate::prefix::mask6(prefix.len)).into()),
    };
    (prefix.address, last)
}

#[cfg(test)]
mod tests {
    use weir_testkit::{golden, mistakes};

    use crate::config::Config;
    use crate::stages::StageConfig;

    fn read(args: &str) -> Result<Config, String> {
        let text = format!("lan > police({args}) > wan(mtu 2000)");
        Config::read("n", &text).map_err(|wrong| wrong.to_string())
    }

    #[test]
    fn a_policer_is_read() {
        let args = "others slow, 198.18.1.0/24 gold, 2001:db8::/32 none, each6 56, subscribers 9,
                    profile gold outward 100Mbit inward 2.5Gbit burst 50ms,
                    profile gold class 7 inward 1Mbit burst 64kB,
                    profile slow outward 10kbit, profile unused inward 1Mbit";
        let config = read(args).unwrap_or_else(|wrong| panic!("{wrong}"));
        let [StageConfig::Police(police)] = &config.stages[..] else { panic!("a policer") };
        let limits = police.limits().map(|(n, class, dir, limit)| {
            (police.profiles[n].name.as_str(), class, dir as usize, limit.bits_per_s, limit.burst_bytes())
        });
        let expected = [
            ("gold", None, 0, 100_000_000, 625_000),
            ("gold", None, 1, 2_500_000_000, 15_625_000),
            ("gold", Some(7), 1, 1_000_000, 64_000),
            // At least a frame of the longest port.
            ("slow", None, 0, 10_000, 2014),
            ("unused", None, 1, 1_000_000, 12_500),
        ];
        assert_eq!(limits.collect::<Vec<_>>(), expected);
        let networks: Vec<String> = police.networks.iter().map(|(n, of)| format!("{n} {of:?}")).collect();
        assert_eq!(networks, ["198.18.1.0/24 Some(0)", "2001:db8::/32 None"]);
        assert_eq!((police.others, police.each6, police.subscribers), (Some(1), 56, 9));
        let shared = config.may_share(2).expect_err("one thread");
        assert!(shared.starts_with("a `police` limits all that a subscriber"), "{shared}");
    }

    #[test]
    fn mistakes_of_a_policer_have_remedies() {
        let texts = [
            "",
            "profile",
            "profile basic",
            "profile basic outward",
            "profile basic outward 0",
            "profile basic outward 0Mbit",
            "profile basic outward 20",
            "profile basic outward fast",
            "profile basic outward wifi:20Mbit",
            "profile basic outward trace:up.rates",
            "profile basic outwards 20Mbit",
            "profile basic outward 20Mbit outward 30Mbit",
            "profile basic outward 20Mbit burst",
            "profile basic outward 20Mbit burst 1500",
            "profile basic outward 20Mbit burst 11s",
            "profile basic outward 20Mbit burst 1bdp",
            "profile basic class 8 outward 20Mbit",
            "profile none outward 20Mbit",
            "profile basic outward 20Mbit, profile basic inward 20Mbit",
            "profile basic class 1 outward 20Mbit, profile basic class 1 inward 20Mbit",
            "others basic",
            "profile basic outward 20Mbit, others basik",
            "profile basic outward 20Mbit, others basic, others none",
            "profile basic outward 20Mbit, 198.18.0.0/16 gold",
            "profile basic outward 20Mbit, 198.18.0.0/16 basic, 198.18.0.0/16 none",
            "profile basic outward 20Mbit, 198.18.0.1/16 basic",
            "profile basic outward 20Mbit, 198.18.0.0/33 basic",
            "profile basic outward 20Mbit, 198.18.0.0/16",
            "profile basic outward 20Mbit, 2001:db8::1/128 basic",
            "others",
            "each6 31",
            "subscribers 0",
            "subscribers 1048577",
            "proflie basic outward 20Mbit",
        ];
        golden!("src/police/mistakes.txt", &mistakes(&texts, read));
    }
}
