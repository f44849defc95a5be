/* SPDX-License-Identifier: Apache-2.0 */
/* parallel.c - see parallel.h. */
#include "io/parallel.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

struct job {
    void (*fn)(void *arg, uint32_t item, unsigned worker);
    void *arg;
    uint32_t count;
    atomic_uint next; /* item */
    atomic_uint workers;
};

unsigned parallel_cores(void)
{
    cpu_set_t set;
    int count;

    if (sched_getaffinity(0, sizeof(set), &set) < 0)
        return 1;
    count = CPU_COUNT(&set);
    return count < 1 ? 1 : count > PARALLEL_MAX ? PARALLEL_MAX : (unsigned)count;
}

static void *work(void *arg)
{
    struct job *job = arg;
    unsigned worker = atomic_fetch_add(&job->workers, 1);

    for (;;) {
        uint32_t item = atomic_fetch_add(&job->next, 1);

        if (item >= job->count)
            return NULL;
        job->fn(job->arg, item, worker);
    }
}

void parallel_run(unsigned threads, uint32_t count, void (*fn)(void *arg, uint32_t item, unsigned worker), void *arg)
{
    struct job job = { .fn = fn, .arg = arg, .count = count };
    pthread_t others[PARALLEL_MAX];
    unsigned started = 0;

    if (threads == 0)
        threads = parallel_cores();
    if (threads > PARALLEL_MAX)
        threads = PARALLEL_MAX;
    if (threads > count)
        threads = count;
    while (started + 1 < threads && pthread_create(&others[started], NULL, work, &job) == 0)
        started++;
    (void)work(&job);
    for (unsigned i = 0; i < started; i++)
        (void)pthread_join(others[i], NULL);
}
