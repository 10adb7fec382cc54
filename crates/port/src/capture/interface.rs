//! The interface at which a port or a capture looks: what Linux says of it, with errors that name the step.

use std::io;
use std::ops::Deref;

use super::CaptureError;

/// Bit of NETDEV_XDP_ACT_NDO_XMIT, linux/netdev.h.
const NDO_XMIT: u64 = 1 << 2;

/// An interface, found by its name.
#[derive(Debug, Clone)]
pub(crate) struct Interface(weir_linux::interface::Interface);

impl Deref for Interface {
    type Target = weir_linux::interface::Interface;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl Interface {
    /// An interface of the calling thread's network namespace.
    pub(crate) fn named(name: &str) -> Result<Interface, CaptureError> {
        match weir_linux::interface::Interface::named(name) {
            Ok(found) => Ok(Interface(found)),
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => {
                Err(CaptureError::NoInterface(name.into()))
            }
            Err(source) => Err(CaptureError::Refused {
                interface: name.into(),
                step: "opening a socket to ask about it",
                source,
            }),
        }
    }

    /// Fails when the interface is no longer in its network namespace.
    pub(crate) fn check(&self) -> io::Result<()> {
        if self.is_there() { Ok(()) } else { Err(io::Error::other(CaptureError::Gone(self.name().into()))) }
    }

    /// Does its driver take frames that an XDP program redirects to it, as it is now? `None`: the kernel is older than 6.3 and
    /// does not say. To be asked in its network namespace. The kernel answers behind its lock of all interfaces.
    pub(crate) fn takes_redirected(&self) -> Option<bool> {
        if !weir_linux::netdev::is_known() {
            return None;
        }
        // SAFETY: all-zero is a valid bpf_xdp_query_opts.
        let mut reported: libbpf_sys::bpf_xdp_query_opts = unsafe { std::mem::zeroed() };
        reported.sz = size_of_val(&reported) as _;
        // SAFETY: plain integers, and options that live through the call.
        let asked = unsafe { libbpf_sys::bpf_xdp_query(self.index() as i32, 0, &mut reported) };
        // Each driver that says anything says that it has XDP at all.
        (asked == 0 && reported.feature_flags != 0).then_some(reported.feature_flags & NDO_XMIT != 0)
    }

    /// Gives a step's error its place.
    pub(crate) fn refused(&self, step: &'static str) -> impl FnOnce(io::Error) -> CaptureError {
        let interface = self.name().to_string();
        move |source| CaptureError::Refused { interface, step, source }
    }
}
