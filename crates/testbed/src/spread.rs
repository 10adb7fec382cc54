//! CPUs and timing for the work of an interface: interrupts, RPS, XPS, coalescing.
//!
//! ```text
//! interrupt (smp_affinity) > driver, XDP > RPS: backlog of another CPU > stack ... > XPS: transmit queue by CPU
//! ```
//! Each choice is the content of a file, mostly a mask. Interfaces in namespaces of ours take theirs with them; what is
//! written to files of the host goes through the journal, and comes back when [`Written`] is dropped, or at the next start.
//!
//! Source: Documentation/networking/scaling.rst, Documentation/networking/napi.rst ("Software IRQ coalescing"),
//! Documentation/core-api/irq/irq-affinity.rst.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use weir_linux::cpu::cpu_mask;

use crate::error::{Error, Result};
use crate::journal::Journal;

/// CPUs that share some work.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Spread {
    /// As it is.
    #[default]
    AsIs,
    /// No CPU: it is not spread.
    Off,
    /// All CPUs that there are for it.
    All,
    /// These.
    Over(Vec<usize>),
}

/// CPUs for the work of an interface.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Spreading {
    /// Of its interrupts, each gets one of these CPUs, alternately.
    pub interrupts: Spread,
    /// What a receive queue gets is handed to these CPUs, by flow.
    pub rps: Spread,
    /// Each of these CPUs has a transmit queue of its own as far as there are as many; else they share them alternately.
    pub xps: Spread,
    /// So many us a receive queue gathers frames after it was found empty, before the next interrupt; `None`: as it is.
    pub coalesce_us: Option<u32>,
}

/// What a file is to hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Where.
    pub path: PathBuf,
    /// Its content: CPUs in hexadecimal, or a number.
    pub value: String,
}

/// Where the kernel shows interfaces and interrupts.
#[derive(Debug, Clone)]
pub struct Trees {
    /// /sys
    pub sys: PathBuf,
    /// /proc
    pub proc: PathBuf,
}

/// Files of the host that have been written; dropped, they get their old content back.
#[derive(Debug)]
pub struct Written(#[expect(dead_code, reason = "dropping it is the undo")] Journal);

impl Default for Trees {
    fn default() -> Trees {
        Trees { sys: "/sys".into(), proc: "/proc".into() }
    }
}

impl Spread {
    /// Its CPUs; `None`: as it is. `option` is its name in a plan.
    fn cpus(&self, option: &str, allowed: &[usize]) -> Result<Option<Vec<usize>>> {
        match self {
            Spread::AsIs => Ok(None),
            Spread::Off => Ok(Some(Vec::new())),
            Spread::All => Ok(Some(allowed.to_vec())),
            Spread::Over(cpus) => match cpus.iter().find(|cpu| !allowed.contains(cpu)) {
                None => Ok(Some(cpus.clone())),
                Some(cpu) => Err(Error::Input(format!(
                    "{option} = \"{self}\": CPU {cpu} cannot do this work: use some of {}, or \"all\"",
                    Spread::Over(allowed.to_vec())
                ))),
            },
        }
    }
}

impl Spreading {
    /// Is everything as it is?
    pub fn is_none(&self) -> bool {
        *self == Spreading::default()
    }

    /// Transmit queues that an interface needs for this.
    pub fn queues(&self, allowed: &[usize]) -> Result<u32> {
        Ok(self.xps.cpus("xps", allowed)?.map_or(1, |cpus| cpus.len().max(1)) as u32)
    }

    /// CPUs that RPS hands frames to; `None`: as it is.
    pub fn rps_cpus(&self, allowed: &[usize]) -> Result<Option<Vec<usize>>> {
        self.rps.cpus("rps", allowed)
    }

    /// What is to be written for an interface that the trees show; nothing is changed yet. `allowed` are the CPUs that
    /// may have the work.
    ///
    /// # Errors
    /// [`Error::Input`]: the interface does not have what is to be spread, or a CPU is none of `allowed`.
    pub fn settings(&self, interface: &str, allowed: &[usize], trees: &Trees) -> Result<Vec<Setting>> {
        let mut list = Vec::new();
        if let Some(cpus) = self.interrupts.cpus("interrupts", allowed)? {
            let files = interrupts(interface, trees);
            if files.is_empty() {
                return Err(Error::Input(format!(
                    "{interface} has no interrupts, as it is a virtual interface: omit interrupts"
                )));
            }
            if cpus.is_empty() {
                return Err(Error::Input(
                    "interrupts = \"off\": an interrupt needs a CPU: name some, or \"all\"".into(),
                ));
            }
            let one = |(path, cpu): (PathBuf, &usize)| Setting { path, value: cpu_mask(&[*cpu]) };
            list.extend(files.into_iter().zip(cpus.iter().cycle()).map(one));
        }
        if let Some(cpus) = self.rps_cpus(allowed)? {
            let file = |queue: PathBuf| Setting { path: queue.join("rps_cpus"), value: cpu_mask(&cpus) };
            list.extend(queues(interface, "rx-", trees)?.into_iter().map(file));
        }
        if let Some(cpus) = self.xps.cpus("xps", allowed)? {
            let queues = queues(interface, "tx-", trees)?;
            if queues.len() < 2 {
                return Err(Error::Input(format!(
                    "{interface} has one transmit queue, so that XPS has no effect: omit xps, or use two CPUs or more"
                )));
            }
            let n = queues.len();
            list.extend(queues.into_iter().enumerate().map(|(i, queue)| {
                let own: Vec<_> = cpus.iter().skip(i).step_by(n).copied().collect();
                Setting { path: queue.join("xps_cpus"), value: cpu_mask(&own) }
            }));
        }
        list.extend(self.coalesce_us.iter().flat_map(|&us| coalescing(interface, us, trees)));
        Ok(list)
    }
}

/// Polls without a frame after which a queue is left to its interrupt again.
const EMPTY_POLLS: u32 = 2;

fn coalescing(interface: &str, us: u32, trees: &Trees) -> [Setting; 2] {
    let file = |name, value: u64| Setting {
        path: trees.sys.join("class/net").join(interface).join(name),
        value: value.to_string(),
    };
    let polls = if us > 0 { EMPTY_POLLS } else { 0 };
    [file("gro_flush_timeout", u64::from(us) * 1000), file("napi_defer_hard_irqs", polls.into())]
}

/// Writes settings of an interface that ends with its namespace.
///
/// # Errors
/// What the kernel refuses.
pub(crate) fn write(settings: &[Setting]) -> Result<()> {
    settings.iter().try_for_each(|setting| {
        let what = format!("write {} to {}", setting.value, setting.path.display());
        fs::write(&setting.path, &setting.value).map_err(Error::os(what))
    })
}

/// Writes settings of an interface of the host, whose old ones are in `journal` before, which should have nothing else.
///
/// # Errors
/// What the kernel refuses; what was written before is undone.
pub fn write_for_now(settings: &[Setting], mut journal: Journal) -> Result<Written> {
    for setting in settings {
        journal.write_file(&setting.path, &setting.value).map_err(|error| match &error {
            // Its driver shared its queues out among all CPUs, for good.
            Error::Linux(weir_linux::Error::Os { source, .. })
                if source.raw_os_error() == Some(libc::EIO) =>
            {
                Error::Input(format!(
                    "{}: the kernel places this interrupt itself (managed interrupt): omit interrupts",
                    setting.path.display()
                ))
            }
            _ => error,
        })?;
    }
    Ok(Written(journal))
}

/// Queues of an interface, in their order.
fn queues(interface: &str, start: &str, trees: &Trees) -> Result<Vec<PathBuf>> {
    let folder = trees.sys.join("class/net").join(interface).join("queues");
    let entries = fs::read_dir(&folder).map_err(Error::os(format!("read {}", folder.display())))?;
    let number = |path: &Path| path.file_name()?.to_str()?.strip_prefix(start)?.parse::<u32>().ok();
    let mut list: Vec<_> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter_map(|path| Some((number(&path)?, path)))
        .collect();
    list.sort();
    Ok(list.into_iter().map(|(_, path)| path).collect())
}

/// Where the interrupts of an interface are placed, in their order: those of its device, or of the PCI function that a
/// virtio device is.
fn interrupts(interface: &str, trees: &Trees) -> Vec<PathBuf> {
    let device = trees.sys.join("class/net").join(interface).join("device");
    let is_virtio = fs::canonicalize(&device)
        .is_ok_and(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("virtio")));
    let mut folders = vec![device.clone()];
    if is_virtio {
        folders.push(device.join(".."));
    }
    let of = |folder: &PathBuf| -> Vec<u32> {
        let messages = fs::read_dir(folder.join("msi_irqs")).into_iter().flatten();
        let mut list: Vec<u32> =
            messages.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
        list.sort_unstable();
        if list.is_empty() {
            let line = fs::read_to_string(folder.join("irq")).ok();
            list.extend(line.and_then(|line| line.trim().parse::<u32>().ok()).filter(|&irq| irq > 0));
        }
        list
    };
    let numbers = folders.iter().map(of).find(|list| !list.is_empty()).unwrap_or_default();
    let files = numbers.iter().map(|irq| trees.proc.join(format!("irq/{irq}/smp_affinity")));
    files.filter(|file| file.exists()).collect()
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Spread::AsIs => f.write_str("default"),
            Spread::Off => f.write_str("off"),
            Spread::All => f.write_str("all"),
            Spread::Over(cpus) => {
                let runs = cpus.chunk_by(|a, b| a + 1 == *b).map(|run| match run {
                    [one] => one.to_string(),
                    [first, .., last] => format!("{first}-{last}"),
                    [] => unreachable!("a run has an element"),
                });
                f.write_str(&runs.collect::<Vec<_>>().join(","))
            }
        }
    }
}

impl FromStr for Spread {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        /// Linux has no more.
        const MOST: usize = 8192;
        let run = |part: &str| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last): (usize, usize) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
            (first <= last && last < MOST).then_some(first..=last)
        };
        match text {
            "default" => Ok(Spread::AsIs),
            "off" => Ok(Spread::Off),
            "all" => Ok(Spread::All),
            _ => {
                let runs: Option<Vec<_>> = text.split(',').map(run).collect();
                let mut cpus: Vec<usize> = runs
                    .ok_or_else(|| {
                        format!("`{text}` is no list of CPUs: use numbers such as \"0-1,3\", \"all\", \"off\" or \"default\"")
                    })?
                    .into_iter()
                    .flatten()
                    .collect();
                cpus.sort_unstable();
                cpus.dedup();
                Ok(Spread::Over(cpus))
            }
        }
    }
}

#[cfg(test)]
mod tests;
