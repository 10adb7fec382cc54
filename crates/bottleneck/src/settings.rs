//! What can be set of a bottleneck, on the command line and while it runs: one name, one value, one reader for each.

use std::time::Duration;

use serde_json::Value;
use weir_config::rate::quantity;
use weir_config::{did_you_mean, unit};
use weir_queue::{Bottleneck, Config, Time};

use crate::paths::{Impairment, Paths, Prefix};
use crate::rate::Rate;

/// Longest delay.
const LONGEST: Duration = Duration::from_secs(100);
/// Largest buffer.
const MOST_BUFFER_BYTES: u64 = 10_000_000_000;

/// Names of all settings, and what each takes.
pub const SETTINGS: [(&str, &str); 11] = [
    ("rate", "100mbit, wifi:50mbit, lte:20mbit or trace:FILE"),
    (
        "back-rate",
        "the same, of the way from the second interface to the first; same; none: no limit and no queue",
    ),
    ("delay", "20ms: one way, in each direction"),
    ("path", "10.0.1.0/24=10ms: one-way delay of this prefix; clear: of none"),
    ("buffer", "1bdp, 20ms, 64kB or 1500 (bytes)"),
    ("aqm", "pie, or pie:target_s=0.005,burst_s=0"),
    ("loss", "0.1%"),
    ("burst", "8: mean length of losses in a row"),
    ("jitter", "2ms"),
    ("reorder", "1%"),
    ("reorder-by", "1ms"),
];

/// The rate of the way back.
#[derive(Debug, Clone, PartialEq)]
pub enum BackRate {
    /// That of the way there.
    Same,
    /// No limit, and no queue.
    None,
    /// Another one.
    Rate(Rate),
}

/// A size of the buffer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Buffer {
    /// Bytes.
    Bytes(u64),
    /// Time at the rate of the link.
    Time(Time),
    /// Bandwidth-delay products: rate times the longest round trip without queues, which is twice the longest delay.
    Bdp(f64),
}

/// A queue by name, with its settings.
#[derive(Debug, Clone, PartialEq)]
pub struct Aqm {
    /// As it was written.
    pub text: String,
    /// What it means.
    pub config: Config,
}

/// All settings of a bottleneck.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Rate of the way there.
    pub rate: Rate,
    /// Rate of the way back.
    pub back_rate: BackRate,
    /// The buffer, of each direction. It is measured by rate and delay when it is set.
    pub buffer: Buffer,
    /// The queue, of each direction.
    pub aqm: Aqm,
    /// One-way delays, of each direction.
    pub paths: Paths,
    /// Losses and the like, of each direction.
    pub impairment: Impairment,
    /// All that is random follows from it.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            rate: Rate::Constant(100_000_000),
            back_rate: BackRate::Same,
            buffer: Buffer::Bdp(1.0),
            aqm: Aqm { text: "fifo".into(), config: Config::Fifo(Default::default()) },
            paths: Paths { delay: Time::from_ms(10), prefixes: Vec::new() },
            impairment: Impairment::default(),
            seed: 1,
        }
    }
}

impl Settings {
    /// Sets one of [`SETTINGS`].
    ///
    /// # Errors
    /// No such setting, no such value; then all stays as it was.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let value = value.trim();
        match name {
            "rate" => self.rate = Rate::read(value)?,
            "back-rate" => {
                self.back_rate = match value {
                    "same" => BackRate::Same,
                    "none" => BackRate::None,
                    rate => BackRate::Rate(Rate::read(rate)?),
                }
            }
            "delay" => self.paths.delay = time(value)?,
            "path" => self.set_path(value)?,
            "buffer" => self.buffer = Buffer::read(value)?,
            "aqm" => self.aqm = Aqm::read(value)?,
            "loss" => self.impairment.loss = unit::share(value)?,
            "burst" => {
                let frames = quantity(value).ok().filter(|frames| (1.0..=1e6).contains(frames));
                self.impairment.burst =
                    frames.ok_or_else(|| format!("`{value}` is no length of a burst: use 1 to 1M frames"))?;
            }
            "jitter" => self.impairment.jitter = time(value)?,
            "reorder" => self.impairment.reorder = unit::share(value)?,
            "reorder-by" => self.impairment.reorder_by = time(value)?,
            other => {
                let names = SETTINGS.map(|(name, _)| name);
                return Err(format!("`{other}` is no setting: {}", did_you_mean(other, &names)));
            }
        }
        Ok(())
    }

    fn set_path(&mut self, value: &str) -> Result<(), String> {
        if value == "clear" {
            self.paths.prefixes.clear();
            return Ok(());
        }
        let wrong = || format!("`{value}` is no path: use 10.0.1.0/24=10ms");
        let (prefix, delay) = value.split_once('=').ok_or_else(wrong)?;
        let (prefix, delay) = (Prefix::read(prefix.trim())?, time(delay)?);
        match self.paths.prefixes.iter_mut().find(|(known, _)| *known == prefix) {
            Some((_, known)) => *known = delay,
            None => self.paths.prefixes.push((prefix, delay)),
        }
        Ok(())
    }

    /// The rate of a direction, 0 there and 1 back; `None` without a limit.
    pub fn rate_of(&self, direction: usize) -> Option<&Rate> {
        match (direction, &self.back_rate) {
            (0, _) | (_, BackRate::Same) => Some(&self.rate),
            (_, BackRate::Rate(rate)) => Some(rate),
            (_, BackRate::None) => None,
        }
    }

    /// Round trip without queues, on the longest path.
    pub fn longest_rtt(&self) -> Time {
        self.paths.longest() * 2
    }

    /// Where the queue of a direction stands.
    ///
    /// # Errors
    /// The buffer holds no frame of 1514 bytes.
    pub fn bottleneck(&self, direction: usize) -> Result<Bottleneck, String> {
        let bits_per_s = self.rate_of(direction).map_or(1, Rate::nominal);
        let seconds = |s: f64| (s * bits_per_s as f64 / 8.0).round() as u64;
        let limit_bytes = match self.buffer {
            Buffer::Bytes(bytes) => bytes,
            Buffer::Time(time) => seconds(time.secs()),
            Buffer::Bdp(times) => seconds(times * self.longest_rtt().secs()),
        };
        if limit_bytes < 1514 && self.rate_of(direction).is_some() {
            return Err(format!(
                "a buffer of {limit_bytes} bytes holds no frame of 1514 bytes: make it larger"
            ));
        }
        Ok(Bottleneck { limit_bytes, bits_per_s, seed: self.seed ^ direction as u64 })
    }
}

impl Buffer {
    fn read(text: &str) -> Result<Buffer, String> {
        let wrong = || format!("`{text}` is no buffer: use 1bdp, 20ms, 64kB or 1500 (bytes)");
        if let Some(times) = text.strip_suffix("bdp") {
            let times = times.trim().parse().ok().filter(|times| (0.001..=1000.0).contains(times));
            return times.map(Buffer::Bdp).ok_or_else(wrong);
        }
        if let Ok(time) = time(text) {
            return if time > Time::ZERO { Ok(Buffer::Time(time)) } else { Err(wrong()) };
        }
        let bytes = unit::bytes(text).ok().filter(|bytes| *bytes <= MOST_BUFFER_BYTES);
        bytes.map(Buffer::Bytes).ok_or_else(wrong)
    }
}

/// A length of time with its unit, as in `20ms`: a bare 20 would be guessed.
fn time(text: &str) -> Result<Time, String> {
    let text = text.trim();
    if text != "0" && !text.ends_with(|c: char| c.is_ascii_alphabetic()) {
        return Err(format!("`{text}` is a time without a unit: use 20ms, 500us or 1.5s"));
    }
    let time = unit::time(text, Duration::ZERO, LONGEST)?;
    Ok(Time::from_secs(time.as_secs_f64()))
}

impl Aqm {
    /// Reads a queue's name, and settings of it by their names in records: `codel:target_s=0.01`.
    fn read(text: &str) -> Result<Aqm, String> {
        let (name, settings) = text.split_once(':').unwrap_or((text, ""));
        let known = Config::named(name).ok_or_else(|| {
            let names: Vec<&str> = Config::catalogue().into_iter().map(|(name, _)| name).collect();
            format!("`{name}` is no queue: {}", did_you_mean(name, &names))
        })?;
        let mut fields = serde_json::to_value(known).map_err(|error| error.to_string())?;
        for setting in settings.split(',').filter(|setting| !setting.is_empty()) {
            let (field, value) =
                setting.split_once('=').ok_or_else(|| format!("`{setting}`: write it as NAME=VALUE"))?;
            let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.into()));
            let object = fields.as_object_mut().ok_or("a queue without settings")?;
            if field == "kind" || !object.contains_key(field) {
                let names: Vec<&str> =
                    object.keys().map(String::as_str).filter(|name| *name != "kind").collect();
                return Err(format!("`{field}` is no setting of {name}: {}", did_you_mean(field, &names)));
            }
            object.insert(field.into(), value);
        }
        let config: Config = serde_json::from_value(fields).map_err(|error| format!("{name}: {error}"))?;
        // A setting that makes no sense is found by building it.
        let at = Bottleneck { limit_bytes: 1 << 20, bits_per_s: 1_000_000, seed: 0 };
        config.build::<()>(&at).map_err(|error| error.to_string())?;
        Ok(Aqm { text: text.into(), config })
    }
}

#[cfg(test)]
mod tests {
    use weir_testkit::{golden, mistakes};

    use super::*;

    #[test]
    fn settings_are_read() {
        let mut settings = Settings::default();
        for (name, value) in [
            ("rate", "100mbit"),
            ("back-rate", "10mbit"),
            ("delay", "20ms"),
            ("path", "10.0.1.0/24=100ms"),
            ("path", "10.0.1.0/24=50ms"),
            ("buffer", "1bdp"),
            ("aqm", "pie:target_s=0.005,variant=basic"),
            ("loss", "0.1%"),
            ("burst", "8"),
            ("jitter", "500us"),
            ("reorder", "0.01"),
            ("reorder-by", "1ms"),
        ] {
            settings.set(name, value).unwrap_or_else(|error| panic!("{name} {value}: {error}"));
        }
        assert_eq!(settings.longest_rtt(), Time::from_ms(100));
        let limits = [0, 1].map(|direction| settings.bottleneck(direction).unwrap().limit_bytes);
        assert_eq!(limits, [1_250_000, 125_000]);
        let Config::Pie(pie) = settings.aqm.config else { panic!("{:?}", settings.aqm) };
        assert_eq!(pie.target, Time::from_ms(5));
        for (text, bytes) in [("20ms", 250_000), ("64kB", 64_000), ("1515", 1515), ("0.5bdp", 625_000)] {
            settings.set("buffer", text).unwrap();
            assert_eq!(settings.bottleneck(0).unwrap().limit_bytes, bytes, "{text}");
        }
    }

    #[test]
    fn every_queue_can_be_set_by_its_name() {
        for (name, config) in Config::catalogue() {
            assert_eq!(Aqm::read(name).unwrap().config, config, "{name}");
        }
    }

    #[test]
    fn mistakes_have_remedies() {
        let texts = [
            "rat=1mbit",
            "rate=fast",
            "delay=20",
            "path=10.0.0.0/8",
            "buffer=0bdp",
            "buffer=0",
            "aqm=pye",
            "aqm=pie:target=1",
            "aqm=pie:target_s=soon",
            "aqm=pie:update_s=0",
            "loss=100%",
            "burst=0",
        ];
        let before = Settings::default();
        let set = |text: &str| {
            let (name, value) = text.split_once('=').expect("a setting");
            let mut settings = before.clone();
            let done = settings.set(name, value);
            assert_eq!(settings, before, "{text}");
            done
        };
        golden!("src/golden/settings.txt", &mistakes(&texts, set));
        let mut settings = before;
        settings.set("buffer", "1513").unwrap();
        assert_eq!(
            settings.bottleneck(0).unwrap_err(),
            "a buffer of 1513 bytes holds no frame of 1514 bytes: make it larger"
        );
    }
}
