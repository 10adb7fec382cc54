//! A thread that asks the kernel about the interfaces of a node's ports, so that the threads of frames do not wait for its answers.
//!
//! ```text
//!   port opened > add > [ each second: look ] > the port reads the answer
//! ```
//! Invariant: it asks in the network namespace in which the first port was opened, as all others are.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use weir_port::duplex::{Port, RedirectWatch};

/// Interval between two looks at a link.
const LOOK: Duration = Duration::from_secs(1);

/// The thread, which begins with the first port that has something to ask.
#[derive(Default)]
pub(crate) struct Links {
    thread: Option<(Sender<RedirectWatch>, JoinHandle<()>)>,
}

impl Links {
    /// Asks for these ports from now on, in the calling thread's network namespace. Without a thread the first answers stay.
    pub(crate) fn add(&mut self, watches: Vec<RedirectWatch>) {
        for watch in watches {
            if self.thread.is_none() {
                let (given, new) = channel();
                let thread = std::thread::Builder::new().name("links".into()).spawn(move || look(&new));
                self.thread = thread.ok().map(|thread| (given, thread));
            }
            if let Some((given, _)) = &self.thread {
                // It ends with this value.
                let _ = given.send(watch);
            }
        }
    }
}

/// What is to be asked for ports that have just been opened.
pub(crate) fn watches(ports: &mut [Vec<Box<dyn Port>>]) -> Vec<RedirectWatch> {
    ports.iter_mut().flatten().filter_map(|port| port.watch()).collect()
}

impl Drop for Links {
    fn drop(&mut self) {
        if let Some((given, thread)) = self.thread.take() {
            drop(given);
            // It has panicked: the node has ended without it.
            let _ = thread.join();
        }
    }
}

fn look(new: &Receiver<RedirectWatch>) {
    let mut watches = Vec::new();
    loop {
        match new.recv_timeout(LOOK) {
            Ok(watch) => watches.push(watch),
            Err(RecvTimeoutError::Timeout) => watches.retain_mut(RedirectWatch::look),
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}
