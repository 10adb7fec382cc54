//! A setup with a NAT as the device: its flows, and the translations that the tester observes.

use std::net::{IpAddr, Ipv4Addr};

use weir_linux::conntrack;
use weir_load::tcp::Said;
use weir_load::translation::{Evidence, Outside, Translated, Translation};
use weir_load::xdp::XdpTester;
use weir_packet::flow::Flow;
use weir_testbed::bed::Bed;
use weir_testbed::dut::{DutKind, System};
use weir_testbed::error::Error;
use weir_testbed::topology::Side;

use super::Setup;
use super::usage::Used;
use crate::error::RunError;
use crate::frames::remote::Hosts;
use weir_record::record;

/// From the first to the last address.
pub type AddressRange = (Ipv4Addr, Ipv4Addr);

impl Setup {
    /// From now on sends these flows, and checks each frame on both sides of the NAT. `public` are its public addresses,
    /// where the device does not imply them.
    ///
    /// # Errors
    /// The tester cannot check here, or the public addresses are unknown.
    pub fn check_translation(&mut self, flows: Vec<Flow>, public: &[AddressRange]) -> Result<(), RunError> {
        let public = match public_addresses(&self.bed) {
            implied if implied.is_empty() => public.to_vec(),
            implied => implied,
        };
        if public.is_empty() {
            let dut = self.spec.dut;
            return Err(input(format!("the public addresses of {dut} are unknown: set nat.public")));
        }
        self.translation = Some(Translation { public, flows });
        self.renew_translation()
    }

    /// The same for a tester that is new.
    pub(super) fn renew_translation(&mut self) -> Result<(), RunError> {
        let Some(translation) = self.translation.clone() else { return Ok(()) };
        self.with_xdp(|tester| tester.check_translation(&translation))?
            .map_err(weir_load::LoadError::from)?;
        Ok(())
    }

    /// The flows that are sent; none unless their translation is checked.
    pub fn flows(&self) -> &[Flow] {
        self.translation.as_ref().map_or(&[], |translation| &translation.flows)
    }

    /// How addresses and ports were translated in the last trial.
    pub(crate) fn translated(&self) -> Option<Translated> {
        self.xdp()?.translated()
    }

    /// The same for the record, with how many entries of the kernel's table ended where flows changed or shared outside tuples.
    pub(super) fn recorded_translation(&self, used: &Used) -> Option<record::Translation> {
        let mut seen = record::Translation::of(&self.translated()?);
        if seen.has_new_tuples() && self.spec.dut == DutKind::KERNEL_NAT {
            let given_up = used.delta().0.conntrack.early_drop;
            let live = self.bed.dut().and_then(|dut| dut.run(conntrack::live_entries).ok().flatten());
            // Flows that have no entry any more, and entries that the full table gave up for others.
            let without = live.map_or(0, |live| seen.flows.saturating_sub(live));
            seen.ended_entries = Some(given_up.max(without));
        }
        Some(seen)
    }

    /// What was said in TCP connections in the last trial.
    pub(crate) fn said(&self) -> Option<Said> {
        self.xdp()?.said()
    }

    /// From now on port b sends SYN to these destinations.
    pub fn flood(&mut self, flows: &[Flow]) -> Result<(), RunError> {
        self.with_xdp(|tester| tester.flood(flows))?.map_err(weir_load::LoadError::from)?;
        Ok(())
    }

    /// TCP connections that the kernel tracks for the device, by state; empty where it is not the kernel that does.
    pub fn tcp_states(&self) -> Result<Vec<(String, u64)>, RunError> {
        match self.bed.dut().filter(|_| self.spec.dut == DutKind::KERNEL_NAT) {
            Some(dut) => Ok(dut.run(conntrack::tcp_states)?),
            None => Ok(Vec::new()),
        }
    }

    /// The public addresses of the NAT.
    pub fn public(&self) -> &[AddressRange] {
        self.translation.as_ref().map_or(&[], |translation| &translation.public)
    }

    /// Frames of the last trial that show what was wrong.
    pub fn evidence(&self) -> Vec<Evidence> {
        self.xdp().map_or(Vec::new(), XdpTester::evidence)
    }

    /// The outside tuple of each flow, as the last trial showed it.
    pub fn outside_tuples(&self) -> Vec<Option<Outside>> {
        self.xdp().map_or(Vec::new(), XdpTester::outside_tuples)
    }

    /// From now on port b sends to these outside tuples.
    pub fn answer_to(&mut self, learned: &[(Flow, Outside)]) -> Result<(), RunError> {
        self.with_xdp(|tester| tester.answer_to(learned))?.map_err(weir_load::LoadError::from)?;
        Ok(())
    }

    /// Deletes all connections of the device in one action, and nothing else.
    pub fn forget_connections(&self) -> Result<(), RunError> {
        self.bed.forget_connections()?;
        Ok(self.device.reset()?)
    }

    /// Connections that the kernel has in mind for the device; `None` where it is not the kernel that does.
    pub fn connections(&self) -> Result<Option<u64>, RunError> {
        let is_kernels = self.spec.dut == DutKind::KERNEL_NAT;
        Ok(if is_kernels { Some(self.bed.snapshot()?.conntrack.entries) } else { None })
    }

    /// Does something with the XDP tester in the namespace of its ports.
    fn with_xdp<R: Send>(&mut self, f: impl FnOnce(&mut XdpTester) -> R + Send) -> Result<R, RunError> {
        let Hosts::One(tester) = &mut self.tester else {
            let text = "one host must check both sides of a NAT: give both ports in external.ports";
            return Err(input(text.into()));
        };
        let done = self.bed.tester().run(|| tester.xdp().map(f));
        done.ok_or_else(|| {
            input(
                "only the XDP tester can check a NAT: use --tester xdp, and frames of at most one page"
                    .into(),
            )
        })
    }

    fn xdp(&self) -> Option<&XdpTester> {
        match &self.tester {
            Hosts::One(tester) => tester.as_xdp(),
            Hosts::Two(_) => None,
        }
    }
}

fn input(text: String) -> RunError {
    Error::Input(text).into()
}

/// The public addresses of the devices that are built here; a wire leaves those of the subscribers as they are.
fn public_addresses(bed: &Bed) -> Vec<AddressRange> {
    let range = |first: [u8; 4], last: [u8; 4]| vec![(Ipv4Addr::from(first), Ipv4Addr::from(last))];
    match bed.spec().dut.system() {
        System::Kernel => match bed.dut_address(Side::B) {
            IpAddr::V4(address) => vec![(address, address)],
            IpAddr::V6(_) => Vec::new(),
        },
        System::Node(_) => range([198, 19, 2, 0], [198, 19, 2, 127]),
        System::Xdp => range([198, 19, 0, 0], [198, 19, 127, 255]),
        System::Wire => range([198, 18, 128, 0], [198, 18, 255, 255]),
        System::External | System::Faulty => Vec::new(),
    }
}
