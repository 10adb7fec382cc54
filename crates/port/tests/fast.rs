//! The cost of the fast path can be measured: all of its frames are passed on.

use weir_port::fast::bench::nat;

#[test]
fn each_frame_of_many_flows_is_passed_on() {
    // SAFETY: no arguments, no failure.
    if unsafe { libc::geteuid() } != 0 {
        return println!("skipped: needs root (CAP_BPF)");
    }
    let costs = nat(10_000, 200_000, 5).expect("all frames are passed on");
    println!("{costs:?}");
    assert_eq!(costs.len(), 5);
}
