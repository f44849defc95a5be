/* SPDX-License-Identifier: Apache-2.0 */
/* vc_settings.c - virtual clusters made, changed and closed while all goes on; what one user may have; and what a
 * change of settings would do to jobs, asked of a core that is carried over and thrown away.
 *
 * A change is merged when it is applied, not when it was asked for, so that two at once both count. A virtual cluster
 * that is closed keeps its number, because jobs of the past speak of it by that: it is owed nothing, takes no job and
 * is not shown.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "ctl/state/state_internal.h"

static int refuse(struct entry_result *ret, int code, const char *reason)
{
    (void)snprintf(ret->reason, sizeof(ret->reason), "%s", reason);
    return ret->code = code;
}

static int no_memory(struct entry_result *ret)
{
    return ret->code = error_set(&ret->text, -ENOMEM, "no memory for settings");
}

static bool name_good(const char *name)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";

    return name && *name && strlen(name) <= 60 && name[strspn(name, letters)] == '\0';
}

bool settings_closed(const struct setting_value *settings, const char *vc)
{
    const struct setting_value *closed = setting_find(setting_find(setting_find(settings, "vcs"), vc), "closed");

    return closed && closed->kind == SETTING_TRUE;
}

/* The only virtual cluster there is becomes one of several: it is owed what it was, less what the new one gets. */
static int default_keep(const struct ctl *ctl, struct setting_value *vcs, const struct setting_value *set,
                        struct entry_result *ret)
{
    const struct setting_value *quota = setting_find(set, "quota");
    struct setting_value *own, *left;
    int r = 0;

    if (!setting_is_map(quota)) {
        (void)error_set(&ret->text, -EINVAL,
                        "the first one beside 'default' is given part of what that has: say how much, by type");
        (void)snprintf(ret->hint, sizeof(ret->hint), "muster vc create NAME quota.SKU=N");
        return refuse(ret, -EINVAL, "InvalidSpec");
    }
    own = setting_put(vcs, "default");
    left = own ? setting_put(own, "quota") : NULL;
    for (uint32_t s = 0; left && r == 0 && ctl->core && s < ctl->cluster.sku_count; s++) {
        const char *sku = names_get(&ctl->cluster.names, ctl->cluster.skus[s].name);
        const struct setting_value *part = setting_find(quota, sku);
        int64_t all = ctl_ledger(ctl)->topo.sku_gpus[s], given = part ? part->number : 0;

        r = setting_put_number(left, sku, all > given ? all - given : 0);
    }
    return left && r == 0 ? 0 : no_memory(ret);
}

/* Keys of `set` over what there is; null takes a key away. Mappings are merged as well. */
static int merge(struct setting_value *to, const struct setting_value *set)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < setting_count(set); i++) {
        const struct setting_value *value = &set->members[i];
        struct setting_value *had = setting_find(to, value->name);

        if (value->kind == SETTING_NULL)
            setting_remove(to, value->name);
        else if (setting_is_map(value) && setting_is_map(had))
            r = merge(had, value);
        else
            r = setting_put_copy(to, value->name, value);
    }
    return r;
}

static bool value_given(const struct setting_value *set, const char *name)
{
    const struct setting_value *value = setting_find(set, name);

    return value && value->kind != SETTING_NULL;
}

/* It is owed a number or a shape: who names one means it in place of the other. */
static void replace_owed(struct setting_value *vc, const struct setting_value *set)
{
    if (value_given(set, "guarantee") && !setting_find(set, "quota"))
        setting_remove(vc, "quota");
    if (value_given(set, "quota") && !setting_find(set, "guarantee"))
        setting_remove(vc, "guarantee");
}

/* It is owed nothing, takes no job and is not shown. */
static int close_one(struct setting_value *vcs, const char *name)
{
    struct setting_value *vc = setting_put(vcs, name), *closed;
    int r = vc && setting_put(vc, "quota") ? setting_put_text(vc, "borrow", "none") : -ENOMEM;

    closed = r == 0 ? setting_put(vc, "closed") : NULL;
    if (!closed)
        return -ENOMEM;
    closed->kind = SETTING_TRUE;
    return 0;
}

/* One that is there, or is new, with what is set of it. */
static int change_one(struct setting_value *vcs, const struct entry_vc *change, const struct setting_value *set)
{
    struct setting_value *vc = change->create ? setting_put(vcs, change->name) : setting_find(vcs, change->name);
    int r;

    if (!vc)
        return -ENOMEM;
    replace_owed(vc, set);
    r = merge(vc, set);
    if (r == 0 && !setting_find(vc, "quota") && !setting_find(vc, "guarantee") && strcmp(change->name, "default") != 0)
        r = setting_put(vc, "quota") ? 0 : -ENOMEM;
    return r;
}

/* The virtual clusters with the change in them. */
static int vcs_change(const struct ctl *ctl, struct setting_value *vcs, const struct entry_vc *change,
                      const struct setting_value *set, struct entry_result *ret)
{
    const char *name = change->name;
    bool create = change->create, closed = settings_closed(&ctl->settings, name), there;
    int r;

    if (vcs->count == 0 && strcmp(name, "default") == 0 && !create) {
        if (!setting_find(set, "quota") && !setting_find(set, "guarantee")) {
            (void)error_set(&ret->text, -EINVAL,
                            "'default' is the only one and has all there is: say what it is owed, by type");
            (void)snprintf(ret->hint, sizeof(ret->hint),
                           "muster vc set default quota.SKU=N ...; muster sched policy POLICY changes the policy");
            return refuse(ret, -EINVAL, "InvalidSpec");
        }
        if (!setting_put(vcs, name))
            return no_memory(ret);
    }
    there = setting_find(vcs, name) != NULL && !closed;
    if (create == there) {
        (void)error_set(&ret->text, create ? -EEXIST : -ENOENT,
                        create ? "there is a virtual cluster '%s' already" : "no virtual cluster '%s'", name);
        return refuse(ret, create ? -EEXIST : -ENOENT, create ? "Conflict" : "NoSuchVc");
    }
    if (create && vcs->count == 0 && default_keep(ctl, vcs, set, ret) < 0)
        return ret->code;
    r = change->close ? close_one(vcs, name) : change_one(vcs, change, set);
    return r == 0 ? 0 : no_memory(ret);
}

/* The settings with the change in them. On failure nothing is to be freed. */
static int settings_with(const struct ctl *ctl, const struct entry_vc *change, struct setting_value *ret_settings,
                         struct entry_result *ret)
{
    struct setting_value set, *vcs;
    int r = 0;

    setting_init(&set); /* to close one, nothing is set */
    if (change->set)
        r = setting_read(change->set, &set, &ret->text);
    if (r < 0)
        return ret->code = r;
    if (setting_copy(&ctl->settings, ret_settings) < 0) {
        setting_done(&set);
        return no_memory(ret);
    }
    vcs = setting_find(ret_settings, "vcs");
    if (!setting_is_map(vcs))
        vcs = setting_put(ret_settings, "vcs");
    r = vcs ? vcs_change(ctl, vcs, change, &set, ret) : no_memory(ret);
    setting_done(&set);
    if (r < 0)
        setting_done(ret_settings);
    return r;
}

static int close_check(const struct ctl *ctl, const char *name, struct entry_result *ret)
{
    uint32_t vc = cluster_vc(ctl, name);
    size_t jobs = 0;

    for (size_t i = 0; i < ctl->registry.live_count; i++)
        jobs += ctl->registry.live[i] && ctl->registry.live[i]->vc == vc; /* no gap */
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

int vc_check(const struct ctl *ctl, struct entry *entry, struct entry_result *ret)
{
    const struct entry_vc *change = &entry->vc;
    struct setting_value settings;

    if (!name_good(change->name)) {
        (void)error_set(&ret->text, -EINVAL, "name: letters, digits, '-', '.' and '_', at most 60");
        return refuse(ret, -EINVAL, "InvalidSpec");
    }
    if (settings_with(ctl, change, &settings, ret) < 0)
        return ret->code;
    if (change->close)
        (void)close_check(ctl, change->name, ret);
    if (ret->code == 0)
        ret->code = cluster_try(ctl, &settings, &ret->text);
    setting_done(&settings);
    return ret->code;
}

void vc_apply(struct ctl *ctl, const struct entry *entry, struct entry_result *ret)
{
    struct setting_value settings;

    if (settings_with(ctl, &entry->vc, &settings, ret) < 0)
        return;
    setting_done(&ctl->settings);
    ctl->settings = settings;
    ctl->cluster_dirty = true;
    ctl_event(ctl, "config.changed", NULL, NULL, FACTS(fact_text("by", entry->vc.by), fact_text("vc", entry->vc.name)));
}

int ctl_settings_with(const struct ctl *ctl, struct entry *vc, struct setting_value *ret_settings,
                      struct entry_result *ret)
{
    return ctl_check(ctl, vc, ret) < 0 ? ret->code : settings_with(ctl, &vc->vc, ret_settings, ret);
}

/* What one user may have, all virtual clusters together. */

const struct entry_limits *limits_find(const struct registry *registry, const char *user, bool own)
{
    const struct entry_limits *all = NULL;

    for (each_record(const struct entry_limits, one, &registry->kept.limits)) {
        if (strcmp(one->user, user) == 0)
            return one;
        if (strcmp(one->user, "*") == 0)
            all = one;
    }
    return own ? NULL : all;
}

static int64_t limit_value(const struct opt_number *value)
{
    return value->given == GIVEN_VALUE ? value->value : -1;
}

int64_t limits_gpus(const struct registry *registry, const char *user)
{
    const struct entry_limits *limits = limits_find(registry, user, false);

    return limits ? limit_value(&limits->max_gpus) : -1;
}

int64_t limits_jobs(const struct registry *registry, const char *user)
{
    const struct entry_limits *limits = limits_find(registry, user, false);

    return limits ? limit_value(&limits->max_jobs) : -1;
}

/* null takes a limit away; what is absent stays. */
static void limit_set(struct opt_number *limit, const struct opt_number *value)
{
    if (value->given != GIVEN_NOT)
        *limit = value->given == GIVEN_VALUE ? *value : (struct opt_number){ 0 };
}

/* False: no memory. */
static bool limits_set(struct record_list *list, const struct entry_limits *set)
{
    struct entry_limits *one = NULL;
    size_t i = 0;

    while (i < list->count && strcmp(((struct entry_limits *)record_at(list, i))->user, set->user) != 0)
        i++;
    one = i < list->count ? record_at(list, i) : record_add(list);
    if (one && !one->user)
        one->user = entry_text(set->user);
    if (!one)
        return false;
    limit_set(&one->max_gpus, &set->max_gpus);
    limit_set(&one->max_jobs, &set->max_jobs);
    if (!one->user || (one->max_gpus.given == GIVEN_NOT && one->max_jobs.given == GIVEN_NOT))
        record_remove(list, i);
    return true;
}

void limits_apply(struct ctl *ctl, const struct entry *entry, struct entry_result *ret)
{
    const char *user = entry->limits.user;

    if (!limits_set(&ctl->registry.kept.limits, &entry->limits)) {
        ret->code = error_set(&ret->text, -ENOMEM, "no memory for limits");
        return;
    }
    for (int64_t from = 0;;) { /* by id: letting one in may end it, which moves the list */
        struct ctl_job *job = registry_after(&ctl->registry, from);

        if (!job)
            break;
        from = job->id;
        if (!job_in_core(job) && job->gate == GATE_USER)
            gate_look(ctl, job);
    }
    ctl_event(ctl, "limits.changed", NULL, NULL, FACTS(fact_text("user", user)));
}

/* Previews. */

int ctl_preview(const struct ctl *ctl, const struct setting_value *settings, preview_fn *told, void *arg,
                struct error *err)
{
    const struct outbox *out;
    struct core *core = NULL;
    struct cluster_spec cluster = { 0 };
    struct policy_setup *policies = NULL;
    int r = cluster_try(ctl, settings, err);

    if (r < 0 || !ctl->core)
        return r;
    r = cluster_carry(ctl, settings, &cluster, &policies, &core, err);
    if (r == 0) {
        out = core_step(core, ctl->now);
        for (size_t i = 0; i < out->decision_count; i++) {
            const struct ctl_job *job = registry_find(&ctl->registry, out->decisions[i].id);

            if (job)
                told(arg, job, out->decisions[i].kind);
        }
    }
    core_free(core);
    mem_free(policies);
    cluster_spec_done(&cluster);
    return r;
}
