//! Memory for large tables: huge pages, and prefetching of cache lines. All unsafe code of the data plane is here: it changes
//! how fast memory answers, never what it holds.

mod prefetch;
mod segment;

pub use prefetch::prefetch;
pub use segment::Segment;
