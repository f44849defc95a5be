/* SPDX-License-Identifier: Apache-2.0 */
/* answer.c - one line from a tool, one text back.
 *
 * Lines: `ls`, `top`, `json`, `stop`; `pause`, `resume`, `evict`, `release`, `restore`, each with `PID` or `job=ID` and
 * perhaps `boundary`, `gpu=HEX`; `estimate PID free=BYTES`, `suspend PID free=BYTES`; `signal PID NUMBER`, `save PID
 * NUMBER SECONDS`; `baseline PID STEPS`; `detach PID SECONDS`; `set PID memory=BYTES share=PERMILLE prepare=BYTES
 * pinned=PERMILLE`. An answer begins with "ok" or "error"; listings are the text itself.
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
#define BOUNDARY_NS 1000000000ULL /* a step that ends later than this is not waited for */
#define CLOCKS_ROOM 10000u        /* of the answer, for what is said of GPUs */
#define DETACH_MOST_S 600u
#define HELPER_NS 2000000000ULL /* a helper that has not turned for so long is gone */

static const char *role_name(uint32_t role)
{
    return role == ROLE_GUARANTEED ? "guaranteed" : (role == ROLE_OPPORTUNISTIC ? "opportunistic" : "-");
}

static const char *gate_name(uint32_t gate)
{
    static const char *const names[GATE_COUNT] = { "open", "harvest", "duty", "closed", "closing" };

    return gate < GATE_COUNT ? names[gate] : "?";
}

uint64_t page_sum(const struct page *page, size_t offset)
{
    uint64_t total = 0;

    for (int i = 0; i < PAGE_STRIPES; i++) {
        uint64_t value;

        memcpy(&value, (const char *)&page->counters[i] + offset, sizeof(value));
        total += value;
    }
    return total;
}
#define SUM(page, field) ((unsigned long long)page_sum(page, offsetof(struct page_counters, field)))

static int32_t slowdown_of(const struct node *node, const struct client *c)
{
    for (int i = 0; i < PAGE_GPUS; i++)
        if (c->arena[i] >= 0 && node->gpu[c->arena[i]].rg == c->pid)
            return node->gpu[c->arena[i]].loop.slowdown;
    return -1;
}

/* What a process wrote, fit for a terminal and a string of JSON. */
static void plain_text(const char *from, char *to, size_t size)
{
    size_t i;

    for (i = 0; i + 1 < size && from[i]; i++)
        to[i] = from[i] < ' ' || from[i] == '"' || from[i] == '\\' ? ' ' : from[i];
    to[i] = '\0';
}

static int row_text(const struct node *node, const struct client *c, char *text, size_t size)
{
    const struct page_memory *m = &c->page->memory[client_gpu(c)];
    int32_t slow = slowdown_of(node, c);
    char over[16] = "-", exe[MESSAGE_NAME_MAX];

    plain_text(c->exe, exe, sizeof(exe));
    if (slow >= 0)
        (void)snprintf(over, sizeof(over), "%d.%d%%", slow / 10, slow % 10);
    return snprintf(text, size, "%-8d  %-13s  %-8s  %-7s  %5u  %8.2f  %8.2f  %8.2f  %10llu  %8llu  %6s  %s\n",
                    (int)c->pid, role_name(c->role), client_state_name(c->state), gate_name(c->page->control.gate),
                    c->page->control.share, (double)m->used / GIB, (double)c->page->limit[0].cap_bytes / GIB,
                    (double)(m->host_backed + m->saved) / GIB, SUM(c->page, launches),
                    (unsigned long long)c->page->step.seq, over, exe);
}

/* By more than its gate. */
static const char *held_name(const struct client *c)
{
    return c->hold.kind == HOLD_FROZEN ? "frozen" : c->hold.kind == HOLD_STOPPED ? "stopped" : "";
}

/* A helper that is gone carries out no orders; gates work without it. */
static const char *helper_name(const struct client *c)
{
    uint64_t beat = __atomic_load_n(&c->page->health.beat_ns, __ATOMIC_RELAXED);
    bool busy = c->step != STEP_NONE || c->state == CLIENT_RELEASED || c->hold.kind != HOLD_NONE;

    return !beat ? "none" : busy || node_now() - beat < HELPER_NS ? "alive" : "degraded";
}

static int row_json(const struct node *node, const struct client *c, char *text, size_t size)
{
    const struct page_memory *m = &c->page->memory[client_gpu(c)];
    char uuid[33], note[PAGE_ERROR_MAX], job[MESSAGE_NAME_MAX];
    static const char *const can[8] = { "",
                                        "\"move\"",
                                        "\"checkpoint\"",
                                        "\"move\",\"checkpoint\"",
                                        "\"lookup\"",
                                        "\"move\",\"lookup\"",
                                        "\"checkpoint\",\"lookup\"",
                                        "\"move\",\"checkpoint\",\"lookup\"" };

    for (int i = 0; i < 16; i++)
        (void)snprintf(uuid + (size_t)2 * (size_t)i, 3, "%02x", m->uuid[i]);
    plain_text(c->page->health.error, note, sizeof(note));
    plain_text(c->job, job, sizeof(job));
    return snprintf(
        text, size,
        "{\"pid\":%d,\"role\":\"%s\",\"state\":\"%s\",\"gate\":\"%s\",\"share_permille\":%u,\"used_bytes\":%llu,"
        "\"cap_bytes\":%llu,\"host_bytes\":%llu,\"saved_bytes\":%llu,\"movable_bytes\":%llu,\"area_bytes\":%llu,"
        "\"pool_bytes\":%llu,\"launches\":%llu,\"graph_launches\":%llu,\"gate_waits\":%llu,\"gated_ns\":%llu,"
        "\"fail_open\":%llu,\"steps\":%llu,\"tier\":%u,\"slice_us\":%u,\"slice_ok\":%u,\"soft_refusals\":%llu,"
        "\"spills\":%llu,\"promotions\":%llu,\"cap_hits\":%llu,\"unknown\":%llu,\"limit_bytes\":%llu,"
        "\"slowdown_permille\":%d,\"edge_us\":%d,\"busy_percent\":%d,\"held\":\"%s\",\"helper\":\"%s\",\"job\":\"%s\","
        "\"driver\":%u,\"can\":[%s],"
        "\"gpu\":\"%s\",\"note\":\"%s\"}",
        (int)c->pid, role_name(c->role), client_state_name(c->state), gate_name(c->page->control.gate),
        c->page->control.share, (unsigned long long)m->used, (unsigned long long)c->page->limit[0].cap_bytes,
        (unsigned long long)m->host_backed, (unsigned long long)m->saved, (unsigned long long)m->movable,
        (unsigned long long)c->page->health.area_bytes, (unsigned long long)c->page->health.pool_bytes,
        SUM(c->page, launches), SUM(c->page, graph_launches), SUM(c->page, gate_waits), SUM(c->page, gated_ns),
        SUM(c->page, fail_open), (unsigned long long)c->page->step.seq, c->page->step.tier, c->slice_us,
        c->page->health.slice_ok, (unsigned long long)m->soft_refusals, (unsigned long long)m->spills,
        (unsigned long long)m->promotions, (unsigned long long)m->cap_hits, SUM(c->page, unknown),
        (unsigned long long)c->page->limit[0].view_total_bytes, slowdown_of(node, c), c->page->control.edge_us, c->util,
        held_name(c), helper_name(c), job, c->driver_version, can[c->capabilities % 8], uuid, note);
}

static size_t list_text(const struct node *node, char *text)
{
    size_t n = (size_t)snprintf(text, NODE_TEXT, "%-8s  %-13s  %-8s  %-7s  %5s  %8s  %8s  %8s  %10s  %8s  %6s  %s\n",
                                "PID", "ROLE", "STATE", "GATE", "SHARE", "USED-GIB", "CAP-GIB", "HOST-GIB", "LAUNCHES",
                                "STEPS", "SLOWER", "PROGRAM");

    for (int i = 0; i < NODE_CLIENTS && n < NODE_TEXT - 256; i++)
        if (node->client[i].fd >= 0)
            n += (size_t)row_text(node, &node->client[i], text + n, NODE_TEXT - n);
    return n + foreign_text(node, text + n, NODE_TEXT - n);
}

static void list_json(const struct node *node, char *text)
{
    size_t n = (size_t)snprintf(text, NODE_TEXT, "{\"apiVersion\":\"v1\",\"kind\":\"GpuProcessList\",\"items\":[");
    bool any = false;
    int i;

    for (i = 0; i < NODE_CLIENTS && n < NODE_TEXT - 1600 - CLOCKS_ROOM; i++)
        if (node->client[i].fd >= 0) {
            if (any)
                text[n++] = ',';
            n += (size_t)row_json(node, &node->client[i], text + n, NODE_TEXT - n);
            any = true;
        }
    n += foreign_json(node, any, text + n, NODE_TEXT - n - CLOCKS_ROOM);
    n += (size_t)snprintf(text + n, NODE_TEXT - n, "],\"gpus\":[");
    n += clocks_json(node, node_now(), text + n, NODE_TEXT - n - 32);
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
    return error_set(err, -EINVAL, "unknown key in '%s'; memory, share, prepare and pinned are known", word);
}

/* `boundary`: the pause waits for the end of a step. `gpu=HEX`: the restore is on another GPU. */
static int order_words(struct client *client, char **save, struct error *err)
{
    const char *word;

    while ((word = strtok_r(NULL, " ", save))) {
        if (strcmp(word, "boundary") == 0) {
            client->close_step = client->page->step.seq + 1;
            client->close_ns = BOUNDARY_NS;
        } else if (strncmp(word, "gpu=", 4) == 0 && strlen(word) == 36) {
            for (int i = 0; i < 16; i++)
                if (sscanf(word + 4 + (size_t)2 * (size_t)i, "%2hhx", &client->move_to[i]) != 1)
                    return error_set(err, -EINVAL, "'%s' is no GPU's UUID", word + 4);
            client->moving = true;
        } else {
            return error_set(err, -EINVAL, "unknown word '%s'", word);
        }
    }
    return 0;
}

static bool goal_of(const char *verb, enum client_state *ret)
{
    static const struct {
        const char *verb;
        enum client_state goal;
    } verbs[] = { { "pause", CLIENT_PAUSED },
                  { "resume", CLIENT_RUNNING },
                  { "evict", CLIENT_EVICTED },
                  { "release", CLIENT_RELEASED },
                  { "restore", CLIENT_RUNNING } };

    for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
        if (strcmp(verb, verbs[i].verb) == 0) {
            *ret = verbs[i].goal;
            return true;
        }
    return false;
}

/* As far down as is needed to free so much, and no further. */
static int suspend(struct node *node, struct client *client, const char *word, struct error *err)
{
    static const enum client_state goals[RUNG_SAVE] = { CLIENT_PAUSED, CLIENT_EVICTED, CLIENT_RELEASED };
    unsigned long long bytes = 0;
    enum estimate_rung rung;

    if (word && sscanf(word, "free=%llu", &bytes) != 1)
        return error_set(err, -EINVAL, "unknown word '%s'", word);
    rung = rungs_choose(node, client, bytes);
    if (rung == RUNG_SAVE)
        return error_set(err, -ENOMEM,
                         "process %d: no suspension frees %llu MiB; `muster gpu estimate` says why, `muster gpu "
                         "checkpoint` has it save itself",
                         (int)client->pid, bytes >> 20);
    return ladder_order(node, client, goals[rung], err);
}

/* `estimate PID free=BYTES`: answered at once. True: it was one. */
static bool answer_estimate(struct node *node, const char *line, char *text)
{
    unsigned long long bytes = 0;
    const struct client *client;
    int pid = 0;

    if (sscanf(line, "estimate %d free=%llu", &pid, &bytes) < 1)
        return false;
    client = node_find(node, pid);
    if (client)
        rungs_text(node, client, bytes, text, NODE_TEXT);
    else
        (void)snprintf(text, NODE_TEXT, "error: no process %d is registered; `muster gpu ls` shows those that are",
                       pid);
    return true;
}

static int order(struct node *node, char *line, bool *ret_later, struct error *err)
{
    char *save = NULL, *verb = strtok_r(line, " ", &save), *pid_text = strtok_r(NULL, " ", &save), *word;
    enum client_state goal;
    struct client *client;
    int r = 0;

    if (!verb || !pid_text)
        return error_set(err, -EINVAL, "expected VERB PID");
    client = node_find(node, (pid_t)strtol(pid_text, NULL, 10));
    if (!client)
        return error_set(err, -ESRCH, "no process %s is registered; `muster gpu ls` shows those that are", pid_text);
    if (strcmp(verb, "set") == 0) {
        while (r == 0 && (word = strtok_r(NULL, " ", &save)))
            r = assign(node, client, word, ret_later, err);
        return r;
    }
    *ret_later = true;
    if (strcmp(verb, "suspend") == 0)
        return suspend(node, client, strtok_r(NULL, " ", &save), err);
    if (strcmp(verb, "signal") == 0 || strcmp(verb, "save") == 0) {
        char *number = strtok_r(NULL, " ", &save), *seconds = strtok_r(NULL, " ", &save);

        return ladder_signal(node, client, number ? (int)strtol(number, NULL, 10) : SIGUSR1,
                             seconds ? (uint32_t)strtoul(seconds, NULL, 10) % 3600 : 0, err);
    }
    if (strcmp(verb, "baseline") == 0 || strcmp(verb, "detach") == 0) {
        bool steps = *verb == 'b';
        unsigned long n = (word = strtok_r(NULL, " ", &save)) ? strtoul(word, NULL, 10) : steps ? 20 : 30;

        if (n < 1 || n > (steps ? PAGE_STEPS : DETACH_MOST_S))
            return error_set(err, -EINVAL, "'%s' is not 1 to %u", word, steps ? PAGE_STEPS : DETACH_MOST_S);
        return steps ? ladder_baseline(node, client, (uint32_t)n, err) : ladder_dump(node, client, (uint32_t)n, err);
    }
    if (!goal_of(verb, &goal))
        return error_set(err, -EINVAL, "unknown order '%s'", verb);
    r = order_words(client, &save, err);
    return r < 0 ? r : ladder_order(node, client, goal, err);
}

/* Every process of a job at once. */
static int order_job(struct node *node, const char *line, uint32_t slot, struct error *err)
{
    char verb[16] = "", job[MESSAGE_NAME_MAX] = "", word[16] = "";
    struct ask *ask = &node->ask[slot];
    enum client_state goal;
    uint64_t latest = 0, span;

    if (sscanf(line, "%15s job=%63s %15s", verb, job, word) < 2 || !goal_of(verb, &goal))
        return error_set(err, -EINVAL, "'%s' is no order to a job", line);
    for (int i = 0; i < NODE_CLIENTS; i++)
        if (node->client[i].fd >= 0 && strcmp(node->client[i].job, job) == 0) {
            ask->left++;
            node->client[i].group = slot + 1;
            if (rank_step_newest(&node->client[i], &span) > latest)
                latest = rank_step_newest(&node->client[i], &span);
        }
    if (!ask->left)
        return error_set(err, -ESRCH, "no process of job %s is registered", job);
    for (int i = 0; i < NODE_CLIENTS; i++) {
        struct client *c = &node->client[i];

        if (c->fd < 0 || c->group != slot + 1)
            continue;
        if (strcmp(word, "boundary") == 0)
            rank_boundary(c, latest);
        if (ladder_order(node, c, goal, err) < 0) {
            char text[NODE_LINE];

            (void)snprintf(text, sizeof(text), "error: %.480s", err->text);
            answer_tell(node, c->pid, text);
        }
    }
    return 0;
}

static pid_t pid_of(const char *line)
{
    const char *blank = strchr(line, ' ');
    long value = blank ? strtol(blank, NULL, 10) : 0;

    return value > 0 && value <= INT32_MAX ? (pid_t)value : INT32_MAX; /* one that nobody has */
}

bool answer_line(struct node *node, int fd, const char *line, char *text)
{
    char copy[256];
    struct error err = { 0 };
    bool later = false;
    int slot = -1, r;

    if (strcmp(line, "ls") == 0 || strcmp(line, "top") == 0) {
        size_t n = list_text(node, text);

        if (*line == 't')
            (void)clocks_text(node, text + n, NODE_TEXT - n);
        return false;
    }
    if (strcmp(line, "json") == 0) {
        list_json(node, text);
        return false;
    }
    if (answer_estimate(node, line, text))
        return false;
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
    node->ask[slot] = (struct ask){ .fd = fd, .pid = strstr(line, " job=") ? -1 : pid_of(line) };
    if (node->ask[slot].pid < 0) {
        r = order_job(node, copy, (uint32_t)slot, &err);
        later = true;
    } else {
        r = order(node, copy, &later, &err);
    }
    if (r == 0 && later)
        return true;
    node->ask[slot].pid = 0;
    (void)snprintf(text, NODE_TEXT, r < 0 ? "error: %s" : "ok", err.text);
    return false;
}

static void ask_end(struct ask *ask, const char *text)
{
    (void)send(ask->fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT);
    close(ask->fd);
    ask->pid = 0;
}

/* One process of a job has arrived, or cannot. */
static void group_tell(struct node *node, struct client *client, const char *text)
{
    struct ask *ask = &node->ask[client->group - 1];
    char all[NODE_LINE];

    client->group = 0;
    if (strncmp(text, "error", 5) == 0)
        (void)snprintf(ask->error, sizeof(ask->error), "%s", text);
    if (--ask->left > 0)
        return;
    (void)snprintf(all, sizeof(all), "ok: all processes of job %.63s", client->job);
    ask_end(ask, *ask->error ? ask->error : all);
}

void answer_tell(struct node *node, pid_t pid, const char *text)
{
    struct client *client = node_find(node, pid);

    for (int i = 0; i < NODE_ASKS; i++)
        if (node->ask[i].pid == pid)
            ask_end(&node->ask[i], text);
    if (client && client->group)
        group_tell(node, client, text);
}
