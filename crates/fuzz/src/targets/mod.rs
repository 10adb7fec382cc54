//! The targets, in the order of their names.

mod access;
mod announce;
mod bng;
mod cpe;
mod dial;
mod frames;
mod kept;
mod outside;
mod peers;
mod punt;
mod texts;

use crate::{Target, mutate};

/// All.
pub const TARGETS: &[Target] = &[
    Target { name: "access", run: access::access, seeds: access::access_seeds, mutate: mutate::bytes },
    Target {
        name: "announced",
        run: announce::announced,
        seeds: announce::announced_seeds,
        mutate: mutate::bytes,
    },
    Target { name: "apply", run: frames::apply, seeds: frames::apply_seeds, mutate: frames::mutate_apply },
    Target { name: "apps", run: peers::apps, seeds: peers::apps_seeds, mutate: mutate::text },
    Target { name: "blocks", run: kept::blocks, seeds: kept::blocks_seeds, mutate: mutate::text },
    Target { name: "bng", run: bng::bng, seeds: bng::bng_seeds, mutate: mutate::bytes },
    Target { name: "bng_log", run: bng::bng_log, seeds: bng::bng_log_seeds, mutate: mutate::bytes },
    Target { name: "bng_text", run: bng::bng_text, seeds: bng::bng_text_seeds, mutate: mutate::text },
    Target {
        name: "bottleneck",
        run: texts::bottleneck,
        seeds: texts::bottleneck_seeds,
        mutate: mutate::text,
    },
    Target { name: "control", run: outside::control, seeds: outside::control_seeds, mutate: mutate::text },
    Target { name: "cpe", run: cpe::cpe, seeds: cpe::cpe_seeds, mutate: mutate::bytes },
    Target { name: "detect", run: texts::detect, seeds: texts::detect_seeds, mutate: mutate::text },
    Target { name: "dhcp4", run: bng::dhcp4, seeds: bng::dhcp4_seeds, mutate: mutate::bytes },
    Target { name: "dns", run: peers::dns, seeds: peers::dns_seeds, mutate: mutate::bytes },
    Target { name: "flows", run: peers::flows, seeds: peers::flows_seeds, mutate: mutate::text },
    Target { name: "frame", run: frames::frame, seeds: frames::frame_seeds, mutate: mutate::bytes },
    Target { name: "hosts", run: texts::hosts, seeds: texts::hosts_seeds, mutate: mutate::text },
    Target { name: "journal", run: kept::journal, seeds: kept::journal_seeds, mutate: mutate::text },
    Target { name: "kept", run: announce::kept, seeds: announce::kept_seeds, mutate: mutate::text },
    Target { name: "mail", run: peers::mail, seeds: peers::mail_seeds, mutate: mutate::text },
    Target { name: "node", run: texts::node, seeds: texts::node_seeds, mutate: mutate::text_or_choices },
    Target { name: "outcomes", run: peers::outcomes, seeds: peers::outcomes_seeds, mutate: mutate::text },
    Target { name: "pcapng", run: outside::pcapng, seeds: outside::pcapng_seeds, mutate: mutate::bytes },
    Target { name: "plan", run: texts::plan, seeds: texts::plan_seeds, mutate: mutate::text },
    Target { name: "plane", run: frames::plane, seeds: frames::plane_seeds, mutate: frames::mutate_plane },
    Target { name: "ppp", run: dial::ppp, seeds: dial::ppp_seeds, mutate: mutate::bytes },
    Target { name: "pppoe", run: dial::pppoe, seeds: dial::pppoe_seeds, mutate: mutate::bytes },
    Target { name: "proc", run: peers::proc, seeds: peers::proc_seeds, mutate: mutate::text },
    Target { name: "punt", run: punt::punt, seeds: punt::punt_seeds, mutate: mutate::bytes },
    Target { name: "radius", run: dial::radius, seeds: dial::radius_seeds, mutate: mutate::bytes },
    Target {
        name: "radius_plans",
        run: dial::radius_plans,
        seeds: dial::radius_plans_seeds,
        mutate: mutate::text,
    },
    Target { name: "record", run: kept::record, seeds: kept::record_seeds, mutate: mutate::text },
    Target { name: "remote", run: outside::remote, seeds: outside::remote_seeds, mutate: mutate::text },
    Target { name: "rules", run: texts::rules, seeds: texts::rules_seeds, mutate: mutate::text },
    Target {
        name: "scenario",
        run: texts::scenario,
        seeds: texts::scenario_seeds,
        mutate: mutate::text_or_choices,
    },
    Target { name: "sink", run: peers::sink, seeds: peers::sink_seeds, mutate: mutate::text },
    Target { name: "unit", run: texts::unit, seeds: texts::unit_seeds, mutate: mutate::text },
];

/// Files of the repository as inputs; `folder` is relative to its root.
fn files(folder: &str, ending: &str) -> Vec<Vec<u8>> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder);
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    let with_ending = |path: &std::path::PathBuf| path.extension().is_some_and(|found| found == ending);
    paths.into_iter().filter(with_ending).filter_map(|path| std::fs::read(path).ok()).collect()
}

/// Texts as inputs.
fn of_texts<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> Vec<Vec<u8>> {
    texts.into_iter().map(|text| text.as_ref().as_bytes().to_vec()).collect()
}
