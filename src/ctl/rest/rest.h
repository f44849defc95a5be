/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* rest.h - the handlers behind the routes, and how they offer entries. */
#include "ctl/rest/render/render.h"

/* Offers an entry; `then` is called when it is durable and applied, or refused. Refusals at once come the same way.
 * Takes the body. */
typedef void (*offered_fn)(struct request *request, const struct entry_result *result);
void request_offer(struct request *request, const struct entry *entry, offered_fn then);
/* The same of a body in JSON, which is taken. */
void request_offer_json(struct request *request, enum entry_kind kind, json_t *body, offered_fn then);
/* The usual `then`: 200 with the job of the path, or the refusal. */
void offered_job(struct request *request, const struct entry_result *result);
/* 204, or the refusal. */
void offered_nothing(struct request *request, const struct entry_result *result);

/* If-Match against the job's version: false, and answered, when it has changed. */
bool match_check(struct request *request, const struct ctl_job *job);
/* The job of the path if the caller may change it; answered otherwise. */
const struct ctl_job *request_governed(struct request *request);

/* {name} as a virtual cluster, and the scene; UINT32_MAX: answered. */
uint32_t request_vc(struct request *request, struct scene *scene);

/* The object of an array. */
void array_reply(struct request *request, int status, int64_t id);
/* The body as a submission and its canonical JSON; NULL, answered. ret_same: that is what the body says, to the letter;
 * may be NULL. */
json_t *request_submission(struct request *request, struct submission *ret_spec, char **ret_doc);

void list_begin(struct json_write *json, struct buf *out, const char *kind);
void list_end(struct json_write *json, const char *next); /* NULL: no more */

/* Which jobs a list means. */
struct job_filter {
    char user[64], vc[64], name[256], node[256], tag[128], tag_value[128];
    char find[256];  /* some part of the name, large or small letters */
    int64_t array;   /* elements of this one; 0 = all jobs */
    uint32_t phases; /* bits; 0 = all that are not over */
    usec_t since, until;
    int64_t *ids; /* owned */
    size_t id_count;
    bool all;
};
/* rest_reservations.c: reservations of others that keep nodes from a job that waits, or that one which runs has to
 * leave for.
 */
void resvs_put(const struct scene *scene, struct json_write *json, const struct ctl_job *job);
int filter_read(struct request *request, struct job_filter *filter); /* -EINVAL: answered */
int filter_state(struct job_filter *filter, const char *text);
/* The states asked for, by their names with commas between; "" where none are. -EINVAL, answered. */
int query_states(struct request *request, char *out, size_t size);
void filter_done(struct job_filter *filter);
bool filter_takes(const struct scene *scene, const struct job_filter *filter, const struct ctl_job *job);

void rest_jobs_list(struct request *request);
void rest_jobs_submit(struct request *request);
void rest_jobs_batch(struct request *request);
void rest_job_get(struct request *request);
void rest_job_patch(struct request *request);
void rest_job_delete(struct request *request);
void rest_job_action(struct request *request);
void rest_job_attempts(struct request *request);
void rest_job_tasks(struct request *request);
void rest_job_events(struct request *request);
void rest_job_metrics(struct request *request);
void rest_job_logs(struct request *request);
void rest_job_exec(struct request *request);
void rest_job_input(struct request *request);
void rest_job_forward(struct request *request);
void rest_array_get(struct request *request);
void rest_array_delete(struct request *request);
void rest_nodes_list(struct request *request);
void rest_node_get(struct request *request);
void rest_node_patch(struct request *request);
void rest_node_delete(struct request *request);
void rest_gpu_get(struct request *request);
void rest_gpu_patch(struct request *request);
void rest_gpus(struct request *request);
void rest_vcs_list(struct request *request);
void rest_vc_get(struct request *request);
void rest_vc_usage(struct request *request);
void rest_usage(struct request *request);
void rest_overview(struct request *request);
void rest_alerts(struct request *request);
void rest_cells(struct request *request);
void rest_topology(struct request *request);
void rest_queue(struct request *request);
void rest_schedule(struct request *request);
void rest_history(struct request *request);
void rest_reports(struct request *request);
void rest_users(struct request *request);
void rest_licenses(struct request *request);
void rest_version(struct request *request);
void rest_health(struct request *request);
void rest_ready(struct request *request);
/* Scopes of join tokens: the names they are for; the one node that may join again. */
#define JOIN_NAMES "names:"
#define JOIN_AGAIN "rejoin:"
void rest_node_rejoin(struct request *request);
void rest_login(struct request *request);
void rest_login_once(struct request *request);
/* Makes a token and answers with it once it is durable. */
void token_reply(struct request *request, const char *user, const char *role, const char *scope, int64_t seconds);
bool login_whispered(const struct request *request); /* nothing that a wire in the clear could have told */
void rest_oidc_get(struct request *request);
void rest_oidc_login(struct request *request);
void rest_whoami(struct request *request);
void rest_tokens_list(struct request *request);
void rest_tokens_add(struct request *request);
void rest_tokens_remove(struct request *request);
void rest_join(struct request *request);
void rest_vcs_add(struct request *request);
void rest_vc_put(struct request *request);
void rest_vc_delete(struct request *request);
void rest_limits_get(struct request *request);
void rest_limits_put(struct request *request);
void rest_resvs_list(struct request *request);
void rest_resvs_add(struct request *request);
void rest_resv_get(struct request *request);
void rest_resv_put(struct request *request);
void rest_resv_delete(struct request *request);
void rest_secrets_list(struct request *request);
void rest_secret_put(struct request *request);
void rest_secret_delete(struct request *request);
void rest_webhooks_list(struct request *request);
void rest_webhooks_add(struct request *request);
void rest_webhooks_remove(struct request *request);
void rest_config_discover(struct request *request);
void rest_config_reload(struct request *request);
void rest_config_get(struct request *request);
void rest_config_put(struct request *request);
void rest_scheduler_get(struct request *request);
void rest_scheduler_patch(struct request *request);
void rest_scheduler_trace(struct request *request);
void rest_events(struct request *request);
void rest_backup(struct request *request);
void rest_audit(struct request *request);
void rest_openapi(struct request *request);
void rest_metrics(struct request *request);
void rest_metrics_jobs(struct request *request);
void rest_metrics_users(struct request *request);
void rest_estimator(struct request *request);
void rest_sim_list(struct request *request);
void rest_sim_add(struct request *request);
void rest_sim_get(struct request *request);
void rest_sim_delete(struct request *request);
void rest_sim_file(struct request *request);
/* A file of the dashboard; false: there is none of that path. */
bool rest_static(struct request *request);
