//! Numbers with units, as text.

/// A rate in frames/s with three digits: `1.93 Mpps`.
pub fn rate(fps: f64) -> String {
    three_digits(fps, ["pps", "kpps", "Mpps", "Gpps"])
}

/// A rate in bit/s with three digits: `1.93 Mbit/s`.
pub fn bits(bits_per_s: f64) -> String {
    three_digits(bits_per_s, ["bit/s", "kbit/s", "Mbit/s", "Gbit/s"])
}

/// A number of bytes with three digits: `1.93 GB`.
pub fn size(bytes: u64) -> String {
    three_digits(bytes as f64, ["B", "kB", "MB", "GB"])
}

fn three_digits(number: f64, [one, kilo, mega, giga]: [&str; 4]) -> String {
    let (value, unit) = match number {
        n if n >= 1e9 => (n / 1e9, giga),
        n if n >= 1e6 => (n / 1e6, mega),
        n if n >= 1e3 => (n / 1e3, kilo),
        n => (n, one),
    };
    let digits = match value {
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        _ => 2,
    };
    format!("{value:.digits$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::rate;

    #[test]
    fn rates_have_three_digits() {
        for (fps, text) in
            [(0.0, "0.00 pps"), (950.0, "950 pps"), (1_934_000.0, "1.93 Mpps"), (45_600.0, "45.6 kpps")]
        {
            assert_eq!(rate(fps), text);
        }
    }
}
