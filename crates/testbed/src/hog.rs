//! Occupies a CPU with a real-time thread, to test the verdict of a tester without CPU time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;

use weir_linux::sys;

/// A real-time thread that spins on one CPU until it is dropped.
#[derive(Debug)]
pub struct Hog {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Hog {
    /// None where this process may not have real-time threads.
    pub fn on(cpu: usize) -> Option<Hog> {
        let stop = Arc::new(AtomicBool::new(false));
        let (seen, (tell, reported)) = (stop.clone(), mpsc::channel());
        let thread = std::thread::spawn(move || {
            let placed = weir_port::thread::pin_to(cpu).and_then(|()| sys::run_in_real_time(0));
            tell.send(placed.is_ok()).expect("there is a receiver");
            while placed.is_ok() && !seen.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        let hog = Hog { stop, thread: Some(thread) };
        reported.recv().expect("the hog says so").then_some(hog)
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("a hog does not panic");
        }
    }
}
