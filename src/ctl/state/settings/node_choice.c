/* SPDX-License-Identifier: Apache-2.0 */
/* node_choice.c - nodes that jobs choose by name or label, and labels that people give nodes.
 *
 * To the core a choice is a mark: one bit of a node. Each different choice of nodes (nodelist, exclude, constraint)
 * that jobs make is given a mark while jobs that are not over make it, at most 63 at a time; the nodes that meet it
 * carry it. A new choice, or another label, builds the core anew around the same jobs.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "ctl/state/state_internal.h"
#include "wire/job/constraint.h"
#include "wire/text/hostlist.h"

static int refuse(struct entry_result *ret, int code, const char *reason)
{
    (void)snprintf(ret->reason, sizeof(ret->reason), "%s", reason);
    return ret->code = code;
}

/* A node whose labels are asked for. */
struct meets {
    const struct registry *registry;
    const struct ctl_node *node;
};

static const char *node_label(void *arg, const char *label)
{
    const struct meets *meets = arg;
    const struct change_list *own = labels_find(meets->registry, meets->node->name);

    for (size_t i = 0; own && i < own->count; i++)
        if (strcmp(own->items[i].name, label) == 0)
            return own->items[i].text;
    return inventory_label(&meets->node->inventory, label);
}

struct looked {
    const char *name;
    const struct registry *registry;
    const char *unknown; /* a name that no node has */
    char text[256];
    bool found;
};

static int name_look(void *arg, const char *name)
{
    struct looked *looked = arg;
    const struct ctl_node *node = looked->registry ? registry_node_find(looked->registry, name) : NULL;

    looked->found |= looked->name && strcmp(looked->name, name) == 0;
    if (looked->registry && (!node || node->forgotten) && !looked->unknown) {
        (void)snprintf(looked->text, sizeof(looked->text), "%s", name);
        looked->unknown = looked->text;
    }
    return 0;
}

static bool list_has(const char *list, const char *name)
{
    struct looked looked = { .name = name };

    return hostlist_each(list, name_look, &looked, NULL) == 0 && looked.found;
}

/* Whether a node meets a choice. */
static bool choice_meets(const struct ctl *ctl, const struct ctl_choice *choice, const struct ctl_node *node)
{
    const char *name = names_get(&ctl->registry.node_names, node->name);
    struct meets meets = { &ctl->registry, node };

    if (choice->nodelist && !list_has(choice->nodelist, name))
        return false;
    if (choice->exclude && list_has(choice->exclude, name))
        return false;
    return !choice->constraint || constraint_holds(choice->constraint, node_label, &meets);
}

/* What a submission chooses, borrowed from it. False: any node. */
static bool choice_of(const struct submission *s, struct ctl_choice *ret)
{
    *ret = (struct ctl_choice){ .nodelist = s->nodelist, .exclude = s->exclude, .constraint = s->constraint };
    return s->nodelist || s->exclude || s->constraint;
}

static bool text_same(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool choice_same(const struct ctl_choice *a, const struct ctl_choice *b)
{
    return text_same(a->nodelist, b->nodelist) && text_same(a->exclude, b->exclude) &&
           text_same(a->constraint, b->constraint);
}

bool ctl_chooses(const struct ctl *ctl, const struct submission *s, const struct ctl_node *node)
{
    struct ctl_choice choice;

    return !choice_of(s, &choice) || choice_meets(ctl, &choice, node);
}

uint64_t where_marks(const struct ctl *ctl, const struct ctl_node *node)
{
    const struct record_list *list = &ctl->registry.kept.choices;
    uint64_t marks = 0;

    for (size_t i = 0; i < list->count && i < MARKS_MAX; i++)
        if (choice_meets(ctl, record_at(list, i), node))
            marks |= 1ULL << i;
    return marks;
}

static bool mark_used(const struct ctl *ctl, size_t index)
{
    const struct ctl_job *job;

    for (size_t i = 0; (job = registry_next(&ctl->registry, &i));)
        if (job->wants.mark == index + 1)
            return true;
    return false;
}

int where_mark(struct ctl *ctl, const struct submission *s, struct error *err)
{
    struct record_list *list = &ctl->registry.kept.choices;
    size_t count = list->count, spare = MARKS_MAX;
    struct ctl_choice choice, *mark;

    if (!choice_of(s, &choice))
        return 0;
    for (size_t i = 0; i < count; i++)
        if (choice_same(record_at(list, i), &choice))
            return (int)i + 1;
    for (size_t i = 0; i < count && spare == MARKS_MAX; i++)
        if (!mark_used(ctl, i))
            spare = i;
    if (spare == MARKS_MAX && count == MARKS_MAX - 1) /* the last is for plans */
        return error_set(err, -ENOSPC, "jobs choose their nodes in %d ways already, the limit", MARKS_MAX - 1);
    mark = spare < MARKS_MAX ? record_at(list, spare) : record_add(list);
    if (mark)
        record_done(list->fields, mark);
    if (!mark || record_copy(list->fields, mark, &choice) < 0)
        return error_set(err, -ENOSPC, "no memory for a choice of nodes");
    ctl->cluster_dirty = true;
    return (int)(spare < MARKS_MAX ? spare : count) + 1;
}

/* Names that are no nodes. */
static int names_check(const struct ctl *ctl, const char *key, const char *list, struct entry_result *ret)
{
    struct looked looked = { .registry = &ctl->registry };
    struct error err = { 0 };

    if (hostlist_each(list, name_look, &looked, &err) < 0) {
        (void)error_set(&ret->text, -EINVAL, "%s: %s", key, err.text);
        return refuse(ret, -EINVAL, "InvalidSpec");
    }
    if (looked.unknown) {
        (void)error_set(&ret->text, -ERANGE, "%s: no node '%s'", key, looked.unknown);
        (void)snprintf(ret->hint, sizeof(ret->hint), "'muster nodes' lists them");
        return refuse(ret, -ERANGE, "InvalidSpec");
    }
    return 0;
}

/* Whether the nodes it chooses could have it, or one part of it. */
static int part_check(const struct ctl *ctl, const struct submission *s, const struct jobspec *wants,
                      struct entry_result *ret)
{
    struct ctl_choice choice;
    int64_t gpus[SKUS_MAX] = { 0 }, most = 0;
    int r = 0;

    if (!choice_of(s, &choice))
        return 0;
    if (s->nodelist)
        r = names_check(ctl, "nodelist", s->nodelist, ret);
    if (r == 0 && s->exclude)
        r = names_check(ctl, "exclude", s->exclude, ret);
    if (r == 0 && s->constraint && constraint_check(s->constraint, &ret->text) < 0)
        r = refuse(ret, -EINVAL, "InvalidSpec");
    for (uint32_t n = 0; r == 0 && n < ctl->registry.node_count; n++) {
        const struct ctl_node *node = &ctl->registry.nodes[n];
        uint32_t sku;

        if (node->core_node == UINT32_MAX || node->forgotten || node->gpu_count < wants->per_node ||
            !choice_meets(ctl, &choice, node))
            continue;
        sku = ctl_ledger(ctl)->topo.nodes[node->core_node].sku;
        if (wants->sku_mask && !(wants->sku_mask >> sku & 1))
            continue;
        gpus[sku] += wants->per_node ? wants->per_node : node->gpu_count;
        most = gpus[sku] > most ? gpus[sku] : most;
    }
    if (r == 0 && most < wants->gpus) {
        (void)error_set(&ret->text, -ERANGE, "the nodes it chooses have %lld such GPUs; it asks for %d",
                        (long long)most, wants->gpus);
        (void)snprintf(ret->hint, sizeof(ret->hint),
                       "'muster nodes --each' lists nodes, 'muster node show' their labels");
        r = refuse(ret, -ERANGE, "Infeasible.NodeSize");
    }
    return r;
}

int where_check(const struct ctl *ctl, const struct submission *s, const struct jobspec *wants,
                struct entry_result *ret)
{
    int r = part_check(ctl, s, wants, ret);

    for (uint32_t i = 0; i < wants->side_count && r == 0; i++) {
        const struct gang_side *side = &wants->sides[i];
        struct jobspec part = { .gpus = side->gpus, .per_node = side->per_node, .sku_mask = side->sku_mask };

        r = part_check(ctl, s, &part, ret);
    }
    return r;
}

/* Labels. */

static bool label_good(const char *text)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./";

    return *text && strlen(text) <= 63 && text[strspn(text, letters)] == '\0';
}

int label_check(const struct ctl *ctl, struct entry *entry, struct entry_result *ret)
{
    const char *name = entry->label.node;
    const struct ctl_node *node = name ? registry_node_find(&ctl->registry, name) : NULL;
    const struct change_list *labels = &entry->label.labels, *had;

    if (!node || node->forgotten) {
        (void)error_set(&ret->text, -ENOENT, "no node '%s'", name ? name : "");
        return refuse(ret, -ENOENT, "NotFound");
    }
    had = labels_find(&ctl->registry, node->name);
    for (size_t i = 0; i < labels->count; i++) {
        const char *key = labels->items[i].name, *value = labels->items[i].text;

        if (strcmp(key, "rack") == 0 || strcmp(key, "domain") == 0) {
            (void)error_set(&ret->text, -EINVAL, "%s: where a node stands is told by its agent, when it joins", key);
            (void)snprintf(ret->hint, sizeof(ret->hint), "labels in agent.yaml of the node");
            return refuse(ret, -EINVAL, "InvalidSpec");
        }
        if (!label_good(key) || (value && *value && !label_good(value))) {
            (void)error_set(&ret->text, -EINVAL, "label '%.40s': letters, digits and -_./, at most 63", key);
            return refuse(ret, -EINVAL, "InvalidSpec");
        }
    }
    if (labels->count + (had ? had->count : 0) > 100) {
        (void)error_set(&ret->text, -EINVAL, "a node has at most 100 labels");
        return refuse(ret, -EINVAL, "InvalidSpec");
    }
    return 0;
}

const struct change_list *labels_find(const struct registry *registry, uint32_t node)
{
    for (each_record(const struct ctl_labels, labels, &registry->kept.labels))
        if (labels->node == node)
            return &labels->labels;
    return NULL;
}

/* A name without text takes the label away. False: no memory. */
static bool label_set(struct change_list *labels, const struct change *change)
{
    struct change *grown;
    size_t i = 0;

    while (i < labels->count && strcmp(labels->items[i].name, change->name) != 0)
        i++;
    if (i < labels->count) {
        mem_free(labels->items[i].text);
        labels->items[i].text = entry_text(change->text);
        if (labels->items[i].text)
            return true;
        mem_free(labels->items[i].name);
        memmove(&labels->items[i], &labels->items[i + 1], (labels->count - i - 1) * sizeof(*labels->items));
        labels->count--;
        return !change->text;
    }
    if (!change->text)
        return true;
    grown = mem_resize(labels->items, labels->count + 1, sizeof(*labels->items));
    if (!grown)
        return false;
    labels->items = grown;
    grown[labels->count] = (struct change){ entry_text(change->name), entry_text(change->text) };
    labels->count++;
    return true;
}

void label_apply(struct ctl *ctl, const struct entry *entry, struct entry_result *ret)
{
    struct record_list *list = &ctl->registry.kept.labels;
    const struct ctl_node *node = node_get(ctl, entry->label.node);
    struct ctl_labels *labels;
    size_t i = 0;

    while (i < list->count && ((struct ctl_labels *)record_at(list, i))->node != node->name)
        i++;
    labels = i < list->count ? record_at(list, i) : record_add(list);
    if (labels)
        labels->node = node->name;
    for (size_t k = 0; labels && k < entry->label.labels.count; k++)
        if (!label_set(&labels->labels, &entry->label.labels.items[k]))
            ret->code = error_set(&ret->text, -ENOMEM, "no memory for labels");
    if (ctl->registry.kept.choices.count)
        ctl->cluster_dirty = true;
    ctl_event(ctl, "node.labelled", NULL, entry->label.node, NULL);
}
