/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * TCP connections without sockets: how their segments look, which generator, responder and initiator agree on.
 *
 *   initiator [a]                    responder [b]
 *     SYN                c 0   -->                        MSS and window scale
 *                              <--   SYN, ACK     s 0     the same
 *     ACK, 8 bytes       c 1   -->                        a connection that is held: ACK alone
 *                              <--   ACK, 8 bytes s 1
 *     FIN, ACK           c 9   -->                        a connection that is held: ACK
 *                              <--   FIN, ACK     s 9
 *     ACK                c 10  -->
 *
 * Connection n begins with the sequence number salt + 256 n, and the responder with a number that follows from it: so each
 * end knows from any segment which connection it is of, and which numbers are right. Options are as long as the data, so
 * that an answer is never longer than what it answers.
 *
 * The urgent pointer, which means nothing without URG, has the time of the first segment, in units of 1024 ns.
 */
#pragma once
#include "weir.h"

#define TCP_FIN 0x01
#define TCP_SYN 0x02
#define TCP_RST 0x04
#define TCP_PSH 0x08
#define TCP_ACK 0x10
#define TCP_FLAGS 0x3f

#define TCP_HEADERS 54             /* Ethernet, IPv4, TCP */
#define TCP_EXTRA 8                /* options of a SYN, or data */
#define TCP_LONGEST (TCP_HEADERS + TCP_EXTRA)
#define TCP_MSS 0x020405b4         /* maximum segment size 1460 */
#define TCP_SCALE 0x01030307       /* nothing, window scale 7 */
#define TCP_AFTER_SYN 1            /* offsets of sequence numbers */
#define TCP_AFTER_DATA (TCP_AFTER_SYN + TCP_EXTRA)
#define TCP_AFTER_FIN (TCP_AFTER_DATA + 1)

/* First sequence number of an initiator, and of the responder that answers it; the last 8 bits are zero. */
static __always_inline __u32 tcp_isn(__u32 number, __u32 salt)
{
	return (number << 8) + salt;
}

static __always_inline __u32 tcp_answer_isn(__u32 isn)
{
	return isn * 0x9e3779b1U;
}

static __always_inline __u16 tcp_time(__u64 ns)
{
	return ns >> 10;
}

/* Completes a segment whose Ethernet header, addresses and ports are there: length, hop limit and checksum of IPv4, and
 * all of TCP behind the ports. The caller has found room for the headers; returns 0 where options or data have none. */
static __always_inline int tcp_write(void *data, void *end, __u8 flags, __u32 seq, __u32 ack, __u16 time)
{
	const int extra = flags & (TCP_SYN | TCP_PSH);
	__u16 tcp_bytes = TCP_HEADERS - 34 + (extra ? TCP_EXTRA : 0);
	__u16 *ip = data + 14, *tcp = data + 34;

	ip[1] = __builtin_bswap16(20 + tcp_bytes);
	*(__u8 *)(data + 22) = 64;
	ip[5] = 0;
	ip[5] = ~fold((__u64)ip[0] + ip[1] + ip[2] + ip[3] + ip[4] + ip[6] + ip[7] + ip[8] + ip[9]);

	*(__u32 *)(tcp + 2) = __builtin_bswap32(seq);
	*(__u32 *)(tcp + 4) = __builtin_bswap32(ack);
	tcp[6] = __builtin_bswap16((flags & TCP_SYN ? 0x7000 : 0x5000) | flags);
	tcp[7] = 0xffff;
	tcp[8] = 0;
	tcp[9] = time;
	__u64 sum = __builtin_bswap16(6) + __builtin_bswap16(tcp_bytes) + (__u64)ip[6] + ip[7] + ip[8] + ip[9];
	sum += (__u64)tcp[0] + tcp[1] + tcp[2] + tcp[3] + tcp[4] + tcp[5] + tcp[6] + tcp[7] + tcp[9];
	if (data + TCP_LONGEST <= end) {
		__u32 *last = data + TCP_HEADERS;
		last[0] = flags & TCP_SYN ? __builtin_bswap32(TCP_MSS) : 0;
		last[1] = flags & TCP_SYN ? __builtin_bswap32(TCP_SCALE) : 0;
		sum += (__u64)last[0] + last[1];
	} else if (extra) {
		return 0;
	}
	tcp[8] = ~fold(sum);
	return 1;
}
