/* SPDX-License-Identifier: Apache-2.0 */
/* forecast.c - futures of the present state, kept while it lasts: for lists, `why`, `plan` and the timeline.
 *
 * Three expectations: likely (estimates, else time limits), at the latest (time limits), soon (half of what is left). A
 * job without either is expected to run as long again as it has, at least ten minutes; the basis says so.
 */
#include "ctl/insight/forecast.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "core/snapshot/snapshot.h"
#include "ctl/insight/forecast_internal.h"

#define GUESS_LEAST (10 * USEC_MIN)
#define HORIZON (90 * USEC_DAY)
#define KEEP_FOR (USEC_SEC)
/* A look ahead holds up the loop, a quarter of a second where 60,000 jobs wait. All of them together may take so small
 * a part of its time, and what one user asks for as much. */
#define COST_SHARE 200
#define COST_FREE (10 * USEC_MSEC)
#define KEEP_MOST (2 * USEC_MIN)

/* Beyond LONG_LINE waiting jobs, questions about one of them are answered from the kept future and look at the present
 * instant alone: everybody waits while we look. */
enum { STEPS_MAX = 40000, STARTS_MAX = 20000, LONG_LINE = 1000, SHORT_LINE = 300, PAYERS = 256 };

struct forecast {
    struct server *server;
    struct future likely;
    struct planned *planned;
    int64_t *order; /* ids sorted, for look-ups; starts[] beside */
    usec_t *starts;
    usec_t *lows, *highs; /* earliest and latest; NULL: not looked for, the line is long */
    size_t order_count;
    uint64_t seq;
    usec_t made, keep;
    usec_t again[PAYERS]; /* when a user may have a future again, by the hash of the name */
    bool valid, guessed;
};

static usec_t *payer_of(struct forecast *forecast, const char *user)
{
    uint32_t hash = 2166136261u;

    for (; *user; user++)
        hash = (hash ^ (unsigned char)*user) * 16777619u;
    return &forecast->again[hash % PAYERS];
}

usec_t forecast_wait(struct forecast *forecast, const char *user)
{
    usec_t again = *payer_of(forecast, user), now = clock_now();

    return again > now ? again - now : 0;
}

static bool line_long(const struct forecast *forecast)
{
    const struct core *core = ctl_core(batcher_ctl(forecast->server->batcher));

    return core && core_waiting(core) > LONG_LINE;
}

void forecast_pay(struct forecast *forecast, const char *user, usec_t took)
{
    if (took > COST_FREE && line_long(forecast))
        *payer_of(forecast, user) = clock_now() + (took * COST_SHARE < KEEP_MOST ? took * COST_SHARE : KEEP_MOST);
}

int forecast_new(struct server *server, struct forecast **ret_forecast)
{
    struct forecast *forecast = mem_zalloc(1, sizeof(*forecast));

    if (!forecast)
        return -ENOMEM;
    forecast->server = server;
    *ret_forecast = forecast;
    return 0;
}

static void forecast_forget(struct forecast *forecast)
{
    future_done(&forecast->likely);
    mem_free(take(forecast->planned));
    mem_free(take(forecast->order));
    mem_free(take(forecast->starts));
    mem_free(take(forecast->lows));
    mem_free(take(forecast->highs));
    forecast->order_count = 0;
    forecast->valid = false;
}

void forecast_free(struct forecast *forecast)
{
    if (!forecast)
        return;
    forecast_forget(forecast);
    mem_free(forecast);
}

static void snap_put(void *arg, const void *data, size_t size)
{
    buf_put(arg, data, size);
}

static int copy_on(const struct server *server, const struct cluster_spec *cluster, struct core **ret_core,
                   struct error *err)
{
    struct ctl *ctl = batcher_ctl(server->batcher);
    struct core_config config = { .limits = { .jobs = (uint32_t)server->conf->jobs_max },
                                  .seed = 1,
                                  .policies = ctl_policies(ctl) };
    CLEANUP_BUF struct buf bytes = BUF_INIT((size_t)1 << 31);

    if (!ctl_core(ctl))
        return error_set(err, -ENOENT, "no node has joined yet");
    core_save(ctl_core(ctl), snap_put, &bytes);
    if (bytes.error)
        return error_set(err, bytes.error, "no memory for a copy of the state");
    return core_load(cluster, &config, bytes.data, bytes.size, ret_core, err);
}

int core_copy(const struct server *server, struct core **ret_core, struct error *err)
{
    return copy_on(server, ctl_cluster(batcher_ctl(server->batcher)), ret_core, err);
}

int core_copy_choosing(const struct scene *scene, struct core **ret_core, struct error *err)
{
    const struct ctl *ctl = batcher_ctl(scene->server->batcher);
    struct cluster_spec marked = *scene->cluster;
    uint32_t hosts = marked.node_count + marked.bare_count;
    int r;

    if (!scene->choice)
        return core_copy(scene->server, ret_core, err);
    marked.nodes = mem_zalloc((size_t)hosts + 1, sizeof(*marked.nodes));
    if (!marked.nodes)
        return error_set(err, -ENOMEM, "no memory for a copy of the state");
    memcpy(marked.nodes, scene->cluster->nodes, hosts * sizeof(*marked.nodes));
    for (size_t n = 0; n < scene->registry->node_count; n++)
        if (scene->registry->nodes[n].core_node < hosts && ctl_chooses(ctl, scene->choice, &scene->registry->nodes[n]))
            marked.nodes[scene->registry->nodes[n].core_node].marks |= 1ULL << (PLAN_MARK - 1);
    r = copy_on(scene->server, &marked, ret_core, err);
    mem_free(marked.nodes);
    return r;
}

/* What is left of a job that asked for `whole` and has run `ran`. */
static usec_t left_of(usec_t whole, usec_t ran)
{
    return whole > ran ? whole - ran : USEC_SEC;
}

usec_t left_expected(void *arg, const struct job *job, usec_t now)
{
    struct expectation *expectation = arg;
    usec_t ran = job_progress(job, now), whole = job->spec.estimate, left;

    if (expectation->how == EXPECT_LIMITS || whole <= 0)
        whole = job->spec.time_limit > 0 ? job->spec.time_limit : whole;
    if (whole > 0) {
        left = left_of(whole, ran);
    } else {
        expectation->guessed = true;
        left = ran > GUESS_LEAST ? ran : GUESS_LEAST;
    }
    if (expectation->how == EXPECT_SOON)
        left = left / 2 > USEC_SEC ? left / 2 : USEC_SEC;
    return left;
}

int future_of(const struct server *server, struct core *core, enum expect how, int64_t until, struct future *ret,
              bool *ret_guessed)
{
    struct expectation expectation = { .how = how };
    usec_t from = server->conf->virtual_time ? core_now(core) + 1 : clock_now();
    struct foresee_limits limits = {
        .from = from, .steps = STEPS_MAX, .horizon = from + HORIZON, .until = until, .starts = STARTS_MAX
    };
    struct error err;
    int r;

    if (until && core_waiting(core) > LONG_LINE)
        limits.horizon = from;
    r = foresee(core, &limits, left_expected, &expectation, ret, &err);
    if (ret_guessed)
        *ret_guessed = expectation.guessed;
    return r;
}

struct by_id {
    int64_t id;
    usec_t start;
};

static int by_id_order(const void *a, const void *b)
{
    const struct by_id *x = a, *y = b;

    if (x->id != y->id)
        return x->id < y->id ? -1 : 1;
    return x->start < y->start ? -1 : x->start > y->start;
}

/* First starts by id, and the list for the timeline. */
static int forecast_index(struct forecast *forecast)
{
    const struct future *future = &forecast->likely;
    struct by_id *sorted = mem_zalloc(future->count + 1, sizeof(*sorted));

    forecast->order = mem_zalloc(future->count + 1, sizeof(*forecast->order));
    forecast->starts = mem_zalloc(future->count + 1, sizeof(*forecast->starts));
    forecast->planned = mem_zalloc(future->count + 1, sizeof(*forecast->planned));
    if (!sorted || !forecast->order || !forecast->starts || !forecast->planned) {
        mem_free(sorted);
        return -ENOMEM;
    }
    for (size_t i = 0; i < future->count; i++) {
        const struct foreseen *item = &future->items[i];

        sorted[i] = (struct by_id){ item->job, item->start };
        forecast->planned[i] = (struct planned){ item->job, item->start, item->end, item->gpu_first, item->gpu_count };
    }
    qsort(sorted, future->count, sizeof(*sorted), by_id_order);
    for (size_t i = 0; i < future->count; i++)
        if (i == 0 || sorted[i].id != sorted[i - 1].id) {
            forecast->order[forecast->order_count] = sorted[i].id;
            forecast->starts[forecast->order_count++] = sorted[i].start;
        }
    mem_free(sorted);
    return 0;
}

/* Earliest and latest starts, by two more futures; only of a line short enough that they cost little. */
static void forecast_range(struct forecast *forecast, const struct server *server)
{
    if (core_waiting(ctl_core(batcher_ctl(server->batcher))) > SHORT_LINE)
        return; /* nor is a copy made, which is most of the cost of a long line */
    for (int how = 0; how < EXPECT_COUNT; how++) {
        usec_t **bound = how == EXPECT_SOON ? &forecast->lows : &forecast->highs;
        struct core *core = NULL;
        struct future future;
        struct error err;
        int r;

        if (how == EXPECT_LIKELY || core_copy(server, &core, &err) < 0)
            continue;
        r = future_of(server, core, (enum expect)how, 0, &future, NULL);
        core_free(core);
        if (r < 0)
            continue;
        *bound = mem_zalloc(forecast->order_count + 1, sizeof(**bound));
        for (size_t i = 0; *bound && i < forecast->order_count; i++) {
            const struct foreseen *found = future_find(&future, forecast->order[i]);

            (*bound)[i] = found ? found->start : 0;
        }
        future_done(&future);
    }
}

/* The likely future of the present state. Under a stream of changes it may be a second old, or where many wait so old
 * as it was dear. */
static bool forecast_look(struct forecast *forecast)
{
    const struct server *server = forecast->server;
    struct ctl *ctl = batcher_ctl(server->batcher);
    usec_t now = clock_now();
    struct core *core = NULL;
    struct error err;
    int r;

    if (forecast->valid && (forecast->seq == ctl_seq(ctl) || now - forecast->made < forecast->keep))
        return true;
    forecast_forget(forecast);
    if (core_copy(server, &core, &err) < 0)
        return false;
    r = future_of(server, core, EXPECT_LIKELY, 0, &forecast->likely, &forecast->guessed);
    core_free(core);
    if (r == 0)
        r = forecast_index(forecast);
    if (r < 0) {
        forecast_forget(forecast);
        return false;
    }
    forecast_range(forecast, server);
    forecast->seq = ctl_seq(ctl);
    forecast->made = clock_now();
    forecast->keep = line_long(forecast) ? (forecast->made - now) * COST_SHARE : KEEP_FOR;
    forecast->keep = forecast->keep < KEEP_FOR ? KEEP_FOR : forecast->keep < KEEP_MOST ? forecast->keep : KEEP_MOST;
    forecast->valid = true;
    return true;
}

static void basis_fill(struct eta *eta, bool guessed, bool estimates)
{
    (void)snprintf(eta->basis, sizeof(eta->basis), "%s",
                   guessed     ? "time limits; a guess for jobs without one"
                   : estimates ? "estimates and time limits"
                               : "time limits");
}

bool forecast_eta(struct forecast *forecast, int64_t job, struct eta *ret_eta)
{
    const struct ctl_job *known = registry_find(server_book(forecast->server), job);
    size_t low = 0, high;

    if (known && known->gate == GATE_BEGIN && known->spec->begin) {
        *ret_eta = (struct eta){ .at = known->spec->begin, .low = known->spec->begin, .high = 0 };
        (void)snprintf(ret_eta->basis, sizeof(ret_eta->basis), "the time it asked for");
        return true;
    }
    if (!known || known->gate != GATE_NONE || !forecast_look(forecast))
        return false;
    high = forecast->order_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (forecast->order[middle] < job)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == forecast->order_count || forecast->order[low] != job)
        return false;
    *ret_eta = (struct eta){ .at = forecast->starts[low], .low = forecast->starts[low], .high = forecast->starts[low] };
    if (forecast->lows && forecast->lows[low] && forecast->lows[low] < ret_eta->low)
        ret_eta->low = forecast->lows[low];
    if (forecast->highs && forecast->highs[low] > ret_eta->high)
        ret_eta->high = forecast->highs[low];
    basis_fill(ret_eta, forecast->guessed, true);
    return true;
}

const struct planned *forecast_planned(struct forecast *forecast, size_t *ret_count, const uint32_t **ret_gpus)
{
    *ret_count = 0;
    *ret_gpus = NULL;
    if (!forecast_look(forecast))
        return NULL;
    *ret_count = forecast->likely.count;
    *ret_gpus = forecast->likely.gpus;
    return forecast->planned;
}

usec_t forecast_leave(struct forecast *forecast, int64_t job)
{
    return forecast_look(forecast) ? future_leave(&forecast->likely, job) : 0;
}

/* The range of one job's start: three futures. */
bool eta_range(const struct server *server, int64_t job, struct eta *ret_eta)
{
    const struct core *now = ctl_core(batcher_ctl(server->batcher));
    usec_t at[EXPECT_COUNT] = { 0 };
    bool guessed = false;

    if (now && core_waiting(now) > LONG_LINE)
        return forecast_eta(server->forecast, job, ret_eta);

    for (int how = 0; how < EXPECT_COUNT; how++) {
        struct future future;
        struct core *core = NULL;
        struct error err;
        const struct foreseen *found;
        int r = core_copy(server, &core, &err);

        if (r == 0)
            r = future_of(server, core, (enum expect)how, job, &future, &guessed);
        core_free(core);
        if (r < 0)
            return false;
        found = future_find(&future, job);
        at[how] = found ? found->start : 0;
        future_done(&future);
        if (how == EXPECT_LIKELY && !at[how])
            return false;
    }
    *ret_eta = (struct eta){ .at = at[EXPECT_LIKELY],
                             .low = at[EXPECT_SOON] && at[EXPECT_SOON] < at[EXPECT_LIKELY] ? at[EXPECT_SOON]
                                                                                           : at[EXPECT_LIKELY],
                             .high = at[EXPECT_LIMITS] > at[EXPECT_LIKELY] ? at[EXPECT_LIMITS] : at[EXPECT_LIKELY] };
    basis_fill(ret_eta, guessed, true);
    return true;
}
