//! A worker that makes one call after another.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::time::Instant;

use super::content::Buffer;
use super::{Durability, Failed, Part, Shared, Times, name};

/// The files of one worker, in this order.
pub(super) fn work(
    shared: &Shared<'_>,
    part: Part,
    files: impl Iterator<Item = u32>,
) -> Result<Times, Failed> {
    let (mut buffer, mut times) = (Buffer::new(shared.task.bytes as usize), Times::new());
    for file in files {
        shared.check()?;
        let done = match part {
            Part::Make => make(shared, file, &mut buffer, &mut times),
            Part::Read => read(shared, file, &mut buffer, &mut times),
        };
        done?;
    }
    Ok(times)
}

/// Times calls one after another.
struct Watch<'a> {
    times: &'a mut Times,
    begin: Instant,
    last: Instant,
}

impl Watch<'_> {
    fn new(times: &mut Times) -> Watch<'_> {
        let now = Instant::now();
        Watch { times, begin: now, last: now }
    }

    fn lap(&mut self, call: &'static str) {
        let now = Instant::now();
        self.times.entry(call).or_default().push((now - self.last).as_nanos() as u64);
        self.last = now;
    }

    fn end(self) {
        let all = (self.last - self.begin).as_nanos() as u64;
        self.times.entry("file").or_default().push(all);
    }
}

fn make(shared: &Shared<'_>, file: u32, buffer: &mut Buffer, times: &mut Times) -> Result<(), Failed> {
    let (task, path) = (shared.task, shared.path(file));
    buffer.fill(task.seed, file);
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    if task.durability == Durability::Direct {
        options.custom_flags(libc::O_DIRECT);
    }
    let failed = |call: &str| Failed::call(format!("{call} {}", name(file)));
    let mut watch = Watch::new(times);
    let mut open = options.open(path).map_err(failed("open"))?;
    watch.lap("open");
    open.write_all(buffer.get()).map_err(failed("write"))?;
    watch.lap("write");
    if task.durability.syncs_each() {
        open.sync_all().map_err(failed("fsync"))?;
        watch.lap("fsync");
    }
    drop(open);
    watch.lap("close");
    if task.durability == Durability::FsyncDir {
        shared.directory.sync_all().map_err(Failed::call("fsync of the directory"))?;
        watch.lap("fsync of the directory");
    }
    watch.end();
    Ok(())
}

fn read(shared: &Shared<'_>, file: u32, buffer: &mut Buffer, times: &mut Times) -> Result<(), Failed> {
    let path = shared.path(file);
    let failed = |call: &str| Failed::call(format!("{call} {}", name(file)));
    let mut watch = Watch::new(times);
    let mut open = File::open(path).map_err(failed("open"))?;
    watch.lap("open");
    open.read_exact(buffer.get_mut()).map_err(failed("read"))?;
    watch.lap("read");
    drop(open);
    watch.lap("close");
    watch.end();
    if !buffer.is_of(shared.task.seed, file) {
        let error = io::Error::new(io::ErrorKind::InvalidData, "other bytes than were written");
        return Err(failed("read")(error));
    }
    Ok(())
}
