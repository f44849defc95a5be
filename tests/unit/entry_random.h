/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* entry_random.h - random entries, made from the declaration of their fields: whatever a field may hold comes up. */
#include <string.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "ctl/state/entry/entry.h"

static inline char *random_text(struct rng *rng, int64_t least, int64_t most)
{
    static const char *const letters[] = { "a", "Z", "7", " ", "\"", "\\", "\n", "\xc3\xa9", "-" };
    size_t bound = most < 40 ? (size_t)most : 40, size = 0, want = rng_below(rng, bound + 1);
    char *text = mem_zalloc(bound + 1, 1);

    want = want < (size_t)least ? (size_t)least : want;
    while (size < want) {
        const char *letter = letters[rng_below(rng, sizeof(letters) / sizeof(*letters))];

        letter = size + strlen(letter) > want ? "a" : letter;
        memcpy(text + size, letter, strlen(letter));
        size += strlen(letter);
    }
    return text;
}

static inline int64_t random_number(struct rng *rng, int64_t least, int64_t most)
{
    uint64_t span = (uint64_t)most - (uint64_t)least;

    switch (rng_below(rng, 4)) {
    case 0:
        return least;
    case 1:
        return most;
    default:
        return (int64_t)((uint64_t)least + (span == UINT64_MAX ? rng_next(rng) : rng_below(rng, span + 1)));
    }
}

static inline void random_list(struct rng *rng, const struct entry_field *field, void *at)
{
    size_t count = rng_below(rng, 5);
    struct text_list *texts = at;
    struct number_list *numbers = at;
    struct change_list *changes = at;

    if (count == 0)
        return;
    if (field->type == FIELD_NUMBERS) {
        *numbers = (struct number_list){ mem_zalloc(count, sizeof(int64_t)), count };
        for (size_t i = 0; i < count; i++)
            numbers->items[i] = random_number(rng, INT64_MIN, INT64_MAX);
    } else if (field->type == FIELD_TEXTS) {
        *texts = (struct text_list){ mem_zalloc(count, sizeof(char *)), count };
        for (size_t i = 0; i < count; i++)
            texts->items[i] = random_text(rng, 0, 40);
    } else {
        *changes = (struct change_list){ mem_zalloc(count, sizeof(struct change)), count };
        for (size_t i = 0; i < count; i++)
            changes->items[i] =
                (struct change){ random_text(rng, 0, 40), rng_below(rng, 2) ? random_text(rng, 0, 40) : NULL };
    }
}

static inline void random_field(struct rng *rng, const struct entry_field *field, void *at)
{
    enum given given = (enum given)rng_below(rng, 3);

    switch ((int)field->type) {
    case FIELD_NUMBER:
        *(int64_t *)at = random_number(rng, field->least, field->most);
        break;
    case FIELD_SCALED:
        *(int64_t *)at = random_number(rng, 0, field->most - 1);
        break;
    case FIELD_FLAG:
        *(bool *)at = rng_below(rng, 2);
        break;
    case FIELD_TEXT:
        if (field->least || rng_below(rng, 4))
            *(char **)at = random_text(rng, field->least, field->most);
        break;
    case FIELD_DOC:
        if (field->least || rng_below(rng, 4))
            *(char **)at = mem_strdup(rng_below(rng, 2) ? "{\"a\":[1,\"b\"]}" : "{}");
        break;
    case FIELD_WORD:
        if (rng_below(rng, 3))
            *(struct opt_number *)at = (struct opt_number){ GIVEN_VALUE, (int64_t)rng_below(rng, 2) };
        break;
    case FIELD_OPT_NUMBER:
        *(struct opt_number *)at =
            (struct opt_number){ given, given == GIVEN_VALUE ? random_number(rng, field->least, field->most) : 0 };
        break;
    case FIELD_HIDDEN:
        given = given == GIVEN_NOT ? GIVEN_VALUE : given; /* has to be said */
        *(struct opt_text *)at =
            (struct opt_text){ given, given == GIVEN_VALUE ? random_text(rng, 0, field->most) : NULL };
        break;
    case FIELD_OPT_TEXT:
        *(struct opt_text *)at =
            (struct opt_text){ given, given == GIVEN_VALUE ? random_text(rng, field->least, field->most) : NULL };
        break;
    default:
        random_list(rng, field, at);
    }
}

static inline void random_entry(struct rng *rng, enum entry_kind kind, struct entry *ret)
{
    const struct field_list *list = entry_fields(kind);

    entry_init(ret, kind);
    for (size_t i = 0; i < list->count; i++)
        random_field(rng, &list->fields[i], (char *)entry_record(ret) + list->fields[i].offset);
}
