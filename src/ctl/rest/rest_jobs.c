/* SPDX-License-Identifier: Apache-2.0 */
/* rest_jobs.c - submissions, and offers of requests. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "ctl/insight/estimates.h"
#include "ctl/log/entry_json.h"
#include "ctl/rest/common/access.h"
#include "ctl/rest/rest.h"
#include "wire/text/json_read.h"

struct offered {
    struct request *request;
    offered_fn then;
};

static void on_offered(void *arg, const struct entry_result *result)
{
    struct offered *offered = arg;

    offered->then(offered->request, result);
    request_drop(offered->request);
    mem_free(offered);
}

void request_offer(struct request *request, const struct entry *entry, offered_fn then)
{
    struct offered *offered = mem_zalloc(1, sizeof(*offered));
    struct entry_result refused = { 0 };

    if (!offered) {
        struct entry lost = *entry;

        entry_done(&lost);
        reply_problem(request, 503, "Busy", NULL, "out of memory");
        return;
    }
    *offered = (struct offered){ .request = request_hold(request), .then = then };
    if (batcher_offer(request_server(request)->batcher, entry, on_offered, offered, &refused) < 0) {
        then(request, &refused);
        request_drop(request);
        mem_free(offered);
    }
}

void request_offer_json(struct request *request, enum entry_kind kind, json_t *body, offered_fn then)
{
    struct entry_result refused = { 0 };
    struct entry entry;

    refused.code = entry_from_json(kind, body, &entry, &refused.text);
    json_decref(body);
    if (refused.code == 0) {
        request_offer(request, &entry, then);
        return;
    }
    entry_done(&entry);
    then(request, &refused);
}

void offered_nothing(struct request *request, const struct entry_result *result)
{
    if (result->code < 0)
        reply_refused(request, result);
    else
        reply(request, 204, NULL, NULL, 0);
}

/* Submissions. */

static bool is_yaml(const struct http_message *m)
{
    const char *type = http_header(m, "content-type");

    return type &&
           (strncasecmp(type, "application/yaml", 16) == 0 || strncasecmp(type, "application/x-yaml", 18) == 0 ||
            strncasecmp(type, "text/yaml", 9) == 0 || strncasecmp(type, "text/x-yaml", 11) == 0);
}

/* Agents know these. Here and not where submissions are read, so that a state with older ones can be. */
static int pattern_check(const char *key, const char *pattern, struct error *err)
{
    for (const char *c = pattern ? strchr(pattern, '%') : NULL; c && c[1]; c = strchr(c + 2, '%'))
        if (!strchr("jxaANtn%", c[1]))
            return error_set(
                err, -EINVAL,
                "%s: %%%.1s is not known; %%j is the id, %%x the name, %%a and %%A index and number of the "
                "array, %%N the node, %%t the task, %%n the attempt, %%%% a percent sign",
                key, c + 1);
    return 0;
}

/* The body as a submission; *ret_tree: as JSON, where it is. */
static int body_read(const struct http_message *m, struct submission *ret_spec, json_t **ret_tree, struct error *err)
{
    int r;

    if (is_yaml(m))
        return submission_from_yaml("body", m->body, m->body_size, ret_spec, err);
    r = json_read_within("job", m->body, m->body_size, BODY_VALUES_MAX, ret_tree, err);
    return r == 0 ? submission_from_value(*ret_tree, ret_spec, err) : r;
}

/* The body as canonical JSON, in words too where they are asked for; NULL and answered when it is none. Also for plans.
 * Our own client sends just that: then it is not read a second time. */
json_t *request_submission(struct request *request, struct submission *ret_spec, char **ret_doc)
{
    const struct http_message *m = request->message;
    CLEANUP_BUF struct buf text = BUF_INIT((size_t)SUBMISSION_BYTES_MAX * 2);
    struct error err = { 0 };
    json_t *tree = NULL;
    bool same;
    int r;

    if (m->body_size == 0 || m->body_size > SUBMISSION_BYTES_MAX) {
        reply_problem(request, m->body_size ? 413 : 400, m->body_size ? "TooLarge" : "InvalidSpec", NULL,
                      m->body_size ? "a submission is at most 1 MiB" : "the body must be a submission");
        return NULL;
    }
    submission_init(ret_spec);
    r = body_read(m, ret_spec, &tree, &err);
    if (r == 0)
        access_default(request, ret_spec);
    if (r == 0)
        r = pattern_check("output", ret_spec->output, &err);
    if (r == 0)
        r = pattern_check("error", ret_spec->error, &err);
    if (r == 0)
        r = submission_to_json(ret_spec, &text, &err);
    same = r == 0 && tree && text.size == m->body_size && memcmp(text.data, m->body, text.size) == 0;
    if (!same) {
        json_decref(tree);
        tree = NULL;
    }
    if (r == 0 && !same) { /* what it says is what the log will say of it */
        submission_done(ret_spec);
        submission_init(ret_spec);
        r = json_read("spec", text.data, text.size, &tree, &err);
    }
    if (r == 0 && !same)
        r = submission_from_value(tree, ret_spec, &err);
    if (r < 0) {
        json_decref(tree);
        reply_problem(request, 400, "InvalidSpec", NULL, "%s", err.text);
        submission_done(ret_spec);
        return NULL;
    }
    if (ret_spec->notify_count && !request_server(request)->conf->notify) {
        reply_problem(request, 422, "NotAllowed", "submit without it, or ask for notify in muster.yaml",
                      "this cluster tells nobody: notify has no command");
        json_decref(tree);
        submission_done(ret_spec);
        return NULL;
    }
    if (ret_doc)
        *ret_doc = take(text.data);
    return tree;
}

static void on_submitted(struct request *request, const struct entry_result *result)
{
    const struct ctl_job *job;
    struct buf out = BUF_INIT((size_t)8 << 20);
    struct json_write json;
    struct scene scene;

    if (result->code < 0) {
        reply_refused(request, result);
        return;
    }
    job = registry_find(server_book(request_server(request)), result->id);
    if (!job || job->array_id) {
        reply_header(request, "Location", "/api/v1/arrays/%" PRId64, result->id);
        array_reply(request, 201, result->id);
        return;
    }
    request_made(request, result->id);
    scene_fill(&scene, request);
    if (request->message && scene_fields(&scene, request, JOB_FIELDS_ALL) < 0)
        return;
    reply_header_number(request, "Location", "/api/v1/jobs/", result->id, "");
    reply_header_number(request, "ETag", "\"v", (int64_t)job->version, "\"");
    json_write_init(&json, &out, false);
    render_job(&scene, &json, job, "Job");
    reply_buf(request, 201, &out);
}

/* Whether one user may have so much more of what all share; else answered. */
static bool user_has_room(struct request *request, const struct submission *spec, size_t bytes)
{
    const struct server *server = request_server(request);
    const struct registry *registry = server_book(server);
    uint32_t user = names_find(&registry->users, request->who.user, strlen(request->who.user));
    const struct ctl_user none = { 0 }, *has = user < registry->user_capacity ? &registry->user[user] : &none;
    int64_t count = spec->array_count ? (int64_t)spec->array_count : 1;

    if (spec->array_count && count > server->conf->array_max)
        reply_problem(request, 422, "QueueLimit", NULL, "an array has at most %" PRId64 " elements here (limits.array)",
                      server->conf->array_max);
    else if (has->live + count > server->conf->user_jobs_max)
        reply_problem(request, 429, "TooManyOfYours", "cancel some, or wait until some are over",
                      "you would have %" PRId64 " jobs that are not over, and one user may have %" PRId64
                      " (limits.jobs_per_user)",
                      has->live + count, server->conf->user_jobs_max);
    else if (has->bytes + bytes > (uint64_t)server->conf->user_held_max)
        reply_problem(request, 429, "TooManyOfYours", "cancel some, or have jobs read what is long from files",
                      "the submissions of your jobs would be more than the %" PRId64
                      " bytes that one user may have (limits.held_per_user)",
                      server->conf->user_held_max);
    return !request->answered;
}

static bool ascii_printable(const char *text)
{
    while (*text >= ' ' && *text <= '~')
        text++;
    return !*text;
}

void rest_jobs_submit(struct request *request)
{
    static const char *const known[] = { "fields", NULL };
    const char *key = http_header(request->message, "idempotency-key");
    struct submission spec;
    struct entry entry;
    struct scene scene;
    json_t *tree, *predicted;
    char *doc = NULL;

    scene_fill(&scene, request);
    if (!query_known(request, known) || scene_fields(&scene, request, JOB_FIELDS_ALL) < 0)
        return;
    if (!request->who.has_uid) {
        reply_problem(request, 403, "NotAllowed", NULL, "user %s has no account on the controller", request->who.user);
        return;
    }
    if (key && (strlen(key) > 128 || !*key || !ascii_printable(key))) {
        reply_problem(request, 400, "BadRequest", NULL, "Idempotency-Key: from 1 to 128 printable characters of ASCII");
        return;
    }
    tree = request_submission(request, &spec, &doc);
    if (!tree)
        return;
    if (!access_submission(request, &spec) || !user_has_room(request, &spec, strlen(doc))) {
        json_decref(tree);
        submission_done(&spec);
        mem_free(doc);
        return;
    }
    entry = (struct entry){ .kind = ENTRY_SUBMIT,
                            .submit = { .user = entry_text(request->who.user),
                                        .uid = request->who.uid,
                                        .gid = request->who.gid,
                                        .spec = doc,
                                        .key = entry_text(key) } };
    predicted = estimates_ask(request_server(request)->estimates, request->who.user, &spec);
    if (predicted)
        entry_predict(&entry.submit, predicted);
    json_decref(predicted);
    entry.spec = ctl_spec_take(doc, &spec);
    json_decref(tree);
    request_offer(request, &entry, on_submitted);
}
