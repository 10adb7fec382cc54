//! What a port of the text stands for: an interface, a TAP device, capture files.

use std::fmt;
use std::path::PathBuf;

use weir_packet::frame::Mac;
use weir_packet::steer::Spread;
use weir_port::duplex::{
    CaptureError, File, FileError, Packet, PacketOptions, Pool, Port, Tap, Umem, Xdp, mac_of,
};
use weir_port::fast::FastPort;

/// How frames come and go by a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Backend {
    /// An interface, by AF_XDP.
    Xdp(String),
    /// An interface, by AF_PACKET.
    Packet(String),
    /// A TAP device.
    Tap(String),
    /// Frames come out of a capture file, and those that leave go into another.
    Files(Option<PathBuf>, Option<PathBuf>),
}

impl fmt::Display for Backend {
    /// As the text says it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path =
            |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
        match self {
            Backend::Xdp(name) => write!(f, "xdp:{name}"),
            Backend::Packet(name) => write!(f, "packet:{name}"),
            Backend::Tap(name) => write!(f, "tap:{name}"),
            Backend::Files(from, to) => write!(f, "pcapng:{}:{}", path(from), path(to)),
        }
    }
}

/// Why a port cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Interfaces and devices.
    #[error(transparent)]
    Interface(#[from] CaptureError),
    /// Capture files.
    #[error(transparent)]
    File(#[from] FileError),
    /// The threads of a node without AF_XDP may not do what such ports take.
    #[error(
        "AF_XDP ports come only to a node that has begun with one: write packet:{0}, or begin it anew with an AF_XDP port and run(ports change)"
    )]
    NoXdp(String),
    /// The right to open it was given up.
    #[error(
        "{0}: the node has given up the right to open it; begin it with run(ports change), and an AF_XDP port if this is one, or with \
         --keep-privileges for a TAP device"
    )]
    NoRight(CaptureError),
    /// A TAP device for several threads.
    #[error("sharing it between threads: {0}")]
    Descriptors(std::io::Error),
}

/// The memory of each thread for frames.
#[derive(Debug, Clone)]
pub(crate) struct Umems {
    pub(crate) of_threads: Vec<Umem>,
    /// The threads may do what AF_XDP takes.
    pub(crate) for_xdp: bool,
}

/// What is asked of a port.
#[derive(Clone)]
pub(crate) struct Wanted {
    /// The longest frame, whether frames for other machines are taken, and what else AF_PACKET is to know.
    pub(crate) packet: PacketOptions,
    /// By what frames go to threads, where the port can choose.
    pub(crate) spread: Spread,
    /// Its part of a fast path, if the node has one.
    pub(crate) fast: Option<FastPort>,
}

impl Backend {
    /// What `on NAME` means: `eth0`, `xdp:eth0`, `packet:eth0`, `tap:tap0`, `pcapng:IN:OUT`; a bare name is an interface,
    /// opened as `usual` does.
    pub(crate) fn read(name: &str, usual: fn(String) -> Backend) -> Result<Backend, String> {
        let Some((kind, rest)) = name.split_once(':') else { return Ok(usual(name.to_string())) };
        let file = |text: &str| (!text.is_empty()).then(|| PathBuf::from(text));
        match (kind, rest.split_once(':')) {
            ("xdp", None) => Ok(Backend::Xdp(rest.to_string())),
            ("packet", None) => Ok(Backend::Packet(rest.to_string())),
            ("tap", None) => Ok(Backend::Tap(rest.to_string())),
            ("pcapng", Some((from, to))) if !rest.is_empty() => Ok(Backend::Files(file(from), file(to))),
            _ => Err(format!(
                "`{name}` is no place for a port: write on eth0, xdp:eth0, packet:eth0, tap:tap0 or pcapng:IN:OUT"
            )),
        }
    }

    /// Its interface, if it has one.
    pub(crate) fn interface(&self) -> Option<&String> {
        match self {
            Backend::Xdp(name) | Backend::Packet(name) | Backend::Tap(name) => Some(name),
            Backend::Files(..) => None,
        }
    }

    /// Chunks that each of so many threads may have with the kernel.
    pub(crate) fn chunks(&self, threads: usize) -> Result<u32, OpenError> {
        match self {
            Backend::Xdp(name) => Ok(Xdp::chunks(name, threads)?),
            _ => Ok(0),
        }
    }

    /// Its Ethernet address, where the text names none; devices without one get one that no vendor assigns.
    pub(crate) fn mac(&self, number: usize) -> Result<Mac, OpenError> {
        match self {
            Backend::Xdp(name) | Backend::Packet(name) => Ok(mac_of(name)?),
            Backend::Tap(_) | Backend::Files(..) => Ok(own_mac(number)),
        }
    }

    /// Descriptors that it needs in each thread, at most: for the two directions, or for the queues of AF_XDP and their program.
    pub(crate) fn descriptors(&self) -> u64 {
        match self {
            Backend::Xdp(_) => 16,
            Backend::Packet(_) | Backend::Tap(_) | Backend::Files(..) => 2,
        }
    }

    /// Opens it for a node that runs: a part for each thread, where AF_XDP has the memory of this thread, if the node has any.
    pub(crate) fn open_again(&self, umems: &Umems, wanted: Wanted) -> Result<Vec<Box<dyn Port>>, OpenError> {
        let opened = self.open_late(umems, wanted);
        opened.map_err(|error| match error {
            OpenError::Interface(error) if error.is_forbidden() => OpenError::NoRight(error),
            error => error,
        })
    }

    fn open_late(&self, umems: &Umems, wanted: Wanted) -> Result<Vec<Box<dyn Port>>, OpenError> {
        let Wanted { packet, spread, .. } = wanted;
        let threads = umems.of_threads.len();
        Ok(match self {
            Backend::Xdp(name) if !umems.for_xdp => return Err(OpenError::NoXdp(name.clone())),
            Backend::Xdp(name) => boxed(Xdp::open_late(name, &umems.of_threads, packet.mode)?),
            Backend::Packet(name) if threads == 1 => vec![Box::new(Packet::open_with(name, &packet)?)],
            Backend::Packet(name) => boxed(Packet::open_several(name, &packet, threads, spread)?),
            Backend::Tap(name) => boxed(taps(Tap::open(name, None)?, threads)?),
            Backend::Files(from, to) => vec![Box::new(File::open(from.as_deref(), to.as_deref())?)],
        })
    }

    /// Opens it in the calling thread's network namespace: a part for each thread, each with one of the pools.
    pub(crate) fn open(&self, pools: &mut [Pool], wanted: Wanted) -> Result<Vec<Box<dyn Port>>, OpenError> {
        let Wanted { packet, spread, fast } = wanted;
        Ok(match (self, pools) {
            (Backend::Xdp(name), pools) => boxed(Xdp::open_with(name, pools, packet.mode, fast.as_ref())?),
            (Backend::Packet(name), [_]) => vec![Box::new(Packet::open_with(name, &packet)?)],
            (Backend::Packet(name), pools) => {
                boxed(Packet::open_several(name, &packet, pools.len(), spread)?)
            }
            (Backend::Tap(name), pools) => boxed(taps(Tap::open(name, None)?, pools.len())?),
            (Backend::Files(from, to), _) => vec![Box::new(File::open(from.as_deref(), to.as_deref())?)],
        })
    }
}

/// The Ethernet address of a port that has none: one that no vendor assigns.
pub(crate) fn own_mac(number: usize) -> Mac {
    let [high, low] = (number as u16).to_be_bytes();
    [2, 0, 0, high, 0x77, low]
}

fn boxed<P: Port + 'static>(ports: Vec<P>) -> Vec<Box<dyn Port>> {
    ports.into_iter().map(|port| Box::new(port) as Box<dyn Port>).collect()
}

/// A TAP device for so many threads: what the machine says there comes to the first.
pub(crate) fn taps(first: Tap, threads: usize) -> Result<Vec<Tap>, OpenError> {
    let others = (1..threads).map(|_| first.sender()).collect::<Result<Vec<_>, _>>();
    let others = others.map_err(OpenError::Descriptors)?;
    Ok([first].into_iter().chain(others).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_ports() {
        let read = |name| Backend::read(name, Backend::Xdp);
        assert_eq!(read("eth0"), Ok(Backend::Xdp("eth0".into())));
        assert_eq!(read("packet:eth0"), Ok(Backend::Packet("eth0".into())));
        assert_eq!(read("tap:tap0"), Ok(Backend::Tap("tap0".into())));
        assert_eq!(read("pcapng:a:b"), Ok(Backend::Files(Some("a".into()), Some("b".into()))));
        assert_eq!(read("pcapng::b"), Ok(Backend::Files(None, Some("b".into()))));
        for wrong in ["dpdk:0", "pcapng:", "pcapng:a", "tap:a:b"] {
            assert!(read(wrong).expect_err(wrong).contains("is no place for a port"), "{wrong}");
        }
    }
}
