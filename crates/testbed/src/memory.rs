//! Memory of a DUT: of a kernel DUT what its connection table takes, of a process what is resident.

/// Kernel memory at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KernelMemory {
    /// Size of one connection tracking entry in bytes; None where /proc/slabinfo may not be read (it takes
    /// root) or names none.
    pub conntrack_entry_bytes: Option<u64>,
    /// Entries of all namespaces together, as the slab allocator sees them.
    pub conntrack_objects: Option<u64>,
    /// All slab memory of the kernel in bytes (/proc/meminfo, Slab).
    pub slab_bytes: Option<u64>,
}

impl KernelMemory {
    /// Reads the kernel's accounting.
    pub fn now() -> KernelMemory {
        let slab =
            weir_disk::kernel_text("/proc/slabinfo").ok().and_then(|text| slab_line(&text, "nf_conntrack"));
        let meminfo = weir_disk::kernel_text("/proc/meminfo").ok();
        KernelMemory {
            conntrack_entry_bytes: slab.map(|(_, size)| size),
            conntrack_objects: slab.map(|(objects, _)| objects),
            slab_bytes: meminfo.and_then(|text| kib_line(&text, "Slab")),
        }
    }

    /// Bytes of a connection table with this many entries, without its hash buckets.
    pub fn conntrack_bytes(&self, entries: u64) -> Option<u64> {
        Some(self.conntrack_entry_bytes? * entries)
    }
}

/// Resident memory of a process in bytes (VmRSS of /proc/PID/status); None when it is gone.
pub fn resident_bytes(pid: u32) -> Option<u64> {
    kib_line(&weir_disk::kernel_text(format!("/proc/{pid}/status")).ok()?, "VmRSS")
}

/// Active objects and object size of a cache in /proc/slabinfo (slabinfo(5)).
fn slab_line(text: &str, cache: &str) -> Option<(u64, u64)> {
    let mut fields =
        text.lines().map(str::split_ascii_whitespace).find(|line| line.clone().next() == Some(cache))?;
    let active = fields.nth(1)?.parse().ok()?;
    let size = fields.nth(1)?.parse().ok()?;
    Some((active, size))
}

/// A line `Name:   123 kB` in bytes.
fn kib_line(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    Some(line.split_ascii_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_found_by_their_whole_name() {
        let slab = "slabinfo - version: 2.1\n# name <active_objs> <num_objs> <objsize>\n\
                    nf_conntrack_expect 1 2 3 4\nnf_conntrack 40 48 256 16 1 : tunables\n";
        assert_eq!(slab_line(slab, "nf_conntrack"), Some((40, 256)));
        assert_eq!(slab_line(slab, "nf"), None);
        let meminfo = "SlabX: 7 kB\nSlab:              20 kB\n";
        assert_eq!(kib_line(meminfo, "Slab"), Some(20 * 1024));
        assert_eq!(kib_line(meminfo, "Sla"), None);
    }

    #[test]
    fn this_process_has_memory_and_a_dead_one_none() {
        assert!(resident_bytes(std::process::id()).unwrap() > 100_000);
        assert_eq!(resident_bytes(u32::MAX), None);
        assert!(KernelMemory::now().slab_bytes.unwrap() > 100_000);
        let memory = KernelMemory { conntrack_entry_bytes: Some(256), ..KernelMemory::default() };
        assert_eq!(memory.conntrack_bytes(1_000_000), Some(256_000_000));
    }
}
