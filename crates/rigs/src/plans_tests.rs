//! Whole plans: their mistakes, `--set`, and the shipped plans.

use std::time::Duration;

use weir_lab::frames::{Cpus, Limits};
use weir_lab::plan::{Form, Label, Mistakes, Plan};
use weir_packet::flow::{Direction, IpVersion};
use weir_packet::size::FrameSizes;
use weir_testbed::dut::DutKind;

use crate::PLANS;
use crate::throughput::{Procedures, SearchLoss, SearchSpec, Throughput, points as points_of};

const PLAN: &str = r#"question = "How fast?"
[dut]
kind = ["kernel-forward", "kernel-stateful"]
rules = 25
cpus = [1, "all"]
[traffic]
frame_bytes = [84, "imix:ag"]
flows = [10, "1k"]
[search]
kind = "rfc2544"
max_fps = "2M"
"#;

fn read(text: &str, sets: &[&str]) -> Result<Plan, Mistakes> {
    let sets: Vec<_> = sets.iter().map(|set| set.to_string()).collect();
    PLANS.read(&Label { name: "p", place: "p" }, text, Form::Full, &sets)
}

fn read_short(text: &str, sets: &[&str]) -> Result<Plan, Mistakes> {
    let sets: Vec<_> = sets.iter().map(|set| set.to_string()).collect();
    PLANS.read(&Label { name: "p", place: "p" }, text, Form::Short, &sets)
}

#[test]
fn shards_of_each_shipped_plan_are_the_whole() {
    for (name, _) in PLANS.shipped() {
        let all = PLANS.load(name, &[]).unwrap();
        let (bases, points) = (all.experiment.bases(), all.experiment.points());
        assert!(!bases.is_empty() && (points == 0 || points == bases.len()), "{name}: {points}");
        assert!(bases.iter().flatten().all(|base| *base < bases.len()), "{name}");
        let own = |number: usize| PLANS.load(name, &[format!("shard={number}/3")]).unwrap();
        let shards: Vec<_> = (1..=3).map(|number| own(number).own().expect("a shard")).collect();
        let found: std::collections::BTreeSet<usize> = shards.iter().flatten().copied().collect();
        assert_eq!(found.len(), bases.len(), "{name}");
        // What is compared is measured in the same shard.
        for shard in &shards {
            let has_bases = |point: &usize| bases[*point].iter().all(|base| shard.contains(base));
            let alone = shard.iter().filter(|point| !has_bases(point)).count();
            assert_eq!(alone, 0, "{name}: {shard:?}");
        }
        assert!(own(1).estimate() <= all.estimate(), "{name}");
    }
}

#[test]
fn a_short_form_is_the_plan_with_its_changes() {
    let full = format!(
        "{PLAN}[latency]\ntimes = 20\n# minutes\n[short]\n\"latency.times\" = 3\nlatency.stream_s = 2\n"
    );
    let seconds =
        |plan: &Plan| plan.estimate().as_secs_f64() - read(PLAN, &[]).unwrap().estimate().as_secs_f64();
    let plan = read(&full, &[]).unwrap();
    // 16 points, of which two devices x two CPU sets x two sizes x two numbers of flows.
    assert_eq!(seconds(&plan), 16.0 * 2400.0);
    let short = read_short(&full, &[]).unwrap();
    assert_eq!((seconds(&short), plan.short), (16.0 * 6.0, Some(short.estimate())));
    assert_eq!(short.short, None);
    assert_eq!(short.text, format!("{PLAN}[latency]\ntimes = 3\nstream_s = 2\n"));
    assert_eq!(
        said(&read(&short.text, &[]).unwrap()),
        said(&short),
        "the record's plan is the plan that ran"
    );
    let both = read_short(&full, &["latency.times=5"]).unwrap();
    assert_eq!(seconds(&both), 16.0 * 10.0, "what the user says counts");
}

#[test]
fn mistakes_of_a_short_form_have_their_lines() {
    let plan =
        format!("{PLAN}colour = 1\n[short]\n\"latency.times\" = 0\nlatency.timez = 1\nlatenzy.times = 1\n");
    assert_eq!(
        read(&plan, &[]).unwrap_err().to_string(),
        "p:12: `colour` is no option of [search]: use kind, min_fps, max_fps, time_limit_s, trial_s, resolution, \
         loss_ratio, loss\n\
         p:14: latency.times: `0` is out of range: use a whole number from 1 to 1000\n\
         p:15: short: latency.timez: `timez` is no option of [latency]: did you mean `times`?\n\
         p:16: short: latenzy.times: `latenzy` is no option of a plan: did you mean `latency`?"
    );
    assert!(read_short(PLAN, &[]).unwrap_err().to_string().starts_with("p:1: this plan has no short form"));
}

/// Replaces `old` by `new` in [`PLAN`] and compares all mistakes, one per line.
fn check(old: &str, new: &str, expected: &str) {
    assert!(PLAN.contains(old), "the plan has no `{old}`");
    let mistakes = read(&PLAN.replacen(old, new, 1), &[]).expect_err(new);
    assert_eq!(mistakes.to_string(), expected, "after replacing `{old}` by `{new}`");
}

/// Sections that ask for a procedure.
const PROCEDURES: [&str; 9] =
    ["latency", "pdv", "frame_loss", "back_to_back", "recovery", "reset", "bursts", "soak", "forwarding"];

/// All that a plan says; experiments of several rigs cannot be compared otherwise.
fn said(plan: &Plan) -> String {
    format!("{plan:?}")
}

fn throughput(plan: Plan) -> Throughput {
    Throughput::of(&plan).expect("it searches").clone()
}

#[test]
fn each_mistake_has_its_line_and_remedy() {
    for (old, new, expected) in [
        (
            "question = \"How fast?\"",
            "",
            "p:1: question: is missing: add `question = \"How fast does this machine route?\"`",
        ),
        ("\"How fast?\"", "3", "p:1: question: takes a text: write it in quotes"),
        ("[dut]", "[dut", "p:2: this is not TOML: unclosed table, expected `]`"),
        ("rules = 25", "rulez = 25", "p:4: `rulez` is no option of [dut]: did you mean `rules`?"),
        (
            "rules = 25",
            "colour = 1",
            "p:4: `colour` is no option of [dut]: use kind, rules, filter, rate, buffer, aqm, delay, cpus, route_changes_per_s, interrupts, rps, xps, coalesce_us, faults",
        ),
        (
            "kernel-forward\"",
            "kernel-foward\"",
            "p:3: dut.kind: `kernel-foward` is no device under test: did you mean `kernel-forward`?",
        ),
        ("25", "-1", "p:4: dut.rules: `-1` is out of range: use a whole number from 0 to 10000"),
        ("25", "2.5", "p:4: dut.rules: `2.5` is out of range: use a whole number from 0 to 10000"),
        ("25", "[25, 25]", "p:4: dut.rules: `25` is listed twice: remove one"),
        ("25", "[]", "p:4: dut.rules: the list is empty: give a value"),
        ("\"all\"", "\"some\"", "p:5: dut.cpus: `some` is no number of CPUs: use 1 to 4096 or \"all\""),
        (
            "\"imix:ag\"",
            "\"imix:xy\"",
            "p:7: traffic.frame_bytes: `x` is no size letter of RFC 6985: use a=64 b=128 c=256 d=512 e=1024 f=1280 g=1518 h=2112 i=9000",
        ),
        (
            "frame_bytes = [84, \"imix:ag\"]",
            "",
            "p:6: traffic.frame_bytes: is missing: add `frame_bytes = [64, 1518]` to [traffic]",
        ),
        (
            "flows = ",
            "groups = 500\nflows = ",
            "p:8: traffic.groups: `500` is out of range: use a whole number from 1 to 256",
        ),
        (
            "flows = ",
            "groups = [1, 2]\nflows = ",
            "p:8: traffic.groups: takes one value: only an axis takes a list",
        ),
        (
            "flows = ",
            "groups = 20\nflows = ",
            "p:9: traffic.flows: 20 groups need at least 20 flows: use more flows or fewer groups",
        ),
        (
            "flows = ",
            "line_bits_per_s = \"fast\"\nflows = ",
            "p:8: traffic.line_bits_per_s: `fast` is no line speed in bit/s: use 10G, 2.5Gbit or 10e9",
        ),
        (
            "flows = ",
            "ip = 6\nflows = ",
            "p:7: traffic.frame_bytes: `imix:ag` is too small for an IPv6 test frame: use 84 bytes or more, or ip = 4",
        ),
        ("flows = ", "ip = 5\nflows = ", "p:8: traffic.ip: `5` is no IP version: use 4, 6"),
        (
            "flows = ",
            "direction = \"up\"\nflows = ",
            "p:8: traffic.direction: `up` is no direction: use forward, both, reflect",
        ),
        (
            "\"kernel-stateful\"",
            "\"kernel-stateful\", \"kernel-nat\"",
            "p:3: dut.kind: side b cannot begin a flow through kernel-nat: use direction = \"reflect\" or \"forward\"",
        ),
        (
            ", \"kernel-stateful\"]\nrules = 25",
            "]\nrules = [25, 50]",
            "p:4: dut.rules: only kernel-stateless and kernel-stateful have rules: omit the list",
        ),
        (
            ", \"kernel-stateful\"]\nrules = 25",
            "]\nfilter = [\"nft-set\", \"nft-map\"]",
            "p:4: dut.filter: only kernel-stateless and kernel-stateful have rules: omit the list",
        ),
        (
            "rules = 25",
            "rules = 0\nfilter = [\"nft-set\", \"nft-map\"]",
            "p:5: dut.filter: without rules there is no form of rules: omit the list",
        ),
        (
            "rules = 25",
            "filter = \"pf\"",
            "p:4: dut.filter: `pf` is no form of rules: use nft-chain, nft-set, nft-map, iptables-legacy-chain, \
             iptables-legacy-ipset, iptables-nft-chain, iptables-nft-ipset",
        ),
        ("kind = \"rfc2544\"", "", "p:9: search.kind: is missing: add `kind = \"mlrsearch\"` to [search]"),
        (
            "\"rfc2544\"",
            "\"binary\"",
            "p:10: search.kind: `binary` is no search: use mlrsearch, rfc2544, classic, fixed",
        ),
        (
            "\"rfc2544\"",
            "\"mlrsearch\"",
            "p:9: search.goal: is missing: add [[search.goal]] with a loss_ratio",
        ),
        ("\"2M\"", "\"2m\"", "p:11: search.max_fps: `2m` is no rate in frames/s: use 1000, 1k or 2M"),
        ("\"2M\"", "500", "p:11: search.max_fps: is not above min_fps, 1000 frames/s: raise it or omit it"),
        (
            "max_fps = \"2M\"",
            "trial_s = 0",
            "p:11: search.trial_s: `0` is no time from 1ms to 1d: use 10s, 100ms, 5m (minutes) or 2h",
        ),
        (
            "max_fps = \"2M\"",
            "resolution = 0",
            "p:11: search.resolution: is zero: use 1% or another share below 1",
        ),
        (
            "max_fps = \"2M\"",
            "loss_ratio = 5",
            "p:11: search.loss_ratio: `5` is no share below 1: write half a percent as \"0.5%\" or 0.005",
        ),
        (
            "\"2M\"",
            "\"2M\"\n[curve]\npercent = 0",
            "p:13: curve.percent: `0` is no percentage: use more than 0 and at most 1000",
        ),
        (
            "\"2M\"",
            "\"2M\"\n[curve]",
            "p:12: curve.percent: is missing: add `percent = [10, 50, 90, 100]` to [curve]",
        ),
        (
            "\"2M\"",
            "\"2M\"\n[latency]\nstream_s = 10\nafter_s = 10\ntimes = 0",
            "p:14: latency.after_s: leaves no part of the stream to time: use less than 10\n\
             p:15: latency.times: `0` is out of range: use a whole number from 1 to 1000",
        ),
        (
            "\"2M\"",
            "\"2M\"\n[frame_loss]\nstep_percent = 0.5\n[back_to_back]\nmax_burst_s = 31\ntrails = 1",
            "p:13: frame_loss.step_percent: `0.5` is no step between loads: use 1 to 100 percent\n\
             p:15: back_to_back.max_burst_s: `31` is no time from 1ms to 30s: use 10s, 100ms, 5m (minutes) or 2h\n\
             p:16: `trails` is no option of [back_to_back]: did you mean `trials`?",
        ),
        (
            "\"2M\"",
            "\"2M\"\n[recovery]\npercent = 90\ndrop_percent = 100\n[reset]\nkind = \"stall\"",
            "p:13: recovery.percent: is no overload: use more than 100 percent of the throughput\n\
             p:14: recovery.drop_percent: does not lower the load: use less than 100 percent of it\n\
             p:16: reset.kind: `stall` is a reset of faulty: use another kind of reset or device",
        ),
        (
            "\"2M\"",
            "\"2M\"\n[bursts]\nframes = 1\n[soak]\nduration_s = 9999999",
            "p:13: bursts.frames: `1` is out of range: use a whole number from 2 to 65535\n\
             p:15: soak.duration_s: `9999999` is no time from 1ms to 30d: use 10s, 100ms, 5m (minutes) or 2h",
        ),
        (
            "\"2M\"",
            "\"2M\"\n[limits]\nretry = 1",
            "p:13: `retry` is no option of [limits]: did you mean `retries`?",
        ),
        (
            "\"2M\"",
            "\"2M\"\n[repeats]\ntimes = 2",
            "p:12: `repeats` is no option of a plan: did you mean `repeat`?",
        ),
        (
            "\"2M\"",
            "\"2M\"\n[forwarding]\nup_to_percent = 90",
            "p:13: forwarding.up_to_percent: `90` is no end of loads above 100 percent: use 100 to 1000",
        ),
        ("[dut]", "repeat = 2\n[dut]", "p:2: repeat: is a section: write [repeat]"),
        (
            "[dut]",
            "experiment = \"throughputs\"\n[dut]",
            "p:2: experiment: `throughputs` is no experiment: did you mean `throughput`?",
        ),
        (
            "[dut]",
            "requires = \"99.1\"\nnew = 1\n[dut]",
            "p:2: requires: this plan needs weir 99.1 or newer, and this is 0.1.0: update weir",
        ),
        ("[dut]", "requires = \"soon\"\n[dut]", "p:2: requires: `soon` is no version: use \"0.1.0\""),
    ] {
        check(old, new, expected);
    }
}

#[test]
fn mistakes_of_a_search() {
    let search = "kind = \"rfc2544\"\nmax_fps = \"2M\"";
    for (new, expected) in [
        (
            "kind = \"classic\"\ntrials = 3\ndiscard = 3",
            "p:12: search.discard: leaves none of 3 trials: use 2 or less",
        ),
        (
            "kind = \"fixed\"",
            "p:9: search.loads_fps: is missing: add `loads_fps = [\"100k\", \"1M\"]` to [search]",
        ),
        (
            "kind = \"fixed\"\nloads_fps = 1e5\nmax_fps = 1e6",
            "p:12: `max_fps` is no option of [search]: use kind, loads_fps, trial_s",
        ),
        (
            "kind = \"mlrsearch\"\ngoal = []",
            "p:11: search.goal: is a list of sections: write [[search.goal]]",
        ),
        ("kind = \"mlrsearch\"\ngoal = 1", "p:11: search.goal: is a list of sections: write [[search.goal]]"),
        (
            "kind = \"mlrsearch\"\n[[search.goal]]\nname = \"a\"\nloss_ratio = 0\n[[search.goal]]\nname = \"a\"",
            "p:14: search.goal.2.loss_ratio: is missing: add `loss_ratio = \"0.5%\"` to [search.goal.2]",
        ),
        (
            "kind = \"mlrsearch\"\n[[search.goal]]\nname = \"a\"\nloss_ratio = 0\nfinal_trial_s = 2\nduration_sum_s = 1\ninitial_trial_s = 3",
            "p:15: search.goal.1.duration_sum_s: is below final_trial_s: use 2 or more\n\
             p:16: search.goal.1.initial_trial_s: is above final_trial_s: use 2 or less",
        ),
        (
            "kind = \"mlrsearch\"\ngoal = [{name = \"a\", loss_ratio = 0}, {name = \"a\", loss_ratio = 0}]",
            "p:11: search.goal.2.name: `a` is the name of an earlier goal: give each goal its own name",
        ),
        (
            "kind = \"mlrsearch\"\ngoal = [{loss_ratio = 0.07}, {loss_ratio = \"7%\"}]",
            "p:11: search.goal.2.name: `PDR 7%` is the name of an earlier goal: give each goal its own name",
        ),
    ] {
        check(search, new, expected);
    }
}

#[test]
fn all_mistakes_are_reported_at_once() {
    let plan =
        "[dut]\nkind = \"router\"\ncpu = 1\n[traffic]\nframe_bytes = 1\nflows = 0\n[serach]\nkind = 1\n";
    assert_eq!(
        read(plan, &["dut.rules=-1"]).unwrap_err().to_string(),
        "p:1: question: is missing: add `question = \"How fast does this machine route?\"`\n\
         p:1: search.kind: is missing: add `kind = \"mlrsearch\"` to [search]\n\
         p:2: dut.kind: `router` is no device under test: use wire, kernel-forward, kernel-stateless, \
         kernel-stateful, kernel-nat, kernel-bridge, xdp-forward, node-forward, \
         node-forward-packet, node-stateless, node-stateful, node-nat, node-nat64, \
         node-forward-fast, node-stateful-fast, node-nat-fast, bottleneck, prefix-nat, external, faulty\n\
         p:3: `cpu` is no option of [dut]: did you mean `cpus`?\n\
         p:5: traffic.frame_bytes: `1` is no frame size: use 64 to 9018, imix, imix:GENOME, mix:64,128 or random:64-1518\n\
         p:6: traffic.flows: `0` is out of range: use a whole number from 1 to 16000000\n\
         p:7: `serach` is no option of a plan: did you mean `search`?\n\
         --set dut.rules: `-1` is out of range: use a whole number from 0 to 10000"
    );
}

#[test]
fn set_changes_one_option() {
    let sets =
        ["traffic.frame_bytes=random:84-1518", "traffic.ip=[4, 6]", "dut.cpus=all", "curve.percent=[50,100]"];
    let plan = read(PLAN, &sets).unwrap();
    let text = plan.text.clone();
    assert_eq!(said(&read(&text, &[]).unwrap()), said(&plan), "the record's plan is the plan that ran");
    let throughput = throughput(plan);
    assert_eq!(throughput.traffic.frame_bytes, [FrameSizes::Random { min: 84, max: 1518 }]);
    assert_eq!(throughput.traffic.ip, [IpVersion::V4, IpVersion::V6]);
    assert_eq!(throughput.dut.cpus, [Cpus::All]);
    assert_eq!(throughput.curve.unwrap().percent, [50.0, 100.0]);
    assert_eq!(read(PLAN, &[]).unwrap().text, PLAN, "without changes the text is untouched");
}

#[test]
fn a_wrong_set_is_named() {
    for (set, expected) in [
        ("traffic.flowz=1", "--set traffic.flowz: `flowz` is no option of [traffic]: did you mean `flows`?"),
        ("trafic.flows=1", "--set trafic: `trafic` is no option of a plan: did you mean `traffic`?"),
        (
            "traffic.flows=none",
            "--set traffic.flows: `none` is out of range: use a whole number from 1 to 16000000",
        ),
        ("traffic=1", "--set traffic: is a section: set an option of it, traffic.OPTION=VALUE"),
        ("flows", "--set flows: sets nothing: use OPTION=VALUE, for example traffic.flows=1000"),
        (
            "traffic.frame_bytes=64 64",
            "--set traffic.frame_bytes: `64 64` is no frame size: use 64 to 9018, imix, imix:GENOME, mix:64,128 or random:64-1518",
        ),
        (
            "dut.kind=kernel-nat",
            "--set dut.kind: side b cannot begin a flow through kernel-nat: use direction = \"reflect\" or \"forward\"",
        ),
    ] {
        assert_eq!(read(PLAN, &[set]).unwrap_err().to_string(), expected, "--set {set}");
    }
}

#[test]
fn a_list_is_an_axis() {
    let plan = read(PLAN, &["traffic.direction=[forward,both]"]).unwrap();
    // 2 devices x 2 CPU sets x 2 frame sizes x 2 numbers of flows x 2 directions.
    assert_eq!(points_of(&plan).len(), 32);
    let first = &points_of(&plan)[0];
    assert_eq!((first.dut, first.rules, first.cpus), (DutKind::KERNEL_FORWARD, None, Cpus::Count(1)));
    assert_eq!(
        (first.frame.to_string().as_str(), first.flows, first.direction),
        ("84", 10, Direction::Forward)
    );
}

#[test]
fn defaults_are_those_of_the_cited_procedures() {
    let plan =
        "question = \"?\"\n[dut]\nkind = \"kernel-forward\"\n[traffic]\nframe_bytes = 64\n[search]\nkind = ";
    let search = |kind: &str| throughput(read(&format!("{plan}\"{kind}\""), &[]).unwrap()).search;
    let SearchSpec::Rfc2544(rfc) = search("rfc2544") else { panic!() };
    assert_eq!((rfc.trial.as_secs(), rfc.loss_ratio), (60, 0.0));
    let procedures =
        |sections: &str| throughput(read(&format!("{plan}\"rfc2544\"\n{sections}"), &[]).unwrap()).procedures;
    assert_eq!(procedures(""), Procedures::default(), "what is not asked for is not measured");
    let sections: String = PROCEDURES.iter().map(|name| format!("[{name}]\n")).collect();
    assert_eq!(procedures(&sections), throughput(read(&PLANS.options(), &[]).unwrap()).procedures);
    let SearchSpec::Classic(classic) = search("classic") else { panic!() };
    assert_eq!((classic.trial.as_secs(), classic.trials, classic.discard), (120, 10, 3));
    assert_eq!((classic.mean_loss, classic.half_loss), (0.0015, 0.001));
}

#[test]
fn where_the_capacity_is_measured_nothing_need_be_searched_for() {
    let plan = "question = \"?\"\n[dut]\nkind = \"kernel-forward\"\n[traffic]\nframe_bytes = 64\n";
    let alone = throughput(read(&format!("{plan}[capacity]\nrounds = 3"), &[]).unwrap());
    assert_eq!((alone.search.clone(), alone.search_loss), (SearchSpec::None, SearchLoss::All));
    assert_eq!(Throughput::points(&alone).len(), 1);
    assert!(alone.search.estimate().is_zero() && alone.capacity.is_some());
    let mistakes = read(plan, &[]).unwrap_err().to_string();
    assert!(mistakes.contains("search"), "{mistakes}");
    let both = read(&format!("{plan}[search]\nkind = \"rfc2544\"\nloss = \"both\""), &[]).unwrap();
    assert_eq!(throughput(both).search_loss, SearchLoss::Both);
}

#[test]
fn shipped_plans_are_valid() {
    for (name, text) in PLANS.shipped() {
        let plan = PLANS.load(name, &[]).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((&plan.name[..], &plan.text[..]), (name, text));
    }
    for (name, points) in [("rfc2544", 8), ("rfc8219", 16), ("flows", 21), ("soak", 1)] {
        let (full, short) = (PLANS.load(name, &[]).unwrap(), PLANS.load_short(name, &[]).unwrap());
        assert_eq!(points_of(&full).len(), points, "{name}");
        assert_eq!(full.short, Some(short.estimate()), "{name}");
        assert!(short.estimate() <= Duration::from_secs(150), "{name} takes {:?}", short.estimate());
        assert!(full.estimate() > 5 * short.estimate(), "{name} takes {:?}", full.estimate());
    }
    let modified = ["traffic.ip=[4,6]", "traffic.frame_bytes=[84,128,256,512,1024,1280,1518]"];
    let modified = PLANS.load("rfc2544", &modified.map(str::to_string)).expect("an example of the plan");
    assert_eq!(points_of(&modified).len(), 14);
    let quick = PLANS.load("quick", &[]).unwrap();
    assert_eq!(points_of(&quick).len(), 8);
    assert!(
        quick.estimate() <= Duration::from_secs(60),
        "{:?} leaves no time for the wire",
        quick.estimate()
    );
    let other = ["traffic.flows=[1,1000,1M]", "dut.kind=[kernel-nat,xdp-forward]"].map(str::to_string);
    let other =
        PLANS.load("quick", &other).unwrap_or_else(|error| panic!("an example of the README: {error}"));
    assert_eq!(points_of(&other).len(), 12);
    let rules = PLANS.load("rules", &[]).unwrap();
    assert_eq!(points_of(&rules).len(), 72, "two devices x (none + seven forms x five numbers of rules)");
    let bridge = PLANS.load("bridge", &[]).unwrap();
    assert_eq!(points_of(&bridge).len(), 7, "the sizes of RFC 2889");
    let router = PLANS.load("router", &[]).unwrap();
    assert_eq!(points_of(&router).len(), 18, "three modes x three sizes x one CPU and all");
}

#[test]
fn a_box_is_described_completely_or_not_at_all() {
    let plan =
        |section: &str| PLAN.replace("[\"kernel-forward\", \"kernel-stateful\"]", "\"external\"") + section;
    for (section, expected) in [
        (
            "",
            "p:3: dut.kind: external is another machine, connected to interfaces of this one: add [external] with `ports`",
        ),
        ("[external]", "p:12: external.ports: is missing: add `ports = [\"eth1\", \"eth2\"]` to [external]"),
        (
            "[external]\nports = [\"a\", \"b\", \"c\"]",
            "p:13: external.ports: 3 interfaces: give one for each side, or one if frames return on it",
        ),
        (
            "[external]\nports = \"a\"",
            "p:6: traffic.direction: frames return on the port of [external]: use direction = \"forward\"",
        ),
        (
            "[external]\nports = [\"a\", \"b\"]\nbox = \"2001:db8::1\"",
            "p:14: external.box: 2001:db8::1 is no address for the other IP version of [traffic]: measure one, ip = 6",
        ),
        (
            "[external]\nports = [\"a\", \"b\"]\nmac = \"2:0\"\nreset = \"x\"\ndrops = \"y\"",
            "p:14: external.mac: `2:0` is no Ethernet address: use 02:00:00:00:00:01\n\
             p:15: external.reset: is run over SSH: add `ssh = \"root@192.0.2.1\"` to [external]\n\
             p:16: external.drops: names counters: add the command `counters` to [external]",
        ),
        (
            "[external]\nports = [\"a\", \"b\"]\nremote = \"r@h\"",
            "p:12: external.remote_port: is missing: add `remote_port = \"eth1\"` to [external]\n\
             p:13: external.ports: 2 interfaces of this machine, and port b is on `remote`: give only the interface towards side a",
        ),
        (
            "[external]\nports = \"a\"\nremote_weir = \"x\"",
            "p:6: traffic.direction: frames return on the port of [external]: use direction = \"forward\"\n\
             p:14: external.remote_weir: is on another host: add `remote = \"root@192.0.2.9\"` to [external]",
        ),
        (
            "[external]\nports = \"a\"\nremote = \"r@h\"\nremote_port = \"b\"\n[latency]",
            "p:16: latency: the ports are on two hosts without a common clock: measure round trips with traffic.direction \
             = \"reflect\", or omit this section",
        ),
        (
            "[external]\nports = [\"a\", \"b\"]\nsetup_input = \"no.sh\"",
            "p:14: external.setup_input: cannot read no.sh: No such file or directory (os error 2); create it, for example with \
             `weir setup --os linux-nft > no.sh`\n\
             p:14: external.setup_input: is the input of `setup`: add `setup = \"sh -e\"` to [external]",
        ),
    ] {
        let mistakes = read(&plan(section), &[]).expect_err(section);
        assert_eq!(mistakes.to_string(), expected, "{section}");
    }
    let external = throughput(
        read(&plan("[external]\nports = [\"a\", \"b\"]\nmac = \"02:00:00:00:00:01\""), &[]).unwrap(),
    );
    assert_eq!(external.external.unwrap().mac, Some([[2, 0, 0, 0, 0, 1]; 2]));
    // A remote port is the second one, so that both directions can be had.
    let remote = plan("[external]\nports = \"a\"\nremote = \"r@h\"\nremote_port = \"b\"");
    let external = throughput(read(&remote, &[]).unwrap()).external.unwrap();
    assert!(!external.is_hairpin() && external.remote.as_ref().is_some_and(|remote| remote.weir == "weir"));
    let of_before = remote.replace("remote", "far");
    assert_eq!(throughput(read(&of_before, &[]).unwrap()).external.unwrap().remote, external.remote);
    let round_trips = ["traffic.direction=reflect"];
    assert!(read(&(remote + "\n[latency]\n[pdv]"), &round_trips).is_ok());
    // Where no box is measured, its description does no harm.
    assert!(read(&(PLAN.to_string() + "[external]\nports = \"a\""), &[]).is_ok());
}

#[test]
fn the_reference_explains_every_option() {
    read(&PLANS.options(), &[]).unwrap_or_else(|error| panic!("{error}"));
    let defaults = read(&PLANS.options(), &[]).unwrap().limits;
    assert_eq!(defaults, Limits::default());
    let plan = |rest: &str| format!("question = \"?\"\n{rest}");
    let search = |kind: &str| plan(&format!("[search]\nkind = \"{kind}\"\nzzzzzz = 1"));
    let sections = ["dut", "external", "traffic", "repeat", "curve", "limits"].iter().chain(&PROCEDURES);
    let mut texts: Vec<_> = sections.map(|s| plan(&format!("[{s}]\nzzzzzz = 1"))).collect();
    texts.extend(["mlrsearch", "rfc2544", "classic", "fixed"].map(search));
    texts.extend([
        plan("zzzzzz = 1"),
        plan("[search]\nkind = \"mlrsearch\"\n[[search.goal]]\nzzzzzz = 1"),
        plan("experiment = \"peers-generator\"\n[peers]\nzzzzzz = 1"),
        plan("experiment = \"capture\"\n[capture]\nzzzzzz = 1"),
        plan("experiment = \"peers-capture\"\n[capture_peers]\nzzzzzz = 1"),
        plan("experiment = \"nat\"\n[nat]\nzzzzzz = 1"),
        plan("experiment = \"nat\"\n[rfc9693]\nzzzzzz = 1"),
    ]);
    for text in texts {
        let mistakes = read(&text, &[]).unwrap_err().to_string();
        let known = mistakes.lines().find_map(|line| line.split_once("`zzzzzz` is no option of ")).unwrap().1;
        for option in known.split_once(": use ").expect("all options").1.split(", ") {
            let ways = [
                format!("\n{option} = "),
                format!("# {option} = "),
                format!("[{option}]"),
                format!("[search.{option}]"),
            ];
            assert!(
                ways.iter().any(|way| PLANS.options().contains(way)),
                "`{option}` is not explained ({known})"
            );
        }
    }
}

#[test]
fn plans_of_before_call_capture_methods_rungs() {
    let text =
        |key| format!("question = \"?\"\nexperiment = \"capture\"\n[capture]\n{key} = [\"ring\", \"xdp\"]");
    let points = |key| read(&text(key), &[]).unwrap().experiment.points();
    assert_eq!(points("rungs"), points("methods"));
    let all = read("question = \"?\"\nexperiment = \"capture\"", &[]).unwrap().experiment.points();
    assert!(points("rungs") < all);
}

#[test]
fn plans_are_found_by_name_or_path() {
    let folder = weir_testkit::Folder::new();
    let path = folder.join("mine.toml");
    std::fs::write(&path, PLAN.replace("rules = 25", "rules = -1")).unwrap();
    let error = PLANS.load(path.to_str().unwrap(), &[]).unwrap_err().to_string();
    assert_eq!(
        error,
        format!(
            "the plan has mistakes:\n{}:4: dut.rules: `-1` is out of range: use a whole number from 0 to 10000",
            path.display()
        )
    );
    assert_eq!(PLANS.load(path.to_str().unwrap(), &["dut.rules=7".to_string()]).unwrap().name, "mine");
    let error = PLANS.load("quik", &[]).unwrap_err().to_string();
    assert_eq!(error, "`quik` is neither a shipped plan nor a file: did you mean `quick`?");
}

#[test]
fn each_device_is_where_people_look_for_it() {
    let places = [
        ("plans/options.toml", include_str!("../../../plans/options.toml")),
        ("docs/plans.md", include_str!("../../../docs/plans.md")),
    ];
    for (file, text) in places {
        let words: Vec<&str> = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-').collect();
        let missing: Vec<&str> =
            DutKind::ALL.iter().map(|(_, name)| *name).filter(|name| !words.contains(name)).collect();
        assert_eq!(missing, [""; 0], "{file}");
    }
}

/// Interrupts, RPS and XPS as axes.
mod spread {
    use weir_lab::frames::PointSpec;
    use weir_testkit::{golden, set_mistakes};

    use crate::PLANS;
    use crate::throughput::{Throughput, points as points_of};

    fn points(sets: &[&str]) -> Result<Vec<PointSpec>, String> {
        let sets: Vec<String> = sets.iter().map(|set| set.to_string()).collect();
        let plan = PLANS.load("router", &sets).map_err(|error| error.to_string())?;
        assert!(Throughput::of(&plan).is_some());
        Ok(points_of(&plan))
    }

    const ONE: [&str; 3] = ["dut.kind=kernel-forward", "traffic.frame_bytes=64", "traffic.ip=4"];

    fn rps(point: &PointSpec) -> Option<String> {
        point.settings().into_iter().find(|(name, _)| name == "rps").map(|(_, value)| value)
    }

    #[test]
    fn each_combination_is_a_point_and_says_all_three() {
        let plain = points(&ONE).unwrap();
        assert!(plain.iter().all(|point| rps(point).is_none()));
        let sets =
            [&ONE[..], &["dut.rps=[\"default\",\"off\",0,\"0-1\"]", "dut.xps=[\"off\",\"all\"]"]].concat();
        let all = points(&sets).unwrap();
        assert_eq!(all.len(), plain.len() * 8);
        let first: Vec<_> = all.iter().filter_map(rps).take(2).collect();
        assert!(all.iter().all(|point| rps(point).is_some()), "{first:?}");
        let wires = points(&["dut.kind=[wire,kernel-forward]", "dut.cpus=1", "dut.rps=[off,all]"]).unwrap();
        let of = |kind: &str| wires.iter().filter(|point| point.dut.to_string() == kind).count();
        assert_eq!(of("wire") * 2, of("kernel-forward"), "a wire is there once");
    }

    #[test]
    fn queues_gather_frames_as_long_as_the_plan_says() {
        let reported = |set: &str| -> Vec<Option<u32>> {
            let points = points(&[&ONE[..], &["dut.cpus=1", set]].concat()).unwrap();
            points.iter().map(|point| point.spreading.as_ref()?.coalesce_us).collect()
        };
        assert_eq!(reported("dut.coalesce_us=[0,50]"), [Some(0), Some(50)]);
        assert_eq!(reported("dut.rps=off"), [None]);
    }

    #[test]
    fn mistakes_have_remedies() {
        let sets = [
            "dut.rps=1-0",
            "dut.interrupts=off",
            "dut.interrupts=0",
            "dut.xps=0",
            "dut.coalesce_us=10001",
            "dut.kind=xdp-forward --set dut.rps=0",
            "dut.kind=xdp-forward --set dut.xps=0-1",
        ];
        let with = |sets: &[String]| {
            let sets: Vec<&str> = ONE.into_iter().chain(sets.iter().map(String::as_str)).collect();
            points(&sets)
        };
        golden!("src/spread-mistakes.txt", &set_mistakes(&sets, with));
    }
}
