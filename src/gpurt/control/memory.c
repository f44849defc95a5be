/* SPDX-License-Identifier: Apache-2.0 */
/* memory.c - see memory.h. */
#include "gpurt/control/memory.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "gpurt/node.h"

#define MIB_BYTES ((uint64_t)1 << 20)
#define TURN_NS 1000000000ULL
#define TRIAL_NS (TRIAL_SECONDS * 1000000000ULL)
#define HOME_BYTES                                                                                                     \
    ((uint64_t)1 << 30) /* comes home by one order, a quarter of each step's time: caps may move meanwhile */
#define SLACK_MIB 64u   /* less of it than this is brought home only as the last of it */
#define CHANGED_PART 5u /* a fifth slower than when it settled: they do something else now */

struct look { /* one process on the GPU */
    struct client *client;
    uint32_t gpu; /* its own number of it */
    uint32_t used, host, fixed;
    uint64_t work;
};

static uint32_t mib(uint64_t bytes)
{
    uint64_t value = (bytes + MIB_BYTES - 1) / MIB_BYTES;

    return value < UINT32_MAX ? (uint32_t)value : UINT32_MAX;
}

static bool look_at(struct client *c, int index, struct look *ret)
{
    const struct page_memory *m;
    uint64_t used, movable, host;
    uint32_t i;

    for (i = 0; i < PAGE_GPUS && c->arena[i] != index; i++)
        ;
    if (c->fd < 0 || i == PAGE_GPUS)
        return false;
    m = &c->page->memory[i];
    used = __atomic_load_n(&m->used, __ATOMIC_RELAXED);
    movable = __atomic_load_n(&m->movable, __ATOMIC_RELAXED);
    host = __atomic_load_n(&m->host_backed, __ATOMIC_RELAXED) + __atomic_load_n(&m->saved, __ATOMIC_RELAXED);
    movable = movable > host ? movable - host : 0; /* on the device */
    *ret = (struct look){ .client = c,
                          .gpu = i,
                          .used = mib(used),
                          .host = mib(host),
                          .fixed = c->mode == 2 ? mib(used > movable ? used - movable : 0) : mib(used),
                          .work = page_sum(c->page, offsetof(struct page_counters, launches)) +
                                  page_sum(c->page, offsetof(struct page_counters, graph_launches)) };
    return true;
}

/* The guaranteed job and the oldest of the others. */
static uint32_t everybody(struct node *node, int index, struct look *rg, struct look *jobs)
{
    uint32_t count = 0;

    rg->client = NULL;
    for (int i = 0; i < NODE_CLIENTS; i++) {
        struct look look;
        uint32_t at = count;

        if (!look_at(&node->client[i], index, &look))
            continue;
        if (look.client->role == ROLE_GUARANTEED && !rg->client)
            *rg = look;
        if (look.client->role != ROLE_OPPORTUNISTIC)
            continue;
        while (at > 0 && jobs[at - 1].client->joined > look.client->joined)
            at--;
        if (at == CAPS_JOBS)
            continue;
        count -= count == CAPS_JOBS;
        memmove(jobs + at + 1, jobs + at, (count - at) * sizeof(jobs[0]));
        jobs[at] = look;
        count++;
    }
    return count;
}

/* ---- limits */

static void cap_write(const struct look *look, uint64_t bytes)
{
    __atomic_store_n(&look->client->page->limit[look->gpu].cap_bytes, bytes, __ATOMIC_SEQ_CST);
}

/* What it was started with, or told since: that is what it is told of its total, which we never change. */
static uint64_t cap_own(const struct look *look)
{
    return look->client->page->limit[look->gpu].view_total_bytes;
}

/* Is there room for a piece of what lies in host memory? */
static bool worth(const struct look *look, uint32_t cap_mib)
{
    uint32_t piece = look->host < SLACK_MIB ? look->host : SLACK_MIB;

    return piece && look->used <= cap_mib && cap_mib - look->used >= piece;
}

/* No limits of ours. What lies in host memory comes home while there is room on the card. */
static void lift(struct node *node, const struct look *look, uint32_t room)
{
    struct client *c = look->client;
    uint64_t own = cap_own(look);
    struct error err;

    if (c->squeezed && c->state != CLIENT_RUNNING && !c->starved) /* its eviction may have failed halfway */
        (void)ladder_order(node, c, CLIENT_RUNNING, &err);
    if (c->limited) {
        cap_write(look, own);
        c->limited = false;
    }
    if (c->mode == 2 && worth(look, own ? mib(own) : UINT32_MAX) && worth(look, look->used + room))
        (void)ladder_promote(c, look->gpu, HOME_BYTES);
}

static void limit(struct node *node, const struct look *look, uint32_t cap_mib, bool paused)
{
    struct client *c = look->client;
    uint64_t own = cap_own(look), cap = (uint64_t)cap_mib * MIB_BYTES;
    struct error err;

    if (paused && c->mode == 2) {
        int r = c->state == CLIENT_RUNNING ? ladder_order(node, c, CLIENT_EVICTED, &err) : -EALREADY;

        c->squeezed |= r == 0;
        if (r == -ENOMEM) { /* nowhere to evict it to */
            cap_write(look, look->fixed ? (uint64_t)look->fixed * MIB_BYTES : 1);
            c->limited = true;
            starve_pause(node, c);
        }
        return;
    }
    if (paused) /* nothing of it can be moved: it gets no more */
        cap = (uint64_t)look->used * MIB_BYTES;
    if (!paused && c->squeezed && c->state != CLIENT_RUNNING && !c->starved) {
        (void)ladder_order(node, c, CLIENT_RUNNING, &err);
        return;
    }
    cap = own && own < cap ? own : cap;
    c->limited = cap != own;
    cap_write(look, cap ? cap : 1);
    if (c->mode != 2 || c->state != CLIENT_RUNNING)
        return;
    if (look->used > mib(cap))
        (void)ladder_spill(c, look->gpu, cap);
    else if (worth(look, mib(cap)))
        (void)ladder_promote(c, look->gpu, HOME_BYTES);
}

/* ---- who gains most by a unit */

static void trial_start(struct memory *m, const struct look *jobs, uint64_t now)
{
    for (uint32_t i = 0; i < m->caps.count; i++)
        m->work[i] = jobs[i].work;
    m->tried_ns = now;
}

/* Every job against its own rate in the first split; their sum. */
static uint64_t trial_score(struct memory *m, const struct look *jobs, uint64_t now)
{
    uint64_t score = 0, ms = (now - m->tried_ns) / 1000000;

    for (uint32_t i = 0; i < m->caps.count && ms; i++) {
        uint64_t rate = (jobs[i].work - m->work[i]) * 1000000 / ms;

        if (!m->trial.begun && m->first_rate[i] == 0)
            m->first_rate[i] = rate;
        score += m->first_rate[i] ? rate * 1000 / m->first_rate[i] : 0;
    }
    return score;
}

static void trial_step(struct memory *m, const struct look *jobs, uint64_t now)
{
    uint64_t score;

    if (now - m->tried_ns < TRIAL_NS)
        return;
    score = trial_score(m, jobs, now);
    if (m->trial.settled && score < m->trial.score - m->trial.score / CHANGED_PART) {
        memset(m->first_rate, 0, sizeof(m->first_rate));
        trial_again(&m->trial);
        score = trial_score(m, jobs, now);
    }
    (void)trial_result(&m->trial, score);
    trial_start(m, jobs, now);
}

/* Weights of what is left over. A trial runs while several jobs want more than there is; units are rounded so that
 * what is rounded off is nobody's. */
static void weigh(struct memory *m, const struct look *jobs, uint32_t rest, uint64_t now)
{
    uint32_t unit = m->caps.total_mib / MEMORY_UNIT_PART, least[CAPS_JOBS] = { 0 }, want = 0;

    unit = unit < TRIAL_UNIT_MIB ? (unit ? unit : 1) : TRIAL_UNIT_MIB;
    for (uint32_t i = 0; i < m->caps.count; i++) {
        least[i] = (jobs[i].fixed + unit - 1) / unit;
        want += jobs[i].used + jobs[i].host;
    }
    if (m->caps.count < 2 || (want <= rest && !m->trying)) {
        m->trying = false;
    } else if (!m->trying || m->trial.capacity != rest / unit || m->trial.count != m->caps.count ||
               memcmp(m->trial.least, least, sizeof(least)) != 0) {
        m->trying = trial_init(&m->trial, rest / unit, least, m->caps.count);
        memset(m->first_rate, 0, sizeof(m->first_rate));
        trial_start(m, jobs, now);
    } else {
        trial_step(m, jobs, now);
    }
    for (uint32_t i = 0; i < m->caps.count; i++)
        m->caps.job[i].weight = m->trying ? m->trial.now[i] - m->trial.least[i] : 0;
}

/* ---- the turn */

/* The same processes as before? Whoever stayed keeps its cap. */
static void members(struct memory *m, const struct look *rg, const struct look *jobs, uint32_t count)
{
    pid_t guaranteed = rg->client ? rg->client->pid : 0;
    struct caps_job job[CAPS_JOBS] = { 0 };
    bool same = count == m->caps.count && guaranteed == m->rg;

    for (uint32_t i = 0; i < count; i++) {
        same &= i < m->caps.count && m->pid[i] == jobs[i].client->pid;
        job[i].cap_mib = jobs[i].used;
        for (uint32_t k = 0; k < m->caps.count; k++)
            if (m->pid[k] == jobs[i].client->pid)
                job[i] = m->caps.job[k];
    }
    if (same)
        return;
    m->managed = m->trying = false;
    memcpy(m->caps.job, job, sizeof(job));
    m->caps.count = count;
    for (uint32_t i = 0; i < count; i++)
        m->pid[i] = jobs[i].client->pid;
    if (guaranteed && guaranteed != m->rg)
        caps_begin(&m->caps);
    else if (!guaranteed)
        caps_end(&m->caps);
    m->rg = guaranteed;
}

static void caps_fill(struct memory *m, const struct look *rg, const struct look *jobs, uint64_t now)
{
    usec_t at = (usec_t)(now / 1000);
    uint32_t want = 0, usable;

    m->caps.reserve_mib = m->reserve_mib;
    usable = m->caps.total_mib > m->reserve_mib ? m->caps.total_mib - m->reserve_mib : 0;
    if (rg->client) {
        caps_report(&m->caps, at, rg->used + rg->host);
        want = ring_peak(&m->caps.asked, at, CAPS_WINDOW) + m->caps.margin_mib;
    }
    for (uint32_t i = 0; i < m->caps.count; i++) {
        m->caps.job[i].used_mib = jobs[i].used;
        m->caps.job[i].stable_mib = jobs[i].fixed;
    }
    weigh(m, jobs, usable > want ? usable - want : 0, now);
}

static bool wanted(const struct memory *m, const struct look *rg, const struct look *jobs)
{
    if (m->caps.count == 0)
        return false;
    if (rg->client)
        return true;
    for (uint32_t i = 0; i < m->caps.count && m->caps.count > 1; i++)
        if (jobs[i].host && jobs[i].client->state == CLIENT_RUNNING)
            return true;
    return m->managed;
}

static void apply(struct node *node, struct memory *m, const struct look *rg, const struct look *jobs)
{
    for (int higher = 0; higher < 2; higher++)
        for (uint32_t i = 0; i < m->caps.count; i++) {
            const struct caps_job *job = &m->caps.job[i];
            uint64_t cap = (uint64_t)job->cap_mib * MIB_BYTES;
            uint64_t now = jobs[i].client->page->limit[jobs[i].gpu].cap_bytes;

            if ((now == 0 || cap <= now) == !higher)
                limit(node, &jobs[i], job->cap_mib, job->paused);
        }
    if (rg->client && rg->client->mode == 2)
        limit(node, rg, m->caps.rg_mib, false);
}

static void lift_all(struct node *node, const struct memory *m, const struct look *rg, const struct look *jobs)
{
    uint64_t held = m->reserve_mib + (rg->client ? rg->used : 0);
    uint32_t room;

    for (uint32_t i = 0; i < m->caps.count; i++)
        held += jobs[i].used;
    room = held < m->caps.total_mib ? m->caps.total_mib - (uint32_t)held : 0;
    for (uint32_t i = 0; i < m->caps.count; i++)
        lift(node, &jobs[i], room);
    if (rg->client)
        lift(node, rg, room);
}

void memory_turn(struct node *node, int index, uint64_t now)
{
    struct gpu_arena *gpu = &node->gpu[index];
    struct memory *m = &gpu->memory;
    struct look rg, jobs[CAPS_JOBS + 1];
    uint32_t count, total = mib(gpu->total_bytes);

    if (now - m->turned_ns < TURN_NS || total == 0)
        return;
    m->turned_ns = now;
    if (m->caps.total_mib != total)
        caps_init(&m->caps, total, m->reserve_mib,
                  total / MEMORY_MARGIN_PART < CAPS_MARGIN_MIB ? total / MEMORY_MARGIN_PART : CAPS_MARGIN_MIB);
    count = everybody(node, index, &rg, jobs);
    members(m, &rg, jobs, count);
    m->managed = wanted(m, &rg, jobs);
    if (!m->managed) {
        lift_all(node, m, &rg, jobs);
        return;
    }
    caps_fill(m, &rg, jobs, now);
    (void)caps_turn(&m->caps, (usec_t)(now / 1000));
    apply(node, m, &rg, jobs);
}

/* The largest of them that can move; the turn that follows counts what the guaranteed job has by then. */
void memory_need(struct node *node, const struct client *client, uint32_t gpu, uint64_t bytes)
{
    struct look best = { 0 };
    uint64_t used;

    for (int i = 0; i < NODE_CLIENTS && client->arena[gpu] >= 0; i++) {
        struct client *c = &node->client[i];
        struct look look;

        if (c->role != ROLE_OPPORTUNISTIC || c->mode != 2 || c == client || c->step != STEP_NONE ||
            !look_at(c, client->arena[gpu], &look))
            continue;
        if (!best.client || look.used > best.used)
            best = look;
    }
    if (!best.client)
        return;
    used = best.client->page->memory[best.gpu].used;
    (void)ladder_spill(best.client, best.gpu, used > bytes ? used - bytes : 1);
}

static uint64_t machine_free(void)
{
    unsigned long long kib = 0;
    char text[256];
    FILE *f = fopen("/proc/meminfo", "re");

    while (f && fgets(text, sizeof(text), f))
        if (sscanf(text, "MemAvailable: %llu kB", &kib) == 1)
            break;
    if (f)
        (void)fclose(f);
    return f ? (uint64_t)kib * 1024 : UINT64_MAX;
}

static uint64_t cgroup_free(const struct client *client)
{
    const struct page *page = client->page;

    return page_has_host(page) ? __atomic_load_n(&page->host.cgroup_left, __ATOMIC_RELAXED) : UINT64_MAX;
}

uint64_t memory_host_free(const struct client *client)
{
    uint64_t machine = machine_free(), cgroup = cgroup_free(client);

    return machine < cgroup ? machine : cgroup;
}

struct memory_sum memory_all(const struct client *client)
{
    struct memory_sum sum = { 0 };

    for (int i = 0; i < PAGE_GPUS; i++) {
        const struct page_memory *m = &client->page->memory[i];

        sum.used += __atomic_load_n(&m->used, __ATOMIC_RELAXED);
        sum.movable += __atomic_load_n(&m->movable, __ATOMIC_RELAXED);
        sum.saved += __atomic_load_n(&m->saved, __ATOMIC_RELAXED);
        sum.host += __atomic_load_n(&m->host_backed, __ATOMIC_RELAXED);
        sum.context += __atomic_load_n(&m->class_bytes[CLASS_CONTEXT], __ATOMIC_RELAXED);
    }
    sum.host += sum.saved;
    return sum;
}

uint64_t memory_host_told(const struct client *client)
{
    uint64_t cap = client->page->limit[client_gpu(client)].host_cap_bytes, host = memory_all(client).host;

    return cap == 0 ? UINT64_MAX : cap > host ? cap - host : 0;
}

static int host_short(const struct client *client, uint64_t need, const char *who, uint64_t left, struct error *err)
{
    return error_set(err, -ENOMEM,
                     "process %d: %llu MiB of host memory are needed and %s %llu; pause it, or have it save itself "
                     "with `muster gpu checkpoint`",
                     (int)client->pid, (unsigned long long)(need / MIB_BYTES), who,
                     (unsigned long long)(left / MIB_BYTES));
}

int memory_host(const struct client *client, struct error *err)
{
    struct memory_sum all = memory_all(client);
    uint64_t area = client->page->health.area_bytes;
    uint64_t moves = client->mode == 2 && all.movable > all.host ? all.movable - all.host : 0;
    uint64_t need = moves > area ? moves - area + moves / 20 : 0;

    if (moves > memory_host_told(client))
        return host_short(client, moves, "its --host-memory leaves", memory_host_told(client), err);
    if (need > cgroup_free(client))
        return host_short(client, need, "memory.max of its cgroup leaves", cgroup_free(client), err);
    if (need > machine_free())
        return host_short(client, need, "the machine has", machine_free(), err);
    return 0;
}

/* What is in use and not ours: other programs', the driver's. Rounded up, and lowered only when it is much less, so
 * that nobody's cap moves with every look. */
void memory_seen(struct node *node, int index, uint64_t used_mib)
{
    struct memory *m = &node->gpu[index].memory;
    uint64_t ours = 0, others, grains, grain = mib(node->gpu[index].total_bytes) / MEMORY_GRAIN_PART;

    m->seen_mib = (uint32_t)used_mib;
    grain = grain < 1 ? 1 : grain < MEMORY_GRAIN_MIB ? grain : MEMORY_GRAIN_MIB;
    for (int i = 0; i < NODE_CLIENTS; i++) {
        struct look look;

        if (look_at(&node->client[i], index, &look))
            ours += look.used;
    }
    others = used_mib > ours ? used_mib - ours : 0;
    grains = (others + grain - 1) / grain * grain;
    if (others > m->reserve_mib || grains + grain < m->reserve_mib)
        m->reserve_mib = (uint32_t)grains;
}
