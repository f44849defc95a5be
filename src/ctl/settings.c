/* SPDX-License-Identifier: Apache-2.0 */
/* settings.c - virtual clusters made, changed and closed while all goes on; what one user may have; and what a change
 * of settings would do to jobs, asked of a core that is carried over and thrown away.
 *
 * A change is merged when it is applied, not when it was asked for, so that two at once both count. A virtual cluster
 * that is closed keeps its number, because jobs of the past speak of it by that: it is owed nothing, takes no job and
 * is not shown.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "ctl/part.h"

static int refuse(struct entry_result *ret, int code, const char *reason)
{
    (void)snprintf(ret->reason, sizeof(ret->reason), "%s", reason);
    return ret->code = code;
}

static bool name_good(const char *name)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";

    return name && *name && strlen(name) <= 60 && name[strspn(name, letters)] == '\0';
}

bool settings_closed(const json_t *settings, const char *vc)
{
    return json_is_true(json_object_get(json_object_get(json_object_get(settings, "vcs"), vc), "closed"));
}

void settings_arrange(const json_t *was, json_t *settings, bool stay)
{
    json_t *had = json_object_get(was, "vcs"), *want = json_object_get(settings, "vcs"), *out, *value;
    const char *name;

    if (!json_is_object(had) || (want && !json_is_object(want)))
        return;
    if (!want && json_object_size(had) > (json_object_get(had, "default") != NULL)) {
        /* Nothing is said of virtual clusters, and there are others than the one that everybody has: they stay. */
        (void)json_object_set_new(settings, "vcs", json_deep_copy(had));
        return;
    }
    if (!want)
        return;
    out = json_object();
    json_object_foreach(had, name, value)
    {
        json_t *own = json_object_get(want, name);

        if (own || stay || settings_closed(was, name))
            (void)json_object_set(out, name, own ? own : value);
    }
    json_object_foreach(want, name, value)
    {
        if (!json_object_get(out, name))
            (void)json_object_set(out, name, value);
    }
    (void)json_object_set_new(settings, "vcs", out);
}

/* The only virtual cluster there is becomes one of several: it is owed what it was, less what the new one gets. */
static int default_keep(const struct ctl *ctl, json_t *vcs, const json_t *set, struct entry_result *ret)
{
    const json_t *quota = json_object_get(set, "quota");
    json_t *left = json_object();

    if (!json_is_object(quota)) {
        json_decref(left);
        (void)error_set(&ret->text, -EINVAL,
                        "the first one beside 'default' is given part of what that has: say how much, by type");
        (void)snprintf(ret->hint, sizeof(ret->hint), "muster vc create NAME quota.SKU=N");
        return refuse(ret, -EINVAL, "InvalidSpec");
    }
    for (uint32_t s = 0; ctl->core && s < ctl->cluster.sku_count; s++) {
        const char *sku = names_get(&ctl->cluster.names, ctl->cluster.skus[s].name);
        int64_t all = ctl_ledger(ctl)->topo.sku_gpus[s], given = json_integer_value(json_object_get(quota, sku));

        (void)json_object_set_new(left, sku, json_integer(all > given ? all - given : 0));
    }
    (void)json_object_set_new(vcs, "default", json_pack("{s:o}", "quota", left));
    return 0;
}

/* Keys of `set` over what there is; null takes a key away. Mappings one level deep are merged as well. */
static void merge(json_t *to, const json_t *set)
{
    json_t *value;
    const char *key;

    json_object_foreach((json_t *)(uintptr_t)set, key, value)
    {
        json_t *had = json_object_get(to, key);

        if (json_is_null(value))
            (void)json_object_del(to, key);
        else if (json_is_object(value) && json_is_object(had))
            merge(had, value);
        else
            (void)json_object_set_new(to, key, json_deep_copy(value));
    }
}

/* It is owed a number or a shape: who names one means it in place of the other. */
static void replace_owed(json_t *vc, const json_t *set)
{
    const json_t *quota = json_object_get(set, "quota"), *guarantee = json_object_get(set, "guarantee");

    if (guarantee && !json_is_null(guarantee) && !quota)
        (void)json_object_del(vc, "quota");
    if (quota && !json_is_null(quota) && !guarantee)
        (void)json_object_del(vc, "guarantee");
}

/* The settings with the change in them; NULL after a refusal. */
static json_t *settings_with(const struct ctl *ctl, const json_t *body, struct entry_result *ret)
{
    const char *name = json_string_value(json_object_get(body, "name"));
    const json_t *set = json_object_get(body, "set");
    bool create = json_is_true(json_object_get(body, "create")), closed = settings_closed(ctl->settings, name);
    json_t *settings = json_deep_copy(ctl->settings), *vcs = json_object_get(settings, "vcs"), *vc;

    if (!json_is_object(vcs)) {
        vcs = json_object();
        (void)json_object_set_new(settings, "vcs", vcs);
    }
    if (json_object_size(vcs) == 0 && strcmp(name, "default") == 0 && !create) {
        if (!json_object_get(set, "quota") && !json_object_get(set, "guarantee")) {
            (void)error_set(&ret->text, -EINVAL,
                            "'default' is the only one and has all there is: say what it is owed, by type");
            (void)snprintf(ret->hint, sizeof(ret->hint),
                           "muster vc set default quota.SKU=N ...; muster sched policy POLICY changes the policy");
            (void)refuse(ret, -EINVAL, "InvalidSpec");
            json_decref(settings);
            return NULL;
        }
        (void)json_object_set_new(vcs, name, json_object());
    }
    vc = json_object_get(vcs, name);
    if (create ? vc && !closed : !vc || closed) {
        (void)error_set(&ret->text, create ? -EEXIST : -ENOENT,
                        create ? "there is a virtual cluster '%s' already" : "no virtual cluster '%s'", name);
        (void)refuse(ret, create ? -EEXIST : -ENOENT, create ? "Conflict" : "NoSuchVc");
    } else if (create && json_object_size(vcs) == 0 && default_keep(ctl, vcs, set, ret) < 0) {
        vc = NULL; /* refused */
    } else if (json_is_true(json_object_get(body, "close"))) {
        (void)json_object_set_new(vcs, name, json_pack("{s:{}, s:s, s:b}", "quota", "borrow", "none", "closed", 1));
    } else {
        if (create)
            (void)json_object_set_new(vcs, name, json_object());
        vc = json_object_get(vcs, name);
        replace_owed(vc, set);
        merge(vc, set);
        if (!json_object_get(vc, "quota") && !json_object_get(vc, "guarantee") && strcmp(name, "default") != 0)
            (void)json_object_set_new(vc, "quota", json_object());
    }
    if (ret->code < 0) {
        json_decref(settings);
        return NULL;
    }
    return settings;
}

static int close_check(const struct ctl *ctl, const char *name, struct entry_result *ret)
{
    uint32_t vc = cluster_vc(ctl, name);
    size_t jobs = 0;

    for (size_t i = 0; i < ctl->book.live_count; i++)
        jobs += ctl->book.live[i]->vc == vc;
    if (jobs == 0 && (ctl->cluster.vc_count > 1 || !ctl->core))
        return 0;
    if (jobs)
        (void)error_set(&ret->text, -EBUSY, "%zu job%s of virtual cluster '%s' %s not over", jobs, jobs == 1 ? "" : "s",
                        name, jobs == 1 ? "is" : "are");
    else
        (void)error_set(&ret->text, -EBUSY, "'%s' is the only virtual cluster", name);
    (void)snprintf(ret->hint, sizeof(ret->hint), "muster cancel --vc %.60s, or muster set JOB vc=OTHER", name);
    return refuse(ret, -EBUSY, "Conflict");
}

int vc_check(const struct ctl *ctl, const json_t *body, struct entry_result *ret)
{
    const char *name = json_string_value(json_object_get(body, "name"));
    json_t *settings;

    if (!name_good(name)) {
        (void)error_set(&ret->text, -EINVAL, "name: letters, digits, '-', '.' and '_', at most 60");
        return refuse(ret, -EINVAL, "InvalidSpec");
    }
    settings = settings_with(ctl, body, ret);
    if (!settings)
        return ret->code;
    if (json_is_true(json_object_get(body, "close")))
        (void)close_check(ctl, name, ret);
    if (ret->code == 0)
        ret->code = cluster_try(ctl, settings, &ret->text);
    json_decref(settings);
    return ret->code;
}

void vc_apply(struct ctl *ctl, const json_t *body, struct entry_result *ret)
{
    json_t *settings;

    if (vc_check(ctl, body, ret) < 0)
        return;
    settings = settings_with(ctl, body, ret);
    if (!settings)
        return;
    json_decref(ctl->settings);
    ctl->settings = settings;
    ctl->cluster_dirty = true;
    ctl_event(ctl, "config.changed", NULL, NULL,
              json_pack("{s:s, s:s?}", "vc", json_string_value(json_object_get(body, "name")), "by",
                        json_string_value(json_object_get(body, "by"))));
}

json_t *ctl_settings_with(const struct ctl *ctl, const json_t *body, struct entry_result *ret)
{
    *ret = (struct entry_result){ 0 };
    return vc_check(ctl, body, ret) < 0 ? NULL : settings_with(ctl, body, ret);
}

/* What one user may have, all virtual clusters together. */

int64_t limits_get(const struct book *book, const char *user, const char *key)
{
    const json_t *one = json_object_get(book->limits, user);
    const json_t *value = json_object_get(one ? one : json_object_get(book->limits, "*"), key);

    return json_is_integer(value) ? json_integer_value(value) : -1;
}

int limits_check(const json_t *body, struct entry_result *ret)
{
    static const char *const keys[] = { "max_gpus", "max_jobs" };
    const char *user = json_string_value(json_object_get(body, "user"));

    if (!user || !*user || strlen(user) > 63) {
        (void)error_set(&ret->text, -EINVAL, "user: expected a name, or * for all that have no limits of their own");
        return refuse(ret, -EINVAL, "InvalidSpec");
    }
    for (size_t i = 0; i < 2; i++) {
        const json_t *value = json_object_get(body, keys[i]);

        if (value && !json_is_null(value) && (!json_is_integer(value) || json_integer_value(value) < 0)) {
            (void)error_set(&ret->text, -EINVAL, "%s: expected a number from 0, or null for no limit", keys[i]);
            return refuse(ret, -EINVAL, "InvalidSpec");
        }
    }
    return 0;
}

void limits_apply(struct ctl *ctl, const json_t *body, struct entry_result *ret)
{
    static const char *const keys[] = { "max_gpus", "max_jobs" };
    const char *user = json_string_value(json_object_get(body, "user"));
    json_t *one;

    if (limits_check(body, ret) < 0)
        return;
    one = json_object_get(ctl->book.limits, user);
    if (!one) {
        one = json_object();
        (void)json_object_set_new(ctl->book.limits, user, one);
    }
    for (size_t i = 0; i < 2; i++) {
        const json_t *value = json_object_get(body, keys[i]);

        if (json_is_null(value))
            (void)json_object_del(one, keys[i]);
        else if (value)
            (void)json_object_set_new(one, keys[i], json_integer(json_integer_value(value)));
    }
    if (json_object_size(one) == 0)
        (void)json_object_del(ctl->book.limits, user);
    for (int64_t from = 0;;) { /* by id: letting one in may end it, which moves the list */
        struct book_job *job = book_after(&ctl->book, from);

        if (!job)
            break;
        from = job->id;
        if (!job->in_core && job->gate == GATE_USER)
            gate_look(ctl, job);
    }
    ctl_event(ctl, "limits.changed", NULL, NULL, json_pack("{s:s}", "user", user));
}

/* GPUs, in thousandths, of the user's jobs that are in the core: they wait there or run. */
int64_t limits_held(const struct ctl *ctl, uint32_t user)
{
    int64_t sum = 0;

    for (size_t i = 0; i < ctl->book.live_count; i++)
        if (ctl->book.live[i]->user == user && ctl->book.live[i]->in_core)
            sum += (int64_t)jobspec_gpus(&ctl->book.live[i]->wants) * ctl->book.live[i]->wants.share;
    return sum;
}

/* Previews. */

static json_t *touched(const struct ctl *ctl, const struct decision *d)
{
    const struct book_job *job = book_find(&ctl->book, d->id);

    if (!job)
        return NULL;
    return json_pack("{s:I, s:s, s:s, s:I, s:s}", "job", (json_int_t)d->id, "user",
                     names_get(&ctl->book.users, job->user), "vc",
                     names_get(&ctl->cluster.names, ctl->cluster.vcs[job->vc].name), "gpus",
                     (json_int_t)jobspec_gpus(&job->wants), "how", decision_name(d->kind));
}

int ctl_preview(const struct ctl *ctl, json_t *settings, json_t **ret_preempts, json_t **ret_starts, struct error *err)
{
    const struct outbox *out;
    struct core *core = NULL;
    struct cluster_spec cluster = { 0 };
    struct policy_setup *policies = NULL;
    int r = cluster_try(ctl, settings, err);

    *ret_preempts = json_array();
    *ret_starts = json_array();
    if (r < 0 || !ctl->core)
        return r;
    r = cluster_carry(ctl, settings, &cluster, &policies, &core, err);
    if (r == 0) {
        out = core_step(core, ctl->now);
        for (size_t i = 0; i < out->decision_count; i++) {
            const struct decision *d = &out->decisions[i];

            if (d->kind == DECISION_STOP || d->kind == DECISION_KILL || d->kind == DECISION_SUSPEND ||
                d->kind == DECISION_MIGRATE)
                (void)json_array_append_new(*ret_preempts, touched(ctl, d));
            else if (d->kind == DECISION_START)
                (void)json_array_append_new(*ret_starts, touched(ctl, d));
        }
    }
    core_free(core);
    mem_free(policies);
    cluster_spec_done(&cluster);
    return r;
}
