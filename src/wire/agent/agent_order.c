/* SPDX-License-Identifier: Apache-2.0 */
/* agent_order.c - see agent_order.h. */
#include "wire/agent/agent_order.h"

#include <string.h>

#include "wire/text/json_write.h"

static void put_flag(struct json_write *json, const char *key, bool set)
{
    if (set)
        json_write_bool(json, key, true);
}

static void put_place(struct json_write *json, const struct agent_order *order)
{
    json_write_array(json, "place");
    for (uint32_t i = 0; i < order->place_count; i++) {
        const struct order_place *place = &order->place[i];

        json_write_object(json, NULL);
        json_write_text(json, "node", place->node);
        json_write_text(json, "address", place->address);
        json_write_array(json, "gpus");
        for (uint16_t g = 0; g < place->gpu_count; g++)
            json_write_i64(json, NULL, place->gpus[g]);
        json_write_close(json);
        if (place->part)
            json_write_i64(json, "part", place->part);
        json_write_close(json);
    }
    json_write_close(json);
}

static void put_secrets(struct json_write *json, const struct agent_order *order)
{
    if (!order->secrets)
        return;
    json_write_object(json, "secrets");
    for (size_t i = 0; i < order->secret_count; i++)
        if (order->secrets[i].value)
            json_write_text(json, order->secrets[i].name, order->secrets[i].value);
        else
            json_write_null(json, order->secrets[i].name);
    json_write_close(json);
}

static void put_beside(struct json_write *json, const struct agent_order *order)
{
    if (order->beside_count == 0)
        return;
    json_write_array(json, "beside");
    for (uint32_t i = 0; i < order->beside_count; i++)
        json_write_i64(json, NULL, order->beside[i]);
    json_write_close(json);
}

static void put_limit(struct json_write *json, const struct agent_order *order)
{
    json_write_i64(json, "memory_mib", order->memory_mib);
    json_write_i64(json, "percent", order->percent);
}

static void put_launch(struct json_write *json, const struct agent_order *order)
{
    json_write_i64(json, "rank", order->rank);
    json_write_bool(json, "go", order->go);
    json_write_i64(json, "born", order->born);
    json_write_text(json, "user", order->user);
    json_write_i64(json, "uid", order->uid);
    json_write_i64(json, "gid", order->gid);
    json_write_raw(json, "spec", order->spec, strlen(order->spec));
    put_secrets(json, order);
    put_place(json, order);
    json_write_text(json, "vc", order->vc);
    json_write_text(json, "cluster", order->cluster);
    json_write_i64(json, "port", order->port);
    json_write_i64(json, "end", order->end);
    json_write_bool(json, "resume", order->resume);
    put_flag(json, "gate", order->gate);
    put_beside(json, order);
    put_flag(json, "use", order->use);
    put_flag(json, "idle", order->idle);
    put_flag(json, "runtime", order->runtime);
    if (order->opportunistic)
        json_write_text(json, "class", "opportunistic");
    put_flag(json, "guest", order->guest);
    if (order->limited)
        put_limit(json, order);
    if (order->array_id) {
        json_write_object(json, "array");
        json_write_i64(json, "id", order->array_id);
        json_write_i64(json, "index", order->array_index);
        json_write_close(json);
    }
}

static void put_stop(struct json_write *json, const struct agent_order *order)
{
    json_write_text(json, "kind", order->stop);
    put_flag(json, "resize", order->resize);
    if (order->keep_ms)
        json_write_i64(json, "keep_ms", order->keep_ms);
    json_write_i64(json, "grace_ms", order->grace_ms);
    if (order->by)
        json_write_i64(json, "by", order->by);
    if (order->signal)
        json_write_i64(json, "signal", order->signal);
}

static void put_tasks(struct json_write *json, const struct agent_order *order)
{
    json_write_array(json, "tasks");
    for (size_t i = 0; i < order->task_count; i++) {
        const struct keep_task *task = &order->tasks[i];

        json_write_object(json, NULL);
        json_write_i64(json, "job", task->id.job);
        json_write_i64(json, "attempt", task->id.attempt);
        json_write_i64(json, "rank", task->id.rank);
        json_write_bool(json, "fresh", task->fresh);
        json_write_i64(json, "born", task->born);
        json_write_close(json);
    }
    json_write_close(json);
}

static void put_order(struct json_write *json, const struct agent_order *order)
{
    json_write_text(json, "do", order_name(order->kind));
    if (order->kind == ORDER_REBOOT) {
        json_write_text(json, "boot", order->boot);
        return;
    }
    json_write_i64(json, "job", order->job);
    json_write_i64(json, "attempt", order->attempt);
    if (order->kind == ORDER_LAUNCH)
        put_launch(json, order);
    else if (order->kind == ORDER_STOP)
        put_stop(json, order);
    else if (order->kind == ORDER_GO || order->kind == ORDER_RESUME)
        put_beside(json, order);
    else if (order->kind == ORDER_LIMIT)
        put_limit(json, order);
    else if (order->kind == ORDER_SIGNAL)
        json_write_i64(json, "signal", order->signal);
}

void agent_order_write(const struct agent_order *order, struct buf *out)
{
    struct json_write json;

    json_write_init(&json, out, false);
    json_write_object(&json, NULL);
    json_write_text(&json, "t", agent_down_name(order->frame));
    if (order->frame == DOWN_KEEP)
        put_tasks(&json, order);
    else
        put_order(&json, order);
    json_write_close(&json);
}
