//! TCP to a subscriber with a plan of 20 Mbit/s: its session is an interface, so that the kernel's TCP runs behind its tags.
//!
//! ```text
//!  [hosts] weir flows > e ---- f [bng] b ---- a > emulator > tcp0 [devices] weir flows --serve
//! ```

use std::net::{IpAddr, Ipv4Addr};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use weir_cpe::run::Event;
use weir_cpe::{Options, Tapped, Template};
use weir_lab::error::RunError;
use weir_lab::run::folder::Folder;
use weir_lab::run::process::Process;
use weir_linux::Error;
use weir_linux::rtnl::Rtnl;
use weir_record::record::{Trial, Verdict};
use weir_testbed::cpu::{CpuPlan, DutCpus};
use weir_testbed::journal::Journal;

use super::aaa::SLOW_LOGIN;
use super::measured::Goodput;
use super::street::{HOSTS_NETWORK, Street, TAP};
use super::weir::{SLOW_MAC, program};

/// How long flows send, and how many there are.
const TRIAL_S: u32 = 4;
const FLOWS: u32 = 4;
/// Time limit of the set-up.
const PATIENCE: Duration = Duration::from_secs(10);

/// The address and the gateway of the session.
type Lease = (Ipv4Addr, Option<Ipv4Addr>);

/// Brings the subscriber online, and sends to it.
pub(super) fn measure(
    street: &Street,
    options: Options,
    stop: &AtomicBool,
    journal: &mut Journal,
) -> Result<Trial, RunError> {
    let mut options =
        Options { first_mac: SLOW_MAC, tap: Tapped::First, own_far: false, far: None, hold: None, ..options };
    if let Some(pppoe) = &mut options.pppoe {
        pppoe.login = Template(SLOW_LOGIN.into());
    }
    let own_stop = AtomicBool::new(false);
    let (leased, is_leased) = mpsc::channel();
    let found = thread::scope(|scope| {
        let own_stop = &own_stop;
        let sender = scope.spawn(move || {
            let found = send(street, &is_leased, journal);
            own_stop.store(true, Ordering::Relaxed);
            found
        });
        let emulated = street.emulate(options, own_stop, &mut |event| match event {
            Event::Tap { address, gateway, .. } => leased.send((address, gateway)).unwrap_or_default(),
            Event::Progress(_) if stop.load(Ordering::Relaxed) => own_stop.store(true, Ordering::Relaxed),
            Event::Progress(_) => {}
        });
        drop(leased);
        let found = sender.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        emulated.and(found)
    })?;
    let trial = Trial { duration_s: TRIAL_S.into(), ..Trial::default() };
    Ok(match found {
        Ok(bits_per_s) => trial.with_detail(&Goodput { bits_per_s }),
        Err(why) => Trial { verdict: Verdict::Invalid, reasons: vec![why], ..trial },
    })
}

/// Goodput in bit/s; `Err` inside: why there is none.
fn send(
    street: &Street,
    is_leased: &Receiver<Lease>,
    journal: &mut Journal,
) -> Result<Result<f64, String>, RunError> {
    let Ok((address, gateway)) = is_leased.recv_timeout(PATIENCE) else {
        return Ok(Err("the subscriber with the plan of 20 Mbit/s did not come online".into()));
    };
    // The thread of the namespace belongs to the emulator meanwhile.
    street.devices.enter()?;
    let mut rtnl = Rtnl::open()?;
    let index = rtnl.link(TAP)?.ifindex;
    let gateway = gateway.unwrap_or(Ipv4Addr::new(100, 64, 0, 1));
    rtnl.add_route(HOSTS_NETWORK, IpAddr::V4(gateway), index)?;
    let failed = |error: std::io::Error| RunError::Linux(Error::Input(format!("make a folder: {error}")));
    let folder = Folder::new(&std::env::temp_dir()).map_err(failed)?;
    let mut server = Command::new(program());
    server.args(["flows", "--serve", "--bind", &format!("{address}:{}", weir_flows::PORT)]);
    let cpus = CpuPlan::choose(DutCpus::Count(1))?.tester;
    let server = Process::start(&mut server, &cpus, &folder.path().join("server"), journal)?;
    let sent = match server.await_words("serving at") {
        Ok(()) => thread::scope(|scope| {
            let client = scope.spawn(|| client(street, address));
            client.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        }),
        Err(why) => Ok(Err(why)),
    };
    // What it says in the end is not asked for.
    let _ = server.end(Some(libc::SIGTERM), journal)?;
    sent
}

fn client(street: &Street, address: Ipv4Addr) -> Result<Result<f64, String>, RunError> {
    if let Some(hosts) = &street.hosts {
        hosts.enter()?;
    }
    let mut command = Command::new(program());
    command.args(["flows", "--json", "--to", &address.to_string()]).stdin(Stdio::null());
    command.args(["--flows", &FLOWS.to_string(), "--duration", &TRIAL_S.to_string()]);
    let output = command.output().map_err(Error::os("start weir flows"))?;
    let said = String::from_utf8_lossy(&output.stdout);
    let last = said.lines().last().and_then(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let rate = last.and_then(|last| last.get("sum_bits_per_s")?.as_f64());
    Ok(rate
        .ok_or_else(|| format!("no TCP through a plan: {}", String::from_utf8_lossy(&output.stderr).trim())))
}
