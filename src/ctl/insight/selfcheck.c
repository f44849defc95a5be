/* SPDX-License-Identifier: Apache-2.0 */
/* selfcheck.c - see selfcheck.h.
 *
 * A part looks at so many jobs, so that no turn of the loop waits long for it; the next part is due a few seconds
 * later. Jobs change between two parts, which is no matter: each is looked at in a state that a batch has left.
 */
#include "ctl/insight/selfcheck.h"

#include <errno.h>

#include "base/alloc.h"
#include "io/log.h"

enum { PART_JOBS = 5000 };

#define CHECK_EVERY (3600 * USEC_SEC)
#define CHECK_FIRST USEC_MIN /* a controller that has just started has other work */

int selfcheck_new(struct server *server, struct selfcheck **ret_check)
{
    struct selfcheck *check = mem_zalloc(1, sizeof(*check));

    if (!check)
        return -ENOMEM;
    check->server = server;
    *ret_check = check;
    return 0;
}

void selfcheck_free(struct selfcheck *check)
{
    mem_free(check);
}

void selfcheck_tick(struct selfcheck *check, usec_t now)
{
    if (!check->next)
        check->next = now + CHECK_FIRST;
    if (now < check->next)
        return;
    check->running.jobs_max = PART_JOBS;
    if (!state_audit(batcher_ctl(check->server->batcher), &check->running))
        return;
    check->last = check->running;
    check->running = (struct state_audit){ 0 };
    check->next = now + CHECK_EVERY;
    if (check->last.count == 0)
        check->since = 0;
    else if (check->since == 0)
        check->since = now;
    if (check->last.count)
        log_err("the state of the controller contradicts itself; please report it", "differences",
                LOG_I64((int64_t)check->last.count), "first", check->last.lines[0]);
}
