/* SPDX-License-Identifier: Apache-2.0 */
/* estimates.c - see estimates.h. Completed jobs are lines of a table as `muster estimate` reads them: what a request
 * tells, its command line, and what was measured. */
#include "ctl/insight/estimates.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "ctl/insight/estimate_row.h"
#include "ctl/rest/render/record_tree.h"
#include "io/file.h"
#include "io/log.h"
#include "learn/background.h"
#include "solve/demand.h"
#include "wire/trace/model_file.h"

enum { POLL_MSEC = 100, TREES = 40, PAGE_JOBS = 250, COUNTS = 8, TOLD = 64 };
#define MODEL_BYTES_MAX ((size_t)256 << 20)

static const char *const targets[] = { "run_seconds", "memory_mib", "utilisation", "utilisation_dev" };
enum { TARGETS = sizeof(targets) / sizeof(targets[0]) };

/* What was answered for a job described so, by the model of that version. Jobs of a user come many alike. */
struct told {
    char *line;   /* owned */
    json_t *said; /* owned */
    uint64_t version;
};

struct estimates {
    struct server *server;
    struct told told[TOLD];
    struct estimator estimator; /* no forests: nothing was learned yet */
    struct trainer *trainer;
    struct loop_timer *poll;
    char *rows[ESTIMATES_ROWS_MAX]; /* owned; a ring of lines */
    size_t count, next;
    size_t fresh; /* since the last training began */
    bool training, started;
    /* Names handed to the trainer live until it is done. */
    const char *feature_names[FOREST_FEATURES_MAX], *target_names[TARGETS];
    struct names kept;
    usec_t trained;
    uint64_t version;
    char error[200];
};

static void model_path(const struct estimates *all, char *path, size_t size)
{
    (void)snprintf(path, size, "%.3900s/estimator.model", all->server->conf->state);
}

static void model_keep(struct estimates *all)
{
    struct buf out = BUF_INIT(MODEL_BYTES_MAX);
    struct error err = { 0 };
    char path[4096];

    model_path(all, path, sizeof(path));
    model_file_write(&all->estimator, &out);
    if (out.error || file_write_atomic(path, out.data, out.size, &err) < 0)
        log_warn("the estimator was not kept", "error", out.error ? "too large" : err.text);
    buf_done(&out);
}

static void on_poll(void *arg)
{
    struct estimates *all = arg;
    struct error err = { 0 };
    int r = trainer_poll(all->trainer, &all->estimator, &err);

    if (r == 0)
        return;
    all->training = false;
    loop_timer_stop(all->poll);
    names_done(&all->kept);
    if (r < 0) {
        (void)snprintf(all->error, sizeof(all->error), "%.190s", err.text);
        log_warn("no new estimator", "error", err.text);
        return;
    }
    all->error[0] = '\0';
    all->version++;
    all->trained = clock_now();
    log_info("estimator trained", "jobs", LOG_I64((int64_t)all->estimator.rows));
    model_keep(all);
}

/* A column is of use where every row has a value; of targets, where some is not 0. */
static bool target_usable(const struct dataset *set, uint32_t column)
{
    bool any = false;

    for (size_t row = 0; row < set->rows; row++) {
        double value = dataset_cell(set, row, column)->number;

        if (isnan(value) || value < 0)
            return false;
        any |= value > 0;
    }
    return any;
}

static const char *keep_name(struct estimates *all, const char *name)
{
    uint32_t index;

    return names_put(&all->kept, name, strlen(name), &index) < 0 ? "" : name;
}

/* Features: all but the command line itself and the targets. Names are of static tables, or kept. */
static void request_fill(struct estimates *all, const struct dataset *set, struct train_request *request)
{
    for (uint32_t c = 0; c < set->columns.count && request->feature_count < FOREST_FEATURES_MAX; c++) {
        const char *name = names_get(&set->columns, c);
        size_t t = 0;

        while (t < TARGETS && strcmp(targets[t], name) != 0)
            t++;
        if (t < TARGETS && target_usable(set, c))
            all->target_names[request->target_count++] = targets[t];
        else if (t == TARGETS && c != set->command)
            (void)keep_name(all, name);
    }
    for (uint32_t k = 0; k < all->kept.count; k++)
        all->feature_names[request->feature_count++] = names_get(&all->kept, k);
    request->features = all->feature_names;
    request->targets = all->target_names;
}

static void train_begin(struct estimates *all)
{
    struct train_request request = { .params = forest_params_default(), .threads = 1 };
    struct buf table = BUF_INIT((size_t)64 << 20);
    struct dataset set = { 0 };
    struct error err = { 0 };
    int r;

    buf_text(&table, ESTIMATE_HEADER "\n");
    for (size_t i = 0; i < all->count; i++)
        buf_text(&table, all->rows[i]);
    r = table.error ? error_set(&err, table.error, "no memory for a table")
                    : dataset_read(&set, "finished jobs", table.data, table.size,
                                   &(struct dataset_options){ .command = "command" }, &err);
    buf_done(&table);
    names_done(&all->kept);
    if (r == 0) {
        request_fill(all, &set, &request);
        request.params.trees = TREES;
        request.params.leaf_min = all->count < 200 ? 1 : 5;
        request.params.split_min = 2 * request.params.leaf_min;
        request.params.seed = 1;
        r = trainer_start(all->trainer, &set, &request, &err);
    }
    dataset_done(&set);
    all->fresh = 0;
    all->training = r == 0;
    if (r < 0)
        log_warn("no new estimator", "error", err.text);
    else
        loop_timer_every(all->poll, POLL_MSEC * USEC_MSEC);
}

static void row_add(struct estimates *all, char *line)
{
    mem_free(all->rows[all->next]);
    all->rows[all->next] = line;
    all->next = (all->next + 1) % ESTIMATES_ROWS_MAX;
    all->count += all->count < ESTIMATES_ROWS_MAX;
    all->fresh++;
}

static void train_if_due(struct estimates *all)
{
    if (all->started && !all->training && all->count >= ESTIMATES_LEAST && all->fresh >= ESTIMATES_EVERY)
        train_begin(all);
}

void estimates_ended(struct estimates *all, const struct ctl_job *job)
{
    const char *user = names_get(&server_book(all->server)->users, job->user);
    const struct ctl_attempt *attempt = attempt_last(job);
    struct record_used known;
    json_t *used;
    char *line;

    if (job->phase != PHASE_JOB_COMPLETED || !attempt)
        return;
    used = record_used(job, &known) ? json_pack("{s:f, s:f, s:I}", "utilisation", known.utilisation, "utilisation_dev",
                                                known.utilisation_dev, "memory_mib", (json_int_t)known.memory_mib)
                                    : json_null();
    line = estimate_row(user, job->spec, (double)attempt->ran / (double)USEC_SEC, used);
    json_decref(used);
    if (line)
        row_add(all, line);
    train_if_due(all);
}

/* ---- the start: what earlier lives have learned ---- */

static void history_row(struct estimates *all, const json_t *item)
{
    const json_t *attempts = json_object_get(item, "attempts");
    const json_t *last = json_array_get(attempts, json_array_size(attempts) - 1);
    const char *state = json_string_value(json_object_get(item, "state"));
    const char *user = json_string_value(json_object_get(item, "user"));
    struct submission s;
    char *line;

    if (state && user && strcmp(state, "COMPLETED") == 0 &&
        submission_from_value(json_object_get(item, "spec"), &s, NULL) == 0) {
        line = estimate_row(user, &s, json_number_value(json_object_get(last, "ran_seconds")),
                            json_object_get(item, "used"));
        submission_done(&s);
        if (line)
            row_add(all, line);
    }
}

struct page {
    struct estimates *all;
    int64_t before;
};

static void history_ask(struct page *page);

static void on_history(void *arg, json_t *items)
{
    struct page *page = arg;
    struct estimates *all = page->all;
    size_t i, count = json_array_size(items);
    json_t *item;

    json_array_foreach(items, i, item)
    {
        history_row(all, item);
        page->before = json_integer_value(json_object_get(item, "id"));
    }
    if (count == PAGE_JOBS && all->count < ESTIMATES_ROWS_MAX) {
        history_ask(page);
        return;
    }
    mem_free(page);
    all->started = true;
    train_if_due(all);
}

static void history_ask(struct page *page)
{
    struct store_query query = { .before_id = page->before, .limit = PAGE_JOBS };

    if (batcher_history(page->all->server->batcher, &query, on_history, page) < 0) {
        page->all->started = true;
        mem_free(page);
    }
}

static void model_load(struct estimates *all)
{
    CLEANUP_BYTES struct bytes bytes = { 0 };
    struct error err = { 0 };
    char path[4096];
    int r;

    model_path(all, path, sizeof(path));
    r = file_read(path, MODEL_BYTES_MAX, &bytes, &err);
    if (r == 0)
        r = model_file_read(path, bytes.data, bytes.size, &all->estimator, &err);
    if (r < 0 && r != -ENOENT) {
        (void)snprintf(all->error, sizeof(all->error), "%.190s", err.text);
        log_warn("the estimator cannot be used; requests are taken as stated", "error", err.text);
    }
    all->version = r == 0;
}

void estimates_start(struct estimates *all)
{
    struct page *page = mem_zalloc(1, sizeof(*page));

    model_load(all);
    all->started = !page;
    if (!page)
        return;
    page->all = all;
    history_ask(page);
}

int estimates_new(struct server *server, struct estimates **ret_estimates)
{
    struct estimates *all = mem_zalloc(1, sizeof(*all));

    if (!all)
        return -ENOMEM;
    all->server = server;
    if (trainer_new(&all->trainer, NULL) < 0 || loop_timer_new(server->loop, on_poll, all, &all->poll) < 0) {
        estimates_free(all);
        return -ENOMEM;
    }
    *ret_estimates = all;
    return 0;
}

static void told_clear(struct told *told)
{
    mem_free(told->line);
    json_decref(told->said);
    *told = (struct told){ 0 };
}

void estimates_free(struct estimates *all)
{
    if (!all)
        return;
    loop_timer_free(all->poll);
    trainer_free(all->trainer);
    estimator_done(&all->estimator);
    for (size_t i = 0; i < TOLD; i++)
        told_clear(&all->told[i]);
    for (size_t i = 0; i < all->count; i++)
        mem_free(all->rows[i]);
    names_done(&all->kept);
    mem_free(all);
}

/* ---- asking ---- */

/* The features of the estimator out of a table of one row; false: one is missing or of another kind. */
static bool features_of(const struct estimator *e, const struct dataset *set, struct feature *out, uint32_t *ret_gpus)
{
    *ret_gpus = UINT32_MAX;
    for (uint32_t i = 0; i < e->feature_count; i++) {
        uint32_t column = names_find(&set->columns, e->features[i], strlen(e->features[i]));

        if (strcmp(e->features[i], "gpus") == 0)
            *ret_gpus = i;
        if (column == NAME_NONE && strncmp(e->features[i], "--", 2) != 0)
            return false;
        out[i] = column == NAME_NONE ? (struct feature){ -1, 0 } : *dataset_cell(set, 0, column);
        if (!e->text[i] && isnan(out[i].number))
            return false;
    }
    return true;
}

/* How many GPUs are worth their time, by what is expected with each number; 0: it cannot be told. */
static int32_t gpus_pay(const struct estimator *e, struct feature *features, uint32_t gpus)
{
    const struct forest *forest = estimator_find(e, "run_seconds");
    double was = gpus < e->feature_count ? features[gpus].number : 0, seconds[COUNTS];
    int32_t counts[COUNTS];
    uint32_t n = 0;

    for (int32_t count = 1; forest && gpus < e->feature_count && n < COUNTS; count *= 2) {
        struct forest_answer answer;

        features[gpus].number = count;
        if (estimator_ask(e, forest, features, &answer, NULL) < 0)
            break;
        counts[n] = count;
        seconds[n++] = answer.mean;
    }
    if (gpus < e->feature_count)
        features[gpus].number = was;
    /* Where all jobs alike had the same number, nothing was learned of another. */
    for (uint32_t i = 1; i < n; i++)
        if (seconds[i] != seconds[0])
            return demand_gpus_pay(counts, seconds, n);
    return 0;
}

static json_t *model_ask(const struct estimator *e, const char *line)
{
    struct feature features[FOREST_FEATURES_MAX];
    struct dataset set = { 0 };
    struct buf table = BUF_INIT((size_t)1 << 20);
    json_t *out = NULL;
    uint32_t gpus;

    buf_printf(&table, ESTIMATE_HEADER "\n%s", line);
    if (!table.error &&
        dataset_read(&set, "job", table.data, table.size, &(struct dataset_options){ .command = "command" }, NULL) ==
            0 &&
        set.rows == 1 && features_of(e, &set, features, &gpus)) {
        int32_t pay = gpus_pay(e, features, gpus);

        out = json_object();
        for (uint32_t t = 0; t < e->target_count; t++) {
            struct forest_answer answer;

            if (estimator_ask(e, &e->forests[t], features, &answer, NULL) == 0)
                (void)json_object_set_new(out, e->forests[t].name, json_real(answer.mean));
        }
        if (pay)
            (void)json_object_set_new(out, "gpus_pay", json_integer(pay));
    }
    dataset_done(&set);
    buf_done(&table);
    return out;
}

json_t *estimates_ask(struct estimates *all, const char *user, const struct submission *spec)
{
    char *line = all->estimator.forests ? estimate_row(user, spec, 1, NULL) : NULL;
    struct told *told;

    if (!line)
        return NULL;
    told = &all->told[feature_hash(line, strlen(line)) % TOLD];
    if (!told->line || told->version != all->version || strcmp(told->line, line) != 0) {
        told_clear(told);
        *told = (struct told){ line, model_ask(&all->estimator, line), all->version };
    } else {
        mem_free(line);
    }
    return told->said ? json_copy(told->said) : NULL;
}

json_t *estimates_json(const struct estimates *all)
{
    json_t *features = json_array(), *names = json_array();

    for (uint32_t i = 0; i < all->estimator.feature_count; i++)
        (void)json_array_append_new(features, json_string(all->estimator.features[i]));
    for (uint32_t i = 0; i < all->estimator.target_count; i++)
        (void)json_array_append_new(names, json_string(all->estimator.forests[i].name));
    return json_pack("{s:s, s:s, s:I, s:I, s:b, s:o, s:I, s:o, s:o, s:o}", "apiVersion", "v1", "kind", "Estimator",
                     "version", (json_int_t)all->version, "jobs", (json_int_t)all->estimator.rows, "training",
                     all->training, "trained_time", record_time(all->trained), "known", (json_int_t)all->count,
                     "features", features, "targets", names, "error",
                     all->error[0] ? json_string(all->error) : json_null());
}
