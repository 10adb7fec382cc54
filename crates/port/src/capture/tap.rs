//! What all packet sockets that capture have in common: how they are set up, waited for, stopped and asked.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use super::{CaptureError, Interface, Options};
use crate::packet::{self, bind, raw_socket, set, set_at};

/// A packet socket that receives nothing until [`Tap::admit`], wherever it is bound.
pub(crate) struct Tap {
    pub(crate) fd: OwnedFd,
    pub(crate) interface: Interface,
    filter: Vec<libc::sock_filter>,
}

/// What one of the kernel's counters of a socket says; see [`Tap::statistics`].
pub(crate) struct Statistics {
    /// Frames that passed the filter, dropped ones among them.
    pub(crate) received: u32,
    /// Frames that found no room.
    pub(crate) dropped: u32,
    /// Times that a ring was full; only rings of blocks tell.
    pub(crate) freezes: u32,
}

impl Tap {
    /// A socket on no interface yet.
    pub(crate) fn open(interface: &Interface, options: &Options) -> Result<Tap, CaptureError> {
        let fd = raw_socket().map_err(interface.refused("opening a packet socket"))?;
        set(&fd, libc::PACKET_IGNORE_OUTGOING, &1i32).map_err(interface.refused("ignoring own frames"))?;
        let filter = cut_to(options.snap, options.filter.as_deref());
        let tap = Tap { fd, interface: interface.clone(), filter };
        tap.stop().map_err(interface.refused("keeping frames out"))?;
        if options.promiscuous {
            promiscuous(&tap.fd, interface.index())
                .map_err(interface.refused("turning promiscuous mode on"))?;
        }
        Ok(tap)
    }

    /// Binds it to the interface: the last step of its own, after which it may join others.
    pub(crate) fn bind(&self) -> Result<(), CaptureError> {
        bind(&self.fd, self.interface.index(), libc::ETH_P_ALL as u16)
            .map_err(self.interface.refused("binding to the interface"))
    }

    /// Frames that pass the filter arrive from now on.
    pub(crate) fn admit(&self) -> Result<(), CaptureError> {
        attach_filter(&self.fd, &self.filter).map_err(self.interface.refused("attaching the filter"))
    }

    /// No more frames arrive. Not by closing or binding elsewhere: a member of a fan-out may not do that, and what
    /// has arrived must stay.
    pub(crate) fn stop(&self) -> io::Result<()> {
        attach_filter(&self.fd, &refuse_all())
    }

    /// Counts since the last call: the kernel forgets them when it is asked.
    pub(crate) fn statistics(&self) -> io::Result<Statistics> {
        let stats = packet::statistics(self.fd.as_fd())?;
        let (received, dropped) = (stats.tp_packets, stats.tp_drops);
        Ok(Statistics { received, dropped, freezes: stats.tp_freeze_q_cnt })
    }

    /// Waits until something has arrived. False when nothing did, or when the interface went down, which is not yet
    /// the end: it may come up again.
    pub(crate) fn wait(&self, wait: Duration) -> io::Result<bool> {
        wait_for(self.fd.as_fd(), wait, &self.interface)
    }
}

/// Waits until `fd`, a socket at `interface`, can be read.
pub(crate) fn wait_for(fd: BorrowedFd<'_>, wait: Duration, interface: &Interface) -> io::Result<bool> {
    let mut poll = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // Less than a millisecond is no reason to spin.
    let ms = wait.as_nanos().div_ceil(1_000_000).min(i32::MAX as u128) as i32;
    // SAFETY: one pollfd.
    let ready = unsafe { libc::poll(&mut poll, 1, ms) };
    if ready < 0 {
        let error = io::Error::last_os_error();
        return if error.kind() == io::ErrorKind::Interrupted { Ok(false) } else { Err(error) };
    }
    if poll.revents & libc::POLLERR != 0 {
        after_error(pending_error(fd)?, interface)?;
    }
    if ready == 0 {
        interface.check()?;
    }
    Ok(poll.revents & libc::POLLIN != 0)
}

/// An error that a socket reported: that its interface went down is none, unless the interface is gone.
pub(crate) fn after_error(code: i32, interface: &Interface) -> io::Result<()> {
    match code {
        0 | libc::EAGAIN | libc::EINTR => Ok(()),
        libc::ENETDOWN => interface.check(),
        code => Err(io::Error::from_raw_os_error(code)),
    }
}

/// The error that waits at a socket; asking for it clears it.
pub(crate) fn pending_error(fd: BorrowedFd<'_>) -> io::Result<i32> {
    let (mut code, mut length) = (0i32, size_of::<i32>() as u32);
    // SAFETY: pointer and length describe `code`.
    let result = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ERROR,
            std::ptr::from_mut(&mut code).cast(),
            &mut length,
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(code) }
}

/// Has the interface take frames for other machines, for as long as the socket is open.
pub(crate) fn promiscuous(fd: &OwnedFd, index: u32) -> io::Result<()> {
    set_promiscuous(fd, index, true)
}

/// All frames of the interface arrive, or only those for this machine.
pub(crate) fn set_promiscuous(fd: &OwnedFd, index: u32, is_on: bool) -> io::Result<()> {
    let option = if is_on { libc::PACKET_ADD_MEMBERSHIP } else { libc::PACKET_DROP_MEMBERSHIP };
    set(fd, option, &promiscuity(index))
}

/// Frames that pass this filter arrive from now on, all of them without one, and none is cut.
pub(crate) fn exchange_filter(fd: &OwnedFd, filter: Option<&[libc::sock_filter]>) -> io::Result<()> {
    attach_filter(fd, &cut_to(u32::MAX, filter))
}

/// All frames of an interface.
fn promiscuity(index: u32) -> libc::packet_mreq {
    libc::packet_mreq {
        mr_ifindex: index as i32,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    }
}

/// One instruction of a filter that jumps nowhere.
pub(crate) const fn instruction(code: u32, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: 0, jf: 0, k }
}

/// A filter that no frame passes.
pub(crate) const fn refuse_all() -> [libc::sock_filter; 1] {
    [instruction(libc::BPF_RET | libc::BPF_K, 0)]
}

/// A filter that keeps at most `snap` bytes of what `filter` accepts: that is what the kernel is given.
pub(crate) fn cut_to(snap: u32, filter: Option<&[libc::sock_filter]>) -> Vec<libc::sock_filter> {
    let keep = instruction(libc::BPF_RET | libc::BPF_K, snap);
    let Some(filter) = filter else { return vec![keep] };
    let cut = |one: &libc::sock_filter| {
        let accepts = u32::from(one.code) == libc::BPF_RET | libc::BPF_K && one.k > snap;
        if accepts { keep } else { *one }
    };
    filter.iter().map(cut).collect()
}

/// Attaches a filter in place of the one that may be there.
pub(crate) fn attach_filter(fd: impl AsFd, filter: &[libc::sock_filter]) -> io::Result<()> {
    let Ok(len) = u16::try_from(filter.len()) else {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    };
    let program = libc::sock_fprog { len, filter: filter.as_ptr().cast_mut() };
    set_at(fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_keeps_no_more_than_the_snap_length() {
        let ret = libc::BPF_RET | libc::BPF_K;
        let load = instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 262_144);
        let filter = [load, instruction(ret, 262_144), instruction(ret, 0), instruction(ret, 64)];
        let cut = cut_to(96, Some(&filter)).iter().map(|one| one.k).collect::<Vec<_>>();
        assert_eq!(cut, [262_144, 96, 0, 64]);
        let whole = cut_to(96, None);
        assert_eq!((whole.len(), u32::from(whole[0].code), whole[0].k), (1, ret, 96));
    }
}
