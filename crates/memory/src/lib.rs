//! What large tables ask of memory: huge pages, and lines that are on their way before they are needed. All unsafe code
//! of the data plane is here: it changes how fast memory answers, never what it holds.

mod prefetch;
mod segment;

pub use prefetch::prefetch;
pub use segment::Segment;
