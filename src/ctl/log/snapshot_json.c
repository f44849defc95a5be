/* SPDX-License-Identifier: Apache-2.0 */
/* snapshot_json.c - snapshots of former versions in the present form (snapshot.h). At first all of the registry was
 * JSON; then limits, secrets, webhooks, reservations, choices of nodes, licences and labels were records, behind a
 * magic. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "ctl/log/entry_json.h"
#include "ctl/log/snapshot_book.h"
#include "ctl/state/settings/settings_record.h"
#include "ctl/state/state.h"
#include "wire/text/json_read.h"

#define SNAPSHOT_BYTES_MAX ((size_t)1 << 31)
#define MAGIC_LISTS "MUSTER2\n"

static int no_memory(struct error *err)
{
    return error_set(err, -ENOMEM, "no memory for a snapshot");
}

/* A list of objects that say all of a record. */
static int list_read(struct record_list *list, const json_t *items, struct error *err)
{
    for (size_t i = 0; i < json_array_size(items); i++) {
        void *record = record_add(list);

        if (!record)
            return no_memory(err);
        if (record_from_json(list->fields, json_array_get(items, i), record, err) < 0)
            return err->code;
    }
    return 0;
}

static int limits_read(struct record_list *list, const json_t *users, struct error *err)
{
    const char *user;
    json_t *item;

    json_object_foreach((json_t *)(uintptr_t)users, user, item)
    {
        struct entry_limits *limits = record_add(list);

        if (!limits)
            return no_memory(err);
        limits->user = entry_text(user);
        if (record_from_json(list->fields, item, limits, err) < 0)
            return err->code;
    }
    return 0;
}

static int secrets_read(struct record_list *list, const json_t *users, struct error *err)
{
    const char *user, *name;
    json_t *names, *value;

    json_object_foreach((json_t *)(uintptr_t)users, user, names)
    {
        json_object_foreach(names, name, value)
        {
            struct entry_secret *secret = record_add(list);

            if (!secret)
                return no_memory(err);
            *secret = (struct entry_secret){ .user = entry_text(user),
                                             .name = entry_text(name),
                                             .value = { GIVEN_VALUE, entry_text(json_string_value(value)) } };
            if (record_check(list->fields, secret, err) < 0)
                return err->code;
        }
    }
    return 0;
}

static int licenses_read(struct record_list *list, const json_t *names, struct error *err)
{
    for (size_t i = 0; i < json_array_size(names); i++) {
        struct ctl_license *license = record_add(list);

        if (!license)
            return no_memory(err);
        license->name = entry_text(json_string_value(json_array_get(names, i)));
    }
    return 0;
}

static int labels_read(struct record_list *list, const json_t *nodes, struct error *err)
{
    for (size_t i = 0; i < json_array_size(nodes); i++) {
        const json_t *own = json_object_get(json_array_get(nodes, i), "labels");
        struct ctl_labels *labels = json_object_size(own) ? record_add(list) : NULL;
        json_t *object;
        int r;

        if (json_object_size(own) == 0)
            continue;
        object = json_pack("{s:O}", "labels", own);
        r = labels && object ? record_from_json(list->fields, object, labels, err) : no_memory(err);
        json_decref(object);
        if (r < 0)
            return r;
        labels->node = (int64_t)i;
    }
    return 0;
}

static int lists_read(struct kept_lists *lists, const json_t *registry, struct error *err)
{
    int r = limits_read(&lists->limits, json_object_get(registry, "limits"), err);

    if (r == 0)
        r = secrets_read(&lists->secrets, json_object_get(registry, "secrets"), err);
    if (r == 0)
        r = list_read(&lists->hooks, json_object_get(registry, "hooks"), err);
    if (r == 0)
        r = list_read(&lists->choices, json_object_get(registry, "choices"), err);
    if (r == 0)
        r = list_read(&lists->resvs, json_object_get(registry, "reservations"), err);
    if (r == 0)
        r = licenses_read(&lists->licenses, json_object_get(registry, "licenses"), err);
    if (r == 0)
        r = labels_read(&lists->labels, json_object_get(registry, "nodes"), err);
    return r;
}

/* A part with its size before it; NULL: cut short. */
static const char *part_take(const char **data, size_t *left, size_t *ret_size)
{
    const char *part = *data + sizeof(uint64_t);
    uint64_t length = 0;

    if (*left >= sizeof(length))
        memcpy(&length, *data, sizeof(length));
    if (*left < sizeof(length) || length > *left - sizeof(length))
        return NULL;
    *ret_size = (size_t)length;
    *data = part + length;
    *left -= sizeof(length) + (size_t)length;
    return part;
}

/* The lists in their present form: those that had it already, as `had`, and what has joined them since. */
static int kept_write(const json_t *registry, const char *had, size_t had_size, struct buf *out, struct error *err)
{
    struct kept_lists lists;
    int r;

    kept_init(&lists);
    r = snapshot_skus(registry, &lists.skus) < 0 ? no_memory(err) : 0;
    if (r == 0 && !had)
        r = lists_read(&lists, registry, err);
    if (r == 0 && had) {
        buf_put(out, had, had_size);
        record_list_encode(&lists.skus, out);
    } else if (r == 0) {
        kept_encode(&lists, out);
    }
    kept_done(&lists);
    return r;
}

static int parts_write(const json_t *registry, const char *had, size_t had_size, struct buf *out, struct error *err)
{
    CLEANUP_BUF struct buf part = BUF_INIT(SNAPSHOT_BYTES_MAX);
    int r = snapshot_book(registry, &part, err);

    saved_begin(out);
    saved_part(out, part.data, part.size);
    buf_clear(&part);
    if (r == 0)
        r = kept_write(registry, had, had_size, &part, err);
    saved_part(out, part.data, part.size);
    if (r == 0 && part.error)
        r = no_memory(err);
    buf_clear(&part);
    if (r == 0)
        r = snapshot_jobs(registry, &part, err);
    saved_part(out, part.data, part.size);
    return r;
}

int snapshot_from_json(const char *data, size_t size, struct buf *out, struct error *err)
{
    size_t length = 0, had_size = 0;
    bool lists = size >= sizeof(MAGIC_LISTS) - 1 && memcmp(data, MAGIC_LISTS, sizeof(MAGIC_LISTS) - 1) == 0;
    const char *text, *had = NULL;
    json_t *registry = NULL;
    int r;

    if (lists) {
        data += sizeof(MAGIC_LISTS) - 1;
        size -= sizeof(MAGIC_LISTS) - 1;
    }
    text = part_take(&data, &size, &length);
    had = text && lists ? part_take(&data, &size, &had_size) : NULL;
    if (!text || (lists && !had))
        return error_set(err, -EBADMSG, "snapshot: cut short");
    r = json_read("snapshot", text, length, &registry, err);
    if (r < 0)
        return r;
    r = parts_write(registry, had, had_size, out, err);
    json_decref(registry);
    buf_put(out, data, size); /* the core's */
    if (r == 0 && out->error)
        r = no_memory(err);
    return r < 0 ? error_prefix(err, r, "snapshot") : 0;
}
