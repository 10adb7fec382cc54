//! A small grid of each kind, and its first screen on a terminal of 80 columns.

use weir_testkit::golden;

use super::super::tests::{point, repeated, run_of};
use super::super::{BED, FIRST_SHARE, JAIN, PER_SQRT, SOJOURN, UTILISATION};
use crate::first_screen;
use weir_record::run_data::PointData;

fn shown(points: Vec<PointData>) -> String {
    first_screen(&run_of(points))
}

/// Points by queue, buffer, flows, mix; utilisation, Jain's index and the delay in ms.
fn grid(rows: &[(&str, &str, &str, &str, [f64; 3])]) -> Vec<PointData> {
    let of =
        |(i, (queue, buffer, flows, mix, [used, jain, ms])): (usize, &(&str, &str, &str, &str, [f64; 3]))| {
            let settings = [("queue", *queue), ("buffer_bdp", *buffer), ("flows", *flows), ("mix", *mix)];
            point(i, &settings, &[(UTILISATION, *used), (JAIN, *jain), (SOJOURN, ms / 1e3)])
        };
    rows.iter().enumerate().map(of).collect()
}

#[test]
fn a_grid_of_sizes_says_which_is_enough_and_which_queue_is_fair() {
    let rows = [
        ("fifo", "0.1", "2", "cubic", [0.7, 0.8, 2.0]),
        ("fifo", "1", "2", "cubic", [0.99, 0.9, 20.0]),
        ("fifo", "0.1", "2", "cubic+bbr2", [0.72, 0.55, 2.0]),
        ("fifo", "1", "2", "cubic+bbr2", [0.97, 0.6, 19.0]),
        ("fifo", "0.1", "20", "cubic", [0.96, 0.8, 2.0]),
        ("fifo", "1", "20", "cubic", [0.99, 0.9, 20.0]),
        ("ppv-drop-min", "0.1", "2", "cubic", [0.6, 0.97, 2.0]),
        ("ppv-drop-min", "1", "2", "cubic", [0.93, 0.99, 18.0]),
        ("ppv-drop-min", "0.1", "20", "cubic", [0.97, 0.99, 2.0]),
        ("ppv-drop-min", "1", "20", "cubic", [0.99, 0.99, 20.0]),
    ];
    golden!("src/buffers/report/golden/sizes.txt", &shown(grid(&rows)));
}

#[test]
fn many_queues_and_few_sizes_say_which_keeps_the_delay_short() {
    let of = |queue, mix, used, ms| (queue, "8", "10", mix, [used, 0.9, ms]);
    let mut rows = vec![
        of("fifo", "cubic", 1.0, 310.0),
        of("fifo", "bbr3", 0.99, 120.0),
        of("codel", "cubic", 0.97, 21.0),
        of("codel", "bbr3", 0.98, 30.0),
        of("fq-codel", "cubic", 0.97, 12.0),
        of("fq-codel", "bbr3", 0.96, 14.0),
        of("dualpi2", "cubic", 0.8, 9.0),
    ];
    golden!("src/buffers/report/golden/delay.txt", &shown(grid(&rows)));
    rows.retain(|row| row.0 == "dualpi2" || row.0 == "fifo");
    rows.iter_mut().for_each(|row| row.4[0] *= 0.8);
    golden!("src/buffers/report/golden/delay-idle.txt", &shown(grid(&rows)));
}

#[test]
fn two_congestion_controls_say_who_has_which_share() {
    let mut points = Vec::new();
    for (mix, flows, shares) in [
        ("bbr1+cubic", "2", [0.9, 0.6, 0.2]),
        ("bbr3+cubic", "2", [0.8, 0.7, 0.6]),
        ("bbr1+49*cubic", "50", [0.3, 0.3, 0.01]),
        ("cubic", "2", [0.5, 0.5, 0.5]),
    ] {
        for (size, share) in ["0.5", "2", "8"].iter().zip(shares) {
            let settings = [("mix", mix), ("flows", flows), ("buffer_bdp", *size)];
            points.push(point(points.len(), &settings, &[(UTILISATION, 0.99), (FIRST_SHARE, share)]));
        }
    }
    golden!("src/buffers/report/golden/shares.txt", &shown(points));
}

#[test]
fn buffers_by_the_root_say_whether_it_is_enough() {
    let of = |reno_at_one: f64| {
        let mut points = Vec::new();
        for (mix, flows, used) in [
            ("reno", "1", [0.8, reno_at_one, 0.99]),
            ("reno", "16", [0.9, 0.97, 0.99]),
            ("bbr1", "1", [0.96, 0.98, 0.99]),
            ("bbr1", "16", [0.97, 0.99, 0.99]),
        ] {
            for (size, used) in ["0.4", "1", "2"].iter().zip(used) {
                let settings = [("mix", mix), ("flows", flows), ("buffer_bdp", *size), (PER_SQRT, "true")];
                points.push(point(points.len(), &settings, &[(UTILISATION, used)]));
            }
        }
        shown(points)
    };
    golden!("src/buffers/report/golden/root.txt", &of(0.91));
    assert!(of(0.96).contains("Yes: RTT x C / sqrt(n)"), "{}", of(0.96));
}

#[test]
fn changes_of_the_rate_say_how_soon_they_are_followed() {
    let mut points = Vec::new();
    for (queue, mix, queue_s, filled_s) in [
        ("fifo", "cubic", [0.6, 0.7], vec![3.0]),
        ("fifo", "bbr3", [0.3, 0.4], vec![0.5, 0.7]),
        ("fq-codel", "cubic", [0.1, 0.2], vec![2.0, 2.5]),
        ("fq-codel", "bbr3", [0.08, 0.1], vec![0.4, 0.6]),
    ] {
        let changes = ("rate_changes", "20 s: 5000000, 40 s: 20000000");
        let settings = [("queue", queue), ("mix", mix), ("rate", "20000000"), ("duration_s", "60"), changes];
        let figures = [
            (UTILISATION, vec![0.9, 0.9]),
            ("longest queue after the change at 20 s", queue_s.to_vec()),
            ("link filled after the change at 20 s", vec![0.0, 0.0]),
            ("longest queue after the change at 40 s", vec![0.0, 0.0]),
            ("link filled after the change at 40 s", filled_s),
        ];
        points.push(repeated(points.len(), &settings, &figures));
    }
    golden!("src/buffers/report/golden/changes.txt", &shown(points));
}

#[test]
fn two_beds_say_how_far_they_are_apart() {
    let simulated = [
        ("fifo", "0.1", "4", "cubic", [0.9, 0.9, 2.0]),
        ("fifo", "1", "4", "cubic", [0.99, 0.9, 20.0]),
        ("pie", "1", "4", "cubic", [0.98, 0.95, 10.0]),
    ];
    let mut real = simulated;
    (real[0].4, real[1].4, real[2].4) = ([0.88, 0.8, 4.0], [0.99, 0.92, 21.0], [0.0, 0.0, 0.0]);
    let real = grid(&real).into_iter().map(|mut data| {
        data.point.settings.push((BED.to_string(), "real".to_string()));
        if data.setting("queue") == Some("pie") {
            data.point.result.as_mut().unwrap().procedures[0].figures.clear();
        }
        data
    });
    let points = grid(&simulated).into_iter().chain(real).collect();
    golden!("src/buffers/report/golden/beds.txt", &shown(points));
}
