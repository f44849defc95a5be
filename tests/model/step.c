/* SPDX-License-Identifier: Apache-2.0 */
/* step.c - one line of a script, carried out. Words by blanks; the last of some is JSON to the end of the line.
 *
 *   node n0 4 H100                    an agent joins (0 GPUs: a node for jobs without)
 *   config JSON | vc JSON | limits JSON
 *   submit j1 alice [after=ok:j0] [begin=30] [deadline=60] JSON
 *   cancel j1 [now] | hold release requeue suspend resume j1 | signal j1 10 | set j1 priority 500
 *   drain n0 [gpu 1] [in 30] [reboot] | undrain n0 [gpu 1] | forget n0 | pause | unpause
 *   resv r1 n0 10 60 5                from in ten seconds for a minute, nodes kept free five before | unresv r1
 *   cut n0 | join n0 [lost|boot|fresh] | join n0 gpus 1     it has so many of its GPUs by now
 *   hear n0 2 | work n0 | tell n0 1 | again n0 | settle | wait 30 | restart | replay
 *   exit j1 0 code 1                  rank 0 of what runs; or: signal 9, oom 9 | refuse n0 [user]
 *   gpu n0 1 bad|ok|foreign | rate j1 500000 | saved j1
 *
 * j1[2] is the third element of an array. A step about something that is not there does nothing, so that any part of a
 * script is a script. A line that ends in '&' is in one batch with the next.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

enum { WORDS_MAX = 12 };

struct line {
    char text[STEP_BYTES];
    char *words[WORDS_MAX];
    size_t count;
    char *json; /* from its first brace on; NULL */
    bool more;  /* the batch goes on */
};

static void line_read(const char *text, struct line *line)
{
    char *at = line->text, *save = NULL;
    size_t size;

    *line = (struct line){ 0 };
    (void)snprintf(line->text, sizeof(line->text), "%s", text);
    size = strlen(line->text);
    while (size > 0 && (line->text[size - 1] == ' ' || line->text[size - 1] == '\n'))
        line->text[--size] = '\0';
    if (size > 0 && line->text[size - 1] == '&') {
        line->more = true;
        line->text[--size] = '\0';
    }
    line->json = strchr(line->text, '{');
    if (line->json) {
        line->json[-1] = '\0';
    }
    for (char *word = strtok_r(at, " ", &save); word && line->count < WORDS_MAX; word = strtok_r(NULL, " ", &save))
        line->words[line->count++] = word;
}

static const char *word(const struct line *line, size_t index)
{
    return index < line->count ? line->words[index] : "";
}

static int64_t number(const struct line *line, size_t index)
{
    return strtoll(word(line, index), NULL, 10);
}

static bool has(const struct line *line, const char *what)
{
    for (size_t i = 2; i < line->count; i++)
        if (strcmp(line->words[i], what) == 0)
            return true;
    return false;
}

static int label_find(const struct world *world, const char *name)
{
    for (size_t i = 0; i < world->label_count; i++)
        if (strcmp(world->labels[i].name, name) == 0)
            return (int)i;
    return -1;
}

/* Its number; 0: there is none. An element of an array has the number behind its array's and those before it. */
static int64_t job_of(const struct world *world, const char *text)
{
    char name[32];
    const char *open = strchr(text, '[');
    int64_t element = open ? strtoll(open + 1, NULL, 10) : -1;
    int label;

    (void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(text, "["), text);
    label = label_find(world, name);
    if (label < 0 || world->labels[label].id == 0)
        return 0;
    if (element < 0)
        return world->labels[label].id;
    return element < world->labels[label].count ? world->labels[label].id + 1 + element : 0;
}

static void node_new(struct world *world, const struct line *line)
{
    struct agent *agent;

    if (agent_find(world, word(line, 1)) || world->agent_count == AGENTS_MAX)
        return;
    agent = &world->agents[world->agent_count++];
    *agent = (struct agent){ .gpus = (int)number(line, 2) };
    (void)snprintf(agent->name, sizeof(agent->name), "%.15s", word(line, 1));
    (void)snprintf(agent->sku, sizeof(agent->sku), "%.15s", word(line, 3));
    (void)snprintf(agent->id, sizeof(agent->id), "%.15s-0", word(line, 1));
    (void)snprintf(agent->boot, sizeof(agent->boot), "boot0");
    world_join(world, agent);
}

/* ISO 8601 of an instant of the model: it begins a thousand seconds after 1970 and lasts some hours. */
static void time_write(usec_t at, char *out, size_t size)
{
    int64_t s = at / USEC_SEC;

    (void)snprintf(out, size, "1970-01-%02dT%02d:%02d:%02dZ", (int)(1 + s / 86400), (int)(s / 3600 % 24),
                   (int)(s / 60 % 60), (int)(s % 60));
}

/* after=ok:j0, begin=30 and deadline=60 become keys of the submission. */
static bool spec_words(const struct world *world, const struct line *line, char *out, size_t size)
{
    size_t used = (size_t)snprintf(out, size, "{");

    for (size_t i = 3; i < line->count; i++) {
        const char *value = strchr(line->words[i], '='), *colon = strchr(line->words[i], ':');
        char when[40];

        if (!value)
            continue;
        if (colon) {
            int64_t id = job_of(world, colon + 1);

            if (!id)
                return false;
            used += (size_t)snprintf(out + used, size - used, "\"after\":{\"%.*s\":[%lld]},", (int)(colon - value - 1),
                                     value + 1, (long long)id);
            continue;
        }
        time_write(world->now + strtoll(value + 1, NULL, 10) * USEC_SEC, when, sizeof(when));
        used += (size_t)snprintf(out + used, size - used, "\"%.*s\":\"%s\",", (int)(value - line->words[i]),
                                 line->words[i], when);
    }
    (void)snprintf(out + used, size - used, "%s", line->json + 1);
    return true;
}

static void submit(struct world *world, const struct line *line)
{
    char spec[2 * STEP_BYTES];
    struct label *label;

    if (label_find(world, word(line, 1)) >= 0 || world->label_count == LABELS_MAX || !line->json ||
        !spec_words(world, line, spec, sizeof(spec)))
        return;
    label = &world->labels[world->label_count++];
    *label = (struct label){ 0 };
    (void)snprintf(label->name, sizeof(label->name), "%.15s", word(line, 1));
    world_offer(world, entry_submit(word(line, 2), spec), (int)(label - world->labels));
}

static void drain(struct world *world, const struct line *line, bool on)
{
    int gpu = -1;
    usec_t deadline = 0;

    for (size_t i = 2; i + 1 < line->count; i++) {
        if (strcmp(line->words[i], "gpu") == 0)
            gpu = (int)number(line, i + 1);
        if (strcmp(line->words[i], "in") == 0)
            deadline = world->now + number(line, i + 1) * USEC_SEC;
    }
    if (on)
        world_offer(world, entry_drain(word(line, 1), gpu, deadline, has(line, "reboot")), -1);
    else
        world_offer(world, entry_undrain(word(line, 1), gpu), -1);
}

static void set(struct world *world, const struct line *line, int64_t job)
{
    const char *key = word(line, 2);

    if (strcmp(key, "vc") == 0)
        world_offer(world, entry_set_vc(job, word(line, 3)), -1);
    else
        world_offer(world, entry_set_number(job, key, number(line, 3) * (strcmp(key, "time") == 0 ? USEC_SEC : 1)), -1);
}

/* The present attempt of the job, where it runs. */
static void exit_task(struct world *world, const struct line *line, int64_t id)
{
    const struct ctl_job *job = registry_find(ctl_registry(world->ctl), id);
    struct said how = { 0 };
    int value = (int)number(line, 4);
    const char *kind = word(line, 3);

    (void)snprintf(how.cause, sizeof(how.cause), "exit");
    if (strcmp(kind, "code") == 0) {
        how.exit = value;
    } else {
        how.exit = 128 + value;
        how.signal = value;
        how.oom = strcmp(kind, "oom") == 0;
        (void)snprintf(how.cause, sizeof(how.cause), "%s", how.oom ? "oom" : "signal");
    }
    for (size_t a = 0; job && a < world->agent_count; a++)
        for (size_t i = 0; i < world->agents[a].task_count; i++) {
            struct sim_task *task = &world->agents[a].tasks[i];

            if (task->id.job != id || task->id.rank != number(line, 2) || task->state != TASK_RUNNING)
                continue;
            if (task->id.rank == 0 || job->spec->launch != LAUNCH_ONCE) /* else it has no process there */
                agent_exit(world, &world->agents[a], task, &how);
            return;
        }
}

/* Something that a running task, wherever it is, tells of itself. */
static void said_by(struct world *world, int64_t id, int64_t rate)
{
    for (size_t a = 0; a < world->agent_count; a++)
        for (size_t i = 0; i < world->agents[a].task_count; i++) {
            const struct sim_task *task = &world->agents[a].tasks[i];

            if (task->id.job != id || task->id.rank != 0 || task->state != TASK_RUNNING)
                continue;
            agent_report(
                world, &world->agents[a],
                (struct said){ .id = task->id, .state = task->state, .gpu = -1, .rate = rate, .saved = rate < 0 });
            return;
        }
}

static bool do_time(struct world *world, const struct line *line)
{
    const char *verb = word(line, 0);

    if (strcmp(verb, "settle") == 0)
        world_settle(world);
    else if (strcmp(verb, "wait") == 0)
        world_wait(world, number(line, 1) * USEC_SEC);
    else if (strcmp(verb, "restart") == 0)
        world_restart(world, false);
    else if (strcmp(verb, "replay") == 0)
        world_restart(world, true);
    else
        return false;
    return true;
}

static bool do_job(struct world *world, const struct line *line)
{
    static const enum entry_kind acts[] = { ENTRY_HOLD, ENTRY_RELEASE, ENTRY_REQUEUE, ENTRY_SUSPEND, ENTRY_RESUME };
    const char *verb = word(line, 0);
    int64_t job = job_of(world, word(line, 1));

    for (size_t i = 0; i < sizeof(acts) / sizeof(*acts); i++)
        if (strcmp(verb, entry_name(acts[i])) == 0) {
            if (job)
                world_offer(world, entry_act(acts[i], job), -1);
            return true;
        }
    if (strcmp(verb, "submit") == 0)
        submit(world, line);
    else if (!job)
        return false; /* of a node, or of a job that is not there */
    else if (strcmp(verb, "cancel") == 0)
        world_offer(world, entry_cancel(job, has(line, "now")), -1);
    else if (strcmp(verb, "signal") == 0)
        world_offer(world, entry_signal(job, (int)number(line, 2)), -1);
    else if (strcmp(verb, "set") == 0)
        set(world, line, job);
    else if (strcmp(verb, "exit") == 0)
        exit_task(world, line, job);
    else if (strcmp(verb, "rate") == 0)
        said_by(world, job, number(line, 2));
    else if (strcmp(verb, "saved") == 0)
        said_by(world, job, -1);
    else
        return false;
    return true;
}

static void do_gpu(struct world *world, struct agent *agent, const struct line *line)
{
    const char *how = word(line, 3);

    if (number(line, 2) < agent->gpus)
        agent_report(world, agent,
                     (struct said){ .gpu = (int)number(line, 2),
                                    .rate = -1,
                                    .ok = strcmp(how, "bad") != 0,
                                    .foreign = strcmp(how, "foreign") == 0 });
}

static void do_join(struct world *world, struct agent *agent, const struct line *line)
{
    agent_cut(world, agent);
    if (has(line, "lost"))
        agent_return(world, agent, RETURN_LOST);
    else if (has(line, "boot"))
        agent_return(world, agent, RETURN_BOOT);
    else if (has(line, "fresh"))
        agent_return(world, agent, RETURN_FRESH);
    if (strcmp(word(line, 2), "gpus") == 0)
        agent->gpus = atoi(word(line, 3));
    world_join(world, agent);
}

static bool do_node(struct world *world, const struct line *line)
{
    struct agent *agent = agent_find(world, word(line, 1));
    const char *verb = word(line, 0);

    if (!agent)
        return false;
    if (strcmp(verb, "drain") == 0 || strcmp(verb, "undrain") == 0) {
        drain(world, line, verb[0] == 'd');
    } else if (strcmp(verb, "forget") == 0) {
        world_offer(world, entry_node(ENTRY_FORGET, agent->name), -1);
    } else if (strcmp(verb, "cut") == 0) {
        struct ctl_node *nodes = ctl_registry_mut(world->ctl)->nodes;
        uint32_t index = names_find(&ctl_registry(world->ctl)->node_names, agent->name, strlen(agent->name));

        agent_cut(world, agent);
        if (index != NAME_NONE)
            nodes[index].connected = false;
    } else if (strcmp(verb, "join") == 0) {
        do_join(world, agent, line);
    } else if (strcmp(verb, "hear") == 0) {
        agent_hear(world, agent, (size_t)number(line, 2));
    } else if (strcmp(verb, "work") == 0) {
        (void)agent_work(world, agent);
    } else if (strcmp(verb, "tell") == 0) {
        agent_tell(world, agent, (size_t)number(line, 2));
    } else if (strcmp(verb, "again") == 0) {
        agent_again(world, agent);
    } else if (strcmp(verb, "refuse") == 0) {
        agent->refuses = true;
        agent->by_user = has(line, "user");
    } else if (strcmp(verb, "gpu") == 0) {
        do_gpu(world, agent, line);
    } else {
        return false;
    }
    return true;
}

static void do_cluster(struct world *world, const struct line *line)
{
    const char *verb = word(line, 0);
    usec_t start = world->now + number(line, 3) * USEC_SEC;

    if (strcmp(verb, "node") == 0)
        node_new(world, line);
    else if (line->json && (strcmp(verb, "config") == 0 || strcmp(verb, "vc") == 0 || strcmp(verb, "limits") == 0))
        world_offer(world, entry_words((enum entry_kind)entry_find(verb), line->json), -1);
    else if (strcmp(verb, "pause") == 0 || strcmp(verb, "unpause") == 0)
        world_offer(world, entry_pause(verb[0] == 'p'), -1);
    else if (strcmp(verb, "resv") == 0)
        world_offer(world,
                    entry_resv(word(line, 1), word(line, 2), start, start + number(line, 4) * USEC_SEC,
                               number(line, 5) * USEC_SEC),
                    -1);
    else if (strcmp(verb, "unresv") == 0)
        world_offer(world, entry_resv_remove(word(line, 1)), -1);
}

void step_do(struct world *world, const char *text)
{
    struct line line;

    line_read(text, &line);
    if (line.count == 0 || line.words[0][0] == '#' || do_time(world, &line))
        return;
    if (!do_job(world, &line) && !do_node(world, &line))
        do_cluster(world, &line);
    if (!line.more && world->pending_count && !world_failed(world))
        world_turn(world);
}
