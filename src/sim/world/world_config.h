/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* world_config.h - the settings of a simulated world; a part of world.h, which is what others include. */
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/units.h"

#define WORLD_PATH_MAX 512

/* Zero is a valid config: no cost, full speed, nothing breaks. world_config_init() sets the defaults of the table. */
struct world_config {
    uint64_t seed;
    usec_t cost[WORLD_COST_COUNT]; /* spans; used where `cost_set` says so, else what `costs` says */
    bool cost_set[WORLD_COST_COUNT];
    enum world_costs costs;
    usec_t checkpoint;    /* interval of periodic checkpoints; 0 = none */
    enum world_keep keep; /* what a planned stop keeps */
    ppm_t estimate_error; /* 300000 = up to 30 % off */
    enum world_slowdown slowdown;
    ppm_t stage_error;              /* predicted times to launch and to save are wrong by a factor up to 1 + this */
    char estimator[WORLD_PATH_MAX]; /* a model that predicts what jobs need; "" = none */
    int64_t retrain;                /* finished jobs between two trainings; 0 = never */
    bool share_gpus;                /* requests for one GPU become shares, by predicted utilisation */
    ppm_t u_max;                    /* utilisation that may be promised of a GPU */
    usec_t heartbeat;               /* of a node, which is when the end of a job is told; 0 = at once */
    usec_t idle_after;              /* a GPU must be idle so long until it is noticed */
    ppm_t search;                   /* part of its work after which a trial is compared with others; 0 = no searches */
    int64_t search_keep;            /* trials that go on then */
    usec_t batch_reports;           /* window over which mini-batches are counted and reported; 0 = never */
    usec_t reports;                 /* between two reports of a job, for policies that learn; 0 = none */
    ppm_t loss_noise, speed_noise;  /* standard deviation of what is reported */
    ppm_t spikes;                   /* losses that are far off */
    ppm_t splice_loss;              /* of the speed of a job whose workers take turns */
    usec_t barrier;                 /* until all workers of a job have stopped at one call */
    ppm_t ckpt_shard, ckpt_host;    /* GiB: GPU memory of a shard; what a worker holds in host memory, the first time */
    ppm_t ckpt_rate;                /* GiB a second, each node */
    ppm_t region_factor;            /* how much slower between regions */
    ppm_t move_fails;               /* part of the moves that fail half way */
    usec_t mtbf, mttr;              /* of a node; mtbf 0 = never fails */
    usec_t gpu_mtbf, gpu_mttr;      /* of one GPU */
    char speed[WORLD_PATH_MAX];     /* file or directory, with an optional ":kind"; "" = none */
    usec_t window;                  /* over which nodes measure the use of a GPU */
    ppm_t tolerance;                /* by which a guaranteed job may be slowed by opportunistic ones */
    ppm_t slow, slow_speed;         /* part of the GPUs that are slow, and how fast those are */
    char pairs[WORLD_PATH_MAX];
    char faults[WORLD_PATH_MAX];  /* file with faults, instead of mtbf */
    char tensors[WORLD_PATH_MAX]; /* file with sizes of tensors or messages; "" = none */
};

/* One key of --set that the world understands. */
struct world_param {
    const char *name, *unit, *fallback, *help;
};

/* The keys, closed by an entry without a name. */
extern const struct world_param world_params[];

void world_config_init(struct world_config *config);

/* Takes one `key=value`. -ENOENT: not a key of the world (no text is set); -EINVAL: the value is wrong, and how. */
int world_config_set(struct world_config *config, const char *key, const char *value, struct error *err);

/* "90" (seconds), "60s", "5m", "2h", "1d", "500ms", "1.5h" to microseconds; "0" and "none" are 0. -EINVAL, -ERANGE. */
int world_parse_span(const char *text, usec_t *ret_span, struct error *err);
