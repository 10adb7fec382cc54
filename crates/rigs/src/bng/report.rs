//! What a run of concentrators says: how many subscribers, how fast online, how fast forwarded.

use weir_record::record::{Bound, Figure};
use weir_record::run_data::{PointData, RunData};
use weir_report::report::answer::Answer;
use weir_report::report::bars::{Bar, BarChart, Group};
use weir_report::report::block::{Block, Part};
use weir_report::view::Table;
use weir_report::view::format::{full, list, or_dash, si, significant, time_ns};

use super::measured::{
    CHURN_BYTES, CHURN_DIFFERENCE, CHURN_LEFT, CHURN_RATE, CHURN_TOLD, CHURN_UNACCOUNTED, COLD_FAILED,
    COLD_LEFT, COLD_START, FIRST_PACKET, GOODPUT, ID, IDLE_CPU, MANY_DELAY, MANY_ERROR, MEMORY, NODE_LOSS,
    NODE_RESTART, RESTART_LOSS, RESTART_LOSS6, RESTARTED, SESSIONS, SET_UP_RATE, STORM_DROPPED, STORM_DROPS,
    STORM_LOST, STORM_LOST6, STORM_P99,
};

const CAPTION: &str = "Set-ups per second without a failure, median of the rounds. Longer is better.";

const METHOD: &str = "Emulated devices start evenly paced, each behind its own VLAN tags: DISCOVER, OFFER, REQUEST, ACK, ARP for the gateway, \
    or with PPPoE discovery, LCP, CHAP, IPCP, IPV6CP and a router advertisement, then a first packet to the far end. A rate counts if every device came up (with a prefix of IPv6, if it negotiates that), no message was sent again, and set-ups came as fast as \
    asked; the rate doubles until that is not so, then it is bisected. The time to the first packet is that of half of the rate. Forwarding: \
    numbered frames in both directions at once, in overload; what arrives at another session than its own counts as a fault. Memory: \
    growth of the resident memory of each process while the sessions come up, by their number. The responder answers every message from \
    its MAC address and forwards without rules: it is the ceiling of the emulator, which sends and receives on one CPU.";

const COLUMNS: &str = "set-ups/s: the highest rate without a failure; p50, p99, maximum: time to the first packet at half of that rate; \
    from, to: frames/s forwarded from and to subscribers at once with so many sessions.";

/// Of a point: a concentrator with its figures.
struct Row<'a> {
    data: &'a PointData,
}

impl Row<'_> {
    fn dut(&self) -> &str {
        &self.data.point.dut
    }

    /// `weir`, `weir pppoe`, `weir pppoe radius-20ms`: what differs from DHCP and local passwords.
    fn name(&self) -> String {
        let settings = &self.data.point.settings;
        let setting = |name: &str| settings.iter().find(|(key, _)| key == name).map(|(_, value)| &**value);
        let said = [
            setting("access").filter(|access| *access != "dhcp"),
            setting("aaa").filter(|aaa| *aaa != "local"),
        ];
        [Some(self.dut())].into_iter().chain(said).flatten().collect::<Vec<_>>().join(" ")
    }

    fn figures(&self) -> impl Iterator<Item = &Figure> {
        let result = self.data.point.result.as_ref();
        let own = result.into_iter().flat_map(|result| &result.procedures);
        own.filter(|procedure| procedure.procedure == ID).flat_map(|procedure| &procedure.figures)
    }

    fn figure(&self, name: &str) -> Option<&Figure> {
        self.figures().find(|figure| figure.name == name)
    }

    /// A value with what its bound means.
    fn shown(&self, name: &str, text: impl Fn(f64) -> String) -> String {
        let figure = self.figure(name);
        let bound = figure.filter(|figure| figure.bound == Bound::AtLeast).map_or("", |_| "≥");
        or_dash(figure.and_then(|figure| figure.value), |value| format!("{bound}{}", text(value)))
    }

    fn time(&self, name: &str) -> String {
        self.shown(name, |s| time_ns(s * 1e9))
    }

    /// Numbers of sessions with which frames were forwarded, as in the names of figures.
    fn sessions(&self) -> Vec<String> {
        let from = self.figures().filter_map(|figure| {
            let sessions = figure.name.strip_prefix("forwarded from subscriber, ")?;
            Some(sessions.strip_suffix(" sessions")?.to_string())
        });
        from.collect()
    }

    fn forwarded(&self, direction: &str, sessions: &str) -> String {
        self.shown(&format!("forwarded {direction} subscriber, {sessions} sessions"), si)
    }

    /// `weir has 1000 subscribers online, ..`.
    fn sentence(&self) -> Option<String> {
        let sessions = self.sessions();
        let most = sessions.last()?;
        let said = |shown: String| shown.replace('≥', "at least ");
        Some(format!(
            "{} has {} subscribers online: {} of them come up per second without a failure, their first packet takes {} (p99 {}) at \
             half of that rate, and {} frames/s from and {} to them are forwarded at once.",
            self.name(),
            self.shown(SESSIONS, full),
            said(self.shown(SET_UP_RATE, full)),
            self.time(FIRST_PACKET[0]),
            self.time(FIRST_PACKET[1]),
            said(self.forwarded("from", most)),
            said(self.forwarded("to", most)),
        ))
    }

    fn value(&self, name: &str) -> Option<f64> {
        self.figure(name)?.value
    }

    /// What happened to sessions.
    fn life(&self) -> Option<String> {
        let count = |name: &str, text: &str| Some(text.replace("{}", &full(self.value(name)?)));
        let number = |name: &str, text: &str| Some(text.replace("{}", &significant(self.value(name)?)));
        let parts = [
            count(RESTARTED, "a restart of node or control program ends {} sessions"),
            number(NODE_RESTART, "a node that was killed has all sessions again after {} s"),
            count(NODE_LOSS, "{} frames are lost meanwhile"),
            number(COLD_START, "all devices at once are up after {} s"),
            count(COLD_FAILED, "{} of them do not come up"),
            count(COLD_LEFT, "{} sessions are left behind"),
            number(IDLE_CPU, "idle sessions take {} % of a CPU"),
            number(CHURN_RATE, "{} sessions per second end and begin again"),
            count(CHURN_DIFFERENCE, "meanwhile the counters of both ends differ by {} frames"),
            count(CHURN_BYTES, "their bytes differ by {}"),
            count(CHURN_UNACCOUNTED, "RADIUS has {} of these sessions without Start or Stop"),
            count(CHURN_TOLD, "accounting and node differ by {} bytes"),
            count(CHURN_LEFT, "{} of these sessions are left behind"),
            count(STORM_LOST, "beside a flood of PADI {} frames of sessions are lost"),
            count(STORM_LOST6, "{} of them of IPv6"),
            count(STORM_DROPS, "the node drops {} of them"),
            number(STORM_DROPPED, "the node drops {} % of the flood itself"),
            number(STORM_P99, "the p99 of their time is {} times that beside frames of an unknown VLAN"),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        (!parts.is_empty()).then(|| format!("{}: {}.", self.name(), list(&parts)))
    }

    /// What is behind the rates.
    fn costs(&self) -> Option<String> {
        let mut parts = Vec::new();
        let memory = MEMORY.map(|name| self.value(name));
        if let [Some(node), Some(control)] = memory {
            parts.push(format!(
                "a session takes {} KiB in the node and {} KiB in the control program",
                significant(node),
                significant(control)
            ));
        }
        let lost = self.value(RESTART_LOSS);
        parts
            .extend(lost.map(|lost| format!("a restart of the control program loses {} frames", full(lost))));
        let lost6 = self.value(RESTART_LOSS6);
        parts.extend(lost6.map(|lost| format!("{} of them of IPv6", full(lost))));
        let goodput = self.value(GOODPUT);
        parts.extend(
            goodput.map(|rate| format!("TCP gets {} Mbit/s of a plan of 20 Mbit/s", significant(rate))),
        );
        let error = self.value(MANY_ERROR);
        parts.extend(error.map(|error| {
            format!(
                "with plans of 1 Mbit/s a byte counter differs from the plan by at most {} %",
                significant(error)
            )
        }));
        if let [Some(p50), Some(p99)] = MANY_DELAY.map(|name| self.value(name)) {
            let [p50, p99] = [p50, p99].map(|s| time_ns(s * 1e9));
            parts.push(format!("their frames wait {p50} in the node (p99 {p99})"));
        }
        (!parts.is_empty()).then(|| format!("{}: {}.", self.name(), list(&parts)))
    }
}

fn rows(data: &RunData) -> Vec<Row<'_>> {
    let is_own = |data: &&PointData| {
        let result = data.point.result.as_ref();
        result.is_some_and(|result| result.procedures.iter().any(|procedure| procedure.procedure == ID))
    };
    data.points.iter().filter(is_own).map(|data| Row { data }).collect()
}

/// Is it the emulator's own ceiling?
fn is_ceiling(row: &Row<'_>) -> bool {
    row.dut() == "responder"
}

fn sentences(data: &RunData) -> Vec<String> {
    let rows = rows(data);
    let (ceilings, duts): (Vec<&Row<'_>>, Vec<&Row<'_>>) = rows.iter().partition(|row| is_ceiling(row));
    let answers = duts.iter().filter_map(|row| row.sentence());
    let costs = duts.iter().filter_map(|row| row.costs());
    let ceiling = ceilings.iter().filter_map(|row| {
        let sessions = row.sessions();
        let most = sessions.last()?;
        Some(format!(
            "The tester's own ceiling{} is {} set-ups/s, and {} frames/s from and {} to {most} sessions at once.",
            row.name().strip_prefix(row.dut()).filter(|way| !way.is_empty()).map_or_else(String::new, |way| format!(" with{way}")),
            row.shown(SET_UP_RATE, full),
            row.forwarded("from", most),
            row.forwarded("to", most)
        ))
    });
    let life = rows.iter().filter_map(Row::life);
    answers.chain(ceiling).chain(costs).chain(life).collect()
}

/// The answer to the question.
pub(super) fn answer(data: &RunData) -> Option<Answer> {
    let rows = rows(data);
    if rows.is_empty() {
        return None;
    }
    Some(Answer {
        sentences: sentences(data),
        table: table(&rows),
        columns: COLUMNS.into(),
        drawing: Some(Block::Wide(chart(&rows), CAPTION)),
    })
}

/// What a run says, for the summary.
pub(super) fn findings(data: &RunData) -> Vec<String> {
    let left_out = data.points.iter().filter(|point| ["responder", "weir"].contains(&&*point.point.dut));
    let left_out = left_out.filter_map(PointData::why_left_out).map(String::from);
    sentences(data).into_iter().chain(left_out).collect()
}

/// Its section of a report.
pub(super) fn parts(data: &RunData) -> Vec<Part> {
    let rows = rows(data);
    if rows.is_empty() {
        return Vec::new();
    }
    let irregular: Vec<String> = rows
        .iter()
        .flat_map(|row| {
            let procedures = row.data.point.result.iter().flat_map(|result| &result.procedures);
            procedures
                .flat_map(|procedure| &procedure.irregular)
                .map(|text| format!("{}: {text}", row.name()))
        })
        .collect();
    let blocks = vec![
        Block::Drawing { drawings: vec![chart(&rows)], caption: CAPTION },
        Block::Sentence("Set-ups, and frames/s with each number of sessions:".into()),
        Block::Table(table(&rows)),
        Block::Bullets(irregular),
        Block::Note(METHOD.into()),
    ];
    vec![Part { id: ID, heading: "Subscribers".into(), blocks }]
}

/// A line for each DUT and number of sessions; what is of the DUT stands in its first one.
fn table(rows: &[Row<'_>]) -> Table {
    let mut table = Table::new(
        &["DUT", "set-ups/s", "p50", "p99", "maximum", "sessions", "from", "to"].map(String::from),
    );
    for row in rows {
        let times = FIRST_PACKET.map(|name| row.time(name));
        let own: Vec<String> = [row.name(), row.shown(SET_UP_RATE, full)].into_iter().chain(times).collect();
        let sessions = row.sessions();
        if sessions.is_empty() {
            table.push(own.iter().cloned().chain([String::new(), String::new(), String::new()]).collect());
        }
        for (place, sessions) in sessions.into_iter().enumerate() {
            let own = if place == 0 { own.clone() } else { vec![String::new(); own.len()] };
            let forwarded = ["from", "to"].map(|direction| row.forwarded(direction, &sessions));
            table.push(own.into_iter().chain([sessions]).chain(forwarded).collect());
        }
    }
    table
}

fn chart(rows: &[Row<'_>]) -> String {
    let bars = rows.iter().map(|row| {
        let value = row.figure(SET_UP_RATE).and_then(|figure| figure.value);
        Bar::plain(&row.name(), value, row.shown(SET_UP_RATE, full))
    });
    let group = Group { label: "set-ups per second".into(), bars: bars.collect(), limit: None };
    let texts: Vec<String> = group.bars.iter().map(|bar| bar.title.clone()).collect();
    let chart = BarChart { groups: vec![group], unit: "1/s".into(), number: si, limit_name: String::new() };
    chart.draw("Set-ups per second", &list(&texts))
}

#[cfg(test)]
mod tests {
    use weir_testkit::golden;

    use super::super::measured::tests::found;
    use super::super::plan::Concentrators;
    use super::super::run::result;
    use super::*;
    use crate::{PLANS, first_screen};
    use weir_record::fixture;
    use weir_record::record::PointResult;
    use weir_record::run_data::MEASURES;
    use weir_report::report::block::{page, terminal};

    fn run() -> RunData {
        let plan = PLANS.load("bng", &[]).unwrap();
        let plan = plan.experiment.of::<Concentrators>().unwrap();
        let point = |index: usize, dut: &str, rate: f64, fps: f64| {
            let mut data = fixture::point(index, dut, 64, 1.0);
            data.point.settings =
                vec![(MEASURES.into(), ID.into()), ("lines".into(), "100-199.1-4094".into())];
            let mut found = found(rate, fps);
            if dut == "responder" {
                found.set_ups[0].1 = false;
                found.goodput.clear();
                found.restarted.clear();
                found.forwarded.iter_mut().for_each(|forwarded| forwarded.memory_bytes = None);
            }
            data.point.result = Some(result(plan, &found));
            data.trials.clear();
            data
        };
        let mut absent = point(2, "weir", 1.0, 1.0);
        absent.point.notes = vec!["weir is left out: there is no weir-bngd.".into()];
        absent.point.result = Some(PointResult { search: "left out".into(), ..PointResult::default() });
        let points = vec![point(0, "responder", 20_000.0, 3e5), point(1, "weir", 5123.0, 1.5e5), absent];
        RunData { run: fixture::run(1), points }
    }

    #[test]
    fn the_first_sentence_answers_how_many_how_fast_online_how_fast_forwarded() {
        golden!("src/bng/answer.txt", &first_screen(&run()));
    }

    #[test]
    fn a_section_has_a_line_for_each_dut_and_number_of_sessions() {
        let data = run();
        let shown =
            [findings(&data).join("\n"), terminal(&parts(&data))].join("\n\n").replace('\u{202f}', " ");
        golden!("src/bng/report.txt", &shown);
        let page = page(&parts(&data));
        for text in ["Longer is better", "is a lower bound", "ceiling of the emulator"] {
            assert!(page.contains(text), "{text}");
        }
        assert!(parts(&fixture::quick()).is_empty() && answer(&fixture::quick()).is_none());
    }
}
