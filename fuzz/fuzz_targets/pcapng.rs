//! Any bytes as a capture file: an error, or all items, and never a panic.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_port::pcapng::read::Reader;

fuzz_target!(|file: &[u8]| {
    if let Ok(mut reader) = Reader::open(file) {
        while let Ok(Some(_)) = reader.next_item() {}
    }
});
