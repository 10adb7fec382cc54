//! What a frame costs in the plane: clocks per frame, in memory, one core. `cargo bench -p weir-plane -- forward` runs
//! the rows whose names begin so; with `GLIBC_TUNABLES=glibc.malloc.hugetlb=1` in pages of 2 MiB.
//!
//! Frames of 64 bytes, 1,024 of them in 128 KiB, written anew before each pass: a port would have put them into the
//! cache as well. Each batch of 64 is timed by itself, so that a row has the median over rounds with their spread, and
//! the time that all but one of 10,000 batches stay under. The clock is read once per batch: about 1 clock a frame.

mod filter;
mod forward;
mod nat;
mod probe;

fn main() {
    // `cargo test --benches` runs this too, and wants no numbers.
    let words: Vec<String> = std::env::args().skip(1).collect();
    if !words.iter().any(|word| word == "--bench") {
        return;
    }
    let wanted = words.into_iter().find(|word| !word.starts_with('-')).unwrap_or_default();
    let bench = probe::Bench::new(wanted);
    bench.heading();
    forward::rows(&bench);
    filter::rows(&bench);
    nat::rows(&bench);
}
