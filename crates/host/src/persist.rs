//! Fixes that outlive a restart: a file of sysctl.d(5), and a systemd unit for what is no sysctl.

use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;

use crate::ceiling::sysctl_name;
use crate::fix::{FixError, note_failed};
use crate::{Fix, Host, systemd};

const SYSCTL: &str = "/etc/sysctl.d/90-weir.conf";
const UNIT: &str = "/etc/systemd/system/weir-settings.service";
/// The link by which `systemctl enable` starts it.
const WANTED: &str = "/etc/systemd/system/multi-user.target.wants/weir-settings.service";
const HEADER: &str = "# Written by `weir doctor --fix --persist`; `weir doctor --undo` removes it.\n";

/// Writes the files; those that an earlier call wrote are replaced. Returns them.
///
/// # Errors
/// A file that cannot be written, or one of that name that is not weir's.
pub fn persist(host: &Host, fixes: &[Fix]) -> Result<Vec<PathBuf>, FixError> {
    let (sysctls, others): (Vec<_>, Vec<_>) = fixes.iter().partition(|fix| sysctl(fix).is_some());
    let sysctls: String = sysctls.into_iter().filter_map(sysctl).collect();
    let others: String = others.into_iter().map(start).collect();
    let unit = "[Unit]\nDescription=Settings of this machine chosen with weir doctor\nAfter=network.target\n\n[Service]\nType=oneshot\n";
    let install = "\n[Install]\nWantedBy=multi-user.target\n";
    let files = [
        (SYSCTL, &sysctls, format!("{HEADER}{sysctls}")),
        (UNIT, &others, format!("{HEADER}{unit}{others}{install}")),
    ];
    let mut written = Vec::new();
    for (path, lines, text) in files {
        if lines.is_empty() {
            continue;
        }
        let path = host.place(path);
        if !is_ours(&path)? {
            let other = std::io::Error::new(ErrorKind::AlreadyExists, "it exists, and weir did not write it");
            return Err(note_failed(&path, other));
        }
        weir_disk::replace(&path, text.as_bytes(), 0o644).map_err(|error| note_failed(&path, error))?;
        written.push(path);
    }
    Ok(written)
}

/// Removes the files that [`persist`] wrote, and the link that starts the unit; returns those that were there.
///
/// # Errors
/// A file that cannot be removed.
pub fn forget(host: &Host) -> Result<Vec<PathBuf>, FixError> {
    let mut gone = Vec::new();
    for path in [SYSCTL, UNIT].map(|path| host.place(path)) {
        if path.exists() && is_ours(&path)? {
            fs::remove_file(&path).map_err(|error| note_failed(&path, error))?;
            gone.push(path);
        }
    }
    let link = host.place(WANTED);
    if gone.contains(&host.place(UNIT)) && link.is_symlink() {
        fs::remove_file(&link).map_err(|error| note_failed(&link, error))?;
        gone.push(link);
    }
    Ok(gone)
}

/// Is the file absent, or one that weir wrote?
fn is_ours(path: &PathBuf) -> Result<bool, FixError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(text.starts_with(HEADER)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(true),
        Err(error) => Err(note_failed(path, error)),
    }
}

/// A line of sysctl.d(5).
fn sysctl(fix: &Fix) -> Option<String> {
    match fix {
        Fix::File { path, value } => Some(format!("{} = {value}\n", sysctl_name(path)?)),
        Fix::Rings { .. } => None,
    }
}

/// A line of a unit.
fn start(fix: &Fix) -> String {
    format!("ExecStart=/bin/sh -c {}\n", systemd::argument(fix.command().as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_for_each_start_come_and_go() {
        let root = weir_testkit::Folder::new();
        let host = Host::at(&root, []);
        for path in [SYSCTL, UNIT] {
            fs::create_dir_all(host.place(path).parent().unwrap()).unwrap();
        }
        let file = |path: &str, value: &str| Fix::File { path: path.into(), value: value.into() };
        let fixes = [
            file("/proc/sys/net/core/somaxconn", "4096"),
            file("/proc/sys/net/ipv4/conf/eth0.5/rp_filter", "0"),
            file("/sys/class/net/eth0/queues/rx-0/rps_cpus", "3"),
            Fix::Rings { interface: "eth0".into(), receive: 4096, transmit: 2048 },
        ];
        let written = persist(&host, &fixes).unwrap();
        assert_eq!(written, [SYSCTL, UNIT].map(|path| host.place(path)));
        let [sysctls, unit] = [SYSCTL, UNIT].map(|path| host.text(path).unwrap());
        let lines: Vec<_> = sysctls.lines().skip(1).collect();
        assert_eq!(lines, ["net.core.somaxconn = 4096", "net.ipv4.conf.eth0/5.rp_filter = 0"]);
        let lines: Vec<_> = unit.lines().filter(|line| line.starts_with("ExecStart")).collect();
        let expected = [
            "ExecStart=/bin/sh -c \"echo '3' > /sys/class/net/eth0/queues/rx-0/rps_cpus\"",
            "ExecStart=/bin/sh -c \"ethtool -G eth0 rx 4096 tx 2048\"",
        ];
        assert_eq!(lines, expected);

        let link = host.place(WANTED);
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(UNIT, &link).unwrap();
        assert_eq!(forget(&host).unwrap(), [&written[..], &[link]].concat());
        assert!(forget(&host).unwrap().is_empty());
        // A file of another program is not changed.
        fs::write(host.place(SYSCTL), "net.core.somaxconn = 1\n").unwrap();
        let error = persist(&host, &fixes).unwrap_err().to_string();
        assert!(error.contains("90-weir.conf: it exists, and weir did not write it"), "{error}");
        assert!(forget(&host).unwrap().is_empty());
        assert_eq!(host.text(SYSCTL).unwrap(), "net.core.somaxconn = 1");
    }
}
