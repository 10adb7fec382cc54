//! Messages of a control connection, for fuzz targets.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::client;
use crate::wire::{FLOW_HEADER, Lines, Order, flow_header, read_flow_header, say};

/// Words of a client to the server: what is taken is the same when it is said again.
pub fn orders(input: &[u8]) {
    let stop = AtomicBool::new(false);
    let mut lines = Lines::over(input);
    while let Ok(Some(order)) = lines.next::<Order>(Duration::from_secs(60), &stop) {
        let mut again = Vec::new();
        say(&mut again, &order).expect("memory");
        let heard = Lines::over(&again[..]).next::<Order>(Duration::from_secs(60), &stop);
        assert_eq!(format!("{heard:?}"), format!("Ok(Some({order:?}))"));
    }
    if let Some(header) = input.first_chunk::<FLOW_HEADER>() {
        let (test, flow) = read_flow_header(header);
        assert_eq!(read_flow_header(&flow_header(test, flow)), (test, flow));
    }
}

/// Words of a server to the client: figures, or an error that says something.
pub fn answers(input: &[u8]) {
    match client::hear_all(input) {
        Ok(outcome) => assert_eq!(outcome.flows.len(), 2),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
