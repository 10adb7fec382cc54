//! A node with a flow cache beside one without, while hosts talk through both: what leaves, what is counted and what is
//! remembered is the same, whatever ends in between: connections, times, rules, neighbours.

use weir_plane::scenario::VirtualNode;
use weir_plane::scenario::talk::{NODES, talk};

#[test]
fn a_flow_cache_changes_nothing_but_the_way() {
    let mut cached = 0;
    for (n, node) in NODES.iter().enumerate() {
        for threads in [1, 3] {
            for seed in 1..=3 {
                let virtual_node = || VirtualNode::of_threads(threads).in_batches();
                let mut nodes = [virtual_node(), virtual_node().with_flow_caches()];
                talk(&mut nodes, seed * 7 + n as u64, node.0, node.1);
                cached += nodes[1].cached_frames();
            }
        }
    }
    println!("{cached} frames passed by flow caches");
    assert!(cached > 2500, "only {cached} frames passed by flow caches");
}
