/* SPDX-License-Identifier: Apache-2.0 */
/* Frames: any bytes give the same frames whole and in pieces, and what is taken can be written and taken again. */
#include "fuzz.h"
#include "wire/agent/agent_msg.h"

enum { LIMIT = 4096 };

/* Feeds in pieces; puts what was taken, framed anew, into `out`. Returns 0 or the failure. */
static int take_all(const uint8_t *data, size_t size, size_t piece, struct buf *out)
{
    struct frame_reader reader;
    struct error err = { 0 };
    int r = 0;

    frame_reader_init(&reader, LIMIT);
    for (size_t at = 0; at < size && r >= 0; at += piece) {
        struct bytes part = fuzz_copy(data + at, at + piece > size ? size - at : piece);
        const char *frame;
        size_t length;

        r = frame_reader_feed(&reader, part.data, part.size, &err);
        bytes_done(&part);
        while (r >= 0 && (r = frame_reader_next(&reader, &frame, &length, &err)) == 1) {
            CHECK(length > 0 && length <= LIMIT);
            CHECK(frame_write(out, frame, length, &err) == 0);
        }
    }
    if (r < 0)
        fuzz_check_error(r, &err);
    frame_reader_done(&reader);
    return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buf whole = BUF_INIT(1 << 24), pieces = BUF_INIT(1 << 24);
    int r;

    if (size == 0 || size > 1 << 18)
        return 0;
    r = take_all(data, size, size, &whole);
    CHECK(take_all(data, size, 1 + data[size - 1] % 7, &pieces) == r);
    CHECK(whole.size == pieces.size);
    if (whole.size) {
        CHECK(memcmp(whole.data, pieces.data, whole.size) == 0);
        CHECK(whole.size <= size && memcmp(whole.data, data, whole.size) == 0);
    }
    buf_done(&whole);
    buf_done(&pieces);
    return 0;
}
