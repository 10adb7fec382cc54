// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * The fast path of a node. Frames of flows that the plane has made an entry for are rewritten here and leave by the port
 * that the entry names; all others go on to the plane, by the socket of their receive queue, as they came.
 *
 *   frame > key > entry that holds > rewritten, counted > port
 *               > none             > plane, counted by reason
 *
 * Each port of the node has an instance of this program; all of them share the maps but for `sockets`.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "weir.h"
#include "fast.h"

struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} sockets SEC(".maps");

/* Interfaces of the ports. */
struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, FAST_PORTS);
	__type(key, __u32);
	__type(value, __u32);
} outs SEC(".maps");

/* Which entry a key has: a hash that the plane writes by itself, in no more memory than its entries need. A map of the
 * kernel's takes a call for each lookup and a cache miss more. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct fast_bucket);
} buckets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct fast_entry);
} entries SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct fast_sides);
} sides SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct fast_wide);
} wides SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct fast_track);
} tracks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct fast_control);
} control SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct fast_counts);
} counts SEC(".maps");

struct fast_port port;

#define swap16(word) ((__u16)__builtin_bswap16(word))

/* RFC 1624, equation 3; `delta` is what all changes add to the sum. */
static __always_inline __u16 changed(__u16 check, __u64 delta)
{
	return ~fold((__u64)(__u16)~check + delta);
}

/* What a word of 2 or 4 bytes adds that comes in the place of another one: 2^32 - 1 is a multiple of 2^16 - 1. */
static __always_inline __u64 delta_of(__u32 before, __u32 after)
{
	return (__u64)(__u32)~before + after;
}

/* Where packets and their fields are in a frame. Offsets are constants wherever they are used, so that the verifier sees them. */
#define IP 14
#define V4_ADDRESSES (IP + 12)
#define V6_ADDRESSES (IP + 8)
#define V4_TRANSPORT (IP + 20)
#define V6_TRANSPORT (IP + 40)
#define UDP 8
#define TCP 20

/* Does the field hold the sum of the pseudo header alone? Then the sender left it to a network card. */
static __always_inline int looks_partial(void *data, const __u32 at, const __u8 protocol, __u32 bytes)
{
	__u64 sum = swap16(protocol) + swap16(bytes);
	for (__u32 from = at == V4_TRANSPORT ? V4_ADDRESSES : V6_ADDRESSES; from < at; from += 4)
		sum += *(__u32 *)(data + from);
	__u16 field = *(__u16 *)(data + at + (protocol == 6 ? 16 : 6));
	if (protocol == 17) {
		__u16 to = *(__u16 *)(data + at + 2);
		/* Of a packet in a tunnel that checksum may be unfinished, too. */
		if (to == swap16(4789) || to == swap16(6081))
			return 1;
		if (!field)
			return 0;
	}
	__u16 partial = fold(sum);
	return field == partial || (!field && partial == 0xffff);
}

/* What a plain segment says of its connection: Track::advance. Frames of a side come one after the other, so that nobody
 * else writes its fields. */
static __always_inline void advance(__u32 code, __u32 seq, __u32 ack, __u32 bytes, __u16 window, __u8 flags)
{
	__u32 number = (code - 1) >> 1, here = (code - 1) & 1, there = here ^ 1;
	struct fast_track *track = bpf_map_lookup_elem(&tracks, &number);
	if (!track)
		return;
	if ((__s32)(seq + bytes - track->sent[here]) > 0)
		track->sent[here] = seq + bytes;
	if (flags & 0x10 && (__s32)(ack - track->awaits[here]) >= 0 && (__s32)(ack - track->sent[there]) <= 0) {
		track->awaits[here] = ack;
		track->window[here] = window;
	}
}

/* The connections of an entry go on by a segment of so many bytes. */
static __always_inline void follow(__u32 number, void *data, const __u32 at, __u32 bytes)
{
	struct fast_sides *of = bpf_map_lookup_elem(&sides, &number);
	if (!of)
		return;
	__u8 *tcp = data + at;
	__u32 seq = __builtin_bswap32(*(__u32 *)(tcp + 4)), ack = __builtin_bswap32(*(__u32 *)(tcp + 8));
	bytes -= (tcp[12] >> 4) * 4;
	__u16 window = swap16(*(__u16 *)(tcp + 14));
	for (int i = 0; i < FAST_TRACKS; i++)
		if (of->track[i])
			advance(of->track[i], seq, ack, bytes, window, tcp[13]);
}

/* Writes what the entry says over the headers. The protocol is a constant, so that the verifier sees where the checksum is. */
static __always_inline void rewrite(const struct fast_key *key, const struct fast_entry *entry, void *data, const __u8 protocol)
{
	__u16 *ip_check = data + 24, *check = data + (protocol == 6 ? 50 : 40), *ttl = data + 22;
	__u64 ip_delta = 0;
	if (entry->flags & IS_REWRITTEN) {
		*(__u32 *)(data + 26) = entry->src;
		*(__u32 *)(data + 30) = entry->dst;
		*(__u16 *)(data + 34) = entry->sport;
		*(__u16 *)(data + 36) = entry->dport;
		ip_delta = delta_of(key->src, entry->src) + delta_of(key->dst, entry->dst);
		__u64 transport_delta = ip_delta + delta_of(key->sport, entry->sport) + delta_of(key->dport, entry->dport);
		/* Zero in UDP says that there is none, and is sent as all ones where it comes out. */
		if (protocol == 6) {
			*check = changed(*check, transport_delta);
		} else if (*check) {
			__u16 sum = changed(*check, transport_delta);
			*check = sum ? sum : 0xffff;
		}
	}
	if (entry->flags & IS_ROUTED) {
		__u16 before = *ttl, after = (before & 0xff00) | ((before - 1) & 0xff);
		*ttl = after;
		ip_delta += delta_of(before, after);
		__builtin_memcpy(data, entry->macs, 12);
	}
	if (ip_delta)
		*ip_check = changed(*ip_check, ip_delta);
}

/* The ports, and the flags of TCP, of a transport of so many bytes, the first 8 of which are in the frame; a reason if frames like
 * it have no entry. */
static __always_inline int read_transport(void *data, void *end, const __u32 at, __u32 bytes, struct fast_key *key)
{
	if (key->protocol == 6) {
		if (data + at + TCP > end)
			return PUNT_HEADER;
		__u32 header = (*(__u8 *)(data + at + 12) >> 4) * 4;
		if (header < TCP || header > bytes)
			return PUNT_HEADER;
		key->flags = *(__u8 *)(data + at + 13);
		if (key->flags & 0x07)
			return PUNT_FLAGS;
		if (port.checks_partial && looks_partial(data, at, 6, bytes))
			return PUNT_PARTIAL;
	} else if (key->protocol == 17) {
		if (port.checks_partial && looks_partial(data, at, 17, bytes))
			return PUNT_PARTIAL;
	} else {
		return PUNT_PROTOCOL;
	}
	key->sport = *(__u16 *)(data + at);
	key->dport = *(__u16 *)(data + at + 2);
	return -1;
}

/* The key of a packet, and its length; a reason if such packets have no entry. */
static __always_inline int read4(void *data, void *end, struct fast_key *key, __u32 *total)
{
	if (data + V4_TRANSPORT + UDP > end)
		return PUNT_HEADER;
	__u64 sum = (__u64)*(__u16 *)(data + 14) + *(__u16 *)(data + 16) + *(__u32 *)(data + 18) +
		    *(__u32 *)(data + 22) + *(__u32 *)(data + 26) + *(__u32 *)(data + 30);
	__u32 bytes = swap16(*(__u16 *)(data + 16));
	if (*(__u8 *)(data + IP) != 0x45 || fold(sum) != 0xffff || bytes < 28 || bytes + IP > (__u32)(end - data))
		return PUNT_HEADER;
	__u16 place = swap16(*(__u16 *)(data + 20));
	if (place & 0x3fff)
		return PUNT_FRAGMENT;
	if (*(__u8 *)(data + 22) <= 1)
		return PUNT_TTL;
	key->src = *(__u32 *)(data + V4_ADDRESSES);
	key->dst = *(__u32 *)(data + V4_ADDRESSES + 4);
	key->protocol = *(__u8 *)(data + 23);
	key->kind = place & 0x4000 ? KIND_V4_WHOLE : KIND_V4;
	*total = bytes;
	return read_transport(data, end, V4_TRANSPORT, bytes - 20, key);
}

static __always_inline int read6(void *data, void *end, struct fast_key *key, __u32 *total, __u64 seed)
{
	if (data + V6_TRANSPORT + UDP > end)
		return PUNT_HEADER;
	__u32 bytes = swap16(*(__u16 *)(data + 18));
	if (*(__u8 *)(data + IP) >> 4 != 6 || bytes < UDP || bytes + V6_TRANSPORT > (__u32)(end - data))
		return PUNT_HEADER;
	if (*(__u8 *)(data + 21) <= 1)
		return PUNT_TTL;
	key->src = fast_hash(data + V6_ADDRESSES, seed);
	key->dst = fast_hash(data + V6_ADDRESSES + 16, seed);
	key->protocol = *(__u8 *)(data + 20);
	key->kind = KIND_V6;
	*total = bytes + 40;
	return read_transport(data, end, V6_TRANSPORT, bytes, key);
}

static __always_inline int read(void *data, void *end, struct fast_key *key, __u32 *total, __u64 seed)
{
	if (data + IP > end)
		return PUNT_TYPE;
	__u16 type = *(__u16 *)(data + 12);
	if (type != swap16(0x0800) && type != swap16(0x86dd))
		return PUNT_TYPE;
	if (port.is_router) {
		if (*(__u32 *)data != *(__u32 *)port.mac || *(__u16 *)(data + 4) != *(__u16 *)(port.mac + 4))
			return PUNT_ADDRESS;
	} else if (*(__u8 *)data & 1) {
		return PUNT_ADDRESS;
	}
	key->port = port.number;
	key->flags = 0;
	return type == swap16(0x0800) ? read4(data, end, key, total) : read6(data, end, key, total, seed);
}

static __always_inline int has_key(const struct fast_entry *entry, const struct fast_key *key)
{
	const __u64 *own = (const __u64 *)&entry->key, *words = (const __u64 *)key;
	return own[0] == words[0] && own[1] == words[1];
}

/* The entry that one of a bucket's slots leads to, and its number. */
static __always_inline struct fast_entry *in_bucket(const struct fast_key *key, __u32 index, __u32 part, __u32 *of)
{
	struct fast_bucket *bucket = bpf_map_lookup_elem(&buckets, &index);
	if (!bucket)
		return 0;
	for (int i = 0; i < FAST_SLOTS; i++) {
		__u64 slot = *(volatile __u64 *)&bucket->slot[i];
		if (slot >> 32 != part)
			continue;
		__u32 number = (__u32)slot - 1;
		struct fast_entry *entry = bpf_map_lookup_elem(&entries, &number);
		if (entry && has_key(entry, key)) {
			*of = number;
			return entry;
		}
	}
	return 0;
}

static __always_inline struct fast_entry *find(const struct fast_key *key, const struct fast_control *all, __u32 *number)
{
	__u32 hash = fast_hash(key, all->seed), mask = *(volatile __u32 *)&all->mask;
	*number = fast_place(hash, all->room);
	struct fast_entry *entry = bpf_map_lookup_elem(&entries, number);
	/* One that holds no more may have another one in its place. */
	if (entry && has_key(entry, key) && !(*(volatile __u8 *)&entry->flags & IS_OVER))
		return entry;
	entry = in_bucket(key, hash & mask, hash, number);
	return entry ? entry : in_bucket(key, fast_other(hash) & mask, hash, number);
}

/* Whether the addresses of a packet of IPv6 are those of an entry. */
static __always_inline int has_addresses(void *data, __u32 number)
{
	struct fast_wide *wide = bpf_map_lookup_elem(&wides, &number);
	const __u64 *own = (const __u64 *)wide, *words = data + V6_ADDRESSES;
	return wide && own[0] == words[0] && own[1] == words[1] && own[2] == words[2] && own[3] == words[3];
}

/* Whether an entry holds now, for a packet of this length. */
static __always_inline int holds(const struct fast_entry *entry, const struct fast_control *all, __u32 now, __u32 bytes)
{
	__u8 flags = *(volatile __u8 *)&entry->flags;
	if (entry->epoch != *(volatile __u32 *)&all->epoch)
		return PUNT_STALE;
	if (flags & IS_OVER || (!(flags & IS_ENDLESS) && (__s32)(now - *(volatile __u32 *)&entry->until) >= 0))
		return PUNT_EXPIRED;
	if (flags & IS_ROUTED && bytes > entry->most)
		return PUNT_LONG;
	return -1;
}

static __always_inline int leave_to_plane(struct xdp_md *ctx, struct fast_counts *count, int reason)
{
	count->punts[reason & (FAST_PORTS - 1)]++;
	return bpf_redirect_map(&sockets, ctx->rx_queue_index, XDP_PASS);
}

/* Does to a packet what its entry says; a reason if it cannot. */
static __always_inline int pass4(void *data, void *end, const struct fast_key *key, const struct fast_entry *entry, __u32 number,
				 __u32 bytes)
{
	if (key->protocol == 6) {
		if (data + V4_TRANSPORT + TCP > end)
			return PUNT_HEADER;
		if (entry->flags & IS_FOLLOWED)
			follow(number, data, V4_TRANSPORT, bytes - 20);
		rewrite(key, entry, data, 6);
	} else {
		rewrite(key, entry, data, 17);
	}
	return -1;
}

static __always_inline int pass6(void *data, void *end, const struct fast_key *key, const struct fast_entry *entry, __u32 number,
				 __u32 bytes)
{
	/* As read6 has seen; older verifiers forget it. */
	if (data + V6_TRANSPORT + UDP > end)
		return PUNT_HEADER;
	if (!has_addresses(data, number))
		return PUNT_UNKNOWN;
	if (key->protocol == 6 && entry->flags & IS_FOLLOWED) {
		if (data + V6_TRANSPORT + TCP > end)
			return PUNT_HEADER;
		follow(number, data, V6_TRANSPORT, bytes - 40);
	}
	if (entry->flags & IS_ROUTED) {
		(*(__u8 *)(data + 21))--;
		__builtin_memcpy(data, entry->macs, 12);
	}
	return -1;
}

static __always_inline int pass(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct fast_key key;
	__u32 zero = 0, cpu = bpf_get_smp_processor_id(), bytes = 0, number = 0;
	struct fast_control *all = bpf_map_lookup_elem(&control, &zero);
	struct fast_counts *count = bpf_map_lookup_elem(&counts, &cpu);
	if (!all || !count)
		return bpf_redirect_map(&sockets, ctx->rx_queue_index, XDP_PASS);
	if (!*(volatile __u32 *)&all->on)
		return leave_to_plane(ctx, count, PUNT_OFF);
	int reason = read(data, end, &key, &bytes, all->seed);
	if (reason >= 0)
		return leave_to_plane(ctx, count, reason);
	struct fast_entry *entry = find(&key, all, &number);
	if (!entry)
		return leave_to_plane(ctx, count, PUNT_UNKNOWN);
	/* That of the last tick of the kernel's clock: to ask the machine takes longer than to find the entry. */
	__u32 now = ((all->clock_ns ? all->clock_ns : bpf_ktime_get_coarse_ns()) - all->start_ns) >> FAST_TICK;
	reason = holds(entry, all, now, bytes);
	if (reason >= 0)
		return leave_to_plane(ctx, count, reason);
	if (key.kind == KIND_V6)
		reason = pass6(data, end, &key, entry, number, bytes);
	else
		reason = pass4(data, end, &key, entry, number, bytes);
	if (reason >= 0)
		return leave_to_plane(ctx, count, reason);
	__sync_fetch_and_add(&entry->used, FAST_FRAME + bytes);
	entry->last = now;
	__u32 out = entry->out & (FAST_PORTS - 1);
	count->received[key.port & (FAST_PORTS - 1)]++;
	count->sent[out]++;
	return bpf_redirect_map(&outs, out, 0);
}

#ifndef FAST_BENCH
SEC("xdp")
int fast(struct xdp_md *ctx)
{
	return pass(ctx);
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
#endif
