use super::super::measured::{self, tests::served};
use super::*;
use crate::first_screen;
use weir_record::fixture;
use weir_report::report::block::{page, terminal};
use weir_testkit::golden;

/// A point with two rounds in which a connection costs so much.
fn point(index: usize, server: &str, load: (&str, Mode), cpu_us: [u64; 2]) -> PointData {
    let mut data = fixture::point(index, server, 64, 1.0);
    let value = match load.1 {
        Mode::Closed(n) | Mode::Hold(n) => n.to_string(),
        Mode::Open(rate) => rate.to_string(),
    };
    let settings =
        [(MEASURES, ID), ("server", server), ("reply", "http"), (load.0, &value), ("client", "weir")];
    data.point.settings = settings.map(|(name, value)| (name.to_string(), value.to_string())).to_vec();
    let found = cpu_us.map(|us| {
        let mut served = Served { server_cpu_ns: us * 1000 * 1000, ..served(load.1) };
        if let Mode::Hold(n) = load.1 {
            (served.outcome.held, served.held_kib, served.held_tasks) =
                (n.into(), Some(4 * u64::from(n)), Some(0));
        }
        served
    });
    let trial = data.trials[1].clone();
    data.trials = found
        .iter()
        .enumerate()
        .map(|(i, served)| {
            let mut trial = trial.clone().with_detail(served);
            trial.key = Some(format!("round {}", i + 1));
            trial
        })
        .collect();
    data.point.result = Some(measured::result(&found, 2));
    data
}

fn run() -> RunData {
    let closed = ("concurrency", Mode::Closed(1000));
    let mut points = vec![
        point(0, "fork", closed, [200, 400]),
        point(1, "epoll", closed, [20, 40]),
        point(2, "io-uring", closed, [10, 30]),
        point(3, "nginx", closed, [40, 80]),
        point(4, "epoll", ("rate", Mode::Open(1000.0)), [25, 25]),
        point(5, "epoll", ("hold", Mode::Hold(1000)), [25, 25]),
    ];
    let mut absent = point(6, "haproxy", closed, [1, 1]);
    absent.trials.clear();
    absent.point.notes = vec!["haproxy is left out: it is not installed.".into()];
    points.push(absent);
    RunData { run: fixture::run(1), points }
}

/// What a terminal shows of it.
fn shown(data: &RunData) -> String {
    let found = findings(data).join("\n");
    [found, terminal(&parts(data))].join("\n\n").replace('\u{202f}', " ")
}

#[test]
fn each_load_has_a_table_and_ratios_are_those_of_the_rounds() {
    golden!("src/servers/report/golden/run.txt", &shown(&run()));
    let page = page(&parts(&run()));
    for text in ["Published", "fork: 300 us", "Shorter is better", "Waiting at most"] {
        assert!(page.contains(text), "{text}");
    }
    assert!(parts(&fixture::quick()).is_empty());
}

#[test]
fn the_first_screen_has_every_server_under_the_heaviest_load() {
    let mut data = run();
    // Another reply that fewer servers give, and a server that costs so much that its bar would hide the others.
    data.points.push(point(7, "fork-exec", ("concurrency", Mode::Closed(1000)), [5000, 9000]));
    data.points.push(point(8, "epoll", ("concurrency", Mode::Closed(10)), [5, 5]));
    golden!("src/servers/report/golden/answer.txt", &first_screen(&data));
    let answer = answer(&data).expect("servers");
    let page = page(&[Part { id: ID, heading: String::new(), blocks: answer.drawing.into_iter().collect() }]);
    assert!(page.contains("longer than the axis"), "{page}");
}

#[test]
fn a_rate_that_the_client_limits_is_a_lower_bound() {
    let mut data = run();
    for trial in data.points.iter_mut().flat_map(|point| &mut point.trials) {
        let mut served: Served = trial.detail().unwrap();
        served.client_cpu_ns = 990_000_000;
        *trial = trial.clone().with_detail(&served);
    }
    golden!("src/servers/report/golden/client-limited.txt", &shown(&data));
}
