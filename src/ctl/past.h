/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* past.h - jobs that are over and that the book no longer has: those of before the last start, and the oldest.
 *
 * Read from the store when somebody asks for one, and kept for a while beside the book: nothing of this is state.
 */
#include "ctl/book.h"
#include "ctl/ctl.h"
#include "ctl/http_server.h"

struct past;
struct server;

int past_new(struct server *server, struct past **ret_past);
void past_free(struct past *past);

const struct book_job *past_find(const struct past *past, int64_t id);
const struct book_job *past_element(const struct past *past, int64_t array, int64_t index);

/* Whether this asks for a job that the store may have: then it is looked for, and again(request) is called. */
bool past_fetch(struct past *past, struct request *request, void (*again)(struct request *request));

/* A job as the store has it. NULL: it cannot be read. */
struct book_job *past_read(const struct ctl *ctl, const json_t *record);
