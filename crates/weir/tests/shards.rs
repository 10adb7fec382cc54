//! A grid in shards: measured by a shell's own means, merged from files, the same as one run.

use std::process::{Command, Output};

use weir_testkit::{Folder, output};

use crate::weir::WEIR;

/// Ten points: two of eight shards have two of them.
const GRID: &str = r#"
question = "Which queue is fair?"
experiment = "buffers"
[buffers]
queue = ["fifo", "pie"]
buffer_bdp = [0.25, 0.5, 1, 2, 4]
mix = "cubic+bbr1"
rate = "5M"
duration_s = 2
seeds = 2
"#;

/// A folder with the plan.
struct Site(Folder);

impl Site {
    fn new() -> Site {
        let folder = Folder::new();
        folder.file("grid.toml", GRID);
        Site(folder)
    }

    fn tried(&self, line: &str) -> Output {
        let mut command = Command::new("sh");
        let line = line.replace("weir ", &format!("{WEIR} "));
        output(command.args(["-c", &line]).current_dir(&self.0)).expect("a shell")
    }

    fn shell(&self, line: &str) -> String {
        let output = self.tried(line);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{line}: {said}");
        String::from_utf8(output.stdout).expect("text")
    }
}

#[test]
fn eight_shards_by_xargs_are_the_same_bytes_as_one_run() {
    let site = Site::new();
    site.shell("weir run grid.toml --seed 7 --quiet --no-report --store whole.db");
    site.shell(
        "seq 8 | xargs -P 4 -I{} sh -c \
         'weir run grid.toml --shard {}/8 --seed 7 --quiet --no-report --store {}.db --json > {}.json'",
    );
    site.shell("weir merge *.json --store merged.db");
    let figures = |store: &str| site.shell(&format!("weir export last --format figures --store {store}"));
    let (whole, merged) = (figures("whole.db"), figures("merged.db"));
    assert_eq!(whole, merged);
    assert!(whole.lines().count() > 10 * 5, "{whole}");
    let tables = |store: &str| site.shell(&format!("weir export last --format tabular --store {store}"));
    assert_eq!(tables("whole.db"), tables("merged.db"));
}

#[test]
fn a_shard_that_is_missing_or_of_another_seed_is_named() {
    let site = Site::new();
    for (shard, seed) in [("1/3", 7), ("2/3", 8)] {
        let file = format!("{}.json", shard.replace('/', "-"));
        site.shell(&format!(
            "weir run grid.toml --shard {shard} --seed {seed} --quiet --no-report --store {file}.db --json > {file}"
        ));
    }
    for (files, text) in [
        ("1-3.json", "weir: of 3 shards, these are missing: 2, 3"),
        (
            "1-3.json 2-3.json",
            "weir: shard 2/3 has a different seed than shard 1/3: run it again with the seed of the others",
        ),
    ] {
        let output = site.tried(&format!("weir merge {files} --store merged.db"));
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), said.trim_end()), (Some(1), text), "{files}");
    }
}
