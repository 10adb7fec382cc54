//! A table is shown a page at a time, so that frames wait for none.

use std::ops::Range;

/// Records of a page, and slots that are looked at for them: most of a table may be free.
const MOST: usize = 256;
const MOST_LOOKED_AT: u32 = 2048;

/// Some records of a table.
pub(crate) struct Page<T> {
    pub(crate) records: Vec<T>,
    /// The number from which on there may be more.
    pub(crate) next: Option<u32>,
}

impl<T> Page<T> {
    /// Those of these numbers that `one` returns a record for, as many as a page has.
    pub(crate) fn of(numbers: Range<u32>, one: impl Fn(u32) -> Option<T>) -> Page<T> {
        let mut records = Vec::new();
        for number in numbers.clone() {
            if records.len() == MOST || number - numbers.start == MOST_LOOKED_AT {
                return Page { records, next: Some(number) };
            }
            records.extend(one(number));
        }
        Page { records, next: None }
    }
}
