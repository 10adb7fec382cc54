//! Where records are kept: a run writes to the [`RunLog`] of its machine, each trial as it ends; everything else reads an [`Archive`].
//!
//! ```text
//! trial > RunLog: a local file > Archive: the same file, or what others share
//! ```
//! A run is known by its UUID, a point and a trial by their places in it, so that runs of several machines fit into one archive.

mod archive;
mod error;
pub mod fields;
mod piped;
mod sqlite;

use std::ffi::OsStr;
use std::path::PathBuf;

pub use archive::Archive;
#[cfg(any(test, feature = "fixture"))]
pub use archive::contract;
pub use error::StoreError;
pub use piped::{PipedArchive, answer};
pub use sqlite::{RunLog, SqliteArchive};

/// Where records are kept unless the user names a file: `$XDG_DATA_HOME/weir/records.db`, else
/// `~/.local/share/weir/records.db`. Relative paths are ignored, as the XDG base directory specification asks.
pub fn default_path(xdg_data_home: Option<&OsStr>, home: Option<&OsStr>) -> Result<PathBuf, StoreError> {
    let absolute = |dir: Option<&OsStr>| dir.map(PathBuf::from).filter(|dir| dir.is_absolute());
    absolute(xdg_data_home)
        .or_else(|| absolute(home).map(|home| home.join(".local/share")))
        .map(|data| data.join("weir/records.db"))
        .ok_or(StoreError::NoHome)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn the_default_place() {
        let place = |xdg: &str, home: &str| default_path(Some(xdg.as_ref()), Some(home.as_ref()));
        assert_eq!(place("/x", "/h").unwrap(), Path::new("/x/weir/records.db"));
        assert_eq!(place("", "/h").unwrap(), Path::new("/h/.local/share/weir/records.db"));
        assert_eq!(place("relative", "/h").unwrap(), Path::new("/h/.local/share/weir/records.db"));
        assert!(matches!(place("", ""), Err(StoreError::NoHome)));
        assert!(matches!(default_path(None, None), Err(StoreError::NoHome)));
    }
}
