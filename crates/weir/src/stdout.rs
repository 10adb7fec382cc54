//! Standard output: where it cannot be written, the error says so.

use std::io::{self, ErrorKind, StdoutLock, Write};

pub(crate) struct Output(StdoutLock<'static>);

impl Output {
    pub(crate) fn new() -> Output {
        Output(io::stdout().lock())
    }
}

/// A pipe that is closed is no error of ours: whoever reads has seen enough.
fn named(error: io::Error) -> io::Error {
    let remedy = match error.kind() {
        ErrorKind::BrokenPipe | ErrorKind::Interrupted => return error,
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "; make room, or write it elsewhere",
        ErrorKind::FileTooLarge => {
            "; raise the limit of the size of files (ulimit -f), or write it elsewhere"
        }
        _ => "",
    };
    io::Error::new(error.kind(), format!("cannot write to standard output: {error}{remedy}"))
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map_err(named)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(named)
    }
}
