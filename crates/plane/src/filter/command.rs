//! The command for the rules of a filter. They are compiled together, so that they are changed together.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Config;
use super::compile::MatchRanges;
use super::rules;
use crate::port::Port;
use crate::stage::StageCommand;
use crate::was::Was;

/// A command for a filter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FilterCommand {
    /// Gives a filter other rules. A rule that is also among the old ones keeps its counts.
    SetRules {
        /// The stage of the text, from 1.
        stage: usize,
        /// The rules as a file of rules has them, a line each.
        rules: String,
    },
}

/// A change of a filter's rules.
pub(crate) type RulesChange = Was<Box<Config>>;

impl StageCommand for FilterCommand {
    type Config = Config;
    const KIND: &'static str = "filter";

    fn stage(&self) -> usize {
        let FilterCommand::SetRules { stage, .. } = self;
        *stage
    }

    /// Its errors are all mistakes of the rules.
    fn change(&self, filter: &Config, ports: &[Port]) -> Result<Option<RulesChange>, String> {
        let FilterCommand::SetRules { rules, .. } = self;
        let rules = rules::read("rules", rules, ports).map_err(|mistakes| mistakes.to_string())?;
        MatchRanges::of(&rules)?;
        Ok(Was { old: Some(Box::new(filter.clone())), new: Some(Box::new(Config { rules })) }.if_any())
    }
}
