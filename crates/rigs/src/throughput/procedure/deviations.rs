//! Deviations of a plan from the procedures that it uses, one sentence each.

use std::time::Duration;

use weir_testbed::dut::DutKind;

use super::{back_to_back, bursts, forwarding, frame_loss, latency, pdv, recovery, reset, soak};
use crate::throughput::{Procedures, SearchLoss, SearchSpec, Throughput};
use weir_measure::search::classic;

/// Where a plan departs from the procedure that it uses, one sentence each.
pub(in crate::throughput) fn deviations(experiment: &Throughput) -> Vec<String> {
    let mut list = vec![
        "Trial phases: but for back-to-back frames, what is under way is waited for until nothing has arrived for 10 to \
         20 ms, not 2 s; there is no pause of 5 s between trials, and no routing update or learning frame, because routes and neighbours \
         are static (RFC 2544, section 23)."
            .to_string(),
    ];
    if experiment.dut.kind.iter().any(|&kind| kind != DutKind::EXTERNAL) {
        list.push(
            "The wires are veth pairs: there is no line rate, a receive queue holds 256 frames, and frames have no \
             preamble, gap or FCS; sizes are given as if they had."
                .to_string(),
        );
    }
    list.extend(search_deviations(&experiment.search));
    if experiment.search_loss == SearchLoss::Running {
        list.push(
            "Search: frames that were lost while the CPU of tester or device stood still, or did work that has no part in the trial, \
             and by the queue that filled meanwhile, do not count as loss (`search.loss`). The RFCs count them; trials have both."
                .to_string(),
        );
    }
    if experiment.capacity.is_some() {
        list.push(
            "Forwarding capacity is no figure of an RFC: it is close to the forwarding rate under overload of RFC 2889, section \
             5.1, but the median over windows of 16 ms in which tester and device both ran."
                .to_string(),
        );
    }
    list.extend(procedure_deviations(&experiment.procedures));
    list
}

fn procedure_deviations(procedures: &Procedures) -> Vec<String> {
    let lists = [
        procedures.latency.as_ref().map(latency::deviations),
        procedures.pdv.as_ref().map(pdv::deviations),
        procedures.frame_loss.as_ref().map(frame_loss::deviations),
        procedures.back_to_back.as_ref().map(back_to_back::deviations),
        procedures.recovery.as_ref().map(recovery::deviations),
        procedures.reset.as_ref().map(reset::deviations),
        procedures.bursts.as_ref().map(bursts::deviations),
        procedures.forwarding.as_ref().map(forwarding::deviations),
        procedures.soak.as_ref().map(soak::deviations),
    ];
    lists.into_iter().flatten().flatten().collect()
}

fn search_deviations(search: &SearchSpec) -> Vec<String> {
    let seconds = |d: Duration| format!("{} s", d.as_secs_f64());
    match search {
        SearchSpec::Mlrsearch(spec) => spec
            .goals
            .iter()
            .filter(|g| g.final_trial < Duration::from_secs(1) || g.duration_sum < Duration::from_secs(21))
            .map(|g| {
                format!(
                    "Goal {}: trials of {} and a duration sum of {}, where FD.io CSIT uses 1 s and 21 s.",
                    g.name,
                    seconds(g.final_trial),
                    seconds(g.duration_sum)
                )
            })
            .collect(),
        SearchSpec::Rfc2544(spec) => {
            let mut list = Vec::new();
            if spec.trial < Duration::from_secs(60) {
                list.push(format!(
                    "Trials of {}, where RFC 2544 section 24 wants 60 s.",
                    seconds(spec.trial)
                ));
            }
            if spec.loss_ratio > 0.0 {
                let percent = spec.loss_ratio * 100.0;
                list.push(format!("A loss of {percent} % passes; RFC 2544 section 26.1 allows none."));
            }
            list
        }
        SearchSpec::Classic(spec) => {
            let published = classic::Config::published(1.0, 2.0);
            let mut list = Vec::new();
            let mut differs = |what: &str, here: String, there: String| {
                if here != there {
                    list.push(format!("{what}: {here}, where the published procedure has {there}."));
                }
            };
            differs("Trial", seconds(spec.trial), seconds(published.trial));
            differs("Trials at each load", spec.trials.to_string(), published.trials.to_string());
            differs("Worst trials discarded", spec.discard.to_string(), published.discarded.to_string());
            differs("Mean loss", spec.mean_loss.to_string(), published.mean_loss.to_string());
            differs(
                "Loss of half of the trials",
                spec.half_loss.to_string(),
                published.typical_loss.to_string(),
            );
            list
        }
        SearchSpec::Fixed(_) | SearchSpec::None => Vec::new(),
    }
}
