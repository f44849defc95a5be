/* SPDX-License-Identifier: Apache-2.0 */
/* world_config.c - the keys of --set that the world understands, and the reading of their values. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim/world/world.h"

const struct world_param world_params[] = {
    { "costs", "none|lucid|muri|muri-sim|pollux|chronus|gandiva|singularity", "none",
      "costs of start, resume and migration as a peer has them" },
    { "start", "time", "0", "holding GPUs without progress at the first start" },
    { "restart", "time", "0", "the same at each resume" },
    { "stop", "time", "0", "the same when told to stop, to save its state" },
    { "preempt", "time", "0", "another word for stop, where the policy has no preempt of its own" },
    { "migrate", "time", "stop + restart", "the same when moved" },
    { "checkpoint", "time", "none", "periodic checkpoint each so much progress; a crash loses what came after" },
    { "checkpoint-cost", "time", "0", "what one periodic checkpoint takes" },
    { "barrier", "time", "1s", "costs=singularity: until all workers of a job have stopped at one call" },
    { "ckpt-shard", "GiB", "4", "the same: GPU memory of one shard of a model, saved once for all its replicas" },
    { "ckpt-host", "GiB", "2", "the same: host memory of a worker, at its first dump; a tenth of it later" },
    { "ckpt-rate", "GiB/s", "1", "the same: of a node, to where checkpoints are kept and back" },
    { "region-factor", "ratio", "4", "the same: how much slower that is between regions (domains)" },
    { "splice-loss", "ratio", "0.03", "speed lost by workers that take turns on a GPU" },
    { "keep", "all|checkpoint|none", "all", "progress that survives a planned stop" },
    { "estimate-error", "ratio", "0", "users' run times are wrong by a factor up to 1 + this, either way" },
    { "stage-error", "ratio", "0", "predicted times to launch and to save are wrong by a factor up to 1 + this" },
    { "estimator", "FILE", "", "a model of muster estimate that predicts what jobs need" },
    { "retrain", "jobs", "0", "train it anew on finished jobs, each time so many more are over; 0: never" },
    { "share-gpus", "on|off", "off", "requests for one GPU become shares of one, by utilisation and memory" },
    { "u-max", "ratio", "1.3", "utilisation that may be promised of a shared GPU, below" },
    { "heartbeat", "time", "none", "the end of a job is told with the next heartbeat of its node; none: at once" },
    { "idle-after", "time", "2s", "until it is noticed that a job no longer uses its GPUs" },
    { "speed", "FILE|DIR[:kind]", "", "table of speeds by model, GPU type, count and placement" },
    { "pairs", "FILE|DIR[:kind]", "", "table of speeds of two jobs on one GPU" },
    { "slowdown", "none|philly", "none", "speed of a job spread over more nodes than it needs" },
    { "reports", "time", "2m", "between two reports of loss and speed of an elastic job, to a policy that learns" },
    { "search", "ratio", "0",
      "all jobs of a user are trials, compared when each has done so much; the worse are cancelled" },
    { "search-keep", "trials", "2", "how many go on then" },
    { "batch-reports", "time", "60s",
      "window over which a job's mini-batches are counted, for policies that introspect" },
    { "loss-noise", "ratio", "0.01", "standard deviation of a reported loss" },
    { "speed-noise", "ratio", "0.03", "standard deviation of a reported speed" },
    { "spikes", "ratio", "0.02", "reported losses that are 1.5 to 2.5 times what they are" },
    { "window", "time", "10s", "over which nodes measure how much of a GPU is used" },
    { "tolerance", "ratio", "0.02", "by which opportunistic jobs may slow the owner of their GPU" },
    { "slow", "ratio", "0", "part of the GPUs that are slow for no reason anybody sees" },
    { "slow-speed", "ratio", "0.4", "how fast those are" },
    { "move-fails", "ratio", "0", "part of the moves that fail, half of them before the job is saved" },
    { "mtbf", "time", "none", "mean time between failures of a node" },
    { "mttr", "time", "1h", "mean time until a node is back" },
    { "gpu-mtbf", "time", "none", "mean time between failures of a GPU" },
    { "gpu-mttr", "time", "4h", "mean time until a GPU is back" },
    { "faults", "FILE", "", "failures from a file instead" },
    { "tensors", "FILE", "", "sizes of tensors or messages of models, for skews that jobs do not tell" },
    { 0 },
};

void world_config_init(struct world_config *config)
{
    *config = (struct world_config){ .mttr = USEC_HOUR,
                                     .gpu_mttr = 4 * USEC_HOUR,
                                     .idle_after = 2 * USEC_SEC,
                                     .u_max = 13 * PPM_ONE / 10,
                                     .reports = 2 * USEC_MIN,
                                     .window = 10 * USEC_SEC,
                                     .tolerance = 2 * PPM_ONE / 100,
                                     .batch_reports = USEC_MIN,
                                     .search_keep = 2,
                                     .loss_noise = PPM_ONE / 100,
                                     .speed_noise = 3 * PPM_ONE / 100,
                                     .spikes = 2 * PPM_ONE / 100,
                                     .slow_speed = 4 * PPM_ONE / 10,
                                     .splice_loss = 3 * PPM_ONE / 100,
                                     .barrier = USEC_SEC,
                                     .ckpt_shard = 4 * PPM_ONE,
                                     .ckpt_host = 2 * PPM_ONE,
                                     .ckpt_rate = PPM_ONE,
                                     .region_factor = 4 * PPM_ONE };
}

/* Digits, perhaps a point and more digits, as a number of millionths of `unit` each; stops at the first other byte. */
static int parse_decimal(const char *text, const char **ret_end, int64_t *ret_whole, int64_t *ret_millionths)
{
    int64_t whole = 0, part = 0, place = 100000;
    const char *p = text;
    int digits = 0;

    for (; *p >= '0' && *p <= '9'; p++, digits++) {
        if (whole > INT64_MAX / 100)
            return -ERANGE;
        whole = whole * 10 + (*p - '0');
    }
    if (*p == '.') {
        for (p++; *p >= '0' && *p <= '9'; p++, digits++) {
            part += place * (*p - '0');
            place /= 10;
        }
    }
    if (!digits)
        return -EINVAL;
    *ret_end = p;
    *ret_whole = whole;
    *ret_millionths = part;
    return 0;
}

static const struct unit {
    const char *name;
    usec_t span;
} units[] = {
    { "", USEC_SEC },  { "s", USEC_SEC },   { "sec", USEC_SEC }, { "us", 1 },       { "ms", USEC_MSEC },
    { "m", USEC_MIN }, { "min", USEC_MIN }, { "h", USEC_HOUR },  { "d", USEC_DAY }, { "w", 7 * USEC_DAY },
};

int world_parse_span(const char *text, usec_t *ret_span, struct error *err)
{
    const char *end;
    int64_t whole, part;
    usec_t span;
    int r;

    if (strcmp(text, "none") == 0) {
        *ret_span = 0;
        return 0;
    }
    r = parse_decimal(text, &end, &whole, &part);
    if (r == -ERANGE)
        return error_set(err, r, "'%s' is too long a time", text);
    if (r < 0)
        return error_set(err, r, "'%s' is not a time: expected a number and us, ms, s, m, h, d or w", text);
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (strcmp(end, units[i].name) != 0)
            continue;
        span = muldiv_floor(part, units[i].span, 1000000);
        if (__builtin_mul_overflow(whole, units[i].span, &whole) || __builtin_add_overflow(whole, span, &span))
            return error_set(err, -ERANGE, "'%s' is too long a time", text);
        *ret_span = span;
        return 0;
    }
    return error_set(err, -EINVAL, "'%s' is not a unit of time: expected us, ms, s, m, h, d or w", end);
}

/* One of the words, which end with NULL. */
static int set_word(const char *value, const char *const *words, int *ret_index, struct error *err)
{
    char known[256] = "";

    for (int i = 0; words[i]; i++) {
        if (strcmp(value, words[i]) == 0) {
            *ret_index = i;
            return 0;
        }
        if (i)
            strncat(known, ", ", sizeof(known) - strlen(known) - 1);
        strncat(known, words[i], sizeof(known) - strlen(known) - 1);
    }
    return error_set(err, -EINVAL, "'%s' is not one of %s", value, known);
}

static int set_path(char *path, const char *value, struct error *err)
{
    if (strlen(value) >= WORLD_PATH_MAX)
        return error_set(err, -ENAMETOOLONG, "longer than %d bytes", WORLD_PATH_MAX - 1);
    memcpy(path, value, strlen(value) + 1);
    return 0;
}

/* "0.3" or "30%" to parts per million, at most 1000 times. */
static int set_ratio(ppm_t *ratio, const char *value, struct error *err)
{
    const char *end;
    int64_t whole, part;
    int r = parse_decimal(value, &end, &whole, &part);

    if (r < 0 || (*end && strcmp(end, "%") != 0))
        return error_set(err, -EINVAL, "'%s' is not a ratio: expected a number such as 0.3 or 30%%", value);
    if (whole > 1000)
        return error_set(err, -ERANGE, "%s is above 1000", value);
    *ratio = (whole * PPM_ONE + part) / (*end ? 100 : 1);
    return 0;
}

static int set_cost(struct world_config *config, enum world_cost kind, const char *value, struct error *err)
{
    int r = world_parse_span(value, &config->cost[kind], err);

    if (r < 0)
        return r;
    config->cost_set[kind] = true;
    return 0;
}

static int set_choice(struct world_config *config, const char *key, const char *value, struct error *err)
{
    static const char *const costs[] = { "none",    "lucid",   "muri",        "muri-sim", "pollux",
                                         "chronus", "gandiva", "singularity", NULL };
    static const char *const slowdowns[] = { "none", "philly", NULL };
    static const char *const keeps[] = { "all", "checkpoint", "none", NULL };
    const char *const *words = *key == 'c' ? costs : *key == 's' ? slowdowns : keeps;
    int index = 0, r;

    r = set_word(value, words, &index, err);
    if (r < 0)
        return r;
    if (words == costs)
        config->costs = (enum world_costs)index;
    else if (words == slowdowns)
        config->slowdown = (enum world_slowdown)index;
    else
        config->keep = (enum world_keep)index;
    return 0;
}

static int set_count(const char *value, int64_t *ret_count, struct error *err)
{
    const char *end;
    int64_t part;

    if (parse_decimal(value, &end, ret_count, &part) < 0 || *end || part || *ret_count > 1000000000)
        return error_set(err, -EINVAL, "'%s' is not a whole number", value);
    return 0;
}

static int set_on(const char *value, bool *ret_on, struct error *err)
{
    static const char *const words[] = { "off", "on", NULL };
    int index = 0, r = set_word(value, words, &index, err);

    *ret_on = index == 1;
    return r;
}

static int set_key(struct world_config *config, const char *key, const char *value, struct error *err)
{
    const struct {
        const char *name;
        usec_t *span;
    } spans[] = {
        { "checkpoint", &config->checkpoint },
        { "mtbf", &config->mtbf },
        { "mttr", &config->mttr },
        { "reports", &config->reports },
        { "batch-reports", &config->batch_reports },
        { "window", &config->window },
        { "heartbeat", &config->heartbeat },
        { "idle-after", &config->idle_after },
        { "barrier", &config->barrier },
        { "gpu-mtbf", &config->gpu_mtbf },
        { "gpu-mttr", &config->gpu_mttr },
    };
    const struct {
        const char *name;
        ppm_t *ratio;
    } ratios[] = {
        { "estimate-error", &config->estimate_error },
        { "search", &config->search },
        { "stage-error", &config->stage_error },
        { "u-max", &config->u_max },
        { "tolerance", &config->tolerance },
        { "loss-noise", &config->loss_noise },
        { "speed-noise", &config->speed_noise },
        { "spikes", &config->spikes },
        { "slow", &config->slow },
        { "slow-speed", &config->slow_speed },
        { "splice-loss", &config->splice_loss },
        { "move-fails", &config->move_fails },
        { "ckpt-shard", &config->ckpt_shard },
        { "ckpt-host", &config->ckpt_host },
        { "ckpt-rate", &config->ckpt_rate },
        { "region-factor", &config->region_factor },
    };
    static const struct {
        const char *name;
        enum world_cost kind;
    } costs[] = {
        { "start", WORLD_START },  { "restart", WORLD_RESUME },  { "stop", WORLD_STOP },
        { "preempt", WORLD_STOP }, { "migrate", WORLD_MIGRATE }, { "checkpoint-cost", WORLD_CHECKPOINT },
    };

    for (size_t i = 0; i < sizeof(spans) / sizeof(spans[0]); i++) {
        if (strcmp(key, spans[i].name) == 0)
            return world_parse_span(value, spans[i].span, err);
    }
    for (size_t i = 0; i < sizeof(costs) / sizeof(costs[0]); i++) {
        if (strcmp(key, costs[i].name) == 0)
            return set_cost(config, costs[i].kind, value, err);
    }
    for (size_t i = 0; i < sizeof(ratios) / sizeof(ratios[0]); i++) {
        if (strcmp(key, ratios[i].name) == 0)
            return set_ratio(ratios[i].ratio, value, err);
    }
    if (strcmp(key, "estimator") == 0)
        return set_path(config->estimator, value, err);
    if (strcmp(key, "share-gpus") == 0)
        return set_on(value, &config->share_gpus, err);
    if (strcmp(key, "speed") == 0)
        return set_path(config->speed, value, err);
    if (strcmp(key, "pairs") == 0)
        return set_path(config->pairs, value, err);
    if (strcmp(key, "faults") == 0)
        return set_path(config->faults, value, err);
    if (strcmp(key, "tensors") == 0)
        return set_path(config->tensors, value, err);
    return set_choice(config, key, value, err);
}

int world_config_set(struct world_config *config, const char *key, const char *value, struct error *err)
{
    struct world_config copy = *config;
    int r;

    for (const struct world_param *param = world_params; param->name; param++) {
        if (strcmp(key, param->name) != 0)
            continue;
        r = strcmp(key, "search-keep") == 0 ? set_count(value, &copy.search_keep, err)
            : strcmp(key, "retrain") == 0   ? set_count(value, &copy.retrain, err)
                                            : set_key(&copy, key, value, err);
        if (r < 0)
            return error_prefix(err, r, "%s", key);
        *config = copy;
        return 0;
    }
    return -ENOENT;
}
