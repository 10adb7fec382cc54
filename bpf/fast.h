/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * What the fast path of a node and its plane share. crates/port/src/fast/layout.rs mirrors every structure.
 */
#pragma once
#include <linux/types.h>

#define FAST_PORTS 16              /* most ports of a node that has one */
#define FAST_TRACKS 2              /* stages that follow a connection of TCP */
#define FAST_SLOTS 8               /* entries that a bucket leads to: one cache line of slots */

/* Why a frame is left to the plane. */
enum fast_punt {
	PUNT_OFF,           /* the plane is about to change */
	PUNT_TYPE,          /* no IP, or it has a VLAN tag */
	PUNT_ADDRESS,       /* its Ethernet address is a group's, or not that of the router */
	PUNT_HEADER,        /* options of IPv4, a wrong length or checksum */
	PUNT_FRAGMENT,
	PUNT_TTL,           /* no hop left */
	PUNT_PROTOCOL,      /* neither TCP nor UDP, or extension headers before it */
	PUNT_FLAGS,         /* it begins or ends a connection of TCP */
	PUNT_UNKNOWN,       /* no entry for it */
	PUNT_STALE,         /* what the entry depends on has changed */
	PUNT_EXPIRED,       /* the plane has to look again whether its session is over */
	PUNT_LONG,          /* longer than what may leave there */
	PUNT_PARTIAL,       /* its checksum may be unfinished */
	PUNT_REASONS,
};

/* Packets of a flow. */
#define KIND_V4 0
#define KIND_V4_WHOLE 1            /* they may not be cut into fragments */
#define KIND_V6 2

/* What a flow is known by; addresses and ports in network order. Of IPv6 it has hashes of the addresses: see fast_wide. */
struct fast_key {
	__u32 src;
	__u32 dst;
	__u16 sport;
	__u16 dport;
	__u8 port;           /* of the node */
	__u8 protocol;
	__u8 flags;          /* of TCP */
	__u8 kind;
} __attribute__((aligned(8)));

/* Where entries are found that are not where their hash says, see fast_place: each key has two buckets, which a part of its hash
 * says. A slot is that part in the upper half and the number of the entry + 1 in the lower one; 0: free. The plane writes a slot
 * at once, so that the program sees it whole. */
struct fast_bucket {
	__u64 slot[FAST_SLOTS];
};

#define IS_ROUTED 1                /* it gets other Ethernet addresses and has a hop less to live */
#define IS_REWRITTEN 2             /* it gets other addresses or ports */
#define IS_FOLLOWED 4              /* it is of a connection that stages follow: see fast_sides */
#define IS_ENDLESS 8               /* it holds whatever the time is */
#define IS_OVER 16                 /* it holds no more */

/* What is done to the frames of a flow, in one cache line: each frame waits for one. The program writes `used` and `last`, the
 * plane the rest: `until` and `flags` at any time, all else while it is IS_OVER. */
struct fast_entry {
	struct fast_key key;
	__u64 used;                   /* bytes of packets, and FAST_FRAME for each: counted at once */
	__u32 last;                   /* tick when the last one came, as far as the clock of programs knows */
	__u32 until;                  /* tick when it holds no more */
	__u32 epoch;                  /* it holds as long as this is that of today */
	__u32 src;                    /* addresses and ports that it leaves with, in network order */
	__u32 dst;
	__u16 sport;
	__u16 dport;
	__u8 macs[12];                /* destination, source */
	__u16 most;                   /* longest packet, where it is routed */
	__u8 out;                     /* port of the node */
	__u8 flags;
};

/* Connections that the frames of an entry belong to, by the number of the entry. */
struct fast_sides {
	__u32 track[FAST_TRACKS];     /* 0: none; else number * 2 + side + 1 */
};

/* Addresses of a flow of IPv6, by the number of its entry: two flows may have the same hashes. */
struct fast_wide {
	__u64 src[2];
	__u64 dst[2];
};

/* Nanoseconds of a tick, as a power of two: those of the plane's sessions (table/timers.rs). Ticks begin anew after 52 days. */
#define FAST_TICK 20

/* A frame in `used`: what bytes there are between two looks of the plane is less. */
#define FAST_FRAME (1ULL << 36)

/* A connection of TCP as its stage follows it: see crates/plane/src/table/tcp.rs. By side. */
struct fast_track {
	__u32 sent[2];
	__u32 awaits[2];
	__u32 window[2];
	__u32 pad[2];
};

/* What holds for all entries. */
struct fast_control {
	__u32 epoch;
	__u32 on;
	__u64 clock_ns;               /* the time, in tests; 0: that of the machine */
	__u64 start_ns;               /* when ticks began */
	__u64 seed;                   /* of hashes: nobody outside knows which keys share a bucket */
	__u32 mask;                   /* buckets - 1; a power of two less one */
	__u32 room;                   /* entries that there is room for */
};

/* By CPU. */
struct fast_counts {
	__u64 received[FAST_PORTS];
	__u64 sent[FAST_PORTS];
	__u64 punts[FAST_PORTS];      /* by reason */
};

/* The port that a program is attached to. */
struct fast_port {
	__u32 number;
	__u32 checks_partial;         /* frames may come with an unfinished checksum */
	__u32 is_router;
	__u8 mac[8];
	__u32 pad;
};

_Static_assert(sizeof(struct fast_key) == 16, "layout.rs");
_Static_assert(sizeof(struct fast_entry) == 64, "layout.rs");
_Static_assert(sizeof(struct fast_track) == 32, "layout.rs");
_Static_assert(sizeof(struct fast_sides) == 8, "layout.rs");
_Static_assert(sizeof(struct fast_wide) == 32, "layout.rs");
_Static_assert(sizeof(struct fast_control) == 40, "layout.rs");
_Static_assert(sizeof(struct fast_bucket) == 64, "layout.rs");
_Static_assert(sizeof(struct fast_counts) == 384, "layout.rs");
_Static_assert(sizeof(struct fast_port) == 24, "layout.rs");
_Static_assert((int)PUNT_REASONS <= FAST_PORTS, "punts");

/* Of 16 bytes: of a key it is what stands in its slot, and says its buckets: this one and fast_other. crates/port/src/fast/index.rs
 * does the same. */
static inline __attribute__((always_inline)) __u32 fast_hash(const void *bytes, __u64 seed)
{
	const __u64 *words = bytes;
	__u64 hash = (words[0] ^ seed) * 0x9e3779b97f4a7c15ULL;
	hash = (hash ^ hash >> 32 ^ words[1]) * 0xbf58476d1ce4e5b9ULL;
	hash = (hash ^ hash >> 29) * 0x94d049bb133111ebULL;
	return (__u32)(hash ^ hash >> 32);
}

/* The entry that a key has if that was free when it came. Nine of ten have, where an eighth of the room is used: their frames do
 * not wait for a bucket. */
static inline __attribute__((always_inline)) __u32 fast_place(__u32 hash, __u32 room)
{
	return (__u64)hash * room >> 32;
}

static inline __attribute__((always_inline)) __u32 fast_other(__u32 hash)
{
	return (__u32)(hash * 0x9e3779b97f4a7c15ULL >> 32);
}
