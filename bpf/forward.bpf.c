// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * The fast in-kernel router: looks a frame up in the kernel's own routing and neighbour tables and sends it
 * out again, without a socket buffer. What it does not handle goes on to the kernel.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <bpf/bpf_helpers.h>

#define AF_INET 2
#define AF_INET6 10

SEC("xdp")
int forward(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct bpf_fib_lookup fib = { .ifindex = ctx->ingress_ifindex };

	if (data + 54 > end)
		return XDP_PASS;
	__u16 type = *(__u16 *)(data + 12);
	if (type == __builtin_bswap16(0x0800)) {
		if (*(__u8 *)(data + 14) != 0x45 || *(__u8 *)(data + 22) <= 1)
			return XDP_PASS;
		fib.family = AF_INET;
		fib.tos = *(__u8 *)(data + 15);
		fib.l4_protocol = *(__u8 *)(data + 23);
		fib.tot_len = __builtin_bswap16(*(__u16 *)(data + 16));
		fib.ipv4_src = *(__u32 *)(data + 26);
		fib.ipv4_dst = *(__u32 *)(data + 30);
	} else if (type == __builtin_bswap16(0x86dd)) {
		if (*(__u8 *)(data + 21) <= 1)
			return XDP_PASS;
		fib.family = AF_INET6;
		fib.l4_protocol = *(__u8 *)(data + 20);
		fib.tot_len = 40 + __builtin_bswap16(*(__u16 *)(data + 18));
		__builtin_memcpy(fib.ipv6_src, data + 22, 16);
		__builtin_memcpy(fib.ipv6_dst, data + 38, 16);
	} else {
		return XDP_PASS;
	}
	if (bpf_fib_lookup(ctx, &fib, sizeof(fib), 0) != BPF_FIB_LKUP_RET_SUCCESS)
		return XDP_PASS;

	if (type == __builtin_bswap16(0x0800)) {
		/* RFC 1624: the hop limit is the high byte of its word in network order, so the sum grows by 0x0100. */
		__u32 check = *(__u16 *)(data + 24);
		check += __builtin_bswap16(0x0100);
		*(__u16 *)(data + 24) = check + (check >= 0xffff);
		*(__u8 *)(data + 22) -= 1;
	} else {
		*(__u8 *)(data + 21) -= 1;
	}
	__builtin_memcpy(data, fib.dmac, 6);
	__builtin_memcpy(data + 6, fib.smac, 6);
	return bpf_redirect(fib.ifindex, 0);
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
