/* SPDX-License-Identifier: Apache-2.0 */
/* cell_replay.c - muster cell replay: drives the cell allocator by a script and checks what it answers. */
#include "cli/cells/cell_replay.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "cli/cells/replay_step.h"
#include "cli/sim/load.h"
#include "io/file.h"
#include "wire/text/json_position.h"
#include "wire/text/json_read.h"

#define SCRIPT_BYTES_MAX ((size_t)1 << 28)

/* Processor time: what else the machine does is not the step's. */
static int64_t clock_us(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
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
static struct json_position place_of(const struct script *s, size_t number, size_t step, bool deep)
{
    const struct json_hop path[] = { { "cases", 0 }, { NULL, number }, { "steps", 0 }, { NULL, step } };

    return json_position_find(s->bytes->data, s->bytes->size, path, deep ? 4 : 2);
}

static int script_bad(const struct script *s, struct json_position place, const char *words, struct error *err)
{
    return error_set(err, -EINVAL, "%s:%zu:%zu: %s", s->file, place.line, place.column, words);
}

/* One case of the script is not as it should be: where, in words. */
static int case_check(const struct script *s, const json_t *test, size_t number, struct error *err)
{
    const json_t *steps = json_object_get(test, "steps");
    const char *wrong;
    char words[REPLAY_WORDS_MAX];

    if (!json_is_object(test) || !replay_text(test, "cluster") || !replay_text(test, "id"))
        return script_bad(s, place_of(s, number, 0, false), "expected a case: an object with id and cluster", err);
    if (strlen(replay_text(test, "cluster")) > NAME_LENGTH_MAX)
        return script_bad(s, place_of(s, number, 0, false), "cluster: too long", err);
    wrong = replay_values_check("case", test, words);
    if (wrong)
        return script_bad(s, place_of(s, number, 0, false), wrong, err);
    if (steps && !json_is_null(steps) ? !json_is_array(steps) : !replay_text(test, "expectLoad"))
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
    const struct json_hop at_defaults = { "defaults", 0 }, at_cases = { "cases", 0 };
    const json_t *cases = json_object_get(s->json, "cases"), *defaults = json_object_get(s->json, "defaults");
    char words[REPLAY_WORDS_MAX];
    const char *wrong;
    int r = 0;

    if (!json_is_object(s->json) || json_integer_value(json_object_get(s->json, "format")) != 1)
        return error_set(err, -EINVAL, "%s:1:1: expected an object with \"format\": 1", s->file);
    wrong = replay_values_check("script", s->json, words);
    if (wrong)
        return error_set(err, -EINVAL, "%s:1:1: %s", s->file, wrong);
    wrong = replay_values_check("defaults", defaults, words);
    if (defaults && !json_is_null(defaults) && !json_is_object(defaults))
        wrong = "defaults: expected an object";
    if (wrong)
        return script_bad(s, json_position_find(s->bytes->data, s->bytes->size, &at_defaults, 1), wrong, err);
    if (!json_is_array(cases))
        return script_bad(s, json_position_find(s->bytes->data, s->bytes->size, &at_cases, 1), "cases: expected a list",
                          err);
    for (size_t i = 0; r == 0 && i < json_array_size(cases); i++)
        r = case_check(s, json_array_get(cases, i), i, err);
    return r;
}

/* What came of a case, in one of the two manners. */
struct attempt {
    bool literal;
    int failed; /* as case_run() says */
    struct replay_totals totals;
    char expected[REPLAY_WORDS_MAX], got[REPLAY_WORDS_MAX];
};

static void attempt_run(struct replay *p, const json_t *test, bool literal, struct attempt *ret)
{
    *ret = (struct attempt){ .literal = literal };
    p->run.literal = literal;
    p->totals = &ret->totals;
    ret->failed = case_run(p, test);
    if (ret->failed >= 0) {
        memcpy(ret->expected, p->expected, sizeof(ret->expected));
        memcpy(ret->got, p->got, sizeof(ret->got));
    }
}

/* Passing is better than failing, failing later than earlier, an exact answer better than an equivalent one. */
static bool attempt_better(const struct attempt *a, const struct attempt *b)
{
    if ((a->failed < 0) != (b->failed < 0))
        return a->failed < 0;
    return a->failed != b->failed ? a->failed > b->failed : a->totals.exact > b->totals.exact;
}

/* The case as HiveD is described; if that is not all it could be, as HiveD itself would answer. One manner holds for
 * a whole case. */
static void case_try(struct replay *p, const json_t *test, enum replay_manner manner, struct attempt *ret)
{
    struct attempt other;

    attempt_run(p, test, manner == REPLAY_HIVED, ret);
    if (manner != REPLAY_EITHER || (ret->failed < 0 && ret->totals.equivalent == 0) || replay_text(test, "expectLoad"))
        return;
    attempt_run(p, test, true, &other);
    if (attempt_better(&other, ret))
        *ret = other;
}

static void case_report(const struct attempt *a, const struct script *s, size_t number, json_t *list)
{
    int failed = a->failed;
    const json_t *test = json_array_get(json_object_get(s->json, "cases"), number);
    const json_t *step = json_array_get(json_object_get(test, "steps"), (size_t)(failed > 0 ? failed - 1 : 0));
    const char *id = replay_text(test, "id"), *title = replay_text(test, "title");
    const char *op = failed > 0 ? replay_text(step, "op") : "load";
    struct json_position place = { 0 };

    if (failed >= 0)
        place = place_of(s, number, (size_t)(failed > 0 ? failed - 1 : 0), failed > 0);
    if (list) {
        json_t *o =
            json_pack("{s:s, s:s, s:s}", "id", id, "title", title ? title : "", "result", failed < 0 ? "pass" : "fail");

        (void)json_object_set_new(o, "as", json_string(a->literal ? "hived" : "described"));
        if (failed >= 0) {
            (void)json_object_set_new(o, "step", json_integer(failed));
            (void)json_object_set_new(o, "op", json_string(op));
            (void)json_object_set_new(o, "line", json_integer((json_int_t)place.line));
            (void)json_object_set_new(o, "expected", json_string_nocheck(a->expected));
            (void)json_object_set_new(o, "got", json_string_nocheck(a->got));
        }
        (void)json_array_append_new(list, o);
        return;
    }
    if (failed < 0) {
        (void)printf("pass  %s%s%s%s\n", id, title ? "  " : "", title ? title : "",
                     a->literal ? "  [as HiveD itself]" : "");
        return;
    }
    (void)printf("FAIL  %s%s%s\n      %s:%zu: step %d (%s)\n      expected %s\n      got      %s\n", id,
                 title ? "  " : "", title ? title : "", s->file, place.line, failed, op, a->expected, a->got);
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
    p->run.load = source->load;
    p->run.context = source->context;
    p->defaults = json_object_get(json, "defaults");
    for (size_t i = 0; i < json_array_size(json_object_get(json, "cases")); i++) {
        struct attempt a;

        case_try(p, json_array_get(json_object_get(json, "cases"), i), source->manner, &a);
        totals->passed += a.failed < 0;
        totals->failed += a.failed >= 0;
        totals->hived += a.failed < 0 && a.literal;
        totals->exact += a.totals.exact;
        totals->equivalent += a.totals.equivalent;
        totals->steps += a.totals.steps;
        case_report(&a, &s, i, list);
    }
    mem_free(p);
    return 0;
}

int cell_replay(const char *file, enum replay_manner manner, json_t *list, struct replay_totals *totals,
                struct error *err)
{
    CLEANUP_BYTES struct bytes bytes = { 0 };
    struct replay_source source = { .file = file, .bytes = &bytes, .load = file_load, .manner = manner };
    int r = file_read(file, SCRIPT_BYTES_MAX, &bytes, err);

    source.context = (void *)(uintptr_t)file;
    return r < 0 ? r : cell_replay_run(&source, list, totals, err);
}
