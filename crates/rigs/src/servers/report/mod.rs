//! Servers in a report: rates, latencies, costs, ratios to an event loop beside published ones, and which side was the limit.

use weir_apps::client::Mode;
use weir_apps::server::{Architecture, Reply};

use super::measured::{ID, Limit, Served};
use weir_measure::stats;
use weir_record::run_data::{MEASURES, PointData, RunData};
use weir_report::report::block::{Block, Part};

mod ratios;
mod sentences;
mod tables;

pub(super) use sentences::{answer, findings};

const METHOD: &str = "Each trial has a namespace, a server and a client of its own; server and client have CPUs of their own, and \
    talk over the loopback. Cost: CPU time and context switches of the server's process tree from when it was ready until its client \
    had ended, its children included, with a process or thread for each connection until it had ended itself, by the number of answers. On a loopback the packets of a side are processed in its \
    own time: connecting is paid for by the client. Closed loop: the client begins a connection when another one ends, so that a \
    server that stalls is asked less; its latencies hold for this load alone. Open loop: latencies count from when a connection was \
    due, and none is left out. Open at the server: accepted and not ended, looked at every 5 ms. Limit: the side that used 90 % \
    of its CPUs; \"none of them\" means that each waited for the other. The server closes first. Memory: \
    pages (shared ones in equal parts), tables that map them and kernel stacks, without sockets. fork-exec starts weir itself, a large program. \
    wrk and oha count their own requests and have no warm-up.";

/// A point with its trials that can be believed.
pub(super) struct Placed<'a> {
    pub(super) data: &'a PointData,
    /// With the name of its round.
    pub(super) found: Vec<(String, Served)>,
}

impl Placed<'_> {
    pub(super) fn setting(&self, name: &str) -> &str {
        self.data.setting(name).unwrap_or("–")
    }

    pub(super) fn mode(&self) -> Option<Mode> {
        self.found.first().map(|(_, served)| served.mode)
    }

    pub(super) fn median(&self, value: impl Fn(&Served) -> Option<f64>) -> Option<f64> {
        stats::median(&self.found.iter().filter_map(|(_, served)| value(served)).collect::<Vec<_>>())
    }

    pub(super) fn max(&self, value: impl Fn(&Served) -> u64) -> Option<u64> {
        self.found.iter().map(|(_, served)| value(served)).max()
    }

    /// That of most trials.
    pub(super) fn limit(&self) -> Option<Limit> {
        let limits: Vec<Limit> = self.found.iter().map(|(_, served)| served.limit()).collect();
        let times = |limit: &Limit| limits.iter().filter(|other| *other == limit).count();
        limits.iter().copied().max_by_key(times)
    }

    pub(super) fn is_event_loop(&self) -> bool {
        let server = self.setting("server");
        let of =
            |(architecture, name): &(Architecture, &str)| architecture.is_event_loop() && *name == server;
        Architecture::ALL.iter().any(of)
    }

    /// What must be the same for two to be compared: reply, client and load.
    pub(super) fn load(&self) -> (String, String, String) {
        let load = ["concurrency", "rate", "hold"].into_iter().find_map(|name| {
            let value = self.data.setting(name)?;
            Some(match name {
                "concurrency" => format!("{value} at a time"),
                "rate" => format!("{value}/s"),
                _ => format!("{value} held"),
            })
        });
        (self.setting("reply").into(), self.setting("client").into(), load.unwrap_or_default())
    }
}

pub(super) fn all(data: &RunData) -> Vec<Placed<'_>> {
    let points = data.points.iter().filter(|point| point.setting(MEASURES) == Some(ID));
    points.map(|data| Placed { data, found: data.by_key() }).collect()
}

/// Its section of a report.
pub(super) fn parts(data: &RunData) -> Vec<Part> {
    let all = all(data);
    if all.is_empty() {
        return Vec::new();
    }
    let mut blocks = vec![Block::Drawing { drawings: tables::charts(&all), caption: tables::CAPTION }];
    let tables = [
        ("Closed loop", tables::closed(&all)),
        ("Open loop", tables::open(&all)),
        ("Connections that stay open", tables::held(&all)),
    ];
    for (heading, table) in tables.into_iter().filter(|(_, table)| !table.is_empty()) {
        blocks.extend([Block::Heading(heading), Block::Sentence(format!("{heading}:")), Block::Table(table)]);
    }
    let ratios = ratios::table(&all);
    if !ratios.is_empty() {
        blocks.push(Block::Heading("Beside an event loop"));
        blocks.push(Block::Sentence(ratios::EXPLANATION.into()));
        blocks.push(Block::Table(ratios.without_empty(&["95 % interval"])));
        blocks.push(Block::Note(ratios::CONTRADICTION.into()));
    }
    blocks.push(Block::Folded(
        "Queues, workers and what the kernel counted".into(),
        vec![Block::Table(tables::kernel(&all))],
    ));
    blocks.push(Block::Note(METHOD.into()));
    vec![Part { id: ID, heading: "Servers by architecture".into(), blocks }]
}

/// Replies in the order of plans.
fn replies() -> impl Iterator<Item = &'static str> {
    Reply::ALL.into_iter().map(|(_, name)| name)
}

#[cfg(test)]
mod tests;
