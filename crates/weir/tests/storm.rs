//! Frames that go on beside a test, as many as a host gets out.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use weir_linux::namespace::Namespace;
use weir_linux::rtnl::Rtnl;
use weir_port::packet::Sender;

/// Ends what goes on beside a test, whatever becomes of the test.
pub(crate) struct End<'a>(pub(crate) &'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Sends batches of frames from an interface of a host until it is asked to stop; says how many.
pub(crate) fn storm(
    host: &Namespace,
    name: &str,
    over: &AtomicBool,
    mut batch: impl FnMut() -> Vec<Vec<u8>>,
) -> u64 {
    let sender = host.run(|| Sender::open(Rtnl::open().unwrap().link(name).unwrap().ifindex).unwrap());
    let mut sent = 0;
    while !over.load(Relaxed) {
        sent += sender.send(&batch()).unwrap() as u64;
        // So that the hosts get a word in on a machine of two CPUs.
        std::thread::sleep(Duration::from_millis(1));
    }
    sent
}
