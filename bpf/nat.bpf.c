// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * The frame receiver behind a NAT: counts, times and reflects as recv.bpf.c does, and checks of each frame that it is
 * translated as it should be.
 */
#define WEIR_TRANSLATION
#include "recv.bpf.c"
