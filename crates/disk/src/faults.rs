//! For tests: code that writes files is run repeatedly in a separate process, which is killed, loses its power, or is
//! reported an error at the first change of a file, at the second, and so on.
//!
//! ```text
//! test > for each change n: itself, as another process, with faults.c preloaded > dies at n > the files are checked
//! ```

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The process dies, half of what it was about to write is there.
    Kill,
    /// The same, and what was not synced is lost.
    Power,
    /// Half of it is written.
    Short,
    /// The disk is full.
    Full,
    /// The disk fails.
    Io,
    /// The file system has become read-only; to a writer of a file that is as [`Fault::Io`].
    ReadOnly,
}

impl Fault {
    /// All that differ for a writer.
    pub const ALL: [Fault; 5] = [Fault::Kill, Fault::Power, Fault::Short, Fault::Full, Fault::Io];

    fn word(self) -> &'static str {
        match self {
            Fault::Kill => "kill",
            Fault::Power => "power",
            Fault::Short => "short",
            Fault::Full => "28",
            Fault::Io => "5",
            Fault::ReadOnly => "30",
        }
    }

    /// Whether the process dies of it.
    pub fn kills(self) -> bool {
        matches!(self, Fault::Kill | Fault::Power)
    }
}

/// The part of a test that writes files. It is a separate test, which does nothing unless [`folder`] says where.
#[derive(Debug, Clone, Copy)]
pub struct Writer {
    /// Its name, with its modules.
    pub test: &'static str,
    /// Changes that fail from the first one on.
    pub lasts: u32,
}

/// Where the writer is to write, in the process that is to fail.
pub fn folder() -> Option<PathBuf> {
    std::env::var_os("WEIR_FAULT_BELOW").map(PathBuf::from)
}

/// Runs the writer once for each change of a file, with a fault at that change, each time in a new folder that `prepare` fills. `check`
/// gets the folder afterwards and the lines that the writer printed. Returns the number of changes.
///
/// # Panics
/// No compiler, no room; a writer that fails although nothing did.
pub fn at_each_change(
    writer: Writer,
    fault: Fault,
    prepare: impl Fn(&Path),
    check: impl Fn(u32, &Path, &[String]),
) -> u32 {
    let base = std::env::temp_dir().join(format!(
        "weir-faults-{}-{}-{fault:?}",
        std::process::id(),
        writer.test.replace("::", "-")
    ));
    let (below, shadow, hit) = (base.join("files"), base.join("shadow"), base.join("hit"));
    let _ = std::fs::remove_dir_all(&base);
    std::fs::create_dir_all(&base).expect("room for a folder");
    let library = build(&base);
    for at in 1.. {
        for folder in [&below, &shadow] {
            let _ = std::fs::remove_dir_all(folder);
        }
        let _ = std::fs::remove_file(&hit);
        for folder in [&below, &shadow] {
            std::fs::create_dir_all(folder).expect("room for a folder");
        }
        prepare(&below);
        let said = run(writer, fault, at, [&library, &below, &shadow, &hit]);
        let is_hit = hit.exists();
        check(at, &below, &said);
        if !is_hit {
            let _ = std::fs::remove_dir_all(&base);
            return at - 1;
        }
    }
    unreachable!("numbers do not end")
}

fn run(writer: Writer, fault: Fault, at: u32, [library, below, shadow, hit]: [&Path; 4]) -> Vec<String> {
    let lasts = if fault.kills() { 1 } else { writer.lasts };
    let output = Command::new(std::env::current_exe().expect("the path of this program"))
        .args(["--exact", writer.test, "--nocapture", "--test-threads", "1"])
        .env("LD_PRELOAD", library)
        .env("WEIR_FAULT", fault.word())
        .env("WEIR_FAULT_AT", at.to_string())
        .env("WEIR_FAULT_LASTS", lasts.to_string())
        .env("WEIR_FAULT_BELOW", below)
        .env("WEIR_FAULT_SHADOW", shadow)
        .env("WEIR_FAULT_HIT", hit)
        .stdin(Stdio::null())
        .output()
        .expect("this program runs once more");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let is_killed = fault.kills() && hit.exists();
    assert!(is_killed != output.status.success(), "{fault:?} at {at}: {output:?}");
    assert!(is_killed || said.contains("1 passed"), "no test has the name {}: {said}", writer.test);
    said.lines().map(String::from).collect()
}

/// Builds the library in a folder.
fn build(folder: &Path) -> PathBuf {
    let (source, library) = (folder.join("faults.c"), folder.join("faults.so"));
    std::fs::write(&source, include_str!("faults/faults.c")).expect("room for the source");
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-pthread", "-o"])
        .arg(&library)
        .arg(&source)
        .status();
    assert!(built.expect("a C compiler, cc").success(), "it compiles");
    library
}
