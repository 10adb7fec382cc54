//! Memory for large tables: huge pages, made before they are needed, and prefetches of cache lines. All unsafe code of the data plane is here: it changes
//! how fast memory answers, never what it holds.

mod large_vec;
mod populate;
mod prefetch;
mod segment;

pub use large_vec::LargeVec;
pub use populate::Populator;
pub use prefetch::prefetch;
pub use segment::Segment;
