/* SPDX-License-Identifier: Apache-2.0 */
/* slurm_flags.c - see slurm_flags.h. */
#include "wire/job/slurm_flags.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "wire/job/gpu_spec.h"
#include "wire/text/decimal.h"

enum { IMAGE_MAX = 1024, SLURM_TASKS_MAX = 65536 };

static int no_memory(struct error *err)
{
    return error_set(err, -ENOMEM, "out of memory");
}

/* [docker://][USER@][REGISTRY#]NAME[:TAG], as enroot writes images, becomes REGISTRY/NAME:TAG. */
static int image_put(struct job_request *request, const char *value, struct error *err)
{
    const char *name = strstr(value, "://") ? strstr(value, "://") + 3 : value;
    const char *user = strchr(name, '@'), *mark = strchr(name, '#');
    char text[IMAGE_MAX];

    if (strlen(value) >= sizeof(text))
        return error_set(err, -EINVAL, "the name of an image has at most %d characters", IMAGE_MAX - 1);
    if (value[0] == '/' || value[0] == '.')
        return error_set(err, -EINVAL, "'%.60s': a file of an image is not supported; expected REGISTRY/NAME:TAG",
                         value);
    if (user && mark && user < mark)
        name = user + 1;
    if (mark)
        (void)snprintf(text, sizeof(text), "%.*s/%s", (int)(mark - name), name, mark + 1);
    else
        (void)snprintf(text, sizeof(text), "%s", name);
    return json_object_set_new(request->tree, "image", json_string(text)) < 0 ? no_memory(err) : 0;
}

/* SRC[:DST[:FLAGS]],...: a folder without DST has the same path in the container. Flags other than ro and rw are not
 * known here. */
static int mounts_put(struct job_request *request, const char *value, struct error *err)
{
    json_t *list = json_object_get(request->tree, "mounts");

    if (!list && json_object_set_new(request->tree, "mounts", list = json_array()) < 0)
        return no_memory(err);
    for (const char *at = value; *at;) {
        size_t length = strcspn(at, ",");
        char word[IMAGE_MAX], text[2 * IMAGE_MAX];
        char *to, *flags;

        if (length == 0 || length >= sizeof(word))
            return error_set(err, -EINVAL, "expected SRC[:DST[:ro]],..., got '%.60s'", value);
        (void)snprintf(word, sizeof(word), "%.*s", (int)length, at);
        to = strchr(word, ':');
        flags = to ? strchr(to + 1, ':') : NULL;
        if (flags && strcmp(flags, ":ro") != 0 && strcmp(flags, ":rw") != 0)
            return error_set(err, -EINVAL, "'%.60s': expected ro or rw after the second colon", word);
        if (flags && strcmp(flags, ":rw") == 0)
            *flags = '\0';
        (void)snprintf(text, sizeof(text), "%s%s%s", word, to ? "" : ":", to ? "" : word);
        if (json_array_append_new(list, json_string(text)) < 0)
            return no_memory(err);
        at += length + (at[length] == ',');
    }
    return 0;
}

int slurm_flag_put(struct job_request *request, const struct job_flag *flag, const char *value, struct error *err)
{
    if (strcmp(flag->name, "container-image") == 0)
        return image_put(request, value, err);
    if (strcmp(flag->name, "container-mounts") == 0)
        return mounts_put(request, value, err);
    return json_object_set_new(request->slurm, flag->name, json_string(value)) < 0 ? no_memory(err) : 0;
}

static const char *slurm_value(const struct job_request *request, const char *name)
{
    return json_string_value(json_object_get(request->slurm, name));
}

/* One kind of mail becomes kinds of --notify; false: Slurm has no such kind. `*ret_known`: it means something here. */
static bool mail_kinds(const char *word, size_t length, const char *kinds[3], bool *ret_known)
{
    static const struct {
        const char *name, *kinds[3];
    } table[] = {
        { "NONE", { NULL } },           { "BEGIN", { "start" } },      { "END", { "end" } },
        { "FAIL", { "fail" } },         { "REQUEUE", { "preempt" } },  { "ALL", { "start", "end", "fail" } },
        { "INVALID_DEPEND", { NULL } }, { "STAGE_OUT", { NULL } },     { "TIME_LIMIT", { NULL } },
        { "TIME_LIMIT_90", { NULL } },  { "TIME_LIMIT_80", { NULL } }, { "TIME_LIMIT_50", { NULL } },
        { "ARRAY_TASKS", { NULL } },
    };

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        if (strlen(table[i].name) == length && strncasecmp(table[i].name, word, length) == 0) {
            memcpy(kinds, table[i].kinds, sizeof(table[i].kinds));
            *ret_known = i == 0 || table[i].kinds[0];
            return true;
        }
    return false;
}

/* --mail-type=END,FAIL --mail-user=ana is --notify end=mailto:ana,fail=mailto:ana. */
static int mail_finish(struct job_request *request, struct error *err)
{
    const char *types = slurm_value(request, "mail-type"), *to = slurm_value(request, "mail-user");
    json_t *list = json_object_get(request->tree, "notify");

    if (!types && to)
        return job_request_note(request, err, "--mail-user has no effect without --mail-type");
    if (types && !to)
        return job_request_note(request, err, "--mail-type has no effect here without --mail-user=ADDRESS");
    if (!types)
        return 0;
    if (!list && json_object_set_new(request->tree, "notify", list = json_array()) < 0)
        return no_memory(err);
    for (const char *at = types; *at;) {
        size_t length = strcspn(at, ",");
        const char *kinds[3] = { NULL };
        bool known = false;

        if (!mail_kinds(at, length, kinds, &known))
            return error_set(err, -EINVAL, "--mail-type: expected BEGIN, END, FAIL, REQUEUE, ALL or NONE, got '%.*s'",
                             (int)(length < 40 ? length : 40), at);
        if (!known && job_request_note(request, err, "--mail-type=%.*s has no effect here", (int)length, at) < 0)
            return -ENOMEM;
        for (size_t k = 0; k < 3 && kinds[k]; k++)
            if (json_array_append_new(list, json_sprintf("%s=mailto:%s", kinds[k], to)) < 0)
                return error_set(err, -EINVAL, "--mail-user: expected an address in UTF-8");
        at += length + (at[length] == ',');
    }
    if (json_array_size(list) == 0)
        (void)json_object_del(request->tree, "notify");
    return 0;
}

/* The GPUs of the whole job, where they are told as one number; 0. */
static int64_t gpus_told(const struct job_request *request)
{
    const json_t *node = json_object_get(json_object_get(request->tree, "per_node"), "gpu");
    const json_t *nodes = json_object_get(request->tree, "nodes"), *all = json_object_get(request->tree, "gpus");
    const char *text = json_string_value(all ? all : node), *times = json_string_value(nodes);
    int64_t count = json_is_integer(nodes) ? json_integer_value(nodes) : 1;
    struct gpu_spec spec;

    if (json_is_integer(all ? all : node))
        return json_integer_value(all ? all : node) * (all ? 1 : count);
    if (!text || gpu_spec_parse(text, strlen(text), &spec, NULL) < 0 || spec.share < MGPU_ONE ||
        spec.count_max > spec.count)
        return 0;
    if (times && decimal_parse_i64(times, strlen(times), &count) < 0)
        return 0;
    return all ? spec.count : spec.count * count;
}

/* --ntasks-per-gpu=N: N tasks for each GPU of the job. */
static int tasks_finish(struct job_request *request, struct error *err)
{
    const char *text = slurm_value(request, "ntasks-per-gpu");
    int64_t each, gpus = gpus_told(request);

    if (!text)
        return 0;
    if (decimal_parse_i64(text, strlen(text), &each) < 0 || each < 1 || each > 1024)
        return error_set(err, -EINVAL, "--ntasks-per-gpu: expected 1 to 1024, got '%.20s'", text);
    if (json_object_get(request->tree, "tasks"))
        return error_set(err, -EINVAL, "--ntasks-per-gpu: --ntasks says how many tasks there are; give one of them");
    if (gpus < 1 || gpus * each > SLURM_TASKS_MAX)
        return error_set(err, -EINVAL, "--ntasks-per-gpu: needs a whole number of GPUs, by --gpus or --gpus-per-node");
    return json_object_set_new(request->tree, "tasks", json_integer(gpus * each)) < 0 ? no_memory(err) : 0;
}

int slurm_flags_finish(struct job_request *request, struct error *err)
{
    int r = mail_finish(request, err);

    return r < 0 ? r : tasks_finish(request, err);
}
