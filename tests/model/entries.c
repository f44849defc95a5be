/* SPDX-License-Identifier: Apache-2.0 */
/* entries.c - see entries.h. */
#include "entries.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "ctl/log/entry_json.h"
#include "ctl/state/state_internal.h"

static struct entry entry_of(enum entry_kind kind, json_t *body)
{
    struct entry entry;

    if (!body)
        abort();
    (void)entry_from_json(kind, body, &entry, NULL); /* what is wrong with it is for the check to say */
    json_decref(body);
    return entry;
}

struct entry entry_words(enum entry_kind kind, const char *json)
{
    json_error_t where;
    json_t *body = json_loads(json, 0, &where);

    if (!body) {
        fprintf(stderr, "bad JSON in a step: %s: %s\n", where.text, json);
        abort();
    }
    return entry_of(kind, body);
}

struct entry entry_submit(const char *user, const char *spec)
{
    struct entry entry;

    entry_init(&entry, ENTRY_SUBMIT);
    entry.submit =
        (struct entry_submit){ .user = entry_text(user), .uid = 1000, .gid = 1000, .spec = entry_text(spec) };
    return entry;
}

struct entry entry_act(enum entry_kind kind, int64_t job)
{
    return entry_of_job(kind, job, "model");
}

struct entry entry_cancel(int64_t job, bool now)
{
    struct entry entry = entry_act(ENTRY_CANCEL, job);

    entry.cancel.now = now;
    return entry;
}

struct entry entry_signal(int64_t job, int number)
{
    struct entry entry = entry_act(ENTRY_SIGNAL, job);

    entry.signal.signal = number;
    return entry;
}

struct entry entry_set_number(int64_t job, const char *key, int64_t value)
{
    return entry_of(ENTRY_SET,
                    json_pack("{s:I, s:s, s:I}", "job", (json_int_t)job, "by", "model", key, (json_int_t)value));
}

struct entry entry_set_vc(int64_t job, const char *vc)
{
    struct entry entry = entry_act(ENTRY_SET, job);

    entry.set.vc = entry_text(vc);
    return entry;
}

struct entry entry_join(const char *node, const char *agent, const char *boot, int gpus, const char *sku)
{
    json_t *list = json_array();

    for (int g = 0; g < gpus; g++)
        (void)json_array_append_new(list, json_pack("{s:i}", "index", g));
    return entry_of(ENTRY_JOIN, json_pack("{s:s, s:s, s:s, s:s, s:{s:s, s:o, s:i, s:I}}", "node", node, "agent", agent,
                                          "boot", boot, "address", "127.0.0.1", "inventory", "sku", gpus ? sku : "",
                                          "gpus", list, "cpus", 16, "memory_bytes", (json_int_t)64 << 30));
}

struct entry entry_node(enum entry_kind kind, const char *node)
{
    return entry_of(kind, json_pack("{s:s}", "node", node));
}

struct entry entry_silent(struct ctl *ctl, const char *name)
{
    struct ctl_node *node = node_get(ctl, name);
    struct entry entry;

    entry_init(&entry, ENTRY_SILENT);
    entry.silent.node = entry_text(name);
    entry.silent.joins = (struct opt_number){ GIVEN_VALUE, node->joins };
    if (untold_list(ctl, node, &entry.silent.untold) < 0)
        abort();
    node->untold = false;
    return entry;
}

struct entry entry_back(const char *node)
{
    return entry_of(ENTRY_SILENT, json_pack("{s:s, s:b}", "node", node, "back", 1));
}

static void report_task(json_t *body, const struct said *report)
{
    bool over = report->state == TASK_EXITED || report->state == TASK_KEPT;

    (void)json_object_set_new(body, "attempt", json_integer(report->id.attempt));
    (void)json_object_set_new(body, "rank", json_integer(report->id.rank));
    (void)json_object_set_new(body, "state", json_string(task_state_name(report->state)));
    if (over || report->state == TASK_REFUSED)
        (void)json_object_set_new(body, "cause", json_string(report->cause));
    if (over) {
        (void)json_object_set_new(body, "exit", json_integer(report->exit));
        (void)json_object_set_new(body, "signal", json_integer(report->signal));
        (void)json_object_set_new(body, "oom", json_boolean(report->oom));
    }
    if (report->state == TASK_REFUSED)
        (void)json_object_set_new(body, "blame", json_string(report->by_user ? "user" : "system"));
}

struct entry entry_report(const char *node, const char *agent, const struct said *report)
{
    json_t *body = json_pack("{s:s, s:s, s:I}", "node", node, "agent", agent, "seq", (json_int_t)report->seq);

    if (report->gpu >= 0) {
        (void)json_object_set_new(body, "gpu",
                                  json_pack("{s:i, s:b, s:b, s:s}", "index", report->gpu, "ok", report->ok, "foreign",
                                            report->foreign, "reason", "model"));
        return entry_of(ENTRY_REPORT, body);
    }
    (void)json_object_set_new(body, "job", json_integer(report->id.job));
    if (report->rate >= 0)
        (void)json_object_set_new(body, "measure", json_pack("{s:I}", "rate", (json_int_t)report->rate));
    else if (report->saved)
        (void)json_object_set_new(body, "ckpt", json_pack("{s:i}", "step", 1));
    else
        report_task(body, report);
    return entry_of(ENTRY_REPORT, body);
}

struct entry entry_drain(const char *node, int gpu, usec_t deadline, bool reboot)
{
    json_t *body = json_pack("{s:s, s:s, s:s}", "node", node, "by", "model", "reason", "model");

    if (gpu >= 0)
        (void)json_object_set_new(body, "gpu", json_integer(gpu));
    if (deadline)
        (void)json_object_set_new(body, "deadline", json_integer(deadline));
    if (reboot)
        (void)json_object_set_new(body, "reboot", json_true());
    return entry_of(ENTRY_DRAIN, body);
}

struct entry entry_undrain(const char *node, int gpu)
{
    json_t *body = json_pack("{s:s, s:s}", "node", node, "by", "model");

    if (gpu >= 0)
        (void)json_object_set_new(body, "gpu", json_integer(gpu));
    return entry_of(ENTRY_UNDRAIN, body);
}

struct entry entry_resv(const char *name, const char *nodes, usec_t start, usec_t end, usec_t lead)
{
    return entry_of(ENTRY_RESV,
                    json_pack("{s:s, s:s, s:I, s:I, s:I, s:[], s:[]}", "name", name, "nodes", nodes, "start",
                              (json_int_t)start, "end", (json_int_t)end, "lead", (json_int_t)lead, "users", "vcs"));
}

struct entry entry_resv_remove(const char *name)
{
    return entry_of(ENTRY_RESV, json_pack("{s:s, s:b}", "name", name, "remove", 1));
}

struct entry entry_solved(uint32_t vc, uint32_t ticket, const int64_t *words, uint32_t count)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < count; i++)
        (void)json_array_append_new(list, json_integer(words[i]));
    return entry_of(ENTRY_SOLVED,
                    json_pack("{s:I, s:I, s:o}", "vc", (json_int_t)vc, "ticket", (json_int_t)ticket, "words", list));
}

struct entry entry_pause(bool paused)
{
    return entry_of(ENTRY_PAUSE, json_pack("{s:b, s:s}", "paused", paused, "by", "model"));
}

/* Its bytes as pairs of hexadecimal digits. */
char *entry_write(const struct entry *entry)
{
    struct buf bytes = BUF_INIT((size_t)1 << 24);
    char *text;

    batch_encode_begin(&bytes, 0, 1);
    batch_encode_entry(&bytes, entry);
    text = bytes.error ? NULL : malloc(bytes.size * 2 + 1);
    if (!text)
        abort();
    for (size_t i = 0; i < bytes.size; i++)
        (void)sprintf(text + i * 2, "%02x", (unsigned)(unsigned char)bytes.data[i]);
    buf_done(&bytes);
    return text;
}

struct entry entry_read(enum entry_kind kind, const char *text)
{
    size_t size = strlen(text) / 2, count = 0;
    char *bytes = mem_zalloc(size + 1, 1);
    struct entry *entries = NULL, entry;
    struct error err;
    usec_t at;

    for (size_t i = 0; i < size; i++) {
        const char digits[3] = { text[i * 2], text[i * 2 + 1], '\0' };

        bytes[i] = (char)strtoul(digits, NULL, 16);
    }
    if (batch_decode(bytes, size, &at, &entries, &count, &err) < 0 || count != 1 || entries[0].kind != kind) {
        fprintf(stderr, "an entry of the log cannot be read: %s\n", err.text);
        abort();
    }
    entry = entries[0];
    mem_free(entries);
    mem_free(bytes);
    return entry;
}

static int64_t number(const json_t *from, const char *key, int64_t standard)
{
    const json_t *value = json_object_get(from, key);

    return json_is_integer(value) ? json_integer_value(value) : standard;
}

static struct task_id id_of(const json_t *from)
{
    return (struct task_id){ number(from, "job", 0), (uint32_t)number(from, "attempt", 0),
                             (uint32_t)number(from, "rank", 0) };
}

static void keep_read(const json_t *list, struct order *order)
{
    order->items = mem_zalloc(json_array_size(list) + 1, sizeof(*order->items));
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *item = json_array_get(list, i);

        order->items[order->keep_count++] = (struct keep_item){ .id = id_of(item),
                                                                .fresh = json_is_true(json_object_get(item, "fresh")),
                                                                .born = number(item, "born", 0) };
    }
}

static void launch_read_place(const json_t *frame, struct order *order)
{
    const json_t *place = json_array_get(json_object_get(frame, "place"), order->id.rank);
    const json_t *gpus = json_object_get(place, "gpus");

    for (size_t i = 0; i < json_array_size(gpus) && i < ORDER_GPUS_MAX; i++)
        order->gpus[order->gpu_count++] = (uint16_t)json_integer_value(json_array_get(gpus, i));
}

bool order_read(const json_t *frame, struct order *ret_order)
{
    const char *type = json_string_value(json_object_get(frame, "t"));
    const char *what = json_string_value(json_object_get(frame, "do"));
    const char *cause = json_string_value(json_object_get(frame, "kind"));
    const json_t *beside = json_object_get(frame, "beside");
    int down = agent_down_find(type ? type : ""), kind = order_find(what ? what : "");

    *ret_order = (struct order){ .keep = down == DOWN_KEEP };
    if (down == DOWN_KEEP) {
        keep_read(json_object_get(frame, "tasks"), ret_order);
        return true;
    }
    if (down != DOWN_ORDER || kind < 0)
        return false;
    ret_order->kind = (enum order_kind)kind;
    ret_order->id = id_of(frame);
    ret_order->go = json_is_true(json_object_get(frame, "go"));
    ret_order->gate = json_is_true(json_object_get(frame, "gate"));
    ret_order->guest = json_is_true(json_object_get(frame, "guest"));
    ret_order->born = number(frame, "born", 0);
    ret_order->keep_ms = number(frame, "keep_ms", -1);
    ret_order->end = number(frame, "end", 0);
    (void)snprintf(ret_order->cause, sizeof(ret_order->cause), "%s", cause ? cause : "");
    for (size_t i = 0; i < json_array_size(beside) && i < ORDER_BESIDE_MAX; i++)
        ret_order->beside[ret_order->beside_count++] = json_integer_value(json_array_get(beside, i));
    if (kind == ORDER_LAUNCH)
        launch_read_place(frame, ret_order);
    return true;
}

void order_done(struct order *order)
{
    mem_free(order->items);
    order->items = NULL;
}
