//! The pages of the archive that are no report: the list with its filters, a comparison, the login, an error.

use weir_record::run_data::state_name;
use weir_report::compare::{self, Compared};
use weir_report::view::page::{document, paragraph, section};
use weir_report::view::svg::escape;

use crate::browse::{Filter, Listed};

/// Columns of the list.
const HEAD: [&str; 10] =
    ["base", "with", "run", "started", "state", "plan", "host", "kernel", "weir", "question"];

/// Runs that match a filter. `values` are those of the columns of the filter.
pub(super) fn list(runs: &[Listed], filter: &Filter, values: &[Vec<String>], more: bool) -> String {
    let head = "<header>\n<h1>Archive</h1>\n</header>\n";
    let rows: String = runs.iter().map(row).collect();
    let names: String = HEAD.iter().map(|name| format!("<th>{name}</th>")).collect();
    let table = if runs.is_empty() {
        paragraph("No run matches.")
    } else {
        format!(
            "<form action=\"/compare\"><div class=\"scroll\"><table><thead><tr>{names}</tr></thead>\n<tbody>{rows}</tbody></table></div>\n\
             <p>Choose a base and a run: <button>Compare</button></p></form>\n"
        )
    };
    let next = runs.last().filter(|_| more).map(|last| {
        let query = query(&Filter { before: Some(last.run.id), ..filter.clone() });
        format!("<p><a href=\"/?{query}\">Older runs</a></p>\n")
    });
    let trend = (!filter.plan.is_empty()).then(|| {
        format!(
            "<p><a href=\"/trend?plan={}\">Trend of {}</a></p>\n",
            encoded(&filter.plan),
            escape(&filter.plan)
        )
    });
    let body = [form(filter, values), trend.unwrap_or_default(), table, next.unwrap_or_default()].concat();
    document("weir: archive", &(head.to_string() + &section("runs", "Runs", &body)))
}

/// The filter, as lists of the values that its columns have.
fn form(filter: &Filter, values: &[Vec<String>]) -> String {
    let selects = filter.columns().into_iter().zip(values).map(|((name, chosen), values)| {
        let option = |value: &String| {
            let selected = if value == chosen { " selected" } else { "" };
            format!("<option{selected}>{}</option>", escape(value))
        };
        let options: String = values.iter().map(option).collect();
        format!(
            "<label>{name} <select name=\"{name}\"><option value=\"\">all</option>{options}</select></label> "
        )
    });
    format!("<form action=\"/\"><p>{}<button>Filter</button></p></form>\n", selects.collect::<String>())
}

fn row(listed: &Listed) -> String {
    let run = &listed.run;
    let button = |name: &str| {
        format!(
            "<input type=\"radio\" name=\"{name}\" value=\"{0}\" aria-label=\"{name} {0}\" required>",
            run.id
        )
    };
    let link = |path: String, text: &str| format!("<a href=\"{path}\">{}</a>", escape(text));
    let cells = [
        button("base"),
        button("run"),
        link(format!("/runs/{}", run.id), &run.id.to_string()),
        escape(&minute(&run.started)),
        escape(&state_name(run.state)),
        link(format!("/?plan={}", encoded(&run.plan)), &run.plan),
        link(format!("/?host={}", encoded(&listed.host)), &listed.host),
        format!("<span title=\"{}\">{}</span>", escape(&listed.cpu), escape(&listed.kernel)),
        escape(&run.version),
    ];
    let cells: String = cells.iter().map(|cell| format!("<td>{cell}</td>")).collect();
    format!("<tr>{cells}<td class=\"w\">{}</td></tr>\n", escape(&run.question))
}

/// A time (RFC 3339, UTC) as far as its minute.
fn minute(time: &str) -> String {
    time.get(..16).unwrap_or(time).replace('T', " ")
}

/// A page with a link to the list above it.
pub(super) fn with_way_back(page: &str) -> String {
    page.replacen("<main>\n", "<main>\n<nav><a href=\"/\">All runs</a></nav>\n", 1)
}

/// What differs between two runs, above the report of both.
pub(super) fn comparison(compared: &Compared, report: &str) -> String {
    let text = format!(
        "<div class=\"scroll\"><pre style=\"font-size:.78rem\">{}</pre></div>\n",
        escape(&compare::text(compared))
    );
    let title = format!("Run {} against run {}", compared.other, compared.base);
    let above = section("comparison", &title, &text);
    with_way_back(&report.replacen("<main>\n", &format!("<main>\n{above}"), 1))
}

/// Asks for a token.
pub(super) fn login(why: &str) -> String {
    let form = "<form method=\"post\" action=\"/login\"><p><label>Token <input type=\"password\" name=\"token\" autofocus></label> \
                <button>Log in</button></p></form>\n";
    document("weir: log in", &section("login", "Log in", &(paragraph(why) + form)))
}

/// Why there is no page, below a heading that says what is wrong.
pub(super) fn refused(heading: &str, why: &str) -> String {
    with_way_back(&document("weir: no page", &section("refused", heading, &paragraph(why))))
}

fn query(filter: &Filter) -> String {
    let values = filter.columns().into_iter().filter(|(_, value)| !value.is_empty());
    let values = values.map(|(name, value)| format!("{name}={}", encoded(value)));
    let before = filter.before.map(|before| format!("before={before}"));
    values.chain(before).collect::<Vec<_>>().join("&amp;")
}

/// A value of a query (RFC 3986, section 2.3).
fn encoded(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    };
    text.bytes().map(byte).collect()
}
