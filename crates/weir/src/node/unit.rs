//! The unit with which systemd runs a node.
//!
//! The unit has only the capabilities to open ports and drop privileges: on a veth, frames leave one by one without
//! CAP_SYS_ADMIN.

use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use anyhow::{Context, Result, bail};
use weir_host::systemd::{argument, quoted};
use weir_node::{Backend, Config};

/// Writes the unit of the node in `file`, whose content is `config`.
pub(super) fn write(file: &Path, config: &Config, out: &mut impl Write) -> Result<()> {
    let path = std::path::absolute(file).context("cannot find the path of the node file")?;
    let program = std::env::current_exe().context("cannot find the path of weir")?;
    let (path, program) = (path.as_os_str().as_bytes(), program.as_os_str().as_bytes());
    if program.iter().any(|byte| byte.is_ascii_control() || b"\"'\\".contains(byte)) {
        bail!(
            "systemd cannot run a program whose path has quotes, backslashes or control characters: move {}",
            String::from_utf8_lossy(program)
        );
    }
    let (name, path, program) = (quoted(path), argument(path), quoted(program));
    let devices: String =
        config.backends.iter().filter_map(device).map(|device| format!(" {device}")).collect();
    Ok(write!(
        out,
        "\
[Unit]
Description=Network node of {name}
Wants=network-pre.target{devices}
After=network-pre.target{devices}
# Retry for as long as an interface is missing.
StartLimitIntervalSec=0

[Service]
# Ready when its ports are open.
Type=notify
ExecStartPre={program} node check {path}
# After a crash hosts get their ports back.
ExecStart={program} node run {path} --socket %t/weir/%N/node.sock --blocks %S/weir/%N.blocks
ExecReload={program} node apply {path} --socket %t/weir/%N/node.sock
# Each node has its own folder, which is removed when it ends.
RuntimeDirectory=weir/%N
StateDirectory=weir
Restart=on-failure
RestartSec=1
# A drain takes less than two seconds.
TimeoutStopSec=5
# The process that switches VLAN offloads on again ends with the node.
KillMode=mixed
LimitMEMLOCK=infinity
CapabilityBoundingSet=CAP_NET_ADMIN CAP_NET_RAW CAP_BPF CAP_SETUID CAP_SETGID CAP_SETPCAP CAP_SYS_NICE CAP_IPC_LOCK
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=read-only
ProtectKernelTunables=yes
ProtectControlGroups=yes
PrivateTmp=yes
DevicePolicy=closed
DeviceAllow=/dev/net/tun rw
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectClock=yes
ProtectHostname=yes
KeyringMode=private
UMask=0077
RestrictSUIDSGID=yes
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK AF_PACKET AF_XDP
LockPersonality=yes
MemoryDenyWriteExecute=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service bpf seccomp
SystemCallErrorNumber=EPERM

[Install]
WantedBy=multi-user.target
"
    )?)
}

/// The device unit of a port's interface, which is active while the interface exists.
fn device(backend: &Backend) -> Option<String> {
    let (Backend::Xdp(name) | Backend::Packet(name)) = backend else { return None };
    Some(format!("sys-subsystem-net-devices-{}.device", escaped(name)))
}

/// A part of the name of a unit, as `systemd-escape` writes it.
fn escaped(name: &str) -> String {
    let escape = |(at, byte): (usize, u8)| match byte {
        b'.' if at == 0 => format!("\\x{byte:02x}"),
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b':' | b'_' | b'.' => char::from(byte).to_string(),
        _ => format!("\\x{byte:02x}"),
    };
    name.bytes().enumerate().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped() {
        for (name, unit) in [("eth0", "eth0"), ("br-lan.7", r"br\x2dlan.7"), (".x@", r"\x2ex\x40")] {
            assert_eq!(escaped(name), unit);
        }
    }
}
