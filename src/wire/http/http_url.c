/* SPDX-License-Identifier: Apache-2.0 */
/* http_url.c - escapes and queries of request targets. */
#include <errno.h>
#include <string.h>

#include "wire/http/http1.h"

static int hex_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

int http_unescape(char *text, bool plus)
{
    char *out = text;

    while (*out && *out != '%' && (*out != '+' || !plus)) /* most have nothing to be undone */
        out++;
    for (const char *in = out; *in; in++) {
        if (*in == '%') {
            int high = hex_of(in[1]), low = high < 0 ? -1 : hex_of(in[2]);

            if (low < 0 || (high == 0 && low == 0))
                return -EINVAL;
            *out++ = (char)(high * 16 + low);
            in += 2;
        } else {
            *out++ = plus && *in == '+' ? ' ' : *in;
        }
    }
    *out = '\0';
    return 0;
}

bool http_query_next(const char **at, const char **ret_name, size_t *ret_name_size, const char **ret_value,
                     size_t *ret_size)
{
    const char *start = *at, *end, *equals;

    while (*start == '&')
        start++;
    if (!*start)
        return false;
    end = strchrnul(start, '&');
    equals = memchr(start, '=', (size_t)(end - start));
    *ret_name = start;
    *ret_name_size = (size_t)((equals ? equals : end) - start);
    *ret_value = equals ? equals + 1 : end;
    *ret_size = (size_t)(end - *ret_value);
    *at = end;
    return true;
}

bool http_query_find(const char *query, const char *name, size_t nth, const char **ret_value, size_t *ret_size)
{
    const char *at = query, *key;
    size_t key_size, wanted = strlen(name);

    while (http_query_next(&at, &key, &key_size, ret_value, ret_size))
        if (key_size == wanted && memcmp(key, name, wanted) == 0 && nth-- == 0)
            return true;
    return false;
}
