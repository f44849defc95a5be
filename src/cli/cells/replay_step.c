/* SPDX-License-Identifier: Apache-2.0 */
/* replay_step.c - what a replay script can do, step by step. */
#include "cli/cells/replay_step.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

/* Pods that must go are less important than the one that comes. */
static bool victims_check(struct replay *p, const struct run_answer *a, int32_t priority)
{
    for (uint32_t i = 0; a->result == RUN_PREEMPT && i < a->cell.victim_count; i++) {
        struct cell_group_info info;

        cells_group(p->run.cells, a->cell.victims[i].group, &info);
        if (info.effective >= priority)
            return replay_fail(p, "victims of lower priority", "victim %s has priority %d, the preemptor %d",
                               cell_run_pod_name(&p->run, a->cell.victims[i].pod), info.priority, priority);
    }
    return true;
}

/* A node that the cluster does not have can be suggested, as Kubernetes may have others; but not left out. */
static bool suggested_known(struct replay *p, const json_t *v)
{
    const char *text = json_string_value(v), *except = "all-except:";

    if (!text || strncmp(text, except, strlen(except)) != 0 ||
        cells_node_find(p->run.cells, text + strlen(except), strlen(text) - strlen(except)) != CELL_NONE)
        return true;
    return replay_fail(p, "a node of the cluster", "suggested: no node '%.100s'", text + strlen(except));
}

/* "all", "all-except:NODE", or a list of nodes: bits, or NULL for all. */
static const uint64_t *suggested_read(struct replay *p, const json_t *v)
{
    uint64_t *bits = p->run.suggested;
    uint32_t count = cells_node_count(p->run.cells), node;
    const char *except = "all-except:";

    if (!v || (json_is_string(v) && strcmp(json_string_value(v), "all") == 0))
        return NULL;
    memset(bits, json_is_string(v) ? 0xff : 0, (count / 64 + 1) * sizeof(*bits));
    if (json_is_string(v) && strncmp(json_string_value(v), except, strlen(except)) == 0) {
        const char *name = json_string_value(v) + strlen(except);

        node = cells_node_find(p->run.cells, name, strlen(name));
        if (node != CELL_NONE)
            bits[node / 64] &= ~((uint64_t)1 << (node % 64));
    }
    for (size_t i = 0; i < json_array_size(v); i++) {
        const char *name = json_string_value(json_array_get(v, i));

        node = name ? cells_node_find(p->run.cells, name, strlen(name)) : CELL_NONE;
        if (node != CELL_NONE)
            bits[node / 64] |= (uint64_t)1 << (node % 64);
    }
    return bits;
}

static bool step_schedule(struct replay *p, const json_t *step)
{
    const json_t *spec = json_object_get(step, "spec"), *commit = replay_value(p, step, "commit");
    const json_t *phase = replay_value(p, step, "phase");
    char *dump = json_is_string(spec) ? NULL : json_dumps(spec, JSON_COMPACT | JSON_ENCODE_ANY);
    struct run_answer answer = { 0 };
    struct run_ask ask = { .pod = replay_text(step, "pod"),
                           .phase = CELL_PREEMPTING,
                           .suggested = suggested_read(p, replay_value(p, step, "suggested")),
                           .commit = !commit || json_is_true(commit) };
    const struct run_pod *pod;
    bool ok = suggested_known(p, replay_value(p, step, "suggested"));

    if (!ok) {
        mem_free(dump);
        return false;
    }
    ask.spec.data = dump;
    if (json_is_string(spec))
        ask.spec.data = (char *)(uintptr_t)json_string_value(spec);
    ask.spec.size = ask.spec.data ? strlen(ask.spec.data) : 0;
    if (json_is_string(phase) && strcmp(json_string_value(phase), "Filtering") == 0)
        ask.phase = CELL_FILTERING;
    cell_run_schedule(&p->run, &ask, &answer);
    pod = cell_run_pod(&p->run, ask.pod);
    ok = replay_answer(p, &answer, json_object_get(step, "expect")) &&
         (!pod || victims_check(p, &answer, pod->spec->priority));
    mem_free(dump);
    return ok;
}

static bool step_release(struct replay *p, const json_t *step)
{
    const char *name = replay_text(step, "pod");
    const struct run_pod *pod = cell_run_pod(&p->run, name);

    if (!pod || !pod->placed)
        return json_is_true(json_object_get(step, "ifAllocated")) ||
               replay_fail(p, "an allocated pod", "pod '%.100s' is not allocated", name);
    if (cell_run_release(&p->run, name) < 0)
        return replay_fail(p, "the pod's release", "internal error: the gang does not know pod '%.100s'", name);
    return true;
}

static bool step_cancel(struct replay *p, const json_t *step)
{
    const char *name = replay_text(step, "pod");

    if (!cell_run_asked(&p->run, name))
        return replay_fail(p, "a pod that was asked for", "there was no pod '%.100s'", name);
    cell_run_cancel(&p->run, name);
    return true;
}

static bool step_node(struct replay *p, const json_t *step)
{
    const char *name = replay_text(step, "name");
    uint32_t node = cells_node_find(p->run.cells, name, strlen(name));

    if (node == CELL_NONE)
        return replay_fail(p, "a node of the cluster", "no node '%.100s'", name);
    cells_node_set(p->run.cells, node, json_is_true(json_object_get(step, "healthy")));
    return true;
}

static bool step_reconfigure(struct replay *p, const json_t *step)
{
    struct error err = { 0 };

    if (cell_run_reconfigure(&p->run, replay_text(step, "cluster"), &err) < 0)
        return replay_fail(p, "all allocated pods adopted", "%s", err.text);
    replay_order(p);
    return true;
}

static bool step_expect_group(struct replay *p, const json_t *step)
{
    static const char *const states[] = { "absent", "Allocated", "Preempting", "BeingPreempted" };
    const char *name = replay_text(step, "group"), *state = replay_text(step, "state");
    const json_t *lazy = json_object_get(step, "lazyPreempted");
    uint32_t group = names_find(&p->run.groups, name, strlen(name));
    struct cell_group_info info = { 0 };

    if (group != NAME_NONE)
        cells_group(p->run.cells, group, &info);
    if (state && strcmp(state, states[info.state]) != 0)
        return replay_fail(p, state, "group '%.100s' is %s", name, states[info.state]);
    if (json_is_boolean(lazy) && json_is_true(lazy) != info.lazy_preempted)
        return replay_fail(p, json_is_true(lazy) ? "lazily preempted" : "not lazily preempted",
                           "group '%.100s' is %slazily preempted", name, info.lazy_preempted ? "" : "not ");
    return true;
}

static bool step_expect_vc(struct replay *p, const json_t *step)
{
    const struct cells *s = p->run.cells;
    const char *vc = replay_text(step, "vc"), *chain = replay_text(step, "chain"),
               *type = replay_text(step, "cellType");
    const char *which = replay_text(step, "which"), *want = replay_text(step, "healthiness");
    uint32_t number = cells_vc_find(s, vc, strlen(vc));
    char address[200];
    bool any = false;

    if (number == CELL_UNKNOWN)
        return replay_fail(p, "a virtual cluster of the cluster", "no virtual cluster '%.100s'", vc);
    for (uint32_t c = cells_virtual_first(s); c < cells_count(s); c++) {
        struct cell_info info;

        cells_get(s, c, &info);
        if (!info.preassigned || info.vc != number || strcmp(cells_type_name(s, info.chain), chain) != 0 ||
            strcmp(cells_type_name(s, info.type), type) != 0)
            continue;
        any = true;
        if (info.pinned)
            continue;
        if (which && strcmp(which, "free") == 0 && info.priority != CELL_PRIORITY_FREE)
            continue;
        cells_address(s, c, address, sizeof(address));
        if (info.healthy != (strcmp(want, "Healthy") == 0))
            return replay_fail(p, want, "cell %s is %s", address, info.healthy ? "Healthy" : "Bad");
    }
    return any || replay_fail(p, "cells of the virtual cluster", "'%.60s' is granted no '%.60s' in chain '%.60s'", vc,
                              type, chain);
}

static bool step_expect_leaves(struct replay *p, const json_t *step)
{
    static const char *const states[] = { "Free", "Used", "Reserving", "Reserved" };
    const struct cells *s = p->run.cells;
    const char *name = replay_text(step, "node");
    const json_t *allow = json_object_get(step, "allow");
    uint32_t node = cells_node_find(s, name, strlen(name));
    char address[200];

    for (uint32_t c = 0; c < cells_virtual_first(s); c++) {
        struct cell_info info;
        bool ok = false;

        cells_get(s, c, &info);
        if (info.level != 1 || info.node != node)
            continue;
        for (size_t i = 0; i < json_array_size(allow) && !ok; i++) {
            const json_t *a = json_array_get(allow, i);
            const char *state = replay_text(a, "state");
            const json_t *priority = json_object_get(a, "priority");

            ok = (!state || strcmp(state, states[info.state]) == 0) &&
                 (!json_is_integer(priority) || json_integer_value(priority) == info.priority);
        }
        cells_address(s, c, address, sizeof(address));
        if (!ok)
            return replay_fail(p, "one of the allowed combinations", "leaf %s is %s with priority %d", address,
                               states[info.state], info.priority);
    }
    return node != CELL_NONE ? true : replay_fail(p, "a node of the cluster", "no node '%.100s'", name);
}

void replay_order(struct replay *p)
{
    uint32_t order[CELL_CHAINS_MAX], count = 0;
    const char *leaf;
    const json_t *chains;

    json_object_foreach((json_t *)(uintptr_t)p->order, leaf, chains)
    {
        for (size_t i = 0; i < json_array_size(chains); i++) {
            const char *name = json_string_value(json_array_get(chains, i));
            uint32_t type = name ? cells_type_find(p->run.cells, name, strlen(name)) : CELL_UNKNOWN;

            if (type != CELL_UNKNOWN && count < CELL_CHAINS_MAX)
                order[count++] = type;
        }
    }
    cells_chain_order(p->run.cells, order, count);
}

static const struct step_kind {
    const char *op;
    bool (*run)(struct replay *p, const json_t *step);
    const char *needs[5]; /* strings that must be there */
} kinds[] = {
    { "schedule", step_schedule, { "pod" } },
    { "release", step_release, { "pod" } },
    { "cancel", step_cancel, { "pod" } },
    { "node", step_node, { "name" } },
    { "reconfigure", step_reconfigure, { "cluster" } },
    { "expectGroup", step_expect_group, { "group", "state" } },
    { "expectVcCells", step_expect_vc, { "vc", "chain", "cellType", "healthiness" } },
    { "expectLeafCells", step_expect_leaves, { "node" } },
};

static const struct step_kind *kind_find(const char *op)
{
    for (size_t i = 0; op && i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strcmp(kinds[i].op, op) == 0)
            return &kinds[i];
    return NULL;
}

bool replay_step(struct replay *p, const json_t *step)
{
    const struct step_kind *kind = kind_find(replay_text(step, "op"));

    return kind && kind->run(p, step);
}

const char *replay_step_check(const json_t *step, char words[REPLAY_WORDS_MAX])
{
    const struct step_kind *kind = kind_find(replay_text(step, "op"));

    if (!json_is_object(step))
        return "expected a step";
    if (!kind) {
        (void)snprintf(words, REPLAY_WORDS_MAX, "unknown op '%.60s'",
                       replay_text(step, "op") ? replay_text(step, "op") : "");
        return words;
    }
    for (size_t k = 0; k < 5 && kind->needs[k]; k++) {
        const char *text = replay_text(step, kind->needs[k]);

        if (text && strlen(text) <= NAME_LENGTH_MAX)
            continue;
        (void)snprintf(words, REPLAY_WORDS_MAX, "'%s' is %s", kind->needs[k], text ? "too long" : "missing");
        return words;
    }
    return replay_values_check(kind->op, step, words);
}
