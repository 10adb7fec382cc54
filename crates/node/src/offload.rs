//! VLAN tags that an interface takes out of frames before XDP sees them, and putting an end to that; and interfaces that do not
//! send frames with as many tags.
//!
//! ```text
//!   sender > tx-vlan-hw-insert of a veth: the tag stays beside the frame     > XDP sees the frame without its outer tag
//!   card   > rx-vlan-hw-parse: the card tells the tag beside the frame       > the same
//! ```
//! AF_PACKET gets the tag beside the frame and puts it back; AF_XDP gets none. So the features are switched off at interfaces of
//! AF_XDP ports with tags: those of a network card, or of the other end of a veth, if it is in the same network namespace.
//! Otherwise the node says which command to use.
//!
//! Invariant: what is switched off was written down first, in a file of this process. It is switched on again by
//! [`SwitchedOff`] when it is dropped, by its guard when the process is killed, and by the next node if the guard was killed,
//! too. The guard keeps the privileges that the node drops.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};

use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use weir_disk::{Directory, replace_in};
use weir_linux::interface::Interface;
use weir_linux::process::{is_alive, this_process};
use weir_linux::rtnl::{Peer, Rtnl};

use crate::backend::Backend;
use crate::config::Config;

/// Features of a network card that take the tag of 802.1Q, or of 802.1ad, out of frames that it receives.
const RECEIVING: [&str; 2] = ["rx-vlan-hw-parse", "rx-vlan-stag-hw-parse"];
/// Features of a virtual sender that leave the tag beside the frame.
const SENDING: [&str; 2] = ["tx-vlan-hw-insert", "tx-vlan-stag-hw-insert"];
/// The first argument of the process that switches features on again.
const GUARD: &str = "node-offloads";
/// What the guard says when it is on guard.
const READY: &str = "ready\n";

/// A feature that is on and hides tags.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Hiding {
    interface: String,
    /// The number of the interface: another one may get its name.
    index: u32,
    feature: String,
}

/// Features that a process has switched off, as its file says.
#[derive(Debug, Serialize, Deserialize)]
struct Written {
    process: String,
    /// The number of the network namespace.
    namespace: u64,
    hiding: Vec<Hiding>,
}

/// What hides tags from ports.
#[derive(Debug, Default)]
struct Found {
    hiding: Vec<Hiding>,
    /// Interfaces of ports, the other ends of which are in another network namespace.
    elsewhere: Vec<String>,
}

/// Looks at the interfaces of all AF_XDP ports with tags. An interface that tells nothing hides nothing that is known.
fn look(config: &Config) -> Found {
    let mut found = Found::default();
    for (port, backend) in config.plane.ports.iter().zip(&config.backends) {
        if let (false, Backend::Xdp(name)) = (port.vlan.is_plain(), backend) {
            // The port that is opened at it says why it cannot be.
            let _ = found.look_at(name);
        }
    }
    found
}

impl Found {
    fn look_at(&mut self, name: &str) -> weir_linux::Result<()> {
        let mut rtnl = Rtnl::open()?;
        match rtnl.peer(name)? {
            Some(Peer::Elsewhere) => self.elsewhere.push(name.to_string()),
            Some(Peer::Here(index)) => self.add(&rtnl.link_at(index)?.name, SENDING),
            None => self.add(name, RECEIVING),
        }
        Ok(())
    }

    fn add(&mut self, name: &str, features: [&str; 2]) {
        let Ok(interface) = Interface::named(name) else { return };
        let is_on = |feature: &&str| matches!(interface.feature(feature), Ok(Some(true)));
        self.hiding.extend(features.into_iter().filter(is_on).map(|feature| Hiding {
            interface: name.to_string(),
            index: interface.index(),
            feature: feature.to_string(),
        }));
    }
}

impl Hiding {
    /// What it does, and the command that ends it.
    fn obstacle(&self) -> String {
        let Hiding { interface, feature, .. } = self;
        format!(
            "{interface} takes VLAN tags out of frames, which are dropped (unknown_vlan, hidden_vlan): \
             `ethtool -K {interface} {feature} off`, or let the port use packet:INTERFACE"
        )
    }
}

/// What hides tags from an AF_XDP port at this interface, with the command that ends it. An interface that tells nothing hides nothing
/// that is known.
pub(crate) fn obstacle_at(interface: &str) -> Option<String> {
    let mut found = Found::default();
    let _ = found.look_at(interface);
    found.hiding.first().map(Hiding::obstacle)
}

/// What hides tags from the ports of a node, each with the command that ends it.
pub(crate) fn obstacles(config: &Config) -> Vec<String> {
    let Found { hiding, elsewhere } = look(config);
    let on = hiding.iter().map(Hiding::obstacle);
    let far = elsewhere.iter().map(|name| {
        let [plain, service] = SENDING;
        format!(
            "the other end of {name} is in another network namespace and may take VLAN tags out of frames: use \
             `ethtool -K OTHER {plain} off {service} off` there, or let the port use packet:{name}"
        )
    });
    on.chain(far).collect()
}

/// Ports with two tags whose longest frames the kernel does not send: it allows for one tag (VLAN_HLEN of linux/if_vlan.h), and at
/// AF_PACKET only where that is of 802.1Q (packet_snd of net/packet/af_packet.c).
pub(crate) fn short_interfaces(config: &Config) -> Vec<String> {
    let ports = config.plane.ports.iter().zip(&config.backends);
    let short = ports.filter_map(|(port, backend)| {
        let (name, more) = match (backend, port.vlan.most()) {
            (Backend::Xdp(name), 2) => (name, 4),
            (Backend::Packet(name), 2) => (name, 8),
            _ => return None,
        };
        let (has, needs) = (Interface::named(name).and_then(|found| found.mtu()).ok()?, u32::from(port.mtu) + more);
        (has < needs).then(|| {
            format!(
                "{name} sends no packets of {} bytes with two VLAN tags: `ip link set {name} mtu {needs}`, or give `{}` a shorter mtu",
                port.mtu, port.name
            )
        })
    });
    short.collect()
}

/// Features that are off until this is dropped.
#[derive(Debug)]
pub struct SwitchedOff {
    file: PathBuf,
    guard: Option<Child>,
}

impl SwitchedOff {
    /// Switches off what hides tags from the ports of a node, as far as drivers and privileges allow, and writes it down in `folder`
    /// before. Nodes that were killed have theirs switched on again first. `None`: nothing hides tags.
    ///
    /// # Errors
    /// It cannot be written down; nothing was changed.
    pub fn new(config: &Config, folder: &Path) -> io::Result<Option<SwitchedOff>> {
        restore_killed(folder)?;
        let hiding = look(config).hiding;
        if hiding.is_empty() {
            return Ok(None);
        }
        let written = Written { process: this_process(), namespace: namespace()?, hiding };
        fs::create_dir_all(folder)?;
        let name = format!("{}-{}.json", std::process::id(), written.namespace);
        let bytes = serde_json::to_vec(&written).map_err(io::Error::other)?;
        replace_in(&Directory::open(folder)?, OsStr::new(&name), &bytes, 0o600)?;
        let off = SwitchedOff { file: folder.join(name), guard: None };
        // One that cannot be switched is reported when the ports are open.
        written.hiding.iter().for_each(|hiding| _ = hiding.set(false));
        Ok(Some(off))
    }

    /// Has another process of this program switch them on again, which keeps the privileges of this one and outlives it. `program`
    /// calls [`guard_if_asked`] first.
    ///
    /// # Errors
    /// It does not start; then dropping this does it, if it still may.
    pub fn guarded_by(&mut self, program: &Path) -> io::Result<()> {
        let mut command = Command::new(program);
        // Ctrl-C goes to all processes of a group.
        command.arg(GUARD).arg(&self.file).process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut guard = command.spawn()?;
        let mut said = String::new();
        if let Some(out) = guard.stdout.take() {
            BufReader::new(out).read_line(&mut said)?;
        }
        self.guard = Some(guard);
        if said == READY { Ok(()) } else { Err(io::Error::other("its guard has ended")) }
    }
}

impl Drop for SwitchedOff {
    fn drop(&mut self) {
        if let Some(mut guard) = self.guard.take() {
            drop(guard.stdin.take());
            // Without one, this process is the one to do it.
            let _ = guard.wait();
        }
        // Without privileges the next node does it.
        let _ = undo(&self.file);
    }
}

impl Hiding {
    fn set(&self, on: bool) -> io::Result<()> {
        let interface = Interface::named(&self.interface)?;
        let is_known = RECEIVING.iter().chain(&SENDING).any(|feature| self.feature == *feature);
        if interface.index() == self.index && is_known {
            interface.set_feature(&self.feature, on)
        } else {
            Ok(())
        }
    }
}

/// Switches features on again that a file names, and deletes it. What another network namespace has is left alone.
fn undo(file: &Path) -> io::Result<()> {
    let (directory, name) = Directory::of(file)?;
    let bytes = match directory.read_own(&name) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        read => read?,
    };
    let written: Written = serde_json::from_slice(&bytes).map_err(io::Error::other)?;
    if written.namespace != namespace()? {
        return Ok(());
    }
    for hiding in &written.hiding {
        match hiding.set(true) {
            // The interface has gone.
            Err(error) if error.raw_os_error() == Some(Errno::NODEV.raw_os_error()) => {}
            done => done?,
        }
    }
    directory.remove(&name)
}

/// Does what nodes that were killed have left to do in this network namespace.
fn restore_killed(folder: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let file = entry?.path();
        let Ok(bytes) = fs::read(&file) else { continue };
        let Ok(written) = serde_json::from_slice::<Written>(&bytes) else { continue };
        if !is_alive(&written.process) {
            // Its guard may be at work.
            let _lock = File::open(&file).and_then(|open| open.lock().map(|()| open));
            undo(&file)?;
        }
    }
    Ok(())
}

/// The number of the calling thread's network namespace.
fn namespace() -> io::Result<u64> {
    Ok(fs::metadata("/proc/thread-self/ns/net")?.ino())
}

/// Where a service writes down what it has switched off: its state folder from systemd, else the run-time folder of root.
pub fn folder() -> PathBuf {
    let of_service = std::env::var_os("STATE_DIRECTORY").map(PathBuf::from);
    let root = || if weir_disk::is_root() { "/run/weir".into() } else { weir_disk::state_folder() };
    of_service.unwrap_or_else(root).join("offloads")
}

/// This process is the guard of a node, if its first argument says so: waits until the node has ended, and does what it left to do.
pub fn guard_if_asked() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next()? != GUARD {
        return None;
    }
    let file = PathBuf::from(arguments.next()?);
    match guard(&file) {
        Ok(()) => Some(ExitCode::SUCCESS),
        Err(error) => {
            eprintln!("weir: VLAN offloads of {}: {error}", file.display());
            Some(ExitCode::FAILURE)
        }
    }
}

fn guard(file: &Path) -> io::Result<()> {
    let open = File::open(file)?;
    open.lock()?;
    print!("{READY}");
    io::Write::flush(&mut io::stdout())?;
    // It ends when the node does, whatever ends it.
    io::stdin().lock().read_to_end(&mut Vec::new())?;
    undo(file)
}
