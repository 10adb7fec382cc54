//! A drawing: shapes as text. Colours are classes, so that the page's style decides (light, dark, print).

use std::fmt::Write;

use super::Style;

/// Average width of a letter at the size of figures (12 px), px; a little more than most fonts need.
const LETTER_PX: f64 = 6.4;

/// A drawing of fixed size in px, shown at any size.
pub struct Svg {
    width: f64,
    height: f64,
    body: String,
}

/// Where a text stands relative to its point.
#[derive(Debug, Clone, Copy)]
pub enum Anchor {
    /// Begins there.
    Start,
    /// Centred.
    Middle,
    /// Ends there.
    End,
}

impl Svg {
    /// An empty drawing.
    pub fn new(width: f64, height: f64) -> Svg {
        Svg { width, height, body: String::new() }
    }

    /// A straight line.
    pub fn line(&mut self, from: (f64, f64), to: (f64, f64), class: &str) {
        let ((x1, y1), (x2, y2)) = (from, to);
        self.add(format_args!(
            r#"<line class="{class}" x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}"/>"#
        ));
    }

    /// A rectangle from its upper left corner, with a tooltip.
    pub fn rect(&mut self, corner: (f64, f64), size: (f64, f64), class: &str, title: &str) {
        let ((x, y), (w, h)) = (corner, size);
        self.add(format_args!(
            r#"<rect class="{class}" x="{x:.1}" y="{y:.1}" width="{:.1}" height="{:.1}">{}</rect>"#,
            w.max(0.0),
            h.max(0.0),
            tooltip(title)
        ));
    }

    /// A path, with a tooltip.
    pub fn path(&mut self, d: &str, class: &str, title: &str) {
        self.add(format_args!(r#"<path class="{class}" d="{d}">{}</path>"#, tooltip(title)));
    }

    /// A line through all points.
    pub fn polyline(&mut self, points: &[(f64, f64)], class: &str) {
        let list: Vec<_> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        self.add(format_args!(r#"<polyline class="{class}" points="{}"/>"#, list.join(" ")));
    }

    /// A line of text; `at` is on its baseline.
    pub fn text(&mut self, at: (f64, f64), anchor: Anchor, class: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        self.add(format_args!(
            r#"<text class="{class}" x="{:.1}" y="{:.1}" text-anchor="{anchor}">{}</text>"#,
            at.0,
            at.1,
            escape(text)
        ));
    }

    /// The drawing as an element whose title and description are read aloud.
    pub fn finish(self, title: &str, description: &str) -> String {
        format!(
            r#"<svg viewBox="0 0 {w:.0} {h:.0}" width="{w:.0}" height="{h:.0}" role="img" aria-label="{}"><desc>{}</desc>{}</svg>"#,
            escape(title),
            escape(description),
            self.body,
            w = self.width,
            h = self.height,
        )
    }

    fn add(&mut self, shape: std::fmt::Arguments<'_>) {
        self.body.write_fmt(shape).expect("a String takes everything");
        self.body.push('\n');
    }
}

fn tooltip(title: &str) -> String {
    if title.is_empty() { String::new() } else { format!("<title>{}</title>", escape(title)) }
}

/// Text that is safe between tags and in double quotes.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Estimated width of a text in a figure, px.
pub fn text_width(text: &str) -> f64 {
    text.chars().count() as f64 * LETTER_PX
}

/// The text, or as much of it as `width` px hold.
pub fn shorten(text: &str, width: f64) -> String {
    let room = (width / LETTER_PX) as usize;
    if text.chars().count() <= room {
        return text.to_string();
    }
    // What tells labels apart is mostly at their ends.
    let letters: Vec<char> = text.chars().collect();
    let begin = room / 2;
    let end = letters.len() - room.saturating_sub(begin + 1);
    letters[..begin].iter().chain(&['…']).chain(&letters[end..]).collect()
}

/// The text in two lines where it is too long for one and has a dot between its parts.
pub fn broken(text: &str, width: f64) -> Vec<String> {
    let fits = |part: &str| text_width(part) <= width;
    let at = text.match_indices(" · ").map(|(at, _)| at).filter(|at| fits(&text[..*at])).last();
    match at.filter(|_| !fits(text)) {
        Some(at) => vec![text[..at].to_string(), shorten(&text[at + " · ".len()..], width)],
        None => vec![shorten(text, width)],
    }
}

/// Outline of a marker around a point; the shape tells series apart without colour.
pub fn marker(style: Style, (x, y): (f64, f64)) -> String {
    match style.marker % 6 {
        0 => format!("M{:.1} {y:.1}a3.2 3.2 0 1 0 6.4 0a3.2 3.2 0 1 0-6.4 0Z", x - 3.2),
        1 => format!("M{:.1} {:.1}h5.8v5.8h-5.8Z", x - 2.9, y - 2.9),
        2 => format!("M{x:.1} {:.1}l3.8 6.6h-7.6Z", y - 4.2),
        3 => format!("M{x:.1} {:.1}l4.2 4.2l-4.2 4.2l-4.2-4.2Z", y - 4.2),
        4 => format!("M{x:.1} {:.1}l3.8-6.6h-7.6Z", y + 4.2),
        _ => format!("M{:.1} {:.1}h2.4v3h3v2.4h-3v3h-2.4v-3h-3v-2.4h3Z", x - 1.2, y - 4.2),
    }
}

/// Classes for the colour and the pattern of a series.
pub fn class(style: Style) -> String {
    format!("c{} p{}", style.colour, style.pattern % 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_outside_is_escaped() {
        let mut svg = Svg::new(10.0, 10.0);
        svg.text((0.0, 0.0), Anchor::Start, "", "<b> & \"q\"");
        svg.rect((0.0, 0.0), (-1.0, 1.0), "", "a<b");
        let text = svg.finish("t\"", "d<");
        assert_eq!(
            text,
            r#"<svg viewBox="0 0 10 10" width="10" height="10" role="img" aria-label="t&quot;"><desc>d&lt;</desc>"#
                .to_string()
                + r#"<text class="" x="0.0" y="0.0" text-anchor="start">&lt;b&gt; &amp; &quot;q&quot;</text>"#
                + "\n"
                + r#"<rect class="" x="0.0" y="0.0" width="0.0" height="1.0"><title>a&lt;b</title></rect>"#
                + "\n</svg>"
        );
    }

    #[test]
    fn long_labels_are_shortened() {
        assert_eq!(shorten("kernel-forward", 200.0), "kernel-forward");
        assert_eq!(shorten("kernel-forward", 64.0), "kerne…ward");
        assert_eq!(
            shorten("kernel-stateful · rules 100 · nft-set", 224.0),
            "kernel-stateful ·…les 100 · nft-set"
        );
        let label = "kernel-stateful · rules 100 · nft-set";
        assert_eq!(broken(label, 212.0), ["kernel-stateful · rules 100".into(), "nft-set".to_string()]);
        assert_eq!(broken(label, 800.0), [label.to_string()]);
        assert_eq!(broken("kernel-forward", 64.0), ["kerne…ward".to_string()]);
    }
}
