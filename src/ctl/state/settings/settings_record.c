/* SPDX-License-Identifier: Apache-2.0 */
/* settings_record.c - see settings_record.h. */
#include "ctl/state/settings/settings_record.h"

#include <assert.h>
#include <errno.h>

#define FIELD(record, type, member, name, tag, since, least, most, expects)                                            \
    { name, FIELD_##type, tag, since, (uint16_t)offsetof(record, member), least, most, expects },
#define X(code, member, type, declared)                                                                                \
    static const struct entry_field member##_fields[] = { declared(FIELD, type) };                                     \
    static const struct field_list member##_list = { member##_fields,                                                  \
                                                     sizeof(member##_fields) / sizeof(member##_fields[0]) };
KEPT_LISTS(X)
#undef X
#undef FIELD

void kept_init(struct kept_lists *lists)
{
#define X(code, member, type, declared)                                                                                \
    lists->member = (struct record_list){ .fields = &member##_list, .size = sizeof(type) };
    KEPT_LISTS(X)
#undef X
}

struct record_list *kept_list(struct kept_lists *lists, enum kept_list which)
{
    struct record_list *all[KEPT_COUNT] = {
#define X(code, member, type, declared) [KEPT_##code] = &lists->member,
        KEPT_LISTS(X)
#undef X
    };

    assert(which < KEPT_COUNT);
    return all[which];
}

void kept_done(struct kept_lists *lists)
{
    for (int i = 0; i < KEPT_COUNT; i++)
        record_list_done(kept_list(lists, (enum kept_list)i));
}

void kept_encode(const struct kept_lists *lists, struct buf *out)
{
#define X(code, member, type, declared) record_list_encode(&lists->member, out);
    KEPT_LISTS(X)
#undef X
}

int kept_decode(struct kept_lists *lists, uint32_t version, const char *data, size_t size, struct error *err)
{
    int r = 0;

    for (int i = 0; i < KEPT_COUNT && r == 0; i++) {
        size_t used = 0;

        r = record_list_decode(kept_list(lists, (enum kept_list)i), version, data, size, &used, err);
        data += used;
        size -= used;
    }
    return r == 0 && size > 0 ? error_set(err, -EBADMSG, "bytes after its last list") : r;
}
