// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * A NAT without state for tests: the network of the subscribers becomes a public one of the same size, port by port
 * (RFC 3022, section 4.1), and on request it does wrong: it shows what a tester of NATs must find.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "weir.h"

#define FAULT_LEAK 1               /* each n-th frame outward is not translated */
#define FAULT_CLASH 2              /* each n-th subscriber gets one and the same outside tuple */
#define FAULT_SUBSCRIBER 3         /* each n-th frame inward is for the neighbour */
#define FAULT_REMAP 4              /* each n-th frame outward has another port */

struct weir_prefix_nat {
	__u32 inside;         /* interface of the subscribers */
	__u32 outside;
	__u32 private_net;    /* host order */
	__u32 public_net;
	__u32 host_mask;      /* bits of an address that are kept */
	__u32 fault;
	__u32 every;          /* n; not 0 */
	__u32 pad;
	__u64 frames[2];      /* outward, inward */
	__u8 inward[16];      /* Ethernet addresses of frames to the inside: destination, source; and 4 of nothing */
	__u8 outward[16];
};

struct weir_prefix_nat nat;

_Static_assert(sizeof(struct weir_prefix_nat) == 80, "translation.rs");

/* RFC 1624, for a checksum that covers these 32 bits. */
static __always_inline __u16 replaced(__u16 check, __u32 before, __u32 after)
{
	return ~fold((__u64)(__u16)~check + (~before & 0xffff) + (~before >> 16) + (after & 0xffff) + (after >> 16));
}

/* Writes an address and the port that belongs to it; both checksums follow. */
static __always_inline void rewrite(void *data, __u32 *address, __u16 *port, __u32 to, __u16 to_port)
{
	__u16 *ip_check = data + 24, *udp_check = data + 40;
	*ip_check = replaced(*ip_check, *address, to);
	if (*udp_check) {
		__u16 check = replaced(replaced(*udp_check, *address, to), *port, to_port);
		*udp_check = check ? check : 0xffff;
	}
	*address = to;
	*port = to_port;
}

static __always_inline int leave(void *data, __u8 *macs, __u32 ifindex)
{
	__u16 *ttl = data + 22;
	__u16 before = *ttl, *check = data + 24;
	__u16 after = (before & 0xff00) | ((before - 1) & 0xff);
	*ttl = after;
	*check = replaced(*check, before, after);
	__builtin_memcpy(data, macs, 12);
	return bpf_redirect(ifindex, 0);
}

SEC("xdp")
int translate(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	if (data + 42 > end || *(__u16 *)(data + 12) != __builtin_bswap16(0x0800) || *(__u8 *)(data + 14) != 0x45 ||
	    *(__u8 *)(data + 23) != 17)
		return XDP_PASS;
	__u32 mask = __builtin_bswap32(nat.host_mask);
	__u32 every = nat.every ? nat.every : 1;
	if (ctx->ingress_ifindex == nat.inside) {
		int nth = __sync_fetch_and_add(&nat.frames[0], 1) % every == 0;
		__u32 *src = data + 26;
		__u16 *port = data + 34;
		__u32 to = (*src & mask) | __builtin_bswap32(nat.public_net);
		__u16 to_port = *port;
		if (nat.fault == FAULT_CLASH && (__builtin_bswap32(*src) & nat.host_mask) % every == 0) {
			to = __builtin_bswap32(nat.public_net);
			to_port = __builtin_bswap16(5000);
		}
		if (nat.fault == FAULT_REMAP && nth)
			to_port ^= __builtin_bswap16(1);
		if (nat.fault != FAULT_LEAK || !nth)
			rewrite(data, src, port, to, to_port);
		return leave(data, nat.outward, nat.outside);
	}
	__u32 *dst = data + 30;
	__u16 *port = data + 36;
	__u32 to = (*dst & mask) | __builtin_bswap32(nat.private_net);
	if (nat.fault == FAULT_SUBSCRIBER && __sync_fetch_and_add(&nat.frames[1], 1) % every == 0)
		to ^= __builtin_bswap32(1);
	rewrite(data, dst, port, to, *port);
	return leave(data, nat.inward, nat.inside);
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
