/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* inventory.h - what a node says it has when it joins: docs/protocol.md, "hello". */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

enum { INVENTORY_NOT_TOLD = INT32_MIN };

struct inventory_gpu {
    char *uuid; /* NULL: not told */
    bool bad;   /* it is out of order */
};

struct inventory_label {
    char *name, *text;
};

/* What is told to people as the node has said it, as JSON. NULL: not told. */
enum inventory_word { INVENTORY_FAKE, INVENTORY_FENCES, INVENTORY_RUNTIMES, INVENTORY_WORDS };

/* Numbers that were not told are INVENTORY_NOT_TOLD. What it points to is its own. */
struct inventory {
    char *sku; /* type of its GPUs; NULL: not told */
    int64_t sockets, groups, cpus;
    int64_t memory_mib;   /* of a GPU */
    int64_t memory_bytes; /* of the node */
    struct inventory_label *labels;
    size_t label_count;
    bool labelled; /* labels were told, be it none */
    struct inventory_gpu *gpus;
    size_t gpu_count;
    char *words[INVENTORY_WORDS];
};

/* Unknown keys are passed over, and values of another type count as not told. -EINVAL: no object. */
int inventory_read(const char *doc, struct inventory *ret, struct error *err);
void inventory_done(struct inventory *inventory);
/* As JSON; reading it gives an equal one. */
void inventory_put(const struct inventory *inventory, struct buf *out);

const char *inventory_word_name(enum inventory_word word);
int64_t inventory_number(int64_t value, int64_t standard);                        /* `standard` where it was not told */
const char *inventory_label(const struct inventory *inventory, const char *name); /* NULL */
/* Whether a scheduler would take one for the other: type, sizes, labels. */
bool inventory_like(const struct inventory *a, const struct inventory *b);
