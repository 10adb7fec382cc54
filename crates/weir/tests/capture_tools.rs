//! `weir run peers-capture` and `peers-detect` as a user runs them: each program captures what was sent, or tells the
//! attack, and says so in words that are read right.

use weir_testkit::need_root;

use crate::home::{Home, trials};

#[test]
fn what_programs_say_is_what_was_sent() {
    need_root!();
    let home = Home::new(&[]);
    std::fs::create_dir(home.path("files")).unwrap();
    let folder = format!("folder={}", home.path("files").display());
    let sets =
        ["rounds=1", "trial_s=0.1", "trials=1", "resolution=50%", "buffer_bytes=32M", "frame_bytes=64"];
    let sets: Vec<&str> = sets.into_iter().chain([folder.as_str()]).collect();
    let said = home.experiment("peers-capture", "capture_peers", &sets, &["--set=limits.retries=0"]);

    let data = home.record();
    let points = data["points"].as_array().unwrap();
    assert_eq!(points.len(), 1 + 3 * 5 + 1, "the sender alone, five programs at three jobs, and one at one");
    assert!(trials(&data).len() > 3 * 2, "ours, and the bed alone: {said}");
    for point in points {
        let (point, trials) = (&point["point"], point["trials"].as_array().unwrap());
        let name = format!("{} {}", point["dut"], point["settings"]);
        let own = point["dut"].as_str().unwrap().starts_with("weir");
        assert!(!own || !trials.is_empty(), "{name}: {said}");
        for trial in trials {
            let number = |key: &str| trial[key].as_f64().unwrap();
            let lines = trial["drop_counters"].as_array().unwrap();
            let known: f64 = lines.iter().map(|line| line["frames"].as_f64().unwrap()).sum();
            assert!(number("received") > 1000.0, "{name}: {trial}");
            assert_eq!(number("sent"), number("received") + known + number("unexplained"), "{name}");
            // Frames lost on a busy machine have a reason. Frames that dumpcap leaves in its ring are not counted.
            let limit = if point["dut"] == "dumpcap" { 0.05 * number("sent") } else { 0.0 };
            assert!(number("unexplained").abs() <= limit, "{name}: {trial}");
        }
    }
    assert_eq!(std::fs::read_dir(home.path("files")).unwrap().count(), 0, "files are gone");
}

#[test]
fn an_attack_is_reported_and_its_rate_is_held_against_what_arrived() {
    need_root!();
    let home = Home::new(&[]);
    let sets = ["rounds=1", "attack_fps=10k", "limit_fps=2k", "attack_s=20"];
    // On a busy machine the generator is late, which it says.
    let said = home.experiment("peers-detect", "detect_peers", &sets, &[]);

    let data = home.record();
    let points = data["points"].as_array().unwrap();
    assert_eq!(points.len(), 2, "{said}");
    assert!(!points[0]["trials"].as_array().unwrap().is_empty(), "{said}");
    for trial in trials(&data) {
        let detection = &trial["detection"];
        let number = |key: &str| detection[key].as_f64().unwrap_or_else(|| panic!("{key}: {trial}"));
        // It ended when it was reported, which needs only a part of the frames.
        assert!(number("after_s") < 20.0 && number("stated_fps") > 2000.0, "{trial}");
        assert!(number("true_fps") > 2000.0 && number("true_fps") < 11_000.0, "{trial}");
        assert_eq!(trial["unexplained"], 0, "{trial}");
    }
    let shown = home.weir(&["show", "last"]);
    assert!(String::from_utf8_lossy(&shown.stdout).contains("weir detect"), "{shown:?}");
}
