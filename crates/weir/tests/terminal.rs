//! A terminal that a program runs in, and that closes.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};

use weir_testkit::Watch;

/// Its width.
const COLUMNS: u16 = 80;

/// A program with its own terminal.
pub(crate) struct InTerminal {
    child: Child,
    /// The other end of the terminal, with its screen.
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
        let size = libc::winsize { ws_row: 24, ws_col: COLUMNS, ws_xpixel: 0, ws_ypixel: 0 };
        // SAFETY: reads a struct of this kind.
        assert_eq!(unsafe { libc::ioctl(screen.as_raw_fd(), libc::TIOCSWINSZ, &size) }, 0);
        let flags = libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC;
        // SAFETY: takes flags and returns a new descriptor without another owner.
        let terminal = unsafe {
            let fd = libc::ioctl(screen.as_raw_fd(), libc::TIOCGPTPEER, flags);
            assert!(fd >= 0, "{}", io::Error::last_os_error());
            OwnedFd::from_raw_fd(fd)
        };
        let end = || Stdio::from(terminal.try_clone().unwrap());
        command.stdin(end()).stdout(end()).stderr(end());
        // SAFETY: all may be called between fork and exec.
        unsafe {
            command.pre_exec(|| {
                // The tests may have been begun by nohup.
                libc::signal(libc::SIGHUP, libc::SIG_DFL);
                if libc::setsid() != -1 && libc::ioctl(0, libc::TIOCSCTTY, 0) == 0 {
                    Ok(())
                } else {
                    Err(io::Error::last_os_error())
                }
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

    /// The lines of its live view, without what places and colours them: those with a bar, and those above one. A line as
    /// wide as the terminal (80 columns) goes on in the next.
    pub(crate) fn live_lines(&self) -> Vec<String> {
        let text = String::from_utf8_lossy(&self.shown);
        let mut plain = String::new();
        let mut characters = text.chars();
        while let Some(c) = characters.next() {
            match c {
                // CSI: up to its last letter.
                '\u{1b}' => drop(characters.by_ref().skip(1).find(|c| c.is_ascii_alphabetic())),
                '\r' => plain.push('\n'),
                c => plain.push(c),
            }
        }
        let columns: Vec<Vec<char>> = plain.lines().map(|line| line.chars().collect()).collect();
        let lines = columns.iter().flat_map(|line| line.chunks(80));
        let lines = lines.map(|line| line.iter().collect::<String>().trim_end().to_string());
        lines.filter(|line| line.starts_with("point ") || line.contains(['█', '░'])).collect()
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
