//! Any text as a node: mistakes or what was asked for, and never a panic.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_plane::{Config, Plane};

fuzz_target!(|text: &str| {
    match Config::read("fuzz", text) {
        Ok(config) => {
            let macs: Vec<_> = config.ports.iter().map(|_| [2, 0, 0, 0, 0xaa, 1]).collect();
            Plane::new(&config, &macs);
        }
        Err(mistakes) => assert!(!mistakes.list.is_empty() && !mistakes.to_string().is_empty()),
    }
});
