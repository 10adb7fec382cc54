//! Congestion controls of the kernel's TCP that this program brings along, as eBPF programs (struct_ops).
//!
//! The kernel has one list of them for the whole machine: others see ours while it is registered, and can use it as root. So it
//! has its own name (`weir_bbr3`), and no connection uses it unasked. The kernel takes it back when the link's descriptor is
//! closed, whatever ends this program; connections that use it keep it until they are closed.

use libbpf_rs::{Link, MapCore, MapMut, MapType, Object, ObjectBuilder, OpenObject};

use super::{BpfError, object};
use crate::refusal;

/// Bytes of a name with the zero behind it, TCP_CA_NAME_MAX.
const NAME_BYTES: usize = 16;
/// So many programs can have the same one registered at a time.
const MOST: u32 = 64;

/// What is brought along.
struct Brought {
    /// As users know it.
    name: &'static str,
    object: &'static object::Aligned<[u8]>,
    /// The first kernel that takes it.
    needs: &'static str,
    /// How it differs from what its documents say.
    note: &'static str,
}

/// The only one that is of use at both ends alone.
const AT_BOTH_ENDS: &str = "dctcp";
const BBR_NOTE: &str =
    "what was in flight and lost is known by ACK, not by segment; without the rules for tail loss probes";

/// All of them. Links of struct_ops are there since Linux 6.4, the arguments of `cong_control` since 6.10.
static ALL: [Brought; 3] = [
    Brought { name: "dctcp", object: object::DCTCP, needs: "6.4", note: "RFC 8257" },
    Brought { name: "bbr2", object: object::BBR2, needs: "6.10", note: BBR_NOTE },
    Brought { name: "bbr3", object: object::BBR3, needs: "6.10", note: BBR_NOTE },
];

/// Names of the congestion controls that are brought along.
pub fn names() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|one| one.name)
}

/// A congestion control that sockets of this machine can have, as long as this lives.
#[derive(Debug)]
pub struct CongestionControl {
    name: String,
    both_ends: bool,
    note: Option<&'static str>,
    _registered: Option<Registered>,
}

/// The link is dropped before the programs.
#[derive(Debug)]
struct Registered {
    _link: Link,
    _object: Object,
}

impl CongestionControl {
    /// The kernel's own under this name, or ours, which is registered then. A name that neither has is the kernel's affair:
    /// it may have it as a module.
    ///
    /// # Errors
    /// The kernel does not take ours.
    pub fn provide(name: &str) -> Result<CongestionControl, BpfError> {
        match ALL.iter().find(|one| one.name == name) {
            Some(brought) if !kernel_has(name) => brought.register(),
            _ => Ok(CongestionControl {
                name: name.into(),
                both_ends: name == AT_BOTH_ENDS,
                note: None,
                _registered: None,
            }),
        }
    }

    /// The name by which sockets get it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether receivers need it, too: they report marks as it wants them.
    pub fn needs_both_ends(&self) -> bool {
        self.both_ends
    }

    /// A sentence on ours for reports; none of the kernel's own.
    pub fn note(&self) -> Option<String> {
        self.note
            .map(|note| format!("{} is loaded into the kernel as eBPF programs of weir: {note}", self.name))
    }
}

/// Whether the kernel has a congestion control by itself, now.
fn kernel_has(name: &str) -> bool {
    let known = weir_disk::kernel_text("/proc/sys/net/ipv4/tcp_available_congestion_control");
    known.is_ok_and(|known| known.split_whitespace().any(|one| one == name))
}

impl Brought {
    /// Under the first name that no other program has.
    fn register(&self) -> Result<CongestionControl, BpfError> {
        let mut number = 1;
        loop {
            let name = match number {
                1 => format!("weir_{}", self.name),
                _ => format!("weir_{}_{number}", self.name),
            };
            match self.registered(&name) {
                Err(libbpf) if is_taken(&libbpf) && number < MOST => number += 1,
                Err(source) => {
                    let report = refusal::keep(&name, &source);
                    return Err(BpfError::Register { name, needs: self.needs, source, report });
                }
                Ok(registered) => {
                    return Ok(CongestionControl {
                        name,
                        both_ends: self.name == AT_BOTH_ENDS,
                        note: Some(self.note),
                        _registered: Some(registered),
                    });
                }
            }
        }
    }

    fn registered(&self, name: &str) -> Result<Registered, libbpf_rs::Error> {
        refusal::listen();
        let mut object = self.open(name)?.load()?;
        let mut operations: Vec<MapMut<'_>> = object.maps_mut().collect();
        let operations = operations.iter_mut().find(|map| map.map_type() == MapType::StructOps);
        let link = operations.expect("the object has operations").attach_struct_ops()?;
        Ok(Registered { _link: link, _object: object })
    }

    /// With this name, which stands at the beginning of the operations (`bpf/cc.h`).
    fn open(&self, name: &str) -> Result<OpenObject, libbpf_rs::Error> {
        let mut builder = ObjectBuilder::default();
        let mut open = builder.open_memory(&self.object.0)?;
        let mut operations = open.maps_mut().find(|map| map.map_type() == MapType::StructOps);
        let value = operations.as_mut().and_then(|map| map.initial_value_mut());
        let field = value.and_then(|value| value.first_chunk_mut::<NAME_BYTES>()).expect("a name in front");
        let mut bytes = [0; NAME_BYTES];
        bytes[..name.len()].copy_from_slice(name.as_bytes());
        *field = bytes;
        Ok(open)
    }
}

fn is_taken(error: &libbpf_rs::Error) -> bool {
    error.kind() == libbpf_rs::ErrorKind::AlreadyExists
}

/// Loads all of them, and registers none.
///
/// # Errors
/// The kernel does not take one.
pub fn try_all() -> Result<(), BpfError> {
    ALL.iter().try_for_each(|brought| {
        let name = format!("weir_{}", brought.name);
        refusal::listen();
        brought.open(&name).and_then(OpenObject::load).map(drop).map_err(|source| {
            let report = refusal::keep(&name, &source);
            BpfError::Register { name, needs: brought.needs, source, report }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_with_their_numbers() {
        for name in names() {
            assert!(format!("weir_{name}_{MOST}").len() < NAME_BYTES, "{name}");
        }
    }
}
