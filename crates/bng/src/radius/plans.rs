//! Which attributes say something of a plan: a table in a file, so that a provider's server need not be changed.
//!
//! ```text
//! # attribute      form             meaning
//! 11               plan             Filter-Id: the name of a plan
//! 14988:8          rx/tx            Mikrotik-Rate-Limit: rates with k, M or G; rx is from the subscriber
//! 14122:7          up bit/s         WISPr-Bandwidth-Max-Up
//! 9:1              ip:sub-qos-policy-out= plan
//! ```
//! Vendor and type, or a type alone; then, for attributes with several meanings, the text that the value begins with; then what the rest
//! of the value is. The first row that fits an attribute is taken.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use super::attribute::Attributes;

/// The table that is used without a file.
pub const DEFAULT: &str = "\
9:1      ip:sub-qos-policy-out= plan   # Cisco-AVPair
9:38     plan                          # Cisco-Policy-Down
2011:2   up bit/s                      # Huawei-Input-Average-Rate
2011:5   down bit/s                    # Huawei-Output-Average-Rate
4874:26  plan                          # ERX-Qos-Profile-Name
14122:7  up bit/s                      # WISPr-Bandwidth-Max-Up
14122:8  down bit/s                    # WISPr-Bandwidth-Max-Down
14988:8  rx/tx                         # Mikrotik-Rate-Limit
11       down/up kbit/s or plan        # Filter-Id: 20000/5000, or the name of a plan
";

/// What the value of an attribute is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// The name of a plan.
    Plan,
    /// A rate from the subscriber, as a number of four bytes or in digits, bit/s.
    Up,
    /// The same to the subscriber.
    Down,
    /// Two rates with units: the first is from the subscriber.
    RxTx,
    /// Two rates in kbit/s, the first to the subscriber; or the name of a plan.
    DownUpOrPlan,
}

impl Form {
    const ALL: [(&'static str, Form); 5] = [
        // Before the form that it ends with.
        ("down/up kbit/s or plan", Form::DownUpOrPlan),
        ("plan", Form::Plan),
        ("up bit/s", Form::Up),
        ("down bit/s", Form::Down),
        ("rx/tx", Form::RxTx),
    ];
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Row {
    /// `None`: an attribute of no vendor.
    vendor: Option<u32>,
    kind: u8,
    prefix: String,
    form: Form,
}

/// Which attributes say something of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanTable {
    rows: Vec<Row>,
}

/// What attributes say of a plan; `None`: nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PlanWish {
    /// The name of a plan.
    pub plan: Option<String>,
    /// Rate from the subscriber, bit/s.
    pub up_bits_per_s: Option<u64>,
    /// Rate to the subscriber, bit/s.
    pub down_bits_per_s: Option<u64>,
}

impl Default for PlanTable {
    fn default() -> PlanTable {
        PlanTable::read(DEFAULT).unwrap_or(PlanTable { rows: Vec::new() })
    }
}

impl PlanTable {
    /// Reads a table.
    ///
    /// # Errors
    /// All mistakes, each with its line.
    pub fn read(text: &str) -> Result<PlanTable, Vec<String>> {
        let (mut rows, mut mistakes) = (Vec::new(), Vec::new());
        for (line, number) in text.lines().zip(1..) {
            let line = line.split('#').next().unwrap_or_default().trim();
            match read_row(line) {
                _ if line.is_empty() => {}
                Ok(row) => rows.push(row),
                Err(wrong) => mistakes.push(format!("line {number}: {wrong}")),
            }
        }
        if mistakes.is_empty() { Ok(PlanTable { rows }) } else { Err(mistakes) }
    }

    /// Whether an attribute is in the table.
    pub fn knows(&self, vendor: Option<u32>, kind: u8) -> bool {
        self.rows.iter().any(|row| (row.vendor, row.kind) == (vendor, kind))
    }

    /// What attributes say of a plan.
    ///
    /// # Errors
    /// The value of an attribute of the table is not what its row says.
    pub fn wish(&self, attributes: &Attributes) -> Result<PlanWish, String> {
        let mut wish = PlanWish::default();
        let plain = attributes.iter().map(|(kind, value)| (None, kind, value));
        let vendors = attributes.vendors().map(|(vendor, kind, value)| (Some(vendor), kind, value));
        for (vendor, kind, value) in plain.chain(vendors) {
            let fits = |row: &&Row| {
                (row.vendor, row.kind) == (vendor, kind) && value.starts_with(row.prefix.as_bytes())
            };
            if let Some(row) = self.rows.iter().find(fits) {
                let rest = value.get(row.prefix.len()..).unwrap_or_default();
                row.form.apply(rest, &mut wish).ok_or_else(|| {
                    let value = value.escape_ascii();
                    let vendor = vendor.map(|vendor| format!("{vendor}:")).unwrap_or_default();
                    format!(
                        "attribute {vendor}{kind} has the value `{value}`, which is not what the table says"
                    )
                })?;
            }
        }
        Ok(wish)
    }
}

fn read_row(line: &str) -> Result<Row, String> {
    let (attribute, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let wrong = || format!("`{attribute}` is no attribute: use 11, or 14988:8 for one of a vendor");
    let (vendor, kind) = match attribute.split_once(':') {
        None => (None, attribute),
        Some((vendor, kind)) => (Some(vendor.parse::<u32>().map_err(|_| wrong())?), kind),
    };
    let kind = kind.parse().map_err(|_| wrong())?;
    let rest = rest.split_whitespace().collect::<Vec<_>>().join(" ");
    let found = Form::ALL.iter().find_map(|(text, form)| {
        let prefix = rest.strip_suffix(text)?;
        let is_alone = prefix.is_empty() || prefix.ends_with(' ');
        is_alone.then(|| (prefix.trim().to_string(), *form))
    });
    let forms = Form::ALL.map(|(text, _)| text).join("`, `");
    let (prefix, form) = found.ok_or_else(|| format!("`{rest}` is no form of a value: use `{forms}`"))?;
    Ok(Row { vendor, kind, prefix, form })
}

impl Form {
    /// `None`: the value is something else.
    fn apply(self, value: &[u8], wish: &mut PlanWish) -> Option<()> {
        match self {
            Form::Plan => wish.plan = Some(name(value)?),
            Form::Up => wish.up_bits_per_s = Some(number(value)?),
            Form::Down => wish.down_bits_per_s = Some(number(value)?),
            Form::RxTx => {
                // Behind a blank: bursts, thresholds, times, priority.
                let text = std::str::from_utf8(value).ok()?.split_whitespace().next()?;
                let (rx, tx) = text.split_once('/').unwrap_or((text, text));
                (wish.up_bits_per_s, wish.down_bits_per_s) = (Some(with_unit(rx)?), Some(with_unit(tx)?));
            }
            Form::DownUpOrPlan => {
                let text = std::str::from_utf8(value).ok()?;
                let rates = text.split_once('/').and_then(|(down, up)| Some((kbit(down)?, kbit(up)?)));
                match rates {
                    Some((down, up)) => {
                        (wish.down_bits_per_s, wish.up_bits_per_s) = (Some(down), Some(up));
                    }
                    None => wish.plan = Some(name(value)?),
                }
            }
        }
        Some(())
    }
}

fn name(value: &[u8]) -> Option<String> {
    std::str::from_utf8(value).ok().filter(|name| !name.is_empty()).map(String::from)
}

fn kbit(text: &str) -> Option<u64> {
    text.parse::<u32>().ok().filter(|rate| *rate > 0).map(|rate| u64::from(rate) * 1000)
}

/// Four bytes, or digits.
fn number(value: &[u8]) -> Option<u64> {
    let of_bytes = || value.try_into().ok().map(u32::from_be_bytes).map(u64::from);
    let of_digits = || std::str::from_utf8(value).ok()?.parse().ok();
    let is_digits = value.iter().all(u8::is_ascii_digit);
    let number = if is_digits { of_digits() } else { of_bytes() };
    number.filter(|number| *number > 0)
}

/// `512k`, `20M`, `1G`, `64000`.
fn with_unit(text: &str) -> Option<u64> {
    let (digits, unit) = match text.char_indices().next_back()? {
        (at, 'k' | 'K') => (text.get(..at)?, 1_000),
        (at, 'M' | 'm') => (text.get(..at)?, 1_000_000),
        (at, 'G' | 'g') => (text.get(..at)?, 1_000_000_000),
        _ => (text, 1),
    };
    digits.parse::<u64>().ok()?.checked_mul(unit).filter(|rate| *rate > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(list: &[(Option<u32>, u8, &[u8])]) -> Result<PlanWish, String> {
        let mut attributes = Attributes::default();
        for (vendor, kind, value) in list {
            match vendor {
                None => attributes.push(*kind, value),
                Some(vendor) => attributes.push_vendor(*vendor, *kind, value),
            }
        }
        PlanTable::default().wish(&attributes)
    }

    #[test]
    fn r15_attributes_of_each_vendor_say_rates_or_a_plan() {
        let rates =
            |down, up| Ok(PlanWish { plan: None, down_bits_per_s: Some(down), up_bits_per_s: Some(up) });
        let plan = |name: &str| Ok(PlanWish { plan: Some(name.into()), ..PlanWish::default() });
        let mikrotik = Some(14988);
        for (list, expected) in [
            (vec![(mikrotik, 8, &b"5M/20M 6M/22M 5M/20M 10/10 8"[..])], rates(20_000_000, 5_000_000)),
            (vec![(mikrotik, 8, b"512k/64000")], rates(64_000, 512_000)),
            (vec![(mikrotik, 8, b"2M")], rates(2_000_000, 2_000_000)),
            (
                vec![(Some(14122), 7, &5_000_000_u32.to_be_bytes()), (Some(14122), 8, &[0, 0, 1, 0])],
                rates(256, 5_000_000),
            ),
            (vec![(Some(2011), 2, &[0, 0, 2, 0]), (Some(2011), 5, &[0, 0, 1, 0])], rates(256, 512)),
            (vec![(None, 11, b"20000/5000")], rates(20_000_000, 5_000_000)),
            (vec![(None, 11, b"gold")], plan("gold")),
            (vec![(Some(9), 1, b"ip:sub-qos-policy-out=gold"), (Some(9), 1, b"ip:vrf-id=x")], plan("gold")),
            (vec![(Some(4874), 26, b"gold")], plan("gold")),
            (vec![(None, 1, b"anna")], Ok(PlanWish::default())),
        ] {
            assert_eq!(wish(&list), expected, "{list:?}");
        }
        for wrong in [&b"fast"[..], b"0/0", b"1M/", b"18446744073709551615G/1", b"\xff"] {
            assert!(wish(&[(mikrotik, 8, wrong)]).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn r15_mistakes_of_a_table_are_all_reported_with_their_lines() {
        let mistakes =
            PlanTable::read("11 plan\nx plan\n\n1:2:3 plan # y\n9:1 fast\n300 plan\n").unwrap_err();
        let lines: Vec<_> =
            mistakes.iter().filter_map(|text| text.split_once(':')).map(|(line, _)| line).collect();
        assert_eq!(lines, ["line 2", "line 4", "line 5", "line 6"]);
        assert_eq!(PlanTable::default().rows.len(), DEFAULT.lines().count());
    }
}
