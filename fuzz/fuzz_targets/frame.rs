//! Any bytes as a frame, for each of the parsers: no panic, and what is read of a part is what is read of the whole.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_packet::{frame, headers, neighbour};

fuzz_target!(|bytes: &[u8]| {
    let whole = headers::read(bytes);
    if let Some(part) = headers::read(&bytes[..bytes.len().saturating_sub(1)]) {
        let whole = whole.expect("a frame that is longer can be read, too");
        assert_eq!((part.src, part.dst), (whole.src, whole.dst));
    }
    if let frame::Parsed::Test(signature) = frame::parse(bytes) {
        let mut turned = bytes.to_vec();
        frame::reflect(&mut turned);
        assert_eq!(frame::parse(&turned), frame::Parsed::Test(signature));
    }
    neighbour::parse(bytes);
});
