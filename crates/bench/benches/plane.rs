//! The rows of `weir bench plane`: `cargo bench -p weir-lab -- forward` measures those with that in their names; with
//! `GLIBC_TUNABLES=glibc.malloc.hugetlb=1` in pages of 2 MiB.

use std::io;

use weir_bench::{Form, plane};

fn main() -> io::Result<()> {
    // `cargo test --benches` runs this too, and wants no numbers.
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.iter().any(|word| word == "--bench") {
        let wanted = words.iter().find(|word| !word.starts_with('-'));
        plane(wanted.map_or("", String::as_str), Form::Text, &mut io::stdout())?;
    }
    Ok(())
}
