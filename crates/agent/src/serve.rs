//! The side of the agent: `weir agent ROLE` greets, takes requests one after the other, and ends with its input or when it hears
//! nothing for [`SILENCE`].

use std::io::{BufReader, Write, stdin, stdout};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::protocol::{self, BEAT, Hello, Line, NoLine, Reply, SILENCE, Signal, VERSION};

/// Requests of the local side.
pub struct Requests<R> {
    queue: Receiver<R>,
    stop: Arc<AtomicBool>,
}

impl<R: DeserializeOwned + Send + 'static> Requests<R> {
    /// Greets, and begins to read. The process ends at once when the input ends: what it holds ends with it.
    pub fn open<M: Serialize>(machine: M) -> Requests<R> {
        Requests::open_with(machine, || ())
    }

    /// The same; `at_end` is called before the process ends.
    pub fn open_with<M: Serialize>(machine: M, at_end: impl Fn() + Send + Sync + 'static) -> Requests<R> {
        let at_end = Arc::new(at_end);
        say(Ok(Hello { weir: VERSION.into(), machine }));
        let stop = Arc::new(AtomicBool::new(false));
        let heard = Arc::new(Mutex::new(Instant::now()));
        let (requests, queue) = channel();
        thread::spawn({
            let (stop, heard, at_end) = (stop.clone(), heard.clone(), at_end.clone());
            move || {
                read(&requests, &stop, &heard);
                at_end();
                std::process::exit(0)
            }
        });
        thread::spawn(move || {
            loop {
                thread::sleep(BEAT);
                write(&Signal::Alive);
                if heard.lock().unwrap_or_else(PoisonError::into_inner).elapsed() >= SILENCE {
                    at_end();
                    std::process::exit(1)
                }
            }
        });
        Requests { queue, stop }
    }

    /// Set when the local side wants the current request to end early; the one who serves clears it.
    pub fn stop(&self) -> &Arc<AtomicBool> {
        &self.stop
    }
}

impl<R> Iterator for Requests<R> {
    type Item = R;

    fn next(&mut self) -> Option<R> {
        self.queue.recv().ok()
    }
}

/// Queues requests, and obeys signals at once.
fn read<R: DeserializeOwned>(requests: &Sender<R>, stop: &AtomicBool, heard: &Mutex<Instant>) {
    let mut input = BufReader::new(stdin());
    loop {
        let line = match protocol::line(&mut input) {
            Ok(line) => line,
            Err(NoLine::End) => return,
            Err(NoLine::Wrong(why)) => return say::<()>(Err(why)),
        };
        *heard.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        match serde_json::from_str(&line) {
            Ok(Line::Signal(Signal::Alive)) => {}
            Ok(Line::Signal(Signal::Stop)) => stop.store(true, Ordering::Relaxed),
            Ok(Line::Request(request)) => {
                if requests.send(request).is_err() {
                    return;
                }
            }
            Err(error) => say::<()>(Err(format!("`{line:.80}` is no request: {error}"))),
        }
    }
}

/// Replies to the current request.
pub fn say<T: Serialize>(result: Result<T, String>) {
    write(&match result {
        Ok(value) => Reply::Done(value),
        Err(why) => Reply::Failed(why),
    });
}

/// Reports progress of the current request.
pub fn note(text: String) {
    write(&Reply::<()>::Note(text));
}

/// Writes a line. An error is ignored: if the local side has gone, the input ends, too.
fn write<T: Serialize>(message: &T) {
    let line = protocol::bytes(message).or_else(|error| {
        protocol::bytes(&Reply::<()>::Failed(format!("the reply cannot be written as JSON: {error}")))
    });
    let mut out = stdout().lock();
    let _ = line.and_then(|line| out.write_all(&line)).and_then(|()| out.flush());
}
