//! Classes of subscribers' frames by DSCP (RFC 2474), and the priority of their tags (IEEE 802.1Q).
//!
//! ```text
//! frame > direction trusts: class of its DSCP | direction sets N: DSCP N, class of N > class travels with the frame
//!       > to a subscriber: priority of its class in the tags
//! ```
//! Class 0 is the best effort. A class that a rule of a filter has set stays.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use super::counts::CLASSES;
use crate::frame::Frame;

/// Code points of DSCP.
const CODE_POINTS: usize = 64;
/// Names of code points (RFC 2474, 2597, 3246, 5865, 8622).
const NAMES: &[(&str, u8)] = &[("ef", 46), ("va", 44), ("le", 1), ("default", 0)];

/// What one direction does with the DSCP of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Marking {
    /// It stays, and says the class.
    #[default]
    Trust,
    /// It is replaced.
    Set(u8),
}

/// Classes, and what is done in each direction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DscpRules {
    /// By DSCP.
    class: [u8; CODE_POINTS],
    /// By class: the priority in tags.
    priority: [u8; CLASSES],
    pub(crate) from: Marking,
    pub(crate) to: Marking,
}

impl Default for DscpRules {
    fn default() -> DscpRules {
        DscpRules {
            class: [0; CODE_POINTS],
            priority: [0; CLASSES],
            from: Marking::Trust,
            to: Marking::Trust,
        }
    }
}

impl DscpRules {
    /// Reads what stands behind `class`: `1 dscp ef 40-47 priority 5`.
    ///
    /// # Errors
    /// What to write.
    pub(crate) fn read_class(&mut self, words: &[&str]) -> Result<(), String> {
        const FORM: &str = "a class is `class 1 dscp ef 40-47 priority 5`: 1 to 3, code points, and the priority in tags, 0 to 7";
        let [class, "dscp", rest @ ..] = words else { return Err(FORM.into()) };
        let class = class.parse().ok().filter(|class| (1..CLASSES as u8).contains(class)).ok_or(FORM)?;
        let (points, priority) = match rest {
            [points @ .., "priority", priority] => (points, Some(*priority)),
            points => (points, None),
        };
        if points.is_empty() {
            return Err(FORM.into());
        }
        for text in points {
            let (first, last) = text.split_once('-').unwrap_or((text, text));
            for point in dscp(first)?..=dscp(last)? {
                let Some(place) = self.class.get_mut(usize::from(point)) else { continue };
                if std::mem::replace(place, class) != 0 {
                    return Err(format!("the DSCP {point} is of two classes: remove it from one"));
                }
            }
        }
        let Some(priority) = priority else { return Ok(()) };
        let priority = priority.parse().ok().filter(|priority| *priority < 8).ok_or(FORM)?;
        if let Some(place) = self.priority.get_mut(usize::from(class)) {
            *place = priority;
        }
        Ok(())
    }

    /// Reads what stands behind `dscp`: `from set 0`, `to trust`.
    ///
    /// # Errors
    /// What to write.
    pub(crate) fn read_marking(&mut self, words: &[&str]) -> Result<(), String> {
        let (direction, marking) = match words {
            [direction, "trust"] => (*direction, Marking::Trust),
            [direction, "set", point] => (*direction, Marking::Set(dscp(point)?)),
            _ => ("", Marking::Trust),
        };
        match direction {
            "from" => self.from = marking,
            "to" => self.to = marking,
            _ => return Err("write `dscp from trust` or `dscp to set 0`: from or to subscribers".into()),
        }
        Ok(())
    }

    /// Marks a frame, and gives it its class.
    #[inline]
    pub(super) fn mark(&self, marking: Marking, frame: &mut Frame<'_>) {
        if let Marking::Set(point) = marking {
            frame.set_dscp(point);
        }
        if frame.class == 0 {
            frame.class = self.class.get(usize::from(frame.dscp())).copied().unwrap_or(0);
        }
    }

    /// The priority in the tags of a frame of this class.
    #[inline]
    pub(super) fn priority(&self, class: u8) -> u8 {
        self.priority.get(usize::from(class)).copied().unwrap_or(0)
    }
}

/// A code point: a number of 0 to 63, or a name: `ef`, `cs1`, `af41`.
fn dscp(text: &str) -> Result<u8, String> {
    let named = NAMES.iter().find(|(name, _)| *name == text).map(|(_, point)| *point);
    let selector = || text.strip_prefix("cs")?.parse::<u8>().ok().filter(|n| *n < 8).map(|n| n * 8);
    let assured = || match *text.strip_prefix("af")?.as_bytes() {
        [class @ b'1'..=b'4', drop @ b'1'..=b'3'] => Some((class - b'0') * 8 + (drop - b'0') * 2),
        _ => None,
    };
    let number = || text.parse::<u8>().ok().filter(|n| usize::from(*n) < CODE_POINTS);
    let point = named.or_else(selector).or_else(assured).or_else(number);
    point.ok_or_else(|| format!("`{text}` is no DSCP: use 0 to 63, ef, cs1, af41"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_points_have_names() {
        for (text, point) in
            [("ef", 46), ("cs1", 8), ("cs7", 56), ("af11", 10), ("af43", 38), ("63", 63), ("le", 1)]
        {
            assert_eq!(dscp(text), Ok(point), "{text}");
        }
        for wrong in ["64", "cs8", "af44", "af5", "", "-1"] {
            assert!(dscp(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn classes_are_read() {
        let mut rules = DscpRules::default();
        rules.read_class(&["3", "dscp", "ef", "40-42", "priority", "5"]).expect("a class");
        assert_eq!((rules.class[46], rules.class[41], rules.class[43], rules.priority(3)), (3, 3, 0, 5));
        for wrong in
            [&["4", "dscp", "1"][..], &["0", "dscp", "1"], &["1", "dscp"], &["1", "46"], &["1", "dscp", "ef"]]
        {
            assert!(rules.read_class(wrong).is_err(), "{wrong:?}");
        }
        assert!(
            rules.read_marking(&["up", "trust"]).is_err() && rules.read_marking(&["to", "set", "0"]).is_ok()
        );
        assert_eq!(rules.to, Marking::Set(0));
    }
}
