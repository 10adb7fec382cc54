use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};

use super::*;
use crate::journal::clean;
use weir_testkit::Folder;

/// A machine in files: eth0 with three interrupts and queues, a virtio interface, one with a separate line, a veth.
fn machine(dir: &Path) -> Trees {
    let trees = Trees { sys: dir.join("sys"), proc: dir.join("proc") };
    let file = |path: PathBuf, content: &str| {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    };
    let interface = |name: &str, device: Option<&str>, queues: u32| {
        let folder = trees.sys.join("class/net").join(name);
        for n in 0..queues {
            file(folder.join(format!("queues/rx-{n}/rps_cpus")), "0\n");
            file(folder.join(format!("queues/tx-{n}/xps_cpus")), "0\n");
        }
        device.into_iter().for_each(|path| symlink(trees.sys.join(path), folder.join("device")).unwrap());
    };
    interface("eth0", Some("devices/pci/0000:01:00.0"), 2);
    for irq in [30, 9, 31] {
        file(trees.sys.join(format!("devices/pci/0000:01:00.0/msi_irqs/{irq}")), "msix");
    }
    // The bridge that it is behind has interrupts too.
    file(trees.sys.join("devices/pci/msi_irqs/40"), "msi");
    interface("ens3", Some("devices/pci/0000:02:00.0/virtio0"), 1);
    fs::create_dir_all(trees.sys.join("devices/pci/0000:02:00.0/virtio0")).unwrap();
    file(trees.sys.join("devices/pci/0000:02:00.0/msi_irqs/50"), "msix");
    interface("old0", Some("devices/pci/0000:03:00.0"), 1);
    file(trees.sys.join("devices/pci/0000:03:00.0/irq"), "11\n");
    interface("v0", None, 1);
    for irq in [9, 11, 30, 31, 40, 50] {
        file(trees.proc.join(format!("irq/{irq}/smp_affinity")), "f\n");
    }
    trees
}

fn spreading(interrupts: &str, rps: &str, xps: &str) -> Spreading {
    Spreading {
        interrupts: interrupts.parse().unwrap(),
        rps: rps.parse().unwrap(),
        xps: xps.parse().unwrap(),
        coalesce_us: None,
    }
}

/// What would be written for an interface, as `file value`, or why nothing can be.
fn plan(dir: &Path, interface: &str, spreading: &Spreading) -> Vec<String> {
    match spreading.settings(interface, &[0, 1, 2, 3], &machine(dir)) {
        Err(error) => vec![error.to_string()],
        Ok(settings) => settings
            .iter()
            .map(|setting| {
                let name = setting.path.strip_prefix(dir).unwrap().display().to_string();
                format!("{name} {}", setting.value)
            })
            .collect(),
    }
}

#[test]
fn work_is_shared_out_over_files() {
    for (interface, [interrupts, rps, xps], expected) in [
        ("eth0", ["default", "default", "default"], &[][..]),
        (
            "eth0",
            ["2-3", "default", "default"],
            &["proc/irq/9/smp_affinity 4", "proc/irq/30/smp_affinity 8", "proc/irq/31/smp_affinity 4"],
        ),
        (
            "eth0",
            ["default", "all", "1,3"],
            &[
                "sys/class/net/eth0/queues/rx-0/rps_cpus f",
                "sys/class/net/eth0/queues/rx-1/rps_cpus f",
                "sys/class/net/eth0/queues/tx-0/xps_cpus 2",
                "sys/class/net/eth0/queues/tx-1/xps_cpus 8",
            ],
        ),
        (
            "eth0",
            ["default", "off", "off"],
            &[
                "sys/class/net/eth0/queues/rx-0/rps_cpus 0",
                "sys/class/net/eth0/queues/rx-1/rps_cpus 0",
                "sys/class/net/eth0/queues/tx-0/xps_cpus 0",
                "sys/class/net/eth0/queues/tx-1/xps_cpus 0",
            ],
        ),
        ("ens3", ["1", "default", "default"], &["proc/irq/50/smp_affinity 2"]),
        ("old0", ["1", "default", "default"], &["proc/irq/11/smp_affinity 2"]),
    ] {
        let dir = Folder::new();
        assert_eq!(plan(&dir, interface, &spreading(interrupts, rps, xps)), expected, "{interface}");
    }
}

#[test]
fn queues_gather_frames_or_do_not() {
    for (us, time, polls) in [(50, "50000", "2"), (0, "0", "0")] {
        let dir = Folder::new();
        let spreading = Spreading { coalesce_us: Some(us), ..Default::default() };
        let files = [("gro_flush_timeout", time), ("napi_defer_hard_irqs", polls)];
        let expected = files.map(|(name, value)| format!("sys/class/net/v0/{name} {value}"));
        assert_eq!(plan(&dir, "v0", &spreading), expected);
    }
}

#[test]
fn what_cannot_be_spread_is_refused_with_a_remedy() {
    for (interface, [interrupts, rps, xps], words) in [
        (
            "v0",
            ["0", "default", "default"],
            "v0 has no interrupts, as it is a virtual interface: omit interrupts",
        ),
        (
            "eth0",
            ["off", "default", "default"],
            "interrupts = \"off\": an interrupt needs a CPU: name some, or \"all\"",
        ),
        (
            "v0",
            ["default", "default", "0-1"],
            "v0 has one transmit queue, so that XPS has no effect: omit xps, or use two CPUs or more",
        ),
        (
            "eth0",
            ["default", "3-4", "default"],
            "rps = \"3-4\": CPU 4 cannot do this work: use some of 0-3, or \"all\"",
        ),
        (
            "none",
            ["default", "0", "default"],
            "read DIR/sys/class/net/none/queues: No such file or directory (os error 2)",
        ),
    ] {
        let dir = Folder::new();
        let found = plan(&dir, interface, &spreading(interrupts, rps, xps));
        let text = found.join("; ").replace(&dir.display().to_string(), "DIR");
        assert_eq!(text, words, "{interface}");
    }
}

#[test]
fn sets_of_cpus_are_read_and_written() {
    for (text, written) in [
        ("0", "0"),
        ("3,0-1", "0-1,3"),
        ("1,2,3,2", "1-3"),
        ("all", "all"),
        ("off", "off"),
        ("default", "default"),
    ] {
        assert_eq!(text.parse::<Spread>().unwrap().to_string(), written);
    }
    for text in ["", "a", "2-1", "1-", "9999", "0;1"] {
        assert!(text.parse::<Spread>().unwrap_err().contains("use numbers such as"), "{text}");
    }
}

fn contents(settings: &[Setting]) -> Vec<String> {
    settings.iter().map(|setting| fs::read_to_string(&setting.path).unwrap().trim().to_string()).collect()
}

#[test]
fn files_of_the_host_get_their_content_back() {
    let dir = Folder::new();
    let settings = spreading("1", "0-1", "default").settings("eth0", &[0, 1], &machine(&dir)).unwrap();
    let journal = dir.join("journal");
    let written = write_for_now(&settings, Journal::in_dir(&journal)).unwrap();
    assert_eq!(contents(&settings), ["2", "2", "2", "3", "3"]);
    assert_eq!(fs::read_dir(&journal).unwrap().count(), 1);
    drop(written);
    assert_eq!(contents(&settings), ["f", "f", "f", "0", "0"]);
    assert_eq!(fs::read_dir(&journal).unwrap().count(), 0);

    // The second file cannot be written: the first one is as it was.
    fs::remove_file(&settings[1].path).unwrap();
    let error = write_for_now(&settings, Journal::in_dir(&journal)).unwrap_err().to_string();
    assert!(error.contains("irq/30/smp_affinity"), "{error}");
    assert_eq!(fs::read_to_string(&settings[0].path).unwrap(), "f\n");
}

/// The other half of the next test, run in a separate process: writes settings and waits to be killed.
#[test]
fn child_that_is_killed() {
    let Some(dir) = std::env::var_os("WEIR_TEST_SPREAD") else { return };
    let dir = Path::new(&dir);
    let settings = spreading("1", "default", "default").settings("eth0", &[0, 1], &machine(dir)).unwrap();
    let _written = write_for_now(&settings, Journal::in_dir(&dir.join("journal"))).unwrap();
    println!("\nready");
    std::io::stdin().read_line(&mut String::new()).unwrap();
    unreachable!("killed before its input ends");
}

#[test]
fn a_killed_run_is_undone_at_the_next_start() {
    let dir = Folder::new();
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "spread::tests::child_that_is_killed", "--nocapture"])
        .env("WEIR_TEST_SPREAD", &dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = std::io::BufReader::new(victim.stdout.take().unwrap());
    let mut line = String::new();
    while line.trim() != "ready" {
        line.clear();
        assert_ne!(std::io::BufRead::read_line(&mut said, &mut line).unwrap(), 0, "it ended");
    }
    let file = dir.join("proc/irq/9/smp_affinity");
    assert_eq!(fs::read_to_string(&file).unwrap(), "2");
    victim.kill().unwrap();
    victim.wait().unwrap();
    assert_eq!(clean(&dir.join("journal")).unwrap().undone.len(), 3);
    assert_eq!(fs::read_to_string(&file).unwrap(), "f\n");
}
