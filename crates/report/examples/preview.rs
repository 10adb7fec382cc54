//! Writes reports, a trend and an export of runs made up for tests, to look at: `cargo run -p weir-report --example preview`.

use std::fs;

use weir_record::fixture;
use weir_report::trend::{Filter, html as trend_page, trend};
use weir_report::{export, report};

fn main() -> std::io::Result<()> {
    let folder = std::env::temp_dir().join("weir-preview");
    fs::create_dir_all(&folder)?;
    let two = [fixture::quick(), fixture::quick_again()];
    let runs = two.iter().map(|data| {
        let points = data.points.iter().map(|point| point.point.clone());
        (data.run.clone(), points.collect())
    });
    let trend = trend("quick", &runs.collect::<Vec<_>>(), &Filter::default()).expect("two runs");
    for (name, text) in [
        ("report.html", report::html(&two[..1], &())),
        ("procedures.html", report::html(&[fixture::procedures()], &())),
        ("two.html", report::html(&two, &())),
        ("trend.html", trend_page(&trend)),
        ("export.tex", export::latex(&fixture::procedures(), &())),
    ] {
        fs::write(folder.join(name), text)?;
    }
    println!("{}", folder.display());
    Ok(())
}
