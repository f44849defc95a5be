/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* progress.h - what a job says of how far it is: `step=120 loss=0.731`, and further words, in any order.
 *
 * On MUSTER_SOCKET, by `muster progress`, and by patterns from its output. All of it is what a program says of itself:
 * numbers are checked, and nothing is believed that would not fit.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* X(bit, name, least, most): each is kept in units below. A loss may be negative. */
#define PROGRESS_WORDS(X)                                                                                              \
    X(STEP, "step", 0, PROGRESS_COUNT_MAX)                 /* mini-batches done */                                     \
    X(SAMPLES, "samples", 0, PROGRESS_COUNT_MAX)           /* of the data, done */                                     \
    X(TOTAL, "total", 1, PROGRESS_COUNT_MAX)               /* steps in all */                                          \
    X(EPOCH, "epoch", 0, PROGRESS_EPOCH_MAX)               /* passes over the data, with a fraction; in thousandths */ \
    X(LOSS, "loss", -PROGRESS_LOSS_MAX, PROGRESS_LOSS_MAX) /* in billionths */                                         \
    X(RANK, "rank", 0, 65535)                              /* of the process that says it */

#define PROGRESS_COUNT_MAX ((int64_t)1000000000000)
#define PROGRESS_EPOCH_MAX ((int64_t)1000000000)
#define PROGRESS_LOSS_MAX ((int64_t)9000000000000000000)

enum progress_word {
#define X(bit, name, least, most) PROGRESS_##bit,
    PROGRESS_WORDS(X)
#undef X
        PROGRESS_WORD_COUNT
};

struct progress_line {
    uint32_t given; /* bits by enum progress_word */
    int64_t value[PROGRESS_WORD_COUNT];
};

static inline bool progress_has(const struct progress_line *line, enum progress_word word)
{
    return line->given >> word & 1;
}

const char *progress_name(enum progress_word word);
int progress_find(const char *name, size_t size); /* -ENOENT */
/* One value, such as "0.731"; -EINVAL and nothing is set where it is no number, or out of bounds. */
int progress_set(struct progress_line *line, enum progress_word word, const char *text, size_t size);
/* Words that are not known, or whose value is no number, are passed over. Whether anything was given. */
bool progress_parse(const char *text, size_t size, struct progress_line *ret);
