/* SPDX-License-Identifier: Apache-2.0 */
/* job_pai.c - job files of OpenPAI, protocol version 2, as submissions.
 *
 * One task role becomes the nodes of a job, its commands a script that runs on every node; several become roles, and so
 * does one with a completion that nodes cannot express. Parameters and secrets are put into the commands. Keys that
 * would have to be ignored are refused by name: ports, deployments, plug-ins.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "wire/job/submission_internal.h"
#include "wire/text/decimal.h"

struct pai {
    struct submission_reader *rd;
    json_t *top, *job;  /* ours: the submission */
    json_t *out, *node; /* where nodes, run and per_node go: the submission, or one of its roles */
    json_t *roles;      /* ours: {NAME: role}; NULL: the submission has no roles */
    int64_t job_retries, task_retries;
    const char *gpu_type;   /* of hivedScheduler: the first that is told */
    json_t *types;          /* ours: {NAME: type} by task role */
    const char *hived_role; /* whose is read */
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

    return r < 0 ? r : put_text(pai, pai->job, key, text);
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
    if (!pai->gpu_type)
        pai->gpu_type = json_string_value(value);
    return put(pai, pai->types, pai->hived_role, json_incref(value));
}

static int take_hived_role(struct pai *pai, const char *name, json_t *value)
{
    static const struct pai_key keys[] = { { "skuType", take_sku }, { "skuNum", NULL }, { 0 } };

    pai->hived_role = name;
    return keys_take(pai, keys, value);
}

/* A mapping whose keys are task roles of this job. */
static int each_role(struct pai *pai, pai_fn take, json_t *value)
{
    json_t *roles = json_object_get(pai->top, "taskRoles"), *role;
    struct pai_key keys[ROLES_MAX + 1] = { { 0 } };
    const char *name;
    size_t count = 0;

    json_object_foreach(roles, name, role) if (count < ROLES_MAX) keys[count++] = (struct pai_key){ name, take };
    return keys_take(pai, keys, value);
}

static int take_hived_roles(struct pai *pai, const char *name, json_t *value)
{
    (void)name;
    return each_role(pai, take_hived_role, value);
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
    return json_is_false(value) ? put(pai, pai->job, "gang", json_false()) : 0;
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

static int completion_put(struct pai *pai, const char *key, int64_t count)
{
    json_t *completion = json_object_get(pai->out, "completion");
    int r = 0;

    if (!completion) {
        r = put(pai, pai->out, "completion", json_object());
        completion = json_object_get(pai->out, "completion");
    }
    return r < 0 ? r : put(pai, completion, key, json_integer(count));
}

static int take_failed(struct pai *pai, const char *name, json_t *value)
{
    int64_t count = 0;
    int r = reader_i64(pai->rd, value, -1, INT32_MAX, &count);

    (void)name;
    if (r < 0 || count == 1)
        return r;
    return pai->roles ? completion_put(pai, "min_failed", count) : put(pai, pai->out, "no_kill", json_true());
}

static int take_succeeded(struct pai *pai, const char *name, json_t *value)
{
    int64_t count = 0;
    int r = reader_i64(pai->rd, value, -1, INT32_MAX, &count);

    (void)name;
    return r == 0 && count != -1 && pai->roles ? completion_put(pai, "min_succeeded", count) : r;
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
    int r;

    if (!pai->roles)
        return keys_take(pai, keys, value);
    pai->out = json_object();
    pai->node = json_object();
    if (!pai->out || !pai->node || json_object_set_new(pai->out, "per_node", pai->node) < 0)
        return reader_memory(pai->rd);
    r = put(pai, pai->roles, name, pai->out);
    return r < 0 ? r : keys_take(pai, keys, value);
}

static int take_roles(struct pai *pai, const char *name, json_t *value)
{
    (void)name;
    if (json_object_size(value) == 0 || json_object_size(value) > ROLES_MAX)
        return reader_fail(pai->rd, "expected 1 to %d task roles", ROLES_MAX);
    return each_role(pai, take_role, value);
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

/* "V100:8" where the scheduler's part names the type, of this role (NULL: of the only one) or of another. */
static int gpu_type_add(struct pai *pai, const char *role, json_t *node)
{
    json_t *gpu = json_object_get(node, "gpu"), *own = role ? json_object_get(pai->types, role) : NULL;
    const char *text;
    char number[64], both[200];
    int r;

    if (!pai->gpu_type || !gpu)
        return 0;
    r = text_of(pai, gpu, number, &text);
    if (r < 0 || strcmp(text, "0") == 0)
        return r;
    (void)snprintf(both, sizeof(both), "%.120s:%.40s", own ? json_string_value(own) : pai->gpu_type, text);
    return put_text(pai, node, "gpu", both);
}

/* Whether one task role has a completion that a job of like nodes has not: so many of several. */
static bool counts_ends(const json_t *role)
{
    const json_t *completion = json_object_get(role, "completion");
    const json_t *failed = json_object_get(completion, "minFailedInstances");
    const json_t *good = json_object_get(completion, "minSucceededInstances");
    int64_t all = json_integer_value(json_object_get(role, "instances"));

    return (json_is_integer(failed) && json_integer_value(failed) > 1) ||
           (json_is_integer(good) && json_integer_value(good) > 0 && json_integer_value(good) != (all ? all : 1));
}

/* One image for all is the job's. */
static int image_lift(struct pai *pai)
{
    json_t *first = json_object_get(json_object_iter_value(json_object_iter(pai->roles)), "image"), *role;
    const char *name;

    json_object_foreach(pai->roles, name, role) if (!json_equal(json_object_get(role, "image"), first)) return 0;
    if (!first)
        return 0;
    first = json_incref(first);
    json_object_foreach(pai->roles, name, role)(void) json_object_del(role, "image");
    return put(pai, pai->job, "image", first);
}

/* What was gathered by role, or of the one there is, becomes part of the submission. */
static int roles_add(struct pai *pai)
{
    const char *name;
    json_t *role;
    int r = 0;

    if (!pai->roles) {
        r = gpu_type_add(pai, NULL, pai->node);
        if (r == 0 && !json_object_get(pai->job, "run"))
            r = reader_fail(pai->rd, "taskRoles.*.commands is missing");
        if (r == 0)
            r = put_text(pai, pai->job, "launch", "node");
        if (r == 0 && json_object_size(pai->node))
            r = put(pai, pai->job, "per_node", json_incref(pai->node));
        return r;
    }
    json_object_foreach(pai->roles, name, role)
    {
        if (r == 0)
            r = gpu_type_add(pai, name, json_object_get(role, "per_node"));
        if (r == 0 && !json_object_get(role, "run"))
            r = reader_fail(pai->rd, "taskRoles.%.60s.commands is missing", name);
    }
    if (r == 0)
        r = image_lift(pai);
    return r < 0 ? r : put(pai, pai->job, "roles", json_incref(pai->roles));
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
    struct pai pai = { .rd = rd, .top = top, .job = json_object(), .types = json_object() };
    json_t *roles = json_object_get(top, "taskRoles"), *one = json_object();
    int64_t retries;
    int r = pai.job && pai.types && one ? 0 : reader_memory(rd);

    pai.out = pai.job;
    pai.node = one;
    if (json_object_size(roles) > 1 || counts_ends(json_object_iter_value(json_object_iter(roles))))
        pai.roles = json_object();
    if (r == 0)
        r = keys_take(&pai, keys, top);
    if (r == 0)
        r = roles_add(&pai);
    retries = pai.job_retries > pai.task_retries ? pai.job_retries : pai.task_retries;
    if (r == 0 && retries)
        r = put(&pai, pai.job, "retries", json_integer(retries));
    if (r == 0)
        r = put_text(&pai, pai.job, "compat", "pai");
    json_decref(one);
    json_decref(pai.types);
    json_decref(pai.roles);
    if (r < 0)
        json_decref(pai.job);
    else
        *ret_tree = pai.job;
    return r;
}
