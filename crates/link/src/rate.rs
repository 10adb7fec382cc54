//! The rate of a link over time: constant, from a file, or like that of a radio link.

use std::fs::File;
use std::io::{self, Read};
use std::sync::Arc;

use weir_config::{did_you_mean, without_bom};
use weir_queue::Time;
use weir_rng::Rng;

/// Highest rate, in bits/s.
const MOST_BITS_PER_S: f64 = 1e12;
/// Steps of a file.
const MOST_STEPS: usize = 10_000_000;
/// Bytes of a file.
const LONGEST: u64 = 256 << 20;
/// Between two steps.
const SHORTEST: Time = Time::from_us(1);

/// A random schedule lasts so long, and then begins again.
const LASTS: Time = Time::from_s(300);

/// The rate of a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rate {
    /// In bits/s, above 0.
    Constant(u64),
    /// From a file.
    Trace(Arc<Trace>),
    /// A random schedule, with this mean in bits/s.
    Like(Model, u64),
}

/// Rates one after another.
#[derive(Debug, PartialEq, Eq)]
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

    /// The highest rate there is.
    pub fn highest(&self) -> u64 {
        match self {
            Rate::Constant(bits) => *bits,
            // No step of a model is above 4 times its mean.
            Rate::Like(_, mean) => mean.saturating_mul(4),
            Rate::Trace(trace) => trace.steps.iter().map(|step| step.1).max().unwrap_or(1),
        }
    }

    /// Reads `100mbit`, `wifi:50mbit`, `lte:20mbit`, `trace:FILE`.
    ///
    /// # Errors
    /// Anything else; what is wrong in the file, with its line.
    pub fn read(text: &str) -> Result<Rate, String> {
        Rate::read_with(text, |file| text_of(file).map_err(|error| format!("cannot read {file}: {error}")))
    }

    /// The same; the caller reads the file.
    ///
    /// # Errors
    /// The same.
    pub fn read_with(text: &str, text_of: impl Fn(&str) -> Result<String, String>) -> Result<Rate, String> {
        match text.split_once(':') {
            None => bits_per_s(text).map(Rate::Constant),
            Some(("trace", file)) => Trace::read(&text_of(file)?)
                .map(|trace| Rate::Trace(trace.into()))
                .map_err(|wrong| format!("{file}:{wrong}")),
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

    /// The rates from `from` on.
    pub(crate) fn schedule(&self, from: Time, seed: u64) -> Schedule {
        match self {
            Rate::Constant(bits) => Schedule::constant(*bits),
            Rate::Trace(trace) => Schedule::new(trace.clone(), from),
            Rate::Like(model, mean) => Schedule::new(Walk::new(*model, seed).trace(*mean).into(), from),
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
    if text.len() as u64 > LONGEST {
        Err(io::Error::other(format!("it is longer than {} MiB", LONGEST >> 20)))
    } else {
        Ok(text)
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
        for (number, line) in (1..).zip(without_bom(text).lines()) {
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

/// Which rate holds. A step counts for what begins after it.
#[derive(Debug)]
pub(crate) struct Schedule {
    /// `None`: constant.
    trace: Option<Arc<Trace>>,
    /// At this time ..
    from: Time,
    /// .. it is here in the trace, ..
    position: Time,
    /// .. this is the rate, 0 in a pause, ..
    bits_per_s: u64,
    /// .. until then.
    next: Option<Time>,
}

impl Schedule {
    fn constant(bits_per_s: u64) -> Schedule {
        Schedule { trace: None, from: Time::ZERO, position: Time::ZERO, bits_per_s, next: None }
    }

    fn new(trace: Arc<Trace>, from: Time) -> Schedule {
        let mut schedule = Schedule { trace: Some(trace), from, ..Schedule::constant(0) };
        schedule.find(Time::ZERO);
        schedule
    }

    /// The rate that [`Schedule::seek`] has found, in bits/s; 0 is a pause.
    pub(crate) fn bits_per_s(&self) -> u64 {
        self.bits_per_s
    }

    /// When the next step is; at the end of time there is none.
    pub(crate) fn next(&self) -> Option<Time> {
        self.next
    }

    /// Goes on to `at`, which takes as long however much is between. Whether there was a step.
    pub(crate) fn seek(&mut self, at: Time) -> bool {
        let stepped = self.next.is_some_and(|next| next < at);
        if stepped {
            self.pass(at);
        }
        stepped
    }

    fn pass(&mut self, at: Time) {
        let position = self.position + (at - self.from);
        self.from = at;
        self.find(position);
    }

    /// The rate at a position in the trace; at its start that is the first one.
    fn find(&mut self, mut position: Time) {
        let Some(trace) = &self.trace else { return };
        if let Some(period) = trace.period.filter(|period| position > *period) {
            position = Time::from_ps((position.ps() - 1) % period.ps() + 1);
        }
        self.position = position;
        let number = trace.steps.partition_point(|step| step.0 < position).max(1);
        let (past, future) = trace.steps.split_at(number);
        self.bits_per_s = past.last().map_or(0, |step| step.1);
        let next = future.first().map(|step| step.0).or(trace.period);
        self.next = next.map(|next| self.from + (next - position)).filter(|next| *next < Time::MAX);
    }

    /// Time begins anew: what was `at` is 0.
    pub(crate) fn begin_anew(&mut self, at: Time) {
        if at > self.from {
            self.pass(at);
        }
        self.from = Time::ZERO;
        self.next = self.next.map(|next| next - at);
    }
}

/// What makes a random schedule.
#[derive(Debug)]
struct Walk {
    model: Model,
    level: f64,
    rng: Rng,
}

impl Walk {
    fn new(model: Model, seed: u64) -> Walk {
        let level = match model {
            Model::Wifi => 3.0,
            Model::Lte => 0.0,
        };
        Walk { model, level, rng: Rng::new(seed) }
    }

    /// A schedule with this mean, in bits/s.
    fn trace(mut self, mean: u64) -> Trace {
        let (mut shares, mut end, mut sum) = (Vec::new(), Time::ZERO, 0.0);
        while end < LASTS {
            let (share, ms) = match self.model {
                Model::Wifi => self.wifi(),
                Model::Lte => self.lte(),
            };
            shares.push((end, share));
            end += Time::from_secs(ms / 1e3);
            sum += share * ms / 1e3;
        }
        let scale = mean as f64 * end.secs() / sum;
        let steps = shares.into_iter().map(|(at, share)| (at, (share * scale) as u64)).collect();
        Trace { steps, period: Some(end) }
    }

    /// The share of its middle that the rate has, and for how many ms.
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
                let Some(at) = schedule.next() else { break };
                assert!(at > last && at < Time::MAX, "{rate:?}: {at:?} after {last:?}");
                last = at;
                schedule.seek(at + Time::from_ps(1));
            }
        }
    }

    #[test]
    fn a_trace_repeats_and_pauses() {
        let trace = Trace::read("\u{feff}0 10mbit # start\r\n\n0.5 0\n1 2mbit\n2 repeat\n").unwrap();
        let mut schedule = Rate::Trace(trace.into()).schedule(Time::from_s(1), 1);
        let mut seen = vec![(Time::from_s(1), schedule.bits_per_s())];
        for _ in 0..5 {
            let at = schedule.next().unwrap();
            schedule.seek(at);
            let before = seen.last().map(|step| step.1);
            assert_eq!(Some(schedule.bits_per_s()), before, "a step counts for what begins after it");
            schedule.seek(at + Time::from_ps(1));
            seen.push((at, schedule.bits_per_s()));
        }
        let ms: Vec<(u64, u64)> =
            seen.iter().map(|(at, bits)| (at.ns() / 1_000_000, bits / 1_000_000)).collect();
        assert_eq!(ms, [(1000, 10), (1500, 0), (2000, 2), (3000, 10), (3500, 0), (4000, 2)]);
    }

    #[test]
    fn a_schedule_goes_on_after_a_pause_and_when_time_begins_anew() {
        let rates = ["0 10mbit\n0.5 0\n1 2mbit\n2 repeat\n", "0 10mbit\n0.5 0\n1 2mbit\n"];
        let rates = rates.map(|text| Rate::Trace(Trace::read(text).unwrap().into()));
        for rate in rates.into_iter().chain(["wifi:5mbit", "lte:5mbit"].map(|rate| Rate::read(rate).unwrap()))
        {
            let new = || rate.schedule(Time::from_ms(1), 3);
            let (mut steps, mut jumps, mut anew) = (new(), new(), new());
            let far = Time::from_s(7_000);
            while let Some(at) = steps.next().filter(|at| *at < far) {
                steps.seek(at + Time::from_ps(1));
            }
            jumps.seek(far);
            anew.begin_anew(far);
            for _ in 0..100 {
                assert_eq!(jumps.bits_per_s(), steps.bits_per_s(), "{rate:?}");
                assert_eq!((anew.bits_per_s(), jumps.next()), (jumps.bits_per_s(), steps.next()), "{rate:?}");
                let Some(at) = jumps.next() else { break };
                assert_eq!(anew.next(), Some(at - far), "{rate:?}");
                [&mut steps, &mut jumps].into_iter().for_each(|one| _ = one.seek(at + Time::from_ps(1)));
                anew.seek(at + Time::from_ps(1) - far);
            }
        }
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
            let rate = Rate::Like(model, 50_000_000);
            let mut schedules = [7, 7, 8].map(|seed| rate.schedule(Time::ZERO, seed));
            let (mut bits, mut last, mut differ) = (0.0, Time::ZERO, 0);
            while last < LASTS {
                let [one, other, third] = &mut schedules;
                let at = one.next().unwrap();
                assert!(one.bits_per_s() <= rate.highest(), "{model:?}");
                bits += one.bits_per_s() as f64 * (at - last).secs();
                assert_eq!((one.next(), one.bits_per_s()), (other.next(), other.bits_per_s()));
                differ += usize::from(one.bits_per_s() != third.bits_per_s());
                last = at;
                schedules.iter_mut().for_each(|schedule| _ = schedule.seek(at + Time::from_ps(1)));
            }
            let mean = bits / last.secs();
            assert!((mean / 50e6 - 1.0).abs() < 1e-6 && differ > 1000, "{model:?}: {mean}, {differ}");
        }
    }
}
