//! The log of the kernel's verifier for a program that it refused, in a file that can be sent with a bug report.
//!
//! libbpf asks the verifier again, with its log, when it has refused a program, and prints what it says. That is caught
//! here, per thread, since there is no other way to it.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::{fs, io};

use libbpf_rs::PrintLevel;

/// Lines at the end of the verifier's log that nearly always say what is wrong.
const LAST_LINES: usize = 10;
/// Around what the verifier says, in what libbpf prints.
const BEGIN: &str = "-- BEGIN PROG LOAD LOG --\n";
const END: &str = "-- END PROG LOAD LOG --";

thread_local! {
    static PRINTED: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Release of the running kernel, such as 6.1.0-50-amd64.
pub fn kernel() -> String {
    weir_disk::kernel_text("/proc/sys/kernel/osrelease")
        .map_or("of unknown release".into(), |text| text.trim().into())
}

/// What libbpf prints from now on in this thread is kept, and not shown.
pub(crate) fn listen() {
    PRINTED.with_borrow_mut(String::clear);
    libbpf_rs::set_print(Some((PrintLevel::Warn, |_, text| {
        PRINTED.with_borrow_mut(|printed| printed.push_str(&text));
        if std::env::var_os("WEIR_DEBUG_BPF").is_some() {
            eprint!("{text}");
        }
    })));
}

/// The log of the verifier since [`listen`], in a file; `None` if it was not the verifier that refused, or the file cannot be
/// written.
pub(crate) fn keep(what: &str, error: &libbpf_rs::Error) -> Option<PathBuf> {
    let log = PRINTED.with_borrow(|printed| verifier_log(printed).map(String::from))?;
    let name = format!("refused-{}-{}.txt", what.replace(' ', "-"), kernel());
    write(&weir_disk::state_folder(), &name, &text(what, &error.to_string(), &log)).ok()
}

fn write(folder: &Path, name: &str, text: &str) -> io::Result<PathBuf> {
    fs::create_dir_all(folder)?;
    // Never through a link that another user has placed.
    weir_disk::replace_in(&weir_disk::Directory::open(folder)?, name.as_ref(), text.as_bytes(), 0o644)?;
    Ok(folder.join(name))
}

fn verifier_log(printed: &str) -> Option<&str> {
    let (_, log) = printed.split_once(BEGIN)?;
    log.split(END).next().filter(|log| !log.trim().is_empty())
}

fn text(what: &str, error: &str, log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    let last = lines[lines.len().saturating_sub(LAST_LINES)..].join("\n");
    format!(
        "weir {} on Linux {} ({})\nThe kernel refused the eBPF {what}: {error}\n\nThe last lines of its verifier:\n{last}\n\n\
         All that its verifier said:\n{log}",
        env!("CARGO_PKG_VERSION"),
        kernel(),
        std::env::consts::ARCH,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_come_first() {
        let said: String = (1..=40).map(|n| format!("line {n}\n")).collect();
        let printed = format!("libbpf: prog 'x': failed\nlibbpf: {BEGIN}{said}{END}\nlibbpf: more\n");
        let log = verifier_log(&printed).unwrap();
        assert_eq!(log, said);
        let text = text("receiver", "Permission denied", log);
        let (_, last) = text.split_once("verifier:\n").unwrap();
        assert!(last.starts_with("line 31\n") && text.ends_with("line 40\n"), "{text}");
        assert!(text.contains(&kernel()), "{text}");
        assert_eq!(verifier_log("libbpf: Error in bpf_create_map\n"), None);
    }
}
