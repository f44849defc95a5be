/* SPDX-License-Identifier: Apache-2.0 */
/* whatif.c - see whatif.h. One comparison at a time: the history is written page by page, turned into a trace, counted;
 * then each policy runs. Every step is a child's, and its end begins the next. */
#include "ctl/insight/whatif.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "ctl/rest/render/record_tree.h"
#include "ctl/state/attempt/attempt.h"
#include "io/beside.h"
#include "io/child.h"
#include "io/file.h"
#include "io/log.h"
#include "wire/text/duration.h"

enum { PAGE_JOBS = 250, ARGS_MAX = 2 * WHATIF_SETTINGS_MAX + 32, OUT_BYTES_MAX = 4 << 20, SERIES = 240 };
#define GUESS_LEAST (10 * USEC_MIN) /* of a job of which nobody knows how long it takes */
#define CHILD_BYTES_MAX ((size_t)2 << 30)
enum { CHILD_CPU_SECONDS = 120, CHILD_WALL_SECONDS = 300, CHILD_NICE = 10 };

struct whatifs {
    struct server *server;
    struct whatif items[WHATIFS_KEPT];
    int64_t last_id;
    char program[4096]; /* muster, beside us */
    char folder[4000];
    bool stopping;
};

/* A page of the history is on its way; it may come back when its comparison is gone. */
struct page {
    struct whatifs *whatifs;
    int64_t id;
};

static void next_start(struct whatifs *all);
static void history_next(struct whatifs *all, struct whatif *w);

/* With whatever is in it: a program that was killed in the middle of a write leaves files of other names. */
static void folder_remove(const struct whatif *w)
{
    DIR *dir = w->folder ? opendir(w->folder) : NULL;
    const struct dirent *entry;

    while (dir && (entry = readdir(dir)))
        (void)unlinkat(dirfd(dir), entry->d_name, 0); /* `.` and `..` are refused */
    if (dir)
        (void)closedir(dir);
    if (w->folder)
        (void)rmdir(w->folder);
}

static void whatif_clear(struct whatif *w)
{
    if (w->history)
        (void)fclose(w->history);
    folder_remove(w);
    for (size_t i = 0; i < w->policy_count; i++)
        whatif_policy_done(&w->policies[i]);
    json_decref(w->runs);
    mem_free(w->folder);
    *w = (struct whatif){ 0 };
}

int whatifs_new(struct server *server, struct whatifs **ret_whatifs)
{
    struct whatifs *all = mem_zalloc(1, sizeof(*all));

    if (!all)
        return -ENOMEM;
    all->server = server;
    if (beside_find("muster", all->program, sizeof(all->program)) < 0)
        (void)snprintf(all->program, sizeof(all->program), "muster");
    (void)snprintf(all->folder, sizeof(all->folder), "%.3900s/whatif", server->conf->state);
    *ret_whatifs = all;
    return 0;
}

void whatifs_stop(struct whatifs *all)
{
    if (!all)
        return;
    all->stopping = true;
    for (size_t i = 0; i < WHATIFS_KEPT; i++) {
        if (all->items[i].child)
            child_abandon(take(all->items[i].child));
        whatif_clear(&all->items[i]);
    }
    (void)rmdir(all->folder);
}

void whatifs_free(struct whatifs *all)
{
    mem_free(all);
}

static struct whatif *find(struct whatifs *all, int64_t id)
{
    for (size_t i = 0; i < WHATIFS_KEPT; i++)
        if (id > 0 && all->items[i].id == id)
            return &all->items[i];
    return NULL;
}

const struct whatif *whatif_find(const struct whatifs *whatifs, int64_t id)
{
    return find((struct whatifs *)(uintptr_t)whatifs, id);
}

const struct whatif *whatif_at(const struct whatifs *all, size_t index)
{
    int64_t below = INT64_MAX;
    const struct whatif *found = NULL;

    for (size_t turn = 0; turn <= index; turn++) {
        found = NULL;
        for (size_t i = 0; i < WHATIFS_KEPT; i++)
            if (all->items[i].id && all->items[i].id < below && (!found || all->items[i].id > found->id))
                found = &all->items[i];
        if (!found)
            return NULL;
        below = found->id;
    }
    return found;
}

static void finish(struct whatifs *all, struct whatif *w, const char *error)
{
    w->state = error ? WHATIF_FAILED : WHATIF_DONE;
    (void)snprintf(w->error, sizeof(w->error), "%s", error ? error : "");
    w->error[strcspn(w->error, "\n")] = '\0';
    w->step[0] = '\0';
    w->ended = clock_now();
    log_info("what-if", "user", w->user, "state", error ? "failed" : "done");
    if (w->cancelled)
        whatif_clear(w);
    next_start(all);
}

/* What an error of muster says: with --json it is an object. */
static void words_of(const char *said, char *text, size_t size)
{
    json_t *problem = json_loads(said, JSON_DISABLE_EOF_CHECK, NULL);
    const char *detail = json_string_value(json_object_get(problem, "detail"));
    const char *plain = strncmp(said, "muster: error: ", 15) == 0 ? said + 15 : said;

    (void)snprintf(text, size, "%.400s", detail ? detail : *plain ? plain : "the run failed without a word");
    json_decref(problem);
}

/* Why a child did not do what it should, in one line; NULL: it did. */
static const char *failure(const struct child_end *end, char *text, size_t size)
{
    if (!end->why && !end->signal && end->code == 0)
        return NULL;
    if (end->why)
        (void)snprintf(text, size, "the run %s", end->why);
    else if (end->signal)
        (void)snprintf(text, size, "the run was ended by signal %d: over its limits of memory or time", end->signal);
    else
        words_of(end->err, text, size);
    return text;
}

static int run_child(struct whatifs *all, struct whatif *w, const char *const *args, child_done_fn done,
                     struct error *err)
{
    struct child_spec spec = { .argv = args,
                               .folder = w->folder,
                               .limits = { .memory = CHILD_BYTES_MAX,
                                           .cpu = CHILD_CPU_SECONDS,
                                           .wall = CHILD_WALL_SECONDS * USEC_SEC,
                                           .nice = CHILD_NICE,
                                           .out_max = OUT_BYTES_MAX },
                               .done = done,
                               .arg = w };

    return child_start(all->server->loop, &spec, &w->child, err);
}

static void run_next(struct whatifs *all, struct whatif *w);

static void on_run(void *arg, const struct child_end *end)
{
    struct whatif *w = arg;
    struct whatifs *all = w->owner;
    char text[512];
    const char *bad = w->cancelled ? "ended by its owner" : failure(end, text, sizeof(text));
    json_t *run = bad ? NULL : json_loadb(end->out, end->out_size, 0, NULL);

    w->child = NULL;
    if (!bad && !run)
        bad = "the run answered something else than a result";
    if (bad) {
        char words[600];

        (void)snprintf(words, sizeof(words), "%s: %s", w->policies[w->done].label, bad);
        finish(all, w, words);
        return;
    }
    (void)json_object_set_new(run, "label", json_string(w->policies[w->done].label));
    (void)json_array_append_new(w->runs, run);
    w->done++;
    run_next(all, w);
}

static void run_next(struct whatifs *all, struct whatif *w)
{
    const struct whatif_policy *policy = &w->policies[w->done];
    char settings[WHATIF_SETTINGS_MAX][256], series[16];
    const char *args[ARGS_MAX] = { all->program, "sim", "run", "--cluster", "", "--trace", "trace.csv", "--policy" };
    struct error err = { 0 };
    size_t n = 8;

    if (w->done == w->policy_count) {
        finish(all, w, NULL);
        return;
    }
    (void)snprintf(w->step, sizeof(w->step), "%s", policy->label);
    (void)snprintf(series, sizeof(series), "%d", SERIES);
    args[4] = policy->present ? "cluster.yaml" : "cluster-plain.yaml";
    args[n++] = policy->name;
    args[n++] = "--json";
    args[n++] = "--series";
    args[n++] = series;
    args[n++] = "--set";
    args[n++] = "infeasible=skip"; /* a smaller cluster than the jobs were meant for */
    args[n++] = "--set";
    args[n++] = "unknown-vc=spread"; /* a trace knows nothing of the virtual clusters here */
    for (size_t i = 0; i < policy->setting_count; i++) {
        (void)snprintf(settings[i], sizeof(settings[i]), "%.100s=%.128s", policy->settings[i].key,
                       policy->settings[i].value);
        args[n++] = "--set";
        args[n++] = settings[i];
    }
    args[n] = NULL;
    if (run_child(all, w, args, on_run, &err) < 0)
        finish(all, w, err.text);
}

static void on_counted(void *arg, const struct child_end *end)
{
    struct whatif *w = arg;
    struct whatifs *all = w->owner;
    char text[512];
    const char *bad = w->cancelled ? "ended by its owner" : failure(end, text, sizeof(text));
    json_t *stat = bad ? NULL : json_loadb(end->out, end->out_size, 0, NULL);

    w->child = NULL;
    w->jobs = json_integer_value(json_object_get(stat, "jobs"));
    json_decref(stat);
    if (bad)
        finish(all, w, bad);
    else
        run_next(all, w);
}

static void count_start(struct whatifs *all, struct whatif *w)
{
    const char *args[] = { all->program, "trace", "stat", "trace.csv", "--json", NULL };
    struct error err = { 0 };

    (void)snprintf(w->step, sizeof(w->step), "trace");
    if (run_child(all, w, args, on_counted, &err) < 0)
        finish(all, w, err.text);
}

static void on_imported(void *arg, const struct child_end *end)
{
    struct whatif *w = arg;
    struct whatifs *all = w->owner;
    char text[512];
    const char *bad = w->cancelled ? "ended by its owner" : failure(end, text, sizeof(text));

    w->child = NULL;
    if (!bad && strstr(end->err, "trace.csv: 0 jobs"))
        bad = "no job has run in that time, and none waits; look further back, or give a trace";
    if (bad) {
        finish(all, w, bad);
        return;
    }
    if (w->unfinished)
        (void)snprintf(text, sizeof(text), "%zu jobs run or wait: taken with the time they are expected to need\n",
                       w->unfinished);
    (void)snprintf(w->notes, sizeof(w->notes), "%s%s", w->unfinished ? text : "", end->err);
    count_start(all, w);
}

static void import_start(struct whatifs *all, struct whatif *w)
{
    const char *args[] = { all->program,   "trace", "import",    "--format", "muster",
                           "history.json", "-o",    "trace.csv", NULL };
    struct error err = { 0 };
    bool written = fputs("]}\n", w->history) >= 0 && !ferror(w->history);

    written &= fclose(take(w->history)) == 0;
    if (!written)
        finish(all, w, "the history could not be written to the folder of the state");
    else if (run_child(all, w, args, on_imported, &err) < 0)
        finish(all, w, err.text);
}

/* How long a job that is not over is taken to need in all, from when it has its GPUs. */
static usec_t whole_expected(const struct ctl_job *job, usec_t now)
{
    const struct ctl_attempt *attempt = attempt_last(job);
    usec_t ran = attempt && attempt->started && !attempt->ended ? now - attempt->started : 0;
    usec_t whole = job->wants.estimate > 0 ? job->wants.estimate : job->wants.time_limit;

    if (whole > ran)
        return whole;
    return 2 * ran > GUESS_LEAST ? 2 * ran : GUESS_LEAST;
}

/* Jobs that run or wait are part of what happens: with the time that they are expected to need. */
static void live_write(struct whatifs *all, struct whatif *w)
{
    const struct ctl *ctl = batcher_ctl(all->server->batcher);
    const struct registry *registry = ctl_registry(ctl);
    usec_t now = clock_now();

    if (w->until && w->until < now)
        return;
    for (size_t i = 0; i < registry->live_count && w->written < WHATIF_JOBS_MAX; i++) {
        const struct ctl_job *job = registry->live[i];
        json_t *item = job->gate == GATE_USER ? NULL : record_job(ctl, job), *attempts = NULL;
        size_t last;

        if (!item)
            continue;
        attempts = json_object_get(item, "attempts");
        if (json_array_size(attempts) == 0)
            (void)json_array_append_new(attempts, json_object());
        last = json_array_size(attempts) - 1;
        (void)json_object_set_new(json_array_get(attempts, last), "ran_seconds",
                                  json_real((double)whole_expected(job, now) / 1e6));
        if (w->written++)
            (void)fputs(",\n", w->history);
        (void)json_dumpf(item, w->history, JSON_COMPACT);
        w->unfinished++;
        json_decref(item);
    }
}

static void on_page(void *arg, json_t *items)
{
    struct page *page = arg;
    struct whatifs *all = page->whatifs;
    struct whatif *w = all->stopping ? NULL : find(all, page->id);
    size_t count = json_array_size(items), i;
    json_t *item;

    mem_free(page);
    if (!w)
        return;
    if (w->cancelled || !items) {
        finish(all, w, items ? "ended by its owner" : "the store could not be read");
        return;
    }
    json_array_foreach(items, i, item)
    {
        if (w->written++)
            (void)fputs(",\n", w->history);
        (void)json_dumpf(item, w->history, JSON_COMPACT);
        w->before = json_integer_value(json_object_get(item, "id"));
    }
    if (count < PAGE_JOBS || w->written >= WHATIF_JOBS_MAX) {
        live_write(all, w);
        import_start(all, w);
    } else
        history_next(all, w);
}

static void history_next(struct whatifs *all, struct whatif *w)
{
    struct store_query query = { .since = w->since, .until = w->until, .before_id = w->before, .limit = PAGE_JOBS };
    struct page *page = mem_zalloc(1, sizeof(*page));

    if (page) {
        *page = (struct page){ all, w->id };
        if (batcher_history(all->server->batcher, &query, on_page, page) == 0)
            return;
    }
    mem_free(page);
    finish(all, w, "the store is busy");
}

static void history_start(struct whatifs *all, struct whatif *w)
{
    char path[4200];

    (void)snprintf(w->step, sizeof(w->step), "history");
    (void)snprintf(path, sizeof(path), "%s/history.json", w->folder);
    w->history = fopen(path, "we");
    if (!w->history || fputs("{\"items\":[\n", w->history) < 0)
        finish(all, w, "the history could not be written to the folder of the state");
    else
        history_next(all, w);
}

/* The oldest that waits, if none is at work. */
static void next_start(struct whatifs *all)
{
    struct whatif *first = NULL;

    for (size_t i = 0; i < WHATIFS_KEPT; i++) {
        struct whatif *w = &all->items[i];

        if (w->id && w->state == WHATIF_RUNNING)
            return;
        if (w->id && w->state == WHATIF_WAITING && (!first || w->id < first->id))
            first = w;
    }
    if (!first || all->stopping)
        return;
    first->state = WHATIF_RUNNING;
    if (first->from_trace)
        count_start(all, first);
    else
        history_start(all, first);
}

static int folder_make(struct whatifs *all, struct whatif *w, struct error *err)
{
    char path[4096];

    (void)snprintf(path, sizeof(path), "%s/%lld", all->folder, (long long)w->id);
    if ((mkdir(all->folder, 0700) < 0 && errno != EEXIST) || (mkdir(path, 0700) < 0 && errno != EEXIST))
        return error_set(err, -EIO, "%s: %s", path, strerror(errno));
    w->folder = mem_strdup(path);
    return w->folder ? 0 : error_set(err, -ENOMEM, "no memory");
}

static int time_read(const json_t *body, const char *key, usec_t *ret, struct error *err)
{
    const json_t *value = json_object_get(body, key);
    const char *text = json_string_value(value);

    if (!value || json_is_null(value))
        return 0;
    if (!text || instant_parse(text, strlen(text), ret) < 0)
        return error_set(err, -EINVAL, "%s: expected a time like 2026-01-31T12:00:00Z or seconds since 1970", key);
    return 0;
}

static int source_read(struct whatif *w, const json_t *body, struct error *err)
{
    const json_t *trace = json_object_get(body, "trace");
    char path[4200];
    int r = time_read(body, "since", &w->since, err);

    if (r == 0)
        r = time_read(body, "until", &w->until, err);
    if (r < 0 || !trace || json_is_null(trace))
        return r;
    if (!json_is_string(trace) || w->since || w->until)
        return error_set(err, -EINVAL, "trace: expected the text of a trace, and then no since or until");
    w->from_trace = true;
    (void)snprintf(path, sizeof(path), "%s/trace.csv", w->folder);
    return file_write_atomic(path, json_string_value(trace), json_string_length(trace), err);
}

/* A place: a free one, or that of the oldest that is over. */
static struct whatif *place_find(struct whatifs *all, struct error *err)
{
    struct whatif *oldest = NULL;
    size_t open = 0;

    for (size_t i = 0; i < WHATIFS_KEPT; i++) {
        struct whatif *w = &all->items[i];

        open += w->id && w->state <= WHATIF_RUNNING;
        if (!w->id || (w->state > WHATIF_RUNNING && (!oldest || w->id < oldest->id)))
            oldest = !oldest || oldest->id ? w : oldest;
    }
    if (open >= WHATIFS_WAITING || !oldest) {
        (void)error_set(err, -EBUSY, "%d comparisons are under way; one at a time", (int)open);
        return NULL;
    }
    if (oldest->id)
        whatif_clear(oldest);
    return oldest;
}

int whatif_add(struct whatifs *all, const json_t *body, const char *user, const struct whatif **ret, struct error *err)
{
    struct whatif *w;
    int r;

    if (access(all->program, X_OK) < 0)
        return error_set(err, -ENOENT, "%s: %s; what-if runs the program muster from beside musterd", all->program,
                         strerror(errno));
    w = place_find(all, err);
    if (!w)
        return -EBUSY;
    *w =
        (struct whatif){ .id = ++all->last_id, .owner = all, .jobs = -1, .created = clock_now(), .runs = json_array() };
    (void)snprintf(w->user, sizeof(w->user), "%s", user);
    r = folder_make(all, w, err);
    if (r == 0)
        r = whatif_policies(w, body, all->server, err);
    if (r == 0)
        r = whatif_clusters(w, body, all->server, err);
    if (r == 0)
        r = source_read(w, body, err);
    if (r < 0) {
        whatif_clear(w);
        return r;
    }
    *ret = w;
    next_start(all);
    return 0;
}

int whatif_remove(struct whatifs *all, int64_t id)
{
    struct whatif *w = find(all, id);

    if (!w)
        return -ENOENT;
    if (w->state != WHATIF_RUNNING) {
        whatif_clear(w);
        return 0;
    }
    w->cancelled = true; /* cleared when its child, or its page, is back */
    if (w->child)
        child_kill(w->child);
    return 0;
}
