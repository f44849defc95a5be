/* SPDX-License-Identifier: Apache-2.0 */
/* arena.c - see arena.h. */
#include "cli/client/arena.h"

#include <errno.h>
#include <stddef.h>

#include "base/alloc.h"
#include "wire/text/json_quick.h"

enum { BLOCK_BYTES = 4 << 20 };

struct block {
    struct block *before; /* so that all of them are reachable */
    size_t used, size;
    max_align_t data[];
};

static struct block *last;

static void *arena_take(size_t size)
{
    size_t rounded = (size + sizeof(max_align_t) - 1) / sizeof(max_align_t) * sizeof(max_align_t);
    struct block *block = last;

    if (!block || block->size - block->used < rounded) {
        size_t room = rounded > BLOCK_BYTES ? rounded : BLOCK_BYTES;

        block = mem_zalloc(1, sizeof(*block) + room);
        if (!block)
            return NULL;
        *block = (struct block){ .before = last, .size = room };
        last = block;
    }
    block->used += rounded;
    return (char *)block->data + block->used - rounded;
}

static void arena_leave(void *memory)
{
    (void)memory;
}

void arena_use(void)
{
    json_set_alloc_funcs(arena_take, arena_leave);
}

int arena_read(const char *data, size_t size, json_t **ret_json, struct error *err)
{
    json_error_t problem;
    int r = json_quick_read(data, size, ret_json);

    if (r != -EBADMSG)
        return r < 0 ? error_set(err, r, "the answer: out of memory") : 0;
    *ret_json = json_loadb(data, size, 0, &problem);
    if (*ret_json)
        return 0;
    return error_set(err, json_error_code(&problem) == json_error_out_of_memory ? -ENOMEM : -EBADMSG, "the answer: %s",
                     problem.text);
}
