/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* fact.h - what an event tells besides its kind and whom it is about: a few named values. */
#include <stdint.h>

enum fact_kind { FACT_TEXT, FACT_NUMBER, FACT_SECONDS, FACT_DOC };

struct ctl_fact {
    const char *name; /* NULL: behind the last */
    enum fact_kind kind;
    const char *text; /* NULL: it has no value. DOC: one JSON document, which is all that is told; its name is "" */
    int64_t number;   /* SECONDS: in microseconds */
};

/* Facts in the order of their names; one that stands for nothing is behind the last. */
#define FACTS(...)                                                                                                     \
    (const struct ctl_fact[])                                                                                          \
    {                                                                                                                  \
        __VA_ARGS__,                                                                                                   \
        {                                                                                                              \
            0                                                                                                          \
        }                                                                                                              \
    }

static inline struct ctl_fact fact_text(const char *name, const char *text)
{
    return (struct ctl_fact){ .name = name, .kind = FACT_TEXT, .text = text };
}

static inline struct ctl_fact fact_number(const char *name, int64_t number)
{
    return (struct ctl_fact){ .name = name, .kind = FACT_NUMBER, .number = number };
}
