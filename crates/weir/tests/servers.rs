//! `weir run servers` as a user runs it: every server and client that is here, each load, and what is recorded of it.

use weir_testkit::need_root;

use crate::home::{Home, trials};

#[test]
fn each_server_is_loaded_in_each_way() {
    need_root!();
    let home = Home::new(&[]);
    let sets = [
        "rounds=1",
        "trial_s=0.1",
        "reply=[\"busy\",\"http\"]",
        "concurrency=20",
        "rate=200",
        "hold=10",
        "workers=3",
        "architecture=[\"fork\",\"prefork\",\"epoll\",\"reuseport\"]",
    ];
    let said = home.experiment("servers", "servers", &sets, &[]);

    let data = home.record();
    let points = data["points"].as_array().unwrap();
    assert_eq!(
        points.len(),
        4 * 3 + 6 * 2 + 4,
        "ours by three loads, all by two, wrk and oha with two servers"
    );
    for point in points {
        let (point, trials) = (&point["point"], point["trials"].as_array().unwrap());
        let name = format!("{}", point["settings"]);
        let left_out =
            point["notes"].as_array().unwrap().iter().any(|n| n.as_str().unwrap().contains("left out"));
        assert_eq!(trials.len(), usize::from(!left_out), "{name}: {said}");
        for trial in trials {
            let (served, outcome) = (&trial["served"], &trial["served"]["outcome"]);
            let number = |key: &str| served[key].as_f64().unwrap_or_else(|| panic!("{key}: {name}: {trial}"));
            assert!(outcome["answered"].as_u64().unwrap() > 0, "{name}: {trial}");
            assert!(number("server_cpu_ns") > 0.0 && number("client_cpu_ns") > 0.0, "{name}: {trial}");
            assert!(served["counters"]["ListenOverflows"].as_u64().is_some(), "{name}: {trial}");
            match served["mode"]["hold"].as_u64() {
                // Three processes hold three connections; others hold all.
                Some(n) => {
                    let most = if point["dut"] == "prefork" { 3 } else { n };
                    assert_eq!(outcome["held"], most, "{name}: {trial}");
                }
                None => assert_eq!(outcome["failed"].as_object().unwrap().len(), 0, "{name}: {trial}"),
            }
        }
    }
    let of_ours =
        trials(&data).into_iter().filter(|trial| !trial["served"]["shares"].as_array().unwrap().is_empty());
    for trial in of_ours {
        let shares = trial["served"]["shares"].as_array().unwrap();
        let sum: u64 = shares.iter().map(|share| share.as_u64().unwrap()).sum();
        // wrk leaves connections unread in the end.
        assert!(sum >= trial["served"]["outcome"]["answered"].as_u64().unwrap(), "{trial}");
    }
    let shown = home.weir(&["show", "last"]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    for text in ["Closed loop:", "Open loop:", "Connections that stay open:", "Each server beside epoll"] {
        assert!(shown.contains(text), "{text} in {shown}");
    }
}
