/* SPDX-License-Identifier: Apache-2.0 */
/* render_node.c - nodes, GPUs and virtual clusters as JSON. What is used is the ledger's word. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "core/ledger/host_resources.h"
#include "core/ledger/ledger.h"
#include "core/planning/priority.h"
#include "ctl/insight/watch.h"
#include "ctl/rest/render/render.h"

enum gpu_state { GPU_FREE, GPU_USED, GPU_SHARED, GPU_RESERVED, GPU_DRAINED, GPU_UNHEALTHY, GPU_FOREIGN, GPU_STATES };

static const char *const gpu_states[GPU_STATES] = { "free",    "used",      "shared", "reserved",
                                                    "drained", "unhealthy", "foreign" };

/* The GPU of the core; NULL: the node is not in it. */
static const struct gpu *gpu_core(const struct scene *scene, const struct ctl_node *node, uint32_t index)
{
    const struct ledger *ledger = scene->core ? core_ledger(scene->core) : NULL;

    if (!ledger || node->core_node >= ledger->topo.node_count || index >= ledger->topo.nodes[node->core_node].gpus)
        return NULL;
    return &ledger->gpus[ledger->topo.nodes[node->core_node].first_gpu + index];
}

static enum gpu_state gpu_state_of(const struct scene *scene, const struct ctl_node *node, uint32_t index)
{
    const struct ctl_gpu *gpu = &node->gpus[index];
    const struct gpu *in_core = gpu_core(scene, node, index);
    mgpu_t held = in_core ? in_core->used + in_core->leaving : 0;

    if (held >= MGPU_ONE)
        return GPU_USED;
    if (held > 0 || (in_core && in_core->guests))
        return GPU_SHARED;
    if (!gpu->ok)
        return GPU_UNHEALTHY;
    if (gpu->drained || node->drained)
        return GPU_DRAINED;
    if (gpu->foreign)
        return GPU_FOREIGN;
    return in_core && in_core->reserved_for != JOB_NONE ? GPU_RESERVED : GPU_FREE;
}

bool gpu_in_use(const struct scene *scene, const struct ctl_node *node, uint32_t index)
{
    enum gpu_state state = gpu_state_of(scene, node, index);

    return state == GPU_USED || state == GPU_SHARED;
}

const char *gpu_state_text(const struct scene *scene, const struct ctl_node *node, uint32_t index)
{
    return gpu_states[gpu_state_of(scene, node, index)];
}

uint32_t node_sku(const struct scene *scene, const struct ctl_node *node)
{
    const char *type = node->inventory.sku;

    for (uint32_t s = 0; type && s < scene->cluster->sku_count; s++)
        if (strcmp(type, names_get(&scene->cluster->names, scene->cluster->skus[s].name)) == 0)
            return s;
    return UINT32_MAX;
}

uint32_t largest_gang(const struct scene *scene, uint32_t sku)
{
    const struct topo *topo = scene->core ? &core_ledger(scene->core)->topo : NULL;
    uint32_t free;

    if (!topo || sku >= topo->sku_count || topo->sku_pools[sku] == POOL_NONE)
        return 0;
    free = topo->pools[topo->sku_pools[sku]].free;
    for (uint32_t n = 0; topo->kept_count && n < topo->node_count; n++) /* reserved: not for everybody */
        if (topo->nodes[n].sku == sku && topo->nodes[n].up && topo->nodes[n].kept)
            free -= topo->nodes[n].free;
    return free;
}

bool node_open(const struct scene *scene, const struct ctl_node *node, const struct jobspec *wants)
{
    const struct topo *topo = scene->core ? &core_ledger(scene->core)->topo : NULL;
    bool bare = wants->gpus == 0 && wants->sku_mask == 0;

    return topo && node->core_node < (bare ? topo->host_count : topo->node_count) &&
           node_allows(&topo->nodes[node->core_node], wants->mark, wants->kept);
}

/* Jobs without GPUs, as the core has them there. */
static void node_tasks(const struct scene *scene, const struct ctl_node *node, struct node_use *ret)
{
    const struct ledger *ledger = scene->core ? core_ledger(scene->core) : NULL;
    const struct host *host;

    if (!ledger || !ledger->hosts || node->core_node >= ledger->topo.host_count)
        return;
    host = &ledger->hosts[node->core_node];
    ret->tasks = host->first != HOLD_NONE;
    ret->full = host->held.mcpus + host->parting.mcpus >= host->tasks.mcpus;
}

void node_use(const struct scene *scene, const struct ctl_node *node, struct node_use *ret)
{
    *ret = (struct node_use){ .total = node->gpu_count };
    node_tasks(scene, node, ret);
    for (uint32_t i = 0; i < node->gpu_count; i++) {
        ret->drained += node->drained || node->gpus[i].drained;
        ret->unhealthy += !node->gpus[i].ok;
        switch (gpu_state_of(scene, node, i)) {
        case GPU_USED:
        case GPU_SHARED:
            ret->used++;
            break;
        case GPU_FREE:
        case GPU_RESERVED:
            if (node->lost || node->silent)
                ret->down++;
            else
                ret->free++;
            break;
        case GPU_FOREIGN:
            ret->foreign++;
            break;
        case GPU_DRAINED:
        case GPU_UNHEALTHY:
            ret->down++;
            break;
        case GPU_STATES:
            break;
        }
    }
}

/* Of late; refused agents come back sooner. */
bool node_refused_rival(const struct scene *scene, const struct ctl_node *node)
{
    return node->rival && scene->now - node->rival < USEC_MIN;
}

static const char *const reboots[] = { [REBOOT_NONE] = "", [REBOOT_WANTED] = "wanted", [REBOOT_ORDERED] = "ordered" };

const char *node_state(const struct ctl_node *node, const struct node_use *use)
{
    if (!node->joined)
        return "unknown";
    if (node->reboot == REBOOT_ORDERED)
        return "maint";
    if (node->lost || node->silent)
        return "down";
    if (node->drained)
        return use->used || use->tasks ? "draining" : "drain";
    if (use->total == 0 && use->tasks)
        return use->full ? "alloc" : "mixed";
    if (use->used == 0)
        return "idle";
    return use->free ? "mixed" : "alloc";
}

static void put_jobs(const struct scene *scene, struct json_write *json, const struct ctl_node *node, int gpu)
{
    uint32_t number = (uint32_t)(node - scene->registry->nodes);

    json_write_array(json, "jobs");
    for (size_t i = 0; i < scene->registry->live_count; i++) {
        const struct ctl_job *job = scene->registry->live[i];
        const struct ctl_attempt *attempt = attempt_last(job);

        if (!attempt || attempt->ended || job->phase == PHASE_JOB_PENDING || !render_shows(scene, job))
            continue;
        for (uint32_t t = 0; t < attempt->task_count; t++) {
            const struct ctl_task *task = &attempt->tasks[t];
            bool on = task->node == number && gpu < 0;

            for (uint16_t g = 0; task->node == number && g < task->gpu_count; g++)
                on |= task->gpus[g] == gpu;
            if (on) {
                json_write_i64(json, NULL, job->id);
                break;
            }
        }
    }
    json_write_close(json);
}

static void put_known(struct json_write *json, const char *key, const char *text)
{
    if (text)
        json_write_text(json, key, text);
    else
        json_write_null(json, key);
}

void render_gpu(const struct scene *scene, struct json_write *json, const struct ctl_node *node, uint32_t index)
{
    const struct ctl_gpu *gpu = &node->gpus[index];
    const struct inventory *inventory = &node->inventory;

    json_write_object(json, NULL);
    json_write_i64(json, "index", index);
    put_known(json, "uuid", index < inventory->gpu_count ? inventory->gpus[index].uuid : NULL);
    json_write_text(json, "state", gpu_states[gpu_state_of(scene, node, index)]);
    json_write_text(json, "reason", gpu->reason);
    json_write_i64(json, "util", gpu->util);
    json_write_i64(json, "memory_used_mib", gpu->memory_mib);
    json_write_i64(json, "power_watts", gpu->power);
    json_write_i64(json, "temperature_celsius", gpu->temp);
    put_jobs(scene, json, node, (int)index);
    json_write_close(json);
}

static int by_name(const void *x, const void *y)
{
    return strcmp(((const struct inventory_label *)x)->name, ((const struct inventory_label *)y)->name);
}

/* Those of its own with those that people gave it, which count more. */
static void put_labels(const struct scene *scene, struct json_write *json, const struct ctl_node *node)
{
    const struct change_list *own = labels_find(scene->registry, node->name);
    const struct inventory *inventory = &node->inventory;
    size_t given = own ? own->count : 0, count = 0;
    struct inventory_label *all = mem_zalloc(given + inventory->label_count + 1, sizeof(*all));

    if (!all || (!inventory->labelled && !own)) {
        json_write_null(json, "labels");
        mem_free(all);
        return;
    }
    for (size_t i = 0; i < given; i++)
        all[count++] = (struct inventory_label){ own->items[i].name, own->items[i].text };
    for (size_t i = 0, k; i < inventory->label_count; i++) {
        for (k = 0; k < given && strcmp(all[k].name, inventory->labels[i].name) != 0; k++)
            ;
        if (k == given)
            all[count++] = inventory->labels[i];
    }
    qsort(all, count, sizeof(*all), by_name);
    json_write_object(json, "labels");
    for (size_t i = 0; i < count; i++)
        json_write_text(json, all[i].name, all[i].text);
    json_write_close(json);
    mem_free(all);
}

static void put_told(struct json_write *json, const char *key, int64_t number)
{
    if (number == INVENTORY_NOT_TOLD)
        json_write_null(json, key);
    else
        json_write_i64(json, key, number);
}

static void put_inventory(const struct scene *scene, struct json_write *json, const struct ctl_node *node)
{
    const struct inventory *inventory = &node->inventory;

    put_labels(scene, json, node);
    put_known(json, "sku", inventory->sku);
    put_told(json, "cpus", inventory->cpus);
    put_told(json, "memory_bytes", inventory->memory_bytes);
    for (int i = 0; i < INVENTORY_WORDS; i++) {
        const char *words = inventory->words[i] ? inventory->words[i] : "null";

        json_write_raw(json, inventory_word_name((enum inventory_word)i), words, strlen(words));
    }
}

/* The reservation that has the node now. */
static void put_reservation(const struct scene *scene, struct json_write *json, const struct ctl_node *node)
{
    for (each_record(const struct ctl_resv, resv, &scene->registry->kept.resvs)) {
        if (resv_active(resv, scene->now) && resv_has(resv, names_get(&scene->registry->node_names, node->name))) {
            json_write_text(json, "reservation", resv->name);
            return;
        }
    }
    json_write_null(json, "reservation");
}

/* Whatever else is with them: a drained node may be in the best of health. */
void render_node(const struct scene *scene, struct json_write *json, const struct ctl_node *node, bool whole)
{
    struct node_use use;

    node_use(scene, node, &use);
    json_write_object(json, NULL);
    if (whole) {
        json_write_text(json, "apiVersion", "v1");
        json_write_text(json, "kind", "Node");
    }
    json_write_text(json, "name", names_get(&scene->registry->node_names, node->name));
    json_write_text(json, "state", node_state(node, &use));
    json_write_i64(json, "gpus", use.total);
    json_write_i64(json, "gpus_used", use.used);
    json_write_i64(json, "gpus_free", use.free);
    json_write_i64(json, "gpus_down", use.down);
    json_write_i64(json, "gpus_unhealthy", use.unhealthy);
    json_write_i64(json, "gpus_drained", use.drained);
    json_write_i64(json, "foreign", use.foreign);
    put_inventory(scene, json, node);
    json_write_text(json, "address", node->address);
    json_write_text(json, "version", node->version);
    json_write_bool(json, "connected", node->connected);
    put_time(json, "seen_time", node->seen);
    put_reservation(scene, json, node);
    json_write_text(json, "drain_reason", node->drain_reason);
    put_time(json, "drain_deadline", node->drain_deadline);
    put_time(json, "resume_time", node->rest_until);
    json_write_text(json, "reason",
                    node->reboot == REBOOT_ORDERED    ? "it is being started anew"
                    : node->lost                      ? "its jobs were given up"
                    : node->silent                    ? "silent"
                    : node_refused_rival(scene, node) ? "another agent of this name is refused"
                                                      : node->drain_reason);
    json_write_text(json, "reboot", reboots[node->reboot]);
    if (whole) {
        json_write_array(json, "gpu_list");
        for (uint32_t i = 0; i < node->gpu_count; i++)
            render_gpu(scene, json, node, i);
        json_write_close(json);
        put_jobs(scene, json, node, -1);
    }
    json_write_close(json);
}

struct sku_use {
    int64_t total, used, free, down, foreign, drained, unhealthy, biggest_node;
};

static void sku_use(const struct scene *scene, uint32_t sku, struct sku_use *ret)
{
    const char *name = names_get(&scene->cluster->names, scene->cluster->skus[sku].name);

    *ret = (struct sku_use){ 0 };
    for (size_t i = 0; i < scene->registry->node_count; i++) {
        const struct ctl_node *node = &scene->registry->nodes[i];
        const char *type = node->inventory.sku;
        struct node_use use;

        if (node->forgotten || !type || strcmp(type, name) != 0)
            continue;
        node_use(scene, node, &use);
        ret->total += use.total;
        ret->used += use.used;
        ret->free += use.free;
        ret->down += use.down;
        ret->foreign += use.foreign;
        ret->drained += use.drained;
        ret->unhealthy += use.unhealthy;
        if (use.free > ret->biggest_node)
            ret->biggest_node = use.free;
    }
}

void render_gpu_summary(const struct scene *scene, struct json_write *json)
{
    for (uint32_t sku = 0; sku < scene->cluster->sku_count; sku++) {
        struct sku_use use;

        sku_use(scene, sku, &use);
        json_write_object(json, NULL);
        json_write_text(json, "sku", names_get(&scene->cluster->names, scene->cluster->skus[sku].name));
        json_write_i64(json, "total", use.total);
        json_write_i64(json, "used", use.used);
        json_write_i64(json, "free", use.free);
        json_write_i64(json, "down", use.down);
        json_write_i64(json, "foreign", use.foreign);
        json_write_i64(json, "drained", use.drained);
        json_write_i64(json, "unhealthy", use.unhealthy);
        json_write_i64(json, "biggest_node", use.biggest_node);
        json_write_i64(json, "biggest_gang", largest_gang(scene, sku));
        json_write_object(json, "vcs");
        for (uint32_t v = 0; scene->core && v < core_vc_count(scene->core); v++) {
            const struct vc *vc = core_vc(scene->core, v);
            int64_t room = vc->borrow_max < 0 ? use.free * MGPU_ONE : vc->borrow_max - vc->borrowed;

            json_write_object(json, vc_name(scene, v));
            json_write_i64(json, "guarantee", vc->quota[sku] / MGPU_ONE);
            json_write_i64(json, "used", vc->used[sku] / MGPU_ONE);
            json_write_i64(json, "can_borrow", room < 0 ? 0 : room / MGPU_ONE < use.free ? room / MGPU_ONE : use.free);
            json_write_close(json);
        }
        json_write_close(json);
        json_write_close(json);
    }
}

static void put_by_sku(const struct scene *scene, struct json_write *json, const char *key, const int64_t *amounts)
{
    json_write_object(json, key);
    for (uint32_t sku = 0; sku < scene->cluster->sku_count; sku++)
        json_write_double(json, names_get(&scene->cluster->names, scene->cluster->skus[sku].name),
                          (double)amounts[sku] / MGPU_ONE);
    json_write_close(json);
}

const char *policy_now(const struct server *server)
{
    const char *name = setting_text(setting_find(ctl_settings(batcher_ctl(server->batcher)), "policy"));

    return name ? name : server->conf->policy;
}

int64_t vc_lent(const struct scene *scene, uint32_t number, uint32_t sku)
{
    const struct ledger *ledger = core_ledger(scene->core);
    int64_t owed = 0, idle = 0, taken = 0, own = 0, total = 0;

    for (uint32_t v = 0; v < core_vc_count(scene->core); v++) {
        const struct vc *vc = core_vc(scene->core, v);
        int64_t left = vc->quota[sku] > vc->used[sku] ? vc->quota[sku] - vc->used[sku] : 0;

        owed += vc->quota[sku];
        idle += left;
        taken += vc->guest[sku] + (vc->used[sku] > vc->quota[sku] ? vc->used[sku] - vc->quota[sku] : 0);
        if (v == number)
            own = left;
    }
    if (ledger->topo.sku_pools[sku] != POOL_NONE)
        total = (int64_t)ledger->topo.pools[ledger->topo.sku_pools[sku]].total * MGPU_ONE;
    taken -= total > owed ? total - owed : 0;
    taken = taken < idle ? taken : idle;
    return taken > 0 && idle > 0 ? muldiv_floor(taken, own, idle) : 0;
}

void vc_sum(const struct scene *scene, uint32_t number, struct vc_sum *ret)
{
    const struct vc *vc = core_vc(scene->core, number);

    *ret = (struct vc_sum){ .borrowed = vc->borrowed };
    for (size_t i = 0; i < scene->registry->live_count; i++) {
        const struct ctl_job *job = scene->registry->live[i];

        if (job->vc != number)
            continue;
        if (job->phase == PHASE_JOB_PENDING) {
            ret->pending_jobs++;
            ret->pending_gpus += jobspec_gpus(&job->wants);
        } else {
            ret->running_jobs++;
        }
    }
    for (uint32_t sku = 0; sku < scene->cluster->sku_count; sku++) {
        ret->guaranteed += vc->quota[sku];
        ret->used += vc->used[sku];
        ret->oppo += vc->guest[sku];
        ret->lent += vc_lent(scene, number, sku);
    }
    ret->limit = vc->borrow_max < 0 ? -1 : ret->guaranteed + vc->borrow_max;
}

bool vc_open(const struct scene *scene, uint32_t vc)
{
    return !settings_closed(ctl_settings(batcher_ctl(scene->server->batcher)), vc_name(scene, vc));
}

/* What it has of others and others have of it, by type. */
static void put_moved(const struct scene *scene, struct json_write *json, uint32_t number)
{
    const struct vc *vc = core_vc(scene->core, number);
    int64_t borrowed[SKUS_MAX], lent[SKUS_MAX];

    for (uint32_t sku = 0; sku < scene->cluster->sku_count; sku++) {
        borrowed[sku] = vc->used[sku] > vc->quota[sku] ? vc->used[sku] - vc->quota[sku] : 0;
        lent[sku] = vc_lent(scene, number, sku);
    }
    put_by_sku(scene, json, "borrowed_by_sku", borrowed);
    put_by_sku(scene, json, "lent_by_sku", lent);
}

void render_vc(const struct scene *scene, struct json_write *json, uint32_t number, const char *kind)
{
    const struct vc *vc = core_vc(scene->core, number);
    const struct vc_spec *spec = &scene->cluster->vcs[number];
    struct vc_sum sum;

    vc_sum(scene, number, &sum);
    json_write_object(json, NULL);
    if (kind) {
        json_write_text(json, "apiVersion", "v1");
        json_write_text(json, "kind", kind);
    }
    json_write_text(json, "name", vc_name(scene, number));
    json_write_text(json, "policy",
                    spec->policy == NAME_NONE ? policy_now(scene->server)
                                              : names_get(&scene->cluster->names, spec->policy));
    put_by_sku(scene, json, "guarantee", vc->quota);
    put_by_sku(scene, json, "used", vc->used);
    put_by_sku(scene, json, "opportunistic", vc->guest);
    json_write_double(json, "borrowed", (double)sum.borrowed / MGPU_ONE);
    json_write_double(json, "lent", (double)sum.lent / MGPU_ONE);
    put_moved(scene, json, number);
    json_write_i64(json, "pending_gpus", sum.pending_gpus);
    json_write_i64(json, "pending_jobs", sum.pending_jobs);
    json_write_i64(json, "running_jobs", sum.running_jobs);
    if (vc->borrow_max < 0)
        json_write_null(json, "borrow_max");
    else
        json_write_double(json, "borrow_max", (double)vc->borrow_max / MGPU_ONE);
    if (vc->user_max == 0)
        json_write_null(json, "user_max");
    else
        json_write_double(json, "user_max", (double)vc->user_max / MGPU_ONE);
    json_write_i64(json, "min_runtime_seconds", spec->min_runtime / USEC_SEC);
    json_write_text(json, "priorities",
                    spec->priorities == PRIORITIES_UNTOLD && priority_strict(scene->core, vc)
                        ? vc_priorities_names[PRIORITIES_STRICT]
                    : spec->priorities == PRIORITIES_UNTOLD ? vc_priorities_names[PRIORITIES_WEIGHTS]
                                                            : vc_priorities_names[spec->priorities]);
    json_write_double(json, "share", sum.guaranteed ? (double)sum.used / (double)sum.guaranteed : 0.0);
    json_write_double(json, "share_7d", watch_share(scene, number));
    json_write_close(json);
}
