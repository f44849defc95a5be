/* SPDX-License-Identifier: Apache-2.0 */
/* slice.c - the hardware time slice of this process, by the kernel driver's own control call.
 *
 * The only file that knows the ioctl interface of the open GPU kernel modules. It watches allocations of channel groups
 * (class 0xA06C) go by and changes nothing on their way; later it sets the slice of those groups with the same
 * descriptor. The interface is public source but not a promise, so: an allow list of driver branches, a read-back after
 * each first set, and off for good at the first disagreement. Everything works without it, less well.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "shim/kernel.h"
#include "shim/shim.h"

EXPORT int ioctl(int fd, unsigned long request, ...);

#define RM_TYPE 'F'
#define RM_FREE 0x29
#define RM_CONTROL 0x2A
#define RM_ALLOC 0x2B
#define RM_TRANSFER 211
#define CLASS_CHANNEL_GROUP 0xA06Cu
#define CMD_SET_SLICE 0xA06C0103u
#define CMD_GET_SLICE 0xA06C0104u
#define GROUPS 64
#define ENGINE_COPY_FIRST 9u /* engine types from here on are copy engines; graphics is 1 */

struct rm_alloc { /* the common head of both forms of the call */
    uint32_t root, parent, object, class;
    uint64_t params;
};
struct rm_alloc_short { /* 32 bytes */
    struct rm_alloc head;
    uint32_t params_size, status;
};
struct rm_alloc_long { /* 48 bytes */
    struct rm_alloc head;
    uint64_t rights;
    uint32_t params_size, flags, status, pad;
};
struct rm_free {
    uint32_t root, parent, object, status;
};
struct rm_control {
    uint32_t client, object, cmd, flags;
    uint64_t params;
    uint32_t params_size, status;
};
struct rm_transfer {
    uint32_t cmd, size;
    uint64_t ptr;
};
struct group_params {
    uint32_t error, ecc, vaspace, engine;
};

static struct {
    int fd;
    uint32_t client, object, engine;
    uint64_t first_us; /* what it had before us; 0 = not read */
} groups[GROUPS];
static _Atomic uint32_t lock, off, current_us;
static _Atomic uint32_t count;

typedef int (*ioctl_fn)(int, unsigned long, ...);
static ioctl_fn ioctl_real(void)
{
    static _Atomic uintptr_t fn;

    if (!atomic_load(&fn))
        atomic_store(&fn, (uintptr_t)resolve_next("ioctl"));
    return (ioctl_fn)atomic_load(&fn);
}

static bool branch_allowed(void)
{
    const char *force = getenv("MUSTER_GPU_SLICE");

    return force ? strcmp(force, "0") != 0 : kernel_branch_known();
}

static int control(int fd, uint32_t client, uint32_t object, uint32_t cmd, uint64_t *us)
{
    struct rm_control c = { client, object, cmd, 0, (uint64_t)(uintptr_t)us, sizeof(*us), 0 };
    unsigned long request = 3ul << 30 | sizeof(c) << 16 | (unsigned long)RM_TYPE << 8 | RM_CONTROL;
    ioctl_fn fn = ioctl_real();

    if (!fn || fn(fd, request, &c) < 0)
        return -EIO;
    return c.status ? -EIO : 0;
}

static int group_set(int i, uint32_t us)
{
    uint64_t value = us, back = 0;

    if (!groups[i].first_us && control(groups[i].fd, groups[i].client, groups[i].object, CMD_GET_SLICE, &back) == 0)
        groups[i].first_us = back;
    if (us == 0)
        value = groups[i].first_us;
    if (value == 0)
        return -ENODATA;
    if (control(groups[i].fd, groups[i].client, groups[i].object, CMD_SET_SLICE, &value) < 0 ||
        control(groups[i].fd, groups[i].client, groups[i].object, CMD_GET_SLICE, &back) < 0)
        return -EIO;
    return back == value ? 0 : -EPROTO;
}

static void group_seen(int fd, const struct rm_alloc *a)
{
    uint32_t engine = a->params ? ((const struct group_params *)(uintptr_t)a->params)->engine : 0, us;
    int at = -1;

    spin_lock(&lock);
    for (int i = 0; i < GROUPS && at < 0; i++)
        if (groups[i].object == 0)
            at = i;
    if (at >= 0) {
        groups[at].fd = fd;
        groups[at].client = a->root;
        groups[at].engine = engine;
        groups[at].first_us = 0;
        groups[at].object = a->object;
        atomic_fetch_add(&count, 1);
    }
    spin_unlock(&lock);
    us = atomic_load(&current_us);
    if (at >= 0 && us && !atomic_load(&off) && engine < ENGINE_COPY_FIRST)
        (void)group_set(at, us);
}

static void group_gone(const struct rm_free *f)
{
    spin_lock(&lock);
    for (int i = 0; i < GROUPS; i++)
        if (groups[i].object && groups[i].client == f->root &&
            (groups[i].object == f->object || f->object == f->root)) {
            groups[i].object = 0;
            atomic_fetch_sub(&count, 1);
        }
    spin_unlock(&lock);
}

static void call_seen(int fd, uint32_t nr, uint64_t size, const void *arg)
{
    const struct rm_alloc *a = arg;
    uint32_t status = 1;

    if (nr == RM_FREE && size >= sizeof(struct rm_free)) {
        group_gone(arg);
        return;
    }
    if (nr != RM_ALLOC || size < sizeof(struct rm_alloc_short) || a->class != CLASS_CHANNEL_GROUP)
        return;
    if (size >= sizeof(struct rm_alloc_long))
        status = ((const struct rm_alloc_long *)arg)->status;
    else
        status = ((const struct rm_alloc_short *)arg)->status;
    if (status == 0)
        group_seen(fd, a);
}

/* Every ioctl of the process passes here; only the driver's allocations and frees are looked at, after the fact. */
EXPORT int ioctl(int fd, unsigned long request, ...)
{
    ioctl_fn fn = ioctl_real();
    uint32_t nr = (uint32_t)(request & 0xff);
    int r, saved;
    va_list ap;
    void *arg;

    va_start(ap, request);
    arg = va_arg(ap, void *);
    va_end(ap);
    if (!fn) {
        errno = ENOSYS;
        return -1;
    }
    r = fn(fd, request, arg);
    if (likely((request >> 8 & 0xff) != RM_TYPE) || r != 0 || !arg || atomic_load(&shim.on) != 1)
        return r;
    saved = errno;
    if (nr == RM_TRANSFER) {
        const struct rm_transfer *t = arg;

        if (t->ptr)
            call_seen(fd, t->cmd, t->size, (const void *)(uintptr_t)t->ptr);
    } else {
        call_seen(fd, nr, request >> 16 & 0x3fff, arg);
    }
    errno = saved;
    return r;
}

uint32_t slice_groups(void)
{
    return atomic_load(&count);
}

int slice_set(uint32_t us)
{
    int r = -ENODEV, one;

    if (atomic_load(&off))
        return -EOPNOTSUPP;
    if (shim.page->health.flags & HEALTH_MPS) { /* the groups are its server's, and every client's at once */
        atomic_store(&off, 1);
        return -EOPNOTSUPP;
    }
    if (!branch_allowed()) {
        atomic_store(&off, 1);
        shim_note("time slices are off: this driver's branch was never tried; MUSTER_GPU_SLICE=1 tries it");
        return -EOPNOTSUPP;
    }
    atomic_store(&current_us, us);
    for (int i = 0; i < GROUPS; i++) {
        if (!groups[i].object || groups[i].engine >= ENGINE_COPY_FIRST)
            continue;
        one = group_set(i, us);
        if (one < 0 && one != -ENODATA) {
            atomic_store(&off, 1); /* the read-back disagreed: never again in this process */
            __atomic_store_n(&shim.page->health.slice_ok, 0, __ATOMIC_RELAXED);
            return one;
        }
        r = 0;
    }
    if (r == 0)
        __atomic_store_n(&shim.page->health.slice_ok, 1, __ATOMIC_RELAXED);
    return r;
}
