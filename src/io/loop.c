/* SPDX-License-Identifier: Apache-2.0 */
/* loop.c - libuv's loop, and worker threads of our own: the pool of libuv has four, and a store is called by one. */
#include "io/loop.h"

#include <errno.h>
#include <pthread.h>
#include <uv.h>

#include "base/alloc.h"

enum { TURN_FNS_MAX = 8, SIGNALS_MAX = 8 };

struct job_of_worker {
    struct worker *worker;
    loop_fn work, done;
    void *arg;
    struct job_of_worker *next;
};

struct worker_queue {
    struct job_of_worker *first, *last;
};

/* Two of them: one for the store, in order; one for what computes for long. */
enum { WORKER_STORE, WORKER_LONG, WORKERS };

struct worker {
    struct loop *loop;
    pthread_t thread;
    pthread_cond_t more;
    struct worker_queue todo; /* under the lock */
    bool running;             /* the loop's */
    size_t given;             /* the loop's: handed over, not done */
};

struct loop_signal {
    uv_signal_t handle;
    loop_fn fn;
    void *arg;
};

struct loop {
    uv_loop_t uv;
    uv_prepare_t turn;
    uv_check_t heard;
    uv_async_t woken;
    struct {
        loop_fn fn;
        void *arg;
    } turns[TURN_FNS_MAX];
    size_t turn_count;
    struct loop_signal signals[SIGNALS_MAX];
    size_t signal_count;
    struct worker workers[WORKERS];
    pthread_mutex_t lock;
    struct worker_queue finished; /* under the lock */
    bool leave;                   /* under the lock */
};

struct loop_timer {
    uv_timer_t handle;
    loop_fn fn;
    void *arg;
};

static void queue_put(struct worker_queue *queue, struct job_of_worker *job)
{
    job->next = NULL;
    if (queue->last)
        queue->last->next = job;
    else
        queue->first = job;
    queue->last = job;
}

static struct job_of_worker *queue_take(struct worker_queue *queue)
{
    struct job_of_worker *job = queue->first;

    if (job) {
        queue->first = job->next;
        if (!queue->first)
            queue->last = NULL;
    }
    return job;
}

static void *worker_main(void *arg)
{
    struct worker *worker = arg;
    struct loop *loop = worker->loop;
    struct job_of_worker *job;

    pthread_mutex_lock(&loop->lock);
    for (;;) {
        while (!(job = queue_take(&worker->todo)) && !loop->leave)
            pthread_cond_wait(&worker->more, &loop->lock);
        if (!job)
            break;
        pthread_mutex_unlock(&loop->lock);
        job->work(job->arg);
        pthread_mutex_lock(&loop->lock);
        queue_put(&loop->finished, job);
        pthread_mutex_unlock(&loop->lock);
        uv_async_send(&loop->woken);
        pthread_mutex_lock(&loop->lock);
    }
    pthread_mutex_unlock(&loop->lock);
    return NULL;
}

static void on_woken(uv_async_t *handle)
{
    struct loop *loop = handle->data;
    struct job_of_worker *job;

    for (;;) {
        pthread_mutex_lock(&loop->lock);
        job = queue_take(&loop->finished);
        pthread_mutex_unlock(&loop->lock);
        if (!job)
            return;
        job->worker->given--;
        job->done(job->arg);
        mem_free(job);
    }
}

static void turn_end(struct loop *loop)
{
    for (size_t i = 0; i < loop->turn_count; i++)
        loop->turns[i].fn(loop->turns[i].arg);
}

static void on_turn(uv_prepare_t *handle)
{
    turn_end(handle->data);
}

/* What was heard ends a turn too: connections that it closes are then gone before the loop looks again. Else it would
 * look without waiting first, for those alone. */
static void on_heard(uv_check_t *handle)
{
    turn_end(handle->data);
}

static int worker_start(struct worker *worker)
{
    int r = worker->running ? 0 : -pthread_create(&worker->thread, NULL, worker_main, worker);

    worker->running = r == 0;
    return r;
}

int loop_new(struct loop **ret_loop, struct error *err)
{
    struct loop *loop = mem_zalloc(1, sizeof(*loop));
    int r;

    if (!loop)
        return error_set(err, -ENOMEM, "out of memory");
    r = uv_loop_init(&loop->uv);
    if (r < 0) {
        mem_free(loop);
        return error_set(err, r, "cannot make an event loop: %s", uv_strerror(r));
    }
    (void)uv_prepare_init(&loop->uv, &loop->turn);
    loop->turn.data = loop;
    (void)uv_prepare_start(&loop->turn, on_turn);
    (void)uv_check_init(&loop->uv, &loop->heard);
    loop->heard.data = loop;
    (void)uv_check_start(&loop->heard, on_heard);
    (void)uv_async_init(&loop->uv, &loop->woken, on_woken);
    loop->woken.data = loop;
    pthread_mutex_init(&loop->lock, NULL);
    for (int i = 0; i < WORKERS; i++) {
        loop->workers[i].loop = loop;
        pthread_cond_init(&loop->workers[i].more, NULL);
    }
    r = worker_start(&loop->workers[WORKER_STORE]);
    if (r < 0) {
        loop_free(loop);
        return error_set(err, r, "cannot start the worker thread");
    }
    *ret_loop = loop;
    return 0;
}

static void handle_close(uv_handle_t *handle, void *arg)
{
    (void)arg;
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

void loop_work_finish(struct loop *loop)
{
    pthread_mutex_lock(&loop->lock);
    loop->leave = true;
    for (int i = 0; i < WORKERS; i++)
        pthread_cond_signal(&loop->workers[i].more);
    pthread_mutex_unlock(&loop->lock);
    for (int i = 0; i < WORKERS; i++) {
        if (loop->workers[i].running)
            pthread_join(loop->workers[i].thread, NULL);
        loop->workers[i].running = false;
    }
    on_woken(&loop->woken);
}

void loop_free(struct loop *loop)
{
    if (!loop)
        return;
    loop_work_finish(loop);
    loop->turn_count = 0;
    uv_walk(&loop->uv, handle_close, NULL);
    (void)uv_run(&loop->uv, UV_RUN_DEFAULT);
    (void)uv_loop_close(&loop->uv);
    pthread_mutex_destroy(&loop->lock);
    for (int i = 0; i < WORKERS; i++)
        pthread_cond_destroy(&loop->workers[i].more);
    mem_free(loop);
}

void loop_run(struct loop *loop)
{
    (void)uv_run(&loop->uv, UV_RUN_DEFAULT);
}

void loop_stop(struct loop *loop)
{
    uv_stop(&loop->uv);
}

struct uv_loop_s *loop_uv(struct loop *loop)
{
    return &loop->uv;
}

int loop_each_turn(struct loop *loop, loop_fn fn, void *arg)
{
    if (loop->turn_count == TURN_FNS_MAX)
        return -ENOSPC;
    loop->turns[loop->turn_count].fn = fn;
    loop->turns[loop->turn_count++].arg = arg;
    return 0;
}

static void on_timer(uv_timer_t *handle)
{
    struct loop_timer *timer = handle->data;

    timer->fn(timer->arg);
}

int loop_timer_new(struct loop *loop, loop_fn fn, void *arg, struct loop_timer **ret_timer)
{
    struct loop_timer *timer = mem_zalloc(1, sizeof(*timer));

    if (!timer)
        return -ENOMEM;
    (void)uv_timer_init(&loop->uv, &timer->handle);
    timer->handle.data = timer;
    timer->fn = fn;
    timer->arg = arg;
    *ret_timer = timer;
    return 0;
}

/* Rounded up, so that a timer never comes early. */
static uint64_t msec_of(usec_t span)
{
    return span <= 0 ? 0 : (uint64_t)((span + USEC_MSEC - 1) / USEC_MSEC);
}

void loop_timer_after(struct loop_timer *timer, usec_t span)
{
    uv_update_time(timer->handle.loop);
    (void)uv_timer_start(&timer->handle, on_timer, msec_of(span), 0);
}

void loop_timer_every(struct loop_timer *timer, usec_t span)
{
    (void)uv_timer_start(&timer->handle, on_timer, msec_of(span), msec_of(span));
}

void loop_timer_stop(struct loop_timer *timer)
{
    (void)uv_timer_stop(&timer->handle);
}

static void timer_closed(uv_handle_t *handle)
{
    mem_free(handle->data);
}

void loop_timer_free(struct loop_timer *timer)
{
    if (timer)
        uv_close((uv_handle_t *)&timer->handle, timer_closed);
}

static void on_signal(uv_signal_t *handle, int number)
{
    struct loop_signal *signal = handle->data;

    (void)number;
    signal->fn(signal->arg);
}

int loop_signal(struct loop *loop, int number, loop_fn fn, void *arg)
{
    struct loop_signal *signal;

    if (loop->signal_count == SIGNALS_MAX)
        return -ENOSPC;
    signal = &loop->signals[loop->signal_count++];
    signal->fn = fn;
    signal->arg = arg;
    (void)uv_signal_init(&loop->uv, &signal->handle);
    signal->handle.data = signal;
    return uv_signal_start(&signal->handle, on_signal, number);
}

static int worker_give(struct worker *worker, loop_fn work, loop_fn done, void *arg)
{
    struct job_of_worker *job = mem_zalloc(1, sizeof(*job));
    struct loop *loop = worker->loop;
    int r = job ? worker_start(worker) : -ENOMEM;

    if (r < 0) {
        mem_free(job);
        return r;
    }
    *job = (struct job_of_worker){ .worker = worker, .work = work, .done = done, .arg = arg };
    worker->given++;
    pthread_mutex_lock(&loop->lock);
    queue_put(&worker->todo, job);
    pthread_mutex_unlock(&loop->lock);
    pthread_cond_signal(&worker->more); /* not under the lock: it would wake only to wait for it */
    return 0;
}

int loop_work(struct loop *loop, loop_fn work, loop_fn done, void *arg)
{
    return worker_give(&loop->workers[WORKER_STORE], work, done, arg);
}

int loop_compute(struct loop *loop, loop_fn work, loop_fn done, void *arg)
{
    return worker_give(&loop->workers[WORKER_LONG], work, done, arg);
}

bool loop_work_alone(const struct loop *loop)
{
    return loop->workers[WORKER_STORE].given == 0;
}
