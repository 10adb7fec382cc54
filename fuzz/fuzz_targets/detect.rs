//! Any text as a configuration of `weir detect`: mistakes or a configuration, and never a panic.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_detect::Config;

fuzz_target!(|text: &str| {
    if let Err(mistakes) = Config::read("fuzz", text) {
        assert!(!mistakes.list.is_empty() && !mistakes.to_string().is_empty());
    }
});
