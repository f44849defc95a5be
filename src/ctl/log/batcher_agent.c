/* SPDX-License-Identifier: Apache-2.0 */
/* batcher_agent.c - what agents say to the batcher, and what they are answered when it is durable. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "ctl/log/batcher_internal.h"
#include "ctl/log/entry_json.h"
#include "ctl/state/registry.h"
#include "ctl/state/state_internal.h"
#include "wire/text/json_write.h"

const char *batcher_text(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
}

bool batcher_send(struct batcher *batcher, const char *node, enum agent_down kind, enum order_kind order)
{
    struct agent_frame frame = { kind, order, batcher->frame.data, batcher->frame.size };

    return !batcher->frame.error && batcher->host.order(batcher->host.arg, node, &frame);
}

static void frame_begin(struct batcher *batcher, enum agent_down kind, struct json_write *ret)
{
    buf_clear(&batcher->frame);
    json_write_init(ret, &batcher->frame, false);
    json_write_object(ret, NULL);
    json_write_text(ret, "t", agent_down_name(kind));
}

static bool frame_end(struct batcher *batcher, enum agent_down kind, struct json_write *json, const char *node)
{
    json_write_close(json);
    return batcher_send(batcher, node, kind, ORDER_COUNT);
}

static bool send_ack(struct batcher *batcher, const char *name, uint64_t seq)
{
    struct json_write json;

    frame_begin(batcher, DOWN_ACK, &json);
    json_write_u64(&json, "seq", seq);
    return frame_end(batcher, DOWN_ACK, &json, name);
}

static bool send_welcome(struct batcher *batcher, const char *name, const struct ctl_node *node)
{
    const struct ctl_config *config = &batcher->config.ctl;
    usec_t beat = config->beat ? config->beat : config->node_timeout / 6;
    struct json_write json;

    frame_begin(batcher, DOWN_WELCOME, &json);
    json_write_i64(&json, "v", AGENT_PROTOCOL);
    json_write_i64(&json, "now", batcher->host.now(batcher->host.arg));
    json_write_text(&json, "cluster", config->cluster ? config->cluster : "muster");
    json_write_u64(&json, "acked", node->report_seq);
    json_write_i64(&json, "lease_ms", config->lease / USEC_MSEC);
    if (!config->lease_ends)
        json_write_bool(&json, "hold", true);
    json_write_i64(&json, "beat_ms", beat / USEC_MSEC);
    return frame_end(batcher, DOWN_WELCOME, &json, name);
}

void batcher_answer_agents(struct batcher *batcher, const struct offer *offers, size_t count, uint64_t seq)
{
    for (size_t i = 0; i < count; i++) {
        const struct entry *entry = &offers[i].entry;
        bool report = entry->kind == ENTRY_REPORT;
        struct ctl_node *node;
        const char *name;
        uint32_t index;

        if (entry->kind != ENTRY_JOIN && !report)
            continue;
        name = report ? entry->report.node : entry->join.node;
        index = names_find(&ctl_registry(batcher->ctl)->node_names, name, strlen(name));
        if (index == NAME_NONE)
            continue;
        node = &ctl_registry_mut(batcher->ctl)->nodes[index];
        if (report) {
            /* One acknowledgement says that all before it were taken too. */
            if (node->ack_batch != seq && node->connected && strcmp(node->agent, entry->report.agent) == 0)
                (void)send_ack(batcher, name, node->report_seq);
            node->ack_batch = seq;
            continue;
        }
        /* It may have gone before it was let in. */
        node->connected = send_welcome(batcher, name, node);
        node->gone = node->connected ? 0 : batcher->host.now(batcher->host.arg);
        node->seen = batcher->host.now(batcher->host.arg);
        ctl_sync(batcher->ctl, name);
    }
}

/* How long what runs there may go on without a word. Until the agent has said that it knows another lease, what it
 * was told before may still be so; an agent that does not say has always had one. */
static int64_t join_lease(const struct ctl_config *config, const json_t *hello)
{
    const json_t *told = json_object_get(hello, "lease_ms");
    int64_t own = json_integer_value(told);

    if (!told)
        return config->lease;
    if (!config->lease_ends || own <= 0 || own > USEC_DAY / USEC_MSEC * 365)
        return 0;
    return own * USEC_MSEC > config->lease ? own * USEC_MSEC : config->lease;
}

#define RETURN_TIME (20 * USEC_SEC) /* an agent without a controller dials every ten */

static bool texts_differ(const char *a, const char *b)
{
    return *a && *b && strcmp(a, b) != 0;
}

/* Why this agent cannot be let in; NULL: it can. One process has a name as long as it is heard. After that its jobs
 * decide: they are on one machine, which may have been restarted, and whose agent may be as quick to come back to a
 * controller that has just started as another. */
static const char *rival_of(const struct batcher *batcher, const struct ctl_node *node, const json_t *hello,
                            bool connected, bool *ret_rival)
{
    usec_t now = batcher->host.now(batcher->host.arg), patience = batcher->config.ctl.node_timeout;
    usec_t heard = node->seen > node->greeted ? node->seen : node->greeted;
    const char *instance = batcher_text(hello, "instance");
    bool same = strcmp(instance, node->instance) == 0;

    if (connected && texts_differ(instance, node->instance) && now - heard <= patience)
        return "another agent of this name is connected: two machines may have been made from one image; give one of "
               "them another name and let it join again";
    if (node->lost || node->forgotten || !node_runs(batcher->ctl, node))
        return NULL;
    if (texts_differ(batcher_text(hello, "machine"), node->machine))
        return "this is another machine than the one where the jobs of the node run; when that one is off: muster node "
               "lost";
    if (!connected && texts_differ(batcher_text(hello, "boot"), node->boot) && !same &&
        now - batcher->started < RETURN_TIME) {
        *ret_rival = false; /* as a rule its own, after the power was out everywhere */
        return "the controller has just started, and waits for the agent where the jobs of the node run";
    }
    return NULL;
}

int batcher_agent_admit(struct batcher *batcher, const char *name, const json_t *hello,
                        const struct agent_caller *caller, struct error *err)
{
    uint32_t index = names_find(&ctl_registry(batcher->ctl)->node_names, name, strlen(name));
    struct ctl_node *node = index == NAME_NONE ? NULL : &ctl_registry_mut(batcher->ctl)->nodes[index];
    bool rival = true;
    const char *why =
        node && *batcher_text(hello, "instance") ? rival_of(batcher, node, hello, caller->connected, &rival) : NULL;

    if (why && rival) {
        node->rival = batcher->host.now(batcher->host.arg);
        text_fit(node->rival_at, sizeof(node->rival_at), caller->address);
    }
    if (why)
        return error_set(err, -EADDRINUSE, "%s", why);
    if (node) {
        node->greeted = batcher->host.now(batcher->host.arg);
        text_fit(node->instance, sizeof(node->instance), batcher_text(hello, "instance"));
    }
    return 0;
}

/* A newer agent speaks to us as its welcome says that we do; one that is too old has to be brought up first. */
static int hello_check(const json_t *hello, struct error *err)
{
    const json_t *v = json_object_get(hello, "v"); /* agents of before it was read sent 1, or nothing */

    if (v && (!json_is_integer(v) || json_integer_value(v) < AGENT_PROTOCOL_LEAST))
        return error_set(err, -EPROTONOSUPPORT,
                         "its agent speaks protocol %lld, and the controller %d to %d: upgrade the agent",
                         (long long)json_integer_value(v), AGENT_PROTOCOL_LEAST, AGENT_PROTOCOL);
    return 0;
}

int batcher_agent_hello(struct batcher *batcher, const char *node, json_t *hello, struct error *err)
{
    if (hello_check(hello, err) < 0)
        return -EPROTONOSUPPORT;

    struct entry entry = { .kind = ENTRY_JOIN,
                           .join = { .node = entry_text(node),
                                     .agent = entry_text(batcher_text(hello, "agent")),
                                     .boot = entry_text(batcher_text(hello, "boot")),
                                     .address = entry_text(batcher_text(hello, "address")),
                                     .version = entry_text(batcher_text(hello, "version")),
                                     .inventory = entry_doc(json_object_get(hello, "inventory")),
                                     .machine = entry_text(batcher_text(hello, "machine")),
                                     .lease = join_lease(&batcher->config.ctl, hello) } };
    struct entry_result result;
    int r = batcher_offer(batcher, &entry, NULL, NULL, &result);

    if (r < 0 && err)
        *err = result.text;
    return r;
}

/* The agent has the lease that it was told: from now on the controller may rely on it. */
static void lease_heard(struct batcher *batcher, const struct ctl_node *node, const char *name, const json_t *frame)
{
    const struct ctl_config *config = &batcher->config.ctl;
    int64_t told = json_integer_value(json_object_get(frame, "lease_ms"));

    if (!config->lease_ends || node->lease == config->lease || told != config->lease / USEC_MSEC)
        return;
    (void)batcher_push(
        batcher, &(struct entry){ .kind = ENTRY_LEASE, .lease = { .node = entry_text(name), .lease = config->lease } },
        NULL, NULL);
}

/* The one that has been killed for longest. */
static void stuck_heard(struct ctl_node *node, const json_t *list)
{
    const json_t *one;
    size_t i;

    node->stuck_job = node->stuck_seconds = 0;
    json_array_foreach(list, i, one)
    {
        int64_t seconds = json_integer_value(json_object_get(one, "seconds"));

        if (seconds <= node->stuck_seconds)
            continue;
        node->stuck_seconds = seconds;
        node->stuck_job = json_integer_value(json_object_get(one, "job"));
    }
}

static int take_beat(struct batcher *batcher, struct ctl_node *node, const char *name, json_t *frame)
{
    const json_t *gpus = json_object_get(frame, "gpus");
    struct json_write json;
    usec_t at = json_integer_value(json_object_get(frame, "at"));

    node->seen = batcher->host.now(batcher->host.arg);
    node->ahead = at ? at - node->seen : 0;
    lease_heard(batcher, node, name, frame);
    stuck_heard(node, json_object_get(frame, "stuck"));
    for (size_t g = 0; g < json_array_size(gpus) && g < node->gpu_count; g++) {
        const json_t *from = json_array_get(gpus, g);

        node->gpus[g].util = (uint8_t)json_integer_value(json_object_get(from, "util"));
        node->gpus[g].temp = (uint8_t)json_integer_value(json_object_get(from, "temp"));
        node->gpus[g].memory_mib = (uint32_t)json_integer_value(json_object_get(from, "memory"));
        node->gpus[g].power = (uint32_t)json_integer_value(json_object_get(from, "power"));
    }
    frame_begin(batcher, DOWN_BEAT, &json);
    json_write_i64(&json, "n", json_integer_value(json_object_get(frame, "n")));
    json_write_i64(&json, "now", node->seen);
    (void)frame_end(batcher, DOWN_BEAT, &json, name);
    return batcher_progress(batcher, node->name, json_object_get(frame, "progress"));
}

int batcher_agent_frame(struct batcher *batcher, const char *name, json_t *frame, struct error *err)
{
    int kind = agent_up_find(batcher_text(frame, "t"));
    uint32_t index = names_find(&ctl_registry(batcher->ctl)->node_names, name, strlen(name));
    struct ctl_node *node = index == NAME_NONE ? NULL : &ctl_registry_mut(batcher->ctl)->nodes[index];
    struct entry entry;
    int r;

    if (kind == UP_HELLO)
        return batcher_agent_hello(batcher, name, frame, err);
    if (!node || !node->connected)
        return error_set(err, -EPROTO, "node %s: a frame before it was welcomed", name);
    if (kind == UP_BEAT)
        return take_beat(batcher, node, name, frame);
    if (kind == UP_PROGRESS)
        return batcher_progress(batcher, index, json_object_get(frame, "progress"));
    if (kind != UP_REPORT)
        return error_set(err, -EPROTO, "node %s: unexpected frame '%s'", name, batcher_text(frame, "t"));
    r = entry_from_json(ENTRY_REPORT, frame, &entry, err);
    if (r < 0) {
        entry_done(&entry);
        return r;
    }
    /* Who reports is who is connected, whatever the frame says. */
    mem_free(entry.report.node);
    mem_free(entry.report.agent);
    entry.report.node = entry_text(name);
    entry.report.agent = entry_text(node->agent);
    return batcher_push_report(batcher, &entry) == 0 ? 0 : error_set(err, -ENOMEM, "no memory");
}

void batcher_agent_gone(struct batcher *batcher, const char *name)
{
    uint32_t index = names_find(&ctl_registry(batcher->ctl)->node_names, name, strlen(name));

    if (index != NAME_NONE) {
        ctl_registry_mut(batcher->ctl)->nodes[index].connected = false;
        ctl_registry_mut(batcher->ctl)->nodes[index].gone = batcher->host.now(batcher->host.arg);
    }
    batcher_settle(batcher); /* no acknowledgement will do it */
}
