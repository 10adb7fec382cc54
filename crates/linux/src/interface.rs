//! One interface, asked by ioctl on a socket that remembers its network namespace: a thread that may open nothing any more can
//! still ask. Source: netdevice(7), linux/ethtool.h.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use crate::sys;

/// struct ethtool_drvinfo of linux/ethtool.h.
#[repr(C)]
struct Driver {
    command: u32,
    name: [u8; 32],
    versions: [u8; 64],
    /// Where the device is; empty for those that are no hardware.
    bus_info: [u8; 32],
    rest: [u8; 64],
}

impl Driver {
    fn is(&self, name: &str) -> bool {
        self.name.starts_with(name.as_bytes()) && self.name[name.len()] == 0
    }
}

/// The ioctl of all ETHTOOL commands.
pub const SIOCETHTOOL: libc::Ioctl = 0x8946;
const ETHTOOL_GDRVINFO: u32 = 0x3;

/// An interface, found by its name.
#[derive(Debug, Clone)]
pub struct Interface {
    name: String,
    index: u32,
    /// Remembers the network namespace.
    socket: Arc<OwnedFd>,
}

impl Interface {
    /// An interface of the calling thread's network namespace.
    ///
    /// # Errors
    /// ENODEV if there is none of this name.
    pub fn named(name: &str) -> io::Result<Interface> {
        let text = CString::new(name).map_err(|_| io::Error::from_raw_os_error(libc::ENODEV))?;
        // SAFETY: a string that ends in zero and lives through the call.
        match unsafe { libc::if_nametoindex(text.as_ptr()) } {
            0 => Err(io::Error::from_raw_os_error(libc::ENODEV)),
            index => {
                let socket = sys::socket(libc::AF_INET, libc::SOCK_DGRAM, 0)?;
                Ok(Interface { name: name.into(), index, socket: Arc::new(socket) })
            }
        }
    }

    /// Its name when it was found.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its number.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Whether an interface of its number is still in the network namespace.
    pub fn is_there(&self) -> bool {
        // SAFETY: all-zero is a valid request.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        request.ifr_ifru.ifru_ifindex = self.index as i32;
        // SAFETY: the kernel reads and writes one ifreq.
        unsafe { libc::ioctl(self.socket.as_raw_fd(), libc::SIOCGIFNAME as _, &mut request) == 0 }
    }

    /// Largest payload of a frame.
    pub fn mtu(&self) -> io::Result<u32> {
        let answer = self.ask(libc::SIOCGIFMTU as _, |_| ())?;
        // SAFETY: the member that this request fills.
        Ok(unsafe { answer.ifr_ifru.ifru_mtu } as u32)
    }

    /// Gives it another largest payload of a frame.
    pub fn set_mtu(&self, bytes: u32) -> io::Result<()> {
        self.ask(libc::SIOCSIFMTU as _, |request| request.ifr_ifru.ifru_mtu = bytes as i32).map(drop)
    }

    /// Sets it up, as an administrator would.
    pub fn set_up(&self) -> io::Result<()> {
        let mut request = self.ask(libc::SIOCGIFFLAGS as _, |_| ())?;
        // SAFETY: the member that the request above has filled.
        let flags = unsafe { request.ifr_ifru.ifru_flags } | libc::IFF_UP as i16;
        request.ifr_ifru.ifru_flags = flags;
        // SAFETY: the kernel reads one ifreq.
        match unsafe { libc::ioctl(self.socket.as_raw_fd(), libc::SIOCSIFFLAGS as _, &mut request) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Gives it another Ethernet address.
    pub fn set_mac(&self, mac: [u8; 6]) -> io::Result<()> {
        let set = self.ask(libc::SIOCSIFHWADDR as _, |request| {
            let mut address = libc::sockaddr { sa_family: libc::ARPHRD_ETHER, sa_data: [0; 14] };
            for (to, from) in address.sa_data.iter_mut().zip(mac) {
                *to = from as libc::c_char;
            }
            request.ifr_ifru.ifru_hwaddr = address;
        });
        set.map(drop)
    }

    /// Is it one end of a pair of virtual interfaces?
    pub fn is_veth(&self) -> bool {
        self.driver().is_some_and(|driver| driver.is("veth"))
    }

    /// May frames arrive whose checksum was left to a network card that they never meet? They do from stacks on the same host:
    /// by interfaces that are no hardware, and by those that connect virtual machines.
    pub fn may_bring_partial_checksums(&self) -> bool {
        const VIRTUAL: [&str; 4] = ["tun", "virtio_net", "vif", "hv_netvsc"];
        self.driver()
            .is_none_or(|driver| driver.bus_info[0] == 0 || VIRTUAL.into_iter().any(|name| driver.is(name)))
    }

    /// `None`: it does not tell, or has none.
    fn driver(&self) -> Option<Driver> {
        let mut driver = Driver {
            command: ETHTOOL_GDRVINFO,
            name: [0; 32],
            versions: [0; 64],
            bus_info: [0; 32],
            rest: [0; 64],
        };
        let reported = self.ask(SIOCETHTOOL, |request| {
            request.ifr_ifru.ifru_data = std::ptr::from_mut(&mut driver).cast();
        });
        reported.is_ok().then_some(driver)
    }

    /// Frames that XDP programs have redirected to this end of a veth, and that the other end has taken.
    pub fn redirected(&self) -> io::Result<u64> {
        let ours = |(name, _): &(String, u64)| name.starts_with("tx_queue_") && name.ends_with("_xdp_xmit");
        Ok(self.counters()?.into_iter().filter(ours).map(|(_, frames)| frames).sum())
    }

    /// Its Ethernet address.
    pub fn mac(&self) -> io::Result<[u8; 6]> {
        let answer = self.ask(libc::SIOCGIFHWADDR as _, |_| ())?;
        // SAFETY: the member that this request fills.
        let address = unsafe { answer.ifr_ifru.ifru_hwaddr };
        Ok(std::array::from_fn(|i| address.sa_data[i] as u8))
    }

    /// A request about the interface by its name.
    pub(crate) fn ask(
        &self,
        what: libc::Ioctl,
        fill: impl FnOnce(&mut libc::ifreq),
    ) -> io::Result<libc::ifreq> {
        // SAFETY: all-zero is a valid request.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(self.name.bytes()) {
            *to = from as libc::c_char;
        }
        fill(&mut request);
        // SAFETY: the kernel reads and writes one ifreq, and what its pointer says, which `fill` has made valid.
        match unsafe { libc::ioctl(self.socket.as_raw_fd(), what, &mut request) } {
            // Some requests of ETHTOOL tell more than that all is well.
            0.. => Ok(request),
            _ => Err(io::Error::last_os_error()),
        }
    }
}
