//! A run without a valid trial of a device: no result, and the remedy.

use super::axes::devices;
use weir_record::record::{Trial, Verdict};
use weir_record::run_data::RunData;
use weir_report::view::format::list;

/// `None` where a trial is valid, or none was made.
pub(super) fn sentence(data: &RunData) -> Option<String> {
    let trials: Vec<&Trial> = devices(data).flat_map(|point| point.measured()).collect();
    if trials.is_empty() || trials.iter().any(|trial| trial.verdict == Verdict::Valid) {
        return None;
    }
    let counted =
        |verdict: Verdict| (verdict, trials.iter().filter(|trial| trial.verdict == verdict).count());
    let mut kinds = [Verdict::TesterLimited, Verdict::Noisy, Verdict::Invalid].map(counted);
    kinds.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    let named = kinds.iter().filter(|(_, n)| *n > 0).map(|(verdict, n)| format!("{n} {}", verdict.name()));
    let remedy = match kinds[0].0 {
        Verdict::TesterLimited => {
            "The tester could not send the offered load: run again on an idle machine, or with lower rates."
        }
        Verdict::Noisy => "Other programs used the CPUs: run again on an idle machine.",
        Verdict::Invalid | Verdict::Valid => "The findings of the report give the reasons.",
    };
    Some(format!(
        "This run has no result: none of its {} trials of devices is valid ({}). {remedy}",
        trials.len(),
        list(&named.collect::<Vec<_>>())
    ))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Measured, run, shown};
    use super::*;

    #[test]
    fn a_run_without_a_valid_trial_says_so_first() {
        let point =
            |flows| Measured { dut: "kernel-nat", frame: 64, settings: vec![("flows", flows)], fps: 1e5 };
        let mut data = run(&[point("1"), point("1000")]);
        assert_eq!(sentence(&data), None);
        for trial in data.points.iter_mut().flat_map(|point| &mut point.trials) {
            trial.verdict = Verdict::TesterLimited;
        }
        let said = shown(&data);
        assert!(said.starts_with("This run has no result: none of its 34 trials of devices is valid (34 tester-limited). The tester"), "{said}");
    }
}
