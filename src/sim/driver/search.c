/* SPDX-License-Identifier: Apache-2.0 */
/* search.c - see search.h. */
#include "sim/driver/search.h"

#include <errno.h>

#include "base/alloc.h"
#include "sim/world/world_math.h"

enum { STREAM_SCORE = 0x73636f72 };

struct search {
    uint32_t user;
    uint32_t first, count; /* of searches.trials */
    usec_t compared;       /* -1: not yet */
};

struct searches {
    struct search *list;
    uint32_t *trials; /* jobs of the trace, by search */
    uint32_t count;
};

static uint64_t score(const struct driver *d, uint32_t index)
{
    struct rng rng = math_stream(d->config->world.seed, STREAM_SCORE, (uint64_t)d->trace->jobs[index].spec.id);

    return rng_next(&rng);
}

static uint32_t search_of(const struct searches *s, uint32_t user)
{
    uint32_t i = 0;

    while (i < s->count && s->list[i].user != user)
        i++;
    return i;
}

int searches_new(const struct driver_config *config, struct searches **ret, struct error *err)
{
    const struct trace *trace = config->trace;
    struct searches *s;
    uint32_t at = 0;

    *ret = NULL;
    if (config->world.search <= 0)
        return 0;
    s = mem_zalloc(1, sizeof(*s));
    if (s) {
        s->list = mem_zalloc(trace->count, sizeof(*s->list));
        s->trials = mem_zalloc(trace->count, sizeof(*s->trials));
    }
    if (!s || !s->list || !s->trials) {
        searches_free(s);
        return error_set(err, -ENOMEM, "out of memory");
    }
    for (size_t i = 0; i < trace->count; i++) {
        uint32_t k = search_of(s, trace->jobs[i].spec.user);

        if (k == s->count)
            s->list[s->count++] = (struct search){ .user = trace->jobs[i].spec.user, .compared = -1 };
        s->list[k].count++;
    }
    for (uint32_t k = 0; k < s->count; k++) {
        s->list[k].first = at;
        at += s->list[k].count;
        s->list[k].count = 0;
    }
    for (uint32_t i = 0; i < trace->count; i++) {
        struct search *search = &s->list[search_of(s, trace->jobs[i].spec.user)];

        s->trials[search->first + search->count++] = i;
    }
    *ret = s;
    return 0;
}

void searches_free(struct searches *searches)
{
    if (!searches)
        return;
    mem_free(searches->list);
    mem_free(searches->trials);
    mem_free(searches);
}

/* Work the trial must still do to be compared; 0: none. A trial that has not come has all of it to do. */
static usec_t lacks(const struct driver *d, uint32_t index)
{
    const struct actor *a = &d->actors[index];
    usec_t mark = muldiv_ceil(world_work(d->world, index), d->config->world.search, PPM_ONE);
    usec_t done = a->progress + (a->running ? muldiv_floor(d->now - a->since, a->rate, PPM_ONE) : 0);

    if (d->result->jobs[index].end >= 0)
        return 0;
    return done < mark ? mark - done : 0;
}

usec_t searches_next(const struct driver *d)
{
    usec_t next = USEC_NEVER;

    for (uint32_t k = 0; d->searches && k < d->searches->count; k++) {
        const struct search *s = &d->searches->list[k];

        for (uint32_t i = 0; i < s->count && s->compared < 0; i++) {
            uint32_t index = d->searches->trials[s->first + i];
            const struct actor *a = &d->actors[index];
            usec_t left = a->running && a->rate > 0 ? lacks(d, index) : 0, at;

            if (left == 0)
                continue;
            at = d->now + muldiv_ceil(left, PPM_ONE, a->rate);
            next = at < next ? at : next;
        }
    }
    return next;
}

static bool comparable(const struct driver *d, const struct search *s)
{
    for (uint32_t i = 0; i < s->count; i++)
        if (lacks(d, d->searches->trials[s->first + i]) > 0)
            return false;
    return true;
}

/* How many trials of the search are better. */
static uint32_t rank_of(const struct driver *d, const struct search *s, uint32_t index)
{
    uint32_t better = 0;

    for (uint32_t i = 0; i < s->count; i++)
        better += score(d, d->searches->trials[s->first + i]) > score(d, index);
    return better;
}

int searches_act(struct driver *d)
{
    int r = 0;

    for (uint32_t k = 0; d->searches && k < d->searches->count; k++) {
        struct search *s = &d->searches->list[k];

        if (s->compared >= 0 || !comparable(d, s))
            continue;
        s->compared = d->now;
        for (uint32_t i = 0; i < s->count && r == 0; i++) {
            uint32_t index = d->searches->trials[s->first + i];
            struct event event = { .kind = EVENT_CANCEL, .job = d->actors[index].slot, .gen = d->actors[index].gen };

            if (d->actors[index].in_core && rank_of(d, s, index) >= (uint32_t)d->config->world.search_keep)
                r = driver_offer(d, &event, index, NULL);
        }
    }
    return r;
}

void searches_result(const struct driver *d)
{
    usec_t sum = 0, most = 0;
    uint32_t found = 0;

    for (uint32_t k = 0; d->searches && k < d->searches->count; k++) {
        const struct search *s = &d->searches->list[k];
        usec_t begin = d->trace->jobs[d->searches->trials[s->first]].spec.submit;

        for (uint32_t i = 0; i < s->count && s->compared >= 0; i++) {
            uint32_t index = d->searches->trials[s->first + i];
            usec_t end = d->result->jobs[index].end;

            if (rank_of(d, s, index) != 0 || end < 0 || d->result->jobs[index].outcome != OUTCOME_DONE)
                continue;
            end = end > s->compared ? end : s->compared;
            sum += end - begin;
            most = end - begin > most ? end - begin : most;
            found++;
        }
    }
    d->result->searches = d->searches ? d->searches->count : 0;
    d->result->winners = found;
    d->result->winner_mean = found ? sum / found : 0;
    d->result->winner_max = most;
}
