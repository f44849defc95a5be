/* SPDX-License-Identifier: Apache-2.0 */
/* json_position.c - see json_position.h. The text was read before, so its grammar is not checked again; a broken one
 * ends the search early. */
#include "wire/text/json_position.h"

#include <string.h>

struct walk {
    const char *text;
    size_t size, at;
};

static void blanks_skip(struct walk *w)
{
    while (w->at < w->size && strchr(" \t\r\n,:", w->text[w->at]) && w->text[w->at])
        w->at++;
}

static void string_skip(struct walk *w)
{
    for (w->at++; w->at < w->size && w->text[w->at] != '"'; w->at++)
        w->at += w->text[w->at] == '\\';
    w->at += w->at < w->size;
}

/* Over one value; brackets inside are only counted. */
static void value_skip(struct walk *w)
{
    size_t depth = 0;

    do {
        blanks_skip(w);
        if (w->at >= w->size)
            return;
        if (w->text[w->at] == '"') {
            string_skip(w);
        } else if (strchr("[{", w->text[w->at]) && w->text[w->at]) {
            depth++;
            w->at++;
        } else if (strchr("]}", w->text[w->at]) && w->text[w->at]) {
            if (depth == 0)
                return;
            depth--;
            w->at++;
        } else {
            while (w->at < w->size && (!strchr(" \t\r\n,:[]{}\"", w->text[w->at]) || !w->text[w->at]))
                w->at++;
        }
    } while (depth > 0);
}

/* Into the object or array at hand; false: it has no such member. */
static bool member_enter(struct walk *w, const struct json_hop *hop)
{
    size_t length = hop->key ? strlen(hop->key) : 0;

    if (w->at >= w->size || w->text[w->at] != (hop->key ? '{' : '['))
        return false;
    w->at++;
    for (size_t i = 0;; i++) {
        blanks_skip(w);
        if (w->at >= w->size || w->text[w->at] == ']' || w->text[w->at] == '}')
            return false;
        if (!hop->key && i == hop->index)
            return true;
        if (hop->key) {
            bool found = w->size - w->at > length + 1 && memcmp(w->text + w->at + 1, hop->key, length) == 0 &&
                         w->text[w->at + 1 + length] == '"';

            value_skip(w);
            blanks_skip(w);
            if (found)
                return w->at < w->size;
        }
        value_skip(w);
    }
}

struct json_position json_position_find(const char *text, size_t size, const struct json_hop *path, size_t hops)
{
    struct walk w = { text, size, 0 };
    struct json_position place = { 1, 1 };
    size_t found;

    blanks_skip(&w);
    found = w.at;
    for (size_t i = 0; i < hops && member_enter(&w, &path[i]); i++)
        found = w.at;
    for (size_t i = 0; i < found && i < size; i++) {
        place.column = text[i] == '\n' ? 1 : place.column + 1;
        place.line += text[i] == '\n';
    }
    return place;
}
