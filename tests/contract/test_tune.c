/* SPDX-License-Identifier: Apache-2.0 */
/* test_tune.c - packing, and the rules that keep tuners from fighting, tried by tuners that do what they like.
 *
 * Everything is audited after each instant, and every run is the same when the core is saved and loaded on the way.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "../unit/policy_play.h"
#include "base/rng.h"
#include "core/contract/plan.h"
#include "core/contract/view.h"

static const bool nobody[SHAPES_MAX];

enum { JOBS_MAX = 256, NODES_SEEN = 64, CARRY = UINT16_MAX };

/* What an observer from outside sees of the rules. */
struct seen {
    uint32_t by_kind[DECISION_COUNT];
    usec_t disturbed[JOBS_MAX];
    uint32_t bad, soon;
};

static void disturb(struct seen *seen, const struct decision *d)
{
    if (d->at - seen->disturbed[d->id] < 60 * USEC_SEC)
        seen->soon++;
    seen->disturbed[d->id] = d->at;
}

static void note(void *arg, const struct core *core, const struct decision *d, const uint32_t *gpus)
{
    struct seen *seen = arg;

    (void)core;
    (void)gpus;
    seen->by_kind[d->kind]++;
    seen->bad += d->kind == DECISION_BAD;
    if (d->kind == DECISION_SUSPEND || d->kind == DECISION_STOP || d->kind == DECISION_MIGRATE)
        disturb(seen, d);
}

/* At most one migration on a node, as seen by what is starting where; and the audit. */
static void audit(void *arg, const struct core *core)
{
    const struct ledger *ledger = core_ledger(core);
    uint8_t moving[NODES_SEEN] = { 0 };
    struct seen *seen = arg;

    (void)seen;
    core_audit(core);
    for (uint32_t i = 0; i < core_job_top(core); i++) {
        const struct job *job = core_job(core, i);
        uint32_t last = UINT32_MAX;

        if (job->state != JOB_STARTING || !job->moving)
            continue;
        for (uint32_t s = job->shares; s != SHARE_NONE; s = ledger->shares[s].next_of_job) {
            uint32_t node = ledger->gpus[ledger->shares[s].gpu].node;

            if (node != last)
                assert_int_equal(++moving[node], 1);
            last = node;
        }
    }
}

static void add(struct trace *trace, int64_t submit, int32_t gpus, int64_t run)
{
    (void)add_job(trace, submit, gpus, run);
}

static struct run_result run(const char *cluster, struct trace *trace, const struct policy_setup *setup,
                             uint32_t reload, struct seen *seen)
{
    memset(seen, 0, sizeof(*seen));
    for (int i = 0; i < JOBS_MAX; i++)
        seen->disturbed[i] = INT64_MIN / 2;
    return play(&(struct play){ .cluster = cluster,
                                .setup = setup,
                                .world = { { "costs", "gandiva" } },
                                .reload = reload == CARRY ? 0 : reload,
                                .carry = reload == CARRY ? 3 : 0,
                                .on_decision = note,
                                .on_instant = audit,
                                .arg = seen },
                trace);
}

static struct policy_setup with(const struct tune_ops *tune)
{
    struct policy_setup setup;

    policy_setup(policy_find("fifo-skip"), &setup);
    setup.tune[0] = tune;
    setup.tune_count = 1;
    return setup;
}

/* ---- a tuner that packs the first who waits beside the first who runs, and undoes it after a while ---- */

enum { W_PACKED, W_COUNT };

static usec_t undo_after;
static enum stop_step undo_by;

static void simple_tune(struct planner_ctx *ctx, struct plan *plan)
{
    usec_t now = view_now(ctx->view);

    for (uint32_t i = ctx->vc->run_first, next; i != JOB_NONE; i = next) {
        const struct job *job = view_job(ctx->view, i);
        uint32_t waiting = view_first_waiting(ctx->view, ctx->vc, nobody);
        int64_t *words = plan_words(ctx, plan, i);

        next = job->next;
        if (words[W_PACKED] && job->state == JOB_RUNNING && now - words[W_PACKED] >= undo_after &&
            job->mate != JOB_NONE) {
            if (plan_unpack(plan, i, undo_by) == 0)
                words[W_PACKED] = 0;
            continue;
        }
        if (waiting == TREE_NONE || job->mate != JOB_NONE || plan_pack(plan, waiting, i) < 0)
            continue;
        plan_words(ctx, plan, waiting)[W_PACKED] = now;
        plan_wake(plan, now + undo_after);
    }
}

static const struct tune_ops tune_simple = { .name = "simple", .words = W_COUNT, .tune = simple_tune };

/* Two jobs of 100 s on one GPU: together each at half speed, without a table that says otherwise. */
static void packs(void **unused)
{
    struct policy_setup setup = with(&tune_simple);
    struct trace trace = { 0 };
    struct run_result result;
    struct seen seen;

    (void)unused;
    undo_after = 1000 * USEC_SEC;
    add(&trace, 0, 2, 100);
    add(&trace, 10, 2, 100);
    result = run("1x2", &trace, &setup, 0, &seen);
    assert_int_equal(seen.bad, 0);
    assert_int_equal(seen.by_kind[DECISION_PACK], 1);
    assert_int_equal(result.jobs[1].start / USEC_SEC, 10);
    assert_int_equal(result.jobs[0].end / USEC_SEC, 190); /* 10 alone, 180 at half speed */
    assert_int_equal(result.jobs[1].end / USEC_SEC, 200); /* the owner is gone, and it has the GPUs for itself */
    run_result_done(&result);
    trace_done(&trace);
}

/* The same, taken back after 60 s: the second one waits again and starts when the first is done. */
static void unpacks(void **unused)
{
    struct policy_setup setup = with(&tune_simple);
    struct trace trace = { 0 };
    struct run_result result;
    struct seen seen;

    (void)unused;
    undo_after = 60 * USEC_SEC;
    undo_by = STOP_CHECKPOINT;
    add(&trace, 0, 1, 80);
    add(&trace, 10, 1, 100);
    result = run("1x1", &trace, &setup, 0, &seen);
    assert_int_equal(seen.bad, 0);
    assert_int_equal(seen.by_kind[DECISION_UNPACK], 1);
    assert_int_equal(seen.soon, 0);
    assert_int_equal(result.jobs[0].end / USEC_SEC, 110); /* 10 alone, 60 at half speed, 40 alone */
    run_result_done(&result);
    trace_done(&trace);
}

/* ---- one that does anything, all the time ---- */

static void mad_one(const struct planner_ctx *ctx, struct plan *plan, uint32_t i)
{
    const struct ledger *ledger = view_ledger(ctx->view);
    const struct job *job = view_job(ctx->view, i);
    uint32_t other = (uint32_t)view_random(ctx->view, view_job_top(ctx->view)), gpus[16], count = 0;

    switch (view_random(ctx->view, 5)) {
    case 0:
        if (job->state == JOB_RUNNING)
            (void)plan_suspend(plan, i);
        break;
    case 1:
        if (other != i && view_job(ctx->view, other)->state == JOB_RUNNING &&
            view_job(ctx->view, other)->gpus == job->gpus)
            (void)plan_pack(plan, i, other);
        break;
    case 2:
        if (job->mate != JOB_NONE && job->state == JOB_RUNNING)
            (void)plan_unpack(plan, i, view_random(ctx->view, 2) ? STOP_SUSPEND : STOP_CHECKPOINT);
        break;
    case 3:
        for (uint32_t g = 0; g < ledger->topo.gpu_count && (int32_t)count < job->gpus && count < 16; g++)
            if (ledger_whole(ledger, g))
                gpus[count++] = g;
        if (job->state == JOB_RUNNING && (int32_t)count == job->gpus)
            (void)plan_move(plan, i, &(struct placement){ gpus, count });
        break;
    default:
        if (job->state == JOB_RUNNING) {
            (void)plan_stop(plan, i, STOP_CHECKPOINT);
            if (view_random(ctx->view, 2))
                (void)plan_keep(plan, i);
        }
    }
}

static void mad_tune(struct planner_ctx *ctx, struct plan *plan)
{
    bool any = false;

    for (uint32_t i = 0; i < view_job_top(ctx->view); i++) {
        const struct job *job = view_job(ctx->view, i);

        any |= job->state != JOB_FREE;
        if (job->state == JOB_SUSPENDED && view_random(ctx->view, 3) == 0)
            (void)plan_resume(plan, i);
        else if (job->state == JOB_SUSPENDED && view_random(ctx->view, 20) == 0)
            (void)plan_give_up(plan, i);
        else if ((job->state == JOB_RUNNING || job->state == JOB_PENDING || job->state == JOB_SUSPENDED) &&
                 job->gpus > 0)
            mad_one(ctx, plan, i);
    }
    if (any)
        plan_wake(plan, view_now(ctx->view) + 7 * USEC_SEC);
}

static const struct tune_ops tune_mad = { .name = "mad", .tune = mad_tune };

static void random_trace(struct trace *trace, uint64_t seed)
{
    struct rng rng;

    rng_seed(&rng, seed);
    for (int i = 0, at = 0; i < 60; i++) {
        at += (int)rng_below(&rng, 40);
        add(trace, at, 1 << rng_below(&rng, 3), 20 + (int64_t)rng_below(&rng, 400));
    }
}

/* Whatever it does, the ledger is right after every instant, nobody is disturbed twice within a minute, no node takes
 * part in two migrations, and everybody ends. */
static void mad(void **unused)
{
    struct policy_setup setup = with(&tune_mad);
    uint32_t packed = 0, suspended = 0, moved = 0;

    (void)unused;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct trace trace = { 0 };
        struct run_result result, again;
        struct seen seen;

        random_trace(&trace, seed);
        result = run("4x4", &trace, &setup, 0, &seen);
        packed += seen.by_kind[DECISION_PACK];
        suspended += seen.by_kind[DECISION_SUSPEND];
        moved += seen.by_kind[DECISION_MIGRATE];
        assert_int_equal(seen.soon, 0);
        assert_int_equal(seen.by_kind[DECISION_END], trace.count);
        again = run("4x4", &trace, &setup, 5, &seen);
        assert_true(again.summary.digest == result.summary.digest);
        run_result_done(&again);
        again = run("4x4", &trace, &setup, CARRY, &seen);
        assert_int_equal(seen.by_kind[DECISION_END], trace.count);
        run_result_done(&result);
        run_result_done(&again);
        trace_done(&trace);
    }
    assert_true(packed > 50);
    assert_true(suspended > 50);
    assert_true(moved > 50);
}

/* ---- what may not be packed, and what must wait ---- */

static int asked[8];

static void ask_tune(struct planner_ctx *ctx, struct plan *plan)
{
    uint32_t wide = UINT32_MAX, first = ctx->vc->run_first;

    if (view_now(ctx->view) != 20 * USEC_SEC || first == JOB_NONE)
        return;
    for (uint32_t i = 0; i < view_job_top(ctx->view); i++)
        if (view_job(ctx->view, i)->state == JOB_PENDING && view_job(ctx->view, i)->spec.gpus == 2)
            wide = i;
    asked[0] = plan_pack(plan, wide, first);           /* another width */
    asked[1] = plan_pack(plan, first, first);          /* with itself */
    asked[2] = plan_unpack(plan, first, STOP_SUSPEND); /* it is not packed */
    plan_promise(plan, first, 1000 * USEC_SEC);
    asked[3] = plan_pack(plan, view_first_waiting(ctx->view, ctx->vc, nobody), first); /* promised its end */
    asked[4] = plan_suspend(plan, first);
    asked[5] = plan_rested(plan, first);
}

static const struct tune_ops tune_ask = { .name = "ask", .tune = ask_tune };

static void refused(void **unused)
{
    struct policy_setup setup = with(&tune_ask);
    struct trace trace = { 0 };
    struct run_result result;
    struct seen seen;

    (void)unused;
    add(&trace, 0, 1, 100);
    add(&trace, 0, 1, 200);
    add(&trace, 10, 1, 10);
    add(&trace, 20, 2, 10);
    result = run("1x2", &trace, &setup, 0, &seen);
    assert_int_equal(asked[0], -EINVAL);
    assert_int_equal(asked[1], -EINVAL);
    assert_int_equal(asked[2], -EINVAL);
    assert_int_equal(asked[3], -EPERM);
    assert_int_equal(asked[4], -EPERM);
    assert_int_equal(asked[5], 1);
    assert_int_equal(seen.bad, 5);
    run_result_done(&result);
    trace_done(&trace);
}

/* Where some jobs are guaranteed, none of those is packed. */
static void guaranteed(void **unused)
{
    struct policy_setup setup = with(&tune_simple);
    struct planner_ops planner = *setup.planner;
    struct trace trace = { 0 };
    struct run_result result;
    struct seen seen;

    (void)unused;
    undo_after = 1000 * USEC_SEC;
    planner.classes = true;
    setup.planner = &planner;
    add(&trace, 0, 1, 100);
    add(&trace, 10, 1, 100);
    result = run("1x1", &trace, &setup, 0, &seen);
    assert_int_equal(seen.by_kind[DECISION_PACK], 0);
    assert_true(seen.bad > 0);
    assert_int_equal(result.jobs[1].start / USEC_SEC, 100);
    run_result_done(&result);
    trace_done(&trace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packs),   cmocka_unit_test(unpacks),    cmocka_unit_test(mad),
        cmocka_unit_test(refused), cmocka_unit_test(guaranteed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
