/* SPDX-License-Identifier: Apache-2.0 */
/* job_action.c - what people do to jobs: cancel, hold, release, requeue, suspend, resume, signal, set.
 *
 * An array's id stands for all its elements that are not over. What is no longer possible is refused with -EALREADY, in
 * words; doing something twice is not an error.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "ctl/state/state_internal.h"

static int refuse(struct entry_result *ret, int code, const struct ctl_job *job, const char *text)
{
    return ret->code = error_set(&ret->text, code, "job %lld %s", (long long)job->id, text);
}

static bool on_gpus(const struct ctl_job *job)
{
    return job->phase == PHASE_JOB_STARTING || job->phase == PHASE_JOB_RUNNING || job->phase == PHASE_JOB_SUSPENDED ||
           job->phase == PHASE_JOB_COMPLETING;
}

/* Its submission with the comment and the tags that are asked for; a tag that becomes nothing goes. Owned; NULL:
 * neither is to change, or there is no memory. */
static char *words_changed(const struct ctl_job *job, const struct entry_set *set)
{
    struct submission_edit edit = { .comment = set->comment.text, .drop_comment = set->comment.given == GIVEN_NULL };
    struct env_pair *tags;
    char *text;

    if (set->comment.given == GIVEN_NOT && set->tags.count == 0)
        return NULL;
    tags = mem_zalloc(set->tags.count + 1, sizeof(*tags));
    for (size_t i = 0; tags && i < set->tags.count; i++)
        tags[edit.tag_count++] = (struct env_pair){ set->tags.items[i].name, set->tags.items[i].text };
    edit.tags = tags;
    text = submission_edit(job->source->text, &edit);
    mem_free(tags);
    return text;
}

static int check_words(const struct entry_set *set, const struct ctl_job *job, struct error *err)
{
    char *changed = words_changed(job, set);
    struct ctl_spec *spec = changed ? ctl_spec_new(changed, err) : NULL;
    int r = changed && !spec ? err->code : 0;

    ctl_spec_drop(spec);
    mem_free(changed);
    return r;
}

/* Another size: of one that waits outside as of one that the core has. */
static int check_size(const struct ctl *ctl, const struct ctl_job *job, int64_t gpus, struct entry_result *ret)
{
    int64_t most = limits_gpus(&ctl->registry, names_get(&ctl->registry.users, job->user));
    int64_t others =
        limits_held(ctl, job->user) - (job_in_core(job) ? (int64_t)jobspec_gpus(&job->wants) * job->wants.share : 0);
    struct jobspec spec = job->wants;

    if (gpus < 0 || gpus > GANG_GPUS_MAX)
        return ret->code = error_set(&ret->text, -EINVAL, "size: expected 1 to %d GPUs", GANG_GPUS_MAX);
    if (most >= 0 && gpus > spec.gpus && others + gpus * spec.share > most * MGPU_ONE)
        return ret->code = error_set(&ret->text, -ERANGE, "job %lld: its user may have %lld GPUs in all",
                                     (long long)job->id, (long long)most);
    if (job->link == LINK_INSIDE)
        return ret->code = core_size_check(ctl->core, job->slot, (int32_t)gpus, &ret->text);
    ret->code = jobspec_size_check(&spec, (int32_t)gpus, &ret->text);
    if (ret->code < 0 || gpus == 0)
        return ret->code;
    jobspec_resize(&spec, (int32_t)gpus);
    return ret->code = core_feasible(ctl->core, &spec, job->vc, &ret->text);
}

static int check_set(const struct ctl *ctl, const struct entry_set *set, const struct ctl_job *job,
                     struct entry_result *ret)
{
    const struct opt_number *priority = &set->priority;

    if (priority->given && (priority->value < PRIORITY_MIN || priority->value > PRIORITY_MAX))
        return ret->code = error_set(&ret->text, -EINVAL, "priority: expected %d to %d", PRIORITY_MIN, PRIORITY_MAX);
    if (set->vc && cluster_vc(ctl, set->vc) == UINT32_MAX)
        return ret->code = error_set(&ret->text, -ENOENT, "no virtual cluster '%s'", set->vc);
    if ((priority->given || set->vc) && on_gpus(job))
        return refuse(ret, -EALREADY, job, "is on its GPUs; its priority and virtual cluster stay");
    return set->size.given ? check_size(ctl, job, set->size.value, ret) : 0;
}

static int check_job(const struct ctl *ctl, const struct entry *entry, const struct ctl_job *job,
                     struct entry_result *ret)
{
    if (job->link == LINK_ENDING) /* by an entry of the same batch */
        return refuse(ret, -EALREADY, job, "is over");
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
        return job_paused(job) ? 0 : refuse(ret, -EALREADY, job, "was not suspended by a person");
    case ENTRY_SIGNAL:
        return job->phase == PHASE_JOB_RUNNING ? 0 : refuse(ret, -EALREADY, job, "does not run");
    case ENTRY_SET:
        return check_set(ctl, &entry->set, job, ret);
    case ENTRY_CANCEL:
    case ENTRY_RELEASE:
    default: /* no other kind comes here */
        return 0;
    }
}

int act_check(const struct ctl *ctl, struct entry *entry, struct entry_result *ret)
{
    int64_t id = entry->hold.job; /* the records of all these kinds begin with it */
    const struct ctl_job *job = registry_find(&ctl->registry, id);

    if (registry_array_live(&ctl->registry, id))
        return 0;
    if (!job && registry_outcome(&ctl->registry, id) == PHASE_JOB_COUNT)
        return ret->code = error_set(&ret->text, -ENOENT, "no job %lld", (long long)id);
    if (!job || phase_over(job->phase))
        return ret->code = error_set(&ret->text, -EALREADY, "job %lld is over", (long long)id);
    if (check_job(ctl, entry, job, ret) < 0 || entry->kind != ENTRY_SET)
        return ret->code;
    return ret->code = check_words(&entry->set, job, &ret->text);
}

static void cancel(struct ctl *ctl, struct ctl_job *job, const struct entry_cancel *how)
{
    assert(!phase_over(job->phase));
    assert(job->link != LINK_ENDING);
    if (!job_in_core(job)) {
        job_end(ctl, job, PHASE_JOB_CANCELLED, "cancelled before it started");
        return;
    }
    if (on_gpus(job) && !job_waits_for_place(job)) {
        text_fit(job->end_text, sizeof(job->end_text), how->why ? how->why : "");
        attempt_stop(ctl, job, STOP_CAUSE_CANCEL, 0, how->now ? 0 : job_grace(ctl, job));
        return;
    }
    /* Nothing of it is anywhere. */
    link_take_out(ctl, job, PHASE_JOB_CANCELLED, "cancelled before it started");
}

/* Out of the core, to stay outside or to come again as it is now. */
static void take_out(struct ctl *ctl, struct ctl_job *job)
{
    assert(!on_gpus(job));
    if (job_in_core(job))
        link_reenter(ctl, job);
    else
        gate_look(ctl, job);
}

/* The core goes on with it when there is room; should it come anew, it comes so. */
static void set_size(struct ctl *ctl, struct ctl_job *job, int32_t gpus)
{
    gate_queue_leave(ctl, job);
    if (gpus || job->wants.range_max)
        jobspec_resize(&job->wants, gpus);
    gate_queue_enter(ctl, job);
    user_count(ctl, job);
    if (job->link == LINK_INSIDE)
        ctl_tell_core(ctl, job, (struct event){ .kind = EVENT_SIZE, .value = gpus });
}

/* What an entry does to several jobs: elements that had one submission have one again when all were changed. */
struct act {
    const struct entry *entry;
    struct ctl_spec *from, *to;    /* owned; NULL: none yet */
    const struct ctl_spec *judged; /* whether its words may change so is known: */
    struct error judgement;        /* code 0: they may */
};

/* Once for all elements that have one submission: it may be long. */
static int act_check_words(struct act *act, const struct ctl_job *job, struct entry_result *ret)
{
    if (act->judged != job->source) {
        act->judgement = (struct error){ 0 };
        act->judgement.code = check_words(&act->entry->set, job, &act->judgement);
        act->judged = job->source;
    }
    ret->text = act->judgement;
    return ret->code = act->judgement.code;
}

static void spec_write(struct ctl_spec *spec, const struct entry_set *to)
{
    struct submission_edit edit = { .vc = to->vc };
    struct submission *s = &spec->s;

    if (to->time.given) {
        s->time = to->time.value;
        edit.time = &s->time;
    }
    if (to->priority.given) {
        s->priority = (int)to->priority.value;
        edit.priority = &s->priority;
    }
    ctl_spec_edit(spec, &edit);
}

/* The submission as it becomes: its own where nobody shares it, else another from now on. NULL: none could be made. */
static struct ctl_spec *spec_change(const struct ctl_job *job, struct act *act)
{
    const struct entry_set *to = &act->entry->set;
    struct ctl_spec *own;
    char *text;

    if (act->to && act->from == job->source) {
        act->to->refs++;
        return act->to;
    }
    text = words_changed(job, to);
    if (!text && job->source->refs == 1) {
        spec_write(job->source, to);
        job->source->refs++;
        return job->source;
    }
    own = ctl_spec_new(text ? text : job->source->text, NULL);
    mem_free(text);
    if (!own)
        return NULL;
    ctl_spec_share(own, job->source);
    spec_write(own, to);
    ctl_spec_drop(act->from);
    ctl_spec_drop(act->to);
    act->from = job->source;
    act->to = own;
    act->from->refs++;
    act->to->refs++;
    return own;
}

static void job_change(struct ctl *ctl, struct ctl_job *job, struct act *act)
{
    const struct entry_set *to = &act->entry->set;
    struct ctl_spec *spec = spec_change(job, act);

    if (!spec)
        return;
    ctl_spec_drop(job->source);
    job->source = spec;
    job->spec = &spec->s;
    job_weigh(&ctl->registry, job, act->entry->hold.job == job->id ? 0 : spec->s.array_count);
    if (to->time.given) {
        job->wants.time_limit = spec->s.time;
        job_timer_set(ctl, job);
    }
    if (to->priority.given) {
        job->wants.priority = (int16_t)spec->s.priority;
        job->wants.klass = (uint8_t)(spec->s.priority < 0 ? CLASS_OPPORTUNISTIC
                                     : spec->s.klass      ? CLASS_AUTO
                                                          : CLASS_GUARANTEED);
    }
    if (to->vc)
        job->vc = job->wants.vc = cluster_vc(ctl, to->vc);
    if (to->size.given)
        set_size(ctl, job, (int32_t)to->size.value);
    job->version++;
    if ((to->priority.given || to->vc) && !on_gpus(job))
        take_out(ctl, job);
}

static void to_tasks(struct ctl *ctl, struct ctl_job *job, enum order_kind kind, int64_t signal)
{
    struct ctl_attempt *attempt = attempt_of(job);

    for (uint32_t t = 0; attempt && t < attempt->task_count; t++) {
        struct agent_order order;

        if (task_gone(&attempt->tasks[t]))
            continue;
        order = order_simple(job, attempt, kind);

        if (kind == ORDER_SIGNAL)
            order.signal = (int)signal;
        ctl_order(ctl, attempt->tasks[t].node, order);
    }
}

static void act_on(struct ctl *ctl, struct ctl_job *job, struct act *act, struct entry_result *ret)
{
    const struct entry *entry = act->entry;

    if (check_job(ctl, entry, job, ret) < 0 || (entry->kind == ENTRY_SET && act_check_words(act, job, ret) < 0))
        return;
    switch ((int)entry->kind) {
    case ENTRY_CANCEL:
        cancel(ctl, job, &entry->cancel);
        break;
    case ENTRY_HOLD:
        job->held = true;
        job->version++;
        take_out(ctl, job);
        break;
    case ENTRY_RELEASE:
        if (attempt_kept(job)) { /* its place is let go, and its end is what it was */
            attempt_stop(ctl, job, STOP_CAUSE_RELEASE, 0, 0);
            break;
        }
        job->held = false;
        job->version++;
        gate_look(ctl, job);
        break;
    case ENTRY_REQUEUE:
        if (!job_waits_for_place(job))
            attempt_stop(ctl, job, STOP_CAUSE_REQUEUE, 0, job_grace(ctl, job));
        break;
    case ENTRY_SUSPEND:
        to_tasks(ctl, job, ORDER_SUSPEND, 0);
        break;
    case ENTRY_RESUME:
        to_tasks(ctl, job, ORDER_RESUME, 0);
        break;
    case ENTRY_SIGNAL:
        to_tasks(ctl, job, ORDER_SIGNAL, entry->signal.signal);
        break;
    case ENTRY_SET:
        job_change(ctl, job, act);
        break;
    default: /* no other kind comes here */
        assert(false);
    }
}

void act_apply(struct ctl *ctl, const struct entry *entry, struct entry_result *ret)
{
    struct act act = { .entry = entry };
    int64_t id = entry->hold.job;
    size_t done = 0;

    if (!registry_array_live(&ctl->registry, id)) {
        act_on(ctl, registry_get(&ctl->registry, id), &act, ret);
    } else {
        for (struct ctl_job *job = registry_after(&ctl->registry, id); job && job->array_id == id;) {
            int64_t from = job->id;
            struct entry_result one = { 0 };

            act_on(ctl, job, &act, &one);
            done += one.code == 0;
            if (one.code < 0 && ret->code == 0)
                *ret = one;
            job = registry_after(&ctl->registry, from);
        }
        if (done)
            ret->code = 0; /* some could: that is what was asked for */
    }
    ctl_spec_drop(act.from);
    ctl_spec_drop(act.to);
}
