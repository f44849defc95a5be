/* SPDX-License-Identifier: Apache-2.0 */
/* sequences.c - random lives of random clusters: gangs of all sizes come, go, preempt and are cancelled, nodes fail and
 * return, the configuration changes under running pods. Every invariant is recounted after every step; now and then all
 * nodes are repaired, and every virtual cluster must get all it is owed and does not use; at the end everything is
 * released and the free cells must be what they were.
 *
 * sequences [FIRST [COUNT [STEPS]]]: seeds FIRST (1) .. FIRST + COUNT (200) - 1, STEPS (300) steps each. A failing seed
 * is named; run it alone to see it again. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "cell/cells.h"
#include "wire/hived/hived_bind.h"
#include "wire/hived/hived_config.h"

enum { GROUPS = 60, PODS = 12 };

struct pod {
    uint64_t id;
    bool placed, asked;
    uint64_t order;
    struct bytes bind;
};

struct gang {
    bool live;
    char vc[16], pin[16];
    struct cell_request request;
    struct cell_member members[2];
    struct cell_pod_group tree[2];     /* of a gang that asks for cells: the second inside the first */
    const char *cell_type, *within[2]; /* cell_type: NULL: it does not */
    struct pod pods[PODS];
    uint32_t pod_count;
};

struct life {
    struct rng rng;
    struct cells *cells;
    struct hived_namer namer;
    struct hived_places places;
    struct gang gangs[GROUPS];
    uint64_t next_id, order;
    uint64_t suggested[64];
    uint64_t seed;
    int step;
    long binds, preempts, waits, promises;
};

static uint32_t below(struct life *l, uint32_t bound)
{
    return (uint32_t)rng_below(&l->rng, bound);
}

static void die(struct life *l, const char *words)
{
    fprintf(stderr, "seed %llu step %d: %s\n", (unsigned long long)l->seed, l->step, words);
    exit(1);
}

static const char *node_name(const void *c, uint32_t n)
{
    return cells_node_name(c, n);
}
static const char *type_name(const void *c, uint32_t n)
{
    return cells_type_name(c, n);
}
static int node_find(void *c, const char *name, size_t length, uint32_t *ret)
{
    return cells_node_foreign(c, name, length, ret);
}
static uint32_t type_find(const void *c, const char *name, size_t length)
{
    return cells_type_find(c, name, length);
}

/* Two chains, the second with devices of the same or of another type; grants drawn until they fit. */
static void config_text(struct life *l, struct buf *b)
{
    uint32_t gpus = 1 + below(l, 3), switches = 1 + below(l, 3), nodes = 1 + below(l, 4), racks = 1 + below(l, 4);
    uint32_t others = below(l, 4), pins = below(l, 3);
    static const char *const paths[] = { "RACK", "RACK.NODE", "RACK.NODE.SWITCH", "RACK.NODE.SWITCH.GPU",
                                         "BOX",  "BOX.DEV" };

    buf_printf(b,
               "physicalCluster:\n  cellTypes:\n    SWITCH: {childCellType: GPU, childCellNumber: %u}\n"
               "    NODE: {childCellType: SWITCH, childCellNumber: %u, isNodeLevel: true}\n"
               "    RACK: {childCellType: NODE, childCellNumber: %u}\n"
               "    BOX: {childCellType: %s, childCellNumber: 2, isNodeLevel: true}\n  physicalCells:\n",
               gpus, switches, nodes, below(l, 2) ? "GPU" : "DEV");
    for (uint32_t r = 0; r < racks; r++) {
        buf_printf(b, "  - cellType: RACK\n%s    cellChildren:\n",
                   r == 1 && pins > 0 && nodes > 1 ? "    pinnedCellId: P0\n" : "");
        for (uint32_t n = 0; n < nodes; n++)
            buf_printf(b, "    - cellAddress: n%u\n%s", r * nodes + n,
                       r == 0 && n == 0 && pins > 1 ? "      pinnedCellId: P1\n" : "");
    }
    for (uint32_t i = 0; i < others; i++)
        buf_printf(b, "  - {cellType: BOX, cellAddress: %s%u}\n", i == 0 ? "n" : "b", i);
    buf_text(b, "virtualClusters:\n");
    for (uint32_t vc = 0; vc < 3; vc++) {
        buf_printf(b, "  v%u:\n    virtualCells:\n", vc);
        for (uint32_t i = 0; i < 1 + below(l, 2); i++)
            buf_printf(b, "    - {cellType: %s, cellNumber: %u}\n", paths[below(l, others ? 6 : 4)], below(l, 3));
        if (vc == 0 && pins > 0)
            buf_printf(b, "    pinnedCells: [{pinnedCellId: P%u}]\n", below(l, 2));
    }
}

static struct cells *config_new(struct life *l)
{
    struct cells *cells = NULL;

    for (int i = 0; !cells; i++) {
        CLEANUP_BUF struct buf b = BUF_INIT(1 << 16);
        CLEANUP_BYTES struct bytes bytes = { 0 };
        struct cell_spec spec = { 0 };
        struct error err = { 0 };
        uint32_t manner = below(l, 3);
        struct cells_limits limits = { .foreign_leaves = 4096, .exact = manner == 1, .literal = manner == 2 };

        config_text(l, &b);
        if (i == 10000 || buf_take(&b, &bytes, &err) < 0)
            die(l, "no configuration fits");
        if (hived_config_read("f", &bytes, &spec, NULL, &err) == 0 && cells_new(&spec, &limits, &cells, &err) < 0 &&
            !strstr(err.text, "overlaps") && !strstr(err.text, "granted"))
            die(l, err.text);
        cell_spec_done(&spec);
    }
    l->namer = (struct hived_namer){ cells, node_name, type_name, node_find, type_find };
    return cells;
}

static void audit(struct life *l)
{
    struct error err = { 0 };

    if (!cells_audit(l->cells, &err))
        die(l, err.text);
}

/* The request's names in the configuration that is valid now. */
static void request_resolve(struct life *l, struct gang *g)
{
    g->request.vc = cells_vc_find(l->cells, g->vc, strlen(g->vc));
    g->request.pin = g->pin[0] ? cells_pin_find(l->cells, g->request.vc, g->pin, strlen(g->pin)) : CELL_NONE;
    g->request.members = g->members;
    g->request.suggested = l->suggested;
    for (uint32_t i = 0; g->cell_type && i < g->request.member_count; i++) {
        g->tree[i].cell_type = cells_type_find(l->cells, g->cell_type, strlen(g->cell_type));
        g->tree[i].within = g->within[i] ? cells_type_find(l->cells, g->within[i], strlen(g->within[i])) : CELL_NONE;
        g->request.tree = g->tree;
        g->request.tree_count = i + 1;
    }
    for (int i = 0; i < 64; i++)
        l->suggested[i] = below(l, 3) ? UINT64_MAX : rng_next(&l->rng) | rng_next(&l->rng);
}

/* Cells instead of devices, and groups inside one cell. */
static void gang_cells(struct life *l, struct gang *g, uint32_t kinds)
{
    static const char *const types[] = { "GPU", "SWITCH", "NODE", "BOX" };
    static const char *const within[] = { NULL, "RACK", "NODE", "SWITCH", "BOX", "RACK" };
    uint32_t type;

    g->cell_type = types[below(l, 4)];
    type = cells_type_find(l->cells, g->cell_type, strlen(g->cell_type));
    g->request.leaf_type = CELL_NONE;
    for (uint32_t i = 0; i < kinds; i++) {
        uint32_t cells = 1 + below(l, 2);

        g->within[i] = within[below(l, 6)];
        g->tree[i] = (struct cell_pod_group){ .parent = i ? 0 : CELL_NONE, .pods = g->members[i].pods, .cells = cells };
        g->members[i].leaves = cells * (type == CELL_UNKNOWN ? 1 : cells_type_leaves(l->cells, type));
    }
}

static void gang_new(struct life *l, struct gang *g)
{
    static const int32_t priorities[] = { -1, 0, 0, 5, 10, 1000 };
    uint32_t kinds = 1 + (below(l, 4) == 0);

    *g = (struct gang){ .live = true };
    (void)snprintf(g->vc, sizeof(g->vc), "v%u", below(l, 20) ? below(l, 3) : 9);
    if (below(l, 8) == 0)
        (void)snprintf(g->pin, sizeof(g->pin), "P%u", below(l, 2));
    g->request = (struct cell_request){ .group = ++l->next_id,
                                        .leaf_type = CELL_NONE,
                                        .priority = priorities[below(l, 6)],
                                        .lazy = below(l, 2),
                                        .ignore_suggested = below(l, 3) > 0 };
    if (below(l, 2))
        g->request.leaf_type = cells_type_find(l->cells, "GPU", 3);
    for (uint32_t i = 0; i < kinds; i++) {
        g->members[i] = (struct cell_member){ 1 + below(l, 4), 1 + below(l, below(l, 2) ? 2 : 6) };
        for (uint32_t k = 0; k < g->members[i].pods && g->pod_count < PODS; k++)
            g->pods[g->pod_count++].id = ++l->next_id;
    }
    g->request.member_count = kinds;
    if (below(l, 6) == 0)
        gang_cells(l, g, kinds);
}

static uint32_t pod_leaves(const struct gang *g, uint32_t pod)
{
    return pod < g->members[0].pods ? g->members[0].leaves : g->members[1].leaves;
}

/* The pods' lists of devices follow each other, and nothing stands before, between or behind them. */
static void lists_check(struct life *l, const struct cell_bind *bind)
{
    uint32_t leaves = 0;

    for (uint32_t p = 0; p < bind->pod_count; leaves += bind->pods[p++].leaf_count)
        if (bind->pods[p].leaf_first != leaves)
            die(l, "the devices of a pod do not follow those of the one before");
    if (leaves != bind->leaf_count || bind->pod >= bind->pod_count)
        die(l, "devices that belong to no pod");
}

static void pod_commit(struct life *l, struct gang *g, struct pod *pod, const struct cell_bind *bind)
{
    CLEANUP_BUF struct buf b = BUF_INIT(1 << 20);
    struct error err = { 0 };
    struct cell_bind back;

    lists_check(l, bind);
    hived_bind_write(&l->namer, bind, &b);
    bytes_done(&pod->bind);
    if (buf_take(&b, &pod->bind, &err) < 0 ||
        hived_bind_read(&l->namer, pod->bind.data, pod->bind.size, &l->places, &back, &err) < 0 ||
        cells_commit(l->cells, &g->request, &back, &err) < 0)
        die(l, err.text);
    pod->placed = true;
    pod->order = ++l->order;
}

static void victims_check(struct life *l, const struct gang *g, const struct cell_answer *a)
{
    if (a->victim_count == 0)
        die(l, "preemption without victims");
    for (uint32_t i = 0; i < a->victim_count; i++) {
        struct cell_group_info info;

        cells_group(l->cells, a->victims[i].group, &info);
        if (info.effective >= g->request.priority)
            die(l, "a victim is as important as the preemptor");
    }
}

/* All devices of the gang lie inside one cell of the type that it names. */
static void within_check(struct life *l, const struct gang *g, const struct cell_bind *bind)
{
    uint32_t around = CELL_NONE;

    for (uint32_t p = 0; p < bind->pod_count; p++) {
        for (uint32_t k = 0; k < bind->pods[p].leaf_count; k++) {
            int32_t index = bind->leaves[bind->pods[p].leaf_first + k].index;
            uint32_t cell = cells_leaf_find(l->cells, bind->chain, bind->pods[p].node, index);
            struct cell_info info = { 0 };

            for (; cell != CELL_NONE; cell = info.parent) {
                cells_get(l->cells, cell, &info);
                if (info.type == g->tree[0].within)
                    break;
            }
            if (cell == CELL_NONE || (around != CELL_NONE && cell != around))
                die(l, "a gang is not inside one cell");
            around = cell;
        }
    }
}

static void pod_ask(struct life *l, struct gang *g, uint32_t i)
{
    struct cell_group_info before;
    struct cell_answer a;

    request_resolve(l, g);
    g->request.pod = g->pods[i].id;
    g->request.leaves = pod_leaves(g, i);
    g->request.tree_pod = i < g->members[0].pods ? 0 : 1;
    g->pods[i].asked = true;
    cells_group(l->cells, g->request.group, &before);
    cells_decide(l->cells, &g->request, below(l, 3) ? CELL_PREEMPTING : CELL_FILTERING, &a);
    l->binds += a.outcome == CELL_BIND;
    l->preempts += a.outcome == CELL_PREEMPT;
    l->waits += a.outcome == CELL_WAIT;
    if (a.outcome == CELL_PREEMPT)
        victims_check(l, g, &a);
    if (a.outcome == CELL_BIND && before.state == CELL_GROUP_ABSENT && g->request.tree && g->within[0])
        within_check(l, g, &a.bind);
    if (a.outcome == CELL_BIND && !g->pods[i].placed && below(l, 10))
        pod_commit(l, g, &g->pods[i], &a.bind);
}

static void pod_release(struct life *l, struct gang *g, struct pod *pod)
{
    if (cells_release(l->cells, g->request.group, pod->id) < 0)
        die(l, "a placed pod is not known");
    pod->placed = false;
    bytes_done(&pod->bind);
}

static void gang_end(struct life *l, struct gang *g)
{
    for (uint32_t i = 0; i < g->pod_count; i++) {
        if (g->pods[i].placed)
            pod_release(l, g, &g->pods[i]);
        else
            cells_cancel(l->cells, g->request.group, g->pods[i].id);
    }
    g->live = false;
}

static void reconfigure(struct life *l)
{
    uint64_t order = 0;

    cells_free(l->cells);
    l->cells = config_new(l);
    for (;;) {
        struct gang *owner = NULL;
        struct pod *next = NULL;
        struct error err = { 0 };
        struct cell_bind bind;

        for (uint32_t g = 0; g < GROUPS; g++)
            for (uint32_t i = 0; l->gangs[g].live && i < l->gangs[g].pod_count; i++) {
                struct pod *p = &l->gangs[g].pods[i];

                if (p->placed && p->order > order && (!next || p->order < next->order)) {
                    next = p;
                    owner = &l->gangs[g];
                }
            }
        if (!next)
            return;
        order = next->order;
        request_resolve(l, owner);
        owner->request.pod = next->id;
        if (hived_bind_read(&l->namer, next->bind.data, next->bind.size, &l->places, &bind, &err) < 0 ||
            cells_commit(l->cells, &owner->request, &bind, &err) < 0)
            die(l, err.text);
        audit(l);
    }
}

static void step(struct life *l)
{
    struct gang *g = &l->gangs[below(l, GROUPS)];
    uint32_t dice = below(l, 100);

    if (dice < 22) {
        uint32_t node = below(l, cells_node_count(l->cells));

        cells_node_set(l->cells, node, below(l, 2));
    } else if (dice < 24) {
        reconfigure(l);
    } else if (!g->live) {
        gang_new(l, g);
        for (uint32_t i = 0; i < g->pod_count && below(l, 6); i++)
            pod_ask(l, g, i);
    } else if (dice < 50) {
        gang_end(l, g);
    } else if (dice < 60) {
        struct pod *pod = &g->pods[below(l, g->pod_count)];

        if (pod->placed)
            pod_release(l, g, pod);
        else
            cells_cancel(l->cells, g->request.group, pod->id);
    } else {
        pod_ask(l, g, below(l, g->pod_count));
    }
}

/* Devices of a node of the chain, or of the cell itself if that is smaller. */
static uint32_t pod_size(const struct life *l, uint32_t chain, uint32_t leaves)
{
    for (uint32_t c = 0; c < cells_virtual_first(l->cells); c++) {
        struct cell_info info, up;

        cells_get(l->cells, c, &info);
        if (info.chain != chain || info.node == CELL_NONE)
            continue;
        if (info.parent != CELL_NONE)
            cells_get(l->cells, info.parent, &up);
        if (info.parent == CELL_NONE || up.node == CELL_NONE)
            return info.leaves < leaves ? info.leaves : leaves;
    }
    return leaves;
}

/* A gang that fills the granted cells of one level which its virtual cluster does not use. */
static void promise_check(struct life *l, const struct cell_info *cell, uint32_t count)
{
    struct cell_member member = { .leaves = pod_size(l, cell->chain, cell->leaves) };
    struct cell_request r = { .group = l->next_id++,
                              .pod = l->next_id++,
                              .vc = cell->vc,
                              .pin = CELL_NONE,
                              .leaf_type = CELL_NONE,
                              .leaves = member.leaves,
                              .member_count = 1,
                              .members = &member,
                              .ignore_suggested = true };
    struct cell_answer a;

    member.pods = count * (cell->leaves / member.leaves);
    cells_decide(l->cells, &r, CELL_FILTERING, &a);
    if (a.outcome != CELL_BIND && a.outcome != CELL_PREEMPT)
        die(l, "what a virtual cluster is owed cannot be had");
    for (uint32_t i = 0; a.outcome == CELL_PREEMPT && i < a.victim_count; i++) {
        struct cell_group_info info;

        cells_group(l->cells, a.victims[i].group, &info);
        if (info.effective >= 0)
            die(l, "what a virtual cluster is owed has a guaranteed user");
    }
    l->promises++;
}

/* With all nodes healthy, whatever happened before. */
static void promises_check(struct life *l)
{
    for (uint32_t i = 0; i < cells_node_count(l->cells); i++)
        cells_node_set(l->cells, i, true);
    audit(l);
    for (uint32_t c = cells_virtual_first(l->cells), count = 0; c < cells_count(l->cells); c++) {
        struct cell_info info, next = { 0 };

        cells_get(l->cells, c, &info);
        if (!info.preassigned || info.pinned)
            continue;
        count += info.peer == CELL_NONE;
        if (c + 1 < cells_count(l->cells))
            cells_get(l->cells, c + 1, &next);
        if (next.preassigned && !next.pinned && next.vc == info.vc && next.type == info.type)
            continue;
        if (count > 0)
            promise_check(l, &info, count);
        count = 0;
    }
    audit(l);
}

/* Healthy and empty, every top cell is free again but those that hold pinned cells. */
static void end_check(struct life *l)
{
    for (uint32_t i = 0; i < GROUPS; i++)
        if (l->gangs[i].live)
            gang_end(l, &l->gangs[i]);
    for (uint32_t i = 0; i < cells_node_count(l->cells); i++)
        cells_node_set(l->cells, i, true);
    audit(l);
    for (uint32_t c = 0; c < cells_count(l->cells); c++) {
        struct cell_info info;

        cells_get(l->cells, c, &info);
        if (info.used_guaranteed || info.used_opportunistic || info.state != CELL_FREE || info.doomed ||
            (info.is_virtual && info.peer != CELL_NONE && !info.pinned)) {
            char words[160], address[80];

            cells_address(l->cells, c, address, sizeof(address));
            (void)snprintf(words, sizeof(words), "%s is left when nothing runs: used %u %u, state %d, bound %d",
                           address, info.used_guaranteed, info.used_opportunistic, (int)info.state,
                           info.peer != CELL_NONE);
            die(l, words);
        }
    }
}

int main(int argc, char **argv)
{
    unsigned long long first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    unsigned long long count = argc > 2 ? strtoull(argv[2], NULL, 10) : 200;
    int steps = argc > 3 ? atoi(argv[3]) : 300;
    long binds = 0, preempts = 0, waits = 0, promises = 0;
    struct life *l = calloc(1, sizeof(*l));

    if (!l)
        return 1;
    for (unsigned long long seed = first; seed < first + count; seed++) {
        *l = (struct life){ .seed = seed };
        rng_seed(&l->rng, seed);
        l->cells = config_new(l);
        for (l->step = 0; l->step < steps; l->step++) {
            step(l);
            audit(l);
            if (below(l, 40) == 0)
                promises_check(l);
        }
        end_check(l);
        cells_free(l->cells);
        hived_places_done(&l->places);
        binds += l->binds;
        preempts += l->preempts;
        waits += l->waits;
        promises += l->promises;
    }
    free(l);
    printf("ok 1 - %llu sequences of %d steps: %ld binds, %ld preemptions, %ld waits, %ld promises\n1..1\n", count,
           steps, binds, preempts, waits, promises);
    return 0;
}
