//! Which stages of a text are those of another one: of all ways to match stages of the same kind in the same order, the one that
//! loses least.
//!
//! ```text
//! old   filter(a) > nat > filter(b)
//! new   nat > filter(b)                  the NAT and filter(b) stay, filter(a) goes
//! new   filter(c) > nat > filter(b)      all stay, and filter(a) becomes filter(c)
//! new   filter(a) > filter(b) > nat      the NAT and filter(a) stay; filter(b) changes its place, and begins anew
//! ```
//! A NAT that goes costs most: its hosts get no answers any more. Then a filter that remembers connections, then any other stage;
//! and a stage that would stay as it is costs more than one that would change.

use crate::stages::StageConfig;
use crate::text::MOST_STAGES;

/// Bits of the number of stages that stay for one reason: a more important reason counts more than all others together.
const BITS: u32 = 8;

const _: () = assert!(MOST_STAGES < 1 << BITS);

/// For each new stage the number of the old one that it continues, if it does.
pub(crate) fn align(old: &[StageConfig], new: &[StageConfig]) -> Vec<Option<usize>> {
    let worth: Vec<Vec<Option<u64>>> =
        old.iter().map(|old| new.iter().map(|new| worth(old, new)).collect()).collect();
    // By number: what the stages from there on are worth together.
    let mut best = vec![vec![0; new.len() + 1]; old.len() + 1];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            let pair = worth[i][j].map_or(0, |worth| worth + best[i + 1][j + 1]);
            best[i][j] = pair.max(best[i + 1][j]).max(best[i][j + 1]);
        }
    }
    let (mut i, mut aligned) = (0, vec![None; new.len()]);
    for j in 0..new.len() {
        while i < old.len() && best[i][j] == best[i + 1][j] {
            i += 1;
        }
        if i < old.len() && best[i][j] > best[i][j + 1] {
            aligned[j] = Some(i);
            i += 1;
        }
    }
    aligned
}

/// The value of one stage becoming the other; `None`: it cannot.
fn worth(old: &StageConfig, new: &StageConfig) -> Option<u64> {
    let reason = old.loss(new)? as u32;
    Some(1 << (BITS * (2 * reason + u32::from(old.says_the_same(new)))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    /// Stages as letters: `l` to `n` are NATs, `s` to `u` filters that remember connections, all others filters that do not.
    fn stages(letters: &str) -> Vec<StageConfig> {
        let text = |letter: char| match letter {
            'l'..='n' => format!("nat(public 192.0.2.{})", letter as u8),
            's'..='u' => format!("filter(accept state established, count {letter} udp)"),
            _ => format!("filter(count {letter} udp)"),
        };
        let text = format!("lan {} wan", letters.chars().map(text).collect::<Vec<_>>().join(" "));
        Config::read("n", &text).unwrap_or_else(|mistakes| panic!("{mistakes}")).stages
    }

    /// The old stage of each new one, as its letter.
    fn aligned(old: &str, new: &str) -> String {
        let letter = |from: Option<usize>| from.map_or('-', |from| old.as_bytes()[from] as char);
        align(&stages(old), &stages(new)).into_iter().map(letter).collect()
    }

    #[test]
    fn the_least_is_lost() {
        for (old, new, expected) in [
            ("", "ab", "--"),
            ("ab", "", ""),
            ("ab", "ab", "ab"),
            ("a", "n", "-"),
            // Another text of the same stage.
            ("a", "b", "a"),
            ("anb", "cnd", "anb"),
            ("anb", "nc", "nb"),
            // What is as it was stays, whatever comes before it or goes.
            ("ab", "b", "b"),
            ("b", "ab", "-b"),
            ("b", "ba", "b-"),
            ("abc", "ac", "ac"),
            ("ac", "abc", "a-c"),
            ("ab", "ca", "-a"),
            ("st", "us", "-s"),
            ("n", "mn", "-n"),
            ("mn", "n", "n"),
            ("nm", "ln", "-n"),
            // A filter that remembers connections stays, rather than one that does not.
            ("as", "t", "s"),
            ("s", "at", "-s"),
            ("sa", "bs", "-s"),
            ("as", "ta", "s-"),
            // Those that change places: the NAT before all filters.
            ("ab", "ba", "b-"),
            ("stan", "nsta", "n---"),
            ("nsta", "stan", "---n"),
            ("snt", "tns", "snt"),
        ] {
            assert_eq!(aligned(old, new), expected, "{old} to {new}");
        }
    }
}
