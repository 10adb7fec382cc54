//! What stops of CPUs have to do with a rate without loss: of a virtual machine the host stops a CPU now and then, and what is
//! lost meanwhile is no loss of the device.

use crate::record::{Purpose, Trial};
use crate::run_data::{PointData, RunData};
use crate::view::format::full;

use super::axes::devices;

/// The trials of a search with a witness of stops, in the order of their loads.
fn witnessed(point: &PointData) -> Vec<&Trial> {
    let searched =
        point.valid().filter(|trial| trial.purpose == Purpose::Search && trial.witnessed.is_some());
    let mut trials: Vec<&Trial> = searched.collect();
    trials.sort_by(|a, b| a.counts().offered_fps.total_cmp(&b.counts().offered_fps));
    trials
}

/// How many of the trials that lost frames did so in stops alone. `None` where none did.
pub(super) fn sentence(data: &RunData) -> Option<String> {
    let lossy: Vec<&Trial> =
        devices(data).flat_map(witnessed).filter(|trial| trial.dut_loss_ratio() > 0.0).collect();
    let in_stops: Vec<&&Trial> = lossy.iter().filter(|trial| trial.running_loss_ratio() == 0.0).collect();
    let frames: u64 = in_stops.iter().map(|trial| trial.counts().lost).sum();
    (!in_stops.is_empty()).then(|| {
        format!(
            "Stops of CPUs lower these rates: in {} of the {} trials of searches with loss, all {} lost frames were lost while \
             a CPU was stopped (by the host, or by other work).",
            in_stops.len(),
            lossy.len(),
            full(frames as f64)
        )
    })
}

/// The highest load without loss while tester and device ran, frames/s, below which there was none either. It is a lower bound:
/// the search that counts all loss may not have gone higher. `None` where stops made no difference.
pub(super) fn rate_outside(point: &PointData) -> Option<f64> {
    let trials = witnessed(point);
    let clean = trials.iter().take_while(|trial| trial.running_loss_ratio() == 0.0);
    let highest = clean.last().filter(|trial| trial.dut_loss_ratio() > 0.0)?;
    Some(highest.counts().offered_fps)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Measured, run};
    use super::*;
    use crate::record::{Verdict, Witnessed};

    /// The first point of a run with trials at these loads, which lost so many frames, of them so many in stops.
    fn searched(trials: &[(f64, u64, u64)]) -> RunData {
        let mut data = run(&[Measured { dut: "kernel-forward", frame: 64, settings: Vec::new(), fps: 1e5 }]);
        let trial = |(fps, lost, lost_by_stops): &(f64, u64, u64)| {
            let witnessed = Some(Witnessed { stops: Vec::new(), lost_by_stops: *lost_by_stops });
            let trial = Trial {
                purpose: Purpose::Search,
                verdict: Verdict::Valid,
                witnessed,
                ..crate::fixture::clean_trial()
            };
            trial.counting(|counts| (counts.offered_fps, counts.sent, counts.lost) = (*fps, 100_000, *lost))
        };
        data.points[0].trials = trials.iter().map(trial).collect();
        data
    }

    #[test]
    fn losses_in_stops_are_told_from_others() {
        let data = searched(&[(4e5, 90, 90), (1e5, 0, 0), (2e5, 10, 10), (8e5, 5000, 20), (3e5, 0, 0)]);
        assert_eq!(rate_outside(&data.points[0]), Some(4e5));
        let said = sentence(&data).unwrap();
        assert!(said.contains("in 2 of the 3 trials of searches with loss, all 100 lost frames"), "{said}");
        let data = searched(&[(1e5, 0, 0), (2e5, 10, 0)]);
        assert_eq!((rate_outside(&data.points[0]), sentence(&data)), (None, None));
    }
}
