//! What is shared is laid out as in the programs: their objects say how (BTF).

use libbpf_rs::btf::types::{MemberAttr, Struct};
use libbpf_rs::btf::{Btf, HasSize};

use super::*;
use crate::bpf::object::{self, Aligned};
use crate::perf::idle;
use crate::{fast, translation};

/// A structure here, and its name in a program.
struct Pair {
    here: &'static str,
    there: &'static str,
    program: &'static Aligned<[u8]>,
    bytes: usize,
    fields: &'static [(&'static str, usize)],
}

fn pair<T: Shared>(there: &'static str, program: &'static Aligned<[u8]>) -> Pair {
    Pair { here: std::any::type_name::<T>(), there, program, bytes: size_of::<T>(), fields: T::FIELDS }
}

fn pairs() -> Vec<Pair> {
    vec![
        pair::<Flow>("weir_flow", object::GENERATOR),
        pair::<Phase>("weir_phase", object::GENERATOR),
        pair::<Stream>("weir_stream", object::GENERATOR),
        pair::<Gen>("weir_gen", object::GENERATOR),
        pair::<Group>("weir_group", object::RECEIVER),
        pair::<Passed>("weir_passed", object::RECEIVER),
        pair::<Window>("weir_window", object::RECEIVER),
        pair::<Ipdv>("weir_ipdv", object::RECEIVER),
        pair::<Gap>("weir_gap", object::RECEIVER),
        pair::<Losses>("weir_losses", object::RECEIVER),
        pair::<Recv>("weir_recv", object::RECEIVER),
        pair::<Mark>("weir_mark", object::RECEIVER),
        pair::<Leave>("weir_leave", object::LEAVE),
        pair::<translation::Tuple>("weir_tuple", object::NAT_RECEIVER),
        pair::<translation::Range>("weir_public", object::NAT_RECEIVER),
        pair::<translation::Check>("weir_check", object::NAT_RECEIVER),
        pair::<translation::Kept>("weir_kept", object::NAT_RECEIVER),
        pair::<translation::PrefixNat>("weir_prefix_nat", object::PREFIX_NAT),
        pair::<translation::Talk>("weir_talk", object::TCP),
        pair::<fast::Key>("fast_key", object::FAST),
        pair::<fast::layout::Bucket>("fast_bucket", object::FAST),
        pair::<fast::Entry>("fast_entry", object::FAST),
        pair::<fast::Sides>("fast_sides", object::FAST),
        pair::<fast::Track>("fast_track", object::FAST),
        pair::<fast::Control>("fast_control", object::FAST),
        pair::<fast::Counts>("fast_counts", object::FAST),
        pair::<fast::Gate>("fast_port", object::FAST),
        pair::<idle::IdleCpu>("idle_cpu", object::IDLE),
        pair::<idle::IdleSpan>("idle_span", object::IDLE),
    ]
}

/// What differs from the program's declaration. What only fills has no name that matters; an array may be called after one of
/// its entries there, and after all of them here.
fn differences(pair: &Pair) -> Vec<String> {
    let btf = Btf::from_raw("program", &pair.program.0).unwrap().expect("BTF");
    let there: Struct<'_> = btf.type_by_name(pair.there).unwrap_or_else(|| panic!("no {}", pair.there));
    let mut found = Vec::new();
    if there.size() != pair.bytes {
        found.push(format!("{}: {} bytes, not {}", pair.here, pair.bytes, there.size()));
    }
    let place = |name: &str| {
        there.iter().find(|member| member.name.is_some_and(|found| found == name)).map(|member| match member
            .attr
        {
            MemberAttr::Normal { offset } => offset as usize / 8,
            MemberAttr::BitField { .. } => panic!("{name} has bits"),
        })
    };
    for (name, at) in pair.fields.iter().filter(|(name, _)| !name.starts_with("pad")) {
        let there = place(name).or_else(|| place(name.strip_suffix('s')?));
        if there != Some(*at) {
            found.push(format!("{}.{name} at {at}, in the program at {there:?}", pair.here));
        }
    }
    found
}

#[test]
fn structures_are_those_of_the_programs() {
    let wrong: Vec<String> = pairs().iter().flat_map(differences).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    let fields: usize = pairs().iter().map(|pair| pair.fields.len()).sum();
    assert!(fields > 100, "{fields} fields are compared");
    // What differs is found.
    let other = Pair {
        there: "weir_passed",
        program: object::RECEIVER,
        ..pair::<Mark>("weir_mark", object::RECEIVER)
    };
    assert_eq!(differences(&other).len(), 2);
}
