//! Lines are read as they should be, help is there, and wrong lines are refused with a remedy.

use std::time::Duration;

use clap::CommandFactory;
use weir_config::rate::Rate;
use weir_packet::flow::{FlowOrder, IpVersion};

use super::frames::Mac;
use super::*;

fn parse(line: &str) -> Result<Command, clap::Error> {
    Cli::read(line.split_whitespace().map(Into::into)).map(|cli| cli.command)
}

/// All commands below `command` with their full names.
fn each(command: &mut clap::Command, name: &str, visit: &mut impl FnMut(&str, &mut clap::Command)) {
    visit(name, command);
    for sub in command.get_subcommands_mut() {
        let name = format!("{name} {}", sub.get_name());
        each(sub, &name, visit);
    }
}

#[test]
fn every_command_has_help() {
    let mut command = Cli::command();
    command.build();
    command.clone().debug_assert();
    let mut names = Vec::new();
    each(&mut command, "weir", &mut |name, command| {
        if name.contains(" help") {
            return;
        }
        let help = command.render_long_help().to_string();
        assert!(help.contains("Usage:"), "{name}: {help}");
        assert!(command.get_about().is_some(), "{name} says nothing about itself");
        for argument in command.get_arguments() {
            assert!(argument.get_help().is_some(), "{name} {} has no help", argument.get_id());
        }
        names.push(name.to_string());
    });
    for name in ["weir run", "weir plan check", "weir generate", "weir receive", "weir doctor", "weir man"] {
        assert!(names.iter().any(|n| n == name), "{name} is missing in {names:?}");
    }
    assert!(Cli::command().render_long_help().to_string().contains("130  interrupted"));
}

#[test]
fn the_help_shows_how_devices_and_recipients_are_numbered() {
    for (name, shown) in [
        ("mail", ["--rcpt t{n}@example.net", "Recipient; {n} is replaced by its number"]),
        ("cpe", ["--login 'user{n}@isp'", "Name of each device: a text with {n}, {tags} or {mac}"]),
    ] {
        let help = parse(&format!("weir {name} --help")).unwrap_err().to_string();
        for text in shown {
            assert!(help.contains(text), "{text}: {help}");
        }
    }
}

#[test]
fn examples_in_help_texts_are_valid() {
    let mut command = Cli::command();
    command.build();
    let mut examples = 0;
    each(&mut command, "weir", &mut |_, command| {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        for line in help.lines().filter_map(|line| line.find("weir ").map(|start| &line[start..])) {
            // What follows two spaces explains, what follows `>`, `|` or `&` is the shell's.
            let line = line
                .split("  ")
                .next()
                .and_then(|line| line.split(['>', '|', '&']).next())
                .unwrap()
                .trim_end();
            parse(line).unwrap_or_else(|error| panic!("`{line}`: {error}"));
            examples += 1;
        }
    });
    assert!(examples >= 12, "only {examples} examples found");
}

#[test]
fn a_run_is_read() {
    let Command::Run(run) =
        parse("weir run quick --set a.b=1 --set c=[1,2] --seed 7 --tester packet --no-report -q").unwrap()
    else {
        panic!()
    };
    assert_eq!(run.plans, ["quick"]);
    assert_eq!(run.sets.sets, ["a.b=1", "c=[1,2]"]);
    assert_eq!((run.seed, run.tester), (Some(7), TesterKind::Packet));
    assert_eq!((run.no_report, run.json, run.quiet), (true, false, true));
}

#[test]
fn a_generator_is_read() {
    let line = "weir generate -i veth0 --rate 500kpps --frame 512 --flows 1M --order unique --ip 6 \
                --src-mac 02:00:00:00:00:0a --dst 2001:db8::1 --duration 2.5 --tester packet";
    let Command::Generate(generate) = parse(line).unwrap() else { panic!() };
    assert_eq!(generate.rate, Some(Rate::Fps(5e5)));
    assert_eq!((generate.flows, generate.order, generate.ip), (1_000_000, FlowOrder::Unique, IpVersion::V6));
    assert_eq!(generate.addresses.src_mac, Some(Mac([2, 0, 0, 0, 0, 10])));
    assert_eq!(generate.duration, Some(Duration::from_millis(2500)));
    assert_eq!(generate.tester, TesterKind::Packet);
}

#[test]
fn a_subscriber_is_read() {
    let line = "weir bng subscriber add anna --mac 02:00:00:00:00:01 --plan down 20Mbit up 5Mbit --address 100.64.0.9";
    let Command::Bng(BngCommand::Subscriber(SubscriberCommand::Add(add))) = parse(line).unwrap() else {
        panic!()
    };
    assert_eq!(add.name.map(|name| name.to_string()).as_deref(), Some("anna"));
    assert_eq!(add.said.plan, ["down", "20Mbit", "up", "5Mbit"]);
    assert_eq!(add.said.address, Some([100, 64, 0, 9].into()));
}

#[test]
fn wrong_lines_are_refused_with_a_remedy() {
    for (line, message) in [
        ("weir run", "NAME|FILE"),
        ("weir runn quick", "'run'"),
        ("weir show 0", "use its number from `weir list`"),
        ("weir show last --json --csv", "cannot be used with"),
        ("weir report", "ID|last"),
        ("weir export last", "--format"),
        (
            "weir export last --format xml",
            "[possible values: csv, figures, jsonl, prometheus, markdown, latex, tabular, svg]",
        ),
        ("weir compare 3", "2 values required"),
        ("weir trend quick --point 64", "use frame_bytes=64"),
        ("weir trend quick --json -o x", "cannot be used with"),
        ("weir compare 3 4 --fail-on slow", "[possible values: slower, faster, cannot-tell, unmatched]"),
        ("weir run quick --report x --no-report", "cannot be used with"),
        ("weir run quick --tester dpdk", "[possible values: auto, xdp, packet]"),
        ("weir generate", "--interface"),
        ("weir generate -i x --rate 1m", "use 1M or 500kpps"),
        ("weir generate -i x --rate 0%", "more than 0%"),
        ("weir generate -i x --ip 6", "use --frame 84"),
        ("weir run a.toml b.toml", "add --compare"),
        ("weir run a.toml --compare", "needs two plans"),
        ("weir run quick --fail-on slower", "add --against RUN"),
        ("weir generate -i x --dst 2001:db8::1", "2001:db8::1 is no IPv4 address"),
        ("weir generate -i x --frame 63", "use 64 to 9018"),
        ("weir generate -i x --flows 0", "use 1 to 16000000"),
        ("weir generate -i x --src-mac 2:0:0:0:0:1", "use 02:00:00:00:00:01"),
        ("weir generate -i x --ip 6 --frame 84 --src 10.0.0.1", "10.0.0.1 is no IPv6 address"),
        ("weir capture", "--interface"),
        ("weir capture -i x --method rings", "there are: recv, recvmmsg"),
        ("weir capture -i x --method count", "use another one, or `weir pps`"),
        ("weir capture -i x --rotate 1GB", "--write"),
        ("weir capture -i x -w y --keep 3", "--rotate"),
        ("weir capture -i x -w y --ring-before 30s", "--trigger"),
        ("weir capture -i x -w y --ring-before 30s --trigger often", "use pps>100k"),
        ("weir capture -i x -w y --rotate 10kB", "use 1MB or more"),
        ("weir capture -i x -w - --json", "standard output"),
        ("weir capture -i x --memory 1MB", "use --memory 4MiB or more"),
        ("weir capture -i x --snap 0", "1..=262144"),
        ("weir capture -i x --prometheus 9104", "`9104` is no ADDRESS:PORT"),
        ("weir receive -i x --duration 0", "use 10s, 100ms"),
        ("weir bng subscriber add", "<NAME>"),
        ("weir bng subscriber add anna --mac 02", "use 02:00:00:00:00:01"),
        ("weir bng subscriber add anna --line a:1 --mac 02:00:00:00:00:01", "cannot be used with"),
        ("weir bng subscriber add anna --from x", "cannot be used with"),
    ] {
        let error = parse(line).expect_err(line).to_string();
        assert!(error.contains(message), "{line}: {error}");
    }
}
