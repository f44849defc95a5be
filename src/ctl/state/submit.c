/* SPDX-License-Identifier: Apache-2.0 */
/* submit.c - a job, or an array of them, comes.
 *
 * What can be known to be wrong is refused before anything is written; the same checks decide again when the entry is
 * applied, since the cluster may have changed in between.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "ctl/state/state_internal.h"
#include "wire/job/jobspec_json.h"

static int refuse(struct entry_result *ret, int code, const char *reason)
{
    (void)snprintf(ret->reason, sizeof(ret->reason), "%s", reason);
    return ret->code = code;
}

static uint64_t hash_text(const char *text)
{
    uint64_t hash = 14695981039346656037ULL;

    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 1099511628211ULL;
    return hash;
}

/* The job that the same key of the same user has made; 0. */
static int64_t key_find(const struct registry *registry, const char *user, const char *key)
{
    uint32_t who = names_find(&registry->users, user, strlen(user));
    uint64_t hash = hash_text(key);

    for (uint16_t at = registry->key_first[hash % REGISTRY_KEYS]; who != NAME_NONE && at;
         at = registry->keys[at - 1].next) {
        const struct ctl_key *k = &registry->keys[at - 1];

        if (k->hash == hash && k->user == who && strcmp(k->key, key) == 0)
            return k->id;
    }
    return 0;
}

/* The oldest makes room. */
static void key_forget(struct registry *registry, size_t index)
{
    uint16_t *at = &registry->key_first[registry->keys[index].hash % REGISTRY_KEYS];

    while (*at && *at != index + 1)
        at = &registry->keys[*at - 1].next;
    if (*at)
        *at = registry->keys[index].next;
}

static void key_put(struct registry *registry, uint32_t user, const char *key, int64_t id)
{
    struct ctl_key *at = &registry->keys[registry->key_next];
    uint64_t hash = hash_text(key);

    if (registry->key_count == REGISTRY_KEYS)
        key_forget(registry, registry->key_next);
    *at = (struct ctl_key){ .user = user, .hash = hash, .id = id };
    (void)snprintf(at->key, sizeof(at->key), "%s", key);
    registry_key_link(registry, registry->key_next);
    registry->key_next = (registry->key_next + 1) % REGISTRY_KEYS;
    if (registry->key_count < REGISTRY_KEYS)
        registry->key_count++;
}

static int check_after(const struct ctl *ctl, const struct submission *s, struct entry_result *ret)
{
    if (s->after_count > REGISTRY_AFTER_MAX) {
        (void)error_set(&ret->text, -EINVAL, "after: %zu jobs; at most %d are possible", s->after_count,
                        REGISTRY_AFTER_MAX);
        return refuse(ret, -EINVAL, "InvalidSpec");
    }
    for (size_t i = 0; i < s->after_count; i++) {
        int64_t id = s->after[i].job;
        const struct ctl_job *job = registry_find(&ctl->registry, id);
        enum phase_of_job phase = job ? job->phase : registry_outcome(&ctl->registry, id);

        if (phase == PHASE_JOB_COUNT && !registry_array_live(&ctl->registry, id)) {
            (void)error_set(&ret->text, -ENOENT, "after: no job %lld, or it ended too long ago", (long long)id);
            return refuse(ret, -ERANGE, "DependencyNeverSatisfied");
        }
    }
    return 0;
}

static const char *vc_name(const struct ctl *ctl, const struct submission *s)
{
    if (s->vc)
        return s->vc;
    return ctl->cluster.vc_count ? names_get(&ctl->cluster.names, ctl->cluster.vcs[0].name) : "default";
}

/* What it asks for, in the terms of this cluster. */
static int bind_spec(const struct ctl *ctl, const struct submission *s, struct jobspec *wants, uint32_t *ret_vc,
                     struct entry_result *ret)
{
    struct infeasible why = { 0 };
    int r;

    if (!ctl->core && ctl->registry.node_count > 0) {
        (void)snprintf(ret->hint, sizeof(ret->hint),
                       "what a node found is in its log; nodes without GPUs take jobs without GPUs as soon as one with "
                       "some is there");
        (void)error_set(&ret->text, -ERANGE, "no node with GPUs has joined the cluster yet");
        return refuse(ret, -ERANGE, "Infeasible.Sku");
    }
    if (!ctl->core) {
        (void)snprintf(ret->hint, sizeof(ret->hint), "start muster-agent on a node: muster-agent join URL TOKEN");
        (void)error_set(&ret->text, -ERANGE, "no node has joined the cluster yet");
        return refuse(ret, -ERANGE, "Infeasible.Sku");
    }
    *ret_vc = cluster_vc(ctl, vc_name(ctl, s));
    if (*ret_vc == UINT32_MAX) {
        (void)error_set(&ret->text, -ERANGE, "no virtual cluster '%s'", vc_name(ctl, s));
        (void)snprintf(ret->hint, sizeof(ret->hint), "'muster vc' lists them");
        return refuse(ret, -ERANGE, "NoSuchVc");
    }
    if (settings_closed(&ctl->settings, vc_name(ctl, s))) {
        (void)error_set(&ret->text, -ERANGE, "virtual cluster '%s' is closed", vc_name(ctl, s));
        (void)snprintf(ret->hint, sizeof(ret->hint), "'muster vc' lists those that take jobs");
        return refuse(ret, -ERANGE, "NoSuchVc");
    }
    r = submission_bind(s, &ctl->cluster, wants, &why, &ret->text);
    if (r < 0) {
        (void)snprintf(ret->hint, sizeof(ret->hint), "%s", why.hint);
        return refuse(ret, r, why.code[0] ? why.code : "InvalidSpec");
    }
    wants->vc = *ret_vc;
    r = where_check(ctl, s, wants, ret);
    return r < 0 ? r : guarantee_check(ctl, *ret_vc, wants, ret);
}

/* What one user may have in the queue, and whether the job could ever start. */
static int check_user(const struct ctl *ctl, const char *user, const struct submission *s, const struct jobspec *wants,
                      struct entry_result *ret)
{
    int64_t jobs = limits_jobs(&ctl->registry, user), gpus = limits_gpus(&ctl->registry, user);
    uint32_t who = names_find(&ctl->registry.users, user, strlen(user));
    int64_t count = (int64_t)(s->array_count ? s->array_count : 1);

    if (secret_missing(ctl, user, s)) {
        (void)error_set(&ret->text, -EINVAL, "secrets: you have none named %s", secret_missing(ctl, user, s));
        (void)snprintf(ret->hint, sizeof(ret->hint), "muster secret set %.60s", secret_missing(ctl, user, s));
        return refuse(ret, -EINVAL, "InvalidSpec");
    }
    if (jobs < 0 && gpus < 0)
        return 0;
    if (gpus >= 0 && (int64_t)jobspec_gpus(wants) * wants->share > gpus * MGPU_ONE) {
        (void)error_set(&ret->text, -ERANGE, "%d GPUs are more than user %s may have: %lld", jobspec_gpus(wants), user,
                        (long long)gpus);
        return refuse(ret, -ERANGE, "UserLimit");
    }
    if (who < ctl->registry.user_capacity)
        count += ctl->registry.user[who].live;
    if (jobs >= 0 && count > jobs) {
        (void)error_set(&ret->text, -ERANGE, "user %s may have %lld jobs that wait or run; these would be %lld", user,
                        (long long)jobs, (long long)count);
        return refuse(ret, -ERANGE, "UserLimit");
    }
    return 0;
}

static size_t jobs_live(const struct ctl *ctl)
{
    return ctl->registry.live_count - ctl->registry.live_gaps;
}

/* The spec of an entry: the one that a check has read, or read now. Give it back with ctl_spec_drop(). */
static struct ctl_spec *spec_of(const struct entry *entry, struct entry_result *ret)
{
    if (!entry->spec)
        return ctl_spec_new(entry->submit.spec, &ret->text);
    entry->spec->refs++;
    return entry->spec;
}

/* All that can be wrong with a submission. ret_spec: what it says; NULL when its key has made a job already. */
static int check_all(const struct ctl *ctl, const struct entry *entry, struct ctl_spec **ret_spec,
                     struct jobspec *wants, struct entry_result *ret)
{
    const char *user = entry->submit.user, *key = entry->submit.key;
    struct ctl_spec *spec;
    uint32_t vc;
    int r;

    *ret_spec = NULL;
    if (!user || !*user || strlen(user) > 64 || (key && strlen(key) >= sizeof(ctl->registry.keys->key))) {
        (void)error_set(&ret->text, -EINVAL, "submit: expected a user, and a key of at most %zu characters",
                        sizeof(ctl->registry.keys->key) - 1);
        return refuse(ret, -EINVAL, "InvalidSpec");
    }
    if (key && key_find(&ctl->registry, user, key))
        return 0;
    spec = spec_of(entry, ret);
    if (!spec)
        return refuse(ret, -EINVAL, "InvalidSpec");
    r = bind_spec(ctl, &spec->s, wants, &vc, ret);
    if (r == 0)
        r = resv_submit(ctl, user, vc_name(ctl, &spec->s), &spec->s, wants, ret);
    if (r == 0)
        r = check_user(ctl, user, &spec->s, wants, ret);
    if (r == 0)
        r = check_after(ctl, &spec->s, ret);
    if (r == 0 && jobs_live(ctl) + (spec->s.array_count ? spec->s.array_count : 1) > ctl->registry.live_capacity) {
        (void)error_set(&ret->text, -ENOSPC, "%zu jobs wait or run already; the limit is %zu", jobs_live(ctl),
                        ctl->registry.live_capacity);
        r = refuse(ret, -ENOSPC, "QueueLimit");
    }
    if (r == 0)
        *ret_spec = spec;
    else
        ctl_spec_drop(spec);
    return r;
}

void submit_words(char *text, char *code, size_t size)
{
    char *open = strrchr(text, '['), *at = text;
    int skip = 0;

    if (open && open > text && open[strlen(open) - 1] == ']') {
        (void)snprintf(code, size, "%.*s", (int)(strlen(open) - 2), open + 1);
        open[-1] = '\0';
    }
    if (sscanf(text, "job %*[0-9]%n", &skip) >= 0 && skip > 0) {
        at += skip;
        at += *at == ':' ? 2 : 0;
        if (*at == ' ') { /* "job 7 asks for": it has no number yet */
            memmove(text + 2, at, strlen(at) + 1);
            memcpy(text, "it", 2);
        } else {
            memmove(text, at, strlen(at) + 1);
        }
    }
}

/* What the core would refuse, told to whoever submits it and not to who asks later what became of it. Only before it is
 * written down: what is written has been accepted. */
static int check_core(const struct ctl *ctl, struct jobspec *wants, struct entry_result *ret)
{
    int r = 0;

    if (ctl->config.virtual_time)
        return 0; /* jobs as a trace describes them */
    if (wants->deadline_count && wants->deadlines[wants->deadline_count - 1].at <= ctl->now) {
        (void)error_set(&ret->text, -ERANGE, "its deadline is past");
        return refuse(ret, -ERANGE, "DeadlineImpossible");
    }
    wants->user = 0; /* like any */
    if (wants->gpus)
        r = core_feasible(ctl->core, wants, wants->vc, &ret->text);
    if (r != -ERANGE)
        return 0;
    ret->of_core = true;
    submit_words(ret->text.text, ret->reason, sizeof(ret->reason));
    (void)snprintf(ret->hint, sizeof(ret->hint), "muster plan with the same words shows what could start");
    return ret->code = r;
}

int submit_check(const struct ctl *ctl, struct entry *entry, struct entry_result *ret)
{
    struct jobspec wants = { 0 };
    struct ctl_spec *spec;
    int r = check_all(ctl, entry, &spec, &wants, ret);

    if (r == 0 && spec)
        r = check_core(ctl, &wants, ret);
    if (r < 0 && spec) {
        ctl_spec_drop(spec);
        spec = NULL;
    }
    ctl_spec_drop(entry->spec);
    entry->spec = spec;
    return r;
}

/* What an estimator expected when the job came. It is part of the entry, so that all replays see the same. What the
 * user said stands; an elastic job begins with as many GPUs as pay. */
static void predicted_take(const struct entry_submit *from, const struct submission *s, struct ctl_predicted *ret,
                           struct jobspec *wants)
{
    *ret = (struct ctl_predicted){ .run = from->run,
                                   .memory_mib = (uint32_t)from->memory_mib,
                                   .util = (uint16_t)from->util,
                                   .util_dev = (uint16_t)from->util_dev,
                                   .gpus_pay = from->gpus_pay < GANG_GPUS_MAX ? (int32_t)from->gpus_pay : 0 };
    if (!s->time && ret->run)
        wants->estimate = ret->run;
    if (!wants->memory_mib)
        wants->memory_mib = ret->memory_mib;
    if (!wants->utilisation)
        wants->utilisation = (uint16_t)((ret->util + 50) / 100);
    if (ret->gpus_pay && wants->gpus_max > wants->gpus_min && !wants->per_node)
        wants->gpus = ret->gpus_pay < wants->gpus_min   ? wants->gpus_min
                      : ret->gpus_pay > wants->gpus_max ? wants->gpus_max
                                                        : ret->gpus_pay;
}

static struct ctl_job *job_new(struct ctl *ctl, const struct entry_submit *from, struct ctl_spec *spec,
                               const struct jobspec *wants)
{
    struct ctl_job *job = mem_zalloc(1, sizeof(*job));

    if (!job)
        return NULL;
    job->id = ctl->registry.next_id;
    job->wants = *wants;
    job->vc = wants->vc;
    job->uid = (uint32_t)from->uid;
    job->gid = (uint32_t)from->gid;
    job->submit = ctl->now;
    job->held = spec->s.hold;
    job->source = spec;
    job->spec = &spec->s;
    job->phase = PHASE_JOB_PENDING;
    job->reason = REASON_SCHEDULING;
    job->reason_since = ctl->now;
    job->version = 1;
    if (names_put(&ctl->registry.users, from->user, strlen(from->user), &job->user) < 0 || registry_add(ctl, job) < 0) {
        mem_free(job);
        return NULL;
    }
    spec->refs++;
    job->wants.id = job->id;
    job->wants.submit = ctl->now;
    job->wants.user = job->user;
    ctl->registry.next_id++;
    ctl->registry.submitted++;
    return job;
}

/* Dependencies that are over already. */
static void look_back(struct ctl *ctl, struct ctl_job *job)
{
    for (size_t i = 0; i < job->spec->after_count; i++) {
        const struct after *after = &job->spec->after[i];
        enum phase_of_job phase = registry_outcome(&ctl->registry, after->job);
        bool well = phase == PHASE_JOB_COMPLETED;

        if (registry_get(&ctl->registry, after->job) || registry_array_live(&ctl->registry, after->job) ||
            phase == PHASE_JOB_COUNT)
            continue;
        if (after->kind == AFTER_ANY || (after->kind == AFTER_OK) == well)
            job->after_met |= 1ULL << i;
        else
            job->after_failed |= 1ULL << i;
    }
}

/* Nodes that the job chooses, as a mark; a new one is known to the core before the job comes. */
static int choose(struct ctl *ctl, const struct ctl_spec *spec, struct jobspec *wants, struct entry_result *ret)
{
    int mark = where_mark(ctl, &spec->s, &ret->text);

    if (mark < 0)
        return refuse(ret, mark, "TooMuch");
    wants->mark = (uint8_t)mark;
    if (ctl->cluster_dirty)
        (void)cluster_rebuild(ctl, NULL);
    return 0;
}

void submit_apply(struct ctl *ctl, const struct entry *entry, struct entry_result *ret)
{
    const char *user = entry->submit.user, *key = entry->submit.key;
    struct ctl_spec *spec;
    struct jobspec wants = { 0 };
    struct ctl_predicted predicted;
    uint64_t met = 0, failed = 0;
    size_t count;

    if (check_all(ctl, entry, &spec, &wants, ret) < 0)
        return;
    if (!spec) {
        ret->id = key_find(&ctl->registry, user, key);
        return;
    }
    if (choose(ctl, spec, &wants, ret) < 0) {
        ctl_spec_drop(spec);
        return;
    }
    if (ctl->config.virtual_time && entry->submit.wants)
        wants_from_doc(entry->submit.wants, &wants); /* emulation: a job as a trace describes it */
    predicted_take(&entry->submit, &spec->s, &predicted, &wants);
    count = spec->s.array_count ? spec->s.array_count : 1;
    if (spec->s.array_count)
        ret->id = ctl->registry.next_id++; /* its own, so that the first element can be spoken of alone */
    for (size_t i = 0; i < count; i++) {
        struct ctl_job *job = job_new(ctl, &entry->submit, spec, &wants);

        if (!job) {
            ret->code = error_set(&ret->text, -ENOSPC, "no room for job %zu of %zu", i + 1, count);
            break;
        }
        if (!ret->id)
            ret->id = job->id;
        if (spec->s.array_count) {
            job->array_id = ret->id;
            job->array_index = spec->s.array[i];
        }
        job->predicted = predicted;
        if (i == 0)
            look_back(ctl, job);
        job->after_met = i == 0 ? job->after_met : met; /* the same for all elements */
        job->after_failed = i == 0 ? job->after_failed : failed;
        met = job->after_met;
        failed = job->after_failed;
        gate_wait(ctl, job);
        ctl_event(ctl, "job.submitted", job, NULL, FACTS(fact_text("user", user)));
        gate_look(ctl, job);
    }
    if (key && ret->id)
        key_put(&ctl->registry, names_find(&ctl->registry.users, user, strlen(user)), key, ret->id);
    ctl_spec_drop(spec);
}
