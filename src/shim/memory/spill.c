/* SPDX-License-Identifier: Apache-2.0 */
/* spill.c - chunks between device and host memory, at the same address.
 *
 * The device is quiet while a chunk moves: submissions are held and the context has been waited for. A batch of chunks
 * is copied to new memory, shown elsewhere; only after the copy has completed without error is the chunk's address
 * pointed at it, while the copies of the next ones run. The old memory is released last, so any failure leaves the
 * chunk where it was, with its content. Host chunks are slow to make: stock.c has them ready.
 */
#include <errno.h>
#include <string.h>

#include "shim/shim.h"

#define BATCH 256u
/* Copies under way while a chunk is switched. To make host memory readable takes twice as long beside a full queue: 4
 * GiB in pieces of 20 MiB left an H200 in 101 ms with two, in 132 with all of them queued and in 156 one after the
 * other. */
#define AHEAD 2u
#define UNDER_WAY (AHEAD + 1)
/* A program drops its cache at once, or, where it waits for the GPU, when its step is over. It is waited for as long as
 * the copies of all that is above the limit would still be in time. */
#define TRIM_SOON_NS (10 * NSEC_MSEC)
#define TRIM_LEAST_NS (30 * NSEC_MSEC)
#define TRIM_MOST_NS (150 * NSEC_MSEC)
#define TRIM_WAITS_NS (2 * NSEC_MSEC)
#define TRIM_END_NS NSEC_SEC /* of one that waits for the GPU */
#define SPILL_GOAL_NS (160 * NSEC_MSEC)
#define QUIET_LEAST_NS (5 * NSEC_SEC)
#define QUIET_MOST_NS (30 * NSEC_SEC)
#define QUIET_VAIN_NS (2 * NSEC_SEC)
#define VAIN_NS (30 * NSEC_SEC)
#define RATE_MOST 60u
#define RATE_BYTES (256 * MIB) /* a spill from which a rate can be learned */

static CUdeviceptr scratch;
static bool scratch_stuck;
static CUstream streams[PAGE_GPUS]; /* each made in the context of its GPU: another's cannot reach the memory */
static CUevent copied[PAGE_GPUS][UNDER_WAY];
static uint32_t made_in[PAGE_GPUS]; /* the number of that context */
static CUstream stream;             /* of the GPU whose memory is moved, or lies evicted */
static struct move_times times;
static struct pick {
    struct chunk *chunk;
    CUdeviceptr at;
    uint64_t size; /* the chunk's: of a move that was given up the chunk may be another's by now */
    uint32_t peers;
    bool moved;
    CUmemGenericAllocationHandle fresh;
    CUdeviceptr window; /* where the copy goes */
} batch[BATCH];
static uint64_t rate = 40;      /* bytes a nanosecond, to host memory: what an H200 does, until it is known */
static uint64_t room;           /* host memory the spill under way may still take */
static bool no_host;            /* and it was not enough */
static bool trim_enough = true; /* the framework's cache was most of what had to leave, or nobody has tried */
static bool given_up;           /* the move under way holds nothing any more: waiter.c */
static uint64_t vain_until;     /* the device did not become quiet: not tried again before; 0 = it did */

CUstream move_stream(void)
{
    return stream;
}

/* With the GPU's context current. */
static bool stream_have(int gpu)
{
    uint32_t context = context_number(enter_context_of(gpu));

    if (made_in[gpu] != context) { /* what was made in one that has gone, went with it */
        streams[gpu] = NULL;
        for (uint32_t i = 0; i < UNDER_WAY; i++)
            copied[gpu][i] = NULL;
        made_in[gpu] = context;
    }
    if (!streams[gpu] && HAVE(cuStreamCreate))
        (void)REAL(cuStreamCreate)(&streams[gpu], CU_STREAM_NON_BLOCKING);
    stream = streams[gpu];
    return stream != NULL;
}

const struct move_times *move_times(void)
{
    return &times;
}

/* In every context, and of every GPU: one that is not waited for may still use what is to move, as a peer of another
 * GPU does, or a copy from one to the other. */
int device_wait(uint64_t until_ns)
{
    CUresult r = CUDA_SUCCESS;
    uint64_t start = clock_ns();
    CUcontext ctx;
    uint32_t i = 0;
    int e = 0;

    if (!context_all()) {
        shim_note("more contexts than can be waited for: it is not moved");
        return -EIO;
    }
    while (e == 0 && r == CUDA_SUCCESS && (ctx = context_next(-1, &i)))
        e = waiter_sync(ctx, until_ns, &r);
    if (e == -ETIMEDOUT) {
        shim_note(
            "the work in flight did not end within %llu s; perhaps it waits for the program: try later, or end it",
            (unsigned long long)((clock_ns() - start + NSEC_SEC / 2) / NSEC_SEC));
    } else if (e < 0) {
        shim_note("the work in flight has been waited for in vain; try when it has ended, or end it");
    } else if (r != CUDA_SUCCESS) {
        shim_note("the GPU does not answer: driver error %d, which the program sees too; end it", r);
        e = -EIO;
    } else {
        vain_until = 0;
        if (unlikely(shim.page->health.flags & HEALTH_LOST)) /* it has made itself another */
            __atomic_fetch_and(&shim.page->health.flags, ~(uint64_t)HEALTH_LOST, __ATOMIC_RELAXED);
    }
    return e;
}

/* For how long the device is waited for while submissions are held. A program whose work waits for its own next call
 * stands still meanwhile: once that has been seen it is tried for little, and seldom, until a wait has succeeded. */
static bool device_quiet(uint64_t deadline_ns)
{
    uint64_t now = clock_ns(), most = deadline_ns > now ? deadline_ns - now : 0;
    int e;

    most = most < QUIET_LEAST_NS ? QUIET_LEAST_NS : most > QUIET_MOST_NS ? QUIET_MOST_NS : most;
    if (vain_until)
        most = QUIET_VAIN_NS;
    e = device_wait(now + most);
    if (e == -ETIMEDOUT)
        vain_until = clock_ns() + VAIN_NS;
    return e == 0;
}

bool move_on(int gpu)
{
    return REAL(cuCtxSetCurrent)(enter_context_of(gpu)) == CUDA_SUCCESS && stream_have(gpu);
}

bool move_begin(int gpu, uint64_t deadline_ns)
{
    uint64_t start = clock_ns();
    bool quiet;
    CUcontext ctx = NULL;

    for (int i = gpu < 0 ? 0 : gpu; !ctx && i < (gpu < 0 ? PAGE_GPUS : gpu + 1); i++)
        ctx = enter_context_of(i);

    /* While evicted, everything is held already, and must stay so. */
    if (!ctx || shim.page->health.state != STATE_RUNNING)
        return false;
    if (waiter_inside() || start < vain_until) {
        shim_note("the work in flight has been waited for in vain; try when it has ended, or end it");
        return false;
    }
    (void)REAL(cuCtxSetCurrent)(ctx); /* where that fails the wait below tells */
    given_up = false;
    watch_begin();
    gate_hold();
    quiet = gate_quiet(deadline_ns) && device_quiet(deadline_ns) && (gpu < 0 || stream_have(gpu));
    times.wait_ns = clock_ns() - start;
    if (!quiet)
        move_end();
    return quiet;
}

void move_end(void)
{
    watch_end();
    gate_release();
}

/* A move is over, whatever came of it: how much, and how long from the order to the end of it. */
static int64_t move_count(int gpu, bool out, int64_t bytes, uint64_t start)
{
    struct page_moves *m = &shim.page->moves[gpu];
    uint64_t ns = clock_ns() - start;

    if (bytes <= 0)
        return bytes;
    __atomic_fetch_add(out ? &m->spilled_bytes : &m->promoted_bytes, (uint64_t)bytes, __ATOMIC_RELAXED);
    __atomic_fetch_add(out ? &m->spill_ns : &m->promote_ns, ns, __ATOMIC_RELAXED);
    __atomic_store_n(out ? &m->spill_last_ns : &m->promote_last_ns, ns, __ATOMIC_RELAXED);
    return bytes;
}

static uint64_t above_of(int gpu, uint64_t target)
{
    uint64_t used = __atomic_load_n(&shim.page->memory[gpu].used, __ATOMIC_RELAXED);

    return used > target ? used - target : 0;
}

bool spill_wanted(void)
{
    for (int i = 0; i < PAGE_GPUS; i++) {
        uint64_t cap = __atomic_load_n(&shim.page->limit[i].cap_bytes, __ATOMIC_RELAXED);

        if (cap && above_of(i, cap))
            return true;
    }
    return false;
}

/* How long the last step took, and when the one under way is over if it takes as long; 0: nobody knows, or it is late.
 */
static uint64_t step_wall(uint64_t *ret_over)
{
    const struct page_step *step = &shim.page->step;
    uint64_t seq = __atomic_load_n(&step->seq, __ATOMIC_ACQUIRE), wall, over;

    wall = seq ? step->ring[(seq - 1) % PAGE_STEPS].wall_us * NSEC_USEC : 0;
    over = seq ? step->ring[(seq - 1) % PAGE_STEPS].end_ns + wall : 0;
    *ret_over = over > clock_ns() ? over : 0;
    return wall;
}

/* A whole step is waited for if that is in time: by its end there is nothing left to copy. */
static uint64_t trim_patience(uint64_t above, bool step, uint64_t now)
{
    uint64_t copies = above / rate, patience = TRIM_LEAST_NS, over, wall = step_wall(&over);

    if (step && wall && wall + TRIM_LEAST_NS < SPILL_GOAL_NS)
        return wall + TRIM_LEAST_NS;
    if (copies + TRIM_LEAST_NS < SPILL_GOAL_NS)
        patience = SPILL_GOAL_NS - copies < TRIM_MOST_NS ? SPILL_GOAL_NS - copies : TRIM_MOST_NS;
    return over > now + patience ? TRIM_SOON_NS : patience;
}

/* Is the program in a call that waits for the GPU? The same one for a while: a launch is over in microseconds. */
static bool program_waits(uint64_t now)
{
    static uint64_t last, since;
    uint64_t look = inside_look();

    if (look != last || !look) {
        last = look;
        since = now;
    }
    return look && now - since > TRIM_WAITS_NS;
}

/* The framework's cache first. The helper has nothing else to do meanwhile: what host memory is missing is made. One
 * that waits for the GPU drops it when that wait is over, and what it waits for would have to end before a copy as
 * well: patience costs nothing then. In the middle of a step it has little to drop, and is asked again at its end. */
static void cache_drop(int gpu, uint64_t target)
{
    uint64_t above = above_of(gpu, target), start = clock_ns(), now = start, until;
    uint64_t cap = __atomic_load_n(&shim.page->limit[gpu].cap_bytes, __ATOMIC_RELAXED);
    /* Below its own limit it is somebody else who waits for the memory, a guaranteed job inside its allocation. */
    bool step = trim_enough && cap && target >= cap, more = true;

    until = start + trim_patience(above, step, start);
    if (!python_trim(step))
        return;
    while (now < until && above_of(gpu, target) && !python_trimmed()) {
        more = more && stock_make(gpu, above);
        if (!more)
            nap_ns(200 * NSEC_USEC);
        now = clock_ns();
        if ((python_trimming() || program_waits(now)) && now < start + TRIM_END_NS && until < now + TRIM_SOON_NS)
            until = now + TRIM_SOON_NS;
    }
    times.trim_ns = clock_ns() - start;
    if (python_trimmed())
        trim_enough = above_of(gpu, target) < above / 2;
}

static void rate_learn(int64_t bytes)
{
    uint64_t seen = times.copy_ns ? (uint64_t)bytes / times.copy_ns : RATE_MOST;

    if (bytes >= (int64_t)RATE_BYTES)
        rate = seen < 1 ? 1 : seen > RATE_MOST ? RATE_MOST : seen;
}

/* A scratch range the driver would not unmap is left to it; the next batch reserves another. */
static void scratch_unmap(CUdeviceptr at, uint64_t size)
{
    if (REAL(cuMemUnmap)(at, size) != CUDA_SUCCESS)
        scratch_stuck = true;
}

/* Host memory for a chunk: one made ahead, or a new one while there is room. */
static bool host_take(int gpu, struct pick *p)
{
    uint64_t cap = shim.page->limit[gpu].host_cap_bytes, size = p->chunk->size;

    p->fresh = 0;
    no_host = cap && size > room; /* its own limit counts what was made ahead as well */
    if (!no_host)
        p->fresh = stock_take(gpu, size);
    if (!no_host && !p->fresh)
        no_host = size > room || vmm_create(gpu, size, true, p->chunk->types, &p->fresh) != CUDA_SUCCESS;
    if (no_host)
        return false;
    room -= size < room ? size : room;
    return true;
}

static void fresh_drop(int gpu, const struct pick *p, bool to_host)
{
    if (to_host)
        stock_give(gpu, p->fresh, p->size);
    else
        (void)REAL(cuMemRelease)(p->fresh);
}

/* New memory for the chunk, and addresses to copy to: host memory has a window, the device's is shown at `at`. */
static bool pick_make(int gpu, struct pick *p, bool to_host, CUdeviceptr at)
{
    uint64_t size = p->chunk->size;

    p->window = 0;
    if (to_host) {
        if (!host_take(gpu, p))
            return false;
        p->window = window_open(gpu, p->fresh, size);
        no_host = !p->window;
    } else {
        if (vmm_create(gpu, size, false, p->chunk->types, &p->fresh) != CUDA_SUCCESS)
            return false;
        if (REAL(cuMemMap)(at, size, 0, p->fresh, 0) == CUDA_SUCCESS) {
            if (vmm_access(gpu, 0, at, size) == CUDA_SUCCESS)
                p->window = at;
            else
                scratch_unmap(at, size);
        }
    }
    if (!p->window)
        fresh_drop(gpu, p, to_host);
    return p->window != 0;
}

/* A copy that is not wanted. What it may still touch stays mapped until a wait has succeeded. */
static void pick_undo(int gpu, const struct pick *p, bool to_host)
{
    CUresult r;

    watch_wait();
    r = REAL(cuStreamSynchronize)(stream);
    given_up |= !watch_waited();
    if (r != CUDA_SUCCESS) {
        scratch_stuck = true;
        return;
    }
    if (!to_host)
        scratch_unmap(p->window, p->size);
    fresh_drop(gpu, p, to_host);
}

static bool scratch_have(void)
{
    if (scratch_stuck)
        scratch = 0;
    scratch_stuck = false;
    if (!scratch && REAL(cuMemAddressReserve)(&scratch, UNDER_WAY * VMM_CHUNK, VMM_GRAIN, 0, 0) != CUDA_SUCCESS)
        scratch = 0;
    return scratch != 0;
}

static bool no_events; /* the driver would not: the stream is waited for instead */

/* New memory for pick `i` of the batch, and its copy under way. False: no more can be had. */
static bool copy_begin(int gpu, uint32_t i, bool to_host)
{
    struct pick *p = &batch[i];
    CUevent *event = &copied[gpu][i % UNDER_WAY];

    if (!pick_make(gpu, p, to_host, scratch + i % UNDER_WAY * VMM_CHUNK))
        return false;
    if (REAL(cuMemcpyDtoDAsync_v2)(p->window, p->at, p->chunk->size, stream) != CUDA_SUCCESS) {
        pick_undo(gpu, p, to_host);
        return false;
    }
    if (!*event && !no_events)
        no_events = REAL(cuEventCreate)(event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS;
    if (!no_events)
        no_events = REAL(cuEventRecord)(*event, stream) != CUDA_SUCCESS;
    return true;
}

static bool copy_wait(int gpu, uint32_t i)
{
    CUresult r;

    watch_wait();
    r = no_events ? REAL(cuStreamSynchronize)(stream) : REAL(cuEventSynchronize)(copied[gpu][i % UNDER_WAY]);
    given_up = !watch_waited();
    return r == CUDA_SUCCESS && !given_up;
}

/* The chunk's address now shows the new memory; the old handle is released. False: nothing changed. */
static bool pick_switch(int gpu, struct pick *p, bool to_host)
{
    struct chunk *c = p->chunk;

    if (REAL(cuMemUnmap)(p->at, c->size) != CUDA_SUCCESS)
        return false;
    if (REAL(cuMemMap)(p->at, c->size, 0, p->fresh, 0) != CUDA_SUCCESS ||
        vmm_access(gpu, p->peers, p->at, c->size) != CUDA_SUCCESS) {
        (void)REAL(cuMemUnmap)(p->at, c->size);
        if (REAL(cuMemMap)(p->at, c->size, 0, c->handle, 0) != CUDA_SUCCESS ||
            vmm_access(gpu, p->peers, p->at, c->size) != CUDA_SUCCESS)
            shim_note("a chunk of %llu bytes could not be mapped back", (unsigned long long)c->size);
        return false;
    }
    if (to_host)
        (void)REAL(cuMemRelease)(c->handle);
    else
        stock_give(gpu, c->handle, c->size);
    c->handle = p->fresh;
    c->where = to_host ? CHUNK_HOST : CHUNK_DEVICE;
    return true;
}

static void pick_count(int gpu, const struct pick *p, bool to_host)
{
    struct page_memory *m = &shim.page->memory[gpu];
    uint64_t size = p->chunk->size;

    if (to_host) {
        mem_give_back(gpu, CLASS_VMM, size);
        __atomic_fetch_add(&m->host_backed, size, __ATOMIC_RELAXED);
        __atomic_fetch_add(&m->spills, 1, __ATOMIC_RELAXED);
    } else {
        __atomic_fetch_sub(&m->host_backed, size, __ATOMIC_RELAXED);
        __atomic_fetch_add(&m->promotions, 1, __ATOMIC_RELAXED);
    }
}

/* The copy is complete. Returns the bytes that moved: none, if the driver will not have it. */
static int64_t copy_end(int gpu, struct pick *p, bool to_host)
{
    if (!to_host)
        scratch_unmap(p->window, p->chunk->size);
    if (!pick_switch(gpu, p, to_host)) {
        fresh_drop(gpu, p, to_host);
        return 0;
    }
    pick_count(gpu, p, to_host);
    p->moved = true;
    return (int64_t)p->size;
}

/* The first `count` of the batch, one after the other as its copy is over, while those of the next run. */
static int64_t batch_move(int gpu, uint32_t count, bool to_host)
{
    uint32_t begun = 0, i = 0;
    bool more = to_host || scratch_have();
    int64_t moved = 0;

    do {
        while (more && begun < count && begun < i + UNDER_WAY)
            if ((more = copy_begin(gpu, begun, to_host)))
                begun++;
        if (i == begun || !copy_wait(gpu, i))
            break;
        moved += copy_end(gpu, &batch[i], to_host);
        i++;
    } while (i < count);
    for (; i < begun; i++) /* a wait has failed, which says nothing about the copies */
        pick_undo(gpu, &batch[i], to_host);
    if (!to_host)
        for (i = 0; i < count; i++)
            if (!batch[i].moved)
                mem_give_back(gpu, CLASS_VMM, batch[i].size);
    return moved;
}

/* The next chunks of that kind, worth at most `most` bytes (the last one may go over): what the last step did not use
 * is the first to leave, and the last to come home. */
static uint32_t batch_find(int gpu, enum chunk_where where, uint64_t most)
{
    static uint32_t order[TOUCH_SEGMENTS];
    uint32_t n = 0, count = touch_order(gpu, where == CHUNK_HOST, order);
    uint64_t sum = 0;

    for (uint32_t i = 0; i < count && n < BATCH && sum < most; i++) {
        struct segment *s = vmm_segment(order[i]);
        CUdeviceptr at = s->base;

        for (uint32_t k = s->first; k != VMM_NONE && n < BATCH && sum < most; k = vmm_chunk(k)->next) {
            struct chunk *c = vmm_chunk(k);

            if (c->where == (uint32_t)where) {
                batch[n++] = (struct pick){ .chunk = c, .at = at, .size = c->size, .peers = s->peers };
                sum += c->size;
            }
            at += c->size;
        }
    }
    return n;
}

/* A program that cannot be moved because there is nowhere to move it to: the node side pauses it. */
static void host_tell(uint64_t above)
{
    if (!no_host || !above) {
        __atomic_fetch_and(&shim.page->health.flags, ~(uint64_t)HEALTH_NO_HOST, __ATOMIC_RELAXED);
        return;
    }
    __atomic_fetch_or(&shim.page->health.flags, HEALTH_NO_HOST, __ATOMIC_RELAXED);
    shim_note("no host memory for %llu MiB above its limit", (unsigned long long)((above + MIB - 1) / MIB));
}

int64_t spill_to(int gpu, uint64_t target, uint64_t deadline_ns)
{
    int64_t moved = 0, r;
    uint64_t start = clock_ns(), asked = start, above = above_of(gpu, target);

    times = (struct move_times){ 0 };
    no_host = false;
    if (above) {
        brief_set(true);
        cache_drop(gpu, target);
        above = above_of(gpu, target);
        if (!above)
            brief_set(false);
    }
    if (!above) {
        host_tell(0);
        return 0;
    }
    if (!move_begin(gpu, deadline_ns)) {
        brief_set(false);
        return -EBUSY;
    }
    start = clock_ns();
    room = host_room(gpu);
    while ((above = above_of(gpu, target)) != 0 && !given_up && clock_ns() < deadline_ns) {
        uint32_t n = batch_find(gpu, CHUNK_DEVICE, above);

        r = n ? batch_move(gpu, n, true) : 0;
        if (r <= 0)
            break;
        moved += r;
    }
    times.copy_ns = clock_ns() - start;
    rate_learn(moved);
    brief_set(false);
    move_end();
    if (given_up)
        return -ETIMEDOUT;
    host_tell(above_of(gpu, target));
    return move_count(gpu, true, moved, asked);
}

int64_t spill_promote(int gpu, uint64_t most, uint64_t deadline_ns)
{
    int64_t moved = 0, r;
    uint64_t start, asked = clock_ns();

    times = (struct move_times){ 0 };
    if (__atomic_load_n(&shim.page->memory[gpu].host_backed, __ATOMIC_RELAXED) == 0)
        return 0;
    if (!move_begin(gpu, deadline_ns))
        return -EBUSY;
    start = clock_ns();
    while ((most == 0 || (uint64_t)moved < most) && !given_up && clock_ns() < deadline_ns) {
        uint32_t n = batch_find(gpu, CHUNK_HOST, most ? most - (uint64_t)moved : UINT64_MAX), fit = 0;

        while (fit < n && mem_reserve(gpu, CLASS_VMM, batch[fit].chunk->size) == 0)
            fit++;
        r = fit ? batch_move(gpu, fit, false) : 0;
        if (r <= 0)
            break;
        moved += r;
    }
    times.copy_ns = clock_ns() - start;
    brief_set(false);
    move_end();
    return given_up ? -ETIMEDOUT : move_count(gpu, false, moved, asked);
}
