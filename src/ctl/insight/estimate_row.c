/* SPDX-License-Identifier: Apache-2.0 */
/* estimate_row.c - see estimate_row.h. The program of a job is the first script its command names, else its first word;
 * words --key=value of the command become features of their own (learn/dataset.h). */
#include "ctl/insight/estimate_row.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "wire/job/roles.h"

enum { COMMAND_MAX = 2000, WORD_MAX = 120 };

/* Its script; of several roles that of the first with GPUs. */
static const char *script_of(const struct submission *s)
{
    for (size_t r = 0; r < s->role_count; r++)
        if (s->roles[r].gpus)
            return s->roles[r].run;
    return s->run;
}

/* What runs, on one line, without comments. */
static void command_of(const struct submission *s, char *out)
{
    size_t n = 0;

    for (const char *line = script_of(s); line && *line && n < COMMAND_MAX;) {
        size_t length = strcspn(line, "\n");

        if (*line != '#')
            n += (size_t)snprintf(out + n, COMMAND_MAX + 1 - n, "%s%.*s", n ? " " : "", (int)length, line);
        n = n > COMMAND_MAX ? COMMAND_MAX : n;
        line += length + (line[length] == '\n');
    }
    for (size_t i = 0; i < s->arg_count && n < COMMAND_MAX; i++) {
        n += (size_t)snprintf(out + n, COMMAND_MAX + 1 - n, "%s%s", n ? " " : "", s->args[i]);
        n = n > COMMAND_MAX ? COMMAND_MAX : n;
    }
    out[n] = '\0';
}

static void program_of(const char *command, char *out)
{
    const char *first = command + strspn(command, " \t"), *at = first, *found = NULL;
    size_t length = 0;

    while (*at && !found) {
        size_t word = strcspn(at, " \t;&|");

        if (word > 3 && word < WORD_MAX &&
            (memcmp(at + word - 3, ".py", 3) == 0 || memcmp(at + word - 3, ".sh", 3) == 0)) {
            found = at;
            length = word;
        }
        at += word;
        at += strspn(at, " \t;&|");
    }
    if (!found) {
        found = first;
        length = strcspn(first, " \t;&|");
    }
    for (size_t i = length; i > 0; i--)
        if (found[i - 1] == '/') {
            found += i;
            length -= i;
            break;
        }
    (void)snprintf(out, WORD_MAX, "%.*s", (int)(length < WORD_MAX ? length : WORD_MAX - 1), found);
}

/* Quoted, so that any text is one field; control characters are blanks. Nothing is a dash: no field is empty. */
static void field_put(struct buf *out, const char *text)
{
    buf_char(out, '"');
    for (const char *c = text && *text ? text : "-"; *c; c++) {
        if (*c == '"')
            buf_char(out, '"');
        buf_char(out, (unsigned char)*c < 32 || *c == 127 ? ' ' : *c);
    }
    buf_text(out, "\",");
}

static double used_of(const json_t *used, const char *key)
{
    return json_number_value(json_object_get(used, key));
}

char *estimate_row(const char *user, const struct submission *spec, double seconds, const json_t *used)
{
    struct buf out = BUF_INIT(65536);
    char command[COMMAND_MAX + 1] = "", program[WORD_MAX];
    int64_t gpus = spec->role_count ? (int64_t)roles_gpus(spec) : spec->gpus ? spec->gpus : 1;
    char *line = NULL;

    if (!(seconds > 0) || spec->emulate_run)
        return NULL;
    command_of(spec, command);
    program_of(command, program);
    field_put(&out, program);
    field_put(&out, spec->image);
    field_put(&out, user);
    field_put(&out, spec->vc);
    field_put(&out, spec->gpu_selector);
    buf_printf(&out, "%lld,%d,%d,%.0f,", (long long)(spec->gpus_per_node && spec->nodes ? gpus * spec->nodes : gpus),
               spec->nodes, spec->priority, (double)spec->time / (double)USEC_SEC);
    field_put(&out, command);
    buf_printf(&out, "%.6f,%.0f,%.2f,%.2f\n", seconds, used_of(used, "memory_mib"), used_of(used, "utilisation"),
               used_of(used, "utilisation_dev"));
    buf_char(&out, '\0');
    if (!out.error)
        line = mem_strdup(out.data);
    buf_done(&out);
    return line;
}
