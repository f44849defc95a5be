/* SPDX-License-Identifier: Apache-2.0 */
/* replay_expect.c - the answer to a pod against what a script expects: exact, or as good by its predicates. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "cli/cells/replay_step.h"

bool replay_fail(struct replay *p, const char *expected, const char *got, ...)
{
    va_list args;

    (void)snprintf(p->expected, sizeof(p->expected), "%s", expected);
    va_start(args, got);
    (void)vsnprintf(p->got, sizeof(p->got), got, args);
    va_end(args);
    return false;
}

static const char *result_name(enum run_result result)
{
    static const char *const names[] = { "bind", "wait", "preempt", "userError", "internal error" };

    return names[result];
}

/* "bind n1 [0,1]", "wait (insufficient capacity)": for messages. */
static void answer_text(struct replay *p, const struct run_answer *a, char *out, size_t size)
{
    size_t at = (size_t)snprintf(out, size, "%s", result_name(a->result));

    if (a->result == RUN_BIND) {
        at += (size_t)snprintf(out + at, size - at, " %.100s [", cells_node_name(p->run.cells, a->node));
        for (uint32_t i = 0; i < a->leaf_count && at + 16 < size; i++)
            at += (size_t)snprintf(out + at, size - at, "%s%d", i ? "," : "", a->leaves[i].index);
        (void)snprintf(out + at, size - at, "]");
    } else if (a->result == RUN_PREEMPT) {
        at += (size_t)snprintf(out + at, size - at, " on %.100s:", cells_node_name(p->run.cells, a->node));
        for (uint32_t i = 0; i < a->cell.victim_count && at + 80 < size; i++)
            at += (size_t)snprintf(out + at, size - at, " %.60s", cell_run_pod_name(&p->run, a->cell.victims[i].pod));
    } else {
        (void)snprintf(out + at, size - at, " (%.200s)", a->err.text);
    }
}

/* The physical cell of a type that holds all the devices, or CELL_NONE. */
static uint32_t cell_of(struct replay *p, uint32_t chain, const struct cell_pod_place *pod,
                        const struct cell_leaf_place *leaves, const char *type_name)
{
    const struct cells *s = p->run.cells;
    uint32_t type = cells_type_find(s, type_name, strlen(type_name)), found = CELL_NONE;

    for (uint32_t i = 0; i < pod->leaf_count; i++) {
        uint32_t cell = cells_leaf_find(s, chain, pod->node, leaves[pod->leaf_first + i].index);
        struct cell_info info;

        for (; cell != CELL_NONE; cell = info.parent) {
            cells_get(s, cell, &info);
            if (info.type == type)
                break;
        }
        if (cell == CELL_NONE || (i > 0 && cell != found))
            return CELL_NONE;
        found = cell;
    }
    return found;
}

static uint32_t answer_cell(struct replay *p, const struct run_answer *a, const char *type_name)
{
    return cell_of(p, a->cell.bind.chain, &a->cell.bind.pods[a->cell.bind.pod], a->cell.bind.leaves, type_name);
}

/* The places of a pod that is placed or was, from its annotation. */
static bool pod_places(struct replay *p, const char *name, struct hived_places *places, struct cell_bind *bind)
{
    const struct bytes *last = name ? cell_run_last(&p->run, name) : NULL;

    return last && hived_bind_read(&p->run.namer, last->data, last->size, places, bind, NULL) == 0;
}

/* Was each of these pods asked for? Being elsewhere than nobody says nothing. */
static bool pods_asked(struct replay *p, const json_t *pods)
{
    size_t count = json_is_array(pods) ? json_array_size(pods) : 1;

    for (size_t i = 0; i < count; i++) {
        const char *name = json_string_value(json_is_array(pods) ? json_array_get(pods, i) : pods);

        if (name && cell_run_asked(&p->run, name))
            continue;
        (void)snprintf(p->unknown, sizeof(p->unknown), "; there was no pod '%.30s'", name ? name : "");
        return false;
    }
    return true;
}

/* Is the answer on the node of (one of) these pods? */
static bool node_among(struct replay *p, const struct run_answer *a, const json_t *pods)
{
    struct hived_places places = { 0 };
    size_t count = json_is_array(pods) ? json_array_size(pods) : 1;
    bool found = false;

    for (size_t i = 0; i < count && !found; i++) {
        const json_t *name = json_is_array(pods) ? json_array_get(pods, i) : pods;
        struct cell_bind bind;

        found = pod_places(p, json_string_value(name), &places, &bind) && bind.pods[bind.pod].node == a->node;
    }
    hived_places_done(&places);
    return found;
}

static bool same_cell(struct replay *p, const struct run_answer *a, const json_t *want)
{
    struct hived_places places = { 0 };
    const char *type = replay_text(want, "cellType");
    struct cell_bind bind;
    bool same = false;

    if (type && pod_places(p, replay_text(want, "pod"), &places, &bind)) {
        const struct cell_pod_place *pod = &bind.pods[bind.pod];
        uint32_t cell = answer_cell(p, a, type);

        same = cell != CELL_NONE && cell == cell_of(p, bind.chain, pod, bind.leaves, type);
    }
    hived_places_done(&places);
    return same;
}

static bool node_listed(struct replay *p, const struct run_answer *a, const json_t *nodes)
{
    const char *name = cells_node_name(p->run.cells, a->node);

    for (size_t i = 0; i < json_array_size(nodes); i++)
        if (json_is_string(json_array_get(nodes, i)) && strcmp(json_string_value(json_array_get(nodes, i)), name) == 0)
            return true;
    return json_is_string(nodes) && strcmp(json_string_value(nodes), name) == 0;
}

static bool accept_holds(struct replay *p, const struct run_answer *a, json_t *accept)
{
    const char *key;
    json_t *want;

    json_object_foreach(accept, key, want)
    {
        bool ok = true;

        if (json_is_null(want))
            continue;
        if (strcmp(key, "nodes") == 0)
            ok = node_listed(p, a, want);
        else if (strcmp(key, "leafCount") == 0)
            ok = json_integer_value(want) == a->leaf_count;
        else if (strcmp(key, "lcaCellType") == 0)
            ok = json_is_string(want) && answer_cell(p, a, json_string_value(want)) != CELL_NONE;
        else if (strcmp(key, "sameNodeAs") == 0)
            ok = node_among(p, a, want);
        else if (strcmp(key, "differentNodeFrom") == 0)
            ok = pods_asked(p, want) && !node_among(p, a, want);
        else if (strcmp(key, "sameCellAs") == 0)
            ok = same_cell(p, a, want);
        else if (!replay_prose(key)) {
            (void)snprintf(p->unknown, sizeof(p->unknown), "; accept: '%.30s' is not known", key);
            ok = false;
        }
        if (!ok)
            return false;
    }
    return true;
}

static bool bind_exact(struct replay *p, const struct run_answer *a, const json_t *expect)
{
    const json_t *leaves = json_object_get(expect, "leafCells");

    if (replay_text(expect, "node") && strcmp(replay_text(expect, "node"), cells_node_name(p->run.cells, a->node)) != 0)
        return false;
    if (!leaves || json_is_null(leaves))
        return true;
    if (json_array_size(leaves) != a->leaf_count)
        return false;
    for (uint32_t i = 0; i < a->leaf_count; i++)
        if (json_integer_value(json_array_get(leaves, i)) != a->leaves[i].index)
            return false;
    return true;
}

static bool victims_listed(struct replay *p, const struct run_answer *a, const json_t *victims)
{
    for (uint32_t i = 0; victims && i < a->cell.victim_count; i++) {
        const char *name = cell_run_pod_name(&p->run, a->cell.victims[i].pod);
        bool found = false;

        for (size_t k = 0; k < json_array_size(victims) && !found; k++) {
            const char *listed = json_string_value(json_array_get(victims, k));

            found = listed && strcmp(listed, name) == 0;
        }
        if (!found)
            return false;
    }
    return a->cell.victim_count > 0;
}

bool replay_answer(struct replay *p, const struct run_answer *a, const json_t *expect)
{
    const char *result = replay_text(expect, "result");
    json_t *accept = json_object_get(expect, "accept");
    bool told = replay_text(expect, "node") || json_is_array(json_object_get(expect, "leafCells"));
    char got[REPLAY_WORDS_MAX], *want;
    bool ok;

    answer_text(p, a, got, sizeof(got));
    if (a->result == RUN_INTERNAL)
        return replay_fail(p, "an answer", "%s", got);
    if (!result || strcmp(result, "any") == 0)
        return true;
    p->unknown[0] = '\0';
    want = json_dumps(expect, JSON_COMPACT);
    ok = strcmp(result, result_name(a->result)) == 0;
    if (ok && a->result == RUN_PREEMPT)
        ok = victims_listed(p, a, json_object_get(expect, "victims"));
    if (ok && a->result == RUN_BIND && (told ? !bind_exact(p, a, expect) : json_is_object(accept))) {
        ok = json_is_object(accept) && accept_holds(p, a, accept);
        p->totals->equivalent += ok;
    } else {
        p->totals->exact += ok;
    }
    if (!ok)
        (void)replay_fail(p, want ? want : result, "%s%s", got, p->unknown);
    mem_free(want);
    return ok;
}
