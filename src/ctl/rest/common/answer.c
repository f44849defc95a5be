/* SPDX-License-Identifier: Apache-2.0 */
/* answer.c - what the handlers of routes have in common: bodies, queries, refusals, the job of a path. */
#include <errno.h>
#include <stdlib.h>

#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "ctl/daemon/server.h"
#include "ctl/rest/common/job_history.h"
#include "wire/text/decimal.h"
#include "wire/text/duration.h"
#include "wire/text/json_read.h"

int refusal_status(const struct entry_result *result, const char **ret_code)
{
    const char *reason = result->reason[0] ? result->reason : NULL, *code = "Internal";
    int status = 500;

    switch (-result->code) {
    case ENOENT:
        status = 404;
        code = "NotFound";
        break;
    case EPERM:
    case EACCES:
        status = 403;
        code = "NotAllowed";
        break;
    case EINVAL:
        status = 400;
        code = "InvalidSpec";
        break;
    case ERANGE:
        status = 422;
        code = "Infeasible";
        break;
    case EAGAIN:
    case ENOMEM:
        status = 503;
        code = "Busy";
        break;
    case ENOSPC:
        status = reason && strcmp(reason, "Busy") != 0 ? 422 : 503;
        code = "Busy";
        break;
    case EALREADY:
    case EBUSY:
    case EEXIST:
        status = 409;
        code = "Conflict";
        break;
    default:
        break;
    }
    *ret_code = reason ? reason : code;
    return status;
}

void reply_refused(struct request *request, const struct entry_result *result)
{
    const char *code;
    int status = refusal_status(result, &code);

    reply_problem(request, status, code, result->hint, "%s", result->text.text[0] ? result->text.text : "refused");
}

static bool list_has(const char *const *names, const char *name, size_t size)
{
    for (; *names; names++)
        if (strlen(*names) == size && memcmp(*names, name, size) == 0)
            return true;
    return false;
}

json_t *request_object(struct request *request, const char *const *keys)
{
    const struct http_message *m = request->message;
    struct error err;
    json_t *body = NULL, *value;
    const char *key;

    if (m->body_size == 0)
        body = json_object();
    else if (json_read_within("body", m->body, m->body_size, BODY_VALUES_MAX, &body, &err) < 0) {
        reply_problem(request, 400, "BadRequest", NULL, "%s", err.text);
        return NULL;
    }
    if (!json_is_object(body)) {
        reply_problem(request, 400, "BadRequest", NULL, "the body must be a JSON object");
        json_decref(body);
        return NULL;
    }
    json_object_foreach(body, key, value)
    {
        if (list_has(keys, key, strlen(key)))
            continue;
        reply_problem(request, 400, "UnknownKey", NULL, "unknown key '%.64s'", key);
        json_decref(body);
        return NULL;
    }
    return body;
}

bool query_known(struct request *request, const char *const *names)
{
    const char *at = request->query, *name, *value;
    size_t name_size, size;

    while (http_query_next(&at, &name, &name_size, &value, &size))
        if (!list_has(names, name, name_size)) {
            reply_problem(request, 400, "UnknownKey", NULL, "unknown query parameter '%.*s'",
                          (int)(name_size < 64 ? name_size : 64), name);
            return false;
        }
    return true;
}

bool query_text(struct request *request, const char *name, char *out, size_t size)
{
    const char *value;
    size_t length;

    out[0] = '\0';
    if (!http_query_find(request->query, name, 0, &value, &length) || length >= size)
        return false;
    memcpy(out, value, length);
    out[length] = '\0';
    return http_unescape(out, true) == 0;
}

static bool query_has(const struct request *request, const char *name)
{
    const char *value;
    size_t length;

    return http_query_find(request->query, name, 0, &value, &length);
}

int query_i64(struct request *request, const char *name, int64_t min, int64_t max, int64_t *value)
{
    char text[64];
    int64_t number;

    if (!query_has(request, name))
        return 0;
    if (!query_text(request, name, text, sizeof(text)) || decimal_parse_i64(text, strlen(text), &number) < 0 ||
        number < min || number > max) {
        reply_problem(request, 400, "BadRequest", NULL, "%s: expected a number from %lld to %lld", name, (long long)min,
                      (long long)max);
        return -EINVAL;
    }
    *value = number;
    return 0;
}

bool query_flag(struct request *request, const char *name)
{
    char text[16];

    return query_text(request, name, text, sizeof(text)) &&
           (strcmp(text, "1") == 0 || strcmp(text, "true") == 0 || strcmp(text, "yes") == 0 || text[0] == '\0');
}

int query_time(struct request *request, const char *name, usec_t *value)
{
    char text[64];

    if (!query_has(request, name))
        return 0;
    if (!query_text(request, name, text, sizeof(text)) || instant_parse(text, strlen(text), value) < 0) {
        reply_problem(request, 400, "BadRequest", NULL,
                      "%s: expected a time like 2026-01-31T12:00:00Z or seconds since 1970", name);
        return -EINVAL;
    }
    return 0;
}

static int index_order(const void *a, const void *b)
{
    const struct ctl_job *const *x = a, *const *y = b;

    return (*x)->array_index < (*y)->array_index ? -1 : (*x)->array_index > (*y)->array_index;
}

size_t array_elements(const struct registry *registry, int64_t id, const struct ctl_job ***ret_list)
{
    const struct ctl_job *first[1];
    size_t live = registry_array(registry, id, first, 1), n = live;
    const struct ctl_job **list;

    *ret_list = NULL;
    for (size_t i = 0; i < registry->finished_capacity; i++)
        n += registry->finished[i] && registry->finished[i]->array_id == id;
    list = n ? mem_zalloc(n, sizeof(*list)) : NULL;
    if (!list)
        return 0;
    n = registry_array(registry, id, list, live);
    for (size_t i = 0; i < registry->finished_capacity; i++)
        if (registry->finished[i] && registry->finished[i]->array_id == id)
            list[n++] = registry->finished[i];
    qsort(list, n, sizeof(*list), index_order);
    *ret_list = list;
    return n;
}

const struct ctl_job *request_job(struct request *request)
{
    const struct registry *registry = server_book(request_server(request));
    const char *text = request->params[0], *mark = strchr(text, '_');
    const struct ctl_job *job = NULL, **list = NULL;
    int64_t id = 0, index = -1;
    size_t length = mark ? (size_t)(mark - text) : strlen(text), count;

    if (strcmp(text, "new") == 0) {
        id = request_new_job(request);
        job = id ? registry_find(registry, id) : NULL;
    } else if (decimal_parse_i64(text, length, &id) == 0 && id > 0) {
        if (!mark) {
            job = registry_find(registry, id);
            if (!job)
                job = past_find(request_server(request)->past, id);
        } else if (decimal_parse_i64(mark + 1, strlen(mark + 1), &index) == 0 && index >= 0) {
            count = array_elements(registry, id, &list);
            for (size_t i = 0; i < count && !job; i++)
                if (list[i]->array_index == index)
                    job = list[i];
            mem_free(list);
            if (!job)
                job = past_element(request_server(request)->past, id, index);
        }
    }
    if (!job)
        reply_problem(request, 404, "NotFound", NULL,
                      id || strcmp(text, "new") != 0 ? "no job %.40s" : "no job was submitted on this connection",
                      text);
    return job;
}
