//! `weir detect`: arguments of the detector, and the queues that it watches. The service itself is `weir_detectd`.

use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use tracing::{info, warn};
use weir_capture::privilege::User;
use weir_capture::source::{Source, Wanted};
use weir_detect::Config;
use weir_detectd::{End, Prepared, SNAP, Settings};
use weir_port::capture::{Options, Queue};

use crate::outcome::Outcome;
use crate::{capture, cli};

const EXAMPLE: &str = include_str!("../../../examples/detect.toml");

/// Watches interfaces, or judges a capture.
pub(crate) fn run(arguments: &cli::Detect, out: &mut impl Write) -> Result<Outcome> {
    let Some(config) = arguments.config.as_deref().filter(|_| !arguments.example) else {
        out.write_all(EXAMPLE.as_bytes())?;
        return Ok(Outcome::Done);
    };
    weir_service::log::init(arguments.log.options())?;
    let mut config = read_config(config)?;
    let queues = if arguments.read.is_none() { open(arguments, &mut config)? } else { Vec::new() };
    // Privileges are dropped before frames are parsed and actions run.
    let keeps_privileges = arguments.keep_privileges || arguments.read.is_some();
    let settings = Settings {
        interfaces: &arguments.interface,
        read: arguments.read.as_deref(),
        announces_replay: arguments.announce,
        duration: arguments.duration,
        prometheus: arguments.prometheus,
        keeps_privileges,
        json: arguments.json,
    };
    let prepared = Prepared::new(settings, config)?;
    let user = if keeps_privileges { None } else { give_up_privileges()? };
    Ok(match prepared.run(queues, user, out)? {
        End::Done => Outcome::Done,
        End::Interrupted => Outcome::Interrupted,
    })
}

fn give_up_privileges() -> Result<Option<User>> {
    let became = capture::drop_privileges()?;
    if let Some(user) = became {
        info!(user = user.uid, "{}", capture::all_is_open(user));
    }
    Ok(became)
}

fn read_config(path: &Path) -> Result<Config> {
    let name = path.display();
    let text = std::fs::read_to_string(path).with_context(|| {
        format!("cannot read the configuration {name} (write one with `weir detect --example > {name}`)")
    })?;
    Ok(Config::read(&name.to_string(), &text)?)
}

/// Opens all queues; without `mtu` in the configuration the largest MTU of the interfaces is used.
fn open(arguments: &cli::Detect, config: &mut Config) -> Result<Vec<Box<dyn Queue>>> {
    let links = capture::ethernet(&arguments.interface)?;
    config.mtu = config.mtu.or_else(|| links.iter().map(|link| link.mtu).max());
    capture::check_permission()?;
    let mut queues = Vec::new();
    for link in &links {
        let options =
            Options { snap: SNAP, sockets: arguments.threads, promiscuous: true, ..Options::default() };
        let options = capture::with_buffer(options, arguments.buffer);
        let wanted = Wanted { method: arguments.method.asked(), options, filter: String::new() };
        let source = Source::open(link, wanted)?;
        let (name, method) = (&link.name, source.method);
        info!(interface = %name, %method, "{name}: {method}, {}", source.reason);
        source.obstacles.iter().for_each(|obstacle| warn!("note: {obstacle}"));
        queues.extend(source.into_queues());
    }
    Ok(queues)
}
