/* SPDX-License-Identifier: Apache-2.0 */
/* story_read.c - the text of a golden file into a scenario; see story.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "io/file.h"
#include "story_line.h"
#include "wire/cluster/cluster.h"
#include "wire/cluster/cluster_cells.h"
#include "wire/cluster/guarantee.h"
#include "wire/job/license.h"

/* ---- cluster, vc, policy ---- */

static int read_cluster(const struct line *line)
{
    char text[512] = "";

    if (line->story->cluster.node_count)
        return line_wrong(line, "a second cluster", NULL);
    for (size_t i = 1; i < line->count; i++) {
        if (strlen(text) + strlen(line->words[i]) + 2 > sizeof(text))
            return line_wrong(line, "too long", NULL);
        strcat(text, i > 1 ? " " : "");
        strcat(text, line->words[i]);
    }
    int r = cluster_parse(text, &line->story->cluster, line->err);

    if (r == 0)
        line->story->cluster.vc_count = 0; /* until a `vc` line comes; else the standard one is put back */
    return r < 0 ? line_prefixed(line, r) : 0;
}

/* "2_nodes", "8_gpus_in_4s+1_rack": as in a cluster file, with _ for blanks. */
static int read_guarantee(const struct line *line, char *text, uint32_t sku)
{
    struct cluster_spec *cluster = &line->story->cluster;
    struct error err = { 0 };
    size_t at = 0;

    for (char *c = text; *c; c++)
        *c = *c == '_' ? ' ' : *c;
    for (;;) {
        struct guarantee part = { .vc = cluster->vc_count, .sku = (uint16_t)sku };
        int r = guarantee_parse(text, &at, &part, &err);
        struct guarantee *list;

        if (r <= 0)
            return r < 0 ? line_wrong(line, err.text, text) : 0;
        list = mem_resize(cluster->guarantees, cluster->guarantee_count + 1, sizeof(*list));
        if (!list)
            return -ENOMEM;
        cluster->guarantees = list;
        list[cluster->guarantee_count++] = part;
    }
}

static int vc_word(const struct line *line, struct vc_spec *vc, char *word)
{
    struct story *story = line->story;
    struct names *names = &story->cluster.names;
    const char *value = strchr(word, '=');
    size_t length;
    int r;

    if (!value)
        return line_wrong(line, "expected key=value", word);
    length = (size_t)(value++ - word);
    if (length == 5 && strncmp(word, "quota", 5) == 0)
        return line_number(line, value, &vc->quota[0]);
    if (strncmp(word, "quota.", 6) == 0) {
        word[length] = '\0';
        if (story_sku(story, word + 6) == SKUS_MAX)
            return line_wrong(line, "no such GPU type", word + 6);
        return line_number(line, value, &vc->quota[story_sku(story, word + 6)]);
    }
    if (word_value(word, "guarantee"))
        return read_guarantee(line, word + length + 1, 0);
    if (strncmp(word, "guarantee.", 10) == 0) {
        word[length] = '\0';
        if (story_sku(story, word + 10) == SKUS_MAX)
            return line_wrong(line, "no such GPU type", word + 10);
        return read_guarantee(line, word + length + 1, story_sku(story, word + 10));
    }
    if (word_value(word, "cpus"))
        return line_number(line, value, &vc->cpus);
    if (word_value(word, "min_runtime"))
        return line_span(line, value, &vc->min_runtime);
    if (word_value(word, "priorities")) {
        for (uint8_t p = 0; p < PRIORITIES_COUNT; p++)
            if (strcmp(vc_priorities_names[p], value) == 0)
                vc->priorities = p;
        return 0;
    }
    if (word_value(word, "user_max"))
        return line_number(line, value, &vc->user_max);
    if (word_value(word, "borrow")) {
        vc->borrow_max = strcmp(value, "all") == 0 ? -1 : 0;
        return vc->borrow_max || strcmp(value, "none") == 0 ? 0 : line_number(line, value, &vc->borrow_max);
    }
    if (word_value(word, "policy"))
        return names_put(names, value, strlen(value), &vc->policy);
    if (vc->param_count == PARAMS_MAX)
        return line_wrong(line, "too many settings", NULL);
    r = names_put(names, word, length, &vc->params[vc->param_count].key);
    if (r == 0)
        r = names_put(names, value, strlen(value), &vc->params[vc->param_count++].value);
    return r;
}

static int read_vc(const struct line *line)
{
    struct cluster_spec *cluster = &line->story->cluster;
    struct vc_spec vc = { .policy = NAME_NONE, .borrow_max = -1 };
    struct vc_spec *vcs;
    int r;

    if (!cluster->node_count || line->count < 2)
        return line_wrong(line, "expected a name, after the cluster", NULL);
    r = names_put(&cluster->names, line->words[1], strlen(line->words[1]), &vc.name);
    for (size_t i = 2; i < line->count && r == 0; i++)
        r = vc_word(line, &vc, line->words[i]);
    if (r < 0)
        return r;
    vcs = mem_resize(cluster->vcs, cluster->vc_count + 1, sizeof(*vcs));
    if (!vcs)
        return -ENOMEM;
    cluster->vcs = vcs;
    cluster->vcs[cluster->vc_count++] = vc;
    return 0;
}

static int read_licenses(const struct line *line)
{
    struct cluster_spec *cluster = &line->story->cluster;
    int r = 0;

    if (!cluster->node_count || line->count < 2)
        return line_wrong(line, "expected NAME:COUNT, after the cluster", NULL);
    for (size_t i = 1; i < line->count && r == 0; i++) {
        struct license_spec *license = &cluster->licenses[cluster->license_count++];
        size_t length;

        if (cluster->license_count == LICENSES_MAX ||
            license_parse(line->words[i], strlen(line->words[i]), &length, &license->count) < 0)
            return line_wrong(line, "expected NAME:COUNT", line->words[i]);
        r = names_put(&cluster->names, line->words[i], length, &license->name);
    }
    return r;
}

static int read_policy(const struct line *line)
{
    struct story *story = line->story;

    if (line->count < 2)
        return line_wrong(line, "expected a policy", NULL);
    story->policy = line->words[1];
    for (size_t i = 2; i < line->count; i++) {
        char *value = strchr(line->words[i], '=');

        if (!value || story->setting_count == STORY_SETTINGS_MAX)
            return line_wrong(line, "expected key=value", line->words[i]);
        *value++ = '\0';
        if (strcmp(line->words[i], "seed") == 0)
            story->seed = strtoull(value, NULL, 10);
        else
            story->settings[story->setting_count++] = (struct setting){ line->words[i], value };
    }
    return 0;
}
/* ---- what people and machines do ---- */

static int job_of(const struct line *line, const char *name, uint32_t *ret)
{
    *ret = names_find(&line->story->trace.ids, name, strlen(name));
    return *ret == NAME_NONE ? line_wrong(line, "no such job above", name) : 0;
}

static int node_of(const struct line *line, const char *name, size_t length, uint32_t *ret)
{
    const struct cluster_spec *cluster = &line->story->cluster;

    for (*ret = 0; *ret < cluster->node_count + cluster->bare_count; (*ret)++) {
        const char *own = names_get(&cluster->names, cluster->nodes[*ret].name);

        if (strlen(own) == length && strncmp(own, name, length) == 0)
            return 0;
    }
    return line_wrong(line, "no such node", name);
}

/* Into the script, behind those of the same instant. */
static int keep_event(const struct line *line, const struct driver_event *event)
{
    struct story *story = line->story;
    size_t i = story->event_count;

    if (i == STORY_EVENTS_MAX)
        return line_wrong(line, "too many events", NULL);
    for (; i && story->events[i - 1].at > event->at; i--)
        story->events[i] = story->events[i - 1];
    story->events[i] = *event;
    story->event_count++;
    return 0;
}

static int read_health(const struct line *line, struct driver_event *event)
{
    const char *name = line->words[2];
    size_t length = strcspn(name, ":");
    uint32_t before = 0, first = 0, last = UINT32_MAX;
    bool drained = line->count == 4 && event->kind == EVENT_NODE && strcmp(line->words[3], "drained") == 0;
    int r;

    if (line->count != 4 || (strcmp(line->words[3], "up") != 0 && strcmp(line->words[3], "down") != 0 && !drained))
        return line_wrong(line, "expected a name, and up or down, or drained for a node", NULL);
    event->up = strcmp(line->words[3], "up") == 0;
    event->value = drained;
    r = node_of(line, name, length, &event->target);
    if (r < 0 || event->kind == EVENT_NODE)
        return r;
    for (uint32_t n = event->target; n-- > 0;)
        before += line->story->cluster.nodes[n].gpus;
    if (sscanf(name + length, ":%u-%u", &first, &last) < 1)
        return line_wrong(line, "expected NODE:GPU or NODE:FIRST-LAST", name);
    if (last == UINT32_MAX)
        last = first;
    /* All but the last here, that one by the caller. */
    for (; first < last && r == 0; first++) {
        event->target = before + first;
        r = keep_event(line, event);
    }
    event->target = before + last;
    return r;
}

static int read_quota(const struct line *line, struct driver_event *event)
{
    const struct cluster_spec *cluster = &line->story->cluster;

    if (line->count < 4)
        return line_wrong(line, "expected a virtual cluster and a number", NULL);
    for (event->target = 0; event->target < cluster->vc_count; event->target++)
        if (strcmp(names_get(&cluster->names, cluster->vcs[event->target].name), line->words[2]) == 0)
            break;
    if (event->target == cluster->vc_count)
        return line_wrong(line, "no such virtual cluster", line->words[2]);
    if (line->count > 4) {
        event->sku = (uint16_t)story_sku(line->story, line->words[4]);
        if (event->sku == SKUS_MAX)
            return line_wrong(line, "no such GPU type", line->words[4]);
    }
    return line_number(line, line->words[3], &event->value);
}

static int read_event(const struct line *line, usec_t at)
{
    static const struct {
        const char *word;
        enum event_kind kind;
    } kinds[] = { { "node", EVENT_NODE },     { "gpu", EVENT_GPU },   { "quota", EVENT_QUOTA },
                  { "cancel", EVENT_CANCEL }, { "hold", EVENT_HOLD }, { "release", EVENT_RELEASE },
                  { "rank", EVENT_RANK },     { "size", EVENT_SIZE }, { "why", EVENT_COUNT } };
    struct story *story = line->story;
    struct driver_event event = { .at = at };
    size_t k = 0;
    int r;

    while (k < sizeof(kinds) / sizeof(*kinds) && strcmp(kinds[k].word, line->words[1]) != 0)
        k++;
    if (k == sizeof(kinds) / sizeof(*kinds))
        return line_wrong(line, "unknown word", line->words[1]);
    if (line->count < 3)
        return line_wrong(line, "expected whom", NULL);
    event.kind = kinds[k].kind;
    if (event.kind == EVENT_NODE || event.kind == EVENT_GPU)
        r = read_health(line, &event);
    else if (event.kind == EVENT_QUOTA)
        r = read_quota(line, &event);
    else
        r = job_of(line, line->words[2], &event.target);
    if (r == 0 && event.kind == EVENT_RANK)
        r = line->count == 4 ? line_number(line, line->words[3], &event.value)
                             : line_wrong(line, "expected a priority", NULL);
    if (r == 0 && event.kind == EVENT_SIZE)
        r = line->count == 4 ? line_number(line, line->words[3], &event.value)
                             : line_wrong(line, "expected how many GPUs, 0: as it came", NULL);
    if (r < 0)
        return r;
    r = keep_event(line, &event);
    if (r == 0 && event.kind == EVENT_COUNT)
        story->whys[story->why_count++] = (struct story_why){ at, event.target };
    return r;
}

static int read_timed(const struct line *line)
{
    usec_t at;
    int r = line_span(line, line->words[0] + 1, &at);

    if (r < 0)
        return r;
    if (line->count < 2)
        return line_wrong(line, "expected what happens", NULL);
    return strcmp(line->words[1], "submit") == 0 ? line_submit(line, at) : read_event(line, at);
}

static int read_show(const struct line *line)
{
    for (size_t i = 1; i < line->count; i++) {
        if (strcmp(line->words[i], "jct") == 0)
            line->story->show_jct = true;
        else if (strcmp(line->words[i], "delays") == 0)
            line->story->show_delays = true;
        else
            return line_wrong(line, "expected jct or delays", line->words[i]);
    }
    return 0;
}

static int read_line(struct line *line)
{
    const char *word = line->words[0];

    if (*word == '@')
        return read_timed(line);
    if (strcmp(word, "cluster") == 0)
        return read_cluster(line);
    if (strcmp(word, "vc") == 0)
        return read_vc(line);
    if (strcmp(word, "licenses") == 0)
        return read_licenses(line);
    if (strcmp(word, "policy") == 0)
        return read_policy(line);
    if (strcmp(word, "show") == 0)
        return read_show(line);
    return line_wrong(line, "expected cluster, vc, licenses, policy, show, @TIME or expect", word);
}

/* ---- the file ---- */

static void split(struct line *line, char *text)
{
    char *rest = NULL;

    text[strcspn(text, "#")] = '\0';
    line->count = 0;
    for (char *word = strtok_r(text, " \t\r", &rest); word && line->count < WORDS_MAX;
         word = strtok_r(NULL, " \t\r", &rest))
        line->words[line->count++] = word;
}

static int keep_expected(struct story *story, char *text, int number, struct error *err)
{
    text[strcspn(text, "#")] = '\0';
    if (text[strspn(text, " \t\r")] == '\0')
        return 0;
    if (story->expect_count == STORY_EXPECT_MAX)
        return error_set(err, -E2BIG, "%s:%d: more than %d lines expected", story->file, number, STORY_EXPECT_MAX);
    story->expect[story->expect_count] = text;
    story->expect_line[story->expect_count++] = number;
    return 0;
}

/* Jobs name each other and the script names jobs by id; the driver wants indexes into the sorted trace. */
static void bind(struct story *story)
{
    trace_sort(&story->trace);
    for (size_t i = 0; i < story->event_count; i++) {
        struct driver_event *event = &story->events[i];

        if (event->kind != EVENT_CANCEL && event->kind != EVENT_HOLD && event->kind != EVENT_RELEASE &&
            event->kind != EVENT_RANK && event->kind != EVENT_SIZE)
            continue;
        for (uint32_t j = 0; j < story->trace.count; j++)
            if (story->trace.jobs[j].spec.id == (int64_t)event->target) {
                event->target = j;
                break;
            }
    }
    if (story->cluster.vc_count == 0)
        story->cluster.vc_count = 1;
}

static int read_lines(struct story *story, struct error *err)
{
    bool expecting = false;
    char *next;
    int r = 0, number = 0;

    for (char *at = story->text; at && *at && r == 0; at = next) {
        struct line line = { .story = story, .number = ++number, .err = err };

        next = strchr(at, '\n');
        if (next)
            *next++ = '\0';
        if (expecting) {
            r = keep_expected(story, at, number, err);
            continue;
        }
        split(&line, at);
        if (line.count == 1 && strcmp(line.words[0], "expect") == 0) {
            expecting = true;
            story->head_bytes = next ? (size_t)(next - story->text) : strlen(story->text);
        } else if (line.count) {
            r = read_line(&line);
        }
    }
    if (r == 0 && (!expecting || !story->policy || !story->cluster.node_count))
        r = error_set(err, -EINVAL, "%s: expected cluster, policy and expect", story->file);
    return r;
}

/* What virtual clusters are guaranteed, in cells. */
static int read_cells(struct story *story, struct error *err)
{
    int r;

    story->cluster.cells = mem_zalloc(1, sizeof(*story->cluster.cells));
    if (!story->cluster.cells)
        return -ENOMEM;
    r = cluster_cells(&story->cluster, story->cluster.cells, NULL, NULL, err);
    return r < 0 ? error_prefix(err, r, "%s", story->file) : 0;
}

int story_read(const char *file, struct story *ret_story, struct error *err)
{
    struct bytes bytes = { 0 };
    int r;

    *ret_story = (struct story){ .file = file };
    r = file_read(file, STORY_BYTES_MAX, &bytes, err);
    if (r < 0)
        return r;
    ret_story->text = bytes.data;
    r = read_lines(ret_story, err);
    if (r < 0) {
        story_done(ret_story);
        return r;
    }
    bind(ret_story);
    r = ret_story->cluster.guarantee_count ? read_cells(ret_story, err) : 0;
    if (r < 0)
        story_done(ret_story);
    return r;
}

void story_done(struct story *story)
{
    mem_free(story->text);
    trace_done(&story->trace);
    cluster_spec_done(&story->cluster);
    *story = (struct story){ 0 };
}
