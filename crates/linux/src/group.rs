//! Groups of users, by their names as this machine knows them (/etc/group, LDAP, ...: nsswitch.conf(5)).

use std::ffi::CString;
use std::io;

/// Room for a group with its members; more is made when it does not suffice.
const ROOM_BYTES: usize = 4096;
/// A group has no longer list of members.
const MOST_BYTES: usize = 16 << 20;

/// The number of a group; `None`: no group has this name.
///
/// # Errors
/// The groups cannot be read.
pub fn number_of(name: &str) -> io::Result<Option<u32>> {
    let Ok(name) = CString::new(name) else { return Ok(None) };
    let mut room: Vec<libc::c_char> = vec![0; ROOM_BYTES];
    loop {
        // SAFETY: all-zero is a group without pointers that are followed.
        let mut group: libc::group = unsafe { std::mem::zeroed() };
        let mut found = std::ptr::null_mut();
        // SAFETY: a name that ends with a zero, and room of the given length; all of it lives through the call.
        let code = unsafe {
            libc::getgrnam_r(name.as_ptr(), &raw mut group, room.as_mut_ptr(), room.len(), &raw mut found)
        };
        match code {
            0 => return Ok((!found.is_null()).then_some(group.gr_gid)),
            libc::ERANGE if room.len() < MOST_BYTES => room.resize(room.len() * 4, 0),
            libc::EINTR => {}
            // "The given name was not found", in the words of different libraries: getgrnam(3).
            libc::ENOENT | libc::ESRCH => return Ok(None),
            code => return Err(io::Error::from_raw_os_error(code)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_this_machine_are_found() {
        let text = std::fs::read_to_string("/etc/group").expect("each machine has it");
        let groups = text.lines().filter_map(|line| {
            let mut words = line.split(':');
            Some((words.next()?, words.nth(1)?.parse::<u32>().ok()?))
        });
        let groups: Vec<_> = groups.collect();
        assert!(!groups.is_empty(), "{text}");
        for (name, number) in groups {
            assert_eq!(number_of(name).expect("they can be read"), Some(number), "{name}");
        }
        for unknown in ["no-such-group", "", "a\0b", "root:x"] {
            assert_eq!(number_of(unknown).expect("they can be read"), None, "{unknown:?}");
        }
    }
}
