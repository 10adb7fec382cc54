// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * Hands the frames of each receive queue to its AF_XDP socket, with the time of arrival before the first byte, since
 * descriptors have none. Frames of a queue without a socket go on to the kernel.
 *
 * Where user space wants the beginning of frames only, they are cut here, so that they can lie closer together:
 *
 *   | time | bytes to keep | length of the whole frame |      a shorter frame is as it came
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
/* Bytes to keep of a frame; 0: all. Frames that have as many and 8 more are cut to that. */
__u64 keep;

/* Cuts a frame, with its length behind what is kept. */
static __always_inline int cut(struct xdp_md *ctx, __u32 kept)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u64 *length = data + kept;
	if ((void *)(length + 1) > end)
		return 0;
	*length = end - data;
	return bpf_xdp_adjust_tail(ctx, (int)(kept + sizeof(*length)) - (int)(end - data));
}

SEC("xdp")
int xsk(struct xdp_md *ctx)
{
	__u32 queue = ctx->rx_queue_index;
	__u64 *frames = bpf_map_lookup_elem(&arrived, &queue);
	if (!frames || !bpf_map_lookup_elem(&sockets, &queue))
		return XDP_PASS;
	/* The mask is for the verifier. */
	__u32 kept = keep & 0x3fff;
	if (kept && cut(ctx, kept))
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
