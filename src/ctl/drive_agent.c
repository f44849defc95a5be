/* SPDX-License-Identifier: Apache-2.0 */
/* drive_agent.c - what agents say to the drive, and what they are answered when it is durable. */
#include <errno.h>
#include <string.h>

#include "ctl/book.h"
#include "ctl/drive_part.h"
#include "ctl/part.h"

const char *drive_text(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
}

static bool to_agent(struct drive *drive, const char *node, json_t *frame)
{
    bool told = drive->host.order(drive->host.arg, node, frame);

    json_decref(frame);
    return told;
}

void drive_answer_agents(struct drive *drive, const struct offer *offers, size_t count, uint64_t seq)
{
    const struct ctl_config *config = &drive->config.ctl;
    usec_t beat = config->beat ? config->beat : config->node_timeout / 6;

    for (size_t i = 0; i < count; i++) {
        const struct entry *entry = &offers[i].entry;
        const char *name = drive_text(entry->body, "node");
        struct book_node *node;
        uint32_t index;

        if (entry->kind != ENTRY_JOIN && entry->kind != ENTRY_REPORT)
            continue;
        index = names_find(&ctl_book(drive->ctl)->node_names, name, strlen(name));
        if (index == NAME_NONE)
            continue;
        node = &ctl_book_mut(drive->ctl)->nodes[index];
        if (entry->kind == ENTRY_REPORT) {
            /* One acknowledgement says that all before it were taken too. */
            if (node->ack_batch != seq && node->connected && strcmp(node->agent, drive_text(entry->body, "agent")) == 0)
                (void)to_agent(
                    drive, name,
                    json_pack("{s:s, s:I}", "t", agent_down_name(DOWN_ACK), "seq", (json_int_t)node->report_seq));
            node->ack_batch = seq;
            continue;
        }
        /* It may have gone before it was let in. */
        node->connected = to_agent(drive, name,
                                   json_pack("{s:s, s:I, s:s, s:I, s:I, s:I}", "t", agent_down_name(DOWN_WELCOME),
                                             "now", (json_int_t)drive->host.now(drive->host.arg), "cluster",
                                             drive->config.ctl.cluster ? drive->config.ctl.cluster : "muster", "acked",
                                             (json_int_t)node->report_seq, "lease_ms",
                                             (json_int_t)(drive->config.ctl.lease / USEC_MSEC), "beat_ms",
                                             (json_int_t)(beat / USEC_MSEC)));
        node->gone = node->connected ? 0 : drive->host.now(drive->host.arg);
        node->seen = drive->host.now(drive->host.arg);
        ctl_sync(drive->ctl, name);
    }
}

int drive_agent_hello(struct drive *drive, const char *node, json_t *hello, struct error *err)
{
    json_t *body = json_pack("{s:s, s:s, s:s, s:s, s:s, s:O?}", "node", node, "agent", drive_text(hello, "agent"),
                             "boot", drive_text(hello, "boot"), "address", drive_text(hello, "address"), "version",
                             drive_text(hello, "version"), "inventory", json_object_get(hello, "inventory"));
    struct entry_result result;
    int r;

    if (!body)
        return error_set(err, -EBADMSG, "hello: expected an inventory");
    r = drive_offer(drive, ENTRY_JOIN, body, NULL, NULL, &result);
    if (r < 0 && err)
        *err = result.text;
    return r;
}

static int take_beat(struct drive *drive, struct book_node *node, const char *name, json_t *frame)
{
    const json_t *gpus = json_object_get(frame, "gpus");

    usec_t at = json_integer_value(json_object_get(frame, "at"));

    node->seen = drive->host.now(drive->host.arg);
    node->ahead = at ? at - node->seen : 0;
    for (size_t g = 0; g < json_array_size(gpus) && g < node->gpu_count; g++) {
        const json_t *from = json_array_get(gpus, g);

        node->gpus[g].util = (uint8_t)json_integer_value(json_object_get(from, "util"));
        node->gpus[g].temp = (uint8_t)json_integer_value(json_object_get(from, "temp"));
        node->gpus[g].memory_mib = (uint32_t)json_integer_value(json_object_get(from, "memory"));
        node->gpus[g].power = (uint32_t)json_integer_value(json_object_get(from, "power"));
    }
    (void)to_agent(drive, name,
                   json_pack("{s:s, s:I, s:I}", "t", agent_down_name(DOWN_BEAT), "n",
                             json_integer_value(json_object_get(frame, "n")), "now", (json_int_t)node->seen));
    return 0;
}

int drive_agent_frame(struct drive *drive, const char *name, json_t *frame, struct error *err)
{
    int kind = agent_up_find(drive_text(frame, "t"));
    uint32_t index = names_find(&ctl_book(drive->ctl)->node_names, name, strlen(name));
    struct book_node *node = index == NAME_NONE ? NULL : &ctl_book_mut(drive->ctl)->nodes[index];
    json_t *body;

    if (kind == UP_HELLO)
        return drive_agent_hello(drive, name, frame, err);
    if (!node || !node->connected)
        return error_set(err, -EPROTO, "node %s: a frame before it was welcomed", name);
    if (kind == UP_BEAT)
        return take_beat(drive, node, name, frame);
    if (kind != UP_REPORT)
        return error_set(err, -EPROTO, "node %s: unexpected frame '%s'", name, drive_text(frame, "t"));
    body = frame->refcount == 1 ? json_incref(frame) : json_copy(frame); /* nobody else has it: it becomes the entry */
    (void)json_object_del(body, "t");
    (void)json_object_set_new(body, "node", json_string(name));
    (void)json_object_set_new(body, "agent", json_string(node->agent));
    return drive_push_report(drive, body) == 0 ? 0 : error_set(err, -ENOMEM, "no memory");
}

void drive_agent_gone(struct drive *drive, const char *name)
{
    uint32_t index = names_find(&ctl_book(drive->ctl)->node_names, name, strlen(name));

    if (index != NAME_NONE) {
        ctl_book_mut(drive->ctl)->nodes[index].connected = false;
        ctl_book_mut(drive->ctl)->nodes[index].gone = drive->host.now(drive->host.arg);
    }
    drive_settle(drive); /* no acknowledgement will do it */
}
