//! The NAT without state as a device under test: the upper half of the subscribers' network becomes the lower half of the
//! other side's, host by host and port by port.

use weir_port::bpf::{Memory, Mode, Program, object};
use weir_port::translation::PrefixNat;

use super::{Device, DeviceError};
use crate::fault::{Faults, NatMistake, NatMistakes};
use crate::interface::Port;

/// 198.18.128.0/17, where the tester has its hosts.
const PRIVATE_NET: u32 = 0xc612_8000;
/// 198.19.0.0/17, where it has none.
pub(crate) const PUBLIC_NET: u32 = 0xc613_0000;
/// 15 bits of an address are those of the host.
pub(crate) const HOST_MASK: u32 = 0x7fff;

/// Starts it in the calling thread's namespace.
pub(super) fn start(ports: &[Port; 2], faults: &Faults) -> Result<Device, DeviceError> {
    let program = Program::load("NAT without state", object::PREFIX_NAT, &[])?;
    let memory: Memory<PrefixNat> = program.memory("bss", 1)?;
    let (fault, every) = match faults.nat {
        None => (0, 1),
        Some(NatMistakes { kind, every }) => (code(kind), every),
    };
    let [inward, outward] = ports.each_ref().map(addresses);
    memory.set(
        0,
        &PrefixNat {
            inside: ports[0].ifindex,
            outside: ports[1].ifindex,
            private_net: PRIVATE_NET,
            public_net: PUBLIC_NET,
            host_mask: HOST_MASK,
            fault,
            every,
            inward,
            outward,
            ..PrefixNat::default()
        },
    );
    let attach = |port: &Port| program.attach(port.ifindex, Mode::Native);
    let links = [attach(&ports[0])?, attach(&ports[1])?];
    Ok(Device::Xdp { links, program })
}

/// As the program has it.
fn code(mistake: NatMistake) -> u32 {
    match mistake {
        NatMistake::Leak => 1,
        NatMistake::Clash => 2,
        NatMistake::WrongSubscriber => 3,
        NatMistake::Remap => 4,
    }
}

/// Ethernet destination and source of frames that leave by a port.
fn addresses(port: &Port) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..6].copy_from_slice(&port.next_hop_mac);
    bytes[6..12].copy_from_slice(&port.mac);
    bytes
}
