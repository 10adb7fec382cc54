//! Files in a report: how many per second, how long each call takes, and what durability costs.

use super::measured::{Filing, ID};
use weir_measure::stats::{self, Ratio};
use weir_record::run_data::{MEASURES, PointData, RunData};
use weir_report::report::answer::Answer;
use weir_report::report::bars::{Bar, BarChart, Group};
use weir_report::report::block::{Block, Part};
use weir_report::view::format::{bracketed, bytes, full, list, or_dash, range, si, significant, time_ns};
use weir_report::view::{Style, Table};

const CAPTION: &str =
    "Files made per second, with all that makes them durable; median of the rounds. Longer is better.";

const METHOD: &str = "Each trial makes its files in a new directory, after all that others had left to write was written (syncfs). \
    Durable: none, the kernel writes later; fsync, the content of each file; fsync-dir, its name, too; syncfs, all by one call in the \
    end, within the time; direct, the content by O_DIRECT, which may still be in the disk's own memory. Files are read in random \
    order, first as they are in memory, then after they were written out and their pages dropped (posix_fadvise): names and \
    inodes stay in memory, so that cold reading costs less than after a restart. Nothing of the host is changed for it. \
    Files are removed, and that is written out, before the next trial begins. fs_mark and fio make files and do not read them back.";

const PUBLISHED: &str = "Published (Rothman and Buckman, SysAdmin, July 2001: 10,000 files of 4 to 128 KB in one directory): between \
    operating systems factors of 6 and 10, without a word on durability. Compare the factor between none and fsync on one machine: \
    what was compared then is largely who writes at once and who later.";

/// A point with its trials that can be believed.
struct Placed<'a> {
    data: &'a PointData,
    found: Vec<(String, Filing)>,
}

impl Placed<'_> {
    fn setting(&self, name: &str) -> &str {
        self.data.setting(name).unwrap_or("–")
    }

    fn values(&self, value: impl Fn(&Filing) -> Option<f64>) -> Vec<f64> {
        self.found.iter().filter_map(|(_, filing)| value(filing)).collect()
    }

    fn median(&self, value: impl Fn(&Filing) -> Option<f64>) -> Option<f64> {
        stats::median(&self.values(value))
    }

    fn made(&self) -> Option<f64> {
        self.median(|filing| Some(filing.made_per_s))
    }

    /// All that is the same where two differ in durability alone.
    fn case(&self) -> [&str; 4] {
        ["file_system", "bytes", "workers", "by"].map(|name| self.setting(name))
    }
}

fn all(data: &RunData) -> Vec<Placed<'_>> {
    let points = data.points.iter().filter(|point| point.setting(MEASURES) == Some(ID));
    points.map(|data| Placed { data, found: data.by_key() }).collect()
}

/// Its section of a report.
pub(super) fn parts(data: &RunData) -> Vec<Part> {
    let all = all(data);
    if all.is_empty() {
        return Vec::new();
    }
    let mut places: Vec<String> = all
        .iter()
        .filter_map(|placed| {
            let note = placed.data.point.notes.iter().find(|note| note.starts_with("On "))?;
            Some(format!(
                "{}: {}",
                placed.setting("file_system"),
                note.trim_start_matches("On ").trim_end_matches('.')
            ))
        })
        .collect();
    places.dedup();
    let blocks = vec![
        Block::Drawing { drawings: vec![chart(&all.iter().collect::<Vec<_>>())], caption: CAPTION },
        Block::Sentence("Files per second:".into()),
        Block::Table(rates(&all).without_empty(&["95 % interval", "Left out"])),
        Block::Sentence("Times of calls while files are made, median of the rounds' p50 / p99:".into()),
        Block::Table(calls(&all)),
        Block::Bullets(places),
        Block::Note(METHOD.into()),
        Block::Note(PUBLISHED.into()),
    ];
    vec![Part { id: ID, heading: "Many small files".into(), blocks }]
}

fn rates(all: &[Placed<'_>]) -> Table {
    let mut table = Table::new(&[
        "File system",
        "Bytes",
        "Workers",
        "Durable",
        "By",
        "Made/s",
        "95 % interval",
        "p50",
        "p99",
        "Maximum",
        "Read warm/s",
        "Read cold/s",
        "Left out",
    ]);
    for placed in all {
        let made = placed.values(|filing| Some(filing.made_per_s));
        let time = |of: fn(&weir_apps::client::Percentiles) -> u64| {
            or_dash(placed.median(|filing| filing.call_s("file", of)), |s| time_ns(s * 1e9))
        };
        table.push(vec![
            placed.setting("file_system").into(),
            placed.setting("bytes").into(),
            placed.setting("workers").into(),
            placed.setting("durability").into(),
            placed.setting("by").into(),
            or_dash(stats::median(&made), full),
            or_dash(stats::median_interval(&made), range),
            time(|times| times.p50),
            time(|times| times.p99),
            time(|times| times.max),
            or_dash(placed.median(Filing::warm_per_s), full),
            or_dash(placed.median(Filing::cold_per_s), full),
            placed.data.why_left_out().unwrap_or("").into(),
        ]);
    }
    table
}

const CALLS: [&str; 5] = ["open", "write", "fsync", "close", "fsync of the directory"];

fn calls(all: &[Placed<'_>]) -> Table {
    let settings = ["File system", "Bytes", "Workers", "Durable"];
    let mut table = Table::new(&settings.into_iter().chain(CALLS).collect::<Vec<_>>());
    for placed in all {
        let cell = |call: &str| {
            let time = |of: fn(&weir_apps::client::Percentiles) -> u64| {
                placed.median(|filing| filing.call_s(call, of)).map(|s| time_ns(s * 1e9))
            };
            let both = time(|times| times.p50).zip(time(|times| times.p99));
            or_dash(both, |(p50, p99)| format!("{p50} / {p99}"))
        };
        let cells = CALLS.map(cell);
        if cells[0] != "–" {
            let own =
                ["file_system", "bytes", "workers", "durability"].map(|name| placed.setting(name).into());
            table.push(own.into_iter().chain(cells).collect());
        }
    }
    table
}

fn chart(all: &[&Placed<'_>]) -> String {
    let mut groups: Vec<Group> = Vec::new();
    for placed in all.iter().filter(|placed| !placed.found.is_empty()) {
        let [file_system, bytes, workers, by] = placed.case();
        let label = format!("{file_system}, {bytes} bytes, workers: {workers}");
        let name = format!("{}, {by}", placed.setting("durability"));
        let value = placed.made();
        let text = or_dash(value, |rate| format!("{}/s", si(rate)));
        let own = ["calls", "io-uring"].contains(&by);
        let style = Style { colour: if own { 1 } else { 2 }, marker: 0, pattern: usize::from(!own) };
        let ticks = placed.values(|filing| Some(filing.made_per_s));
        let bar = Bar { ticks, style, ..Bar::plain(&name, value, text) };
        match groups.iter_mut().find(|group| group.label == label) {
            Some(group) => group.bars.push(bar),
            None => groups.push(Group { label, bars: vec![bar], limit: None }),
        }
    }
    let texts: Vec<String> = groups.iter().flat_map(|g| g.bars.iter().map(|bar| bar.title.clone())).collect();
    let chart = BarChart { groups, unit: "1/s".into(), number: si, limit_name: String::new() };
    chart.draw("Files made per second", &list(&texts))
}

const COLUMNS: &str = "made/s: files made per second with so many workers, with all that makes them durable; slower: times as long as \
    where nothing is durable, one worker, round by round; read: files read back per second, from memory (warm), and after their pages were \
    dropped (cold).";

/// How many files a machine makes and reads, and what durability costs.
pub(super) fn answer(data: &RunData) -> Option<Answer> {
    let all = all(data);
    let plain: Vec<&Placed<'_>> = all.iter().filter(|placed| placed.is_plain(&all)).collect();
    let bases: Vec<&Placed<'_>> =
        plain.iter().copied().filter(|placed| placed.is_base() && placed.made().is_some()).collect();
    let first = bases.first()?;
    let alike = |base: &&&Placed<'_>| base.setting("workers") == first.setting("workers");
    let others = bases.iter().skip(1).filter(alike).filter_map(|base| cost(&all, base));
    let sentences = std::iter::once(cost(&all, first)?).chain(workers(&all, first)).chain(others);
    let alone: Vec<&Placed<'_>> = plain
        .iter()
        .copied()
        .filter(|placed| placed.setting("workers") == first.setting("workers"))
        .collect();
    Some(Answer {
        sentences: sentences.collect(),
        table: short_table(&all, &plain),
        columns: COLUMNS.into(),
        drawing: Some(Block::Wide(chart(&alone), CAPTION)),
    })
}

impl Placed<'_> {
    /// Files of the first size, made by weir in the first way?
    fn is_plain(&self, all: &[Placed<'_>]) -> bool {
        let first = |name: &str| all.first().map(|placed| placed.setting(name).to_string());
        ["bytes", "by"].iter().all(|name| first(name).as_deref() == Some(self.setting(name)))
    }

    /// Nothing is durable?
    fn is_base(&self) -> bool {
        self.setting("durability") == "none"
    }

    /// How many times as long a file takes as where nothing is durable, round by round.
    fn slower(&self, all: &[Placed<'_>]) -> Option<Ratio> {
        let base = all.iter().find(|other| other.is_base() && other.case() == self.case())?;
        let of = |round: &str| base.found.iter().find(|(name, _)| name == round).map(|(_, filing)| filing);
        let pairs =
            self.found.iter().filter_map(|(round, own)| Some((of(round)?.made_per_s, own.made_per_s)));
        stats::ratio(&pairs.collect::<Vec<_>>())
    }

    /// `the given file system`.
    fn place(&self) -> String {
        match self.setting("file_system") {
            "given" => "the given file system".into(),
            name => name.into(),
        }
    }
}

/// A line for each file system and durability.
fn short_table(all: &[Placed<'_>], plain: &[&Placed<'_>]) -> Table {
    let mut workers: Vec<&str> = Vec::new();
    for placed in plain {
        if !workers.contains(&placed.setting("workers")) {
            workers.push(placed.setting("workers"));
        }
    }
    let made =
        workers.iter().map(|n| if workers.len() > 1 { format!("made/s, {n}") } else { "made/s".into() });
    let head = ["file system", "durable"].map(String::from).into_iter().chain(made);
    let figures = ["slower", "95 % interval", "read warm/s", "read cold/s"].map(String::from);
    let mut table = Table::new(&head.chain(figures).collect::<Vec<_>>());
    for first in plain.iter().filter(|placed| Some(&placed.setting("workers")) == workers.first()) {
        let same = |n: &&str| {
            let own = |placed: &&&Placed<'_>| {
                ["file_system", "durability"].iter().all(|name| placed.setting(name) == first.setting(name))
            };
            let found = plain.iter().filter(own).find(|placed| placed.setting("workers") == *n);
            or_dash(found.and_then(|placed| placed.made()), full)
        };
        if first.found.is_empty() {
            continue;
        }
        let slower = first.slower(all).filter(|_| !first.is_base());
        let names = ["file_system", "durability"].map(|name| first.setting(name).to_string());
        let figures = [
            or_dash(slower.as_ref(), |ratio| significant(ratio.value)),
            or_dash(slower.and_then(|ratio| ratio.interval), range),
            or_dash(first.median(Filing::warm_per_s), full),
            or_dash(first.median(Filing::cold_per_s), full),
        ];
        table.push(names.into_iter().chain(workers.iter().map(same)).chain(figures).collect());
    }
    table.without_empty(&["95 % interval", "read cold/s"])
}

/// What a run says, for the summary.
pub(super) fn findings(data: &RunData) -> Vec<String> {
    let all = all(data);
    let mut found: Vec<String> =
        all.iter().filter(|placed| placed.is_base()).filter_map(|placed| cost(&all, placed)).collect();
    for why in all.iter().filter_map(|placed| placed.data.why_left_out()) {
        if !found.iter().any(|text| text == why) {
            found.push(why.into());
        }
    }
    found
}

/// What is made and read, and what durability costs, of a case whose files are not durable.
fn cost(all: &[Placed<'_>], base: &Placed<'_>) -> Option<String> {
    let made = base.made()?;
    let others: Vec<String> = all
        .iter()
        .filter(|other| other.case() == base.case() && !other.is_base())
        .filter_map(|other| {
            let (ratio, durability) = (other.slower(all)?, other.setting("durability"));
            let interval = ratio.interval.map_or_else(String::new, bracketed);
            Some(format!("{durability} {} times as long{interval}", significant(ratio.value)))
        })
        .collect();
    let [_, size, workers, by] = base.case();
    let (workers, reads_word) = match workers {
        "1" => ("one worker makes".to_string(), "reads"),
        n => (format!("{n} workers make"), "read"),
    };
    let by = if by == "calls" { String::new() } else { format!(" by {by}") };
    let reads: Vec<String> =
        [("from memory", base.median(Filing::warm_per_s)), ("cold", base.median(Filing::cold_per_s))]
            .into_iter()
            .filter_map(|(how, rate)| Some(format!("{}/s {how}", full(rate?))))
            .collect();
    let reads = if reads.is_empty() { String::new() } else { format!(" and {reads_word} {}", list(&reads)) };
    let size = size.parse().map_or_else(|_| size.to_string(), bytes);
    let others = if others.is_empty() { String::new() } else { format!("; durable by {}", list(&others)) };
    Some(format!("On {} {workers} {} files/s of {size}{by}{reads}{others}.", base.place(), full(made)))
}

/// What more workers bring, where nothing and where each file is durable.
fn workers(all: &[Placed<'_>], base: &Placed<'_>) -> Option<String> {
    let of = |durability: &str| {
        let own: Vec<&Placed<'_>> = all
            .iter()
            .filter(|placed| placed.setting("durability") == durability)
            .filter(|placed| {
                ["file_system", "bytes", "by"].iter().all(|name| placed.setting(name) == base.setting(name))
            })
            .collect();
        let (one, more) = (own.first()?, own.last().filter(|_| own.len() > 1)?);
        let times = more.made()? / one.made()?;
        Some(format!("{} times as many {}", significant(times), where_durable(durability)))
    };
    let said: Vec<String> = ["none", "fsync"].into_iter().filter_map(of).collect();
    let most = all.iter().rfind(|placed| placed.setting("file_system") == base.setting("file_system"))?;
    (!said.is_empty()).then(|| format!("{} workers make {}.", most.setting("workers"), list(&said)))
}

fn where_durable(durability: &str) -> String {
    if durability == "none" { "where nothing is durable".into() } else { format!("with {durability}") }
}

#[cfg(test)]
mod tests {
    use weir_testkit::golden;

    use super::super::measured::tests::filing;
    use super::*;
    use crate::first_screen;
    use weir_record::fixture;
    use weir_record::record::PointResult;
    use weir_report::report::block::{page, terminal};

    fn point(index: usize, durability: &str, make_s: &[f64]) -> PointData {
        let mut data = fixture::point(index, "calls", 64, 1.0);
        let settings = [
            (MEASURES, ID),
            ("file_system", "given"),
            ("bytes", "4096"),
            ("workers", "1"),
            ("durability", durability),
            ("by", "calls"),
        ];
        data.point.settings = settings.map(|(name, value)| (name.to_string(), value.to_string())).to_vec();
        data.point.notes = vec!["On ext4 (rw), 65 % full.".into()];
        data.point.result = Some(PointResult { search: "rounds".into(), ..PointResult::default() });
        let trial = data.trials[1].clone();
        let one = |(i, &seconds): (usize, &f64)| {
            let mut trial = trial.clone().with_detail(&filing(seconds, 0.0));
            trial.key = Some(format!("round {}", i + 1));
            trial
        };
        data.trials = make_s.iter().enumerate().map(one).collect();
        data
    }

    #[test]
    fn durability_has_its_price() {
        let mut absent = point(2, "none", &[]);
        absent.point.settings[1].1 = "f2fs".into();
        absent.point.notes = vec!["f2fs is left out: this kernel has no f2fs.".into()];
        let points = vec![point(0, "none", &[1.0, 2.0]), point(1, "fsync", &[10.0, 20.0]), absent];
        let data = RunData { run: fixture::run(1), points };
        let shown =
            [findings(&data).join("\n"), terminal(&parts(&data))].join("\n\n").replace('\u{202f}', " ");
        golden!("src/files/report.txt", &shown);
        let page = page(&parts(&data));
        for text in ["Longer is better", "given: ext4 (rw), 65 % full", "Published", "posix_fadvise"] {
            assert!(page.contains(text), "{text}");
        }
        assert!(parts(&fixture::quick()).is_empty());
    }

    #[test]
    fn the_first_screen_has_a_line_for_each_durability() {
        let of = |index, durability, workers: &str, by: &str, make_s: &[f64]| {
            let mut data = point(index, durability, make_s);
            (data.point.settings[3].1, data.point.settings[5].1) = (workers.into(), by.into());
            data
        };
        let points = vec![
            of(0, "none", "1", "calls", &[1.0, 2.0]),
            of(1, "fsync", "1", "calls", &[10.0, 20.0]),
            of(2, "fsync", "1", "fs_mark", &[10.0, 20.0]),
            of(3, "none", "4", "calls", &[0.5, 0.5]),
            of(4, "fsync", "4", "calls", &[5.0, 5.0]),
        ];
        let data = RunData { run: fixture::run(1), points };
        golden!("src/files/answer.txt", &first_screen(&data));
    }
}
