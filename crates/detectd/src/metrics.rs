//! The counters of `weir detect` in Prometheus text format.

use weir_detect::Status;

use weir_service::prometheus::{gauge, metric, quoted};

pub(crate) fn page(status: &Status) -> String {
    let one = |value| [(String::new(), value)].into_iter();
    let mut page = String::new();
    metric(&mut page, "detect_frames_total", "Frames with an IP header", one(status.frames));
    metric(&mut page, "detect_lost_frames_total", "Frames lost before they were counted", one(status.lost));
    metric(
        &mut page,
        "detect_foreign_frames_total",
        "Frames outside the watched networks",
        one(status.foreign),
    );
    let not_judged = status.not_judged.iter().map(|(gap, frames)| {
        let protocol = gap.protocol().map_or(String::new(), |of| format!(",protocol=\"{}\"", quoted(&of)));
        (format!("gap=\"{}\"{protocol}", gap.name()), frames)
    });
    metric(&mut page, "detect_not_judged_frames_total", "Frames that could not be judged", not_judged);
    metric(
        &mut page,
        "detect_evicted_hosts_total",
        "Busy hosts that were evicted from memory",
        one(status.hosts_evicted),
    );
    gauge(&mut page, "detect_hosts", "Hosts and directions in memory", status.hosts);
    gauge(&mut page, "detect_attacks", "Current attacks", status.attacks);
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_metric_has_its_type_and_value() {
        let page = page(&Status { frames: 7, attacks: 2, ..Status::default() });
        for line in [
            "# TYPE weir_detect_frames_total counter\nweir_detect_frames_total 7\n",
            "# TYPE weir_detect_attacks gauge\nweir_detect_attacks 2\n",
        ] {
            assert!(page.contains(line), "{page}");
        }
    }
}
