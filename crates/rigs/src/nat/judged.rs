//! Faults of a NAT, and events that only look like faults: a tuple that a flow had is free for another one once its entry has
//! ended.
//!
//! ```text
//! A > tuple 7 > entry of A is given up: the table is full > B > tuple 7      both are seen with it, one after the other
//! A > tuple 7, B > tuple 7, both in the table                                a broken NAT
//! ```
//! From outside both look the same, also where the flow of A comes back later with another tuple. What tells them apart is
//! the kernel's table, in which no two entries have one tuple (`nf_conntrack_tuple_taken`): either none of its entries
//! ended in the trial, or the tuple was free. Of a table that cannot be read nothing is assumed.

use weir_load::translation::NatFault;

use super::figure::value;
use super::table::EARLY_DROP;
use weir_record::record::{Translation, Trial};
use weir_record::run_data::PointData;
use weir_report::view::format::full;

/// What was seen of the translations of a trial.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Seen {
    pub(super) translation: Translation,
    /// Did entries of the kernel's table end meanwhile? Never where that is not known.
    has_ended: bool,
}

impl Seen {
    /// Of a trial; `None` where translations were not checked.
    pub(super) fn of(trial: &Trial) -> Option<Seen> {
        let translation: Translation = trial.detail()?;
        Some(Seen { has_ended: translation.ended_entries.is_some_and(|ended| ended > 0), translation })
    }

    /// The same if anything was wrong.
    pub(super) fn wrong(trial: &Trial) -> Option<Seen> {
        Seen::of(trial).filter(|seen| !seen.translation.faults.is_empty())
    }

    /// Of all trials of a point. Where the trials of an older record do not say whether entries ended, what the kernel counted at
    /// the point does.
    pub(super) fn of_point(data: &PointData) -> impl Iterator<Item = Seen> {
        let gave_up = value(data, EARLY_DROP).is_some_and(|entries| entries > 0.0);
        let seen = data.trials.iter().filter_map(Seen::of);
        seen.map(move |seen| {
            let has_ended = seen.has_ended || (gave_up && seen.translation.ended_entries.is_none());
            Seen { has_ended, ..seen }
        })
    }

    /// Does a fault show nothing but that entries have ended?
    fn is_explained(&self, fault: NatFault) -> bool {
        self.has_ended && matches!(fault, NatFault::Clashed | NatFault::Remapped)
    }
}

/// What a NAT did wrong over several trials, one sentence each.
pub(super) fn mistakes(trials: impl IntoIterator<Item = Seen>) -> Vec<String> {
    let mut sums: Vec<(NatFault, u64)> = Vec::new();
    let mut file = None;
    for seen in trials {
        let wrong = seen.translation.faults.iter().filter(|(fault, _)| !seen.is_explained(*fault));
        for (fault, n) in wrong {
            match sums.iter_mut().find(|(known, _)| known == fault) {
                Some((_, sum)) => *sum += n,
                None => sums.push((*fault, *n)),
            }
            file = file.or_else(|| seen.translation.evidence.clone());
        }
    }
    let file = file.map_or(String::new(), |file| format!(" (frames in {file})"));
    sums.into_iter().map(|(fault, n)| format!("broken NAT: {n} {}{file}", fault.text())).collect()
}

/// The fate of flows whose entries ended while they were sent, over several trials; `None` if none did.
pub(super) fn ended_entries(trials: impl IntoIterator<Item = Seen>) -> Option<String> {
    let (mut clashed, mut remapped) = (0u64, 0u64);
    for seen in trials.into_iter().filter(|seen| seen.has_ended) {
        for (fault, n) in &seen.translation.faults {
            match fault {
                NatFault::Clashed => clashed += *n,
                NatFault::Remapped => remapped += *n,
                NatFault::Leaked | NatFault::WrongSubscriber | NatFault::WrongDestination => {}
            }
        }
    }
    let counted = |n: u64, noun: &str| format!("{} {noun}{}", full(n as f64), if n == 1 { "" } else { "s" });
    let reused = (clashed > 0)
        .then(|| format!("{} got the outside tuple of an entry that had ended", counted(clashed, "flow")));
    let moved = (remapped > 0).then(|| {
        format!("{} left with another tuple than before and count as lost", counted(remapped, "frame"))
    });
    let found: Vec<String> = reused.into_iter().chain(moved).collect();
    (!found.is_empty()).then(|| {
        format!(
            "{}: the table gave up entries of flows that were still sent (no fault of the translation)",
            found.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_record::figure::{figure, unit};
    use weir_record::fixture;
    use weir_record::record::{PointResult, ProcedureResult, Statistic};

    fn trial(ended: Option<u64>, faults: &[(NatFault, u64)]) -> Trial {
        let faults = faults.to_vec();
        Trial::default().with_detail(&Translation { faults, ended_entries: ended, ..Translation::default() })
    }

    const CLASH: [(NatFault, u64); 2] = [(NatFault::Clashed, 7185), (NatFault::Remapped, 12)];

    #[test]
    fn a_tuple_that_is_used_again_is_a_fault_only_while_no_entry_ends() {
        for (ended, faults, broken, explained) in [
            (Some(223_247), &CLASH[..], 0, true),
            (Some(0), &CLASH[..], 2, false),
            // Nothing is known of entries.
            (None, &CLASH[..], 2, false),
            (Some(9), &[(NatFault::Leaked, 3), (NatFault::Clashed, 1)][..], 1, true),
            (Some(9), &[][..], 0, false),
        ] {
            let seen = || Seen::of(&trial(ended, faults));
            let found = (mistakes(seen()).len(), ended_entries(seen()).is_some());
            assert_eq!(found, (broken, explained), "{ended:?} entries, {faults:?}");
        }
        let text = ended_entries(Seen::of(&trial(Some(1), &CLASH))).unwrap_or_default();
        assert_eq!(
            text.replace('\u{202f}', " "),
            "7 185 flows got the outside tuple of an entry that had ended, 12 frames left with another tuple than before and count \
             as lost: the table gave up entries of flows that were still sent (no fault of the translation)"
        );
    }

    #[test]
    fn the_count_of_the_point_explains_trials_that_say_nothing() {
        for (ended, early_drops, broken) in
            [(None, 9.0, 0), (None, 0.0, 2), (Some(0), 9.0, 2), (Some(1), 0.0, 0)]
        {
            let mut data = fixture::point(0, "kernel-nat", 128, 1e5);
            data.trials = vec![trial(ended, &CLASH)];
            let figures = vec![figure(EARLY_DROP, unit::FRAMES, Statistic::Median, vec![early_drops])];
            let procedures = vec![ProcedureResult { figures, ..ProcedureResult::default() }];
            data.point.result = Some(PointResult { procedures, ..PointResult::default() });
            assert_eq!(mistakes(Seen::of_point(&data)).len(), broken, "{ended:?} {early_drops}");
        }
    }
}
