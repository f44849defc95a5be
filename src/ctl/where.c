/* SPDX-License-Identifier: Apache-2.0 */
/* where.c - nodes that jobs choose by name or label, and labels that people give nodes.
 *
 * To the core a choice is a mark: one bit of a node. Each different choice of nodes (nodelist, exclude, constraint)
 * that jobs make is given a mark while jobs that are not over make it, at most 63 at a time; the nodes that meet it
 * carry it. A new choice, or another label, builds the core anew around the same jobs.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "ctl/part.h"
#include "wire/constraint.h"
#include "wire/hostlist.h"

static int refuse(struct entry_result *ret, int code, const char *reason)
{
    (void)snprintf(ret->reason, sizeof(ret->reason), "%s", reason);
    return ret->code = code;
}

static const char *node_label(void *arg, const char *label)
{
    const struct book_node *node = arg;
    const json_t *own = json_object_get(node->labels, label);

    if (!own)
        own = json_object_get(json_object_get(node->inventory, "labels"), label);
    return json_string_value(own);
}

struct looked {
    const char *name;
    const struct book *book;
    const char *unknown; /* a name that no node has */
    char text[256];
    bool found;
};

static int name_look(void *arg, const char *name)
{
    struct looked *looked = arg;
    const struct book_node *node = looked->book ? book_node_find(looked->book, name) : NULL;

    looked->found |= looked->name && strcmp(looked->name, name) == 0;
    if (looked->book && (!node || node->forgotten) && !looked->unknown) {
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

static const char *text_at(const json_t *choice, const char *key)
{
    return json_string_value(json_object_get(choice, key));
}

/* Whether a node meets a choice {"nodelist","exclude","constraint"}. */
static bool choice_meets(const struct ctl *ctl, const json_t *choice, const struct book_node *node)
{
    const char *name = names_get(&ctl->book.node_names, node->name);

    if (text_at(choice, "nodelist") && !list_has(text_at(choice, "nodelist"), name))
        return false;
    if (text_at(choice, "exclude") && list_has(text_at(choice, "exclude"), name))
        return false;
    return !text_at(choice, "constraint") ||
           constraint_holds(text_at(choice, "constraint"), node_label, (void *)(uintptr_t)node);
}

static json_t *choice_of(const struct submission *s)
{
    json_t *choice = NULL;

    if (s->nodelist || s->exclude || s->constraint)
        choice = json_object();
    if (s->nodelist)
        (void)json_object_set_new(choice, "nodelist", json_string(s->nodelist));
    if (s->exclude)
        (void)json_object_set_new(choice, "exclude", json_string(s->exclude));
    if (s->constraint)
        (void)json_object_set_new(choice, "constraint", json_string(s->constraint));
    return choice;
}

bool ctl_chooses(const struct ctl *ctl, const struct submission *s, const struct book_node *node)
{
    json_t *choice = choice_of(s);
    bool meets = !choice || choice_meets(ctl, choice, node);

    json_decref(choice);
    return meets;
}

uint64_t where_marks(const struct ctl *ctl, const struct book_node *node)
{
    uint64_t marks = 0;

    for (size_t i = 0; i < json_array_size(ctl->book.choices) && i < MARKS_MAX; i++) {
        const json_t *choice = json_array_get(ctl->book.choices, i);

        if (json_is_object(choice) && choice_meets(ctl, choice, node))
            marks |= 1ULL << i;
    }
    return marks;
}

static bool mark_used(const struct ctl *ctl, size_t index)
{
    for (size_t i = 0; i < ctl->book.live_count; i++)
        if (ctl->book.live[i]->wants.mark == index + 1)
            return true;
    return false;
}

int where_mark(struct ctl *ctl, const struct submission *s, struct error *err)
{
    json_t *choice = choice_of(s), *list = ctl->book.choices;
    size_t count = json_array_size(list), spare = MARKS_MAX;

    if (!choice)
        return 0;
    for (size_t i = 0; i < count; i++)
        if (json_equal(json_array_get(list, i), choice)) {
            json_decref(choice);
            return (int)i + 1;
        }
    for (size_t i = 0; i < count && spare == MARKS_MAX; i++)
        if (!mark_used(ctl, i))
            spare = i;
    if (spare == MARKS_MAX && count == MARKS_MAX - 1) { /* the last is for plans */
        json_decref(choice);
        return error_set(err, -ENOSPC, "jobs choose their nodes in %d ways already, the limit", MARKS_MAX - 1);
    }
    if (spare < MARKS_MAX)
        (void)json_array_set_new(list, spare, choice);
    else
        (void)json_array_append_new(list, choice);
    ctl->cluster_dirty = true;
    return (int)(spare < MARKS_MAX ? spare : count) + 1;
}

/* Names that are no nodes. */
static int names_check(const struct ctl *ctl, const char *key, const char *list, struct entry_result *ret)
{
    struct looked looked = { .book = &ctl->book };
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
    json_t *choice = choice_of(s);
    int64_t gpus[SKUS_MAX] = { 0 }, most = 0;
    int r = 0;

    if (!choice)
        return 0;
    if (s->nodelist)
        r = names_check(ctl, "nodelist", s->nodelist, ret);
    if (r == 0 && s->exclude)
        r = names_check(ctl, "exclude", s->exclude, ret);
    if (r == 0 && s->constraint && constraint_check(s->constraint, &ret->text) < 0)
        r = refuse(ret, -EINVAL, "InvalidSpec");
    for (uint32_t n = 0; r == 0 && n < ctl->book.node_count; n++) {
        const struct book_node *node = &ctl->book.nodes[n];
        uint32_t sku;

        if (node->core_node == UINT32_MAX || node->forgotten || node->gpu_count < wants->per_node ||
            !choice_meets(ctl, choice, node))
            continue;
        sku = ctl_ledger(ctl)->topo.nodes[node->core_node].sku;
        if (wants->sku_mask && !(wants->sku_mask >> sku & 1))
            continue;
        gpus[sku] += wants->per_node ? wants->per_node : node->gpu_count;
        most = gpus[sku] > most ? gpus[sku] : most;
    }
    json_decref(choice);
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

int label_check(const struct ctl *ctl, const json_t *body, struct entry_result *ret)
{
    const char *name = json_string_value(json_object_get(body, "node")), *key;
    const struct book_node *node = name ? book_node_find(&ctl->book, name) : NULL;
    json_t *value;

    if (!node || node->forgotten) {
        (void)error_set(&ret->text, -ENOENT, "no node '%s'", name ? name : "");
        return refuse(ret, -ENOENT, "NotFound");
    }
    json_object_foreach(json_object_get(body, "set"), key, value)
    {
        if (strcmp(key, "rack") == 0 || strcmp(key, "domain") == 0) {
            (void)error_set(&ret->text, -EINVAL, "%s: where a node stands is told by its agent, when it joins", key);
            (void)snprintf(ret->hint, sizeof(ret->hint), "labels in agent.yaml of the node");
            return refuse(ret, -EINVAL, "InvalidSpec");
        }
        if (!label_good(key) ||
            (!json_is_null(value) &&
             (!json_is_string(value) || (*json_string_value(value) && !label_good(json_string_value(value)))))) {
            (void)error_set(&ret->text, -EINVAL, "label '%.40s': letters, digits and -_./, at most 63", key);
            return refuse(ret, -EINVAL, "InvalidSpec");
        }
    }
    if (json_object_size(json_object_get(body, "set")) + json_object_size(node->labels) > 100) {
        (void)error_set(&ret->text, -EINVAL, "a node has at most 100 labels");
        return refuse(ret, -EINVAL, "InvalidSpec");
    }
    return 0;
}

void label_apply(struct ctl *ctl, const json_t *body, struct entry_result *ret)
{
    struct book_node *node;
    const char *key;
    json_t *value;

    if (label_check(ctl, body, ret) < 0)
        return;
    node = node_get(ctl, json_string_value(json_object_get(body, "node")));
    if (!node->labels)
        node->labels = json_object();
    json_object_foreach(json_object_get(body, "set"), key, value)
    {
        if (json_is_null(value))
            (void)json_object_del(node->labels, key);
        else
            (void)json_object_set_new(node->labels, key, json_string(json_string_value(value)));
    }
    if (json_array_size(ctl->book.choices))
        ctl->cluster_dirty = true;
    ctl_event(ctl, "node.labelled", NULL, json_string_value(json_object_get(body, "node")), NULL);
}
