/* SPDX-License-Identifier: Apache-2.0 */
/* answer.c - one line from a tool, one text back.
 *
 * Lines: those of listing.c; `stop`; `pause`, `resume`, `evict`, `release`, `restore`, each with `PID` or `job=ID` and
 * perhaps `boundary`, `gpu=HEX`; `estimate PID free=BYTES`, `suspend PID free=BYTES`; `signal PID NUMBER`, `save PID
 * NUMBER SECONDS [force] [end]`; `baseline PID STEPS`; `stats PID`; `detach PID SECONDS`; `set PID memory=BYTES gpu=N
 * share=PERMILLE prepare=BYTES pinned=PERMILLE`. An answer begins with "ok" or "error"; listings are the text itself.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gpurt/listing.h"
#include "gpurt/node.h"

#define BOUNDARY_NS 1000000000ULL /* a step that ends later than this is not waited for */
#define DETACH_MOST_S 600u

enum set_key { SET_MEMORY, SET_SHARE, SET_PREPARE, SET_PINNED, SET_GPU, SET_COUNT };

struct settings {
    bool given[SET_COUNT];
    unsigned long long value[SET_COUNT];
};

static int word_read(const char *word, struct settings *s, struct error *err)
{
    static const struct {
        const char *name;
        unsigned long long least, most;
    } keys[SET_COUNT] = { { "memory", 0, UINT64_MAX },
                          { "share", 1, PAGE_PERMILLE },
                          { "prepare", 0, UINT64_MAX },
                          { "pinned", 0, PAGE_PERMILLE },
                          { "gpu", 0, PAGE_GPUS - 1 } };
    const char *equals = strchr(word, '=');
    unsigned long long value;
    char *end;

    if (!equals)
        return error_set(err, -EINVAL, "'%s' is not key=value", word);
    value = strtoull(equals + 1, &end, 10);
    if (equals[1] < '0' || equals[1] > '9' || *end)
        return error_set(err, -EINVAL, "'%s': expected a number", word);
    for (int k = 0; k < SET_COUNT; k++) {
        if (strncmp(word, keys[k].name, strlen(keys[k].name)) != 0 || word + strlen(keys[k].name) != equals)
            continue;
        if (s->given[k])
            return error_set(err, -EINVAL, "%s is given twice; nothing was set", keys[k].name);
        if (value < keys[k].least || value > keys[k].most)
            return error_set(err, -EINVAL, "%s is %llu to %llu%s, not %llu", keys[k].name, keys[k].least, keys[k].most,
                             k == SET_GPU ? "" : " permille", value);
        s->given[k] = true;
        s->value[k] = value;
        return 0;
    }
    return error_set(err, -EINVAL, "unknown key in '%s'; memory, gpu, share, prepare and pinned are known", word);
}

/* All words are read before the first counts. The one that may still be refused comes first. */
static int assign(struct node *node, struct client *client, char **save, bool *ret_later, struct error *err)
{
    struct settings s = { 0 };
    const char *word;
    int r = 0;

    while (r == 0 && (word = strtok_r(NULL, " ", save)))
        r = word_read(word, &s, err);
    if (r == 0 && s.given[SET_GPU] && !s.given[SET_MEMORY])
        r = error_set(err, -EINVAL, "gpu says whose memory= it is, and that is not given");
    if (r == 0 && s.given[SET_MEMORY])
        r = ladder_memory(node, client, s.given[SET_GPU] ? (int)s.value[SET_GPU] : -1, s.value[SET_MEMORY], err);
    if (r < 0)
        return r;
    *ret_later = s.given[SET_MEMORY];
    if (s.given[SET_SHARE])
        client->duty = s.value[SET_SHARE] == PAGE_PERMILLE ? 0 : (uint32_t)s.value[SET_SHARE];
    if (s.given[SET_PREPARE])
        (void)control_command(client, OP_PREPARE, 0, s.value[SET_PREPARE], 1000000000ULL);
    if (s.given[SET_PINNED])
        client->keep_pinned = (uint32_t)s.value[SET_PINNED];
    return 0;
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
    struct error err = { 0 };
    int pid = 0;

    if (sscanf(line, "estimate %d free=%llu", &pid, &bytes) < 1)
        return false;
    client = node_find(node, pid);
    if (client && ladder_usable(client, &err) < 0)
        (void)snprintf(text, NODE_TEXT, "error: %s", err.text);
    else if (client)
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
    int r;

    if (!verb || !pid_text)
        return error_set(err, -EINVAL, "expected VERB PID");
    client = node_find(node, (pid_t)strtol(pid_text, NULL, 10));
    if (!client)
        return error_set(err, -ESRCH, "no process %s is registered; `muster gpu ls` shows those that are", pid_text);
    r = strcmp(verb, "signal") == 0 ? 0 : ladder_usable(client, err); /* a signal may end it */
    if (r < 0)
        return r;
    if (strcmp(verb, "set") == 0)
        return assign(node, client, &save, ret_later, err);
    *ret_later = true;
    if (strcmp(verb, "suspend") == 0)
        return suspend(node, client, strtok_r(NULL, " ", &save), err);
    if (strcmp(verb, "signal") == 0 || strcmp(verb, "save") == 0) {
        char *number = strtok_r(NULL, " ", &save), *seconds = strtok_r(NULL, " ", &save);
        uint32_t how = 0;

        while ((word = strtok_r(NULL, " ", &save)))
            how |= strcmp(word, "force") == 0 ? SAVE_FORCE : strcmp(word, "end") == 0 ? SAVE_END : 0;
        return ladder_signal(node, client, number ? (int)strtol(number, NULL, 10) : SIGUSR1,
                             seconds ? (uint32_t)strtoul(seconds, NULL, 10) % 3600 : 0, how, err);
    }
    if (strcmp(verb, "stats") == 0)
        return torch_order(client, err);
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

    if (listing_answer(node, line, text))
        return false;
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
