/* SPDX-License-Identifier: Apache-2.0 */
/* place_batch.c - see place_batch.h. */
#include "work/place_batch.h"

#include <errno.h>
#include <stdbool.h>

#include "base/alloc.h"
#include "work/search.h"

enum { HOP_MAX = 1 << 24, ROUNDS_MAX = 1000000 };

struct batch {
    struct net_map map;
    struct gga_problem problem;
    uint32_t *rack, *domain, *job_of, *place;
    uint16_t *gpus, *used;
    double *rack_hop, *domain_hop, *room;
    uint8_t *is_server;
    struct net_job *jobs;
};

static void batch_done(struct batch *b)
{
    void *blocks[] = { b->rack,     b->domain,     b->job_of, b->place,     b->gpus, b->used,
                       b->rack_hop, b->domain_hop, b->room,   b->is_server, b->jobs };

    for (size_t i = 0; i < sizeof(blocks) / sizeof(*blocks); i++)
        mem_free(blocks[i]);
}

/* Words within a range, one after another. */
struct words {
    const int64_t *at, *end;
    bool bad;
};

static int64_t word(struct words *in, int64_t low, int64_t high)
{
    int64_t value = in->at < in->end ? *in->at++ : INT64_MIN;

    if (value < low || value > high) {
        in->bad = true;
        return low;
    }
    return value;
}

static int take_memory(struct batch *b, uint32_t nodes, uint32_t jobs)
{
    b->rack = mem_zalloc(nodes, sizeof(*b->rack));
    b->domain = mem_zalloc(nodes, sizeof(*b->domain));
    b->gpus = mem_zalloc(nodes, sizeof(*b->gpus));
    b->used = mem_zalloc(nodes, sizeof(*b->used));
    b->room = mem_zalloc(nodes, sizeof(*b->room));
    b->rack_hop = mem_zalloc(b->map.racks, sizeof(*b->rack_hop));
    b->domain_hop = mem_zalloc(b->map.domains, sizeof(*b->domain_hop));
    b->jobs = mem_zalloc(jobs, sizeof(*b->jobs));
    b->job_of = mem_zalloc(PLACE_TASKS_MAX, sizeof(*b->job_of));
    b->place = mem_zalloc(PLACE_TASKS_MAX, sizeof(*b->place));
    b->is_server = mem_zalloc(PLACE_TASKS_MAX, 1);
    return b->rack && b->domain && b->gpus && b->used && b->room && b->rack_hop && b->domain_hop && b->jobs &&
                   b->job_of && b->place && b->is_server
               ? 0
               : -ENOMEM;
}

static void take_nodes(struct batch *b, struct words *in, uint32_t nodes)
{
    bool limited = false;

    for (uint32_t n = 0; n < nodes; n++) {
        int64_t room;

        b->rack[n] = (uint32_t)word(in, 0, b->map.racks - 1);
        b->domain[n] = (uint32_t)word(in, 0, b->map.domains - 1);
        b->gpus[n] = (uint16_t)word(in, 1, UINT16_MAX);
        b->used[n] = (uint16_t)word(in, 0, b->gpus[n]);
        room = word(in, -1, INT64_C(1) << 40);
        limited |= room >= 0;
        b->room[n] = (double)room / 1000;
    }
    for (uint32_t r = 0; r < b->map.racks; r++)
        b->rack_hop[r] = (double)word(in, 0, HOP_MAX);
    for (uint32_t d = 0; d < b->map.domains; d++)
        b->domain_hop[d] = (double)word(in, 0, HOP_MAX);
    b->problem.room = limited ? b->room : NULL;
}

static void take_jobs(struct batch *b, struct words *in, uint32_t jobs)
{
    uint32_t tasks = 0;

    for (uint32_t j = 0; j < jobs && !in->bad; j++) {
        uint32_t servers = (uint32_t)word(in, 0, PLACE_TASKS_MAX - 1), workers;

        workers = (uint32_t)word(in, 1, PLACE_TASKS_MAX);
        b->jobs[j] = (struct net_job){ tasks, servers, workers, (double)word(in, 0, HOP_MAX), 0 };
        in->bad |= servers + workers > PLACE_TASKS_MAX - tasks;
        if (in->bad)
            return;
        net_interleave(servers, workers, b->is_server + tasks);
        for (uint32_t i = 0; i < servers + workers; i++)
            b->job_of[tasks++] = j;
    }
    b->problem.job_count = jobs;
    b->problem.task_count = tasks;
}

static int solve(struct batch *b, struct search_request *request, struct work_answer *answer, struct error *err)
{
    struct search_answer found;
    int r;

    request->problem = &b->problem;
    if (b->problem.task_count > answer->capacity)
        return error_set(err, -ENOSPC, "an answer of %u numbers, the limit is %u", b->problem.task_count,
                         answer->capacity);
    r = search_run(request, b->place, &found, err);
    for (uint32_t t = 0; r == 0 && t < b->problem.task_count; t++)
        answer->words[t] = b->place[t];
    answer->count = r == 0 ? b->problem.task_count : 0;
    return r;
}

int place_batch(const int64_t *words, uint32_t count, struct work_answer *answer, struct error *err)
{
    struct words in = { words, words + count, false };
    struct search_request request = { .params = gga_params_default() };
    struct batch b = { 0 };
    uint32_t nodes, jobs;
    int r;

    (void)word(&in, PLACE_VERSION, PLACE_VERSION);
    request.params.seed = (uint64_t)word(&in, 0, INT64_MAX);
    request.rounds = (uint32_t)word(&in, 1, ROUNDS_MAX);
    b.map.far = (double)word(&in, 0, HOP_MAX);
    b.map.racks = (uint32_t)word(&in, 1, PLACE_NODES_MAX);
    b.map.domains = (uint32_t)word(&in, 1, PLACE_NODES_MAX);
    nodes = (uint32_t)word(&in, 1, PLACE_NODES_MAX);
    jobs = (uint32_t)word(&in, 1, PLACE_JOBS_MAX);
    if (in.bad)
        return error_set(err, -EINVAL, "a request to place a batch makes no sense");
    r = take_memory(&b, nodes, jobs);
    if (r == 0) {
        take_nodes(&b, &in, nodes);
        take_jobs(&b, &in, jobs);
        b.map.nodes = nodes;
        b.map.rack = b.rack;
        b.map.domain = b.domain;
        b.map.gpus = b.gpus;
        b.map.rack_hop = b.rack_hop;
        b.map.domain_hop = b.domain_hop;
        b.problem.map = &b.map;
        b.problem.used = b.used;
        b.problem.jobs = b.jobs;
        b.problem.is_server = b.is_server;
        b.problem.job_of = b.job_of;
        if (in.bad || in.at != in.end)
            r = error_set(err, -EINVAL, "a request to place %u jobs on %u nodes makes no sense", jobs, nodes);
    } else {
        (void)error_set(err, r, "no memory to place %u jobs", jobs);
    }
    if (r == 0)
        r = solve(&b, &request, answer, err);
    batch_done(&b);
    return r;
}
