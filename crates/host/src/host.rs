//! The facts about a machine: /proc, /sys, and the ethtool settings of its NICs.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use weir_linux::ethtool::{self, Rings};
use weir_linux::ethtool::{Offload, offload};
use weir_linux::rtnl::Rtnl;

/// What its driver and the kernel's queue say of a NIC.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Nic {
    /// `None`: the driver has none, or does not say.
    pub rings: Option<Rings>,
    /// Queues now and the most that there can be; `None`: not said.
    pub queues: Option<(u32, u32)>,
    /// Does it stop the sender by pause frames (IEEE 802.3, annex 31B) or let itself be stopped? `None`: not said.
    pub pauses: Option<bool>,
    /// Does it put received segments together (LRO)? `None`: not said.
    pub lro: Option<bool>,
    /// Are received segments put together until the stack has seen them (GRO)? `None`: not said.
    pub gro: Option<bool>,
    /// Does it cut segments of TCP (TSO)? `None`: not said.
    pub tso: Option<bool>,
    /// The queueing discipline at its root: `mq`, `fq_codel`, ...; `None`: not said.
    pub root_queue: Option<String>,
}

/// A machine, or a folder that looks like one.
#[derive(Debug, Clone)]
pub struct Host {
    root: PathBuf,
    nics: BTreeMap<String, Nic>,
}

impl Host {
    /// This machine, with the interfaces of the calling thread's network namespace. Reads and changes nothing.
    pub fn here() -> Host {
        let mut host = Host { root: PathBuf::from("/"), nics: BTreeMap::new() };
        host.nics = host.interfaces().into_iter().map(|name| (name.clone(), nic(&name))).collect();
        host
    }

    /// A folder with files like those of /proc and /sys, for tests.
    pub fn at(root: impl Into<PathBuf>, nics: impl IntoIterator<Item = (String, Nic)>) -> Host {
        Host { root: root.into(), nics: nics.into_iter().collect() }
    }

    /// Where a path of the machine is.
    pub(crate) fn place(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// A file without the white space around; `None` if it cannot be read.
    pub(crate) fn text(&self, path: &str) -> Option<String> {
        weir_disk::kernel_text(self.place(path)).ok().map(|text| text.trim().to_string())
    }

    /// A number in a file.
    pub(crate) fn number(&self, path: &str) -> Option<f64> {
        self.text(path)?.parse().ok()
    }

    /// The numbers of a setting such as `net.ipv4.tcp_rmem`.
    pub(crate) fn sysctl(&self, name: &str) -> Option<Vec<f64>> {
        let text = self.text(&format!("/proc/sys/{}", name.replace('.', "/")))?;
        text.split_ascii_whitespace().map(|word| word.parse().ok()).collect()
    }

    /// Its first number.
    pub(crate) fn sysctl_one(&self, name: &str) -> Option<f64> {
        self.sysctl(name)?.first().copied()
    }

    /// Entries of a folder in the order of their names.
    pub(crate) fn names(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.place(folder)).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    }

    /// Interfaces that carry frames: without `lo`, and without those of other network namespaces, which /sys may show.
    pub(crate) fn interfaces(&self) -> Vec<String> {
        let here = self.text("/proc/net/dev");
        let is_here = |name: &str| match &here {
            Some(text) => text.lines().any(|line| line.trim_start().split(':').next() == Some(name)),
            None => true,
        };
        self.names("/sys/class/net")
            .into_iter()
            .filter(|name| name != "lo" && name != "bonding_masters" && is_here(name))
            .collect()
    }

    /// What its driver says of an interface.
    pub(crate) fn nic(&self, interface: &str) -> Nic {
        self.nics.get(interface).cloned().unwrap_or_default()
    }

    /// CPUs that can be used.
    pub(crate) fn cpus(&self) -> usize {
        let online = self.text("/sys/devices/system/cpu/online");
        online.map_or(1, |list| cpus_of(&list).len()).max(1)
    }

    /// Memory of the machine, bytes (proc_meminfo(5)).
    pub(crate) fn memory_bytes(&self) -> Option<f64> {
        let text = self.text("/proc/meminfo")?;
        let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
        line.split_ascii_whitespace().next()?.parse::<f64>().ok().map(|kib| kib * 1024.0)
    }
}

/// The CPUs of a list such as `0-3,8`.
pub(crate) fn cpus_of(list: &str) -> Vec<usize> {
    let ranges = list.split(',').filter(|range| !range.trim().is_empty());
    let range = |text: &str| {
        let (first, last) = text.trim().split_once('-').unwrap_or((text.trim(), text.trim()));
        Some(first.parse::<usize>().ok()?..=last.parse::<usize>().ok()?)
    };
    ranges.filter_map(range).flatten().collect()
}

/// What the driver says; an interface that says nothing (veth, loopback) has nothing of it.
fn nic(name: &str) -> Nic {
    Nic {
        rings: ethtool::rings(name).ok(),
        queues: ethtool::queues(name).ok(),
        pauses: ethtool::pauses(name).ok(),
        lro: ethtool::lro(name).ok(),
        gro: offload(name, Offload::Gro).ok(),
        tso: offload(name, Offload::Tso).ok(),
        root_queue: root_queue(name),
    }
}

fn root_queue(name: &str) -> Option<String> {
    let mut rtnl = Rtnl::open().ok()?;
    let index = rtnl.link(name).ok()?.ifindex;
    rtnl.root_queue(index).ok()?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus() {
        assert_eq!(cpus_of("0-3,8"), [0, 1, 2, 3, 8]);
        assert_eq!(cpus_of(""), [0; 0]);
        assert_eq!(cpus_of("x,2"), [2], "what is no number is left out");
    }
}
