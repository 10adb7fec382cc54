//! Any text as scenarios, which are run: mistakes and what was not so are told, and never a panic.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_plane::scenario::{self, VirtualNode};

fuzz_target!(|text: &str| {
    match scenario::read(text) {
        Ok(scenarios) => {
            for scenario in scenarios {
                if let Err(wrong) = scenario.run(&mut VirtualNode::default()) {
                    assert!(!wrong.is_empty());
                }
            }
        }
        Err(mistakes) => assert!(!mistakes.is_empty()),
    }
});
