/* SPDX-License-Identifier: Apache-2.0 */
/* rest_jobs.c - submissions, and offers of requests. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "ctl/estimates.h"
#include "ctl/rest.h"
#include "wire/json_read.h"

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

/* spec: of a submission, where it need not be read again; taken. Else NULL. */
static void offer(struct request *request, enum entry_kind kind, json_t *body, struct submission *spec, offered_fn then)
{
    struct offered *offered = mem_zalloc(1, sizeof(*offered));
    struct drive *drive = request_server(request)->drive;
    struct entry_result refused = { 0 };
    int r;

    if (!offered || !body) {
        if (spec)
            submission_done(spec);
        mem_free(offered);
        json_decref(body);
        reply_problem(request, 503, "Busy", NULL, "out of memory");
        return;
    }
    *offered = (struct offered){ .request = request_hold(request), .then = then };
    r = spec ? drive_offer_submit(drive, body, spec, on_offered, offered, &refused)
             : drive_offer(drive, kind, body, on_offered, offered, &refused);
    if (r < 0) {
        then(request, &refused);
        request_drop(request);
        mem_free(offered);
    }
}

void request_offer(struct request *request, enum entry_kind kind, json_t *body, offered_fn then)
{
    offer(request, kind, body, NULL, then);
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
    r = json_read("job", m->body, m->body_size, ret_tree, err);
    return r == 0 ? submission_from_value(*ret_tree, ret_spec, err) : r;
}

/* The body as canonical JSON; NULL and answered when it is none. Also for plans. Our own client sends just that: then
 * it is not read a second time. */
json_t *request_submission(struct request *request, struct submission *ret_spec, bool *ret_same)
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
    if (r == 0 && !same)
        r = json_read("spec", text.data, text.size, &tree, &err);
    if (r < 0) {
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
    if (ret_same)
        *ret_same = same;
    return tree;
}

static void on_submitted(struct request *request, const struct entry_result *result)
{
    const struct book_job *job;
    struct buf out = BUF_INIT((size_t)8 << 20);
    struct json_write json;
    struct scene scene;

    if (result->code < 0) {
        reply_refused(request, result);
        return;
    }
    job = book_find(server_book(request_server(request)), result->id);
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

void rest_jobs_submit(struct request *request)
{
    static const char *const known[] = { "fields", NULL };
    const char *key = http_header(request->message, "idempotency-key");
    struct submission spec;
    struct scene scene;
    json_t *tree, *body, *predicted;
    bool same = false;

    scene_fill(&scene, request);
    if (!query_known(request, known) || scene_fields(&scene, request, JOB_FIELDS_ALL) < 0)
        return;
    if (!request->who.has_uid) {
        reply_problem(request, 403, "NotAllowed", NULL, "user %s has no account on the controller", request->who.user);
        return;
    }
    if (key && (strlen(key) > 128 || !*key)) {
        reply_problem(request, 400, "BadRequest", NULL, "Idempotency-Key: from 1 to 128 bytes");
        return;
    }
    tree = request_submission(request, &spec, &same);
    if (!tree)
        return;
    predicted = estimates_ask(request_server(request)->estimates, request->who.user, &spec);
    if (!same)
        submission_done(&spec);
    body = json_pack("{s:s, s:I, s:I, s:o}", "user", request->who.user, "uid", (json_int_t)request->who.uid, "gid",
                     (json_int_t)request->who.gid, "spec", tree);
    if (body && key)
        (void)json_object_set_new(body, "key", json_string(key));
    if (predicted)
        (void)json_object_set_new(body, "predicted", predicted);
    offer(request, ENTRY_SUBMIT, body, same ? &spec : NULL, on_submitted);
}
