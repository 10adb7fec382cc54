//! The grid as maps of fairness and utilisation, what stands out in it, and what it says of theory and published results.

mod answer;
mod bands;
mod claims;
mod drawings;
mod findings;
mod variance;

pub(super) use answer::answer;
pub(super) use findings::findings;
use weir_record::record::{Detail, Figure};
use weir_record::run_data::{MEASURES, PointData, RunData};
use weir_report::report::block::{Block, Part};
use weir_report::view::Table;
use weir_report::view::format::{count, or_dash, percent, significant, time_ns};

/// Of the section, and of the figures in records.
pub(super) const ID: &str = "bottleneck";
pub(super) const UTILISATION: &str = "utilisation";
pub(super) const JAIN: &str = "Jain's index";
pub(super) const SOJOURN: &str = "p99 of the sojourn";
pub(super) const CONVERGENCE: &str = "convergence";
pub(super) const FIRST_SHARE: &str = "share of the first group";
pub(super) const K_HALVINGS: &str = "K from halvings";
pub(super) const K_LOSSES: &str = "K from losses";

/// The setting of points that are not simulated.
pub(super) const BED: &str = "bed";
/// The setting of points with buffers that are divided by the square root of the number of flows.
pub(super) const PER_SQRT: &str = "per_sqrt_flows";

const FAIRNESS: &str = "Jain's index of the flows' throughputs, median of the seeds: 1 is fair, and 0.5 is one of two flows that \
    has all. Rows: queues; columns: buffer in bandwidth-delay products of the longest path.";

const UTILISED: &str = "Utilisation of the link, median of the seeds; rows and columns as above.";

const METHOD: &str = "Points of the real bed: the kernel's TCP with its offloads, through a bottleneck in namespaces that has the same \
    queue and the same buffer; fairness is that of the payload at the receivers; the loss counts from the start on. There bbr2, bbr3 \
    and, where the kernel has none, dctcp are eBPF programs of weir: both BBR know what was in flight and lost by ACK, not by segment, and have \
    neither ECN nor the rules for tail loss probes. \
    All others: simulated packet by packet in virtual time, the same for the same seed: queues with limits exact to the byte, \
    senders with SACK, RACK, a tail loss probe and pacing. Segments have one size; hosts have no qdisc, no TSO and no CPU time; \
    ACKs take no capacity. Flows of a group start within one of its round trips. BBR version 2 is its rules on version 3's engine. \
    What explains a figure: the share of its variance over the grid that goes with the mean of each setting, by itself.";

const PER_ROOT: &str = "Buffers are divided by the square root of the number of flows.";

const BANDS: &str = "Each band is checked at the points that it speaks of: a FIFO, one round trip, a constant rate. A check that fails \
    says that this bed, or this short a run, differs from the published one; it does not say which of the two is right.";

/// A point with its figures.
struct Cell<'a> {
    data: &'a PointData,
    figures: &'a [Figure],
}

impl Cell<'_> {
    fn setting(&self, name: &str) -> &str {
        self.data.setting(name).unwrap_or("–")
    }

    fn value(&self, name: &str) -> Option<f64> {
        self.figures.iter().find(|figure| figure.name == name)?.value
    }

    /// What the first trial that has it recorded.
    fn detail<D: Detail>(&self) -> Option<D> {
        self.data.trials.iter().find_map(|trial| trial.detail())
    }

    fn number(&self, name: &str) -> f64 {
        self.setting(name).parse().unwrap_or(f64::NAN)
    }

    fn flows(&self) -> f64 {
        self.number("flows")
    }

    /// Round trips of the paths, ms.
    fn rtts(&self) -> Vec<f64> {
        self.setting("rtt_ms").split('+').filter_map(|rtt| rtt.parse().ok()).collect()
    }

    /// The buffer in bandwidth-delay products of the longest path.
    fn buffer_bdp(&self) -> f64 {
        let divisor = if self.is_per_sqrt() { self.flows().sqrt() } else { 1.0 };
        self.number("buffer_bdp") / divisor
    }

    /// Is the buffer divided by the square root of the number of flows?
    fn is_per_sqrt(&self) -> bool {
        self.data.setting(PER_SQRT).is_some()
    }

    fn is_real(&self) -> bool {
        self.data.setting(BED).is_some()
    }

    /// The same but for the bed?
    fn is_same_traffic(&self, other: &Cell<'_>) -> bool {
        const SAME: [&str; 8] =
            ["queue", "buffer_bdp", "flows", "mix", "rtt_ms", "rate", "duration_s", PER_SQRT];
        SAME.iter().all(|name| self.data.setting(name) == other.data.setting(name))
    }

    /// What a map has in common.
    fn traffic(&self) -> String {
        let (mix, rtt) = (self.setting("mix"), self.setting("rtt_ms"));
        let flows = self.setting("flows").parse().map_or_else(|_| "–".into(), |flows| count(flows, "flow"));
        let bed = if self.is_real() { ", real bed" } else { "" };
        format!("{mix}, {flows}, {rtt} ms{bed}")
    }

    /// The traffic and the buffer.
    fn name(&self) -> String {
        let root = if self.is_per_sqrt() { " / sqrt(n)" } else { "" };
        format!("{}, {} BDP{root}", self.traffic(), self.setting("buffer_bdp"))
    }
}

fn cells(data: &RunData) -> Vec<Cell<'_>> {
    let points = data.points.iter().filter(|point| point.setting(MEASURES) == Some(ID));
    points
        .filter_map(|data| {
            let procedure = data.point.result.as_ref()?.procedures.first()?;
            Some(Cell { data, figures: &procedure.figures })
        })
        .collect()
}

/// The cells of each map, in the order of the plan.
fn maps<'c, 'a>(cells: &'c [Cell<'a>]) -> Vec<(String, Vec<&'c Cell<'a>>)> {
    let mut maps: Vec<(String, Vec<&Cell<'_>>)> = Vec::new();
    for cell in cells {
        let traffic = cell.traffic();
        match maps.iter_mut().find(|(name, _)| *name == traffic) {
            Some((_, map)) => map.push(cell),
            None => maps.push((traffic, vec![cell])),
        }
    }
    maps
}

/// Its section of a report.
pub(super) fn parts(data: &RunData) -> Vec<Part> {
    let cells = cells(data);
    if cells.is_empty() {
        return Vec::new();
    }
    let mut blocks = vec![
        Block::Drawing { drawings: drawings::heat(&cells, JAIN), caption: FAIRNESS },
        Block::Drawing { drawings: drawings::heat(&cells, UTILISATION), caption: UTILISED },
    ];
    if cells.iter().any(Cell::is_per_sqrt) {
        blocks.push(Block::Note(PER_ROOT.into()));
    }
    blocks.extend(drawings::boxes(&cells));
    blocks.extend([Block::Heading("What explains the figures"), Block::Table(variance::explained(&cells))]);
    blocks.extend(drawings::courses(&cells));
    let (checks, answers) = (bands::checks(&cells), claims::answers(&cells));
    blocks.extend([
        Block::Heading("Published results, sentence by sentence"),
        Block::Sentence("A study of 2019 with a software router, and what this run says of it:".into()),
        Block::Table(claims::table(&answers)),
        Block::Heading("Bands of theory and of other test beds"),
        Block::Sentence("Bands of theory and of other test beds:".into()),
        Block::Table(bands::summary(&checks)),
        Block::Note(BANDS.into()),
        Block::Folded("Each check".into(), vec![Block::Table(bands::table(&checks))]),
        Block::Note(METHOD.into()),
        Block::Folded("All figures of the grid".into(), vec![Block::Table(table(&cells))]),
    ]);
    vec![Part { id: ID, heading: "Buffers, queues and fairness".into(), blocks }]
}

fn table(cells: &[Cell<'_>]) -> Table {
    const SETTINGS: [(&str, &str); 5] = [
        ("Round trips, ms", "rtt_ms"),
        ("Mix", "mix"),
        ("Flows", "flows"),
        ("Queue", "queue"),
        ("Buffer, BDP", "buffer_bdp"),
    ];
    const FIGURES: [&str; 7] = [
        "Utilisation",
        "Jain",
        "First group",
        "Sojourn, median",
        "Sojourn, p99",
        "Loss",
        "Converged after, s",
    ];
    // Where there is one bed, its name says nothing.
    let bed = cells.iter().any(Cell::is_real).then_some("Bed");
    let columns: Vec<&str> = bed.into_iter().chain(SETTINGS.map(|(title, _)| title)).chain(FIGURES).collect();
    let mut table = Table::new(&columns);
    for cell in cells {
        let share = |name: &str| or_dash(cell.value(name), percent);
        let time = |name: &str| or_dash(cell.value(name), |s| time_ns(s * 1e9));
        let bed = bed.map(|_| if cell.is_real() { "real" } else { "simulated" }.to_string());
        let settings = SETTINGS.map(|(_, name)| cell.setting(name).to_string());
        let figures = [
            share(UTILISATION),
            or_dash(cell.value(JAIN), |jain| format!("{jain:.3}")),
            share(FIRST_SHARE),
            time("median sojourn"),
            time(SOJOURN),
            share("loss"),
            or_dash(cell.value(CONVERGENCE), significant),
        ];
        table.push(bed.into_iter().chain(settings).chain(figures).collect());
    }
    table
}

#[cfg(test)]
pub(super) mod tests {
    use weir_testkit::golden;

    use super::*;
    use weir_record::figure::{figure, unit};
    use weir_record::fixture;
    use weir_record::record::{PointResult, ProcedureResult, Statistic};
    use weir_report::report::block::{page, terminal};

    /// A point with these settings and figures; what is not given is the usual.
    pub(super) fn point(index: usize, settings: &[(&str, &str)], figures: &[(&str, f64)]) -> PointData {
        let figures: Vec<(&str, Vec<f64>)> =
            figures.iter().map(|(name, value)| (*name, vec![*value])).collect();
        repeated(index, settings, &figures)
    }

    /// The same of several repetitions.
    pub(super) fn repeated(
        index: usize,
        settings: &[(&str, &str)],
        figures: &[(&str, Vec<f64>)],
    ) -> PointData {
        let mut data = fixture::point(index, "fifo", 64, 1.0);
        let usual = [
            (MEASURES, ID),
            ("queue", "fifo"),
            ("buffer_bdp", "1"),
            ("flows", "2"),
            ("mix", "cubic+bbr2"),
            ("rtt_ms", "20"),
            ("rate", "100000000"),
        ];
        let is_given = |name: &str| settings.iter().any(|(given, _)| *given == name);
        let all = usual.iter().filter(|(name, _)| !is_given(name)).chain(settings);
        data.point.settings = all.map(|(name, value)| (name.to_string(), value.to_string())).collect();
        let of =
            |(name, values): &(&str, Vec<f64>)| figure(*name, unit::RATIO, Statistic::Median, values.clone());
        let figures = figures.iter().map(of).collect();
        let procedure = ProcedureResult { procedure: ID.into(), figures, ..ProcedureResult::default() };
        data.point.result = Some(PointResult { procedures: vec![procedure], ..PointResult::default() });
        data
    }

    pub(super) fn run_of(points: Vec<PointData>) -> RunData {
        RunData { run: fixture::run(1), points }
    }

    /// A point with this fairness and utilisation.
    fn cell(index: usize, queue: &str, buffer: &str, (jain, full): (f64, f64)) -> PointData {
        point(index, &[("queue", queue), ("buffer_bdp", buffer)], &[(UTILISATION, full), (JAIN, jain)])
    }

    fn run() -> RunData {
        let points = vec![
            cell(0, "fifo", "0.1", (0.5, 0.7)),
            cell(1, "fifo", "1", (0.6, 0.99)),
            cell(2, "ppv", "0.1", (0.98, 0.96)),
            cell(3, "ppv", "1", (0.99, 0.99)),
        ];
        run_of(points)
    }

    #[test]
    fn findings_name_the_range_the_buffer_and_what_explains() {
        let text = [findings(&run()).join("\n"), terminal(&parts(&run()))].join("\n\n");
        golden!("src/buffers/report/golden/simulated.txt", &text.replace('\u{202f}', " "));
        assert!(findings(&fixture::quick()).is_empty() && parts(&fixture::quick()).is_empty());
    }

    #[test]
    fn the_real_bed_is_compared_with_its_twins() {
        let mut data = run();
        let mut real = cell(4, "fifo", "1", (0.75, 0.97));
        real.point.settings.push((BED.to_string(), "real".to_string()));
        data.points.push(real);
        let text = [findings(&data).join("\n"), terminal(&parts(&data))].join("\n\n");
        golden!("src/buffers/report/golden/real.txt", &text.replace('\u{202f}', " "));
        let answer = weir_report::export::answer(&data, crate::sections(), 80);
        assert!(answer.contains("In part: the simulator tells"), "on a terminal, too: {answer}");
    }

    #[test]
    fn each_cell_is_on_a_map_and_in_the_table() {
        let parts = parts(&run());
        let html = page(&parts);
        for text in ["fifo, buffer 0.1: 0.50", "ppv, buffer 1: 0.99", "fifo, buffer 0.1: 0.70"] {
            assert!(html.contains(text), "{text} in {html}");
        }
    }
}
