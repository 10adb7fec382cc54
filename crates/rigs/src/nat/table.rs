//! The kernel's connection table: its settings as axes, what it counted, and what its memory should be.
//! Source: Documentation/networking/nf_conntrack-sysctl.rst.

use std::fs;
use std::path::PathBuf;

use weir_linux::conntrack::ConntrackStats;
use weir_linux::namespace::Namespace;
use weir_testbed::error::{Error, Result};
use weir_testbed::journal::Journal;
use weir_testbed::memory::KernelMemory;
use weir_testbed::spread::{self, Setting, Written};

use weir_record::figure::{figure, unit};
use weir_record::record::{Figure, Statistic};

/// Names of figures.
pub(super) const CHAIN: &str = "flows per bucket";
pub(super) const INSERT_FAILED: &str = "insertion failures";
pub(super) const EARLY_DROP: &str = "early drops";
pub(super) const TABLE_DROP: &str = "frames dropped for want of an entry";
pub(super) const FORMULA: &str = "memory of the table by the formula";
/// A bucket is a pointer (struct hlist_nulls_head).
const BUCKET_BYTES: f64 = 8.0;

/// Axes; empty: as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TableAxes {
    /// nf_conntrack_buckets, of the whole machine.
    pub buckets: Vec<u32>,
    /// nf_conntrack_max, of the whole machine.
    pub max: Vec<u32>,
    /// nf_conntrack_udp_timeout and nf_conntrack_udp_timeout_stream of the device, s.
    pub udp_timeout_s: Vec<u32>,
}

/// One combination of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TableSettings {
    /// Hash buckets.
    pub buckets: Option<u32>,
    /// Most entries.
    pub max: Option<u32>,
    /// After this time without a frame an entry expires, s.
    pub udp_timeout_s: Option<u32>,
}

impl TableAxes {
    /// Does any of them change the whole machine?
    pub(super) fn is_host_wide(&self) -> bool {
        !self.buckets.is_empty() || !self.max.is_empty()
    }

    /// All combinations, at least one.
    pub(super) fn all(&self) -> Vec<TableSettings> {
        let or_as_is = |list: &[u32]| -> Vec<Option<u32>> {
            if list.is_empty() { vec![None] } else { list.iter().copied().map(Some).collect() }
        };
        let mut all = Vec::new();
        for buckets in or_as_is(&self.buckets) {
            for max in or_as_is(&self.max) {
                let timeouts = or_as_is(&self.udp_timeout_s);
                all.extend(timeouts.into_iter().map(|udp_timeout_s| TableSettings {
                    buckets,
                    max,
                    udp_timeout_s,
                }));
            }
        }
        all
    }
}

impl TableSettings {
    /// As name and value.
    pub(super) fn settings(&self) -> Vec<(String, String)> {
        let all = [
            ("nf_conntrack_buckets", self.buckets),
            ("nf_conntrack_max", self.max),
            ("nf_conntrack_udp_timeout", self.udp_timeout_s),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name.to_string(), value?.to_string()))).collect()
    }

    /// Sets what is of the whole machine until the guard is dropped, or, after a crash, until the next start.
    pub(super) fn set_on_host(&self, journal: Journal) -> Result<Option<Written>> {
        let setting = |name: &str, value: Option<u32>| {
            value.map(|value| Setting { path: path(name), value: value.to_string() })
        };
        let settings: Vec<Setting> = [("nf_conntrack_buckets", self.buckets), ("nf_conntrack_max", self.max)]
            .into_iter()
            .filter_map(|(name, value)| setting(name, value))
            .collect();
        if settings.is_empty() { Ok(None) } else { spread::write_for_now(&settings, journal).map(Some) }
    }

    /// Sets what is of the device's own namespace.
    pub(super) fn set_in(&self, device: &Namespace) -> Result<()> {
        let Some(seconds) = self.udp_timeout_s else { return Ok(()) };
        device.run(|| {
            for name in ["nf_conntrack_udp_timeout", "nf_conntrack_udp_timeout_stream"] {
                let path = path(name);
                fs::write(&path, seconds.to_string()).map_err(|error| {
                    Error::Input(format!(
                        "cannot write {seconds} to {}: {error}: run as root",
                        path.display()
                    ))
                })?;
            }
            Ok(())
        })
    }
}

fn path(name: &str) -> PathBuf {
    PathBuf::from("/proc/sys/net/netfilter").join(name)
}

/// A value of the machine as it is now.
pub(super) fn now(name: &str) -> Option<u64> {
    fs::read_to_string(path(name)).ok()?.trim().parse().ok()
}

/// The figures of the table after a round: what it counted since `before`, its chains and its memory.
pub(super) fn figures(flows: u32, before: &ConntrackStats, after: &ConntrackStats) -> Vec<Figure> {
    let one = |name: &str, unit: &str, value: f64| figure(name, unit, Statistic::Median, vec![value]);
    let since = |of: fn(&ConntrackStats) -> u64| of(after).saturating_sub(of(before)) as f64;
    let mut list = vec![
        one(INSERT_FAILED, unit::FRAMES, since(|stats| stats.insert_failed)),
        one(EARLY_DROP, unit::FRAMES, since(|stats| stats.early_drop)),
        one(TABLE_DROP, unit::FRAMES, since(|stats| stats.drop)),
    ];
    if let Some(buckets) = now("nf_conntrack_buckets") {
        // An entry is found in both directions, and in a chain for each of them.
        let entries = u64::from(flows).min(after.max.max(1));
        list.push(one(CHAIN, unit::FRAMES, 2.0 * entries as f64 / buckets.max(1) as f64));
        let own = KernelMemory::now().conntrack_bytes(entries).unwrap_or(0) as f64;
        list.push(one(FORMULA, "bytes", BUCKET_BYTES * buckets as f64 + own));
    }
    list
}

/// What to type for these values; `None` without any.
pub(super) fn command_for<const N: usize>(values: [(&str, Option<&str>); N]) -> Option<String> {
    let set = values.into_iter().filter_map(|(name, value)| Some(format!("net.netfilter.{name}={}", value?)));
    let set: Vec<String> = set.collect();
    (!set.is_empty()).then(|| format!("sysctl -w {}", set.join(" ")))
}

/// What a machine should have for so many flows: buckets and entries, and why.
pub(super) fn advice(flows: u64, entry_bytes: f64) -> String {
    // With as many buckets as entries a chain has two links on average, one for each direction of a flow.
    let max = (flows * 2).next_power_of_two();
    let megabytes = (max as f64 * (entry_bytes + BUCKET_BYTES)) / 1e6;
    format!(
        "For {flows} flows: sysctl -w net.netfilter.nf_conntrack_buckets={max} net.netfilter.nf_conntrack_max={max} \
         (twice the flows, so that the table does not fill while old entries expire; as many buckets as entries, so that \
         a chain has two links on average; at most {megabytes:.0} MB when it is full)"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_multiply_and_are_settings() {
        let axes = TableAxes { buckets: vec![1024, 65_536], max: vec![262_144], udp_timeout_s: vec![1, 30] };
        let all = axes.all();
        assert_eq!(all.len(), 4);
        let names: Vec<String> =
            all[1].settings().into_iter().map(|(name, value)| format!("{name} {value}")).collect();
        assert_eq!(
            names,
            ["nf_conntrack_buckets 1024", "nf_conntrack_max 262144", "nf_conntrack_udp_timeout 30"]
        );
        assert_eq!(TableAxes::default().all(), [TableSettings::default()]);
        assert!(
            axes.is_host_wide()
                && !TableAxes { udp_timeout_s: vec![1], ..TableAxes::default() }.is_host_wide()
        );
    }

    #[test]
    fn the_advice_is_a_line_to_type() {
        assert_eq!(
            advice(1_000_000, 320.0).replace('\u{202f}', " "),
            "For 1000000 flows: sysctl -w net.netfilter.nf_conntrack_buckets=2097152 \
             net.netfilter.nf_conntrack_max=2097152 (twice the flows, so that the table does not fill while old entries \
             expire; as many buckets as entries, so that a chain has two links on average; at most 688 MB when it is full)"
        );
    }
}
