//! Programs that weir runs because of an attack: after a time limit each is killed, with all processes that it started.

use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use weir_port::duplex;

/// Runs a program with `input` on its standard input to its end. Its standard error is that of weir.
///
/// # Errors
/// It cannot be run, failed, or was killed after `most`.
pub(crate) fn run(command: &mut Command, input: &str, most: Duration) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    // A file in memory, not a pipe: a program that does not read it does not block weir.
    let stdin = in_memory(input).context("no memory for the input of a program")?;
    let mut child = command
        .stdin(stdin)
        .stdout(io::stderr().as_fd().try_clone_to_owned()?)
        .process_group(0)
        .spawn()
        .with_context(|| format!("cannot run {name}"))?;
    match wait(&mut child, most)? {
        None => bail!("{name} did not end within {most:?} and was killed, with its child processes"),
        Some(status) if !status.success() => bail!("{name} ended with {status}"),
        Some(_) => Ok(()),
    }
}

/// Waits until a child has ended; one that has not after `most` is killed with its process group, and there is no status.
fn wait(child: &mut Child, most: Duration) -> io::Result<Option<ExitStatus>> {
    let end = Instant::now() + most;
    let process = descriptor_of(child)?;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            // SAFETY: sends a signal to the group of a child that has not been reaped: the process id is still its own.
            unsafe { libc::kill(-(child.id() as i32), libc::SIGKILL) };
            child.wait()?;
            return Ok(None);
        }
        duplex::wait(&[process.as_fd()], left)?;
    }
}

/// A descriptor that becomes readable when the child has ended.
fn descriptor_of(child: &Child) -> io::Result<OwnedFd> {
    // SAFETY: no pointers; the descriptor is new and has no other owner.
    unsafe {
        match libc::syscall(libc::SYS_pidfd_open, child.id(), 0) {
            fd @ 0.. => Ok(OwnedFd::from_raw_fd(fd as i32)),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// An unnamed file in memory with this text.
fn in_memory(text: &str) -> io::Result<File> {
    // SAFETY: a name that ends with a zero; the descriptor is new and has no other owner.
    let mut file = unsafe {
        match libc::memfd_create(c"weir".as_ptr(), libc::MFD_CLOEXEC) {
            fd @ 0.. => File::from_raw_fd(fd),
            _ => return Err(io::Error::last_os_error()),
        }
    };
    file.write_all(text.as_bytes())?;
    file.rewind()?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    /// A named pipe: its reader sees the end when no process holds the other end any more.
    fn pipe(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("weir-program-{name}-{}", std::process::id()));
        let made = Command::new("mkfifo").arg(&path).status().expect("mkfifo");
        assert!(made.success());
        path
    }

    /// Runs a script of the shell.
    fn shell(script: &str, input: &str, most: Duration) -> Result<()> {
        run(Command::new("sh").args(["-c", script]), input, most)
    }

    #[test]
    fn a_program_gets_its_input_and_its_failure_is_reported() {
        shell("test \"$(cat)\" = hello", "hello", LONG).expect("it is what it gets");
        shell("exit 0", &"x".repeat(1 << 20), LONG).expect("one that does not read");
        let wrong = shell("exit 3", "", LONG).expect_err("a failure").to_string();
        assert_eq!(wrong, "sh ended with exit status: 3");
        let wrong = run(&mut Command::new("/nowhere/at/all"), "", LONG).expect_err("nothing").to_string();
        assert_eq!(wrong, "cannot run /nowhere/at/all");
    }

    #[test]
    fn a_program_that_does_not_end_is_killed_with_what_it_has_started() {
        let path = pipe("killed");
        let reader = path.clone();
        // Ends when no process holds the other end any more.
        let hears = std::thread::spawn(move || {
            std::io::read_to_string(File::open(reader).expect("a pipe")).expect("words")
        });
        let script = format!("exec 9> {}; sleep 3600 & (sleep 3600; true) & wait", path.display());
        let wrong = shell(&script, "", Duration::from_secs(2)).expect_err("killed").to_string();
        assert_eq!(wrong, "sh did not end within 2s and was killed, with its child processes");
        // The reader may still wait for a writer, if the program was not quick enough. This open does not block.
        drop(File::options().read(true).write(true).open(&path).expect("a pipe"));
        assert_eq!(hears.join().expect("it hears"), "");
        std::fs::remove_file(path).expect("it is ours");
    }

    #[test]
    fn what_a_program_leaves_behind_is_not_waited_for() {
        let path = pipe("left");
        // It holds the descriptors of its parent until a writer comes.
        let script = format!("(read word < {}) & exit 0", path.display());
        shell(&script, "", LONG).expect("it has ended");
        drop(File::options().write(true).open(&path).expect("a reader"));
        std::fs::remove_file(path).expect("it is ours");
    }
}
