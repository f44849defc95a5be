/* SPDX-License-Identifier: Apache-2.0 */
/* launch.c - see launch.h. */
#include "agent/task/launch.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/util.h"
#include "base/alloc.h"

static int node_read(const json_t *place, struct launch_node *ret, struct error *err)
{
    const json_t *gpus = json_object_get(place, "gpus"), *gpu;
    size_t i;

    ret->part = (uint32_t)util_i64(place, "part", 0);
    ret->name = util_text(place, "node");
    ret->address = util_text(place, "address");
    if (!ret->name)
        return error_set(err, -EINVAL, "place: a node without name");
    if (json_array_size(gpus) > AGENT_GPUS_MAX)
        return error_set(err, -EINVAL, "place: %zu GPUs on one node", json_array_size(gpus));
    json_array_foreach(gpus, i, gpu)
    {
        json_int_t index = json_is_integer(gpu) ? json_integer_value(gpu) : -1;

        if (index < 0 || index >= AGENT_GPUS_MAX)
            return error_set(err, -EINVAL, "place: a GPU that is no index");
        ret->gpus[ret->gpu_count++] = (uint16_t)index;
    }
    return 0;
}

static int nodes_read(struct launch *launch, struct error *err)
{
    const json_t *place = json_object_get(launch->order, "place"), *node;
    size_t count = json_array_size(place), i;

    if (count == 0 || count > SUBMISSION_NODES_MAX)
        return error_set(err, -EINVAL, "place: %zu nodes", count);
    if (!launch->own && launch->id.rank >= count)
        return error_set(err, -EINVAL, "rank %u of %zu", launch->id.rank, count);
    launch->nodes = mem_zalloc(count, sizeof(*launch->nodes));
    if (!launch->nodes)
        return error_set(err, -ENOMEM, "no memory");
    json_array_foreach(place, i, node)
    {
        int r = node_read(node, &launch->nodes[i], err);

        if (r < 0)
            return r;
        launch->node_count++;
    }
    return 0;
}

static int spec_read(struct launch *launch, struct error *err)
{
    json_t *spec = json_object_get(launch->order, "spec");
    int r;

    if (!json_is_object(spec))
        return error_set(err, -EINVAL, "spec: expected an object");
    r = submission_from_value(spec, &launch->spec, err);
    return r < 0 ? error_prefix(err, r, "spec") : 0;
}

static int roles_read(struct launch *launch, struct error *err)
{
    struct role_node *nodes;
    uint32_t gpus = 0;
    int r;

    if (launch->spec.role_count == 0 || launch->own)
        return 0;
    nodes = mem_zalloc(launch->node_count, sizeof(*nodes));
    if (!nodes)
        return error_set(err, -ENOMEM, "no memory");
    for (uint32_t i = 0; i < launch->node_count; i++) {
        nodes[i] = (struct role_node){ launch->nodes[i].part, launch->nodes[i].gpu_count };
        gpus += nodes[i].gpus;
    }
    r = gpus == roles_gpus(&launch->spec) ? roles_pack(&launch->spec, nodes, launch->node_count, &launch->roles)
                                          : -EINVAL;
    mem_free(nodes);
    return r < 0 ? error_set(err, r, "place: the %u GPUs of its roles do not fit %u on %u nodes",
                             roles_gpus(&launch->spec), gpus, launch->node_count)
                 : 0;
}

void launch_beside(struct launch *launch, const json_t *order)
{
    const json_t *list = json_object_get(order, "beside");

    launch->beside_count = 0;
    for (size_t i = 0; i < json_array_size(list) && launch->beside_count < LAUNCH_BESIDE_MAX; i++)
        if (json_is_integer(json_array_get(list, i)))
            launch->beside[launch->beside_count++] = json_integer_value(json_array_get(list, i));
}

/* A secret without a value: the controller has lost the key that it was kept with. */
static int secrets_check(const json_t *order, struct error *err)
{
    const char *name;
    json_t *value;

    json_object_foreach(json_object_get(order, "secrets"), name, value) if (!json_is_string(value)) return error_set(
        err, -EINVAL,
        "the secret %.60s cannot be read: the controller has another key than when it was set; set it again", name);
    return 0;
}

int launch_read(json_t *order, struct launch *ret_launch, struct error *err)
{
    struct launch launch = {
        .order = json_incref(order),
        .id = { util_i64(order, "job", 0), (uint32_t)util_i64(order, "attempt", 0),
                (uint32_t)util_i64(order, "rank", 0) },
        .user = util_text(order, "user"),
        .vc = util_text(order, "vc"),
        .cluster = util_text(order, "cluster"),
        .uid = util_i64(order, "uid", -1),
        .gid = util_i64(order, "gid", -1),
        .array_id = util_i64(json_object_get(order, "array"), "id", 0),
        .array_index = (int32_t)util_i64(json_object_get(order, "array"), "index", 0),
        .port = (uint16_t)util_i64(order, "port", 0),
        .end = util_i64(order, "end", 0),
        .go = util_flag(order, "go"),
        .resume = util_flag(order, "resume"),
        .gate = util_flag(order, "gate"),
        .guest = util_flag(order, "guest"),
        .opportunistic = util_text(order, "class") && strcmp(util_text(order, "class"), "opportunistic") == 0,
        .runtime = util_flag(order, "runtime"),
        .tell_use = util_flag(order, "use"),
        .tell_idle = util_flag(order, "idle"),
        .limit_mib = util_i64(order, "memory_mib", 0),
        .own = util_flag(order, "own"),
    };
    int r;

    launch_beside(&launch, order);
    submission_init(&launch.spec);
    r = nodes_read(&launch, err);
    if (r == 0)
        r = secrets_check(order, err);
    if (r == 0)
        r = spec_read(&launch, err);
    if (r == 0)
        r = roles_read(&launch, err);
    if (r < 0) {
        launch_done(&launch);
        return r;
    }
    *ret_launch = launch;
    return 0;
}

int launch_forget(struct launch *launch)
{
    struct launch_node *mine;
    json_t *place, *order;

    if (launch->own || launch->node_count <= 1)
        return 0;
    mine = mem_zalloc(1, sizeof(*mine));
    order = json_copy(launch->order); /* the keys: what they mean is shared, but for the place */
    place = json_pack("[O]", json_array_get(json_object_get(launch->order, "place"), launch->id.rank));
    if (!mine || !order || !place) {
        mem_free(mine);
        json_decref(order);
        json_decref(place);
        return -ENOMEM;
    }
    *mine = launch->nodes[launch->id.rank];
    (void)json_object_set_new(order, "place", place);
    (void)json_object_set_new(order, "own", json_true());
    json_decref(launch->order);
    mem_free(launch->nodes);
    launch->order = order;
    launch->nodes = mine;
    launch->node_count = 1;
    launch->own = true;
    return 0;
}

void launch_done(struct launch *launch)
{
    submission_done(&launch->spec);
    mem_free(launch->nodes);
    mem_free(launch->roles);
    json_decref(launch->order);
    *launch = (struct launch){ 0 };
}

const struct role_task *launch_role(const struct launch *launch, uint32_t rank, uint32_t local)
{
    uint32_t count = launch->roles ? roles_tasks(&launch->spec) : 0;

    for (uint32_t i = 0; i < count; i++)
        if (launch->roles[i].node == rank && local-- == 0)
            return &launch->roles[i];
    return NULL;
}

static uint32_t role_procs(const struct launch *launch, uint32_t rank)
{
    uint32_t count = roles_tasks(&launch->spec), here = 0;

    for (uint32_t i = 0; i < count; i++)
        here += launch->roles[i].node == rank;
    return here;
}

uint32_t launch_procs(const struct launch *launch, uint32_t rank)
{
    const struct submission *s = &launch->spec;
    uint32_t gpus = launch->nodes[rank].gpu_count;

    if (launch->roles)
        return role_procs(launch, rank);
    switch (s->launch) {
    case LAUNCH_ONCE:
        return rank == 0 ? 1 : 0;
    case LAUNCH_NODE:
        return 1;
    case LAUNCH_TASK:
        break;
    case LAUNCH_MODES:
        return 1;
    }
    if (s->tasks_per_node > 0)
        return (uint32_t)s->tasks_per_node;
    if (s->tasks > 0) /* in blocks, the first nodes have one more */
        return (uint32_t)s->tasks / launch->node_count + (rank < (uint32_t)s->tasks % launch->node_count ? 1 : 0);
    return gpus ? gpus * launch_splice(launch) : 1;
}

uint32_t launch_splice(const struct launch *launch)
{
    const struct submission *s = &launch->spec;
    uint32_t all = 0;

    for (uint32_t i = 0; i < launch->node_count; i++)
        all += launch->nodes[i].gpu_count;
    if (s->splice < 2 || s->gpus_per_node || s->nodes || !all || (uint32_t)s->gpus % all)
        return 1;
    return (uint32_t)s->gpus / all;
}

uint32_t launch_first(const struct launch *launch, uint32_t rank)
{
    uint32_t first = 0;

    for (uint32_t i = 0; i < rank; i++)
        first += launch_procs(launch, i);
    return first;
}

uint32_t launch_world(const struct launch *launch)
{
    return launch_first(launch, launch->node_count);
}

static void pattern_put(struct buf *out, const struct launch *launch, char letter, const char *node, uint32_t task)
{
    switch (letter) {
    case 'j':
        buf_printf(out, "%lld", (long long)launch->id.job);
        break;
    case 'x':
        buf_text(out, launch->spec.name ? launch->spec.name : "job");
        break;
    case 'a':
        buf_printf(out, "%d", launch->array_index);
        break;
    case 'A':
        buf_printf(out, "%lld", (long long)(launch->array_id ? launch->array_id : launch->id.job));
        break;
    case 'N':
        buf_text(out, node);
        break;
    case 't':
        buf_printf(out, "%u", task);
        break;
    case 'n':
        buf_printf(out, "%u", launch->id.attempt);
        break;
    case '%':
        buf_char(out, '%');
        break;
    default:
        buf_printf(out, "%%%c", letter);
    }
}

char *launch_output(const struct launch *launch, const char *pattern, const char *node, uint32_t task)
{
    CLEANUP_BUF struct buf out = BUF_INIT(4096);
    struct bytes bytes = { 0 };

    if (pattern[0] != '/')
        buf_printf(&out, "%s/", launch->spec.dir ? launch->spec.dir : "");
    for (const char *p = pattern; *p; p++)
        if (*p == '%' && p[1])
            pattern_put(&out, launch, *++p, node, task);
        else
            buf_char(&out, *p);
    buf_char(&out, '\0');
    return buf_take(&out, &bytes, NULL) < 0 ? NULL : bytes.data;
}
