//! The settings of a bottleneck, on the command line and at run time: one name, one value, one reader for each.

use weir_config::did_you_mean;
use weir_link::{Aqm, Buffer, Paths, Rate};
use weir_queue::{Bottleneck, Config, Time};

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
    /// Delays, losses and the like, of each direction.
    pub paths: Paths,
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
            paths: Paths { delay: Time::from_ms(10), ..Paths::default() },
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
            "buffer" => self.buffer = Buffer::read(value)?,
            "aqm" => self.aqm = Aqm::read(value)?,
            other => {
                let names = SETTINGS.map(|(name, _)| name);
                let none = || Err(format!("`{other}` is no setting: {}", did_you_mean(other, &names)));
                self.paths.set(other, value).unwrap_or_else(none)?;
            }
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
        let limit_bytes = self.buffer.bytes(bits_per_s, self.longest_rtt());
        if limit_bytes < 1514 && self.rate_of(direction).is_some() {
            return Err(format!(
                "a buffer of {limit_bytes} bytes cannot hold a frame of 1514 bytes: use a larger one"
            ));
        }
        Ok(Bottleneck { limit_bytes, bits_per_s, seed: self.seed ^ direction as u64 })
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
            "a buffer of 1513 bytes cannot hold a frame of 1514 bytes: use a larger one"
        );
    }
}
