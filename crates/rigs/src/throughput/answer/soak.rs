//! Does a device lose frames now and then, at a load that it forwards for a while: how many, when, and what causes it?

use super::axes::{Axes, Group};
use weir_record::figure::procedure;
use weir_record::record::{DatedLoss, ProcedureResult, Purpose, Trial};
use weir_record::run_data::{PointData, RunData};
use weir_report::report::answer::{Answer, trust};
use weir_report::report::block::Block;
use weir_report::report::timeline;
use weir_report::view::format::{count, full, percent, si, time_ns};
use weir_report::view::{Style, Table};

/// Losses in the table: the largest ones.
const ROWS: usize = 12;
const COLUMNS: &str = "The largest losses, oldest first. outage: from the last frame before a loss to the first one after it; cause: a \
    stop is a time in which a CPU of tester or device did not run what it should, since the host or another program had it.";

/// `None` where nothing was soaked.
pub(super) fn answer(data: &RunData) -> Option<Answer> {
    let axes = Axes::without(data, &[]);
    let groups = axes.groups(data);
    let all: Vec<Soaked<'_, '_>> = groups.iter().filter_map(Soaked::of).collect();
    if all.is_empty() {
        return None;
    }
    let sentences =
        all.iter().map(Soaked::sentence).chain(all.iter().filter_map(Soaked::causes)).chain(trust(data));
    Some(Answer {
        sentences: sentences.collect(),
        table: table(&axes, &all),
        columns: COLUMNS.into(),
        drawing: drawing(&all),
    })
}

/// The losses by their times.
fn drawing(all: &[Soaked<'_, '_>]) -> Option<Block> {
    let panel = |(i, soaked): (usize, &Soaked<'_, '_>)| {
        let style = Style { colour: 1 + i % 7, marker: i, pattern: 0 };
        timeline::drawing(soaked.group.points.first()?, soaked.found, style, &soaked.group.label)
    };
    let drawings: Vec<String> = all.iter().enumerate().filter_map(panel).collect();
    (!drawings.is_empty()).then_some(Block::Drawing { drawings, caption: timeline::CAPTION })
}

/// A point with its soak.
struct Soaked<'g, 'a> {
    group: &'g Group<'a>,
    found: &'a ProcedureResult,
    trials: Vec<&'a Trial>,
}

impl<'g, 'a> Soaked<'g, 'a> {
    fn of(group: &'g Group<'a>) -> Option<Self> {
        let point = group.points.first()?;
        let mut procedures = point.point.result.iter().flat_map(|result| &result.procedures);
        let found = procedures.find(|made| made.procedure == procedure::SOAK)?;
        Some(Soaked { group, found, trials: trials(point, found) })
    }

    fn parameter(&self, name: &str) -> Option<&'a str> {
        self.found.parameters.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    /// `90 % of the throughput, 371 k frames/s`
    fn load(&self) -> String {
        let text = self.parameter("load").unwrap_or("an unknown load");
        let fps = text.strip_suffix(" frames/s").and_then(|begin| begin.rsplit_once(", "));
        match fps.and_then(|(share, fps)| Some((share, fps.parse::<f64>().ok()?))) {
            Some((share, fps)) => format!("{share} ({} frames/s)", si(fps)),
            None => text.to_string(),
        }
    }

    fn sentence(&self) -> String {
        let label = &self.group.label;
        if self.trials.is_empty() {
            let why = self.found.irregular.first().map_or("it was not measured", String::as_str);
            return format!("{label}: {why}");
        }
        let (sent, lost) = self.trials.iter().fold((0u64, 0u64), |(sent, lost), trial| {
            (sent + trial.counts().sent, lost + trial.counts().lost)
        });
        let seconds: f64 = self.trials.iter().map(|trial| trial.duration_s).sum();
        let periods: u64 = self.trials.iter().flat_map(|t| &t.streams).map(|s| s.loss_event_count).sum();
        let time = duration(seconds);
        if lost == 0 {
            return format!("{label} lost none of {} frames in {time} at {}.", si(sent as f64), self.load());
        }
        format!(
            "{label} lost {} of {} frames ({}) in {}, in {time} at {}.",
            full(lost as f64),
            si(sent as f64),
            percent(lost as f64 / sent.max(1) as f64),
            count(usize::try_from(periods).unwrap_or(usize::MAX), "period"),
            self.load()
        )
    }

    /// What the listed losses were caused by.
    fn causes(&self) -> Option<String> {
        let events = &self.found.events;
        if events.is_empty() {
            return None;
        }
        let all: u64 = events.iter().map(|event| event.lost).sum();
        let by_stops: Option<u64> = events.iter().map(|event| event.by_stops).sum();
        let label = &self.group.label;
        Some(match by_stops {
            None => format!(
                "Whether stops of CPUs caused the losses of {label} is unknown: stops were not recorded, because the record is older \
                 or the kernel lacks the clocks."
            ),
            Some(by_stops) => {
                let other =
                    events.iter().filter(|event| event.by_stops.is_some_and(|n| n < event.lost)).count();
                format!(
                    "Of these, {} of {} frames were lost while a CPU was stopped (by the host or another program); {} {} other \
                     causes.",
                    full(by_stops as f64),
                    full(all as f64),
                    count(other, "period"),
                    if other == 1 { "has" } else { "have" }
                )
            }
        })
    }
}

/// The trials of the soak: it is the last procedure, and names how many there are.
fn trials<'a>(point: &'a PointData, found: &ProcedureResult) -> Vec<&'a Trial> {
    let named = found.parameters.iter().find(|(name, _)| name == "trials");
    let n: usize = named.and_then(|(_, n)| n.parse().ok()).unwrap_or(0);
    let all: Vec<&Trial> = point.trials.iter().filter(|trial| trial.purpose == Purpose::Procedure).collect();
    all[all.len().saturating_sub(n)..].to_vec()
}

fn duration(seconds: f64) -> String {
    match seconds {
        s if s >= 7200.0 => format!("{:.1} h", s / 3600.0),
        s if s >= 120.0 => format!("{:.0} min", s / 60.0),
        s => format!("{s:.0} s"),
    }
}

/// What a loss was caused by.
fn cause(event: &DatedLoss) -> &'static str {
    match event.by_stops {
        Some(n) if n >= event.lost => "stop",
        Some(0) => "other",
        Some(_) => "stop, in part",
        None if event.valid => "not known",
        None => "not known, trial not valid",
    }
}

/// The losses, or, where there are none, what was sent.
fn table(axes: &Axes, all: &[Soaked<'_, '_>]) -> Table {
    if all.iter().all(|soaked| soaked.found.events.is_empty()) {
        return sent(axes, all);
    }
    let head =
        axes.head().into_iter().chain(["lost at (UTC)", "frames", "outage", "cause"].map(String::from));
    let mut table = Table::new(&head.collect::<Vec<_>>());
    for soaked in all {
        let mut largest: Vec<&DatedLoss> = soaked.found.events.iter().collect();
        largest.sort_by_key(|event| std::cmp::Reverse(event.lost));
        largest.truncate(ROWS);
        largest.sort_by(|a, b| a.at.cmp(&b.at));
        for event in largest {
            let at = event.at.split('.').next().unwrap_or_default().trim_end_matches('Z').replace('T', " ");
            let cells = [at, full(event.lost as f64), time_ns(event.outage_s * 1e9), cause(event).into()];
            table.push(soaked.group.cells.iter().cloned().chain(cells).collect());
        }
    }
    table
}

fn sent(axes: &Axes, all: &[Soaked<'_, '_>]) -> Table {
    let head = axes.head().into_iter().chain(["time", "trials", "frames sent", "lost"].map(String::from));
    let mut table = Table::new(&head.collect::<Vec<_>>());
    for soaked in all.iter().filter(|soaked| !soaked.trials.is_empty()) {
        let total =
            |of: fn(&Trial) -> u64| full(soaked.trials.iter().map(|trial| of(trial)).sum::<u64>() as f64);
        let seconds: f64 = soaked.trials.iter().map(|trial| trial.duration_s).sum();
        let (sent, lost) = (total(|trial| trial.counts().sent), total(|trial| trial.counts().lost));
        let cells = [duration(seconds), soaked.trials.len().to_string(), sent, lost];
        table.push(soaked.group.cells.iter().cloned().chain(cells).collect());
    }
    table
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Measured, run, shown};
    use super::*;
    use weir_record::fixture;

    /// A soak of four hours in which so many frames were lost, one loss a minute, of them so many in stops.
    fn soaked(losses: &[(u64, Option<u64>)]) -> RunData {
        let mut data =
            run(&[Measured { dut: "kernel-forward", frame: 64, settings: Vec::new(), fps: 412_300.0 }]);
        let of_fixture = fixture::procedures().points;
        let is_it = |point: &&PointData| point.point.dut == "kernel-forward" && point.point.frame == "64";
        data.points[0] = of_fixture.iter().find(is_it).expect("a soak").clone();
        let result = data.points[0].point.result.as_mut().expect("a result");
        result.procedures.retain(|made| made.procedure == procedure::SOAK);
        let event = |(i, (lost, by_stops)): (usize, &(u64, Option<u64>))| DatedLoss {
            at: format!("2026-03-01T12:1{i}:00.5Z"),
            lost: *lost,
            by_stops: *by_stops,
            outage_s: 2e-3,
            valid: true,
            ..DatedLoss::default()
        };
        result.procedures[0].events = losses.iter().enumerate().map(event).collect();
        let mut left = losses.iter().map(|(lost, _)| *lost);
        for trial in data.points[0].trials.iter_mut().filter(|trial| trial.purpose == Purpose::Procedure) {
            let lost = left.next();
            trial.streams.iter_mut().for_each(|stream| stream.loss_event_count = 0);
            trial.streams[0].loss_event_count = u64::from(lost.is_some());
            let counts = trial.frames.get_or_insert_default();
            (counts.sent, counts.lost) = (1_000_000, lost.unwrap_or(0));
        }
        data
    }

    #[test]
    fn losses_with_their_times_and_causes() {
        let text = shown(&soaked(&[(300, Some(300)), (40, Some(0))]));
        assert!(
            text.starts_with(
                "kernel-forward lost 340 of 4.00 M frames (0.00850 %) in 2 periods, in 4.0 h at 90 % of the throughput (371 k \
                 frames/s).\nOf these, 300 of 340 frames were lost while a CPU was stopped (by the host or another program); 1 \
                 period has other causes.\n"
            ),
            "{text}"
        );
        assert!(
            text.ends_with(
                "      lost at (UTC)  frames  outage  cause\n\
                 2026-03-01 12:10:00     300  2.00ms  stop\n\
                 2026-03-01 12:11:00      40  2.00ms  other\n"
            ),
            "{text}"
        );
        assert!(shown(&soaked(&[(5, None)])).contains("is unknown"));
    }

    #[test]
    fn a_soak_without_loss() {
        let text = shown(&soaked(&[]));
        assert!(
            text.starts_with("kernel-forward lost none of 4.00 M frames in 4.0 h at 90 % of the throughput"),
            "{text}"
        );
        assert!(
            text.ends_with(" time  trials  frames sent  lost\n4.0 h       4      4000000     0\n"),
            "{text}"
        );
    }
}
