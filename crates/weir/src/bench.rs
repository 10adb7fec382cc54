//! `weir bench`: the cost of weir's own code.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::{Context, Result};
use weir_bench::{Form, plane};

use crate::cli::{Bench, Pages};

/// The variable by which glibc's allocator selects page sizes; glibc reads it when a program starts.
const TUNABLES: &str = "GLIBC_TUNABLES";
const LARGE: &str = "glibc.malloc.hugetlb=1";

pub(crate) fn run(bench: &Bench, out: &mut impl Write) -> Result<()> {
    let Bench::Plane { rows, pages, json } = bench;
    let set = std::env::var(TUNABLES).is_ok_and(|tunables| tunables.contains(LARGE));
    if *pages == Pages::Large && !set {
        let program =
            std::env::current_exe().context("cannot find this program to restart it with large pages")?;
        let error = Command::new(program).args(std::env::args_os().skip(1)).env(TUNABLES, LARGE).exec();
        return Err(error).context("cannot restart this program with large pages");
    }
    Ok(plane(rows, if *json { Form::Json } else { Form::Text }, out)?)
}
