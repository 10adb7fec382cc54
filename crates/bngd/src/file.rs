//! The file of the node, as far as it is for this program: the item `bng(...)`, held against the ports of the node.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use weir_bng::radius::plans::PlanTable;
use weir_bng::{Config, Item, NodeFacts};
use weir_control::texts;

/// What the file says.
#[derive(Debug)]
pub struct File {
    /// What is configured; ports have no MAC address unless the file says one.
    pub config: Config,
    /// The folder of the records, if the file says it.
    pub store: Option<PathBuf>,
    /// The file of the key of secrets, if the file says it.
    pub key: Option<PathBuf>,
    /// The socket of the REST server, if the file says it.
    pub socket: Option<PathBuf>,
    /// Where the captive-portal API answers, if the file says it.
    pub captive_at: Option<SocketAddr>,
}

impl File {
    /// Reads the file of a node.
    ///
    /// # Errors
    /// All mistakes of the file, or that it cannot be read or has no `bng(...)`.
    pub fn read(path: &Path) -> Result<File> {
        let (node, texts) = texts::read(path)?;
        let within = node.bng.clone().with_context(|| {
            format!("{}: there is no `bng(...)` in it: add one, as in `bng(pool main 100.64.0.2-100.64.0.99 router 100.64.0.1/24)`", texts.file)
        })?;
        let Item { config, store, key, socket, captive_at, .. } =
            Item::read(&texts.file, &texts.text, within, &facts(&node)?)?;
        // Relative to the folder of the file, as other files that it names.
        let beside = |other: PathBuf| path.parent().unwrap_or(Path::new("")).join(other);
        let mut config = config;
        for server in &mut config.radius {
            server.secret_file = server.secret_file.take().map(beside);
            server.tls.iter_mut().for_each(|tls| tls.map_paths(beside));
        }
        for (_, file) in config.dynauth.iter_mut().flat_map(|dynauth| &mut dynauth.clients) {
            *file = beside(std::mem::take(file));
        }
        config.aaa.plan_file = config.aaa.plan_file.take().map(beside);
        if let Some(file) = &config.aaa.plan_file {
            config.aaa.plans = plan_table(file)?;
        }
        Ok(File {
            config,
            store: store.map(beside),
            key: key.map(beside),
            socket: socket.map(beside),
            captive_at,
        })
    }
}

/// The table of attributes that say something of a plan.
fn plan_table(file: &Path) -> Result<PlanTable> {
    let shown = file.display();
    let text = std::fs::read_to_string(file)
        .with_context(|| format!("cannot read the table {shown} of plan-attributes"))?;
    let mistakes = |found: Vec<String>| {
        let lines: Vec<String> = found.iter().map(|line| format!("{shown}: {line}")).collect();
        anyhow::Error::msg(lines.join("\n"))
    };
    PlanTable::read(&text).map_err(mistakes)
}

/// What the item may name of the node.
fn facts(node: &weir_node::Config) -> Result<NodeFacts> {
    let ports = node.plane.ports.iter().map(|port| port.name.parse());
    let ports = ports.collect::<Result<_, String>>().map_err(anyhow::Error::msg)?;
    // Access ports have the addresses of the gateways.
    let addresses = node.plane.ports.iter().filter(|port| port.is_access).flat_map(|port| &port.addresses);
    Ok(NodeFacts { ports, gateways: addresses.map(|prefix| prefix.host()).collect() })
}

#[cfg(test)]
mod tests {
    use weir_bng::radius::attribute::Attributes;
    use weir_testkit::Folder;

    use super::*;

    const TEXT: &str =
        "node access1(access, on packet:b) > access(gateway 100.64.0.1/10) > route(default via 198.18.0.2)
        > wan(198.18.0.1/24, neighbour 198.18.0.2 02:00:00:00:01:01, on packet:d) run(host none)
        bng(pool main 100.64.0.2-100.64.7.254 router 100.64.0.1/10, plan-attributes plans.txt)";

    #[test]
    fn r15_the_attributes_of_plans_are_those_of_the_file() {
        let folder = Folder::new();
        folder.file("isp.node", TEXT);
        let read = || File::read(&folder.join("isp.node")).map(|file| file.config.aaa.plans);
        let wrong = read().expect_err("there is no file").to_string();
        assert!(wrong.contains("cannot read the table"), "{wrong}");
        folder.file("plans.txt", "# another vendor\n32473:9 down bit/s\n32473:10 up bit/s\n");
        let mut attributes = Attributes::default();
        attributes.push_vendor(32473, 9, b"30000000");
        attributes.push_vendor(32473, 10, b"7000000");
        let wish = read().expect("a table").wish(&attributes).expect("rates");
        assert_eq!((wish.down_bits_per_s, wish.up_bits_per_s), (Some(30_000_000), Some(7_000_000)));
        folder.file("plans.txt", "32473:9 down bit/s\n32473 twelve\nx plan\n");
        let wrong = read().expect_err("two mistakes").to_string();
        let lines: Vec<bool> = wrong.lines().map(|line| line.contains("plans.txt: line ")).collect();
        assert_eq!(lines, [true, true], "{wrong}");
    }
}
