/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/daemon/links.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/names.h"
#include "ctl/daemon/server.h"
#include "ctl/insight/stats.h"
#include "io/log.h"
#include "wire/agent/agent_order.h"
#include "wire/text/json_quick.h"
#include "wire/text/json_read.h"

enum { ASKS_MAX = 256, FLUSH_BYTES = 65536 };
#define BYE_SPAN (2 * USEC_SEC) /* for the last words to a connection that is not wanted */
#define ASK_TIME (30 * USEC_SEC)
#define HELLO_TIME (10 * USEC_SEC)
#define PATIENCE (15 * USEC_MSEC) /* of what no node hurries for; below what agents wait for an acknowledgement */

struct ask {
    struct ask *next;
    int64_t id;
    links_answer_fn answer;
    void *arg;
    usec_t since; /* 0: it has been answered at least once */
};

struct link {
    struct links *links;
    struct request *request; /* held */
    struct frame_reader reader;
    uint32_t node;      /* links->names; NAME_NONE before hello */
    char expected[256]; /* name of its certificate; "": any (emulation) */
    struct ask *asks;
    size_t ask_count;
    struct buf out;   /* frames of this turn of the loop */
    struct buf later; /* frames that can wait for more; they go first */
    struct link *next_speaking, *next_waiting;
    bool speaks, waits, dead;
    bool firm; /* what is to be said follows from something that has to be durable */
};

struct links {
    struct server *server;
    struct names names;
    struct link **by_node;
    size_t by_node_capacity, count;
    int64_t next_ask;
    struct link *speaking; /* who has something in `out` */
    struct link *waiting;  /* who has something in `later` */
    struct loop_timer *sweep, *patience;
};

static struct link *link_of(const struct links *links, const char *node)
{
    uint32_t index = names_find(&links->names, node, strlen(node));

    return index == NAME_NONE ? NULL : links->by_node[index];
}

bool links_connected(const struct links *links, const char *node)
{
    return link_of(links, node) != NULL;
}

size_t links_count(const struct links *links)
{
    return links->count;
}

static void link_flush(struct link *link)
{
    struct net_conn *conn = request_conn(link->request);
    struct batcher *batcher = link->links->server->batcher;
    struct buf *out = &link->out;

    if (link->later.size && (!batcher || !batcher_behind(batcher))) {
        out = &link->later;
        buf_put(out, link->out.data, link->out.size);
        buf_clear(&link->out);
    }
    if (conn && !link->dead && out->size)
        net_write(conn, out->data, out->size);
    if (out->capacity > FLUSH_BYTES)
        buf_done(out);
    buf_clear(out);
    link->firm = false;
}

/* The same now, whatever it takes. */
static void link_flush_now(struct link *link)
{
    if (link->links->server->batcher)
        batcher_settle(link->links->server->batcher);
    link_flush(link);
}

static void link_speak(struct link *link)
{
    struct links *links = link->links;

    if (link->speaks)
        return;
    link->next_speaking = links->speaking;
    links->speaking = link;
    link->speaks = true;
}

/* The end of a turn: what was said to a node in it goes out as one piece. */
static void on_turn(void *arg)
{
    struct links *links = arg;
    struct batcher *batcher = links->server->batcher;
    struct link *link, *list = take(links->speaking);

    while ((link = list)) {
        list = link->next_speaking;
        link->speaks = false;
        if (link->firm && batcher && !batcher_settled(batcher))
            link_speak(link); /* the turn in which it is will end here too */
        else
            link_flush(link);
    }
}

static void on_patience(void *arg)
{
    struct links *links = arg;
    struct link *link;

    while ((link = links->waiting)) {
        links->waiting = link->next_waiting;
        link->waits = false;
        link->firm = true;
        link_speak(link);
    }
}

/* It is about to go. */
static void link_silence(struct link *link)
{
    struct link **at = &link->links->speaking;

    while (*at && *at != link)
        at = &(*at)->next_speaking;
    if (*at)
        *at = link->next_speaking;
    at = &link->links->waiting;
    while (*at && *at != link)
        at = &(*at)->next_waiting;
    if (*at)
        *at = link->next_waiting;
    buf_done(&link->out);
    buf_done(&link->later);
}

/* That a report was taken, and that a task's directory may go: it changes nothing for anybody, and the next job of a
 * busy node brings it along. */
static bool frame_patient(const struct agent_frame *frame)
{
    return frame->kind == DOWN_ACK || (frame->kind == DOWN_ORDER && frame->order == ORDER_CLEAN);
}

/* Questions and echoes of beats follow from nothing that was reported. */
static bool frame_free(const struct agent_frame *frame)
{
    return frame->kind == DOWN_ASK || frame->kind == DOWN_BEAT;
}

static void link_wait(struct link *link)
{
    struct links *links = link->links;

    if (link->waits)
        return;
    if (!links->waiting)
        loop_timer_after(links->patience, PATIENCE);
    link->waits = true;
    link->next_waiting = links->waiting;
    links->waiting = link;
}

static void frame_put(struct link *link, const struct agent_frame *frame)
{
    bool patient = link->links->patience && frame_patient(frame);
    struct buf *out = patient ? &link->later : &link->out;
    struct error err;
    size_t start;

    if (link->dead)
        return;
    if (link->out.size + link->later.size > FLUSH_BYTES)
        link_flush_now(link);
    out->max = 2 * FLUSH_BYTES + 2 * (size_t)FRAME_BYTES_MAX;
    start = frame_open(out);
    buf_put(out, frame->text, frame->size);
    if (frame_close(out, start, &err) < 0)
        log_err("frame too large", "error", err.text);
    link->firm = link->firm || (!patient && !frame_free(frame));
    if (patient)
        link_wait(link);
    else
        link_speak(link);
}

/* A question, or the last word. */
static void frame_send(struct link *link, enum agent_down kind, const json_t *tree)
{
    struct agent_frame frame = { .kind = kind, .order = ORDER_COUNT };
    char *text = json_text(tree, &frame.size);

    frame.text = text;
    if (text)
        frame_put(link, &frame);
    free(text); /* jansson's */
}

bool links_send(struct links *links, const char *node, const struct agent_frame *frame)
{
    struct link *link = link_of(links, node);

    if (!link || link->dead)
        return false;
    frame_put(link, frame);
    return true;
}

static void link_kill(struct link *link, const char *why)
{
    struct net_conn *conn = request_conn(link->request);
    json_t *bye;

    if (link->dead)
        return;
    bye = json_pack("{s:s, s:s}", "t", agent_down_name(DOWN_BYE), "why", why);
    log_warn("agent dropped", "node",
             link->node == NAME_NONE ? link->expected : names_get(&link->links->names, link->node), "why", why);
    if (bye) {
        frame_send(link, DOWN_BYE, bye);
        link_flush_now(link);
        json_decref(bye);
    }
    link->dead = true;
    if (conn)
        net_finish(conn, BYE_SPAN);
}

void links_drop(struct links *links, const char *node)
{
    struct link *link = link_of(links, node);

    if (link)
        link_kill(link, "its certificate was revoked");
}

static void asks_end(struct link *link)
{
    while (link->asks) {
        struct ask *ask = link->asks;

        link->asks = ask->next;
        ask->answer(ask->arg, NULL, true);
        mem_free(ask);
    }
    link->ask_count = 0;
}

static void on_answer(struct link *link, json_t *frame)
{
    int64_t id = json_integer_value(json_object_get(frame, "id"));
    struct ask **slot = &link->asks, *ask;
    bool last = !json_is_true(json_object_get(frame, "more"));

    while (*slot && (*slot)->id != id)
        slot = &(*slot)->next;
    ask = *slot;
    if (!ask)
        return; /* nobody wants it any more */
    ask->since = 0;
    if (last) {
        *slot = ask->next;
        link->ask_count--;
    }
    ask->answer(ask->arg, frame, last);
    if (last)
        mem_free(ask);
}

/* The first frame says who it is. */
static int on_hello(struct link *link, json_t *frame, struct error *err)
{
    struct links *links = link->links;
    const char *name = json_string_value(json_object_get(frame, "node"));
    uint32_t index;
    struct link *old;
    int r;

    if (!name || !*name || strlen(name) > AGENT_NAME_MAX)
        return error_set(err, -EBADMSG, "hello without a node");
    if (link->expected[0] && strcmp(name, link->expected) != 0)
        return error_set(err, -EPERM, "its certificate is for %s, it says %s", link->expected, name);
    r = names_put(&links->names, name, strlen(name), &index);
    if (r == 0) {
        size_t before = links->by_node_capacity;

        r = mem_grow((void **)&links->by_node, &links->by_node_capacity, index + 1, NODES_MAX, sizeof(*links->by_node));
        for (size_t i = before; r == 0 && i < links->by_node_capacity; i++)
            links->by_node[i] = NULL;
    }
    if (r < 0)
        return error_set(err, r, "no room for another node");
    old = links->by_node[index];
    r = batcher_agent_admit(links->server->batcher, name, frame,
                            &(struct agent_caller){ net_peer(request_conn(link->request)), old != NULL }, err);
    if (r < 0)
        return r;
    if (old) {
        link_kill(old, "the node has connected again");
        asks_end(old);
        old->node = NAME_NONE;
        links->count--;
        batcher_agent_gone(links->server->batcher, name);
    }
    links->by_node[index] = link;
    links->count++;
    link->node = index;
    return batcher_agent_hello(links->server->batcher, name, frame, err);
}

static int on_frame(struct link *link, json_t *frame, struct error *err)
{
    struct server *server = link->links->server;
    int kind = agent_up_find(json_string_value(json_object_get(frame, "t")));

    if (kind < 0 && link->node != NAME_NONE)
        return 0; /* of a newer agent, which can do without an answer (docs/protocol.md, Versions) */
    if (kind < 0)
        return error_set(err, -EBADMSG, "a frame of an unknown kind");
    if ((kind == UP_HELLO) != (link->node == NAME_NONE))
        return error_set(err, -EBADMSG, kind == UP_HELLO ? "a second hello" : "the first frame is no hello");
    if (kind == UP_HELLO)
        return on_hello(link, frame, err);
    if (kind == UP_ANSWER) {
        on_answer(link, frame);
        return 0;
    }
    if (kind == UP_REPORT)
        server->stats->reports++;
    return batcher_agent_frame(server->batcher, names_get(&link->links->names, link->node), frame, err);
}

static int frames_take(struct link *link, struct error *err)
{
    const char *text;
    size_t size;
    int r;

    while (!link->dead && (r = frame_reader_next(&link->reader, &text, &size, err)) != 0) {
        json_t *frame = NULL;

        if (r > 0)
            r = json_read("frame", text, size, &frame, err);
        if (r == 0 && !json_is_object(frame))
            r = error_set(err, -EBADMSG, "a frame that is no object");
        if (r >= 0)
            r = on_frame(link, frame, err);
        json_decref(frame);
        if (r < 0)
            return r;
    }
    return 0;
}

static void on_data(void *arg, const char *data, size_t size)
{
    struct link *link = arg;
    struct net_conn *conn = request_conn(link->request);
    struct server *server = link->links->server;
    struct error err = { 0 };
    int r;

    if (link->dead || !conn || !server->batcher)
        return;
    r = frame_reader_feed(&link->reader, data, size, &err);
    if (r >= 0)
        r = frames_take(link, &err);
    if (r < 0) {
        server->stats->frames_bad++;
        link_kill(link, err.text);
        return;
    }
    /* Before hello the clock that was set when it connected goes on. */
    if (link->node != NAME_NONE)
        net_deadline(conn, server->conf->node_timeout * 3);
}

static void on_closed(void *arg)
{
    struct link *link = arg;
    struct links *links = link->links;

    link->dead = true;
    asks_end(link);
    link_silence(link);
    if (link->node != NAME_NONE) {
        links->by_node[link->node] = NULL;
        links->count--;
        if (links->server->batcher)
            batcher_agent_gone(links->server->batcher, names_get(&links->names, link->node));
    }
    frame_reader_done(&link->reader);
    request_drop(link->request);
    mem_free(link);
}

static const struct upgrade_ops link_ops = { .data = on_data, .closed = on_closed };

void links_accept(struct request *request)
{
    struct server *server = request_server(request);
    const struct http_message *m = request->message;
    struct link *link;

    if (!m->upgrade || !http_list_has(http_header(m, "upgrade"), "muster-agent")) {
        reply_header(request, "Upgrade", "muster-agent");
        reply_problem(request, 426, "UpgradeRequired", NULL, "agents speak muster-agent here");
        return;
    }
    link = mem_zalloc(1, sizeof(*link));
    if (!link) {
        reply_problem(request, 503, "Busy", NULL, "out of memory");
        return;
    }
    link->links = server->links;
    link->request = request_hold(request);
    link->node = NAME_NONE;
    if (strcmp(request->who.via, "certificate") == 0)
        (void)snprintf(link->expected, sizeof(link->expected), "%s", request->who.user);
    frame_reader_init(&link->reader, FRAME_BYTES_MAX);
    net_deadline(request_conn(request), HELLO_TIME);
    reply_upgrade(request, "muster-agent", "", &link_ops, link);
    if (request_conn(request) && link->node == NAME_NONE)
        net_deadline(request_conn(request), HELLO_TIME);
}

int64_t links_ask(struct links *links, const char *node, json_t *body, links_answer_fn answer, void *arg)
{
    struct link *link = link_of(links, node);
    struct ask *ask = NULL;
    /* Output that is followed and commands that run may be silent for long. */
    const char *what = json_string_value(json_object_get(body, "do"));
    bool patient = json_is_true(json_object_get(body, "follow")) || (what && strcmp(what, "exec") == 0);
    int64_t r = link ? link->ask_count < ASKS_MAX ? 0 : -EBUSY : -ENOTCONN;

    if (r == 0) {
        ask = mem_zalloc(1, sizeof(*ask));
        if (!ask || !body)
            r = -ENOMEM;
    }
    if (r < 0) {
        mem_free(ask);
        json_decref(body);
        return r;
    }
    *ask = (struct ask){
        .next = link->asks, .id = ++links->next_ask, .answer = answer, .arg = arg, .since = patient ? 0 : clock_now()
    };
    link->asks = ask;
    link->ask_count++;
    r = ask->id;
    (void)json_object_set_new(body, "t", json_string("ask"));
    (void)json_object_set_new(body, "id", json_integer(r));
    frame_send(link, DOWN_ASK, body);
    json_decref(body);
    return r;
}

void links_ask_more(struct links *links, const char *node, int64_t id, json_t *body)
{
    struct link *link = link_of(links, node);

    if (link && body) {
        (void)json_object_set_new(body, "t", json_string("ask"));
        (void)json_object_set_new(body, "id", json_integer(id));
        frame_send(link, DOWN_ASK, body);
    }
    json_decref(body);
}

void links_unask(struct links *links, const char *node, int64_t id)
{
    struct link *link = link_of(links, node);
    struct ask **slot;

    if (!link)
        return;
    for (slot = &link->asks; *slot; slot = &(*slot)->next)
        if ((*slot)->id == id) {
            struct ask *ask = *slot;

            *slot = ask->next;
            link->ask_count--;
            mem_free(ask);
            break;
        }
    links_ask_more(links, node, id, json_pack("{s:s}", "do", "close"));
}

/* Asks that nobody answered. */
static void on_sweep(void *arg)
{
    struct links *links = arg;
    usec_t before = clock_now() - ASK_TIME;

    for (size_t i = 0; i < links->names.count; i++) {
        struct link *link = links->by_node[i];
        struct ask **slot = link ? &link->asks : NULL;

        while (slot && *slot) {
            struct ask *ask = *slot;

            if (ask->since == 0 || ask->since > before) {
                slot = &ask->next;
                continue;
            }
            *slot = ask->next;
            link->ask_count--;
            ask->answer(ask->arg, NULL, true);
            mem_free(ask);
        }
    }
}

int links_new(struct server *server, struct links **ret_links)
{
    struct links *links = mem_zalloc(1, sizeof(*links));
    int r;

    if (!links)
        return -ENOMEM;
    links->server = server;
    r = loop_timer_new(server->loop, on_sweep, links, &links->sweep);
    if (r == 0)
        r = loop_timer_new(server->loop, on_patience, links, &links->patience);
    if (r == 0)
        r = loop_each_turn(server->loop, on_turn, links);
    if (r < 0) {
        mem_free(links);
        return r;
    }
    loop_timer_every(links->sweep, 5 * USEC_SEC);
    *ret_links = links;
    return 0;
}

void links_stop(struct links *links)
{
    if (!links)
        return;
    loop_timer_free(take(links->sweep));
    loop_timer_free(take(links->patience));
}

void links_free(struct links *links)
{
    if (!links)
        return;
    names_done(&links->names);
    mem_free(links->by_node);
    mem_free(links);
}
