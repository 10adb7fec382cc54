//! The configuration of a queue, read from its item.
//!
//! ```text
//! lan > queue(outward 20Mbit, inward 100Mbit, aqm fq-codel) > nat(public 192.0.2.1) > route > wan
//! lan > queue(outward lte:20Mbit, inward trace:down.rates, limit 1bdp, delay 20ms, loss 0.1%) > wan
//! ```
//!
//! | argument | | else |
//! |---|---|---|
//! | `outward RATE`, `inward RATE` | of the link in this direction: bits/s, `wifi:RATE`, `lte:RATE`, `trace:FILE` | not limited |
//! | `aqm NAME SETTING=VALUE ..` | `fifo`, `red`, `ared`, `pie`, `codel`, `fq-codel`, `fq-pie`, `gsp`, `dualpi2`, `cake` and others | `fq-codel` |
//! | `limit SIZE\|TIME\|Nbdp` | what may wait in each direction: bytes, or what the link carries in a time or in round trips | 100 ms, 32 frames at least |
//! | `overhead BYTES` | what the link adds to each frame | 0 |
//! | `delay`, `path PREFIX=TIME`, `loss`, `burst`, `jitter`, `reorder`, `reorder-by` | what is behind the link, in each direction | nothing |

use std::ops::RangeInclusive;

use weir_config::{Notes, did_you_mean};
use weir_link::{Aqm, Buffer, Paths, Rate};
use weir_queue::{Bottleneck, Time};

use crate::dir::Dir;
use crate::text::{Arg, FileOf, Item};

/// The limit if the text has none.
const LIMIT: Buffer = Buffer::Time(Time::from_ms(100));
/// The least limit, in bytes: some frames must fit however slow the link is.
const LEAST_LIMIT: u64 = 32 * 1514;
/// Limits that the text may set, in bytes.
const LIMITS: RangeInclusive<u64> = 2_000..=4_000_000_000;
const LIMIT_TIMES: RangeInclusive<Time> = Time::from_us(10)..=Time::from_s(10);
/// Rate of a direction without a limit, bits/s, by which memory for frames that are on their way is measured.
const UNLIMITED: u64 = 1_000_000_000;

/// The configuration of a queue.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Config {
    outward: Option<Rate>,
    inward: Option<Rate>,
    pub(super) aqm: Aqm,
    limit: Buffer,
    pub(super) overhead: u32,
    /// What is behind the link, if there is something.
    pub(super) behind: Option<Paths>,
}

impl Config {
    /// Reads an item; mistakes are noted.
    #[expect(clippy::expect_used, clippy::indexing_slicing, reason = "names that are written here")]
    pub(crate) fn read(item: &Item, file: FileOf<'_>, notes: &Notes<'_>) -> Config {
        let mut config = Config {
            outward: None,
            inward: None,
            aqm: aqm("fq-codel").expect("it is known"),
            limit: LIMIT,
            overhead: 0,
            behind: None,
        };
        for arg in &item.args {
            if let Err(text) = config.argument(arg, file) {
                arg.wrong(notes, text);
            }
        }
        item.said_once(&NAMES[..NAMES.len() - 1], notes);
        if notes.is_empty()
            && let Err(text) = config.check()
        {
            item.wrong(notes, text);
        }
        config
    }

    fn argument(&mut self, arg: &Arg, file: FileOf<'_>) -> Result<(), String> {
        match arg.words()[..] {
            ["outward", rate] => self.outward = Some(Rate::read_with(rate, file)?),
            ["inward", rate] => self.inward = Some(Rate::read_with(rate, file)?),
            ["aqm", name] => self.aqm = aqm(name)?,
            ["aqm", name, ref settings @ ..] => self.aqm = aqm(&format!("{name}:{}", settings.join(",")))?,
            ["limit", text] => self.limit = limit(text)?,
            ["overhead", bytes] => {
                let few = bytes.parse::<u32>().ok().filter(|bytes| *bytes <= 256);
                self.overhead = few.ok_or("overhead takes a number of bytes from 0 to 256")?;
            }
            [name, value] if NAMES.contains(&name) => {
                let set = self.behind.get_or_insert_default().set(name, value);
                set.unwrap_or(Ok(())).map_err(|error| format!("{name}: {error}"))?;
            }
            [name, ..] if NAMES.contains(&name) => {
                return Err(format!("`{name}` takes one value, as in `{}`", example(name)));
            }
            [name, ..] => {
                return Err(format!("`{name}` is no argument of a queue: {}", did_you_mean(name, &NAMES)));
            }
            [] => {}
        }
        Ok(())
    }

    fn check(&self) -> Result<(), String> {
        if self.outward.is_none() && self.inward.is_none() && self.behind.is_none() {
            return Err("a queue needs the rate of its link, or what is behind it: write `outward 20Mbit`, `inward 100Mbit` or \
                        `delay 10ms`"
                .into());
        }
        for dir in [Dir::Outward, Dir::Inward] {
            let bytes = self.limit_bytes(dir);
            if self.rate(dir).is_some() && bytes < *LIMITS.start() {
                return Err(format!(
                    "the limit is {bytes} bytes, in which no frame of full size fits: write 500kB, 50ms, or a longer `delay`"
                ));
            }
        }
        Ok(())
    }

    /// Whether frames wait in this direction.
    pub(super) fn is_in(&self, dir: Dir) -> bool {
        self.rate(dir).is_some() || self.behind.is_some()
    }

    /// Whether the other one has links in the same directions, and something behind them or not.
    pub(crate) fn has_the_shape_of(&self, other: &Config) -> bool {
        let shape =
            |config: &Config| (config.outward.is_some(), config.inward.is_some(), config.behind.is_some());
        shape(self) == shape(other)
    }

    /// The rate of the link; `None` without a limit.
    pub(super) fn rate(&self, dir: Dir) -> Option<&Rate> {
        match dir {
            Dir::Outward => self.outward.as_ref(),
            Dir::Inward => self.inward.as_ref(),
        }
    }

    /// What is behind the link, be it nothing.
    pub(super) fn paths(&self) -> Paths {
        self.behind.clone().unwrap_or_default()
    }

    /// Bytes that may wait in a direction; 0 where it has no limit.
    pub(super) fn limit_bytes(&self, dir: Dir) -> u64 {
        let Some(rate) = self.rate(dir) else { return 0 };
        let longest = self.behind.as_ref().map_or(Time::ZERO, Paths::longest);
        let bytes = self.limit.bytes(rate.nominal(), longest * 2);
        if matches!(self.limit, Buffer::Time(_)) { bytes.max(LEAST_LIMIT) } else { bytes }
    }

    pub(super) fn bottleneck(&self, dir: Dir, seed: u64) -> Bottleneck {
        let bits_per_s = self.rate(dir).map_or(UNLIMITED, Rate::nominal);
        Bottleneck { limit_bytes: self.limit_bytes(dir), bits_per_s, seed: seed ^ dir as u64 }
    }

    /// Bytes that wait or are on their way in both directions, at most.
    pub(crate) fn all_bytes(&self) -> u64 {
        let of = |dir| {
            let highest = self.rate(dir).map_or(UNLIMITED, Rate::highest);
            let latest = self.behind.as_ref().map_or(Time::ZERO, Paths::latest);
            self.limit_bytes(dir).saturating_add((latest.secs() * highest as f64 / 8.0) as u64)
        };
        [Dir::Outward, Dir::Inward].map(of).into_iter().fold(0, u64::saturating_add)
    }
}

/// All but the last are said once.
const NAMES: [&str; 12] = [
    "outward",
    "inward",
    "aqm",
    "limit",
    "overhead",
    "delay",
    "loss",
    "burst",
    "jitter",
    "reorder",
    "reorder-by",
    "path",
];

fn example(name: &str) -> &'static str {
    match name {
        "aqm" => "aqm fq-codel",
        "limit" => "limit 50ms",
        "overhead" => "overhead 24",
        "inward" => "inward 100Mbit",
        "delay" => "delay 20ms",
        "path" => "path 10.0.1.0/24=5ms",
        "loss" => "loss 0.1%",
        "burst" => "burst 8",
        "jitter" => "jitter 2ms",
        "reorder" => "reorder 1%",
        "reorder-by" => "reorder-by 1ms",
        _ => "outward 20Mbit",
    }
}

/// An AQM that needs no packet values: frames have none here.
fn aqm(text: &str) -> Result<Aqm, String> {
    let known = weir_queue::Config::catalogue();
    let known: Vec<&str> =
        known.iter().filter(|(_, queue)| !queue.needs_values()).map(|(name, _)| *name).collect();
    let name = text.split_once(':').map_or(text, |(name, _)| name);
    if known.contains(&name) {
        Aqm::read(text)
    } else {
        Err(format!("`{name}` is no AQM: {}", did_you_mean(name, &known)))
    }
}

fn limit(text: &str) -> Result<Buffer, String> {
    let limit = Buffer::read(text)?;
    let is_fit = match limit {
        Buffer::Bytes(bytes) => LIMITS.contains(&bytes),
        Buffer::Time(time) => LIMIT_TIMES.contains(&time),
        Buffer::Bdp(_) => true,
    };
    let wrong =
        || format!("a limit of {text} is none from 2kB to 4GB or 10us to 10s: write 500kB, 50ms or 1bdp");
    is_fit.then_some(limit).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use weir_testkit::{golden, mistakes};

    use crate::batch::BATCH;
    use crate::config::{Beside, Config};

    fn read(args: &str) -> Result<Config, String> {
        let file = |name: &str| match name {
            "up.rates" => Ok("0 1Mbit\n0.5 0\n1 repeat\n".to_string()),
            "down.rates" => Ok("0 1Mbit\n0.5 fast\n".to_string()),
            _ => Err(format!("cannot read {name}: there is none")),
        };
        let mut beside = Beside { item: &mut |_, _| false, file: &file };
        let text = format!("lan > queue({args}) > wan");
        Config::read_with("n", &text, &mut beside).map_err(|wrong| wrong.to_string())
    }

    #[test]
    fn a_queue_is_read() {
        for (args, bytes) in [
            ("outward 20Mbit", 250_000),
            ("inward 2.5Gbit, aqm cake, limit 50ms, overhead 24", 15_625_000),
            ("outward 1Mbit, inward 10Mbit, aqm pie, limit 500kB", 1_000_000),
            ("outward 1Mbit, aqm pie:target_s=0.005", 48_448),
            ("outward 1Mbit, aqm pie target_s=0.005 burst_s=0", 48_448),
            ("outward trace:up.rates, inward wifi:1Mbit", 2 * 48_448),
            ("outward 8Mbit, delay 10ms, reorder-by 0s, limit 1bdp", 20_000 + 10_000 + 1_250_000),
            (
                "delay 1ms, path 10.0.0.0/8=3ms, path 2001:db8::/32=9ms, loss 1%, burst 3, jitter 1ms, reorder 1%",
                2 * 1_375_000,
            ),
        ] {
            let config = read(args).unwrap_or_else(|wrong| panic!("{args}: {wrong}"));
            assert_eq!(config.queued_bytes(), bytes, "{args}");
        }
        assert!(read("outward 20Mbit").unwrap().may_share(BATCH as u8).is_err());
    }

    #[test]
    fn mistakes_of_a_queue_have_remedies() {
        let texts = [
            "aqm pie",
            "outward 20",
            "outward wify:20Mbit",
            "outward trace:none.rates",
            "outward trace:down.rates",
            "outward 1M, aqm fq_codel",
            "outward 1M, aqm pvpie",
            "outward 1M, aqm pie:target_s=soon",
            "outward 1M, aqm pie targt_s=1",
            "outward 1M, limit 10",
            "outward 1M, limit 20s",
            "outward 1M, limit 1bdp",
            "outward 1M, limt 10ms",
            "outward 1M, overhead x",
            "outward 1M, outward 2M",
            "outward",
            "delay 10",
            "delay 10ms, delay 20ms",
            "path 10.0.0.0/8",
            "path 10.0.0.0/8 10ms",
            "loss 100%",
            "outward 1M, reorder by 10ms",
        ];
        golden!("src/queue/mistakes.txt", &mistakes(&texts, read));
    }

    #[test]
    fn all_queues_that_can_be_named_can_be_built() {
        let named = weir_queue::Config::catalogue().into_iter().filter(|(name, _)| {
            let config = read(&format!("outward 1Mbit, aqm {name}"));
            config.is_ok_and(|config| crate::Plane::new(&config, &[[2; 6], [4; 6]]).queue_counts().len() == 1)
        });
        assert_eq!(named.count(), 12);
    }
}
