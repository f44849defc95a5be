/* SPDX-License-Identifier: Apache-2.0 */
/* slurm_list.c - squeue and sacct: our lists in Slurm's formats.
 *
 * A format is text with "%[.][WIDTH]LETTER": WIDTH cuts and pads, a dot puts to the right.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "cli/fmt.h"
#include "cli/listing.h"
#include "cli/live.h"
#include "cli/slurm.h"

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
static const char *state_short(const char *state)
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

static const char *state_long(const char *state)
{
    return strcmp(state, "STARTING") == 0 ? "CONFIGURING" : state;
}

/* 1-02:03:04, as Slurm writes spans. */
static const char *span(int64_t seconds, char *text, size_t size)
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

static const char *stamp(json_t *job, const char *key, char *text, size_t size)
{
    char made[FMT_MAX];

    if (!fmt_time(job, key))
        return "N/A";
    (void)snprintf(text, size, "%s", fmt_stamp(fmt_time(job, key), made));
    for (char *c = text; *c; c++)
        *c = *c == ' ' ? 'T' : *c;
    return text;
}

static const char *job_where(json_t *job, char *text, size_t size)
{
    json_t *reason = json_object_get(job, "reason");

    if (!json_is_object(reason))
        return fmt_text(job, "nodelist");
    (void)snprintf(text, size, "(%s)", fmt_text(reason, "code"));
    return text;
}

const char *slurm_number(int64_t value, char *text, size_t size)
{
    (void)snprintf(text, size, "%lld", (long long)value);
    return text;
}

static const char *array_part(json_t *job, bool index, char *text, size_t size)
{
    json_t *array = json_object_get(job, "array");

    if (!json_is_object(array))
        return index ? "N/A" : slurm_number(fmt_i64(job, "id"), text, size);
    return slurm_number(fmt_i64(array, index ? "index" : "id"), text, size);
}

static const char *job_nodes(json_t *job, char *text, size_t size)
{
    size_t count = json_array_size(json_object_get(job, "placement"));

    return slurm_number(count ? (int64_t)count : fmt_i64(job, "nodes") ? fmt_i64(job, "nodes") : 1, text, size);
}

static const char *squeue_header(char letter)
{
    static const char letters[] = "iPjutTMlDRNCbVSeQAFKraY";
    static const char *const headers[] = { "JOBID",    "PARTITION", "NAME",          "USER",         "ST",
                                           "STATE",    "TIME",      "TIME_LIMIT",    "NODES",        "NODELIST(REASON)",
                                           "NODELIST", "CPUS",      "TRES_PER_NODE", "SUBMIT_TIME",  "START_TIME",
                                           "END_TIME", "PRIORITY",  "JOBID",         "ARRAY_JOB_ID", "ARRAY_TASK_ID",
                                           "REASON",   "ACCOUNT",   "SCHEDNODES" };
    const char *at = letter ? strchr(letters, letter) : NULL;

    return at ? headers[at - letters] : NULL;
}

static const char *squeue_letter(json_t *job, char letter, char *text, size_t size)
{
    char id[FMT_MAX];

    if (!job)
        return squeue_header(letter);
    switch (letter) {
    case 'i':
        (void)snprintf(text, size, "%s", fmt_id(job, id));
        return text;
    case 'P':
        return fmt_text(job, "vc");
    case 'j':
        return fmt_text(job, "name");
    case 'u':
        return fmt_text(job, "user");
    case 't':
        return state_short(fmt_text(job, "state"));
    case 'T':
        return state_long(fmt_text(job, "state"));
    case 'M':
        return span(fmt_i64(job, "elapsed_seconds"), text, size);
    case 'l':
        return fmt_i64(job, "limit_seconds") ? span(fmt_i64(job, "limit_seconds"), text, size) : "UNLIMITED";
    case 'D':
        return job_nodes(job, text, size);
    case 'R':
        return job_where(job, text, size);
    case 'N':
        return fmt_text(job, "nodelist");
    case 'C':
        return slurm_number(fmt_i64(job, "gpus"), text, size);
    case 'b':
        (void)snprintf(text, size, "gres:gpu:%lld", (long long)fmt_i64(job, "gpus"));
        return text;
    case 'V':
        return stamp(job, "submit_time", text, size);
    case 'S': /* or when it is expected to */
        return fmt_time(job, "start_time") ? stamp(job, "start_time", text, size)
                                           : stamp(json_object_get(job, "eta"), "at", text, size);
    case 'e':
        return stamp(job, "end_time", text, size);
    case 'Q':
        return slurm_number(fmt_i64(job, "priority"), text, size);
    case 'A':
        return slurm_number(fmt_i64(job, "id"), text, size);
    case 'F':
        return array_part(job, false, text, size);
    case 'K':
        return array_part(job, true, text, size);
    case 'r':
        return json_is_object(json_object_get(job, "reason")) ? fmt_text(json_object_get(job, "reason"), "code")
                                                              : "None";
    case 'a':
        return fmt_text(json_object_get(job, "spec"), "account");
    case 'Y':
        return "(null)"; /* which nodes it will be is decided then */
    default:
        return NULL;
    }
}

static void query_add(struct buf *path, const struct command_args *args, const char *flag, const char *key)
{
    char *quoted = args_value(args, flag) ? client_quote(args_value(args, flag)) : NULL;

    if (quoted)
        buf_printf(path, "&%s=%s", key, quoted);
    mem_free(quoted);
}

/* Whether it is among the ids that were asked for: "12", "12_3", or all of array 12. */
static bool id_wanted(const char *list, json_t *job)
{
    char id[FMT_MAX], array[32] = "", copy[4096], *save = NULL;
    json_t *of = json_object_get(job, "array");

    if (!list)
        return true;
    if (json_is_object(of))
        (void)snprintf(array, sizeof(array), "%lld", (long long)fmt_i64(of, "id"));
    (void)fmt_id(job, id);
    (void)snprintf(copy, sizeof(copy), "%s", list);
    for (char *word = strtok_r(copy, ",", &save); word; word = strtok_r(NULL, ",", &save))
        if (strcmp(word, id) == 0 || strcmp(word, array) == 0)
            return true;
    return false;
}

/* The earliest first, those of whom nobody knows when at the end; then by number. */
static int starts_order(const void *a, const void *b)
{
    json_t *const *x = a, *const *y = b;
    usec_t at = fmt_time(json_object_get(*x, "eta"), "at"), other = fmt_time(json_object_get(*y, "eta"), "at");

    at = at ? at : USEC_NEVER;
    other = other ? other : USEC_NEVER;
    if (at != other)
        return at < other ? -1 : 1;
    return fmt_i64(*x, "id") < fmt_i64(*y, "id") ? -1 : 1;
}

static void starts_sort(json_t *jobs)
{
    size_t count = json_array_size(jobs);
    json_t **list = mem_zalloc(count + 1, sizeof(json_t *)); /* NOLINT(bugprone-sizeof-expression): of pointers */

    for (size_t i = 0; list && i < count; i++)
        list[i] = json_incref(json_array_get(jobs, i));
    if (list)
        qsort(list, count, sizeof(json_t *), starts_order); /* NOLINT(bugprone-sizeof-expression) */
    for (size_t i = 0; list && i < count; i++)
        (void)json_array_set_new(jobs, i, list[i]);
    mem_free(list);
}

/* What is asked of the controller. */
static void squeue_path(const struct command_args *args, struct buf *path)
{
    const char *states = args_value(args, "states");

    buf_text(path, "/jobs?limit=10000");
    query_add(path, args, "user", "user");
    query_add(path, args, "name", "name");
    query_add(path, args, "partition", "vc");
    query_add(path, args, "nodelist", "node");
    if (args_has(args, "start"))
        buf_text(path, "&state=PENDING");
    else if (states && strcasecmp(states, "all") == 0)
        buf_text(path, "&all=1");
    else
        query_add(path, args, "states", "state");
    if (args_has(args, "start") || (args_value(args, "format") && strchr(args_value(args, "format"), 'S')))
        buf_text(path, "&eta=1");
}

static const char *squeue_format(const struct command_args *args)
{
    if (args_value(args, "format"))
        return args_value(args, "format");
    if (args_has(args, "start"))
        return "%.18i %.9P %.8j %.8u %.2t %.19S %.6D %20Y %R";
    return args_has(args, "long") ? "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R"
                                  : "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R";
}

/* -l tells when it was looked at, as Slurm does. */
static void date_show(void)
{
    time_t now = (time_t)(fmt_now() / USEC_SEC);
    struct tm tm;
    char text[64];

    if (localtime_r(&now, &tm) && strftime(text, sizeof(text), "%a %b %d %H:%M:%S %Y", &tm))
        (void)puts(text);
}

int slurm_squeue(struct command_args *args)
{
    CLEANUP(client_free) struct client *client = NULL;
    CLEANUP_ANSWER struct answer who = { 0 };
    CLEANUP_BUF struct buf path = BUF_INIT(8192);
    struct problem problem;
    json_t *items = NULL, *shown = json_array(), *job;
    size_t i;
    int r = live_client(args, &client);

    squeue_path(args, &path);
    if (r == 0 && args_has(args, "me")) {
        r = client_call(client, "GET", "/whoami", NULL, &who, &problem) ? problem_print(&problem) : 0;
        buf_printf(&path, "&user=%s", fmt_text(who.json, "user"));
    }
    buf_char(&path, '\0');
    if (r == 0 && (path.error || client_list(client, path.data, &items, &problem)))
        r = path.error ? CODE_FAILED : problem_print(&problem);
    json_array_foreach(items, i, job) if (id_wanted(args_value(args, "jobs"), job))(void) json_array_append(shown, job);
    if (r == 0 && args_has(args, "json")) {
        json_t *list = json_pack("{s:O}", "jobs", shown);

        show_json(list);
        json_decref(list);
    } else if (r == 0) {
        if (args_has(args, "long") && !args_has(args, "noheader"))
            date_show();
        if (args_has(args, "start"))
            starts_sort(shown);
        r = slurm_lines(args, squeue_format(args), squeue_letter, shown);
    }
    json_decref(items);
    json_decref(shown);
    return r;
}

/* A field of sacct by its name; NULL: there is none. */
static const char *sacct_field(json_t *job, const char *name, char *text, size_t size)
{
    char id[FMT_MAX];
    int64_t start = fmt_time(job, "start_time"), end = fmt_time(job, "end_time");

    if (strcasecmp(name, "jobid") == 0) {
        (void)snprintf(text, size, "%s", fmt_id(job, id));
        return text;
    }
    if (strcasecmp(name, "jobname") == 0)
        return fmt_text(job, "name");
    if (strcasecmp(name, "partition") == 0)
        return fmt_text(job, "vc");
    if (strcasecmp(name, "account") == 0)
        return fmt_text(json_object_get(job, "spec"), "account");
    if (strcasecmp(name, "user") == 0)
        return fmt_text(job, "user");
    if (strcasecmp(name, "state") == 0)
        return fmt_text(job, "state");
    if (strcasecmp(name, "exitcode") == 0) {
        int64_t by = fmt_i64(job, "signal"); /* with one there is no code: 128 more is what shells make of it */

        (void)snprintf(text, size, "%lld:%lld", (long long)(by ? 0 : fmt_i64(job, "exit_code")), (long long)by);
        return text;
    }
    if (strcasecmp(name, "alloccpus") == 0)
        return slurm_number(fmt_i64(job, "gpus"), text, size);
    if (strcasecmp(name, "submit") == 0)
        return stamp(job, "submit_time", text, size);
    if (strcasecmp(name, "start") == 0)
        return stamp(job, "start_time", text, size);
    if (strcasecmp(name, "end") == 0)
        return stamp(job, "end_time", text, size);
    if (strcasecmp(name, "elapsed") == 0) {
        int64_t seconds = start && end > start ? (end - start) / USEC_SEC : 0;

        (void)snprintf(text, size, "%02lld:%02lld:%02lld", (long long)(seconds / 3600), (long long)(seconds / 60 % 60),
                       (long long)(seconds % 60));
        return text;
    }
    return NULL;
}

/* Whether all fields are there: before anything is printed. */
static int sacct_check(const struct command_args *args)
{
    const char *format = args_value(args, "format");
    char copy[512], *save = NULL;

    (void)snprintf(copy, sizeof(copy), "%s", format ? format : "");
    for (char *word = strtok_r(copy, ",", &save); word; word = strtok_r(NULL, ",", &save)) {
        char text[1024];

        word[strcspn(word, "%")] = '\0';
        if (!sacct_field(NULL, word, text, sizeof(text)))
            return args_wrong(args, "--format: there is no field '%.40s' here; docs/slurm.md lists them", word);
    }
    return 0;
}

/* One line of fields; job NULL: their names, or the dashes below them. */
static int sacct_line(const struct command_args *args, json_t *job, bool dashes)
{
    const char *format = args_value(args, "format");
    bool bars = args_has(args, "parsable2") || args_has(args, "parsable");
    char copy[512], *save = NULL;
    bool first = true;

    (void)snprintf(copy, sizeof(copy), "%s",
                   format ? format : "JobID,JobName,Partition,Account,AllocCPUS,State,ExitCode");
    for (char *word = strtok_r(copy, ",", &save); word; word = strtok_r(NULL, ",", &save)) {
        char text[1024], *width = strchr(word, '%');
        const char *found;
        int wide = width ? atoi(width + 1) : 12;

        if (width)
            *width = '\0';
        found = sacct_field(job, word, text, sizeof(text));
        if (!found)
            return args_wrong(args, "--format: there is no field '%.40s' here; docs/slurm.md lists them", word);
        found = dashes ? "--------------------------------" : job ? found : word;
        if (bars)
            (void)printf("%s%s", first ? "" : "|", found);
        else
            (void)printf("%*.*s ", wide, abs(wide), found);
        first = false;
    }
    (void)puts(args_has(args, "parsable") ? "|" : "");
    return 0;
}

int slurm_sacct(struct command_args *args)
{
    CLEANUP(client_free) struct client *client = NULL;
    CLEANUP_ANSWER struct answer who = { 0 };
    CLEANUP_BUF struct buf path = BUF_INIT(8192);
    struct problem problem;
    json_t *items = NULL, *job;
    bool bars = args_has(args, "parsable2") || args_has(args, "parsable");
    size_t i;
    int r = sacct_check(args);

    if (r == 0)
        r = live_client(args, &client);
    buf_text(&path, "/history?limit=1000");
    query_add(&path, args, "user", "user");
    query_add(&path, args, "state", "state");
    query_add(&path, args, "starttime", "since");
    query_add(&path, args, "endtime", "until");
    if (r == 0 && !args_has(args, "user") && !args_has(args, "allusers") && !args_has(args, "jobs")) {
        r = client_call(client, "GET", "/whoami", NULL, &who, &problem) ? problem_print(&problem) : 0;
        buf_printf(&path, "&user=%s", fmt_text(who.json, "user"));
    }
    buf_char(&path, '\0');
    if (r == 0 && client_list(client, path.data, &items, &problem))
        r = problem_print(&problem);
    if (r == 0 && args_has(args, "json")) {
        json_t *list = json_pack("{s:O}", "jobs", items);

        show_json(list);
        json_decref(list);
        json_decref(items);
        return 0;
    }
    if (r == 0 && !args_has(args, "noheader"))
        r = sacct_line(args, NULL, false);
    if (r == 0 && !args_has(args, "noheader") && !bars)
        r = sacct_line(args, NULL, true);
    for (i = json_array_size(items); r == 0 && i-- > 0;) { /* oldest first, as Slurm has them */
        job = json_array_get(items, i);
        if (id_wanted(args_value(args, "jobs"), job))
            r = sacct_line(args, job, false);
    }
    json_decref(items);
    return r;
}
