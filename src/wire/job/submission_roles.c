/* SPDX-License-Identifier: Apache-2.0 */
/* submission_roles.c - the key `roles`: {NAME: {nodes, per_node: {gpu, cpu, memory}, image, run, env,
 * completion}}. */
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "wire/job/gpu_spec.h"
#include "wire/job/roles.h"
#include "wire/job/submission_internal.h"
#include "wire/text/duration.h"
#include "wire/text/json_write.h"

enum { ROLE_NAME_MAX = 64 };

typedef int (*role_fn)(struct submission_reader *rd, struct job_role *role, json_t *value);

struct role_key {
    const char *name;
    role_fn read;
};

static int keys_read(struct submission_reader *rd, const struct role_key *keys, struct job_role *role, json_t *value)
{
    const char *name;
    json_t *part;

    if (!json_is_object(value))
        return reader_fail(rd, "expected a mapping");
    json_object_foreach(value, name, part)
    {
        const struct role_key *key = keys;
        size_t mark;
        int r;

        while (key->name && strcmp(key->name, name) != 0)
            key++;
        reader_enter(rd, name, &mark);
        if (!key->name) {
            rd->at_key = true;
            return strcmp(name, "mounts") == 0
                       ? reader_fail(rd, "mounts: they are those of all roles, told beside roles, not in one")
                       : reader_fail(rd, "unknown key '%.40s' of a role", name);
        }
        r = key->read(rd, role, part);
        if (r < 0)
            return r;
        reader_leave(rd, mark);
    }
    return 0;
}

static int read_i64_of(struct submission_reader *rd, json_t *value, int64_t min, int64_t max, int32_t *ret)
{
    int64_t number = 0;
    int r = reader_i64(rd, value, min, max, &number);

    *ret = (int32_t)number;
    return r;
}

static int role_count(struct submission_reader *rd, struct job_role *role, json_t *value)
{
    return read_i64_of(rd, value, 1, ROLE_TASKS_MAX, &role->count);
}

static int role_cpu(struct submission_reader *rd, struct job_role *role, json_t *value)
{
    return read_i64_of(rd, value, 1, 1 << 16, &role->cpus);
}

static int role_memory(struct submission_reader *rd, struct job_role *role, json_t *value)
{
    const char *text;
    char number[64];
    int r = reader_text(rd, value, 64, number, &text);

    if (r == 0 && size_parse_bytes(text, strlen(text), &role->memory) < 0)
        return reader_fail(rd, "expected a size such as 64G");
    return r;
}

/* The type that the first role names is that of all that name none; another makes another part of the gang. */
static int role_type(struct submission_reader *rd, struct job_role *role, const char *selector)
{
    char **type = rd->s->gpu_selector ? &role->gpu_selector : &rd->s->gpu_selector;

    if (!selector[0] || (rd->s->gpu_selector && strcasecmp(selector, rd->s->gpu_selector) == 0))
        return 0;
    *type = mem_strdup(selector);
    if (!*type)
        return reader_memory(rd);
    return roles_parts(rd->s) > SIDES_MAX + 1 ? reader_fail(rd, "roles are on GPUs of at most %d types", SIDES_MAX + 1)
                                              : 0;
}

static int role_gpu(struct submission_reader *rd, struct job_role *role, json_t *value)
{
    struct gpu_spec spec = { 0 };
    const char *text;
    char number[64];
    int r = reader_text(rd, value, GPU_SELECTOR_MAX + 32, number, &text);

    if (r < 0 || strcmp(text, "0") == 0)
        return r;
    r = gpu_spec_parse(text, strlen(text), &spec, rd->err);
    if (r < 0) {
        rd->failed = true;
        return r;
    }
    if (spec.count != spec.count_max || spec.share != MGPU_ONE)
        return reader_fail(rd, "a role has a fixed number of whole GPUs");
    role->gpus = spec.count;
    return role_type(rd, role, spec.selector);
}

static int role_node(struct submission_reader *rd, struct job_role *role, json_t *value)
{
    static const struct role_key keys[] = {
        { "cpu", role_cpu }, { "gpu", role_gpu }, { "memory", role_memory }, { 0 }
    };

    return keys_read(rd, keys, role, value);
}

/* A text that says something. Owned. */
static int role_text(struct submission_reader *rd, json_t *value, size_t max, const char *expected, char **ret_text)
{
    const char *text;
    char number[64];
    int r = reader_text(rd, value, max, number, &text);

    if (r == 0 && !*text)
        return reader_fail(rd, "expected %s", expected);
    if (r == 0 && !(*ret_text = mem_strdup(text)))
        return reader_memory(rd);
    return r;
}

static int role_run(struct submission_reader *rd, struct job_role *role, json_t *value)
{
    return role_text(rd, value, SUBMISSION_BYTES_MAX, "a command", &role->run);
}

static int role_image_read(struct submission_reader *rd, struct job_role *role, json_t *value)
{
    return role_text(rd, value, SUBMISSION_TEXT_MAX, "a directory or the name of an image", &role->image);
}

static int role_env(struct submission_reader *rd, struct job_role *role, json_t *value)
{
    struct env_pair *pairs = rd->s->env;
    size_t count = rd->s->env_count;
    int r;

    /* The same rules, another list. */
    rd->s->env = NULL;
    rd->s->env_count = 0;
    r = read_env(rd, NULL, value);
    role->env = rd->s->env;
    role->env_count = rd->s->env_count;
    rd->s->env = pairs;
    rd->s->env_count = count;
    return r;
}

static int role_min_failed(struct submission_reader *rd, struct job_role *role, json_t *value)
{
    return read_i64_of(rd, value, -1, ROLE_TASKS_MAX, &role->min_failed);
}

static int role_min_succeeded(struct submission_reader *rd, struct job_role *role, json_t *value)
{
    return read_i64_of(rd, value, -1, ROLE_TASKS_MAX, &role->min_succeeded);
}

static int role_completion(struct submission_reader *rd, struct job_role *role, json_t *value)
{
    static const struct role_key keys[] = { { "min_failed", role_min_failed },
                                            { "min_succeeded", role_min_succeeded },
                                            { 0 } };

    return keys_read(rd, keys, role, value);
}

static int role_check(struct submission_reader *rd, const struct job_role *role)
{
    if (!role->run)
        return reader_fail(rd, "a role says what it runs: expected 'run'");
    if (role->min_failed == 0 || role->min_failed > role->count)
        return reader_fail(rd, "completion.min_failed: expected -1, or 1 to the %d tasks of the role", role->count);
    if (role->min_succeeded == 0 || role->min_succeeded > role->count)
        return reader_fail(rd, "completion.min_succeeded: expected -1, or 1 to the %d tasks of the role", role->count);
    return 0;
}

/* It becomes part of the names of variables and files. */
static bool name_good(const char *name)
{
    size_t length = strlen(name);

    for (size_t i = 0; i < length; i++)
        if (!isalnum((unsigned char)name[i]) && name[i] != '_' && (i == 0 || name[i] != '-'))
            return false;
    return length > 0 && length < ROLE_NAME_MAX;
}

static int role_read(struct submission_reader *rd, const char *name, json_t *value)
{
    static const struct role_key keys[] = { { "completion", role_completion },
                                            { "env", role_env },
                                            { "image", role_image_read },
                                            { "nodes", role_count },
                                            { "per_node", role_node },
                                            { "run", role_run },
                                            { 0 } };
    struct job_role *role = &rd->s->roles[rd->s->role_count];
    int r;

    if (!name_good(name)) {
        rd->at_key = true;
        return reader_fail(rd, "a role is named with up to %d letters, digits, - and _", ROLE_NAME_MAX - 1);
    }
    *role = (struct job_role){ .name = mem_strdup(name), .count = 1, .min_failed = 1, .min_succeeded = -1 };
    if (!role->name)
        return reader_memory(rd);
    rd->s->role_count++;
    r = keys_read(rd, keys, role, value);
    return r < 0 ? r : role_check(rd, role);
}

int read_roles(struct submission_reader *rd, const struct submission_key *key, json_t *value)
{
    const char *name;
    json_t *part;
    int r = 0;

    (void)key;
    if (!json_is_object(value) || json_object_size(value) == 0 || json_object_size(value) > ROLES_MAX)
        return reader_fail(rd, "expected a mapping of 1 to %d roles", ROLES_MAX);
    rd->s->roles = mem_zalloc(json_object_size(value), sizeof(*rd->s->roles));
    if (!rd->s->roles)
        return reader_memory(rd);
    json_object_foreach(value, name, part)
    {
        size_t mark;

        reader_enter(rd, name, &mark);
        r = role_read(rd, name, part);
        if (r < 0)
            return r;
        reader_leave(rd, mark);
    }
    if (roles_tasks(rd->s) > ROLE_TASKS_MAX)
        return reader_fail(rd, "more than %d tasks in all", ROLE_TASKS_MAX);
    if (roles_gpus(rd->s) == 0)
        return reader_fail(rd, "at least one role has GPUs (per_node.gpu)");
    rd->s->launch = LAUNCH_NODE;
    return r;
}

/* A task is started by one program as one user: a runtime, or nothing but us. */
int roles_check(struct submission_reader *rd)
{
    const struct submission *s = rd->s;
    const char *first = roles_image(s), *image;
    size_t mark;

    for (size_t r = 1; r < s->role_count; r++) {
        image = role_image(s, &s->roles[r]);
        if (!image == !first && (!image || (image[0] == '/') == (first[0] == '/')))
            continue;
        reader_enter(rd, "roles", &mark);
        reader_enter(rd, s->roles[r].name, &mark);
        return !image != !first
                   ? reader_fail(rd, "role '%.64s' runs in an image and role '%.64s' in none: all do, or none",
                                 s->roles[image ? r : 0].name, s->roles[image ? 0 : r].name)
                   : reader_fail(rd, "images of roles are all directories, or all names: '%.60s' and '%.60s'", first,
                                 image);
    }
    return 0;
}

static void gpu_write(struct json_write *out, const struct submission *s, const struct job_role *role)
{
    CLEANUP_BUF struct buf text = BUF_INIT(GPU_SELECTOR_MAX + 64);
    const char *type = role->gpu_selector ? role->gpu_selector : s->gpu_selector;

    buf_printf(&text, "%s%s%d", type ? type : "", type ? ":" : "", role->gpus);
    json_write_text(out, "gpu", text.data ? text.data : "");
}

static void role_write(struct json_write *out, const struct submission *s, const struct job_role *role)
{
    json_write_object(out, role->name);
    if (role->min_failed != 1 || role->min_succeeded != -1) {
        json_write_object(out, "completion");
        if (role->min_failed != 1)
            json_write_i64(out, "min_failed", role->min_failed);
        if (role->min_succeeded != -1)
            json_write_i64(out, "min_succeeded", role->min_succeeded);
        json_write_close(out);
    }
    if (role->env_count) {
        json_write_object(out, "env");
        for (size_t i = 0; i < role->env_count; i++)
            json_write_text(out, role->env[i].key, role->env[i].value);
        json_write_close(out);
    }
    if (role->image)
        json_write_text(out, "image", role->image);
    json_write_i64(out, "nodes", role->count);
    if (role->gpus || role->cpus || role->memory) {
        json_write_object(out, "per_node");
        if (role->cpus)
            json_write_i64(out, "cpu", role->cpus);
        if (role->gpus)
            gpu_write(out, s, role);
        if (role->memory) {
            CLEANUP_BUF struct buf text = BUF_INIT(64);

            size_put_bytes(&text, role->memory);
            json_write_text(out, "memory", text.data ? text.data : "");
        }
        json_write_close(out);
    }
    json_write_text(out, "run", role->run);
    json_write_close(out);
}

void write_roles(struct json_write *out, const struct submission_key *key, const struct submission *s)
{
    if (s->role_count == 0)
        return;
    json_write_object(out, key->name);
    for (size_t r = 0; r < s->role_count; r++)
        role_write(out, s, &s->roles[r]);
    json_write_close(out);
}
