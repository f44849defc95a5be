/* SPDX-License-Identifier: Apache-2.0 */
/* The controller's outside without sockets: routes against their document, configuration to the word, futures of a
 * core.
 */
#include <ctype.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ctl/daemon/server.h"
#include "ctl/insight/foresee.h"
#include "ctl/insight/series.h"
#include "io/file.h"
#include "policy/registry.h"
#include "wire/cluster/cluster.h"
#include "wire/text/json_read.h"

static struct error err;

static json_t *document(void)
{
    const char *source = getenv("MUSTER_SOURCE");
    struct bytes text = { 0 };
    char path[4096];
    json_t *json = NULL;

    (void)snprintf(path, sizeof(path), "%s/api/openapi.json", source ? source : ".");
    assert_int_equal(file_read(path, 0, &text, &err), 0);
    assert_int_equal(json_read(path, text.data, text.size, &json, &err), 0);
    bytes_done(&text);
    return json;
}

static void lower(char *out, const char *text)
{
    while ((*out++ = (char)tolower((unsigned char)*text++)))
        ;
}

/* Every route is in the document, and everything in the document is a route. */
static void routes_documented(void **state)
{
    json_t *json = document(), *paths = json_object_get(json, "paths"), *methods, *operation;
    const char *path, *method;
    size_t documented = 0, there = 0;

    (void)state;
    for (size_t i = 0; i < route_count; i++) {
        char name[16];

        if (strncmp(routes[i].path, "//", 2) == 0)
            continue;
        there++;
        lower(name, routes[i].method);
        if (!json_object_get(json_object_get(paths, routes[i].path), name))
            fail_msg("%s %s is not in api/openapi.json", routes[i].method, routes[i].path);
    }
    json_object_foreach(paths, path, methods) json_object_foreach(methods, method, operation)
    {
        bool found = strcmp(method, "parameters") == 0;

        documented += !found;
        for (size_t i = 0; i < route_count && !found; i++) {
            char name[16];

            lower(name, routes[i].method);
            found = strcmp(routes[i].path, path) == 0 && strcmp(name, method) == 0;
        }
        if (!found)
            fail_msg("%s %s is no route", method, path);
    }
    assert_int_equal(documented, there);
    json_decref(json);
}

static const struct route *find(const char *method, const char *path, char **params, int *status)
{
    static char copy[256], allow[128];

    (void)snprintf(copy, sizeof(copy), "%s", path);
    return route_find(method, copy, params, status, allow, sizeof(allow));
}

static void routes_found(void **state)
{
    char *params[REQUEST_PARAMS_MAX] = { 0 };
    const struct route *route;
    int status;

    (void)state;
    route = find("GET", "/api/v1/jobs/12/why", params, &status);
    assert_non_null(route);
    assert_string_equal(route->path, "/jobs/{id}/why");
    assert_string_equal(params[0], "12");
    route = find("POST", "/api/v1/jobs/12/hold", params, &status);
    assert_string_equal(route->path, "/jobs/{id}/{action}");
    assert_string_equal(params[1], "hold");
    assert_non_null(find("HEAD", "/healthz", params, &status));
    assert_string_equal(find("GET", "/api/v1/healthz", params, &status)->path, "/healthz");
    assert_null(find("GET", "/jobs", params, &status));
    assert_int_equal(status, 404);
    assert_null(find("GET", "/api/v1/metrics", params, &status));
    assert_null(find("DELETE", "/api/v1/jobs", params, &status));
    assert_int_equal(status, 405);
    assert_null(find("GET", "/api/v1/a/b/c/d/e/f/g/h/i/j", params, &status));
    assert_null(find("GET", "", params, &status));
}

static int conf_try(const char *text, struct conf *conf)
{
    conf_init(conf);
    return conf_parse("muster.yaml", text, strlen(text), conf, &err);
}

static void conf_good(void **state)
{
    struct conf conf;

    (void)state;
    assert_int_equal(conf_try("cluster: lab\nlisten: [\":7717\", /run/x.sock]\nstate: /s\n"
                              "tls: {cert: c, key: k, ca: a, ca_key: b}\n"
                              "auth: {admins: [alice, bob], anonymous: read, privacy: sizes}\npolicy: srsf\n"
                              "vcs: {nlp: {guarantee: {H100: 4}, borrow: all}}\n"
                              "lease: {time: 5m, node_timeout: 30s, beat: 10s, grace: 1m, fence: /sbin/off}\n"
                              "limits: {jobs: 10, body: 2M, header_time: 500ms}\n",
                              &conf),
                     0);
    assert_string_equal(conf.cluster, "lab");
    assert_int_equal(conf.listen_count, 2);
    assert_string_equal(conf.admins[1], "bob");
    assert_true(conf.anonymous_read);
    assert_int_equal(conf.privacy, PRIVACY_SIZES);
    assert_int_equal(conf.lease, 300 * USEC_SEC);
    assert_int_equal(conf.fence, CONF_FENCE_PROGRAM);
    assert_string_equal(conf.fence_program, "/sbin/off");
    assert_int_equal(conf.body_max, 2 << 20);
    assert_int_equal(conf.header_time, 500 * USEC_MSEC);
    assert_int_equal(
        json_integer_value(json_object_get(json_object_get(json_object_get(conf.vcs, "nlp"), "guarantee"), "H100")), 4);
    assert_int_equal(conf_check(&conf, &err), 0);
    /* A second file replaces lists as a whole. */
    assert_int_equal(conf_parse("b.yaml", "listen: [\"127.0.0.1:1\", /x, \"[::1]:2\"]\n", 39, &conf, &err), 0);
    assert_int_equal(conf.listen_count, 3);
    assert_string_equal(conf.listen[1], "/x");
    assert_string_equal(conf.listen[2], "[::1]:2");
    assert_int_equal(conf_parse("c.yaml", "listen: /y\n", 11, &conf, &err), 0);
    assert_int_equal(conf.listen_count, 1);
    conf_done(&conf);
}

static void conf_bad(void **state)
{
    static const char *const cases[][2] = {
        { "cluster: a\ncolour: red\n", "muster.yaml:2:1: unknown key 'colour'" },
        { "lease: {fence: maybe}\n", "muster.yaml:1:16: fence: expected confirm, lease, or the path of a program" },
        { "lease: {time: soon}\n", "muster.yaml:1:15: time: 'soon' is not a span" },
        { "limits: {body: 1T}\n", "muster.yaml:1:16: body: expected a size" },
        { "auth: {privacy: all}\n", "muster.yaml:1:17: privacy: expected names, sizes or none" },
        { "policy: magic\n", "muster.yaml:1:9: policy: there is no 'magic'" },
        { "log: loud\n", "muster.yaml:1:6: log: expected err, warn, info or debug" },
        { "limits: {jobs: 0}\n", "muster.yaml:1:16: " },
        { "tls: [a]\n", "muster.yaml:1:6: " },
        { "vcs: 7\n", "muster.yaml:1:6: " },
        { "cluster: {a\n", "muster.yaml:2:" },
    };
    struct conf conf;

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (conf_try(cases[i][0], &conf) == 0)
            fail_msg("case %zu was taken", i);
        if (strncmp(err.text, cases[i][1], strlen(cases[i][1])) != 0)
            fail_msg("case %zu: %s", i, err.text);
        conf_done(&conf);
    }
    assert_int_equal(conf_try("listen: [\"0.0.0.0:7717\"]\n", &conf), 0);
    assert_int_equal(conf_check(&conf, &err), -EINVAL);
    assert_non_null(strstr(err.text, "tls"));
    conf_done(&conf);
}

/* Two nodes of four; jobs that take as long as they say. */
static struct core *core_make(const char *policy)
{
    struct cluster_spec spec = { 0 };
    struct policy_setup setup;
    struct core_config config = { .limits = { .jobs = 16 }, .seed = 1, .policies = &setup };
    struct core *core = NULL;

    policy_setup(policy_find(policy), &setup);
    assert_int_equal(cluster_parse("2x4", &spec, &err), 0);
    assert_int_equal(core_new(&spec, &config, &core, &err), 0);
    cluster_spec_done(&spec);
    return core;
}

static void submit(struct core *core, int64_t id, int32_t gpus, usec_t limit)
{
    struct jobspec spec = { .id = id,
                            .submit = core_now(core) > 0 ? core_now(core) : 0,
                            .time_limit = limit,
                            .gpus = gpus,
                            .share = MGPU_ONE,
                            .gpus_min = gpus,
                            .gpus_max = gpus,
                            .user = NAME_NONE,
                            .model = NAME_NONE };
    struct job_ref ref;

    assert_int_equal(core_offer(core, &(struct event){ .kind = EVENT_SUBMIT, .spec = &spec }, &ref, &err), 0);
}

static usec_t left_by_limit(void *arg, const struct job *job, usec_t now)
{
    (void)arg;
    (void)now;
    return job->spec.time_limit - job_progress(job, now);
}

static void future_fifo(void **state)
{
    struct core *core = core_make("fifo");
    struct foresee_limits limits = { .steps = 1000, .horizon = USEC_DAY, .starts = 100 };
    struct future future;
    const struct foreseen *b, *c;

    (void)state;
    submit(core, 1, 8, 100 * USEC_SEC);
    submit(core, 2, 4, 50 * USEC_SEC);
    submit(core, 3, 8, 10 * USEC_SEC);
    (void)core_step(core, 0);
    assert_int_equal(foresee(core, &limits, left_by_limit, NULL, &future, &err), 0);
    b = future_find(&future, 2);
    c = future_find(&future, 3);
    assert_non_null(b);
    assert_non_null(c);
    assert_int_equal(b->gpu_count, 4);
    assert_int_equal(c->gpu_count, 8);
    assert_int_equal((b->start + 500) / USEC_SEC, 100);
    assert_int_equal((c->start + 500) / USEC_SEC, 150);
    assert_int_equal(core_waiting(core), 0);
    assert_false(future.cut);
    future_done(&future);
    core_free(core);
}

static void future_cut(void **state)
{
    struct core *core = core_make("srsf");
    struct foresee_limits limits = { .steps = 2, .horizon = USEC_DAY, .starts = 100 };
    struct future future;

    (void)state;
    for (int64_t i = 1; i <= 10; i++)
        submit(core, i, 8, i * USEC_MIN);
    (void)core_step(core, 0);
    assert_int_equal(foresee(core, &limits, left_by_limit, NULL, &future, &err), 0);
    assert_true(future.cut);
    future_done(&future);
    core_free(core);
    core = core_make("srsf");
    for (int64_t i = 1; i <= 10; i++)
        submit(core, i, 8, i * USEC_MIN);
    (void)core_step(core, 0);
    limits.steps = 10000;
    limits.until = 3;
    assert_int_equal(foresee(core, &limits, left_by_limit, NULL, &future, &err), 0);
    assert_non_null(future_find(&future, 3));
    assert_null(future_find(&future, 9));
    future_done(&future);
    core_free(core);
}

enum { STAYS_MAX = 512 };

struct stay_seen {
    int64_t job;
    usec_t from, to;
    uint32_t gpus; /* a bit each */
};

/* Who has GPUs now, until the future has them leave; then all that it has start. */
static size_t stays_collect(const struct future *future, const struct stay_seen *now, size_t count,
                            struct stay_seen stays[STAYS_MAX])
{
    size_t n = 0;

    for (size_t i = 0; i < count; i++) {
        stays[n] = now[i];
        stays[n++].to = future_leave(future, now[i].job);
    }
    for (size_t i = 0; i < future->count && n < STAYS_MAX; i++) {
        stays[n] = (struct stay_seen){ .job = future->items[i].job,
                                       .from = future->items[i].start,
                                       .to = future->items[i].end };
        for (uint32_t g = 0; g < future->items[i].gpu_count; g++)
            stays[n].gpus |= 1U << future->gpus[future->items[i].gpu_first + g];
        n++;
    }
    return n;
}

/* A timeline of jobs on whole GPUs books no GPU twice, whoever is stopped for somebody and starts again. */
static void future_books_once(void **state)
{
    static const char *const policies[] = { "las", "srtf", "srsf", "gittins", "fifo-skip" };
    struct foresee_limits limits = { .steps = 4000, .horizon = 30 * USEC_DAY, .starts = STAYS_MAX };
    size_t stopped = 0;

    (void)state;
    for (uint64_t seed = 0; seed < 60; seed++) {
        struct core *core = core_make(policies[seed % 5]);
        struct stay_seen now[16] = { 0 }, stays[STAYS_MAX] = { 0 };
        struct future future;
        struct rng rng;
        size_t count = 0, n;

        rng_seed(&rng, seed);
        for (int64_t id = 1; id <= 6; id++)
            submit(core, id, 1 + (int32_t)rng_below(&rng, 5), (usec_t)(1 + rng_below(&rng, 40)) * USEC_HOUR);
        (void)core_step(core, 0);
        for (uint32_t slot = 0; slot < core_job_top(core); slot++)
            for (uint32_t s = core_job(core, slot)->shares; s != SHARE_NONE;
                 s = core_ledger(core)->shares[s].next_of_job)
                now[slot].gpus |= 1U << core_ledger(core)->shares[s].gpu;
        for (uint32_t slot = 0; slot < core_job_top(core); slot++)
            if (now[slot].gpus)
                now[count++] = (struct stay_seen){ .job = core_job(core, slot)->spec.id, .gpus = now[slot].gpus };
        for (int64_t id = 7; id <= 14; id++)
            submit(core, id, 1 + (int32_t)rng_below(&rng, 8), (usec_t)(1 + rng_below(&rng, 200)) * USEC_MIN);
        assert_int_equal(foresee(core, &limits, left_by_limit, NULL, &future, &err), 0);
        stopped += future.stop_count;
        n = stays_collect(&future, now, count, stays);
        for (size_t a = 0; a < n; a++)
            for (size_t b = 0; b < a; b++)
                if (stays[a].gpus & stays[b].gpus && stays[a].from < stays[b].to && stays[b].from < stays[a].to)
                    fail_msg("seed %llu: jobs %lld and %lld have a GPU at once", (unsigned long long)seed,
                             (long long)stays[a].job, (long long)stays[b].job);
        future_done(&future);
        core_free(core);
    }
    assert_true(stopped > 0);
}

/* Of those that are stopped, those are told that make room for the job. */
static void future_names_who_leaves(void **state)
{
    struct core *core = core_make("las");
    struct foresee_limits limits = { .steps = 1000, .horizon = USEC_DAY, .starts = 100, .until = 3 };
    struct future future;

    (void)state;
    submit(core, 1, 4, 10 * USEC_HOUR);
    submit(core, 2, 4, 5 * USEC_HOUR);
    (void)core_step(core, 0);
    submit(core, 3, 4, USEC_HOUR);
    assert_int_equal(foresee(core, &limits, left_by_limit, NULL, &future, &err), 0);
    assert_int_equal(future.stop_count, 1); /* one of the two, when it has had its share of the first queue */
    assert_true(future.stops[0].job == 1 || future.stops[0].job == 2);
    assert_int_equal(future.stops[0].by, 3);
    assert_non_null(future_find(&future, 3));
    future_done(&future);
    core_free(core);
}

/* Rings of figures: the last value finely, means coarsely; gaps are none, what fell out is none, files bring it back.
 */
static void series_rings(void **state)
{
    usec_t start = 1000 * USEC_HOUR, hour = start + USEC_HOUR;
    struct buf text = BUF_INIT(1 << 20);
    struct series *one, *two;

    (void)state;
    assert_int_equal(series_new(&one), 0);
    assert_int_equal(series_new(&two), 0);
    for (usec_t at = 0; at < USEC_MIN; at += 5 * USEC_SEC)
        assert_int_equal(series_put(one, "vc/a/used", start + at, at < 30 * USEC_SEC ? 2000 : 4000), 0);
    assert_int_equal(series_get(one, "vc/a/used", 0, start), 2000);
    assert_int_equal(series_get(one, "vc/a/used", 0, start + 55 * USEC_SEC), 4000);
    assert_int_equal(series_get(one, "vc/a/used", 1, start), 3000);
    assert_int_equal(series_get(one, "vc/a/used", 0, start + USEC_MIN), SERIES_NONE);
    assert_int_equal(series_get(one, "vc/b/used", 0, start), SERIES_NONE);
    assert_int_equal(series_put(one, "vc/a/used", hour + USEC_HOUR, 7000), 0);
    assert_int_equal(series_get(one, "vc/a/used", 0, start), SERIES_NONE); /* longer ago than the ring */
    assert_int_equal(series_get(one, "vc/a/used", 0, hour + USEC_HOUR - 5 * USEC_SEC), SERIES_NONE); /* a gap */
    assert_int_equal(series_get(one, "vc/a/used", 1, start), 3000);
    assert_int_equal(series_put(one, "vc/a/used", start, 9000), 0); /* the past is not changed */
    assert_int_equal(series_get(one, "vc/a/used", 1, start), 3000);
    assert_int_equal(series_tier_for(hour - USEC_MIN, hour), 0);
    assert_int_equal(series_tier_for(hour - 2 * USEC_HOUR, hour), 1);
    assert_int_equal(series_tier_for(hour - 9 * USEC_DAY, hour), 2);
    series_save(one, &text);
    assert_int_equal(series_load(two, text.data, text.size, &err), 0);
    assert_int_equal(series_get(two, "vc/a/used", 1, start), 3000);
    assert_int_equal(series_get(two, "vc/a/used", 2, hour + USEC_HOUR), 7000);
    assert_int_equal(series_get(two, "vc/a/used", 0, hour + USEC_HOUR), 7000);
    assert_int_equal(series_load(two, "muster-series 1\nx y\n", 20, &err), -EBADMSG);
    assert_string_equal(err.text, "line 2: expected NAME TIER FIRST VALUE...");
    buf_done(&text);
    series_free(one);
    series_free(two);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(series_rings), cmocka_unit_test(routes_documented), cmocka_unit_test(routes_found),
        cmocka_unit_test(conf_good),    cmocka_unit_test(conf_bad),          cmocka_unit_test(future_fifo),
        cmocka_unit_test(future_cut),   cmocka_unit_test(future_books_once), cmocka_unit_test(future_names_who_leaves),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
