/* SPDX-License-Identifier: Apache-2.0 */
/* cell_replay.c - muster cell replay: drives the cell allocator by a script and checks what it answers. */
#include "cli/cell_replay.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "cli/load.h"
#include "cli/replay_step.h"
#include "io/file.h"
#include "wire/json_place.h"
#include "wire/json_read.h"

#define SCRIPT_BYTES_MAX ((size_t)1 << 28)

static int64_t clock_us(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* Paths are relative to the script. */
static int file_load(void *context, const char *name, struct cell_spec *ret_spec, struct hived_warnings *warnings,
                     struct error *err)
{
    const char *file = context, *slash = strrchr(file, '/');
    int length = slash && *name != '/' ? (int)(slash - file) + 1 : 0;
    char path[PATH_MAX];

    (void)snprintf(path, sizeof(path), "%.*s%s", length, file, name);
    return cell_spec_load(path, ret_spec, NULL, warnings, err);
}

static bool step_run(struct replay *p, const json_t *test, const json_t *step)
{
    const json_t *limit = json_object_get(test, "maxStepMillis");
    struct error err = { 0 };
    int64_t began = clock_us(), took;

    if (!replay_step(p, step))
        return false;
    took = clock_us() - began;
    if (json_is_number(limit) && (double)took > json_number_value(limit) * 1000)
        return replay_fail(p, "a step within maxStepMillis", "%lld us", (long long)took);
    if (!cells_audit(p->run.cells, &err))
        return replay_fail(p, "every invariant", "%s", err.text);
    p->totals->steps++;
    return true;
}

/* The number of the first failing step, counted from 1; 0: loading; -1: passed. */
static int case_run(struct replay *p, const json_t *test)
{
    const json_t *steps = json_object_get(test, "steps");
    const char *load = replay_text(test, "expectLoad");
    struct error err = { 0 };
    int r, failed = -1;

    p->order = json_object_get(test, "chainOrder");
    r = cell_run_open(&p->run, replay_text(test, "cluster"), NULL, &err);
    if (load && r == 0) {
        failed = 0;
        (void)replay_fail(p, "an error when loading", "%s", "the cluster was loaded");
    } else if (!load && r < 0) {
        failed = 0;
        (void)replay_fail(p, "the cluster loaded", "%s", err.text);
    }
    if (r == 0)
        replay_order(p);
    for (size_t i = 0; r == 0 && failed < 0 && i < json_array_size(steps); i++)
        if (!step_run(p, test, json_array_get(steps, i)))
            failed = (int)i + 1;
    cell_run_close(&p->run);
    return failed;
}

struct script {
    const char *file;
    const struct bytes *bytes;
    json_t *json;
};

/* Where a case, or a step of it, stands in the file. */
static struct json_place place_of(const struct script *s, size_t number, size_t step, bool deep)
{
    const struct json_hop path[] = { { "cases", 0 }, { NULL, number }, { "steps", 0 }, { NULL, step } };

    return json_place_find(s->bytes->data, s->bytes->size, path, deep ? 4 : 2);
}

static int script_bad(const struct script *s, struct json_place place, const char *words, struct error *err)
{
    return error_set(err, -EINVAL, "%s:%zu:%zu: %s", s->file, place.line, place.column, words);
}

/* One case of the script is not as it should be: where, in words. */
static int case_check(const struct script *s, const json_t *test, size_t number, struct error *err)
{
    const json_t *steps = json_object_get(test, "steps"), *order = json_object_get(test, "chainOrder");
    const char *load = replay_text(test, "expectLoad"), *wrong;
    char words[REPLAY_WORDS_MAX];

    if (!json_is_object(test) || !replay_text(test, "cluster") || !replay_text(test, "id"))
        return script_bad(s, place_of(s, number, 0, false), "expected a case: an object with id and cluster", err);
    if (strlen(replay_text(test, "cluster")) > NAME_LENGTH_MAX)
        return script_bad(s, place_of(s, number, 0, false), "cluster: too long", err);
    if (json_object_get(test, "expectLoad") && (!load || strcmp(load, "error") != 0))
        return script_bad(s, place_of(s, number, 0, false), "expectLoad: expected \"error\"", err);
    if (order && !json_is_object(order))
        return script_bad(s, place_of(s, number, 0, false), "chainOrder: expected {leaf type: [chain, ...]}", err);
    if (steps ? !json_is_array(steps) : !load)
        return script_bad(s, place_of(s, number, 0, false), "expected a list of steps", err);
    for (size_t i = 0; i < json_array_size(steps); i++) {
        wrong = replay_step_check(json_array_get(steps, i), words);
        if (wrong)
            return script_bad(s, place_of(s, number, i, true), wrong, err);
    }
    return 0;
}

static int script_check(const struct script *s, struct error *err)
{
    const json_t *cases = json_object_get(s->json, "cases");
    const char *wrong = replay_manner_check(json_object_get(s->json, "defaults"));
    int r = 0;

    if (!json_is_object(s->json) || json_integer_value(json_object_get(s->json, "format")) != 1)
        return error_set(err, -EINVAL, "%s:1:1: expected an object with \"format\": 1", s->file);
    if (wrong)
        return error_set(err, -EINVAL, "%s: defaults: %s", s->file, wrong);
    if (!json_is_array(cases))
        return json_expected(s->file, "cases", cases, "a list", err);
    for (size_t i = 0; r == 0 && i < json_array_size(cases); i++)
        r = case_check(s, json_array_get(cases, i), i, err);
    return r;
}

static void case_report(const struct replay *p, const struct script *s, size_t number, int failed, json_t *list)
{
    const json_t *test = json_array_get(json_object_get(s->json, "cases"), number);
    const json_t *step = json_array_get(json_object_get(test, "steps"), (size_t)(failed > 0 ? failed - 1 : 0));
    const char *id = replay_text(test, "id"), *title = replay_text(test, "title");
    const char *op = failed > 0 ? replay_text(step, "op") : "load";
    struct json_place place = { 0 };

    if (failed >= 0)
        place = place_of(s, number, (size_t)(failed > 0 ? failed - 1 : 0), failed > 0);
    if (list) {
        json_t *o =
            json_pack("{s:s, s:s, s:s}", "id", id, "title", title ? title : "", "result", failed < 0 ? "pass" : "fail");

        if (failed >= 0) {
            (void)json_object_set_new(o, "step", json_integer(failed));
            (void)json_object_set_new(o, "op", json_string(op));
            (void)json_object_set_new(o, "line", json_integer((json_int_t)place.line));
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
    (void)printf("FAIL  %s%s%s\n      %s:%zu: step %d (%s)\n      expected %s\n      got      %s\n", id,
                 title ? "  " : "", title ? title : "", s->file, place.line, failed, op, p->expected, p->got);
}

int cell_replay_run(const struct replay_source *source, json_t *list, struct replay_totals *totals, struct error *err)
{
    __attribute__((cleanup(cleanup_json_decref))) json_t *json = NULL;
    struct script s = { .file = source->file, .bytes = source->bytes };
    struct replay *p;
    int r = json_read(s.file, s.bytes->data, s.bytes->size, &json, err);

    s.json = json;
    if (r == 0)
        r = script_check(&s, err);
    if (r < 0)
        return r;
    p = mem_zalloc(1, sizeof(*p));
    if (!p)
        return error_set(err, -ENOMEM, "out of memory");
    p->file = s.file;
    p->totals = totals;
    p->run.load = source->load;
    p->run.context = source->context;
    p->defaults = json_object_get(json, "defaults");
    for (size_t i = 0; i < json_array_size(json_object_get(json, "cases")); i++) {
        int failed = case_run(p, json_array_get(json_object_get(json, "cases"), i));

        totals->passed += failed < 0;
        totals->failed += failed >= 0;
        case_report(p, &s, i, failed, list);
    }
    mem_free(p);
    return 0;
}

int cell_replay(const char *file, json_t *list, struct replay_totals *totals, struct error *err)
{
    CLEANUP_BYTES struct bytes bytes = { 0 };
    struct replay_source source = { .file = file, .bytes = &bytes, .load = file_load };
    int r = file_read(file, SCRIPT_BYTES_MAX, &bytes, err);

    source.context = (void *)(uintptr_t)file;
    return r < 0 ? r : cell_replay_run(&source, list, totals, err);
}
