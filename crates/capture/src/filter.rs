//! Filters in the language of tcpdump (pcap-filter(7)), compiled by libpcap.
//!
//! The kernel takes the outer VLAN tag out of a frame before a filter sees it; libpcap knows, and asks for the tag where
//! the kernel keeps it. So a filter is compiled at its interface. Where it runs in this program, it is shown a frame in
//! the same way, so that an expression means the same everywhere.

use pcap::{Activated, Capture, Linktype};

/// An expression that libpcap refuses, or cannot compile for its place.
#[derive(Debug, thiserror::Error)]
#[error("the filter `{expression}` is wrong{}: {message} (see `man pcap-filter`)", place(.near))]
pub struct FilterError {
    expression: String,
    message: String,
    /// The word at which it seems to go wrong, and its first character, from 1.
    near: Option<(String, usize)>,
}

fn place(near: &Option<(String, usize)>) -> String {
    near.as_ref().map_or(String::new(), |(word, at)| format!(" at `{word}`, character {at}"))
}

/// Is an expression right? That can be said without privileges.
///
/// # Errors
/// What libpcap says, and where, if that can be found.
pub fn check(expression: &str) -> Result<(), FilterError> {
    let dead = Capture::dead(Linktype::ETHERNET).map_err(|error| wrong(expression, &error))?;
    program(&dead, expression).map_err(|error| located(&dead, expression, &error))?;
    Ok(())
}

/// Compiles an expression for an interface.
///
/// # Errors
/// Those of [`check`]; the interface cannot be opened.
pub fn compile(expression: &str, interface: &str) -> Result<Vec<libc::sock_filter>, FilterError> {
    check(expression)?;
    // It is closed before it has seen a frame of use.
    let open = |error| wrong(expression, &error);
    let live = Capture::from_device(interface).map_err(open)?.snaplen(64).open().map_err(open)?;
    program(&live, expression).map_err(open)
}

/// Refuses a program that jumps back, which the kernel does not run.
///
/// # Errors
/// It does.
pub(crate) fn check_for_kernel(expression: &str, program: &[libc::sock_filter]) -> Result<(), FilterError> {
    let jump = (libc::BPF_JMP | libc::BPF_JA) as u16;
    if program.iter().any(|one| one.code == jump && one.k as i32 <= 0) {
        let message = "the kernel cannot run it, because it has a loop (protochain): use proto instead, or --method xdp, \
                       where this program runs the filter";
        return Err(FilterError { expression: expression.into(), message: message.into(), near: None });
    }
    Ok(())
}

fn program<T: Activated>(
    capture: &Capture<T>,
    expression: &str,
) -> Result<Vec<libc::sock_filter>, pcap::Error> {
    let program = capture.compile(expression, true)?;
    // The crate shows an instruction in words only: "code jt jf k".
    let read = |one: &pcap::BpfInstruction| {
        let text = one.to_string();
        let mut numbers = text.split(' ').map(|number| number.parse::<u32>().expect("a number"));
        let mut next = || numbers.next().expect("four numbers");
        let one = libc::sock_filter { code: next() as u16, jt: next() as u8, jf: next() as u8, k: next() };
        // What is accepted is accepted whole: how much of it is kept is not for the filter to say.
        let accepts = u32::from(one.code) == libc::BPF_RET | libc::BPF_K && one.k != 0;
        libc::sock_filter { k: if accepts { u32::MAX } else { one.k }, ..one }
    };
    Ok(program.get_instructions().iter().map(read).collect())
}

fn wrong(expression: &str, error: &pcap::Error) -> FilterError {
    FilterError { expression: expression.into(), message: words(error), near: None }
}

/// The compiler's own words, without those around them.
fn words(error: &pcap::Error) -> String {
    match error {
        pcap::Error::PcapError(text) => {
            text.trim_start_matches("can't parse filter expression: ").to_string()
        }
        error => error.to_string(),
    }
}

/// libpcap does not say where. A word that the message quotes is the place; else it is the first word after which no
/// beginning of the expression is right.
fn located<T: Activated>(capture: &Capture<T>, expression: &str, error: &pcap::Error) -> FilterError {
    let error = wrong(expression, error);
    let quoted =
        error.message.split(['\'', '"']).nth(1).and_then(|word| Some((expression.find(word)?, word)));
    let mut place = None;
    if let Some((at, word)) = quoted.filter(|(_, word)| !word.is_empty()) {
        place = Some((at, word.to_string()));
    } else {
        for (at, word) in words_of(expression) {
            let fine = capture.compile(&expression[..at + word.len()], true).is_ok();
            place = if fine { None } else { place.or(Some((at, word.to_string()))) };
        }
    }
    let near = place.map(|(at, word)| (word, expression[..at].chars().count() + 1));
    FilterError { near, ..error }
}

/// The words of an expression, each with its first byte.
fn words_of(expression: &str) -> impl Iterator<Item = (usize, &str)> {
    let start = expression.as_ptr() as usize;
    expression.split_whitespace().map(move |word| (word.as_ptr() as usize - start, word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_those_of_tcpdump() {
        let program = program(&Capture::dead(Linktype::ETHERNET).unwrap(), "arp").unwrap();
        let numbers: Vec<_> = program.iter().map(|one| (one.code, one.jt, one.jf, one.k)).collect();
        // tcpdump -y EN10MB -ddd arp
        assert_eq!(numbers[..3], [(40, 0, 0, 12), (21, 0, 1, 0x806), (6, 0, 0, u32::MAX)]);
        assert_eq!(numbers[3], (6, 0, 0, 0));
    }

    #[test]
    fn what_loops_is_not_for_the_kernel() {
        let dead = Capture::dead(Linktype::ETHERNET).unwrap();
        let refused = |expression| {
            let program = program(&dead, expression).unwrap();
            check_for_kernel(expression, &program).map_err(|error| error.to_string())
        };
        assert!(refused("ip6 protochain 17").unwrap_err().contains("use proto instead, or --method xdp"));
        for expression in
            ["ip6 proto 17", "vlan 5 and udp port 53", "tcp[tcpflags] & tcp-syn != 0 or port 1 or port 2"]
        {
            assert_eq!(refused(expression), Ok(()));
        }
    }

    #[test]
    fn errors_say_what_and_where() {
        for (expression, message) in [
            ("tcp port 80 xand udp", "at `xand`, character 13: syntax error"),
            ("udp port", "at `port`, character 5: syntax error"),
            ("port nowhere", "at `nowhere`, character 6: unknown port 'nowhere'"),
            ("host 1.2.3.400", "character"),
            ("(tcp", "syntax error"),
        ] {
            let error = check(expression).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
            assert!(error.starts_with(&format!("the filter `{expression}` is wrong")), "{error}");
        }
    }
}
