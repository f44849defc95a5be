/* SPDX-License-Identifier: Apache-2.0 */
/* job_pai.c - job files of OpenPAI, protocol version 2, as submissions.
 *
 * One task role becomes the nodes of a job, its commands a script that runs on every node; parameters and secrets are
 * put into the commands. Keys that would have to be ignored are refused by name: more than one task role, ports,
 * deployments, plug-ins.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "wire/decimal.h"
#include "wire/submission_part.h"

struct pai {
    struct submission_reader *rd;
    json_t *top, *out, *node; /* ours: the submission, its per_node */
    const char *role;         /* name of the one there is */
    int64_t job_retries, task_retries;
    const char *gpu_type; /* of hivedScheduler */
};

typedef int (*pai_fn)(struct pai *pai, const char *name, json_t *value);

struct pai_key {
    const char *name;
    pai_fn take; /* NULL: says nothing that matters here */
};

static int keys_take(struct pai *pai, const struct pai_key *keys, json_t *value)
{
    const char *name;
    json_t *part;

    if (!json_is_object(value))
        return reader_fail(pai->rd, "expected a mapping");
    json_object_foreach(value, name, part)
    {
        const struct pai_key *key = keys;
        size_t mark;
        int r = 0;

        while (key->name && strcmp(key->name, name) != 0)
            key++;
        reader_enter(pai->rd, name, &mark);
        if (!key->name) {
            pai->rd->at_key = true;
            return reader_fail(pai->rd, "OpenPAI's key '%.40s' is not supported here", name);
        }
        if (key->take && !json_is_null(part))
            r = key->take(pai, name, part);
        if (r < 0)
            return r;
        reader_leave(pai->rd, mark);
    }
    return 0;
}

static int put(struct pai *pai, json_t *map, const char *key, json_t *value)
{
    return json_object_set_new(map, key, value) < 0 ? reader_memory(pai->rd) : 0;
}

static int put_text(struct pai *pai, json_t *map, const char *key, const char *text)
{
    return put(pai, map, key, json_string(text));
}

static int text_of(struct pai *pai, json_t *value, char number[64], const char **ret_text)
{
    return reader_text(pai->rd, value, SUBMISSION_BYTES_MAX, number, ret_text);
}

/* <% $parameters.x %> and <% $secrets.x %>, at `text`; what follows is at *ret_end. */
static int placeholder_put(struct pai *pai, struct buf *out, const char *text, const char **ret_end)
{
    const char *end = strstr(text, "%>"), *name = text + 2 + strspn(text + 2, " \t");
    json_t *from = NULL, *value;
    const char *words;
    char number[64], key[128];
    size_t length;
    int r;

    if (!end)
        return reader_fail(pai->rd, "'<%%' without '%%>'");
    if (strncmp(name, "$parameters.", 12) == 0) {
        from = json_object_get(pai->top, "parameters");
        name += 12;
    } else if (strncmp(name, "$secrets.", 9) == 0) {
        from = json_object_get(pai->top, "secrets");
        name += 9;
    }
    length = strcspn(name, " \t%");
    if (length >= sizeof(key) || name + length > end)
        return reader_fail(pai->rd, "expected <%% $parameters.NAME %%> or <%% $secrets.NAME %%>");
    (void)snprintf(key, sizeof(key), "%.*s", (int)length, name);
    value = json_object_get(from, key);
    if (!value)
        return reader_fail(pai->rd, "no parameter or secret '%.60s'", key);
    r = text_of(pai, value, number, &words);
    if (r < 0)
        return r;
    buf_text(out, words);
    *ret_end = end + 2;
    return 0;
}

static int filled_put(struct pai *pai, struct buf *out, const char *text)
{
    while (*text) {
        const char *open = strstr(text, "<%");
        int r;

        if (!open) {
            buf_text(out, text);
            return 0;
        }
        buf_put(out, text, (size_t)(open - text));
        r = placeholder_put(pai, out, open, &text);
        if (r < 0)
            return r;
    }
    return 0;
}

static int take_version(struct pai *pai, const char *name, json_t *value)
{
    const char *text;
    char number[64];
    int r = text_of(pai, value, number, &text);

    (void)name;
    if (r == 0 && strcmp(text, "2") != 0)
        return reader_fail(pai->rd, "expected 2: other versions of the protocol are not read");
    return r;
}

static int take_type(struct pai *pai, const char *name, json_t *value)
{
    (void)name;
    return strcmp(json_is_string(value) ? json_string_value(value) : "", "job") == 0
               ? 0
               : reader_fail(pai->rd, "expected job");
}

static int take_same(struct pai *pai, const char *name, json_t *value)
{
    const char *text, *key = strcmp(name, "description") == 0 ? "comment" : name;
    char number[64];
    int r = text_of(pai, value, number, &text);

    return r < 0 ? r : put_text(pai, pai->out, key, text);
}

static int take_map(struct pai *pai, const char *name, json_t *value)
{
    (void)name; /* used where a command names it */
    return json_is_object(value) ? 0 : reader_fail(pai->rd, "expected a mapping");
}

static int take_job_retries(struct pai *pai, const char *name, json_t *value)
{
    (void)name;
    return reader_i64(pai->rd, value, 0, 255, &pai->job_retries);
}

static int take_task_retries(struct pai *pai, const char *name, json_t *value)
{
    (void)name;
    return reader_i64(pai->rd, value, 0, 255, &pai->task_retries);
}

static int take_vc(struct pai *pai, const char *name, json_t *value)
{
    (void)name;
    return take_same(pai, "vc", value);
}

static int take_defaults(struct pai *pai, const char *name, json_t *value)
{
    static const struct pai_key keys[] = { { "virtualCluster", take_vc }, { 0 } };

    (void)name;
    return keys_take(pai, keys, value);
}

static int take_priority(struct pai *pai, const char *name, json_t *value)
{
    (void)name;
    return take_same(pai, "priority", value);
}

static int take_sku(struct pai *pai, const char *name, json_t *value)
{
    (void)name;
    if (!json_is_string(value))
        return reader_fail(pai->rd, "expected a type of GPU");
    pai->gpu_type = json_string_value(value);
    return 0;
}

static int take_hived_role(struct pai *pai, const char *name, json_t *value)
{
    static const struct pai_key keys[] = { { "skuType", take_sku }, { "skuNum", NULL }, { 0 } };

    (void)name;
    return keys_take(pai, keys, value);
}

static int take_hived_roles(struct pai *pai, const char *name, json_t *value)
{
    const struct pai_key keys[] = { { pai->role ? pai->role : "", take_hived_role }, { 0 } };

    (void)name;
    return keys_take(pai, keys, value);
}

static int take_hived(struct pai *pai, const char *name, json_t *value)
{
    static const struct pai_key keys[] = { { "jobPriorityClass", take_priority },
                                           { "taskRoles", take_hived_roles },
                                           { 0 } };

    (void)name;
    return keys_take(pai, keys, value);
}

static int take_gang(struct pai *pai, const char *name, json_t *value)
{
    (void)name;
    return json_is_false(value) ? reader_fail(pai->rd, "a job starts as a whole here; it cannot be false") : 0;
}

static int take_extras(struct pai *pai, const char *name, json_t *value)
{
    static const struct pai_key keys[] = {
        { "hivedScheduler", take_hived }, { "gangAllocation", take_gang }, { "submitFrom", NULL }, { 0 }
    };

    (void)name;
    return keys_take(pai, keys, value);
}

static int take_instances(struct pai *pai, const char *name, json_t *value)
{
    int64_t count = 0;
    int r = reader_i64(pai->rd, value, 1, SUBMISSION_NODES_MAX, &count);

    (void)name;
    return r < 0 ? r : put(pai, pai->out, "nodes", json_integer(count));
}

static int take_failed(struct pai *pai, const char *name, json_t *value)
{
    int64_t count = 0;
    int r = reader_i64(pai->rd, value, -1, INT32_MAX, &count);

    (void)name;
    if (r < 0)
        return r;
    if (count != 1 && count != -1)
        return reader_fail(pai->rd, "expected 1 (the first failure ends the job) or -1 (none does)");
    return count == 1 ? 0 : put(pai, pai->out, "no_kill", json_true());
}

static int take_succeeded(struct pai *pai, const char *name, json_t *value)
{
    int64_t count = 0, instances = json_integer_value(json_object_get(pai->out, "nodes"));
    int r = reader_i64(pai->rd, value, -1, INT32_MAX, &count);

    (void)name;
    if (r == 0 && count != -1 && count != (instances ? instances : 1))
        return reader_fail(pai->rd, "expected -1 or all instances: a job ends when all of it has ended");
    return r;
}

static int take_completion(struct pai *pai, const char *name, json_t *value)
{
    static const struct pai_key keys[] = { { "minFailedInstances", take_failed },
                                           { "minSucceededInstances", take_succeeded },
                                           { 0 } };

    (void)name;
    return keys_take(pai, keys, value);
}

static int take_cpu(struct pai *pai, const char *name, json_t *value)
{
    (void)name;
    return put(pai, pai->node, "cpu", json_incref(value));
}

static int take_memory(struct pai *pai, const char *name, json_t *value)
{
    char text[32];
    int64_t mib = 0;
    int r = reader_i64(pai->rd, value, 1, INT64_C(1) << 40, &mib);

    (void)name;
    (void)snprintf(text, sizeof(text), "%lldM", (long long)mib);
    return r < 0 ? r : put_text(pai, pai->node, "memory", text);
}

static int take_gpu(struct pai *pai, const char *name, json_t *value)
{
    (void)name;
    return put(pai, pai->node, "gpu", json_incref(value));
}

static int take_resources(struct pai *pai, const char *name, json_t *value)
{
    static const struct pai_key keys[] = {
        { "cpu", take_cpu }, { "memoryMB", take_memory }, { "gpu", take_gpu }, { 0 }
    };

    (void)name;
    return keys_take(pai, keys, value);
}

static int take_commands(struct pai *pai, const char *name, json_t *value)
{
    CLEANUP_BUF struct buf run = BUF_INIT(SUBMISSION_BYTES_MAX);
    json_t *line;
    size_t i;
    int r = 0;

    (void)name;
    if (!json_is_array(value) || json_array_size(value) == 0)
        return reader_fail(pai->rd, "expected a list of commands");
    json_array_foreach(value, i, line)
    {
        const char *text;
        char number[64];

        r = text_of(pai, line, number, &text);
        if (r == 0)
            r = filled_put(pai, &run, text);
        if (r < 0)
            return r;
        buf_char(&run, '\n');
    }
    if (run.error)
        return reader_fail(pai->rd, "the commands are too long");
    return put_text(pai, pai->out, "run", run.data);
}

/* The uri of the prerequisite of that name. */
static int take_image(struct pai *pai, const char *name, json_t *value)
{
    json_t *list = json_object_get(pai->top, "prerequisites"), *item;
    const char *wanted = json_string_value(value);
    size_t i;

    (void)name;
    if (!wanted)
        return reader_fail(pai->rd, "expected the name of a prerequisite");
    json_array_foreach(list, i, item)
    {
        const char *called = json_string_value(json_object_get(item, "name"));
        const char *uri = json_string_value(json_object_get(item, "uri"));

        if (called && uri && strcmp(called, wanted) == 0)
            return put_text(pai, pai->out, "image", uri);
    }
    return reader_fail(pai->rd, "no prerequisite '%.60s' with a uri", wanted);
}

static int take_role(struct pai *pai, const char *name, json_t *value)
{
    static const struct pai_key keys[] = {
        { "instances", take_instances },
        { "completion", take_completion },
        { "taskRetryCount", take_task_retries },
        { "dockerImage", take_image },
        { "resourcePerInstance", take_resources },
        { "commands", take_commands },
        { 0 },
    };

    (void)name;
    return keys_take(pai, keys, value);
}

static int take_roles(struct pai *pai, const char *name, json_t *value)
{
    struct pai_key keys[2] = { { 0 } };

    (void)name;
    if (!pai->role)
        return reader_fail(pai->rd, "expected one task role, got %zu; submit one job a role", json_object_size(value));
    keys[0] = (struct pai_key){ pai->role, take_role };
    return keys_take(pai, keys, value);
}

static int take_prerequisites(struct pai *pai, const char *name, json_t *value)
{
    json_t *item;
    size_t i;

    (void)name;
    if (!json_is_array(value))
        return reader_fail(pai->rd, "expected a list");
    json_array_foreach(value, i, item)
    {
        const char *type = json_string_value(json_object_get(item, "type"));

        if (!type || strcmp(type, "dockerimage") != 0)
            return reader_fail(pai->rd, "only prerequisites of type dockerimage are supported");
    }
    return 0;
}

/* "V100:8" where the scheduler's part names the type. */
static int gpu_type_add(struct pai *pai)
{
    json_t *gpu = json_object_get(pai->node, "gpu");
    const char *text;
    char number[64], both[200];
    int r;

    if (!pai->gpu_type || !gpu)
        return 0;
    r = text_of(pai, gpu, number, &text);
    if (r < 0)
        return r;
    (void)snprintf(both, sizeof(both), "%.120s:%.40s", pai->gpu_type, text);
    return put_text(pai, pai->node, "gpu", both);
}

int job_pai_convert(struct submission_reader *rd, json_t *top, json_t **ret_tree)
{
    static const struct pai_key keys[] = {
        { "protocolVersion", take_version },
        { "name", take_same },
        { "type", take_type },
        { "version", NULL },
        { "contributor", NULL },
        { "description", take_same },
        { "prerequisites", take_prerequisites },
        { "parameters", take_map },
        { "secrets", take_map },
        { "jobRetryCount", take_job_retries },
        { "taskRoles", take_roles },
        { "defaults", take_defaults },
        { "extras", take_extras },
        { 0 },
    };
    struct pai pai = { .rd = rd, .top = top, .out = json_object(), .node = json_object() };
    json_t *roles = json_object_get(top, "taskRoles");
    int64_t retries;
    int r = pai.out && pai.node ? 0 : reader_memory(rd);

    if (json_object_size(roles) == 1)
        pai.role = json_object_iter_key(json_object_iter(roles));
    if (r == 0)
        r = keys_take(&pai, keys, top);
    if (r == 0 && !json_object_get(pai.out, "run"))
        r = reader_fail(rd, "taskRoles.*.commands is missing");
    if (r == 0)
        r = gpu_type_add(&pai);
    retries = pai.job_retries > pai.task_retries ? pai.job_retries : pai.task_retries;
    if (r == 0 && retries)
        r = put(&pai, pai.out, "retries", json_integer(retries));
    if (r == 0)
        r = put_text(&pai, pai.out, "launch", "node");
    if (r == 0)
        r = put_text(&pai, pai.out, "compat", "pai");
    if (r == 0 && json_object_size(pai.node))
        r = put(&pai, pai.out, "per_node", json_incref(pai.node));
    json_decref(pai.node);
    if (r < 0)
        json_decref(pai.out);
    else
        *ret_tree = pai.out;
    return r;
}
