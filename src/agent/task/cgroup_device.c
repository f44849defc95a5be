/* SPDX-License-Identifier: Apache-2.0 */
/* cgroup_device.c - see cgroup_device.h.
 *
 * The context of the program holds the access (access type << 16 | device type), major and minor. NVIDIA's driver has
 * the character major 195; minors up to 253 are GPUs, 254 and 255 are common to all. The program in words:
 *
 *   if type != character or major != 195 or minor > 253: allow
 *   if minor is one of the given: allow, else refuse
 *
 * AMD's GPUs are devices of the kernel's DRM (226): renderD128 and so on, with the number as minor, and cardN, which
 * nobody needs to compute. /dev/kfd is common to all; the driver asks this program too before it gives a process what
 * belongs to a GPU's render node.
 */
#include "agent/task/cgroup_device.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/task/cgroup.h"

enum { NVIDIA_MINOR_MAX = 253, DRM_MINOR_MAX = 0xfffff, PROGRAM_MAX = 320, MINORS_MAX = 128 };

static long bpf(int command, union bpf_attr *attr)
{
    return syscall(SYS_bpf, command, attr, sizeof(*attr));
}

/* Registers are fields of four bits. */
static struct bpf_insn insn_of(int code, unsigned int reg, int16_t offset, int32_t value)
{
    struct bpf_insn insn = { .code = (uint8_t)code, .off = offset, .imm = value };

    insn.dst_reg = reg & 15U;
    return insn;
}

static struct bpf_insn load_word(unsigned int into, int16_t offset)
{
    struct bpf_insn insn = insn_of(BPF_LDX | BPF_MEM | BPF_W, into, offset, 0);

    insn.src_reg = 1;
    return insn;
}

static struct bpf_insn jump_if(int op, unsigned int reg, int32_t value, int16_t over)
{
    return insn_of(BPF_JMP | op | BPF_K, reg, over, value);
}

static struct bpf_insn set_value(unsigned int reg, int32_t value)
{
    return insn_of(BPF_ALU64 | BPF_MOV | BPF_K, reg, 0, value);
}

static uint32_t program_write(struct bpf_insn *insn, bool amd, const int *minors, uint32_t count)
{
    const struct bpf_insn leave = { .code = BPF_JMP | BPF_EXIT };
    uint32_t n = 0;

    insn[n++] = load_word(2, offsetof(struct bpf_cgroup_dev_ctx, access_type));
    insn[n++] = (struct bpf_insn){ .code = BPF_ALU64 | BPF_AND | BPF_K, .dst_reg = 2, .imm = 0xffff };
    insn[n++] = load_word(3, offsetof(struct bpf_cgroup_dev_ctx, major));
    insn[n++] = load_word(4, offsetof(struct bpf_cgroup_dev_ctx, minor));
    insn[n++] = set_value(0, 1);
    insn[n++] = jump_if(BPF_JEQ, 2, BPF_DEVCG_DEV_CHAR, 1);
    insn[n++] = leave;
    insn[n++] = jump_if(BPF_JEQ, 3, amd ? MAJOR_DRM : MAJOR_NVIDIA, 1);
    insn[n++] = leave;
    insn[n++] = jump_if(BPF_JLE, 4, amd ? DRM_MINOR_MAX : NVIDIA_MINOR_MAX, 1);
    insn[n++] = leave;
    for (uint32_t i = 0; i < count; i++) {
        insn[n++] = jump_if(BPF_JNE, 4, minors[i], 1);
        insn[n++] = leave;
    }
    insn[n++] = set_value(0, 0);
    insn[n++] = leave;
    return n;
}

static int program_load(bool amd, const int *minors, uint32_t count)
{
    struct bpf_insn program[PROGRAM_MAX];
    union bpf_attr attr = { 0 };
    long fd;

    if (count > MINORS_MAX)
        return -E2BIG;
    attr.prog_type = BPF_PROG_TYPE_CGROUP_DEVICE;
    attr.insns = (uint64_t)(uintptr_t)program;
    attr.insn_cnt = program_write(program, amd, minors, count);
    attr.license = (uint64_t)(uintptr_t) "Apache-2.0";
    fd = bpf(BPF_PROG_LOAD, &attr);
    return fd < 0 ? -errno : (int)fd;
}

int cgroup_device_fence(const char *path, bool amd, const int *minors, uint32_t count)
{
    union bpf_attr attr = { 0 };
    int program = program_load(amd, minors, count), group, r = 0;

    if (program < 0)
        return program;
    group = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (group < 0) {
        r = -errno;
        close(program);
        return r;
    }
    attr.target_fd = (uint32_t)group;
    attr.attach_bpf_fd = (uint32_t)program;
    attr.attach_type = BPF_CGROUP_DEVICE;
    attr.attach_flags = BPF_F_ALLOW_MULTI;
    if (bpf(BPF_PROG_ATTACH, &attr) < 0)
        r = -errno;
    close(group);
    close(program);
    return r;
}

bool cgroup_device_works(const char *path)
{
    return cgroup_device_fence(path, false, NULL, 0) == 0;
}
