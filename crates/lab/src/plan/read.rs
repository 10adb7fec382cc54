//! A plan's TOML becomes a [`Plan`], or the list of all its mistakes.

use std::time::Duration;

use toml_edit::{Document, DocumentMut, Item, Value};
use weir_packet::flow::{Direction, FlowOrder, IpVersion, MAX_FLOWS, MAX_NETWORKS};
use weir_packet::frame::Transport;
use weir_packet::size::FrameSizes;
use weir_testbed::dut::DutKind;
use weir_testbed::fault::Faults;
use weir_testbed::rules::RuleForm;
use weir_testbed::updates::MAX_CHANGES_PER_S;

use super::axes::{self, DutAxes, TrafficAxes};
use super::capture;
use super::capture_peers;
use super::detect_peers;
use super::percent;
use super::point::{self, Cpus};
use super::read_external::{self, read_external};
use super::read_procedures::read_procedures;
use super::read_search::read_search;
use super::set::Set;
use super::short::{self, Changes, Form};
use super::spreading::SpreadAxes;
use super::{Curve, Experiment, Limits, Peer, Peers, Plan, Repeat, Throughput};
use weir_config::value;
use weir_config::{Mistake, Mistakes, Notes};
use weir_config::{Section, shown};

/// What the user calls a plan.
pub(super) struct Label<'a> {
    /// Name of the plan in records (`quick`).
    pub(super) name: &'a str,
    /// What mistakes are found in: its path, or the name of a shipped one.
    pub(super) place: &'a str,
}

/// Reads the plan in `text` with the changes `sets` (`key.path=value`) applied. A plan with a short form is right only
/// if that is, too.
pub(super) fn read(label: &Label<'_>, text: &str, form: Form, sets: &[String]) -> Result<Plan, Mistakes> {
    let plan = read_form(label, text, form, sets);
    let has_short =
        form == Form::Full && Document::parse(text).is_ok_and(|d| Changes::of(d.as_item()).is_some());
    let short = has_short.then(|| read_form(label, text, Form::Short, sets)).transpose();
    match (plan, short) {
        (Ok(plan), Ok(short)) => Ok(Plan { short: short.map(|plan| plan.estimate()), ..plan }),
        (Err(full), Err(short)) => Err(full.and(short)),
        (Err(mistakes), _) | (_, Err(mistakes)) => Err(mistakes),
    }
}

fn read_form(label: &Label<'_>, text: &str, form: Form, sets: &[String]) -> Result<Plan, Mistakes> {
    let notes = Notes::new("a plan", text);
    let document = notes.parse();
    let short = document.as_ref().filter(|_| form == Form::Short).map(Changes::of);
    if let Some(None) = short {
        let text =
            "this plan has no short form: leave out --short, or add [short] with the options that differ";
        notes.add(Some(0..0), "", text.to_string());
    }
    let changes = short.flatten();
    let first = changes.as_ref().map_or(&[][..], |changes| &changes.sets);
    let parsed = document.and_then(|document| with_sets(document, text, first, sets, &notes));
    let plan = parsed.and_then(|(item, text)| {
        let root = Section::root(item.as_table_like()?, &notes);
        if is_from_the_future(&root) { None } else { read_plan(root, label.name, text) }
    });
    match plan {
        Some(plan) if notes.is_empty() => Ok(plan),
        _ => {
            let mut mistakes = notes.to_mistakes(label.place);
            changes.iter().for_each(|changes| changes.locate(&mut mistakes, &notes));
            Err(mistakes)
        }
    }
}

/// The plan with the changes applied, twice: with spans for reading, and as text for the record. With changes to a
/// short form it is that form, and has no other.
fn with_sets(
    mut plan: Item,
    text: &str,
    short: &[Set],
    sets: &[String],
    notes: &Notes<'_>,
) -> Option<(Item, String)> {
    if short.is_empty() && sets.is_empty() {
        return Some((plan, text.to_string()));
    }
    let mut edited: DocumentMut = text.parse().ok()?;
    if !short.is_empty() {
        short::remove(edited.as_table_mut());
        short::remove(plan.as_table_like_mut().expect("a document is a table"));
    }
    let mut apply = |set: Set| -> Result<(), Mistake> {
        set.apply(edited.as_table_mut())?;
        set.apply(plan.as_table_mut().expect("a document is a table"))
    };
    let sets = short.iter().cloned().map(Ok).chain(sets.iter().map(|set| Set::parse(set)));
    let wrong: Vec<_> = sets.filter_map(|set| set.and_then(&mut apply).err()).collect();
    let all_applied = wrong.is_empty();
    wrong.into_iter().for_each(|mistake| notes.push(mistake));
    all_applied.then(|| (plan, edited.to_string()))
}

/// Notes that the plan needs a newer weir, which makes every other mistake meaningless.
fn is_from_the_future(root: &Section<'_>) -> bool {
    let this = env!("CARGO_PKG_VERSION");
    let version =
        |text: &str| text.split('.').map(|part| part.parse::<u32>().ok()).collect::<Option<Vec<_>>>();
    let needed = root.one("requires", |value: &Value| {
        let text = shown(value);
        version(&text)
            .map(|numbers| (text.clone(), numbers))
            .ok_or_else(|| format!("`{text}` is no version: use \"{this}\""))
    });
    let newer = needed.filter(|(_, numbers)| Some(numbers) > version(this).as_ref());
    if let Some((text, _)) = &newer {
        root.wrong(
            "requires",
            format!("this plan needs weir {text} or newer, and this is {this}: update weir"),
        );
    }
    newer.is_some()
}

#[derive(Clone, Copy)]
enum ExperimentKind {
    Throughput,
    PeersGenerator,
    Capture,
    PeersCapture,
    PeersDetect,
}

fn read_plan(root: Section<'_>, name: &str, text: String) -> Option<Plan> {
    let question = root.required("question", "\"How fast does this machine route?\"", value::text);
    let cites = root.one("cites", value::text);
    let limits = read_limits(root.section("limits"));
    let kinds = [
        (ExperimentKind::Throughput, "throughput"),
        (ExperimentKind::PeersGenerator, "peers-generator"),
        (ExperimentKind::Capture, "capture"),
        (ExperimentKind::PeersCapture, "peers-capture"),
        (ExperimentKind::PeersDetect, "peers-detect"),
    ];
    let kind = match root.one("experiment", value::choice("experiment", &kinds)) {
        Some(kind) => kind,
        None if root.has("experiment") => return None,
        None => ExperimentKind::Throughput,
    };
    let experiment = match kind {
        ExperimentKind::Throughput => read_throughput(&root).map(Experiment::Throughput),
        ExperimentKind::PeersGenerator => read_peers(root.section("peers")).map(Experiment::PeersGenerator),
        ExperimentKind::Capture => capture::read(root.section("capture")).map(Experiment::Capture),
        ExperimentKind::PeersCapture => {
            capture_peers::read(root.section("capture_peers")).map(Experiment::PeersCapture)
        }
        ExperimentKind::PeersDetect => {
            detect_peers::read(root.section("detect_peers")).map(Experiment::PeersDetect)
        }
    };
    // Its options are read where they belong.
    root.section("short");
    root.finish();
    let (name, short) = (name.to_string(), None);
    Some(Plan { name, question: question?, cites, experiment: experiment?, limits, short, text })
}

fn read_throughput(root: &Section<'_>) -> Option<Throughput> {
    let (dut_section, traffic_section) = (root.section("dut"), root.section("traffic"));
    let dut = read_dut(&dut_section);
    let traffic = read_traffic(&traffic_section);
    let faults = dut_section.one("faults", value::parsed::<Faults>).unwrap_or_default();
    if let (Some(dut), Some(traffic)) = (&dut, &traffic) {
        for unused in axes::unused(dut, traffic) {
            let section = if unused.section == "dut" { &dut_section } else { &traffic_section };
            section.wrong_entry(unused.key, unused.index, unused.why);
        }
    }
    let external = read_external(root.section("external"));
    if let (Some(dut), Some(traffic)) = (&dut, &traffic) {
        read_external::check(root, external.as_ref(), (dut, traffic));
        read_external::check_clocks(root, external.as_ref(), (dut, traffic));
    }
    dut_section.finish();
    traffic_section.finish();
    let search = read_search(root.section("search"));
    let repeat = read_repeat(root.section("repeat"));
    let curve = read_curve(root.section("curve"));
    let procedures = read_procedures(root, dut.as_ref());
    Some(Throughput {
        dut: dut?,
        faults,
        external,
        traffic: traffic?,
        search: search?,
        repeat,
        curve,
        procedures,
    })
}

fn read_dut(section: &Section<'_>) -> Option<DutAxes> {
    let kind = section.required_axis(
        "kind",
        "\"kernel-forward\"",
        value::choice("device under test", &DutKind::ALL),
    );
    let rules = section.axis("rules", value::count(0..=10_000));
    let filter = section.axis("filter", value::choice("form of rules", &RuleForm::ALL));
    let cpus = section.axis("cpus", value::parsed::<Cpus>);
    let changes = section.axis("route_changes_per_s", value::count(0..=MAX_CHANGES_PER_S));
    let spreading = SpreadAxes::read(section);
    // One value that is not used does no harm: `--set dut.kind=...` need not mind the rules of the plan.
    let lists = [
        ("rules", rules.as_ref().map_or(0, Vec::len) > 1),
        ("filter", filter.as_ref().map_or(0, Vec::len) > 1),
    ];
    for (key, _) in lists.iter().filter(|(_, is_list)| *is_list) {
        if kind.as_ref().is_some_and(|kind| !kind.iter().any(|&kind| point::has_rules(kind))) {
            let text = "only kernel-stateless and kernel-stateful have rules: leave the list out";
            section.wrong(key, text.to_string());
        } else if *key == "filter" && rules.as_deref() == Some(&[0]) {
            section.wrong(key, "without rules there is no form of them: leave the list out".to_string());
        }
    }
    Some(DutAxes {
        kind: kind?,
        rules: rules.unwrap_or(vec![25]),
        filter: filter.unwrap_or(vec![RuleForm::NftChain]),
        cpus: cpus.unwrap_or(vec![Cpus::All]),
        route_changes_per_s: changes.unwrap_or(vec![0]),
        spreading,
    })
}

fn read_traffic(section: &Section<'_>) -> Option<TrafficAxes> {
    let frame_bytes = section.required_axis("frame_bytes", "[64, 1518]", value::parsed::<FrameSizes>);
    let ip = section.axis("ip", value::parsed::<IpVersion>);
    let transport = section.axis("transport", value::parsed::<Transport>);
    let flows = section.axis("flows", value::count(1..=MAX_FLOWS));
    let flow_order = section.axis("flow_order", value::parsed::<FlowOrder>);
    let direction = section.axis("direction", value::parsed::<Direction>);
    let networks = section.axis("networks", value::count(1..=MAX_NETWORKS));
    let broadcast_every = section.axis("broadcast_every", value::count(0..=1_000_000));
    let groups = section.one("groups", value::count(1..=256));
    let line_bits_per_s = section.one("line_bits_per_s", value::line_bits_per_s);
    Some(TrafficAxes {
        frame_bytes: frame_bytes?,
        ip: ip.unwrap_or(vec![IpVersion::V4]),
        transport: transport.unwrap_or(vec![Transport::Udp]),
        flows: flows.unwrap_or(vec![1]),
        flow_order: flow_order.unwrap_or(vec![FlowOrder::Sequential]),
        direction: direction.unwrap_or(vec![Direction::Both]),
        networks: networks.unwrap_or(vec![1]),
        broadcast_every: broadcast_every.unwrap_or(vec![0]),
        groups: groups.unwrap_or(1),
        line_bits_per_s,
    })
}

fn read_repeat(section: Section<'_>) -> Repeat {
    let times = section.one("times", value::count(1..=1000));
    let in_turn = section.one("in_turn", value::flag);
    section.finish();
    Repeat { times: times.unwrap_or(1), in_turn: in_turn.unwrap_or(false) }
}

fn read_curve(section: Section<'_>) -> Option<Curve> {
    if !section.is_present() {
        return None;
    }
    let percent = section.required_axis("percent", "[10, 50, 90, 100]", percent::percent);
    let trial = section.one("trial_s", value::seconds);
    section.finish();
    Some(Curve { percent: percent?, trial: trial.unwrap_or(Duration::from_secs(1)) })
}

fn read_limits(section: Section<'_>) -> Limits {
    let default = Limits::default();
    let limits = Limits {
        unexplained: section.one("unexplained", value::ratio).unwrap_or(default.unexplained),
        rate_error: section.one("rate_error", value::ratio).unwrap_or(default.rate_error),
        steal: section.one("steal", value::ratio).unwrap_or(default.steal),
        retries: section.one("retries", value::count(0..=100)).unwrap_or(default.retries),
    };
    section.finish();
    limits
}

fn read_peers(section: Section<'_>) -> Option<Peers> {
    let names =
        section.required_axis("names", "[\"trafgen\", \"iperf3\"]", value::choice("peer", &Peer::ALL));
    let rounds = section.one("rounds", value::count(1..=1000));
    let trial = section.one("trial_s", value::seconds);
    let frame_bytes = section.axis("frame_bytes", fixed_size);
    let flows = section.axis("flows", value::count(1..=MAX_FLOWS));
    section.finish();
    Some(Peers {
        names: names?,
        rounds: rounds.unwrap_or(6),
        trial: trial.unwrap_or(Duration::from_secs(2)),
        frame_bytes: frame_bytes.unwrap_or(vec![64]),
        flows: flows.unwrap_or(vec![1]),
    })
}

/// One size: not every peer can mix sizes.
fn fixed_size(value: &Value) -> Result<u16, String> {
    match value::parsed(value)? {
        FrameSizes::Fixed(size) => Ok(size),
        _ => {
            Err(format!("`{}` is a mix, which not every peer sends: use sizes from 64 to 9018", shown(value)))
        }
    }
}
