//! Two congestion controls in one queue: which share of the link the first one has, by the size of the buffer, and where it is
//! the fair one.

use super::super::{Cell, FIRST_SHARE, drawings};
use super::{Group, flows, grouped, levels, number};
use weir_report::report::answer::Answer;
use weir_report::report::block::Block;
use weir_report::view::Table;
use weir_report::view::format::{or_dash, significant, whole_percent};

const COLUMNS: &str = "Share of the link of the first congestion control, median of the seeds, by the size of the buffer in \
    bandwidth-delay products. fair: its share of the flows; equal at: the size at which it has that, between two sizes by \
    interpolation; < and > where it is beyond all of them.";

const CAPTION: &str = "Share of the link of the first congestion control. Rows: who shares it; columns: buffer in bandwidth-delay \
    products.";

/// A mix of two at several sizes.
struct Pair<'c> {
    mix: &'c str,
    names: [&'c str; 2],
    flows: [u32; 2],
    /// Size and share, by ascending size; at least two.
    shares: Vec<(&'c str, f64)>,
}

/// The buffer with which the first one has its fair share.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Equal {
    At(f64),
    /// It has more at every size, or less.
    Always(bool),
    /// The share crosses the fair one several times.
    Unclear,
}

pub(super) fn answer(cells: &[Cell<'_>]) -> Option<Answer> {
    if levels(cells, "queue").len() > 1 {
        return None;
    }
    let groups = grouped(cells, &["mix", "flows"]);
    let pairs: Vec<Pair<'_>> = groups.iter().filter_map(pair).collect();
    let mut sentences = sentences(&pairs);
    if sentences.is_empty() {
        return None;
    }
    let of_pairs: Vec<Group<'_, '_>> = cells
        .iter()
        .filter(|cell| pairs.iter().any(|pair| pair.mix == cell.setting("mix")))
        .map(|cell| Group { key: Vec::new(), cells: vec![cell] })
        .collect();
    let rows: Vec<String> = of_pairs
        .iter()
        .map(|of| format!("{}, {}", of.cells[0].setting("mix"), flows(of.cells[0].setting("flows"))))
        .collect();
    let keyed: Vec<Group<'_, '_>> = rows
        .iter()
        .zip(of_pairs)
        .map(|(row, of)| Group { key: vec![row, of.cells[0].setting("buffer_bdp")], cells: of.cells })
        .collect();
    let drawings = vec![drawings::map("Share of the first", &keyed, |group| group.median(FIRST_SHARE))];
    sentences.truncate(3);
    Some(Answer {
        sentences,
        table: table(&pairs),
        columns: COLUMNS.into(),
        drawing: Some(Block::Drawing { drawings, caption: CAPTION }),
    })
}

/// The traffic as a pair, if it is two congestion controls at several sizes over one path.
fn pair<'c>(group: &Group<'c, '_>) -> Option<Pair<'c>> {
    let (mix, cell) = (group.key[0], group.cells.first()?);
    let (first, second) = mix.split_once('+').filter(|_| cell.rtts().len() == 1)?;
    let ((a, first), (b, second)) = (weighted(first)?, weighted(second)?);
    let all: u32 = group.key[1].parse().ok()?;
    let part = all / (a + b).max(1);
    let mut shares: Vec<(&str, f64)> = group
        .cells
        .iter()
        .filter_map(|cell| Some((cell.setting("buffer_bdp"), cell.value(FIRST_SHARE)?)))
        .collect();
    shares.sort_by(|a, b| number(a.0).total_cmp(&number(b.0)));
    (shares.len() > 1).then_some(Pair { mix, names: [first, second], flows: [a * part, b * part], shares })
}

/// `49*cubic`.
fn weighted(word: &str) -> Option<(u32, &str)> {
    let (weight, name) = word.split_once('*').unwrap_or(("1", word));
    Some((weight.parse().ok()?, name)).filter(|_| !name.contains('+'))
}

impl Pair<'_> {
    fn fair(&self) -> f64 {
        f64::from(self.flows[0]) / f64::from((self.flows[0] + self.flows[1]).max(1))
    }

    /// Where the share is the fair one, by interpolation over the logarithm of the size.
    fn equal(&self) -> Equal {
        let fair = self.fair();
        let more: Vec<bool> = self.shares.iter().map(|(_, share)| *share >= fair).collect();
        let crossings: Vec<usize> = (1..more.len()).filter(|&i| more[i] != more[i - 1]).collect();
        match crossings[..] {
            [] => Equal::Always(more.first() == Some(&true)),
            [after] => {
                let ((a, from), (b, to)) = (self.shares[after - 1], self.shares[after]);
                let (a, b) = (number(a).ln(), number(b).ln());
                Equal::At((a + (b - a) * (from - fair) / (from - to)).exp())
            }
            _ => Equal::Unclear,
        }
    }

    /// `88 % at 0.5 BDP of buffer and 31 % at 20 BDP, half of it at about 7.1 BDP`.
    fn course(&self) -> String {
        let share = |(size, share): &(&str, f64)| format!("{} at {size} BDP", whole_percent(*share));
        let [first, last] =
            [self.shares.first(), self.shares.last()].map(|end| end.map_or_else(String::new, share));
        let fair = match self.flows {
            [a, b] if a == b => "half of it".into(),
            _ => format!("its fair {}", whole_percent(self.fair())),
        };
        let equal = match self.equal() {
            Equal::At(size) => format!("{fair} at about {} BDP", significant(size)),
            Equal::Always(true) => format!("more than {fair} at every size"),
            Equal::Always(false) => format!("less than {fair} at every size"),
            Equal::Unclear => format!("now more, now less than {fair}"),
        };
        format!("{first} of buffer and {last}, {equal}")
    }
}

/// A sentence for each number of flows, the fewest first.
fn sentences(pairs: &[Pair<'_>]) -> Vec<String> {
    let mut counts: Vec<[u32; 2]> = Vec::new();
    for pair in pairs {
        if !counts.contains(&pair.flows) {
            counts.push(pair.flows);
        }
    }
    counts.sort_by_key(|[a, b]| (a + b, a.abs_diff(*b)));
    let of = |count: &[u32; 2]| {
        let own: Vec<&Pair<'_>> = pairs.iter().filter(|pair| pair.flows == *count).collect();
        let (first, [a, b]) = (own.first()?, *count);
        let take = if a == 1 { "takes" } else { "take" };
        let others = own.iter().skip(1).map(|pair| match pair.names {
            [name, other] if other == first.names[1] => format!("; {name} {}", pair.course()),
            [name, other] => format!("; {name} against {other} {}", pair.course()),
        });
        let [of, against] = first.names;
        Some(format!(
            "Against {} of {against}, {a} of {of} {take} {}{}.",
            flows(&b.to_string()),
            first.course(),
            others.collect::<String>()
        ))
    };
    counts.iter().filter_map(of).collect()
}

fn table(pairs: &[Pair<'_>]) -> Table {
    let mut sizes: Vec<&str> = Vec::new();
    for (size, _) in pairs.iter().flat_map(|pair| &pair.shares) {
        if !sizes.contains(size) {
            sizes.push(size);
        }
    }
    sizes.sort_by(|a, b| number(a).total_cmp(&number(b)));
    let mut table = Table::new(&[&["mix", "flows", "fair"], &sizes[..], &["equal at"]].concat());
    for pair in pairs {
        let share = |size: &&str| {
            let found = pair.shares.iter().find(|(of, _)| of == size);
            or_dash(found, |(_, share)| whole_percent(*share))
        };
        let (Some(least), Some(largest)) = (sizes.first(), sizes.last()) else { continue };
        let equal = match pair.equal() {
            Equal::At(size) => significant(size),
            Equal::Always(true) => format!(">{largest}"),
            Equal::Always(false) => format!("<{least}"),
            Equal::Unclear => "–".into(),
        };
        let [a, b] = pair.flows;
        let names = [pair.mix.to_string(), (a + b).to_string(), whole_percent(pair.fair())];
        table.push(names.into_iter().chain(sizes.iter().map(share)).chain([equal]).collect());
    }
    table
}
