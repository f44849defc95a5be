/* SPDX-License-Identifier: Apache-2.0 */
/* watch.c - see watch.h.
 *
 *   LIST ──page by page──► WATCH ──ended──► WATCH from the last resourceVersion
 *     ▲                      │ 410
 *     └───── REST (after a failure, longer each time) ◄─┘
 */
#include "k8s/watch.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "io/clock.h"
#include "io/log.h"
#include "k8s/objects.h"
#include "wire/text/json_quick.h"
#include "wire/text/json_read.h"

enum { PAGE = 500, VERSION_MAX = 64 };
#define REST_MIN (USEC_SEC / 10)
#define REST_MAX (10 * USEC_SEC)
#define ABSENT_REST USEC_MIN

enum watch_state { WATCH_REST, WATCH_LISTING, WATCH_WATCHING };

struct watch {
    struct client *client;
    struct watch_kind kind;
    enum watch_state state;
    bool list_next; /* what to do after the rest: list, or go on watching */
    bool expired, known;
    usec_t rest, until;
    char version[VERSION_MAX];
    char *next_page; /* owned */
    uint64_t lists;
};

int api_watch_new(struct client *client, const struct watch_kind *kind, struct watch **ret_watch, struct error *err)
{
    struct watch *watch = mem_zalloc(1, sizeof(*watch));

    if (!watch)
        return error_set(err, -ENOMEM, "no memory for a watch");
    *watch = (struct watch){ .client = client, .kind = *kind, .list_next = true, .rest = REST_MIN };
    *ret_watch = watch;
    return 0;
}

void api_watch_free(struct watch *watch)
{
    if (watch)
        mem_free(watch->next_page);
    mem_free(watch);
}

bool api_watch_synced(const struct watch *watch)
{
    return watch->known;
}

uint64_t api_watch_lists(const struct watch *watch)
{
    return watch->lists;
}

static void rest(struct watch *watch, bool list_next)
{
    watch->state = WATCH_REST;
    watch->list_next = list_next;
    watch->until = clock_now() + watch->rest;
    watch->rest = watch->rest * 2 > REST_MAX ? REST_MAX : watch->rest * 2;
}

static void version_set(struct watch *watch, const json_t *object)
{
    const char *text = json_at_text(object, "metadata|resourceVersion");

    if (*text && strlen(text) < sizeof(watch->version))
        memcpy(watch->version, text, strlen(text) + 1);
}

static void set_absent(struct watch *watch)
{
    watch->kind.begin(watch->kind.arg);
    watch->kind.synced(watch->kind.arg);
    watch->known = true;
    watch->state = WATCH_REST;
    watch->list_next = true;
    watch->until = clock_now() + ABSENT_REST;
}

static void send(struct watch *watch, const char *path);

static void list_done(void *arg, const struct client_reply *reply)
{
    struct watch *watch = arg;
    json_t *item;
    const char *more;
    size_t i;

    if (reply->status == 404) {
        set_absent(watch);
        return;
    }
    if (reply->status != 200 || !json_is_array(json_object_get(reply->body, "items"))) {
        log_warn("list failed", "kind", watch->kind.name, "status", LOG_I64(reply->status), "answer", reply->text);
        mem_free(watch->next_page);
        watch->next_page = NULL;
        rest(watch, true);
        return;
    }
    if (!watch->next_page)
        watch->kind.begin(watch->kind.arg);
    json_array_foreach(json_object_get(reply->body, "items"), i, item)
    {
        watch->kind.object(watch->kind.arg, WATCH_ADDED, item);
    }
    mem_free(watch->next_page);
    watch->next_page = NULL;
    more = json_at_text(reply->body, "metadata|continue");
    version_set(watch, reply->body);
    if (*more && (watch->next_page = mem_strdup(more))) {
        watch->state = WATCH_REST; /* the next page at once */
        watch->list_next = true;
        watch->until = 0;
        return;
    }
    watch->kind.synced(watch->kind.arg);
    watch->known = true;
    watch->lists++;
    watch->rest = REST_MIN;
    watch->state = WATCH_REST;
    watch->list_next = false;
    watch->until = 0;
}

static bool watch_line(void *arg, const char *text, size_t size)
{
    static const char *const names[] = { "ADDED", "MODIFIED", "DELETED" };
    struct watch *watch = arg;
    struct error err = { 0 };
    json_t *event = NULL;
    const json_t *object;
    const char *type;

    if (json_quick_read(text, size, &event) < 0 && json_read("watch", text, size, &event, &err) < 0) {
        log_warn("watch: not JSON", "kind", watch->kind.name, "why", err.text);
        watch->expired = true; /* something was lost: list anew */
        return false;
    }
    type = json_at_text(event, "type");
    object = json_object_get(event, "object");
    if (strcmp(type, "ERROR") == 0) {
        watch->expired = true;
        json_decref(event);
        return false;
    }
    for (int i = 0; i < 3; i++)
        if (strcmp(type, names[i]) == 0)
            watch->kind.object(watch->kind.arg, (enum watch_event)i, object);
    version_set(watch, object); /* a bookmark's, too */
    watch->rest = REST_MIN;
    json_decref(event);
    return true;
}

static void watch_done(void *arg, const struct client_reply *reply)
{
    struct watch *watch = arg;

    if (watch->expired || reply->status == 410) {
        watch->expired = false;
        rest(watch, true);
        return;
    }
    if (reply->status == 200) {
        watch->state = WATCH_REST; /* it lasted as long as it may */
        watch->list_next = false;
        watch->until = clock_now() + REST_MIN;
        return;
    }
    log_info("watch ended", "kind", watch->kind.name, "status", LOG_I64(reply->status), "why", reply->text);
    rest(watch, reply->status >= 400 && reply->status < 500);
}

static void send(struct watch *watch, const char *path)
{
    struct error err = { 0 };
    bool list = watch->state == WATCH_LISTING;
    int r = client_send(watch->client,
                        &(struct client_call){ .method = "GET",
                                               .path = path,
                                               .limit = list ? USEC_MIN : watch->kind.stretch + 15 * USEC_SEC,
                                               .line = list ? NULL : watch_line,
                                               .done = list ? list_done : watch_done,
                                               .arg = watch },
                        &err);

    if (r < 0)
        rest(watch, watch->list_next);
}

static void begin_list(struct watch *watch)
{
    CLEANUP_BUF struct buf path = BUF_INIT(1 << 16);

    buf_printf(&path, "%s?limit=%d", watch->kind.path, PAGE);
    if (watch->next_page) {
        buf_text(&path, "&continue=");
        buf_percent(&path, watch->next_page, "");
    }
    buf_char(&path, '\0');
    watch->state = WATCH_LISTING;
    if (path.error)
        rest(watch, true);
    else
        send(watch, path.data);
}

static void begin_watch(struct watch *watch)
{
    char path[512];

    (void)snprintf(path, sizeof(path), "%.300s?watch=1&allowWatchBookmarks=true&timeoutSeconds=%lld&resourceVersion=%s",
                   watch->kind.path, (long long)(watch->kind.stretch / USEC_SEC), watch->version);
    watch->state = WATCH_WATCHING;
    send(watch, path);
}

usec_t api_watch_turn(struct watch *watch, usec_t now)
{
    if (watch->state != WATCH_REST)
        return USEC_NEVER;
    if (now < watch->until)
        return watch->until;
    if (watch->list_next)
        begin_list(watch);
    else
        begin_watch(watch);
    return watch->state == WATCH_REST ? watch->until : USEC_NEVER;
}
