/* SPDX-License-Identifier: Apache-2.0 */
/* jobref.c - how people name a job: 4127, 4127_3 (element of an array), 4127.0 (rank), 4127@2 (attempt), or its name.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cli/client.h"

/* Elements are sorted by index, and so are their numbers: halve until it is found. */
static int element_find(struct client *client, int64_t array, int64_t index, int64_t *ret_id, struct problem *problem)
{
    CLEANUP_ANSWER struct answer answer = { 0 };
    char path[64];
    json_t *jobs;
    size_t low = 0, high;
    int r;

    (void)snprintf(path, sizeof(path), "/arrays/%lld", (long long)array);
    r = client_call(client, "GET", path, NULL, &answer, problem);
    if (r)
        return r;
    jobs = json_object_get(answer.json, "jobs");
    high = json_array_size(jobs);
    while (low < high) {
        CLEANUP_ANSWER struct answer one = { 0 };
        size_t middle = low + (high - low) / 2;
        json_int_t id = json_integer_value(json_array_get(jobs, middle)), at;

        (void)snprintf(path, sizeof(path), "/jobs/%lld", (long long)id);
        r = client_call(client, "GET", path, NULL, &one, problem);
        if (r)
            return r;
        at = json_integer_value(json_object_get(json_object_get(one.json, "array"), "index"));
        if (at == index) {
            *ret_id = id;
            return 0;
        }
        if (at < index)
            low = middle + 1;
        else
            high = middle;
    }
    (void)problem_set(problem, CODE_NOT_FOUND, "NotFound", "array %lld has no element %lld", (long long)array,
                      (long long)index);
    problem_hint(problem, "muster show %lld tells which there are", (long long)array);
    return CODE_NOT_FOUND;
}

/* The newest of the caller's jobs of that name. */
static int name_find(struct client *client, const char *name, int64_t *ret_id, struct problem *problem)
{
    CLEANUP_ANSWER struct answer who = { 0 };
    char *quoted = client_quote(name), *user = NULL, path[1024], listed[160] = "";
    json_t *items = NULL, *item;
    int64_t best = 0, live = 0;
    size_t i, count = 0;
    int r = client_call(client, "GET", "/whoami", NULL, &who, problem);

    if (r == 0) {
        const char *me = json_string_value(json_object_get(who.json, "user"));

        user = client_quote(me ? me : "");
        (void)snprintf(path, sizeof(path), "/jobs?all=1&name=%s&user=%s", quoted ? quoted : "", user ? user : "");
        r = client_list(client, path, &items, problem);
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
            live = id > live ? id : live;
            count++;
            if (strlen(listed) < 120)
                (void)snprintf(listed + strlen(listed), sizeof(listed) - strlen(listed), "%s%lld", *listed ? ", " : "",
                               (long long)id);
        }
    }
    json_decref(items);
    if (count > 1) {
        (void)problem_set(problem, CODE_USAGE, "Ambiguous", "'%.60s' is the name of %zu of your jobs", name, count);
        problem_hint(problem, "say which: %s", listed);
        return CODE_USAGE;
    }
    if (!best) {
        (void)problem_set(problem, CODE_NOT_FOUND, "NotFound", "you have no job '%.60s'", name);
        problem_hint(problem, "muster queue lists yours");
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
    ret->id = strtoll(text, &end, 10);
    if (*end == '_') {
        int64_t index = strtoll(end + 1, &end, 10);
        int r = element_find(client, ret->id, index, &ret->id, problem);

        if (r)
            return r;
    }
    if (*end == '.')
        ret->rank = (int)strtol(end + 1, &end, 10);
    if (*end == '@')
        ret->attempt = (int)strtol(end + 1, &end, 10);
    if (*end && ret->rank < 0 && ret->attempt < 0 && isalnum((unsigned char)*end))
        return name_find(client, text, &ret->id, problem); /* a name that begins with a digit */
    if (*end)
        return problem_set(problem, CODE_USAGE, "",
                           "'%.60s': expected a job such as 4127, 4127_3, 4127.0, 4127@1 or its name", text);
    return 0;
}
