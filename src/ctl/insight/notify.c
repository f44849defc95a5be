/* SPDX-License-Identifier: Apache-2.0 */
/* notify.c - see notify.h. */
#include "ctl/insight/notify.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "ctl/insight/event_detail.h"
#include "ctl/rest/render/record_tree.h"
#include "io/child.h"
#include "io/log.h"
#include "wire/text/json_read.h"

enum { AT_ONCE = 4, WAITING_MAX = 1000, TRIES = 3, OUT_MAX = 4096 };
#define TIME_MAX (30 * USEC_SEC)
#define DETAIL_BYTES_MAX ((size_t)65536)
#define AGAIN_AFTER (5 * USEC_SEC)

struct message {
    struct message *next;
    struct notify *notify;
    struct child *child;
    char *to, *text;
    int tries;
};

struct notify {
    struct server *server;
    struct loop_timer *timer;
    struct message *first, *last; /* that wait */
    struct message *running[AT_ONCE];
    struct notify_counts counts;
};

static void message_free(struct message *message)
{
    if (message) {
        mem_free(message->to);
        mem_free(message->text);
    }
    mem_free(message);
}

static void push(struct notify *notify, struct message *message)
{
    message->next = NULL;
    if (notify->last)
        notify->last->next = message;
    else
        notify->first = message;
    notify->last = message;
    notify->counts.waiting++;
}

static void turn(struct notify *notify);

static void on_end(void *arg, const struct child_end *end)
{
    struct message *message = arg;
    struct notify *notify = message->notify;
    bool well = end->code == 0 && end->signal == 0 && !end->why;

    for (int i = 0; i < AT_ONCE; i++)
        if (notify->running[i] == message)
            notify->running[i] = NULL;
    message->child = NULL;
    if (well) {
        notify->counts.sent++;
        message_free(message);
    } else if (++message->tries < TRIES && !notify->server->stopping) {
        push(notify, message);
        loop_timer_after(notify->timer, AGAIN_AFTER);
        return; /* not at once: whoever is to be told may be busy */
    } else {
        notify->counts.failed++;
        log_warn("not told", "to", message->to, "error", end->why ? end->why : end->err);
        message_free(message);
    }
    turn(notify);
}

static bool start(struct notify *notify, struct message *message, int slot)
{
    const char *argv[] = { notify->server->conf->notify, message->to, message->text, NULL };
    struct child_spec spec = {
        .argv = argv, .limits = { .wall = TIME_MAX, .nice = 10, .out_max = OUT_MAX }, .done = on_end, .arg = message
    };
    struct error err = { 0 };

    if (child_start(notify->server->loop, &spec, &message->child, &err) < 0) {
        log_warn("not told", "to", message->to, "error", err.text);
        notify->counts.failed++;
        message_free(message);
        return false;
    }
    notify->running[slot] = message;
    return true;
}

static void turn(struct notify *notify)
{
    for (int i = 0; i < AT_ONCE; i++)
        while (!notify->running[i] && notify->first && !notify->server->stopping) {
            struct message *message = notify->first;

            notify->first = message->next;
            if (!notify->first)
                notify->last = NULL;
            notify->counts.waiting--;
            (void)start(notify, message, i);
        }
}

static void on_again(void *arg)
{
    turn(arg);
}

static void add(struct notify *notify, const char *to, const char *text)
{
    struct message *message = notify->counts.waiting < WAITING_MAX ? mem_zalloc(1, sizeof(*message)) : NULL;

    if (message) {
        message->notify = notify;
        message->to = mem_strdup(to);
        message->text = mem_strdup(text);
    }
    if (!message || !message->to || !message->text) {
        notify->counts.dropped++;
        message_free(message);
        return;
    }
    push(notify, message);
    turn(notify);
}

/* Which of the words a job may ask for an event is; NULL: none. */
static const char *word_of(const struct ctl_event *event)
{
    const char *state = event_detail_text(event, "state");

    if (strcmp(event->kind, "job.running") == 0)
        return "start";
    if (strcmp(event->kind, "job.preempted") == 0)
        return "preempt";
    if (strcmp(event->kind, "job.kept") == 0)
        return "fail";
    if (strcmp(event->kind, "job.ended") == 0)
        return state && strcmp(state, "COMPLETED") == 0 ? "end" : "fail";
    return NULL;
}

/* NULL: nothing is told with it. */
static json_t *detail_of(const struct ctl_event *event)
{
    CLEANUP_BUF struct buf text = BUF_INIT(DETAIL_BYTES_MAX);
    json_t *tree = NULL;

    if (event->facts)
        event_detail_put(&text, event);
    return text.size && json_read("detail", text.data, text.size, &tree, NULL) == 0 ? tree : NULL;
}

/* What is told, as one line of JSON; the caller's. */
static char *text_of(const struct notify *notify, const struct ctl_event *event, const struct ctl_job *job)
{
    const struct server *server = notify->server;
    const struct registry *registry = server_book(server);
    json_t *out = json_pack("{s:s, s:s, s:o, s:s?, s:o?}", "cluster", server->conf->cluster, "kind", event->kind,
                            "time", record_time(event->at), "node", event->node, "detail", detail_of(event));
    char *text;

    if (job) {
        (void)json_object_set_new(out, "job", json_integer(job->id));
        (void)json_object_set_new(out, "name", json_string(job->spec->name ? job->spec->name : ""));
        (void)json_object_set_new(out, "user", json_string(names_get(&registry->users, job->user)));
        (void)json_object_set_new(out, "state", json_string(phase_name(job->phase)));
        (void)json_object_set_new(out, "text", json_string(job->end_text));
        (void)json_object_set_new(out, "exit_code", phase_over(job->phase) ? json_integer(job->exit) : json_null());
    }
    text = out ? json_dumps(out, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    json_decref(out);
    return text;
}

static void job_notify(struct notify *notify, const struct ctl_event *event, const struct ctl_job *job)
{
    const char *word = word_of(event), *user = names_get(&server_book(notify->server)->users, job->user);
    char *text = word && job->spec->notify_count ? text_of(notify, event, job) : NULL;

    for (size_t i = 0; text && i < job->spec->notify_count; i++) {
        const char *wanted = job->spec->notify[i], *to = strchr(wanted, '=');
        char mail[96];

        if (strncmp(wanted, word, strlen(word)) != 0 || (wanted[strlen(word)] && wanted[strlen(word)] != '='))
            continue;
        (void)snprintf(mail, sizeof(mail), "mailto:%.64s", user);
        add(notify, to ? to + 1 : mail, text);
    }
    free(text); /* jansson's */
}

static bool hook_wants(const struct entry_hook *hook, const char *kind)
{
    for (size_t i = 0; i < hook->kinds.count; i++)
        if (strncmp(kind, hook->kinds.items[i], strlen(hook->kinds.items[i])) == 0)
            return true;
    return hook->kinds.count == 0;
}

void notify_event(struct notify *notify, const struct ctl_event *event)
{
    const struct registry *registry = server_book(notify->server);
    const struct ctl_job *job;
    char *text = NULL;

    if (!notify->server->conf->notify)
        return;
    job = event->job ? registry_find(registry, event->job) : NULL;
    if (job)
        job_notify(notify, event, job);
    for (each_record(const struct entry_hook, hook, &registry->kept.hooks)) {
        if (!hook_wants(hook, event->kind))
            continue;
        if (!text)
            text = text_of(notify, event, job);
        if (text)
            add(notify, hook->to, text);
    }
    free(text); /* jansson's */
}

void notify_count(const struct notify *notify, struct notify_counts *ret)
{
    *ret = notify->counts;
}

int notify_new(struct server *server, struct notify **ret_notify)
{
    struct notify *notify = mem_zalloc(1, sizeof(*notify));

    if (!notify)
        return -ENOMEM;
    notify->server = server;
    if (loop_timer_new(server->loop, on_again, notify, &notify->timer) < 0) {
        mem_free(notify);
        return -ENOMEM;
    }
    *ret_notify = notify;
    return 0;
}

void notify_stop(struct notify *notify)
{
    if (!notify)
        return;
    loop_timer_free(take(notify->timer));
    for (int i = 0; i < AT_ONCE; i++)
        if (notify->running[i]) {
            child_abandon(notify->running[i]->child);
            message_free(take(notify->running[i]));
        }
}

void notify_free(struct notify *notify)
{
    struct message *message, *next;

    if (!notify)
        return;
    for (message = notify->first; message; message = next) {
        next = message->next;
        message_free(message);
    }
    mem_free(notify);
}
