/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_entry.c - batches of the log: any bytes are refused in words, or are batches that are written as the same bytes,
 * keep to the declaration of their fields, and can be printed. Bytes that begin like JSON are read as an older log. */
#include "ctl/log/entry_json.h"
#include "fuzz.h"

static void check_batch(const struct bytes *bytes, usec_t at, const struct entry *entries, size_t count, bool same)
{
    struct buf again = BUF_INIT((size_t)1 << 24), text = BUF_INIT((size_t)1 << 26);

    batch_encode_begin(&again, at, count);
    for (size_t i = 0; i < count; i++) {
        struct error err = { 0 };

        CHECK(entry_check(&entries[i], &err) == 0);
        CHECK(entry_size(&entries[i]) <= bytes->size * 10 + 100);
        entry_print(&entries[i], &text);
        batch_encode_entry(&again, &entries[i]);
    }
    CHECK(!again.error);
    if (same)
        CHECK(again.size == bytes->size && memcmp(again.data, bytes->data, again.size) == 0);
    buf_done(&again);
    buf_done(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct entry *entries = NULL;
    struct error err = { 0 };
    struct bytes bytes;
    size_t count = 0;
    usec_t at = 0;
    bool present, current;
    int r;

    if (size == 0 || size > 1 << 18)
        return 0;
    bytes = fuzz_copy(data, size);
    present = batch_is(bytes.data, size);
    current = present && size > 1 && bytes.data[1] == ENTRY_VERSION; /* an older one is written in the form of today */
    r = present ? batch_decode(bytes.data, size, &at, &entries, &count, &err)
                : batch_from_json(bytes.data, size, &at, &entries, &count, &err);
    if (r == 0) {
        check_batch(&bytes, at, entries, count, current);
        entries_free(entries, count);
    } else {
        fuzz_check_error(r, &err);
    }
    free(bytes.data);
    return 0;
}
