//! The target whose name this program has, under libFuzzer. What the targets do is in `crates/fuzz`.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use weir_fuzz::Target;

static TARGET: LazyLock<&Target> =
    LazyLock::new(|| Target::of(env!("CARGO_BIN_NAME")).expect("a target has this name"));

fuzz_target!(|bytes: &[u8]| (TARGET.run)(bytes));
