/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* render.h - jobs, nodes and the rest as JSON for people: docs/rest.md. Written straight into a buffer. */
#include "ctl/daemon/server.h"
#include "wire/text/json_write.h"

#define JOB_FIELDS(X)                                                                                                  \
    X(ID, "id")                                                                                                        \
    X(NAME, "name")                                                                                                    \
    X(USER, "user")                                                                                                    \
    X(VC, "vc")                                                                                                        \
    X(PRIORITY, "priority")                                                                                            \
    X(PRIORITY_CLASS, "priority_class")                                                                                \
    X(STATE, "state")                                                                                                  \
    X(STATE_LETTERS, "state_letters")                                                                                  \
    X(ARRAY, "array")                                                                                                  \
    X(GPUS, "gpus")                                                                                                    \
    X(GPU_SHARE, "gpu_share")                                                                                          \
    X(GPU_TYPE, "gpu_type")                                                                                            \
    X(NODES, "nodes")                                                                                                  \
    X(SUBMIT_TIME, "submit_time")                                                                                      \
    X(ELIGIBLE_TIME, "eligible_time")                                                                                  \
    X(START_TIME, "start_time")                                                                                        \
    X(END_TIME, "end_time")                                                                                            \
    X(ELAPSED, "elapsed_seconds")                                                                                      \
    X(LIMIT, "limit_seconds")                                                                                          \
    X(GPU_SECONDS, "gpu_seconds")                                                                                      \
    X(REASON, "reason")                                                                                                \
    X(ETA, "eta")                                                                                                      \
    X(PLACEMENT, "placement")                                                                                          \
    X(NODELIST, "nodelist")                                                                                            \
    X(KEPT, "kept_until")                                                                                              \
    X(ATTEMPT, "attempt")                                                                                              \
    X(PREEMPTIONS, "preemptions")                                                                                      \
    X(FAILURES, "failures")                                                                                            \
    X(EXIT_CODE, "exit_code")                                                                                          \
    X(SIGNAL, "signal")                                                                                                \
    X(END_TEXT, "end_text")                                                                                            \
    X(CHECKPOINT, "last_checkpoint_time")                                                                              \
    X(PROGRESS, "progress")                                                                                            \
    X(LICENSES, "licenses")                                                                                            \
    X(VERSION, "version")                                                                                              \
    X(SPEC, "spec")                                                                                                    \
    X(UID, "uid")                                                                                                      \
    X(GID, "gid")                                                                                                      \
    X(HELD, "held")                                                                                                    \
    X(PREDICTED, "predicted")                                                                                          \
    X(USED, "used")                                                                                                    \
    X(SIZE, "size")                                                                                                    \
    X(PROMISE, "promise")

enum job_field {
#define X(code, name) FIELD_##code,
    JOB_FIELDS(X)
#undef X
        JOB_FIELD_COUNT
};

#define FIELD_BIT(field) ((uint64_t)1 << (field))
#define JOB_FIELDS_LIST (FIELD_BIT(FIELD_SPEC) - 1)
#define JOB_FIELDS_ALL (FIELD_BIT(JOB_FIELD_COUNT) - 1)

/* What rendering reads. */
struct scene {
    const struct server *server;
    const struct registry *registry;
    const struct cluster_spec *cluster;
    const struct core *core;
    const struct principal *who;
    usec_t now;
    uint64_t fields;                 /* of jobs */
    const struct submission *choice; /* of a job that is only thought of: nodes it chooses have the mark PLAN_MARK */
    bool eta;
    const char *indices; /* of the elements of an array that this job stands for; NULL: they are not told */
    size_t alike;        /* how many they are; 0 or 1: none but itself */
};

void scene_fill(struct scene *scene, const struct request *request);
/* The same for nobody in particular: who may see everything. */
void scene_of(struct scene *scene, struct server *server);
/* GPUs that are free now and that the job may use, by their type and node, in thousandths; and beside them whole ones
 * that are free but reserved for others. Of parts of GPUs, and of gangs on several types, as the core last told. */
int64_t scene_free(const struct scene *scene, const struct ctl_job *job, uint32_t *ret_reserved);
/* The same inside the cells that its virtual cluster is guaranteed; -1: they are none, or not for it. */
int64_t scene_free_own(const struct scene *scene, const struct ctl_job *job);
/* "a,b" to bits; -EINVAL, answered. */
int scene_fields(struct scene *scene, struct request *request, uint64_t standard);

/* key NULL: an item of a list. With kind: {"apiVersion","kind",...}. */
void render_job(const struct scene *scene, struct json_write *json, const struct ctl_job *job, const char *kind);
/* An item of a list that is left open: the caller adds keys and closes it. */
void render_job_begin(const struct scene *scene, struct json_write *json, const struct ctl_job *job);
void render_attempt(const struct scene *scene, struct json_write *json, const struct ctl_job *job,
                    const struct ctl_attempt *attempt, bool tasks);
/* Why it was told to leave, as people are told: "resize" where it goes on with another number of GPUs; "" = it was not.
 */
const char *attempt_stop_word(const struct scene *scene, const struct ctl_job *job, const struct ctl_attempt *attempt);
void render_tasks(const struct scene *scene, struct json_write *json, const char *key, const struct ctl_job *job,
                  const struct ctl_attempt *attempt);
const char *license_name(const struct scene *scene, uint32_t number);
/* Whether this person is shown the job at all. */
bool render_shows(const struct scene *scene, const struct ctl_job *job);
/* And by its name: if not, it is found by no part of it either. */
bool render_names(const struct scene *scene, const struct ctl_job *job);
/* Code and words of why it waits; false: it does not. */
enum reason render_reason_now(const struct scene *scene, const struct ctl_job *job);
bool render_reason(const struct scene *scene, const struct ctl_job *job, const char **ret_code, char *text,
                   size_t size);
/* The same of one that has its GPUs and does not run yet. */
bool render_starting(const struct ctl_job *job, const char **ret_code, const char **ret_text, usec_t *ret_since);

/* The same of one that failed and whose place is kept; until when, 0: it is none. */
bool node_refused_rival(const struct scene *scene, const struct ctl_node *node);
/* It runs, or leaves, on a node that is silent or cannot end it: what has to happen for it to go on (ADR 55). */
bool render_node_silent(const struct scene *scene, const struct ctl_job *job, const char **ret_code, char *text,
                        size_t size);
usec_t render_kept(const struct ctl_job *job, const char **ret_code, char *text, size_t size);
void put_array(const struct scene *scene, struct json_write *json, const struct ctl_job *job);

/* GPUs of a node by what they are. */
/* GPUs of a node, counted. All figures of GPUs, wherever they are shown, are sums of these; docs/glossary.md says what
 * they mean. total = used + free + down + foreign; drained and unhealthy are among any of them. */
struct node_use {
    uint32_t total, used, free, down, foreign;
    uint32_t drained, unhealthy;
    bool tasks, full; /* jobs without GPUs are there; and have all the CPUs that are for them */
};
void node_use(const struct scene *scene, const struct ctl_node *node, struct node_use *ret);
const char *node_state(const struct ctl_node *node, const struct node_use *use);
/* Whether a job may be there: one with GPUs where there are some, those of a reservation are for some, and it may have
 * chosen others. */
bool node_open(const struct scene *scene, const struct ctl_node *node, const struct jobspec *wants);
/* Number of its type; UINT32_MAX: none that is known. */
uint32_t node_sku(const struct scene *scene, const struct ctl_node *node);
/* Whether a job holds any part of the GPU. */
bool gpu_in_use(const struct scene *scene, const struct ctl_node *node, uint32_t index);
const char *gpu_state_text(const struct scene *scene, const struct ctl_node *node, uint32_t index);
/* Whole GPUs of the type that nobody holds or keeps, on nodes that are up and for everybody: the largest job that any
 * placement could start now. */
uint32_t largest_gang(const struct scene *scene, uint32_t sku);

/* What a virtual cluster has, all types together, in thousandths. */
struct vc_sum {
    int64_t guaranteed, used, borrowed, lent, oppo;
    int64_t limit; /* -1 = none */
    int64_t pending_gpus, pending_jobs, running_jobs;
};
void vc_sum(const struct scene *scene, uint32_t vc, struct vc_sum *ret);
/* What others use of its guarantee of one type: guests and borrowers use what nobody is owed first; the rest is lent by
 * those that leave some of theirs idle, in proportion. */
int64_t vc_lent(const struct scene *scene, uint32_t vc, uint32_t sku);
void render_node(const struct scene *scene, struct json_write *json, const struct ctl_node *node, bool whole);
void render_gpu(const struct scene *scene, struct json_write *json, const struct ctl_node *node, uint32_t index);
void render_gpu_summary(const struct scene *scene, struct json_write *json);
/* Whether it takes jobs: one that was removed is not shown. */
bool vc_open(const struct scene *scene, uint32_t vc);
void render_vc(const struct scene *scene, struct json_write *json, uint32_t vc, const char *kind);

/* Policy of virtual clusters that name none. */
const char *policy_now(const struct server *server);
const char *vc_name(const struct scene *scene, uint32_t vc);
const char *user_name(const struct scene *scene, uint32_t user);
const char *node_name(const struct scene *scene, uint32_t node);
void put_time(struct json_write *json, const char *key, usec_t at); /* null for 0 */
/* {"state","deadline","offer","cause","message"} as "promise"; nothing of a job without a deadline, or that is over. */
void put_progress(const struct scene *scene, struct json_write *json, const struct ctl_job *job);
void put_promise(const struct scene *scene, struct json_write *json, const struct ctl_job *job);
