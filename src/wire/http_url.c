/* SPDX-License-Identifier: Apache-2.0 */
/* http_url.c - escapes and queries of request targets. */
#include <errno.h>
#include <string.h>

#include "wire/http1.h"

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

    for (const char *in = text; *in; in++) {
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
    const char *p = *at + strspn(*at, "&");
    size_t pair = strcspn(p, "&"), name = strcspn(p, "=&");

    if (!*p)
        return false;
    *ret_name = p;
    *ret_name_size = name;
    *ret_value = name < pair ? p + name + 1 : p + name;
    *ret_size = name < pair ? pair - name - 1 : 0;
    *at = p + pair;
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
