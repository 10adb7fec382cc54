use super::*;

#[test]
fn percentiles_are_times_that_occurred() {
    let all = Percentiles::of((1..=1000).rev().collect());
    assert_eq!((all.count, all.p50, all.p90, all.p99, all.p999, all.max), (1000, 500, 900, 990, 999, 1000));
    assert_eq!(
        Percentiles::of(vec![7]),
        Percentiles { count: 1, mean: 7, p50: 7, p90: 7, p99: 7, p999: 7, max: 7 }
    );
    assert_eq!(Percentiles::of(Vec::new()), Percentiles::default());
}

#[test]
fn threads_share_the_work_and_their_sums_are_one() {
    let seen = |n: u64| Seen {
        begun: n,
        latency: vec![n],
        failed: BTreeMap::from([("refused".to_string(), n)]),
        in_flight_max: n,
        ..Seen::default()
    };
    let to = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 1);
    let demand = Demand {
        to,
        reply: Reply::Busy,
        mode: Mode::Closed(2),
        seconds: 2.0,
        warm_up_s: 0.5,
        threads: 2,
        sources: 1,
        closing: Closing::AfterReply,
    };
    let all = seen(1).and(seen(3)).outcome(&demand);
    assert_eq!((all.begun, all.latency.max, all.failed["refused"], all.in_flight_max), (4, 3, 4, 4));
    assert_eq!((all.window_s, all.late), (1.5, None));
}

#[test]
fn sources_are_addresses_of_the_loopback() {
    assert_eq!(source(0, Ipv4Addr::LOCALHOST), Ipv4Addr::new(127, 0, 1, 0));
    assert!((0..70_000).all(|n| source(n, Ipv4Addr::LOCALHOST).is_loopback()));
    assert!(source(7, Ipv4Addr::new(198, 18, 0, 1)).is_unspecified(), "the kernel chooses");
}
