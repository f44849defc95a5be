/* SPDX-License-Identifier: Apache-2.0 */
/* history.c - see history.h. */
#include "sim/history.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "io/file.h"
#include "wire/text/decimal.h"

/* The service on one line; 0 = a header or nothing. */
static int read_line(const char *path, size_t number, const char *text, size_t length, svc_t *ret, struct error *err)
{
    if (length && text[length - 1] == '\r')
        length--;
    if (length == 0) {
        *ret = 0;
        return 0;
    }
    if (decimal_parse(text, length, USEC_SEC, ret) == 0 && *ret > 0)
        return 0;
    if (number == 1 && strchr("0123456789+-.", text[0]) == NULL) {
        *ret = 0;
        return 0;
    }
    return error_set(err, -EINVAL, "%s:%zu:1: expected GPU-seconds above 0, got '%.*s'", path, number,
                     length > 40 ? 40 : (int)length, text);
}

int history_read(const char *path, svc_t **ret_services, size_t *ret_count, struct error *err)
{
    CLEANUP_BYTES struct bytes bytes = { 0 };
    size_t lines = 1, count = 0, number = 1;
    svc_t *services;
    int r = file_read(path, 0, &bytes, err);

    if (r < 0)
        return r;
    for (size_t i = 0; i < bytes.size; i++)
        lines += bytes.data[i] == '\n';
    if (lines > HISTORY_LINES_MAX)
        return error_set(err, -E2BIG, "%s: more than %d lines", path, HISTORY_LINES_MAX);
    services = mem_zalloc(lines, sizeof(*services));
    if (!services)
        return error_set(err, -ENOMEM, "no memory for a history of %zu jobs", lines);
    for (size_t at = 0; at < bytes.size && r == 0; number++) {
        const char *line = bytes.data + at, *end = memchr(line, '\n', bytes.size - at);
        size_t length = end ? (size_t)(end - line) : bytes.size - at;

        r = read_line(path, number, line, length, &services[count], err);
        count += r == 0 && services[count] > 0;
        at += length + 1;
    }
    if (r == 0 && count == 0)
        r = error_set(err, -EINVAL, "%s: no service in it; expected GPU-seconds, one a line", path);
    if (r < 0) {
        mem_free(services);
        return r;
    }
    *ret_services = services;
    *ret_count = count;
    return 0;
}
