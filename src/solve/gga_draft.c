/* SPDX-License-Identifier: Apache-2.0 */
/* gga_draft.c - see gga_draft.h. */
#include "solve/gga_draft.h"

#include <assert.h>
#include <string.h>

enum { SAMPLE = 8 };

static uint32_t tasks_of(const struct net_job *job)
{
    return job->servers + job->workers;
}

static const struct net_job *job_of(const struct gga_problem *p, uint32_t task)
{
    return &p->jobs[p->job_of[task]];
}

/* ---- memory ---- */

size_t draft_bytes(const struct gga_problem *p)
{
    size_t nodes = p->map->nodes, bytes;

    bytes = (nodes * (p->room ? 2 : 1) + p->job_count) * sizeof(double);
    bytes += (2 * (size_t)p->task_count + nodes) * sizeof(uint32_t) + nodes * sizeof(uint16_t);
    return (bytes + 7) / 8 * 8;
}

void draft_bind(const struct gga_problem *p, void *block, struct draft *plan)
{
    plan->node_term = block;
    plan->job_term = plan->node_term + p->map->nodes;
    plan->room = p->room ? plan->job_term + p->job_count : NULL;
    plan->place = (uint32_t *)(plan->job_term + p->job_count + (p->room ? p->map->nodes : 0));
    plan->next = plan->place + p->task_count;
    plan->head = plan->next + p->task_count;
    plan->used = (uint16_t *)(plan->head + p->map->nodes);
    plan->total = 0;
}

void draft_copy(const struct gga_problem *p, struct draft *to, const struct draft *from)
{
    memcpy(to->node_term, from->node_term, draft_bytes(p));
    to->total = from->total;
}

size_t draft_kit_bytes(const struct gga_problem *p)
{
    const struct net_map *map = p->map;
    size_t words = 3 * (size_t)map->nodes + map->racks + map->domains + p->job_count;

    /* A task may be lost more than once while groups are carried over. */
    words += 4 * (size_t)p->task_count + 16;
    return words * sizeof(uint32_t) + 2 * (size_t)map->nodes + p->job_count + 16;
}

void draft_kit_bind(const struct gga_problem *p, void *memory, struct kit *kit)
{
    const struct net_map *map = p->map;
    uint32_t *at = memory;

    memset(memory, 0, draft_kit_bytes(p));
    kit->problem = p;
    kit->scratch.node = at;
    kit->scratch.any = kit->scratch.node + map->nodes;
    kit->scratch.rack = kit->scratch.any + map->nodes;
    kit->scratch.domain = kit->scratch.rack + map->racks;
    kit->scratch.all = 0;
    kit->touched_nodes = kit->scratch.domain + map->domains;
    kit->touched_jobs = kit->touched_nodes + map->nodes;
    kit->lost = kit->touched_jobs + p->job_count;
    kit->order = kit->lost + 3 * (size_t)p->task_count + 8;
    kit->node_mark = (uint8_t *)(kit->order + p->task_count + 8);
    kit->job_mark = kit->node_mark + map->nodes;
    kit->open = kit->job_mark + p->job_count;
    kit->node_count = kit->job_count = kit->lost_count = 0;
}

void draft_clear(struct kit *kit, struct draft *plan)
{
    const struct gga_problem *p = kit->problem;

    memset(plan->node_term, 0, draft_bytes(p));
    for (uint32_t n = 0; n < p->map->nodes; n++) {
        plan->head[n] = TASK_NONE;
        plan->used[n] = p->used[n];
        if (plan->room)
            plan->room[n] = p->room[n];
    }
    kit->lost_count = 0;
    for (uint32_t t = 0; t < p->task_count; t++) {
        plan->place[t] = NODE_NONE;
        kit->lost[kit->lost_count++] = t;
    }
}

/* ---- one task ---- */

static void touch(struct kit *kit, uint32_t task, uint32_t node)
{
    uint32_t job = kit->problem->job_of[task];

    if (!kit->node_mark[node]) {
        kit->node_mark[node] = 1;
        kit->touched_nodes[kit->node_count++] = node;
    }
    if (!kit->job_mark[job]) {
        kit->job_mark[job] = 1;
        kit->touched_jobs[kit->job_count++] = job;
    }
}

bool draft_fits(const struct kit *kit, const struct draft *plan, uint32_t task, uint32_t node)
{
    const struct gga_problem *p = kit->problem;
    const struct net_job *job = job_of(p, task);

    return plan->used[node] < p->map->gpus[node] && (!p->open || p->open[node]) &&
           (!p->memory || p->memory[node] >= job->memory_mib) &&
           (!plan->room || plan->room[node] >= net_traffic(job, p->is_server[task]));
}

void draft_put(struct kit *kit, struct draft *plan, uint32_t task, uint32_t node)
{
    const struct gga_problem *p = kit->problem;
    uint32_t *at = &plan->head[node];

    assert(plan->place[task] == NODE_NONE);
    while (*at < task)
        at = &plan->next[*at];
    plan->next[task] = *at;
    *at = task;
    plan->place[task] = node;
    plan->used[node]++;
    if (plan->room)
        plan->room[node] -= net_traffic(job_of(p, task), p->is_server[task]);
    touch(kit, task, node);
}

void draft_drop(struct kit *kit, struct draft *plan, uint32_t task)
{
    const struct gga_problem *p = kit->problem;
    uint32_t node = plan->place[task], *at = &plan->head[node];

    while (*at != task)
        at = &plan->next[*at];
    *at = plan->next[task];
    plan->place[task] = NODE_NONE;
    plan->used[node]--;
    if (plan->room)
        plan->room[node] += net_traffic(job_of(p, task), p->is_server[task]);
    touch(kit, task, node);
    kit->lost[kit->lost_count++] = task;
}

/* ---- where it goes ---- */

static uint32_t find_from(const struct kit *kit, const struct draft *plan, uint32_t task, uint32_t start)
{
    uint32_t nodes = kit->problem->map->nodes;

    for (uint32_t i = 0; i < nodes; i++) {
        uint32_t n = start + i < nodes ? start + i : start + i - nodes;

        if (draft_fits(kit, plan, task, n))
            return n;
    }
    return NODE_NONE;
}

/* What a task on this node adds to the objective, about: a ring is taken for a star around its nearest part. */
static double price(const struct kit *kit, const struct draft *plan, uint32_t task, uint32_t node)
{
    const struct gga_problem *p = kit->problem;
    const struct net_job *job = job_of(p, task);
    uint32_t tasks = tasks_of(job);
    double cost = 0, nearest = -1, load = (plan->used[node] + 1.0) / p->map->gpus[node];
    bool here = false;

    for (uint32_t i = job->first; i < job->first + tasks; i++) {
        double dist;

        if (plan->place[i] == NODE_NONE)
            continue;
        here |= plan->place[i] == node;
        dist = net_dist(p->map, plan->place[i], node);
        if (job->servers)
            cost += p->is_server[i] != p->is_server[task] ? dist : 0;
        else if (nearest < 0 || dist < nearest)
            nearest = dist;
    }
    cost += nearest > 0 ? nearest : 0;
    return cost * job->bandwidth + ((p->is_server[task] ? load : -load) + !here) / tasks +
           (plan->head[node] == TASK_NONE) / (double)p->task_count;
}

/* The cheapest of the nodes its job is on, those that were changed just now, and some at random. */
static uint32_t find_near(struct kit *kit, const struct draft *plan, uint32_t task)
{
    const struct gga_problem *p = kit->problem;
    const struct net_job *job = job_of(p, task);
    uint32_t best = NODE_NONE, own = tasks_of(job), changed = kit->node_count < SAMPLE ? kit->node_count : SAMPLE;
    double least = 0;

    for (uint32_t i = 0; i < own + changed + SAMPLE; i++) {
        uint32_t n;
        double cost;

        if (i < own)
            n = plan->place[job->first + i];
        else if (i < own + changed)
            n = kit->touched_nodes[rng_below(&kit->rng, kit->node_count)];
        else
            n = (uint32_t)rng_below(&kit->rng, p->map->nodes);
        if (n == NODE_NONE || !draft_fits(kit, plan, task, n))
            continue;
        cost = price(kit, plan, task, n);
        if (best == NODE_NONE || cost < least) {
            best = n;
            least = cost;
        }
    }
    return best != NODE_NONE ? best : find_from(kit, plan, task, (uint32_t)rng_below(&kit->rng, p->map->nodes));
}

static bool homeless(const struct kit *kit, const struct draft *plan, uint32_t job)
{
    const struct net_job *j = &kit->problem->jobs[job];

    for (uint32_t i = j->first; i < j->first + tasks_of(j); i++)
        if (plan->place[i] != NODE_NONE)
            return false;
    return true;
}

int draft_fill_job(struct kit *kit, struct draft *plan, uint32_t index)
{
    const struct gga_problem *p = kit->problem;
    const struct net_job *job = &p->jobs[index];
    struct net_fit fit = { p->map, plan->used, p->open, 0, plan->room, &kit->scratch };
    uint32_t *place = kit->order;

    if (p->memory) {
        for (uint32_t n = 0; n < p->map->nodes; n++)
            kit->open[n] = (!p->open || p->open[n]) && p->memory[n] >= job->memory_mib;
        fit.open = kit->open;
    }
    if (net_best_fit(&fit, job, p->is_server + job->first, place) < 0)
        return -1;
    for (uint32_t i = 0; i < tasks_of(job); i++) {
        plan->used[place[i]]--; /* draft_put counts it again */
        if (plan->room)
            plan->room[place[i]] += net_traffic(job, p->is_server[job->first + i]);
    }
    for (uint32_t i = 0; i < tasks_of(job); i++)
        draft_put(kit, plan, job->first + i, place[i]);
    return 0;
}

int draft_fill(struct kit *kit, struct draft *plan, enum fill how)
{
    const struct gga_problem *p = kit->problem;
    uint32_t full = 0; /* first fit: nodes before this one have no room, or not for the last task */

    for (uint32_t i = 0; i < kit->lost_count; i++) {
        uint32_t task = kit->lost[i], node;

        if (plan->place[task] != NODE_NONE)
            continue;
        if (how == FILL_BEST && homeless(kit, plan, p->job_of[task]) && draft_fill_job(kit, plan, p->job_of[task]) == 0)
            continue;
        if (how == FILL_FIRST)
            node = full = find_from(kit, plan, task, full);
        else if (how == FILL_RANDOM)
            node = find_from(kit, plan, task, (uint32_t)rng_below(&kit->rng, p->map->nodes));
        else
            node = find_near(kit, plan, task);
        if (node == NODE_NONE)
            return -1;
        draft_put(kit, plan, task, node);
    }
    kit->lost_count = 0;
    return 0;
}

/* ---- what it is worth ---- */

static double node_term(const struct gga_problem *p, const struct draft *plan, uint32_t node)
{
    uint32_t used = p->used[node];
    double sum = 0;

    for (uint32_t t = plan->head[node]; t != TASK_NONE; t = plan->next[t]) {
        double load = (double)++used / p->map->gpus[node];

        sum += (p->is_server[t] ? load : -load) / tasks_of(job_of(p, t));
    }
    return sum;
}

void draft_forget(struct kit *kit)
{
    for (uint32_t i = 0; i < kit->node_count; i++)
        kit->node_mark[kit->touched_nodes[i]] = 0;
    for (uint32_t i = 0; i < kit->job_count; i++)
        kit->job_mark[kit->touched_jobs[i]] = 0;
    kit->node_count = kit->job_count = kit->lost_count = 0;
}

void draft_settle(struct kit *kit, struct draft *plan)
{
    const struct gga_problem *p = kit->problem;
    uint32_t nodes = 0;
    double sum = 0;

    for (uint32_t i = 0; i < kit->node_count; i++)
        plan->node_term[kit->touched_nodes[i]] = node_term(p, plan, kit->touched_nodes[i]);
    for (uint32_t i = 0; i < kit->job_count; i++) {
        uint32_t j = kit->touched_jobs[i];
        const struct net_job *job = &p->jobs[j];

        plan->job_term[j] = net_cost(p->map, job, p->is_server + job->first, plan->place + job->first, &kit->scratch) +
                            (double)net_nodes(job, plan->place + job->first, &kit->scratch) / tasks_of(job);
    }
    draft_forget(kit);
    for (uint32_t n = 0; n < p->map->nodes; n++) {
        sum += plan->node_term[n];
        nodes += plan->head[n] != TASK_NONE;
    }
    for (uint32_t j = 0; j < p->job_count; j++)
        sum += plan->job_term[j];
    plan->total = sum + (double)nodes / p->task_count;
}
