use super::*;

#[test]
#[ignore = "writes the report of the fixture to look at: cargo test -p weir-lab preview -- --ignored"]
fn preview() {
    let dir = std::env::temp_dir();
    std::fs::write(dir.join("weir-report.html"), html(&[fixture::quick()])).unwrap();
    let two = [fixture::quick(), fixture::quick_again()];
    std::fs::write(dir.join("weir-report-two.html"), html(&two)).unwrap();
}
