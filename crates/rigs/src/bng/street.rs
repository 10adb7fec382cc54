//! The wires of a BNG: the emulator's namespace with both ends of the street, and that of the BNG.
//!
//! ```text
//!  [devices] a (access) ------ b [bng] d ------ c (far) [devices]
//!                                     f ------ e [hosts], with a kernel's stack
//! ```
//! An external DUT is between two interfaces of the caller's namespace.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::AtomicBool;

use weir_cpe::run::{Event, Interfaces, run};
use weir_cpe::{Mac, Options, Summary, Tapped};
use weir_lab::error::RunError;
use weir_linux::Error;
use weir_linux::namespace::Namespace;
use weir_linux::rtnl::{Rtnl, VethConfig, VethEnd};

use weir_testbed::cpu::{CpuPlan, DutCpus};

use super::plan::{Concentrators, Dut};

/// Interfaces of the BNG in its namespace.
pub(super) const ACCESS: &str = "b";
pub(super) const FAR: &str = "d";
pub(super) const HOSTS: &str = "f";
/// The network of hosts with a kernel's stack behind the BNG.
pub(super) const HOSTS_NETWORK: (IpAddr, u8) = (IpAddr::V4(Ipv4Addr::new(198, 18, 2, 0)), 24);
/// Name of the session that is an interface.
pub(super) const TAP: &str = "tcp0";
/// MAC address of the far end, on wire 1.
pub(super) const FAR_MAC: Mac = Mac([2, 0, 0, 0x77, 1, 1]);

/// The namespaces, and the interfaces of the emulator.
pub(super) struct Street {
    pub(super) devices: Namespace,
    /// Hosts behind the BNG; `None` of an external one.
    pub(super) hosts: Option<Namespace>,
    /// That of the BNG; `None` of an external one.
    pub(super) bng: Option<Namespace>,
    access: String,
    far: String,
}

impl Street {
    /// Wires that were never used, or the interfaces of an external DUT.
    pub(super) fn new(plan: &Concentrators, dut: Dut) -> Result<Street, RunError> {
        if let (Dut::External, Some(external)) = (dut, &plan.external) {
            let (access, far) = (external.on.clone(), external.far.clone());
            return Ok(Street { devices: Namespace::current()?, hosts: None, bng: None, access, far });
        }
        let (devices, bng) = (Namespace::new()?, Namespace::new()?);
        for (number, (here, there)) in (0..).zip([("a", ACCESS), ("c", FAR)]) {
            wire(number, [(&devices, here), (&bng, there)])?;
        }
        let hosts = Namespace::new()?;
        wire(2, [(&hosts, "e"), (&bng, HOSTS)])?;
        hosts.run(host)?;
        Ok(Street { devices, hosts: Some(hosts), bng: Some(bng), access: "a".into(), far: "c".into() })
    }

    /// Runs devices on these wires.
    pub(super) fn emulate(
        &self,
        options: Options,
        stop: &AtomicBool,
        observe: &mut (dyn FnMut(Event<'_>) + Send),
    ) -> Result<Summary, RunError> {
        let far = options.own_far.then_some(&*self.far);
        let tap = (options.tap != Tapped::None).then_some(TAP);
        let interfaces = Interfaces { access: &self.access, far, tap };
        let cpu = CpuPlan::choose(DutCpus::Count(1))?.tester.first().copied();
        let emulate = || {
            // On a CPU that it may not use it runs elsewhere.
            let _ = cpu.map(weir_port::thread::pin_to);
            run(options, &interfaces, stop, observe)
        };
        self.devices.run(emulate).map_err(failed)
    }
}

/// An error of the emulator as one of a run.
pub(super) fn failed(error: weir_cpe::run::RunError) -> RunError {
    RunError::Linux(Error::Input(error.to_string()))
}

/// Gives the host its address, and the way to subscribers.
fn host() -> Result<(), Error> {
    let mut rtnl = Rtnl::open()?;
    let index = rtnl.link("e")?.ifindex;
    rtnl.add_address(index, Ipv4Addr::new(198, 18, 2, 2).into(), 24)?;
    let subscribers = (Ipv4Addr::new(100, 64, 0, 0).into(), 10);
    rtnl.add_route(subscribers, Ipv4Addr::new(198, 18, 2, 1).into(), index)
}

fn wire(number: u8, ends: [(&Namespace, &str); 2]) -> Result<(), RunError> {
    let veth = [(ends[0], 1), (ends[1], 2)].map(|((namespace, name), end)| VethEnd {
        name,
        mac: [2, 0, 0, 0x77, number, end],
        namespace: namespace.fd(),
    });
    let config = VethConfig { mtu: 1508, queues: 1 };
    ends[0].0.run(|| Rtnl::open()?.add_veth(veth, config))?;
    for (namespace, name) in ends {
        namespace.run(|| -> Result<(), Error> {
            // A kernel without IPv6 has nothing to switch off.
            let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1");
            let mut rtnl = Rtnl::open()?;
            let index = rtnl.link(name)?.ifindex;
            // A host asks for its gateway, and answers.
            if name != "e" {
                rtnl.keep_quiet(index)?;
            }
            rtnl.set_up(index, true)
        })?;
    }
    Ok(())
}

/// Makes the wires of each DUT once.
pub(super) fn check(plan: &Concentrators) -> Result<(), RunError> {
    if let Some(external) = plan.external.as_ref().filter(|_| plan.duts.contains(&Dut::External)) {
        for name in [&external.on, &external.far] {
            weir_lab::interface::check_ready(&weir_lab::interface::find(name)?)?;
        }
    }
    let made = plan.duts.iter().find(|dut| **dut != Dut::External);
    made.map_or(Ok(()), |dut| Street::new(plan, *dut).map(drop))
}
