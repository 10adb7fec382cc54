//! The test bed of one trial: built, measured in, taken down when dropped.

use std::net::IpAddr;
use std::sync::Arc;

use weir_packet::flow::{IpVersion, MAX_NETWORKS};

use crate::counters::Snapshot;
use crate::cpu::CostSample;
use crate::dut::{DutKind, Function, System};
use crate::error::{Error, Result};
use crate::external::{External, ExternalSpec, PortEnd};
use crate::graph::{End, Graph, Host};
use crate::interface::Port;
use crate::journal::Journal;
use crate::link::LinkSpec;
use crate::publish::publish;
use crate::receive::{self, NapiThread};
use crate::rules::{Filter, Policy, RuleCounter, RuleForm, RuleSet};
use crate::spread::{self, Setting, Spreading, Trees, Written};
use crate::topology::{self, Owner, Side};
use weir_linux::conntrack;
use weir_linux::namespace::Namespace;
use weir_linux::rtnl::VethConfig;
use weir_linux::sys;

/// MTUs that a veth takes and IPv6 can use.
pub const MTU_RANGE: std::ops::RangeInclusive<u32> = 1280..=65_535;
/// Most receive queues: more are of no use to anyone, and each has a ring and a thread.
pub const QUEUES: std::ops::RangeInclusive<u32> = 1..=64;

/// Sessions that a NAT of ours has room for unless there are more flows.
pub const SESSIONS: u32 = 2_000_000;
/// Entries that the fast path of a node of ours has room for: the least number unless there are more flows.
pub const FAST_ENTRIES: std::ops::RangeInclusive<u32> = weir_port::fast::ROOM..=weir_port::fast::MOST_ROOM;

/// What to build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BedSpec {
    /// The device under test.
    pub dut: DutKind,
    /// Number of filter rules, for the kinds that filter: see [`crate::rules::RULES`].
    pub rules: u32,
    /// Form of these rules.
    pub form: RuleForm,
    /// Networks of each side that the DUT has a route to, 1 to [`MAX_NETWORKS`].
    pub networks: u32,
    /// IP version of the test traffic; the other one is silent.
    pub ip: IpVersion,
    /// Largest IP packet in bytes, see [`MTU_RANGE`].
    pub mtu: u32,
    /// CPUs of the DUT. With more than one, RPS spreads the frames of each receive queue over them.
    pub dut_cpus: Vec<usize>,
    /// Receive queues of each interface, see [`QUEUES`]; each has a ring of 256 frames.
    pub rx_queues: u32,
    /// CPUs for the work of the DUT's interfaces, instead of the above; with an external DUT, of the ports of this machine.
    pub spreading: Spreading,
    /// Sessions that a NAT of ours has room for.
    pub sessions: u32,
    /// Entries that the fast path of a node of ours has room for.
    pub fast_entries: u32,
    /// The link of a bottleneck.
    pub link: LinkSpec,
    /// Makes the namespaces visible to ip(8) as NAME-tester and NAME-dut while the bed stands.
    pub publish: Option<String>,
}

impl BedSpec {
    /// A DUT on these CPUs without rules, for IPv4 packets as they usually are.
    pub fn plain(dut: DutKind, dut_cpus: Vec<usize>) -> BedSpec {
        BedSpec {
            dut,
            rules: 0,
            form: RuleForm::NftChain,
            networks: 1,
            ip: IpVersion::V4,
            mtu: 1500,
            dut_cpus,
            rx_queues: 1,
            spreading: Spreading::default(),
            sessions: SESSIONS,
            fast_entries: *FAST_ENTRIES.start(),
            link: LinkSpec::default(),
            publish: None,
        }
    }
}

/// The receivers of the DUT.
#[derive(Debug)]
pub struct Receivers {
    threads: Vec<NapiThread>,
    notes: Vec<String>,
}

/// A test bed.
pub struct Bed {
    spec: BedSpec,
    graph: Graph,
    rules: Option<RuleSet>,
    external: Option<External>,
    threads: Vec<NapiThread>,
    notes: Vec<String>,
    /// Masks of this machine's interfaces.
    _written: Option<Written>,
}

impl Bed {
    /// Builds a bed. Only names that `spec.publish` asks for go to the journal; all else is in anonymous
    /// namespaces.
    ///
    /// # Errors
    /// [`Error::Input`] for what cannot be built, [`Error::NoNamespace`], [`Error::ToolMissing`], or what
    /// the kernel refuses. Missing rights that only blur a measurement become [`Bed::notes`].
    pub fn build(spec: &BedSpec, journal: &mut Journal) -> Result<Bed> {
        let rules = check(spec)?;
        let plan = if spec.dut == DutKind::WIRE { topology::WIRE } else { topology::DEVICE };
        let mut graph = Graph::new(plan)?;
        graph.hosts().iter().try_for_each(|host| match host.owner {
            Owner::Tester => host.namespace.run(topology::silence),
            Owner::Dut => host.namespace.run(|| topology::configure(spec.ip)),
        })?;
        let asked = spec.rx_queues.max(spec.spreading.queues(&spec.dut_cpus)?);
        // Each thread of a node has its own queue.
        let threads = if spec.dut.takes_by_xdp() { spec.dut_cpus.len() as u32 } else { 1 };
        let queues = asked.max(threads);
        let config = VethConfig { mtu: spec.mtu, queues };
        graph.connect(config, topology::prepare)?;
        let duts = || graph.hosts().iter().filter(|host| host.owner == Owner::Dut);
        match spec.dut.function() {
            Function::Bridge => {
                duts().try_for_each(|host| host.namespace.run(|| topology::bridge(&graph, host)))?;
            }
            _ => topology::route(&graph, spec.ip, spec.networks)?,
        }
        if let Some(rules) = &rules {
            duts().try_for_each(|host| host.namespace.run(|| rules.install()))?;
        }
        let (threads, notes) = (Vec::new(), Vec::new());
        let spec = spec.clone();
        let mut bed = Bed { spec, graph, rules, external: None, threads, notes, _written: None };
        bed.place_receivers();
        for end in bed.ends().filter(|end| end.owner == Owner::Dut) {
            bed.spread_end(end, &bed.spec.spreading, &bed.spec.dut_cpus)?;
        }
        bed.publish(journal)?;
        Ok(bed)
    }

    /// A bed around an external DUT, between interfaces of the calling thread's namespace, or one of them and
    /// `remote` on another host. What is changed on them is written down beside `journal`, and undone with the bed.
    ///
    /// # Errors
    /// [`Error::Input`], [`Error::Hook`], or what the kernel refuses.
    pub fn around(
        spec: &BedSpec,
        external: &ExternalSpec,
        remote: Option<Arc<dyn PortEnd>>,
        journal: &Journal,
    ) -> Result<Bed> {
        let tester = Namespace::current()?;
        let settings = Bed::settings_of_ports(&spec.spreading, external)?;
        let _written = if settings.is_empty() {
            None
        } else {
            Some(spread::write_for_now(&settings, journal.another())?)
        };
        let external = Some(External::open(external, spec.ip, &tester, remote)?);
        let graph = Graph::of(Host { name: "tester", owner: Owner::Tester, namespace: tester });
        let (spec, threads, notes) = (spec.clone(), Vec::new(), Vec::new());
        Ok(Bed { spec, graph, rules: None, external, threads, notes, _written })
    }

    /// What a bed around an external DUT writes for this machine's ports.
    ///
    /// # Errors
    /// [`Error::Input`]: they do not have what is to be spread.
    pub fn settings_of_ports(spreading: &Spreading, external: &ExternalSpec) -> Result<Vec<Setting>> {
        let cpus = sys::affinity(0).map_err(Error::os("list the CPUs of this process"))?;
        let settings = external.ports.iter().map(|port| spreading.settings(port, &cpus, &Trees::default()));
        Ok(settings.collect::<Result<Vec<_>>>()?.concat())
    }

    /// Selects CPUs for the work of one of the tester's ports, from `allowed`.
    ///
    /// # Errors
    /// [`Error::Input`]: it does not have what is to be spread; or what the kernel refuses.
    pub fn spread_port(&self, side: Side, spreading: &Spreading, allowed: &[usize]) -> Result<()> {
        self.spread_end(self.tester_end(side), spreading, allowed)
    }

    fn spread_end(&self, end: &End, spreading: &Spreading, allowed: &[usize]) -> Result<()> {
        if spreading.is_none() {
            return Ok(());
        }
        if !end.namespace.has_sysfs() {
            return Err(Error::Input(format!(
                "cannot mount /sys in a namespace, so the work of {} cannot be spread: run as root, or omit rps, xps and \
                 coalesce_us",
                end.name
            )));
        }
        end.namespace.run(|| spread::write(&spreading.settings(end.name, allowed, &Trees::default())?))
    }

    /// Whether such a bed could be built, as far as can be known without building it.
    ///
    /// # Errors
    /// [`Error::Input`], [`Error::ToolMissing`].
    pub fn check(spec: &BedSpec) -> Result<()> {
        check(spec).map(drop)
    }

    /// Gives the DUT's interfaces receive threads and places them. Called by `build`; call it again when an XDP
    /// program was attached or detached, since that may replace NAPI instances.
    pub fn place_receivers(&mut self) {
        let receivers = self.receivers();
        self.adopt(receivers);
    }

    /// Takes note of receive threads that were placed while a trial went on.
    pub fn adopt(&mut self, receivers: Receivers) {
        (self.threads, self.notes) = (receivers.threads, receivers.notes);
    }

    /// Sets the DUT's interfaces down, then up, and gives it its addresses and routes again: what an administrator does
    /// a caller that resets its links. Rules and tracked connections stay.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub fn cycle_links(&self) -> Result<Receivers> {
        topology::cycle(&self.graph)?;
        topology::route(&self.graph, self.spec.ip, self.spec.networks)?;
        Ok(self.receivers())
    }

    fn receivers(&self) -> Receivers {
        let mut notes = Vec::new();
        let ends = self.ends().filter(|end| end.owner == Owner::Dut);
        let threads: Vec<_> = ends.flat_map(|end| receive::thread(end, &self.threads, &mut notes)).collect();
        receive::place(&threads, &self.spec.dut_cpus, &mut notes);
        let asked = self.spec.spreading.rps_cpus(&self.spec.dut_cpus).unwrap_or_default();
        let several = self.dut().is_some() && self.spec.dut_cpus.len() > 1;
        if asked.is_none() && several {
            self.ends().filter(|end| end.owner == Owner::Dut).for_each(|end| {
                receive::spread(end, &self.spec.dut_cpus, self.spec.rx_queues, &mut notes);
            });
        }
        let cpus = asked.unwrap_or_else(|| if several { self.spec.dut_cpus.clone() } else { Vec::new() });
        if !cpus.is_empty() {
            notes.push(format!(
                "RPS spreads the DUT's frames over CPUs {cpus:?} by flow; it adds a queue of \
                 net.core.netdev_max_backlog frames per CPU, which can overflow too."
            ));
        }
        Receivers { threads, notes }
    }

    /// Gives one of the tester's ports receive threads on `cpus`, so that its receiver does not work on the CPU time of the
    /// sender. Call it after the last program was attached there.
    pub fn receive_on(&mut self, side: Side, cpus: &[usize]) -> Vec<NapiThread> {
        let end = self.tester_end(side).clone();
        let threads = receive::thread(&end, &self.threads, &mut self.notes);
        receive::place(&threads, cpus, &mut self.notes);
        threads
    }

    /// The same, as the softirq of a network card's interrupt is: at once, and in overload alternately with the program
    /// there.
    pub fn receive_shared_on(&mut self, side: Side, cpus: &[usize]) -> Vec<NapiThread> {
        let threads = self.receive_on(side, cpus);
        receive::share(&threads, &mut self.notes);
        threads
    }

    fn tester_end(&self, side: Side) -> &End {
        let is_port = |end: &&End| end.owner == Owner::Tester && end.side == side;
        self.ends().find(is_port).expect("the tester has both ports")
    }

    fn publish(&self, journal: &mut Journal) -> Result<()> {
        let Some(name) = &self.spec.publish else { return Ok(()) };
        let publish =
            |host: &Host| publish(&host.namespace, &format!("{name}-{}", host.name), journal).map(drop);
        self.graph.hosts().iter().try_for_each(publish)
    }

    /// The tester's ports: side a, side b.
    pub fn ports(&self) -> [Port; 2] {
        if let Some(external) = &self.external {
            return external.ports();
        }
        [Side::A, Side::B].map(|side| self.port(Owner::Tester, side).expect("the tester has both ports"))
    }

    /// Names of the tester's port on a side and of the interface that it is wired to.
    pub fn wire(&self, side: Side) -> [&'static str; 2] {
        let mut wires = self.graph.directions();
        let wire = wires.find(|(end, _)| end.owner == Owner::Tester && end.side == side);
        wire.map(|(end, peer)| [end.name, peer.name]).expect("the tester has both ports")
    }

    /// The DUT's ports: side a, side b; None for a wire.
    pub fn dut_ports(&self) -> Option<[Port; 2]> {
        Some([self.port(Owner::Dut, Side::A)?, self.port(Owner::Dut, Side::B)?])
    }

    fn port(&self, owner: Owner, side: Side) -> Option<Port> {
        let (end, peer) = self.graph.directions().find(|(end, _)| end.owner == owner && end.side == side)?;
        let is_opposite = |other: &&End| other.owner == Owner::Tester && other.side != side;
        let bridged = owner == Owner::Tester && self.spec.dut.function() == Function::Bridge;
        let next_hop = self.ends().find(is_opposite).filter(|_| bridged).unwrap_or(peer);
        Some(Port {
            ifname: end.name.into(),
            ifindex: end.ifindex,
            mac: end.mac,
            next_hop_mac: next_hop.mac,
            namespace: end.namespace.clone(),
        })
    }

    /// Address of the DUT on a side; after NAT, the source of frames on side b.
    pub fn dut_address(&self, side: Side) -> IpAddr {
        side.dut(self.spec.ip)
    }

    /// What was asked for.
    pub fn spec(&self) -> &BedSpec {
        &self.spec
    }

    /// The tester's namespace.
    pub fn tester(&self) -> &Namespace {
        self.graph.host_of(Owner::Tester).expect("each bed has a tester")
    }

    /// The DUT's namespace; None for a wire and for an external DUT.
    pub fn dut(&self) -> Option<&Namespace> {
        self.graph.host_of(Owner::Dut)
    }

    /// The external DUT, if it is one.
    pub fn external(&self) -> Option<&External> {
        self.external.as_ref()
    }

    /// The kernel threads that receive for the DUT.
    pub fn threads(&self) -> &[NapiThread] {
        &self.threads
    }

    /// What a reader of the results must know about this bed: what could not be done, in sentences.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Forgets the last trial: no tracked connections, all rule counters zero. Device counters go on; see
    /// [`Snapshot::since`].
    pub fn reset(&self) -> Result<()> {
        if let Some(external) = &self.external {
            return external.reset();
        }
        let (Some(dut), Some(rules)) = (self.dut(), &self.rules) else { return Ok(()) };
        dut.run(|| {
            rules.install()?;
            if rules.tracks() {
                conntrack::flush()?;
            }
            Ok(())
        })
    }

    /// Deletes all tracked connections, and nothing else.
    ///
    /// # Errors
    /// What the kernel refuses, or [`Error::Hook`] of an external DUT.
    pub fn forget_connections(&self) -> Result<()> {
        match (&self.external, self.dut(), &self.rules) {
            (Some(external), ..) => external.reset(),
            (_, Some(dut), Some(rules)) if rules.tracks() => Ok(dut.run(conntrack::flush)?),
            _ => Ok(()),
        }
    }

    /// Counters of all filter rules, in order; empty for kinds that do not filter.
    pub fn rule_counters(&self) -> Result<Vec<RuleCounter>> {
        match (self.dut(), &self.rules) {
            (Some(dut), Some(rules)) => dut.run(|| rules.counters()),
            _ => Ok(Vec::new()),
        }
    }

    /// What has become of interfaces that frames must pass, or of the way to them, in words; empty while all is well.
    pub fn broken(&self) -> Vec<String> {
        let wires = self.ends().filter_map(End::broken);
        wires.chain(self.external.iter().flat_map(External::broken)).collect()
    }

    /// All counters of the bed, now.
    pub fn snapshot(&self) -> Result<Snapshot> {
        Snapshot::take(&self.graph, self.spec.dut, self.rules.as_ref(), self.external.as_ref())
    }

    /// What the DUT's threads, `others` among them, and all CPUs have used until now.
    pub fn cost(&self, others: &[u32]) -> CostSample {
        let threads = self.threads.iter().map(|thread| thread.pid);
        CostSample::take(&threads.chain(others.iter().copied()).collect::<Vec<_>>())
    }

    pub(crate) fn ends(&self) -> impl Iterator<Item = &End> {
        self.graph.ends()
    }
}

fn check(spec: &BedSpec) -> Result<Option<RuleSet>> {
    let input = |text: String| Err(Error::Input(text));
    if !MTU_RANGE.contains(&spec.mtu) {
        return input(format!("MTU {}: use {} to {}", spec.mtu, MTU_RANGE.start(), MTU_RANGE.end()));
    }
    if !QUEUES.contains(&spec.rx_queues) {
        return input(format!(
            "{} receive queues: use {} to {}",
            spec.rx_queues,
            QUEUES.start(),
            QUEUES.end()
        ));
    }
    if !(1..=MAX_NETWORKS).contains(&spec.networks) {
        return input(format!("{} networks: use 1 to {MAX_NETWORKS}", spec.networks));
    }
    if spec.dut_cpus.is_empty() {
        return input("the DUT has no CPU: name at least one".into());
    }
    let exists = |cpu: &usize| std::path::Path::new(&format!("/sys/devices/system/cpu/cpu{cpu}")).exists();
    if let Some(cpu) = spec.dut_cpus.iter().find(|cpu| !exists(cpu)) {
        return input(format!("CPU {cpu} of the DUT does not exist: see /sys/devices/system/cpu/online"));
    }
    spec.spreading.rps_cpus(&spec.dut_cpus)?;
    spec.spreading.queues(&spec.dut_cpus)?;
    let rules = rule_set(spec)?;
    rules.as_ref().map_or(Ok(()), RuleSet::check_tools)?;
    Ok(rules)
}

fn rule_set(spec: &BedSpec) -> Result<Option<RuleSet>> {
    let filter = Filter { form: spec.form, rules: spec.rules };
    let policy = match (spec.dut.system(), spec.dut.function()) {
        (System::Kernel, Function::Stateless) => Policy::Stateless(filter),
        (System::Kernel, Function::Stateful) => Policy::Stateful(filter),
        (System::Kernel, Function::Nat) => Policy::Masquerade,
        _ => return Ok(None),
    };
    RuleSet::new(policy, spec.ip).map(Some)
}

#[cfg(test)]
mod tests;
