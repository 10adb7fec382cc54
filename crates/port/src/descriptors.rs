//! Descriptors that this process may have: a packet socket for each direction of each port is more than the usual 1024.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Lets this process have so many descriptors beside those that it has, as far as it may raise its limit by itself.
///
/// # Errors
/// It may not have so many; what to do about it.
pub fn make_room(wanted: u64) -> io::Result<()> {
    /// For files, logs and libraries.
    const OTHERS: u64 = 256;
    let needed = wanted + OTHERS;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    // Root may have more than its hard limit says.
    let most = maximum.map(|maximum| maximum.max(needed));
    let raised = setrlimit(Resource::Nofile, Rlimit { current: Some(needed), maximum: most });
    raised.map_err(|_| {
        let allowed = maximum.unwrap_or(u64::MAX);
        io::Error::other(format!(
            "the ports need {needed} descriptors, and this process may have {allowed}: run `ulimit -n {needed}` before, or set \
             LimitNOFILE={needed} in the unit of systemd"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_is_too_low_is_raised() {
        let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, Rlimit { current: Some(1024), maximum }).expect("a lower limit");
        make_room(1024).expect("room");
        assert!(getrlimit(Resource::Nofile).current.is_none_or(|current| current >= 1024 + 256));
        let wrong = make_room(1 << 40).expect_err("more than the kernel allows anybody");
        assert!(wrong.to_string().contains("LimitNOFILE"), "{wrong}");
    }
}
