// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * BBR version 3, by the rules of draft-ietf-ccwg-bbr; the same as in the simulator.
 */
/* 2.77 and 2.0 */
#define STARTUP_PACING_GAIN 709
#define STARTUP_CWND_GAIN 512
#define STARTUP_LOSS_EVENTS 6
/* The path is full when samples do not grow. */
#define PLATEAU_OF_MAX_BW 0
/* 0.5, for three round trips at most */
#define DRAIN_GAIN 128
#define DRAIN_ROUNDS 3
/* 0.9 and 2.25 */
#define DOWN_GAIN 230
#define UP_CWND_GAIN 576
/* The probe upward ends with a plateau. */
#define UP_ENDS_AT_GAIN 0

#include "bbr.h"

SEC(".struct_ops.link")
struct tcp_congestion_ops control = { .name = "weir_bbr3", BBR_OPERATIONS };
