//! The experiment `files`: how many, how large, where, and what is durable in the end.

use std::path::PathBuf;
use std::time::Duration;

use toml_edit::Value;
use weir_apps::files::{Durability, Method};
use weir_config::rate::quantity;
use weir_config::{Section, shown, value};

/// The experiment. Lists have at least one value.
#[derive(Debug, Clone, PartialEq)]
pub struct Files {
    /// Where files are made.
    pub directory: PathBuf,
    pub(super) file_systems: Vec<FileSystem>,
    /// Files of a trial.
    pub files: u32,
    /// Bytes of a file.
    pub sizes: Vec<u32>,
    /// Threads, or files at a time.
    pub workers: Vec<u32>,
    /// What is durable in the end.
    pub durabilities: Vec<Durability>,
    /// How calls are made.
    pub methods: Vec<Method>,
    pub(super) peers: Vec<Peer>,
    /// Rounds, at least 1.
    pub rounds: u32,
}

/// Where files are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileSystem {
    /// That of the directory.
    Given,
    /// Memory: what the calls themselves cost.
    Tmpfs,
    Ext4,
    Xfs,
    Btrfs,
    F2fs,
}

impl FileSystem {
    pub(super) const ALL: [(FileSystem, &'static str); 6] = [
        (FileSystem::Given, "given"),
        (FileSystem::Tmpfs, "tmpfs"),
        (FileSystem::Ext4, "ext4"),
        (FileSystem::Xfs, "xfs"),
        (FileSystem::Btrfs, "btrfs"),
        (FileSystem::F2fs, "f2fs"),
    ];

    pub(super) fn name(self) -> &'static str {
        FileSystem::ALL.iter().find(|(of, _)| *of == self).expect("all are in ALL").1
    }
}

/// Another program that creates files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Peer {
    FsMark,
    Fio,
}

impl Peer {
    pub(super) const ALL: [(Peer, &'static str); 2] = [(Peer::FsMark, "fs_mark"), (Peer::Fio, "fio")];

    pub(super) fn name(self) -> &'static str {
        Peer::ALL.iter().find(|(of, _)| *of == self).expect("all are in ALL").1
    }
}

/// The program that creates the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Who {
    Weir(Method),
    Peer(Peer),
}

impl Who {
    pub(super) fn name(self) -> &'static str {
        match self {
            Who::Weir(method) => method.name(),
            Who::Peer(peer) => peer.name(),
        }
    }
}

/// What is measured at a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Work {
    pub(super) file_system: FileSystem,
    pub(super) bytes: u32,
    pub(super) workers: u32,
    pub(super) durability: Durability,
    pub(super) who: Who,
}

impl Files {
    /// About how long it takes: disks differ by far.
    pub(super) fn estimate(&self) -> Duration {
        let of = |work: &Work| {
            let us = match (work.file_system, work.durability) {
                (FileSystem::Tmpfs, _) => 100,
                (_, Durability::None) => 900,
                (_, Durability::Syncfs | Durability::Direct) => 1500,
                (_, Durability::Fsync | Durability::FsyncDir) => 4000,
            };
            Duration::from_micros(us + u64::from(work.bytes) / 50) * self.files
        };
        self.work().iter().map(of).sum::<Duration>() * self.rounds
    }

    /// What the largest trial takes of a disk, bytes, with what file systems add.
    pub(super) fn bytes(&self) -> u64 {
        let size = self.sizes.iter().max().copied().unwrap_or(0);
        u64::from(self.files) * (u64::from(size).next_multiple_of(4096) + 4096)
    }

    /// All points.
    pub(super) fn work(&self) -> Vec<Work> {
        let mut list = Vec::new();
        for &file_system in &self.file_systems {
            for &bytes in &self.sizes {
                for &workers in &self.workers {
                    for &durability in &self.durabilities {
                        let ours = self.methods.iter().map(|&method| Who::Weir(method));
                        let plain = matches!(durability, Durability::None | Durability::Fsync);
                        let peers = self.peers.iter().filter(|_| plain).map(|&peer| Who::Peer(peer));
                        let of = |who| Work { file_system, bytes, workers, durability, who };
                        list.extend(ours.chain(peers).map(of));
                    }
                }
            }
        }
        list
    }
}

/// Reads `[files]`.
pub(super) fn read(section: Section<'_>) -> Option<Files> {
    let directory = section.one("directory", value::text);
    let file_systems = section.axis("file_system", value::choice("file system", &FileSystem::ALL));
    let files = section.required("files", "10000", value::count(1..=1_000_000));
    let sizes = section.axis("size", size);
    let workers = section.axis("workers", value::count(1..=256));
    let durabilities = section.axis("durability", value::choice("durability", &Durability::ALL));
    let methods = section.axis("method", value::choice("method", &Method::ALL));
    let peers = section.axis("peers", value::choice("program", &Peer::ALL));
    let rounds = section.one("rounds", value::count(1..=1000));
    let (sizes, durabilities) = (sizes.unwrap_or(vec![4096]), durabilities.unwrap_or(vec![Durability::None]));
    if durabilities.contains(&Durability::Direct) {
        for (i, size) in sizes.iter().enumerate().filter(|(_, size)| **size % 4096 != 0) {
            let text =
                format!("O_DIRECT writes whole blocks, which {size} bytes are not: use multiples of 4k");
            section.wrong_entry("size", i, text);
        }
    }
    section.finish();
    Some(Files {
        directory: directory.unwrap_or(".".into()).into(),
        file_systems: file_systems.unwrap_or(vec![FileSystem::Given]),
        files: files?,
        sizes,
        workers: workers.unwrap_or(vec![1]),
        durabilities,
        methods: methods.unwrap_or(vec![Method::Calls]),
        peers: peers.unwrap_or_default(),
        rounds: rounds.unwrap_or(5),
    })
}

/// `4k` is 4096 here, as files are counted.
fn size(value: &Value) -> Result<u32, String> {
    let text = shown(value);
    let (number, unit) = match text.trim().to_ascii_lowercase() {
        text if text.ends_with('k') => (text.trim_end_matches('k').to_string(), 1024.0),
        text if text.ends_with('m') => (text.trim_end_matches('m').to_string(), 1024.0 * 1024.0),
        text => (text, 1.0),
    };
    let bytes = quantity(&number).ok().map(|number| number * unit);
    let bytes = bytes.filter(|bytes| bytes.fract() == 0.0 && (1.0..=16.0 * 1024.0 * 1024.0).contains(bytes));
    bytes
        .map(|bytes| bytes as u32)
        .ok_or_else(|| format!("`{text}` is no size of a file: use 1 to 16M bytes, such as \"4k\""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PLANS;
    use weir_testkit::{golden, set_mistakes};

    fn files(sets: &[&str]) -> Result<Files, String> {
        let sets: Vec<String> = sets.iter().map(|set| set.to_string()).collect();
        let plan = PLANS.load("files", &sets).map_err(|error| error.to_string())?;
        Ok(plan.experiment.of::<Files>().expect("of this rig").clone())
    }

    #[test]
    fn mistakes_have_remedies() {
        let sets = [
            "files.durability=fsnc",
            "files.size=0",
            "files.size=5000",
            "files.files=0",
            "files.file_system=ext3",
        ];
        golden!("src/files/mistakes.txt", &set_mistakes(&sets, |sets| PLANS.load("files", sets)));
        assert_eq!(
            files(&["files.size=[4k, 128K, 1m, 8192]"]).unwrap().sizes,
            [4096, 131_072, 1 << 20, 8192]
        );
    }

    #[test]
    fn the_short_form_is_short_and_peers_make_what_they_can() {
        let short = PLANS.load_short("files", &[]).unwrap();
        assert!(short.estimate() <= Duration::from_secs(120), "{:?}", short.estimate());
        let peers = |work: &Work| matches!(work.who, Who::Peer(_));
        let work = files(&[]).unwrap().work();
        assert!(work.iter().any(peers));
        let plain = [Durability::None, Durability::Fsync];
        assert!(work.iter().filter(|work| peers(work)).all(|work| plain.contains(&work.durability)));
    }
}
