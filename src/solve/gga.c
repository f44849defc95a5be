/* SPDX-License-Identifier: Apache-2.0 */
/* gga.c - see gga.h.
 *
 * A generation: the best lives on; some survive whatever they are worth, so that the population does not become one
 * family; all others are children of winners of tournaments of three. A child is a copy of its first parent; crossover
 * carries the groups that hold one job of the second parent over to it; mutation dissolves one to three groups, which
 * lie in the way of each other or at random, and sometimes takes the jobs on them off whole. What is displaced goes to
 * random nodes, to near ones, or whole jobs are placed by best fit: random fit alone finds a way out of local optima,
 * the other two find the optimum.
 *
 * Against the artifact: its "first fit" seed was random fit and its crossover lost track of other jobs' totals; here
 * terms are recomputed for whatever changed.
 */
#include "solve/gga.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "solve/gga_draft.h"

enum { POPULATION_LEAST = 16, POPULATION_MOST = 64, TRIES = 3, TOURNAMENT = 3, NEWCOMER_TASKS = 256 };

struct gga_island {
    const struct gga_problem *problem;
    struct gga_params params;
    struct kit kit;
    struct draft *now, *then; /* two populations of `size` */
    struct draft child;       /* what a crossover or mutation is tried on */
    uint32_t size, best;
};

struct gga_params gga_params_default(void)
{
    return (
        struct gga_params){ .seed = 1, .islands = 4, .epoch = 10, .crossover = 70, .mutation = 50, .survivors = 10 };
}

static uint32_t population(const struct gga_problem *p, const struct gga_params *params)
{
    uint32_t islands = params->islands ? params->islands : 1, size = (30 + p->task_count / 2) / islands;
    uint32_t most = p->task_count > 2000 ? POPULATION_MOST / 2 : POPULATION_MOST;

    if (params->population)
        return params->population < 4 ? 4 : params->population;
    return size < POPULATION_LEAST ? POPULATION_LEAST : size > most ? most : size;
}

static size_t aligned(size_t bytes)
{
    return (bytes + 15) / 16 * 16;
}

size_t gga_island_size(const struct gga_problem *p, const struct gga_params *params)
{
    size_t plans = 2 * (size_t)population(p, params);

    return aligned(sizeof(struct gga_island)) + aligned(draft_kit_bytes(p)) + aligned(plans * sizeof(struct draft)) +
           (plans + 1) * draft_bytes(p);
}

/* ---- the first population ---- */

static void shuffle(struct rng *rng, uint32_t *list, uint32_t count)
{
    for (uint32_t i = count; i > 1; i--) {
        uint32_t k = (uint32_t)rng_below(rng, i), item = list[k];

        list[k] = list[i - 1];
        list[i - 1] = item;
    }
}

/* The first is best fit in order, on every island; about a tenth best fit, four tenths first fit, half random fit. */
static int seed_plan(struct gga_island *island, uint32_t number, struct draft *plan)
{
    struct kit *kit = &island->kit;
    uint32_t part = number * 10 / island->size;
    enum fill how = part == 0 ? FILL_BEST : part < 5 ? FILL_FIRST : FILL_RANDOM;

    for (int i = 0; i < TRIES; i++) {
        draft_clear(kit, plan);
        if (number > 0 || i > 0)
            shuffle(&kit->rng, kit->lost, kit->lost_count);
        if (draft_fill(kit, plan, how) == 0) {
            draft_settle(kit, plan);
            return 0;
        }
        draft_forget(kit);
    }
    return -1;
}

static void find_best(struct gga_island *island)
{
    island->best = 0;
    for (uint32_t i = 1; i < island->size; i++)
        if (island->now[i].total < island->now[island->best].total)
            island->best = i;
}

struct gga_island *gga_island_new(const struct gga_problem *p, const struct gga_params *params, uint32_t number,
                                  void *memory)
{
    struct gga_island *island = memory;
    char *at = (char *)memory + aligned(sizeof(*island));
    uint32_t found = 0;

    assert(p->task_count > 0);
    *island = (struct gga_island){ .problem = p, .params = *params, .size = population(p, params) };
    draft_kit_bind(p, at, &island->kit);
    at += aligned(draft_kit_bytes(p));
    rng_seed(&island->kit.rng, rng_mix(params->seed + 0x9e3779b97f4a7c15ULL * (number + 1)));
    island->now = (struct draft *)(void *)at;
    island->then = island->now + island->size;
    at += aligned(2 * island->size * sizeof(struct draft));
    for (uint32_t i = 0; i < 2 * island->size; i++, at += draft_bytes(p))
        draft_bind(p, at, &island->now[i]);
    draft_bind(p, at, &island->child);
    for (uint32_t i = 0; i < island->size; i++)
        if (seed_plan(island, i, &island->now[found]) == 0)
            found++;
    if (found == 0)
        return NULL;
    for (uint32_t i = found; i < island->size; i++)
        draft_copy(p, &island->now[i], &island->now[i % found]);
    find_best(island);
    return island;
}

/* ---- generations ---- */

static const struct draft *winner(struct gga_island *island)
{
    const struct draft *best = NULL;

    for (int i = 0; i < TOURNAMENT; i++) {
        const struct draft *other = &island->now[rng_below(&island->kit.rng, island->size)];

        if (!best || other->total < best->total)
            best = other;
    }
    return best;
}

/* The groups of the donor that hold one of its jobs, at most three, replace those nodes' groups in the child. */
static void crossover(struct gga_island *island, struct draft *child, const struct draft *donor)
{
    const struct gga_problem *p = island->problem;
    struct kit *kit = &island->kit;
    const struct net_job *job = &p->jobs[rng_below(&kit->rng, p->job_count)];
    uint32_t nodes[3], count = 0;

    for (uint32_t t = job->first; t < job->first + job->servers + job->workers && count < 3; t++) {
        bool known = false;

        for (uint32_t i = 0; i < count; i++)
            known |= nodes[i] == donor->place[t];
        if (!known)
            nodes[count++] = donor->place[t];
    }
    for (uint32_t i = 0; i < count; i++)
        while (child->head[nodes[i]] != TASK_NONE)
            draft_drop(kit, child, child->head[nodes[i]]);
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t t = donor->head[nodes[i]]; t != TASK_NONE; t = donor->next[t]) {
            if (child->place[t] != NODE_NONE)
                draft_drop(kit, child, t);
            draft_put(kit, child, t, nodes[i]);
        }
}

static void dissolve(struct gga_island *island, struct draft *child, uint32_t node, bool whole)
{
    const struct gga_problem *p = island->problem;
    struct kit *kit = &island->kit;

    while (child->head[node] != TASK_NONE) {
        uint32_t task = child->head[node];
        const struct net_job *job = &p->jobs[p->job_of[task]];

        draft_drop(kit, child, task);
        for (uint32_t t = job->first; whole && t < job->first + job->servers + job->workers; t++)
            if (child->place[t] != NODE_NONE)
                draft_drop(kit, child, t);
    }
}

static void mutate(struct gga_island *island, struct draft *child)
{
    const struct gga_problem *p = island->problem;
    struct rng *rng = &island->kit.rng;
    uint32_t groups = 1 + (uint32_t)rng_below(rng, 3);
    bool whole = rng_below(rng, 2) == 0;

    for (uint32_t i = 0; i < groups; i++) {
        uint32_t task = (uint32_t)rng_below(rng, p->task_count);

        if (child->place[task] != NODE_NONE)
            dissolve(island, child, child->place[task], whole);
    }
}

/* A child of two parents; a copy of the first when nothing valid comes of it. */
static void breed(struct gga_island *island, struct draft *out)
{
    const struct gga_problem *p = island->problem;
    const struct draft *a = winner(island), *b = winner(island);
    struct kit *kit = &island->kit;
    struct draft *child = &island->child;

    for (int try = 0; try < TRIES; try++) {
        bool crossed = rng_below(&kit->rng, 100) < island->params.crossover && a != b;
        static const enum fill ways[] = { FILL_RANDOM, FILL_NEAR, FILL_BEST, FILL_BEST };

        draft_copy(p, child, a);
        if (crossed)
            crossover(island, child, b);
        if (!crossed || rng_below(&kit->rng, 100) < island->params.mutation)
            mutate(island, child);
        shuffle(&kit->rng, kit->lost, kit->lost_count);
        if (draft_fill(kit, child, ways[rng_below(&kit->rng, 4)]) == 0) {
            draft_settle(kit, child);
            draft_copy(p, out, child);
            return;
        }
        draft_forget(kit);
    }
    draft_copy(p, out, a);
}

static void newcomer(struct gga_island *island, struct draft *out)
{
    struct kit *kit = &island->kit;
    struct draft *child = &island->child;

    draft_clear(kit, child);
    shuffle(&kit->rng, kit->lost, kit->lost_count);
    if (draft_fill(kit, child, rng_below(&kit->rng, 2) ? FILL_BEST : FILL_RANDOM) == 0) {
        draft_settle(kit, child);
        draft_copy(island->problem, out, child);
    } else {
        draft_forget(kit);
    }
}

void gga_island_run(struct gga_island *island, uint32_t generations)
{
    const struct gga_problem *p = island->problem;
    uint32_t kept = 1 + island->size * island->params.survivors / 100;

    for (uint32_t g = 0; g < generations; g++) {
        struct draft *swap = island->now;

        draft_copy(p, &island->then[0], &island->now[island->best]);
        for (uint32_t i = 1; i < kept; i++)
            draft_copy(p, &island->then[i], &island->now[rng_below(&island->kit.rng, island->size)]);
        for (uint32_t i = kept; i < island->size; i++)
            breed(island, &island->then[i]);
        /* A newcomer that is nobody's child, where making one is cheap. */
        if (p->task_count <= NEWCOMER_TASKS)
            newcomer(island, &island->then[island->size - 1]);
        island->now = island->then;
        island->then = swap;
        find_best(island);
    }
}

void gga_migrate(struct gga_island *const *islands, uint32_t count)
{
    for (uint32_t i = 0; i + 1 < count; i++) {
        struct gga_island *from = islands[i], *to = islands[i + 1];
        uint32_t worst = 0;

        if (!from || !to)
            continue;
        for (uint32_t k = 1; k < to->size; k++)
            if (to->now[k].total > to->now[worst].total)
                worst = k;
        draft_copy(from->problem, &to->now[worst], &from->now[from->best]);
        find_best(to);
    }
}

double gga_best(const struct gga_island *island, const uint32_t **ret_place)
{
    *ret_place = island->now[island->best].place;
    return island->now[island->best].total;
}

/* ---- from the definition ---- */

size_t gga_work_size(const struct gga_problem *p)
{
    return aligned(draft_kit_bytes(p)) + draft_bytes(p);
}

int gga_best_fit(const struct gga_problem *p, uint32_t *ret_place, void *work)
{
    struct draft plan;
    struct kit kit;

    draft_kit_bind(p, work, &kit);
    draft_bind(p, (char *)work + aligned(draft_kit_bytes(p)), &plan);
    draft_clear(&kit, &plan);
    for (uint32_t j = 0; j < p->job_count; j++)
        if (draft_fill_job(&kit, &plan, j) < 0)
            return -1;
    memcpy(ret_place, plan.place, p->task_count * sizeof(*ret_place));
    return 0;
}

static bool valid(const struct gga_problem *p, const uint32_t *place, struct draft *plan)
{
    for (uint32_t t = 0; t < p->task_count; t++) {
        const struct net_job *job = &p->jobs[p->job_of[t]];
        uint32_t n = place[t];

        if (n >= p->map->nodes || plan->used[n]++ >= p->map->gpus[n] || (p->open && !p->open[n]) ||
            (p->memory && p->memory[n] < job->memory_mib))
            return false;
        if (plan->room)
            plan->room[n] -= net_traffic(job, p->is_server[t]);
        if (plan->room && plan->room[n] < -1e-9)
            return false;
    }
    return true;
}

double gga_objective(const struct gga_problem *p, const uint32_t *place, void *work)
{
    struct draft plan;
    struct kit kit;
    uint32_t nodes = 0;
    double sum = 0;

    draft_kit_bind(p, work, &kit);
    draft_bind(p, (char *)work + aligned(draft_kit_bytes(p)), &plan);
    draft_clear(&kit, &plan);
    if (!valid(p, place, &plan))
        return (double)INFINITY;
    for (uint32_t n = 0; n < p->map->nodes; n++) {
        nodes += plan.used[n] > p->used[n];
        plan.used[n] = p->used[n];
    }
    for (uint32_t j = 0; j < p->job_count; j++) {
        const struct net_job *job = &p->jobs[j];

        sum += net_score(p->map, plan.used, job, p->is_server + job->first, place + job->first);
        for (uint32_t t = job->first; t < job->first + job->servers + job->workers; t++)
            plan.used[place[t]]++;
    }
    return sum + (double)nodes / p->task_count;
}
