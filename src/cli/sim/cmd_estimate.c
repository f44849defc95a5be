/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_estimate.c - muster estimate: what jobs will need, learned from those that are over. */
#include "cli/sim/cmd_estimate.h"

#include <argp.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "cli/cli.h"
#include "cli/verbs.h"
#include "io/file.h"
#include "learn/measure.h"
#include "solve/demand.h"
#include "wire/text/csv.h"
#include "wire/text/decimal.h"
#include "wire/trace/model_file.h"

enum {
    KEY_TREES = 256,
    KEY_DEPTH,
    KEY_LEAF,
    KEY_THREADS,
    KEY_SKIP,
    KEY_FOLDS,
    KEY_HOLDOUT,
    KEY_USER,
    KEY_REQUEST,
    KEY_COMMAND,
    KEY_ROWS,
    KEY_PAYS
};
enum { VALUES_MAX = FOREST_FEATURES_MAX, COUNTS_MAX = 32 };
#define MODEL_BYTES_MAX ((size_t)1 << 30)

struct arguments {
    const char *data, *model, *output, *user, *command;
    char *features, *targets; /* lists with commas, cut apart in place */
    const char *feature_list[FOREST_FEATURES_MAX], *target_list[FOREST_TARGETS_MAX];
    uint32_t feature_count, target_count;
    char *values[VALUES_MAX], *requests[FOREST_TARGETS_MAX];
    uint32_t value_count, request_count;
    struct forest_params params;
    uint32_t folds, rows, threads;
    double holdout;
    bool skip_missing;
    char *pays; /* FEATURE of --pays, cut off its counts */
    int32_t counts[COUNTS_MAX];
    uint32_t count_count;
};

static uint32_t number(struct argp_state *state, const char *option, const char *text, int64_t low, int64_t high)
{
    int64_t value = 0;

    if (decimal_parse_i64(text, strlen(text), &value) < 0 || value < low || value > high)
        argp_error(state, "--%s: expected a number in %lld..%lld, got '%s'", option, (long long)low, (long long)high,
                   text);
    return (uint32_t)value;
}

static error_t parse_number(struct arguments *args, int key, const char *arg, struct argp_state *state)
{
    switch (key) {
    case KEY_TREES:
        args->params.trees = number(state, "trees", arg, 1, FOREST_TREES_MAX);
        return 0;
    case KEY_DEPTH:
        args->params.depth_max = number(state, "depth", arg, 1, FOREST_DEPTH_MAX);
        return 0;
    case KEY_LEAF:
        args->params.leaf_min = number(state, "leaf", arg, 1, 1000000);
        args->params.split_min = 2 * args->params.leaf_min;
        return 0;
    case 'S':
        args->params.seed = number(state, "seed", arg, 0, INT32_MAX);
        return 0;
    case KEY_THREADS:
        args->threads = number(state, "threads", arg, 1, 64);
        return 0;
    case KEY_FOLDS:
        args->folds = number(state, "folds", arg, 2, 1000000);
        return 0;
    case KEY_ROWS:
        args->rows = number(state, "rows", arg, 1, 1000000000);
        return 0;
    case KEY_HOLDOUT:
        args->holdout = strtod(arg, NULL);
        if (!(args->holdout > 0 && args->holdout < 1))
            argp_error(state, "--holdout: expected a part of the rows between 0 and 1, got '%s'", arg);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* "gpus=1,2,4,8" */
static void parse_pays(struct arguments *args, char *arg, struct argp_state *state)
{
    char *counts = strchr(arg, '='), *rest = NULL;
    int32_t last = 0;

    if (!counts || counts == arg) {
        argp_error(state, "--pays: expected FEATURE=COUNTS such as gpus=1,2,4,8, got '%s'", arg);
        return; /* not reached: argp exits */
    }
    *counts++ = '\0';
    args->pays = arg;
    for (char *word = strtok_r(counts, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
        if (args->count_count == COUNTS_MAX)
            argp_error(state, "--pays: at most %d counts", COUNTS_MAX);
        args->counts[args->count_count] = (int32_t)number(state, "pays", word, (int64_t)last + 1, 1 << 20);
        last = args->counts[args->count_count++];
    }
    if (args->count_count < 2)
        argp_error(state, "--pays: expected at least two counts, ascending");
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct arguments *args = state->input;

    switch (key) {
    case 'd':
        args->data = arg;
        return 0;
    case 'm':
        args->model = arg;
        return 0;
    case 'o':
        args->output = arg;
        return 0;
    case 'f':
        args->features = arg;
        return 0;
    case 't':
        args->targets = arg;
        return 0;
    case KEY_USER:
        args->user = arg;
        return 0;
    case KEY_COMMAND:
        args->command = arg;
        return 0;
    case KEY_SKIP:
        args->skip_missing = true;
        return 0;
    case KEY_PAYS:
        parse_pays(args, arg, state);
        return 0;
    case KEY_REQUEST:
        if (args->request_count == FOREST_TARGETS_MAX || !strchr(arg, '='))
            argp_error(state, "--request: expected TARGET=COLUMN or TARGET=NUMBER, got '%s'", arg);
        args->requests[args->request_count++] = arg;
        return 0;
    case 'h':
        argp_state_help(state, stdout, ARGP_HELP_STD_HELP);
        return 0;
    case ARGP_KEY_ARG:
        if (args->value_count == VALUES_MAX)
            argp_error(state, "too many arguments");
        args->values[args->value_count++] = arg;
        return 0;
    default:
        return parse_number(args, key, arg, state);
    }
}

/* ---- what the verbs share ---- */

static uint32_t cut_list(char *text, const char **list, uint32_t most)
{
    uint32_t count = 0;

    for (char *word = text ? strtok_r(text, ",", &text) : NULL; word; word = strtok_r(NULL, ",", &text)) {
        if (count == most)
            return most + 1;
        list[count++] = word;
    }
    return count;
}

static int read_data(struct arguments *args, struct dataset *set, struct error *err)
{
    CLEANUP_BYTES struct bytes bytes = { 0 };
    int r;

    if (!args->data)
        return error_set(err, -EINVAL, "--data is missing: a CSV file with one finished job a row");
    r = file_read(args->data, 0, &bytes, err);
    if (r == 0)
        r = dataset_read(set, file_label(args->data), bytes.data, bytes.size,
                         &(struct dataset_options){ args->skip_missing, args->command }, err);
    if (r == 0 && set->skipped)
        fprintf(stderr, "muster: note: %llu rows were left out for want of a value\n",
                (unsigned long long)set->skipped);
    return r;
}

/* Features that were not named: every column that is neither a target nor what was asked for. */
static int choose_columns(struct arguments *args, const struct dataset *set, struct error *err)
{
    args->target_count = cut_list(args->targets, args->target_list, FOREST_TARGETS_MAX);
    args->feature_count = cut_list(args->features, args->feature_list, FOREST_FEATURES_MAX);
    if (args->target_count == 0)
        return error_set(err, -EINVAL, "--targets is missing: the columns to be predicted, with commas between");
    for (uint32_t c = 0; !args->features && c < set->columns.count && args->feature_count < FOREST_FEATURES_MAX; c++) {
        const char *name = names_get(&set->columns, c);
        bool taken = args->command && strcmp(args->command, name) == 0;

        for (uint32_t t = 0; t < args->target_count && t < FOREST_TARGETS_MAX; t++)
            taken |= strcmp(args->target_list[t], name) == 0;
        if (!taken)
            args->feature_list[args->feature_count++] = name;
    }
    return 0;
}

static struct train_request train_request(const struct arguments *args)
{
    return (struct train_request){ .features = args->feature_list,
                                   .targets = args->target_list,
                                   .feature_count = args->feature_count,
                                   .target_count = args->target_count,
                                   .params = args->params,
                                   .threads = args->threads };
}

static int read_model(const char *path, struct estimator *estimator, struct error *err)
{
    CLEANUP_BYTES struct bytes bytes = { 0 };
    int r;

    if (!path)
        return error_set(err, -EINVAL, "--model is missing: a file that 'muster estimate train' has written");
    r = file_read(path, MODEL_BYTES_MAX, &bytes, err);
    return r < 0 ? r : model_file_read(file_label(path), bytes.data, bytes.size, estimator, err);
}

static double seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* ---- train ---- */

static int run_train(struct arguments *args, struct error *err)
{
    struct dataset set = { 0 };
    struct estimator estimator = { 0 };
    CLEANUP_BUF struct buf out = BUF_INIT(MODEL_BYTES_MAX);
    double begin = seconds();
    int r;

    if (!args->output)
        return error_set(err, -EINVAL, "--output is missing: where to write the model");
    r = read_data(args, &set, err);
    if (r == 0)
        r = choose_columns(args, &set, err);
    if (r == 0) {
        struct train_request request = train_request(args);

        r = estimator_train(&set, &request, &estimator, err);
    }
    if (r == 0) {
        model_file_write(&estimator, &out);
        r = out.error ? error_set(err, out.error, "the model takes more than %zu bytes", MODEL_BYTES_MAX) : 0;
    }
    if (r == 0)
        r = file_write_atomic(args->output, out.data, out.size, err);
    if (r == 0)
        fprintf(stderr, "muster: trained %u forests on %llu jobs in %.1f s; %zu bytes to %s\n", estimator.target_count,
                (unsigned long long)estimator.rows, seconds() - begin, out.size, file_label(args->output));
    estimator_done(&estimator);
    dataset_done(&set);
    return r;
}

/* ---- predict ---- */

/* One job from `key=value` words: a table of one row. */
static int job_from_words(struct arguments *args, struct dataset *set, struct error *err)
{
    CLEANUP_BUF struct buf csv = BUF_INIT(1 << 20);

    for (int line = 0; line < 2; line++) {
        for (uint32_t i = 0; i < args->value_count; i++) {
            char *equals = strchr(args->values[i], '=');

            if (!equals)
                return error_set(err, -EINVAL, "expected FEATURE=VALUE, got '%s'", args->values[i]);
            if (i)
                buf_char(&csv, ',');
            *equals = '\0';
            csv_put(&csv, line ? equals + 1 : args->values[i], ',');
            *equals = '=';
        }
        buf_char(&csv, '\n');
    }
    if (csv.error)
        return error_set(err, csv.error, "too many words");
    return dataset_read(set, "command line", csv.data, csv.size, &(struct dataset_options){ false, args->command },
                        err);
}

/* How many of a feature pay, by the run times expected with each: those of the first target. */
static int print_pays(const struct estimator *e, const struct arguments *args, struct feature *features, size_t row,
                      struct error *err)
{
    double expected[COUNTS_MAX];
    uint32_t f = 0;

    while (f < e->feature_count && strcmp(e->features[f], args->pays) != 0)
        f++;
    if (f == e->feature_count || e->text[f])
        return error_set(err, -EINVAL, "--pays: the model has no feature '%s' of numbers", args->pays);
    for (uint32_t i = 0; i < args->count_count; i++) {
        struct forest_answer answer;
        int r;

        features[f].number = args->counts[i];
        r = estimator_ask(e, &e->forests[0], features, &answer, err);
        if (r < 0)
            return r;
        expected[i] = answer.mean;
    }
    printf("%zu,%s_pay,%d,,\n", row, args->pays, demand_gpus_pay(args->counts, expected, args->count_count));
    return 0;
}

static int print_predictions(const struct estimator *e, const struct arguments *args, const struct dataset *set,
                             struct error *err)
{
    uint32_t columns[FOREST_FEATURES_MAX];
    struct feature features[FOREST_FEATURES_MAX];
    int r = estimator_bind(e, set, columns, err);

    if (r == 0)
        puts("row,target,estimate,low,high");
    for (size_t row = 0; row < set->rows && r == 0; row++) {
        estimator_row(set, columns, e->feature_count, row, features);
        for (uint32_t t = 0; t < e->target_count && r == 0; t++) {
            struct forest_answer answer;

            r = estimator_ask(e, &e->forests[t], features, &answer, err);
            if (r == 0)
                printf("%zu,%s,%.6g,%.6g,%.6g\n", row, e->forests[t].name, answer.mean, answer.low, answer.high);
        }
        if (r == 0 && args->pays)
            r = print_pays(e, args, features, row, err);
    }
    return r;
}

static int run_predict(struct arguments *args, struct error *err)
{
    struct dataset set = { 0 };
    struct estimator estimator = { 0 };
    int r = read_model(args->model, &estimator, err);

    if (r == 0)
        r = args->value_count ? job_from_words(args, &set, err) : read_data(args, &set, err);
    if (r == 0)
        r = print_predictions(&estimator, args, &set, err);
    estimator_done(&estimator);
    dataset_done(&set);
    return r;
}

/* ---- eval ---- */

static int take_requests(struct arguments *args, struct measure_request *request, struct error *err)
{
    for (int i = 0; i < FOREST_TARGETS_MAX; i++)
        request->request_value[i] = (double)NAN;
    for (uint32_t i = 0; i < args->request_count; i++) {
        char *equals = strchr(args->requests[i], '='), *end;
        uint32_t t = 0;

        *equals = '\0';
        while (t < args->target_count && strcmp(args->target_list[t], args->requests[i]) != 0)
            t++;
        if (t == args->target_count)
            return error_set(err, -EINVAL, "--request: '%s' is not among the targets", args->requests[i]);
        request->request_value[t] = strtod(equals + 1, &end);
        if (*end || end == equals + 1)
            request->request_column[t] = equals + 1;
    }
    return 0;
}

static void print_measures(const struct arguments *args, const struct measure *measures)
{
    printf("%-16s %8s", "target", "jobs");
    for (int g = 0; g < GUESS_COUNT; g++)
        printf(" %10s", guess_names[g]);
    printf(" %9s\n", "in 80 %");
    for (uint32_t t = 0; t < args->target_count; t++) {
        printf("%-16s %8llu", args->target_list[t], (unsigned long long)measures[t].rows);
        for (int g = 0; g < GUESS_COUNT; g++)
            if (isnan(measures[t].error_mean[g]))
                printf(" %10s", "-");
            else
                printf(" %9.1f%%", 100 * measures[t].error_mean[g]);
        printf(" %8.1f%%\n", 100 * measures[t].covered);
    }
}

static int run_eval(struct arguments *args, struct error *err)
{
    struct dataset set = { 0 };
    struct measure measures[FOREST_TARGETS_MAX];
    struct measure_request request = { .folds = args->holdout > 0 ? 0 : args->folds,
                                       .holdout = args->holdout,
                                       .rows_most = args->rows,
                                       .user = args->user };
    int r = read_data(args, &set, err);

    if (r == 0)
        r = choose_columns(args, &set, err);
    if (r == 0)
        r = take_requests(args, &request, err);
    request.learn = train_request(args);
    if (r == 0)
        r = measure_run(&set, &request, measures, err);
    if (r == 0)
        print_measures(args, measures);
    dataset_done(&set);
    return r;
}

/* ---- show ---- */

static int run_show(struct arguments *args, struct error *err)
{
    struct estimator e = { 0 };
    int r = read_model(args->model ? args->model : args->value_count ? args->values[0] : NULL, &e, err);

    if (r < 0)
        return r;
    printf("version %d, trained on %llu jobs, seed %llu\n", MODEL_FILE_VERSION, (unsigned long long)e.rows,
           (unsigned long long)e.seed);
    for (uint32_t i = 0; i < e.feature_count; i++)
        printf("feature %s (%s)\n", e.features[i], e.text[i] ? "text" : "number");
    for (uint32_t i = 0; i < e.target_count; i++)
        printf("target  %s: %u trees, from %g to %g%s\n", e.forests[i].name, e.forests[i].tree_count,
               (double)e.forests[i].low, (double)e.forests[i].high, e.forests[i].log ? ", by ratio" : "");
    estimator_done(&e);
    return 0;
}

/* ---- verbs ---- */

#define FOREST_OPTIONS                                                                                                 \
    { "data", 'd', "FILE", 0, "Finished jobs: CSV, a header line, gzipped or not; - is standard input", 0 },           \
        { "targets", 't', "COLUMNS", 0, "What is to be predicted, with commas between", 0 },                           \
        { "features", 'f', "COLUMNS", 0, "What is known before a job runs (all other columns)", 0 },                   \
        { "command", KEY_COMMAND, "COLUMN", 0, "Command lines, whose words --key=value are features too", 0 },         \
        { "trees", KEY_TREES, "N", 0, "Trees of a forest (70)", 0 },                                                   \
        { "depth", KEY_DEPTH, "N", 0, "Levels of a tree (13)", 0 },                                                    \
        { "leaf", KEY_LEAF, "N", 0, "Jobs of a leaf, at least (5); twice as many of a node that is split", 0 },        \
        { "seed", 'S', "N", 0, "Of everything drawn at random (1)", 0 },                                               \
        { "threads", KEY_THREADS, "N", 0, "Threads (all cores); the result is the same", 0 },                          \
        { "skip-missing", KEY_SKIP, NULL, 0, "Leave rows out in which a value is missing, instead of refusing", 0 },   \
    {                                                                                                                  \
        NULL, 'h', NULL, OPTION_HIDDEN, NULL, 0                                                                        \
    }

static const struct argp_option train_options[] = {
    { "output", 'o', "FILE", 0, "Where to write the model", 0 },
    FOREST_OPTIONS,
    { 0 },
};

static const struct argp_option predict_options[] = {
    { "model", 'm', "FILE", 0, "What 'muster estimate train' has written", 0 },
    { "data", 'd', "FILE", 0, "Jobs to be asked about: CSV with the model's features", 0 },
    { "pays", KEY_PAYS, "FEATURE=COUNTS", 0, "Also how many are worth their time, such as gpus=1,2,4,8", 0 },
    { "command", KEY_COMMAND, "COLUMN", 0, "Command lines, whose words --key=value are features too", 0 },
    { NULL, 'h', NULL, OPTION_HIDDEN, NULL, 0 },
    { 0 },
};

static const struct argp_option eval_options[] = {
    { "folds", KEY_FOLDS, "N", 0, "Part the jobs at random, hold each part out in turn (5)", 0 },
    { "holdout", KEY_HOLDOUT, "PART", 0, "Hold the last part of the table out instead, such as 0.2", 0 },
    { "user", KEY_USER, "COLUMN", 0, "Whose jobs they are, for the mean of a user's own", 0 },
    { "request", KEY_REQUEST, "TARGET=WHAT", 0, "What users asked for: a column, or a number; may be given again", 0 },
    { "rows", KEY_ROWS, "N", 0, "Ask about so many held-out jobs at most", 0 },
    FOREST_OPTIONS,
    { 0 },
};

static const struct argp_option show_options[] = {
    { "model", 'm', "FILE", 0, "What 'muster estimate train' has written", 0 },
    { NULL, 'h', NULL, OPTION_HIDDEN, NULL, 0 },
    { 0 },
};

static int run_verb(const struct argp *argp, int argc, char **argv, int (*run)(struct arguments *, struct error *))
{
    struct arguments args = { .params = forest_params_default(), .folds = 5 };
    struct error err = { 0 };
    int r = cli_parse(argp, argc, argv, &args);

    if (r != CODE_DONE)
        return r;
    r = run(&args, &err);
    return r < 0 ? cli_fail(r, &err) : CODE_DONE;
}

static int cmd_train(int argc, char **argv)
{
    static const struct argp argp = { train_options, parse, NULL, "Train an estimator on finished jobs.",
                                      NULL,          NULL,  NULL };

    return run_verb(&argp, argc, argv, run_train);
}

static int cmd_predict(int argc, char **argv)
{
    static const struct argp argp = { predict_options,
                                      parse,
                                      "[FEATURE=VALUE...]",
                                      "Say what jobs will need: an estimate and the range that holds four of five.",
                                      NULL,
                                      NULL,
                                      NULL };

    return run_verb(&argp, argc, argv, run_predict);
}

static int cmd_eval(int argc, char **argv)
{
    static const struct argp argp = { eval_options,
                                      parse,
                                      NULL,
                                      "Measure an estimator on jobs it was not trained on: mean absolute percentage "
                                      "error beside the users' requests, the users' own means and nearest neighbours.",
                                      NULL,
                                      NULL,
                                      NULL };

    return run_verb(&argp, argc, argv, run_eval);
}

static int cmd_show(int argc, char **argv)
{
    static const struct argp argp = { show_options, parse, "[FILE]", "Describe a model.", NULL, NULL, NULL };

    return run_verb(&argp, argc, argv, run_show);
}

int cmd_estimate(int argc, char **argv)
{
    static const struct verb verbs[] = {
        { "train", "train an estimator on finished jobs", cmd_train },
        { "predict", "say what jobs will need", cmd_predict },
        { "eval", "measure an estimator on jobs it was not trained on", cmd_eval },
        { "show", "describe a model", cmd_show },
        { 0 },
    };

    return verb_dispatch(argv[0], verbs, argc, argv);
}
