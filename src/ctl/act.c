/* SPDX-License-Identifier: Apache-2.0 */
/* act.c - what people do to jobs: cancel, hold, release, requeue, suspend, resume, signal, set.
 *
 * An array's id stands for all its elements that are not over. What is no longer possible is refused with -EALREADY, in
 * words; doing something twice is not an error.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "ctl/part.h"

static int refuse(struct entry_result *ret, int code, const struct book_job *job, const char *text)
{
    return ret->code = error_set(&ret->text, code, "job %lld %s", (long long)job->id, text);
}

static bool on_gpus(const struct book_job *job)
{
    return job->phase == PHASE_JOB_STARTING || job->phase == PHASE_JOB_RUNNING || job->phase == PHASE_JOB_SUSPENDED ||
           job->phase == PHASE_JOB_COMPLETING;
}

/* Its submission with the comment and the tags that are asked for; a tag that becomes nothing goes. Owned; NULL:
 * neither is to change. */
static json_t *words_changed(const struct book_job *job, const json_t *body)
{
    json_t *comment = json_object_get(body, "comment"), *tags = json_object_get(body, "tags"), *copy, *own, *value;
    const char *name;

    if (!comment && !tags)
        return NULL;
    copy = json_deep_copy(job->source->json);
    if (json_is_null(comment))
        (void)json_object_del(copy, "comment");
    else if (comment)
        (void)json_object_set(copy, "comment", comment);
    if (!tags)
        return copy;
    own = json_object_get(copy, "tags");
    if (!own) {
        own = json_object();
        (void)json_object_set_new(copy, "tags", own);
    }
    json_object_foreach(tags, name, value)
    {
        if (json_is_null(value))
            (void)json_object_del(own, name);
        else
            (void)json_object_set(own, name, value);
    }
    if (json_object_size(own) == 0)
        (void)json_object_del(copy, "tags");
    return copy;
}

static int check_words(const json_t *body, const struct book_job *job, struct entry_result *ret)
{
    json_t *changed = words_changed(job, body);
    struct book_spec *spec = changed ? book_spec_new(changed, &ret->text) : NULL;
    int r = changed && !spec ? ret->text.code : 0;

    book_spec_drop(spec);
    json_decref(changed);
    return ret->code = r;
}

/* Another size: of one that waits outside as of one that the core has. */
static int check_size(const struct ctl *ctl, const struct book_job *job, int64_t gpus, struct entry_result *ret)
{
    int64_t most = limits_get(&ctl->book, names_get(&ctl->book.users, job->user), "max_gpus");
    int64_t others =
        limits_held(ctl, job->user) - (job->in_core ? (int64_t)jobspec_gpus(&job->wants) * job->wants.share : 0);
    struct jobspec spec = job->wants;

    if (gpus < 0 || gpus > GANG_GPUS_MAX)
        return ret->code = error_set(&ret->text, -EINVAL, "size: expected 1 to %d GPUs", GANG_GPUS_MAX);
    if (most >= 0 && gpus > spec.gpus && others + gpus * spec.share > most * MGPU_ONE)
        return ret->code = error_set(&ret->text, -ERANGE, "job %lld: its user may have %lld GPUs in all",
                                     (long long)job->id, (long long)most);
    if (job->in_core && !job->reenters)
        return ret->code = core_size_check(ctl->core, job->slot, (int32_t)gpus, &ret->text);
    ret->code = jobspec_size_check(&spec, (int32_t)gpus, &ret->text);
    if (ret->code < 0 || gpus == 0)
        return ret->code;
    jobspec_resize(&spec, (int32_t)gpus);
    return ret->code = core_feasible(ctl->core, &spec, job->vc, &ret->text);
}

static int check_set(const struct ctl *ctl, const json_t *body, const struct book_job *job, struct entry_result *ret)
{
    const json_t *priority = json_object_get(body, "priority"), *time = json_object_get(body, "time");
    const json_t *size = json_object_get(body, "size");
    const char *vc = json_string_value(json_object_get(body, "vc"));

    if (priority && (json_integer_value(priority) < PRIORITY_MIN || json_integer_value(priority) > PRIORITY_MAX))
        return ret->code = error_set(&ret->text, -EINVAL, "priority: expected %d to %d", PRIORITY_MIN, PRIORITY_MAX);
    if (time && json_integer_value(time) < 0)
        return ret->code = error_set(&ret->text, -EINVAL, "time: expected a span");
    if (vc && cluster_vc(ctl, vc) == UINT32_MAX)
        return ret->code = error_set(&ret->text, -ENOENT, "no virtual cluster '%s'", vc);
    if ((priority || vc) && on_gpus(job))
        return refuse(ret, -EALREADY, job, "is on its GPUs; its priority and virtual cluster stay");
    if (size && check_size(ctl, job, json_integer_value(size), ret) < 0)
        return ret->code;
    return check_words(body, job, ret);
}

static int check_job(const struct ctl *ctl, const struct entry *entry, const struct book_job *job,
                     struct entry_result *ret)
{
    switch ((int)entry->kind) {
    case ENTRY_HOLD:
        if (attempt_kept(job))
            return refuse(ret, -EALREADY, job, "has failed and its place is kept; release, requeue or cancel it");
        return on_gpus(job) ? refuse(ret, -EALREADY, job, "has started; cancel or requeue it instead") : 0;
    case ENTRY_REQUEUE:
        return on_gpus(job) ? 0 : refuse(ret, -EALREADY, job, "waits already");
    case ENTRY_SUSPEND:
        if (attempt_kept(job))
            return refuse(ret, -EALREADY, job, "has failed and its place is kept; nothing of it runs");
        return job->phase == PHASE_JOB_RUNNING || job->phase == PHASE_JOB_SUSPENDED
                   ? 0
                   : refuse(ret, -EALREADY, job, "does not run");
    case ENTRY_RESUME:
        return job->phase == PHASE_JOB_SUSPENDED && job->suspended_by_user
                   ? 0
                   : refuse(ret, -EALREADY, job, "was not suspended by a person");
    case ENTRY_SIGNAL: {
        int64_t number = json_integer_value(json_object_get(entry->body, "signal"));

        if (number < 1 || number > 64)
            return ret->code = error_set(&ret->text, -EINVAL, "signal: expected 1 to 64");
        return job->phase == PHASE_JOB_RUNNING ? 0 : refuse(ret, -EALREADY, job, "does not run");
    }
    case ENTRY_SET:
        return check_set(ctl, entry->body, job, ret);
    case ENTRY_CANCEL:
    case ENTRY_RELEASE:
    default: /* no other kind comes here */
        return 0;
    }
}

int act_check(const struct ctl *ctl, const struct entry *entry, struct entry_result *ret)
{
    int64_t id = json_integer_value(json_object_get(entry->body, "job"));
    const struct book_job *job = book_find(&ctl->book, id);

    if (book_array(&ctl->book, id, NULL, 0) > 0)
        return 0;
    if (!job && book_outcome(&ctl->book, id) == PHASE_JOB_COUNT)
        return ret->code = error_set(&ret->text, -ENOENT, "no job %lld", (long long)id);
    if (!job || phase_over(job->phase))
        return ret->code = error_set(&ret->text, -EALREADY, "job %lld is over", (long long)id);
    return check_job(ctl, entry, job, ret);
}

static void cancel(struct ctl *ctl, struct book_job *job, const json_t *body)
{
    bool now = json_is_true(json_object_get(body, "now"));

    if (!job->in_core) {
        job_end(ctl, job, PHASE_JOB_CANCELLED, "cancelled before it started");
        return;
    }
    if (on_gpus(job) && !job->waits_old) {
        const char *why = json_string_value(json_object_get(body, "why"));

        (void)snprintf(job->end_text, sizeof(job->end_text), "%s", why ? why : "");
        attempt_stop(ctl, job, "cancel", 0, now ? 0 : job_grace(ctl, job));
        return;
    }
    /* Nothing of it is anywhere. */
    job->ends = true;
    job->ends_as = PHASE_JOB_CANCELLED;
    (void)snprintf(job->end_text, sizeof(job->end_text), "cancelled before it started");
    ctl_tell_core(ctl, job, (struct event){ .kind = EVENT_CANCEL });
}

/* Out of the core, to stay outside or to come again as it is now. */
static void take_out(struct ctl *ctl, struct book_job *job)
{
    if (!job->in_core) {
        gate_look(ctl, job);
        return;
    }
    job->reenters = true;
    ctl_tell_core(ctl, job, (struct event){ .kind = EVENT_CANCEL });
}

/* The core goes on with it when there is room; should it come anew, it comes so. */
static void set_size(struct ctl *ctl, struct book_job *job, int32_t gpus)
{
    if (gpus || job->wants.range_max)
        jobspec_resize(&job->wants, gpus);
    if (job->in_core)
        ctl_tell_core(ctl, job, (struct event){ .kind = EVENT_SIZE, .value = gpus });
}

static void set(struct ctl *ctl, struct book_job *job, const json_t *body)
{
    const json_t *priority = json_object_get(body, "priority"), *time = json_object_get(body, "time");
    const char *vc = json_string_value(json_object_get(body, "vc"));
    json_t *copy = words_changed(job, body);
    struct submission *s;

    if (copy || job->source->refs > 1) {
        /* One of an array has its own submission from now on. */
        struct book_spec *own;

        copy = copy ? copy : json_deep_copy(job->source->json);
        own = book_spec_new(copy, NULL);
        json_decref(copy);
        if (!own)
            return;
        own->inside = job->in_core;
        job->source->inside -= job->in_core;
        book_spec_drop(job->source);
        job->source = own;
        job->spec = &own->s;
    }
    s = &job->source->s;
    if (time) {
        s->time = json_integer_value(time);
        (void)json_object_set_new(job->source->json, "time", json_sprintf("%llds", (long long)(s->time / USEC_SEC)));
        job->wants.time_limit = s->time;
        job_timer_set(ctl, job);
    }
    if (priority) {
        s->priority = (int)json_integer_value(priority);
        (void)json_object_set_new(job->source->json, "priority", json_integer(s->priority));
        job->wants.priority = (int16_t)s->priority;
        job->wants.klass = (uint8_t)(s->priority < 0 ? CLASS_OPPORTUNISTIC : CLASS_GUARANTEED);
    }
    if (vc) {
        job->vc = job->wants.vc = cluster_vc(ctl, vc);
        (void)json_object_set_new(job->source->json, "vc", json_string(vc));
    }
    if (json_object_get(body, "size"))
        set_size(ctl, job, (int32_t)json_integer_value(json_object_get(body, "size")));
    job->version++;
    if ((priority || vc) && !on_gpus(job))
        take_out(ctl, job);
}

static void to_tasks(struct ctl *ctl, struct book_job *job, enum order_kind kind, const json_t *body)
{
    struct book_attempt *attempt = attempt_of(job);

    for (uint32_t t = 0; attempt && t < attempt->task_count; t++) {
        json_t *order = order_simple(job, attempt, kind);

        if (kind == ORDER_SIGNAL)
            (void)json_object_set(order, "signal", json_object_get(body, "signal"));
        ctl_order(ctl, attempt->tasks[t].node, order);
    }
}

static void act_on(struct ctl *ctl, struct book_job *job, const struct entry *entry, struct entry_result *ret)
{
    if (check_job(ctl, entry, job, ret) < 0)
        return;
    switch ((int)entry->kind) {
    case ENTRY_CANCEL:
        cancel(ctl, job, entry->body);
        break;
    case ENTRY_HOLD:
        job->held = true;
        job->version++;
        take_out(ctl, job);
        break;
    case ENTRY_RELEASE:
        if (attempt_kept(job)) { /* its place is let go, and its end is what it was */
            attempt_stop(ctl, job, "release", 0, 0);
            break;
        }
        job->held = false;
        job->version++;
        gate_look(ctl, job);
        break;
    case ENTRY_REQUEUE:
        if (!job->waits_old)
            attempt_stop(ctl, job, "requeue", 0, job_grace(ctl, job));
        break;
    case ENTRY_SUSPEND:
        to_tasks(ctl, job, ORDER_SUSPEND, entry->body);
        break;
    case ENTRY_RESUME:
        to_tasks(ctl, job, ORDER_RESUME, entry->body);
        break;
    case ENTRY_SIGNAL:
        to_tasks(ctl, job, ORDER_SIGNAL, entry->body);
        break;
    case ENTRY_SET:
        set(ctl, job, entry->body);
        break;
    default: /* no other kind comes here */
        assert(false);
    }
}

void act_apply(struct ctl *ctl, const struct entry *entry, struct entry_result *ret)
{
    int64_t id = json_integer_value(json_object_get(entry->body, "job"));
    size_t done = 0;

    if (act_check(ctl, entry, ret) < 0)
        return;
    if (book_array(&ctl->book, id, NULL, 0) == 0) {
        act_on(ctl, book_get(&ctl->book, id), entry, ret);
        return;
    }
    for (struct book_job *job = book_after(&ctl->book, id - 1); job && job->id <= id + SUBMISSION_ARRAY_MAX;) {
        int64_t from = job->id;

        if (job->array_id == id) {
            struct entry_result one = { 0 };

            act_on(ctl, job, entry, &one);
            done += one.code == 0;
            if (one.code < 0 && ret->code == 0)
                *ret = one;
        }
        job = book_after(&ctl->book, from);
    }
    if (done)
        ret->code = 0; /* some could: that is what was asked for */
}
