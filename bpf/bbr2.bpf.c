// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * BBR version 2: the rules of 2019 (google/bbr, branch v2alpha) on the engine of version 3; the same as in the
 * simulator.
 */
/* 2.885 */
#define STARTUP_PACING_GAIN 739
#define STARTUP_CWND_GAIN 739
#define STARTUP_LOSS_EVENTS 8
/* The path is full when the largest bandwidth of the window does not grow. */
#define PLATEAU_OF_MAX_BW 1
/* 0.347, until the queue is empty */
#define DRAIN_GAIN 89
#define DRAIN_ROUNDS 0
/* 0.75 and 2.0 */
#define DOWN_GAIN 192
#define UP_CWND_GAIN 512
/* The probe upward ends with 1.25 bandwidth-delay products in flight. */
#define UP_ENDS_AT_GAIN 320

#include "bbr.h"

SEC(".struct_ops.link")
struct tcp_congestion_ops control = { .name = "weir_bbr2", BBR_OPERATIONS };
