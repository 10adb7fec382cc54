//! The folder of what weir keeps for a user between two processes.

use std::path::PathBuf;

/// Where weir keeps what must outlive a process: `$XDG_STATE_HOME/weir`.
pub fn state_folder() -> PathBuf {
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_else(|| "/root".into()));
    state.unwrap_or_else(|| home().join(".local/state")).join("weir")
}
