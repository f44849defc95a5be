/* SPDX-License-Identifier: Apache-2.0 */
/* filter.c - which jobs a list means. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "ctl/rest/rest.h"
#include "wire/text/decimal.h"

enum { IDS_MAX = 10000, IDS_TEXT_MAX = 8192, WORD_TEXT_MAX = 1024 };

int filter_state(struct job_filter *filter, const char *text)
{
    char copy[256];

    if (strlen(text) >= sizeof(copy))
        return -EINVAL;
    memcpy(copy, text, strlen(text) + 1);
    for (char *save = NULL, *word = strtok_r(copy, ",", &save); word; word = strtok_r(NULL, ",", &save)) {
        int phase = phase_find(word);

        if (phase < 0)
            return -EINVAL;
        filter->phases |= 1U << phase;
    }
    return 0;
}

int query_word(struct request *request, const char *key, char *word, size_t size)
{
    char text[WORD_TEXT_MAX];
    const char *sent;
    size_t length;

    word[0] = '\0';
    if (!http_query_find(request->query, key, 0, &sent, &length))
        return 0;
    if (!query_text(request, key, text, sizeof(text)) || strlen(text) >= size) {
        reply_problem(request, 400, "BadRequest", NULL, "%s: longer than %zu bytes, or not escaped", key, size - 1);
        return -EINVAL;
    }
    memcpy(word, text, strlen(text) + 1);
    return 1;
}

int query_states(struct request *request, char *out, size_t size)
{
    struct job_filter filter = { 0 };
    char text[256];
    size_t used = 0;

    int r = query_word(request, "state", text, sizeof(text));

    out[0] = '\0';
    if (r <= 0)
        return r;
    if (filter_state(&filter, text) < 0) {
        reply_problem(request, 400, "BadRequest", NULL, "state: there is no such state in '%.60s'", text);
        return -EINVAL;
    }
    for (int phase = 0; phase < PHASE_JOB_COUNT && used < size; phase++)
        if (filter.phases >> phase & 1)
            used += (size_t)snprintf(out + used, size - used, "%s%s", used ? "," : "",
                                     phase_name((enum phase_of_job)phase));
    return 0;
}

static int ids_read(struct request *request, struct job_filter *filter)
{
    char *text = mem_zalloc(IDS_TEXT_MAX, 1);
    size_t capacity = 0;
    int r = text ? 0 : -ENOMEM;

    if (r == 0 && query_text(request, "ids", text, IDS_TEXT_MAX))
        for (char *save = NULL, *word = strtok_r(text, ",", &save); word && r == 0; word = strtok_r(NULL, ",", &save)) {
            int64_t id;

            r = decimal_parse_i64(word, strlen(word), &id);
            if (r == 0)
                r = mem_grow((void **)&filter->ids, &capacity, filter->id_count + 1, IDS_MAX, sizeof(*filter->ids));
            if (r == 0)
                filter->ids[filter->id_count++] = id;
        }
    mem_free(text);
    if (r < 0)
        reply_problem(request, 400, "BadRequest", NULL, "ids: expected numbers with commas, at most %d", IDS_MAX);
    return r;
}

static int words_read(struct request *request, struct job_filter *filter)
{
    if (query_word(request, "user", filter->user, sizeof(filter->user)) < 0 ||
        query_word(request, "vc", filter->vc, sizeof(filter->vc)) < 0 ||
        query_word(request, "name", filter->name, sizeof(filter->name)) < 0 ||
        query_word(request, "node", filter->node, sizeof(filter->node)) < 0)
        return -EINVAL;
    return query_word(request, "find", filter->find, sizeof(filter->find)) < 0 ? -EINVAL : 0;
}

/* "K" or "K=V". */
static int tag_read(struct request *request, struct job_filter *filter)
{
    char text[sizeof(filter->tag) + sizeof(filter->tag_value)], *mark;
    int r = query_word(request, "tag", text, sizeof(text));

    if (r <= 0)
        return r;
    mark = strchr(text, '=');
    if (mark)
        *mark++ = '\0';
    if (strlen(text) >= sizeof(filter->tag) || (mark && strlen(mark) >= sizeof(filter->tag_value))) {
        reply_problem(request, 400, "BadRequest", NULL, "tag: its name or value is longer than %zu bytes",
                      sizeof(filter->tag) - 1);
        return -EINVAL;
    }
    (void)snprintf(filter->tag, sizeof(filter->tag), "%.127s", text);
    (void)snprintf(filter->tag_value, sizeof(filter->tag_value), "%.127s", mark ? mark : "");
    return 0;
}

int filter_read(struct request *request, struct job_filter *filter)
{
    char text[256];
    int r;

    *filter = (struct job_filter){ 0 };
    if (words_read(request, filter) < 0)
        return -EINVAL;
    r = query_word(request, "array", text, sizeof(text));
    if (r < 0)
        return r;
    if (r && (decimal_parse_i64(text, strlen(text), &filter->array) < 0 || filter->array <= 0)) {
        reply_problem(request, 400, "BadRequest", NULL, "array: expected the number of an array, not '%.60s'", text);
        return -EINVAL;
    }
    filter->all = query_flag(request, "all");
    r = tag_read(request, filter);
    if (r == 0)
        r = query_word(request, "state", text, sizeof(text));
    if (r < 0)
        return r;
    if (r && filter_state(filter, text) < 0) {
        reply_problem(request, 400, "BadRequest", NULL, "state: there is no such state in '%.60s'", text);
        return -EINVAL;
    }
    if (query_time(request, "since", &filter->since) < 0 || query_time(request, "until", &filter->until) < 0)
        return -EINVAL;
    if (ids_read(request, filter) < 0) {
        filter_done(filter);
        return -EINVAL;
    }
    if (filter->id_count)
        filter->all = true;
    return 0;
}

void filter_done(struct job_filter *filter)
{
    mem_free(take(filter->ids));
}

static bool on_node(const struct scene *scene, const struct ctl_job *job, const char *node)
{
    const struct ctl_attempt *attempt = attempt_last(job);

    for (uint32_t i = 0; attempt && i < attempt->task_count; i++)
        if (strcmp(node_name(scene, attempt->tasks[i].node), node) == 0)
            return true;
    return false;
}

static bool has_tag(const struct ctl_job *job, const char *key, const char *value)
{
    for (size_t i = 0; i < job->spec->tag_count; i++)
        if (strcmp(job->spec->tags[i].key, key) == 0)
            return !*value || strcmp(job->spec->tags[i].value, value) == 0;
    return false;
}

/* A comma list that has the word. */
static bool words_have(const char *words, const char *word)
{
    size_t length = strlen(word);

    for (;;) {
        size_t span = strcspn(words, ",");

        if (span == length && memcmp(words, word, length) == 0)
            return true;
        if (!words[span])
            return false;
        words += span + 1;
    }
}

bool filter_takes(const struct scene *scene, const struct job_filter *filter, const struct ctl_job *job)
{
    if (filter->phases ? !(filter->phases >> job->phase & 1) : !filter->all && phase_over(job->phase))
        return false;
    if (filter->user[0] && !words_have(filter->user, user_name(scene, job->user)))
        return false;
    if (filter->vc[0] && !words_have(filter->vc, vc_name(scene, job->vc)))
        return false;
    if ((filter->name[0] || filter->find[0]) && (!job->spec->name || !render_names(scene, job)))
        return false;
    if (filter->name[0] && strcmp(job->spec->name, filter->name) != 0)
        return false;
    if (filter->find[0] && !strcasestr(job->spec->name, filter->find))
        return false;
    if (filter->array && job->array_id != filter->array)
        return false;
    if (filter->since && (job->end ? job->end : job->submit) < filter->since)
        return false;
    if (filter->until && job->submit > filter->until)
        return false;
    if (filter->tag[0] && !has_tag(job, filter->tag, filter->tag_value))
        return false;
    if (filter->node[0] && !on_node(scene, job, filter->node))
        return false;
    return render_shows(scene, job);
}
