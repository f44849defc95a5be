/* SPDX-License-Identifier: Apache-2.0 */
/* job_script.c - see job_request.h: scripts, files, and what they ask for together with flags. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "wire/job/gpu_spec.h"
#include "wire/job/job_request.h"
#include "wire/job/slurm_flags.h"
#include "wire/text/decimal.h"
#include "wire/text/json_read.h"
#include "wire/text/suggest.h"

enum { LINE_WORDS_MAX = 64, LINE_BYTES_MAX = 4096, LINES_MAX = 10000 };

int job_request_init(struct job_request *request, usec_t now, usec_t (*zone)(usec_t now), struct error *err)
{
    *request = (struct job_request){ .tree = json_object(),
                                     .origin = json_object(),
                                     .notes = json_array(),
                                     .slurm = json_object(),
                                     .now = now,
                                     .zone = zone };
    if (request->tree && request->origin && request->notes && request->slurm)
        return 0;
    job_request_done(request);
    return error_set(err, -ENOMEM, "out of memory");
}

void job_request_done(struct job_request *request)
{
    json_decref(request->tree);
    json_decref(request->origin);
    json_decref(request->notes);
    json_decref(request->slurm);
    *request = (struct job_request){ 0 };
}

int job_request_default(struct job_request *request, const char *key, const char *value, struct error *err)
{
    if (json_object_get(request->tree, key))
        return 0;
    return json_object_set_new(request->tree, key, json_string(value)) < 0 ? error_set(err, -ENOMEM, "out of memory")
                                                                           : 0;
}

int job_request_file(struct job_request *request, const char *file, const char *text, size_t size, struct error *err)
{
    CLEANUP_BUF struct buf canonical = BUF_INIT(SUBMISSION_BYTES_MAX);
    struct submission s;
    json_t *tree = NULL;
    int r = submission_from_yaml(file, text, size, &s, err);

    if (r < 0)
        return r;
    r = submission_to_json(&s, &canonical, err);
    submission_done(&s);
    if (r == 0)
        r = json_read(file, canonical.data, canonical.size, &tree, err);
    if (r < 0)
        return r;
    json_decref(request->tree);
    request->tree = tree;
    return 0;
}

/* One word: what is quoted is kept, quotes and backslashes go. Returns the end of what was read, or NULL. */
static char *word_read(char *at, char **out)
{
    char quote = '\0', *to = *out;

    for (; *at && (quote || !isspace((unsigned char)*at)); at++) {
        if (quote == '\0' && (*at == '\'' || *at == '"'))
            quote = *at;
        else if (quote && *at == quote)
            quote = '\0';
        else if (*at == '\\' && quote != '\'' && at[1])
            *to++ = *++at;
        else
            *to++ = *at;
    }
    *out = to;
    return quote ? NULL : at;
}

int job_words(char *line, char **words, size_t max)
{
    char *at = line, *to = line;
    size_t count = 0;

    for (;;) {
        char *start;

        while (isspace((unsigned char)*at))
            at++;
        if (!*at || *at == '#')
            return (int)count;
        if (count == max)
            return -E2BIG;
        start = to;
        at = word_read(at, &to);
        if (!at)
            return -EINVAL;
        words[count++] = start;
        at += *at != '\0'; /* before the end is put, it may be the same place */
        *to++ = '\0';
    }
}

static int flag_unknown(const char *where, const char *name, size_t length, struct error *err)
{
    size_t count;
    const struct job_flag *flags = job_flags(&count);
    const char *known[160], *near;
    char shown[SHOWN_MAX];

    for (size_t i = 0; i < count && i < 160; i++)
        known[i] = flags[i].name;
    near = suggest_word(name, length, known, count < 160 ? count : 160);
    return error_set(err, -EINVAL, "%sunknown flag '--%s'%s%s%s", where, suggest_shown(name, length, shown),
                     near ? "; did you mean '--" : "", near ? near : "", near ? "'?" : "");
}

/* The flag at words[i]; the value may be the next word. Returns how many words it took. */
static int word_take(struct job_request *request, char **words, int left, const char *where, struct error *err)
{
    const char *word = words[0], *value = NULL;
    const struct job_flag *flag;
    int r, used = 1;

    if (word[0] != '-' || !word[1])
        return error_set(err, -EINVAL, "%sexpected a flag such as --time=2h, got '%.40s'", where, word);
    if (word[1] == '-') {
        size_t length = strcspn(word + 2, "=");

        flag = job_flag_find(word + 2, length);
        if (!flag && request->abbreviates)
            flag = job_flag_begun(word + 2, length);
        if (!flag)
            return flag_unknown(where, word + 2, length, err);
        value = word[2 + length] ? word + 2 + length + 1 : NULL;
    } else {
        flag = job_flag_letter((unsigned char)word[1]);
        if (!flag)
            return error_set(err, -EINVAL, "%sunknown flag '-%c'", where, word[1]);
        value = word[2] ? word + 2 : NULL;
    }
    if (flag->value && !value && !job_flag_optional(flag->value)) {
        if (left < 2)
            return error_set(err, -EINVAL, "%s--%s needs a value", where, flag->name);
        value = words[1];
        used = 2;
    } else if (!flag->value && value) {
        return error_set(err, -EINVAL, "%s--%s takes no value", where, flag->name);
    }
    r = job_request_flag(request, flag, value, where, err);
    return r < 0 ? r : used;
}

static int line_take(struct job_request *request, const char *where, const char *text, size_t length, struct error *err)
{
    char line[LINE_BYTES_MAX], *words[LINE_WORDS_MAX];
    int count;

    if (length >= sizeof(line))
        return error_set(err, -EINVAL, "%sthe line is longer than %d bytes", where, LINE_BYTES_MAX);
    memcpy(line, text, length);
    line[length] = '\0';
    count = job_words(line, words, LINE_WORDS_MAX);
    if (count < 0)
        return error_set(err, -EINVAL, "%s%s", where,
                         count == -EINVAL ? "a quote is not closed" : "more than 64 words in a line");
    for (int i = 0; i < count;) {
        int used = word_take(request, words + i, count - i, where, err);

        if (used < 0)
            return used;
        i += used;
    }
    return 0;
}

/* Bytes of the mark that a line of flags begins with; 0 when it is another line. */
static size_t mark_of(const char *line, size_t length)
{
    static const char *const marks[] = { "#MUSTER", "#SBATCH" };

    for (size_t i = 0; i < 2; i++)
        if (length > 7 && memcmp(line, marks[i], 7) == 0 && isblank((unsigned char)line[7]))
            return 7;
    return 0;
}

static bool is_command(const char *line, size_t length)
{
    size_t i = 0;

    while (i < length && isspace((unsigned char)line[i]))
        i++;
    return i < length && line[i] != '#';
}

int job_request_script(struct job_request *request, const char *file, const char *text, size_t size, struct error *err)
{
    bool commands = false;
    size_t line = 0;

    if (size > SUBMISSION_BYTES_MAX)
        return error_set(err, -E2BIG, "%s: larger than %d bytes", file, SUBMISSION_BYTES_MAX);
    if (memchr(text, '\0', size))
        return error_set(err, -EINVAL, "%s: not a script: it holds the character 0; submit the command that runs it",
                         file);
    if (size > 2 && text[0] == '#' && memchr(text, '\n', size) && ((const char *)memchr(text, '\n', size))[-1] == '\r')
        return error_set(
            err, -EINVAL,
            "%s:1: lines end in CR LF, as on Windows, and the shell would not find '%s'; sed -i 's/\\r$//' %s mends it",
            file, "sh\\r", file);
    for (size_t at = 0; at < size;) {
        const char *end = memchr(text + at, '\n', size - at);
        size_t length = end ? (size_t)(end - text) - at : size - at, mark;
        char where[280];
        int r;

        line++;
        mark = mark_of(text + at, length);
        (void)snprintf(where, sizeof(where), "%.200s:%zu: ", file, line);
        if (mark && commands && text[at + 1] == 'M')
            return error_set(err, -EINVAL, "%s#MUSTER after the first command would have no effect; move it up", where);
        if (mark && !commands) {
            /* Who wrote it for Slurm reads Slurm's variables in it. */
            if (text[at + 1] == 'S' && !json_object_get(request->tree, "compat") &&
                json_object_set_new(request->tree, "compat", json_string("slurm")) < 0)
                return error_set(err, -ENOMEM, "%sno memory", where);
            request->abbreviates = text[at + 1] == 'S';
            r = line_take(request, where, text + at + mark, length - mark, err);
            if (r < 0)
                return r;
        }
        commands = commands || is_command(text + at, length);
        at += length + 1;
    }
    if (!commands)
        return error_set(err, -EINVAL, "%s: the script has no command", file);
    return json_object_set_new(request->tree, "run", json_stringn(text, size)) < 0
               ? error_set(err, -EINVAL, "%s: not UTF-8 text", file)
               : 0;
}

/* A number that a flag or a file gave; 0: none. */
static int64_t tree_count(const struct job_request *request, const char *key)
{
    json_t *value = json_object_get(request->tree, key);
    const char *text = json_string_value(value);
    int64_t count = json_integer_value(value);

    if (text && decimal_parse_i64(text, strlen(text), &count) < 0)
        return 0;
    return count > 0 && count <= GANG_GPUS_MAX ? count : 0;
}

/* --gpus-per-task times --ntasks, or --ntasks-per-node on so many --nodes. */
static int tasks_multiply(struct job_request *request, struct error *err)
{
    json_t *each = json_object_get(request->tree, "gpus_per_task");
    const char *text = json_string_value(each);
    struct gpu_spec spec;
    CLEANUP_BUF struct buf out = BUF_INIT(256);
    int64_t all = tree_count(request, "tasks");
    int r;

    if (!each)
        return 0;
    if (all == 0)
        all = tree_count(request, "tasks_per_node") * tree_count(request, "nodes");
    if (all < 1 || all > GANG_GPUS_MAX)
        return error_set(err, -EINVAL,
                         "--gpus-per-task: needs the number of tasks: --ntasks, or --nodes and --ntasks-per-node");
    r = gpu_spec_parse(text, strlen(text), &spec, err);
    if (r < 0)
        return error_prefix(err, r, "--gpus-per-task");
    if (spec.share < MGPU_ONE || spec.count_max > spec.count || spec.count * all > GANG_GPUS_MAX)
        return error_set(err, -EINVAL, "--gpus-per-task: expected a whole number of GPUs, up to %d in all",
                         GANG_GPUS_MAX);
    spec.count = spec.count_max = (int32_t)(spec.count * all);
    gpu_spec_put(&out, &spec);
    (void)json_object_del(request->tree, "gpus_per_task");
    if (out.error || json_object_set_new(request->tree, "gpus", json_string(out.data)) < 0)
        return error_set(err, -ENOMEM, "out of memory");
    return 0;
}

int job_request_finish(struct job_request *request, struct submission *ret, struct error *err)
{
    int r = slurm_flags_finish(request, err);

    if (r == 0)
        r = tasks_multiply(request, err);
    if (r < 0)
        return r;
    r = submission_from_value(request->tree, ret, err);
    if (r == -EINVAL && err) { /* the key in front becomes the flag that set it */
        char key[64], words[ERROR_TEXT_MAX];
        const char *colon = strstr(err->text, ": "), *origin = NULL;

        if (colon && (size_t)(colon - err->text) < sizeof(key)) {
            (void)snprintf(key, sizeof(key), "%.*s", (int)(colon - err->text), err->text);
            for (char *dot = key + strlen(key); !origin && dot; dot = strrchr(key, '.')) {
                *dot = '\0';
                origin = json_string_value(json_object_get(request->origin, key));
            }
        }
        if (origin) {
            (void)snprintf(words, sizeof(words), "%s", colon + 2);
            return error_set(err, r, "%s: %s", origin, words);
        }
    }
    return r;
}
