/* SPDX-License-Identifier: Apache-2.0 */
/* error.c - see error.h. Text that does not fit ends in "..." rather than being lost without a sign. */
#include "base/error.h"

#include <stdio.h>
#include <string.h>

#undef error_set
#undef error_prefix

static void mark_cut(char *text, int wanted)
{
    if (wanted >= ERROR_TEXT_MAX)
        memcpy(text + ERROR_TEXT_MAX - 4, "...", 4);
}

int error_set(struct error *err, int code, const char *format, ...)
{
    va_list args;

    if (!err)
        return code;
    err->code = code;
    va_start(args, format);
    mark_cut(err->text, vsnprintf(err->text, sizeof(err->text), format, args));
    va_end(args);
    return code;
}

int error_prefix(struct error *err, int code, const char *format, ...)
{
    char tail[ERROR_TEXT_MAX];
    va_list args;
    int head;

    if (!err)
        return code;
    err->code = code;
    memcpy(tail, err->text, sizeof(tail));
    va_start(args, format);
    head = vsnprintf(err->text, sizeof(err->text), format, args);
    va_end(args);
    if (head < 0 || head >= ERROR_TEXT_MAX) {
        mark_cut(err->text, head);
        return code;
    }
    mark_cut(err->text, head + snprintf(err->text + head, sizeof(err->text) - (size_t)head, ": %s", tail));
    return code;
}
