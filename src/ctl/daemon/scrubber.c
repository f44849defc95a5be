/* SPDX-License-Identifier: Apache-2.0 */
/* scrubber.c - the store reads itself again: a step at a time on the worker, so that no commit waits for long, all of
 * it at the start and then within an hour. What is not as it was is told until the process ends: a restart says what
 * is lost, if anything is. */
#include "ctl/daemon/scrubber.h"

#include <string.h>

#include "base/alloc.h"
#include "io/log.h"

#define STEP_EVERY (200 * USEC_MSEC)
#define ROUND_EVERY USEC_HOUR

struct scrubber {
    struct server *server;
    struct loop_timer *timer;
    struct error err;
    int result;
    bool working;
};

static void on_step(void *arg)
{
    struct scrubber *scrubber = arg;

    scrubber->result = store_scrub(scrubber->server->store, &scrubber->err);
}

static void on_stepped(void *arg)
{
    struct scrubber *scrubber = arg;
    struct server *server = scrubber->server;

    scrubber->working = false;
    if (server->stopping)
        return;
    if (scrubber->result < 0 && strcmp(server->store_damaged, scrubber->err.text) != 0) {
        (void)snprintf(server->store_damaged, sizeof(server->store_damaged), "%s", scrubber->err.text);
        log_err("the state is damaged; make a backup now", "error", scrubber->err.text);
    }
    loop_timer_after(scrubber->timer, scrubber->result > 0 ? STEP_EVERY : ROUND_EVERY);
}

static void on_time(void *arg)
{
    struct scrubber *scrubber = arg;

    if (scrubber->working || scrubber->server->stopping || !scrubber->server->store)
        return;
    scrubber->working = loop_work(scrubber->server->loop, on_step, on_stepped, scrubber) == 0;
    if (!scrubber->working)
        loop_timer_after(scrubber->timer, STEP_EVERY);
}

int scrubber_new(struct server *server, struct scrubber **ret_scrubber)
{
    struct scrubber *scrubber = mem_zalloc(1, sizeof(*scrubber));
    const char *worn = store_worn(server->store);

    if (!scrubber || loop_timer_new(server->loop, on_time, scrubber, &scrubber->timer) < 0) {
        mem_free(scrubber);
        return -ENOMEM;
    }
    if (worn)
        log_warn("a file of the state was damaged, though nothing is lost", "what", worn);
    scrubber->server = server;
    loop_timer_after(scrubber->timer, STEP_EVERY);
    *ret_scrubber = scrubber;
    return 0;
}

void scrubber_free(struct scrubber *scrubber)
{
    if (!scrubber)
        return;
    loop_timer_free(scrubber->timer);
    mem_free(scrubber);
}
