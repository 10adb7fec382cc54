//! Standard output, with errors that name it and the remedy.

use std::io::{self, ErrorKind, StdoutLock, Write};

pub(crate) struct Output(StdoutLock<'static>);

impl Output {
    pub(crate) fn new() -> Output {
        Output(io::stdout().lock())
    }
}

/// Adds the remedy to an error. A closed pipe is no error: the reader has seen enough.
fn named(error: io::Error) -> io::Error {
    let remedy = match error.kind() {
        ErrorKind::BrokenPipe | ErrorKind::Interrupted => return error,
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "; free space, or write to another disk",
        ErrorKind::FileTooLarge => "; raise the file size limit (ulimit -f)",
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
