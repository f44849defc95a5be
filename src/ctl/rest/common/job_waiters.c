/* SPDX-License-Identifier: Apache-2.0 */
/* job_waiters.c - see job_waiters.h. Events come while a batch is applied; who waited is answered at the end of the
 * loop's turn, when all of it is. */
#include "ctl/rest/common/job_waiters.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"

enum { BUCKETS = 1024, WAITERS_MAX = 16384 };
#define SWEEP_EVERY USEC_SEC

struct waiter {
    struct waiter *next;
    struct request *request; /* held */
    waited_fn then;
    int64_t job;
    uint32_t attempt_count;
    enum wait_for what;
    usec_t until;
};

struct waits {
    struct server *server;
    struct loop_timer *sweep;
    struct waiter *buckets[BUCKETS];
    struct waiter *due; /* whose jobs have seen an event in this turn */
    size_t count;
};

int wait_for_find(const char *text)
{
    static const char *const names[WAIT_FOR_COUNT] = { "started", "ended", "over" };

    for (int i = 0; i < WAIT_FOR_COUNT; i++)
        if (strcmp(text, names[i]) == 0)
            return i;
    return -ENOENT;
}

static bool reached(const struct ctl_job *job, enum wait_for what, uint32_t attempt_count)
{
    if (phase_over(job->phase))
        return true;
    if (what == WAIT_STARTED)
        return job->phase != PHASE_JOB_PENDING && job->phase != PHASE_JOB_STARTING;
    return what == WAIT_ENDED && (job->phase == PHASE_JOB_PENDING || job->attempt_count != attempt_count);
}

static void waiter_drop(struct waits *waits, struct waiter *waiter)
{
    request_drop(waiter->request);
    mem_free(waiter);
    waits->count--;
}

static void waiter_answer(struct waits *waits, struct waiter *waiter, const struct ctl_job *job)
{
    if (job)
        waiter->then(waiter->request, job);
    else
        reply_problem(waiter->request, 404, "NotFound", NULL, "no job %" PRId64, waiter->job);
    waiter_drop(waits, waiter);
}

static struct waiter **bucket_of(struct waits *waits, int64_t job)
{
    return &waits->buckets[(uint64_t)job % BUCKETS];
}

void waits_hold(struct waits *waits, struct request *request, const struct ctl_job *job, enum wait_for what,
                usec_t limit, waited_fn then)
{
    struct waiter **bucket = bucket_of(waits, job->id), *waiter = NULL;

    if (!reached(job, what, job->attempt_count) && waits->count < WAITERS_MAX)
        waiter = mem_zalloc(1, sizeof(*waiter));
    if (!waiter) {
        then(request, job);
        return;
    }
    *waiter = (struct waiter){ .next = *bucket,
                               .request = request_hold(request),
                               .then = then,
                               .job = job->id,
                               .attempt_count = job->attempt_count,
                               .what = what,
                               .until = clock_now() + limit };
    *bucket = waiter;
    waits->count++;
    batcher_hurry(waits->server->batcher);
}

bool waits_any(const struct waits *waits)
{
    return waits->count > 0;
}

void waits_event(struct waits *waits, int64_t job)
{
    struct waiter **at = bucket_of(waits, job), *waiter;

    while ((waiter = *at)) {
        if (waiter->job != job) {
            at = &waiter->next;
            continue;
        }
        *at = waiter->next;
        waiter->next = waits->due;
        waits->due = waiter;
    }
}

static void on_turn(void *arg)
{
    struct waits *waits = arg;
    struct waiter *due = take(waits->due), *waiter;

    while ((waiter = due)) {
        const struct ctl_job *job = registry_find(server_book(waits->server), waiter->job);
        struct waiter **bucket = bucket_of(waits, waiter->job);

        due = waiter->next;
        if (!job || reached(job, waiter->what, waiter->attempt_count)) {
            waiter_answer(waits, waiter, job);
        } else {
            waiter->next = *bucket;
            *bucket = waiter;
        }
    }
}

/* Those who have waited long enough, and those who have left. */
static void on_sweep(void *arg)
{
    struct waits *waits = arg;
    usec_t now = clock_now();

    for (size_t i = 0; waits->count && i < BUCKETS; i++)
        for (struct waiter **at = &waits->buckets[i], *waiter; (waiter = *at);) {
            bool left = !request_conn(waiter->request);

            if (!left && waiter->until > now) {
                at = &waiter->next;
                continue;
            }
            *at = waiter->next;
            if (left)
                waiter_drop(waits, waiter);
            else
                waiter_answer(waits, waiter, registry_find(server_book(waits->server), waiter->job));
        }
}

int waits_new(struct server *server, struct waits **ret_waits)
{
    struct waits *waits = mem_zalloc(1, sizeof(*waits));
    int r;

    if (!waits)
        return -ENOMEM;
    waits->server = server;
    r = loop_timer_new(server->loop, on_sweep, waits, &waits->sweep);
    if (r == 0)
        r = loop_each_turn(server->loop, on_turn, waits);
    if (r < 0) {
        loop_timer_free(waits->sweep);
        mem_free(waits);
        return r;
    }
    loop_timer_every(waits->sweep, SWEEP_EVERY);
    *ret_waits = waits;
    return 0;
}

void waits_stop(struct waits *waits)
{
    if (waits)
        loop_timer_free(take(waits->sweep));
}

void waits_free(struct waits *waits)
{
    if (!waits)
        return;
    for (size_t i = 0; i <= BUCKETS; i++) {
        struct waiter **head = i < BUCKETS ? &waits->buckets[i] : &waits->due, *waiter;

        while ((waiter = *head)) {
            *head = waiter->next;
            waiter_drop(waits, waiter);
        }
    }
    mem_free(waits);
}
