/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/1.1: the same bytes whole and in pieces give the same messages and are refused alike; limits hold. */
#include "fuzz.h"
#include "wire/http/http1.h"

static const struct http_limits limits = {
    .target_max = 64, .head_bytes_max = 256, .head_count_max = 8, .body_max = 64
};

/* A digest of what was read, piece by piece. */
static uint64_t read_all(const uint8_t *data, size_t size, size_t piece, enum http_side side)
{
    struct http_reader *reader = NULL;
    struct error err;
    uint64_t sum = 7;
    size_t at = 0, used = 0;
    int r = 0;

    CHECK(http_reader_new(side, &limits, &reader) == 0);
    while (at < size && r >= 0) {
        size_t length = piece < size - at ? piece : size - at;
        struct bytes copy = fuzz_copy(data + at, length);
        const struct http_message *m = http_reader_message(reader);

        r = http_reader_feed(reader, copy.data, length, &used, &err);
        CHECK(used <= length);
        CHECK(r != 0 || used == length);
        if (r < 0)
            fuzz_check_error(r, &err);
        if (r == 1) {
            CHECK(m->head_count <= limits.head_count_max);
            CHECK(m->body_size <= limits.body_max);
            CHECK(side == HTTP_RESPONSES || strlen(m->target) <= limits.target_max);
            sum = sum * 31 + m->head_count * 7 + m->body_size;
            for (size_t i = 0; i < m->head_count; i++)
                sum = sum * 31 + strlen(m->heads[i].name) * 3 + strlen(m->heads[i].value);
            (void)http_header(m, "upgrade");
            (void)http_list_has(http_header(m, "connection"), "close");
            http_reader_next(reader);
        }
        at += used;
        bytes_done(&copy);
        if (r == 1 && used == 0)
            break;
    }
    if (r < 0)
        sum = sum * 31 + 1; /* which of two faults is met first depends on the pieces */
    else
        (void)http_reader_end(reader, &err);
    http_reader_free(reader);
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t piece = size ? data[0] % 16 + 1 : 1;
    char *text;

    for (int side = 0; side < 2; side++)
        CHECK(read_all(data, size, size + 1, (enum http_side)side) ==
              read_all(data, size, piece, (enum http_side)side));
    text = malloc(size + 1);
    CHECK(text);
    memcpy(text, data, size);
    text[size] = '\0';
    if (http_unescape(text, true) == 0)
        CHECK(strlen(text) <= size);
    free(text);
    return 0;
}
