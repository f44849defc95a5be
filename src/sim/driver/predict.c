/* SPDX-License-Identifier: Apache-2.0 */
/* predict.c - see predict.h. */
#include "sim/driver/predict.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "io/file.h"
#include "learn/estimator.h"
#include "solve/demand.h"
#include "wire/trace/model_file.h"

enum { RETRAIN_LEAST = 10, MODEL_MAX = 1 << 30 };

static const char *const feature_names[] = { "model", "user",        "vc",      "batch",
                                             "gpus",  "gpu_servers", "servers", "priority" };
static const char *const target_names[] = { "memory_mib", "utilisation", "bandwidth", "launch", "save", "estimate" };
enum { FEATURES = sizeof(feature_names) / sizeof(*feature_names) };
enum { TARGETS = sizeof(target_names) / sizeof(*target_names) };

struct predictor {
    const struct trace *trace;
    struct estimator estimator; /* no forests: nothing was learned yet */
    struct dataset seen;        /* finished jobs: features, then targets */
    uint32_t retrain;           /* finished jobs between two trainings; 0 = never */
    uint64_t seed, misses;
};

static struct feature text_of(const struct names *names, uint32_t name)
{
    const char *text = names_get(names, name);

    return (struct feature){ name == NAME_NONE ? (double)NAN : 0, feature_hash(text, strlen(text)) };
}

/* Every feature a request can have, in the order of feature_names. */
static void features_of(const struct predictor *p, uint32_t job, struct feature out[FEATURES])
{
    const struct jobspec *spec = &p->trace->jobs[job].spec;

    out[0] = text_of(&p->trace->models, spec->model);
    out[1] = text_of(&p->trace->users, spec->user);
    out[2] = text_of(&p->trace->vcs, spec->vc);
    out[3] = (struct feature){ spec->batch ? spec->batch : (double)NAN, 0 };
    out[4] = (struct feature){ spec->gpus, 0 };
    out[5] = (struct feature){ spec->gpu_servers, 0 };
    out[6] = (struct feature){ spec->servers, 0 };
    out[7] = (struct feature){ spec->priority, 0 };
}

/* Which of the request's features each of the model's is. */
static bool bind(const struct estimator *e, uint32_t which[FOREST_FEATURES_MAX], const char **ret_unknown)
{
    for (uint32_t i = 0; i < e->feature_count; i++) {
        which[i] = 0;
        while (which[i] < FEATURES && strcmp(feature_names[which[i]], e->features[i]) != 0)
            which[i]++;
        *ret_unknown = e->features[i];
        if (which[i] == FEATURES || e->text[i] != (which[i] < 3))
            return false;
    }
    return true;
}

static int load(struct predictor *p, const char *path, char warning[PREDICT_WARNING_MAX])
{
    CLEANUP_BYTES struct bytes bytes = { 0 };
    uint32_t which[FOREST_FEATURES_MAX];
    const char *unknown = "";
    struct error err = { 0 };
    int r = file_read(path, MODEL_MAX, &bytes, &err);

    if (r == 0)
        r = model_file_read(path, bytes.data, bytes.size, &p->estimator, &err);
    if (r == 0 && !bind(&p->estimator, which, &unknown)) {
        r = error_set(&err, -EINVAL, "%s: the model wants '%s', which a request does not have", path, unknown);
        estimator_done(&p->estimator);
    }
    if (r < 0)
        (void)snprintf(warning, PREDICT_WARNING_MAX, "%.180s; requests are taken as stated", err.text);
    return r;
}

static int make_columns(struct predictor *p)
{
    uint32_t index;
    int r = 0;

    for (size_t i = 0; i < FEATURES + TARGETS && r == 0; i++) {
        const char *name = i < FEATURES ? feature_names[i] : target_names[i - FEATURES];

        r = names_put(&p->seen.columns, name, strlen(name), &index);
        p->seen.text[i] = i < 3;
    }
    return r;
}

int predictor_new(const struct trace *trace, const struct world_config *config, char warning[PREDICT_WARNING_MAX],
                  struct predictor **ret_predictor, struct error *err)
{
    struct predictor *p;

    *ret_predictor = NULL;
    warning[0] = '\0';
    if (!config->estimator[0] && !config->retrain)
        return 0;
    p = mem_zalloc(1, sizeof(*p));
    if (!p || make_columns(p) < 0) {
        predictor_free(p);
        return error_set(err, -ENOMEM, "no memory for an estimator");
    }
    p->trace = trace;
    p->seed = config->seed;
    p->retrain = config->retrain && config->retrain < RETRAIN_LEAST ? RETRAIN_LEAST : (uint32_t)config->retrain;
    if (config->estimator[0] && load(p, config->estimator, warning) < 0 && !p->retrain) {
        predictor_free(p);
        return 0;
    }
    *ret_predictor = p;
    return 0;
}

void predictor_free(struct predictor *p)
{
    if (!p)
        return;
    estimator_done(&p->estimator);
    dataset_done(&p->seen);
    mem_free(p);
}

uint64_t predictor_misses(const struct predictor *p)
{
    return p ? p->misses : 0;
}

/* One prediction into the request, as the scheduler wants it: memory with a tenth to spare, whole units. */
static void apply(const char *target, double value, struct jobspec *spec)
{
    struct demand_raw raw = { (double)NAN, (double)NAN, (double)NAN, (double)NAN, (double)NAN };
    struct demand d;

    if (strcmp(target, "memory_mib") == 0)
        raw.memory_mib = value;
    if (strcmp(target, "utilisation") == 0)
        raw.utilisation = fmin(value, 100);
    d = demand_round(&raw);
    if (strcmp(target, "memory_mib") == 0)
        spec->memory_mib = demand_memory(d.memory_mib, spec->memory_mib, false);
    else if (strcmp(target, "utilisation") == 0)
        spec->utilisation = (uint16_t)d.utilisation;
    else if (strcmp(target, "bandwidth") == 0)
        spec->bandwidth = (uint32_t)ceil(fmax(value, 0));
    else if (strcmp(target, "launch") == 0)
        spec->launch = (usec_t)(fmax(value, 0) * (double)USEC_SEC);
    else if (strcmp(target, "save") == 0)
        spec->save = (usec_t)(fmax(value, 0) * (double)USEC_SEC);
    else if (strcmp(target, "estimate") == 0)
        spec->estimate = (usec_t)(fmax(value, 1e-6) * (double)USEC_SEC);
}

void predictor_ask(struct predictor *p, uint32_t job, struct jobspec *spec)
{
    struct feature all[FEATURES], features[FOREST_FEATURES_MAX];
    uint32_t which[FOREST_FEATURES_MAX];
    const char *unknown;
    bool whole = true;

    if (!p || !p->estimator.forests)
        return;
    features_of(p, job, all);
    whole = bind(&p->estimator, which, &unknown);
    for (uint32_t i = 0; i < p->estimator.feature_count && whole; i++) {
        features[i] = all[which[i]];
        whole = !isnan(features[i].number);
    }
    p->misses += !whole;
    for (uint32_t t = 0; t < p->estimator.target_count && whole; t++) {
        struct forest_answer answer;

        if (estimator_ask(&p->estimator, &p->estimator.forests[t], features, &answer, NULL) == 0)
            apply(p->estimator.forests[t].name, answer.mean, spec);
    }
}

/* ---- learning ---- */

/* Features and targets that every finished job so far has told, and that differ at all. */
static uint32_t usable(const struct predictor *p, uint32_t first, uint32_t count, const char *const *names,
                       const char **out)
{
    uint32_t found = 0;

    for (uint32_t c = first; c < first + count; c++) {
        bool told = true;

        for (size_t row = 0; row < p->seen.rows && told; row++) {
            double value = dataset_cell(&p->seen, row, c)->number;

            told = !isnan(value) && (first == 0 || value > 0);
        }
        if (told)
            out[found++] = names[c - first];
    }
    return found;
}

static int train(struct predictor *p, struct error *err)
{
    const char *features[FEATURES], *targets[TARGETS];
    struct train_request request = { .features = features, .targets = targets, .params = forest_params_default() };
    struct estimator fresh = { 0 };
    int r;

    request.feature_count = usable(p, 0, FEATURES, feature_names, features);
    request.target_count = usable(p, FEATURES, TARGETS, target_names, targets);
    request.params.trees = 30;
    request.params.leaf_min = p->seen.rows < 200 ? 1 : 5;
    request.params.split_min = 2 * request.params.leaf_min;
    request.params.seed = p->seed;
    if (request.feature_count == 0 || request.target_count == 0)
        return 0; /* nothing to learn from yet */
    r = estimator_train(&p->seen, &request, &fresh, err);
    if (r < 0)
        return r;
    estimator_done(&p->estimator);
    p->estimator = fresh;
    return 0;
}

int predictor_learn(struct predictor *p, uint32_t job, struct error *err)
{
    const struct trace_job *from;
    struct feature *row;
    int r;

    if (!p || !p->retrain)
        return 0;
    r = mem_grow((void **)&p->seen.cells, &p->seen.capacity, (p->seen.rows + 1) * (FEATURES + TARGETS), FOREST_ROWS_MAX,
                 sizeof(*row));
    if (r < 0)
        return error_set(err, r, "no memory for what was measured of %zu jobs", p->seen.rows);
    from = &p->trace->jobs[job];
    row = p->seen.cells + p->seen.rows * (FEATURES + TARGETS);
    features_of(p, job, row);
    row[FEATURES + 0].number = from->spec.memory_peak_mib ? from->spec.memory_peak_mib : from->spec.memory_mib;
    row[FEATURES + 1].number = from->spec.utilisation;
    row[FEATURES + 2].number = from->spec.bandwidth;
    row[FEATURES + 3].number = (double)from->truth.launch / (double)USEC_SEC;
    row[FEATURES + 4].number = (double)from->truth.save / (double)USEC_SEC;
    row[FEATURES + 5].number = (double)from->truth.duration / (double)USEC_SEC;
    p->seen.rows++;
    return p->seen.rows % p->retrain == 0 ? train(p, err) : 0;
}
