//! Packaging: the Debian package, the container image, the dashboard.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use weir_testkit::{Folder, output};

use crate::weir::WEIR;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn one_command_makes_a_package_with_all_that_belongs_to_the_program() {
    if !Command::new("dpkg-deb").arg("--version").output().is_ok_and(|output| output.status.success()) {
        return println!("skipped: no dpkg-deb");
    }
    let folder = Folder::new();
    let mut command = Command::new(root().join("packaging/deb"));
    command.args(["-b", WEIR, "-o"]).arg(&folder);
    // What is prepared goes there, too. A test program is large: it is not compressed.
    command.env("CARGO_TARGET_DIR", &folder).env("DPKG_DEB_COMPRESSOR_TYPE", "none");
    let made = output(&mut command).expect("it starts");
    let said = String::from_utf8_lossy(&made.stdout).trim().to_string();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let list = output(Command::new("dpkg-deb").args(["-c", &said])).expect("dpkg-deb");
    let list = String::from_utf8_lossy(&list.stdout).into_owned();
    for file in [
        "usr/bin/weir",
        "usr/bin/weir-archive",
        "usr/bin/weir-bngd",
        "usr/share/man/man1/weir.1.gz",
        "usr/share/man/man1/weir-run.1.gz",
        "usr/share/bash-completion/completions/weir",
        "usr/share/zsh/vendor-completions/_weir",
        "usr/share/fish/vendor_completions.d/weir.fish",
        "usr/lib/systemd/system/weir-node@.service",
        "usr/lib/systemd/system/weir-bng@.service",
        "usr/lib/systemd/system/weir-detect@.service",
        "usr/share/doc/weir/LICENSE-MIT",
        "usr/share/weir/grafana-weir.json",
    ] {
        assert!(list.lines().any(|line| line.ends_with(&format!("./{file}"))), "no {file} in\n{list}");
    }
    assert!(list.lines().all(|line| line.contains(" root/root ")), "{list}");
    let control = output(Command::new("dpkg-deb").args(["-f", &said])).expect("dpkg-deb");
    let control = String::from_utf8_lossy(&control.stdout).into_owned();
    for field in [concat!("Version: ", env!("CARGO_PKG_VERSION")), "Depends: libc6 (>= 2.", "Package: weir"] {
        assert!(control.contains(field), "{control}");
    }
}

#[test]
fn the_units_of_the_package_are_those_that_weir_writes() {
    // `weir node unit` knows the file and its interfaces; all else is the same.
    let own = read("crates/weir/src/node/unit.rs");
    let (_, own) = own.split_once("RuntimeDirectory=weir/%N\n").expect("the unit in its source");
    let (own, _) = own.split_once("[Install]").expect("its end");
    let own: BTreeSet<_> = own.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    let unit = read("packaging/weir-node@.service");
    let missing: Vec<_> = own.iter().filter(|line| !unit.lines().any(|other| other == **line)).collect();
    assert!(missing.is_empty(), "packaging/weir-node@.service lacks {missing:?}");
}

#[test]
fn the_dashboard_asks_only_for_metrics_that_there_are() {
    let dashboard: Value = serde_json::from_str(&read("docs/grafana-weir.json")).expect("JSON");
    let mut asked = BTreeSet::new();
    for panel in dashboard["panels"].as_array().expect("panels") {
        for target in panel["targets"].as_array().expect("targets") {
            let query = target["expr"].as_str().expect("a query");
            let words = query.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
            asked.extend(words.filter_map(|word| word.strip_prefix("weir_")).map(str::to_string));
        }
    }
    assert!(asked.len() >= 10, "{asked:?}");
    let sources = ["weir/src/capture/prometheus.rs", "detectd/src/metrics.rs", "control/src/reported.rs"];
    let sources = sources.map(|name| read(&format!("crates/{name}"))).concat();
    for metric in asked {
        let is_there =
            sources.contains(&format!("\"{metric}\"")) || sources.contains(&format!("weir_{metric} "));
        assert!(is_there, "no program has the metric weir_{metric}");
    }
}

/// The image from the package, on a base of Debian's packages, and quick in it: frames by the XDP tester, with the capabilities
/// that the Containerfile names.
#[test]
fn quick_measures_in_a_container() {
    let Some(base) = base_image() else {
        return println!("skipped: no podman with a base image: packaging/container -f debian makes one");
    };
    let mut command = Command::new(root().join("packaging/container"));
    command.args(["-b", WEIR, "-n", "weir-test", "-f", &base, "-t"]).env("DPKG_DEB_COMPRESSOR_TYPE", "none");
    let folder = Folder::new();
    let output = output(command.env("CARGO_TARGET_DIR", &folder)).expect("it starts");
    let _ = Command::new("podman").args(["rmi", "-f", "weir-test"]).output();
    let said =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    assert!(output.status.success() && said.contains("by the XDP tester"), "{said}");
}

/// The base of Debian's packages, if it is here already: tests fetch nothing.
fn base_image() -> Option<String> {
    let list =
        Command::new("podman").args(["images", "--format", "{{.Repository}}:{{.Tag}}"]).output().ok()?;
    let list = String::from_utf8_lossy(&list.stdout).into_owned();
    list.lines().find(|name| name.contains("/weir-base:")).map(str::to_string)
}
