//! Files that weir writes and reads again: after a crash, on another machine, or after another program changed them.

use weir_record::run_data::RunData;
use weir_report::trend::{self, Filter};
use weir_report::{compare, export, report};
use weir_testbed::journal;

use super::of_texts;
use weir_testkit::Folder;

/// A private file of the crate `control`.
#[allow(dead_code, reason = "the crate uses more of it")]
#[path = "../../../control/src/blocks/text.rs"]
mod text;

/// The file of blocks of ports: what is read is the same when it is written and read again.
pub(super) fn blocks(input: &[u8]) {
    let Some(found) = text::read(input) else { return };
    let written = found.live.text();
    let again = text::read(written.as_bytes()).expect("it was written by weir");
    assert!(again.is_whole && again.unreadable == 0 && again.live == found.live, "{written}");
}

pub(super) fn blocks_seeds() -> Vec<Vec<u8>> {
    let mut live = text::Live::default();
    let mut lines = live.text();
    for n in 0..4 {
        let kept = weir_plane::PortBlock {
            inside: [0, 0, 0xffff, 0xc612_0001 + n],
            outside: 0xc000_0201,
            ports: (1024, 1535),
        };
        text::line(&mut lines, &weir_plane::BlockEvent::Allocated(kept));
        live.note(&weir_plane::BlockEvent::Allocated(kept));
        text::line(&mut lines, &weir_plane::BlockEvent::Released(kept));
    }
    of_texts([
        lines,
        live.text(),
        "+ 198.18.0.1 192.0.2.1 1024-1535\n- 198.18.0.1 192.0.2.1 1024-1535\n".into(),
    ])
}

/// A journal of a process that has gone. It is of another machine, so that nothing is undone whatever it says.
pub(super) fn journal(input: &[u8]) {
    let folder = Folder::new();
    // No process has this number and start.
    let file = folder.join("4194303-7-1.json");
    std::fs::write(&file, input).expect("room for a file");
    let cleaned = journal::clean(&folder).expect("nothing is undone");
    assert!(cleaned.undone.is_empty(), "{cleaned:?}");
}

pub(super) fn journal_seeds() -> Vec<Vec<u8>> {
    let head = r#"{"host": "another machine", "boot": "0", "pid_namespace": 4026531836, "entries": ["#;
    let changes = [
        r#"{"file_value": {"path": "/sys/class/net/x/gro_flush_timeout", "before": "0\n", "set": "50000"}}"#,
        r#"{"child": {"pid": 4194303, "start_time": 7, "command": "sleep"}}"#,
        r#"{"published_namespace": {"name": "weir-x", "inode": 7}}"#,
    ];
    let entries: Vec<String> = changes
        .iter()
        .enumerate()
        .map(|(n, change)| format!(r#"{{"id": {n}, "change": {change}}}"#))
        .collect();
    of_texts([format!("{head}{}]}}", entries.join(", "))])
}

/// A record: every export and report can be made of it.
pub(super) fn record(input: &[u8]) {
    let Ok(data) = serde_json::from_slice::<RunData>(input) else { return };
    export::json(&data);
    export::csv(&data);
    export::jsonl(&data);
    export::latex(&data, weir_rigs::sections());
    export::markdown(&data, weir_rigs::sections());
    export::prometheus(&data);
    export::show(&data, weir_rigs::sections());
    export::list(&[data.run.clone().into()]);
    compare::text(&compare::compare(&data, &data, &[]));
    report::html(std::slice::from_ref(&data), weir_rigs::sections());
    let points: Vec<_> = data.points.iter().map(|point| point.point.clone()).collect();
    let runs: Vec<_> = (0..9).map(|_| (data.run.clone(), points.clone())).collect();
    if let Some(trend) = trend::trend(&data.run.plan, &runs, &Filter::default()) {
        trend::text(&trend);
        trend::html(&trend);
    }
}

pub(super) fn record_seeds() -> Vec<Vec<u8>> {
    let seeds = super::files("crates/fuzz/seeds/record", "json");
    // A field that came since must not make a seed something that is refused.
    for seed in &seeds {
        serde_json::from_slice::<RunData>(seed).expect("a record");
    }
    seeds
}
