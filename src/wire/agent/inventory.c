/* SPDX-License-Identifier: Apache-2.0 */
/* inventory.c - see inventory.h. One list of numbers for reading, writing and comparing. */
#include "wire/agent/inventory.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "wire/text/json_quick.h"
#include "wire/text/json_read.h"
#include "wire/text/json_write.h"

#define NUMBERS(X)                                                                                                     \
    X(memory_mib)                                                                                                      \
    X(sockets)                                                                                                         \
    X(groups)                                                                                                          \
    X(cpus)                                                                                                            \
    X(memory_bytes)

static const char *const word_names[INVENTORY_WORDS] = {
    [INVENTORY_FAKE] = "fake",
    [INVENTORY_FENCES] = "fences",
    [INVENTORY_RUNTIMES] = "runtimes",
};

const char *inventory_word_name(enum inventory_word word)
{
    return word_names[word];
}

int64_t inventory_number(int64_t value, int64_t standard)
{
    return value == INVENTORY_NOT_TOLD ? standard : value;
}

void inventory_done(struct inventory *inventory)
{
    for (size_t i = 0; i < inventory->label_count; i++) {
        mem_free(inventory->labels[i].name);
        mem_free(inventory->labels[i].text);
    }
    for (size_t i = 0; i < inventory->gpu_count; i++)
        mem_free(inventory->gpus[i].uuid);
    for (size_t i = 0; i < INVENTORY_WORDS; i++)
        mem_free(inventory->words[i]);
    mem_free(inventory->sku);
    mem_free(inventory->labels);
    mem_free(inventory->gpus);
    *inventory = (struct inventory){ 0 };
}

static char *text_of(const json_t *value)
{
    return json_is_string(value) ? mem_strdup(json_string_value(value)) : NULL;
}

static char *doc_of(const json_t *value)
{
    char *text = json_text(value, NULL), *own = text ? mem_strdup(text) : NULL;

    free(text); /* jansson's */
    return own;
}

static int labels_read(const json_t *labels, struct inventory *ret)
{
    const char *name;
    json_t *value;

    ret->labelled = json_is_object(labels);
    ret->labels = mem_zalloc(json_object_size(labels) + 1, sizeof(*ret->labels));
    if (!ret->labels)
        return -ENOMEM;
    json_object_foreach((json_t *)(uintptr_t)labels, name, value)
    {
        struct inventory_label label = { mem_strdup(name), text_of(value) };

        if (label.name && label.text) {
            ret->labels[ret->label_count++] = label;
            continue;
        }
        mem_free(label.name);
        mem_free(label.text);
        if (json_is_string(value))
            return -ENOMEM;
    }
    return 0;
}

static int gpus_read(const json_t *gpus, struct inventory *ret)
{
    ret->gpus = mem_zalloc(json_array_size(gpus) + 1, sizeof(*ret->gpus));
    if (!ret->gpus)
        return -ENOMEM;
    for (size_t i = 0; i < json_array_size(gpus); i++) {
        const json_t *gpu = json_array_get(gpus, i);

        ret->gpus[ret->gpu_count++] =
            (struct inventory_gpu){ text_of(json_object_get(gpu, "uuid")), json_object_get(gpu, "bad") != NULL };
    }
    return 0;
}

static int64_t number_of(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);

    return json_is_integer(value) ? json_integer_value(value) : INVENTORY_NOT_TOLD;
}

int inventory_read(const char *doc, struct inventory *ret, struct error *err)
{
    struct inventory inventory = { 0 };
    json_t *tree = NULL;
    int r = doc ? json_read("inventory", doc, strlen(doc), &tree, err) : -EINVAL;

    if (r == 0 && !json_is_object(tree))
        r = error_set(err, -EINVAL, "inventory: expected an object");
    if (r == 0)
        r = labels_read(json_object_get(tree, "labels"), &inventory);
    if (r == 0)
        r = gpus_read(json_object_get(tree, "gpus"), &inventory);
#define X(name) inventory.name = number_of(tree, #name);
    NUMBERS(X)
#undef X
    inventory.sku = text_of(json_object_get(tree, "sku"));
    for (int i = 0; i < INVENTORY_WORDS; i++)
        inventory.words[i] = doc_of(json_object_get(tree, word_names[i]));
    json_decref(tree);
    if (r < 0)
        inventory_done(&inventory);
    *ret = inventory;
    return r;
}

static void gpus_put(const struct inventory *inventory, struct json_write *json)
{
    json_write_array(json, "gpus");
    for (size_t i = 0; i < inventory->gpu_count; i++) {
        json_write_object(json, NULL);
        if (inventory->gpus[i].uuid)
            json_write_text(json, "uuid", inventory->gpus[i].uuid);
        if (inventory->gpus[i].bad)
            json_write_bool(json, "bad", true);
        json_write_close(json);
    }
    json_write_close(json);
}

void inventory_put(const struct inventory *inventory, struct buf *out)
{
    struct json_write json;

    json_write_init(&json, out, false);
    json_write_object(&json, NULL);
    if (inventory->sku)
        json_write_text(&json, "sku", inventory->sku);
#define X(name)                                                                                                        \
    if (inventory->name != INVENTORY_NOT_TOLD)                                                                         \
        json_write_i64(&json, #name, inventory->name);
    NUMBERS(X)
#undef X
    if (inventory->labelled) {
        json_write_object(&json, "labels");
        for (size_t i = 0; i < inventory->label_count; i++)
            json_write_text(&json, inventory->labels[i].name, inventory->labels[i].text);
        json_write_close(&json);
    }
    for (size_t i = 0; i < INVENTORY_WORDS; i++)
        if (inventory->words[i])
            json_write_raw(&json, word_names[i], inventory->words[i], strlen(inventory->words[i]));
    gpus_put(inventory, &json);
    json_write_close(&json);
}

const char *inventory_label(const struct inventory *inventory, const char *name)
{
    for (size_t i = 0; i < inventory->label_count; i++)
        if (strcmp(inventory->labels[i].name, name) == 0)
            return inventory->labels[i].text;
    return NULL;
}

bool inventory_like(const struct inventory *a, const struct inventory *b)
{
    if (a->gpu_count != b->gpu_count || !a->sku != !b->sku || (a->sku && strcmp(a->sku, b->sku) != 0))
        return false;
#define X(name)                                                                                                        \
    if (a->name != b->name)                                                                                            \
        return false;
    NUMBERS(X)
#undef X
    if (a->labelled != b->labelled || a->label_count != b->label_count)
        return false;
    for (size_t i = 0; i < a->label_count; i++) {
        const char *other = inventory_label(b, a->labels[i].name);

        if (!other || strcmp(other, a->labels[i].text) != 0)
            return false;
    }
    return true;
}
