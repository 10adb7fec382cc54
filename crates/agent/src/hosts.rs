//! `hosts.toml`: other hosts, how they are reached, and their roles.
//!
//! ```toml
//! [[host]]
//! role = "worker"
//! ssh = "lab@192.0.2.11"
//! ```

use std::path::{Path, PathBuf};
use std::time::Duration;

use weir_config::{Mistakes, Notes, Section, did_you_mean, value};

use crate::ssh::Ssh;

/// How long a host may take to answer, unless the file says otherwise.
const TIMEOUT: Duration = Duration::from_secs(30);

/// What a host does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Runs a whole plan, or shards of it, by itself.
    Worker,
    /// Has port a of the tester, and runs the plan.
    Tester,
    /// Has port b of the tester.
    RemoteTester,
    /// Is the device under test.
    Dut,
}

impl Role {
    /// All roles with their names in the file.
    pub const ALL: [(Role, &'static str); 4] = [
        (Role::Worker, "worker"),
        (Role::Tester, "tester"),
        (Role::RemoteTester, "remote-tester"),
        (Role::Dut, "dut"),
    ];

    fn name(self) -> &'static str {
        Role::ALL.iter().find(|(role, _)| *role == self).map_or("", |(_, name)| name)
    }
}

/// A host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// Its role.
    pub role: Role,
    /// How it is reached.
    pub ssh: Ssh,
    /// The program there; `None`: the one in its PATH, or a copy of that of this host.
    pub weir: Option<String>,
    /// Its interfaces towards side a and side b.
    pub ports: Vec<String>,
    /// What a device does with frames; the names are those of `weir setup --mode`.
    pub mode: Option<String>,
}

/// All hosts of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hosts(Vec<Host>);

impl Hosts {
    /// Reads the file; `modes` are the names of what a device can do.
    ///
    /// # Errors
    /// All mistakes.
    pub fn read(file: &str, text: &str, modes: &[&'static str]) -> Result<Hosts, Mistakes> {
        let notes = Notes::new("a file of hosts", text);
        let document = notes.parse();
        let hosts = document.as_ref().and_then(|document| document.as_table_like()).map(|table| {
            let root = Section::root(table, &notes);
            let hosts = read_hosts(&root, modes);
            root.finish();
            hosts
        });
        match hosts {
            Some(hosts) if notes.is_empty() => Ok(Hosts(hosts)),
            _ => Err(notes.to_mistakes(file)),
        }
    }

    /// The configuration of the SSH client, if the file names one.
    pub fn ssh_config(&self) -> Option<&Path> {
        self.0.first()?.ssh.config.as_deref()
    }

    /// The hosts with this role.
    pub fn with(&self, role: Role) -> impl Iterator<Item = &Host> {
        self.0.iter().filter(move |host| host.role == role)
    }
}

fn read_hosts(root: &Section<'_>, modes: &[&'static str]) -> Vec<Host> {
    let config = root.one("ssh_config", value::text).map(PathBuf::from);
    let sections = root.sections("host");
    if sections.is_empty() && !root.has("host") {
        root.wrong("host", "is missing: add [[host]] with `role` and `ssh` for each host".into());
    }
    let mut hosts: Vec<Host> = Vec::new();
    for section in sections {
        let host = read_host(&section, config.as_ref(), modes);
        if let Some(host) = &host {
            check(&section, host, &hosts);
        }
        section.finish();
        hosts.extend(host);
    }
    hosts
}

fn read_host(section: &Section<'_>, config: Option<&PathBuf>, modes: &[&'static str]) -> Option<Host> {
    let role = section.required("role", "\"worker\"", value::choice("role", &Role::ALL));
    let target = section.required("ssh", "\"root@192.0.2.1\"", value::text);
    let timeout = section.one("timeout_s", value::seconds).unwrap_or(TIMEOUT);
    let weir = section.one("weir", value::text);
    let ports = section.axis("ports", value::text).unwrap_or_default();
    let mode = section.one("mode", |value| {
        let text = value::text(value)?;
        let known = modes.contains(&text.as_str());
        if known { Ok(text) } else { Err(format!("`{text}` is no mode: {}", did_you_mean(&text, modes))) }
    });
    let ssh = Ssh { target: target?, config: config.cloned(), timeout };
    Some(Host { role: role?, ssh, weir, ports, mode })
}

/// Notes what does not fit the role, or the hosts before.
fn check(section: &Section<'_>, host: &Host, before: &[Host]) {
    let name = host.role.name();
    let (fewest, most, what) = match host.role {
        Role::Worker => (0, 0, "no interfaces: remove the list"),
        Role::Tester => {
            (0, 2, "one interface towards each side of the device, or one if frames return on it")
        }
        Role::RemoteTester => (1, 1, "one interface towards side b: write `ports = \"eth2\"`"),
        Role::Dut => (1, 2, "its interfaces on side a and side b: write `ports = [\"eth1\", \"eth2\"]`"),
    };
    if !(fewest..=most).contains(&host.ports.len()) && (host.ports.len() > most || !section.has("ports")) {
        section.wrong("ports", format!("{} given, a {name} has {what}", host.ports.len()));
    }
    if host.mode.is_some() && host.role != Role::Dut {
        section.wrong(
            "mode",
            format!("is what a device does with frames, and this host is a {name}: remove it"),
        );
    }
    if host.role == Role::Worker {
        if before.iter().any(|other| other.role == Role::Worker && other.ssh.target == host.ssh.target) {
            section.wrong("ssh", format!("{} is a worker already: remove one", host.ssh.target));
        }
    } else if before.iter().any(|other| other.role == host.role) {
        section.wrong("role", format!("there is a {name} already: a run has one"));
    }
    if before.iter().any(|other| (other.role == Role::Worker) != (host.role == Role::Worker)) {
        section.wrong(
            "role",
            "a file has workers, or a tester and its device: write two files, and run the plan with each"
                .into(),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODES: [&str; 3] = ["forward", "stateless", "stateful"];

    fn read(text: &str) -> Result<Hosts, String> {
        Hosts::read("hosts.toml", text, &MODES).map_err(|mistakes| mistakes.to_string())
    }

    #[test]
    fn hosts_have_roles() {
        let text = "ssh_config = \"lab\"\n[[host]]\nrole = \"dut\"\nssh = \"root@192.0.2.1\"\nports = [\"eth1\", \"eth2\"]\n\
                    mode = \"stateful\"\n[[host]]\nrole = \"remote-tester\"\nssh = \"b\"\nports = \"eth2\"\nweir = \"/opt/weir\"\n";
        let hosts = read(text).unwrap();
        let dut = hosts.with(Role::Dut).next().unwrap();
        assert_eq!((dut.ports.len(), dut.mode.as_deref(), dut.ssh.timeout), (2, Some("stateful"), TIMEOUT));
        let remote = hosts.with(Role::RemoteTester).next().unwrap();
        assert_eq!((remote.weir.as_deref(), &remote.ssh.config), (Some("/opt/weir"), &Some("lab".into())));
        assert_eq!(hosts.with(Role::Worker).count() + hosts.with(Role::Tester).count(), 0);
    }

    #[test]
    fn mistakes_are_reported_all_at_once_with_their_lines() {
        for (text, expected) in [
            ("", "hosts.toml:1: host: is missing: add [[host]] with `role` and `ssh` for each host"),
            (
                "[[host]]\nrole = \"worker\"\nshh = \"a\"\n",
                "hosts.toml:1: host.1.ssh: is missing: add `ssh = \"root@192.0.2.1\"` to [host.1]\n\
                 hosts.toml:3: `shh` is no option of [host.1]: did you mean `ssh`?",
            ),
            (
                "[[host]]\nrole = \"wroker\"\nssh = \"a\"\n[[hosts]]\n",
                "hosts.toml:2: host.1.role: `wroker` is no role: did you mean `worker`?\n\
                 hosts.toml:4: `hosts` is no option of a file of hosts: did you mean `host`?",
            ),
            (
                "[[host]]\nrole = \"dut\"\nssh = \"a\"\nmode = \"nat\"\n",
                "hosts.toml:1: host.1.ports: 0 given, a dut has its interfaces on side a and side b: write `ports = [\"eth1\", \
                 \"eth2\"]`\nhosts.toml:4: host.1.mode: `nat` is no mode: use forward, stateless, stateful",
            ),
            (
                "[[host]]\nrole = \"dut\"\nssh = \"a\"\nports = \"eth1\"\nmode = \"statefull\"\n",
                "hosts.toml:5: host.1.mode: `statefull` is no mode: did you mean `stateful`?",
            ),
            (
                "ssh_conf = \"lab\"\n[[host]]\nrole = \"tester\"\nssh = \"a\"\ntimeout = 9\nwier = \"w\"\nport = \"eth1\"\nmod = \"forward\"\n",
                "hosts.toml:1: `ssh_conf` is no option of a file of hosts: did you mean `ssh_config`?\n\
                 hosts.toml:5: `timeout` is no option of [host.1]: did you mean `timeout_s`?\n\
                 hosts.toml:6: `wier` is no option of [host.1]: did you mean `weir`?\n\
                 hosts.toml:7: `port` is no option of [host.1]: did you mean `ports`?\n\
                 hosts.toml:8: `mod` is no option of [host.1]: did you mean `mode`?",
            ),
            (
                "[[host]]\nrole = \"worker\"\nssh = \"a\"\n[[host]]\nrole = \"worker\"\nssh = \"a\"\nports = \"eth1\"\n",
                "hosts.toml:6: host.2.ssh: a is a worker already: remove one\n\
                 hosts.toml:7: host.2.ports: 1 given, a worker has no interfaces: remove the list",
            ),
            (
                "[[host]]\nrole = \"worker\"\nssh = \"a\"\n[[host]]\nrole = \"tester\"\nssh = \"b\"\n",
                "hosts.toml:5: host.2.role: a file has workers, or a tester and its device: write two files, and run the plan \
                 with each",
            ),
        ] {
            assert_eq!(read(text).unwrap_err(), expected, "{text}");
        }
    }
}
