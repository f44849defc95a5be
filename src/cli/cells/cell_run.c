/* SPDX-License-Identifier: Apache-2.0 */
/* cell_run.c - see cell_run.h. Every placement is written as its annotation and read back, as a controller would. */
#include "cli/cells/cell_run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

#define ANNOTATION_BYTES_MAX ((size_t)1 << 28)

static const char *node_name(const void *context, uint32_t node)
{
    return cells_node_name(context, node);
}

static const char *type_name(const void *context, uint32_t type)
{
    return cells_type_name(context, type);
}

static int node_find(void *context, const char *name, size_t length, uint32_t *ret_node)
{
    return cells_node_foreign(context, name, length, ret_node);
}

static uint32_t type_find(const void *context, const char *name, size_t length)
{
    return cells_type_find(context, name, length);
}

/* Pods may still be on devices that earlier configurations had. */
static int cells_load(struct cell_run *run, const char *cluster, struct hived_warnings *warnings, struct error *err)
{
    struct cells_limits limits = { .foreign_leaves = run->leaves, .exact = true, .literal = run->literal };
    CLEANUP(cells_free) struct cells *cells = NULL;
    struct cell_spec spec = { 0 };
    uint64_t *suggested;
    int r = run->load(run->context, cluster, &spec, warnings, err);

    if (r < 0)
        return r;
    r = cells_new(&spec, &limits, &cells, err);
    cell_spec_done(&spec);
    if (r < 0)
        return error_prefix(err, r, "%s", cluster);
    suggested = mem_zalloc(cells_node_count(cells) / 64 + 1, sizeof(*suggested));
    if (!suggested)
        return error_set(err, -ENOMEM, "out of memory");
    cells_free(run->cells);
    mem_free(run->suggested);
    run->cells = take(cells);
    run->suggested = suggested;
    run->leaves += cells_leaf_total(run->cells);
    run->namer = (struct hived_namer){ run->cells, node_name, type_name, node_find, type_find };
    return 0;
}

int cell_run_open(struct cell_run *run, const char *cluster, struct hived_warnings *warnings, struct error *err)
{
    *run = (struct cell_run){ .load = run->load, .context = run->context, .literal = run->literal };
    return cells_load(run, cluster, warnings, err);
}

static void pod_forget(struct run_pod *pod)
{
    mem_free(pod->spec);
    *pod = (struct run_pod){ .bind = pod->bind };
}

void cell_run_close(struct cell_run *run)
{
    for (size_t i = 0; i < run->pods.count && i < run->list_capacity; i++) {
        pod_forget(&run->list[i]);
        bytes_done(&run->list[i].bind);
    }
    cells_free(run->cells);
    names_done(&run->pods);
    names_done(&run->groups);
    mem_free(run->list);
    mem_free(run->suggested);
    hived_places_done(&run->places);
    *run = (struct cell_run){ .load = run->load, .context = run->context, .literal = run->literal };
}

struct run_pod *cell_run_pod(struct cell_run *run, const char *name)
{
    uint32_t i = names_find(&run->pods, name, strlen(name));

    return i == NAME_NONE || !run->list[i].spec ? NULL : &run->list[i];
}

const struct bytes *cell_run_last(struct cell_run *run, const char *name)
{
    uint32_t i = names_find(&run->pods, name, strlen(name));

    return i == NAME_NONE || !run->list[i].bind.data ? NULL : &run->list[i].bind;
}

bool cell_run_asked(const struct cell_run *run, const char *name)
{
    return names_find(&run->pods, name, strlen(name)) != NAME_NONE;
}

const char *cell_run_pod_name(const struct cell_run *run, uint64_t pod)
{
    return names_get(&run->pods, (uint32_t)pod);
}

static int pod_put(struct cell_run *run, const char *name, struct run_pod **ret_pod)
{
    size_t before = run->list_capacity;
    uint32_t i;
    int r = names_put(&run->pods, name, strlen(name), &i);

    if (r == 0)
        r = mem_grow((void **)&run->list, &run->list_capacity, i + 1U, NAMES_MAX, sizeof(*run->list));
    if (r < 0)
        return r;
    for (size_t k = before; k < run->list_capacity; k++)
        run->list[k] = (struct run_pod){ 0 };
    *ret_pod = &run->list[i];
    return 0;
}

static uint32_t type_of(const struct cell_run *run, const char *name)
{
    return name[0] ? cells_type_find(run->cells, name, strlen(name)) : CELL_NONE;
}

/* Cells become devices; a type that is not there becomes one, and the allocator says so. */
static void tree_make(struct cell_run *run, const struct hived_spec *spec, struct cell_request *q)
{
    uint32_t members = 0;

    for (uint32_t i = 0; i < spec->tree_count; i++) {
        const struct hived_group *from = &spec->tree[i];
        uint32_t type = type_of(run, from->cell_type);
        uint64_t leaves = from->cells;

        run->tree[i] =
            (struct cell_pod_group){ from->parent, type_of(run, from->within), from->pods, type, from->cells };
        if (from->pods == 0)
            continue;
        if (type < CELL_UNKNOWN)
            leaves *= cells_type_leaves(run->cells, type);
        leaves = leaves > INT32_MAX ? INT32_MAX : leaves; /* more than anything has */
        run->members[members++] = (struct cell_member){ from->pods, (uint32_t)leaves };
        if (i == spec->tree_pod)
            q->leaves = (uint32_t)leaves;
    }
    q->tree = run->tree;
    q->tree_count = spec->tree_count;
    q->tree_pod = spec->tree_pod;
    q->members = run->members;
    q->member_count = members;
}

/* Names become the allocator's numbers. */
static int request_make(struct cell_run *run, const char *pod, const struct hived_spec *spec,
                        struct cell_request *ret_request)
{
    struct cell_request *q = ret_request;
    char group[NAME_LENGTH_MAX + 64];
    uint32_t number;
    int r;

    (void)snprintf(group, sizeof(group), spec->group[0] ? "%s" : "test/%s", spec->group[0] ? spec->group : pod);
    r = names_put(&run->groups, group, strlen(group), &number);
    if (r < 0)
        return r;
    *q = (struct cell_request){ .group = number,
                                .pod = names_find(&run->pods, pod, strlen(pod)),
                                .vc = cells_vc_find(run->cells, spec->vc, strlen(spec->vc)),
                                .pin = CELL_NONE,
                                .leaf_type = CELL_NONE,
                                .priority = spec->priority,
                                .leaves = spec->leaves,
                                .member_count = spec->member_count,
                                .members = spec->members,
                                .lazy = spec->lazy,
                                .ignore_suggested = spec->ignore_suggested };
    if (spec->pin[0])
        q->pin = cells_pin_find(run->cells, q->vc, spec->pin, strlen(spec->pin));
    if (spec->leaf_type[0])
        q->leaf_type = cells_type_find(run->cells, spec->leaf_type, strlen(spec->leaf_type));
    if (spec->tree_count > 0)
        tree_make(run, spec, q);
    return 0;
}

/* Annotation written, read back, taken. */
static int pod_commit(struct cell_run *run, struct run_pod *pod, const struct cell_request *q,
                      const struct cell_bind *bind, struct error *err)
{
    CLEANUP_BUF struct buf buf = BUF_INIT(ANNOTATION_BYTES_MAX);
    CLEANUP_BYTES struct bytes text = { 0 };
    struct cell_bind back;
    int r;

    hived_bind_write(&run->namer, bind, &buf);
    r = buf_take(&buf, &text, err);
    if (r == 0)
        r = hived_bind_read(&run->namer, text.data, text.size, &run->places, &back, err);
    if (r == 0)
        r = cells_commit(run->cells, q, &back, err);
    if (r < 0)
        return r;
    bytes_done(&pod->bind);
    pod->bind = text;
    text = (struct bytes){ 0 };
    pod->placed = true;
    pod->order = ++run->placed_count;
    return 0;
}

static void answer_fill(struct cell_run *run, const struct cell_answer *cell, struct run_answer *a)
{
    a->cell = *cell;
    a->node = cell->node;
    switch (cell->outcome) {
    case CELL_BIND:
        a->result = RUN_BIND;
        a->node = cell->bind.pods[cell->bind.pod].node;
        a->leaves = cell->bind.leaves + cell->bind.pods[cell->bind.pod].leaf_first;
        a->leaf_count = cell->bind.pods[cell->bind.pod].leaf_count;
        return;
    case CELL_PREEMPT:
        a->result = RUN_PREEMPT;
        return;
    case CELL_WAIT:
    case CELL_USER_ERROR:
    case CELL_OUTCOMES:
        break;
    }
    a->result = cell->outcome == CELL_WAIT ? RUN_WAIT : RUN_USER_ERROR;
    (void)error_set(&a->err, -EINVAL, "%s%s%s", cell_reason_text(cell->reason), cell->node == CELL_NONE ? "" : ": ",
                    cell->node == CELL_NONE ? "" : cells_node_name(run->cells, cell->node));
}

static void internal(struct run_answer *a, int r)
{
    a->result = RUN_INTERNAL;
    if (!a->err.text[0])
        (void)error_set(&a->err, r, "out of memory");
}

void cell_run_schedule(struct cell_run *run, const struct run_ask *ask, struct run_answer *ret_answer)
{
    struct run_answer *a = ret_answer;
    struct cell_request q;
    struct cell_answer cell;
    struct hived_spec spec;
    struct run_pod *pod = NULL;
    int r = pod_put(run, ask->pod, &pod);

    if (r < 0) {
        internal(a, r);
        return;
    }
    r = hived_spec_read("spec", &ask->spec, &spec, &a->err);
    if (r < 0) {
        a->result = r == -ENOMEM ? RUN_INTERNAL : RUN_USER_ERROR;
        return;
    }
    *a = (struct run_answer){ .node = CELL_NONE };
    r = request_make(run, ask->pod, &spec, &q);
    if (r < 0) {
        internal(a, r);
        return;
    }
    if (!pod->placed) {
        mem_free(pod->spec);
        pod->spec = mem_zalloc(1, sizeof(spec));
        if (!pod->spec) {
            internal(a, -ENOMEM);
            return;
        }
        *pod->spec = spec;
    }
    q.suggested = ask->suggested;
    cells_decide(run->cells, &q, ask->phase, &cell);
    answer_fill(run, &cell, a);
    if (a->result == RUN_BIND && ask->commit && !pod->placed) {
        r = pod_commit(run, pod, &q, &cell.bind, &a->err);
        if (r < 0)
            internal(a, r);
    }
}

int cell_run_release(struct cell_run *run, const char *name)
{
    struct run_pod *pod = cell_run_pod(run, name);
    struct cell_request q;
    int r;

    if (!pod || !pod->placed)
        return -ENOENT;
    r = request_make(run, name, pod->spec, &q);
    if (r == 0)
        r = cells_release(run->cells, q.group, q.pod);
    pod_forget(pod);
    return r;
}

void cell_run_cancel(struct cell_run *run, const char *name)
{
    struct run_pod *pod = cell_run_pod(run, name);
    struct cell_request q;

    if (!pod || pod->placed || request_make(run, name, pod->spec, &q) < 0)
        return;
    cells_cancel(run->cells, q.group, q.pod);
    pod_forget(pod);
}

struct placed {
    uint64_t order;
    uint32_t pod;
};

static int placed_compare(const void *left, const void *right)
{
    const struct placed *a = left, *b = right;

    return a->order < b->order ? -1 : a->order > b->order;
}

static int pod_adopt(struct cell_run *run, uint32_t number, struct error *err)
{
    const struct run_pod *pod = &run->list[number];
    const char *name = names_get(&run->pods, number);
    struct cell_request q;
    struct cell_bind bind;
    int r = request_make(run, name, pod->spec, &q);

    if (r == 0)
        r = hived_bind_read(&run->namer, pod->bind.data, pod->bind.size, &run->places, &bind, err);
    if (r == 0)
        r = cells_commit(run->cells, &q, &bind, err);
    return r < 0 ? error_prefix(err, r, "adopting pod '%s'", name) : 0;
}

int cell_run_reconfigure(struct cell_run *run, const char *cluster, struct error *err)
{
    struct placed *list = mem_zalloc(run->pods.count + 1, sizeof(*list));
    size_t count = 0;
    int r = list ? cells_load(run, cluster, NULL, err) : error_set(err, -ENOMEM, "out of memory");

    for (uint32_t i = 0; r == 0 && i < run->pods.count; i++)
        if (run->list[i].placed)
            list[count++] = (struct placed){ run->list[i].order, i };
    if (r == 0 && count > 0)
        qsort(list, count, sizeof(*list), placed_compare);
    for (size_t i = 0; r == 0 && i < count; i++)
        r = pod_adopt(run, list[i].pod, err);
    mem_free(list);
    return r;
}
