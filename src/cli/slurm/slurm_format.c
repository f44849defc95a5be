/* SPDX-License-Identifier: Apache-2.0 */
/* slurm_format.c - Slurm's format strings, and the texts that its commands share: states, spans, instants.
 *
 * A format is text with "%[.][WIDTH]LETTER": WIDTH cuts and pads, a dot puts to the right.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "cli/fmt.h"
#include "cli/listing.h"
#include "cli/slurm/slurm.h"

struct field_place {
    char letter;
    bool right;
    int width; /* 0 = as long as it is */
};

/* The field at *at, which points behind '%'. */
static struct field_place field_read(const char **at)
{
    struct field_place place = { 0 };

    if (**at == '.') {
        place.right = true;
        (*at)++;
    }
    while (isdigit((unsigned char)**at) && place.width < 1000)
        place.width = place.width * 10 + *(*at)++ - '0';
    place.letter = **at;
    if (**at)
        (*at)++;
    return place;
}

static void field_put(struct buf *out, const struct field_place *place, const char *raw)
{
    CLEANUP(mem_free) char *copy = text_harmless(raw);
    const char *text = copy ? copy : "";
    int length = (int)strlen(text), width = place->width;

    if (width && length > width)
        length = width;
    if (place->right)
        buf_printf(out, "%*s%.*s", width > length ? width - length : 0, "", length, text);
    else
        buf_printf(out, "%.*s%*s", length, text, width > length ? width - length : 0, "");
}

/* One line of the format; item NULL: of headers. A letter there is not is a usage error. */
static int line_put(const struct command_args *args, struct buf *out, const char *format, slurm_letter_fn fn,
                    json_t *item)
{
    for (const char *at = format; *at;) {
        struct field_place place;
        char text[1024];
        const char *found;

        if (*at != '%') {
            buf_char(out, *at++);
            continue;
        }
        at++;
        place = field_read(&at);
        found = fn(item, place.letter, text, sizeof(text));
        if (!found)
            return args_wrong(args, "--format: there is no %%%c here; docs/slurm.md lists the letters", place.letter);
        field_put(out, &place, found);
    }
    while (out->size && out->data[out->size - 1] == ' ')
        out->size--;
    buf_char(out, '\n');
    return 0;
}

int slurm_lines(const struct command_args *args, const char *format, slurm_letter_fn fn, json_t *items)
{
    CLEANUP_BUF struct buf out = BUF_INIT((size_t)256 << 20);
    json_t *item;
    size_t i;
    int r = 0;

    if (!args_has(args, "noheader"))
        r = line_put(args, &out, format, fn, NULL);
    json_array_foreach(items, i, item) if (r == 0) r = line_put(args, &out, format, fn, item);
    if (r == 0 && out.size)
        (void)fwrite(out.data, 1, out.size, stdout);
    return r;
}

/* Slurm's letters of our states. */
const char *slurm_state_short(const char *state)
{
    static const char *const names[][2] = {
        { "PENDING", "PD" },    { "STARTING", "CF" },  { "RUNNING", "R" },    { "SUSPENDED", "S" },
        { "COMPLETING", "CG" }, { "COMPLETED", "CD" }, { "FAILED", "F" },     { "CANCELLED", "CA" },
        { "TIMEOUT", "TO" },    { "PREEMPTED", "PR" }, { "NODE_FAIL", "NF" }, { "OUT_OF_MEMORY", "OOM" },
        { "DEADLINE", "DL" },
    };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(names[i][0], state) == 0)
            return names[i][1];
    return state;
}

const char *slurm_state(const char *state)
{
    return strcmp(state, "STARTING") == 0 ? "CONFIGURING" : state;
}

/* 1-02:03:04; below an hour 2:03, as squeue writes spans. */
const char *slurm_span(int64_t seconds, char *text, size_t size)
{
    if (seconds >= 86400)
        (void)snprintf(text, size, "%lld-%02lld:%02lld:%02lld", (long long)(seconds / 86400),
                       (long long)(seconds / 3600 % 24), (long long)(seconds / 60 % 60), (long long)(seconds % 60));
    else if (seconds >= 3600)
        (void)snprintf(text, size, "%lld:%02lld:%02lld", (long long)(seconds / 3600), (long long)(seconds / 60 % 60),
                       (long long)(seconds % 60));
    else
        (void)snprintf(text, size, "%lld:%02lld", (long long)(seconds / 60), (long long)(seconds % 60));
    return text;
}

/* 1-02:03:04, 00:02:03, as scontrol and sacct write them. */
const char *slurm_span_long(int64_t seconds, char *text, size_t size)
{
    if (seconds >= 86400)
        return slurm_span(seconds, text, size);
    (void)snprintf(text, size, "%02lld:%02lld:%02lld", (long long)(seconds / 3600), (long long)(seconds / 60 % 60),
                   (long long)(seconds % 60));
    return text;
}

const char *slurm_stamp(json_t *json, const char *key, const char *none, char *text, size_t size)
{
    char made[FMT_MAX];

    if (!fmt_time(json, key))
        return none;
    (void)snprintf(text, size, "%s", fmt_stamp(fmt_time(json, key), made));
    for (char *c = text; *c; c++)
        *c = *c == ' ' ? 'T' : *c;
    return text;
}

const char *slurm_number(int64_t value, char *text, size_t size)
{
    (void)snprintf(text, size, "%lld", (long long)value);
    return text;
}
