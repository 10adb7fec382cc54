//! A limit: a setting, its effect, and its change.

use serde::{Deserialize, Serialize};

/// What happens to a load that is above the ceiling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effect {
    /// The load fits, or the setting is right.
    Fits,
    /// Work takes longer, or results are worse to read.
    Slows,
    /// What is above the ceiling is lost or refused.
    Loses,
    /// Nothing works at all.
    Stops,
}

impl Effect {
    /// As it stands in tables and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Effect::Fits => "fits",
            Effect::Slows => "slows",
            Effect::Loses => "loses",
            Effect::Stops => "stops",
        }
    }
}

/// A file of /proc or /sys, or a parameter of a NIC, and the value that it should have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Fix {
    /// A file below /proc/sys or /sys.
    File {
        /// Its absolute path.
        path: String,
        /// What is written to it.
        value: String,
    },
    /// Entries of a NIC's receive and transmit rings (`ethtool -G`).
    Rings {
        /// Name of the interface.
        interface: String,
        /// Entries of its receive ring.
        receive: u32,
        /// Entries of its transmit ring.
        transmit: u32,
    },
}

impl Fix {
    /// The setting `net.core.somaxconn`.
    pub(crate) fn sysctl(name: &str, value: impl ToString) -> Fix {
        Fix::File { path: format!("/proc/sys/{}", name.replace('.', "/")), value: value.to_string() }
    }

    /// The command of a shell that does the same.
    pub fn command(&self) -> String {
        match self {
            Fix::File { path, value } => match sysctl_name(path) {
                Some(name) => format!("sysctl -w {name}='{value}'"),
                None => format!("echo '{value}' > {path}"),
            },
            Fix::Rings { interface, receive, transmit } => {
                format!("ethtool -G {interface} rx {receive} tx {transmit}")
            }
        }
    }

    /// What it changes, the same for each value.
    pub(crate) fn place(&self) -> &str {
        match self {
            Fix::File { path, .. } => path,
            Fix::Rings { interface, .. } => interface,
        }
    }
}

/// The name of a setting below /proc/sys. Dots in a component (VLAN interfaces) become slashes, as sysctl(8) has it.
pub(crate) fn sysctl_name(path: &str) -> Option<String> {
    let name = path.strip_prefix("/proc/sys/")?;
    let swap = |c| match c {
        '/' => '.',
        '.' => '/',
        other => other,
    };
    Some(name.chars().map(swap).collect())
}

/// One setting of the machine under a load.
#[derive(Debug, Clone, PartialEq)]
pub struct Ceiling {
    /// The setting, as its tool calls it: `net.core.somaxconn`, `eth0 receive ring`.
    pub setting: String,
    /// Its value now.
    pub now: String,
    /// The value that the load needs; `None`: as it is, or no value helps.
    pub wanted: Option<String>,
    /// What happens above the ceiling.
    pub effect: Effect,
    /// The part of the wanted load that fits, 0 to 1; of a setting that only slows, an estimate of what is left.
    pub fits: f64,
    /// Where the ceiling is, and what happens there and why.
    pub why: String,
    /// What the change costs, or why there is none.
    pub cost: String,
    /// How it is changed while the machine runs; empty: not by weir, `cost` says how.
    pub fixes: Vec<Fix>,
}

impl Ceiling {
    /// A setting under which the load fits.
    pub(crate) fn fits(setting: impl Into<String>, now: impl ToString, why: impl Into<String>) -> Ceiling {
        Ceiling {
            setting: setting.into(),
            now: now.to_string(),
            wanted: None,
            effect: Effect::Fits,
            fits: 1.0,
            why: why.into(),
            cost: String::new(),
            fixes: Vec::new(),
        }
    }

    /// Of this effect, with this part of the load left.
    pub(crate) fn short(self, effect: Effect, fits: f64) -> Ceiling {
        Ceiling { effect, fits: fits.clamp(0.0, 1.0), ..self }
    }

    /// Raised to this value at this cost.
    pub(crate) fn raise(self, wanted: impl ToString, cost: impl Into<String>) -> Ceiling {
        Ceiling { wanted: Some(wanted.to_string()), cost: cost.into(), ..self }
    }

    /// A choice that is not weir's: what there is to know about it.
    pub(crate) fn costs(self, cost: impl Into<String>) -> Ceiling {
        Ceiling { cost: cost.into(), ..self }
    }

    /// Is it below the load, with a value that would help?
    pub fn is_short(&self) -> bool {
        self.effect != Effect::Fits && self.wanted.is_some()
    }

    /// By this fix, beside others.
    pub(crate) fn by(mut self, fix: Fix) -> Ceiling {
        self.fixes.push(fix);
        self
    }

    /// By all of these.
    pub(crate) fn by_all(mut self, fixes: impl IntoIterator<Item = Fix>) -> Ceiling {
        self.fixes.extend(fixes);
        self
    }
}
