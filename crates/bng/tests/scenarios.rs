//! Every scenario of `tests/dhcp4.txt`.

use weir_bng::scenario::read;

#[test]
fn every_scenario_holds() {
    let scenarios = read(include_str!("../../../tests/dhcp4.txt")).unwrap_or_else(|wrong| panic!("{wrong}"));
    assert!(scenarios.len() >= 30, "{}", scenarios.len());
    let failed: Vec<_> = scenarios
        .iter()
        .filter_map(|scenario| {
            let wrong = scenario.run().err()?;
            Some(format!("{} {} (line {}): {wrong}", scenario.reference, scenario.title, scenario.line))
        })
        .collect();
    assert!(failed.is_empty(), "{} of {} fail:\n{}", failed.len(), scenarios.len(), failed.join("\n"));
}
