//! The command for the rates of a policer's profiles.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::buckets::Limit;
use super::config::{Config, MOST_BURST, RateName};
use crate::dir::Dir;
use crate::port::Port;
use crate::stage::StageCommand;
use crate::was::Was;

/// A command for a policer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PoliceCommand {
    /// Changes a rate of a profile; subscribers keep the level of their buckets.
    SetRate {
        /// The stage of the text, from 1.
        stage: usize,
        /// The profile.
        profile: String,
        /// The class with a rate of its own; none: all classes without one.
        #[serde(default)]
        class: Option<u8>,
        /// The direction.
        direction: Dir,
        /// The rate of a subscriber, bits/s.
        bits_per_s: u64,
        /// What a subscriber may send or receive at once, in bytes.
        burst_bytes: u64,
    },
}

/// A change of a rate.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RateChange {
    pub(crate) name: RateName,
    pub(crate) was: Was<Limit>,
}

impl StageCommand for PoliceCommand {
    type Config = Config;
    const KIND: &'static str = "policer";

    fn stage(&self) -> usize {
        let PoliceCommand::SetRate { stage, .. } = self;
        *stage
    }

    fn change(&self, police: &Config, ports: &[Port]) -> Result<Option<RateChange>, String> {
        let PoliceCommand::SetRate { profile, class, direction, bits_per_s, burst_bytes, .. } = self;
        let name = RateName { profile: profile.clone(), class: *class, dir: *direction };
        let old = police.limit_of(&name)?;
        if *bits_per_s == 0 {
            return Err("at a rate of 0 nothing passes: set another, or drop these frames in a filter".into());
        }
        let longest = Config::longest_frame(ports);
        if !(longest..=MOST_BURST).contains(burst_bytes) {
            return Err(format!("a burst is of {longest} bytes, the longest frame, to {MOST_BURST}"));
        }
        let new = Limit::with_bytes(*bits_per_s, *burst_bytes);
        Ok(Was { old: Some(old), new: Some(new) }.if_any().map(|was| RateChange { name, was }))
    }
}
