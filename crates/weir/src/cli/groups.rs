//! The groups of commands in `weir --help`: clap has no headings for subcommands, so the help has a list of its own, built
//! from the first line of each command's help.

use std::fmt::Write;

use clap::builder::Styles;
use clap::{Command, Subcommand};

/// Each visible command is in exactly one group.
const GROUPS: &[(&str, &[&str])] = &[
    ("Measure", &["run", "plan", "doctor", "check"]),
    (
        "Results",
        &["list", "show", "report", "export", "merge", "compare", "trend", "push", "serve", "archive"],
    ),
    ("Load", &["generate", "receive", "cpe", "flows", "mail"]),
    ("Capture and detection", &["capture", "pps", "detect"]),
    ("Network functions", &["node", "bng", "bottleneck", "conformance", "bench"]),
    ("Devices and servers", &["setup", "inspect"]),
    ("This machine", &["clean", "completions", "man", "help"]),
];

/// What clap says of its own command, which it adds later.
const HELP: (&str, &str) = ("help", "Print this help, or the help of a command");

/// The help of `weir`: like that of clap, but with the commands in groups.
pub(super) fn help_template() -> String {
    let heading = *Styles::styled().get_header();
    let mut text = "{before-help}{about-with-newline}\n{usage-heading} {usage}\n\n".to_string();
    for (name, commands) in listed() {
        let _ = writeln!(text, "{heading}{name}:{heading:#}");
        for (command, about) in commands {
            let _ = writeln!(text, "  {command:11}  {about}");
        }
        text.push('\n');
    }
    let _ = write!(text, "{heading}Options:{heading:#}\n{{options}}{{after-help}}");
    text
}

/// The groups with their commands and the first line of each command's help.
fn listed() -> Vec<(&'static str, Vec<(&'static str, String)>)> {
    let all = commands();
    let about = |name: &str| {
        let command = all.find_subcommand(name).and_then(Command::get_about);
        command.map_or_else(|| HELP.1.to_string(), ToString::to_string)
    };
    GROUPS
        .iter()
        .map(|(group, names)| (*group, names.iter().map(|name| (*name, about(name))).collect()))
        .collect()
}

/// All commands, without the top level: that one needs this list.
fn commands() -> Command {
    super::Command::augment_subcommands(Command::new("weir"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use clap::CommandFactory;

    use super::*;

    #[test]
    fn each_visible_command_is_in_one_group() {
        let mut places: BTreeMap<&str, usize> = BTreeMap::new();
        for name in GROUPS.iter().flat_map(|(_, names)| *names) {
            *places.entry(name).or_default() += 1;
        }
        assert_eq!(places.remove(HELP.0), Some(1));
        let all = commands();
        for command in all.get_subcommands().filter(|command| !command.is_hide_set()) {
            assert_eq!(
                places.remove(command.get_name()),
                Some(1),
                "add `{}` to one of GROUPS",
                command.get_name()
            );
        }
        assert!(places.is_empty(), "not visible commands: {places:?}");
    }

    #[test]
    fn the_list_fits_80_columns() {
        let help = crate::cli::Cli::command().term_width(80).render_help().to_string();
        for line in help.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
        for (group, _) in GROUPS {
            assert!(help.contains(&format!("\n{group}:\n")), "{group}: {help}");
        }
        assert!(help.contains("\n  run          Measure: run a plan"), "{help}");
        assert!(help.contains("\n  -h, --help"), "{help}");
    }
}
