/* SPDX-License-Identifier: Apache-2.0 */
/* render_scene.c - who looks at what: the fields that were asked for, names behind numbers, times as text. */
#include <errno.h>
#include <string.h>

#include "core/ledger/host_resources.h"
#include "core/ledger/ledger.h"
#include "ctl/rest/render/render.h"
#include "wire/text/duration.h"

static const char *const field_names[JOB_FIELD_COUNT] = {
#define X(code, name) [FIELD_##code] = name,
    JOB_FIELDS(X)
#undef X
};

void scene_of(struct scene *scene, struct server *server)
{
    static const struct principal everybody = { .role = ROLE_ADMIN, .via = "self" };
    struct ctl *ctl = batcher_ctl(server->batcher);

    *scene = (struct scene){
        .server = server,
        .registry = ctl_registry(ctl),
        .cluster = ctl_cluster(ctl),
        .core = ctl_core(ctl),
        .who = &everybody,
        .now = server->conf->virtual_time ? ctl_now(ctl) : clock_now(),
        .fields = JOB_FIELDS_ALL,
    };
}

void scene_fill(struct scene *scene, const struct request *request)
{
    scene_of(scene, request_server(request));
    scene->who = &request->who;
}

/* Programs ask for the same fields again and again: the last few lists are known by their text, as it was sent. */
enum { LISTS_KNOWN = 4, LIST_BYTES = 192 };

static struct {
    char text[LIST_BYTES];
    size_t size;
    uint64_t bits; /* 0: none here */
} lists[LISTS_KNOWN];

static uint64_t list_find(const char *text, size_t size)
{
    for (size_t i = 0; i < LISTS_KNOWN; i++)
        if (lists[i].size == size && lists[i].bits && memcmp(lists[i].text, text, size) == 0)
            return lists[i].bits;
    return 0;
}

static void list_keep(const char *text, size_t size, uint64_t bits)
{
    static size_t next;

    if (size > LIST_BYTES || !bits)
        return;
    memcpy(lists[next].text, text, size);
    lists[next].size = size;
    lists[next].bits = bits;
    next = (next + 1) % LISTS_KNOWN;
}

int scene_fields(struct scene *scene, struct request *request, uint64_t standard)
{
    const char *sent = NULL;
    char text[1024];
    uint64_t bits = 0;
    size_t size = 0;
    int r;

    scene->fields = standard;
    scene->eta = query_flag(request, "eta");
    if (http_query_find(request->query, "fields", 0, &sent, &size))
        bits = list_find(sent, size);
    if (bits) {
        scene->fields = bits;
        return 0;
    }
    r = query_word(request, "fields", text, sizeof(text));
    if (r <= 0)
        return r;
    for (char *save = NULL, *word = strtok_r(text, ",", &save); word; word = strtok_r(NULL, ",", &save)) {
        int field = -1;

        for (int i = 0; i < JOB_FIELD_COUNT && field < 0; i++)
            if (field_names[i][0] == word[0] && strcmp(field_names[i], word) == 0)
                field = i;
        if (field < 0) {
            reply_problem(request, 400, "BadRequest", NULL, "fields: there is no '%.40s'", word);
            return -EINVAL;
        }
        bits |= FIELD_BIT(field);
    }
    list_keep(sent, size, bits);
    scene->fields = bits ? bits : standard;
    return 0;
}

/* Times of one list are near each other: the part down to the second is kept from one to the next. */
void put_time(struct json_write *json, const char *key, usec_t at)
{
    static char text[64];
    static usec_t last = -1;
    static size_t length;
    usec_t micro = at % USEC_SEC;

    if (at <= 0) {
        json_write_null(json, key);
        return;
    }
    if (at / USEC_SEC != last) {
        struct buf out = BUF_INIT(64);

        instant_put(&out, at);
        if (out.error || out.size < 27 || out.size > 60) {
            buf_done(&out);
            json_write_null(json, key);
            return;
        }
        text[0] = '"';
        memcpy(text + 1, out.data, out.size);
        text[out.size + 1] = '"';
        length = out.size + 2;
        buf_done(&out);
        last = at / USEC_SEC;
    }
    for (size_t i = 0; i < 6; i++, micro /= 10)
        text[length - 3 - i] = (char)('0' + micro % 10);
    json_write_raw(json, key, text, length);
}

const char *vc_name(const struct scene *scene, uint32_t vc)
{
    return vc < scene->cluster->vc_count ? names_get(&scene->cluster->names, scene->cluster->vcs[vc].name) : "";
}

const char *user_name(const struct scene *scene, uint32_t user)
{
    return names_get(&scene->registry->users, user);
}

const char *node_name(const struct scene *scene, uint32_t node)
{
    return node < scene->registry->node_count
               ? names_get(&scene->registry->node_names, scene->registry->nodes[node].name)
               : "";
}

bool render_shows(const struct scene *scene, const struct ctl_job *job)
{
    return scene->server->conf->privacy != PRIVACY_NONE || auth_sees(scene->who, scene->registry, job, scene->cluster);
}

bool render_names(const struct scene *scene, const struct ctl_job *job)
{
    return scene->server->conf->privacy == PRIVACY_NAMES || auth_sees(scene->who, scene->registry, job, scene->cluster);
}

int64_t scene_free(const struct scene *scene, const struct ctl_job *job, uint32_t *ret_reserved)
{
    const struct topo *topo = scene->core ? &core_ledger(scene->core)->topo : NULL;
    const struct jobspec *wants = &job->wants;
    bool chooses = topo && (topo->kept_count || wants->mark || wants->kept);
    int64_t count = 0;

    *ret_reserved = 0;
    if (!topo || wants->share != MGPU_ONE || wants->side_count)
        return job->reason_free;
    for (uint32_t sku = 0; !chooses && sku < topo->sku_count; sku++)
        if ((wants->sku_mask == 0 || wants->sku_mask >> sku & 1) && topo->sku_pools[sku] < topo->pool_count)
            count += topo->pools[topo->sku_pools[sku]].free;
    for (uint32_t n = 0; chooses && n < topo->node_count; n++) {
        const struct node *node = &topo->nodes[n];

        if (!node->up || (wants->sku_mask && !(wants->sku_mask >> node->sku & 1)))
            continue;
        if (node_allows(node, wants->mark, wants->kept))
            count += node->free;
        else if (node->kept && node->kept != wants->kept)
            *ret_reserved += node->free;
    }
    return count * MGPU_ONE;
}

int64_t scene_free_own(const struct scene *scene, const struct ctl_job *job)
{
    const struct vc *vc = scene->core && job->vc < core_vc_count(scene->core) ? core_vc(scene->core, job->vc) : NULL;
    const struct jobspec *wants = &job->wants;
    int64_t count = 0;

    if (!vc || !vc->own || wants->klass == CLASS_OPPORTUNISTIC || wants->kept)
        return -1;
    for (uint32_t sku = 0; sku < vc->own->topo.sku_count; sku++)
        if ((wants->sku_mask == 0 || wants->sku_mask >> sku & 1) &&
            vc->own->topo.sku_pools[sku] < vc->own->topo.pool_count)
            count += vc->own->topo.pools[vc->own->topo.sku_pools[sku]].free;
    return count * MGPU_ONE;
}
