/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_top.c - muster top: the cluster on a terminal, a picture a second. Bars of GPUs by type, spark-lines of how much
 * of each node was used over the last minutes, then jobs: one's own first. q ends it, a shows all jobs, m one's own. */
#include <locale.h>
#include <ncurses.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "cli/fmt.h"
#include "cli/listing.h"
#include "cli/verbs/live.h"
#include "io/lib.h"

#define CURSES_FILE "libncursesw.so.6"
#define CURSES_CALLS(X)                                                                                                \
    X(initscr)                                                                                                         \
    X(endwin)                                                                                                          \
    X(cbreak)                                                                                                          \
    X(noecho)                                                                                                          \
    X(curs_set)                                                                                                        \
    X(wtimeout)                                                                                                        \
    X(wgetch)                                                                                                          \
    X(werase)                                                                                                          \
    X(wrefresh)                                                                                                        \
    X(wmove)                                                                                                           \
    X(waddnstr)                                                                                                        \
    X(wattr_on)                                                                                                        \
    X(wattr_off)

static struct {
    CURSES_CALLS(LIB_FIELD)
} curses;
static const char *const curses_names[] = { CURSES_CALLS(LIB_NAME) };

enum { NODES_SHOWN = 256, HISTORY = 40 };

struct node_past {
    char name[64];
    uint8_t used[HISTORY]; /* percent */
};

struct top {
    struct client *client;
    struct node_past *past;
    size_t past_count;
    char user[64];
    int64_t job; /* only this one; 0 = the cluster */
    bool all;
    struct problem problem;
};

static WINDOW *screen;
static int line; /* that is being written */

static void line_begin(int row)
{
    line = row;
    (void)curses.wmove(screen, row, 0);
}

static void put(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* What does not fit into the line is left out: the next line is somebody else's. */
static void put(const char *format, ...)
{
    char text[512];
    int room = getcury(screen) == line ? getmaxx(screen) - getcurx(screen) : 0,
        size = 0; /* a full line ends in the next */
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    /* Whole characters, each a column wide: names are harmless and our own signs are. */
    while (text[size] && room > 0) {
        size++;
        while (((unsigned char)text[size] & 0xc0) == 0x80)
            size++;
        room--;
    }
    if (size > 0)
        (void)curses.waddnstr(screen, text, size);
}

static void bold(bool on)
{
    (void)(on ? curses.wattr_on(screen, A_BOLD, NULL) : curses.wattr_off(screen, A_BOLD, NULL));
}

static int lines(void)
{
    return getmaxy(screen);
}

/* A terminal of the usual 80 columns, where virtual clusters are left out for the sake of reasons. */
static bool narrow(void)
{
    return getmaxx(screen) < 110;
}

static struct node_past *past_of(struct top *top, const char *name)
{
    for (size_t i = 0; top->past && i < top->past_count; i++)
        if (strcmp(top->past[i].name, name) == 0)
            return &top->past[i];
    if (!top->past || top->past_count == NODES_SHOWN)
        return NULL;
    (void)snprintf(top->past[top->past_count].name, sizeof(top->past[0].name), "%.60s", name);
    return &top->past[top->past_count++];
}

static void spark(const struct node_past *past)
{
    static const char *const steps[] = { " ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };
    static const char *const plain[] = { " ", ".", ":", "-", "=", "+", "*", "%", "#" };
    const char *const *signs = MB_CUR_MAX > 1 ? steps : plain;

    for (int i = 0; past && i < HISTORY; i++)
        put("%s", signs[(past->used[i] * 8 + 99) / 100]);
}

static void bar(int64_t used, int64_t total, int width)
{
    int filled = total > 0 ? (int)(used * width / total) : 0;

    put("[");
    for (int i = 0; i < width; i++)
        put("%c", i < filled ? '#' : '.');
    put("]");
}

static int gpus_draw(struct top *top, int row)
{
    json_t *items = NULL, *item;
    size_t i;

    if (client_list(top->client, "/gpus", &items, &top->problem))
        return -1;
    json_harmless(items);
    json_array_foreach(items, i, item)
    {
        line_begin(row++);
        put("%-8.8s ", fmt_text(item, "sku"));
        bar(fmt_i64(item, "used"), fmt_i64(item, "total"), narrow() ? 20 : 32);
        put(" %lld of %lld used, %lld free, %lld down; largest node %lld", (long long)fmt_i64(item, "used"),
            (long long)fmt_i64(item, "total"), (long long)fmt_i64(item, "free"), (long long)fmt_i64(item, "down"),
            (long long)fmt_i64(item, "biggest_node"));
    }
    json_decref(items);
    return row + 1;
}

static int nodes_draw(struct top *top, int row)
{
    json_t *items = NULL, *node;
    size_t i;

    if (client_list(top->client, "/nodes", &items, &top->problem))
        return -1;
    json_harmless(items);
    json_array_foreach(items, i, node)
    {
        struct node_past *past = past_of(top, fmt_text(node, "name"));
        int64_t total = fmt_i64(node, "gpus"), used = fmt_i64(node, "gpus_used");

        if (past) {
            memmove(past->used, past->used + 1, HISTORY - 1);
            past->used[HISTORY - 1] = (uint8_t)(total ? used * 100 / total : 0);
        }
        if (row >= lines() / 2)
            continue;
        line_begin(row++);
        put("%-14.14s %-8.8s %2lld/%-3lld ", fmt_text(node, "name"), fmt_text(node, "state"), (long long)used,
            (long long)total);
        spark(past);
        put("  %.30s", fmt_text(node, "reason"));
    }
    json_decref(items);
    return row + 1;
}

static void job_line(json_t *job)
{
    json_t *reason = json_object_get(job, "reason");
    char id[FMT_MAX], gpus[FMT_MAX], time[FMT_MAX];
    const char *elapsed = fmt_null(job, "start_time") ? "-" : fmt_seconds(fmt_i64(job, "elapsed_seconds"), time);
    const char *nodes = json_is_object(reason) ? fmt_text(reason, "code") : fmt_text(job, "nodelist");
    char where[2 * FMT_MAX], how[FMT_MAX];

    (void)snprintf(where, sizeof(where), "%.60s%s%s", nodes, fmt_null(job, "progress") ? "" : "  ",
                   fmt_null(job, "progress") ? "" : fmt_progress(json_object_get(job, "progress"), how));
    (void)fmt_id(job, id);
    (void)fmt_gpus(job, gpus);
    if (narrow())
        put("%-9.9s %-14.14s %-8.8s %-9.9s %-8.8s %-9.9s %.40s", id, fmt_text(job, "name"), fmt_text(job, "user"),
            fmt_text(job, "state"), gpus, elapsed, where);
    else
        put("%-12.12s %-16.16s %-10.10s %-10.10s %-9.9s %-12.12s %-12.12s %.40s", id, fmt_text(job, "name"),
            fmt_text(job, "user"), fmt_text(job, "vc"), fmt_text(job, "state"), gpus, elapsed, where);
}

static int jobs_draw(struct top *top, int row)
{
    json_t *items = NULL, *job;
    char path[160], *quoted = client_quote(top->user);
    size_t i;
    int r;

    (void)snprintf(path, sizeof(path), "/jobs?eta=0%s%s", top->all ? "" : "&user=", top->all ? "" : quoted);
    mem_free(quoted);
    r = client_list(top->client, path, &items, &top->problem);
    if (r)
        return -1;
    json_harmless(items);
    bold(true);
    line_begin(row++);
    if (narrow())
        put("%-9s %-14s %-8s %-9s %-8s %-9s %s", "JOBID", "NAME", "USER", "STATE", "GPUS", "ELAPSED", "NODES/REASON");
    else
        put("%-12s %-16s %-10s %-10s %-9s %-12s %-12s %s", "JOBID", "NAME", "USER", "VC", "STATE", "GPUS", "ELAPSED",
            "NODES/REASON");
    bold(false);
    json_array_foreach(items, i, job)
    {
        if (row >= lines() - 1)
            break;
        line_begin(row++);
        job_line(job);
    }
    json_decref(items);
    return row;
}

/* One job: what each of its GPUs did over time. */
static int job_draw(struct top *top, int row)
{
    CLEANUP_ANSWER struct answer job = { 0 }, metrics = { 0 };
    json_t *gpu, *reason;
    char path[96], id[FMT_MAX], elapsed[FMT_MAX];
    size_t i;

    (void)snprintf(path, sizeof(path), "/jobs/%lld", (long long)top->job);
    if (client_call(top->client, "GET", path, NULL, &job, &top->problem))
        return -1;
    (void)snprintf(path, sizeof(path), "/jobs/%lld/metrics", (long long)top->job);
    if (client_call(top->client, "GET", path, NULL, &metrics, &top->problem))
        return -1;
    json_harmless(job.json);
    json_harmless(metrics.json);
    reason = json_object_get(job.json, "reason");
    line_begin(row++);
    put("job %s %s  %s  %s  %s", fmt_id(job.json, id), fmt_text(job.json, "name"), fmt_text(job.json, "state"),
        fmt_seconds(fmt_i64(job.json, "elapsed_seconds"), elapsed),
        json_is_object(reason) ? fmt_text(reason, "code") : fmt_text(job.json, "nodelist"));
    bold(true);
    line_begin(++row);
    put("%-6s %-14s %4s  %-*s %5s %10s %7s %5s", "RANK", "NODE", "GPU", HISTORY, "UTILISATION", "NOW", "MEMORY",
        "POWER", "TEMP");
    bold(false);
    row++;
    json_array_foreach(json_object_get(metrics.json, "items"), i, gpu)
    {
        json_t *series = json_object_get(gpu, "series");
        size_t count = json_array_size(series), first = count > HISTORY ? count - HISTORY : 0;
        struct node_past past = { 0 };

        for (size_t k = first; k < count; k++)
            past.used[HISTORY - count + k] = (uint8_t)fmt_i64(json_array_get(series, k), "util");
        if (row >= lines() - 1)
            break;
        line_begin(row++);
        put("%-6lld %-14.14s %4lld  ", (long long)fmt_i64(gpu, "rank"), fmt_text(gpu, "node"),
            (long long)fmt_i64(gpu, "gpu"));
        spark(&past);
        put(" %4lld%% %7lld MiB %5lld W %4lldC", (long long)fmt_i64(gpu, "util"),
            (long long)fmt_i64(gpu, "memory_used_mib"), (long long)fmt_i64(gpu, "power_watts"),
            (long long)fmt_i64(gpu, "temperature_celsius"));
    }
    return row;
}

static int frame(struct top *top)
{
    char now[FMT_MAX];
    int row = 2;

    (void)curses.werase(screen);
    bold(true);
    line_begin(0);
    put("muster top  %s  %s", client_url(top->client), fmt_stamp(fmt_now(), now));
    bold(false);
    row = top->job ? job_draw(top, row) : gpus_draw(top, row);
    if (row >= 0 && !top->job)
        row = nodes_draw(top, row);
    if (row >= 0 && !top->job)
        row = jobs_draw(top, row);
    if (row < 0)
        return -1;
    line_begin(lines() - 1);
    put("q quit   %s", top->job ? "" : top->all ? "m my jobs" : "a all jobs");
    (void)curses.wrefresh(screen);
    return 0;
}

int cmd_top(struct command_args *args)
{
    CLEANUP(client_free) struct client *client = NULL;
    CLEANUP_ANSWER struct answer who = { 0 };
    struct top top = { .all = args_has(args, "all") };
    struct error err = { 0 };
    int r = live_client(args, &client), key;

    if (r)
        return r;
    if (!isatty(STDOUT_FILENO))
        return args_wrong(args, "top needs a terminal; muster queue -A, muster nodes and muster gpus print the same");
    if (args->word_count) {
        struct job_ref_text ref;

        if (client_job(client, args->words[0], &ref, &top.problem))
            return problem_print(&top.problem);
        top.job = ref.id;
    }
    if (lib_open(CURSES_FILE, curses_names, LIB_COUNT(curses_names), &curses, &err) < 0)
        return cli_fail(err.code, &err);
    top.client = client;
    if (client_call(client, "GET", "/whoami", NULL, &who, &top.problem))
        return problem_print(&top.problem);
    (void)snprintf(top.user, sizeof(top.user), "%.60s", fmt_text(who.json, "user"));
    (void)setlocale(LC_CTYPE, ""); /* NOLINT(concurrency-mt-unsafe): else curses takes our signs apart */
    top.past = mem_zalloc(NODES_SHOWN, sizeof(*top.past));
    if (!top.past || !(screen = curses.initscr()))
        return problem_print(&(struct problem){ .exit = CODE_FAILED, .text = "the terminal cannot be used" });
    (void)curses.cbreak();
    (void)curses.noecho();
    (void)curses.curs_set(0);
    curses.wtimeout(screen, 1000);
    do {
        r = frame(&top);
        key = r == 0 ? curses.wgetch(screen) : 'q';
        top.all = key == 'a' ? true : key == 'm' ? false : top.all;
    } while (key != 'q');
    (void)curses.endwin();
    mem_free(top.past);
    return r < 0 ? problem_print(&top.problem) : CODE_DONE;
}
