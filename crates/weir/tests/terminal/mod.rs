//! A terminal that a program runs in, and that closes.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};

use crate::watchdog::Watch;

/// A program with a terminal of its own.
pub(crate) struct InTerminal {
    child: Child,
    /// The other end of the terminal, which whoever looks at it has.
    screen: File,
    shown: Vec<u8>,
    _watch: Watch,
}

impl InTerminal {
    /// Starts a program.
    pub(crate) fn start(mut command: Command) -> InTerminal {
        let screen = OpenOptions::new().read(true).write(true).open("/dev/ptmx").unwrap();
        let unlocked = 0;
        // SAFETY: reads an int.
        assert_eq!(unsafe { libc::ioctl(screen.as_raw_fd(), libc::TIOCSPTLCK, &unlocked) }, 0);
        let flags = libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC;
        // SAFETY: takes flags and returns a descriptor that nobody else has.
        let terminal = unsafe {
            let fd = libc::ioctl(screen.as_raw_fd(), libc::TIOCGPTPEER, flags);
            assert!(fd >= 0, "{}", io::Error::last_os_error());
            OwnedFd::from_raw_fd(fd)
        };
        let end = || Stdio::from(terminal.try_clone().unwrap());
        command.stdin(end()).stdout(end()).stderr(end());
        // SAFETY: both may be called between fork and exec.
        unsafe {
            command.pre_exec(|| match libc::setsid() != -1 && libc::ioctl(0, libc::TIOCSCTTY, 0) == 0 {
                true => Ok(()),
                false => Err(io::Error::last_os_error()),
            });
        }
        let child = command.spawn().unwrap();
        InTerminal { _watch: Watch::new(&child), child, screen, shown: Vec::new() }
    }

    /// Returns when it shows these words, or had shown them before.
    pub(crate) fn await_words(&mut self, words: &str) {
        let mut bytes = [0; 4096];
        while !String::from_utf8_lossy(&self.shown).contains(words) {
            let n = self.screen.read(&mut bytes).unwrap_or(0);
            assert_ne!(n, 0, "no `{words}` in: {}", String::from_utf8_lossy(&self.shown));
            self.shown.extend(&bytes[..n]);
        }
    }

    /// Closes the terminal, of which the kernel tells the program; its shell tells it, too. Returns how it ended.
    pub(crate) fn close(mut self) -> ExitStatus {
        let InTerminal { child, screen, .. } = &mut self;
        *screen = File::open("/dev/null").unwrap();
        // SAFETY: a child that has not been waited for.
        assert_eq!(unsafe { libc::kill(child.id() as i32, libc::SIGHUP) }, 0);
        child.wait().unwrap()
    }
}

impl Drop for InTerminal {
    fn drop(&mut self) {
        // It has ended already unless the test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
