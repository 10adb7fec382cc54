//! The parts of the page: sections, figures with their data, legends.

use super::Table;
use super::svg::{class, escape, marker};
use super::{Series, Style};

/// A paragraph; the text is escaped.
pub fn paragraph(text: &str) -> String {
    format!("<p>{}</p>\n", escape(text))
}

/// A small explanation under a heading or a figure; the text is escaped.
pub fn note(text: &str) -> String {
    format!("<p class=\"note\">{}</p>\n", escape(text))
}

/// A list of sentences; empty without any.
pub fn bullets<S: AsRef<str>>(items: &[S]) -> String {
    if items.is_empty() {
        return String::new();
    }
    let items: String = items.iter().map(|i| format!("<li>{}</li>\n", escape(i.as_ref()))).collect();
    format!("<ul>\n{items}</ul>\n")
}

/// A section with its heading; nothing when it has no content.
pub fn section(id: &str, heading: &str, body: &str) -> String {
    if body.is_empty() {
        return String::new();
    }
    format!("<section id=\"{id}\">\n<h2>{}</h2>\n{body}</section>\n", escape(heading))
}

/// Drawings side by side, with what they show and the numbers behind them.
pub fn figure(class: &str, drawings: &[String], caption: &str, data: &Table) -> String {
    let caption = if caption.is_empty() {
        String::new()
    } else {
        format!("<figcaption>{}</figcaption>\n", escape(caption))
    };
    format!(
        "<figure>\n<div class=\"{class}\">\n{}</div>\n{caption}{}</figure>\n",
        drawings.concat(),
        details("The numbers of this figure", &data.html())
    )
}

/// Something to unfold; nothing when it has no content.
pub fn details(summary: &str, body: &str) -> String {
    if body.is_empty() {
        return String::new();
    }
    format!("<details><summary>{}</summary>\n{body}</details>\n", escape(summary))
}

/// Names and values.
pub fn facts(pairs: &[(String, String)]) -> String {
    let items: String = pairs
        .iter()
        .map(|(name, value)| format!("<div><dt>{}</dt><dd>{}</dd></div>\n", escape(name), escape(value)))
        .collect();
    format!("<dl>\n{items}</dl>\n")
}

/// Which line is which series.
pub fn legend(series: &[&Series<'_>]) -> String {
    legend_of(series.iter().map(|s| (s.style, s.label.as_str())))
}

/// Which line is what.
pub fn legend_of<'n>(lines: impl Iterator<Item = (Style, &'n str)>) -> String {
    let item = |(style, name): (Style, &str)| {
        let (class, marker) = (class(style), marker(style, (17.0, 7.0)));
        let swatch =
            format!(r#"<path class="line {class}" d="M1 7H33"/><path class="dot {class}" d="{marker}"/>"#);
        legend_item(&swatch, name)
    };
    format!("<ul class=\"legend\">{}</ul>\n", lines.map(item).collect::<String>())
}

/// What the filled parts of a figure are: class and name.
pub fn fill_legend(parts: &[(&str, &str)]) -> String {
    let item = |(class, name): &(&str, &str)| {
        legend_item(&format!(r#"<rect class="bar {class}" x="8" y="1" width="18" height="12"/>"#), name)
    };
    format!("<ul class=\"legend\">{}</ul>\n", parts.iter().map(item).collect::<String>())
}

fn legend_item(swatch: &str, name: &str) -> String {
    format!(
        r#"<li><svg viewBox="0 0 34 14" width="34" height="14" aria-hidden="true">{swatch}</svg>{}</li>"#,
        escape(name)
    )
}

/// Series in portions that a figure can hold without its lines becoming a tangle.
pub fn portions<T: Copy>(series: &[T]) -> Vec<Vec<T>> {
    const MOST: usize = 8;
    let n = series.len().div_ceil(MOST).max(1);
    series.chunks(series.len().div_ceil(n).max(1)).map(<[T]>::to_vec).collect()
}

/// Addition to a caption when a figure has several portions.
pub fn portion_name(index: usize, of: usize) -> String {
    if of > 1 { format!(" Part {} of {of}.", index + 1) } else { String::new() }
}

/// The whole document.
pub fn document(title: &str, body: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{}</title>\n<style>\n{}</style>\n</head>\n\
         <body>\n<main>\n{body}</main>\n</body>\n</html>\n",
        escape(title),
        include_str!("style.css")
    )
}
