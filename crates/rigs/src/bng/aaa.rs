//! The RADIUS server beside weir: that of the lab, or FreeRADIUS, in the BNG's namespace.
//!
//! ```text
//!  bngd > 127.0.0.1:1812 [ lab: stated delay and loss | FreeRADIUS: one thread, files ] > Filter-Id: a plan of the concentrator
//! ```

use std::fs;
use std::net::UdpSocket;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use weir_cpe::radius::{Accounted, Answers, Delivery, Ledger, User, serve};
use weir_lab::error::RunError;
use weir_lab::run::process::{LOOK, Process};
use weir_lab::run::programs::{self, Programs};
use weir_linux::Error;
use weir_linux::namespace::Namespace;
use weir_linux::rtnl::Rtnl;
use weir_testbed::journal::Journal;

use super::plan::{Aaa, Concentrators};

/// Other programs.
pub(super) const PROGRAMS: Programs = Programs(include_str!("../../../../plans/bng.programs"));
const FREERADIUS: &str = "freeradius";
/// Name and password of the device with a plan of 20 Mbit/s; the password is that of all devices.
pub(super) const SLOW_LOGIN: &str = "slow@isp";
pub(super) const PASSWORD: &str = "secret";
/// Where servers answer: authentication, accounting.
const ADDRESSES: [&str; 2] = ["127.0.0.1:1812", "127.0.0.1:1813"];
/// Shared by client and server, and the file in which the client finds it.
const SECRET: &str = "secret-of-the-lab";
const SECRET_FILE: &str = "radius.secret";

/// A server that runs.
pub(super) enum Server {
    Lab(Lab),
    FreeRadius(Process),
}

/// Why it cannot run here.
pub(super) fn obstacle(aaa: Aaa) -> Option<String> {
    let missing = (aaa == Aaa::FreeRadius).then(|| programs::missing(FREERADIUS, PROGRAMS)).flatten()?;
    Some(format!("FreeRADIUS is left out: {missing}"))
}

/// The items of a configuration that ask it, beside those of local passwords.
pub(super) fn items(aaa: Aaa) -> String {
    match aaa {
        Aaa::Local => String::new(),
        Aaa::Lab(_) | Aaa::FreeRadius => {
            let [address, _] = ADDRESSES;
            let accounting = "accounting 1813,\n  accounting interim 10m";
            format!(",\n  radius lab {address} secret-file {SECRET_FILE} status plan fast {accounting}")
        }
    }
}

impl Server {
    /// Starts what the entry asks in this namespace; `None`: passwords are checked by the control program.
    pub(super) fn start(
        aaa: Aaa,
        plan: &Concentrators,
        folder: &Path,
        namespace: &Namespace,
        journal: &mut Journal,
    ) -> Result<Option<Server>, RunError> {
        if aaa == Aaa::Local {
            return Ok(None);
        }
        fs::write(folder.join(SECRET_FILE), SECRET).map_err(|error| failed("write a secret", error))?;
        namespace.run(|| -> Result<(), Error> {
            let mut rtnl = Rtnl::open()?;
            let index = rtnl.link("lo")?.ifindex;
            rtnl.set_up(index, true)
        })?;
        let server = match aaa {
            Aaa::Lab(delay) => {
                let delivery = Delivery { delay, loss: plan.radius_loss, seed: 1 };
                Server::Lab(Lab::start(delivery, namespace)?)
            }
            _ => Server::FreeRadius(freeradius(folder, namespace, journal)?),
        };
        Ok(Some(server))
    }

    /// What it was told by accounting so far; `None`: it does not say.
    pub(super) fn accounted(&self) -> Option<Accounted> {
        match self {
            Server::Lab(lab) => Some(lab.ledger.lock().unwrap_or_else(PoisonError::into_inner).accounted()),
            Server::FreeRadius(_) => None,
        }
    }

    /// Ends it.
    pub(super) fn end(self, journal: &mut Journal) -> Result<(), RunError> {
        if let Server::FreeRadius(process) = self {
            let _ = process.end(Some(libc::SIGKILL), journal)?;
        }
        Ok(())
    }
}

fn failed(what: &str, why: impl std::fmt::Display) -> RunError {
    RunError::Linux(Error::Input(format!("{what}: {why}")))
}

/// That of the lab, in a thread.
pub(super) struct Lab {
    stop: Arc<AtomicBool>,
    ledger: Arc<Mutex<Ledger>>,
    thread: Option<JoinHandle<std::io::Result<()>>>,
}

impl Lab {
    fn start(delivery: Delivery, namespace: &Namespace) -> Result<Lab, RunError> {
        let bind = || ADDRESSES.iter().map(UdpSocket::bind).collect::<std::io::Result<Vec<_>>>();
        let sockets = namespace.run(bind).map_err(|error| failed("a socket for RADIUS", error))?;
        let user = |plan: &str| User { password: PASSWORD.into(), plan: plan.into() };
        let users = [(SLOW_LOGIN.to_string(), user("slow"))].into();
        let answers = Answers { secret: SECRET.into(), users, others: Some(user("fast")) };
        let (stop, ledger) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::default()));
        let thread = {
            let (stop, ledger) = (stop.clone(), ledger.clone());
            std::thread::Builder::new()
                .name("radius".into())
                .spawn(move || serve(&sockets, &answers, delivery, &ledger, &stop))
        };
        let thread = thread.map_err(|error| failed("a thread for RADIUS", error))?;
        Ok(Lab { stop, ledger, thread: Some(thread) })
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // What it could say came too late to change a trial.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// FreeRADIUS with one thread and a file of users.
fn freeradius(folder: &Path, namespace: &Namespace, journal: &mut Journal) -> Result<Process, RunError> {
    let folder = folder.join(FREERADIUS);
    let path = folder.display().to_string();
    let text = include_str!("freeradius.txt").replace("@FOLDER@", &path).replace("@SECRET@", SECRET);
    let user = |name: &str, plan: &str| {
        format!("{name} Cleartext-Password := \"{PASSWORD}\"\n\tFilter-Id = \"{plan}\"\n")
    };
    let files = [
        ("radiusd.conf", text),
        ("users", user(SLOW_LOGIN, "slow") + &user("DEFAULT", "fast")),
        ("dictionary", "$INCLUDE /usr/share/freeradius/dictionary\n".into()),
    ];
    fs::create_dir(&folder).map_err(|error| failed("make a folder for FreeRADIUS", error))?;
    for (name, text) in files {
        fs::write(folder.join(name), text).map_err(|error| failed("write a file for FreeRADIUS", error))?;
    }
    let mut command = Command::new(FREERADIUS);
    command.env("PATH", programs::path()).args(["-f", "-d", &path]);
    let said = folder.join("said");
    let cpus: Vec<usize> = (0..std::thread::available_parallelism().map_or(1, usize::from)).collect();
    let process = namespace.run(|| Process::start(&mut command, &cpus, &said, journal))?;
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
    // It writes its log by itself.
    let log = folder.join("radius.log");
    while !fs::read_to_string(&log).is_ok_and(|text| text.contains("Ready to process requests")) {
        if process.has_ended() || std::time::Instant::now() > deadline {
            let said = fs::read_to_string(&log).unwrap_or_default() + &process.last_words();
            return Err(failed("FreeRADIUS was not ready in time", said));
        }
        std::thread::sleep(LOOK);
    }
    Ok(process)
}
