/* SPDX-License-Identifier: Apache-2.0 */
/* listing.c - see listing.h. */
#include "gpurt/listing.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "gpurt/door.h"
#include "gpurt/ladder/guard.h"
#include "gpurt/node.h"

#define GIB (1024.0 * 1024 * 1024)
#define MIB_BYTES ((uint64_t)1 << 20)
#define CLOCKS_ROOM 10000u /* of the answer, for what is said of GPUs */
#define ROW_TEXT 256u      /* the longest row of each kind */
#define WORD_TEXT 208u
#define SEC 1000000000ULL
#define ROW_JSON 3600u
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

/* What it may have of the GPU, in thousandths: beside a guaranteed job what the controller leaves it, else the share
 * that was set; 0 = neither. */
static uint32_t share_of(const struct node *node, const struct client *c)
{
    for (int i = 0; i < PAGE_GPUS && c->role == ROLE_OPPORTUNISTIC; i++)
        if (c->arena[i] >= 0 && node->gpu[c->arena[i]].rg)
            return c->page->control.share;
    return c->duty;
}

/* What a process wrote, fit for a terminal and a string of JSON. */
static void plain_text(const char *from, size_t most, char *to, size_t size)
{
    size_t i;

    for (i = 0; i + 1 < size && i < most; i++) {
        char c = __atomic_load_n(&from[i], __ATOMIC_RELAXED); /* once: a program may write it meanwhile */

        if (!c)
            break;
        to[i] = c < ' ' || c == '"' || c == '\\' ? ' ' : c;
    }
    to[i] = '\0';
}

/* A process whose GPU or context went while its memory was away runs, for as long as it takes to be told. */
static const char *state_name(const struct client *c)
{
    return c->state != CLIENT_FAILED && (c->page->health.flags & HEALTH_LOST) ? "lost" : client_state_name(c->state);
}

/* What we ourselves have to say of it, and what to do; false: nothing. Ranks wait for one another with a watchdog,
 * which ends the job when one of them is held for too long. */
static bool word_of(const struct node *node, const struct client *c, char *text, size_t size)
{
    uint64_t held = c->held_ns ? node_now() - c->held_ns : 0;

    *text = '\0';
    if (c->state == CLIENT_FAILED)
        (void)snprintf(text, size, GUARD_GIVEN_UP);
    else if (node->watchdog_ns && held > node->watchdog_ns && ranks_many(node, c))
        (void)snprintf(
            text, size,
            "one of several ranks, held for %llu s: watchdogs of collectives end such a job after 10 minutes; "
            "resume it, or have it save itself: muster gpu checkpoint",
            (unsigned long long)(held / SEC));
    return *text != '\0';
}

static int row_text(const struct node *node, const struct client *c, char *text, size_t size)
{
    const struct page_memory *m = &c->page->memory[client_gpu(c)];
    int32_t slow = slowdown_of(node, c);
    char over[16] = "-", exe[MESSAGE_NAME_MAX];

    plain_text(c->exe, sizeof(c->exe), exe, sizeof(exe));
    if (slow >= 0)
        (void)snprintf(over, sizeof(over), "%d.%d%%", slow / 10, slow % 10);
    return snprintf(text, size, "%-8d  %-13s  %-8s  %-7s  %5u  %8.2f  %8.2f  %8.2f  %10llu  %8llu  %6s  %s\n",
                    (int)c->pid, role_name(c->role), state_name(c), gate_name(c->page->control.gate), share_of(node, c),
                    (double)m->used / GIB, (double)c->page->limit[client_gpu(c)].cap_bytes / GIB,
                    (double)(m->host_backed + m->saved) / GIB, SUM(c->page, launches),
                    (unsigned long long)c->page->step.seq, over, exe);
}

/* By more than its gate. */
static const char *held_name(const struct client *c)
{
    return c->hold.kind == HOLD_FROZEN    ? "frozen"
           : c->hold.kind == HOLD_STOPPED ? "stopped"
           : c->starved                   ? "starved"
                                          : "";
}

/* A helper that is gone carries out no orders; gates work without it. */
static const char *helper_name(const struct client *c)
{
    uint64_t beat = __atomic_load_n(&c->page->health.beat_ns, __ATOMIC_RELAXED);
    bool busy = c->step != STEP_NONE || c->state == CLIENT_RELEASED || c->hold.kind != HOLD_NONE;

    return !beat ? "none" : busy || node_now() - beat < HELPER_NS ? "alive" : "degraded";
}

struct memory_row {
    uint64_t hole, peak, step_peak;
    struct page_moves moves;
};

/* The largest request that would be granted now: by its own limit, and by what the driver says is left of the card. */
static uint64_t hole_of(const struct node *node, const struct client *c)
{
    uint32_t gpu = client_gpu(c);
    const struct gpu_arena *card = c->arena[gpu] >= 0 ? &node->gpu[c->arena[gpu]] : NULL;
    uint64_t hole = c->page->moves[gpu].largest_hole, seen, left;

    if (!card || !card->memory.seen_mib)
        return hole;
    seen = (uint64_t)card->memory.seen_mib * MIB_BYTES;
    left = card->total_bytes > seen ? card->total_bytes - seen : 0;
    return hole < left ? hole : left;
}

static void memory_read(const struct node *node, const struct client *c, struct memory_row *ret)
{
    const struct page *page = c->page;
    uint64_t seq = __atomic_load_n(&page->step.seq, __ATOMIC_ACQUIRE);

    *ret = (struct memory_row){ .peak = page->memory[client_gpu(c)].peak };
    if (!page_has_moves(page))
        return;
    ret->hole = hole_of(node, c);
    ret->step_peak = seq ? page->step_peak[(seq - 1) % PAGE_STEPS] : 0;
    ret->moves = page->moves[client_gpu(c)];
}

/* The rest of a row: what was held, what moved, and how long the last of each rung took. */
static int moves_json(const struct node *node, const struct client *c, char *text, size_t size)
{
    uint32_t gpu = client_gpu(c);
    struct memory_row row;

    memory_read(node, c, &row);
    return snprintf(text, size,
                    "\"peak_bytes\":%llu,\"step_peak_bytes\":%llu,\"largest_hole_bytes\":%llu,\"spilled_bytes\":%llu,"
                    "\"spill_ns\":%llu,\"spill_last_ns\":%llu,\"promoted_bytes\":%llu,\"promote_ns\":%llu,"
                    "\"promote_last_ns\":%llu,\"context_bytes\":%llu,\"context_known\":%s,\"pause_ns\":%llu,"
                    "\"evict_ns\":%llu,\"release_ns\":%llu,\"restore_ns\":%llu,\"reload_ns\":%llu}",
                    (unsigned long long)row.peak, (unsigned long long)row.step_peak, (unsigned long long)row.hole,
                    (unsigned long long)row.moves.spilled_bytes, (unsigned long long)row.moves.spill_ns,
                    (unsigned long long)row.moves.spill_last_ns, (unsigned long long)row.moves.promoted_bytes,
                    (unsigned long long)row.moves.promote_ns, (unsigned long long)row.moves.promote_last_ns,
                    (unsigned long long)c->page->memory[gpu].class_bytes[CLASS_CONTEXT],
                    c->page->limit[gpu].context_bytes ? "true" : "false", (unsigned long long)c->rung_ns[STEP_SYNC],
                    (unsigned long long)c->rung_ns[STEP_EVICT], (unsigned long long)c->rung_ns[STEP_RELEASE],
                    (unsigned long long)c->rung_ns[STEP_RESTORE], (unsigned long long)c->rung_ns[STEP_RELOAD]);
}

/* `top` says of every process what became of its memory. */
static size_t moves_text(const struct node *node, char *text, size_t size)
{
    size_t n = (size_t)snprintf(text, size, "\n%-8s  %8s  %9s  %8s  %8s  %8s  %8s  %8s\n", "PID", "PEAK-GIB",
                                "STEP-PEAK", "HOLE-GIB", "OUT-GIB", "OUT-S", "BACK-GIB", "BACK-S");

    for (int i = 0; i < NODE_CLIENTS && n + ROW_TEXT < size; i++) {
        const struct client *c = &node->client[i];
        struct memory_row row;

        if (c->fd < 0 || !door_shows(node, c))
            continue;
        memory_read(node, c, &row);
        n += (size_t)snprintf(text + n, size - n, "%-8d  %8.2f  %9.2f  %8.2f  %8.2f  %8.3f  %8.2f  %8.3f\n",
                              (int)c->pid, (double)row.peak / GIB, (double)row.step_peak / GIB, (double)row.hole / GIB,
                              (double)row.moves.spilled_bytes / GIB, (double)row.moves.spill_ns / 1e9,
                              (double)row.moves.promoted_bytes / GIB, (double)row.moves.promote_ns / 1e9);
    }
    return n;
}

static int row_json(const struct node *node, const struct client *c, char *text, size_t size)
{
    const struct page_memory *m = &c->page->memory[client_gpu(c)];
    char uuid[33], word[WORD_TEXT], note[WORD_TEXT], job[MESSAGE_NAME_MAX], version[MESSAGE_VERSION_MAX];
    int n;
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
    if (word_of(node, c, word, sizeof(word)))
        plain_text(word, sizeof(word), note, sizeof(note));
    else
        plain_text(c->page->health.error, sizeof(c->page->health.error), note, sizeof(note));
    plain_text(c->job, sizeof(c->job), job, sizeof(job));
    plain_text(c->version, sizeof(c->version), version, sizeof(version));
    n = snprintf(
        text, size,
        "{\"pid\":%d,\"role\":\"%s\",\"state\":\"%s\",\"gate\":\"%s\",\"share_permille\":%u,\"used_bytes\":%llu,"
        "\"cap_bytes\":%llu,\"host_bytes\":%llu,\"saved_bytes\":%llu,\"movable_bytes\":%llu,\"area_bytes\":%llu,"
        "\"pool_bytes\":%llu,\"launches\":%llu,\"graph_launches\":%llu,\"gate_waits\":%llu,\"gated_ns\":%llu,"
        "\"fail_open\":%llu,\"warmed\":%llu,\"gaps\":%llu,\"gaps_late\":%llu,\"steps\":%llu,\"tier\":%u,"
        "\"slice_us\":%u,\"slice_ok\":"
        "%u,\"soft_"
        "refusals\":%llu,"
        "\"spills\":%llu,\"promotions\":%llu,\"cap_hits\":%llu,\"unknown\":%llu,\"limit_bytes\":%llu,"
        "\"slowdown_permille\":%d,\"edge_us\":%d,\"busy_percent\":%d,\"held\":\"%s\",\"helper\":\"%s\",\"job\":\"%s\","
        "\"driver\":%u,\"can\":[%s],\"library\":\"%s\","
        "\"gpu\":\"%s\",\"note\":\"%s\",",
        (int)c->pid, role_name(c->role), state_name(c), gate_name(c->page->control.gate), share_of(node, c),
        (unsigned long long)m->used, (unsigned long long)c->page->limit[client_gpu(c)].cap_bytes,
        (unsigned long long)m->host_backed, (unsigned long long)m->saved, (unsigned long long)m->movable,
        (unsigned long long)c->page->health.area_bytes, (unsigned long long)c->page->health.pool_bytes,
        SUM(c->page, launches), SUM(c->page, graph_launches), SUM(c->page, gate_waits), SUM(c->page, gated_ns),
        SUM(c->page, fail_open), SUM(c->page, warmed), SUM(c->page, gaps), SUM(c->page, gaps_late),
        (unsigned long long)c->page->step.seq, c->page->step.tier, c->slice_us, c->page->health.slice_ok,
        (unsigned long long)m->soft_refusals, (unsigned long long)m->spills, (unsigned long long)m->promotions,
        (unsigned long long)m->cap_hits, SUM(c->page, unknown),
        (unsigned long long)c->page->limit[client_gpu(c)].view_total_bytes, slowdown_of(node, c),
        c->page->control.edge_us, c->util, held_name(c), helper_name(c), job, c->driver_version,
        can[c->capabilities % 8], version, uuid, note);
    n += torch_json(c, text + n, size - (size_t)n);
    return n + moves_json(node, c, text + n, size - (size_t)n);
}

/* Below the table: what is to be done about whom. */
static size_t words_text(const struct node *node, char *text, size_t size)
{
    char word[WORD_TEXT];
    size_t n = 0;

    *text = '\0';
    for (int i = 0; i < NODE_CLIENTS && n + ROW_TEXT < size; i++) {
        const struct client *c = &node->client[i];

        if (c->fd >= 0 && door_shows(node, c) && word_of(node, c, word, sizeof(word)))
            n += (size_t)snprintf(text + n, size - n, "%s%d: %s\n", n ? "" : "\n", (int)c->pid, word);
    }
    return n;
}

static size_t list_text(const struct node *node, char *text)
{
    size_t n = (size_t)snprintf(text, NODE_TEXT, "%-8s  %-13s  %-8s  %-7s  %5s  %8s  %8s  %8s  %10s  %8s  %6s  %s\n",
                                "PID", "ROLE", "STATE", "GATE", "SHARE", "USED-GIB", "CAP-GIB", "HOST-GIB", "LAUNCHES",
                                "STEPS", "SLOWER", "PROGRAM");

    for (int i = 0; i < NODE_CLIENTS && n < NODE_TEXT - ROW_TEXT; i++)
        if (node->client[i].fd >= 0 && door_shows(node, &node->client[i]))
            n += (size_t)row_text(node, &node->client[i], text + n, NODE_TEXT - n);
    n += foreign_text(node, text + n, NODE_TEXT - n);
    return n + words_text(node, text + n, NODE_TEXT - n);
}

/* Rows from slot `from` on; returns the slot that found no more room, NODE_CLIENTS when there was room for all. */
static int rows_json(const struct node *node, int from, char *text, size_t room, size_t *ret_length)
{
    size_t n = *ret_length;
    bool any = n > 0 && text[n - 1] == '}';
    int i;

    for (i = from; i < NODE_CLIENTS && n + ROW_JSON < room; i++)
        if (node->client[i].fd >= 0 && door_shows(node, &node->client[i])) {
            if (any)
                text[n++] = ',';
            n += (size_t)row_json(node, &node->client[i], text + n, room - n);
            any = true;
        }
    text[n] = '\0';
    *ret_length = n;
    return i;
}

static void list_json(const struct node *node, char *text)
{
    size_t n = (size_t)snprintf(text, NODE_TEXT, "{\"apiVersion\":\"v1\",\"kind\":\"GpuProcessList\",\"items\":[");
    int i = rows_json(node, 0, text, NODE_TEXT - CLOCKS_ROOM, &n);

    n += foreign_json(node, text[n - 1] == '}', text + n, NODE_TEXT - n - CLOCKS_ROOM);
    n += (size_t)snprintf(text + n, NODE_TEXT - n, "],\"gpus\":[");
    n += clocks_json(node, node_now(), text + n, NODE_TEXT - n - 32);
    if (i < NODE_CLIENTS) /* never cut off in silence */
        (void)snprintf(text + n, NODE_TEXT - n, "],\"next\":%d}\n", i);
    else
        (void)snprintf(text + n, NODE_TEXT - n, "],\"next\":null}\n");
}

/* Mini-batches of each process: "PID STEPS", those of which nothing but the time is known left out. */
static void steps_text(const struct node *node, char *text)
{
    size_t n = 0;

    *text = '\0';
    for (int i = 0; i < NODE_CLIENTS && n < NODE_TEXT - ROW_TEXT; i++) {
        const struct client *c = &node->client[i];

        if (c->fd >= 0 && door_shows(node, c) && c->page->step.tier < TIER_TIME)
            n += (size_t)snprintf(text + n, NODE_TEXT - n, "%d %llu\n", (int)c->pid,
                                  (unsigned long long)c->page->step.seq);
    }
}

bool listing_answer(const struct node *node, const char *line, char *text)
{
    size_t n = 0;
    int from, next;

    if (strcmp(line, "ls") == 0 || strcmp(line, "top") == 0) {
        n = list_text(node, text);
        if (*line == 't')
            n += moves_text(node, text + n, NODE_TEXT - n);
        if (*line == 't')
            n += torch_text(node, text + n, NODE_TEXT - n);
        if (*line == 't')
            (void)clocks_text(node, text + n, NODE_TEXT - n);
        return true;
    }
    if (strcmp(line, "json") == 0) {
        list_json(node, text);
        return true;
    }
    if (strcmp(line, "steps") == 0) {
        steps_text(node, text);
        return true;
    }
    if (sscanf(line, "rows %d", &from) != 1)
        return false;
    next = rows_json(node, from < 0 ? NODE_CLIENTS : from, text, NODE_TEXT - 32, &n);
    if (next < NODE_CLIENTS)
        (void)snprintf(text + n, NODE_TEXT - n, "\n%d\n", next);
    else
        (void)snprintf(text + n, NODE_TEXT - n, "\n");
    return true;
}
