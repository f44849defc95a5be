/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* submission.h - a job as a person writes it: file, script, flags or request body; what it asks for and what it runs.
 *
 * The JSON object and the YAML file have the same keys (muster-job(5)). Whatever form it came in, the canonical JSON of
 * a submission is what the controller logs and hands to agents. Unknown keys are errors by name.
 */
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "model/cluster.h"
#include "model/jobspec.h"

enum {
    SUBMISSION_BYTES_MAX = 1 << 20,
    SUBMISSION_ENV_MAX = 1024,
    SUBMISSION_ARGS_MAX = 1024,
    SUBMISSION_ARRAY_MAX = 65536,
    SUBMISSION_AFTER_MAX = 256,
    SUBMISSION_NODES_MAX = 65536,
    ROLES_MAX = 16,
    ROLE_TASKS_MAX = 4096,
};

/* Where the command runs: a script once on the first node; a command on every node; or once a task. */
enum launch_mode { LAUNCH_ONCE, LAUNCH_NODE, LAUNCH_TASK, LAUNCH_MODES };
/* Tasks whose standard input comes from whoever submitted it, while it runs; that of the others is empty. */
enum { INPUT_NONE = 0, INPUT_ALL = -1, INPUT_TASK_MAX = 1 << 20 };

enum after_kind { AFTER_OK, AFTER_ANY, AFTER_NOTOK, AFTER_KINDS };

struct after {
    int64_t job;
    enum after_kind kind;
};

struct env_pair {
    char *key, *value;
};

/* Tasks of one kind in a job of several (roles.h). */
struct job_role {
    char *name, *run;          /* owned */
    char *image;               /* owned; NULL: the job's */
    char *gpu_selector;        /* owned; NULL: the job's. Another than that: its GPUs are another part of the gang */
    int32_t count, gpus, cpus; /* tasks; of each of them. 0 CPUs = not told */
    uint64_t memory;           /* bytes, of each; 0 = not told */
    struct env_pair *env;      /* over that of the job */
    size_t env_count;
    int32_t min_failed, min_succeeded; /* so many of its tasks end the job; -1 = never */
};

/* What a job asks of each node, or of all together where nodes == 0. Owned strings; NULL = not told. */
#define KEEP_ON_FAIL_MAX (7 * USEC_DAY)

struct submission {
    char *name, *vc, *account, *comment, *image, *runtime, *dir, *output, *error, *reservation, *compat;
    char *nodelist, *exclude, *constraint;
    char *run;   /* text of the script, or one shell command line */
    char **args; /* argv: of the script, or the command itself where run is NULL */
    size_t arg_count;
    struct env_pair *env;
    size_t env_count;
    struct env_pair *tags;
    size_t tag_count;
    struct env_pair *licenses; /* names and counts */
    size_t license_count;
    struct env_pair *progress; /* words of progress.h and patterns of its output that tell them */
    size_t progress_count;
    /* Of the training it does (submission_training.c); 0 and NULL = not told. */
    char *model;
    int32_t batch, servers, gpu_servers, bandwidth, utilisation, skew_permille;
    uint64_t gpu_memory;           /* bytes, of each GPU */
    usec_t launch_span, save_span; /* before and after it uses its GPUs */
    int32_t klass;                 /* 1: guaranteed, and opportunistic when it has waited for long */
    struct deadline deadlines[DEADLINES_MAX];
    int32_t deadline_count;
    char **mounts;
    size_t mount_count;
    char **secrets; /* names of the user's, put into the environment */
    size_t secret_count;
    enum launch_mode launch;
    int32_t input; /* whose standard input is sent to it: INPUT_NONE, INPUT_ALL, or 1 + the number of a task */
    int priority;  /* PRIORITY_MIN (opportunistic) .. PRIORITY_MAX; classes: -1 10 100 500 1000 */
    int32_t nodes, nodes_max;                     /* 0 = as many as it takes; elastic where they differ */
    int32_t tasks, tasks_per_node, cpus_per_task; /* 0 = not told */
    char *gpu_selector;                           /* "H100", "H100|A100", "40G.."; NULL = any */
    int32_t gpus, gpus_max; /* whole job, or of each node where gpus_per_node; 0 = not told: one, or one a node */
    bool gpus_per_node;
    bool no_gpus;              /* CPUs and memory only: told as 0 GPUs */
    char *cells;               /* whole cells instead of GPUs: "socket:2"; NULL = none */
    mgpu_t gpu_share;          /* below MGPU_ONE: a share of one GPU */
    int32_t cpus;              /* of each node; 0 = not told */
    uint64_t memory, shm, tmp; /* bytes, of each node; 0 = not told */
    uint64_t memory_per_gpu;
    char *topo_level; /* "rack", "node", ...; NULL = none */
    bool topo_must;
    usec_t time, time_min;  /* 0 = not told */
    usec_t begin, deadline; /* absolute; 0 = none */
    usec_t grace, min_runtime, signal_before;
    usec_t idle_timeout; /* GPUs below 5 % for so long: it is ended; 0 = never */
    usec_t keep_on_fail; /* its place is kept for so long when it has failed; 0 = not at all */
    int signal;          /* early warning; 0 = none */
    enum preempt_mode preempt;
    int ckpt_signal;
    char *ckpt_dir, *ckpt_cmd;
    usec_t ckpt_every;
    enum job_tier tier;
    int32_t tensor, pipeline, splice; /* how it is parallel; replicas that may take turns on a GPU; 0 = not told */
    bool requeue, hold, exclusive, no_kill;
    bool one_by_one; /* gang: false, until it is an array: the tasks start as room comes */
    uint8_t retries;
    int retry_on[RETRY_CODES_MAX];
    size_t retry_on_count;
    int32_t *array; /* indices; NULL = no array */
    size_t array_count;
    uint32_t array_parallel; /* 0 = all */
    char **array_keys;       /* parameters of a sweep: values[i * key_count + k] of element i */
    char **array_values;
    size_t array_key_count;
    struct after *after;
    size_t after_count;
    char **notify;
    size_t notify_count;
    struct job_role *roles; /* instead of run, nodes, gpus, cpus and memory; gpu_selector is that of the first */
    size_t role_count;
    /* For emulated nodes only: what the process pretends to be. 0 = a real command. */
    usec_t emulate_run;
    int emulate_exit;
};

void submission_init(struct submission *s); /* defaults */
void submission_done(struct submission *s);

/* "path" in errors is the dotted key. -EINVAL with file:line:column (YAML) or key words (JSON). */
int submission_from_json(const char *text, size_t size, struct submission *ret, struct error *err);
/* The same of a tree that was read already. */
int submission_from_value(json_t *tree, struct submission *ret, struct error *err);
/* The same of a document that was taken before: of any size. */
int submission_from_doc(const char *text, size_t size, struct submission *ret, struct error *err);
int submission_from_yaml(const char *file, const char *text, size_t size, struct submission *ret, struct error *err);
/* Sets or replaces; keeps the list sorted. -ENOMEM. */
int submission_put_pair(struct env_pair **pairs, size_t *count, const char *key, const char *value);
/* -E2BIG, -ENOMEM. */
int submission_add_after(struct submission *s, enum after_kind kind, int64_t job);
/* A class or a number. -EINVAL. */
int priority_parse(const char *text, int *ret_priority);
const char *priority_class(int priority); /* "oppo" .. "urgent": the highest class it reaches */
/* "0-99%8" in place of what there was. */
int submission_set_array(struct submission *s, const char *text, struct error *err);
/* Canonical: keys sorted, defaults left out. Decoding it gives an equal submission. */
int submission_to_json(const struct submission *s, struct buf *out, struct error *err);

/* What may be changed of a submission that was taken; NULL: that stays as it is. */
struct submission_edit {
    const char *comment, *vc;
    bool drop_comment;
    const struct env_pair *tags; /* a tag without a value goes */
    size_t tag_count;
    const usec_t *time;
    const int *priority;
};

/* Its document with these changes in it, all else as it was. The caller's: mem_free(). NULL: no memory. */
char *submission_edit(const char *doc, const struct submission_edit *edit);

/* Why a submission can never run: the reason code of people ("Infeasible.NodeSize") and what would. */
struct infeasible {
    char code[32];
    char hint[256];
};

/* The scheduler's side of it: sizes, types, priority, class, limits. `id`, `submit`, `user`, `vc` are the caller's.
 * -ERANGE with *why filled when no state of this cluster could run it; -EINVAL. */
int submission_bind(const struct submission *s, const struct cluster_spec *cluster, struct jobspec *ret_spec,
                    struct infeasible *why, struct error *err);
