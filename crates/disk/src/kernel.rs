//! Text of the kernel, and of files with untrusted names.

use std::io;
use std::path::Path;

/// Reads a file such as those of /proc and /sys. Names of processes, interfaces and paths in it are bytes: what is not UTF-8
/// becomes U+FFFD, and hides nothing else.
///
/// # Errors
/// It cannot be read.
pub fn kernel_text(path: impl AsRef<Path>) -> io::Result<String> {
    let bytes = std::fs::read(path)?;
    Ok(String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}
