/* SPDX-License-Identifier: Apache-2.0 */
/* story_run.c - runs a story and writes down what was decided, a line each. */
#include <stdio.h>
#include <string.h>

#include "core/core_internal.h"
#include "model/splice.h"
#include "sim/metrics/metrics.h"
#include "story.h"

struct recorder {
    const struct story *story;
    struct buf *out;
};

static const char *job_name(const struct story *story, int64_t id)
{
    return names_get(&story->trace.ids, (uint32_t)id);
}

/* 1500000 is 1.5s. */
static void put_time(struct buf *out, usec_t at)
{
    char text[40];
    size_t length;

    (void)snprintf(text, sizeof(text), "%lld.%06lld", (long long)(at / USEC_SEC), (long long)(at % USEC_SEC));
    length = strlen(text);
    while (text[length - 1] == '0')
        length--;
    if (text[length - 1] == '.')
        length--;
    text[length] = '\0';
    buf_printf(out, "%ss", text);
}

static void put_line(struct buf *out, usec_t at, const char *verb)
{
    size_t begin = out->size;

    buf_char(out, '@');
    put_time(out, at);
    while (out->size < begin + 8)
        buf_char(out, ' ');
    buf_printf(out, " %-5s", verb);
}

static void put_mgpu(struct buf *out, const char *name, int64_t amount)
{
    buf_printf(out, " %s=%lld", name, (long long)(amount / MGPU_ONE));
    if (amount % MGPU_ONE)
        buf_printf(out, ".%03lld", (long long)(amount % MGPU_ONE));
}

/* " n0:0-3,5 n1:0" */
static void put_gpus(struct buf *out, const struct story *story, const struct core *core, const uint32_t *gpus,
                     uint32_t count)
{
    const struct ledger *ledger = core_ledger(core);
    uint32_t node = UINT32_MAX;

    for (uint32_t i = 0, last; i < count; i = last + 1) {
        uint32_t here = ledger->gpus[gpus[i]].node, first = ledger->topo.nodes[here].first_gpu;

        for (last = i;
             last + 1 < count && gpus[last + 1] == gpus[last] + 1 && ledger->gpus[gpus[last + 1]].node == here;)
            last++;
        if (here != node)
            buf_printf(out, " %s:%u", names_get(&story->cluster.names, story->cluster.nodes[here].name),
                       gpus[i] - first);
        else
            buf_printf(out, ",%u", gpus[i] - first);
        if (last > i)
            buf_printf(out, "-%u", gpus[last] - first);
        node = here;
    }
}

static const char *const classes[CLASS_COUNT] = { "guaranteed", "opportunistic", "auto" };
/* " n0*3": so many tasks of a job without GPUs */
static void put_tasks(struct buf *out, const struct story *story, const struct core *core, uint32_t job)
{
    struct core_task tasks[16];
    uint32_t count = core_tasks(core, job, tasks, 16);

    for (uint32_t i = 0; i < count && i < 16; i++)
        buf_printf(out, " %s*%u", names_get(&story->cluster.names, story->cluster.nodes[tasks[i].node].name),
                   tasks[i].tasks);
}

static void on_decision(void *arg, const struct core *core, const struct decision *d, const uint32_t *gpus)
{
    const struct recorder *rec = arg;

    put_line(rec->out, d->at, decision_name(d->kind));
    buf_printf(rec->out, " %s", job_name(rec->story, d->id));
    if (d->reason != REASON_NONE && d->kind != DECISION_START)
        buf_printf(rec->out, " %s", reason_name(d->reason));
    if (d->kind == DECISION_START || d->kind == DECISION_MIGRATE || d->kind == DECISION_PREPARE ||
        d->kind == DECISION_SPLICE)
        put_gpus(rec->out, rec->story, core, gpus, d->gpu_count);
    if (d->kind == DECISION_START)
        put_tasks(rec->out, rec->story, core, d->job);
    if (d->until && d->until != USEC_NEVER)
        buf_printf(rec->out, " until=%llds", (long long)(d->until / USEC_SEC));
    if (d->breach)
        buf_printf(rec->out, " %s", breach_name((enum breach)d->breach));
    if (d->kind == DECISION_TIER)
        buf_printf(rec->out, " %s", tier_name((enum job_tier)d->needs));
    if (d->kind == DECISION_RELAX)
        buf_printf(rec->out, " level=%lld", (long long)d->needs);
    if (d->kind == DECISION_CLASS)
        buf_printf(rec->out, " %s", classes[d->needs]);
    if (d->kind == DECISION_SIZE)
        buf_printf(rec->out, " gpus=%lld", (long long)d->needs);
    if (d->kind == DECISION_LIMIT) {
        if (d->needs)
            buf_printf(rec->out, " memory=%lldM", (long long)d->needs);
        buf_printf(rec->out, " time=%lld%%", (long long)d->free);
    }
    if (d->kind == DECISION_WAIT) {
        put_mgpu(rec->out, "needs", d->needs);
        put_mgpu(rec->out, "free", d->free);
    }
    buf_char(rec->out, '\n');
}

static void put_why(const struct recorder *rec, const struct core *core, uint32_t id)
{
    put_line(rec->out, core->now, "why");
    buf_printf(rec->out, " %s", job_name(rec->story, id));
    for (uint32_t i = 0; i < core->job_top; i++) {
        const struct job *job = &core->jobs[i];

        if (job->state == JOB_FREE || job->spec.id != (int64_t)id)
            continue;
        if (core_reason(core, i) == REASON_NONE)
            buf_printf(rec->out, " %s\n", job_state_name(job->state));
        else
            buf_printf(rec->out, " %s\n", reason_name(core_reason(core, i)));
        return;
    }
    buf_text(rec->out, " gone\n");
}

static void on_instant(void *arg, const struct core *core)
{
    const struct recorder *rec = arg;

    for (size_t i = 0; i < rec->story->why_count; i++)
        if (rec->story->whys[i].at == core->now)
            put_why(rec, core, rec->story->whys[i].job);
}

static void put_delays(const struct story *story, const struct run_result *result, struct buf *out)
{
    for (size_t i = 0; i < result->job_count; i++) {
        const struct job_result *job = &result->jobs[i];

        buf_printf(out, "job %s fair-share=", job_name(story, job->id));
        put_time(out, job->fair_share);
        buf_text(out, " fragmentation=");
        put_time(out, job->fragmentation);
        for (int r = 0; r < REASON_COUNT; r++)
            if (job->waited[r]) {
                buf_printf(out, " %s=", reason_name((enum reason)r));
                put_time(out, job->waited[r]);
            }
        buf_char(out, '\n');
    }
}

static void put_shown(const struct story *story, const struct run_result *result, struct buf *out)
{
    if (story->show_delays)
        put_delays(story, result, out);
    if (story->show_jct) {
        buf_text(out, "mean jct ");
        put_time(out, (usec_t)(result->summary.avg_jct * (double)USEC_SEC + 0.5));
        buf_char(out, '\n');
    }
}

int story_run(const struct story *story, struct buf *lines, uint64_t *ret_digest, struct error *err)
{
    struct recorder rec = { story, lines };
    struct run_result result = { 0 };
    struct scenario scenario;
    struct scenario_request request = { story->policy, story->settings, story->setting_count };
    int r = scenario_init(&scenario, &story->cluster, &story->trace, &request, err);

    if (r < 0)
        return error_prefix(err, r, "%s", story->file);
    scenario.driver.script = story->events;
    scenario.driver.script_count = story->event_count;
    scenario.driver.on_decision = on_decision;
    scenario.driver.on_decision_arg = &rec;
    scenario.driver.on_instant = on_instant;
    scenario.driver.on_instant_arg = &rec;
    r = scenario_run(&scenario, story->seed, &result, err);
    if (r == 0) {
        put_shown(story, &result, lines);
        *ret_digest = result.summary.digest;
        r = lines->error;
    } else {
        (void)error_prefix(err, r, "%s", story->file);
    }
    run_result_done(&result);
    scenario_done(&scenario);
    return r;
}
