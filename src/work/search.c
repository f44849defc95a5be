/* SPDX-License-Identifier: Apache-2.0 */
/* search.c - see search.h. */
#include "work/search.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "io/parallel.h"

enum { ISLANDS_MAX = 64 };
static const double IMPROVEMENT = 1e-6;

struct search {
    const struct search_request *request;
    void *memory[ISLANDS_MAX];
    struct gga_island *islands[ISLANDS_MAX];
    uint32_t count, generations; /* of the next epoch */
    usec_t begin;
};

static usec_t clock_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * USEC_SEC + now.tv_nsec / 1000;
}

static void make_island(void *arg, uint32_t item, unsigned worker)
{
    struct search *s = arg;

    (void)worker;
    s->islands[item] = gga_island_new(s->request->problem, &s->request->params, item, s->memory[item]);
}

static void run_island(void *arg, uint32_t item, unsigned worker)
{
    struct search *s = arg;

    (void)worker;
    if (s->islands[item])
        gga_island_run(s->islands[item], s->generations);
}

static double best_of(const struct search *s, const uint32_t **ret_place)
{
    double best = (double)INFINITY;

    *ret_place = NULL;
    for (uint32_t i = 0; i < s->count; i++) {
        const uint32_t *place;
        double total = s->islands[i] ? gga_best(s->islands[i], &place) : (double)INFINITY;

        if (total < best) {
            best = total;
            *ret_place = place;
        }
    }
    return best;
}

/* Epochs until the rounds or the budget are spent, or nothing has become better for long. */
static void run_epochs(struct search *s, struct search_answer *answer)
{
    const struct search_request *q = s->request;
    uint32_t patience = 30 + q->problem->task_count, since = 0, epoch = q->params.epoch ? q->params.epoch : 1;
    const uint32_t *place;

    for (;;) {
        double before = answer->best;

        if (q->watch)
            q->watch(q->watch_arg, answer->rounds, clock_now() - s->begin, answer->best);
        if (since >= patience || (q->rounds && answer->rounds >= q->rounds) ||
            (q->budget && clock_now() - s->begin >= q->budget))
            return;
        s->generations = q->rounds && q->rounds - answer->rounds < epoch ? q->rounds - answer->rounds : epoch;
        parallel_run(q->threads, s->count, run_island, s);
        gga_migrate(s->islands, s->count);
        answer->rounds += s->generations;
        answer->best = best_of(s, &place);
        since = answer->best < before - IMPROVEMENT ? 0 : since + s->generations;
    }
}

static int run(struct search *s, uint32_t *ret_place, struct search_answer *answer, struct error *err)
{
    const struct gga_problem *p = s->request->problem;
    const uint32_t *place;
    void *work = mem_zalloc(gga_work_size(p), 1);

    for (uint32_t i = 0; i < s->count; i++) {
        s->memory[i] = mem_zalloc(gga_island_size(p, &s->request->params), 1);
        if (!s->memory[i] || !work) {
            mem_free(work);
            return error_set(err, -ENOMEM, "no memory to place %u tasks", p->task_count);
        }
    }
    answer->best_fit = gga_best_fit(p, ret_place, work) == 0 ? gga_objective(p, ret_place, work) : (double)INFINITY;
    mem_free(work);
    parallel_run(s->request->threads, s->count, make_island, s);
    answer->best = best_of(s, &place);
    if (!place)
        return error_set(err, -ENOSPC, "no plan has a place for all of %u jobs", p->job_count);
    run_epochs(s, answer);
    (void)best_of(s, &place);
    if (place)
        memcpy(ret_place, place, p->task_count * sizeof(*ret_place));
    return 0;
}

int search_run(const struct search_request *request, uint32_t *ret_place, struct search_answer *ret_answer,
               struct error *err)
{
    struct search s = { .request = request, .count = request->params.islands, .begin = clock_now() };
    int r;

    *ret_answer = (struct search_answer){ 0 };
    if (s.count < 1 || s.count > ISLANDS_MAX || request->problem->task_count == 0)
        return error_set(err, -EINVAL, "expected 1 to %d islands and at least a task", ISLANDS_MAX);
    r = run(&s, ret_place, ret_answer, err);
    ret_answer->elapsed = clock_now() - s.begin;
    for (uint32_t i = 0; i < s.count; i++)
        mem_free(s.memory[i]);
    return r;
}
