//! The floor: an XDP program that counts frames and drops them. It captures nothing; what it costs, everything costs.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::attached::Attached;
use super::{Account, CaptureError, Frame, Granted, Interface, Options, Queue};
use crate::bpf::{Memory, object};

/// A counter does not notify its reader, so that it is read this often.
const LOOK: Duration = Duration::from_millis(10);

pub(super) fn open(interface: &Interface, options: &Options) -> Result<Vec<Box<dyn Queue>>, CaptureError> {
    let queues = interface.receive_queues().map_err(interface.refused("counting its queues"))?;
    let attached = Attached::new(interface, options, "counter", object::COUNT, queues)?;
    let on = Arc::new(attached.program.memory::<u64>("bss", 1)?);
    on.set(0, &1);
    let attached = Arc::new(attached);
    let queue = |number| Count { attached: attached.clone(), on: on.clone(), number, taken: 0 };
    Ok((0..queues).map(|number| Box::new(queue(number)) as Box<dyn Queue>).collect())
}

struct Count {
    attached: Arc<Attached>,
    on: Arc<Memory<u64>>,
    number: u32,
    taken: u64,
}

impl Queue for Count {
    /// Hands on nothing; returns how many frames were counted. It sleeps before each look: between frames that keep arriving, a
    /// reader that looked again at once would take the CPU from the kernel that receives them.
    fn take(&mut self, wait: Duration, _: &mut dyn FnMut(&Frame<'_>)) -> io::Result<usize> {
        let before = self.taken;
        if !wait.is_zero() {
            std::thread::sleep(wait.min(LOOK));
        }
        self.taken = self.attached.arrived(self.number)?;
        if self.taken == before {
            self.attached.interface().check()?;
        }
        Ok((self.taken - before) as usize)
    }

    fn stop(&mut self) -> io::Result<()> {
        self.on.set(0, &0);
        Ok(())
    }

    fn account(&mut self) -> io::Result<Account> {
        let received = self.attached.arrived(self.number)?;
        Ok(Account { received, taken: self.taken, ..Account::default() })
    }

    fn granted(&self) -> Granted {
        Granted { method: format!("XDP ({}), counting only", self.attached.mode()), memory: 0, frames: 0 }
    }
}
