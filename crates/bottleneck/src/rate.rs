//! The rate of a link over time: constant, from a file, or like that of a radio link.

use std::fs::File;
use std::io::{self, Read};
use std::sync::Arc;

use weir_config::did_you_mean;
use weir_queue::Time;
use weir_rng::Rng;

/// Highest rate, in bits/s.
const MOST_BITS_PER_S: f64 = 1e12;
/// Steps of a file.
const MOST_STEPS: usize = 10_000_000;
/// Bytes of a file.
const LONGEST: u64 = 256 << 20;
/// Between two steps: each is gone through while frames wait.
const SHORTEST: Time = Time::from_us(1);

/// The rate of a link.
#[derive(Debug, Clone, PartialEq)]
pub enum Rate {
    /// In bits/s, above 0.
    Constant(u64),
    /// From a file.
    Trace(Arc<Trace>),
    /// A random schedule, with this mean in bits/s.
    Like(Model, u64),
}

/// Rates of a file.
#[derive(Debug, PartialEq)]
pub struct Trace {
    /// From when on which rate, in bits/s; the first at 0. A rate of 0 is a pause.
    steps: Vec<(Time, u64)>,
    /// When it begins again.
    period: Option<Time>,
}

/// A random schedule of rates. Both are models of what such links do, not of a standard; the same seed gives the same schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Model {
    /// Every 1 to 10 ms a neighbouring rate of six (0.25 to 1.5 of one of them), and in one of twenty steps a pause in which others
    /// have the channel.
    Wifi,
    /// Every 10 ms a rate that follows a random walk between 0.1 and 3 of its middle, and each 10 s on average an outage of 50 to 300 ms.
    Lte,
}

const MODELS: [(&str, Model); 2] = [("wifi", Model::Wifi), ("lte", Model::Lte)];

impl Rate {
    /// The rate that buffers are measured by: the constant one, the mean of a model, the first of a file that is above 0.
    pub fn nominal(&self) -> u64 {
        match self {
            Rate::Constant(bits) | Rate::Like(_, bits) => *bits,
            Rate::Trace(trace) => trace.steps.iter().map(|step| step.1).find(|&rate| rate > 0).unwrap_or(1),
        }
    }

    /// Reads `100mbit`, `wifi:50mbit`, `lte:20mbit`, `trace:FILE`.
    ///
    /// # Errors
    /// Anything else; what is wrong in the file, with its line.
    pub fn read(text: &str) -> Result<Rate, String> {
        match text.split_once(':') {
            None => bits_per_s(text).map(Rate::Constant),
            Some(("trace", file)) => {
                let lines = text_of(file).map_err(|error| format!("cannot read {file}: {error}"))?;
                Trace::read(&lines)
                    .map(|trace| Rate::Trace(trace.into()))
                    .map_err(|wrong| format!("{file}:{wrong}"))
            }
            Some((model, rate)) => {
                let found = MODELS.iter().find(|(name, _)| *name == model);
                let (_, model) = found.ok_or_else(|| {
                    let names: Vec<&str> = MODELS.iter().map(|(name, _)| *name).chain(["trace"]).collect();
                    format!("`{model}` is no kind of rate: {}", did_you_mean(model, &names))
                })?;
                bits_per_s(rate).map(|mean| Rate::Like(*model, mean))
            }
        }
    }

    pub(crate) fn schedule(&self, from: Time, seed: u64) -> Schedule {
        match self {
            Rate::Constant(bits) => Schedule { bits_per_s: *bits, next: None, source: Source::Constant },
            Rate::Trace(trace) => {
                let source = Source::Trace { trace: trace.clone(), index: 0, from };
                Schedule { bits_per_s: 0, next: None, source }.begun()
            }
            Rate::Like(model, mean) => {
                let mut sample = Walk::new(*model, 1.0, Time::ZERO, seed);
                let scale = *mean as f64 / sample.mean();
                let source = Source::Like(Walk::new(*model, scale, from, seed));
                Schedule { bits_per_s: 0, next: None, source }.begun()
            }
        }
    }
}

/// The text of a file: a pipe would be waited for, and a device has no end.
fn text_of(file: &str) -> io::Result<String> {
    if !std::fs::metadata(file)?.is_file() {
        return Err(io::Error::other("it is no file"));
    }
    let mut text = String::new();
    File::open(file)?.take(LONGEST + 1).read_to_string(&mut text)?;
    match text.len() as u64 > LONGEST {
        true => Err(io::Error::other(format!("it is longer than {} MiB", LONGEST >> 20))),
        false => Ok(text),
    }
}

fn bits_per_s(text: &str) -> Result<u64, String> {
    let bits = weir_config::rate::line_bits_per_s(text)?;
    if (1e3..=MOST_BITS_PER_S).contains(&bits) {
        return Ok(bits as u64);
    }
    Err(format!("`{text}` is out of range: use 1kbit to 1000Gbit"))
}

impl Trace {
    /// Reads lines of a time in s and a rate: `0 100mbit`, `2.5 10mbit`, `3 0`. A last line `10 repeat` begins anew.
    pub(crate) fn read(text: &str) -> Result<Trace, String> {
        let (mut steps, mut period): (Vec<(Time, u64)>, Option<Time>) = (Vec::new(), None);
        for (number, line) in (1..).zip(text.lines()) {
            let wrong = |what: &str| format!("{number}: {what}");
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let (at, rate) =
                line.split_once(char::is_whitespace).ok_or_else(|| wrong("write `SECONDS RATE`"))?;
            let at = at.parse::<f64>().ok().filter(|at| (0.0..1e6).contains(at)).map(Time::from_secs);
            let at = at.ok_or_else(|| wrong("the time is no number of seconds from 0 to 10^6"))?;
            let later = steps.last().is_none_or(|last| last.0 + SHORTEST <= at);
            match rate.trim() {
                _ if period.is_some() => return Err(wrong("nothing may follow `repeat`")),
                _ if !later => return Err(wrong("times must grow from line to line, by 1 us at least")),
                "repeat" if steps.is_empty() => return Err(wrong("there is nothing to repeat")),
                "repeat" => period = Some(at),
                _ if steps.is_empty() && at > Time::ZERO => return Err(wrong("the first time must be 0")),
                "0" => steps.push((at, 0)),
                rate => steps.push((at, bits_per_s(rate).map_err(|error| wrong(&error))?)),
            }
        }
        if steps.iter().all(|step| step.1 == 0) {
            return Err("1: no rate is above 0: write lines such as `0 100mbit`".into());
        }
        if steps.len() > MOST_STEPS {
            return Err(format!("1: more than {MOST_STEPS} steps"));
        }
        Ok(Trace { steps, period })
    }
}

/// Which rate holds, and when the next one does.
#[derive(Debug)]
pub(crate) struct Schedule {
    bits_per_s: u64,
    next: Option<(Time, u64)>,
    source: Source,
}

#[derive(Debug)]
enum Source {
    Constant,
    Trace { trace: Arc<Trace>, index: usize, from: Time },
    Like(Walk),
}

impl Schedule {
    /// The rate now, in bits/s; 0 is a pause.
    pub(crate) fn bits_per_s(&self) -> u64 {
        self.bits_per_s
    }

    /// When there is another rate, and which one.
    pub(crate) fn next(&self) -> Option<(Time, u64)> {
        self.next
    }

    fn begun(mut self) -> Schedule {
        self.look();
        self.step();
        self
    }

    /// The next rate is that of now.
    pub(crate) fn step(&mut self) {
        if let Some((_, bits_per_s)) = self.next.take() {
            self.bits_per_s = bits_per_s;
            self.look();
        }
    }

    /// What follows; at the end of time nothing does, or it would be stepped through for ever.
    fn look(&mut self) {
        self.next = self.source.following().filter(|next| next.0 < Time::MAX);
    }
}

impl Source {
    fn following(&mut self) -> Option<(Time, u64)> {
        match self {
            Source::Constant => None,
            Source::Trace { trace, index, from } => {
                if *index == trace.steps.len() {
                    *from += trace.period?;
                    *index = 0;
                }
                let (at, rate) = *trace.steps.get(*index)?;
                *index += 1;
                Some((*from + at, rate))
            }
            Source::Like(walk) => Some(walk.following()),
        }
    }
}

/// A random schedule.
#[derive(Debug)]
struct Walk {
    model: Model,
    scale: f64,
    at: Time,
    level: f64,
    rng: Rng,
}

impl Walk {
    fn new(model: Model, scale: f64, at: Time, seed: u64) -> Walk {
        let level = match model {
            Model::Wifi => 3.0,
            Model::Lte => 0.0,
        };
        Walk { model, scale, at, level, rng: Rng::new(seed) }
    }

    /// When the next rate begins, and which one it is.
    fn following(&mut self) -> (Time, u64) {
        let at = self.at;
        let (share, ms) = match self.model {
            Model::Wifi => self.wifi(),
            Model::Lte => self.lte(),
        };
        self.at += Time::from_secs(ms / 1e3);
        (at, (share * self.scale) as u64)
    }

    fn wifi(&mut self) -> (f64, f64) {
        let ms = 1.0 + 9.0 * self.rng.unit();
        if self.rng.unit() < 0.05 {
            return (0.0, ms);
        }
        self.level = (self.level + self.rng.below(3) as f64 - 1.0).clamp(0.0, 5.0);
        (0.25 + 0.25 * self.level, ms)
    }

    fn lte(&mut self) -> (f64, f64) {
        if self.rng.unit() < 0.001 {
            return (0.0, 50.0 + 250.0 * self.rng.unit());
        }
        self.level = 0.98 * self.level + 0.1 * self.rng.normal();
        (self.level.exp().clamp(0.1, 3.0), 10.0)
    }

    /// Its mean over many steps: what a mean is scaled by.
    fn mean(&mut self) -> f64 {
        let (mut bits, mut time) = (0.0, 0.0);
        for _ in 0..20_000 {
            let (share, ms) = match self.model {
                Model::Wifi => self.wifi(),
                Model::Lte => self.lte(),
            };
            bits += share * ms;
            time += ms;
        }
        bits / time
    }
}

#[cfg(test)]
mod tests {
    use weir_testkit::{golden, mistakes};

    use super::*;

    #[test]
    fn a_schedule_ends_with_the_time() {
        let rates = ["0 1mbit\n5 1mbit\n310310 repeat", "0 1mbit\n900000 2mbit\n999999 repeat"];
        let rates = rates.map(|trace| Rate::Trace(Trace::read(trace).unwrap().into()));
        for rate in rates.into_iter().chain(["wifi:5mbit", "lte:5mbit"].map(|rate| Rate::read(rate).unwrap()))
        {
            // Two weeks before the last moment there is.
            let mut schedule = rate.schedule(Time::from_s(17_237_000), 1);
            let mut last = Time::ZERO;
            for _ in 0..100 {
                let Some((at, _)) = schedule.next() else { break };
                assert!(at > last && at < Time::MAX, "{rate:?}: {at:?} after {last:?}");
                last = at;
                schedule.step();
            }
        }
    }

    #[test]
    fn a_trace_repeats_and_pauses() {
        let trace = Trace::read("0 10mbit # start\n\n0.5 0\n1 2mbit\n2 repeat\n").unwrap();
        let mut schedule = Rate::Trace(trace.into()).schedule(Time::from_s(1), 1);
        let mut seen = vec![(Time::from_s(1), schedule.bits_per_s())];
        for _ in 0..5 {
            seen.push(schedule.next().unwrap());
            schedule.step();
        }
        let ms: Vec<(u64, u64)> =
            seen.iter().map(|(at, bits)| (at.ns() / 1_000_000, bits / 1_000_000)).collect();
        assert_eq!(ms, [(1000, 10), (1500, 0), (2000, 2), (3000, 10), (3500, 0), (4000, 2)]);
    }

    #[test]
    fn mistakes_of_a_trace_have_their_line() {
        let texts = [
            "",
            "0 0",
            "1 10mbit",
            "0 10mbit\n0 5mbit",
            "0 10mbit\n0.0000001 repeat",
            "0 10mbit\nx 5mbit",
            "0 10mbit\n1 fast",
            "0 10mbit\n1",
            "0 10mbit\n1 repeat\n2 5mbit",
        ];
        golden!("src/golden/trace.txt", &mistakes(&texts, Trace::read));
        let texts = ["wify:5mbit", "10", "trace:/dev/zero", "trace:/no/such"];
        golden!("src/golden/rate.txt", &mistakes(&texts, Rate::read));
    }

    #[test]
    fn a_model_has_its_mean_and_repeats_from_its_seed() {
        for model in [Model::Wifi, Model::Lte] {
            let mut one = Rate::Like(model, 50_000_000).schedule(Time::ZERO, 7);
            let mut other = Rate::Like(model, 50_000_000).schedule(Time::ZERO, 7);
            let (mut bits, mut last) = (0.0, Time::ZERO);
            for _ in 0..200_000 {
                let (at, _) = one.next().unwrap();
                bits += one.bits_per_s() as f64 * (at - last).secs();
                last = at;
                one.step();
                other.step();
                assert_eq!(one.next(), other.next());
            }
            let mean = bits / last.secs();
            assert!((mean / 50e6 - 1.0).abs() < 0.1, "{model:?}: {mean}");
        }
    }
}
