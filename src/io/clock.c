/* SPDX-License-Identifier: Apache-2.0 */
/* clock.c - see clock.h. */
#include "io/clock.h"

#include <pthread.h>
#include <stdio.h>
#include <time.h>

#include "io/log.h"

enum { SLEW = 10 /* a tenth */ };
#define SET_MIN (2 * USEC_SEC) /* less is corrected without a word */

usec_t clock_step(struct clock *clock, usec_t wall, usec_t steady, usec_t *ret_set)
{
    usec_t passed = clock->on && steady > clock->steady ? steady - clock->steady : 0;
    usec_t off = wall - clock->now - passed, most = passed / SLEW, set = wall - clock->wall - passed;

    *ret_set = clock->on && (set > SET_MIN || set < -SET_MIN) ? set : 0;
    if (clock->on)
        clock->now += passed + (off > most ? most : off < -most ? -most : off);
    else if (wall > clock->now)
        clock->now = wall;
    clock->wall = wall;
    clock->steady = steady;
    clock->on = true;
    return clock->now;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct clock machine; /* under the lock */

static usec_t usec_of(clockid_t id)
{
    struct timespec ts;

    clock_gettime(id, &ts);
    return (usec_t)ts.tv_sec * USEC_SEC + ts.tv_nsec / 1000;
}

usec_t clock_now(void)
{
    usec_t now, set;

    (void)pthread_mutex_lock(&lock);
    now = clock_step(&machine, usec_of(CLOCK_REALTIME), usec_of(CLOCK_BOOTTIME), &set);
    (void)pthread_mutex_unlock(&lock);
    if (set) {
        char seconds[32];

        (void)snprintf(seconds, sizeof(seconds), "%lld", (long long)(set / USEC_SEC));
        log_warn("the machine's clock was set; ours follows slowly", "by_seconds", seconds);
    }
    return now;
}

void clock_least(usec_t least)
{
    (void)pthread_mutex_lock(&lock);
    if (machine.now < least)
        machine.now = least;
    (void)pthread_mutex_unlock(&lock);
}
