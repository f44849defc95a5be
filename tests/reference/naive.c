/* SPDX-License-Identifier: Apache-2.0 */
/* naive.c - see naive.h. */
#include "naive.h"

#include <stdbool.h>
#include <stdlib.h>

enum state { ABSENT, WAITING, RUNNING, OVER };

struct live {
    enum state state;
    int64_t left;  /* work still to do */
    int64_t ready; /* while running: makes progress from here on */
    int type;      /* while running */
    bool ran;      /* was started before */
};

struct sim {
    struct naive_job *jobs;
    struct live *live;
    int *order;
    int count;
    const struct naive_cluster *cluster;
    enum naive_policy policy;
    int64_t restart, now;
};

static int64_t key_of(const struct sim *s, int i)
{
    switch (s->policy) {
    case NAIVE_STRICT:
    case NAIVE_SKIP:
        return s->jobs[i].submit;
    case NAIVE_SRTF:
        return s->live[i].left;
    case NAIVE_SRSF:
        return s->live[i].left * s->jobs[i].gpus;
    }
    return 0;
}

/* By key, then submission, then id. */
static bool before(const struct sim *s, int a, int b)
{
    if (key_of(s, a) != key_of(s, b))
        return key_of(s, a) < key_of(s, b);
    if (s->jobs[a].submit != s->jobs[b].submit)
        return s->jobs[a].submit < s->jobs[b].submit;
    return a < b;
}

static int sort_live(struct sim *s)
{
    int count = 0;

    for (int i = 0; i < s->count; i++) {
        int at = count;

        if (s->live[i].state != WAITING && s->live[i].state != RUNNING)
            continue;
        for (; at > 0 && before(s, i, s->order[at - 1]); at--)
            s->order[at] = s->order[at - 1];
        s->order[at] = i;
        count++;
    }
    return count;
}

static void advance(struct sim *s, int64_t to)
{
    for (int i = 0; i < s->count; i++) {
        int64_t from = s->now > s->live[i].ready ? s->now : s->live[i].ready;

        if (s->live[i].state == RUNNING && to > from)
            s->live[i].left -= to - from;
    }
    s->now = to;
}

static void start(struct sim *s, int i, int type)
{
    struct live *l = &s->live[i];

    l->state = RUNNING;
    l->type = type;
    l->ready = s->now + (l->ran ? s->restart : 0);
    if (!l->ran)
        s->jobs[i].start = s->now;
    l->ran = true;
}

/* The first type it may use that has room; -1 if none has. */
static int room_for(const struct sim *s, int i, const int64_t *left)
{
    for (int t = 0; t < s->cluster->types; t++)
        if (s->jobs[i].types >> t & 1 && left[t] >= s->jobs[i].gpus)
            return t;
    return -1;
}

/* Running jobs keep what they have; waiting ones, in order, take what is left. */
static void plan_waiting(struct sim *s)
{
    int64_t left[NAIVE_TYPES_MAX];
    int count = sort_live(s);

    for (int t = 0; t < s->cluster->types; t++)
        left[t] = s->cluster->gpus[t];
    for (int k = 0; k < count; k++)
        if (s->live[s->order[k]].state == RUNNING)
            left[s->live[s->order[k]].type] -= s->jobs[s->order[k]].gpus;
    for (int k = 0; k < count; k++) {
        int i = s->order[k], type;

        if (s->live[i].state != WAITING)
            continue;
        type = room_for(s, i, left);
        if (type >= 0) {
            start(s, i, type);
            left[type] -= s->jobs[i].gpus;
        } else if (s->policy == NAIVE_STRICT) {
            return;
        }
    }
}

/* Everybody in order takes what is left: a running job where it is, a waiting one on the first type with room. Who
 * finds nothing waits. Returns whether one that was stopped would find room on another type: it is looked at again a
 * microsecond later, for at one instant there is one pass. */
static bool plan_everybody(struct sim *s)
{
    int64_t left[NAIVE_TYPES_MAX];
    int count = sort_live(s);
    bool again = false;
    int *type = malloc((size_t)s->count * sizeof(*type));

    for (int t = 0; t < s->cluster->types; t++)
        left[t] = s->cluster->gpus[t];
    for (int k = 0; k < count; k++) {
        int i = s->order[k];

        if (s->live[i].state == RUNNING)
            type[i] = left[s->live[i].type] >= s->jobs[i].gpus ? s->live[i].type : -1;
        else
            type[i] = room_for(s, i, left);
        if (type[i] >= 0)
            left[type[i]] -= s->jobs[i].gpus;
    }
    for (int k = 0; k < count; k++) {
        int i = s->order[k];

        if (s->live[i].state == WAITING && type[i] >= 0) {
            start(s, i, type[i]);
        } else if (s->live[i].state == RUNNING && type[i] < 0) {
            s->live[i].state = WAITING;
            s->jobs[i].preemptions++;
            again |= room_for(s, i, left) >= 0;
        }
    }
    free(type);
    return again;
}

void naive_run(struct naive_job *jobs, int count, const struct naive_cluster *cluster, enum naive_policy policy,
               int64_t restart)
{
    struct sim s = { .jobs = jobs, .count = count, .cluster = cluster, .policy = policy, .restart = restart };
    int over = 0;
    int64_t again = INT64_MAX;

    s.live = calloc((size_t)count, sizeof(*s.live));
    s.order = calloc((size_t)count, sizeof(*s.order));
    for (int i = 0; i < count; i++) {
        jobs[i].start = jobs[i].end = -1;
        jobs[i].preemptions = 0;
        s.live[i].left = jobs[i].run;
    }
    while (over < count) {
        int64_t next = again;

        for (int i = 0; i < count; i++) {
            const struct live *l = &s.live[i];
            int64_t from = l->ready > s.now ? l->ready : s.now;

            if (l->state == ABSENT && jobs[i].submit < next)
                next = jobs[i].submit;
            if (l->state == RUNNING && from + l->left < next)
                next = from + l->left;
            if (l->state == RUNNING && l->ready > s.now && l->ready < next)
                next = l->ready; /* an event as well: its restart is over */
        }
        advance(&s, next);
        again = INT64_MAX;
        for (int i = 0; i < count; i++)
            if (s.live[i].state == RUNNING && s.live[i].left == 0 && s.live[i].ready <= s.now) {
                s.live[i].state = OVER;
                jobs[i].end = s.now;
                over++;
            }
        for (int i = 0; i < count; i++)
            if (s.live[i].state == ABSENT && jobs[i].submit <= s.now)
                s.live[i].state = WAITING;
        if (policy == NAIVE_STRICT || policy == NAIVE_SKIP)
            plan_waiting(&s);
        else if (plan_everybody(&s))
            again = s.now + 1;
    }
    free(s.live);
    free(s.order);
}
