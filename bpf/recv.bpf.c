// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * The frame receiver: checks, counts and times test frames where they arrive, before any socket buffer
 * exists. As a reflector it also sends them back.
 *
 * Counts and latency are per CPU. The window of sequence numbers is shared between CPUs with atomic bits:
 * duplicates are exact there too; an order between two CPUs does not exist, so reordering is only exact
 * where one CPU receives a group. The same holds for the dates of losses.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "weir.h"
#ifdef WEIR_TRANSLATION
#include "translation.h"
#endif

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct weir_group);
} groups SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct weir_window);
} windows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct weir_losses);
} losses SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct weir_ipdv);
} ipdvs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, WEIR_MARKS);
	__type(key, __u32);
	__type(value, struct weir_mark);
} marks SEC(".maps");

struct weir_recv recv;

#define count(field) __sync_fetch_and_add(&recv.field, 1)

/* Sum of the frame from `at` to its end, in fragments too. Copying through the stack costs some 20 ns and
 * spares the verifier a path per length. */
static __always_inline __u64 sum_from(struct xdp_md *ctx, __u32 at, __u32 end)
{
	__u64 part[32];
	__s64 sum = 0;
	for (int i = 0; i < 40 && at + 256 <= end; i++) {
		if (bpf_xdp_load_bytes(ctx, at, part, 256))
			return 0;
		sum = bpf_csum_diff(0, 0, (__be32 *)part, 256, sum);
		at += 256;
	}
	__u32 rest = length_within(end - at, 255);
	if (!rest)
		return (__u32)sum;
	__u32 room = rest <= 32 ? 32 : 256;
	if (rest <= 32)
		__builtin_memset(part, 0, 32);
	else
		__builtin_memset(part, 0, 256);
	if (bpf_xdp_load_bytes(ctx, at, part, rest))
		return 0;
	return (__u32)bpf_csum_diff(0, 0, (__be32 *)part, room, sum);
}

/* 64 buckets per octave from 64 ns on, below that one per ns. */
static __always_inline __u32 latency_bucket(__u64 v)
{
	if (v < 64)
		return v;
	__u32 e = 0;
	__u64 r = v >> 6;
	if (r >> 16) { r >>= 16; e += 16; }
	if (r >> 8) { r >>= 8; e += 8; }
	if (r >> 4) { r >>= 4; e += 4; }
	if (r >> 2) { r >>= 2; e += 2; }
	if (r >> 1) { e += 1; }
	__u32 bucket = (e + 1) * 64 + ((v >> e) & 63);
	return bucket < WEIR_LATENCY_BUCKETS ? bucket : WEIR_LATENCY_BUCKETS - 1;
}

/* Notes a sequence number: 1 if it was seen before. */
static __always_inline int seen_before(struct weir_window *w, __u64 seq)
{
	__u64 block = seq >> 6, bit = 1ULL << (seq & 63);
	__u32 slot = block & (WEIR_WINDOW_WORDS - 1);
	/* Block 0 is stored as 1, so that an empty window matches nothing. */
	if (w->word[slot].block != block + 1) {
		if (w->word[slot].block > block + 1)
			return 0; /* older than the window: late, and whether it came before is not known */
		w->word[slot].block = block + 1;
		w->word[slot].seen = bit;
		return 0;
	}
	return (__sync_fetch_and_or(&w->word[slot].seen, bit) & bit) != 0;
}

/* A gap that is too old to be filled becomes a period of loss, or part of the last one. */
static __always_inline void settle(struct weir_losses *l, struct weir_gap *gap)
{
	if (!gap->lost)
		return;
	l->runs++;
	if (gap->lost > l->run_max)
		l->run_max = gap->lost;
	struct weir_gap *last = &l->event[(l->events - 1) & (WEIR_EVENTS - 1)];
	if (l->events && gap->before.sent_ns < last->after.sent_ns + recv.merge_ns) {
		last->last = gap->last;
		last->lost += gap->lost;
		last->after = gap->after;
		return;
	}
	l->event[l->events++ & (WEIR_EVENTS - 1)] = *gap;
}

/* The numbers from the next one to the one before `seq` have not arrived. */
static __noinline int note_gap(__u32 group, struct weir_window *w, __u64 seq, __u64 sent_ns, __u64 now)
{
	struct weir_losses *l = bpf_map_lookup_elem(&losses, &group);
	if (!l)
		return 0;
	struct weir_gap *gap = &l->gap[l->gaps & (WEIR_GAPS - 1)];
	if (l->gaps >= WEIR_GAPS)
		settle(l, gap);
	l->gaps++;
	gap->first = w->next;
	gap->last = seq - 1;
	gap->lost = seq - w->next;
	gap->before = w->newest;
	gap->after.sent_ns = sent_ns;
	gap->after.arrived_ns = now;
	return 0;
}

/* Is `seq` one of those that are missing here? Then no longer. */
static __always_inline int fill_gap(struct weir_gap *gap, __u64 seq)
{
	if (!gap->lost || seq < gap->first || seq > gap->last)
		return 0;
	gap->lost--;
	if (seq == gap->first)
		gap->first++;
	else if (seq == gap->last)
		gap->last--;
	return 1;
}

/* A frame has arrived after one with a higher number. */
static __noinline int note_late(__u32 group, __u64 seq)
{
	struct weir_losses *l = bpf_map_lookup_elem(&losses, &group);
	if (!l)
		return 0;
	for (__u32 i = 1; i <= WEIR_GAPS && i <= l->gaps; i++)
		if (fill_gap(&l->gap[(l->gaps - i) & (WEIR_GAPS - 1)], seq))
			return 0;
	for (__u32 i = 1; i <= WEIR_LATE_EVENTS && i <= l->events; i++)
		if (fill_gap(&l->event[(l->events - i) & (WEIR_EVENTS - 1)], seq))
			return 0;
	return 0;
}

/* The frame before this one, which has the number before, took `before` ns. */
static __noinline int note_ipdv(__u32 group, __u64 latency, __u64 before)
{
	struct weir_ipdv *d = bpf_map_lookup_elem(&ipdvs, &group);
	if (!d)
		return 0;
	__s64 difference = latency - before;
	__u32 bucket = latency_bucket(difference < 0 ? -difference : difference);
	if (!d->count || difference < d->min_ns)
		d->min_ns = difference;
	if (!d->count || difference > d->max_ns)
		d->max_ns = difference;
	d->count++;
	if (bucket >= WEIR_LATENCY_BUCKETS)
		return 0;
	if (difference < 0)
		d->below[bucket]++;
	else
		d->above[bucket]++;
	return 0;
}

static __always_inline int note(__u32 group, __u32 number, __u64 sent_ns, __u64 now, __u32 size)
{
	struct weir_group *g = bpf_map_lookup_elem(&groups, &group);
	struct weir_window *w = bpf_map_lookup_elem(&windows, &group);
	if (!g || !w)
		return 0;
	/* The number on the wire has 32 bits: the frame is within 2^31 of the next one. */
	__u64 seq = w->next + (__s32)(number - (__u32)w->next);
	if (!w->next || (__s64)seq < 0)
		seq = number;
	__u64 latency = now > sent_ns ? now - sent_ns : 0;
	g->received++;
	g->bytes += size + 4;
	if (!g->first_ns)
		g->first_ns = now;
	g->last_ns = now;
	if (seen_before(w, seq)) {
		g->duplicated++;
		return 0;
	}
	if (seq >= w->next) {
		struct weir_passed *newest = &w->newest;
		if (seq > w->next)
			note_gap(group, w, seq, sent_ns, now);
		else if (recv.ipdv && w->next && newest->sent_ns >= recv.timed_from_ns)
			note_ipdv(group, latency, newest->arrived_ns > newest->sent_ns ?
				  newest->arrived_ns - newest->sent_ns : 0);
		w->next = seq + 1;
		w->newest.sent_ns = sent_ns;
		w->newest.arrived_ns = now;
	} else {
		g->reordered++;
		if (w->next - 1 - seq > g->extent_max)
			g->extent_max = w->next - 1 - seq;
		note_late(group, seq);
	}
	if (sent_ns < recv.timed_from_ns)
		return 1;
	g->latency_sum_ns += latency;
	if (latency > g->latency_max_ns)
		g->latency_max_ns = latency;
	if (!g->latency_min_ns || latency < g->latency_min_ns)
		g->latency_min_ns = latency;
	__u32 bucket = latency_bucket(latency);
	if (bucket < WEIR_LATENCY_BUCKETS)
		g->latency[bucket]++;
	return 1;
}

/* Notes how many frames have arrived with the first one of each slot of time: for all others it is one comparison. Of two
 * CPUs that receive at once, both may note theirs; either is right. */
static __always_inline void mark(__u64 now)
{
	__u64 slot = (now - recv.mark_from_ns) >> recv.mark_shift;
	if (slot < recv.mark_next || slot >= WEIR_MARKS)
		return;
	__u32 key = slot;
	struct weir_mark *m = bpf_map_lookup_elem(&marks, &key);
	if (!m)
		return;
	recv.mark_next = key + 1;
	m->at_ns = now;
	m->frames = recv.received;
}

/* Swaps both ends of MAC, IP and transport, restores the hop limit, and sends the frame out where it came in: by
 * redirect, since veth wakes the other end after XDP_TX only if that has an XDP program too (veth_xdp_flush). */
static __always_inline int reflect(struct xdp_md *ctx, void *data, int ip6)
{
	__u16 *mac = data;
	__u16 m0 = mac[0], m1 = mac[1], m2 = mac[2];
	mac[0] = mac[3];
	mac[1] = mac[4];
	mac[2] = mac[5];
	mac[3] = m0;
	mac[4] = m1;
	mac[5] = m2;
	__u32 *a = data + (ip6 ? 22 : 26), *b = data + (ip6 ? 38 : 30), t;
	t = a[0]; a[0] = b[0]; b[0] = t;
	if (ip6) {
		t = a[1]; a[1] = b[1]; b[1] = t;
		t = a[2]; a[2] = b[2]; b[2] = t;
		t = a[3]; a[3] = b[3]; b[3] = t;
		*(__u8 *)(data + 21) = 64;
	} else {
		__u16 old = *(__u16 *)(data + 22), *check = data + 24;
		__u16 new = (old & 0xff00) | 64;
		*(__u16 *)(data + 22) = new;
		*check = ~fold((__u64)(__u16)~*check + (__u16)~old + new);
	}
	__u16 *port = data + (ip6 ? 54 : 34), p = port[0];
	port[0] = port[1];
	port[1] = p;
	count(reflected);
	return bpf_redirect(ctx->ingress_ifindex, 0);
}

#ifndef WEIR_TCP
SEC("xdp.frags")
int receive(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	int ip6;
	__u8 protocol;
	__u64 sum;

	if (data + 60 > end)
		goto other;
	__u16 type = *(__u16 *)(data + 12);
	if (type == __builtin_bswap16(0x0800)) {
		protocol = *(__u8 *)(data + 23);
		if (*(__u8 *)(data + 14) != 0x45)
			goto other;
		ip6 = 0;
	} else if (type == __builtin_bswap16(0x86dd)) {
		if (data + 54 + SIG_END > end)
			goto other;
		protocol = *(__u8 *)(data + 20);
		ip6 = 1;
	} else {
		goto other;
	}
	void *above_ip = data + (ip6 ? 54 : 34);
	const int syn = protocol == 6 && *(__u16 *)(above_ip + TCP_WORD) == __builtin_bswap16(WEIR_SYN);
	if (!syn && protocol != 17)
		goto other;
	__u32 ip_bytes;
	if (ip6) {
		ip_bytes = 40 + __builtin_bswap16(*(__u16 *)(data + 18));
		/* addresses, length and protocol: the pseudo header */
		__u32 *w = data + 22;
		sum = (__u64)w[0] + w[1] + w[2] + w[3] + w[4] + w[5] + w[6] + w[7];
	} else {
		ip_bytes = __builtin_bswap16(*(__u16 *)(data + 16));
		__u16 *h = data + 14;
		if (fold((__u64)h[0] + h[1] + h[2] + h[3] + h[4] + h[5] + h[6] + h[7] + h[8] + h[9]) != 0xffff) {
			count(corrupted);
			return recv.pass ? XDP_PASS : XDP_DROP;
		}
		sum = (__u64)h[6] + h[7] + h[8] + h[9];
	}
	/* A frame may be padded beyond its IP length; one that is shorter is cut off or fragmented. */
	__u32 wire = bpf_xdp_get_buff_len(ctx);
	if (14 + ip_bytes > wire || ip_bytes < 46) {
		if (*(__u16 *)(above_ip + SIG_MAGIC) == WEIR_MAGIC)
			goto corrupted;
		goto other;
	}
	/* On an interface of the host, what is not ours is none of our business. */
	if (recv.pass && *(__u16 *)(above_ip + SIG_MAGIC) != WEIR_MAGIC)
		goto other;
	/* Padding is zero in our frames, and zero does not change the sum. */
	__u64 now = bpf_ktime_get_ns();
	__u16 above_ip_len = __builtin_bswap16((__u16)(ip_bytes - (ip6 ? 40 : 20)));
	sum += __builtin_bswap16(protocol) + above_ip_len + sum_from(ctx, ip6 ? 54 : 34, wire);
	if ((syn || *(__u16 *)(above_ip + 6) != 0) && fold(sum) != 0xffff)
		goto corrupted;
	if (*(__u16 *)(above_ip + SIG_MAGIC) != WEIR_MAGIC)
		goto other;

	__u16 origin = *(__u16 *)(above_ip + SIG_STREAM);
	if (origin != recv.origin) {
		int other_epoch = origin >> 8 != recv.origin >> 8;
		if (origin & SIG_BROADCAST) {
			if (recv.any || !other_epoch)
				count(broadcasts);
			return XDP_DROP;
		}
		if (!recv.any) {
			if (other_epoch)
				count(stale);
			else
				count(misdelivered);
			return XDP_DROP;
		}
	}
#ifdef WEIR_TRANSLATION
	if (!is_right(ctx, data, ip6, *(__u32 *)(above_ip + (syn ? TCP_SEQ : UDP_SEQ))))
		return XDP_DROP;
#endif
	/* A duplicate does not stand for a frame that is still under way. */
	int fresh = 1;
	if (!recv.reflect || recv.any)
		fresh = note(*(__u16 *)(above_ip + (syn ? TCP_GROUP : UDP_GROUP)),
			     *(__u32 *)(above_ip + (syn ? TCP_SEQ : UDP_SEQ)), *(__u64 *)(above_ip + SIG_TIME), now,
			     wire);
	if (fresh) {
		count(received);
		mark(now);
	}
	return recv.reflect ? reflect(ctx, data, ip6) : XDP_DROP;

corrupted:
	count(corrupted);
	return XDP_DROP;
other:
	count(other);
	return recv.pass ? XDP_PASS : XDP_DROP;
}
#endif

char LICENSE[] SEC("license") = "Dual MIT/GPL";
