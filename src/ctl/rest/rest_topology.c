/* SPDX-License-Identifier: Apache-2.0 */
/* rest_topology.c - every GPU at once, for a picture of the cluster: GET /topology.
 *
 * Thousands of GPUs are asked for every few seconds by whoever looks at them, so that they are written as columns of a
 * node and not as objects: a letter each for the state, a number each for what they measure and whose they are. Jobs
 * are told once, and referred to by their number.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "core/ledger/ledger.h"
#include "ctl/rest/rest.h"

/* Jobs by GPU: which job a node's GPU carries, and how many more. */
struct carried {
    int64_t *jobs; /* by node, then GPU; 0 = none */
    uint8_t *more;
    size_t *first; /* of each node, in these */
    size_t count;
};

static int carried_fill(struct carried *c, const struct registry *registry)
{
    size_t n = 0;

    *c = (struct carried){ .first = mem_zalloc(registry->node_count + 1, sizeof(*c->first)) };
    for (size_t i = 0; c->first && i < registry->node_count; i++) {
        c->first[i] = n;
        n += registry->nodes[i].gpu_count;
    }
    c->count = n;
    c->jobs = mem_zalloc(n + 1, sizeof(*c->jobs));
    c->more = mem_zalloc(n + 1, sizeof(*c->more));
    if (!c->first || !c->jobs || !c->more)
        return -1;
    for (size_t i = 0; i < registry->live_count; i++) {
        const struct ctl_job *job = registry->live[i];
        const struct ctl_attempt *attempt = job->phase == PHASE_JOB_PENDING ? NULL : attempt_last(job);

        for (uint32_t t = 0; attempt && !attempt->ended && t < attempt->task_count; t++) {
            const struct ctl_task *task = &attempt->tasks[t];

            for (uint16_t g = 0; g < task->gpu_count; g++) {
                size_t at;

                if (task->node >= registry->node_count || task->gpus[g] >= registry->nodes[task->node].gpu_count)
                    continue;
                at = c->first[task->node] + task->gpus[g];
                if (c->jobs[at] == 0)
                    c->jobs[at] = job->id;
                else if (c->more[at] < UINT8_MAX)
                    c->more[at]++;
            }
        }
    }
    return 0;
}

static void carried_done(struct carried *c)
{
    mem_free(c->jobs);
    mem_free(c->more);
    mem_free(c->first);
}

/* f free, u used, s shared, r reserved, d drained, x out of order, o used by others; - its node does not answer. */
static char letter_of(const struct scene *scene, const struct ctl_node *node, uint32_t gpu)
{
    const char *state = gpu_state_text(scene, node, gpu);

    if (node->lost || node->silent)
        return '-';
    return strcmp(state, "unhealthy") == 0 ? 'x' : strcmp(state, "foreign") == 0 ? 'o' : state[0];
}

static const char *label_of(const struct ctl_node *node, const char *key)
{
    const char *text = inventory_label(&node->inventory, key);

    return text ? text : "";
}

static int64_t one_or(int64_t number)
{
    return number > 0 ? number : 1;
}

static void node_put(const struct scene *scene, struct json_write *json, uint32_t number, const struct carried *c)
{
    const struct ctl_node *node = &scene->registry->nodes[number];
    char letters[NODE_GPUS_MAX + 1];
    struct node_use use;

    node_use(scene, node, &use);
    json_write_object(json, NULL);
    json_write_text(json, "name", node_name(scene, number));
    json_write_text(json, "state", node_state(node, &use));
    json_write_text(json, "rack", label_of(node, "rack"));
    json_write_text(json, "domain", label_of(node, "domain"));
    json_write_text(json, "sku", node->inventory.sku);
    json_write_i64(json, "memory_mib", one_or(node->inventory.memory_mib));
    json_write_i64(json, "sockets", one_or(node->inventory.sockets));
    json_write_i64(json, "groups", one_or(node->inventory.groups));
    for (uint32_t g = 0; g < node->gpu_count; g++)
        letters[g] = letter_of(scene, node, g);
    letters[node->gpu_count] = '\0';
    json_write_text(json, "gpus", letters);
    json_write_array(json, "jobs");
    for (uint32_t g = 0; g < node->gpu_count; g++)
        json_write_i64(json, NULL, c->jobs[c->first[number] + g]);
    json_write_close(json);
    json_write_array(json, "more");
    for (uint32_t g = 0; g < node->gpu_count; g++)
        if (c->more[c->first[number] + g])
            json_write_i64(json, NULL, g);
    json_write_close(json);
    json_write_array(json, "util");
    for (uint32_t g = 0; g < node->gpu_count; g++)
        json_write_i64(json, NULL, node->gpus[g].util);
    json_write_close(json);
    json_write_array(json, "memory_used_mib");
    for (uint32_t g = 0; g < node->gpu_count; g++)
        json_write_i64(json, NULL, node->gpus[g].memory_mib);
    json_write_close(json);
    json_write_close(json);
}

/* Whether the job runs beyond what its virtual cluster is owed. */
static bool job_borrows(const struct scene *scene, const struct ctl_job *job)
{
    const struct job *in_core;

    if (!scene->core || !job_in_core(job) || job->slot >= core_job_top(scene->core))
        return false;
    in_core = core_job(scene->core, job->slot);
    return in_core->borrowed || in_core->klass == CLASS_OPPORTUNISTIC;
}

static void job_put(struct scene *scene, struct json_write *json, const struct ctl_job *job)
{
    json_write_object(json, NULL);
    json_write_i64(json, "id", job->id);
    put_array(scene, json, job);
    if (job->spec->name && render_names(scene, job))
        json_write_text(json, "name", job->spec->name);
    else
        json_write_null(json, "name");
    json_write_text(json, "user", user_name(scene, job->user));
    json_write_text(json, "vc", vc_name(scene, job->vc));
    json_write_i64(json, "gpus", jobspec_gpus(&job->wants));
    json_write_bool(json, "borrowed", job_borrows(scene, job));
    json_write_close(json);
}

struct placed {
    uint32_t core, node;
};

static int placed_order(const void *a, const void *b)
{
    const struct placed *x = a, *y = b;

    return x->core != y->core ? (x->core < y->core ? -1 : 1) : x->node < y->node ? -1 : x->node > y->node;
}

/* Nodes as the cluster has them: by domain, rack and name; those that are not part of it last. */
static void nodes_put(const struct scene *scene, struct json_write *json, const struct carried *c)
{
    struct placed *order = mem_zalloc(scene->registry->node_count + 1, sizeof(*order));
    size_t n = 0;

    json_write_array(json, "items");
    for (uint32_t i = 0; order && i < scene->registry->node_count; i++)
        if (!scene->registry->nodes[i].forgotten && scene->registry->nodes[i].joined)
            order[n++] = (struct placed){ scene->registry->nodes[i].core_node, i };
    if (order)
        qsort(order, n, sizeof(*order), placed_order);
    for (size_t i = 0; i < n; i++)
        node_put(scene, json, order[i].node, c);
    json_write_close(json);
    mem_free(order);
}

void rest_topology(struct request *request)
{
    struct buf out = BUF_INIT((size_t)64 << 20);
    struct carried carried;
    struct json_write json;
    struct scene scene;

    scene_fill(&scene, request);
    if (carried_fill(&carried, scene.registry) < 0) {
        carried_done(&carried);
        reply_problem(request, 503, "Busy", NULL, "out of memory");
        return;
    }
    json_write_init(&json, &out, false);
    json_write_object(&json, NULL);
    json_write_text(&json, "apiVersion", "v1");
    json_write_text(&json, "kind", "Topology");
    put_time(&json, "time", scene.now);
    nodes_put(&scene, &json, &carried);
    json_write_array(&json, "jobs");
    for (size_t i = 0; i < scene.registry->live_count; i++) {
        const struct ctl_job *job = scene.registry->live[i];

        if (job->phase != PHASE_JOB_PENDING && attempt_last(job) && !attempt_last(job)->ended &&
            render_shows(&scene, job))
            job_put(&scene, &json, job);
    }
    json_write_close(&json);
    json_write_close(&json);
    carried_done(&carried);
    reply_buf(request, 200, &out);
}
