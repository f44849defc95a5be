/* SPDX-License-Identifier: Apache-2.0 */
/* background.c - see background.h. */
#include "learn/background.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/alloc.h"

struct trainer {
    pthread_t thread;
    bool busy;        /* a thread was started and not joined */
    atomic_bool done; /* set last by the thread; what it wrote is there then */
    struct dataset set;
    struct train_request request;
    struct estimator fresh;
    struct error err;
    int result;
};

int trainer_new(struct trainer **ret_trainer, struct error *err)
{
    *ret_trainer = mem_zalloc(1, sizeof(**ret_trainer));
    return *ret_trainer ? 0 : error_set(err, -ENOMEM, "no memory for a trainer");
}

static void *work(void *arg)
{
    struct trainer *t = arg;

    t->result = estimator_train(&t->set, &t->request, &t->fresh, &t->err);
    atomic_store(&t->done, true);
    return NULL;
}

static void join(struct trainer *t)
{
    (void)pthread_join(t->thread, NULL);
    t->busy = false;
    dataset_done(&t->set);
}

void trainer_free(struct trainer *t)
{
    if (!t)
        return;
    if (t->busy)
        join(t);
    estimator_done(&t->fresh);
    mem_free(t);
}

int trainer_start(struct trainer *t, struct dataset *take_set, const struct train_request *request, struct error *err)
{
    int r;

    if (t->busy)
        return error_set(err, -EBUSY, "a training is under way");
    t->set = *take_set;
    t->request = *request;
    t->fresh = (struct estimator){ 0 };
    atomic_store(&t->done, false);
    r = -pthread_create(&t->thread, NULL, work, t);
    if (r < 0) {
        t->set = (struct dataset){ 0 };
        return error_set(err, r, "no thread to train with");
    }
    t->busy = true;
    *take_set = (struct dataset){ 0 };
    return 0;
}

int trainer_poll(struct trainer *t, struct estimator *estimator, struct error *err)
{
    if (!t->busy || !atomic_load(&t->done))
        return 0;
    join(t);
    if (t->result < 0)
        return error_set(err, t->result, "%s", t->err.text);
    estimator_done(estimator);
    *estimator = t->fresh;
    t->fresh = (struct estimator){ 0 };
    return 1;
}
