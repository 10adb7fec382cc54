//! `weir setup`: prints the configuration of an external device under test.

use std::io::Write;

use anyhow::{Result, bail};
use weir_testbed::setup::Setup;

use crate::cli;

pub(crate) fn print(arguments: &cli::Setup, out: &mut impl Write) -> Result<()> {
    let interfaces = match arguments.interfaces.as_slice() {
        [] => arguments.os.usual_interfaces().map(String::from),
        [one] => [one.clone(), one.clone()],
        [a, b] => [a.clone(), b.clone()],
        more => bail!("{} interfaces: give one for each side, or one for both", more.len()),
    };
    let setup = Setup {
        os: arguments.os,
        mode: arguments.mode,
        nat: arguments.nat,
        rules: arguments.rules,
        interfaces,
        ip: arguments.ip,
    };
    Ok(out.write_all(setup.text()?.as_bytes())?)
}
