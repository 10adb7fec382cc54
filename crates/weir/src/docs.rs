//! Completions and man pages, generated from the description of the command line.

use std::io::{self, Write};
use std::path::Path;

use clap::{Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::cli::Cli;

/// Exit codes besides 0, 1 and 2, by command; the help of `weir` explains them.
const CODES: &[(&str, &[&str])] = &[
    ("weir", &["3", "4", "130"]),
    ("weir-run", &["3", "4", "130"]),
    ("weir-compare", &["4"]),
    ("weir-generate", &["130"]),
    ("weir-receive", &["130"]),
    ("weir-capture", &["130"]),
    ("weir-pps", &["130"]),
    ("weir-cpe", &["130"]),
    ("weir-detect", &["130"]),
    ("weir-check", &["130"]),
];

/// The completions of `shell`. They are written to memory first, because clap panics if writing fails.
pub(crate) fn completions(shell: Shell) -> Vec<u8> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "weir", &mut text);
    with_interfaces(shell, &String::from_utf8_lossy(&text)).into_bytes()
}

/// Adds the interfaces of the machine, listed at completion time, which clap cannot do.
fn with_interfaces(shell: Shell, text: &str) -> String {
    const LIST: &str = "command ls /sys/class/net 2>/dev/null";
    let is_option = |line: &str| ["--interface)", "--interfaces)", "-i)"].contains(&line.trim());
    let mut after_option = false;
    let mut lines = Vec::new();
    for line in text.lines() {
        let line = match shell {
            Shell::Bash if after_option => {
                line.replace("compgen -f", &format!("compgen -W \"$({LIST})\" --"))
            }
            Shell::Zsh => line.replace(":IF:_default", ":IF:_net_interfaces"),
            Shell::Fish if line.contains(" -l interface") => format!("{line} -f -a \"({LIST})\""),
            _ => line.to_string(),
        };
        after_option = is_option(&line);
        lines.push(line);
    }
    lines.join("\n") + "\n"
}

/// Writes the man page of weir.
pub(crate) fn man_page(out: &mut impl Write) -> io::Result<()> {
    render(&built(), out)
}

/// Writes the man pages of weir and all its commands to a folder, which is created if it does not exist.
pub(crate) fn man_pages(folder: &Path) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    each(&built(), &mut |command| {
        let mut page = Vec::new();
        render(command, &mut page)?;
        // Atomically, and without following a link.
        weir_disk::replace(&folder.join(format!("{}.1", name(command))), &page, 0o644)
    })
}

/// The command line with the full names of all commands.
fn built() -> Command {
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    command
}

/// Visits a command and all below it, except hidden ones.
fn each(command: &Command, visit: &mut impl FnMut(&Command) -> io::Result<()>) -> io::Result<()> {
    visit(command)?;
    command
        .get_subcommands()
        .filter(|below| !below.is_hide_set() && below.get_name() != "help")
        .try_for_each(|below| each(below, visit))
}

/// `weir-plan-check`.
fn name(command: &Command) -> &str {
    command.get_display_name().unwrap_or_else(|| command.get_name())
}

/// The sections of man-pages(7); clap_mangen writes only the first ones.
fn render(command: &Command, out: &mut impl Write) -> io::Result<()> {
    let source = concat!("weir ", env!("CARGO_PKG_VERSION"));
    let man = Man::new(command.clone()).source(source);
    man.render_title(out)?;
    man.render_name_section(out)?;
    man.render_synopsis_section(out)?;
    man.render_description_section(out)?;
    man.render_options_section(out)?;
    if command.has_subcommands() {
        man.render_subcommands_section(out)?;
    }
    let help = Help::of(command);
    section(out, "EXIT STATUS", &exit_status(command, &help))?;
    section(out, "NOTES", &help.notes)?;
    section(out, "EXAMPLES", &examples(command, &help))
}

/// A section of literal lines.
fn section(out: &mut impl Write, title: &str, lines: &[String]) -> io::Result<()> {
    if lines.is_empty() {
        return Ok(());
    }
    writeln!(out, ".SH {title}\n.nf")?;
    for line in lines {
        let line = line.replace('\\', "\\e").replace('-', "\\-");
        let is_request = line.starts_with(['.', '\'']);
        writeln!(out, "{}{line}", if is_request { "\\&" } else { "" })?;
    }
    writeln!(out, ".fi")
}

/// The text below the options in the help of a command.
#[derive(Default)]
struct Help {
    examples: Vec<String>,
    exit: Vec<String>,
    notes: Vec<String>,
}

impl Help {
    fn of(command: &Command) -> Help {
        let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let mut help = Help::default();
        for paragraph in text.split("\n\n").filter(|paragraph| !paragraph.trim().is_empty()) {
            let lines = paragraph.lines().map(str::to_string);
            match paragraph.lines().next().unwrap_or_default() {
                "Example:" | "Examples:" => help.examples.extend(lines.skip(1)),
                "Exit codes:" => help.exit.extend(lines.skip(1)),
                _ if paragraph.contains("exit code") => help.exit.extend(lines),
                _ => help.notes.extend(lines),
            }
        }
        help
    }
}

/// Its own examples, or those of the commands below it.
fn examples(command: &Command, help: &Help) -> Vec<String> {
    if !help.examples.is_empty() {
        return help.examples.clone();
    }
    command.get_subcommands().flat_map(|below| examples(below, &Help::of(below))).collect()
}

/// The exit codes of a command, and the text about them in its help.
fn exit_status(command: &Command, help: &Help) -> Vec<String> {
    let all = Help::of(&Cli::command()).exit;
    let own = CODES.iter().find(|(of, _)| *of == name(command)).map_or(&[][..], |(_, codes)| *codes);
    let is_own = |line: &&String| {
        let code = line.split_whitespace().next().unwrap_or_default();
        ["0", "1", "2"].contains(&code) || own.contains(&code)
    };
    let mut lines: Vec<String> = all.iter().filter(is_own).cloned().collect();
    if command.get_name() != "weir" && !help.exit.is_empty() {
        lines.push(String::new());
        lines.extend(help.exit.iter().cloned());
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum;

    fn page(command: &Command) -> String {
        let mut page = Vec::new();
        render(command, &mut page).unwrap();
        String::from_utf8(page).unwrap()
    }

    #[test]
    fn completions_name_the_commands() {
        for shell in Shell::value_variants() {
            assert!(String::from_utf8(completions(*shell)).unwrap().contains("generate"), "{shell}");
        }
    }

    #[test]
    fn completions_know_plans_methods_and_interfaces() {
        let of = |shell| String::from_utf8(completions(shell)).unwrap();
        let bash = of(Shell::Bash);
        for words in
            [" rfc2544 ", "auto recv recvmmsg", "compgen -W \"$(command ls /sys/class/net 2>/dev/null)\" -- "]
        {
            assert!(bash.contains(words), "{words}");
        }
        assert!(of(Shell::Zsh).contains(":IF:_net_interfaces"));
        assert!(of(Shell::Fish).contains("-a \"(command ls /sys/class/net"));
    }

    #[test]
    fn each_page_has_examples_and_exit_status() {
        let mut names = Vec::new();
        each(&built(), &mut |command| {
            let page = page(command);
            let name = name(command);
            for text in [".SH NAME\n", ".SH EXAMPLES\n.nf\n  weir ", ".SH EXIT STATUS\n.nf\n  0    done\n"] {
                assert!(page.contains(text), "{name}: `{text}` is not in:\n{page}");
            }
            assert!(page.contains(&format!(".TH {name} 1")) && !page.contains("EXTRA"), "{page}");
            names.push(name.to_string());
            Ok(())
        })
        .unwrap();
        for (name, _) in CODES {
            assert!(names.iter().any(|known| known == name), "{name} is no command");
        }
        assert!(!names.iter().any(|name| name.contains("agent") || name.contains("help")), "{names:?}");
    }

    #[test]
    fn a_page_has_the_codes_of_its_command() {
        let all = built();
        let of = |name: &str| page(all.find_subcommand(name).unwrap());
        assert!(page(&all).contains("\n  130  interrupted"), "{}", page(&all));
        assert!(of("compare").contains("\n  4    compared") && !of("compare").contains("130"));
        let check = of("check");
        assert!(check.contains("The exit code is 0 if each fault was found"), "{check}");
        assert!(of("run").contains("\n  weir run rfc2544 \\-\\-short "), "{}", of("run"));
    }

    #[test]
    fn man_pages_are_written() {
        let folder = weir_testkit::Folder::new();
        man_pages(&folder).unwrap();
        for name in ["weir.1", "weir-run.1", "weir-plan-check.1"] {
            assert!(folder.join(name).exists(), "{name}");
        }
    }
}
