/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* json_quick.h - jansson's trees, read and written in one go.
 *
 * jansson takes its input byte by byte and looks for loops in what it writes; a controller that reads and writes a
 * dozen small documents a job spends most of its time there. These two know what such documents look like. The reader
 * takes only what is beyond doubt: for anything else, and for the words of an error, jansson is asked.
 */
#include <jansson.h>
#include <stddef.h>

#include "base/buf.h"

/* 0; -ENOMEM; -EBADMSG: not one of the plain documents this reader knows, which says nothing about whether it is JSON.
 * What is taken is exactly what jansson would take with JSON_REJECT_DUPLICATES | JSON_DECODE_ANY. */
int json_quick_read(const char *data, size_t size, json_t **ret_json) __attribute__((warn_unused_result));

/* The tree as compact JSON; nothing for NULL. A real stays one. The tree must not contain itself. */
void json_put(struct buf *out, const json_t *json);
/* The same as text of its own, to be freed with free() as jansson's is; NULL: no tree, or no memory. */
char *json_text(const json_t *json, size_t *ret_size);
