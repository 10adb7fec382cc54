// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * The floor of the capture ladder: counts each frame where it arrives and drops it. What any way of capturing
 * costs is on top of this.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

/* Frames of each receive queue. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} arrived SEC(".maps");

/* 1 while frames are counted; they go on to the kernel while not. */
__u64 on;

SEC("xdp.frags")
int count(struct xdp_md *ctx)
{
	__u32 queue = ctx->rx_queue_index;
	__u64 *frames = bpf_map_lookup_elem(&arrived, &queue);
	if (!on || !frames)
		return XDP_PASS;
	++*frames;
	return XDP_DROP;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
