//! Frames that prove the faults of a NAT, as a capture file: an interface for each side and kind of mistake.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use weir_load::translation::{Evidence, NatFault};
use weir_port::bpf::now_ns;
use weir_port::pcapng::{ETHERNET, Interface, Packet, write};

/// Writes the frames to a file in a folder that is made if need be, and returns its path.
pub(super) fn write(folder: &Path, name: &str, evidence: &[Evidence]) -> io::Result<PathBuf> {
    std::fs::create_dir_all(folder)?;
    let path = folder.join(name.replace(':', "."));
    weir_disk::replace(&path, &capture(evidence, clock_offset_ns()), 0o644)?;
    Ok(path)
}

/// What is added to CLOCK_MONOTONIC to get ns since 1970.
fn clock_offset_ns() -> u64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (since_1970.as_nanos() as u64).saturating_sub(now_ns())
}

/// The file.
fn capture(evidence: &[Evidence], offset_ns: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    let author =
        write::Author { application: concat!("weir ", env!("CARGO_PKG_VERSION")), ..Default::default() };
    write::section(&mut bytes, &author);
    for fault in NatFault::ALL {
        let interface = Interface {
            name: if fault.is_outside() { "outside".into() } else { "inside".into() },
            description: fault.text().into(),
            link_type: ETHERNET,
            ..Interface::default()
        };
        write::interface(&mut bytes, &interface);
    }
    for one in evidence {
        let interface =
            NatFault::ALL.iter().position(|fault| *fault == one.fault).expect("ALL has each") as u32;
        let at_ns = one.at_ns + offset_ns;
        let packet = Packet { interface, at_ns, wire_len: one.wire_len, bytes: &one.bytes, dropped: 0 };
        write::packet(&mut bytes, &packet);
    }
    bytes
}
