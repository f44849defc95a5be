/* SPDX-License-Identifier: Apache-2.0 */
/* jobref.c - how people name a job: 4127, 4127_3 (element of an array), 4127.0 (rank), 4127@2 (attempt), or its name.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "cli/client/client.h"

enum { BATCH = 500, ARRAY_MAX = 65536 };

/* Elements have the numbers that follow the array's own, in the order of their indices. */
int client_array(struct client *client, int64_t id, json_t **ret_jobs, struct problem *problem)
{
    json_t *jobs = json_array();
    bool more = true;
    int r = 0;

    for (int64_t at = 0; r == 0 && more && at < ARRAY_MAX; at += BATCH) {
        CLEANUP_BUF struct buf path = BUF_INIT(16384);
        json_t *items = NULL, *job;
        size_t i;

        buf_text(&path, "/jobs?all=1&ids=");
        for (int64_t k = 1; k <= BATCH; k++)
            buf_printf(&path, "%s%lld", k > 1 ? "," : "", (long long)id + at + k);
        r = client_list(client, path.data, &items, problem);
        more = json_array_size(items) > 0;
        json_array_foreach(items, i, job)
        {
            json_t *array = json_object_get(job, "array");

            if (json_integer_value(json_object_get(array, "id")) == id)
                (void)json_array_append(jobs, job);
            else
                more = false;
        }
        json_decref(items);
    }
    if (r)
        json_decref(jobs);
    else
        *ret_jobs = jobs;
    return r;
}

/* One that the controller has to look up in its store. */
static bool past_element(struct client *client, int64_t array, int64_t index, int64_t *ret_id)
{
    CLEANUP_ANSWER struct answer answer = { 0 };
    struct problem problem;
    char path[64];

    (void)snprintf(path, sizeof(path), "/jobs/%lld_%lld", (long long)array, (long long)index);
    if (client_call(client, "GET", path, NULL, &answer, &problem))
        return false;
    *ret_id = json_integer_value(json_object_get(answer.json, "id"));
    return *ret_id > 0;
}

static int element_find(struct client *client, int64_t array, int64_t index, int64_t *ret_id, struct problem *problem)
{
    json_t *jobs = NULL, *job;
    size_t i;
    int r = client_array(client, array, &jobs, problem);

    if (r)
        return r;
    json_array_foreach(jobs, i, job)
    {
        if (json_integer_value(json_object_get(json_object_get(job, "array"), "index")) == index) {
            *ret_id = json_integer_value(json_object_get(job, "id"));
            json_decref(jobs);
            return 0;
        }
    }
    json_decref(jobs);
    if (past_element(client, array, index, ret_id))
        return 0;
    (void)problem_set(problem, CODE_NOT_FOUND, "NotFound", "there is no job %lld_%lld", (long long)array,
                      (long long)index);
    problem_hint(problem, "muster show %lld tells which there are; muster history knows older ones", (long long)array);
    return CODE_NOT_FOUND;
}

/* The newest of the caller's jobs of that name. */
static int name_find(struct client *client, const char *name, int64_t *ret_id, struct problem *problem)
{
    CLEANUP_ANSWER struct answer who = { 0 };
    char *quoted = client_quote(name), *user = NULL, path[1024], listed[160] = "";
    json_t *items = NULL, *item;
    int64_t best = 0, live = 0, array = 0;
    bool one_array = true;
    size_t i, count = 0;
    int r = client_call(client, "GET", "/whoami", NULL, &who, problem);

    if (r == 0) {
        const char *me = json_string_value(json_object_get(who.json, "user"));

        user = client_quote(me ? me : "");
        (void)snprintf(path, sizeof(path), "/jobs?all=1&name=%s&user=%s", quoted ? quoted : "", user ? user : "");
        r = client_list(client, path, &items, problem);
        if (r == 0 && json_array_size(items) == 0) {
            json_decref(items);
            items = NULL;
            (void)snprintf(path, sizeof(path), "/history?limit=1&name=%s&user=%s", quoted ? quoted : "",
                           user ? user : "");
            r = client_list(client, path, &items, problem);
        }
    }
    mem_free(quoted);
    mem_free(user);
    if (r)
        return r;
    json_array_foreach(items, i, item)
    {
        int64_t id = json_integer_value(json_object_get(item, "id"));

        best = id > best ? id : best;
        if (json_is_null(json_object_get(item, "end_time")) || !json_object_get(item, "end_time")) {
            int64_t of = json_integer_value(json_object_get(json_object_get(item, "array"), "id"));

            one_array = one_array && of && (!array || of == array);
            array = of;
            live = id > live ? id : live;
            count++;
            if (strlen(listed) < 120)
                (void)snprintf(listed + strlen(listed), sizeof(listed) - strlen(listed), "%s%lld", *listed ? ", " : "",
                               (long long)id);
        }
    }
    json_decref(items);
    if (count > 1 && one_array) {
        *ret_id = array;
        return 0;
    }
    if (count > 1) {
        (void)problem_set(problem, CODE_USAGE, "Ambiguous", "'%.60s' is the name of %zu of your jobs", name, count);
        problem_hint(problem, "say which: %s", listed);
        return CODE_USAGE;
    }
    if (!best) {
        (void)problem_set(problem, CODE_NOT_FOUND, "NotFound", "you have no job '%.60s'", name);
        problem_hint(problem, "muster queue lists yours; muster history those that are over");
        return CODE_NOT_FOUND;
    }
    *ret_id = live ? live : best;
    return 0;
}

int client_job(struct client *client, const char *text, struct job_ref_text *ret, struct problem *problem)
{
    char *end;

    *ret = (struct job_ref_text){ .rank = -1, .attempt = -1 };
    if (!isdigit((unsigned char)*text))
        return name_find(client, text, &ret->id, problem);
    errno = 0;
    ret->id = strtoll(text, &end, 10);
    if (errno == ERANGE) {
        (void)problem_set(problem, CODE_NOT_FOUND, "NotFound", "no job %.60s", text);
        return CODE_NOT_FOUND;
    }
    if (*end == '_' && isdigit((unsigned char)end[1])) {
        int64_t index = strtoll(end + 1, &end, 10);
        int r = element_find(client, ret->id, index, &ret->id, problem);

        if (r)
            return r;
    }
    if (*end == '.' && isdigit((unsigned char)end[1]))
        ret->rank = (int)strtol(end + 1, &end, 10);
    if (*end == '@' && isdigit((unsigned char)end[1]))
        ret->attempt = (int)strtol(end + 1, &end, 10);
    if (*end && ret->rank < 0 && ret->attempt < 0 && (isalnum((unsigned char)*end) || *end == '_'))
        return name_find(client, text, &ret->id, problem); /* a name that begins with a digit */
    if (*end)
        return problem_set(problem, CODE_USAGE, "",
                           "'%.60s': expected a job such as 4127, 4127_3, 4127.0, 4127@1 or its name", text);
    return 0;
}

int client_whole_job(struct client *client, const char *text, struct job_ref_text *ret, struct problem *problem)
{
    int r = client_job(client, text, ret, problem);

    if (r || (ret->rank < 0 && ret->attempt < 0))
        return r;
    (void)problem_set(problem, CODE_USAGE, "", "'%.60s' is one %s of a job; this is for all of it", text,
                      ret->rank >= 0 ? "task" : "attempt");
    problem_hint(problem, "say %.*s", (int)strcspn(text, ".@"), text);
    return CODE_USAGE;
}
