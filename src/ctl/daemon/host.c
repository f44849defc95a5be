/* SPDX-License-Identifier: Apache-2.0 */
/* host.c - the batcher's side of the loop: clock, worker, timer, agents and listeners. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "ctl/daemon/daemon.h"
#include "ctl/daemon/links.h"
#include "ctl/insight/estimates.h"
#include "ctl/insight/feed.h"
#include "ctl/insight/notify.h"
#include "ctl/insight/stats.h"
#include "ctl/insight/watch.h"
#include "ctl/rest/common/job_waiters.h"
#include "io/log.h"
#include "io/seal.h"

static usec_t host_now(void *arg)
{
    (void)arg;
    return clock_now();
}

static int host_work(void *arg, void (*work)(void *), void (*done)(void *), void *work_arg)
{
    struct server *server = arg;

    return loop_work(server->loop, work, done, work_arg);
}

static bool host_alone(void *arg)
{
    struct server *server = arg;

    return loop_work_alone(server->loop);
}

static bool host_awaited(void *arg)
{
    struct server *server = arg;

    return !server->waits || waits_any(server->waits);
}

static int host_compute(void *arg, void (*work)(void *), void (*done)(void *), void *work_arg)
{
    struct server *server = arg;

    return loop_compute(server->loop, work, done, work_arg);
}

static void on_wake(void *arg)
{
    struct server *server = arg;

    server->wake_at = 0;
    if (server->batcher)
        batcher_turn(server->batcher);
}

/* Asked for in each turn, and mostly the same: the batcher looks at its nodes once a second, so that a clock that is
 * set ahead is noticed by then. */
static void host_wake_at(void *arg, usec_t at)
{
    struct server *server = arg;
    usec_t now;

    if (at == server->wake_at)
        return;
    server->wake_at = at;
    if (at == USEC_NEVER) {
        loop_timer_stop(server->wake);
        return;
    }
    now = clock_now();
    loop_timer_after(server->wake, at > now ? at - now : 0);
}

static bool host_order(void *arg, const char *node, const struct agent_frame *frame)
{
    struct server *server = arg;

    if (server->stats)
        server->stats->orders++;
    return server->links && links_send(server->links, node, frame);
}

/* Waits and runs, when they become known. */
static void job_count(struct server *server, const struct ctl_event *event)
{
    const struct ctl_job *job;
    struct stats *stats = server->stats;
    unsigned size;

    if (!event->job || !server->batcher || strncmp(event->kind, "job.", 4) != 0)
        return;
    job = registry_find(server_book(server), event->job);
    if (!job || job->vc >= STATS_VCS_MAX)
        return;
    size = size_class(jobspec_gpus(&job->wants));
    if (strcmp(event->kind, "job.running") == 0 && job->attempt_count == 1 && job->first_start)
        histogram_add(&stats->wait[job->vc][size], job->first_start - job->submit);
    if (strcmp(event->kind, "job.preempted") == 0)
        stats_preempted(stats, job->vc, event);
    if (strcmp(event->kind, "job.ended") == 0 && phase_over(job->phase)) {
        if (server->estimates)
            estimates_ended(server->estimates, job);
        stats->finished[job->vc][job->phase]++;
        if (job->last_start && job->end > job->last_start)
            histogram_add(&stats->run[job->vc][size], job->end - job->last_start);
    }
}

static char *host_secret(void *arg, const char *user, const char *name, const char *sealed)
{
    const struct server *server = arg;
    static const struct seal_keys none;
    char *text = NULL;
    int r = seal_open(server->secret_keys ? server->secret_keys : &none, user, name, sealed, &text);

    if (r < 0)
        log_err("a secret cannot be read", "user", user, "name", name, "error",
                r == -ENOKEY ? "its key is not in the file of keys" : strerror(-r));
    return r == 0 ? text : NULL;
}

static void host_event(void *arg, const struct ctl_event *event)
{
    struct server *server = arg;

    if (server->stats) {
        server->stats->events++;
        job_count(server, event);
    }
    if (server->watch && server->batcher)
        watch_event(server->watch, event);
    if (server->notify && server->batcher)
        notify_event(server->notify, event);
    if (server->feed)
        feed_event(server->feed, event);
    if (server->links && event->node && strcmp(event->kind, "node.revoked") == 0)
        links_drop(server->links, event->node);
    if (server->waits && event->job)
        waits_event(server->waits, event->job);
    log_debug("event", "kind", event->kind, "job", LOG_I64(event->job), "node", event->node ? event->node : "");
}

static void host_applied(void *arg, usec_t cycle, usec_t decide)
{
    struct server *server = arg;

    if (!server->stats)
        return;
    histogram_add(&server->stats->cycle, cycle);
    histogram_add(&server->stats->decide, decide);
}

static void host_decision(void *arg, const char *line)
{
    struct server *server = arg;

    if (server->feed)
        feed_decision(server->feed, line);
}

/* Nothing is taken, but agents are heard: their jobs go on. */
static void host_full(void *arg, const struct error *err)
{
    struct server *server = arg;

    server->store_full = err != NULL;
    if (err)
        log_err("no room in the store; nothing is taken until there is", "error", err->text);
    else
        log_info("there is room in the store again");
}

/* Nothing can be promised any more: better gone than wrong. Jobs run on (ADR 55). */
static void host_fatal(void *arg, const struct error *err)
{
    (void)arg;
    log_err("the store failed; stopping", "error", err->text);
    _exit(1);
}

void host_fill(struct server *server, struct batcher_host *ret_host)
{
    *ret_host = (struct batcher_host){
        .now = host_now,
        .work = host_work,
        .alone = host_alone,
        .awaited = host_awaited,
        .settles = true, /* link_flush() */
        .compute = host_compute,
        .wake_at = host_wake_at,
        .full = host_full,
        .order = host_order,
        .secret = host_secret,
        .event = host_event,
        .decision = host_decision,
        .applied = host_applied,
        .fatal = host_fatal,
        .arg = server,
    };
}

static void on_turn(void *arg)
{
    struct server *server = arg;

    if (server->batcher)
        batcher_turn(server->batcher);
}

int host_turns(struct server *server)
{
    return loop_each_turn(server->loop, on_turn, server);
}

int batcher_open(struct server *server, struct error *err)
{
    const struct conf *conf = server->conf;
    struct batcher_config config = {
        .ctl = { .cluster = conf->cluster,
                 .policy = conf->policy,
                 .jobs_max = (uint32_t)conf->jobs_max,
                 .finished_keep = (uint32_t)conf->finished_keep,
                 .lease = conf->lease,
                 .lease_ends = conf->fence == CONF_FENCE_LEASE,
                 .node_timeout = conf->node_timeout,
                 .beat = conf->beat,
                 .measure_every = conf->measure_every,
                 .grace = conf->grace,
                 .virtual_time = conf->virtual_time },
        .pending_max = (uint32_t)conf->pending_max,
        .snapshot_every = (uint32_t)conf->snapshot_every,
    };
    struct batcher_host host;
    struct batcher *batcher = NULL;
    int r;

    r = loop_timer_new(server->loop, on_wake, server, &server->wake);
    if (r < 0)
        return error_set(err, r, "out of memory");
    r = store_open(conf->state, &server->store, err);
    if (r < 0)
        return r;
    host_fill(server, &host);
    r = batcher_new(&config, &host, server->store, &batcher, err);
    if (r < 0)
        return r;
    server->batcher = batcher;
    return 0;
}
