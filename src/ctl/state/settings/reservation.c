/* SPDX-License-Identifier: Apache-2.0 */
/* reservation.c - reservations: nodes that only some people's jobs may use, for a time.
 *
 * To the core a reserved node is kept for a number, and a job of the reservation says that number. When the time comes,
 * whoever else is on the nodes is told to leave, with grace; when it is over, the nodes are everybody's again, jobs of
 * the reservation that run go on, and those that wait end. With `lead` nodes take no other job for so long before.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "ctl/state/state_internal.h"
#include "wire/cluster/cluster_cells.h"
#include "wire/text/hostlist.h"

static int refuse(struct entry_result *ret, int code, const char *reason)
{
    (void)snprintf(ret->reason, sizeof(ret->reason), "%s", reason);
    return ret->code = code;
}

const struct ctl_resv *resv_find(const struct registry *registry, const char *name)
{
    for (each_record(const struct ctl_resv, resv, &registry->kept.resvs))
        if (strcmp(resv->name, name) == 0)
            return resv;
    return NULL;
}

bool resv_active(const struct ctl_resv *resv, usec_t now)
{
    return resv->start <= now && now < resv->end;
}

static int name_match(void *arg, const char *name)
{
    const char **wanted = arg;

    if (*wanted && strcmp(*wanted, name) == 0)
        *wanted = NULL;
    return 0;
}

bool resv_has(const struct ctl_resv *resv, const char *node)
{
    const char *wanted = node;

    return hostlist_each(resv->nodes ? resv->nodes : "", name_match, (void *)&wanted, NULL) == 0 && !wanted;
}

uint8_t resv_kept(const struct ctl *ctl, const struct ctl_node *node)
{
    for (each_record(const struct ctl_resv, resv, &ctl->registry.kept.resvs)) {
        if (resv->stage > 0 && resv_has(resv, names_get(&ctl->registry.node_names, node->name)))
            return (uint8_t)resv->number;
    }
    return 0;
}

struct overlap {
    const struct ctl_resv *resv;
    bool found;
};

static int overlap_look(void *arg, const char *name)
{
    struct overlap *overlap = arg;

    overlap->found = overlap->found || resv_has(overlap->resv, name);
    return 0;
}

const struct ctl_resv *resv_next(const struct registry *registry, const char *nodes, uint8_t kept, usec_t from,
                                 usec_t until)
{
    const struct ctl_resv *first = NULL;

    for (each_record(const struct ctl_resv, resv, &registry->kept.resvs)) {
        struct overlap overlap = { .resv = resv };
        usec_t start = resv->start;

        if (resv->number == kept || start <= from || (until && start >= until) || (first && first->start <= start))
            continue;
        if (hostlist_each(nodes, overlap_look, &overlap, NULL) == 0 && overlap.found)
            first = resv;
    }
    return first;
}

static bool list_names(const struct text_list *list, const char *name)
{
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->items[i], name) == 0)
            return true;
    return false;
}

/* Whether it may be used by this user, or in this virtual cluster. Nobody named: by everybody. */
static bool resv_admits(const struct ctl_resv *resv, const char *user, const char *vc)
{
    if (resv->users.count + resv->vcs.count == 0)
        return true;
    return list_names(&resv->users, user) || list_names(&resv->vcs, vc);
}

int resv_submit(const struct ctl *ctl, const char *user, const char *vc, const struct submission *s,
                struct jobspec *wants, struct entry_result *ret)
{
    const struct ctl_resv *resv = s->reservation ? resv_find(&ctl->registry, s->reservation) : NULL;

    if (!s->reservation)
        return 0;
    if (!resv || resv->end <= ctl->now) {
        (void)error_set(&ret->text, -ERANGE, "no reservation '%s'%s", s->reservation, resv ? " any more" : "");
        (void)snprintf(ret->hint, sizeof(ret->hint), "'muster resv ls' lists them");
        return refuse(ret, -ERANGE, "InvalidSpec");
    }
    if (!resv_admits(resv, user, vc)) {
        (void)error_set(&ret->text, -EPERM, "reservation '%s' is not for you", s->reservation);
        return refuse(ret, -EPERM, "NotAllowed");
    }
    wants->kept = (uint8_t)resv->number;
    return 0;
}

bool resv_waits(const struct ctl *ctl, const struct ctl_job *job)
{
    const struct ctl_resv *resv = job->spec->reservation ? resv_find(&ctl->registry, job->spec->reservation) : NULL;

    return resv && ctl->now < resv->start;
}

usec_t resv_timer(const struct ctl *ctl)
{
    usec_t at = USEC_NEVER;

    for (each_record(const struct ctl_resv, resv, &ctl->registry.kept.resvs)) {
        usec_t start = resv->start, from = start - resv->lead, end = resv->end;
        int64_t stage = resv->stage;
        usec_t next = stage == 0 ? from : stage == 1 ? start : end;

        next = end < next ? end : next; /* taken back before it began */
        at = next < at ? next : at;
    }
    return at;
}

/* Jobs of others on its nodes are told to leave. */
static void clear_out(struct ctl *ctl, const struct ctl_resv *resv)
{
    struct ctl_job *job;

    for (size_t i = 0; (job = registry_next(&ctl->registry, &i));) {
        struct ctl_attempt *attempt = attempt_of(job);
        bool there = false;

        for (uint32_t t = 0; attempt_live(attempt) && t < attempt->task_count; t++)
            there |= resv_has(resv, names_get(&ctl->registry.node_names, attempt->tasks[t].node));
        if (there && !attempt_leaving(attempt) && job->wants.kept != resv->number)
            attempt_stop(ctl, job, STOP_CAUSE_DRAIN, 0, job_grace(ctl, job));
    }
}

/* It is over: who waits for it has waited in vain. */
static void let_go(struct ctl *ctl, const char *name)
{
    for (int64_t from = 0;;) {
        struct ctl_job *job = registry_after(&ctl->registry, from);

        if (!job)
            return;
        from = job->id;
        if (!job->spec->reservation || strcmp(job->spec->reservation, name) != 0 || job->phase != PHASE_JOB_PENDING)
            continue;
        if (!job_in_core(job)) {
            job_end(ctl, job, PHASE_JOB_CANCELLED, "its reservation is over");
            continue;
        }
        link_take_out(ctl, job, PHASE_JOB_CANCELLED, "its reservation is over");
    }
}

static void let_in(struct ctl *ctl, const char *name)
{
    for (int64_t from = 0;;) {
        struct ctl_job *job = registry_after(&ctl->registry, from);

        if (!job)
            return;
        from = job->id;
        if (!job_in_core(job) && job->spec->reservation && strcmp(job->spec->reservation, name) == 0)
            gate_look(ctl, job);
    }
}

/* Stages: 0 to come, 1 its nodes take nobody else, 2 in force; then it is removed. One that was taken back before it
 * began, or whose whole time has gone by meanwhile, sends nobody away. */
void resv_tick(struct ctl *ctl)
{
    for (size_t i = 0; i < ctl->registry.kept.resvs.count;) {
        struct ctl_resv *resv = record_at(&ctl->registry.kept.resvs, i);
        int64_t stage = resv->stage;
        char name[128];

        (void)snprintf(name, sizeof(name), "%s", resv->name);
        if (resv->end <= ctl->now) {
            let_go(ctl, name);
            ctl_step(ctl);
            record_remove(&ctl->registry.kept.resvs, i);
            ctl->cluster_dirty = true;
            ctl_event(ctl, "reservation.ended", NULL, NULL, FACTS(fact_text("name", name)));
        } else if (stage == 0 && resv->start - resv->lead <= ctl->now) {
            resv->stage = 1;
            ctl->cluster_dirty = true;
        } else if (stage == 1 && resv->start <= ctl->now) {
            resv->stage = 2;
            ctl_event(ctl, "reservation.started", NULL, NULL, FACTS(fact_text("name", name)));
            (void)cluster_rebuild(ctl, NULL);
            clear_out(ctl, resv);
            let_in(ctl, name);
        } else {
            i++;
        }
    }
}

/* Nodes that are there, and that no other reservation has at the same time. */
static int nodes_check(const struct ctl *ctl, const struct ctl_resv *body, const char *name, struct entry_result *ret)
{
    size_t found = 0;

    for (uint32_t n = 0; n < ctl->registry.node_count; n++) {
        const char *node = names_get(&ctl->registry.node_names, ctl->registry.nodes[n].name);

        if (ctl->registry.nodes[n].forgotten || !resv_has(body, node))
            continue;
        found++;
        for (each_record(const struct ctl_resv, other, &ctl->registry.kept.resvs)) {
            if (strcmp(other->name, name) == 0 || !resv_has(other, node) || body->end <= other->start ||
                other->end <= body->start)
                continue;
            (void)error_set(&ret->text, -EBUSY, "node %s is in reservation '%s' at that time", node, other->name);
            return refuse(ret, -EBUSY, "Conflict");
        }
    }
    if (found)
        return 0;
    (void)error_set(&ret->text, -ENOENT, "nodes: there is none of '%.100s'", body->nodes ? body->nodes : "");
    return refuse(ret, -ENOENT, "NotFound");
}

/* Whether the node is in the reservation, or in another one at the same time. */
static bool node_taken(const struct ctl *ctl, const struct ctl_resv *body, const char *node)
{
    bool taken = resv_has(body, node);

    for (each_record(const struct ctl_resv, other, &ctl->registry.kept.resvs))
        taken = taken || (strcmp(other->name, body->name) != 0 && resv_has(other, node) &&
                          other->start - other->lead < body->end && body->start - body->lead < other->end);
    return taken;
}

/* Guarantees that are cells are made of the other nodes meanwhile: it must be possible. */
static int cells_check(const struct ctl *ctl, const struct ctl_resv *body, struct entry_result *ret)
{
    struct cluster_spec cluster = ctl->cluster;
    struct cell_spec cells = { 0 };
    struct error err = { 0 };
    uint32_t which = CELL_NONE;
    const char *whose = "";
    int r;

    if (!cluster.cells)
        return 0;
    cluster.bare_count = 0; /* no cell is made of those */
    cluster.nodes = mem_zalloc(cluster.node_count, sizeof(*cluster.nodes));
    if (!cluster.nodes) {
        (void)error_set(&ret->text, -ENOMEM, "no memory for the cluster");
        return refuse(ret, -ENOMEM, "TooMuch");
    }
    memcpy(cluster.nodes, ctl->cluster.nodes, cluster.node_count * sizeof(*cluster.nodes));
    for (uint32_t n = 0; n < cluster.node_count; n++)
        cluster.nodes[n].apart = node_taken(ctl, body, names_get(&cluster.names, cluster.nodes[n].name));
    r = cluster_cells(&cluster, &cells, NULL, &which, &err);
    mem_free(cluster.nodes);
    if (r == 0)
        cell_spec_done(&cells);
    if (r == 0)
        return 0;
    if (which != CELL_NONE)
        whose = names_get(&cluster.names, cluster.vcs[cluster.guarantees[which].vc].name);
    (void)error_set(&ret->text, -EBUSY, "nodes: what %s%s%s guaranteed could not be had meanwhile: %s",
                    *whose ? "'" : "a virtual cluster", whose, *whose ? "' is" : " is", err.text);
    (void)snprintf(ret->hint, sizeof(ret->hint), "reserve fewer nodes, or nodes of racks that are broken up already");
    return refuse(ret, -EBUSY, "Conflict");
}

/* As the registry would have it; all that it points to is the entry's. */
static struct ctl_resv resv_of(const struct entry_resv *resv)
{
    return (struct ctl_resv){ .name = resv->name,
                              .nodes = resv->nodes,
                              .start = resv->start,
                              .end = resv->end,
                              .lead = resv->lead,
                              .users = resv->users,
                              .vcs = resv->vcs,
                              .reason = resv->reason };
}

static int times_check(const struct ctl *ctl, const struct entry_resv *resv, struct entry_result *ret)
{
    struct error err = { 0 };
    const char *none = NULL;

    if (!resv->name || !*resv->name || strpbrk(resv->name, " \t\n/?#%")) {
        (void)error_set(&ret->text, -EINVAL, "name: at most 60 letters, without blanks and slashes");
        return refuse(ret, -EINVAL, "InvalidSpec");
    }
    if (resv->end <= resv->start || resv->end <= ctl->now || resv->lead < 0) {
        (void)error_set(&ret->text, -EINVAL, "end: must be after start, and to come");
        return refuse(ret, -EINVAL, "InvalidSpec");
    }
    if (hostlist_each(resv->nodes ? resv->nodes : "", name_match, (void *)&none, &err) < 0) {
        (void)error_set(&ret->text, -EINVAL, "nodes: %s", err.text);
        return refuse(ret, -EINVAL, "InvalidSpec");
    }
    return 0;
}

int resv_check(const struct ctl *ctl, struct entry *entry, struct entry_result *ret)
{
    const char *name = entry->resv.name ? entry->resv.name : "";
    struct ctl_resv body = resv_of(&entry->resv);

    if (entry->resv.remove) {
        if (resv_find(&ctl->registry, name))
            return 0;
        (void)error_set(&ret->text, -ENOENT, "no reservation '%s'", name);
        return refuse(ret, -ENOENT, "NotFound");
    }
    if (times_check(ctl, &entry->resv, ret) < 0)
        return ret->code;
    if (!resv_find(&ctl->registry, name) && ctl->registry.kept.resvs.count >= KEPT_MAX) {
        (void)error_set(&ret->text, -ENOSPC, "there are %d reservations already, the limit", KEPT_MAX);
        return refuse(ret, -ENOSPC, "TooMuch");
    }
    if (nodes_check(ctl, &body, name, ret) == 0)
        (void)cells_check(ctl, &body, ret);
    return ret->code;
}

/* The smallest number that no reservation has. */
static int64_t number_free(const struct ctl *ctl)
{
    for (int64_t number = 1; number <= KEPT_MAX; number++) {
        const struct ctl_job *job;
        bool taken = false;

        for (each_record(const struct ctl_resv, resv, &ctl->registry.kept.resvs))
            taken |= resv->number == number;
        for (size_t i = 0;
             !taken && (job = registry_next(&ctl->registry, &i));) /* of one that is over: it may run on */
            taken = job->wants.kept == number;
        if (!taken)
            return number;
    }
    return 0;
}

void resv_apply(struct ctl *ctl, const struct entry *entry, struct entry_result *ret)
{
    struct record_list *list = &ctl->registry.kept.resvs;
    const char *name = entry->resv.name ? entry->resv.name : "";
    struct ctl_resv fresh = resv_of(&entry->resv), *made;
    size_t had = 0;

    while (had < list->count && strcmp(((struct ctl_resv *)record_at(list, had))->name, name) != 0)
        had++;
    if (entry->resv.remove) {
        ((struct ctl_resv *)record_at(list, had))->end = ctl->now;
        return; /* the tick of this batch does the rest */
    }
    fresh.number = had < list->count ? ((struct ctl_resv *)record_at(list, had))->number : number_free(ctl);
    if (fresh.number == 0) {
        ret->code = error_set(&ret->text, -ENOSPC, "no number for another reservation");
        return;
    }
    made = record_add(list);
    if (!made || record_copy(list->fields, made, &fresh) < 0) {
        if (made)
            record_remove(list, list->count - 1);
        ret->code = error_set(&ret->text, -ENOMEM, "no memory for a reservation");
        return;
    }
    if (had < list->count - 1)
        record_remove(list, had);
    ctl->cluster_dirty = true;
    ctl_event(ctl, "reservation.made", NULL, NULL, FACTS(fact_text("name", name)));
}
