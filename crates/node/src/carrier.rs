//! Whether the link of a port is up, as the kernel says.

use weir_linux::rtnl::Rtnl;

use crate::backend::Backend;

/// Whether the interface of a port has a carrier; true where that is not known.
pub(crate) fn has_carrier(rtnl: &mut Option<Rtnl>, backend: Option<&Backend>) -> bool {
    let name = backend.and_then(Backend::interface);
    let link = name.and_then(|name| rtnl.as_mut()?.link(name).ok());
    link.is_none_or(|link| link.carrier)
}
