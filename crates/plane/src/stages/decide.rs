//! What a command changes in a stage, which it names by its number in the text.

use super::{Listed, OneOf, StageChange, StageConfig};
use crate::port::Port;
use crate::stage::StageCommand;

/// The stage, from 0, and its change; `None`: it is so already.
pub(crate) type Decided = Result<Option<(usize, StageChange)>, String>;

/// What a command changes in one of these stages.
///
/// # Errors
/// There is no such stage, or the command cannot be done.
pub(super) fn decide<C>(command: &C, stages: &[StageConfig], ports: &[Port]) -> Decided
where
    C: StageCommand,
    C::Config: Listed + OneOf<StageConfig>,
{
    let at = command.stage().wrapping_sub(1);
    let config =
        stages.get(at).and_then(C::Config::of).ok_or_else(|| no_stage::<C>(command.stage(), stages))?;
    Ok(command.change(config, ports)?.map(|change| (at, C::Config::listed(change))))
}

/// There is no such stage; which ones there are.
fn no_stage<C>(number: usize, stages: &[StageConfig]) -> String
where
    C: StageCommand,
    C::Config: OneOf<StageConfig>,
{
    let all = (1..).zip(stages).filter(|(_, stage)| C::Config::of(stage).is_some());
    let all: Vec<String> = all.map(|(n, _): (usize, _)| n.to_string()).collect();
    match &all[..] {
        [] => format!("the node has no {}", C::KIND),
        all => format!("stage {number} is no {}: those of the node are {}", C::KIND, all.join(", ")),
    }
}
