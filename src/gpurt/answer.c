/* SPDX-License-Identifier: Apache-2.0 */
/* answer.c - one line from a tool, one text back.
 *
 * Lines: `ls`, `json`, `stop`, `pause PID`, `resume PID`, `evict PID`, `release PID`, `restore PID`, `signal PID
 * NUMBER`, `set PID memory=BYTES share=PERMILLE prepare=BYTES`. An answer begins with "ok" or "error"; listings are the
 * text itself.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gpurt/node.h"

#define GIB (1024.0 * 1024 * 1024)

static const char *role_name(uint32_t role)
{
    return role == ROLE_GUARANTEED ? "guaranteed" : (role == ROLE_OPPORTUNISTIC ? "opportunistic" : "-");
}

static const char *gate_name(uint32_t gate)
{
    static const char *const names[GATE_COUNT] = { "open", "harvest", "duty", "closed" };

    return gate < GATE_COUNT ? names[gate] : "?";
}

static uint64_t sum(const struct page *page, size_t offset)
{
    uint64_t total = 0;

    for (int i = 0; i < PAGE_STRIPES; i++) {
        uint64_t value;

        memcpy(&value, (const char *)&page->counters[i] + offset, sizeof(value));
        total += value;
    }
    return total;
}
#define SUM(page, field) ((unsigned long long)sum(page, offsetof(struct page_counters, field)))

static int32_t slowdown_of(const struct node *node, const struct client *c)
{
    for (int i = 0; i < PAGE_GPUS; i++)
        if (c->arena[i] >= 0 && node->gpu[c->arena[i]].rg == c->pid)
            return node->gpu[c->arena[i]].loop.slowdown;
    return -1;
}

static int row_text(const struct node *node, const struct client *c, char *text, size_t size)
{
    const struct page_memory *m = &c->page->memory[client_gpu(c)];
    int32_t slow = slowdown_of(node, c);
    char over[16] = "-";

    if (slow >= 0)
        (void)snprintf(over, sizeof(over), "%d.%d%%", slow / 10, slow % 10);
    return snprintf(text, size, "%-8d  %-13s  %-8s  %-7s  %5u  %8.2f  %8.2f  %8.2f  %10llu  %8llu  %6s  %s\n",
                    (int)c->pid, role_name(c->role), client_state_name(c->state), gate_name(c->page->control.gate),
                    c->page->control.share, (double)m->used / GIB, (double)c->page->limit[0].cap_bytes / GIB,
                    (double)(m->host_backed + m->saved) / GIB, SUM(c->page, launches),
                    (unsigned long long)c->page->step.seq, over, c->exe);
}

static int row_json(const struct node *node, const struct client *c, char *text, size_t size)
{
    const struct page_memory *m = &c->page->memory[client_gpu(c)];

    return snprintf(
        text, size,
        "{\"pid\":%d,\"role\":\"%s\",\"state\":\"%s\",\"gate\":\"%s\",\"share_permille\":%u,\"used_bytes\":%llu,"
        "\"cap_bytes\":%llu,\"host_bytes\":%llu,\"saved_bytes\":%llu,\"movable_bytes\":%llu,\"area_bytes\":%llu,"
        "\"pool_bytes\":%llu,\"launches\":%llu,\"graph_launches\":%llu,\"gate_waits\":%llu,\"gated_ns\":%llu,"
        "\"fail_open\":%llu,\"steps\":%llu,\"tier\":%u,\"slice_us\":%u,\"slice_ok\":%u,\"soft_refusals\":%llu,"
        "\"spills\":%llu,\"slowdown_permille\":%d}",
        (int)c->pid, role_name(c->role), client_state_name(c->state), gate_name(c->page->control.gate),
        c->page->control.share, (unsigned long long)m->used, (unsigned long long)c->page->limit[0].cap_bytes,
        (unsigned long long)m->host_backed, (unsigned long long)m->saved, (unsigned long long)m->movable,
        (unsigned long long)c->page->health.area_bytes, (unsigned long long)c->page->health.pool_bytes,
        SUM(c->page, launches), SUM(c->page, graph_launches), SUM(c->page, gate_waits), SUM(c->page, gated_ns),
        SUM(c->page, fail_open), (unsigned long long)c->page->step.seq, c->page->step.tier, c->slice_us,
        c->page->health.slice_ok, (unsigned long long)m->soft_refusals, (unsigned long long)m->spills,
        slowdown_of(node, c));
}

static void list_text(const struct node *node, char *text)
{
    size_t n = (size_t)snprintf(text, NODE_TEXT, "%-8s  %-13s  %-8s  %-7s  %5s  %8s  %8s  %8s  %10s  %8s  %6s  %s\n",
                                "PID", "ROLE", "STATE", "GATE", "SHARE", "USED-GIB", "CAP-GIB", "HOST-GIB", "LAUNCHES",
                                "STEPS", "SLOWER", "PROGRAM");

    for (int i = 0; i < NODE_CLIENTS && n < NODE_TEXT - 256; i++)
        if (node->client[i].fd >= 0)
            n += (size_t)row_text(node, &node->client[i], text + n, NODE_TEXT - n);
}

static void list_json(const struct node *node, char *text)
{
    size_t n = (size_t)snprintf(text, NODE_TEXT, "{\"apiVersion\":\"v1\",\"kind\":\"GpuProcessList\",\"items\":[");
    bool any = false;
    int i;

    for (i = 0; i < NODE_CLIENTS && n < NODE_TEXT - 1000; i++)
        if (node->client[i].fd >= 0) {
            if (any)
                text[n++] = ',';
            n += (size_t)row_json(node, &node->client[i], text + n, NODE_TEXT - n);
            any = true;
        }
    if (i < NODE_CLIENTS) /* never cut off in silence */
        (void)snprintf(text + n, NODE_TEXT - n, "],\"next\":%d}\n", i);
    else
        (void)snprintf(text + n, NODE_TEXT - n, "],\"next\":null}\n");
}

static int assign(struct node *node, struct client *client, const char *word, bool *ret_later, struct error *err)
{
    const char *equals = strchr(word, '=');
    unsigned long long value;
    char *end;

    if (!equals)
        return error_set(err, -EINVAL, "'%s' is not key=value", word);
    value = strtoull(equals + 1, &end, 10);
    if (end == equals + 1 || *end)
        return error_set(err, -EINVAL, "'%s': expected a number", word);
    if (strncmp(word, "memory=", 7) == 0) {
        *ret_later = true;
        return ladder_memory(node, client, value, err);
    }
    if (strncmp(word, "share=", 6) == 0) {
        if (value > PAGE_PERMILLE)
            return error_set(err, -EINVAL, "share: %llu is above 1000 permille", value);
        client->duty = value == PAGE_PERMILLE ? 0 : (uint32_t)value;
        return 0;
    }
    if (strncmp(word, "prepare=", 8) == 0) {
        (void)control_command(client, OP_PREPARE, 0, value, 1000000000ULL);
        return 0;
    }
    if (strncmp(word, "pinned=", 7) == 0) {
        if (value > PAGE_PERMILLE)
            return error_set(err, -EINVAL, "pinned: %llu is above 1000 permille", value);
        client->keep_pinned = (uint32_t)value;
        return 0;
    }
    return error_set(err, -EINVAL, "unknown key in '%s'; memory, share and prepare are known", word);
}

static int order(struct node *node, char *line, pid_t *ret_pid, bool *ret_later, struct error *err)
{
    static const struct {
        const char *verb;
        enum client_state goal;
    } verbs[] = { { "pause", CLIENT_PAUSED },
                  { "resume", CLIENT_RUNNING },
                  { "evict", CLIENT_EVICTED },
                  { "release", CLIENT_RELEASED },
                  { "restore", CLIENT_RUNNING } };
    char *save = NULL, *verb = strtok_r(line, " ", &save), *pid_text = strtok_r(NULL, " ", &save), *word;
    struct client *client;
    int r = 0;

    if (!verb || !pid_text)
        return error_set(err, -EINVAL, "expected VERB PID");
    *ret_pid = (pid_t)strtol(pid_text, NULL, 10);
    client = node_find(node, *ret_pid);
    if (!client)
        return error_set(err, -ESRCH, "no process %s is registered; `muster gpu ls` shows those that are", pid_text);
    if (strcmp(verb, "set") == 0) {
        while (r == 0 && (word = strtok_r(NULL, " ", &save)))
            r = assign(node, client, word, ret_later, err);
        return r;
    }
    if (strcmp(verb, "signal") == 0) {
        word = strtok_r(NULL, " ", &save);
        *ret_later = true;
        return ladder_signal(node, client, word ? (int)strtol(word, NULL, 10) : SIGUSR1, err);
    }
    for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
        if (strcmp(verb, verbs[i].verb) == 0) {
            *ret_later = true;
            return ladder_order(node, client, verbs[i].goal, err);
        }
    return error_set(err, -EINVAL, "unknown order '%s'", verb);
}

bool answer_line(struct node *node, int fd, const char *line, char *text)
{
    char copy[256];
    struct error err = { 0 };
    bool later = false;
    pid_t pid = 0;
    int slot = -1;

    if (strcmp(line, "ls") == 0) {
        list_text(node, text);
        return false;
    }
    if (strcmp(line, "json") == 0) {
        list_json(node, text);
        return false;
    }
    if (strcmp(line, "stop") == 0) {
        node->stop = true;
        (void)snprintf(text, NODE_TEXT, "ok");
        return false;
    }
    (void)snprintf(copy, sizeof(copy), "%s", line);
    for (int i = 0; i < NODE_ASKS && slot < 0; i++)
        if (!node->ask[i].pid)
            slot = i;
    if (slot < 0) {
        (void)snprintf(text, NODE_TEXT, "error: %d orders are under way already; try again", NODE_ASKS);
        return false;
    }
    /* The order may be carried out at once: whoever asked must be known before. */
    node->ask[slot] = (struct ask){ fd, (pid_t)strtol(strchr(line, ' ') ? strchr(line, ' ') : "0", NULL, 10) };
    if (order(node, copy, &pid, &later, &err) < 0) {
        node->ask[slot].pid = 0;
        (void)snprintf(text, NODE_TEXT, "error: %s", err.text);
        return false;
    }
    if (!later) {
        node->ask[slot].pid = 0;
        (void)snprintf(text, NODE_TEXT, "ok");
    }
    return later;
}

void answer_tell(struct node *node, pid_t pid, const char *text)
{
    for (int i = 0; i < NODE_ASKS; i++)
        if (node->ask[i].pid == pid) {
            (void)send(node->ask[i].fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT);
            close(node->ask[i].fd);
            node->ask[i].pid = 0;
        }
}
