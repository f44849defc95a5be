/* SPDX-License-Identifier: Apache-2.0 */
/* resv.c - reservations: nodes that only some people's jobs may use, for a time.
 *
 * To the core a reserved node is kept for a number, and a job of the reservation says that number. When the time comes,
 * whoever else is on the nodes is told to leave, with grace; when it is over, the nodes are everybody's again, jobs of
 * the reservation that run go on, and those that wait end. With `lead` nodes take no other job for so long before.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "ctl/part.h"
#include "wire/cluster_cells.h"
#include "wire/hostlist.h"

enum { LIST_MAX = 100 };

static int refuse(struct entry_result *ret, int code, const char *reason)
{
    (void)snprintf(ret->reason, sizeof(ret->reason), "%s", reason);
    return ret->code = code;
}

static usec_t time_at(const json_t *resv, const char *key)
{
    return json_integer_value(json_object_get(resv, key));
}

static const char *text_at(const json_t *resv, const char *key)
{
    const char *text = json_string_value(json_object_get(resv, key));

    return text ? text : "";
}

const json_t *resv_find(const struct book *book, const char *name)
{
    const json_t *resv;
    size_t i;

    json_array_foreach(book->resvs, i, resv) if (strcmp(text_at(resv, "name"), name) == 0) return resv;
    return NULL;
}

bool resv_active(const json_t *resv, usec_t now)
{
    return time_at(resv, "start") <= now && now < time_at(resv, "end");
}

static int name_match(void *arg, const char *name)
{
    const char **wanted = arg;

    if (*wanted && strcmp(*wanted, name) == 0)
        *wanted = NULL;
    return 0;
}

bool resv_has(const json_t *resv, const char *node)
{
    const char *wanted = node;

    return hostlist_each(text_at(resv, "nodes"), name_match, (void *)&wanted, NULL) == 0 && !wanted;
}

uint8_t resv_kept(const struct ctl *ctl, const struct book_node *node)
{
    const json_t *resv;
    size_t i;

    json_array_foreach(ctl->book.resvs, i, resv)
    {
        if (time_at(resv, "stage") > 0 && resv_has(resv, names_get(&ctl->book.node_names, node->name)))
            return (uint8_t)time_at(resv, "number");
    }
    return 0;
}

struct overlap {
    const json_t *resv;
    bool found;
};

static int overlap_look(void *arg, const char *name)
{
    struct overlap *overlap = arg;

    overlap->found = overlap->found || resv_has(overlap->resv, name);
    return 0;
}

const json_t *resv_next(const struct book *book, const char *nodes, uint8_t kept, usec_t from, usec_t until)
{
    const json_t *resv, *first = NULL;
    size_t i;

    json_array_foreach(book->resvs, i, resv)
    {
        struct overlap overlap = { .resv = resv };
        usec_t start = time_at(resv, "start");

        if (time_at(resv, "number") == kept || start <= from || (until && start >= until) ||
            (first && time_at(first, "start") <= start))
            continue;
        if (hostlist_each(nodes, overlap_look, &overlap, NULL) == 0 && overlap.found)
            first = resv;
    }
    return first;
}

static bool list_names(const json_t *list, const char *name)
{
    const json_t *item;
    size_t i;

    json_array_foreach(list, i, item) if (strcmp(json_string_value(item), name) == 0) return true;
    return false;
}

/* Whether it may be used by this user, or in this virtual cluster. Nobody named: by everybody. */
static bool resv_admits(const json_t *resv, const char *user, const char *vc)
{
    const json_t *users = json_object_get(resv, "users"), *vcs = json_object_get(resv, "vcs");

    if (json_array_size(users) + json_array_size(vcs) == 0)
        return true;
    return list_names(users, user) || list_names(vcs, vc);
}

int resv_submit(const struct ctl *ctl, const char *user, const char *vc, const struct submission *s,
                struct jobspec *wants, struct entry_result *ret)
{
    const json_t *resv = s->reservation ? resv_find(&ctl->book, s->reservation) : NULL;

    if (!s->reservation)
        return 0;
    if (!resv || time_at(resv, "end") <= ctl->now) {
        (void)error_set(&ret->text, -ERANGE, "no reservation '%s'%s", s->reservation, resv ? " any more" : "");
        (void)snprintf(ret->hint, sizeof(ret->hint), "'muster resv ls' lists them");
        return refuse(ret, -ERANGE, "InvalidSpec");
    }
    if (!resv_admits(resv, user, vc)) {
        (void)error_set(&ret->text, -EPERM, "reservation '%s' is not for you", s->reservation);
        return refuse(ret, -EPERM, "NotAllowed");
    }
    wants->kept = (uint8_t)time_at(resv, "number");
    return 0;
}

bool resv_waits(const struct ctl *ctl, const struct book_job *job)
{
    const json_t *resv = job->spec->reservation ? resv_find(&ctl->book, job->spec->reservation) : NULL;

    return resv && ctl->now < time_at(resv, "start");
}

usec_t resv_timer(const struct ctl *ctl)
{
    usec_t at = USEC_NEVER;
    const json_t *resv;
    size_t i;

    json_array_foreach(ctl->book.resvs, i, resv)
    {
        usec_t start = time_at(resv, "start"), from = start - time_at(resv, "lead"), end = time_at(resv, "end");
        int64_t stage = time_at(resv, "stage");
        usec_t next = stage == 0 ? from : stage == 1 ? start : end;

        next = end < next ? end : next; /* taken back before it began */
        at = next < at ? next : at;
    }
    return at;
}

/* Jobs of others on its nodes are told to leave. */
static void clear_out(struct ctl *ctl, const json_t *resv)
{
    for (size_t i = 0; i < ctl->book.live_count; i++) {
        struct book_job *job = ctl->book.live[i];
        struct book_attempt *attempt = attempt_of(job);
        bool there = false;

        for (uint32_t t = 0; attempt && !attempt->ended && t < attempt->task_count; t++)
            there |= resv_has(resv, names_get(&ctl->book.node_names, attempt->tasks[t].node));
        if (there && !attempt->stopping && job->wants.kept != time_at(resv, "number"))
            attempt_stop(ctl, job, "drain", 0, job_grace(ctl, job));
    }
}

/* It is over: who waits for it has waited in vain. */
static void let_go(struct ctl *ctl, const char *name)
{
    for (int64_t from = 0;;) {
        struct book_job *job = book_after(&ctl->book, from);

        if (!job)
            return;
        from = job->id;
        if (!job->spec->reservation || strcmp(job->spec->reservation, name) != 0 || job->phase != PHASE_JOB_PENDING)
            continue;
        if (!job->in_core) {
            job_end(ctl, job, PHASE_JOB_CANCELLED, "its reservation is over");
            continue;
        }
        job->ends = true;
        job->ends_as = PHASE_JOB_CANCELLED;
        (void)snprintf(job->end_text, sizeof(job->end_text), "its reservation is over");
        ctl_tell_core(ctl, job, (struct event){ .kind = EVENT_CANCEL });
    }
}

static void stage_set(json_t *resv, int64_t stage)
{
    (void)json_object_set_new(resv, "stage", json_integer(stage));
}

static void let_in(struct ctl *ctl, const char *name)
{
    for (int64_t from = 0;;) {
        struct book_job *job = book_after(&ctl->book, from);

        if (!job)
            return;
        from = job->id;
        if (!job->in_core && job->spec->reservation && strcmp(job->spec->reservation, name) == 0)
            gate_look(ctl, job);
    }
}

/* Stages: 0 to come, 1 its nodes take nobody else, 2 in force; then it is removed. One that was taken back before it
 * began, or whose whole time has gone by meanwhile, sends nobody away. */
void resv_tick(struct ctl *ctl)
{
    for (size_t i = 0; i < json_array_size(ctl->book.resvs);) {
        json_t *resv = json_array_get(ctl->book.resvs, i);
        int64_t stage = time_at(resv, "stage");
        char name[128];

        (void)snprintf(name, sizeof(name), "%s", text_at(resv, "name"));
        if (time_at(resv, "end") <= ctl->now) {
            let_go(ctl, name);
            ctl_step(ctl);
            (void)json_array_remove(ctl->book.resvs, i);
            ctl->cluster_dirty = true;
            ctl_event(ctl, "reservation.ended", NULL, NULL, json_pack("{s:s}", "name", name));
        } else if (stage == 0 && time_at(resv, "start") - time_at(resv, "lead") <= ctl->now) {
            stage_set(resv, 1);
            ctl->cluster_dirty = true;
        } else if (stage == 1 && time_at(resv, "start") <= ctl->now) {
            stage_set(resv, 2);
            ctl_event(ctl, "reservation.started", NULL, NULL, json_pack("{s:s}", "name", name));
            (void)cluster_rebuild(ctl, NULL);
            clear_out(ctl, resv);
            let_in(ctl, name);
        } else {
            i++;
        }
    }
}

static int texts_check(const json_t *body, const char *key, struct entry_result *ret)
{
    const json_t *list = json_object_get(body, key), *item;
    size_t i;

    json_array_foreach(list, i, item)
    {
        if (!json_is_string(item) || i >= LIST_MAX) {
            (void)error_set(&ret->text, -EINVAL, "%s: expected a list of at most %d names", key, LIST_MAX);
            return refuse(ret, -EINVAL, "InvalidSpec");
        }
    }
    return 0;
}

/* Nodes that are there, and that no other reservation has at the same time. */
static int nodes_check(const struct ctl *ctl, const json_t *body, const char *name, struct entry_result *ret)
{
    const json_t *other;
    size_t found = 0, i;

    for (uint32_t n = 0; n < ctl->book.node_count; n++) {
        const char *node = names_get(&ctl->book.node_names, ctl->book.nodes[n].name);

        if (ctl->book.nodes[n].forgotten || !resv_has(body, node))
            continue;
        found++;
        json_array_foreach(ctl->book.resvs, i, other)
        {
            if (strcmp(text_at(other, "name"), name) == 0 || !resv_has(other, node) ||
                time_at(body, "end") <= time_at(other, "start") || time_at(other, "end") <= time_at(body, "start"))
                continue;
            (void)error_set(&ret->text, -EBUSY, "node %s is in reservation '%s' at that time", node,
                            text_at(other, "name"));
            return refuse(ret, -EBUSY, "Conflict");
        }
    }
    if (found)
        return 0;
    (void)error_set(&ret->text, -ENOENT, "nodes: there is none of '%.100s'", text_at(body, "nodes"));
    return refuse(ret, -ENOENT, "NotFound");
}

/* Whether the node is in the reservation, or in another one at the same time. */
static bool node_taken(const struct ctl *ctl, const json_t *body, const char *node)
{
    const json_t *other;
    bool taken = resv_has(body, node);
    size_t i;

    json_array_foreach(ctl->book.resvs, i, other) taken =
        taken || (strcmp(text_at(other, "name"), text_at(body, "name")) != 0 && resv_has(other, node) &&
                  time_at(other, "start") - time_at(other, "lead") < time_at(body, "end") &&
                  time_at(body, "start") - time_at(body, "lead") < time_at(other, "end"));
    return taken;
}

/* Guarantees that are cells are made of the other nodes meanwhile: it must be possible. */
static int cells_check(const struct ctl *ctl, const json_t *body, struct entry_result *ret)
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

int resv_check(const struct ctl *ctl, const json_t *body, struct entry_result *ret)
{
    const char *name = text_at(body, "name");
    struct error err = { 0 };
    const char *none = NULL;

    if (json_is_true(json_object_get(body, "remove"))) {
        if (resv_find(&ctl->book, name))
            return 0;
        (void)error_set(&ret->text, -ENOENT, "no reservation '%s'", name);
        return refuse(ret, -ENOENT, "NotFound");
    }
    if (!*name || strlen(name) > 60 || strpbrk(name, " \t\n/?#%")) {
        (void)error_set(&ret->text, -EINVAL, "name: at most 60 letters, without blanks and slashes");
        return refuse(ret, -EINVAL, "InvalidSpec");
    }
    if (time_at(body, "end") <= time_at(body, "start") || time_at(body, "end") <= ctl->now ||
        time_at(body, "lead") < 0) {
        (void)error_set(&ret->text, -EINVAL, "end: must be after start, and to come");
        return refuse(ret, -EINVAL, "InvalidSpec");
    }
    if (hostlist_each(text_at(body, "nodes"), name_match, (void *)&none, &err) < 0) {
        (void)error_set(&ret->text, -EINVAL, "nodes: %s", err.text);
        return refuse(ret, -EINVAL, "InvalidSpec");
    }
    if (texts_check(body, "users", ret) < 0 || texts_check(body, "vcs", ret) < 0)
        return ret->code;
    if (!resv_find(&ctl->book, name) && json_array_size(ctl->book.resvs) >= KEPT_MAX) {
        (void)error_set(&ret->text, -ENOSPC, "there are %d reservations already, the limit", KEPT_MAX);
        return refuse(ret, -ENOSPC, "TooMuch");
    }
    return nodes_check(ctl, body, name, ret) < 0 ? ret->code : cells_check(ctl, body, ret);
}

/* The smallest number that no reservation has. */
static int64_t number_free(const struct ctl *ctl)
{
    for (int64_t number = 1; number <= KEPT_MAX; number++) {
        const json_t *resv;
        bool taken = false;
        size_t i;

        json_array_foreach(ctl->book.resvs, i, resv) taken |= time_at(resv, "number") == number;
        for (i = 0; i < ctl->book.live_count && !taken; i++) /* of one that is over: jobs of it may run on */
            taken = ctl->book.live[i]->wants.kept == number;
        if (!taken)
            return number;
    }
    return 0;
}

void resv_apply(struct ctl *ctl, const json_t *body, struct entry_result *ret)
{
    const char *name = text_at(body, "name");
    json_t *had, *fresh;
    size_t i;

    if (resv_check(ctl, body, ret) < 0)
        return;
    had = (json_t *)(uintptr_t)resv_find(&ctl->book, name);
    if (json_is_true(json_object_get(body, "remove"))) {
        (void)json_object_set_new(had, "end", json_integer(ctl->now));
        return; /* the tick of this batch does the rest */
    }
    fresh = json_deep_copy(body);
    (void)json_object_del(fresh, "remove");
    (void)json_object_set_new(fresh, "stage", json_integer(0));
    (void)json_object_set_new(fresh, "number", json_integer(had ? time_at(had, "number") : number_free(ctl)));
    if (time_at(fresh, "number") == 0) {
        ret->code = error_set(&ret->text, -ENOSPC, "no number for another reservation");
        json_decref(fresh);
        return;
    }
    for (i = 0; had && i < json_array_size(ctl->book.resvs); i++)
        if (json_array_get(ctl->book.resvs, i) == had) {
            (void)json_array_remove(ctl->book.resvs, i);
            break;
        }
    (void)json_array_append_new(ctl->book.resvs, fresh);
    ctl->cluster_dirty = true;
    ctl_event(ctl, "reservation.made", NULL, NULL, json_pack("{s:s}", "name", name));
}
