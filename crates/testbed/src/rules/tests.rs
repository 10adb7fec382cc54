use super::*;
use weir_linux::namespace::Namespace;
use weir_testkit::need_root;

/// Skips a form with a note if its programs are missing.
pub(crate) fn is_here(set: &RuleSet) -> bool {
    let found = set.check_tools();
    if let Err(error) = &found {
        eprintln!("skipped: {} needs a program ({error})", module_path!());
    }
    found.is_ok()
}

fn policies(rules: u32) -> Vec<Policy> {
    let filters = RuleForm::ALL.map(|(form, _)| Filter { form, rules });
    filters.iter().flat_map(|&filter| [Policy::Stateless(filter), Policy::Stateful(filter)]).collect()
}

#[test]
fn the_number_of_rules_has_limits() {
    let policy = Policy::Stateful(Filter { form: RuleForm::NftChain, rules: 10_001 });
    let error = RuleSet::new(policy, IpVersion::V4).unwrap_err();
    assert_eq!(error.to_string(), "10001 rules: use 0 to 10000");
}

#[test]
fn every_form_is_read_back_and_installing_again_replaces() {
    need_root!();
    for ip in [IpVersion::V4, IpVersion::V6] {
        for rules in [1, 25] {
            for policy in policies(rules) {
                let set = RuleSet::new(policy, ip).unwrap();
                if !is_here(&set) {
                    continue;
                }
                let ns = Namespace::new().unwrap();
                ns.run(|| {
                    for _ in 0..2 {
                        set.install().unwrap_or_else(|error| panic!("{policy:?} {ip}: {error}"));
                        let counters = set.counters().unwrap();
                        let (_, filter) = set.filter().unwrap();
                        let expected = if filter.shape == Shape::Chain { rules as usize } else { 2 };
                        assert_eq!(counters.len(), expected, "{policy:?} {ip}");
                        assert!(counters.iter().enumerate().all(|(n, c)| c.rule == n && c.packets == 0));
                        assert_eq!(set.verdicts().unwrap(), Some(Verdicts::default()));
                    }
                });
            }
        }
    }
}

#[test]
fn without_rules_there_is_no_filter() {
    need_root!();
    let nothing = policies(0).into_iter().chain([Policy::Masquerade]);
    for policy in nothing {
        for ip in [IpVersion::V4, IpVersion::V6] {
            let set = RuleSet::new(policy, ip).unwrap();
            Namespace::new().unwrap().run(|| set.install()).unwrap();
            assert_eq!((set.counters().unwrap(), set.verdicts().unwrap()), (vec![], None), "{policy:?} {ip}");
        }
    }
}

#[test]
fn ten_thousand_rules_are_one_transaction_in_every_form() {
    need_root!();
    for (form, name) in RuleForm::ALL {
        let policy = Policy::Stateless(Filter { form, rules: 10_000 });
        let set = RuleSet::new(policy, IpVersion::V6).unwrap();
        if is_here(&set) {
            let ns = Namespace::new().unwrap();
            ns.run(|| set.install()).unwrap();
            let counters = ns.run(|| set.counters()).unwrap().len();
            assert_eq!(counters, if name.ends_with("chain") { 10_000 } else { 2 }, "{name}");
        }
    }
}

#[test]
fn all_describe_the_same_flows() {
    use std::collections::BTreeSet;
    for ip in [IpVersion::V4, IpVersion::V6] {
        let flows: BTreeSet<_> = others::others(ip, 9_999).map(|o| (o.source, o.destination)).collect();
        assert_eq!(flows.len(), 9_999, "each is another one");
        let side_b = |address: &std::net::IpAddr| {
            let text = address.to_string();
            text.starts_with("198.19.") || text.starts_with("2001:db8:19:")
        };
        assert!(flows.iter().all(|(source, destination)| side_b(source) && side_b(destination)));
    }
}
