/* SPDX-License-Identifier: Apache-2.0 */
/* cell_replay.c - muster cell replay: drives the cell allocator by a script and checks what it answers. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "cli/cell_replay.h"
#include "cli/cell_run.h"
#include "cli/cli.h"
#include "io/file.h"
#include "wire/json_read.h"

#define SCRIPT_BYTES_MAX ((size_t)1 << 28)
enum { WORDS_MAX = 400 };

struct replay {
    const char *file;
    json_t *defaults;
    struct cell_run run;
    struct replay_totals *totals;
    char expected[WORDS_MAX], got[WORDS_MAX]; /* of the step that failed */
};

static const char *text(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

/* A step's value, or the script's default. */
static json_t *value(const struct replay *p, const json_t *step, const char *key)
{
    json_t *v = json_object_get(step, key);

    return v && !json_is_null(v) ? v : json_object_get(p->defaults, key);
}

static bool __attribute__((format(printf, 3, 4))) fail(struct replay *p, const char *expected, const char *got, ...)
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

/* The places of a placed pod, from its annotation. */
static bool pod_places(struct replay *p, const char *name, struct hived_places *places, struct cell_bind *bind)
{
    const struct run_pod *pod = name ? cell_run_pod(&p->run, name) : NULL;

    return pod && pod->placed &&
           hived_bind_read(&p->run.namer, pod->bind.data, pod->bind.size, places, bind, NULL) == 0;
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
    const char *type = text(want, "cellType");
    struct cell_bind bind;
    bool same = false;

    if (type && pod_places(p, text(want, "pod"), &places, &bind)) {
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

        if (strcmp(key, "nodes") == 0)
            ok = node_listed(p, a, want);
        else if (strcmp(key, "leafCount") == 0)
            ok = json_integer_value(want) == a->leaf_count;
        else if (strcmp(key, "lcaCellType") == 0)
            ok = json_is_string(want) && answer_cell(p, a, json_string_value(want)) != CELL_NONE;
        else if (strcmp(key, "sameNodeAs") == 0)
            ok = node_among(p, a, want);
        else if (strcmp(key, "differentNodeFrom") == 0)
            ok = !node_among(p, a, want);
        else if (strcmp(key, "sameCellAs") == 0)
            ok = same_cell(p, a, want);
        else
            (void)fprintf(stderr, "muster: warning: %s: accept: '%s' is not known and not checked\n", p->file, key);
        if (!ok)
            return false;
    }
    return true;
}

static bool bind_exact(struct replay *p, const struct run_answer *a, const json_t *expect)
{
    const json_t *leaves = json_object_get(expect, "leafCells");

    if (strcmp(text(expect, "node"), cells_node_name(p->run.cells, a->node)) != 0)
        return false;
    if (!leaves)
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

static bool answer_check(struct replay *p, const struct run_answer *a, const json_t *expect)
{
    const char *result = text(expect, "result");
    json_t *accept = json_object_get(expect, "accept");
    char got[WORDS_MAX], *want;
    bool ok;

    answer_text(p, a, got, sizeof(got));
    if (a->result == RUN_INTERNAL)
        return fail(p, "an answer", "%s", got);
    if (!result || strcmp(result, "any") == 0)
        return true;
    want = json_dumps(expect, JSON_COMPACT);
    ok = strcmp(result, result_name(a->result)) == 0;
    if (ok && a->result == RUN_PREEMPT)
        ok = victims_listed(p, a, json_object_get(expect, "victims"));
    if (ok && a->result == RUN_BIND && text(expect, "node") && !bind_exact(p, a, expect)) {
        ok = accept && accept_holds(p, a, accept);
        p->totals->equivalent += ok;
    } else if (ok && a->result == RUN_BIND && !text(expect, "node") && accept) {
        ok = accept_holds(p, a, accept);
        p->totals->equivalent += ok;
    } else {
        p->totals->exact += ok;
    }
    if (!ok)
        (void)fail(p, want ? want : result, "%s", got);
    mem_free(want);
    return ok;
}

/* Pods that must go are less important than the one that comes. */
static bool victims_check(struct replay *p, const struct run_answer *a, int32_t priority)
{
    for (uint32_t i = 0; a->result == RUN_PREEMPT && i < a->cell.victim_count; i++) {
        struct cell_group_info info;

        cells_group(p->run.cells, a->cell.victims[i].group, &info);
        if (info.effective >= priority)
            return fail(p, "victims of lower priority", "victim %s has priority %d, the preemptor %d",
                        cell_run_pod_name(&p->run, a->cell.victims[i].pod), info.priority, priority);
    }
    return true;
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
    json_t *spec = json_object_get(step, "spec"), *commit = value(p, step, "commit"), *phase = value(p, step, "phase");
    char *dump = json_is_string(spec) ? NULL : json_dumps(spec, JSON_COMPACT | JSON_ENCODE_ANY);
    struct run_answer answer = { 0 };
    struct run_ask ask = { .pod = text(step, "pod"),
                           .phase = CELL_PREEMPTING,
                           .suggested = suggested_read(p, value(p, step, "suggested")),
                           .commit = !commit || json_is_true(commit) };
    const struct run_pod *pod;
    bool ok;

    ask.spec.data = dump;
    if (json_is_string(spec))
        ask.spec.data = (char *)(uintptr_t)json_string_value(spec);
    ask.spec.size = ask.spec.data ? strlen(ask.spec.data) : 0;
    if (json_is_string(phase) && strcmp(json_string_value(phase), "Filtering") == 0)
        ask.phase = CELL_FILTERING;
    cell_run_schedule(&p->run, &ask, &answer);
    pod = cell_run_pod(&p->run, ask.pod);
    ok = answer_check(p, &answer, json_object_get(step, "expect")) &&
         (!pod || victims_check(p, &answer, pod->spec.priority));
    mem_free(dump);
    return ok;
}

static bool step_release(struct replay *p, const json_t *step)
{
    const char *name = text(step, "pod");
    const struct run_pod *pod = cell_run_pod(&p->run, name);

    if (!pod || !pod->placed)
        return json_is_true(json_object_get(step, "ifAllocated")) ||
               fail(p, "an allocated pod", "pod '%.100s' is not allocated", name);
    if (cell_run_release(&p->run, name) < 0)
        return fail(p, "the pod's release", "internal error: the gang does not know pod '%.100s'", name);
    return true;
}

static bool step_cancel(struct replay *p, const json_t *step)
{
    cell_run_cancel(&p->run, text(step, "pod"));
    return true;
}

static bool step_node(struct replay *p, const json_t *step)
{
    const char *name = text(step, "name");
    uint32_t node = cells_node_find(p->run.cells, name, strlen(name));

    if (node == CELL_NONE)
        return fail(p, "a node of the cluster", "no node '%.100s'", name);
    cells_node_set(p->run.cells, node, json_is_true(json_object_get(step, "healthy")));
    return true;
}

/* Paths are relative to the script. */
static void path_make(const struct replay *p, const char *name, char path[PATH_MAX])
{
    const char *slash = strrchr(p->file, '/');
    int length = slash && *name != '/' ? (int)(slash - p->file) + 1 : 0;

    (void)snprintf(path, PATH_MAX, "%.*s%s", length, p->file, name);
}

static bool step_reconfigure(struct replay *p, const json_t *step)
{
    struct error err = { 0 };
    char path[PATH_MAX];

    path_make(p, text(step, "cluster"), path);
    if (cell_run_reconfigure(&p->run, path, &err) < 0)
        return fail(p, "all allocated pods adopted", "%s", err.text);
    return true;
}

static bool step_expect_group(struct replay *p, const json_t *step)
{
    static const char *const states[] = { "absent", "Allocated", "Preempting", "BeingPreempted" };
    const char *name = text(step, "group"), *state = text(step, "state");
    const json_t *lazy = json_object_get(step, "lazyPreempted");
    uint32_t group = names_find(&p->run.groups, name, strlen(name));
    struct cell_group_info info = { 0 };

    if (group != NAME_NONE)
        cells_group(p->run.cells, group, &info);
    if (state && strcmp(state, states[info.state]) != 0)
        return fail(p, state, "group '%.100s' is %s", name, states[info.state]);
    if (json_is_boolean(lazy) && json_is_true(lazy) != info.lazy_preempted)
        return fail(p, json_is_true(lazy) ? "lazily preempted" : "not lazily preempted",
                    "group '%.100s' is %slazily preempted", name, info.lazy_preempted ? "" : "not ");
    return true;
}

static bool step_expect_vc(struct replay *p, const json_t *step)
{
    const struct cells *s = p->run.cells;
    const char *vc = text(step, "vc"), *chain = text(step, "chain"), *type = text(step, "cellType");
    const char *which = text(step, "which"), *want = text(step, "healthiness");
    uint32_t number = cells_vc_find(s, vc, strlen(vc));
    char address[200];

    for (uint32_t c = cells_virtual_first(s); c < cells_count(s); c++) {
        struct cell_info info;

        cells_get(s, c, &info);
        if (!info.preassigned || info.pinned || info.vc != number ||
            strcmp(cells_type_name(s, info.chain), chain) != 0 || strcmp(cells_type_name(s, info.type), type) != 0)
            continue;
        if (which && strcmp(which, "free") == 0 && info.priority != CELL_PRIORITY_FREE)
            continue;
        cells_address(s, c, address, sizeof(address));
        if (info.healthy != (strcmp(want, "Healthy") == 0))
            return fail(p, want, "cell %s is %s", address, info.healthy ? "Healthy" : "Bad");
    }
    return true;
}

static bool step_expect_leaves(struct replay *p, const json_t *step)
{
    static const char *const states[] = { "Free", "Used", "Reserving", "Reserved" };
    const struct cells *s = p->run.cells;
    const char *name = text(step, "node");
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
            const char *state = text(a, "state");
            const json_t *priority = json_object_get(a, "priority");

            ok = (!state || strcmp(state, states[info.state]) == 0) &&
                 (!json_is_integer(priority) || json_integer_value(priority) == info.priority);
        }
        cells_address(s, c, address, sizeof(address));
        if (!ok)
            return fail(p, "one of the allowed combinations", "leaf %s is %s with priority %d", address,
                        states[info.state], info.priority);
    }
    return node != CELL_NONE ? true : fail(p, "a node of the cluster", "no node '%.100s'", name);
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

static int64_t clock_us(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static bool step_run(struct replay *p, const json_t *test, const json_t *step)
{
    const json_t *limit = json_object_get(test, "maxStepMillis");
    const struct step_kind *kind = kind_find(text(step, "op"));
    struct error err = { 0 };
    int64_t began = clock_us(), took;

    if (!kind || !kind->run(p, step))
        return false;
    took = clock_us() - began;
    if (json_is_number(limit) && (double)took > json_number_value(limit) * 1000)
        return fail(p, "a step within maxStepMillis", "%lld us", (long long)took);
    if (!cells_audit(p->run.cells, &err))
        return fail(p, "every invariant", "%s", err.text);
    p->totals->steps++;
    return true;
}

/* The number of the first failing step, counted from 1; 0: loading; -1: passed. */
static int case_run(struct replay *p, const json_t *test)
{
    const json_t *steps = json_object_get(test, "steps");
    const char *load = text(test, "expectLoad");
    struct error err = { 0 };
    char path[PATH_MAX];
    int r, failed = -1;

    path_make(p, text(test, "cluster"), path);
    r = cell_run_open(&p->run, path, NULL, &err);
    if (load && strcmp(load, "error") == 0) {
        if (r == 0)
            (void)fail(p, "an error when loading", "%s", "the cluster was loaded");
        failed = r == 0 ? 0 : -1;
    } else if (r < 0) {
        (void)fail(p, "the cluster loaded", "%s", err.text);
        failed = 0;
    }
    for (size_t i = 0; r == 0 && failed < 0 && i < json_array_size(steps); i++)
        if (!step_run(p, test, json_array_get(steps, i)))
            failed = (int)i + 1;
    cell_run_close(&p->run);
    return failed;
}

/* One case of the script is not as it should be: where, in words. */
static int case_check(const char *file, const json_t *test, size_t number, struct error *err)
{
    const json_t *steps = json_object_get(test, "steps");
    char place[120];

    (void)snprintf(place, sizeof(place), "cases[%zu]", number);
    if (!json_is_object(test) || !text(test, "cluster") || !text(test, "id"))
        return error_set(err, -EINVAL, "%s: %s: expected an object with id and cluster", file, place);
    if (steps && !json_is_array(steps))
        return json_expected(file, place, steps, "a list of steps", err);
    if (!steps && !text(test, "expectLoad"))
        return error_set(err, -EINVAL, "%s: %s: steps are missing", file, place);
    for (size_t i = 0; i < json_array_size(steps); i++) {
        const json_t *step = json_array_get(steps, i);
        const struct step_kind *kind = kind_find(text(step, "op"));

        (void)snprintf(place, sizeof(place), "cases[%zu].steps[%zu]", number, i);
        if (!kind)
            return error_set(err, -EINVAL, "%s: %s: unknown op '%.60s'", file, place,
                             text(step, "op") ? text(step, "op") : "");
        for (size_t k = 0; k < 5 && kind->needs[k]; k++)
            if (!text(step, kind->needs[k]))
                return error_set(err, -EINVAL, "%s: %s: '%s' is missing", file, place, kind->needs[k]);
        if (kind->run == step_schedule && !json_object_get(step, "spec"))
            return error_set(err, -EINVAL, "%s: %s: 'spec' is missing", file, place);
        if (kind->run == step_node && !json_is_boolean(json_object_get(step, "healthy")))
            return error_set(err, -EINVAL, "%s: %s: 'healthy' is missing", file, place);
    }
    return 0;
}

static int script_check(const char *file, const json_t *script, struct error *err)
{
    const json_t *cases = json_object_get(script, "cases");
    int r = 0;

    if (!json_is_object(script) || json_integer_value(json_object_get(script, "format")) != 1)
        return error_set(err, -EINVAL, "%s: expected an object with \"format\": 1", file);
    if (!json_is_array(cases))
        return json_expected(file, "cases", cases, "a list", err);
    for (size_t i = 0; r == 0 && i < json_array_size(cases); i++)
        r = case_check(file, json_array_get(cases, i), i, err);
    return r;
}

static void case_report(struct replay *p, const json_t *test, int failed, json_t *list)
{
    const json_t *step = json_array_get(json_object_get(test, "steps"), (size_t)(failed > 0 ? failed - 1 : 0));
    const char *id = text(test, "id"), *title = text(test, "title"), *op = failed > 0 ? text(step, "op") : "load";

    if (list) {
        json_t *o =
            json_pack("{s:s, s:s, s:s}", "id", id, "title", title ? title : "", "result", failed < 0 ? "pass" : "fail");

        if (failed >= 0) {
            (void)json_object_set_new(o, "step", json_integer(failed));
            (void)json_object_set_new(o, "op", json_string(op));
            (void)json_object_set_new(o, "expected", json_string_nocheck(p->expected));
            (void)json_object_set_new(o, "got", json_string_nocheck(p->got));
        }
        (void)json_array_append_new(list, o);
        return;
    }
    if (failed < 0) {
        (void)printf("pass  %s%s%s\n", id, title ? "  " : "", title ? title : "");
        return;
    }
    (void)printf("FAIL  %s%s%s\n      step %d (%s)\n      expected %s\n      got      %s\n", id, title ? "  " : "",
                 title ? title : "", failed, op, p->expected, p->got);
}

int cell_replay(const char *file, json_t *list, struct replay_totals *totals, struct error *err)
{
    CLEANUP_BYTES struct bytes bytes = { 0 };
    __attribute__((cleanup(cleanup_json_decref))) json_t *script = NULL;
    struct replay p = { .file = file, .totals = totals };
    const json_t *cases;
    int r = file_read(file, SCRIPT_BYTES_MAX, &bytes, err);

    if (r == 0)
        r = json_read(file, bytes.data, bytes.size, &script, err);
    if (r == 0)
        r = script_check(file, script, err);
    if (r < 0)
        return r;
    p.defaults = json_object_get(script, "defaults");
    cases = json_object_get(script, "cases");
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *test = json_array_get(cases, i);
        int failed = case_run(&p, test);

        totals->passed += failed < 0;
        totals->failed += failed >= 0;
        case_report(&p, test, failed, list);
    }
    return 0;
}
