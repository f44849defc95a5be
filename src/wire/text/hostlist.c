/* SPDX-License-Identifier: Apache-2.0 */
/* hostlist.c - see hostlist.h. Only the last run of digits of a name is folded; that is how people number nodes. */
#include "wire/text/hostlist.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire/text/suggest.h"

enum { DIGITS_MAX = 9, NAME_MAX_BYTES = 256 };

struct host {
    size_t prefix, digits; /* bytes before the number; bytes of it; 0 digits: none */
    uint64_t number;
    const char *tail;
};

static struct host host_of(const char *name)
{
    struct host host = { .prefix = strlen(name), .tail = "" };
    size_t end = host.prefix, start;

    while (end > 0 && !isdigit((unsigned char)name[end - 1]))
        end--;
    start = end;
    while (start > 0 && isdigit((unsigned char)name[start - 1]))
        start--;
    if (end == start || end - start > DIGITS_MAX)
        return host;
    host.prefix = start;
    host.digits = end - start;
    host.tail = name + end;
    for (size_t i = start; i < end; i++)
        host.number = host.number * 10 + (uint64_t)(name[i] - '0');
    return host;
}

static int host_compare(const void *a, const void *b)
{
    const char *one = *(const char *const *)a, *two = *(const char *const *)b;
    struct host x = host_of(one), y = host_of(two);
    size_t least = x.prefix < y.prefix ? x.prefix : y.prefix;
    int order = strncmp(one, two, least);

    if (order == 0)
        order = (x.prefix > y.prefix) - (x.prefix < y.prefix);
    if (order == 0)
        order = strcmp(x.tail, y.tail);
    if (order == 0)
        order = (x.digits > y.digits) - (x.digits < y.digits);
    if (order == 0)
        order = (x.number > y.number) - (x.number < y.number);
    return order ? order : strcmp(one, two);
}

static bool same_bracket(const char *a, struct host x, const char *b, struct host y)
{
    return x.digits && x.digits == y.digits && x.prefix == y.prefix && strncmp(a, b, x.prefix) == 0 &&
           strcmp(x.tail, y.tail) == 0;
}

static void range_put(struct buf *out, struct host from, uint64_t to)
{
    buf_printf(out, "%0*llu", (int)from.digits, (unsigned long long)from.number);
    if (to > from.number)
        buf_printf(out, "-%0*llu", (int)from.digits, (unsigned long long)to);
}

/* The numbers of one bracket, names[0..count). */
static void numbers_put(struct buf *out, const char **names, size_t count)
{
    struct host from = host_of(names[0]);
    uint64_t to = from.number;

    for (size_t i = 1; i < count; i++) {
        struct host next = host_of(names[i]);

        if (next.number == to)
            continue;
        if (next.number > to + 1) {
            range_put(out, from, to);
            buf_char(out, ',');
            from = next;
        }
        to = next.number;
    }
    range_put(out, from, to);
}

void hostlist_put(struct buf *out, const char **names, size_t count)
{
    if (count == 0)
        return;
    qsort(names, count, sizeof(*names), host_compare);
    for (size_t i = 0, next; i < count; i = next) {
        struct host host = host_of(names[i]);

        for (next = i + 1; next < count && same_bracket(names[i], host, names[next], host_of(names[next]));)
            next++;
        if (i > 0)
            buf_char(out, ',');
        if (next - i == 1 || host_of(names[next - 1]).number == host.number) {
            buf_text(out, names[i]);
            continue;
        }
        buf_put(out, names[i], host.prefix);
        buf_char(out, '[');
        numbers_put(out, names + i, next - i);
        buf_printf(out, "]%s", host.tail);
    }
}

struct walk {
    const char *text; /* for messages */
    int (*each)(void *arg, const char *name);
    void *arg;
    size_t count;
    struct error *err;
};

static int walk_fail(const struct walk *walk)
{
    char shown[SHOWN_MAX];

    return error_set(walk->err, -EINVAL, "expected names such as gpu07 or gpu[01-04,09], got '%s'",
                     suggest_shown(walk->text, strlen(walk->text), shown));
}

static int name_give(struct walk *walk, const char *name)
{
    if (++walk->count > HOSTLIST_MAX)
        return error_set(walk->err, -E2BIG, "more than %d names", HOSTLIST_MAX);
    return walk->each(walk->arg, name);
}

static bool number_read(const char *text, size_t length, uint64_t *ret)
{
    *ret = 0;
    for (size_t i = 0; i < length; i++) {
        if (!isdigit((unsigned char)text[i]))
            return false;
        *ret = *ret * 10 + (uint64_t)(text[i] - '0');
    }
    return length > 0 && length <= DIGITS_MAX;
}

/* PREFIX[NUMBERS]TAIL. */
static int bracket_each(struct walk *walk, const char *word, size_t length, const char *open)
{
    const char *close = memchr(open, ']', length - (size_t)(open - word));
    const char *tail, *at = open + 1;
    char name[NAME_MAX_BYTES];

    if (!close || length >= NAME_MAX_BYTES || memchr(close, '[', length - (size_t)(close - word)))
        return walk_fail(walk);
    tail = close + 1;
    while (at <= close) {
        const char *comma = memchr(at, ',', (size_t)(close - at));
        const char *end = comma ? comma : close;
        const char *dash = memchr(at, '-', (size_t)(end - at));
        uint64_t from, to;
        int width = (int)((dash ? dash : end) - at);

        if (!number_read(at, (size_t)width, &from) || (dash && !number_read(dash + 1, (size_t)(end - dash - 1), &to)))
            return walk_fail(walk);
        for (to = dash ? to : from; from <= to; from++) {
            int r;

            (void)snprintf(name, sizeof(name), "%.*s%0*llu%.*s", (int)(open - word), word, width,
                           (unsigned long long)from, (int)(word + length - tail), tail);
            r = name_give(walk, name);
            if (r < 0)
                return r;
        }
        at = end + 1;
    }
    return 0;
}

int hostlist_each(const char *text, int (*each)(void *arg, const char *name), void *arg, struct error *err)
{
    struct walk walk = { .text = text, .each = each, .arg = arg, .err = err };
    char name[NAME_MAX_BYTES];

    for (const char *word = text;;) {
        const char *end = word, *open = NULL;
        int r;

        for (bool inside = false; *end && (inside || *end != ','); end++) {
            if (*end == '[' && !open)
                open = end;
            inside = *end == '[' || (inside && *end != ']');
        }
        if (end == word || end - word >= NAME_MAX_BYTES)
            return walk_fail(&walk);
        (void)snprintf(name, sizeof(name), "%.*s", (int)(end - word), word);
        r = open ? bracket_each(&walk, word, (size_t)(end - word), open) : name_give(&walk, name);
        if (r < 0)
            return r;
        if (!*end)
            return 0;
        word = end + 1;
    }
}
