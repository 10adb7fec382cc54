//! Numbers as people read them: three significant digits and a prefix in text and figures, all digits in tables.

/// Narrow no-break space: groups digits, and keeps a unit with its number.
const NARROW: char = '\u{202f}';

/// Three significant digits with k, M or G: `412 k`. Append the unit directly after it.
pub fn si(value: f64) -> String {
    let rounded = round3(value);
    let (divisor, prefix) = match rounded.abs() {
        x if x >= 1e9 => (1e9, "\u{202f}G"),
        x if x >= 1e6 => (1e6, "\u{202f}M"),
        x if x >= 1e3 => (1e3, "\u{202f}k"),
        _ => (1.0, ""),
    };
    format!("{}{prefix}", significant(rounded / divisor))
}

/// `0.858 – 1.23`, for a table.
pub fn range((low, high): (f64, f64)) -> String {
    format!("{} – {}", significant(low), significant(high))
}

/// ` (0.858 to 1.23)`, behind a number in a sentence.
pub fn bracketed((low, high): (f64, f64)) -> String {
    format!(" ({} to {})", significant(low), significant(high))
}

/// Three significant digits without an exponent: `0.0123`, `1.50`, `412`.
pub fn significant(value: f64) -> String {
    let value = round3(value);
    if value == 0.0 || !value.is_finite() {
        return if value == 0.0 { "0".into() } else { "–".into() };
    }
    let decimals = (2 - value.abs().log10().floor() as i32).clamp(0, 9);
    format!("{value:.*}", decimals as usize)
}

/// Three significant digits without a prefix: `43 100`, `4.31`.
pub fn unprefixed(value: f64) -> String {
    if value.abs() >= 999.5 { full(round3(value)) } else { significant(value) }
}

/// A round number for an axis, without zeros that say nothing: `2.00 M` becomes `2 M`.
pub fn tick(text: &str) -> String {
    let (number, unit) = text.split_at(text.find(NARROW).unwrap_or(text.len()));
    let number =
        if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number };
    format!("{number}{unit}")
}

/// A number rounded to three significant digits.
fn round3(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    // A decimal point is exact where a multiplication by a power of ten is not.
    format!("{value:.2e}").parse().unwrap_or(value)
}

/// All digits before the point, in groups: `412 300`.
pub fn full(value: f64) -> String {
    if !value.is_finite() {
        return "–".into();
    }
    let digits = format!("{:.0}", value.abs());
    let mut text = if value <= -0.5 { "\u{2212}".to_string() } else { String::new() };
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i) % 3 == 0 {
            text.push(NARROW);
        }
        text.push(digit);
    }
    text
}

/// All digits of values that are large enough, three significant digits of others: for tables.
pub fn exact(value: f64) -> String {
    if value.abs() >= 100.0 { full(value) } else { significant(value) }
}

/// A value that may be missing.
pub fn or_dash<T>(value: Option<T>, text: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| "–".into(), text)
}

/// A share as percent: `31.0 %`; very small shares are not rounded to zero.
pub fn percent(share: f64) -> String {
    format!("{}{NARROW}%", significant(share * 100.0))
}

/// A share as whole percent, for sentences: `31 %`.
pub fn whole_percent(share: f64) -> String {
    match share * 100.0 {
        p if p.abs() >= 9.5 => format!("{p:.0}{NARROW}%"),
        p => format!("{p:.1}{NARROW}%"),
    }
}

/// Nanoseconds with the fitting unit: `23.4 µs`.
pub fn time_ns(ns: f64) -> String {
    match round3(ns).abs() {
        x if x >= 1e9 => format!("{}{NARROW}s", significant(ns / 1e9)),
        x if x >= 1e6 => format!("{}{NARROW}ms", significant(ns / 1e6)),
        x if x >= 1e3 => format!("{}{NARROW}µs", significant(ns / 1e3)),
        _ => format!("{}{NARROW}ns", significant(ns)),
    }
}

/// Bytes with binary prefixes: `3.05 MiB`.
pub fn bytes(value: f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let power = ((value.abs().max(1.0).log2() / 10.0) as usize).min(units.len() - 1);
    format!("{}{NARROW}{}", significant(value / 1024f64.powi(power as i32)), units[power])
}

/// `1 trial`, `3 trials`.
pub fn count(n: usize, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}

/// `a`, `a and b`, `a, b and c`.
pub fn list(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// A sentence in lines of at most so many columns, without the narrow spaces of a page. A word that is longer stays whole.
pub fn wrapped(text: &str, columns: usize) -> String {
    let mut lines = String::new();
    let mut width = 0;
    for word in text.replace('\u{202f}', "\u{a0}").split([' ', '\n']) {
        let length = word.chars().count();
        if width > 0 && width + 1 + length > columns {
            lines.push('\n');
            width = 0;
        } else if width > 0 {
            lines.push(' ');
            width += 1;
        }
        lines.push_str(&word.replace('\u{a0}', " "));
        width += length;
    }
    lines + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rows: &[(f64, &str)], format: fn(f64) -> String) {
        for (value, text) in rows {
            assert_eq!(format(*value).replace(NARROW, " "), *text, "{value}");
        }
    }

    #[test]
    fn rates() {
        check(
            &[
                (0.0, "0"),
                (0.00123, "0.00123"),
                (1.0, "1.00"),
                (999.4, "999"),
                (999.6, "1.00 k"),
                (412_345.0, "412 k"),
                (999_600.0, "1.00 M"),
                (4_120_000.0, "4.12 M"),
                (29_761_904.8, "29.8 M"),
                (1e11, "100 G"),
                (-1500.0, "-1.50 k"),
                (f64::NAN, "–"),
            ],
            si,
        );
    }

    #[test]
    fn all_digits() {
        check(
            &[(0.0, "0"), (999.0, "999"), (1000.0, "1 000"), (412_300.4, "412 300"), (-4096.0, "−4 096")],
            full,
        );
        check(&[(2381.4, "2 381"), (100.4, "100"), (4.316, "4.32")], exact);
    }

    #[test]
    fn ticks_have_no_needless_zeros() {
        check(&[(2e6, "2 M"), (2.5e6, "2.5 M"), (100.0, "100"), (0.0, "0")], |v| tick(&si(v)));
        check(&[(10e6, "10 ms"), (100e3, "100 µs")], |v| tick(&time_ns(v)));
        check(&[(0.1, "10 %"), (0.001, "0.1 %"), (1.0, "100 %"), (0.00001, "0.001 %")], |v| {
            tick(&percent(v))
        });
        check(&[(999.6, "1 000"), (43_123.0, "43 100"), (4.312, "4.31")], unprefixed);
    }

    #[test]
    fn shares_times_and_bytes() {
        check(&[(0.31, "31.0 %"), (0.0015, "0.150 %"), (0.000_001, "0.000100 %"), (0.0, "0 %")], percent);
        check(&[(0.31, "31 %"), (0.0951, "10 %"), (0.012, "1.2 %"), (-0.12, "-12 %")], whole_percent);
        check(&[(0.0, "0 ns"), (999.0, "999 ns"), (999.9, "1.00 µs"), (23_412.0, "23.4 µs")], time_ns);
        check(&[(2.5e6, "2.50 ms"), (1.5e9, "1.50 s")], time_ns);
        check(&[(512.0, "512 B"), (3_200_000.0, "3.05 MiB"), (-4096.0, "-4.00 KiB")], bytes);
    }
}
