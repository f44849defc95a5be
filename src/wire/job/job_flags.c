/* SPDX-License-Identifier: Apache-2.0 */
/* job_flags.c - the flags that describe a job, and how each becomes a key. Letters are Slurm's where it has one. */
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "wire/job/job_request.h"
#include "wire/job/slurm_flags.h"
#include "wire/text/decimal.h"
#include "wire/text/duration.h"
#include "wire/text/suggest.h"

enum {
    SET_TEXT, /* the value as it is */
    SET_TRUE,
    SET_FALSE,
    SET_PAIR,   /* K=V into a mapping */
    SET_ADD,    /* appended to a list */
    SET_COMMAS, /* a list, divided by commas */
    SET_GPUS,   /* whole job: takes the place of per_node.gpu */
    SET_NODE_GPUS,
    SET_TASK_GPUS,
    SET_AFTER,
    SET_INSTANT,
    SET_NO_EFFECT, /* taken, and noted: `refused` says why it changes nothing */
    SET_SLURM,     /* a flag that only Slurm has: slurm_flags.c */
};

#define JOB "What it is"
#define SHAPE "What it needs"
#define WHEN "When it runs"
#define WHERE "Where it runs"
#define IO "What it sees and writes"
#define LEAVE "When it has to leave, or fails"

/* Slurm's flags that change nothing here are taken, and one line says so. docs/slurm.md has the table. */
#define NO_EFFECT(name, number, value, why)                                                                            \
    {                                                                                                                  \
        name, number, value, NULL, NULL, NULL, why, SET_NO_EFFECT, NULL                                                \
    }
#define BINDS "processors of a job are those of its cgroup; tasks are not bound further"

static const struct job_flag flags[] = {
    { "name", 'J', "NAME", "what people call it", JOB, "name", NULL, SET_TEXT, NULL },
    { "vc", 'p', "NAME", "virtual cluster", JOB, "vc", NULL, SET_TEXT, NULL },
    { "account", 'A', "NAME", "who is billed", JOB, "account", NULL, SET_TEXT, NULL },
    { "priority", 'q', "CLASS", "oppo, low, normal, high, urgent, or a number up to 1000", JOB, "priority", NULL,
      SET_TEXT, NULL },
    { "comment", 300, "TEXT", "any words", JOB, "comment", NULL, SET_TEXT, NULL },
    { "tag", 301, "K=V", "a mark to find it by; may come again", JOB, "tags", NULL, SET_PAIR, NULL },
    { "gpus", 'G', "SPEC", "GPUs of the whole job: 8, H100:8, H100|A100:8, 40G..:8, 4..16, 0.5, 0", SHAPE, "gpus", NULL,
      SET_GPUS, NULL },
    { "gpus-per-node", 302, "SPEC", "GPUs of each node", SHAPE, "per_node.gpu", NULL, SET_NODE_GPUS, NULL },
    { "gpus-per-task", 303, "SPEC", "GPUs of each task, with --ntasks", SHAPE, NULL, NULL, SET_TASK_GPUS, NULL },
    { "gres", 304, "gpu[:TYPE]:N", "GPUs of each node, as Slurm says it", SHAPE, "per_node.gpu", NULL, SET_NODE_GPUS,
      NULL },
    { "nodes", 'N', "N|MIN..MAX", "nodes; a range makes the job elastic", SHAPE, "nodes", NULL, SET_TEXT, NULL },
    { "ntasks", 'n', "N", "tasks in all", SHAPE, "tasks", NULL, SET_TEXT, NULL },
    { "ntasks-per-node", 305, "N", "tasks on each node", SHAPE, "tasks_per_node", NULL, SET_TEXT, NULL },
    { "cpus-per-task", 'c', "N", "processors of each task", SHAPE, "cpus_per_task", NULL, SET_TEXT, NULL },
    { "cpus", 306, "N", "processors of each node", SHAPE, "per_node.cpu", NULL, SET_TEXT, NULL },
    { "mem", 307, "SIZE", "memory of each node: 900G; a bare number is MiB", SHAPE, "per_node.memory", NULL, SET_TEXT,
      NULL },
    { "mem-per-gpu", 308, "SIZE", "memory for each GPU", SHAPE, "memory_per_gpu", NULL, SET_TEXT, NULL },
    { "shm", 309, "SIZE", "/dev/shm of each node", SHAPE, "per_node.shm", NULL, SET_TEXT, NULL },
    { "tmp", 310, "SIZE", "private temporary space of each node", SHAPE, "per_node.tmp", NULL, SET_TEXT, NULL },
    { "licenses", 'L', "NAME[:N],...", "licences it holds while it runs: matlab:2,foo", SHAPE, "licenses", NULL,
      SET_TEXT, NULL },
    { "time", 't', "TIME", "limit: 2h30m, D-HH:MM:SS, HH:MM:SS, or minutes", WHEN, "time", NULL, SET_TEXT, NULL },
    { "time-min", 311, "TIME", "the least time that is of use", WHEN, "time_min", NULL, SET_TEXT, NULL },
    { "begin", 'b', "WHEN", "not before: 1h (from now), 18:30, 2026-01-31T18:30", WHEN, "begin", NULL, SET_INSTANT,
      NULL },
    { "deadline", 312, "WHEN", "to be done by then", WHEN, "deadline", NULL, SET_INSTANT, NULL },
    { "class", 372, "auto", "opportunistic when it has waited for long, where the policy knows that (antman)", WHEN,
      "class", NULL, SET_TEXT, NULL },
    { "array", 'a', "LIST[%N]", "one job an index: 0-99, 0-99%8 (eight at a time)", WHEN, "array", NULL, SET_TEXT,
      NULL },
    { "after", 'd', "[KIND:]JOB,...", "waits for jobs; KIND ok (unless told), any, notok", WHEN, "after", NULL,
      SET_AFTER, NULL },
    { "afterok", 313, "JOB,...", "waits until they have ended well", WHEN, "after.ok", NULL, SET_AFTER, NULL },
    { "afterany", 314, "JOB,...", "waits until they have ended", WHEN, "after.any", NULL, SET_AFTER, NULL },
    { "afternotok", 315, "JOB,...", "waits until they have failed", WHEN, "after.notok", NULL, SET_AFTER, NULL },
    { "hold", 'H', NULL, "waits for `muster release`", WHEN, "hold", NULL, SET_TRUE, NULL },
    { "topo", 316, "LEVEL[:must]", "keep it together: nvlink, numa, node, rack, pod", WHERE, "topology", NULL, SET_TEXT,
      NULL },
    { "cells", 370, "LEVEL:N", "whole parts of nodes instead of GPUs: socket:2", WHERE, "cells", NULL, SET_TEXT, NULL },
    { "exclusive", 317, NULL, "whole nodes", WHERE, "exclusive", NULL, SET_TRUE, NULL },
    { "nodelist", 'w', "NODES", "nodes by name", WHERE, "nodelist", NULL, SET_TEXT, NULL },
    { "exclude", 'x', "NODES", "not on these", WHERE, "exclude", NULL, SET_TEXT, NULL },
    { "training", 373, "K=V", "what policies may know of its training: model=bert, batch=256, ...; may come again",
      WHERE, "training", NULL, SET_PAIR, NULL },
    { "constraint", 'C', "LIST", "features of nodes", WHERE, "constraint", NULL, SET_TEXT, NULL },
    { "reservation", 318, "NAME", "in a reservation", WHERE, "reservation", NULL, SET_TEXT, NULL },
    { "output", 'o', "FILE", "its output: %j id, %x name, %a %A array, %N node, %t task, %n attempt", IO, "output",
      NULL, SET_TEXT, NULL },
    { "error", 'e', "FILE", "its error output; with --output unless told", IO, "error", NULL, SET_TEXT, NULL },
    { "chdir", 'D', "DIR", "where it starts; here unless told", IO, "dir", NULL, SET_TEXT, NULL },
    { "env", 319, "K=V", "a variable; may come again", IO, "env", NULL, SET_PAIR, NULL },
    { "image", 320, "REF", "run in this container", IO, "image", NULL, SET_TEXT, NULL },
    { "mount", 321, "SRC:DST[:ro]", "a folder of the node in the container; may come again", IO, "mounts", NULL,
      SET_ADD, NULL },
    { "runtime", 322, "NAME", "runc, podman, none, ...", IO, "runtime", NULL, SET_TEXT, NULL },
    { "compat", 323, "NAME", "slurm or pai: their variables too", IO, "compat", NULL, SET_TEXT, NULL },
    { "notify", 324, "KINDS", "end, fail, preempt, start, each with =URL or =mailto:NAME", IO, "notify", NULL,
      SET_COMMAS, NULL },
    { "progress", 371, "WORD=PATTERN", "how its output tells step, loss, ...: 'step=step (\\d+)'; may come again", IO,
      "progress", NULL, SET_PAIR, NULL },
    { "secret", 350, "NAMES", "secrets of yours (muster secret) put into its environment", IO, "secrets", NULL,
      SET_COMMAS, NULL },
    { "preempt", 325, "STEP", "what may be done to it for another job: suspend, checkpoint, requeue, cancel, never",
      LEAVE, "preempt", NULL, SET_TEXT, NULL },
    { "grace", 326, "TIME", "between the notice and the end", LEAVE, "grace", NULL, SET_TEXT, NULL },
    { "signal", 327, "S@SECS", "an early warning: USR1@120", LEAVE, "signal", NULL, SET_TEXT, NULL },
    { "ckpt-signal", 328, "S", "signal that makes it save itself", LEAVE, "checkpoint.signal", NULL, SET_TEXT, NULL },
    { "ckpt-cmd", 329, "CMD", "command that saves it", LEAVE, "checkpoint.cmd", NULL, SET_TEXT, NULL },
    { "ckpt-dir", 330, "DIR", "where it saves to", LEAVE, "checkpoint.dir", NULL, SET_TEXT, NULL },
    { "ckpt-every", 331, "TIME", "how often it saves by itself", LEAVE, "checkpoint.every", NULL, SET_TEXT, NULL },
    { "idle-timeout", 351, "TIME", "is ended when its GPUs were idle for so long", LEAVE, "idle_timeout", NULL,
      SET_TEXT, NULL },
    { "keep-on-fail", 352, "TIME", "keeps its place for so long when it has failed, to look into it", LEAVE,
      "keep_on_fail", NULL, SET_TEXT, NULL },
    { "min-runtime", 332, "TIME", "runs so long after a start before it is stopped for another job", LEAVE,
      "min_runtime", NULL, SET_TEXT, NULL },
    { "requeue", 333, NULL, "is started again when the system fails it (so unless told)", LEAVE, "requeue", NULL,
      SET_TRUE, NULL },
    { "no-requeue", 334, NULL, "is not", LEAVE, "requeue", NULL, SET_FALSE, NULL },
    { "retries", 335, "N", "further attempts when it is killed, or exits with a code of --retry-on", LEAVE, "retries",
      NULL, SET_TEXT, NULL },
    { "retry-on", 336, "CODES", "exit codes that are worth another attempt: 85,137", LEAVE, "retry_on", NULL, SET_TEXT,
      NULL },
    { "no-kill", 'k', NULL, "a task that fails does not end the others", LEAVE, "no_kill", NULL, SET_TRUE, NULL },
    { "job-name", 340, "NAME", NULL, NULL, NULL, NULL, 0, "name" },
    { "partition", 341, "NAME", NULL, NULL, NULL, NULL, 0, "vc" },
    { "dependency", 342, "LIST", NULL, NULL, NULL, NULL, 0, "after" },
    { "workdir", 343, "DIR", NULL, NULL, NULL, NULL, 0, "chdir" },
    { "mem-per-cpu", 353, "SIZE", NULL, NULL, NULL, "use --mem or --mem-per-gpu", 0, NULL },
    { "qos", 354, "NAME", NULL, NULL, NULL, "use -q, --priority", 0, NULL },
    { "mail-type", 355, "LIST", NULL, NULL, "notify", NULL, SET_SLURM, NULL },
    { "mail-user", 356, "ADDRESS", NULL, NULL, "notify", NULL, SET_SLURM, NULL },
    { "ntasks-per-gpu", 357, "N", NULL, NULL, "tasks", NULL, SET_SLURM, NULL },
    { "container-image", 358, "REF", NULL, NULL, "image", NULL, SET_SLURM, NULL },
    { "container-mounts", 359, "LIST", NULL, NULL, "mounts", NULL, SET_SLURM, NULL },
    { "container-workdir", 360, "DIR", NULL, NULL, NULL, NULL, 0, "chdir" },
    NO_EFFECT("open-mode", 380, "MODE", "the first attempt of a job begins its output, later ones append"),
    NO_EFFECT("hint", 381, "TYPE", BINDS),
    NO_EFFECT("cpu-bind", 382, "TYPE", BINDS),
    NO_EFFECT("mem-bind", 383, "TYPE", BINDS),
    NO_EFFECT("gpu-bind", 384, "TYPE", "a task sees the GPUs of its node, and CUDA_VISIBLE_DEVICES says which"),
    NO_EFFECT("accel-bind", 385, "TYPE", BINDS),
    NO_EFFECT("distribution", 386, "LIST", "tasks are numbered node by node"),
    NO_EFFECT("threads-per-core", 387, "N", BINDS),
    NO_EFFECT("ntasks-per-core", 388, "N", BINDS),
    NO_EFFECT("ntasks-per-socket", 389, "N", BINDS),
    NO_EFFECT("sockets-per-node", 390, "N", BINDS),
    NO_EFFECT("cores-per-socket", 391, "N", BINDS),
    NO_EFFECT("extra-node-info", 392, "LIST", BINDS),
    NO_EFFECT("switches", 393, "N[@TIME]", "use --topo rack"),
    NO_EFFECT("segment", 394, "N", "use --topo rack"),
    NO_EFFECT("contiguous", 395, NULL, "nodes have no order"),
    NO_EFFECT("spread-job", 396, NULL, "the policy of the virtual cluster places jobs"),
    NO_EFFECT("overcommit", 397, NULL, "tasks are not bound to processors"),
    NO_EFFECT("oversubscribe", 398, "[TYPE]", "a share of a GPU is asked for by --gpus 0.5"),
    NO_EFFECT("nice", 399, "[N]", "use --priority"),
    NO_EFFECT("wckey", 400, "NAME", "use --tag"),
    NO_EFFECT("propagate", 401, "[LIMITS]", "limits of processes are those of the node's agent"),
    NO_EFFECT("get-user-env", 402, "[TIME]", "use --export"),
    NO_EFFECT("kill-on-invalid-dep", 403, "YES", "a job whose dependency can never be met is always cancelled"),
    NO_EFFECT("mpi", 404, "TYPE", "MUSTER_HOSTFILE and the SLURM variables name the nodes"),
    NO_EFFECT("network", 405, "TYPE", "jobs have the network of their nodes"),
    NO_EFFECT("profile", 406, "TYPE", "use of GPUs is always recorded"),
    NO_EFFECT("acctg-freq", 407, "LIST", "use of GPUs is always recorded"),
    NO_EFFECT("cpu-freq", 408, "RANGE", "clocks are those of the node"),
    NO_EFFECT("gpu-freq", 409, "RANGE", "clocks are those of the node"),
    NO_EFFECT("power", 410, "FLAGS", "clocks are those of the node"),
    NO_EFFECT("thread-spec", 411, "N", BINDS),
    NO_EFFECT("core-spec", 412, "N", BINDS),
    NO_EFFECT("no-container-mount-home", 413, NULL, "homes are not mounted unless --mount says so"),
    NO_EFFECT("container-writable", 414, NULL, "the image of a job can always be written to"),
    NO_EFFECT("container-remap-root", 415, NULL, "a job is its user in the container too"),
    NO_EFFECT("no-container-remap-root", 416, NULL, "a job is its user in the container too"),
    NO_EFFECT("verbose", 417, NULL, "messages are always complete"),
    NO_EFFECT("quiet", 418, NULL, "messages go to standard error"),
};

const struct job_flag *job_flags(size_t *ret_count)
{
    *ret_count = sizeof(flags) / sizeof(flags[0]);
    return flags;
}

const struct job_flag *job_flag_find(const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
        if (strlen(flags[i].name) == length && strncmp(flags[i].name, name, length) == 0)
            return &flags[i];
    return NULL;
}

const struct job_flag *job_flag_begun(const char *name, size_t length)
{
    const struct job_flag *found = NULL;

    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]) && length; i++) {
        if (strncmp(flags[i].name, name, length) != 0)
            continue;
        if (found)
            return NULL;
        found = &flags[i];
    }
    return found;
}

const struct job_flag *job_flag_letter(int letter)
{
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
        if (flags[i].letter == letter)
            return &flags[i];
    return NULL;
}

static int no_memory(struct error *err)
{
    return error_set(err, -ENOMEM, "out of memory");
}

/* The mapping a dotted key lies in, made where it is missing, and the last part of the key. */
static json_t *place_of(struct job_request *request, const char *key, const char **ret_last)
{
    const char *dot = strchr(key, '.');
    char head[32];
    json_t *map;

    *ret_last = dot ? dot + 1 : key;
    if (!dot)
        return request->tree;
    (void)snprintf(head, sizeof(head), "%.*s", (int)(dot - key), key);
    map = json_object_get(request->tree, head);
    if (!json_is_object(map)) {
        map = json_object();
        if (json_object_set_new(request->tree, head, map) < 0)
            return NULL;
    }
    return map;
}

static int value_put(struct job_request *request, const char *key, json_t *value, struct error *err)
{
    const char *last;
    json_t *map = place_of(request, key, &last);

    if (!map) {
        json_decref(value);
        return no_memory(err);
    }
    return json_object_set_new(map, last, value) < 0 ? no_memory(err) : 0;
}

static int list_add(struct job_request *request, const char *key, const char *text, size_t length, struct error *err)
{
    json_t *list = json_object_get(request->tree, key);

    if (!json_is_array(list)) {
        list = json_array();
        if (json_object_set_new(request->tree, key, list) < 0)
            return no_memory(err);
    }
    return json_array_append_new(list, json_stringn(text, length)) < 0 ? no_memory(err) : 0;
}

static int pair_put(struct job_request *request, const char *key, const char *value, struct error *err)
{
    const char *equals = strchr(value, '=');
    char path[300];

    if (!equals || equals == value || equals - value > 200)
        return error_set(err, -EINVAL, "expected NAME=VALUE");
    if (memchr(value, '.', (size_t)(equals - value))) { /* a dotted name is one name */
        json_t *map = json_object_get(request->tree, key);

        if (!map && json_object_set_new(request->tree, key, map = json_object()) < 0)
            return no_memory(err);
        (void)snprintf(path, sizeof(path), "%.*s", (int)(equals - value), value);
        return json_object_set_new(map, path, json_string(equals + 1)) < 0 ? no_memory(err) : 0;
    }
    (void)snprintf(path, sizeof(path), "%s.%.*s", key, (int)(equals - value), value);
    return value_put(request, path, json_string(equals + 1), err);
}

/* "afterok:1:2,any:3,4": a list of jobs, each with a kind or with that of the one before it. */
static int after_put(struct job_request *request, const char *key, const char *value, struct error *err)
{
    const char *kind = strchr(key, '.') ? strchr(key, '.') + 1 : "ok";
    json_t *after = json_object_get(request->tree, "after");

    if (!json_is_object(after) && json_object_set_new(request->tree, "after", after = json_object()) < 0)
        return no_memory(err);
    for (const char *at = value; *at;) {
        size_t length = strcspn(at, ":,");
        const char *word = at;
        json_t *list;
        int64_t job;

        at += length + (at[length] != '\0');
        if (length > 5 && strncmp(word, "after", 5) == 0) {
            word += 5;
            length -= 5;
        }
        if (length == 9 && strncmp(word, "singleton", 9) == 0) {
            request->singleton = true;
            continue;
        }
        if (length && isalpha((unsigned char)*word)) {
            static const char *const kinds[] = { "ok", "any", "notok" };
            size_t k = 0;

            while (k < 3 && !(strlen(kinds[k]) == length && strncmp(kinds[k], word, length) == 0))
                k++;
            if (k == 3 && word[length] == ':')
                return error_set(err, -EINVAL, "expected ok, any or notok, got '%.*s'",
                                 (int)(length < 40 ? length : 40), word);
            if (k < 3) {
                kind = kinds[k];
                continue;
            }
        }
        if (decimal_parse_i64(word, length, &job) < 0 || job < 1)
            return error_set(err, -EINVAL, "expected numbers of jobs such as 4127 or ok:4127,4128, got '%.60s'", value);
        list = json_object_get(after, kind);
        if (!list && json_object_set_new(after, kind, list = json_array()) < 0)
            return no_memory(err);
        if (json_array_append_new(list, json_integer(job)) < 0)
            return no_memory(err);
    }
    return 0;
}

/* What comes after "now+", ours or Slurm's: 1h, 90m, 1hour, 2days, and seconds without a unit. */
static int ahead_parse(const char *text, usec_t *ret_span)
{
    static const struct {
        const char *word;
        usec_t unit;
    } units[] = { { "", USEC_SEC },      { "second", USEC_SEC }, { "minute", USEC_MIN },
                  { "hour", USEC_HOUR }, { "day", USEC_DAY },    { "week", 7 * USEC_DAY } };
    size_t digits = strspn(text, "0123456789"), length = strlen(text + digits);
    int64_t count;

    if (length > 1 && text[digits + length - 1] == 's')
        length--;
    for (size_t i = 0; digits > 0 && i < sizeof(units) / sizeof(units[0]); i++) {
        if (strlen(units[i].word) != length || strncmp(text + digits, units[i].word, length) != 0)
            continue;
        if (decimal_parse_i64(text, digits, &count) < 0 || count > 1000 * 366 * USEC_DAY / units[i].unit)
            return -EINVAL;
        *ret_span = count * units[i].unit;
        return 0;
    }
    return duration_parse(text, strlen(text), ret_span);
}

/* now+1h, +1h, 1h, 18:30[:00] (the next one by local clocks), or what instant_parse() reads; local without a zone. */
static int instant_put_key(struct job_request *request, const char *key, const char *value, struct error *err)
{
    const char *plus = strncmp(value, "now", 3) == 0 ? value + 3 : value;
    CLEANUP_BUF struct buf text = BUF_INIT(64);
    usec_t at = 0, span;
    int r = -EINVAL;

    if (*plus == '+' && ahead_parse(plus + 1, &span) == 0) {
        at = request->now + span;
        r = 0;
    } else if (value[strspn(value, "0123456789.dhms")] == '\0' && strpbrk(value, "dhms") &&
               duration_parse(value, strlen(value), &span) == 0) {
        at = request->now + span; /* without a unit it could as well be a clock's or a day's */
        r = 0;
    } else if (strcmp(value, "now") == 0) {
        at = request->now;
        r = 0;
    } else if (strlen(value) >= 5 && value[2] == ':') {
        char today[80];
        usec_t zone = request->zone(request->now);
        usec_t midnight = (request->now + zone) / USEC_DAY * USEC_DAY;

        (void)snprintf(today, sizeof(today), "1970-01-01T%.40s", value);
        r = instant_parse(today, strlen(today), &at);
        at += midnight - zone;
        if (at < request->now)
            at += USEC_DAY;
    } else {
        r = instant_parse(value, strlen(value), &at);
        if (r == 0 && strchr(value, '-') && !strchr(value, 'Z') && !strchr(value, '+'))
            at -= request->zone(request->now);
    }
    if (r < 0)
        return error_set(err, -EINVAL, "expected 1h (from now), 18:30 or 2026-01-31T18:30, got '%.60s'", value);
    instant_put(&text, at);
    return text.error ? no_memory(err) : value_put(request, key, json_string(text.data), err);
}

static int gpus_put(struct job_request *request, const struct job_flag *flag, const char *value, struct error *err)
{
    json_t *node = json_object_get(request->tree, "per_node");

    /* What was asked for before, in whatever form, is asked for no more. */
    (void)json_object_del(request->tree, "gpus");
    (void)json_object_del(request->tree, "gpus_per_task");
    (void)json_object_del(node, "gpu");
    if (flag->kind == SET_TASK_GPUS)
        return value_put(request, "gpus_per_task", json_string(value), err);
    if (strcmp(flag->name, "gres") == 0 && strncasecmp(value, "gpu", 3) != 0)
        return error_set(err, -EINVAL, "expected gpu:N or gpu:TYPE:N, got '%.60s'", value);
    if (strcmp(flag->name, "gres") == 0 && strcasecmp(value, "gpu") == 0)
        value = "1";
    return value_put(request, flag->key, json_string(value), err);
}

static int flag_put(struct job_request *request, const struct job_flag *flag, const char *value, struct error *err)
{
    int r = 0;

    switch (flag->kind) {
    case SET_TEXT:
        return value_put(request, flag->key, json_string(value), err);
    case SET_TRUE:
    case SET_FALSE:
        return value_put(request, flag->key, json_boolean(flag->kind == SET_TRUE), err);
    case SET_PAIR:
        return pair_put(request, flag->key, value, err);
    case SET_ADD:
        return list_add(request, flag->key, value, strlen(value), err);
    case SET_COMMAS:
        for (const char *at = value; r == 0 && at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
            r = list_add(request, flag->key, at, strcspn(at, ","), err);
        return r;
    case SET_GPUS:
    case SET_NODE_GPUS:
    case SET_TASK_GPUS:
        return gpus_put(request, flag, value, err);
    case SET_AFTER:
        return after_put(request, flag->key, value, err);
    case SET_INSTANT:
        return instant_put_key(request, flag->key, value, err);
    case SET_SLURM:
        return slurm_flag_put(request, flag, value, err);
    default:
        return 0;
    }
}

int job_request_note(struct job_request *request, struct error *err, const char *format, ...)
{
    char text[ERROR_TEXT_MAX];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    return json_array_append_new(request->notes, json_string(text)) < 0 ? no_memory(err) : 0;
}

int job_request_flag(struct job_request *request, const struct job_flag *flag, const char *value, const char *where,
                     struct error *err)
{
    char origin[320];
    int r;

    (void)snprintf(origin, sizeof(origin), "%s--%s", where, flag->name);
    if (flag->kind == SET_NO_EFFECT)
        return job_request_note(request, err, "%s has no effect here: %s", origin, flag->refused);
    if (flag->refused)
        return error_set(err, -EINVAL, "%s--%s is not supported: %s", where, flag->name, flag->refused);
    if (flag->alias_of)
        flag = job_flag_find(flag->alias_of, strlen(flag->alias_of));
    if (strcmp(flag->name, "nodelist") == 0 && (!value || !*value))
        return error_set(err, -EINVAL, "%s: expected names of nodes, such as gpu01 or gpu[01-02], got an empty list",
                         origin);
    r = flag_put(request, flag, value ? value : "", err);
    if (r < 0)
        return error_prefix(err, r, "%s", origin);
    if (flag->key && json_object_set_new(request->origin, flag->key, json_string(origin)) < 0)
        return no_memory(err);
    return 0;
}
