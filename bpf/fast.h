/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * What the fast path of a node and its plane share. crates/port/src/fast/layout.rs mirrors every structure.
 */
#pragma once
#include <linux/types.h>

#define FAST_PORTS 16              /* most ports of a node that has one */
#define FAST_EPOCHS 3              /* the text, routes, neighbours */
#define FAST_TRACKS 2              /* stages that follow a connection of TCP */

/* Why a frame is left to the plane. */
enum fast_punt {
	PUNT_OFF,           /* the plane is about to change */
	PUNT_TYPE,          /* no IPv4, or it has a VLAN tag */
	PUNT_ADDRESS,       /* its Ethernet address is a group's, or not that of the router */
	PUNT_HEADER,        /* IP options, a wrong length or checksum */
	PUNT_FRAGMENT,
	PUNT_TTL,           /* no hop left */
	PUNT_PROTOCOL,      /* neither TCP nor UDP */
	PUNT_FLAGS,         /* it begins or ends a connection of TCP */
	PUNT_UNKNOWN,       /* no entry for it */
	PUNT_STALE,         /* what the entry depends on has changed */
	PUNT_EXPIRED,       /* the plane has to look again whether its session is over */
	PUNT_LONG,          /* longer than what may leave there */
	PUNT_PARTIAL,       /* its checksum may be unfinished */
	PUNT_REASONS,
};

/* What a flow is known by; addresses and ports in network order. */
struct fast_key {
	__u32 src;
	__u32 dst;
	__u16 sport;
	__u16 dport;
	__u8 port;           /* of the node */
	__u8 protocol;
	__u8 flags;          /* of TCP */
	__u8 keeps_whole;    /* may not be cut into fragments */
};

/* What is done to the frames of a flow. The first cache line is written by the plane before the key is, but for the two
 * fields that say whether it holds; the second one by the program. */
struct fast_entry {
	__u64 until_ns;               /* of CLOCK_MONOTONIC; 0: it is over */
	__u32 epochs[FAST_EPOCHS];    /* it holds as long as these are those of today */
	__u32 src;                    /* addresses and ports that it leaves with, in network order */
	__u32 dst;
	__u16 sport;
	__u16 dport;
	__u16 ip_delta;               /* what they add to the sums, in network order */
	__u16 transport_delta;
	__u16 most;                   /* longest packet, where it is routed */
	__u8 out;                     /* port of the node */
	__u8 is_routed;               /* it gets other Ethernet addresses and has a hop less to live */
	__u8 macs[12];                /* destination, source */
	__u32 track[FAST_TRACKS];     /* 0: none; else number * 2 + side + 1 */
	__u32 is_rewritten;
	__u64 frames;
	__u64 bytes;                  /* of packets */
	__u64 last_ns;                /* when the last one came */
	__u64 pad_line[5];
};

/* A connection of TCP as its stage follows it: see crates/plane/src/table/tcp.rs. By side. */
struct fast_track {
	__u32 sent[2];
	__u32 awaits[2];
	__u32 window[2];
	__u32 pad[2];
};

/* What holds for all entries. */
struct fast_control {
	__u32 epochs[FAST_EPOCHS];
	__u32 on;
	__u64 clock_ns;               /* the time, in tests; 0: that of the machine */
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
_Static_assert(sizeof(struct fast_entry) == 128, "layout.rs");
_Static_assert(sizeof(struct fast_track) == 32, "layout.rs");
_Static_assert(sizeof(struct fast_control) == 24, "layout.rs");
_Static_assert(sizeof(struct fast_counts) == 384, "layout.rs");
_Static_assert(sizeof(struct fast_port) == 24, "layout.rs");
_Static_assert((int)PUNT_REASONS <= FAST_PORTS, "punts");
