//! Hosts around a device under test: tester, remote tester and device become options of the plan.

use anyhow::{Result, bail};
use weir_agent::hosts::{Host, Hosts, Role};
use weir_agent::install::Program;
use weir_service::say;

use super::crew::program_on;

/// Options that the file of hosts sets, as `--set` has them. `program` names weir on a host.
pub(crate) fn sets(hosts: &Hosts, program: impl Fn(&Host) -> Result<String>) -> Result<Vec<String>> {
    let mut sets = Vec::new();
    let mut set = |option: &str, value: &str| sets.push(format!("external.{option}={value}"));
    let tester = hosts.with(Role::Tester).next();
    if let Some(tester) = tester.filter(|tester| !tester.ports.is_empty()) {
        set("ports", &list(&tester.ports));
    }
    for host in hosts.with(Role::RemoteTester) {
        set("remote", &text(&host.ssh.target));
        set("remote_port", list(&host.ports).trim_matches(['[', ']']));
        set("remote_weir", &text(&program(host)?));
    }
    for host in hosts.with(Role::Dut) {
        set("ssh", &text(&host.ssh.target));
        set("agent_ports", &list(&host.ports));
        set("agent_mode", &text(host.mode.as_deref().unwrap_or("forward")));
        set("agent_weir", &text(&program(host)?));
    }
    // A tester elsewhere has its own configuration.
    let others = hosts.with(Role::RemoteTester).chain(hosts.with(Role::Dut));
    if tester.is_none()
        && let Some(config) = others.filter_map(|host| host.ssh.config.as_ref()).next()
    {
        set("ssh_config", &text(&config.display().to_string()));
    }
    Ok(sets)
}

/// Makes sure that a host has weir, and returns how its shell starts it.
pub(crate) fn install(host: &Host, own: &Program) -> Result<String> {
    match program_on(host, own) {
        Ok((program, note)) => {
            note.iter().for_each(|note| say::say(&format!("{}: {note}", host.ssh.target)));
            Ok(program)
        }
        Err(why) => bail!("{}: {why}", host.ssh.target),
    }
}

/// A text in TOML.
fn text(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn list(texts: &[String]) -> String {
    serde_json::Value::from(texts).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_are_options_of_external() {
        let file = r#"
            ssh_config = "lab"
            [[host]]
            role = "remote-tester"
            ssh = "root@192.0.2.9"
            ports = "eth2"
            [[host]]
            role = "dut"
            ssh = "root@192.0.2.1"
            ports = ["eth1", "eth2"]
            mode = "stateful"
        "#;
        let read = |text: &str| Hosts::read("hosts.toml", text, &["forward", "stateful"]).expect("right");
        let program = |host: &Host| Ok(format!("'/of {}/weir'", host.ssh.target));
        let expected = [
            r#"external.remote="root@192.0.2.9""#,
            r#"external.remote_port="eth2""#,
            r#"external.remote_weir="'/of root@192.0.2.9/weir'""#,
            r#"external.ssh="root@192.0.2.1""#,
            r#"external.agent_ports=["eth1","eth2"]"#,
            r#"external.agent_mode="stateful""#,
            r#"external.agent_weir="'/of root@192.0.2.1/weir'""#,
            r#"external.ssh_config="lab""#,
        ];
        assert_eq!(sets(&read(file), program).expect("no host is asked"), expected);
        let elsewhere = format!("{file}[[host]]\nrole = \"tester\"\nssh = \"a\"\nports = \"eth7\"\n");
        let sets = sets(&read(&elsewhere), program).expect("no host is asked");
        assert_eq!((sets[0].as_str(), sets.len()), (r#"external.ports=["eth7"]"#, 8));
    }
}
