// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * Answers bpf(2) as an older kernel does, for a program that is started with this in LD_PRELOAD: for kernels of which there is
 * no package to boot. Compiled with -DKERNEL=515 (Ubuntu 22.04) or -DKERNEL=608 (Ubuntu 24.04): what came after it is refused.
 * Sources: kernel/bpf/{syscall,verifier,bpf_struct_ops}.c, net/bpf/test_run.c and include/net/tcp.h of those versions.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <linux/bpf.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

/* 5.15: bpf_trace_vprintk came with 5.16 as the next helper. */
#define LAST_HELPER 176
/* 5.18 */
#define XDP_HAS_FRAGS (1U << 5)
#define TEST_XDP_LIVE_FRAMES (1U << 1)
/* 6.4: before, operations were registered by an update of their map. */
#define STRUCT_OPS 44
#define STRUCT_OPS_LINK (1U << 13)
/* 6.10: before, `cong_control` of TCP had two arguments. */
#define ARGUMENTS_END 16

static int unknown_helper(const struct bpf_insn *insn)
{
	return insn->code == (BPF_JMP | BPF_CALL) && insn->src_reg == 0 && insn->imm > LAST_HELPER;
}

/* Reads its context, which r1 has until it is overwritten, behind the last argument that there is. */
static int reads_behind(const struct bpf_insn *insns, unsigned int count, int end)
{
	for (unsigned int i = 0; i < count; i++) {
		if (insns[i].code == (BPF_LDX | BPF_MEM | BPF_DW) && insns[i].src_reg == BPF_REG_1 && insns[i].off >= end)
			return insns[i].off;
		if (insns[i].dst_reg == BPF_REG_1)
			break;
	}
	return 0;
}

/* The error, once the program has its reason. */
static int logged(const union bpf_attr *attr, const char *format, int value, int error)
{
	if (attr->log_level && attr->log_size)
		snprintf((char *)(unsigned long)attr->log_buf, attr->log_size, format, value);
	return error;
}

static int program_refused(const union bpf_attr *attr)
{
	const struct bpf_insn *insns = (const struct bpf_insn *)(unsigned long)attr->insns;
	if (KERNEL < 518 && attr->prog_flags & XDP_HAS_FRAGS)
		return EINVAL;
	for (unsigned int i = 0; KERNEL < 516 && i < attr->insn_cnt; i++)
		if (unknown_helper(&insns[i]))
			return logged(attr, "invalid func unknown#%d\n", insns[i].imm, EINVAL);
	int offset = strcmp(attr->prog_name, "bbr_main") ? 0 : reads_behind(insns, attr->insn_cnt, ARGUMENTS_END);
	if (KERNEL < 610 && offset)
		return logged(attr, "func 'cong_control' doesn't have %d-th argument\n", offset / 8 + 1, EACCES);
	return 0;
}

/* The error, or 0 if this kernel has it. */
static int refused(int command, const union bpf_attr *attr)
{
	switch (command) {
	case BPF_PROG_TEST_RUN:
		return KERNEL < 518 && attr->test.flags & TEST_XDP_LIVE_FRAMES ? EINVAL : 0;
	case BPF_PROG_LOAD:
		return program_refused(attr);
	case BPF_MAP_CREATE:
		return KERNEL < 604 && attr->map_flags & STRUCT_OPS_LINK ? EINVAL : 0;
	case BPF_LINK_CREATE:
		return KERNEL < 604 && attr->link_create.attach_type == STRUCT_OPS ? EINVAL : 0;
	default:
		return 0;
	}
}

long syscall(long number, ...)
{
	static long (*next)(long, ...);
	long a[6];
	va_list list;
	va_start(list, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(list, long);
	va_end(list);
	if (!next)
		next = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
	int error = number == SYS_bpf ? refused((int)a[0], (const union bpf_attr *)a[1]) : 0;
	if (error) {
		errno = error;
		return -1;
	}
	return next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
