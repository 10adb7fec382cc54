//! Why trials are not valid, in few lines: reasons that differ only in their numbers are one line with the
//! range of the numbers.
//!
//! ```text
//! left more than 28.3 ms late (limit 5.0 ms)  \  2 trials (1 noisy, 1 tester-limited):
//! left more than 9.0 ms late (limit 5.0 ms)   /  left more than 9.0 to 28.3 ms late (limit 5.0 ms)
//! ```

use super::format::{count, list};
use crate::record::Verdict;

/// Lines; what is rarer is only counted.
const LINES: usize = 10;

/// A text of which only the numbers vary.
struct Kind<'t> {
    /// The texts around the numbers: one more than there are numbers.
    words: Vec<&'t str>,
    /// Smallest and largest of each number, as written.
    ranges: Vec<(&'t str, &'t str)>,
    /// How often it was said.
    times: usize,
    /// How often of trials with each verdict.
    verdicts: Vec<(Verdict, usize)>,
}

/// The reasons in lines, most frequent first.
pub fn lines<'t>(reasons: impl Iterator<Item = (Verdict, &'t str)>) -> Vec<String> {
    let mut kinds = kinds(reasons);
    let rest = kinds.split_off(kinds.len().min(LINES));
    let mut lines: Vec<_> = kinds.iter().map(Kind::line).collect();
    if !rest.is_empty() {
        let times = rest.iter().map(|k| k.times).sum();
        lines.push(format!("{} more in {}", count(rest.len(), "reason"), count(times, "trial")));
    }
    lines
}

/// Texts that differ only in their numbers as one each, most frequent first.
pub fn merged<'t>(texts: impl Iterator<Item = &'t str>) -> Vec<(String, usize)> {
    let kinds = kinds(texts.map(|text| (Verdict::Valid, text)));
    kinds.iter().map(|kind| (kind.text(), kind.times)).collect()
}

fn kinds<'t>(reasons: impl Iterator<Item = (Verdict, &'t str)>) -> Vec<Kind<'t>> {
    let mut kinds: Vec<Kind<'t>> = Vec::new();
    for (verdict, text) in reasons {
        let (words, numbers) = split(text);
        let kind = match kinds.iter_mut().position(|k| k.words == words) {
            Some(known) => &mut kinds[known],
            None => {
                let ranges = numbers.iter().map(|n| (*n, *n)).collect();
                kinds.push(Kind { words, ranges, times: 0, verdicts: Vec::new() });
                kinds.last_mut().expect("just pushed")
            }
        };
        kind.add(verdict, &numbers);
    }
    kinds.sort_by_key(|k| std::cmp::Reverse(k.times));
    kinds
}

impl<'t> Kind<'t> {
    fn add(&mut self, verdict: Verdict, numbers: &[&'t str]) {
        self.times += 1;
        match self.verdicts.iter_mut().find(|(v, _)| *v == verdict) {
            Some((_, n)) => *n += 1,
            None => self.verdicts.push((verdict, 1)),
        }
        for ((low, high), number) in self.ranges.iter_mut().zip(numbers) {
            if value(number) < value(low) {
                *low = number;
            }
            if value(number) > value(high) {
                *high = number;
            }
        }
    }

    fn text(&self) -> String {
        let numbers = self
            .ranges
            .iter()
            .map(|(low, high)| if low == high { low.to_string() } else { format!("{low} to {high}") });
        let numbers = numbers.chain([String::new()]);
        self.words.iter().zip(numbers).map(|(words, number)| format!("{words}{number}")).collect()
    }

    fn line(&self) -> String {
        let verdicts = self.verdicts.iter().map(|(verdict, n)| match self.verdicts.len() {
            1 => verdict.name().to_string(),
            _ => format!("{n} {}", verdict.name()),
        });
        let verdicts = list(&verdicts.collect::<Vec<_>>());
        format!("{} ({verdicts}): {}", count(self.times, "trial"), self.text())
    }
}

fn value(number: &str) -> f64 {
    number.parse().unwrap_or(0.0)
}

/// The numbers of a text and the texts around them. A digit after a letter is part of a name (`eth0`).
fn split(text: &str) -> (Vec<&str>, Vec<&str>) {
    let bytes = text.as_bytes();
    let digit = |i: usize| bytes.get(i).is_some_and(u8::is_ascii_digit);
    let (mut words, mut numbers) = (Vec::new(), Vec::new());
    let (mut from, mut i) = (0, 0);
    while i < bytes.len() {
        let named = i > 0 && (bytes[i - 1].is_ascii_alphanumeric() || b"_.-".contains(&bytes[i - 1]));
        let start = i;
        i += usize::from(bytes[i] == b'-');
        if named || !digit(i) {
            i = start + 1;
            continue;
        }
        while digit(i) || (bytes.get(i) == Some(&b'.') && digit(i + 1)) {
            i += 1;
        }
        words.push(&text[from..start]);
        numbers.push(&text[start..i]);
        from = i;
    }
    words.push(&text[from..]);
    (words, numbers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Verdict::*;

    fn check(reasons: &[(Verdict, &str)], expected: &[&str]) {
        assert_eq!(lines(reasons.iter().copied()), expected);
    }

    #[test]
    fn reasons_that_differ_in_numbers_are_one_line() {
        check(
            &[
                (Noisy, "left 28.3 ms late (limit 5.0 ms)"),
                (TesterLimited, "left 9.0 ms late (limit 5.0 ms)"),
                (Noisy, "the rate is -3.306 % off"),
                (Noisy, "left 104.9 ms late (limit 5.0 ms)"),
                (Noisy, "the rate is 1.2 % off"),
            ],
            &[
                "3 trials (2 noisy and 1 tester-limited): left 9.0 to 104.9 ms late (limit 5.0 ms)",
                "2 trials (noisy): the rate is -3.306 to 1.2 % off",
            ],
        );
        check(
            &[(Invalid, "eth0 went down"), (Invalid, "eth1 went down")],
            &["1 trial (invalid): eth0 went down", "1 trial (invalid): eth1 went down"],
        );
        check(
            &[(Invalid, "µ 7"), (Invalid, "µ 12"), (Invalid, ""), (Invalid, "a - b 1.")],
            &["2 trials (invalid): µ 7 to 12", "1 trial (invalid): ", "1 trial (invalid): a - b 1."],
        );
    }

    #[test]
    fn rare_reasons_are_only_counted() {
        let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];
        let lines = lines(names.iter().map(|n| (Noisy, *n)));
        assert_eq!((lines.len(), lines[10].as_str()), (11, "2 reasons more in 2 trials"));
    }
}
