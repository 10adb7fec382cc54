//! Groups of flows in a plan: congestion controls and round-trip times.

use std::fmt;
use std::str::FromStr;

use weir_sim::cc::Name;

/// Congestion controls of the groups with their weights: `cubic+bbr2`, `bbr1+49*cubic`.
#[derive(Debug, Clone, PartialEq)]
pub struct Mix(pub Vec<(u32, Name)>);

/// The name under which a congestion control is had from the kernel, or loaded into it; `None` where there is none.
pub(super) fn kernel_name(cc: Name) -> Option<&'static str> {
    match cc {
        Name::Reno => Some("reno"),
        Name::Cubic => Some("cubic"),
        Name::Bbr1 => Some("bbr"),
        Name::Bbr2 => Some("bbr2"),
        Name::Bbr3 => Some("bbr3"),
        Name::Dctcp => Some("dctcp"),
        // ECT(1) is not to be had from the kernel.
        Name::Prague => None,
    }
}

/// Round trips of the groups, ms: `10+100`.
#[derive(Debug, Clone, PartialEq)]
pub struct Rtts(pub Vec<f64>);

impl FromStr for Mix {
    type Err = String;

    fn from_str(text: &str) -> Result<Mix, String> {
        text.split('+').map(|word| weighted(word.trim())).collect::<Result<_, _>>().map(Mix)
    }
}

fn weighted(word: &str) -> Result<(u32, Name), String> {
    let (weight, name) = word.split_once('*').unwrap_or(("1", word));
    let known = Name::ALL.map(Name::text);
    let found = Name::ALL.into_iter().find(|known| known.text() == name.trim());
    let weight = weight.trim().parse().ok().filter(|weight| (1..=10_000).contains(weight));
    match (weight, found) {
        (Some(weight), Some(name)) => Ok((weight, name)),
        (None, _) => {
            Err(format!("`{word}` is no congestion control: use a weight from 1 on, as in 49*cubic"))
        }
        (_, None) => {
            let remedy = weir_config::did_you_mean(name.trim(), &known);
            Err(format!("`{}` is no congestion control: {remedy}", name.trim()))
        }
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = |(weight, name): &(u32, Name)| match weight {
            1 => name.text().to_string(),
            _ => format!("{weight}*{}", name.text()),
        };
        f.write_str(&self.0.iter().map(word).collect::<Vec<_>>().join("+"))
    }
}

impl FromStr for Rtts {
    type Err = String;

    fn from_str(text: &str) -> Result<Rtts, String> {
        let rtt = |word: &str| word.trim().parse().ok().filter(|ms| (0.1..=10_000.0).contains(ms));
        let wrong =
            || format!("`{text}` is no round trip: use 0.1 to 10000 ms, or several such as \"10+100\"");
        text.split('+').map(rtt).collect::<Option<_>>().map(Rtts).ok_or_else(wrong)
    }
}

impl fmt::Display for Rtts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.iter().map(f64::to_string).collect::<Vec<_>>().join("+"))
    }
}
