//! What an interface's driver says and switches through the ETHTOOL ioctls: counters by name, offloads, rings, queues, flow
//! control. All functions act in the calling thread's network namespace. Source: linux/ethtool.h, ethtool(8).

use std::io;

use crate::error::{Error, Result};
use crate::interface::{Interface, SIOCETHTOOL};

const GRINGPARAM: u32 = 0x10;
const SRINGPARAM: u32 = 0x11;
const GPAUSEPARAM: u32 = 0x12;
const GSTRINGS: u32 = 0x1b;
const GSTATS: u32 = 0x1d;
const GFLAGS: u32 = 0x25;
const FLAG_LRO: u32 = 1 << 15;
const GSSET_INFO: u32 = 0x37;
const GCHANNELS: u32 = 0x3c;
const STRING_SET_STATS: u32 = 1;
const STRING_BYTES: usize = 32;

/// The driver's counters in its order, as `ethtool -S` shows them, of an interface.
///
/// # Errors
/// No such interface, or a driver without counters.
pub fn stats(name: &str) -> Result<Vec<(String, u64)>> {
    let counters = Interface::named(name).and_then(|interface| interface.counters());
    counters.map_err(Error::os(format!("read the counters of {name}")))
}

/// Offloads that a test bed switches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offload {
    /// Merging of received frames; on a veth also what gives it NAPI.
    Gro,
    /// Segmentation of large TCP frames by the device.
    Tso,
    /// Segmentation of large frames by the stack.
    Gso,
    /// Transmit checksums: off, so that frames carry complete ones.
    TxChecksum,
}

impl Offload {
    /// ETHTOOL_GGRO and ETHTOOL_SGRO, ...
    fn commands(self) -> (u32, u32) {
        match self {
            Offload::Gro => (0x2b, 0x2c),
            Offload::Tso => (0x1e, 0x1f),
            Offload::Gso => (0x23, 0x24),
            Offload::TxChecksum => (0x16, 0x17),
        }
    }
}

/// Whether an offload is on.
pub fn offload(device: &str, offload: Offload) -> Result<bool> {
    let [value] =
        asked(device, offload.commands().0).map_err(Error::os(format!("read {offload:?} of {device}")))?;
    Ok(value == 1)
}

/// Switches an offload.
pub fn set_offload(device: &str, offload: Offload, on: bool) -> Result<()> {
    let mut value = words(&[offload.commands().1, u32::from(on)]);
    let state = if on { "on" } else { "off" };
    let switched = Interface::named(device).and_then(|interface| interface.ethtool(&mut value));
    switched.map_err(Error::os(format!("switch {offload:?} of {device} {state}")))
}

/// Entries of the rings of a NIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rings {
    /// Of the receive ring now.
    pub receive: u32,
    /// Of the transmit ring now.
    pub transmit: u32,
    /// Most that the receive ring can have.
    pub receive_most: u32,
    /// Most that the transmit ring can have.
    pub transmit_most: u32,
}

/// The rings of a NIC in the calling thread's network namespace.
///
/// # Errors
/// No such interface, or a driver that has none.
pub fn rings(name: &str) -> io::Result<Rings> {
    let [receive_most, _, _, transmit_most, receive, _, _, transmit] = asked(name, GRINGPARAM)?;
    Ok(Rings { receive, transmit, receive_most, transmit_most })
}

/// Gives the rings of a NIC so many entries; its link may go down for a moment.
///
/// # Errors
/// See [`rings`]; more than there can be; no privilege (CAP_NET_ADMIN).
pub fn set_rings(name: &str, receive: u32, transmit: u32) -> io::Result<()> {
    let [_, _, _, _, _, mini, jumbo, _] = asked(name, GRINGPARAM)?;
    let mut data = words(&[SRINGPARAM, 0, 0, 0, 0, receive, mini, jumbo, transmit]);
    Interface::named(name)?.ethtool(&mut data)
}

/// Receive queues of a NIC now, and the most that it can have.
///
/// # Errors
/// See [`rings`].
pub fn queues(name: &str) -> io::Result<(u32, u32)> {
    let [receive_most, _, _, combined_most, receive, _, _, combined] = asked(name, GCHANNELS)?;
    Ok((receive + combined, receive_most.max(combined_most)))
}

/// Does a NIC stop its sender by pause frames, or let itself be stopped?
///
/// # Errors
/// See [`rings`].
pub fn pauses(name: &str) -> io::Result<bool> {
    let [_, receive, transmit] = asked(name, GPAUSEPARAM)?;
    Ok(receive != 0 || transmit != 0)
}

/// Does a NIC put received segments together (LRO)?
///
/// # Errors
/// See [`rings`].
pub fn lro(name: &str) -> io::Result<bool> {
    let [flags] = asked(name, GFLAGS)?;
    Ok(flags & FLAG_LRO != 0)
}

/// The words that follow the command in its structure, of an interface by its name.
fn asked<const N: usize>(name: &str, command: u32) -> io::Result<[u32; N]> {
    Interface::named(name)?.asked(command)
}

impl Interface {
    /// Receive queues that are in use; 1 for interfaces that do not tell.
    pub fn receive_queues(&self) -> io::Result<u32> {
        match self.asked(GCHANNELS) {
            Ok([_, _, _, _, receive, _, _, combined]) => Ok((receive + combined).max(1)),
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(1),
            Err(error) => Err(error),
        }
    }

    fn asked<const N: usize>(&self, command: u32) -> io::Result<[u32; N]> {
        let mut data = words(&[command]);
        data.resize((1 + N) * size_of::<u32>(), 0);
        self.ethtool(&mut data)?;
        let mut values = data.chunks_exact(size_of::<u32>()).skip(1);
        let word = |bytes: &[u8]| u32::from_ne_bytes(bytes.try_into().expect("four bytes"));
        Ok(std::array::from_fn(|_| values.next().map_or(0, word)))
    }

    /// See [`stats`].
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

    /// Runs an ETHTOOL command; `data` is its structure, variable part included.
    pub(crate) fn ethtool(&self, data: &mut [u8]) -> io::Result<()> {
        // The kernel copies bytes, so that no alignment is needed, and writes no more than the structure that the command
        // names, whose variable part the callers sized by the kernel's own count.
        self.ask(SIOCETHTOOL, |request| {
            request.ifr_ifru.ifru_data = data.as_mut_ptr().cast();
        })
        .map(drop)
    }
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::namespace::Namespace;
    use crate::rtnl::{Rtnl, VethConfig, VethEnd};
    use weir_testkit::need_root;

    #[test]
    fn switches_stay_as_set_and_counters_have_names() {
        need_root!();
        let ns = Namespace::new().unwrap();
        ns.run(|| {
            let end = |name, last| VethEnd { name, mac: [2, 0, 0, 0, 0, last], namespace: ns.fd() };
            Rtnl::open()
                .unwrap()
                .add_veth([end("a", 1), end("b", 2)], VethConfig { mtu: 1500, queues: 2 })
                .unwrap();
            for kind in [Offload::Gro, Offload::Gso, Offload::Tso, Offload::TxChecksum] {
                for on in [true, false] {
                    set_offload("a", kind, on).unwrap();
                    assert_eq!(offload("a", kind).unwrap(), on, "{kind:?}");
                }
            }
            let stats = stats("a").unwrap();
            for name in ["tx_queue_1_xdp_xmit_errors", "rx_queue_0_drops"] {
                assert!(stats.iter().any(|(found, _)| found == name), "{name} in {stats:?}");
            }
            assert!(super::stats("none").is_err());
            assert!(set_offload("a-name-far-too-long", Offload::Gro, true).is_err());
        });
    }
}
