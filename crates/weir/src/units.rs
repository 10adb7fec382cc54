//! Numbers as people read them.

/// A rate in frames/s with three digits: `1.93 Mpps`.
pub(crate) fn rate(fps: f64) -> String {
    let (value, unit) = match fps {
        f if f >= 1e6 => (f / 1e6, "Mpps"),
        f if f >= 1e3 => (f / 1e3, "kpps"),
        f => (f, "pps"),
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
