/* SPDX-License-Identifier: Apache-2.0 */
/* story_job.c - the jobs of a story: who submits what, and what becomes of it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "story_line.h"
#include "wire/job/gang_part.h"
#include "wire/job/license.h"
#include "wire/job/topology.h"

static int job_who(const struct line *line, struct trace_job *job, const char *word)
{
    static const char *const classes[] = { "guaranteed", "opportunistic", "auto", NULL };
    static const char *const tiers[] = { "premium", "standard", "basic", NULL };
    struct trace *trace = &line->story->trace;
    const char *value;
    uint32_t index;
    int r;

    if ((value = word_value(word, "vc")))
        return names_put(&trace->vcs, value, strlen(value), &job->spec.vc);
    if ((value = word_value(word, "user")))
        return names_put(&trace->users, value, strlen(value), &job->spec.user);
    if ((value = word_value(word, "class")))
        return line_choice(line, value, classes, &job->spec.klass);
    if ((value = word_value(word, "tier")))
        return line_choice(line, value, tiers, &job->spec.tier);
    if ((value = word_value(word, "sku"))) {
        r = names_put(&trace->skus, value, strlen(value), &index);
        if (r == 0)
            job->spec.sku_mask |= 1u << index;
        return r;
    }
    if ((value = word_value(word, "side")))
        return side_add(&job->spec, &trace->skus, value, strlen(value)) < 0
                   ? line_wrong(line, "expected " SIDE_WORDS, value)
                   : 0;
    return -ENOENT;
}

static int job_fate(const struct line *line, struct trace_job *job, const char *word)
{
    static const char *const fails[] = { "none", "user", "system", "unknown", "memory", "timeout", NULL };
    const char *value;
    int32_t number = 255;
    int r;

    if ((value = word_value(word, "fail")))
        return line_choice(line, value, fails, &job->truth.fail);
    if ((value = word_value(word, "after")))
        return line_span(line, value, &job->truth.fail_after);
    if ((value = word_value(word, "times"))) {
        r = strcmp(value, "all") == 0 ? 0 : line_number(line, value, &number);
        job->truth.fail_times = (uint8_t)number;
        return r;
    }
    if ((value = word_value(word, "exit"))) {
        r = line_number(line, value, &number);
        job->truth.exit = (uint8_t)number;
        return r;
    }
    if ((value = word_value(word, "deadline"))) {
        job->spec.deadline_count = 1;
        job->spec.deadlines[0].value = 10;
        return line_span(line, value, &job->spec.deadlines[0].at);
    }
    return -ENOENT;
}

/* "matlab:2,foo" */
static int job_licenses(const struct line *line, struct trace_job *job, const char *value)
{
    for (const char *at = value; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        size_t length;
        uint32_t count;

        if (license_parse(at, strcspn(at, ","), &length, &count) < 0 ||
            license_add(&job->spec, &line->story->trace.licenses, at, length, count) < 0)
            return line_wrong(line, "expected NAME:COUNT,...", value);
    }
    return 0;
}

/* CPUs and memory of the node, and how near the GPUs must lie. */
static int job_room(const struct line *line, struct trace_job *job, const char *word)
{
    const char *value;
    int32_t number = 0;
    int r;

    if ((value = word_value(word, "cpus"))) {
        job->spec.mcpus = (uint32_t)(strtod(value, NULL) * 1000 + 0.5);
        return 0;
    }
    if ((value = word_value(word, "host-memory"))) {
        r = line_number(line, value, &number);
        job->spec.host_mib = (uint32_t)number;
        return r;
    }
    if ((value = word_value(word, "tasks"))) {
        job->spec.gpus = 0;
        return line_number(line, value, &job->spec.tasks);
    }
    if ((value = word_value(word, "licenses")))
        return job_licenses(line, job, value);
    if ((value = word_value(word, "topology")))
        return topology_parse(value, strlen(value), &job->spec.within, &job->spec.within_must) < 0
                   ? line_wrong(line, "expected a level", value)
                   : 0;
    if ((value = word_value(word, "cells")))
        return cells_parse(value, strlen(value), &job->spec.unit, &job->spec.per_unit) < 0
                   ? line_wrong(line, "expected LEVEL:GPUS", value)
                   : 0;
    return -ENOENT;
}

static int job_size(const struct line *line, struct trace_job *job, const char *word)
{
    const char *value;
    int32_t number = 0;
    int r;

    if ((value = word_value(word, "gpus")))
        return line_number(line, value, &job->spec.gpus);
    if ((value = word_value(word, "min")))
        return line_number(line, value, &job->spec.gpus_min);
    if ((value = word_value(word, "max")))
        return line_number(line, value, &job->spec.gpus_max);
    if ((value = word_value(word, "share"))) {
        job->spec.share = (mgpu_t)(strtod(value, NULL) * MGPU_ONE + 0.5);
        return 0;
    }
    if ((value = word_value(word, "skew"))) {
        job->spec.skew_permille = (uint16_t)(strtod(value, NULL) * 1000 + 0.5);
        return 0;
    }
    if ((value = word_value(word, "servers")))
        return line_number(line, value, &job->spec.gpu_servers);
    if ((value = word_value(word, "bandwidth"))) {
        r = line_number(line, value, &number);
        job->spec.bandwidth = (uint32_t)number;
        return r;
    }
    if ((value = word_value(word, "memory"))) {
        r = line_number(line, value, &number);
        job->spec.memory_mib = (uint32_t)number;
        return r;
    }
    if ((value = word_value(word, "use"))) {
        r = line_number(line, value, &number);
        job->spec.utilisation = (uint16_t)number;
        return r;
    }
    if ((value = word_value(word, "per-node"))) {
        r = line_number(line, value, &number);
        job->spec.per_node = (uint16_t)number;
        return r;
    }
    if ((value = word_value(word, "priority"))) {
        r = line_number(line, value, &number);
        job->spec.priority = (int16_t)number;
        return r;
    }
    if ((value = word_value(word, "retries"))) {
        r = line_number(line, value, &number);
        job->spec.retries = (uint8_t)number;
        return r;
    }
    return -ENOENT;
}

/* On what terms it may be preempted, and what is worth another attempt. */
static int job_terms(const struct line *line, struct trace_job *job, const char *word)
{
    static const char *const preempts[] = { "requeue", "suspend", "checkpoint", "cancel", "never", NULL };
    const char *value;
    int32_t number = 0;
    int r;

    if ((value = word_value(word, "preempt")))
        return line_choice(line, value, preempts, &job->spec.preempt);
    if ((value = word_value(word, "min_runtime")))
        return line_span(line, value, &job->spec.min_runtime);
    if ((value = word_value(word, "retry_on"))) {
        r = line_number(line, value, &number);
        job->spec.retry_on[job->spec.retry_on_count++] = (uint8_t)number;
        return r;
    }
    return -ENOENT;
}

static int job_word(const struct line *line, struct trace_job *job, const char *word)
{
    const char *value;
    int r;

    if ((value = word_value(word, "run")))
        return line_span(line, value, &job->truth.duration);
    if ((value = word_value(word, "launch")))
        return line_span(line, value, &job->truth.launch);
    if ((value = word_value(word, "save")))
        return line_span(line, value, &job->truth.save);
    if ((value = word_value(word, "estimate")))
        return line_span(line, value, &job->spec.estimate);
    if ((value = word_value(word, "limit")))
        return line_span(line, value, &job->spec.time_limit);
    r = job_who(line, job, word);
    if (r == -ENOENT)
        r = job_fate(line, job, word);
    if (r == -ENOENT)
        r = job_size(line, job, word);
    if (r == -ENOENT)
        r = job_room(line, job, word);
    if (r == -ENOENT)
        r = job_terms(line, job, word);
    return r == -ENOENT ? line_wrong(line, "unknown word", word) : r;
}

int line_submit(const struct line *line, usec_t at)
{
    struct story *story = line->story;
    struct trace_job job;
    uint32_t id;
    int r;

    if (line->count < 3)
        return line_wrong(line, "expected a job", NULL);
    trace_job_init(&job);
    job.spec.gpus_min = job.spec.gpus_max = 0;
    job.spec.retries = 3;
    job.truth.fail_times = 1;
    r = names_put(&story->trace.ids, line->words[2], strlen(line->words[2]), &id);
    if (r == 0 && id != story->trace.count)
        return line_wrong(line, "a job of this name is there already", line->words[2]);
    job.spec.id = id;
    job.spec.submit = at;
    for (size_t i = 3; i < line->count && r == 0; i++)
        r = job_word(line, &job, line->words[i]);
    if (r == 0 && job.truth.duration <= 0)
        return line_wrong(line, "expected run=TIME", NULL);
    if (job.spec.gpus_min == 0)
        job.spec.gpus_min = job.spec.gpus;
    if (job.spec.gpus_max == 0)
        job.spec.gpus_max = job.spec.gpus;
    return r < 0 ? r : trace_add(&story->trace, &job);
}
