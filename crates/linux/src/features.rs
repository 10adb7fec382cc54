//! Features of an interface by their names, as `ethtool -k` shows them and `ethtool -K` takes them: those of VLAN tags are
//! switched apart for 802.1Q and 802.1ad, which the older requests of `ethtool.rs` cannot do.
//! Source: linux/ethtool.h (ETHTOOL_GFEATURES, ETHTOOL_SFEATURES), net/ethtool/ioctl.c.

use std::io;

use crate::interface::Interface;

const GSTRINGS: u32 = 0x1b;
const GSSET_INFO: u32 = 0x37;
const GFEATURES: u32 = 0x3a;
const SFEATURES: u32 = 0x3b;
/// ETH_SS_FEATURES.
const STRING_SET: u32 = 4;
const STRING_BYTES: usize = 32;
const WORD: usize = size_of::<u32>();
/// struct ethtool_get_features_block: available, requested, active, never_changed.
const BLOCK_WORDS: usize = 4;
const ACTIVE: usize = 2;
/// Command and number of blocks.
const HEAD_WORDS: usize = 2;

impl Interface {
    /// Whether a feature is on; `None`: the kernel knows none of this name.
    ///
    /// # Errors
    /// There is no such interface any more, or it tells nothing of its features.
    pub fn feature(&self, name: &str) -> io::Result<Option<bool>> {
        let names = self.feature_names()?;
        let Some(bit) = names.iter().position(|known| known == name) else { return Ok(None) };
        let blocks = names.len().div_ceil(32);
        let mut data = words(&[GFEATURES, blocks as u32]);
        data.resize((HEAD_WORDS + blocks * BLOCK_WORDS) * WORD, 0);
        self.ethtool(&mut data)?;
        let active = word(&data, HEAD_WORDS + bit / 32 * BLOCK_WORDS + ACTIVE);
        Ok(Some(active >> (bit % 32) & 1 != 0))
    }

    /// Switches a feature.
    ///
    /// # Errors
    /// The driver does not switch it; no privilege (CAP_NET_ADMIN).
    pub fn set_feature(&self, name: &str, on: bool) -> io::Result<()> {
        let names = self.feature_names()?;
        let unknown = || io::Error::other(format!("the kernel knows no feature {name}"));
        let bit = names.iter().position(|known| known == name).ok_or_else(unknown)?;
        let mut blocks = vec![[0_u32; 2]; names.len().div_ceil(32)];
        let mask = 1 << (bit % 32);
        // struct ethtool_set_features_block: valid, requested.
        blocks[bit / 32] = [mask, if on { mask } else { 0 }];
        let mut data = words(&[SFEATURES, blocks.len() as u32]);
        data.extend(words(blocks.as_flattened()));
        self.ethtool(&mut data)?;
        // The kernel takes the wish for one that a driver cannot fulfil.
        match self.feature(name)? {
            Some(is_on) if is_on == on => Ok(()),
            _ => Err(io::Error::other("the driver does not switch it")),
        }
    }

    fn feature_names(&self) -> io::Result<Vec<String>> {
        // struct ethtool_sset_info: command, reserved, u64 mask, one u32 per bit of the mask.
        let mut info = words(&[GSSET_INFO, 0, 1 << STRING_SET, 0, 0]);
        self.ethtool(&mut info)?;
        let count = word(&info, 4);
        let mut data = words(&[GSTRINGS, STRING_SET, count]);
        data.resize(data.len() + count as usize * STRING_BYTES, 0);
        self.ethtool(&mut data)?;
        let name = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end_matches('\0').to_string();
        Ok(data[3 * WORD..].chunks_exact(STRING_BYTES).map(name).collect())
    }
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

fn word(data: &[u8], number: usize) -> u32 {
    u32::from_ne_bytes(data[number * WORD..][..WORD].try_into().expect("four bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::namespace::Namespace;
    use crate::rtnl::{Peer, Rtnl, VethConfig, VethEnd};
    use weir_testkit::need_root;

    #[test]
    fn features_stay_as_set_each_by_itself() {
        need_root!();
        let namespace = Namespace::new().unwrap();
        namespace.run(|| {
            let end = |name, last| VethEnd { name, mac: [2, 0, 0, 0, 0, last], namespace: namespace.fd() };
            Rtnl::open().unwrap().add_veth([end("a", 1), end("b", 2)], VethConfig::default()).unwrap();
            let a = Interface::named("a").unwrap();
            let (outer, inner) = ("tx-vlan-stag-hw-insert", "tx-vlan-hw-insert");
            for (feature, other) in [(outer, inner), (inner, outer)] {
                a.set_feature(feature, false).unwrap();
                assert_eq!(
                    (a.feature(feature).unwrap(), a.feature(other).unwrap()),
                    (Some(false), Some(true))
                );
                a.set_feature(feature, true).unwrap();
                assert_eq!(a.feature(feature).unwrap(), Some(true));
            }
            assert_eq!(a.feature("no-such-feature").unwrap(), None);
            assert!(a.set_feature("no-such-feature", true).is_err());
            // One that no veth has.
            assert!(a.set_feature("tls-hw-record", true).is_err());
        });
    }

    #[test]
    fn the_other_end_of_a_veth_is_here_or_elsewhere() {
        need_root!();
        let [here, there] = [(); 2].map(|()| Namespace::new().unwrap());
        here.run(|| {
            let mut rtnl = Rtnl::open().unwrap();
            let veth = |name, last, namespace| VethEnd { name, mac: [2, 0, 0, 0, 0, last], namespace };
            rtnl.add_veth([veth("a", 1, here.fd()), veth("b", 2, here.fd())], VethConfig::default()).unwrap();
            rtnl.add_veth([veth("c", 3, here.fd()), veth("d", 4, there.fd())], VethConfig::default())
                .unwrap();
            let b = rtnl.link("b").unwrap().ifindex;
            assert_eq!(rtnl.peer("a").unwrap(), Some(Peer::Here(b)));
            assert_eq!(rtnl.peer("c").unwrap(), Some(Peer::Elsewhere));
            assert_eq!(rtnl.peer("lo").unwrap(), None);
        });
    }
}
