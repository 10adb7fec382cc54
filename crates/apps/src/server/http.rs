//! The HTTP reply, with the header lines that nginx sends, so that both send as much.

use std::cell::RefCell;
use std::time::{SystemTime, UNIX_EPOCH};

/// The body of the HTTP reply.
pub const BODY: &str = "Hello, world!";

thread_local! {
    static LAST: RefCell<(u64, Vec<u8>)> = const { RefCell::new((0, Vec::new())) };
}

/// Hands out the reply of this second, which is made once.
pub(super) fn with_reply<R>(use_it: impl FnOnce(&[u8]) -> R) -> R {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    LAST.with_borrow_mut(|(second, text)| {
        if *second != now || text.is_empty() {
            (*second, *text) = (now, reply(now).into_bytes());
        }
        use_it(text)
    })
}

fn reply(unix_s: u64) -> String {
    format!(
        "HTTP/1.1 200 OK\r\nServer: weir/{}\r\nDate: {}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{BODY}",
        env!("CARGO_PKG_VERSION"),
        date(unix_s),
        BODY.len(),
    )
}

/// RFC 9110, section 5.6.7.
fn date(unix_s: u64) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (days, s) = (unix_s / 86_400, unix_s % 86_400);
    // Howard Hinnant, "chrono-compatible low-level date algorithms": years that begin in March.
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let march_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * march_month + 2) / 5 + 1;
    let month = (march_month + 2) % 12;
    let year = era * 400 + year + u64::from(month < 2);
    let (weekday, month) = (DAYS[days as usize % 7], MONTHS[month as usize]);
    let (hours, minutes) = (s / 3600, s / 60 % 60);
    format!("{weekday}, {day:02} {month} {year} {hours:02}:{minutes:02}:{:02} GMT", s % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_rfc_9110() {
        for (unix_s, text) in [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (951_827_696, "Tue, 29 Feb 2000 12:34:56 GMT"),
            (1_798_761_599, "Thu, 31 Dec 2026 23:59:59 GMT"),
        ] {
            assert_eq!(date(unix_s), text);
        }
    }

    #[test]
    fn the_length_is_that_of_the_body() {
        let text = reply(0);
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{head}");
    }
}
