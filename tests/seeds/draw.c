/* SPDX-License-Identifier: Apache-2.0 */
/* draw.c - a cluster, its people, their jobs and its bad luck, from a seed.
 *
 * Every draw is in a statement or a declarator of its own: arguments and initialisers have no order among them, and
 * what is drawn must not depend on who has compiled this.
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "policy/registry.h"
#include "seeds.h"
#include "wire/cluster/cluster.h"
#include "wire/cluster/cluster_cells.h"

static uint32_t below(struct rng *rng, uint32_t bound)
{
    return (uint32_t)rng_below(rng, bound);
}

static bool chance(struct rng *rng, uint32_t percent)
{
    return below(rng, 100) < percent;
}

static const char *pick(struct rng *rng, const char *const *words, uint32_t count)
{
    return words[below(rng, count)];
}

/* ---- the cluster ---- */

static int draw_nodes(struct rng *rng, struct life *life, bool sides, struct error *err)
{
    uint32_t types = 1 + (chance(rng, sides ? 100 : 40) ? 1 + below(rng, 2) : 0);
    size_t have = 0;

    for (uint32_t t = 0; t < types; t++) {
        static const uint32_t sizes[] = { 1, 2, 4, 4, 8, 8, 3, 6 };
        uint32_t gpus = sizes[below(rng, 8)], racks = 1 + below(rng, 3), nodes = 1 + below(rng, 4);
        bool sockets = gpus % 2 == 0 && chance(rng, 50);

        have += (size_t)snprintf(life->cluster_text + have, sizeof(life->cluster_text) - have,
                                 "%sracks:%u nodes:%u gpus:%u%s sku:T%u", t ? " + " : "", racks, nodes, gpus,
                                 sockets ? " sockets:2" : "", t);
    }
    return cluster_parse(life->cluster_text, &life->cluster, err);
}

/* What was drawn from, by hand, when the seeds that tests name found something. */
static const char *const found_policies[] = { "fifo",
                                              "fifo-skip",
                                              "sjf",
                                              "srtf",
                                              "srsf",
                                              "srtf",
                                              "backfill-easy",
                                              "yarn-cs",
                                              "backfill-conservative",
                                              "yarn-cs",
                                              "las",
                                              "gittins",
                                              "chronus",
                                              "edf",
                                              "edf-admit",
                                              "gandiva",
                                              "gandiva",
                                              "las+pack+migrate",
                                              "fifo-skip+pack+migrate+grow",
                                              "srtf+migrate+defrag" };

/* One of the register, some with optimisers of the register. */
static const char *draw_policy(const struct draw *draw, struct rng *rng, struct life *life)
{
    size_t policies = 0, tuners = 0;
    const char *name;
    uint32_t pair;

    if (draw->found)
        return pick(rng, found_policies, sizeof(found_policies) / sizeof(*found_policies));
    while (policy_at(policies))
        policies++;
    while (policy_tuner(tuners))
        tuners++;
    name = policy_at(below(rng, (uint32_t)policies))->name;
    pair = below(rng, (uint32_t)(tuners * tuners));
    if (!chance(rng, 30))
        return name;
    (void)snprintf(life->policy_text, sizeof(life->policy_text), "%s+%s+%s", name, policy_tuner(pair / tuners)->name,
                   policy_tuner(pair % tuners)->name);
    return policy_known(life->policy_text) ? life->policy_text : name;
}

static const char *const places[] = {
    "count", "consolidate", "spread", "random", "topology", "yarn", "levels", "skew"
};

static int draw_vc(const struct draw *draw, struct rng *rng, struct life *life, uint32_t index, int32_t *left)
{
    struct names *names = &life->cluster.names;
    struct vc_spec *vc = &life->cluster.vcs[index];
    const char name[3] = { 'v', (char)('A' + index), '\0' };
    int r;

    *vc = (struct vc_spec){ .policy = NAME_NONE, .borrow_max = chance(rng, 50) ? -1 : (int32_t)below(rng, 5) };
    r = names_put(names, name, 2, &vc->name);
    for (uint32_t s = 0; s < life->cluster.sku_count; s++) {
        vc->quota[s] = (int32_t)below(rng, (uint32_t)left[s] + 1);
        left[s] -= vc->quota[s];
    }
    if (r == 0 && chance(rng, 40)) {
        const char *policy = draw_policy(draw, rng, life), *place = pick(rng, places, 8);

        r = names_put(names, policy, strlen(policy), &vc->policy);
        if (r == 0)
            r = names_put(names, "place", 5, &vc->params[0].key);
        if (r == 0)
            r = names_put(names, place, strlen(place), &vc->params[0].value);
        vc->param_count = 1;
    }
    return r;
}

static int draw_vcs(const struct draw *draw, struct rng *rng, struct life *life)
{
    uint32_t count = 2 + below(rng, 3);
    int32_t left[SKUS_MAX] = { 0 };
    struct vc_spec *vcs;
    int r = 0;

    if (chance(rng, 40))
        return 0; /* the one that is owed everything */
    vcs = mem_zalloc(count, sizeof(*vcs));
    if (!vcs)
        return -1;
    for (uint32_t n = 0; n < life->cluster.node_count; n++)
        left[life->cluster.nodes[n].sku] += life->cluster.nodes[n].gpus;
    mem_free(life->cluster.vcs);
    life->cluster.vcs = vcs;
    life->cluster.vc_count = count;
    for (uint32_t v = 0; v < count && r == 0; v++)
        r = draw_vc(draw, rng, life, v, left);
    return r;
}

/* What each is owed comes in cells: some of it in parts of a node, the rest as large as it goes. What cannot be had in
 * shape is made smaller until it can. */
static int draw_cells(struct rng *rng, struct life *life)
{
    struct cluster_spec *cluster = &life->cluster;
    struct cell_spec *cells = mem_zalloc(1, sizeof(*cells));
    struct guarantee *list = mem_zalloc((size_t)cluster->vc_count * cluster->sku_count, sizeof(*list));
    static const uint16_t parts[] = { 0, 0, 1, 2, 4 };
    uint32_t count = 0, which = CELL_NONE;

    if (!cells || !list)
        return -1;
    for (uint32_t v = 0; v < cluster->vc_count; v++)
        for (uint16_t s = 0; s < cluster->sku_count; s++)
            if (cluster->vcs[v].quota[s])
                list[count++] = (struct guarantee){ .vc = v,
                                                    .sku = s,
                                                    .unit = GUARANTEE_GPUS,
                                                    .count = (uint32_t)cluster->vcs[v].quota[s],
                                                    .together = parts[below(rng, 5)] };
    for (uint32_t v = 0; v < cluster->vc_count; v++)
        if (chance(rng, 30))
            cluster->vcs[v].user_max = (int32_t)(1 + below(rng, 12));
    cluster->guarantees = list;
    cluster->guarantee_count = count;
    cluster->cells = cells;
    while (cluster_cells(cluster, cells, NULL, &which, NULL) < 0) {
        if (which >= cluster->guarantee_count) {
            mem_free(cells);
            cluster->cells = NULL;
            return 0; /* a cluster whose nodes make no cells */
        }
        if (list[which].together)
            list[which].together = 0;
        else if (list[which].count > 1)
            list[which].count--;
        else
            list[which] = list[--cluster->guarantee_count];
    }
    return 0;
}

/* ---- jobs ---- */

static void draw_fate(struct rng *rng, struct trace_job *job)
{
    job->truth.duration = (usec_t)(1 + below(rng, chance(rng, 70) ? 300 : 7000)) * USEC_SEC;
    if (chance(rng, 20))
        job->truth.duration += below(rng, 1000000);
    if (chance(rng, 15)) {
        job->truth.fail = (uint8_t)(1 + below(rng, 3));
        job->truth.fail_after = muldiv_floor(job->truth.duration, below(rng, 1000), 1000) + 1;
        job->truth.fail_times = chance(rng, 20) ? UINT8_MAX : (uint8_t)(1 + below(rng, 3));
        job->spec.retries = (uint8_t)below(rng, 4);
    }
    if (chance(rng, 30))
        job->spec.estimate = muldiv_floor(job->truth.duration, 200 + below(rng, 3000), 1000) + 1;
    if (chance(rng, 40)) {
        usec_t at = job->spec.submit;

        job->spec.deadline_count = (uint8_t)(1 + (chance(rng, 30) ? below(rng, DEADLINES_MAX) : 0));
        for (int i = 0; i < job->spec.deadline_count; i++) {
            at += muldiv_floor(job->truth.duration, 300 + below(rng, 3000), 1000) + 1;
            job->spec.deadlines[i] = (struct deadline){ at, 10 - 2 * i };
        }
        job->spec.slo = job->spec.deadline_count > 1 ? SLO_SOFT : SLO_STRICT;
    }
    if (chance(rng, 30))
        job->spec.time_limit = muldiv_floor(job->truth.duration, 800 + below(rng, 4000), 1000) + 1;
}

static int draw_job(struct rng *rng, struct life *life, usec_t submit)
{
    struct trace_job job;

    trace_job_init(&job);
    job.spec.id = (int64_t)life->trace.count;
    job.spec.submit = submit;
    if (chance(rng, 20)) {
        job.spec.share = (mgpu_t)(chance(rng, 50) ? 500 : 1 + below(rng, 999));
    } else {
        job.spec.gpus = (int32_t)(1 + below(rng, chance(rng, 60) ? 2 : chance(rng, 70) ? 8 : 40));
        job.spec.gpus_min = job.spec.gpus_max = job.spec.gpus;
        if (chance(rng, 10)) {
            job.spec.gpus_min = (int32_t)(1 + below(rng, (uint32_t)job.spec.gpus));
            job.spec.gpus_max = job.spec.gpus + (int32_t)below(rng, 4);
        }
    }
    if (chance(rng, 30))
        job.spec.sku_mask = 1 + below(rng, (1u << life->cluster.sku_count) - 1);
    if (chance(rng, 15))
        job.spec.klass = CLASS_OPPORTUNISTIC;
    if (life->cluster.cells)
        job.spec.user = below(rng, 3);
    if (life->cluster.vc_count > 1)
        job.spec.vc = below(rng, life->cluster.vc_count);
    draw_fate(rng, &job);
    return trace_add(&life->trace, &job);
}

static int draw_jobs(struct rng *rng, struct life *life)
{
    uint32_t count = 5 + below(rng, chance(rng, 80) ? 60 : 200), gap = 1 + below(rng, 200), index;
    usec_t submit = 0;
    char name[16];
    int r = 0;

    for (uint32_t s = 0; s < life->cluster.sku_count && r == 0; s++) {
        (void)snprintf(name, sizeof(name), "T%u", s);
        r = names_put(&life->trace.skus, name, 2, &index);
    }
    for (uint32_t v = 0; v < life->cluster.vc_count && r == 0; v++) {
        const char *vc = names_get(&life->cluster.names, life->cluster.vcs[v].name);

        r = names_put(&life->trace.vcs, vc, strlen(vc), &index);
    }
    for (uint32_t u = 0; u < 3 && r == 0; u++) {
        (void)snprintf(name, sizeof(name), "u%u", u);
        r = names_put(&life->trace.users, name, 2, &index);
    }
    for (uint32_t i = 0; i < count && r == 0; i++) {
        usec_t unit = chance(rng, 90) ? USEC_SEC : 1;

        submit += (usec_t)below(rng, gap) * unit;
        r = draw_job(rng, life, submit);
    }
    return r;
}

/* ---- settings and events ---- */

static void set(struct life *life, const char *key, const char *value)
{
    size_t i = life->setting_count++;

    (void)snprintf(life->values[i], SETTING_TEXT, "%s", value);
    life->settings[i] = (struct setting){ key, life->values[i] };
}

static void set_seconds(struct rng *rng, struct life *life, const char *key, uint32_t low, uint32_t span)
{
    char text[SETTING_TEXT];

    (void)snprintf(text, sizeof(text), "%us", low + below(rng, span));
    set(life, key, text);
}

static void draw_settings(const struct draw *draw, struct rng *rng, struct life *life)
{
    static const char *const keeps[] = { "all", "checkpoint", "none" };

    life->policy = draw_policy(draw, rng, life);
    if (chance(rng, 70))
        set(life, "place", pick(rng, places, 8));
    if (chance(rng, 50))
        set_seconds(rng, life, "restart", 0, 90);
    if (chance(rng, 30))
        set_seconds(rng, life, "start", 0, 30);
    if (chance(rng, 40))
        set_seconds(rng, life, "checkpoint", 10, 300);
    if (chance(rng, 40))
        set_seconds(rng, life, "mtbf", 2000, 20000);
    if (chance(rng, 60))
        set_seconds(rng, life, "mttr", 30, 3000);
    if (chance(rng, 30))
        set_seconds(rng, life, "gpu-mtbf", 5000, 50000);
    if (chance(rng, 30))
        set_seconds(rng, life, "gpu-mttr", 30, 3000);
    if (chance(rng, 15))
        set_seconds(rng, life, "round", 5, 120);
    if (chance(rng, 30))
        set(life, "keep", pick(rng, keeps, 3));
    if (chance(rng, 20))
        set(life, "estimate-error", "0.5");
    set(life, "infeasible", "skip");
    if (chance(rng, 40))
        life->stop_cost = (usec_t)below(rng, 60) * USEC_SEC;
    if (rng_mix(life->seed + 281) % 100 < 25) /* apart from the stream, so that all else is as it would be without */
        set(life, "move-fails", "0.3");
    life->until = life->trace.jobs[life->trace.count - 1].spec.submit + USEC_DAY;
    life->reload_every = 4 + below(rng, 60);
}

static struct driver_event draw_event(struct rng *rng, const struct life *life, usec_t end)
{
    static const enum event_kind kinds[] = { EVENT_CANCEL, EVENT_HOLD, EVENT_HOLD, EVENT_QUOTA, EVENT_NODE, EVENT_GPU };
    struct driver_event event = { .kind = kinds[below(rng, 6)] };
    uint32_t gpus = 0;

    event.at = (usec_t)rng_below(rng, (uint64_t)end + 1);
    for (uint32_t n = 0; n < life->cluster.node_count; n++)
        gpus += life->cluster.nodes[n].gpus;
    if (event.kind == EVENT_QUOTA && life->cluster.cells)
        event.kind = chance(rng, 50) ? EVENT_GPU : EVENT_RANK; /* cells do not change under those who have them */
    if (event.kind == EVENT_QUOTA) {
        event.target = below(rng, life->cluster.vc_count);
        event.sku = (uint16_t)below(rng, life->cluster.sku_count);
        event.value = (int32_t)below(rng, gpus + 1);
    } else if (event.kind == EVENT_NODE) {
        event.target = below(rng, life->cluster.node_count);
    } else if (event.kind == EVENT_GPU) {
        event.target = below(rng, gpus);
    } else {
        event.target = below(rng, (uint32_t)life->trace.count);
        event.value = event.kind == EVENT_RANK ? (int32_t)below(rng, 5) : 0;
        if (chance(rng, 50)) /* right as it comes, or shortly after */
            event.at = life->trace.jobs[event.target].spec.submit + (usec_t)below(rng, 3) * USEC_SEC;
    }
    return event;
}

static void keep_event(struct life *life, struct driver_event event)
{
    size_t i = life->script_count++;

    for (; i && life->script[i - 1].at > event.at; i--)
        life->script[i] = life->script[i - 1];
    life->script[i] = event;
}

/* Whoever is held is released, and what goes down comes up again, later. */
static void draw_script(struct rng *rng, struct life *life)
{
    usec_t end = life->trace.jobs[life->trace.count - 1].spec.submit + 600 * USEC_SEC;
    uint32_t count = chance(rng, 30) ? 0 : below(rng, SCRIPT_MAX / 2);

    for (uint32_t i = 0; i < count; i++) {
        struct driver_event event = draw_event(rng, life, end);

        keep_event(life, event);
        event.at += (usec_t)below(rng, 2000) * USEC_SEC;
        event.up = true;
        if (event.kind == EVENT_HOLD)
            event.kind = EVENT_RELEASE;
        if (event.kind == EVENT_RELEASE || event.kind == EVENT_NODE || event.kind == EVENT_GPU)
            keep_event(life, event);
    }
}

/* People set the sizes of elastic jobs. From a stream of its own, so that all else is as it would be without. */
static void draw_sizes(uint64_t seed, struct life *life)
{
    usec_t end = life->trace.jobs[life->trace.count - 1].spec.submit + 600 * USEC_SEC;
    struct rng rng;
    uint32_t count;

    rng_seed(&rng, rng_mix(seed + 431));
    count = chance(&rng, 50) ? 0 : below(&rng, SCRIPT_MAX / 4);
    for (uint32_t i = 0; i < count && life->script_count < SCRIPT_MAX; i++) {
        struct driver_event event = { .kind = EVENT_SIZE, .target = below(&rng, (uint32_t)life->trace.count) };
        const struct jobspec *spec = &life->trace.jobs[event.target].spec;

        event.at = chance(&rng, 30) ? spec->submit + (usec_t)below(&rng, 3) * USEC_SEC
                                    : (usec_t)rng_below(&rng, (uint64_t)end + 1);
        if (chance(&rng, 85)) /* else any size again */
            event.value = spec->gpus_min + (int32_t)below(&rng, (uint32_t)(spec->gpus_max - spec->gpus_min) + 1);
        keep_event(life, event);
    }
}

/* ---- CPUs, memory, nearness ---- */

static void draw_wish(struct rng *rng, struct jobspec *spec)
{
    if (chance(rng, 25)) {
        spec->within = (uint8_t)(1 + below(rng, WITHIN_COUNT - 1));
        spec->within_must = chance(rng, 50);
    }
    if (chance(rng, 10) && spec->gpus % 2 == 0 && spec->gpus_min == spec->gpus_max) {
        spec->unit = (uint8_t)(1 + below(rng, WITHIN_NODE));
        spec->per_unit = (uint16_t)(spec->gpus % 4 ? 2 : 4);
    } else if (chance(rng, 10) && spec->gpus_min == spec->gpus_max) {
        spec->per_node = (uint16_t)(spec->gpus % 2 ? 1 : 2);
    }
}

/* From a stream of its own, so that all else is as it would be without. */
static void draw_hosts(uint64_t seed, struct life *life)
{
    struct rng rng;

    rng_seed(&rng, rng_mix(seed + 77));
    if (!chance(&rng, 40))
        return;
    for (uint32_t n = 0; n < life->cluster.node_count; n++) {
        struct node_spec *node = &life->cluster.nodes[n];

        node->cpus = node->gpus * (1 + below(&rng, 4));
        node->cpus += below(&rng, 3);
        node->cpu_jobs = below(&rng, node->cpus + 1);
        node->memory_mib = chance(&rng, 70) ? node->gpus * 1000 : 0;
    }
    for (uint32_t v = 0; v < life->cluster.vc_count; v++)
        life->cluster.vcs[v].cpus = (int32_t)below(&rng, 6);
    for (size_t i = 0; i < life->trace.count; i++) {
        struct jobspec *spec = &life->trace.jobs[i].spec;

        if (chance(&rng, 60))
            spec->mcpus = 1 + below(&rng, 3000);
        if (chance(&rng, 30))
            spec->host_mib = 1 + below(&rng, 1500);
        if (spec->share == MGPU_ONE && chance(&rng, 20)) {
            spec->tasks = (int32_t)(1 + below(&rng, 4));
            spec->gpus = spec->gpus_min = spec->gpus_max = 0;
            spec->mcpus += 100;
            spec->deadline_count = 0;
            spec->slo = SLO_BEST_EFFORT;
        } else if (spec->share == MGPU_ONE) {
            draw_wish(&rng, spec);
        }
    }
}

/* ---- classes and tiers ---- */

static void draw_class(struct rng *rng, struct jobspec *spec)
{
    static const uint16_t degrees[] = { 0, 0, 0, 2, 2, 4 };

    if (spec->klass == CLASS_GUARANTEED && chance(rng, 25))
        spec->klass = CLASS_AUTO;
    spec->tier = (uint8_t)below(rng, TIER_COUNT);
    spec->user = below(rng, 3);
    spec->utilisation = chance(rng, 80) ? (uint16_t)(5 + below(rng, 95)) : 0;
    spec->memory_mib = chance(rng, 60) ? 100 + below(rng, 20000) : 0;
    if (spec->share == MGPU_ONE && spec->gpus > 1 && spec->gpus_min == spec->gpus_max && chance(rng, 40)) {
        uint16_t tp = degrees[below(rng, 6)], pp = degrees[below(rng, 6)];

        spec->tp = tp && spec->gpus % tp == 0 ? tp : 0;
        spec->pp = pp && spec->gpus % (pp * (spec->tp ? spec->tp : 1)) == 0 ? pp : 0;
        spec->splice_max = chance(rng, 30) ? (uint16_t)(1 + below(rng, 4)) : 0;
    }
}

/* The options that were given, for the cluster and for the parts of it that have that policy. */
static int draw_given(const struct draw *draw, struct life *life)
{
    struct names *names = &life->cluster.names;
    int r = 0;

    for (size_t i = 0; i < draw->given_count; i++) {
        const struct setting *given = &draw->given[i];

        life->settings[life->setting_count++] = *given;
        for (uint32_t v = 0; v < life->cluster.vc_count && r == 0; v++) {
            struct vc_spec *vc = &life->cluster.vcs[v];
            struct param_text *param = &vc->params[vc->param_count];

            if (vc->policy == NAME_NONE || strcmp(names_get(names, vc->policy), life->policy) != 0)
                continue;
            r = names_put(names, given->key, strlen(given->key), &param->key);
            if (r == 0)
                r = names_put(names, given->value, strlen(given->value), &param->value);
            vc->param_count++;
        }
    }
    return r;
}

/* Policies that ask who shares, who is promised what and who may be resized, for the whole cluster or for some of its
 * parts beside others. From a stream of its own too. */
static int draw_tiers(const struct draw *draw, struct life *life)
{
    static const char *const tiered[] = { "antman", "singularity" };
    struct rng rng;
    int r = 0;

    rng_seed(&rng, rng_mix(draw->seed + 177));
    if (!draw->policy && !chance(&rng, 35))
        return 0;
    life->policy = draw->policy ? draw->policy : pick(&rng, tiered, 2);
    for (uint32_t v = 0; v < life->cluster.vc_count && r == 0; v++) {
        struct vc_spec *vc = &life->cluster.vcs[v];
        const char *policy = chance(&rng, 50) ? life->policy : pick(&rng, tiered, 2);

        if (chance(&rng, 50))
            r = names_put(&life->cluster.names, policy, strlen(policy), &vc->policy);
    }
    for (uint32_t s = 0; s < life->cluster.sku_count; s++)
        if (chance(&rng, 50))
            life->cluster.skus[s].memory_mib = 8000 + below(&rng, 40000);
    for (size_t i = 0; i < life->trace.count; i++)
        draw_class(&rng, &life->trace.jobs[i].spec);
    return r;
}

/* ---- licences ---- */

static int draw_kinds(struct rng *rng, struct life *life)
{
    uint32_t kinds = 1 + below(rng, 3), index;
    int r = 0;

    for (uint32_t i = 0; i < kinds && r == 0; i++) {
        const char name[3] = { 'l', (char)('A' + i), '\0' };

        r = names_put(&life->cluster.names, name, 2, &life->cluster.licenses[i].name);
        if (r == 0)
            r = names_put(&life->trace.licenses, name, 2, &index);
        life->cluster.licenses[i].count = 1 + below(rng, 6);
    }
    life->cluster.license_count = kinds;
    return r;
}

/* From a stream of its own too. Some ask for more than there are, and are refused. */
static int draw_licenses(uint64_t seed, struct life *life)
{
    struct rng rng;
    int r;

    rng_seed(&rng, rng_mix(seed + 613));
    if (!chance(&rng, 40))
        return 0;
    r = draw_kinds(&rng, life);
    for (size_t i = 0; i < life->trace.count && r == 0; i++) {
        struct jobspec *spec = &life->trace.jobs[i].spec;

        for (uint32_t k = 0; k < life->cluster.license_count; k++) {
            uint32_t most = life->cluster.licenses[k].count + chance(&rng, 5);

            if (chance(&rng, 35))
                spec->licenses[spec->license_count++] = (struct license_need){ 1 + below(&rng, most), (uint8_t)k };
        }
    }
    return r;
}

static void draw_marks(uint64_t seed, struct life *life)
{
    struct rng rng;

    rng_seed(&rng, rng_mix(seed + 277));
    life->marks = true;
    for (uint32_t n = 0; n < life->cluster.node_count; n++) {
        life->cluster.nodes[n].marks = below(&rng, 4);
        life->cluster.nodes[n].kept = chance(&rng, 20);
    }
    for (size_t i = 0; i < life->trace.count; i++) {
        life->trace.jobs[i].spec.mark = chance(&rng, 30) ? (uint8_t)(1 + below(&rng, 2)) : 0;
        life->trace.jobs[i].spec.kept = chance(&rng, 15);
    }
}

int life_draw(const struct draw *draw, struct life *ret_life, struct error *err)
{
    uint64_t seed = draw->seed;

    struct rng rng;
    int r;

    *ret_life = (struct life){ .seed = seed };
    rng_seed(&rng, rng_mix(seed + 1));
    r = draw_nodes(&rng, ret_life, draw->sides, err);
    if (r == 0)
        r = draw_vcs(draw, &rng, ret_life);
    if (r == 0 && draw->cells)
        r = draw_cells(&rng, ret_life);
    if (r == 0)
        r = draw_jobs(&rng, ret_life);
    if (r < 0)
        return r;
    trace_sort(&ret_life->trace);
    draw_hosts(seed, ret_life);
    draw_settings(draw, &rng, ret_life);
    draw_script(&rng, ret_life);
    draw_sizes(seed, ret_life);
    if (draw->marks)
        draw_marks(seed, ret_life);
    r = draw_tiers(draw, ret_life);
    if (r == 0)
        r = draw_licenses(seed, ret_life);
    draw_sides(draw, ret_life);
    draw_terms(draw, ret_life);
    draw_drains(draw, ret_life);
    draw_classes(draw, ret_life);
    if (r == 0)
        r = draw_bare(draw, ret_life);
    return r < 0 ? r : draw_given(draw, ret_life);
}

void life_done(struct life *life)
{
    trace_done(&life->trace);
    cluster_spec_done(&life->cluster);
}
