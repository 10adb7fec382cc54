//! Every scenario of `tests/` at the root of the project, against the plane in virtual time.

use std::path::Path;

use weir_plane::scenario::{VirtualNode, read, suites};

#[test]
fn the_plane_does_as_the_scenarios_say() {
    let (mut wrong, mut cached) = (Vec::new(), 0);
    for (name, scenarios) in suites() {
        for scenario in scenarios {
            for (how, mut node) in [
                ("frame by frame", VirtualNode::default()),
                ("in batches", VirtualNode::default().in_batches()),
                ("hears of time only when something is due", VirtualNode::default().when_due()),
                ("with a flow cache", VirtualNode::default().with_flow_caches()),
                ("in batches with a flow cache", VirtualNode::default().in_batches().with_flow_caches()),
            ] {
                if let Err(text) = scenario.run(&mut node) {
                    let (line, reference, title) = (scenario.line, &scenario.reference, &scenario.title);
                    wrong.push(format!("{name}:{line}: {reference}: {title}, {how}: {text}"));
                }
                cached += node.cached_frames();
            }
        }
    }
    assert!(wrong.is_empty(), "{} scenarios failed:\n{}", wrong.len(), wrong.join("\n"));
    println!("{cached} frames passed by a flow cache");
    assert!(cached > 100, "only {cached} frames passed by a flow cache");
}

#[test]
fn every_scenario_ships() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests");
    let files = std::fs::read_dir(&folder).expect("the folder").map(|file| file.expect("a file").file_name());
    let names = files.map(|name| name.to_string_lossy().into_owned());
    let mut files: Vec<_> = names.filter(|name| name.ends_with(".txt")).collect();
    files.sort();
    let mut shipped: Vec<_> = suites().into_iter().map(|(name, _)| name.to_string()).collect();
    shipped.sort();
    assert_eq!(shipped, files);
}

#[test]
fn sessions_are_shown_with_the_addresses_of_their_hosts() {
    let text = "== shown: of both kinds\n\
                node nat(public 192.0.2.1, prefix64 2001:db8:64::/96)\n\
                0ms in  udp [2001:db8::1]:5 > [2001:db8:64::c613:9]:53\n\
                    out udp 192.0.2.1:* > 198.19.0.9:53\n\
                1ms in  tcp 198.18.0.1:5 > 198.19.0.9:80 S\n\
                    out tcp 192.0.2.1:* > 198.19.0.9:80 S\n\
                2ms in  tcp 198.18.0.1:5 > 198.19.0.9:81 S\n\
                    out tcp 192.0.2.1:* > 198.19.0.9:81 S\n";
    let mut node = VirtualNode::default();
    read(text).expect("a scenario")[0].run(&mut node).expect("it is so");
    let shown: Vec<String> = node.sessions().concat();
    let outside = |far: &str| {
        let line = shown.iter().find(|line| line.ends_with(&format!("198.19.0.9:{far}"))).expect(far);
        line.split(" as ").nth(1).and_then(|rest| rest.split(' ').next()).expect("an end").to_string()
    };
    assert_eq!(outside("80"), outside("81"), "of one mapping: {shown:?}");
    let begins = ["udp [2001:db8::1]:5 as 192.0.2.1:", "tcp 198.18.0.1:5 as 192.0.2.1:"];
    assert!(begins.iter().all(|begin| shown.iter().any(|line| line.starts_with(begin))), "{shown:?}");
}
