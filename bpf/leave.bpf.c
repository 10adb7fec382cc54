// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * Has the frames of a node leave by an interface. BPF_PROG_TEST_RUN in live-frames mode runs it once for each of them,
 * with a page of the kernel's that begins as the first frame.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "weir.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, WEIR_LEAVING);
	__type(key, __u32);
	__type(value, __u8[WEIR_LEAVING_BYTES]);
} frames SEC(".maps");

/* The interface; it may be in another network namespace than who runs this. */
struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} interface SEC(".maps");

struct weir_leave leave_state;

SEC("xdp")
int leave(struct xdp_md *ctx)
{
	__u32 n = leave_state.next;
	__u8 *frame = bpf_map_lookup_elem(&frames, &n);
	if (!frame)
		return XDP_ABORTED;
	leave_state.next = n + 1;
	__u32 bytes = leave_state.bytes[n & (WEIR_LEAVING - 1)], given = leave_state.bytes[0];
	if (bytes != given && bpf_xdp_adjust_tail(ctx, (int)bytes - (int)given))
		return XDP_ABORTED;
	bytes = length_within(bytes, WEIR_LEAVING_BYTES);
	if (!bytes || bpf_xdp_store_bytes(ctx, 0, frame, bytes))
		return XDP_ABORTED;
	return bpf_redirect_map(&interface, 0, XDP_ABORTED);
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
