//! The counters of an interface's driver by name, through the ETHTOOL ioctls. Source: linux/ethtool.h, ethtool(8).

use std::io;

use crate::capture::Interface;

const GSTRINGS: u32 = 0x1b;
const GSTATS: u32 = 0x1d;
const GSSET_INFO: u32 = 0x37;
const STRING_SET_STATS: u32 = 1;
const STRING_BYTES: usize = 32;

/// The driver's counters in its order, as `ethtool -S` shows them, of an interface in the calling thread's network
/// namespace.
///
/// # Errors
/// No such interface, or a driver without counters.
pub fn counters(name: &str) -> io::Result<Vec<(String, u64)>> {
    Interface::named(name).map_err(io::Error::other)?.counters()
}

impl Interface {
    /// See [`counters`].
    pub(crate) fn counters(&self) -> io::Result<Vec<(String, u64)>> {
        // struct ethtool_sset_info: command, reserved, u64 mask, one u32 per bit of the mask.
        let mut info = words(&[GSSET_INFO, 0, 1 << STRING_SET_STATS, 0, 0]);
        self.ethtool(&mut info)?;
        let count = u32::from_ne_bytes(info[16..].try_into().expect("five words"));

        let mut names = words(&[GSTRINGS, STRING_SET_STATS, count]);
        names.resize(names.len() + count as usize * STRING_BYTES, 0);
        self.ethtool(&mut names)?;

        let mut values = words(&[GSTATS, count]);
        values.resize(values.len() + count as usize * size_of::<u64>(), 0);
        self.ethtool(&mut values)?;

        let name = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end_matches('\0').to_string();
        let value = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().expect("eight bytes"));
        let names = names[12..].chunks_exact(STRING_BYTES).map(name);
        Ok(names.zip(values[8..].chunks_exact(size_of::<u64>()).map(value)).collect())
    }

    /// Runs an ETHTOOL command whose structure, variable part included, is `data`.
    fn ethtool(&self, data: &mut [u8]) -> io::Result<()> {
        // The kernel copies bytes, so that no alignment is needed, and writes no more than the structure that the command
        // names, whose variable part the callers sized by the kernel's own count.
        self.ask(super::capture::SIOCETHTOOL, |request| {
            request.ifr_ifru.ifru_data = data.as_mut_ptr().cast();
        })
        .map(drop)
    }
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}
