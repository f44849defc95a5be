/* SPDX-License-Identifier: Apache-2.0 */
/* submission_lists.c - keys of a submission that hold many values: arguments, environment, mounts, what it waits for.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "wire/agent/progress.h"
#include "wire/job/license.h"
#include "wire/job/submission_internal.h"
#include "wire/text/decimal.h"
#include "wire/text/json_write.h"
#include "wire/text/pattern.h"
#include "wire/text/suggest.h"

static void list_write(struct json_write *out, const char *key, char *const *list, size_t count)
{
    if (count == 0)
        return;
    json_write_array(out, key);
    for (size_t i = 0; i < count; i++)
        json_write_text(out, NULL, list[i]);
    json_write_close(out);
}

int read_args(struct submission_reader *rd, const struct submission_key *key, json_t *value)
{
    (void)key;
    if (!json_is_array(value))
        return reader_fail(rd, "expected a list of arguments");
    return reader_list(rd, value, SUBMISSION_ARGS_MAX, &rd->s->args, &rd->s->arg_count);
}

void write_args(struct json_write *out, const struct submission_key *key, const struct submission *s)
{
    list_write(out, key->name, s->args, s->arg_count);
}

/* SRC:DST[:ro|:rw], both from the root. */
static bool mount_check(const char *text)
{
    const char *colon = strchr(text, ':'), *end;

    if (*text != '/' || !colon || colon[1] != '/')
        return false;
    end = strchr(colon + 1, ':');
    return !end || strcmp(end, ":ro") == 0 || strcmp(end, ":rw") == 0;
}

int read_mounts(struct submission_reader *rd, const struct submission_key *key, json_t *value)
{
    int r = reader_list(rd, value, SUBMISSION_LIST_MAX, &rd->s->mounts, &rd->s->mount_count);

    (void)key;
    for (size_t i = 0; r == 0 && i < rd->s->mount_count; i++) {
        char shown[SHOWN_MAX];

        if (!mount_check(rd->s->mounts[i]))
            r = reader_fail(rd, "expected /SOURCE:/TARGET[:ro], got '%s'",
                            suggest_shown(rd->s->mounts[i], strlen(rd->s->mounts[i]), shown));
    }
    return r;
}

void write_mounts(struct json_write *out, const struct submission_key *key, const struct submission *s)
{
    list_write(out, key->name, s->mounts, s->mount_count);
}

/* Names of variables, each at most once. */
int read_secrets(struct submission_reader *rd, const struct submission_key *key, json_t *value)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";
    int r = reader_list(rd, value, SUBMISSION_LIST_MAX, &rd->s->secrets, &rd->s->secret_count);

    (void)key;
    for (size_t i = 0; r == 0 && i < rd->s->secret_count; i++) {
        const char *name = rd->s->secrets[i];
        char shown[SHOWN_MAX];

        if (!*name || strlen(name) > 63 || strchr("0123456789", name[0]) || name[strspn(name, letters)] ||
            strncmp(name, "MUSTER_", 7) == 0)
            r = reader_fail(rd, "expected the name of a secret such as HF_TOKEN, got '%s'",
                            suggest_shown(name, strlen(name), shown));
    }
    return r;
}

void write_secrets(struct json_write *out, const struct submission_key *key, const struct submission *s)
{
    list_write(out, key->name, s->secrets, s->secret_count);
}

int read_notify(struct submission_reader *rd, const struct submission_key *key, json_t *value)
{
    static const char *const kinds[] = { "start", "end", "fail", "preempt" };
    int r = reader_list(rd, value, SUBMISSION_LIST_MAX, &rd->s->notify, &rd->s->notify_count);

    (void)key;
    for (size_t i = 0; r == 0 && i < rd->s->notify_count; i++) {
        const char *text = rd->s->notify[i];
        size_t length = strcspn(text, "="), k = 0;

        while (k < 4 && !(strlen(kinds[k]) == length && strncmp(kinds[k], text, length) == 0))
            k++;
        if (k == 4 || strlen(text) > 2000 ||
            (text[length] && strncmp(text + length, "=http://", 8) != 0 &&
             strncmp(text + length, "=https://", 9) != 0 && strncmp(text + length, "=mailto:", 8) != 0))
            r = reader_fail(rd, "expected start, end, fail or preempt, with =URL or =mailto:NAME where it is told");
    }
    return r;
}

void write_notify(struct json_write *out, const struct submission_key *key, const struct submission *s)
{
    list_write(out, key->name, s->notify, s->notify_count);
}

int read_one_of(struct submission_reader *rd, const struct submission_key *key, json_t *value)
{
    const char *text = json_string_value(value);
    char all[128] = "";

    for (size_t i = 0; key->words[i]; i++) {
        if (text && strcasecmp(text, key->words[i]) == 0)
            return read_text(rd, key, value);
        (void)snprintf(all + strlen(all), sizeof(all) - strlen(all), "%s%s", i ? ", " : "", key->words[i]);
    }
    return reader_fail(rd, "expected one of %s", all);
}

static int pair_compare(const void *a, const void *b)
{
    return strcmp(((const struct env_pair *)a)->key, ((const struct env_pair *)b)->key);
}

int submission_put_pair(struct env_pair **pairs, size_t *count, const char *key, const char *value)
{
    struct env_pair *grown;
    char *copy, *name;

    copy = mem_strdup(value);
    if (!copy)
        return -ENOMEM;
    for (size_t i = 0; i < *count; i++) {
        if (strcmp((*pairs)[i].key, key) == 0) {
            mem_free((*pairs)[i].value);
            (*pairs)[i].value = copy;
            return 0;
        }
    }
    name = mem_strdup(key);
    grown = name ? mem_resize(*pairs, *count + 1, sizeof(**pairs)) : NULL;
    if (!grown) {
        mem_free(copy);
        mem_free(name);
        return -ENOMEM;
    }
    *pairs = grown;
    grown[(*count)++] = (struct env_pair){ name, copy };
    qsort(grown, *count, sizeof(*grown), pair_compare);
    return 0;
}

static bool is_variable(const char *name)
{
    for (const char *c = name; *c; c++)
        if (!isalpha((unsigned char)*c) && *c != '_' && (c == name || !isdigit((unsigned char)*c)))
            return false;
    return *name != '\0';
}

static int pairs_read(struct submission_reader *rd, json_t *value, struct env_pair **pairs, size_t *count)
{
    struct env_pair *grown;
    const char *name;
    json_t *part;

    if (!json_is_object(value))
        return reader_fail(rd, "expected a mapping");
    if (json_object_size(value) + *count > SUBMISSION_ENV_MAX)
        return reader_fail(rd, "more than %d of them", SUBMISSION_ENV_MAX);
    grown = mem_resize(*pairs, *count + json_object_size(value) + 1, sizeof(**pairs));
    if (!grown)
        return reader_memory(rd);
    *pairs = grown;
    json_object_foreach(value, name, part)
    {
        const char *text;
        char number[64];
        size_t mark;
        int r;

        reader_enter(rd, name, &mark);
        if (pairs == &rd->s->env && !is_variable(name))
            return reader_fail(rd, "a variable is named with letters, digits and _");
        r = reader_text(rd, part, SUBMISSION_BYTES_MAX, number, &text);
        if (r < 0)
            return r;
        grown[*count] = (struct env_pair){ mem_strdup(name), mem_strdup(text) };
        ++*count;
        if (!grown[*count - 1].key || !grown[*count - 1].value)
            return reader_memory(rd);
        reader_leave(rd, mark);
    }
    qsort(grown, *count, sizeof(*grown), pair_compare);
    return 0;
}

static void pairs_write(struct json_write *out, const char *key, const struct env_pair *pairs, size_t count)
{
    if (count == 0)
        return;
    json_write_object(out, key);
    for (size_t i = 0; i < count; i++)
        json_write_text(out, pairs[i].key, pairs[i].value);
    json_write_close(out);
}

int read_env(struct submission_reader *rd, const struct submission_key *key, json_t *value)
{
    (void)key;
    return pairs_read(rd, value, &rd->s->env, &rd->s->env_count);
}

void write_env(struct json_write *out, const struct submission_key *key, const struct submission *s)
{
    pairs_write(out, key->name, s->env, s->env_count);
}

int read_tags(struct submission_reader *rd, const struct submission_key *key, json_t *value)
{
    (void)key;
    return pairs_read(rd, value, &rd->s->tags, &rd->s->tag_count);
}

void write_tags(struct json_write *out, const struct submission_key *key, const struct submission *s)
{
    pairs_write(out, key->name, s->tags, s->tag_count);
}

/* {step: 'step (\d+)', loss: 'loss ([0-9.]+)'} */
int read_progress(struct submission_reader *rd, const struct submission_key *key, json_t *value)
{
    int r = pairs_read(rd, value, &rd->s->progress, &rd->s->progress_count);

    (void)key;
    for (size_t i = 0; r == 0 && i < rd->s->progress_count; i++) {
        const struct env_pair *pair = &rd->s->progress[i];
        struct pattern pattern;
        struct error err = { 0 };
        size_t mark;

        if (progress_find(pair->key, strlen(pair->key)) < 0)
            return reader_fail(rd, "expected step, samples, total, epoch, loss or rank, each with a pattern");
        reader_enter(rd, pair->key, &mark);
        if (pattern_compile(pair->value, &pattern, &err) < 0)
            return reader_fail(rd, "the pattern cannot be used: %s", err.text);
        reader_leave(rd, mark);
    }
    return r;
}

void write_progress(struct json_write *out, const struct submission_key *key, const struct submission *s)
{
    pairs_write(out, key->name, s->progress, s->progress_count);
}

int submission_add_after(struct submission *s, enum after_kind kind, int64_t job)
{
    void *grown;

    for (size_t i = 0; i < s->after_count; i++)
        if (s->after[i].job == job && s->after[i].kind == kind)
            return 0;
    if (s->after_count == SUBMISSION_AFTER_MAX)
        return -E2BIG;
    grown = mem_resize(s->after, s->after_count + 1, sizeof(*s->after));
    if (!grown)
        return -ENOMEM;
    s->after = grown;
    s->after[s->after_count++] = (struct after){ job, kind };
    return 0;
}

static const char *const after_words[] = { [AFTER_OK] = "ok", [AFTER_ANY] = "any", [AFTER_NOTOK] = "notok" };

static int after_list(struct submission_reader *rd, enum after_kind kind, json_t *value)
{
    size_t count = json_is_array(value) ? json_array_size(value) : 1;

    for (size_t i = 0; i < count; i++) {
        int64_t job = 0;
        int r = reader_i64(rd, json_is_array(value) ? json_array_get(value, i) : value, 1, INT64_MAX, &job);

        if (r < 0)
            return r;
        r = submission_add_after(rd->s, kind, job);
        if (r == -ENOMEM)
            return reader_memory(rd);
        if (r < 0)
            return reader_fail(rd, "a job waits for at most %d others", SUBMISSION_AFTER_MAX);
    }
    return 0;
}

static int license_put(struct submission_reader *rd, const char *name, size_t length, uint32_t count)
{
    char key[LICENSE_NAME_MAX + 1], number[16];

    (void)snprintf(key, sizeof(key), "%.*s", (int)length, name);
    (void)snprintf(number, sizeof(number), "%u", count);
    for (size_t i = 0; i < rd->s->license_count; i++)
        if (strcmp(rd->s->licenses[i].key, key) == 0)
            return reader_fail(rd, "'%s' is named twice", key);
    if (rd->s->license_count == LICENSE_NEEDS_MAX)
        return reader_fail(rd, "more than %d kinds of licences", LICENSE_NEEDS_MAX);
    return submission_put_pair(&rd->s->licenses, &rd->s->license_count, key, number) < 0 ? reader_memory(rd) : 0;
}

/* "matlab:2,foo". */
static int licenses_text(struct submission_reader *rd, json_t *value)
{
    const char *text = "";
    char number[64], shown[SHOWN_MAX];
    int r = reader_text(rd, value, SUBMISSION_TEXT_MAX, number, &text);

    for (; r == 0 && text; text = strchr(text, ',') ? strchr(text, ',') + 1 : NULL) {
        size_t length = strcspn(text, ","), name;
        uint32_t count;

        if (license_parse(text, length, &name, &count) < 0)
            return reader_fail(rd, "expected " LICENSE_WORDS ", got '%s'", suggest_shown(text, length, shown));
        r = license_put(rd, text, name, count);
    }
    return r;
}

static int licenses_map(struct submission_reader *rd, json_t *map)
{
    const char *name;
    json_t *value;

    json_object_foreach(map, name, value)
    {
        int64_t count = 0;
        size_t mark;
        int r;

        reader_enter(rd, name, &mark);
        if (!license_name_good(name, strlen(name)))
            return reader_fail(rd, "expected a name of letters, digits and -_.@, at most %d", LICENSE_NAME_MAX);
        r = reader_i64(rd, value, 1, LICENSE_COUNT_MAX, &count);
        if (r == 0)
            r = license_put(rd, name, strlen(name), (uint32_t)count);
        if (r < 0)
            return r;
        reader_leave(rd, mark);
    }
    return 0;
}

/* A mapping of names to counts, one text, or a list of texts. */
int read_licenses(struct submission_reader *rd, const struct submission_key *key, json_t *value)
{
    int r = 0;

    (void)key;
    if (json_is_object(value))
        return licenses_map(rd, value);
    if (!json_is_array(value))
        return licenses_text(rd, value);
    for (size_t i = 0; r == 0 && i < json_array_size(value); i++)
        r = licenses_text(rd, json_array_get(value, i));
    return r;
}

void write_licenses(struct json_write *out, const struct submission_key *key, const struct submission *s)
{
    if (s->license_count == 0)
        return;
    json_write_object(out, key->name);
    for (size_t i = 0; i < s->license_count; i++)
        json_write_i64(out, s->licenses[i].key, license_count(s, i));
    json_write_close(out);
}

int read_after(struct submission_reader *rd, const struct submission_key *key, json_t *value)
{
    const char *name;
    json_t *part;

    (void)key;
    if (!json_is_object(value))
        return after_list(rd, AFTER_OK, value);
    json_object_foreach(value, name, part)
    {
        int kind = 0;
        size_t mark;
        int r;

        while (kind < AFTER_KINDS && strcmp(after_words[kind], name) != 0)
            kind++;
        reader_enter(rd, name, &mark);
        if (kind == AFTER_KINDS)
            return reader_fail(rd, "expected ok, any or notok");
        r = after_list(rd, (enum after_kind)kind, part);
        if (r < 0)
            return r;
        reader_leave(rd, mark);
    }
    return 0;
}

void write_after(struct json_write *out, const struct submission_key *key, const struct submission *s)
{
    static const enum after_kind sorted[] = { AFTER_ANY, AFTER_NOTOK, AFTER_OK };

    if (s->after_count == 0)
        return;
    json_write_object(out, key->name);
    for (size_t k = 0; k < 3; k++) {
        bool open = false;

        for (size_t i = 0; i < s->after_count; i++) {
            if (s->after[i].kind != sorted[k])
                continue;
            if (!open)
                json_write_array(out, after_words[sorted[k]]);
            open = true;
            json_write_i64(out, NULL, s->after[i].job);
        }
        if (open)
            json_write_close(out);
    }
    json_write_close(out);
}

/* "all", "none", or the number of a task. */
int read_input(struct submission_reader *rd, const struct submission_key *key, json_t *value)
{
    const char *text;
    char number[64], shown[SHOWN_MAX];
    int64_t task;
    int r = reader_text(rd, value, 32, number, &text);

    (void)key;
    if (r < 0)
        return r;
    if (strcmp(text, "all") == 0 || strcmp(text, "none") == 0) {
        rd->s->input = *text == 'a' ? INPUT_ALL : INPUT_NONE;
        return 0;
    }
    if (decimal_parse_i64(text, strlen(text), &task) < 0 || task < 0 || task > INPUT_TASK_MAX)
        return reader_fail(rd, "expected all, none or the number of a task, got '%s'",
                           suggest_shown(text, strlen(text), shown));
    rd->s->input = (int32_t)task + 1;
    return 0;
}

void write_input(struct json_write *out, const struct submission_key *key, const struct submission *s)
{
    if (s->input == INPUT_ALL)
        json_write_text(out, key->name, "all");
    else if (s->input != INPUT_NONE)
        json_write_i64(out, key->name, s->input - 1);
}
