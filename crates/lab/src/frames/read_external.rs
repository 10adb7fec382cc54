//! `[external]`: the external DUT.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use toml_edit::Value;
use weir_agent::ssh::Ssh;
use weir_testbed::external::{DeviceSpec, ExternalSpec, RemoteSpec};
use weir_testbed::setup::Mode;

use weir_config::value;
use weir_config::{Section, shown};

/// A command on the box that takes longer is given up, unless the plan says otherwise.
const TIMEOUT: Duration = Duration::from_secs(30);

/// How options of the remote host were called in 0.1.
const FAR: [&str; 3] = ["far", "far_port", "far_weir"];

/// Reads the section; `None` if it is absent or wrong.
pub fn read_external(section: Section<'_>) -> Option<ExternalSpec> {
    if !section.is_present() {
        return None;
    }
    // Plans of 0.1 say `far` of what is remote.
    let of_before = FAR.iter().any(|key| section.has(key));
    let [host, port, weir] = if of_before { FAR } else { ["remote", "remote_port", "remote_weir"] };
    let remote = section.one(host, value::text);
    let ports = section.required_axis("ports", "[\"eth1\", \"eth2\"]", value::text);
    if let Some(more) = ports.as_ref().filter(|ports| ports.len() > 2) {
        let text =
            format!("{} interfaces: give one for each side, or one if frames return on it", more.len());
        section.wrong("ports", text);
    }
    if remote.is_some() && ports.as_ref().is_some_and(|ports| ports.len() == 2) {
        let text = format!(
            "2 interfaces of this machine, and port b is on `{host}`: give only the interface towards side a"
        );
        section.wrong("ports", text);
    }
    let box_ip = both(&section, "box", section.axis("box", value::parsed::<Ip>));
    let tester_ip = both(&section, "tester", section.axis("tester", value::parsed::<Ip>));
    let mac = both(&section, "mac", section.axis("mac", value::parsed::<Mac>));
    let target = section.one("ssh", value::text);
    let config = section.one("ssh_config", value::text);
    let timeout = section.one("timeout_s", value::seconds).unwrap_or(TIMEOUT);
    let ssh = |target| Ssh { target, config: config.clone().map(PathBuf::from), timeout };
    let remote = read_remote(&section, remote.map(ssh), [host, port, weir]);
    let device = read_device(&section, target.clone().map(ssh));
    let mut hook = |key: &'static str| {
        let command = section.one(key, value::text);
        if command.is_some() && section.has("agent_ports") {
            section.wrong(key, "is done by weir on the device: remove it, or `agent_ports`".into());
        }
        if command.is_some() && !section.has("ssh") {
            section.wrong(key, "is run over SSH: add `ssh = \"root@192.0.2.1\"` to [external]".into());
        }
        command
    };
    let [setup, reset, counters, memory] = ["setup", "reset", "counters", "memory"].map(&mut hook);
    let setup_input = section.one("setup_input", readable_file);
    if section.has("setup_input") && !section.has("setup") {
        section.wrong("setup_input", "is the input of `setup`: add `setup = \"sh -e\"` to [external]".into());
    }
    let drops = section.axis("drops", value::text).unwrap_or_default();
    if !drops.is_empty() && !section.has("counters") {
        section.wrong("drops", "names counters: add the command `counters` to [external]".into());
    }
    let drops = device.as_ref().map_or(drops, DeviceSpec::drops);
    let allow_default_route = section.one("allow_default_route", yes_or_no).unwrap_or(false);
    section.finish();
    Some(ExternalSpec {
        ports: ports?,
        remote,
        box_ip: box_ip.map(|both| both.map(|ip| ip.0)),
        tester_ip: tester_ip.map(|both| both.map(|ip| ip.0)),
        mac: mac.map(|both| both.map(|mac| mac.0)),
        device,
        ssh: target.map(ssh),
        setup,
        setup_input,
        reset,
        counters,
        memory,
        drops,
        allow_default_route,
    })
}

/// The interface on another host; the options are called so.
fn read_remote(section: &Section<'_>, ssh: Option<Ssh>, names: [&'static str; 3]) -> Option<RemoteSpec> {
    let [host, port, weir] = names;
    let [its_port, its_weir] = [port, weir].map(|key| {
        let value = section.one(key, value::text);
        if value.is_some() && !section.has(host) {
            section
                .wrong(key, format!("is on another host: add `{host} = \"root@192.0.2.9\"` to [external]"));
        }
        value
    });
    let ssh = ssh?;
    let port = its_port.or_else(|| section.required(port, "\"eth1\"", value::text))?;
    Some(RemoteSpec { ssh, weir: its_weir.unwrap_or_else(|| "weir".into()), port })
}

/// weir on the device.
fn read_device(section: &Section<'_>, ssh: Option<Ssh>) -> Option<DeviceSpec> {
    let ports = section.axis("agent_ports", value::text);
    let mode = section.one("agent_mode", value::choice("mode", &Mode::ALL));
    let weir = section.one("agent_weir", value::text);
    for key in ["agent_mode", "agent_weir"] {
        if section.has(key) && !section.has("agent_ports") {
            let text = "is of weir on the device: add `agent_ports = [\"eth1\", \"eth2\"]` to [external]";
            section.wrong(key, text.into());
        }
    }
    if section.has("agent_ports") && ssh.is_none() {
        section.wrong(
            "agent_ports",
            "is of weir on the device: add `ssh = \"root@192.0.2.1\"` to [external]".into(),
        );
    }
    let interfaces = match ports.as_deref()? {
        [one] => [one.clone(), one.clone()],
        [a, b] => [a.clone(), b.clone()],
        more => {
            section.wrong(
                "agent_ports",
                format!("{} interfaces: give one for each side, or one for both", more.len()),
            );
            return None;
        }
    };
    Some(DeviceSpec {
        ssh: ssh?,
        weir: weir.unwrap_or_else(|| "weir".into()),
        interfaces,
        mode: mode.unwrap_or(Mode::Forward),
    })
}

/// One value for both sides, or one for each.
fn both<T: Copy>(section: &Section<'_>, key: &str, list: Option<Vec<T>>) -> Option<[T; 2]> {
    match list.as_deref() {
        None => None,
        Some([one]) => Some([*one, *one]),
        Some([a, b]) => Some([*a, *b]),
        Some(more) => {
            section.wrong(key, format!("{} values: give one for each side", more.len()));
            None
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
struct Ip(IpAddr);

impl std::str::FromStr for Ip {
    type Err = String;

    fn from_str(text: &str) -> Result<Ip, String> {
        text.parse().map(Ip).map_err(|_| format!("`{text}` is no IP address: use 198.18.1.1"))
    }
}

/// An Ethernet address.
#[derive(Clone, Copy, PartialEq)]
struct Mac([u8; 6]);

impl std::str::FromStr for Mac {
    type Err = String;

    fn from_str(text: &str) -> Result<Mac, String> {
        let octet = |part: &str| u8::from_str_radix(part, 16).ok().filter(|_| part.len() == 2);
        let octets: Option<Vec<u8>> = text.split(':').map(octet).collect();
        let octets = octets.and_then(|octets| octets.try_into().ok());
        octets.map(Mac).ok_or_else(|| format!("`{text}` is no Ethernet address: use 02:00:00:00:00:01"))
    }
}

fn readable_file(item: &Value) -> Result<PathBuf, String> {
    let path = PathBuf::from(value::text(item)?);
    match std::fs::File::open(&path) {
        Ok(_) => Ok(path),
        Err(error) => Err(format!(
            "cannot read {}: {error}; create it, for example with `weir setup --os linux-nft > {0}`",
            path.display()
        )),
    }
}

fn yes_or_no(value: &Value) -> Result<bool, String> {
    value.as_bool().ok_or_else(|| format!("`{}` is neither true nor false: use one of them", shown(value)))
}
