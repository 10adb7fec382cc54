// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * Hands the frames of each receive queue to its AF_XDP socket, with the time of arrival before the first byte, since
 * descriptors have none. Frames of a queue without a socket go on to the kernel.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} sockets SEC(".maps");

/* Frames for the socket of each receive queue. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} arrived SEC(".maps");

/* Frames without a stamp, because the driver has no room before the first byte. */
__u64 unstamped;

SEC("xdp")
int xsk(struct xdp_md *ctx)
{
	__u32 queue = ctx->rx_queue_index;
	__u64 *frames = bpf_map_lookup_elem(&arrived, &queue);
	if (!frames || !bpf_map_lookup_elem(&sockets, &queue))
		return XDP_PASS;
	++*frames;
	__u64 *at = 0;
	if (!bpf_xdp_adjust_meta(ctx, -(int)sizeof(*at)))
		at = (void *)(long)ctx->data_meta;
	if (at && (void *)(at + 1) <= (void *)(long)ctx->data)
		*at = bpf_ktime_get_ns();
	else
		unstamped = 1;
	return bpf_redirect_map(&sockets, queue, XDP_PASS);
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
