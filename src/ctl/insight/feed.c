/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/insight/feed.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "ctl/daemon/server.h"
#include "ctl/insight/event_detail.h"
#include "wire/text/duration.h"
#include "wire/text/json_write.h"

enum { KINDS_MAX = 8, PIECE_BYTES = 32768 };
#define POKE_TIME (5 * USEC_MSEC) /* of the loop, on telling readers, in each PUMP_EVERY */
#define PUMP_EVERY (10 * USEC_MSEC)
#define COMMENT_EVERY (15 * USEC_SEC)
#define EVENT_BYTES_MAX ((size_t)65536)

/* Most are never looked at: one becomes text when somebody asks for it. */
struct kept_event {
    uint64_t id;
    int64_t job;
    usec_t at;
    char kind[32];
    char *node;
    char *detail; /* JSON; NULL: none */
    char *text;   /* JSON; NULL: not yet */
};

struct listener {
    struct feed *feed;
    struct request *request;
    struct listener *prev, *next;
    uint64_t last; /* id of the last event handed over */
    int64_t job;
    char kinds[KINDS_MAX][32]; /* beginnings of kinds; none = all */
    size_t kind_count;
    bool greeted, comment, reset;
};

struct feed {
    struct loop_timer *timer;
    struct kept_event events[FEED_EVENTS]; /* event id at id % FEED_EVENTS */
    uint64_t first, last;                  /* ids in the ring; 0 = none */
    char *decisions[FEED_DECISIONS];
    size_t decision_next;
    struct listener *listeners;
    size_t listener_count, listeners_max;
    struct loop_timer *pump;
    struct listener *cursor; /* who is told next of those that have not been told; NULL: all have */
    usec_t since, spent;     /* on telling them, since then */
    bool fresh, armed;       /* there is more to tell since the cursor was at the first; the pump will run */
};

static void event_clear(struct kept_event *event)
{
    mem_free(event->text);
    mem_free(event->node);
    mem_free(event->detail);
    *event = (struct kept_event){ 0 };
}

static void pump_arm(struct feed *feed)
{
    if (feed->armed || !feed->pump)
        return;
    feed->armed = true;
    loop_timer_after(feed->pump, PUMP_EVERY);
}

static void listeners_poke(struct feed *feed)
{
    usec_t began = clock_now(), now = began;

    if (!feed->cursor) {
        feed->cursor = feed->listeners;
        feed->fresh = false;
    }
    while (feed->cursor && now - began < POKE_TIME) {
        struct listener *listener = feed->cursor;

        feed->cursor = listener->next; /* poked, it may be gone */
        request_poke(listener->request);
        now = clock_now();
    }
    feed->spent += now - began;
    if (feed->cursor || feed->fresh)
        pump_arm(feed);
}

static void on_pump(void *arg)
{
    struct feed *feed = arg;

    feed->armed = false;
    feed->spent = 0;
    feed->since = clock_now();
    listeners_poke(feed);
}

/* Readers hear of it at once, as long as that takes little; a burst is told to many by and by. */
static void listeners_tell(struct feed *feed)
{
    usec_t now = clock_now();

    feed->fresh = true;
    if (now - feed->since > PUMP_EVERY) {
        feed->since = now;
        feed->spent = 0;
    }
    if (feed->spent < POKE_TIME && !feed->cursor)
        listeners_poke(feed);
    else
        pump_arm(feed);
}

static void on_comment(void *arg)
{
    struct feed *feed = arg;

    for (struct listener *listener = feed->listeners; listener; listener = listener->next)
        listener->comment = true;
    listeners_tell(feed);
}

int feed_new(struct loop *loop, size_t listeners_max, struct feed **ret_feed)
{
    struct feed *feed = mem_zalloc(1, sizeof(*feed));
    int r;

    if (!feed)
        return -ENOMEM;
    feed->listeners_max = listeners_max;
    r = loop_timer_new(loop, on_comment, feed, &feed->timer);
    if (r == 0)
        r = loop_timer_new(loop, on_pump, feed, &feed->pump);
    if (r < 0) {
        loop_timer_free(feed->timer);
        mem_free(feed);
        return r;
    }
    loop_timer_every(feed->timer, COMMENT_EVERY);
    *ret_feed = feed;
    return 0;
}

void feed_stop(struct feed *feed)
{
    if (!feed)
        return;
    loop_timer_free(take(feed->timer));
    loop_timer_free(take(feed->pump));
}

void feed_free(struct feed *feed)
{
    if (!feed)
        return;
    for (size_t i = 0; i < FEED_EVENTS; i++)
        event_clear(&feed->events[i]);
    for (size_t i = 0; i < FEED_DECISIONS; i++)
        mem_free(feed->decisions[i]);
    mem_free(feed);
}

size_t feed_listeners(const struct feed *feed)
{
    return feed->listener_count;
}

uint64_t feed_last(const struct feed *feed)
{
    return feed->last;
}

static void event_write(struct buf *out, const struct kept_event *event)
{
    buf_printf(out, "{\"id\":%" PRIu64 ",\"time\":\"", event->id);
    instant_put(out, event->at);
    buf_text(out, "\",\"kind\":");
    json_put_string(out, event->kind, strlen(event->kind));
    if (event->job)
        buf_printf(out, ",\"job\":%" PRId64, event->job);
    else
        buf_text(out, ",\"job\":null");
    buf_text(out, ",\"node\":");
    if (event->node)
        json_put_string(out, event->node, strlen(event->node));
    else
        buf_text(out, "null");
    buf_text(out, ",\"detail\":");
    buf_text(out, event->detail ? event->detail : "null");
    buf_char(out, '}');
}

/* NULL: there is none of that number, or no memory. */
static const char *event_text(struct feed *feed, uint64_t id)
{
    struct kept_event *event = &feed->events[id % FEED_EVENTS];
    struct buf text = BUF_INIT(EVENT_BYTES_MAX);
    struct bytes bytes;

    if (event->id != id)
        return NULL;
    if (!event->text) {
        event_write(&text, event);
        if (buf_take(&text, &bytes, NULL) == 0)
            event->text = bytes.data;
    }
    return event->text;
}

void feed_event(struct feed *feed, const struct ctl_event *event)
{
    struct kept_event *kept = &feed->events[event->id % FEED_EVENTS];
    CLEANUP_BUF struct buf detail = BUF_INIT(EVENT_BYTES_MAX);

    if (event->facts)
        event_detail_put(&detail, event);
    event_clear(kept);
    *kept = (struct kept_event){ .id = event->id,
                                 .job = event->job,
                                 .at = event->at,
                                 .node = event->node ? mem_strdup(event->node) : NULL,
                                 .detail = detail.size ? mem_strdup(detail.data) : NULL };
    memcpy(kept->kind, event->kind, strnlen(event->kind, sizeof(kept->kind) - 1)); /* it ends in zeros */
    feed->last = event->id;
    if (feed->first == 0 || feed->last - feed->first >= FEED_EVENTS)
        feed->first = feed->first == 0 ? event->id : feed->last - FEED_EVENTS + 1;
    if (feed->listeners)
        listeners_tell(feed);
}

void feed_decision(struct feed *feed, const char *line)
{
    char **slot = &feed->decisions[feed->decision_next++ % FEED_DECISIONS];

    mem_free(*slot);
    *slot = mem_strdup(line);
}

static bool event_wanted(const struct listener *listener, const struct kept_event *event)
{
    if (listener->job && event->job != listener->job)
        return false;
    for (size_t i = 0; i < listener->kind_count; i++)
        if (strncmp(event->kind, listener->kinds[i], strlen(listener->kinds[i])) == 0)
            return true;
    return listener->kind_count == 0;
}

/* How much of an event somebody may know. */
enum event_view { VIEW_NONE, VIEW_BARE, VIEW_ALL };

/* Of other people's jobs as much as of the jobs themselves; where they save themselves is theirs alone. */
static enum event_view view_of(const struct listener *listener, const struct kept_event *event)
{
    const struct server *server = request_server(listener->request);
    const struct principal *who = &listener->request->who;
    const struct ctl_job *job;

    if (!event->job || who->role == ROLE_ADMIN)
        return VIEW_ALL;
    if (!server->batcher)
        return VIEW_NONE;
    job = registry_find(server_book(server), event->job);
    if (job && auth_sees(who, server_book(server), job, ctl_cluster(batcher_ctl(server->batcher))))
        return VIEW_ALL;
    if (server->conf->privacy == PRIVACY_NONE)
        return VIEW_NONE;
    return server->conf->privacy == PRIVACY_NAMES && strcmp(event->kind, "job.checkpoint") != 0 ? VIEW_ALL : VIEW_BARE;
}

/* The event as this reader may have it; false: not at all. */
static bool event_put(const struct listener *listener, uint64_t id, const char *before, struct buf *out)
{
    const struct kept_event *event = &listener->feed->events[id % FEED_EVENTS];
    enum event_view view = event->id == id && event_wanted(listener, event) ? view_of(listener, event) : VIEW_NONE;
    const char *text = view == VIEW_ALL ? event_text(listener->feed, id) : NULL;
    struct kept_event bare = *event;

    if (view == VIEW_NONE || (view == VIEW_ALL && !text))
        return false;
    buf_text(out, before);
    bare.detail = NULL;
    if (text)
        buf_text(out, text);
    else
        event_write(out, &bare);
    return true;
}

static int listener_next(void *arg, struct buf *out)
{
    struct listener *listener = arg;
    struct feed *feed = listener->feed;

    if (!listener->greeted) {
        buf_text(out, ": muster\nretry: 2000\n\n");
        listener->greeted = true;
    }
    if (listener->comment)
        buf_text(out, ": still here\n\n");
    listener->comment = false;
    if (feed->first && listener->last + 1 < feed->first)
        listener->reset = true;
    if (listener->reset) {
        listener->last = feed->last;
        listener->reset = false;
        buf_printf(out, "id: %" PRIu64 "\nevent: reset\ndata: {\"id\":%" PRIu64 ",\"kind\":\"reset\"}\n\n", feed->last,
                   feed->last);
    }
    while (listener->last < feed->last && out->size < PIECE_BYTES) {
        const struct kept_event *event = &feed->events[++listener->last % FEED_EVENTS];
        char head[96];

        (void)snprintf(head, sizeof(head), "id: %" PRIu64 "\nevent: %s\ndata: ", event->id, event->kind);
        if (event_put(listener, listener->last, head, out))
            buf_text(out, "\n\n");
    }
    return listener->last < feed->last ? 1 : -EAGAIN;
}

static void listener_gone(void *arg)
{
    struct listener *listener = arg;

    if (listener->prev)
        listener->prev->next = listener->next;
    else
        listener->feed->listeners = listener->next;
    if (listener->next)
        listener->next->prev = listener->prev;
    if (listener->feed->cursor == listener)
        listener->feed->cursor = listener->next;
    listener->feed->listener_count--;
    mem_free(listener);
}

static const struct stream_ops listener_stream = { .next = listener_next, .gone = listener_gone };

/* "job.,node.": beginnings of kinds. */
static void kinds_read(struct listener *listener, const char *text)
{
    while (*text && listener->kind_count < KINDS_MAX) {
        size_t length = strcspn(text, ",");

        if (length && length < sizeof(listener->kinds[0])) {
            char *kind = listener->kinds[listener->kind_count++];

            memcpy(kind, text, length);
            kind[length] = '\0';
        }
        text += length;
        text += *text == ',';
    }
}

/* All that is kept, as one answer. */
static void events_list(struct feed *feed, struct request *request, const struct listener *filter)
{
    struct buf out = BUF_INIT((size_t)FEED_EVENTS * 4096);
    bool any = false;

    buf_text(&out, "{\"apiVersion\":\"v1\",\"kind\":\"EventList\",\"items\":[");
    for (uint64_t id = feed->first > filter->last + 1 ? feed->first : filter->last + 1; feed->last && id <= feed->last;
         id++)
        any = event_put(filter, id, any ? "," : "", &out) || any;
    buf_text(&out, "],\"next\":null}");
    reply_buf(request, 200, &out);
}

void feed_reply(struct feed *feed, struct request *request, int64_t job)
{
    const char *accept = http_header(request->message, "accept");
    const char *resume = http_header(request->message, "last-event-id");
    struct listener filter = { .feed = feed, .request = request, .job = job }, *listener;
    char kinds[256];
    int64_t since = -1;

    if (query_i64(request, "since", 0, INT64_MAX, &since) < 0 || query_word(request, "kinds", kinds, sizeof(kinds)) < 0)
        return;
    if (kinds[0])
        kinds_read(&filter, kinds);
    if (resume)
        since = strtoll(resume, NULL, 10);
    if (!accept || !http_list_has(accept, "text/event-stream")) {
        filter.last = since > 0 ? (uint64_t)since : 0;
        events_list(feed, request, &filter);
        return;
    }
    if (feed->listener_count >= feed->listeners_max) {
        reply_problem(request, 503, "Busy", NULL, "too many are listening to events");
        return;
    }
    listener = mem_zalloc(1, sizeof(*listener));
    if (!listener) {
        reply_problem(request, 503, "Busy", NULL, "out of memory");
        return;
    }
    *listener = filter;
    listener->request = request;
    listener->last = since < 0 ? feed->last : (uint64_t)since;
    /* Ids of another life of the controller, or events that are no longer kept. */
    listener->reset = listener->last > feed->last || (since >= 0 && feed->last == 0 && since > 0);
    listener->next = feed->listeners;
    if (listener->next)
        listener->next->prev = listener;
    feed->listeners = listener;
    feed->listener_count++;
    reply_header(request, "Cache-Control", "no-store");
    reply_stream(request, 200, "text/event-stream", &listener_stream, listener);
}

/* Whether the line speaks of the job: its number as a word of its own. */
static bool line_names(const char *line, const char *id)
{
    size_t length = strlen(id);

    for (const char *at = line; (at = strstr(at, id)) != NULL; at += length) {
        char before = at == line ? ' ' : at[-1], after = at[length];

        if ((before == ' ' || before == '=' || before == ',') && (after == ' ' || after == '\0' || after == ','))
            return true;
    }
    return false;
}

void feed_trace(struct feed *feed, struct request *request, int64_t job)
{
    struct buf out = BUF_INIT((size_t)16 << 20);
    char id[24];
    bool any = false;

    (void)snprintf(id, sizeof(id), "%" PRId64, job);
    buf_text(&out, "{\"apiVersion\":\"v1\",\"kind\":\"DecisionList\",\"items\":[");
    for (size_t i = 0; i < FEED_DECISIONS; i++) {
        const char *line = feed->decisions[(feed->decision_next + i) % FEED_DECISIONS];

        if (!line || !line_names(line, id))
            continue;
        if (any)
            buf_char(&out, ',');
        json_put_string(&out, line, strlen(line));
        any = true;
    }
    buf_text(&out, "],\"next\":null}");
    reply_buf(request, 200, &out);
}
