/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* retry.h - whether a job gets another attempt when one has ended: the one rule, for every driver. */
#include "core/job.h"

struct policy_setup;

/* How often an attempt may fail by the system's fault, unless the virtual cluster says otherwise. */
enum { SYSTEM_RETRIES = 64 };

enum retry_verdict {
    RETRY_AGAIN,     /* it waits again */
    RETRY_DONE,      /* it did not fail */
    RETRY_OWN_FAULT, /* its own failure, whose exit code `retry_on` does not name */
    RETRY_USED_UP,   /* as often as `retries` says */
    RETRY_SYSTEM,    /* as often as its virtual cluster allows for failures of the system */
    RETRY_NOT_AGAIN, /* it is not to be started again: `requeue: false` */
    RETRY_FINAL,     /* its time is up, or it is over when it is preempted */
    RETRY_VERDICTS
};

/* An attempt that has ended, of a job of this virtual cluster's setup. job->fails and job->system_fails are what came
 * before it. */
enum retry_verdict retry_decide(const struct job *job, const struct policy_setup *setup, enum fail_class fail,
                                int32_t exit);

/* Counts the attempt that retry_decide was asked of. */
void retry_count(struct job *job, enum fail_class fail, int32_t exit);

/* Of its retries, how many it has left after that attempt: what it may have when it begins anew as another job. */
uint8_t retry_left(const struct job *job, enum fail_class fail, int32_t exit);

/* Why there is no other attempt, for people: a clause that follows what happened ("exit code 9"). NULL: nothing was
 * asked for that was not done. */
const char *retry_refusal(const struct jobspec *spec, enum retry_verdict verdict);
