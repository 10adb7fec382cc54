//! weir.
fn main() {}
